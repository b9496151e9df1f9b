// SPDX-License-Identifier: MIT
// Files of sandboxes that last as resources, and what completes their templates.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect, nsbox } from './helpers.mjs';

const runtime = mkdtempSync(join(tmpdir(), 'nsbox-resources-'));
const files = 'nsbox://sandbox/{sandbox_id}/{+path}{?offset}', outputs = 'nsbox://output/{id}/{stream}{?offset}';
const left = 'nsbox://output/{id}/files/{number}{?offset}';
let server, id;

const call = (name, args) => server.client.callTool({ name, arguments: args });
const read = path => server.client.readResource({ uri: `nsbox://sandbox/${id}/${path}` });
const complete = async (uri, name, value, context) =>
	(await server.client.complete({ ref: { type: 'ref/resource', uri }, argument: { name, value }, context })).completion;

before(async () => {
	server = await connect({ env: { XDG_RUNTIME_DIR: runtime } });
	id = (await call('sandbox_initialize', {})).structuredContent.sandbox_id;
	await call('sandbox_exec', { sandbox_id: id, command:
		'mkdir data; echo text >"data/a b"; echo 2 >data/é; { printf x; yes é | tr -d "\\n" | head -c 1500000; } >big; printf "\\0\\377" >bin; mkfifo fifo' });
});

after(async () => {
	await server.close();
	execFileSync(nsbox, ['session', 'stop', '--all'], { env: { ...process.env, XDG_RUNTIME_DIR: runtime } });
	rmSync(runtime, { recursive: true });
});

test('a file is read by its path, encoded where it has to be', async () => {
	assert.deepEqual((await read('workspace/data/a%20b')).contents, [
		{ uri: `nsbox://sandbox/${id}/workspace/data/a%20b`, mimeType: 'text/plain', text: 'text\n' }]);
	assert.equal((await read('workspace/data/%C3%A9')).contents[0].text, '2\n');
	assert.equal((await read('workspace/bin')).contents[0].blob, 'AP8=');
});

test('a large file is read in parts, and no character is cut', async () => {
	let path = 'workspace/big', text = '';
	for (let parts = 0; path; parts++) {
		assert.ok(parts < 10);
		const part = (await read(path)).contents[0];
		text += part.text;
		path = part._meta?.['nsbox/next'].slice(`nsbox://sandbox/${id}/`.length);
	}
	assert.ok(text === 'x' + 'é'.repeat(750000));
});

test('a directory is a list', async () => {
	const entries = JSON.parse((await read('workspace/data/')).contents[0].text);
	assert.deepEqual(entries.map(entry => entry.name).sort(), ['a b', 'é']);
	const { resources } = await server.client.listResources();
	assert.ok(resources.some(resource => resource.uri === `nsbox://sandbox/${id}/workspace/`));
});

test('what is no resource is said to be none', async () => {
	for (const path of ['workspace/none', 'workspace/fifo', 'workspace/data', 'workspace/%00', 'workspace/big?offset=x', 'etc/shadow'])
		await assert.rejects(read(path), { code: -32002 }, path);
	await assert.rejects(server.client.readResource({ uri: `nsbox://sandbox/${'0'.repeat(32)}/x` }), /there is no sandbox/);
	await assert.rejects(server.client.readResource({ uri: 'nsbox://sandbox/x' }), { code: -32002 });
});

test('templates are completed', async () => {
	const { resourceTemplates } = await server.client.listResourceTemplates();
	assert.deepEqual(resourceTemplates.map(template => template.uriTemplate), [outputs, left, files]);
	assert.deepEqual((await complete(files, 'sandbox_id', id.slice(0, 2))).values, [id]);
	assert.deepEqual((await complete(files, 'sandbox_id', 'x')).values, []);
	const context = { arguments: { sandbox_id: id } };
	assert.deepEqual((await complete(files, 'path', 'workspace/b', context)).values, ['workspace/big', 'workspace/bin']);
	assert.deepEqual((await complete(files, 'path', 'workspace/d', context)).values, ['workspace/data/']);
	assert.deepEqual((await complete(files, 'path', 'workspace/none/x', context)).values, []);
	assert.deepEqual((await complete(files, 'path', 'workspace/')).values, []);
	assert.deepEqual((await complete(outputs, 'stream', 'std')).values, ['stdout', 'stderr']);
	await assert.rejects(complete(files, 'other', ''), { code: -32602 });
	await assert.rejects(complete('nsbox://x/{y}', 'y', ''), { code: -32602 });
});

test('a hundred values are named of more', async () => {
	await call('sandbox_exec', { sandbox_id: id, command: 'mkdir many; touch many/$(seq -s " many/" 150)' });
	const found = await complete(files, 'path', 'workspace/many/', { arguments: { sandbox_id: id } });
	assert.equal(found.values.length, 100);
	assert.equal(found.total, 150);
	assert.equal(found.hasMore, true);
});

test('images that a command makes come with its result, and what changed can be read', async () => {
	const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
	const { content, structuredContent } = await call('sandbox_exec', { sandbox_id: id, cwd: 'data',
		command: `echo ${dot} | base64 -d | tee dot.png >"b c.PNG"; echo none >fake.png; echo x >text` });
	assert.deepEqual(content.filter(part => part.type === 'image'),
		[1, 2].map(() => ({ type: 'image', data: dot, mimeType: 'image/png' })));
	assert.deepEqual(structuredContent.images.map(image => image.name), ['data/b c.PNG', 'data/dot.png']);
	const { uri } = structuredContent.changes.created.find(file => file.path === 'data/b c.PNG');
	const { blob, mimeType } = (await server.client.readResource({ uri })).contents[0];
	assert.deepEqual([blob, mimeType], [dot, 'image/png']);
	const again = await call('sandbox_exec', { sandbox_id: id, command: 'true' });
	assert.deepEqual(again.content.map(part => part.type), ['text']);
});
