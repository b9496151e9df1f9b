// SPDX-License-Identifier: MIT
// The tools as a client sees them, wrong arguments, and the ceilings of whoever started the server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RawServer, connect, sleep, supervisors, text, toolNames, until } from './helpers.mjs';

let server;
before(async () => server = await connect({ args: ['--max-memory', '256m', '--max-timeout', '20s'] }));
after(() => server.close());

test('the list of tools', async () => {
	const { tools, nextCursor } = await server.client.listTools();
	assert.deepEqual(tools.map(tool => tool.name), toolNames);
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
	assert.match(inputSchema.properties.language.description, /bash, c, cpp, go, java, javascript, lua, perl, php, python, r, ruby, rust, typescript/);
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
	[{ ...code, language: 'cobol' }, /^language: unknown language "cobol"; there are: bash, c, cpp, .*, typescript$/],
	[{ ...code, language: 'ba\u0000sh' }, /^language: expected a string without NUL/],
	[{ ...code, timeout: '5' }, /^timeout: expected a number of seconds, got "5"$/],
	[{ ...code, timeout: 0 }, /^timeout: expected a number of seconds above 0, got 0$/],
	[{ ...code, timeout: -1 }, /^timeout: .*above 0, got -1/],
	[{ ...code, timeout: 21 }, /^timeout: 21 s is above the 20 s .*\n.*--max-timeout/],
	[{ ...code, timeout: 1e300 }, /^timeout: .*--max-timeout/s],
	[{ ...code, memory_limit: 512 }, /^memory_limit: expected a size in a string, such as "512m" or "1g", got 512$/],
	[{ ...code, memory_limit: '12 parsecs' }, /^memory_limit: .*"12 parsecs"/],
	[{ ...code, memory_limit: 'much' }, /^memory_limit: /],
	[{ ...code, memory_limit: '1' }, /memory/],
	[{ ...code, memory_limit: '1g' }, /^memory_limit: 1 GiB is above the 256 MiB .*\n.*--max-memory/],
	[{ ...code, network: 'host' }, /^network: this server does not allow "host"\n.*--allow-network host/],
	[{ ...code, network: 'pasta' }, /^network: this server does not allow "pasta"\n.*--allow-network pasta/],
	[{ ...code, network: 'allow=a.example' }, /^network: this server does not allow a\.example:443\n.*--allow-network a\.example\.$/],
	[{ ...code, network: 'allow=a.example:99999' }, /^network: "a\.example:99999" has no port/],
	[{ ...code, network: 'a.example' }, /^network: expected "none" or "allow=HOST\[:PORT\],…", got "a\.example"/],
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
	[{ ...code, dependencies: ['apt:x'] }, /^dependencies: /],
	[{ ...code, dependencies: ['x'] }, /^dependencies: /],
	[{ ...code, dependencies: [5] }, /^dependencies\[0\]: expected a string, got 5/],
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
	for (const args of [{ memory_limit: '256m' }, { memory_limit: '256MiB' }, { timeout: 20 }, { timeout: 19.5 }, { network: 'none' }])
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
	assert.ok(content.setup_ms > 0 && content.setup_ms < 30000);
	assert.notEqual(content.sandbox.host_uid, 0);
	assert.ok(['cgroup', 'watcher'].includes(content.limits.memory.enforced_by));
	assert.equal(content.maximum.memory_bytes, 256 << 20);
	assert.equal(content.maximum.timeout_ms, 20000);
	assert.deepEqual(content.languages.map(language => language.name), ['bash', 'c', 'cpp', 'go', 'java',
		'javascript', 'lua', 'perl', 'php', 'python', 'r', 'ruby', 'rust', 'typescript']);
	assert.equal(content.languages.find(language => language.name === 'bash').ready, true);
	assert.match(text(result), /^The sandbox works/);
});

test('list_languages: versions, as the toolchains tell them; what is missing, and how to get it', async () => {
	const languages = await mkdtemp(join(tmpdir(), 'nsbox-languages.'));
	await chmod(languages, 0o755);
	for (const name of ['bash', 'python'])
		await copyFile(join(process.env.NSBOX_LANGUAGES_DIR, `${name}.json`), join(languages, `${name}.json`));
	const lacking = JSON.parse(await readFile(join(languages, 'bash.json'), 'utf8'));
	await writeFile(join(languages, 'nope.json'), JSON.stringify({ ...lacking, name: 'nope', aliases: [],
		needs: [{ ...lacking.needs[0], program: 'nsbox-no-such-program' }] }));
	await writeFile(join(languages, 'broken.json'), '{"name": "broken",\n"what": }');
	const own = await connect({ env: { NSBOX_LANGUAGES_DIR: languages } });
	const result = await own.client.callTool({ name: 'list_languages', arguments: {} });
	await own.close();
	await rm(languages, { recursive: true });
	const by = Object.fromEntries(result.structuredContent.languages.map(one => [one.name, one]));
	assert.deepEqual(Object.keys(by), ['bash', 'broken', 'nope', 'python']);
	assert.equal(by.bash.version, spawnSync('bash', ['-c', 'echo ${BASH_VERSION%%(*}'], { encoding: 'utf8' }).stdout.trim());
	assert.match(by.python.version, /^3\.\d+\.\d+$/);
	assert.equal(by.nope.ready, false);
	assert.match(by.nope.missing, /nsbox-no-such-program/);
	assert.ok(by.nope.remedy.length > 10);
	assert.match(by.broken.missing, /broken\.json.*2/);
	assert.deepEqual(text(result).match(/^language \w+/gm), ['language bash', 'language broken', 'language nope', 'language python']);
	assert.ok(text(result).includes(`language bash: ready, version ${by.bash.version}, on the host; it has contexts\n`));
});

test('list_languages takes none, and is cancelled like any call', async () => {
	const result = await server.client.callTool({ name: 'list_languages', arguments: { x: 1 } });
	assert.equal(result.isError, true);
	const raw = new RawServer();
	raw.writeTogether({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_languages' } },
		{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
	assert.deepEqual(await raw.ask('ping', undefined, 2), { jsonrpc: '2.0', id: 2, result: {} });
	await until('no supervisor', () => supervisors(raw.pid).length === 0);
	await sleep(500);
	assert.deepEqual(raw.lines, []);
	await raw.stop();
});
