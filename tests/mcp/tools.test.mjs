// SPDX-License-Identifier: MIT
// The tools as a client sees them, wrong arguments, and the ceilings of whoever started the server.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, text } from './helpers.mjs';

let server;
before(async () => server = await connect({ args: ['--max-memory', '256m', '--max-timeout', '20s'] }));
after(() => server.close());

test('the list of tools', async () => {
	const { tools, nextCursor } = await server.client.listTools();
	assert.deepEqual(tools.map(tool => tool.name), ['execute_code', 'list_languages', 'test_sandbox']);
	assert.equal(nextCursor, undefined);
	for (const tool of tools) {
		assert.ok(tool.title && tool.description.length > 100);
		assert.equal(tool.inputSchema.type, 'object');
		assert.equal(tool.inputSchema.additionalProperties, false);
		assert.equal(tool.outputSchema.type, 'object');
		for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
			assert.equal(typeof tool.annotations[hint], 'boolean');
		// Arrays of types are not understood by every client.
		assert.ok(!/"type":\[/.test(JSON.stringify(tool)));
	}
	const { description, inputSchema } = tools[0];
	assert.match(description, /256 MiB/);
	assert.match(inputSchema.properties.language.description, /bash, c, javascript, python/);
	assert.match(inputSchema.properties.memory_limit.description, /at most 256 MiB/);
	assert.match(inputSchema.properties.timeout.description, /at most 20/);
	assert.deepEqual(inputSchema.required, ['code', 'language']);
	assert.deepEqual((await server.client.listTools()).tools, tools);
});

const code = { code: 'echo hi', language: 'bash' };
const wrong = [
	[{}, /^code: missing; expected a string$/],
	[{ code: '' }, /^language: missing/],
	[{ ...code, code: 5 }, /^code: expected a string, got 5$/],
	[{ ...code, language: ['python'] }, /^language: expected a string, got \["python"\]$/],
	[{ ...code, language: 'cobol' }, /^language: unknown language "cobol"; there are: bash, c, javascript, python$/],
	[{ ...code, language: 'ba\u0000sh' }, /^language: expected a string without NUL/],
	[{ ...code, timeout: '5' }, /^timeout: expected a number of seconds, got "5"$/],
	[{ ...code, timeout: 0 }, /^timeout: expected a number of seconds above 0, got 0$/],
	[{ ...code, timeout: -1 }, /^timeout: .*above 0, got -1/],
	[{ ...code, timeout: 21 }, /^timeout: 21 s is above the 20 s .*\n.*--max-timeout/],
	[{ ...code, timeout: 1e300 }, /^timeout: .*--max-timeout/s],
	[{ ...code, memory_limit: 512 }, /^memory_limit: expected a string, got 512$/],
	[{ ...code, memory_limit: 'much' }, /^memory_limit: /],
	[{ ...code, memory_limit: '1' }, /memory/],
	[{ ...code, memory_limit: '1g' }, /^memory_limit: 1 GiB is above the 256 MiB .*\n.*--max-memory/],
	[{ ...code, network: 'host' }, /^network: expected "none", .*got "host"\n/],
	[{ ...code, network: true }, /^network: expected a string, got true/],
	[{ ...code, args: 'x' }, /^args: expected an array of strings, got "x"$/],
	[{ ...code, args: ['a', 1] }, /^args\[1\]: expected a string, got 1$/],
	[{ ...code, args: ['a\u0000'] }, /^args\[0\]: .*NUL/],
	[{ ...code, env: [] }, /^env: expected an object/],
	[{ ...code, env: { A: 1 } }, /^env\.A: expected a string, got 1$/],
	[{ ...code, env: { 'A=B': '' } }, /^env: "A=B"/],
	[{ ...code, env: { '': '' } }, /^env: ""/],
	[{ ...code, stdin: {} }, /^stdin: expected a string, got \{\}$/],
	[{ ...code, files: 'x' }, /^files: expected an object/],
	[{ ...code, files: { a: null } }, /^files\.a: expected the file's text, got null$/],
	[{ ...code, files: { '../a': '' } }, /^files: "\.\.\/a": expected a path relative/],
	[{ ...code, files: { 'a/../../b': '' } }, /expected a path relative/],
	[{ ...code, files: { '/etc/passwd': '' } }, /expected a path relative/],
	[{ ...code, files: { '': '' } }, /expected a path relative/],
	[{ ...code, files: { 'a//b': '' } }, /expected a path relative/],
	[{ ...code, files: { 'main.sh': '' } }, /^files: "main\.sh" is where the code itself is written$/],
	[{ ...code, dependencies: ['x'] }, /^dependencies: this version of nsbox cannot install packages yet/],
	[{ ...code, dependencies: 'x' }, /^dependencies: expected an array of strings, got "x"$/],
	[{ ...code, requirements: ['x'] }, /^unknown argument "requirements"; this tool takes code, language, stdin/],
];

describe('wrong arguments: an isError result that says what was expected', () => {
	for (const [args, pattern] of wrong)
		test(JSON.stringify(args).slice(0, 80), async () => {
			const result = await server.run(args);
			assert.equal(result.isError, true);
			assert.equal(result.structuredContent, undefined);
			assert.match(text(result), pattern);
		});

	test('test_sandbox takes none', async () => {
		const result = await server.client.callTool({ name: 'test_sandbox', arguments: { x: 1 } });
		assert.equal(result.isError, true);
		assert.match(text(result), /unknown argument "x"; this tool takes no arguments/);
	});

	test('an unknown tool is an error of the protocol', () =>
		assert.rejects(server.client.callTool({ name: 'nope' }), error => error.code === -32602));
});

describe('the ceilings themselves are allowed', () => {
	for (const args of [{ memory_limit: '256m' }, { memory_limit: '256MiB' }, { timeout: 20 }, { timeout: 0.5 }, { network: 'none' }])
		test(JSON.stringify(args), async () => {
			const result = await server.run({ ...code, ...args });
			assert.equal(text(result), 'hi\n');
			if (args.memory_limit)
				assert.equal(result.structuredContent.limits.memory.value, 256 << 20);
		});
});

test('test_sandbox tells what works, proven by a run', async () => {
	const result = await server.client.callTool({ name: 'test_sandbox' });
	const content = result.structuredContent;
	assert.ok(!result.isError);
	assert.equal(content.works, true, text(result));
	assert.ok(content.setup_ms > 0 && content.setup_ms < 5000);
	assert.notEqual(content.sandbox.host_uid, 0);
	assert.ok(['cgroup', 'watcher'].includes(content.limits.memory.enforced_by));
	assert.equal(content.maximum.memory_bytes, 256 << 20);
	assert.equal(content.maximum.timeout_ms, 20000);
	assert.deepEqual(content.languages.map(language => language.name), ['bash', 'c', 'javascript', 'python']);
	assert.equal(content.languages.find(language => language.name === 'bash').usable, true);
	assert.match(text(result), /^The sandbox works/);
});
