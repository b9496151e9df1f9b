// SPDX-License-Identifier: MIT
// Sandboxes that last, as such: who may use which, for how long, many at a time, what runs in the background, and what
// comes of it when a process of ours is killed.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, describe } from 'node:test';
import { alive, descendants, newMarker, processOf, sleep, stubborn, text, until, withMarker } from './helpers.mjs';
import { Sandbox, connectTools, runtime, session, sockets, test } from './sandboxes.mjs';

const MANY = ['--max-sessions', '200', '--max-parallel', '64'];
const server = await connectTools({ args: MANY });
after(server.close);
const { initialize, failure, tool } = server;
const gone = /there is no sandbox "[^"]*": it was stopped, its time was up, or it never was\n.*sandbox_initialize/;
const supervisorOf = id => JSON.parse(session('ls', '--json')).find(entry => entry.id === id).supervisor;
const run = (box, code, more) => box.exec({ language: 'python', code, ...more });
const sandboxes = async () => (await tool('sandbox_list')).sandboxes.map(entry => entry.sandbox_id);

const ID_LENGTH = 32;

// What is in a process's output from the offset on: until it matches, or the process has ended.
async function output(box, process_id, offset, pattern) {
	for (let all = ''; ;) {
		const part = await box.tool('process_output', { process_id, offset, wait: 30 });
		all += part.output;
		offset = part.next_offset;
		if (pattern?.test(all) || !part.running)
			return { ...part, output: all };
		assert.ok(part.output || !pattern, `${all} and nothing more`);
	}
}

// What there is on the host of sandboxes that do not live: mounts, and folders, whose names begin with the sandbox's id.
function leftovers() {
	const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
		.filter(line => [runtime, process.env.NSBOX_STORE].some(place => line.includes(place)));
	try {
		const live = sockets();
		return [...mounts, ...readdirSync(`${process.env.NSBOX_STORE}/sessions`).filter(name => !live.includes(name.slice(0, ID_LENGTH)))];
	} catch {
		return mounts;
	}
}

const nothingLeft = () => until('no folder and no mount', () => leftovers().length === 0).catch(() => assert.deepEqual(leftovers(), []));

describe('whose', { concurrency: 4 }, () => {
	test('ids that are none, and of what has ended', async () => {
		const box = await initialize();
		await box.stop();
		for (const id of ['0'.repeat(32), box.id, '', 'x', box.id.slice(0, 8), box.id.toUpperCase(), '../'.repeat(8) + 'etc/pass', 'a'.repeat(100000)])
			for (const [name, more] of [['sandbox_exec', { command: 'true' }], ['read_file', { path: 'x' }], ['write_file', { path: 'x', content: '' }],
				['list_files', {}], ['process_list', {}], ['process_output', { process_id: 1 }], ['sandbox_stop', {}],
				['install_packages', { packages: ['six'], language: 'python' }], ['sandbox_exec', { context: 'c', language: 'python', code: '1' }],
				['context_list', {}], ['context_restart', { context: 'c' }], ['sandbox_pause', {}], ['sandbox_snapshot', {}],
				['sandbox_restore', { snapshot_id: 'x' }]])
				assert.match(await failure(name, { sandbox_id: id, ...more }), gone);
		assert.match(await failure('sandbox_exec', { command: 'true' }), /sandbox_id: missing/);
		assert.match(await failure('sandbox_stop', { sandbox_id: 5 }), /sandbox_id/);
	});

	test('sessions of people are theirs, unless they say otherwise', async () => {
		const own = session('new').trim(), shared = session('new', '--mcp').trim();
		assert.match(await failure('sandbox_exec', { sandbox_id: own, command: 'true' }), gone);
		assert.match(await failure('sandbox_stop', { sandbox_id: own }), gone);
		assert.match(await failure('install_packages', { sandbox_id: own, packages: ['six'], language: 'python' }), gone);
		const ids = await sandboxes();
		assert.deepEqual([ids.includes(own), ids.includes(shared)], [false, true]);
		const box = new Sandbox(tool, shared);
		await box.write('f', 'from a client');
		assert.equal(session('exec', shared, 'cat', 'f'), 'from a client');
		await box.stop();
		assert.equal(session('exec', own, 'echo', 'here'), 'here\n');
		session('stop', own);
	});

	test('what is not in one is said to be in no sandbox, of which alone clients know', async () => {
		const box = await initialize();
		assert.match(await failure('process_signal', { sandbox_id: box.id, process_id: 99 }), /^the sandbox has no process 99\nprocess_list/);
		await box.stop();
	});

	test('other names for its id', async () => {
		const { id } = await initialize();
		for (const name of ['container_id', 'session_id'])
			assert.equal((await tool('sandbox_exec', { [name]: id, command: 'echo $0' })).stdout, 'bash\n');
		await tool('sandbox_stop', { container_id: id });
	});

	test('it ends when nobody has used it for its time, and not while somebody does', async () => {
		// Between two calls a busy machine may let some seconds pass.
		const ttl = 6, [box, used] = await Promise.all([initialize({ ttl: 2 }), initialize({ ttl })]), begin = performance.now();
		while (sockets().includes(box.id) || performance.now() - begin < ttl * 1200)
			await used.exec('sleep 0.2');
		assert.equal((await used.exec(`sleep ${ttl * 1.2}; echo there`)).stdout, 'there\n');
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, command: 'true' }), gone);
		await until('its end', () => !sockets().includes(used.id));
	});
});

test('--max-sessions holds for all servers of a user together', async () => {
	const others = await Promise.all([0, 1].map(() => connectTools({ args: ['--max-sessions', '3'] })));
	const mine = session('new').trim(); // does not count
	const tries = await Promise.all(others.flatMap(other => [0, 1, 2].map(() => other.call('sandbox_initialize', {}))));
	const made = tries.filter(result => !result.isError).map(result => result.structuredContent.sandbox_id);
	assert.equal(made.length, 3);
	for (const result of tries.filter(result => result.isError))
		assert.match(text(result), /there are 3 sandboxes that last already/);
	await others[1].tool('sandbox_stop', { sandbox_id: made[0] }); // whoever made it
	const again = await others[0].initialize();
	assert.match(await others[1].failure('sandbox_initialize', {}), /3 sandboxes/);
	await Promise.all([...made.slice(1), again.id].map(id => tool('sandbox_stop', { sandbox_id: id })));
	session('stop', mine);
	await Promise.all(others.map(other => other.close()));
});

describe('at one time', { concurrency: 3 }, () => {
	test('twenty clients on their own, four on one: nobody sees what is another one\'s', async () => {
		const clients = await Promise.all(Array.from({ length: 20 }, () => connectTools({ args: MANY })));
		const common = await initialize();
		await Promise.all(clients.map(async (client, i) => {
			const box = await client.initialize();
			for (let n = 0; n < 3; n++) {
				await box.write('data', `${i} ${n}`);
				assert.equal(await box.output(`cat data; echo " $(ls)"`), `${i} ${n} data\n`);
			}
			const [one, two] = await Promise.all([box.output(`for n in $(seq 200); do echo ${i}; done`), box.output(`seq ${i} ${i + 200}`)]);
			assert.equal(one, `${i}\n`.repeat(200));
			assert.equal(two, Array.from({ length: 201 }, (_, n) => `${i + n}\n`).join(''));
			await box.stop();
		}));
		await Promise.all(clients.slice(0, 4).map(async (client, i) => {
			const box = new Sandbox(client.tool, common.id);
			await Promise.all(Array.from({ length: 10 }, async (_, n) => {
				const name = `${i}-${n}`, lines = `${name}\n`.repeat(500);
				await box.write(name, lines);
				assert.equal(await box.output(`cat ${name} | tee out-${name}`), lines);
				assert.equal(await box.read(`out-${name}`), lines);
			}));
		}));
		assert.equal((await common.list()).entries.length, 80);
		await common.stop();
		await Promise.all(clients.map(client => client.close()));
	});

	test('calls of one sandbox wait for each other, however many there are', async () => {
		const box = await initialize();
		const results = await Promise.all(Array.from({ length: 200 }, (_, i) => i % 2
			? box.output(`echo ${i}`) : box.write(`file${i}`, 'x').then(() => `${i}\n`)));
		results.forEach((output, i) => assert.equal(output, `${i}\n`));
		await box.stop();
	});

	test('more in the background than one has places for are refused, and the rest goes on', async () => {
		const box = await initialize(), results = await Promise.all(Array.from({ length: 60 }, () =>
			server.call('sandbox_exec', { sandbox_id: box.id, command: 'sleep 60', background: true })));
		const refused = results.filter(result => result.isError);
		assert.equal(refused.length, 12);
		refused.forEach(result => assert.match(text(result), /has 48 commands/));
		await box.stop();
	});

	test('cancel, a time limit and too much memory end one call, with all that it started', async () => {
		const box = await initialize({ memory_limit: '200m' }), marker = newMarker(), abort = new AbortController();
		const kept = await box.background(`exec -a ${marker}-kept sleep 60`);
		const late = box.exec({ language: 'python', code: stubborn, args: [marker + 2], timeout: 10 });
		const call = box.tool('sandbox_exec', { language: 'python', code: stubborn, args: [marker + 1], timeout: 200 }, { signal: abort.signal });
		const aborted = assert.rejects(call);
		await until('the call', () => withMarker(marker + 1).length === 4);
		abort.abort();
		await aborted;
		await until('the end of the cancelled call', () => withMarker(marker + 1).length === 0);
		const { ended_by, stdout } = await late;
		assert.equal(ended_by, 'timeout');
		assert.match(stdout, /up/);
		assert.equal(withMarker(marker + 2).length, 0);
		const heavy = await run(box, 'x = bytearray(400 << 20)\nprint(len(x))');
		assert.deepEqual([heavy.ended_by, heavy.limits_hit.map(hit => hit.limit)], ['oom', ['memory']]);
		assert.equal(await box.output('echo here'), 'here\n');
		assert.equal((await box.tool('process_output', { process_id: kept })).running, true);
		await box.tool('process_signal', { process_id: 9999 }).then(assert.fail, error => assert.match(error.message, /no process 9999/));
		await box.stop();
	});

	test('a server in the background: reached, polled, listed, stopped', async () => {
		const box = await initialize();
		await box.write('page', 'hello from inside');
		const process_id = await box.background('exec python3 -u -m http.server 8123 --bind 127.0.0.1');
		const first = await output(box, process_id, 0, /Serving HTTP.*\n/);
		assert.equal(first.running, true);
		const { stdout } = await run(box, 'import urllib.request\nprint(urllib.request.urlopen("http://127.0.0.1:8123/page").read().decode())');
		assert.equal(stdout, 'hello from inside\n');
		const second = await output(box, process_id, first.next_offset, /"GET \/page HTTP\/1\.1" 200.*\n/);
		assert.doesNotMatch(second.output, /Serving/);
		const begin = performance.now();
		const third = await box.tool('process_output', { process_id, offset: second.next_offset, wait: 0.5 });
		assert.deepEqual([third.output, third.running], ['', true]);
		assert.ok(performance.now() - begin >= 490);
		const [listed] = (await box.tool('process_list')).processes;
		assert.deepEqual([listed.process_id, listed.running, listed.background], [process_id, true, true]);
		const waiting = box.tool('process_output', { process_id, offset: second.next_offset, wait: 20 });
		await box.tool('process_signal', { process_id, signal: 'SIGTERM' });
		const ended = await waiting;
		assert.deepEqual([ended.running, ended.ended_by, ended.signal], [false, 'signaled', 'SIGTERM']);
		assert.equal((await box.tool('process_list')).processes[0].running, false);
		assert.match(await failure('process_signal', { sandbox_id: box.id, process_id }), /has ended/);
		await box.stop();
	});

	test('a dialogue with what runs in the background', async () => {
		const box = await initialize(), process_id = await box.background('while read -r line; do echo "<$line>"; done; echo over', { stdin_open: true });
		let offset = 0;
		for (const line of ['one', '\u{1f600} two', '']) {
			await box.tool('process_input', { process_id, text: `${line}\n` });
			const said = await output(box, process_id, offset, /\n/);
			assert.equal(said.output, `<${line}>\n`);
			offset = said.next_offset;
		}
		await box.tool('process_input', { process_id, text: 'last', close: true });
		const last = await output(box, process_id, offset);
		assert.deepEqual([last.output, last.ended_by, last.exit_code], ['over\n', 'exited', 0]);
		assert.match(await failure('process_input', { sandbox_id: box.id, process_id, text: 'x' }), /ended|closed/);
		const closed = await box.background('sleep 250');
		assert.match(await failure('process_input', { sandbox_id: box.id, process_id: closed, text: 'x' }), /input/);
		await box.stop();
	});

	test('a thousand short jobs in the background leave nothing', async () => {
		const box = await initialize(), pid = supervisorOf(box.id);
		const rss = () => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]);
		const count = process.getuid() === 0 ? 1000 : 200;
		let before, last = 0, begun = 0;
		await Promise.all(Array.from({ length: 8 }, async () => {
			while (begun < count) {
				const job = ++begun;
				const process_id = await box.background(['sh', '-c', 'echo $0; sleep 30 & sleep 0.01', `job ${job}`]).catch(async error => {
					assert.match(error.message, /has 48 commands/); // they are not over yet
					begun--;
					await sleep(100);
				});
				last = Math.max(last, process_id ?? 0);
				if (job === 100)
					before = rss();
			}
		}));
		assert.ok(last >= count);
		const { ended_by } = await box.tool('process_output', { process_id: last, offset: 100, wait: 60 });
		assert.equal(ended_by, 'exited');
		// Those that were just killed are zombies until the first process comes to them.
		await until('the end of all', () => descendants(pid).length === 1).catch(() => assert.deepEqual(descendants(pid), []));
		const processes = (await box.output('cat /proc/[0-9]*/comm')).trim().split('\n');
		assert.ok(processes.length <= 3, processes.join(' ')); // the first, the command's keeper, cat
		assert.ok((await box.tool('process_list')).processes.length <= 48);
		assert.ok(rss() - before < 1024, `${before} KiB, then ${rss()}`);
		assert.ok(readdirSync(`/proc/${pid}/fd`).length < 48 + 40, 'open files');
		await box.stop();
	});
});

describe('kill -9', () => {
	const fresh = () => connectTools({ args: MANY });

	test('of the server: what runs in the background goes on, what somebody waits for ends', async () => {
		const killed = await fresh(), box = await killed.initialize(), marker = newMarker();
		const process_id = await box.background(`echo begun; exec -a ${marker}-back sleep 60`);
		const waiting = assert.rejects(box.exec(`exec -a ${marker}-wait sleep 60`));
		await until('both', () => withMarker(`${marker}-back`).length + withMarker(`${marker}-wait`).length === 2);
		process.kill(killed.pid, 'SIGKILL');
		await waiting;
		await until('the end of what was waited for', () => withMarker(`${marker}-wait`).length === 0);
		const again = new Sandbox(tool, box.id), back = await output(again, process_id, 0, /\n/);
		assert.deepEqual([back.output, back.running], ['begun\n', true]);
		assert.ok((await sandboxes()).includes(box.id));
		await again.stop();
		await until('the end of what was in the background', () => withMarker(`${marker}-back`).length === 0);
	});

	test('of the server\'s spawner: sandboxes are there for the next server', async () => {
		const killed = await fresh(), box = await killed.initialize();
		await box.write('f', 'kept');
		const spawner = descendants(killed.pid).find(process => process.name === 'nsbox-spawner');
		process.kill(spawner.pid, 'SIGKILL');
		await until('the end of the server', () => (processOf(killed.pid)?.state ?? 'Z') === 'Z');
		assert.equal(await new Sandbox(tool, box.id).read('f'), 'kept');
		await tool('sandbox_stop', { sandbox_id: box.id });
	});

	for (const [who, find, message] of [
		['its supervisor', id => supervisorOf(id), /the sandbox ended before it answered/],
		['its first process', id => descendants(supervisorOf(id))[0].pid, /sandbox has ended: its first process was killed/],
	])
		test(`of ${who}: that is said, and nothing is left`, async () => {
			const box = await initialize(), other = await initialize(), marker = newMarker();
			await box.background(`exec -a ${marker} sleep 60`);
			const waiting = failure('sandbox_exec', { sandbox_id: box.id, command: `exec -a ${marker} sleep 60` });
			await until('both', () => withMarker(marker).length === 2);
			const all = [processOf(supervisorOf(box.id)), ...descendants(supervisorOf(box.id))];
			process.kill(find(box.id), 'SIGKILL');
			assert.match(await waiting, message);
			await until('the end of all', () => alive(all).length === 0 && withMarker(marker).length === 0);
			assert.match(await failure('sandbox_exec', { sandbox_id: box.id, command: 'true' }), gone);
			assert.equal(await other.output('echo fine'), 'fine\n');
			const next = await initialize();
			assert.equal(sockets().includes(box.id), false);
			await next.stop();
			await other.stop();
			await nothingLeft();
		});

	test('of everything at once', async () => {
		const killed = await fresh(), boxes = await Promise.all(Array.from({ length: 5 }, () => killed.initialize()));
		const marker = newMarker();
		await Promise.all(boxes.map(box => box.background(`exec -a ${marker} sleep 60`)));
		const all = boxes.map(box => processOf(supervisorOf(box.id)));
		process.kill(killed.pid, 'SIGKILL');
		all.forEach(({ pid }) => process.kill(pid, 'SIGKILL'));
		await until('the end of all', () => withMarker(marker).length === 0);
		const next = await initialize();
		const left = [...sockets(), ...await sandboxes()].filter(id => boxes.some(box => box.id === id));
		assert.deepEqual(left, []);
		await next.stop();
		await nothingLeft();
	});
});

describe('idle', () => {
	test('sandboxes cost little, and end together', async () => {
		session('stop', '--all');
		const ids = (await Promise.all(Array.from({ length: 20 }, () => initialize()))).map(box => box.id);
		const all = JSON.parse(session('ls', '--json')).flatMap(({ supervisor }) => [processOf(supervisor), ...descendants(supervisor)]);
		assert.equal(all.length, 40);
		// Whoever waits for nothing but what others do has not woken up once in three seconds, as soon as all has settled.
		const waits = () => all.map(({ pid }) => /^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
		let before, after = waits();
		for (let i = 0; i < 6 && String(after) !== String(before); i++) {
			before = after;
			await sleep(3000);
			after = waits();
		}
		assert.deepEqual(after, before, 'how often each has waited');
		// Of another user's processes, the sandboxes' of root, only root may see it.
		const pss = all.map(({ pid }) => {
			try {
				return Number(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').match(/^Pss:\s+(\d+)/m)[1]);
			} catch {
				return 0;
			}
		});
		assert.ok(Math.max(...pss) < 1024, `${Math.max(...pss)} KiB`);
		assert.ok(ids.every(id => sockets().includes(id)));
		const begin = performance.now();
		session('stop', '--all');
		assert.ok(performance.now() - begin < 30000);
		await until('their end', () => alive(all).length === 0); // a supervisor that has answered still has to exit
		assert.deepEqual(sockets(), []);
	});
});

test('one whose supervisor does nothing any more holds up no other, and no code that runs elsewhere', async () => {
	const own = await connectTools({ args: ['--max-parallel', '1'] });
	const [stuck, other] = [await own.initialize(), await own.initialize()];
	const supervisor = supervisorOf(stuck.id);
	process.kill(supervisor, 'SIGSTOP');
	try {
		const abort = new AbortController();
		const call = stuck.tool('sandbox_exec', { command: 'true' }, { signal: abort.signal });
		const listed = (await own.tool('sandbox_list')).sandboxes.map(entry => entry.sandbox_id);
		assert.ok(listed.includes(other.id) && !listed.includes(stuck.id));
		abort.abort();
		await assert.rejects(call);
		const before = Date.now();
		assert.equal((await own.tool('execute_code', { language: 'bash', code: 'echo on' })).stdout, 'on\n');
		assert.ok(Date.now() - before < 30000);
	} finally {
		process.kill(supervisor, 'SIGCONT');
	}
	await Promise.all([stuck.stop(), other.stop()]);
	await own.close();
});

test('what is cancelled while its source is written leaves none', async () => {
	const box = await initialize();
	for (let i = 0; i < 120; i++) {
		const abort = new AbortController();
		const call = box.tool('sandbox_exec', { language: 'c', code: 'int main() { for (;;); }' }, { signal: abort.signal });
		await sleep(i % 12);
		abort.abort();
		await assert.rejects(call);
	}
	let left;
	for (let i = 0; i < 150 && left !== '/tmp/.nsbox:\n\n/workspace:\n'; i++) {
		await sleep(200);
		left = (await box.tool('sandbox_exec', { command: 'ls -A /tmp/.nsbox /workspace' })).stdout;
	}
	assert.equal(left, '/tmp/.nsbox:\n\n/workspace:\n');
	await box.stop();
});

test('a pause: what runs stands still, what would begin is refused with the name of what ends it', async () => {
	const box = await initialize();
	const process_id = await box.background('i=0; while :; do i=$((i + 1)); echo $i; sleep 0.02; done');
	const lines = async () => (await box.tool('process_output', { process_id })).next_offset;
	await until('output', async () => await lines() > 20);
	assert.deepEqual(await box.tool('sandbox_pause'), { sandbox_id: box.id, paused: true, already: false });
	assert.deepEqual(await box.tool('sandbox_pause'), { sandbox_id: box.id, paused: true, already: true });
	for (const [name, args] of [['sandbox_exec', { command: 'true' }], ['sandbox_exec', { language: 'python', code: '1' }],
		['write_file', { path: 'f', content: '' }], ['read_file', { path: 'f' }], ['list_files', {}]])
		assert.match(await failure(name, { sandbox_id: box.id, ...args }), /the sandbox is paused.*\n.*sandbox_resume/);
	const before = await lines();
	const [entry] = (await box.tool('process_list')).processes;
	assert.deepEqual([entry.running, entry.paused], [true, true]);
	assert.equal((await tool('sandbox_list')).sandboxes.find(each => each.sandbox_id === box.id).paused, true);
	await sleep(300);
	assert.equal(await lines(), before);
	assert.deepEqual(await box.tool('sandbox_resume'), { sandbox_id: box.id, paused: false, already: false });
	await until('more output', async () => await lines() > before);
	assert.deepEqual(await box.tool('sandbox_resume'), { sandbox_id: box.id, paused: false, already: true });
	assert.equal(await box.output('echo fine'), 'fine\n');
	await box.stop();
});
