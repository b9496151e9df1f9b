// SPDX-License-Identifier: MIT
// The stateless revision, 2026-07-28, on the raw wire; what differs between revisions; kept outputs, images and tasks.
import { test, describe, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { RawServer, sleep } from './helpers.mjs';

const prefix = 'io.modelcontextprotocol/';
const meta = (extensions = {}) => ({
	[prefix + 'protocolVersion']: '2026-07-28',
	[prefix + 'clientCapabilities']: { extensions },
});
const withTasks = meta({ [prefix + 'tasks']: {} });

let server;
before(() => { server = new RawServer(); });
after(() => server.stop());

let next = 0;
async function ask(method, params = {}, _meta = meta()) {
	const answer = await server.ask(method, { ...params, _meta }, ++next);
	assert.equal(answer.id, next);
	if (answer.result) {
		assert.equal(answer.result.resultType === 'complete' || answer.result.resultType === 'task', true);
		assert.equal(answer.result._meta[prefix + 'serverInfo'].name, 'nsbox');
	}
	return answer;
}

async function run(args, _meta = meta()) {
	server.write({ jsonrpc: '2.0', id: ++next, method: 'tools/call', params: { name: 'execute_code', arguments: args, _meta } });
	const answer = await server.read();
	assert.equal(answer.id, next);
	return answer.result;
}

describe('the stateless revision', () => {
	test('server/discover', async () => {
		const { result } = await ask('server/discover');
		assert.deepEqual(result.supportedVersions, ['2026-07-28']);
		assert.deepEqual(result.capabilities,
			{ tools: {}, resources: {}, prompts: {}, completions: {}, extensions: { [prefix + 'tasks']: {} } });
		assert.ok(Number.isInteger(result.ttlMs) && result.ttlMs >= 0);
		assert.equal(result.cacheScope, 'public');
	});

	for (const [method, key] of [['tools/list', 'tools'], ['resources/list', 'resources'],
		['resources/templates/list', 'resourceTemplates'], ['prompts/list', 'prompts']])
		test(method, async () => {
			const { result } = await ask(method);
			assert.ok(Array.isArray(result[key]));
			assert.ok(Number.isInteger(result.ttlMs));
			assert.match(result.cacheScope, /^(public|private)$/);
		});

	test('a revision that is not spoken', async () => {
		const { error } = await ask('tools/list', {}, { ...meta(), [prefix + 'protocolVersion']: '1900-01-01' });
		assert.equal(error.code, -32022);
		assert.deepEqual(error.data, { supported: ['2026-07-28'], requested: '1900-01-01' });
	});

	test('a revision that is known, but wants initialize', async () => {
		const { error } = await ask('tools/list', {}, { ...meta(), [prefix + 'protocolVersion']: '2025-11-25' });
		assert.equal(error.code, -32022);
	});

	for (const missing of ['protocolVersion', 'clientCapabilities'])
		test(`without ${missing}`, async () => {
			const incomplete = meta();
			delete incomplete[prefix + missing];
			assert.equal((await ask('tools/list', {}, incomplete)).error.code, -32602);
		});

	for (const method of ['ping', 'initialize', 'logging/setLevel', 'resources/subscribe', 'tasks/list', 'tasks/result', 'what'])
		test(`${method} is not there`, async () => assert.equal((await ask(method)).error.code, -32601));
});

describe('fields of each revision', () => {
	for (const [revision, has] of Object.entries({
		'2024-11-05': { annotations: false, outputSchema: false, structured: false },
		'2025-03-26': { annotations: true, outputSchema: false, structured: false },
		'2025-06-18': { annotations: true, outputSchema: true, structured: true },
		'2025-11-25': { annotations: true, outputSchema: true, structured: true },
	}))
		test(revision, async () => {
			const old = new RawServer();
			await old.ask('initialize', { protocolVersion: revision, capabilities: {}, clientInfo: { name: 't', version: '1' } });
			const [tool] = (await old.ask('tools/list', {}, 2)).result.tools;
			assert.equal('annotations' in tool, has.annotations);
			assert.equal('outputSchema' in tool, has.outputSchema);
			old.call(3, { language: 'bash', code: 'yes | head -c 100000' });
			const { result } = await old.read();
			assert.equal('structuredContent' in result, has.structured);
			assert.equal(result.content.some(block => block.type === 'resource_link'), has.structured);
			assert.equal('resultType' in result, false);
			assert.match(result.content[0].text, /nsbox:\/\/output\/[0-9a-f]{32}\/stdout/);
			await old.stop();
		});

	test('batches: in 2025-03-26 only', async () => {
		const old = new RawServer();
		await old.ask('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 't', version: '1' } });
		old.write('[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":9,"method":"ping"},5]\n');
		assert.equal((await old.read()).id, 8);
		assert.equal((await old.read()).id, 9);
		assert.equal((await old.read()).error.code, -32600);
		old.write('[]\n');
		assert.equal((await old.read()).error.code, -32600);
		await old.stop();
	});
});

describe('outputs that are kept', () => {
	test('read in parts, characters whole', async () => {
		const result = await run({ language: 'python', code: "print('é' * 1500000, end='')" });
		const link = result.content.find(block => block.type === 'resource_link');
		assert.equal(link.size, 3000000);
		let uri = link.uri, whole = '', parts = 0;
		while (uri) {
			const { contents: [part] } = (await ask('resources/read', { uri })).result;
			whole += part.text;
			uri = part._meta?.['nsbox/next'];
			parts++;
		}
		assert.equal(parts, 3);
		assert.equal(whole, 'é'.repeat(1500000));
		assert.ok((await ask('resources/list')).result.resources.some(resource => resource.uri === link.uri));
	});

	test('bytes that are not UTF-8 come as a blob', async () => {
		const result = await run({ language: 'python', code: "import sys; sys.stdout.buffer.write(bytes(range(256)) * 400)" });
		const { uri } = result.content.find(block => block.type === 'resource_link');
		const { contents: [part] } = (await ask('resources/read', { uri })).result;
		assert.deepEqual(Buffer.from(part.blob, 'base64'), Buffer.concat(Array(400).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i)))));
	});

	test('an output that is returned whole is not kept', async () => {
		const result = await run({ language: 'bash', code: 'echo short' });
		assert.deepEqual(result.content.map(block => block.type), ['text']);
	});

	for (const uri of ['nsbox://output/' + '0'.repeat(32) + '/stdout', 'nsbox://output/', 'file:///etc/passwd', ''])
		test(`no resource: ${uri || 'an empty URI'}`, async () => {
			const { error } = await ask('resources/read', { uri });
			assert.equal(error.code, -32602);
			assert.equal(error.data.uri, uri);
		});

	test('only the newest 64', async () => {
		const first = (await run({ language: 'bash', code: 'yes | head -c 50000' })).content.find(block => block.type === 'resource_link');
		for (let i = 0; i < 64; i++)
			await run({ language: 'bash', code: 'yes | head -c 50000' });
		assert.equal((await ask('resources/list')).result.resources.length, 64);
		assert.match((await ask('resources/read', { uri: first.uri })).error.message, /last 64/);
	});
});

describe('images', () => {
	const png = '\\x89PNG\\r\\n\\x1a\\n';

	test('by what is in them; links, FIFOs and inputs are not', async () => {
		const result = await run({
			language: 'python',
			files: { 'given.png': 'GIF89a' },
			code: `import os
open('b.png', 'wb').write(b'${png}1')
open('a.dat', 'wb').write(b'GIF89a2')
open('c', 'wb').write(b'\\xff\\xd8\\xff3')
open('d.webp', 'wb').write(b'RIFF1234WEBP4')
open('text.png', 'w').write('text')
os.symlink('/etc/passwd', 'link.png')
os.mkfifo('fifo.png')
os.mkdir('dir.png')
open('huge.png', 'wb').write(b'${png}' + b'x' * (2 << 20))`,
		});
		const images = result.content.filter(block => block.type === 'image');
		assert.deepEqual(images.map(image => image.mimeType), ['image/gif', 'image/png', 'image/jpeg', 'image/webp']);
		assert.equal(Buffer.from(images[1].data, 'base64').at(-1), 0x31);
		assert.deepEqual(result.structuredContent.images.map(image => image.name), ['a.dat', 'b.png', 'c', 'd.webp']);
		assert.match(result.content[0].text, /1 images? more/);
	});

	test('at most eight', async () => {
		const result = await run({ language: 'python', code: `for i in range(9): open(f'{i}.png', 'wb').write(b'${png}')` });
		assert.equal(result.content.filter(block => block.type === 'image').length, 8);
	});
});

describe('tasks', () => {
	const poll = async (taskId, wanted) => {
		for (let i = 0; i < 600; i++) {
			const { result } = await ask('tasks/get', { taskId }, withTasks);
			if (result.status !== 'working' || !wanted)
				return result;
			await sleep(100);
		}
		throw new Error('the task did not end');
	};

	test('a long call becomes one, and its result is the call\'s', async () => {
		const task = await run({ language: 'bash', code: 'echo begun; sleep 18; echo done; exit 3', timeout: 100 }, withTasks);
		assert.equal(task.resultType, 'task');
		assert.equal(task.status, 'working');
		assert.match(task.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		const ended = await poll(task.taskId, true);
		assert.equal(ended.status, 'completed');
		assert.equal(ended.result.structuredContent.stdout, 'begun\ndone\n');
		assert.equal(ended.result.structuredContent.exit_code, 3);
	});

	test('cancelled', async () => {
		const task = await run({ language: 'bash', code: 'sleep 90', timeout: 100 }, withTasks);
		assert.equal((await ask('tasks/cancel', { taskId: task.taskId }, withTasks)).result.resultType, 'complete');
		assert.equal((await poll(task.taskId)).status, 'cancelled');
		assert.ok((await ask('tasks/cancel', { taskId: task.taskId }, withTasks)).result);
	});

	test('not for a client that does not know them', async () => {
		const result = await run({ language: 'bash', code: 'sleep 11; echo whole', timeout: 100 });
		assert.equal(result.resultType, 'complete');
		assert.equal(result.structuredContent.stdout, 'whole\n');
		const { error } = await ask('tasks/get', { taskId: 'x' });
		assert.equal(error.code, -32021);
		assert.deepEqual(error.data, { requiredCapabilities: { extensions: { [prefix + 'tasks']: {} } } });
	});

	test('an unknown one', async () => assert.equal((await ask('tasks/get', { taskId: 'x' }, withTasks)).error.code, -32602));
});
