// SPDX-License-Identifier: MIT
// The raw wire: what is no JSON, no request, too long, of the wrong type, or not read by the client.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { RawServer, assertQuick, nsbox, settled, sleep, until } from './helpers.mjs';

let server;
before(() => server = new RawServer());

// Sends raw bytes, expects one error, and that the server goes on.
async function refused(line, code, id) {
	server.write(line);
	const answer = await server.read();
	assert.equal(answer.jsonrpc, '2.0');
	assert.equal(answer.error?.code, code, JSON.stringify(answer));
	assert.equal(answer.id, id);
	assert.equal(typeof answer.error.message, 'string');
	assert.deepEqual(await server.ask('ping', undefined, 'alive'), { jsonrpc: '2.0', id: 'alive', result: {} });
}

const wrong = [
	['no JSON', 'hello\n', -32700],
	['half an object', '{"jsonrpc":"2.0","id":1,"method":\n', -32700],
	['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0xfe, 0x22, 0x0a]), -32700],
	['NUL bytes', Buffer.from([0, 0, 0, 0x0a]), -32700],
	['a deep array', '['.repeat(100000) + '\n', -32700],
	['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600],
	['an empty batch', '[]\n', -32600],
	['a string', '"ping"\n', -32700],
	['no version', '{"id":1,"method":"ping"}\n', -32600, 1],
	['no method', '{"jsonrpc":"2.0","id":"x"}\n', -32600, 'x'],
	['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":1}\n', -32600, 1],
	['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600],
	['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}\n', -32600],
	['params that are an array', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n', -32602, 1],
	['an unknown method', '{"jsonrpc":"2.0","id":1,"method":"nope"}\n', -32601, 1],
	['server/discover without a revision', '{"jsonrpc":"2.0","id":"d","method":"server/discover"}\n', -32602, 'd'],
	['server/discover without capabilities', '{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}\n', -32602, 'server-discover-probe-1'],
	['prompts/get', '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}\n', -32601, 1],
	['initialize without a version', '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n', -32602, 1],
	['a cursor', '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}\n', -32602, 1],
	['a call without params', '{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n', -32602, 1],
	['a call without a name', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n', -32602, 1],
	['an unknown tool', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}\n', -32602, 1],
	['arguments that are a string', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":"x"}}\n', -32602, 1],
];

describe('refused, and the server goes on', () => {
	for (const [name, line, code, id] of wrong)
		test(name, () => refused(line, code, id));

	test('a line above 16 MiB, once', () => refused('{"x":"' + 'y'.repeat(50_000_000) + '"}\n', -32700));
});

test('notifications, answers and empty lines are not answered', async () => {
	server.write('\n  \r\n');
	for (const method of ['notifications/initialized', 'notifications/cancelled', 'notifications/what', 'tools/call'])
		server.write({ jsonrpc: '2.0', method });
	server.write({ jsonrpc: '2.0', id: 5, result: {} });
	server.write({ jsonrpc: '2.0', id: 5, error: { code: 1, message: 'x' } });
	assert.equal((await server.ask('ping', {}, 'next')).id, 'next');
});

test('messages in pieces, and several in one write', async () => {
	const ping = id => JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' }) + '\n';
	server.note(ping('piece'));
	for (const byte of Buffer.from(ping('piece')))
		server.child.stdin.write(Buffer.from([byte]));
	assert.equal((await server.read()).id, 'piece');
	server.write(Array.from({ length: 1000 }, (_, i) => ping(i)).join(''));
	for (let i = 0; i < 1000; i++)
		assert.equal((await server.read()).id, i);
});

describe('initialize', () => {
	for (const [wanted, answered] of [['2025-06-18', '2025-06-18'], ['2025-11-25', '2025-11-25'],
		['2024-11-05', '2024-11-05'], ['2025-03-26', '2025-03-26'], ['2026-07-28', '2025-11-25'], ['2099-01-01', '2025-11-25'], ['', '2025-11-25']])
		test(`${wanted || 'an empty version'} → ${answered}`, async () => {
			const { result } = await server.ask('initialize',
				{ protocolVersion: wanted, capabilities: {}, clientInfo: { name: 't', version: '1' } });
			assert.equal(result.protocolVersion, answered);
			assert.deepEqual(result.capabilities, { tools: {}, resources: {}, prompts: {},
				...answered > '2025' ? { completions: {} } : {} });
			assert.equal(result.serverInfo.name, 'nsbox');
			assert.ok(result.instructions.length > 50);
		});
});

test('code with NUL, newlines and every kind of quote arrives as it is', async () => {
	const input = 'a\u0000b\n\r\t"\'\\\u2028\ud83d\ude42\u007f\u0001';
	server.call('nul', { language: 'python', code: 'import sys\nsys.stdout.write(sys.stdin.read())', stdin: input });
	assert.equal((await server.read()).result.structuredContent.stdout, input);
});

test('what was asked before the end of input is answered', async () => {
	const input = Array.from({ length: 500 }, (_, id) => JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' }) + '\n').join('');
	const { status, stdout } = spawnSync(nsbox, ['mcp'], { input, encoding: 'utf8' });
	assert.equal(status, 0);
	assert.equal(stdout.trim().split('\n').length, 500);
});

test('the end of input is the end', async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

test('a client that does not read: nothing blocks, memory is bounded, all comes in the end', async () => {
	const slow = new RawServer();
	slow.child.stdout.pause();
	const total = 8000; // of more than 200 MB
	const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }) + '\n';
	for (let i = 0; i < total / 100; i++)
		slow.child.stdin.write(list.repeat(100));
	await settled(slow.pid);
	const status = readFileSync(`/proc/${slow.pid}/status`, 'utf8');
	const rss = Number(status.match(/VmRSS:\s+(\d+)/)[1]);
	assert.ok(rss < 64 << 10, `${rss} KiB`);
	slow.child.stdout.resume();
	await until('all answers', () => slow.lines.length === total, 120000);
	assert.deepEqual(await slow.stop(), { code: 0, signal: null });
});

test('a client that neither reads nor stays', async () => {
	const slow = new RawServer();
	slow.child.stdout.pause();
	for (let i = 0; i < 100; i++)
		slow.child.stdin.write((JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }) + '\n').repeat(100));
	await sleep(1000);
	slow.child.stdin.destroy();
	await until('end of the server', () => slow.child.exitCode !== null);
	assert.equal(slow.child.exitCode, 0);
});

test('standard output carries messages only, whatever programs write', async () => {
	const pure = new RawServer();
	for (let id = 0; id < 10; id++)
		pure.call(id, { language: 'bash', code: 'echo to stdout; echo to stderr >&2; ls -l /proc/self/fd; echo x >/proc/1/fd/1; echo x >/dev/tty; echo "{}"' });
	for (let i = 0; i < 10; i++) {
		const answer = await pure.read();
		assert.ok(answer.id >= 0 && answer.result.structuredContent.stdout.startsWith('to stdout\n'));
	}
	await pure.stop();
	assert.deepEqual(pure.lines, []);
	assert.equal(pure.stderr, '');
});

test('start: nothing is written before the first request, and it takes milliseconds', async () => {
	await assertQuick(500, async () => {
		const start = performance.now();
		const fresh = new RawServer();
		await fresh.ask('ping');
		const ms = performance.now() - start;
		await fresh.stop();
		assert.deepEqual(fresh.lines, []);
		return ms;
	});
});

describe('the command line', () => {
	const run = (...args) => spawnSync(nsbox, ['mcp', ...args], { input: '', encoding: 'utf8' });

	test('--help', () => {
		const { status, stdout } = run('--help');
		assert.equal(status, 0);
		for (const option of ['--memory', '--max-memory', '--timeout', '--max-timeout', '--max-parallel', '--max-sessions'])
			assert.ok(stdout.includes(option), option);
	});

	for (const [args, pattern] of [
		[['--nope'], /--nope: unknown option/],
		[['--max-memory'], /--max-memory: an argument is missing/],
		[['--max-memory', 'lots'], /--max-memory/],
		[['--max-memory', '1m'], /at least 4m/],
		[['--memory', '3g'], /--memory is above --max-memory/],
		[['--max-timeout', '0'], /above 0/],
		[['--timeout', '10m'], /--timeout is above --max-timeout/],
		[['--max-parallel', '0'], /--max-parallel/],
		[['--max-sessions', '0'], /--max-sessions/],
		[['--max-parallel', '100000'], /--max-parallel/],
		[['extra'], /unexpected argument "extra"/],
	])
		test(args.join(' '), () => {
			const { status, stdout, stderr } = run(...args);
			assert.equal(status, 125);
			assert.equal(stdout, '');
			assert.match(stderr, pattern);
		});
});
