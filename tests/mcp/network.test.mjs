// SPDX-License-Identifier: MIT
// What calls may reach, within --allow-network. The servers are in a network namespace of their own, which has an address
// that looks public, and a web server at it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, describe, test } from 'node:test';
import { connect, text } from './helpers.mjs';

const ADDRESS = '93.184.216.34';
const unshare = ['unshare', '--net', ...(process.getuid() === 0 ? [] : ['--user', '--map-current-user', '--keep-caps'])];
// The web servers end with the server under test. (A signal of its death does not reach them.)
const wrapper = [...unshare, 'sh', '-c', `ip link set lo up && ip address add ${ADDRESS}/32 dev lo
	for port in 80 8080; do python3 -m http.server --bind ${ADDRESS} $port >/dev/null 2>&1 & webs="$webs $!"; done
	(while [ -d /proc/$$ ]; do sleep 0.1; done; kill $webs) >/dev/null 2>&1 &
	exec setpriv --inh-caps=-all --ambient-caps=-all "$@"`, 'sh'];
const why = spawnSync(unshare[0], [...unshare.slice(1), 'ip', 'link', 'set', 'lo', 'up']);
const skip = why.status !== 0 && `no network namespace can be made: ${why.stderr}`;

// Prints what comes of an attempt to reach the web server.
const fetch = port => ({
	language: 'python',
	timeout: 200,
	code: `import http.client, time
for left in range(600, 0, -1):
    try:
        connection = http.client.HTTPConnection('${ADDRESS}', ${port}, timeout=30)
        connection.request('GET', '/')
        print(connection.getresponse().status)
        break
    except OSError as error:
        if ${port} == 80 and left > 1: # the server begins
            time.sleep(0.1)
        else:
            print(type(error).__name__)
            break
`,
});

describe('within --allow-network', { skip }, () => {
	test('hosts that the server allows, and no other', async () => {
		const server = await connect({ args: ['--allow-network', `${ADDRESS}:80,*.example.org`], wrapper });
		after(server.close);
		const allowed = await server.run({ ...fetch(80), network: `allow=${ADDRESS}:80` });
		assert.equal(allowed.structuredContent?.stdout, '200\n', text(allowed));
		assert.deepEqual(allowed.structuredContent.network_allowed, [`${ADDRESS}:80`]);
		assert.equal((await server.run({ ...fetch(8080), network: `allow=${ADDRESS}:80` })).structuredContent.stdout, 'ConnectionRefusedError\n');
		assert.match((await server.run(fetch(8080))).structuredContent.stdout, /^OSError|ConnectionRefusedError/);
		for (const [network, beyond] of [[`allow=${ADDRESS}`, `${ADDRESS}:443`], [`allow=${ADDRESS}:80,b.example:1`, 'b.example:1'],
			['allow=example.org', 'example.org:443'], ['allow=*.example.org:22', '*.example.org:22']]) {
			const refused = await server.run({ ...fetch(80), network });
			assert.equal(refused.isError, true);
			assert.ok(text(refused).startsWith(`network: this server does not allow ${beyond}\n`), text(refused));
			assert.ok(text(refused).includes(` --allow-network ${network.split(/[=,]/).at(-1)}; `), text(refused));
			assert.match(text(refused), /allowed are: 93\.184\.216\.34:80,\*\.example\.org\.$/);
		}
		const { tools } = await server.client.listTools();
		assert.match(tools[0].inputSchema.properties.network.description, /allow=HOST.*93\.184\.216\.34:80,\*\.example\.org/);
	});

	test('in a sandbox that lasts, each command says its own', async () => {
		const server = await connect({ args: ['--allow-network', `${ADDRESS}:80`], wrapper });
		after(server.close);
		const call = async (name, args) => {
			const result = await server.client.callTool({ name, arguments: args });
			assert.ok(!result.isError, text(result));
			return result.structuredContent;
		};
		const { sandbox_id } = await call('sandbox_initialize', { network: `allow=${ADDRESS}:80` });
		const first = await call('sandbox_exec', { sandbox_id, ...fetch(80) });
		assert.deepEqual([first.stdout, first.network_allowed], ['200\n', [`${ADDRESS}:80`]]);
		const second = await call('sandbox_exec', { sandbox_id, command: 'true' });
		assert.deepEqual(second.network_allowed, []);
		await call('sandbox_stop', { sandbox_id });
	});

	test("the host's network only where it is named", async () => {
		const server = await connect({ args: ['--allow-network', 'host'], wrapper });
		after(server.close);
		assert.equal((await server.run({ ...fetch(80), network: 'host' })).structuredContent.stdout, '200\n');
		assert.equal((await server.run({ ...fetch(80), network: `allow=${ADDRESS}:80` })).isError, true);
	});
});
