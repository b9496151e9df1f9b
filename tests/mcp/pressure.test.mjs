// SPDX-License-Identifier: MIT
// Much at a time: answers while runs are in flight, clients that do not read, calls that outlive their server.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { RawServer, alive, assertQuick, descendants, newMarker, processOf, settled, sleep, stubborn, until, withMarker } from './helpers.mjs';
import { modern, prefix } from './schema.mjs';

const meta = { [prefix + 'protocolVersion']: modern, [prefix + 'clientCapabilities']: { extensions: { [prefix + 'tasks']: {} } } };

function memory(pid) {
	const status = readFileSync(`/proc/${pid}/status`, 'utf8');
	return Object.fromEntries(['VmRSS', 'VmHWM'].map(name => [name, Number(status.match(new RegExp(`${name}:\\s+(\\d+)`))[1])]));
}

// The programs sleep: what is measured is the server, not the machine. Half of the limit would be 25 ms.
test('ping, discover and the lists within 50 ms while twenty runs are in flight', async () => {
	const server = new RawServer(['--max-parallel', '20']);
	const marker = newMarker();
	for (let i = 0; i < 20; i++)
		server.call(`run ${i}`, { language: 'bash', code: 'while :; do echo x; sleep 0.1; done', args: [marker], timeout: 280 }, { progressToken: i });
	await until('twenty runs', () => withMarker(marker).length >= 20);
	await assertQuick(50, async () => {
		const times = [];
		for (let i = 0; i < 200; i++) {
			const [method, params] = [['ping'], ['server/discover', { _meta: meta }], ['tools/list'], ['resources/list'], ['prompts/list']][i % 5];
			const start = performance.now();
			server.write({ jsonrpc: '2.0', id: i, method, params });
			for (let answer = {}; answer.id !== i;)
				answer = await server.read();
			times.push(performance.now() - start);
			await sleep(5);
		}
		return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
	});
	server.child.stdin.end();
	await server.exit;
	await until('the end of the runs', () => withMarker(marker).length === 0);
});

// Whatever is asked for: the answers wait with the client's requests and with the runs, not in the server.
async function neverReads(prepare, request) {
	const server = new RawServer();
	const asked = await prepare(server);
	server.child.stdout.pause();
	for (let id = 0; id < 2000; id++)
		server.write(request(id, asked));
	let before = -1;
	for (let now = 0; now !== before; await sleep(1000))
		[before, now] = [now, memory(server.pid).VmRSS];
	await settled(server.pid);
	await until('it waits, and does not spin', () => processOf(server.pid).state === 'S');
	const { VmRSS, VmHWM } = memory(server.pid);
	assert.ok(VmHWM < 64 << 10, `VmRSS ${VmRSS} KiB, VmHWM ${VmHWM} KiB`);
	server.child.stdin.destroy();
	await until('end of the server', () => server.child.exitCode !== null);
}

const call = (id, args) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'execute_code', arguments: args } });

test('a client that never reads: two thousand parts of a kept output, six bytes a byte', () => neverReads(async server => {
	server.call('zeros', { language: 'bash', code: 'head -c 4000000 /dev/zero' });
	return (await server.read()).result.content.find(part => part.type === 'resource_link').uri;
}, (id, uri) => ({ jsonrpc: '2.0', id, method: 'resources/read', params: { uri } })));

test('a client that never reads: two thousand calls whose results are images', () => neverReads(() => {},
	id => call(id, { language: 'bash', code: 'for i in 1 2 3; do (printf GIF89a; head -c 1000000 /dev/zero) >$i.gif; done' })));

test('a client that never reads: two thousand calls that fail at once', () => neverReads(() => {},
	id => call(id, { language: 'x'.repeat(20000) })));

test('a client that reads late gets all, and in order', async () => {
	const server = new RawServer(['--max-parallel', '1']);
	server.child.stdout.pause();
	for (let id = 0; id < 12; id++)
		server.write(call(id, { language: 'bash', code: '(printf GIF89a; head -c 1000000 /dev/zero | tr "\\0" x) >a.gif; cp a.gif b.gif' }));
	await sleep(4000);
	server.child.stdout.resume();
	for (let id = 0; id < 12; id++) {
		const answer = await server.read();
		assert.equal(answer.id, id);
		assert.equal(answer.result.content.filter(part => part.type === 'image').length, 2);
	}
	await server.stop();
});

test('nothing is sent for a cancelled id, though it had told its progress', async () => {
	const server = new RawServer();
	server.call(1, { language: 'bash', code: 'while :; do echo x; sleep 0.1; done' }, { progressToken: 'p' });
	assert.equal((await server.read()).params.progressToken, 'p');
	server.write({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
	server.write({ jsonrpc: '2.0', id: 2, method: 'ping' });
	// What was told before the server read that, and nothing after it.
	for (let answer = {}; answer.id !== 2;) {
		answer = await server.read();
		assert.ok(answer.id === 2 || answer.params.progressToken === 'p', JSON.stringify(answer));
	}
	await sleep(2500);
	assert.deepEqual(server.lines, []);
	await server.stop();
});

test('a task: its last line is told, no progress is; the end of the server ends it', async () => {
	const server = new RawServer();
	const marker = newMarker();
	server.write({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
		name: 'execute_code', arguments: { language: 'python', code: stubborn, args: [marker], timeout: 250 },
		_meta: { ...meta, progressToken: 'p' } } });
	let answer, progress = 0;
	while ((answer = await server.read()).id !== 1)
		progress++;
	assert.ok(progress >= 2, `${progress} times`);
	assert.equal(answer.result.resultType, 'task');
	const { taskId } = answer.result;
	await sleep(2500);
	assert.deepEqual(server.lines, []);
	await until('four processes', () => withMarker(marker).length === 4);
	let result;
	await until('its last line', async () => {
		({ result } = await server.ask('tasks/get', { taskId, _meta: meta }, 2));
		assert.equal(result.status, 'working');
		return result.statusMessage === 'up';
	});
	const below = descendants(server.pid);
	assert.deepEqual(await server.stop(), { code: 0, signal: null });
	await until('the end of all', () => withMarker(marker).length === 0 && alive(below).length === 0);
});

test('a task is cancelled: its processes are gone, its id stays known', async () => {
	const server = new RawServer();
	const marker = newMarker();
	server.write({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
		name: 'execute_code', arguments: { language: 'python', code: stubborn, args: [marker], timeout: 250 }, _meta: meta } });
	const { result: { taskId } } = await server.read();
	assert.deepEqual(Object.keys((await server.ask('tasks/cancel', { taskId, _meta: meta }, 2)).result).sort(), ['_meta', 'resultType']);
	await until('end of the task', () => withMarker(marker).length === 0);
	const { result } = await server.ask('tasks/get', { taskId, _meta: meta }, 3);
	assert.equal(result.status, 'cancelled');
	assert.equal((await server.ask('tasks/get', { taskId: taskId + '0', _meta: meta }, 4)).error.code, -32602);
	await server.stop();
});
