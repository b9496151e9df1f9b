// SPDX-License-Identifier: MIT
// Snapshots of sandboxes that last: kept, forked, gone back to, listed, deleted; and one for every call.
//
// NSBOX_TEST_SNAPSHOTS   how many one sandbox is to have in a row (default: 100)

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, afterEach, describe } from 'node:test';
import { descendants, text, until } from './helpers.mjs';
import { Sandbox, connectTools, session, sockets, test } from './sandboxes.mjs';

const onDisk = `${tmpdir()}/nsbox-snapshots.`;
process.env.NSBOX_STORE = mkdtempSync(onDisk);
after(() => rmSync(process.env.NSBOX_STORE, { recursive: true, force: true }));
const bound = mkdtempSync(`${tmpdir()}/nsbox-bound.`);
after(() => rmSync(bound, { recursive: true, force: true }));

const server = await connectTools();
after(server.close);
const { initialize, failure, tool, call } = server;

const folder = name => {
	try {
		return readdirSync(`${process.env.NSBOX_STORE}/snapshots/${name}`);
	} catch {
		return [];
	}
};

// A sandbox on disk, or the test is skipped: where the store is in memory there are no snapshots.
async function onDiskOnly(context) {
	const box = await initialize();
	const { storage, storage_note } = JSON.parse(session('ls', '--json')).find(entry => entry.id === box.id);
	if (storage === 'disk')
		return box;
	await box.stop();
	context?.skip(storage_note);
	return null;
}

const fork = async args => new Sandbox(tool, (await tool('sandbox_fork', args)).sandbox_id);

// Steps of a sandbox. More take longer, and find as much.
const many = Number(process.env.NSBOX_TEST_SNAPSHOTS || 100);

// What is done in a step: the same in a sandbox and on the host. Times are set, so that they can be compared.
function step(n) {
	const k = (n * 7919 + Math.floor(n / 9)) % 7;
	return [
		`if [ -d f${k} ]; then rm -r f${k}; fi; echo ${n} >f${k}; touch -d @${n} f${k}`,
		`rm -rf f${k}`,
		`rm -rf f${k}; mkdir f${k}; echo ${n} >f${k}/in; touch -d @${n} f${k}/in f${k}`,
		`rm -rf f${k}; echo back ${n} >f${k}; chmod 640 f${k}; touch -d @${n} f${k}`,
		`rm -rf d${k}; mkdir -p d${k}/sub; echo ${n} >d${k}/new${n % 5}; echo ${n} >d${k}/sub/x; touch -d @${n} d${k}/* d${k}/sub/x d${k}`,
		`mkdir -p d${k}/sub/deep; echo ${n} >>d${k}/sub/deep/a; touch -d @${n} d${k}/sub/deep/a d${k}/sub/deep d${k}/sub d${k}`,
		`rm -rf d${k}/sub; if [ -d d${k} ]; then touch -d @${n} d${k}; fi`,
		`rm -rf l${k}; ln -s 'target ${n}' l${k}; touch -h -d @${n} l${k}`,
		`rm -f p${k} q${k}; echo ${n} >p${k}; touch -d @${n} p${k}; ln p${k} q${k}`,
	][n % 9];
}

const view = `export LC_ALL=C; find . -mindepth 1 \\( -type d -printf '%p d %m %T@\\n' \\) -o -mindepth 1 -printf '%p %y %m %T@ %s %l\\n' | sort
find . -type f | sort | xargs md5sum
for f in p*; do if [ "$f" -ef "q\${f#p}" ]; then echo "$f has two names"; fi; done`;

describe('snapshots', () => {
	// What a failed test leaves is not to fail others.
	afterEach(() => session('snapshots', '-q').split('\n').filter(Boolean).forEach(id => session('snapshots', 'rm', id)));

	test('back to an earlier one, and to a later one', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		await box.write('a', 'one\n');
		const first = await box.tool('sandbox_snapshot', { name: 'first' });
		assert.equal(first.how, 'frozen');
		assert.equal(first.copied_bytes, 0);
		assert.equal(first.name, 'first');
		assert.match(first.snapshot_id, /^[0-9a-f]{32}$/);
		await box.output('echo two >a; mkdir d; echo x >d/x');
		const second = await box.tool('sandbox_snapshot', {});
		assert.equal(second.parent_id, first.snapshot_id);
		await box.output('cd /; rm -rf /workspace/* /tmp/* /etc/hosts');
		assert.deepEqual(await box.tool('sandbox_restore', { snapshot_id: 'first' }),
			{ sandbox_id: box.id, snapshot_id: first.snapshot_id, ended_commands: 0, ended_contexts: 0 });
		assert.equal(await box.output('cat a; ls; grep -c localhost /etc/hosts'), 'one\na\n2\n');
		await box.tool('sandbox_restore', { snapshot_id: second.snapshot_id });
		assert.equal(await box.output('cat a d/x'), 'two\nx\n');
		assert.deepEqual((await tool('snapshot_list')).snapshots.map(({ snapshot_id, name, sandbox_id, parent_id, root }) =>
			({ snapshot_id, name, sandbox_id, parent_id, root })), [
			{ snapshot_id: first.snapshot_id, name: 'first', sandbox_id: box.id, parent_id: undefined, root: 'host' },
			{ snapshot_id: second.snapshot_id, name: undefined, sandbox_id: box.id, parent_id: first.snapshot_id, root: 'host' }]);
		await box.stop();
		const later = await fork({ snapshot_id: second.snapshot_id });
		await tool('snapshot_delete', { snapshot_id: 'first' });
		await tool('snapshot_delete', { snapshot_id: second.snapshot_id });
		assert.deepEqual((await tool('snapshot_list')).snapshots, []);
		assert.equal(await later.output('cat a d/x'), 'two\nx\n');
		await later.stop();
		await until('no layer', () => folder('layers').length === 0);
	});

	test('a fork has the files, and neither sees what the other does then', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		await box.output('echo shared >s; echo mine >m');
		const other = await fork({ sandbox_id: box.id, ttl: 60, memory_limit: '100m' });
		await other.output('cat s; rm m; echo theirs >t');
		await box.output('echo changed >s');
		assert.equal(await box.output('ls; cat s'), 'm\ns\nchanged\n');
		assert.equal(await other.output('ls; cat s'), 's\nt\nshared\n');
		const info = JSON.parse(session('ls', '--json')).find(entry => entry.id === other.id);
		assert.equal(info.idle_limit_s, 60);
		assert.equal(info.memory_limit_bytes, 100 << 20);
		await box.stop();
		assert.equal(await other.output('cat s'), 'shared\n');
		await other.stop();
		await until('no layer', () => folder('layers').length === 0);
		assert.deepEqual(folder('records'), []);
	});

	test('a call with snapshot, fifty times, and back to each', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const ids = [];
		for (let i = 0; i < 50; i++) {
			const result = await box.exec({ command: `echo ${i} >n; echo ${i} >f${i}`, snapshot: true });
			assert.equal(result.exit_code, 0);
			assert.equal(result.snapshot_how, 'frozen');
			ids.push(result.snapshot_id);
		}
		for (const i of [0, 49, 25]) {
			await box.tool('sandbox_restore', { snapshot_id: ids[i] });
			assert.equal(await box.output('cat n; ls | wc -l'), `${i}\n${i + 2}\n`);
		}
		for (const id of ids)
			await tool('snapshot_delete', { snapshot_id: id });
		await box.stop();
		await until('no layer', () => folder('layers').length === 0);
	});

	test('what runs goes on, and is in none; a restore ends it', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const process = await box.background('i=0; while :; do i=$((i+1)); echo $i >n.new; mv n.new n; done');
		await until('it writes', async () => (await box.output('cat n 2>/dev/null || :')) !== '');
		const result = await box.exec({ command: 'echo kept >kept', snapshot: true });
		assert.equal(result.snapshot_how, 'copied');
		const before = Number(await box.output('cat n'));
		await until('it goes on', async () => Number(await box.output('cat n')) > before);
		const restored = await box.tool('sandbox_restore', { snapshot_id: result.snapshot_id });
		assert.equal(restored.ended_commands, 1);
		assert.match(await box.output('cat kept n'), /^kept\n[0-9]+\n$/);
		assert.deepEqual((await box.tool('process_list', {})).processes.filter(entry => entry.running), []);
		assert.equal((await box.tool('process_output', { process_id: process })).running, false);
		await tool('snapshot_delete', { snapshot_id: result.snapshot_id });
		await box.stop();
	});

	test('a restore ends contexts, which the next code begins anew, and says so', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const bash = code => call('sandbox_exec', { sandbox_id: box.id, context: 'a', language: 'bash', code });
		const { snapshot_id } = await tool('sandbox_snapshot', { sandbox_id: box.id });
		await bash('x=1');
		assert.match(text(await call('sandbox_restore', { sandbox_id: box.id, snapshot_id })), /1 contexts were ended. The next code .* anew/);
		const anew = await bash('echo "x is $x."');
		assert.equal(text(anew), 'x is .\n[the context was started anew after a restore: its variables are gone]');
		assert.match(anew.structuredContent.note, /anew/);
		assert.equal((await bash('echo again')).structuredContent.note, undefined);
		await tool('snapshot_delete', { snapshot_id });
		await box.stop();
	});

	test('a call that fails has one as well', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const result = await call('sandbox_exec', { sandbox_id: box.id, command: 'echo x >x; exit 3', snapshot: true });
		assert.equal(result.structuredContent.exit_code, 3);
		assert.match(result.structuredContent.snapshot_id, /^[0-9a-f]{32}$/);
		assert.match(text(result), new RegExp(`\\[snapshot_id: ${result.structuredContent.snapshot_id}\\]`));
		await tool('snapshot_delete', { snapshot_id: result.structuredContent.snapshot_id });
		await box.stop();
	});

	// What waits for the end of the copy is served in one go: the restore ends the call that the copy is for.
	test('a restore and calls that come while files are copied for another call', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		await box.output('head -c 60000000 /dev/zero | tr "\\0" x >big');
		const { snapshot_id } = await tool('sandbox_snapshot', { sandbox_id: box.id });
		const { supervisor } = JSON.parse(session('ls', '--json')).find(entry => entry.id === box.id);
		// Where the copy is over before it is seen, that round shows nothing.
		for (let seen = 0, round = 0; seen < 4; round++) {
			assert.ok(round < 60, `${seen} copies were seen`);
			await box.background('sleep 60');
			let over = false;
			const calls = [call('sandbox_exec', { sandbox_id: box.id, command: 'echo first >>big', snapshot: true }).finally(() => over = true)];
			await until('the copy', () => over || descendants(supervisor).some(({ name }) => name === 'nsbox-snapshot'));
			seen += !over;
			calls.push(call('sandbox_restore', { sandbox_id: box.id, snapshot_id }));
			for (let i = 0; i < 3; i++)
				calls.push(call('sandbox_exec', { sandbox_id: box.id, command: `sleep 0.2; echo ${i}` }));
			for (const result of await Promise.all(calls))
				assert.doesNotMatch(text(result), /makes no sense/);
			assert.equal(await box.output('echo here'), 'here\n');
		}
		for (const snapshot of (await tool('snapshot_list')).snapshots)
			await tool('snapshot_delete', { snapshot_id: snapshot.snapshot_id });
		await box.stop();
	});

	test('hundreds of steps with a snapshot each: what is kept of them is what there was', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const model = mkdtempSync(`${tmpdir()}/nsbox-model.`);
		const kept = [];
		let steps = 0;
		const go = async (count, every) => {
			for (let i = 0; i < count; i++) {
				const command = step(++steps);
				execFileSync('sh', ['-c', command], { cwd: model });
				const { snapshot_id } = await box.exec({ command: `mkdir -p tree && cd tree && { ${command}\n}`, snapshot: true });
				if (steps % every === 0)
					kept.push({ snapshot_id, seen: execFileSync('sh', ['-c', view], { cwd: model, encoding: 'utf8' }) });
				else if (steps % 3)
					await tool('snapshot_delete', { snapshot_id });
			}
		};
		const compare = async () => {
			for (const { snapshot_id, seen } of kept) {
				const copy = await fork({ snapshot_id });
				assert.equal(await copy.output(`cd tree; ${view}`), seen);
				await copy.stop();
			}
		};
		try {
			await go(many, 50);
			await compare();
			const { snapshot_id } = kept[kept.length - 1];
			await box.tool('sandbox_restore', { snapshot_id });
			await go(40, 20);
			await compare();
			const listed = JSON.parse(session('snapshots', '--json'));
			assert.ok(Math.max(...listed.map(({ layers }) => layers)) < 100);
			for (const { id } of listed)
				await tool('snapshot_delete', { snapshot_id: id });
			await box.stop();
			await until('no layer', () => folder('layers').length === 0);
		} finally {
			rmSync(model, { recursive: true });
		}
	});

	test('what cannot be says so', async context => {
		const box = await onDiskOnly(context);
		if (!box)
			return;
		const own = session('new').trim();
		session('exec', own, 'touch', '/workspace/x');
		const theirs = session('snapshot', own).trim();
		assert.deepEqual((await tool('snapshot_list')).snapshots, []);
		assert.match(await failure('sandbox_restore', { sandbox_id: box.id, snapshot_id: theirs }), /there is no snapshot .*\n.*snapshot_list/);
		assert.match(await failure('sandbox_fork', { snapshot_id: theirs }), /there is no sandbox and no snapshot/);
		assert.match(await failure('sandbox_fork', { sandbox_id: own }), /there is no/);
		assert.match(await failure('snapshot_delete', { snapshot_id: theirs }), /there is no snapshot/);
		assert.match(await failure('sandbox_snapshot', { sandbox_id: own }), /there is no sandbox/);
		assert.match(await failure('sandbox_fork', {}), /expected one of sandbox_id and snapshot_id, got none/);
		assert.match(await failure('sandbox_fork', { sandbox_id: box.id, snapshot_id: theirs }), /got both/);
		assert.match(await failure('sandbox_fork', { sandbox_id: box.id, network: 'host' }), /network/);
		assert.match(await failure('sandbox_snapshot', { sandbox_id: box.id, name: '../x' }), /name: expected/);
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, command: 'true', background: true, snapshot: true }), /snapshot: not with background/);
		for (const [options, more, pattern] of [
			[['--network', 'host'], {}, /^network: it has "host", .*\n.*--allow-network/],
			[['--network', 'allow=a.example'], {}, /^network: it has "allow=a\.example", .*\n.*--allow-network/],
			[['-m', '3g'], {}, /^memory_limit: it has 3 GiB, above the 2 GiB .*\n.*--max-memory/],
			[['--workspace', bound], { network: 'none' }, /it can write to .* of the host/],
		]) {
			const shared = session('new', '--mcp', ...options).trim();
			assert.match(await failure('sandbox_fork', { sandbox_id: shared, ...more }), pattern);
			if (options[0] !== '--workspace')
				await tool('sandbox_stop', { sandbox_id: (await fork({ sandbox_id: shared, network: 'none', memory_limit: '64m' })).id });
			session('stop', shared);
		}
		session('snapshots', 'rm', theirs);
		session('stop', own);
		await box.stop();
		assert.equal(sockets().length, 0);
	});
});
