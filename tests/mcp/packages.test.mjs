// SPDX-License-Identifier: MIT
// Packages through the client of the SDK: for one program, for a sandbox that lasts, and what is said where it fails. From
// PyPI and npm, by the managers of this host; tests/packages has the other languages.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, describe } from 'node:test';
import { nsbox, sleep, text, until } from './helpers.mjs';
import { connectTools, test } from './sandboxes.mjs';

// Each user's own: nothing is there yet.
process.env.NSBOX_STORE = mkdtempSync(`${tmpdir()}/nsbox-store.`);
after(() => rmSync(process.env.NSBOX_STORE, { recursive: true }));
const layers = () => execFileSync('sh', ['-c', 'ls "$NSBOX_STORE/packages" 2>/dev/null || true'], { encoding: 'utf8' }).split('\n').filter(Boolean);

const probe = spawnSync(nsbox, ['run', '--lang', 'python', '--with', 'six==1.16.0', '-c', 'import six'], { encoding: 'utf8' });
const skip = probe.status !== 0 && !process.env.CI && `six cannot be installed here: ${probe.stderr}`;
const python = (code, ...dependencies) => ({ language: 'python', code, dependencies });

describe('packages', { skip }, () => {
	test('for one program: installed once, and kept', async () => {
		const server = await connectTools();
		after(server.close);
		const before = layers();
		const code = python('import idna, socket; print(idna.__version__); socket.create_connection(("pypi.org", 443))', 'idna==3.6');
		const begun = performance.now(), first = await server.tool('execute_code', code), took = performance.now() - begun;
		assert.equal(first.stdout, '3.6\n');
		assert.match(first.stderr, /gaierror/); // the program has no network by it
		assert.equal(layers().length, before.length + 1);
		// Of several calls one at least is not held up by others' work.
		const times = [];
		for (let i = 0; i < 5; i++) {
			const again = performance.now();
			assert.equal((await server.tool('execute_code', code)).stdout, '3.6\n');
			times.push(performance.now() - again);
		}
		assert.ok(Math.min(...times) < took, `${took} ms, then ${times}`);
		// No other call has it, though the host may have another version.
		assert.notEqual((await server.tool('execute_code', python('import idna; print(idna.__version__)'))).stdout, '3.6\n');
		assert.equal(layers().length, before.length + 1);
		// Who forgets them is told how they are named.
		assert.match((await server.tool('execute_code', python('import a_package_of_nobody'))).hint, /the argument dependencies/);
	});

	test('two calls at once install once, and a cancelled one leaves nothing', async () => {
		const server = await connectTools();
		after(server.close);
		const before = layers();
		const code = python('import idna; print(idna.__version__)', 'idna==3.5');
		const results = await Promise.all([1, 2, 3, 4].map(() => server.tool('execute_code', code)));
		assert.deepEqual(results.map(result => result.stdout), Array(4).fill('3.5\n'));
		assert.equal(layers().length, before.length + 1);
		const cancel = new AbortController();
		const call = server.call('execute_code', python('', 'django==5.0'), { signal: cancel.signal });
		await sleep(300);
		cancel.abort();
		await assert.rejects(call);
		await until('nothing that is half', () => !layers().some(name => name.includes('.')));
		await sleep(1500); // it would be there now
		assert.equal(layers().length, before.length + 1);
	});

	test('what fails is said in the words of the manager', async () => {
		const server = await connectTools();
		after(server.close);
		assert.match(await server.failure('execute_code', python('', 'nsbox-no-such-package')),
			/^pip could not install nsbox-no-such-package: exit status 1\n(.*\n)*.*No matching distribution found for nsbox-no-such-package/);
		assert.match(await server.failure('execute_code', python('', 'six==0.0.7')), /No matching distribution found for six==0\.0\.7/);
		for (const name of ['-r /etc/passwd', '--index-url=http://x', 'git+https://a.example/b', './x', '/x', 'a b', '', 'six\n'])
			assert.match(await server.failure('execute_code', python('', name)), /^dependencies: /);
		assert.match(await server.failure('execute_code', python('', 'apt:jq')), /^dependencies: .*root/);
		assert.match(await server.failure('execute_code', { language: 'bash', code: 'true', dependencies: ['x'] }), /^dependencies: .*apt:/s);
		assert.deepEqual(layers().filter(name => name.includes('.')), []);
	});

	test('in a sandbox that lasts', async () => {
		const server = await connectTools();
		after(server.close);
		const box = await server.initialize({ language: 'python', dependencies: ['six==1.16.0'] });
		assert.equal((await box.exec({ code: 'import six; print(six.__version__)' })).stdout, '1.16.0\n');
		const installed = await server.tool('install_packages', { sandbox_id: box.id, packages: ['idna==3.4'] });
		assert.deepEqual(installed.packages, ['idna==3.4']);
		// What the store has, by whatever call, is not fetched again.
		const stored = layers();
		const other = await server.initialize({ language: 'python', dependencies: ['six==1.16.0'] });
		assert.equal((await other.exec({ code: 'import six; print(six.__version__)' })).stdout, '1.16.0\n');
		const third = await server.initialize({ language: 'python' });
		const taken = await server.call('install_packages', { sandbox_id: third.id, packages: ['six==1.16.0'] });
		assert.equal(taken.structuredContent.output, '');
		assert.match(text(taken), /^\[1 installed: nothing had to be fetched\]/);
		assert.equal((await third.exec({ code: 'import six; print(six.__version__)' })).stdout, '1.16.0\n');
		assert.deepEqual(layers(), stored);
		await other.stop();
		await third.stop();
		assert.match(installed.output, /Successfully installed idna-3\.4/);
		// Both are there, also for commands, and nothing that was not asked for can be written.
		assert.equal((await box.exec({ command: 'python3 -c "import six, idna; print(idna.__version__)"' })).stdout, '3.4\n');
		assert.notEqual((await box.exec({ command: 'touch /opt/nsbox/packages/python/x' })).exit_code, 0);
		assert.match((await box.exec({ code: 'import socket; socket.create_connection(("pypi.org", 443))' })).stderr, /gaierror/);
		await server.tool('install_packages', { sandbox_id: box.id, packages: ['left-pad@1.3.0'], language: 'javascript' });
		assert.equal((await box.exec({ language: 'javascript', code: 'console.log(require("left-pad")("x", 3))' })).stdout, '  x\n');
		assert.match(await server.failure('install_packages', { sandbox_id: box.id, packages: ['nsbox-no-such-package'] }),
			/^pip could not install nsbox-no-such-package: .*\n(.*\n)*.*No matching distribution/);
		assert.match(await server.failure('install_packages', { sandbox_id: box.id, packages: ['apt:jq'] }), /dependencies of sandbox_initialize/);
		assert.match(await server.failure('install_packages', { sandbox_id: box.id, packages: [] }), /^packages: /);
		assert.match(await server.failure('install_packages', { sandbox_id: box.id }), /^packages: /);
		assert.match(await server.failure('install_packages', { sandbox_id: 'x', packages: ['six'] }), /there is no sandbox/);
		assert.equal((await box.exec({ code: 'import six, idna; print(1)' })).stdout, '1\n');
		await box.stop();
	});

	test('a sandbox whose dependencies cannot be installed is none', async () => {
		const server = await connectTools();
		after(server.close);
		const { sandboxes } = await server.tool('sandbox_list');
		assert.match(await server.failure('sandbox_initialize', { language: 'python', dependencies: ['nsbox-no-such-package'] }),
			/^pip could not install/);
		assert.match(await server.failure('sandbox_initialize', { dependencies: ['six'] }), /^dependencies: .*language/);
		const ids = list => list.map(box => box.sandbox_id).sort().join();
		await until('no sandbox more', async () => ids((await server.tool('sandbox_list')).sandboxes) === ids(sandboxes));
	});

	test('a server that installs nothing', async () => {
		const server = await connectTools({ args: ['--allow-network', 'none'] });
		after(server.close);
		for (const [name, args] of [['execute_code', python('', 'six')], ['sandbox_initialize', { language: 'python', dependencies: ['six'] }]])
			assert.match(await server.failure(name, args), /^dependencies: this server installs no packages\n.*--allow-network registries/);
		const box = await server.initialize();
		assert.match(await server.failure('install_packages', { sandbox_id: box.id, packages: ['six'], language: 'python' }), /installs no packages/);
		await box.stop();
	});
});
