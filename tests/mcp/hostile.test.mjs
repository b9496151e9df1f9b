// SPDX-License-Identifier: MIT
// A sandbox whose code does what it can against the tools: they answer, clearly and in time; others and the server stay
// right; and it can be stopped.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe } from 'node:test';
import { alive, descendants, processOf, sleep, text, until } from './helpers.mjs';
import { connectTools, session, test } from './sandboxes.mjs';

const server = await connectTools({ args: ['--max-sessions', '200', '--max-parallel', '64'] });
const witness = await server.initialize();
after(server.close);
const { call } = server;
const supervisorOf = id => JSON.parse(session('ls', '--json')).find(entry => entry.id === id).supervisor;
const kib = (pid, key) => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`^${key}:\\s+(\\d+)`, 'm'))[1]);

// Each tool once, whatever comes of it; fails where that takes longer than `ms`. Returns the texts.
async function everyTool(box, path, ms = 100000) {
	const asked = [
		['read_file', { path }],
		['write_file', { path, content: 'x' }],
		['write_file', { path, content: 'x', append: true }],
		['edit_file', { path, old_text: 'x', new_text: 'y' }],
		['list_files', { path }],
		['list_files', { path: '/', recursive: true, limit: 10000 }],
		['move_file', { path, destination: `${path}.moved`, overwrite: true }],
		['move_file', { path: `${path}.moved`, destination: path, overwrite: true }],
		['make_directory', { path: `${path}/sub` }],
		['sandbox_exec', { command: 'echo ran', timeout: 20 }],
		['sandbox_exec', { code: 'echo ran', language: 'bash', timeout: 20 }],
		['process_list', {}],
		['delete_file', { path, recursive: true }],
	];
	let timer;
	const late = new Promise((_, reject) => timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms));
	const answers = asked.map(([name, args]) => call(name, { sandbox_id: box.id, ...args }).then(result => `${name}: ${text(result)}`));
	return Promise.race([Promise.all(answers), late]).finally(() => clearTimeout(timer));
}

// A hostile program, and what is asked of the tools meanwhile. Others see nothing of it, and what it was in ends when it is told to.
const hostile = (title, { start, ask = box => everyTool(box, 'file'), args, run = 'background' }) => test(title, async () => {
	const box = await server.initialize({ timeout: 200, ...args }), pid = supervisorOf(box.id);
	const all = [processOf(pid)];
	if (run === 'background')
		await box.background(start);
	else
		await call('sandbox_exec', { sandbox_id: box.id, command: start, timeout: 60 });
	await sleep(300);
	await ask(box);
	const begin = performance.now();
	assert.equal(await witness.output(`echo ${box.id}`), `${box.id}\n`);
	await witness.write(box.id, title);
	assert.equal(await witness.read(box.id), title);
	await server.client.ping();
	assert.ok(performance.now() - begin < 60000, `others waited for ${performance.now() - begin} ms`);
	if (processOf(pid)) {
		assert.ok(kib(pid, 'VmHWM') < 64 << 10, `the supervisor has had ${kib(pid, 'VmHWM')} KiB`);
		all.push(...descendants(pid));
		await call('sandbox_stop', { sandbox_id: box.id });
	}
	await until('its end', () => alive(all).length === 0);
});

const python = code => ['python3', '-c', code];

describe('what the code does, while each tool is asked', { concurrency: 3 }, () => {
	hostile('floods its output', { start: 'cat /dev/zero & yes & yes >&2' });
	hostile('fills the disk', { start: 'cat /dev/zero >fill; while :; do echo x >>fill$RANDOM; done',
		ask: async box => {
			await sleep(1000);
			const answers = await everyTool(box, 'file');
			assert.ok(answers.some(answer => /No space left|ran/.test(answer)), answers.join('\n'));
		} });
	hostile('uses up the inodes', { start: python('import os\nos.mkdir("d")\ni = 0\nwhile True:\n    try:\n        os.mkdir(f"d/{i}")\n        i += 1\n    except OSError:\n        i += 1') });
	hostile('forks without end', { start: ':(){ :|:& };:; wait',
		ask: async box => {
			for (let i = 0; i < 3; i++)
				await everyTool(box, 'file');
		} });
	hostile('leaves no process for anybody else', { start: python('import os, time\nwhile True:\n    try:\n        if os.fork() == 0:\n            time.sleep(60)\n    except OSError:\n        time.sleep(0.01)'),
		ask: async box => {
			const inside = () => descendants(supervisorOf(box.id)).length;
			await until('all processes that there may be', () => inside() > 200);
			const answers = await everyTool(box, 'file');
			// Whether ours come under the same limit depends on who holds it.
			assert.ok(answers.every(answer => !/could not be made/.test(answer)) || /^read_file: .*could not be made/.test(answers[0]), answers.join('\n'));
		} });
	hostile('removes /workspace', { start: 'rm -rf /workspace', run: 'foreground',
		ask: async box => {
			const answers = await everyTool(box, 'file');
			assert.ok(answers.some(answer => /sandbox_exec: (ran|.*working directory \/workspace)/.test(answer)), answers.join('\n'));
		} });
	hostile('makes /workspace a link to /etc', { start: 'cd /; rm -rf /workspace; ln -s /etc /workspace', run: 'foreground',
		ask: async box => {
			assert.match(text(await call('read_file', { sandbox_id: box.id, path: 'shadow' })), /No such file/);
			assert.match(text(await call('read_file', { sandbox_id: box.id, path: 'passwd' })), /^root:x:0:0/);
			await everyTool(box, 'file');
		} });
	hostile('makes /workspace a file', { start: 'cd /; rm -rf /workspace; echo x >/workspace', run: 'foreground',
		ask: async box => {
			assert.match(text(await call('write_file', { sandbox_id: box.id, path: 'f', content: '' })), /Not a directory/);
			assert.match(text(await call('sandbox_exec', { sandbox_id: box.id, command: 'pwd' })), /working directory \/workspace: Not a directory/);
			assert.match(text(await call('sandbox_exec', { sandbox_id: box.id, code: 'pwd', language: 'bash' })), /Not a directory/);
			await everyTool(box, 'file');
		} });
	hostile('makes a FIFO of every name', { start: python('import os\nwhile True:\n    for name in ("file", "file.moved", "exec_2.sh", "exec_3.sh", "exec_4.sh", "exec_5.sh", "exec_6.sh", "exec_7.sh", "exec_8.sh", "file/sub"):\n        try:\n            os.mkfifo(name)\n        except FileExistsError:\n            try: os.unlink(name); os.mkfifo(name)\n            except OSError: pass\n        except OSError: pass'),
		ask: async box => {
			for (let i = 0; i < 5; i++)
				await everyTool(box, 'file');
		} });
	hostile('opens the ends of FIFOs that the tools come to', { start: 'mkfifo /tmp/f; while :; do ln -sf /tmp/f file; echo x >file & cat file >/dev/null & sleep 0.01; done',
		ask: async box => {
			for (let i = 0; i < 5; i++)
				await everyTool(box, 'file');
		} });
	hostile('exchanges directories and links', { start: python(`
import os
os.makedirs("tree/a/b/c"); os.makedirs("other/a/b/c"); os.symlink("/etc", "link")
for i in range(200): open(f"tree/a/b/{i}", "w").write("x")
import ctypes
libc = ctypes.CDLL(None)
while True:
    for one, two in (("tree", "link"), ("tree/a", "other/a"), ("other", "tree"), ("tree/a/b", "link")):
        libc.renameat2(-100, one.encode(), -100, two.encode(), 2)
`), ask: async box => {
		for (let i = 0; i < 15; i++) {
			const answers = await Promise.all([['list_files', { path: 'tree', recursive: true }], ['read_file', { path: 'tree/a/b/5' }], ['read_file', { path: 'link/shadow' }],
				['write_file', { path: `tree/a/new/${i}`, content: 'x' }], ['delete_file', { path: 'tree/a', recursive: true }], ['delete_file', { path: 'other', recursive: true }],
				['move_file', { path: 'tree', destination: 'third', overwrite: true }], ['move_file', { path: 'third', destination: 'tree' }]]
				.map(([name, args]) => call(name, { sandbox_id: box.id, ...args })));
			assert.ok(!answers.some(answer => /root:[^x]/.test(text(answer))));
		}
		// What is below a link is never removed.
		assert.match(await box.output('ls -d /etc/passwd'), /passwd/);
	} });
	hostile('unshares, mounts and traces', { start: python(`
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flags in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x10020000, 0x7c020000):
    assert libc.unshare(flags) == -1 or flags == 0, flags
assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1
assert libc.ptrace(16, 1, 0, 0) == -1
assert libc.setns(os.open("/proc/self/ns/mnt", os.O_RDONLY), 0) == -1
open("refused", "w").write("all")
`), run: 'background', ask: async box => {
		await until('its end', async () => !(await box.tool('process_list')).processes[0].running);
		assert.equal(await box.read('refused'), 'all');
		await everyTool(box, 'file');
	} });
	hostile('sends signals to everything', { start: python('import os, signal, time\nopen("begun", "w")\nfor number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1, 33, signal.SIGKILL):\n    try: os.kill(-1, number)\n    except OSError: pass'),
		ask: async box => {
			const [{ process_id }] = (await box.tool('process_list')).processes;
			const { running, ended_by } = await box.tool('process_output', { process_id, wait: 30 });
			assert.equal(await box.read('begun'), '');
			const answers = await everyTool(box, 'file');
			assert.ok(answers.some(answer => answer.startsWith('sandbox_exec: ran')), answers.join('\n'));
			assert.ok(running || ended_by, 'it is known how it ended');
		} });
	hostile('stops the processes that work for the tools', { start: python(`
import os, signal
own = os.getpid()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, own, os.getppid()):
            for number in (signal.SIGSTOP, signal.SIGKILL):
                try: os.kill(int(name), number)
                except OSError: pass
`), ask: async box => {
		const answers = await everyTool(box, 'file');
		assert.ok(answers.length === 13);
	} });
	hostile('eats all memory', { args: { memory_limit: '100m' }, start: 'while :; do python3 -c "x = bytearray(1 << 30)"; done & while :; do head -c 80M /dev/zero | tail -c 80M >/dev/null; done',
		ask: async box => {
			for (let i = 0; i < 3; i++)
				await everyTool(box, 'file');
		} });
	hostile('holds on to what ends', { start: 'trap "" TERM HUP INT; (setsid sleep 1000 &) ; exec 3<>/dev/pts/ptmx; while :; do sleep 1; done' });
});
