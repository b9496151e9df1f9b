// SPDX-License-Identifier: MIT
// What the suites share: clients of the SDK, servers spoken to byte by byte, and a view of /proc.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { Conversation } from './schema.mjs';

// Every tool, in the order in which tools/list has them.
export const toolNames = ['execute_code', 'list_languages', 'test_sandbox', 'sandbox_initialize', 'sandbox_exec', 'sandbox_stop',
	'sandbox_list', 'sandbox_pause', 'sandbox_resume',
	'sandbox_snapshot', 'sandbox_fork', 'sandbox_restore', 'snapshot_list', 'snapshot_delete', 'write_file', 'read_file', 'list_files', 'edit_file', 'move_file', 'delete_file', 'make_directory',
	'process_output', 'process_input', 'process_signal', 'process_list', 'install_packages',
	'context_interrupt', 'context_restart', 'context_list'];

export const nsbox = process.env.NSBOX;
if (!nsbox)
	throw new Error('NSBOX is not set: use tests/mcp/run');

// What a failed test leaves behind would keep its file from ending.
const servers = new Set();
after(() => servers.forEach(pid => {
	try {
		process.kill(pid, 'SIGKILL');
	} catch {
		// it has ended
	}
}));

// Whatever a file's tests are about: what the servers sent was valid.
const conversations = [];
after(() => assert.deepEqual(conversations.flatMap(one => one.errors), [], 'messages against the schema of their revision'));

// A process that a test is to end, and that ends with the file in any case.
export const endsWithFile = pid => servers.add(pid);

export function newConversation() {
	conversations.push(new Conversation());
	return conversations.at(-1);
}

// Requests of a client of an SDK wait for as long as a slow machine may need, and not for the minute that is its own idea.
export function makePatient(client) {
	const request = client.request.bind(client), patience = { timeout: 240000 };
	// The newer SDK has no schema between the request and the options.
	client.request = (message, ...rest) => rest.length > 1 || typeof rest[0]?.parse === 'function'
		? request(message, rest[0], { ...patience, ...rest[1] }) : request(message, { ...patience, ...rest[0] });
	return client;
}

// Lets the conversation see what goes through a transport of an SDK. To be called before connect.
export function watchTransport(transport, conversation) {
	const send = transport.send.bind(transport);
	transport.send = (message, ...rest) => {
		conversation.sent(message);
		return send(message, ...rest);
	};
	let onmessage;
	Object.defineProperty(transport, 'onmessage', {
		get: () => onmessage,
		set: handler => {
			onmessage = handler && ((message, ...rest) => {
				conversation.received(message);
				return handler(message, ...rest);
			});
		},
	});
}

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
export const newMarker = () => 'marker-' + randomBytes(8).toString('hex');

// A connected client of the SDK. `errors` collects what it found wrong with the stream. `wrapper` is a command that
// executes the server.
export async function connect({ args = [], env = {}, wrapper = [] } = {}) {
	const [command, ...rest] = [...wrapper, nsbox, 'mcp', ...args];
	const transport = new StdioClientTransport({
		command,
		args: rest,
		env: { ...process.env, ...env },
		stderr: 'pipe',
	});
	watchTransport(transport, newConversation());
	const client = makePatient(new Client({ name: 'nsbox-tests', version: '1' }));
	const errors = [];
	client.onerror = error => errors.push(error);
	await client.connect(transport);
	servers.add(transport.pid);
	await client.listTools(); // from now on it checks results against the output schemas
	return {
		client,
		transport,
		errors,
		pid: transport.pid,
		run: (args, options) => client.callTool({ name: 'execute_code', arguments: args }, undefined, options),
		close: () => {
			servers.delete(transport.pid);
			return client.close();
		},
	};
}

export const text = result => result.content.map(part => part.text).join('');

export const callOf = (id, args, _meta) =>
	({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'execute_code', arguments: args, _meta } });

// A server that is spoken to in raw lines.
export class RawServer {
	constructor(args = [], options = {}) {
		this.child = spawn(nsbox, ['mcp', ...args], { stdio: ['pipe', 'pipe', 'pipe'], ...options });
		this.child.stdin.on('error', () => {});
		servers.add(this.child.pid);
		this.child.on('exit', () => servers.delete(this.child.pid));
		this.lines = [];
		this.stderr = '';
		this.waiting = [];
		this.conversation = newConversation();
		this.exit = new Promise(resolve => this.child.on('exit', (code, signal) => resolve({ code, signal })));
		this.child.stderr.on('data', data => this.stderr += data);
		createInterface({ input: this.child.stdout, crlfDelay: Infinity }).on('line', line => {
			const waiter = this.waiting.shift();
			waiter ? waiter(line) : this.lines.push(line);
		});
	}

	get pid() {
		return this.child.pid;
	}

	write(message) {
		this.note(message);
		this.child.stdin.write(typeof message === 'string' || Buffer.isBuffer(message) ? message :
			JSON.stringify(message) + '\n');
	}

	// Bytes may hold several messages, and what is no message.
	note(message) {
		if (typeof message === 'object' && !Buffer.isBuffer(message))
			return this.conversation.sent(message);
		for (const line of message.length < 1 << 20 ? message.toString().split('\n') : []) {
			try {
				this.conversation.sent(JSON.parse(line));
			} catch {
				// that is the test
			}
		}
	}

	// The next message; fails when none comes.
	async read(ms = 60000) {
		const line = this.lines.length ? this.lines.shift() : await new Promise((resolve, reject) => {
			// One that goes on after the answer would keep the file from ending.
			const timer = setTimeout(() => reject(new Error('no message came; stderr: ' + this.stderr)), ms);
			this.waiting.push(line => {
				clearTimeout(timer);
				resolve(line);
			});
		});
		const message = JSON.parse(line);
		this.conversation.received(message);
		return message;
	}

	async ask(method, params, id = 1) {
		this.write({ jsonrpc: '2.0', id, method, params });
		return this.read();
	}

	// Several messages at once: the server has read all of them before it does anything about the last.
	writeTogether(...messages) {
		this.write(messages.map(message => JSON.stringify(message) + '\n').join(''));
	}

	call(id, args, meta) {
		this.write(callOf(id, args, meta));
	}

	async stop() {
		this.child.stdin.end();
		return this.exit;
	}
}

function readProc(pid, file) {
	try {
		return readFileSync(`/proc/${pid}/${file}`, 'utf8');
	} catch {
		return null; // gone, or another user's
	}
}

const pids = () => readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(Number);

// {pid, name, parent, state, start} of a process, or null. A pid is not reused with the same start.
export function processOf(pid) {
	const stat = readProc(pid, 'stat');
	if (!stat)
		return null;
	const end = stat.lastIndexOf(')');
	const fields = stat.slice(end + 2).split(' ');
	return { pid, name: stat.slice(stat.indexOf('(') + 1, end), state: fields[0], parent: Number(fields[1]), start: fields[19] };
}

// Everything below `pid`, itself left out.
export function descendants(pid) {
	const all = pids().map(processOf).filter(Boolean);
	const found = [];
	for (let parents = [pid]; parents.length;) {
		const children = all.filter(process => parents.includes(process.parent));
		found.push(...children);
		parents = children.map(child => child.pid);
	}
	return found;
}

// The supervisors of the server `pid`: the children of its spawner.
export function supervisors(pid) {
	const below = descendants(pid);
	const spawner = below.find(process => process.name === 'nsbox-spawner');
	return below.filter(process => process.parent === spawner?.pid);
}

// Zombies have nothing left but a number that their parent has not read.
export const alive = processes => processes.filter(process => {
	const now = processOf(process.pid);
	return now && now.start === process.start && now.state !== 'Z';
});

// Processes whose command line has the marker, the tests' own and clients' left out.
export const withMarker = marker => pids().filter(pid => {
	const words = readProc(pid, 'cmdline')?.split('\0') ?? [];
	return words.includes(marker) && processOf(pid)?.state !== 'Z';
});

// Ends what the processes with the marker wait for, so that they go on: a program that a test lets go, and no timer. A shell
// says nothing of a child that ended by this signal.
export const letGo = marker => withMarker(marker).flatMap(descendants).forEach(({ pid }) => process.kill(pid, 'SIGPIPE'));

// Waits until condition() is true; returns how long that took. What is waited for comes soon, or never: the time is for a
// machine that has a lot else to do, and shorter than what the tests' programs would run by themselves.
export async function until(what, condition, ms = 30000) {
	const start = performance.now();
	while (!await condition()) {
		if (performance.now() - start > ms)
			throw new Error(`not within ${ms} ms: ${what}`);
		await sleep(5);
	}
	return performance.now() - start;
}

// Waits until the process has used no processor time for half a second: then it waits for something.
export async function settled(pid) {
	const ticks = () => readProc(pid, 'stat').split(') ')[1].split(' ').slice(11, 13).reduce((sum, number) => sum + Number(number), 0);
	const end = performance.now() + 60000;
	for (let before = ticks(); ; before = ticks()) {
		await sleep(500);
		if (ticks() === before)
			return;
		assert.ok(performance.now() < end, `${before} ticks of processor time, and then ${ticks()}: it spins`);
	}
}

// A result of run(seconds), its time limit, whose program came(result) as far as the test wants it to before that ended it: a
// busy machine gets more time.
export async function timedOut(run, came) {
	for (const seconds of [0.7, 3, 10, 30]) {
		const result = await run(seconds);
		assert.equal(result.structuredContent.ended_by, 'timeout');
		if (came(result) || seconds === 30)
			return { result, seconds };
	}
}

// How many times slower than it could be the machine is at this moment, by what it takes to start processes.
function slowness() {
	const begin = performance.now();
	for (let i = 0; i < 10; i++)
		spawnSync('true');
	return Math.max(1, (performance.now() - begin) / 50);
}

// That something takes at most `ms` on a machine that does nothing else: measure() returns how long it took, and the best
// of some times counts.
export async function assertQuick(ms, measure) {
	const seen = [];
	for (let i = 0; i < 5; i++) {
		const took = await measure();
		seen.push(`${took.toFixed()} ms, the machine ${slowness().toFixed(1)} times slower`);
		if (took < ms * slowness())
			return;
	}
	assert.fail(`more than ${ms} ms: ${seen.join('; ')}`);
}

// A program that runs until it is killed, with a child and a grandchild in other sessions.
export const stubborn = `
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for i in range(2):
    if os.fork() == 0:
        os.setsid()
os.write(1, b"up\\n") # whole, though four write at a time
while True:
    time.sleep(1)
`;
