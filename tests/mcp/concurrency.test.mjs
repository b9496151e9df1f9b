// SPDX-License-Identifier: MIT
// Calls in flight together: answered as they finish, counted, and cancelled.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawServer, alive, assertQuick, callOf, connect, descendants, letGo, newMarker, sleep, stubborn, text, until, withMarker } from './helpers.mjs';

test('twenty calls in flight are answered as they finish', async () => {
	const server = await connect({ args: ['--max-parallel', '20'] });
	const order = [], marker = newMarker();
	const calls = Array.from({ length: 20 }, (_, i) =>
		server.run({ language: 'bash', code: `${i < 2 ? 'sleep 200; ' : ''}echo call ${i}`, args: [marker + i], timeout: 250 }).then(result => {
			order.push(i);
			assert.equal(text(result), `call ${i}\n`);
		}));
	await Promise.all(calls.slice(2));
	assert.equal(order.length, 18);
	await server.client.ping(); // is answered while calls run
	for (const i of [1, 0]) {
		await until(`call ${i} sleeps`, () => withMarker(marker + i).flatMap(descendants).length > 0);
		assert.equal(order.includes(i), false);
		letGo(marker + i);
		await calls[i];
	}
	assert.deepEqual(order.slice(-2), [1, 0]);
	assert.deepEqual(server.errors, []);
	await server.close();
});

test('two hundred calls in flight are all answered, no more than --max-parallel at a time', async () => {
	const server = await connect({ args: ['--max-parallel', '3'] });
	const results = await Promise.all(Array.from({ length: 200 }, (_, i) =>
		server.run({ language: 'bash', code: `echo ${i} $EPOCHREALTIME; sleep 0.01; echo $EPOCHREALTIME` }, { timeout: 300000 })));
	const steps = results.flatMap((result, i) => {
		const [number, begin, end] = text(result).trim().split(/\s/).map(Number);
		assert.equal(number, i);
		return [[begin, 1], [end, -1]];
	});
	let running = 0;
	const counts = steps.sort(([a], [b]) => a - b).map(([, step]) => running += step);
	assert.ok(Math.max(...counts) >= 2 && Math.max(...counts) <= 3, `${Math.max(...counts)} at a time`);
	await server.close();
});

test("a cancelled call's processes are gone within 200 ms, and nothing is sent for it", async () => {
	const server = new RawServer();
	await assertQuick(200, async () => {
		const marker = newMarker();
		server.call(1, { language: 'python', code: stubborn, args: [marker], timeout: 60 });
		await until('four processes of the call', () => withMarker(marker).length === 4);
		const below = descendants(server.pid).filter(process => process.name !== 'nsbox-spawner');
		server.write({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, reason: 'test' } });
		const ms = await until('end of the cancelled call', () => withMarker(marker).length === 0);
		await until('end of its supervisor', () => alive(below).length === 0);
		return ms;
	});
	await sleep(300);
	assert.deepEqual(server.lines, []);
	server.call(1, { language: 'bash', code: 'echo again' }); // the id is free again
	assert.equal((await server.read()).result.structuredContent.stdout, 'again\n');
	await server.stop();
});

test('cancellation through the client, and of a call that waits', async () => {
	const server = await connect({ args: ['--max-parallel', '1'] });
	const marker = newMarker();
	const abort = [new AbortController(), new AbortController()];
	const calls = abort.map((controller, i) => server.run(
		{ language: 'python', code: stubborn, args: [marker + i], timeout: 60 }, { signal: controller.signal }));
	const rejected = calls.map(call => assert.rejects(call));
	await until('the first', () => withMarker(marker + 0).length > 0);
	abort[1].abort();
	await rejected[1];
	abort[0].abort();
	await rejected[0];
	await until('the end of the first', () => withMarker(marker + 0).length === 0);
	assert.equal(text(await server.run({ language: 'bash', code: 'echo free' })), 'free\n');
	assert.equal(withMarker(marker + 1).length, 0);
	assert.deepEqual(server.errors, []);
	await server.close();
});

test('cancelling what is not in flight has no effect', async () => {
	const server = new RawServer();
	for (const requestId of [99, 'x', null, {}, undefined])
		server.write({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
	server.write({ jsonrpc: '2.0', method: 'notifications/cancelled' });
	assert.deepEqual((await server.ask('ping')).result, {});
	await server.stop();
});

test('an id that is in flight is refused, and the call goes on', async () => {
	const server = new RawServer();
	server.writeTogether(callOf(7, { language: 'bash', code: 'sleep 0.5; echo first' }), callOf(7, { language: 'bash', code: 'echo second' }));
	const refused = await server.read();
	assert.equal(refused.error.code, -32600);
	assert.equal('id' in refused, false);
	const answer = await server.read();
	assert.equal(answer.id, 7);
	assert.equal(answer.result.structuredContent.stdout, 'first\n');
	await server.stop();
});

test('progress is told to those who ask, and grows', async () => {
	const server = await connect();
	const told = [], abort = new AbortController();
	const call = assert.rejects(server.run({ language: 'bash', code: 'for i in $(seq 500); do echo line $i; sleep 0.5; done', timeout: 250 },
		{ onprogress: progress => told.push(progress), signal: abort.signal }));
	await until('its lines', () => told.filter(progress => /^line \d+$/.test(progress.message)).length >= 3);
	abort.abort();
	await call;
	told.forEach((progress, i) => assert.ok(i === 0 || progress.progress > told[i - 1].progress));
	assert.ok(told.slice(-3).every(progress => /^line \d+$/.test(progress.message)), JSON.stringify(told));
	await server.close();
});
