// SPDX-License-Identifier: MIT
// However client, server or one of its processes ends: nothing is left within a second.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { RawServer, alive, connect, descendants, newMarker, nsbox, processOf, stubborn, supervisors, until, withMarker } from './helpers.mjs';

// A server with three stubborn calls running, and everything that belongs to it.
async function busyServer(options) {
	const server = new RawServer([], options);
	const marker = newMarker();
	for (let id = 1; id <= 3; id++)
		server.call(id, { language: 'python', code: stubborn, args: [marker], timeout: 60 });
	await until('twelve processes of three calls', () => withMarker(marker).length === 12);
	const all = [processOf(server.pid), ...descendants(server.pid)];
	assert.equal(supervisors(server.pid).length, 3);
	assert.ok(all.length >= 1 + 1 + 3 * (1 + 1 + 4), all.map(process => process.name).join(' '));
	return { server, marker, all };
}

async function allGone({ marker, all }) {
	try {
		await until('end of everything', () => alive(all).length === 0 && withMarker(marker).length === 0);
	} catch (error) {
		throw new Error(`${error.message}: ${alive(all).map(process => `${process.pid} ${process.name}`).join(', ')}`);
	}
}

const spawnerOf = busy => busy.all.find(process => process.name === 'nsbox-spawner');

test('the client closes our input', async () => {
	const busy = await busyServer();
	busy.server.child.stdin.end();
	await allGone(busy);
	assert.deepEqual(await busy.server.exit, { code: 0, signal: null });
	assert.deepEqual(busy.server.lines, []);
});

test('the client does not read our output any more', async () => {
	const busy = await busyServer();
	busy.server.child.stdout.destroy();
	busy.server.write({ jsonrpc: '2.0', id: 50, method: 'ping' });
	await allGone(busy);
	assert.deepEqual(await busy.server.exit, { code: 0, signal: null });
});

test('an answer that cannot be written ends the server, with a line that says why', async () => {
	const full = openSync('/dev/full', 'w');
	const child = spawn(nsbox, ['mcp'], { stdio: ['pipe', full, 'pipe'] });
	let errors = '';
	child.stderr.on('data', data => errors += data);
	child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
	assert.deepEqual(await once(child, 'close'), [125, null]);
	assert.equal(errors, 'nsbox mcp: writing to the client: No space left on device\n');
	closeSync(full);
});

test('input that cannot be read ends the server, with a line that says why', async () => {
	const directory = openSync('/', 'r');
	const child = spawn(nsbox, ['mcp'], { stdio: [directory, 'pipe', 'pipe'] });
	let errors = '';
	child.stderr.on('data', data => errors += data);
	assert.deepEqual(await once(child, 'close'), [125, null]);
	assert.equal(errors, 'nsbox mcp: reading from the client: Is a directory\n');
	closeSync(directory);
});

test('the server gains no rights by executing something; its sandboxes are made by a process beside it', async () => {
	const busy = await busyServer();
	const flag = pid => readFileSync(`/proc/${pid}/status`, 'latin1').match(/^NoNewPrivs:\t(\d)$/m)[1];
	assert.equal(flag(busy.server.pid), '1');
	assert.equal(flag(spawnerOf(busy).pid), '0');
	busy.server.child.stdin.end();
	await allGone(busy);
});

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'])
	test(signal, async () => {
		const busy = await busyServer();
		process.kill(busy.server.pid, signal);
		await allGone(busy);
		assert.deepEqual(await busy.server.exit, { code: 0, signal: null });
	});

test('SIGINT to the whole process group, as from a terminal', async () => {
	const busy = await busyServer({ detached: true });
	process.kill(-busy.server.pid, 'SIGINT');
	await allGone(busy);
	assert.deepEqual(await busy.server.exit, { code: 0, signal: null });
});

test('kill -9 of the server', async () => {
	const busy = await busyServer();
	process.kill(busy.server.pid, 'SIGKILL');
	await allGone(busy);
});

test('kill -9 of the whole process group', async () => {
	const busy = await busyServer({ detached: true });
	process.kill(-busy.server.pid, 'SIGKILL');
	await allGone(busy);
});

test('kill -9 of the spawner: calls are answered, the server ends with 125', async () => {
	const busy = await busyServer();
	process.kill(spawnerOf(busy).pid, 'SIGKILL');
	await allGone(busy);
	assert.deepEqual(await busy.server.exit, { code: 125, signal: null });
	for (let i = 0; i < 3; i++) {
		const answer = await busy.server.read();
		assert.equal(answer.result.isError, true);
		assert.match(answer.result.content[0].text, /spawner/);
	}
	assert.match(busy.server.stderr, /nsbox mcp: the spawner died/);
});

test('kill -9 of a supervisor: its call is answered, the others go on', async () => {
	const busy = await busyServer();
	const [supervisor] = supervisors(busy.server.pid);
	const below = descendants(supervisor.pid);
	process.kill(supervisor.pid, 'SIGKILL');
	const answer = await busy.server.read();
	assert.equal(answer.result.isError, true);
	assert.match(answer.result.content[0].text, /supervisor/);
	await until('end of that sandbox', () => alive(below).length === 0);
	assert.equal(withMarker(busy.marker).length, 8);
	busy.server.call(9, { language: 'bash', code: 'echo still here' });
	assert.equal((await busy.server.read()).result.structuredContent.stdout, 'still here\n');
	await busy.server.stop();
	await allGone(busy);
});

test('kill -9 of the client, while another process holds our input open', async () => {
	const marker = newMarker();
	const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call',
		params: { name: 'execute_code', arguments: { language: 'python', code: stubborn, args: [marker] } } });
	// The client is a shell: descriptor 3 writes to the server's input, and a sleep inherits it.
	const client = spawn('bash', ['-c', 'coproc { exec "$0" mcp >/dev/null; }; exec 3>&"${COPROC[1]}"; echo "$1" >&3; sleep 30 & echo $!; wait', nsbox, call],
		{ stdio: ['ignore', 'pipe', 'ignore'] });
	const [holder] = await once(client.stdout, 'data');
	await until('the call', () => withMarker(marker).length === 4);
	const all = descendants(client.pid).filter(process => process.name !== 'sleep');
	client.kill('SIGKILL');
	try {
		await allGone({ marker, all });
	} finally {
		process.kill(Number(holder), 'SIGKILL');
	}
});

test("kill -9 of the SDK's client", async () => {
	const marker = newMarker();
	const code = `
		import { connect, stubborn } from './helpers.mjs';
		const server = await connect();
		server.run({ language: 'python', code: stubborn, args: ['${marker}'] });`;
	const client = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'ignore' });
	await until('the call', () => withMarker(marker).length === 4);
	const all = descendants(client.pid);
	client.kill('SIGKILL');
	await allGone({ marker, all });
});

test("the SDK's client closes, with calls in flight", async () => {
	const server = await connect();
	const marker = newMarker();
	const call = assert.rejects(server.run({ language: 'python', code: stubborn, args: [marker] }));
	await until('the call', () => withMarker(marker).length === 4);
	const all = [processOf(server.pid), ...descendants(server.pid)];
	const gone = allGone({ marker, all });
	await server.close();
	await call;
	await gone;
});

test('an empty environment is enough', async () => {
	const server = new RawServer([], { env: { NSBOX_LANGUAGES_DIR: process.env.NSBOX_LANGUAGES_DIR } });
	server.call(1, { language: 'bash', code: 'echo $HOME $PATH' });
	assert.equal((await server.read()).result.structuredContent.stdout, '/root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n');
	await server.stop();
});

test('no cgroup of ours is left', { skip: !existsSync('/sys/fs/cgroup/cgroup.controllers') && 'no cgroup v2' }, async () => {
	const left = readdirSync('/sys/fs/cgroup', { recursive: true }).filter(path => /(^|\/)nsbox-\d+-\d+$/.test(path));
	assert.deepEqual(left, []);
});
