// SPDX-License-Identifier: MIT
// The tools of files: what is written is what is read, by the code inside too; and nothing that a sandbox has for a file
// leads out of it, holds anybody up or ends what is there already.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, describe } from 'node:test';
import { Sandbox, connectTools, session, test } from './sandboxes.mjs';

const server = await connectTools();
after(server.close);
const { initialize, failure } = server;
const base64 = bytes => bytes.toString('base64');
const sha256 = bytes => createHash('sha256').update(bytes).digest('hex');
const refused = async (box, name, args, pattern) => assert.match(await failure(name, { sandbox_id: box.id, ...args }), pattern);
const stat = (box, format, path) => box.output({ command: ['stat', '-c', format, path] });
const names = async (box, path, more) => (await box.list(path, more)).entries.map(entry => entry.name).sort();

// A sandbox for the test's own time.
const withSandbox = (title, body, args) => test(title, async () => {
	const box = await initialize(args);
	await body(box);
	await box.stop();
});

// Ten seconds' work for two processors, which need not be done twice.
const megabytes = process.getuid() === 0 ? 60 : 20;

describe('files', { concurrency: 4 }, () => {
	withSandbox(`${megabytes} MB are written and read in pieces`, async box => {
		const piece = randomBytes(10e6), written = createHash('sha256'), read = createHash('sha256');
		for (let i = 0; i < megabytes / 10; i++) {
			piece.writeUInt32BE(i);
			written.update(piece);
			const { size } = await box.write('large', base64(piece), { encoding: 'base64', append: true });
			assert.equal(size, (i + 1) * piece.length);
		}
		const expected = written.digest('hex');
		assert.equal(await box.output('sha256sum <large'), `${expected}  -\n`);
		let offset = 0;
		do {
			const part = await box.tool('read_file', { path: 'large', offset, limit: 1 << 20, encoding: 'base64' });
			read.update(Buffer.from(part.content, 'base64'));
			assert.equal(part.size, megabytes * 1e6);
			offset = part.next_offset;
		} while (offset);
		assert.equal(read.digest('hex'), expected);
	});

	withSandbox('content: bytes, text, NUL, the parts of each', async box => {
		const bytes = randomBytes(100000);
		await box.write('bytes', base64(bytes), { encoding: 'base64' });
		assert.equal(await box.output('sha256sum <bytes'), `${sha256(bytes)}  -\n`);
		for (const [offset, limit] of [[0, 1], [99999, 1], [5, 70000], [100000, 10], [123456789, 10]]) {
			const part = await box.tool('read_file', { path: 'bytes', offset, limit, encoding: 'base64' });
			assert.deepEqual(Buffer.from(part.content, 'base64'), bytes.subarray(offset, offset + limit));
			assert.equal(part.next_offset, offset + limit < 100000 ? offset + limit : undefined);
		}
		const text = 'a\0b\r\n\ufeff\u{1f600}e\u0301\u2028\u007f'.repeat(3000);
		await box.write('text', text);
		assert.equal(await box.output('sha256sum <text'), `${sha256(Buffer.from(text))}  -\n`);
		// Whatever is asked for, characters stay whole.
		const parts = [];
		for (let offset = 0, part; offset !== undefined; offset = part.next_offset) {
			part = await box.tool('read_file', { path: 'text', offset, limit: 4999 });
			assert.ok(part.encoding === 'base64' || !part.content.includes('\ufffd'));
			parts.push(Buffer.from(part.content, part.encoding === 'base64' ? 'base64' : 'utf8'));
		}
		assert.equal(Buffer.concat(parts).toString(), text);
		await box.write('empty', '');
		assert.deepEqual(await box.tool('read_file', { path: 'empty' }),
			{ path: 'empty', size: 0, encoding: 'utf-8', content: '', mode: '0644' });
		await refused(box, 'read_file', { path: 'bytes', encoding: 'utf-8' }, /not text in UTF-8.*\n.*base64/);
		await refused(box, 'write_file', { path: 'bytes', content: 'x!', encoding: 'base64' }, /not base64/);
		await refused(box, 'write_file', { path: 'bytes', content: 'x', encoding: 'latin1' }, /encoding: expected/);
		assert.equal(await box.output('sha256sum <bytes'), `${sha256(bytes)}  -\n`);
	});

	withSandbox('names: spaces, newlines, Unicode, long ones; and those that are no text', async box => {
		const odd = [' ', 'a b', 'line\nline', 'tab\t', '\u{1f600}', 'e\u0301', '-rf', '*', '$(id)', '"', "'", '\\', '...', '~', '\u0001', 'x'.repeat(255)];
		for (const name of odd)
			await box.write(name, name);
		assert.deepEqual(await names(box), [...odd].sort());
		for (const name of odd)
			assert.equal(await box.read(name), name);
		assert.equal(await box.output({ command: ['cat', './line\nline'] }), 'line\nline');
		for (const name of odd)
			await box.tool('move_file', { path: name, destination: `moved/${name}` });
		assert.deepEqual(await names(box, 'moved'), [...odd].sort());
		for (const name of odd)
			await box.tool('delete_file', { path: `moved/${name}` });
		assert.deepEqual(await names(box, 'moved'), []);
		await refused(box, 'write_file', { path: 'x'.repeat(256), content: '' }, /name too long/i);
		await refused(box, 'write_file', { path: 'x/'.repeat(2100) + 'x', content: '' }, /between 1 and 4095 bytes/);
		await refused(box, 'write_file', { path: 'a\0b', content: '' }, /NUL/);
		await box.output({ language: 'python', code: 'import os\nos.mkdir(b"n")\nopen(b"n/bad\\xff", "w")\nos.symlink(b"\\xfe", b"n/link")\n' });
		const { entries } = await box.list('n');
		const [bad, link] = entries.sort((a, b) => a.type < b.type ? -1 : 1);
		assert.deepEqual([bad.name, bad.name_base64], ['bad\ufffd', base64(Buffer.from('bad\xff', 'latin1'))]);
		assert.deepEqual([link.target, link.target_base64], ['\ufffd', base64(Buffer.from('\xfe', 'latin1'))]);
		await box.tool('delete_file', { path: 'n', recursive: true });
	});

	withSandbox('links and paths lead to nothing but the sandbox', async box => {
		await box.output('ln -s /etc/shadow shadow; ln -s /proc/1/root root; ln -s / all; ln -s loop loop; ln -s nowhere dangling');
		for (const path of ['shadow', '/etc/shadow', '../../etc/shadow', 'all/etc/shadow', 'root/etc/shadow', '/proc/1/root/etc/shadow',
			'/proc/self/root/etc/shadow', '/proc/1/cwd/etc/shadow', '/proc/self/cwd/../../../etc/shadow'])
			await refused(box, 'read_file', { path }, /No such file|Permission denied/);
		for (const path of ['/proc/1/environ', '/proc/1/mem', '/proc/1/fd/0', '/proc/1/fd/3', '/proc/1/exe', '/proc/1/maps', '/proc/kcore', '/proc/kmsg', '/proc/1/stack'])
			await refused(box, 'read_file', { path, limit: 10 }, /Permission denied|No such file|is a device/);
		for (const path of ['/proc/1/mem', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/1/oom_score_adj', '/usr/bin/new', '/proc/new'])
			await refused(box, 'write_file', { path, content: 'x' }, /Permission denied|Read-only|No such file|Not a directory/);
		await refused(box, 'read_file', { path: 'loop' }, /symbolic links/);
		await refused(box, 'list_files', { path: 'loop' }, /symbolic links/);
		await refused(box, 'list_files', { path: 'root' }, /Permission denied/);
		await box.write('dangling', 'there');
		assert.equal(await box.output('readlink dangling; cat nowhere'), 'nowhere\nthere');
		await box.write('shadow', 'ours');
		assert.equal(await box.output('cat /etc/shadow'), 'ours');
		// A link in a tree is listed and removed, not what it leads to.
		await box.output('mkdir -p tree/sub; ln -s /etc tree/etc; ln -s / tree/sub/all; ln -s ../.. tree/sub/up');
		assert.deepEqual(await names(box, 'tree', { recursive: true }), ['etc', 'sub', 'sub/all', 'sub/up']);
		assert.equal((await box.tool('delete_file', { path: 'tree', recursive: true })).removed, 5);
		assert.equal(await box.output('cat /etc/shadow; ls -d /etc/passwd'), 'ours/etc/passwd\n');
	});

	withSandbox('what is no file holds nobody up', async box => {
		await box.output({ language: 'python', code: 'import os, socket\nos.mkfifo("fifo")\nos.symlink("fifo", "to-fifo")\nsocket.socket(socket.AF_UNIX).bind("socket")\n' });
		for (const [path, kind] of [['fifo', 'FIFO'], ['to-fifo', 'FIFO'], ['socket', 'socket'], ['/dev/zero', 'device'], ['/dev/tty', 'device'],
			['/dev/full', 'device'], ['/dev/random', 'device'], ['/dev/pts/ptmx', 'device'], ['.', 'directory'], ['/', 'directory']]) {
			const pattern = new RegExp(`is a ${kind}, which has no content`);
			await refused(box, 'read_file', { path }, pattern);
			await refused(box, 'write_file', { path, content: 'x' }, pattern);
			await refused(box, 'write_file', { path, content: 'x', append: true }, pattern);
			await refused(box, 'edit_file', { path, old_text: 'x', new_text: 'y' }, pattern);
			await refused(box, 'sandbox_exec', { file: path, language: 'java' }, pattern);
		}
		const types = Object.fromEntries((await box.list()).entries.map(entry => [entry.name, entry.type]));
		assert.deepEqual(types, { fifo: 'FIFO', 'to-fifo': 'link', socket: 'socket' });
		await box.tool('move_file', { path: 'fifo', destination: 'pipe' });
		await box.tool('delete_file', { path: 'pipe' });
		await box.list('/', { recursive: true, limit: 10000 });
	});

	withSandbox('a directory of 50 000 entries', async box => {
		await box.output({ language: 'python', code: 'import os\nos.mkdir("many")\nfor i in range(50000):\n    open(f"many/{i:05}", "w").close()\n' });
		for (const [limit, count] of [[undefined, 1000], [1, 1], [10000, 10000]]) {
			const begin = performance.now(), { entries, truncated } = await box.list('many', { limit });
			assert.equal(entries.length, count);
			assert.equal(new Set(entries.map(entry => entry.name)).size, count);
			assert.equal(truncated, true);
			assert.ok(performance.now() - begin < 60000);
		}
		await refused(box, 'list_files', { path: 'many', limit: 10001 }, /limit: expected/);
		await refused(box, 'delete_file', { path: 'many' }, /not empty/);
		assert.equal((await box.tool('delete_file', { path: 'many', recursive: true })).removed, 50001);
	});

	withSandbox('a tree that is deep', async box => {
		await box.output({ language: 'python', code: 'import os\nfor i in range(3000):\n    os.mkdir("d")\n    os.chdir("d")\n' });
		const { entries, truncated } = await box.list('/workspace', { recursive: true, limit: 10000 });
		assert.ok(truncated && entries.length >= 200 && entries.every(entry => /^d(\/d)*$/.test(entry.name)), `${entries.length}`);
		assert.match(entries.at(-1).error, /too long/);
		assert.equal((await box.tool('delete_file', { path: 'd', recursive: true })).removed, 3000);
	});

	withSandbox('a full disk: what was there stays', async box => {
		await box.write('kept', 'old content');
		await box.write('script.sh', 'echo still');
		await box.exec('dd if=/dev/zero of=rest bs=1M status=none; dd if=/dev/zero of=end bs=1 status=none');
		await refused(box, 'write_file', { path: 'kept', content: 'x'.repeat(1 << 20) }, /No space left on device/);
		await refused(box, 'write_file', { path: 'new', content: 'x'.repeat(1 << 20) }, /No space left/);
		await refused(box, 'edit_file', { path: 'kept', old_text: 'old', new_text: 'x'.repeat(1 << 20) }, /No space left/);
		assert.equal(await box.read('kept'), 'old content');
		// On disk it may be ended with the first file.
		assert.deepEqual((await names(box)).filter(name => name !== 'end'), ['kept', 'rest', 'script.sh']);
		assert.equal(await box.output({ file: 'script.sh' }), 'still\n');
		await box.tool('delete_file', { path: 'rest' });
		await box.write('kept', 'x'.repeat(1 << 20));
		assert.equal(await box.output('wc -c <kept'), '1048576\n');
	});

	withSandbox('modes and owners, as the code sees them', async box => {
		const owner = (await box.output('echo $(id -u):$(id -g)')).trim();
		await box.write('plain', 'x');
		await box.write('deep/er/run', '#!/bin/sh\necho ran\n', { mode: '0755' });
		await box.write('secret', 'x', { mode: '600' });
		await box.tool('make_directory', { path: 'dir/sub', mode: '0700' });
		for (const [path, mode] of [['plain', 644], ['deep', 755], ['deep/er/run', 755], ['secret', 600], ['dir', 755], ['dir/sub', 700]])
			assert.equal(await stat(box, '%a %u:%g', path), `${mode} ${owner}\n`, path);
		assert.equal(await box.output('./deep/er/run'), 'ran\n');
		// What is there keeps its permissions, and other names for it see the new content or the old, whole.
		await box.output('chmod 711 plain; ln -s plain link');
		await box.write('plain', 'y');
		await box.write('link', 'z');
		await box.tool('edit_file', { path: 'plain', old_text: 'z', new_text: 'edited' });
		assert.equal(await stat(box, '%a %u:%g', 'plain'), `711 ${owner}\n`);
		assert.equal(await box.output('cat link'), 'edited');
		await box.write('plain', 'y', { mode: '0640' });
		assert.equal(await stat(box, '%a', 'plain'), '640\n');
		for (const mode of ['rwx', '9', '', '77777', -1, {}])
			await refused(box, 'write_file', { path: 'plain', content: '', mode }, /mode: expected permissions in octal/);
		assert.equal((await box.list()).entries.find(entry => entry.name === 'secret').mode, '0600');
		// Nobody has capabilities inside: what the permissions do not let do, is refused.
		await box.output('chmod 000 secret; mkdir closed; echo x >closed/file; chmod 000 closed');
		await refused(box, 'read_file', { path: 'secret' }, /opening "\/workspace\/secret": Permission denied/);
		await refused(box, 'list_files', { path: 'closed' }, /Permission denied/);
		assert.equal((await box.list('/workspace', { recursive: true })).entries.find(entry => entry.name === 'closed').error, 'Permission denied');
		await refused(box, 'write_file', { path: 'closed/file', content: '' }, /Permission denied/);
		assert.equal((await box.tool('delete_file', { path: 'closed', recursive: true })).removed, 2);
		await refused(box, 'write_file', { path: '/usr/share/x', content: '' }, /Read-only file system/);
		await refused(box, 'delete_file', { path: '/usr/bin/env' }, /Read-only file system/);
	});

	test('a directory of the host: its files are the caller\'s outside, and the code\'s own inside', async () => {
		const folder = mkdtempSync(`${tmpdir()}/nsbox-bound.`);
		writeFileSync(`${folder}/given`, 'from the host');
		const box = new Sandbox(server.tool, session('new', '--mcp', '--bind', `${folder}:/workspace`).trim());
		await box.write('made/by/tool', 'x', { mode: '0640' });
		await box.output('echo >by-code; echo "from inside" >>given');
		const owner = (await box.output('echo $(id -u):$(id -g)')).trim();
		for (const path of ['given', 'made', 'made/by/tool', 'by-code']) {
			assert.equal(await stat(box, '%u:%g', path), `${owner}\n`, path);
			assert.equal(statSync(`${folder}/${path}`).uid, process.getuid(), path);
		}
		assert.equal(statSync(`${folder}/made/by/tool`).mode & 0o7777, 0o640);
		assert.equal(readFileSync(`${folder}/given`, 'utf8'), 'from the hostfrom inside\n');
		await box.tool('delete_file', { path: 'made', recursive: true });
		await box.stop();
		assert.deepEqual(readdirSync(folder).sort(), ['by-code', 'given']);
		rmSync(folder, { recursive: true });
	});

	withSandbox('reading what is being written, from both sides', async box => {
		const process_id = await box.background('for i in $(seq 20000); do echo "line $i"; done >growing; sleep 0.2');
		for (let size = 0, running = true; running;) {
			({ running } = await box.tool('process_output', { process_id }));
			const part = await box.exec('touch growing').then(() => box.tool('read_file', { path: 'growing', limit: 1 << 20 }));
			assert.ok(part.size >= size);
			assert.ok(/^(line \d+\n)*(l|li|lin|line|line \d*)?$/.test(part.content));
			size = part.size;
		}
		// Content is there whole or not at all, however often it is exchanged.
		const seen = box.output({ language: 'python', code: `
import time
end, seen = time.monotonic() + 1.5, set()
while time.monotonic() < end:
    text = open("exchanged").read()
    seen.add((len(text), len(set(text))))
print(sorted(seen))` }).catch(error => error);
		await box.write('exchanged', 'a'.repeat(300000));
		for (let i = 0; i < 100; i++)
			await box.write('exchanged', 'abc'[i % 3].repeat(300000 + i % 2 * 1000));
		const result = await seen;
		assert.ok(/FileNotFoundError/.test(result) || /^\[(\(30[01]000, 1\)(, )?)+\]\n$/.test(result), `${result}`);
	});

	withSandbox('edit: once, everywhere, never by guess', async box => {
		await box.write('f', 'one two one\r\n\u00e4\n');
		await refused(box, 'edit_file', { path: 'f', old_text: 'one', new_text: 'x' }, /more than once \(2 times\)/);
		await refused(box, 'edit_file', { path: 'f', old_text: 'three', new_text: 'x' }, /does not have the text/);
		await refused(box, 'edit_file', { path: 'f', old_text: '', new_text: 'x' }, /old_text/);
		await refused(box, 'edit_file', { path: 'f', old_text: 'one' }, /new_text/);
		await refused(box, 'edit_file', { path: 'none', old_text: 'one', new_text: '' }, /No such file/);
		assert.equal(await box.read('f'), 'one two one\r\n\u00e4\n');
		assert.equal((await box.tool('edit_file', { path: 'f', old_text: 'one', new_text: '', replace_all: true })).replaced, 2);
		await box.tool('edit_file', { path: 'f', old_text: '\r\n\u00e4', new_text: '$& \\1\n' });
		assert.equal(await box.read('f'), ' two $& \\1\n\n');
	});

	withSandbox('move: not over what is there, unless that is meant', async box => {
		await box.write('a', 'a');
		await box.write('b', 'b');
		await box.write('dir/in', 'in');
		await refused(box, 'move_file', { path: 'a', destination: 'b' }, /File exists/);
		await refused(box, 'move_file', { path: 'a', destination: 'dir' }, /File exists/);
		await refused(box, 'move_file', { path: 'a', destination: 'dir', overwrite: true }, /directory/i);
		await refused(box, 'move_file', { path: 'dir', destination: 'dir/sub' }, /Invalid argument|inside/);
		await refused(box, 'move_file', { path: 'none', destination: 'c' }, /No such file/);
		assert.equal(await box.read('b'), 'b');
		await box.tool('move_file', { path: 'a', destination: 'b', overwrite: true });
		assert.equal(await box.read('b'), 'a');
		await box.tool('move_file', { path: 'dir', destination: '/tmp/other/dir' });
		assert.equal(await box.output('cat /tmp/other/dir/in; ls'), 'inb\n');
		await box.tool('move_file', { path: 'b', destination: 'b', overwrite: true });
		assert.equal(await box.read('b'), 'a');
	});

	withSandbox('without /workspace, and without anything', async box => {
		for (const path of ['/', '.', '..', '/usr', '/proc', '/dev'])
			await refused(box, 'delete_file', { path, recursive: true }, /removing/);
		assert.equal(await box.output('ls -d /usr/bin /workspace'), '/usr/bin\n/workspace\n');
		await box.write('f', 'x');
		await box.tool('delete_file', { path: '/workspace', recursive: true });
		await refused(box, 'list_files', {}, /\/workspace": No such file/);
		await refused(box, 'sandbox_exec', { command: 'pwd' }, /working directory \/workspace: No such file/);
		await box.write('f', 'again');
		assert.equal(await box.output('pwd; cat f'), '/workspace\nagain');
		await box.tool('make_directory', { path: 'nothing' });
		assert.deepEqual(await box.list('nothing'), { path: 'nothing', entries: [], truncated: false });
		await box.exec('rm -rf --one-file-system /* 2>/dev/null; true');
		await box.write('f', 'third');
		assert.equal(await box.read('f'), 'third');
	});
});
