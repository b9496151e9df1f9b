// SPDX-License-Identifier: MIT
// Both eras, by raw wire and by the official clients: every kind of message in every revision (schema.mjs checks
// each), negotiation, and what is refused how.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawServer, connect, endsWithFile, letGo, makePatient, newConversation, newMarker, nsbox, text, toolNames, watchTransport } from './helpers.mjs';
import { legacy, modern, prefix, validate } from './schema.mjs';

const meta = (extra = {}) => ({
	[prefix + 'protocolVersion']: modern,
	[prefix + 'clientCapabilities']: {},
	[prefix + 'clientInfo']: { name: 'nsbox-tests', version: '1' },
	...extra,
});

// A server that is spoken to in one revision. `ask` returns the answer, progress that came before it in `progress`.
class Speaker {
	next = 0;
	progress = [];

	constructor(revision) {
		this.revision = revision;
		this.server = new RawServer();
	}

	async begin() {
		if (this.revision === modern)
			return this.ask('server/discover');
		const answer = await this.ask('initialize',
			{ protocolVersion: this.revision, capabilities: {}, clientInfo: { name: 't', version: '1' } });
		this.server.write({ jsonrpc: '2.0', method: 'notifications/initialized' });
		return answer;
	}

	// `told` hears of progress.
	async ask(method, params = {}, extra = {}, told = () => {}) {
		const id = ++this.next;
		const _meta = this.revision === modern ? meta(extra) : extra;
		this.server.write({ jsonrpc: '2.0', id, method, params: { ...params, _meta } });
		for (;;) {
			const message = await this.server.read();
			if (message.id === id)
				return message;
			this.progress.push(message);
			told(this.progress);
		}
	}

	async call(args, extra, told) {
		return (await this.ask('tools/call', { name: 'execute_code', arguments: args }, extra, told)).result;
	}

	async end() {
		await this.server.stop();
		assert.deepEqual(this.server.lines, []);
		return this.server.conversation;
	}
}

for (const revision of [...legacy, modern])
	describe(revision, () => {
		const later = other => revision >= other;

		test('every kind of message', async () => {
			const speaker = new Speaker(revision);
			const { result: hello } = await speaker.begin();
			assert.equal(revision === modern ? hello.supportedVersions[0] : hello.protocolVersion, revision);
			const { result: { tools } } = await speaker.ask('tools/list');
			assert.deepEqual(tools.map(tool => tool.name), toolNames);
			for (const tool of tools)
				assert.deepEqual(['annotations' in tool, 'title' in tool, 'outputSchema' in tool],
					[later('2025-03-26'), later('2025-06-18'), later('2025-06-18')]);

			const plain = await speaker.call({ language: 'bash', code: 'echo hello' });
			assert.equal(text(plain), 'hello\n');
			assert.equal('structuredContent' in plain, later('2025-06-18'));
			const image = await speaker.call({ language: 'bash', code: "printf GIF89a >a.gif" });
			assert.equal(image.content.find(part => part.type === 'image').mimeType, 'image/gif');
			const wrong = await speaker.call({ language: 'bash', code: 'true', memory_limit: '12 parsecs' });
			assert.equal(wrong.isError, true);
			assert.equal('structuredContent' in wrong, false);
			for (const name of ['list_languages', 'test_sandbox'])
				assert.ok((await speaker.ask('tools/call', { name })).result.content[0].text.includes('python'));

			const long = await speaker.call({ language: 'bash', code: 'yes | head -c 100000' });
			assert.equal(long.content.some(part => part.type === 'resource_link'), later('2025-06-18'));
			const [uri] = text(long).match(/nsbox:\/\/output\/\w+\/stdout/);
			const { result: { contents: [part] } } = await speaker.ask('resources/read', { uri });
			assert.equal(part.text.length, 100000);
			assert.equal((await speaker.ask('resources/list')).result.resources[0].uri, uri);
			assert.equal((await speaker.ask('resources/templates/list')).result.resourceTemplates.length, 3);
			assert.deepEqual((await speaker.ask('prompts/list')).result.prompts, []);

			const marker = newMarker(), said = later('2025-03-26') ? 'begun' : undefined;
			const asSaid = progress => progress.filter(({ params }) => params.message === said);
			await speaker.call({ language: 'bash', code: 'echo begun; sleep 200', args: [marker], timeout: 250 }, { progressToken: 'token' },
				progress => asSaid(progress).length >= 2 && letGo(marker));
			const seconds = speaker.progress.map(message => message.params.progress);
			assert.ok(seconds[0] > 0.5 && seconds.every((second, i) => i === 0 || second > seconds[i - 1]), `${seconds}`);
			assert.ok(asSaid(speaker.progress.slice(-2)).length === 2, JSON.stringify(speaker.progress));
			const { checked } = await speaker.end();
			assert.equal(checked, 13 + seconds.length);
		});

		test('errors', async () => {
			const speaker = new Speaker(revision);
			await speaker.begin();
			const code = async (...request) => (await speaker.ask(...request)).error.code;
			assert.equal(await code('what'), -32601);
			assert.equal(await code('tools/call', { name: 'what' }), -32602);
			assert.equal(await code('tools/list', { cursor: 'x' }), -32602);
			assert.equal(await code('resources/read', { uri: 'nsbox://output/x' }), later(modern) ? -32602 : -32002);
			assert.equal(await code('resources/read', {}), -32602);
			for (const line of ['{', '{"jsonrpc":"1.0"}', '[]']) {
				speaker.server.write(line + '\n');
				const { id, error } = await speaker.server.read();
				assert.equal(error.code, line === '{' ? -32700 : -32600);
				assert.equal(id, revision < '2025-11-25' ? null : undefined);
			}
			await speaker.end();
		});

		// Each was cut inside of a character, and nothing could be made of it.
		test('names longer than what is quoted of them', async () => {
			const speaker = new Speaker(revision);
			await speaker.begin();
			for (let shift = 0; shift < 4; shift++) {
				const name = 'x'.repeat(shift) + '🙂'.repeat(500);
				assert.equal((await speaker.ask(name)).error.code, -32601);
				assert.equal((await speaker.ask('tools/call', { name })).error.code, -32602);
				assert.ok((await speaker.ask('resources/read', { uri: name })).error.message.includes('🙂'));
				assert.equal((await speaker.call({ [name]: 1 })).isError, true);
				assert.equal((await speaker.call({ code: '', language: name })).isError, true);
				assert.equal((await speaker.call({ code: '', language: 'bash', files: { [name + '/..']: '' } })).isError, true);
				assert.equal((await speaker.call({ code: '', language: 'bash', env: { [name]: 1 } })).isError, true);
			}
			await speaker.end();
		});

		if (revision !== modern)
			test('ping, and what is of the other era', async () => {
				const speaker = new Speaker(revision);
				await speaker.begin();
				assert.deepEqual((await speaker.ask('ping')).result, {});
				for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
					assert.equal((await speaker.ask(method, { taskId: 'x' })).error.code, -32601);
				await speaker.end();
			});
	});

test('initialize for 2026-07-28, which has none, agrees on the newest that has', async () => {
	const speaker = new Speaker('2025-11-25');
	speaker.revision = '2026-07-28 by initialize';
	assert.equal((await speaker.begin()).result.protocolVersion, '2025-11-25');
	await speaker.end();
});

test('a revision that is not spoken: −32022 with those that are', async () => {
	const speaker = new Speaker(modern);
	for (const requested of ['2099-01-01', '2025-11-25', '', '2026-07-28\n']) {
		const { error } = await speaker.ask('server/discover', {}, { [prefix + 'protocolVersion']: requested });
		assert.equal(error.code, -32022);
		assert.deepEqual(error.data, { supported: [modern], requested });
	}
	await speaker.end();
});

describe('_meta that is missing', () => {
	test('in part: −32602', async () => {
		const speaker = new Speaker(modern);
		for (const absent of ['protocolVersion', 'clientCapabilities'])
			assert.equal((await speaker.ask('tools/list', {}, { [prefix + absent]: undefined })).error.code, -32602);
		const { error } = await speaker.ask('tools/list', {},
			{ [prefix + 'protocolVersion']: undefined, [prefix + 'clientCapabilities']: undefined });
		assert.match(error.message, /protocolVersion/);
		assert.equal((await speaker.ask('tools/list', {}, { [prefix + 'clientInfo']: undefined })).error, undefined);
		await speaker.end();
	});

	test('wholly, from a client that had it before', async () => {
		const server = new RawServer();
		assert.ok((await server.ask('tools/list')).result, 'before that it may be of a connection');
		assert.equal((await server.ask('server/discover')).error.code, -32602);
		await server.ask('server/discover', { _meta: meta() });
		for (const method of ['tools/list', 'tools/call', 'resources/list', 'tasks/get'])
			assert.equal((await server.ask(method)).error.code, -32602, method);
		// The other era stays open to it.
		await server.ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } });
		assert.ok((await server.ask('tools/list')).result);
		assert.equal((await server.ask('tools/list', { _meta: meta() })).result.resultType, 'complete');
		await server.stop();
	});
});

async function connectNew(mode) {
	const transport = new StdioClientTransport({ command: nsbox, args: ['mcp'], env: process.env, stderr: 'pipe' });
	watchTransport(transport, newConversation());
	const client = makePatient(new Client({ name: 'nsbox-tests', version: '1' }, { versionNegotiation: { mode } }));
	const errors = [];
	client.onerror = error => errors.push(error);
	await client.connect(transport);
	endsWithFile(transport.pid);
	return { client, errors };
}

async function useClient(client) {
	const { tools } = await client.listTools();
	assert.deepEqual(tools.map(tool => tool.name), toolNames);
	const marker = newMarker();
	const run = (args, options) => client.callTool({ name: 'execute_code', arguments: args }, options);
	const result = await run({ language: 'bash', code: 'echo x; sleep 200; echo y', args: [marker], timeout: 250 },
		{ onprogress: ({ message }) => message === 'x' && letGo(marker) });
	assert.equal(text(result), 'x\ny\n');
	const long = await run({ language: 'bash', code: 'yes é | head -c 90000' });
	const { uri } = long.content.find(part => part.type === 'resource_link');
	assert.equal((await client.readResource({ uri })).contents[0].text.length, 60000);
	assert.deepEqual((await client.listPrompts()).prompts, []);
	assert.equal((await run({ language: 'bash' })).isError, true);
	await assert.rejects(client.readResource({ uri: 'nsbox://output/none' }));
	const abort = new AbortController();
	const cancelled = run({ language: 'bash', code: 'sleep 20' }, { signal: abort.signal });
	setTimeout(() => abort.abort(), 200);
	await assert.rejects(cancelled);
	assert.equal(text(await run({ language: 'bash', code: 'echo on' })), 'on\n');
}

describe('the official clients', () => {
	for (const [mode, revision] of [['legacy', '2025-11-25'], ['auto', modern], [{ pin: modern }, modern]])
		test(`2.x, ${JSON.stringify(mode)}: ${revision}`, async () => {
			const { client, errors } = await connectNew(mode);
			assert.equal(client.getNegotiatedProtocolVersion(), revision);
			await useClient(client);
			assert.deepEqual(errors, []);
			await client.close();
		});

	test('1.x', async () => {
		const { client, errors, run, close } = await connect();
		assert.equal(text(await run({ language: 'bash', code: 'echo hello' })), 'hello\n');
		assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 3);
		assert.deepEqual(errors, []);
		await close();
	});
});

// A check that passes whatever it is given is none.
describe('the schemas refuse', () => {
	const result = { content: [{ type: 'text', text: 'x' }] };
	for (const revision of [...legacy, modern]) {
		const good = revision === modern ? { ...result, resultType: 'complete' } : result;
		test(revision, () => {
			assert.deepEqual(validate(revision, 'CallToolResult', good), []);
			for (const change of [{ content: 'x' }, { content: [{ type: 'text' }] }, { isError: 'no' }])
				assert.notDeepEqual(validate(revision, 'CallToolResult', { ...good, ...change }), []);
			assert.notDeepEqual(validate(revision, 'ListToolsResult', { ...good, ttlMs: 0, cacheScope: 'public', tools: [{ name: 'x' }] }), []);
			assert.notDeepEqual(validate(revision, 'ProgressNotification',
				{ jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }), []);
		});
	}

	test('what 2026-07-28 wants of all results', () => {
		assert.notDeepEqual(validate(modern, 'CallToolResult', result), []);
		assert.notDeepEqual(validate(modern, 'ListToolsResult', { resultType: 'complete', tools: [] }), []);
	});
});
