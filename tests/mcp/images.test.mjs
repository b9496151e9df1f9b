// SPDX-License-Identifier: MIT
// Calls in images, with the client of the SDK: an image that is in the store, one that is fetched from a registry of the
// test's own on the loopback interface, and what the server does not allow.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect, nsbox, sleep, text, until } from './helpers.mjs';

const busybox = ['/usr/bin/busybox', '/bin/busybox'].find(existsSync);
const skip = !busybox ? 'busybox is not installed'
	: !existsSync(join(dirname(nsbox), 'nsbox-image')) && 'this build has no images';

let place, registry, env, remote, held;

// Serves the OCI layout in `folder`; a blob is held back while `held` says so.
async function serve(folder) {
	const index = JSON.parse(await readFile(join(folder, 'index.json')));
	const manifest = index.manifests[0].digest;
	const server = createServer(async (request, response) => {
		const [kind, name] = request.url.split('/').slice(-2);
		if (kind !== 'manifests' && kind !== 'blobs')
			return response.end();
		const digest = kind === 'manifests' && !name.startsWith('sha256:') ? manifest : name;
		const body = await readFile(join(folder, 'blobs', 'sha256', digest.slice(7)));
		if (kind === 'blobs')
			await held;
		const type = kind === 'manifests' ? { 'Content-Type': JSON.parse(body).mediaType } : {};
		response.writeHead(200, { ...type, 'Docker-Content-Digest': digest, 'Content-Length': body.length });
		response.end(request.method === 'HEAD' ? undefined : body);
	});
	await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
	return server;
}

before(async () => {
	if (skip)
		return;
	place = await mkdtemp(join(tmpdir(), 'nsbox-mcp-images.'));
	const tree = join(place, 'tree'), languages = join(place, 'languages');
	await mkdir(join(tree, 'bin'), { recursive: true });
	await copyFile(busybox, join(tree, 'bin/busybox'));
	await chmod(join(tree, 'bin/busybox'), 0o755);
	for (const name of ['sh', 'sleep', 'cat'])
		await symlink('busybox', join(tree, 'bin', name));
	await writeFile(join(tree, 'bin/toy'), '#!/bin/sh\n[ "$1" = --version ] && exec echo toy 4.5\n. "$1"\n', { mode: 0o755 });
	await mkdir(languages);
	env = { NSBOX_STORE: join(place, 'store'), NSBOX_LANGUAGES_DIR: languages, HOME: place };
	const run = (...args) => execFileSync(nsbox, ['images', ...args], { env: { ...process.env, ...env }, stdio: 'pipe' });
	execFileSync('tar', ['-C', tree, '-cf', join(place, 'tree.tar'), '.']);
	run('import', join(place, 'tree.tar'), 'localhost/nsbox/toy');
	run('export', 'localhost/nsbox/toy', join(place, 'layout'));
	registry = await serve(join(place, 'layout'));
	remote = `127.0.0.1:${registry.address().port}/far`;
	const language = { name: 'toy', title: 'Toy', extension: 'toy', source: 'main.toy', run: { argv: ['toy', '{source}'] },
		version: ['toy', '--version'], needs: [{ program: 'toy' }] };
	await writeFile(join(languages, 'toy.json'), JSON.stringify(language));
	await writeFile(join(languages, 'far.json'), JSON.stringify({ ...language, name: 'far', image: { remote } }));
});

after(async () => {
	registry?.close();
	registry?.closeAllConnections();
	if (place)
		await rm(place, { recursive: true, force: true });
});

test('a call runs in the image of its language, and says so', { skip }, async () => {
	const server = await connect({ env });
	const { structuredContent: run } = await server.run({ language: 'toy', code: 'echo $0; exit 3' });
	assert.equal(run.exit_code, 3);
	assert.equal(run.root, 'localhost/nsbox/toy:latest');
	assert.match(run.root_digest, /^sha256:[0-9a-f]{64}$/);
	const named = await server.run({ language: 'far', code: 'echo hi', image: 'localhost/nsbox/toy' });
	assert.equal(named.structuredContent.stdout, 'hi\n');
	const { languages } = (await server.client.callTool({ name: 'list_languages', arguments: {} })).structuredContent;
	const by = Object.fromEntries(languages.map(one => [one.name, one]));
	assert.deepEqual([by.toy.root, by.toy.ready, by.toy.version], [run.root, true, '4.5']);
	assert.deepEqual([by.far.root, by.far.ready, by.far.image.remedy], ['host', false, `nsbox pull ${remote}`]);
	assert.deepEqual(server.errors, []);
	await server.close();
});

test('what the server does not allow is an error that names the option', { skip }, async () => {
	const server = await connect({ env });
	for (const [args, option] of [[{ image: 'evil.example/x:1' }, '--allow-image'], [{ image: remote }, '--allow-pull']]) {
		const result = await server.run({ language: 'toy', code: 'echo', ...args });
		assert.equal(result.isError, true);
		assert.match(text(result), new RegExp(option));
	}
	await server.close();
});

test('an image is fetched during a call: progress, other calls meanwhile, an end by cancelling', { skip }, async () => {
	const server = await connect({ env, args: ['--allow-pull', '--image-policy', 'pull'] });
	let release;
	held = new Promise(resolve => release = resolve);
	const cancel = new AbortController();
	const cancelled = server.run({ language: 'far', code: 'echo' }, { signal: cancel.signal });
	cancelled.catch(() => {});
	await sleep(500);
	cancel.abort();
	await assert.rejects(cancelled);
	const told = [];
	const far = server.run({ language: 'far', code: 'echo there' }, { onprogress: progress => told.push(progress) });
	assert.equal((await server.run({ language: 'toy', code: 'echo meanwhile' })).structuredContent.stdout, 'meanwhile\n');
	await until('progress', () => told.length >= 2);
	release();
	const { structuredContent: run } = await far;
	assert.deepEqual([run.stdout, run.root], ['there\n', `${remote}:latest`]);
	assert.match(told[0].message, new RegExp(`fetching the image ${remote}`));
	assert.deepEqual(server.errors, []);
	await server.close();
});
