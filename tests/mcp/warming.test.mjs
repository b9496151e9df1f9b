// SPDX-License-Identifier: MIT
// Languages of the user's own, and caches of compilers that the server fills in the background.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { RawServer, alive, connect, descendants, letGo, newMarker, sleep, text, until, withMarker } from './helpers.mjs';

const folders = [];
after(() => folders.forEach(folder => rmSync(folder, { recursive: true, force: true })));

// A place for one server's user: `env` for the server, and what is in its folder of caches.
function newUser() {
	const folder = mkdtempSync(join(tmpdir(), 'nsbox-user.'));
	const languages = join(folder, 'config/nsbox/languages');
	folders.push(folder);
	mkdirSync(languages, { recursive: true });
	return {
		env: { XDG_CONFIG_HOME: join(folder, 'config'), XDG_CACHE_HOME: join(folder, 'cache') },
		add: (name, language) => writeFileSync(join(languages, `${name}.json`), JSON.stringify({
			name, title: `Test ${name}`, extension: 't', source: 'main.t', needs: [{ program: 'bash' }], ...language })),
		caches: () => {
			try {
				return readdirSync(join(folder, 'cache/nsbox'));
			} catch {
				return [];
			}
		},
	};
}

// A language that prints what is in its cache, which `command` fills.
const cached = (command, marker) => ({
	cache: { argv: ['bash', '-c', command, marker, '{cache}'], timeout_ms: 200000 },
	run: { argv: ['bash', '-c', 'cat $1/file 2>/dev/null || echo cold', 'run', '{cache}'] },
});

// A command that fills it when it is let go.
const filledLate = 'sleep 100; echo filled >$1/file';

test('a language that is added as a file is listed and run', async () => {
	const user = newUser();
	const server = await connect({ env: user.env });
	user.add('shout', { aliases: ['loud'], run: { argv: ['bash', '-c', 'tr a-z A-Z <$0; echo " $*"', '{source}'] }, version: ['bash', '-c', 'echo 7.8.9'] });
	const { languages } = (await server.client.callTool({ name: 'list_languages', arguments: {} })).structuredContent;
	assert.equal(languages.find(language => language.name === 'shout').version, '7.8.9');
	assert.equal(text(await server.run({ language: 'loud', code: 'words', args: ['a', 'b'] })), 'WORDS a b\n');
	await server.close();
});

test('a version is asked for once, and again when the language or its program is another', async () => {
	const user = newUser();
	const server = await connect({ env: user.env });
	const version = async () => {
		const { languages } = (await server.client.callTool({ name: 'list_languages', arguments: {} })).structuredContent;
		return languages.find(language => language.name === 'moody').version;
	};
	user.add('moody', { run: { argv: ['true'] }, version: ['bash', '-c', 'echo 1.2.$(date +%s%N)'] }); // each time another
	const first = await version();
	assert.match(first, /^1\.2\.\d{19}$/);
	assert.equal(await version(), first);
	user.add('moody', { run: { argv: ['true'] }, version: ['bash', '-c', 'echo 1.3.$(date +%s%N)'] });
	assert.match(await version(), /^1\.3\./);
	await server.close();
});

test('the first call begins to fill the cache, and does not wait for it', async () => {
	const user = newUser(), marker = newMarker();
	user.add('slow', cached(filledLate, marker));
	const server = await connect({ env: user.env, args: ['--max-parallel', '1'] });
	assert.deepEqual(user.caches(), []);
	assert.equal(text(await server.run({ language: 'bash', code: 'echo other' })), 'other\n');
	assert.deepEqual(user.caches(), []); // by a call that has no use for it
	assert.equal(text(await server.run({ language: 'slow', code: '' })), 'cold\n');
	assert.equal(text(await server.run({ language: 'slow', code: '' })), 'cold\n');
	await until('the filling', () => withMarker(marker).flatMap(descendants).length === 1);
	letGo(marker);
	await until('the cache in its place', () => user.caches().length === 1 && !user.caches()[0].endsWith('.new'));
	assert.equal(text(await server.run({ language: 'slow', code: '' })), 'filled\n');
	assert.equal(withMarker(marker).length, 0);
	await server.close();
});

test('of two servers one fills the cache, and both use it', async () => {
	const user = newUser(), marker = newMarker();
	user.add('slow', cached(filledLate, marker));
	const servers = [await connect({ env: user.env }), await connect({ env: user.env })];
	for (const server of servers)
		assert.equal(text(await server.run({ language: 'slow', code: '' })), 'cold\n');
	await until('the filling', () => withMarker(marker).flatMap(descendants).length > 0);
	await sleep(1000); // a second one would have begun
	assert.equal(withMarker(marker).length, 1);
	letGo(marker);
	await until('its end', () => withMarker(marker).length === 0);
	await until('the cache in its place', () => user.caches().length === 1 && !user.caches()[0].endsWith('.new'));
	for (const server of servers)
		assert.equal(text(await server.run({ language: 'slow', code: '' })), 'filled\n');
	assert.equal(withMarker(marker).length, 0);
	await Promise.all(servers.map(server => server.close()));
});

for (const [how, end] of [['ends', server => server.stop()], ['is killed', server => server.child.kill('SIGKILL')]])
	test(`a server that ${how} leaves neither a process nor half a cache`, async () => {
		const user = newUser(), marker = newMarker();
		user.add('slow', cached('echo half >$1/file; sleep 60; :', marker));
		const server = new RawServer([], { env: { ...process.env, ...user.env } });
		server.call(1, { language: 'slow', code: '' });
		assert.equal((await server.read()).result.structuredContent.stdout, 'cold\n');
		await until('the filling', () => withMarker(marker).length === 1 && user.caches()[0]?.endsWith('.new'));
		const below = descendants(server.pid);
		await end(server);
		await until('the end of its processes', () => alive(below).length === 0);
		assert.equal(withMarker(marker).length, 0);
		await until('no cache', () => user.caches().length === 0);
	});

test('a cache that cannot be filled is told on standard error, and not tried again', async () => {
	const user = newUser(), marker = newMarker();
	user.add('slow', cached('echo half >$1/file; exit 3', marker));
	const server = new RawServer([], { env: { ...process.env, ...user.env } });
	for (let id = 1; id <= 3; id++) {
		server.call(id, { language: 'slow', code: '' });
		assert.equal((await server.read()).result.structuredContent.stdout, 'cold\n');
		await sleep(300);
	}
	await until('the message', () => server.stderr !== '');
	server.call(4, { language: 'slow', code: '' }); // also when it is known
	await server.read();
	await sleep(300);
	assert.match(server.stderr, /^nsbox mcp: slow: the cache could not be filled: [^\n]*\n$/);
	assert.deepEqual(user.caches(), []);
	await server.stop();
});
