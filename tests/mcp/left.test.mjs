// SPDX-License-Identifier: MIT
// Files that the code leaves in its working directory: named in the result, read as resources, whatever they are.
import { test, describe, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { connect, text, timedOut, RawServer } from './helpers.mjs';

let server;
before(async () => { server = await connect(); });
after(() => server.close());

const python = async (code, more = {}) => {
	const result = await server.run({ language: 'python', code, ...more });
	assert.equal(result.isError ?? false, false, text(result));
	return result;
};
const filesOf = result => result.structuredContent.files.map(file => [file.path, file.size]);

// The whole content of a resource, part by part.
async function read(uri) {
	const parts = [];
	while (uri) {
		const { contents: [part] } = await server.client.readResource({ uri });
		assert.equal(part.uri, uri);
		parts.push('text' in part ? Buffer.from(part.text) : Buffer.from(part.blob, 'base64'));
		uri = part._meta?.['nsbox/next'];
	}
	return { content: Buffer.concat(parts), parts: parts.length };
}

describe('files that are left', () => {
	test('new and changed ones are returned, with their content', async () => {
		const result = await python(`
import os
os.makedirs('a/b')
open('a/b/c.txt', 'w').write('héllo')
open('binary', 'wb').write(bytes(range(256)))
open('empty', 'w')
open('changed', 'a').write('+')
open('same', 'w').write('2')
os.remove('gone')`, { files: { changed: '1', same: '2', kept: '3', gone: '4' } });
		assert.deepEqual(filesOf(result), [['a/b/c.txt', 6], ['binary', 256], ['changed', 2], ['empty', 0]]);
		assert.equal('files_omitted' in result.structuredContent, false);
		const [c, binary, changed, empty] = result.structuredContent.files;
		assert.equal((await read(c.uri)).content.toString(), 'héllo');
		assert.deepEqual((await read(binary.uri)).content, Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
		assert.equal((await read(changed.uri)).content.toString(), '1+');
		assert.equal((await read(empty.uri)).content.length, 0);
		const links = result.content.filter(block => block.type === 'resource_link');
		assert.deepEqual(links.map(link => [link.name, link.size, link.uri]),
			result.structuredContent.files.map(file => [file.path, file.size, file.uri]));
		assert.match(text(result), new RegExp(`\\[file a/b/c.txt, 6 bytes: ${c.uri}\\]`));
		const { resources } = await server.client.listResources();
		assert.deepEqual(resources.slice(0, 4).map(resource => resource.name), filesOf(result).map(([path]) => path));
		assert.ok((await server.client.listResourceTemplates()).resourceTemplates.some(template =>
			template.uriTemplate === 'nsbox://output/{id}/files/{number}{?offset}'));
		const { completion } = await server.client.complete({
			ref: { type: 'ref/resource', uri: 'nsbox://output/{id}/files/{number}{?offset}' },
			argument: { name: 'number', value: '' },
		});
		assert.deepEqual(completion.values, ['0', '1', '2', '3']);
	});

	test('nothing is returned where nothing is left', async () => {
		const result = await python('print(1)', { files: { given: 'x' } });
		assert.deepEqual(result.structuredContent.files, []);
		assert.deepEqual(result.content.map(block => block.type), ['text']);
		assert.equal(result.content[0].text, '1\n');
	});

	test('large ones come in parts, from any offset', async () => {
		const result = await python(`
open('large', 'w').write('é' * 1500000)
open('more', 'wb').write(b'\\xff' + b'x' * 2500000)`);
		const [large, more] = result.structuredContent.files;
		const whole = await read(large.uri);
		assert.equal(whole.parts, 3);
		assert.equal(whole.content.toString(), 'é'.repeat(1500000));
		assert.equal((await read(more.uri)).content.length, 2500001);
		assert.equal((await read(`${large.uri}?offset=2999998`)).content.toString(), 'é');
		await assert.rejects(server.client.readResource({ uri: `${large.uri}?offset=3000001` }), /3000000 bytes only/);
		await assert.rejects(server.client.readResource({ uri: large.uri.replace(/0$/, '2') }), /no such resource/);
	});

	test('images are content, as far as they fit; the others are files', async () => {
		const result = await python(`
import os
png = b'\\x89PNG\\r\\n\\x1a\\n'
open('shown.png', 'wb').write(png)
open('huge.png', 'wb').write(png + bytes(2 << 20))
os.mkdir('sub'); open('sub/deep.png', 'wb').write(png)`);
		assert.deepEqual(result.structuredContent.images.map(image => image.name), ['shown.png']);
		assert.deepEqual(filesOf(result), [['huge.png', (2 << 20) + 8], ['sub/deep.png', 8]]);
	});

	test('at most a hundred', async () => {
		const result = await python('for i in range(130): open(f"{i:03}", "w").write(str(i))');
		assert.equal(result.structuredContent.files.length, 100);
		assert.equal(result.structuredContent.files_omitted, 30);
		assert.equal((await read(result.structuredContent.files[99].uri)).content.toString(), '99');
		assert.equal(result.content.filter(block => block.type === 'resource_link').length, 20);
		assert.match(text(result), /\[files more: 80, up to nsbox:.*\/files\/99\]\n\[files left out: 30; at most 100, of 64 MiB/);
	});

	test('at most 64 MiB, by the size that they say', async () => {
		const result = await python(`
import os
for name, size in ('a', 1 << 40), ('b', 40 << 20), ('c', 30 << 20), ('d', 5):
    open(name, 'w').close(); os.truncate(name, size)`);
		assert.deepEqual(filesOf(result), [['b', 40 << 20], ['d', 5]]);
		assert.equal(result.structuredContent.files_omitted, 2);
		assert.deepEqual((await read(result.structuredContent.files[1].uri)).content, Buffer.alloc(5));
	});

	test('also of a run that its time, its memory or a signal has ended', async () => {
		const leave = 'import os, time\nopen("left", "w").write("x")\n';
		const { result } = await timedOut(timeout => python(`${leave}time.sleep(60)`, { timeout }), one => filesOf(one).length > 0);
		assert.deepEqual(filesOf(result), [['left', 1]]);
		for (const [end, ended_by, more] of [['os.kill(os.getpid(), 9)', 'signaled', {}],
			['x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1', 'oom', { memory_limit: '64m' }]]) {
			const result = await python(leave + end, more);
			assert.equal(result.structuredContent.ended_by, ended_by);
			assert.deepEqual(filesOf(result), [['left', 1]], ended_by);
		}
	});
});

describe('hostile files', () => {
	test('links, FIFOs, sockets and devices have no content', async () => {
		const result = await python(`
import os, socket
os.symlink('/etc/shadow', 'shadow'); os.symlink('/proc/self/root/etc', 'dir'); os.symlink('file', 'link')
os.symlink('/etc/passwd', 'given2'); os.remove('given'); os.symlink('/etc/passwd', 'given')
os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')
open('file', 'w').write('x')`, { files: { given: 'x' } });
		assert.deepEqual(filesOf(result), [['file', 1]]);
	});

	test('names of any bytes', async () => {
		const result = await python(`
import os
for name in (b'new\\nline', b'\\xff\\xfe', b'\\x1b[31m', b'"}]', b'..x', b'a' * 255): open(name, 'wb').write(name)
for i in range(40): os.mkdir('d' * 200); os.chdir('d' * 200); open('f', 'w')`);
		const seen = new Map();
		for (const { path, uri } of result.structuredContent.files)
			seen.set(path, (await read(uri)).content);
		for (const name of ['new\nline', '\u001b[31m', '"}]', '..x', 'a'.repeat(255)])
			assert.deepEqual(seen.get(name), Buffer.from(name));
		assert.deepEqual(seen.get('\ufffd\ufffd'), Buffer.from([0xff, 0xfe]));
		assert.ok([...seen.keys()].every(path => path.length < 4096));
		assert.ok(text(result).split('\n').length < 40);
	});

	test('sixty thousand of them', async () => {
		const result = await python(`
import os
for d in range(60):
    os.mkdir(str(d))
    for i in range(1000): open(f'{d}/{i}', 'w').close()`, { timeout: 60 });
		assert.equal(result.structuredContent.files.length, 100);
		assert.ok(result.structuredContent.files_omitted > 50000);
		assert.equal((await python('print(1)')).structuredContent.stdout, '1\n');
	});

	test('a working directory that is exchanged by a process that is left over', async () => {
		for (let i = 0; i < 5; i++) {
			const result = await server.run({
				language: 'bash',
				code: `mkdir d; for i in $(seq 200); do echo x >d/$i; done
(setsid sh -c 'while :; do mv d e; ln -s /etc d; rm d; mv e d; done' >/dev/null 2>&1 &)
sleep 0.1`,
			});
			assert.ok(result.structuredContent.files.every(file => file.size === 2 && /^[de]\/\d+$/.test(file.path)));
		}
		const gone = await server.run({ language: 'bash', code: 'cd / && mv workspace old && ln -s /etc workspace' });
		assert.deepEqual(gone.structuredContent.files, []);
	});
});

describe('revisions', () => {
	for (const [protocolVersion, knows] of [['2024-11-05', false], ['2025-03-26', false], ['2025-06-18', true], ['2025-11-25', true]])
		test(`${protocolVersion} ${knows ? 'has' : 'lacks'} links; the text has the address`, async () => {
			const old = new RawServer();
			await old.ask('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 't', version: '1' } });
			old.call(3, { language: 'bash', code: 'echo content >left' });
			const { result } = await old.read();
			assert.equal(result.content.some(block => block.type === 'resource_link'), knows);
			assert.equal('structuredContent' in result, knows);
			const [uri] = /nsbox:\/\/output\/[0-9a-f]{32}\/files\/0/.exec(result.content[0].text);
			assert.equal((await old.ask('resources/read', { uri }, 4)).result.contents[0].text, 'content\n');
			await old.stop();
		});
});
