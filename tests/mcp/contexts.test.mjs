// SPDX-License-Identifier: MIT
// Contexts: interpreters that are kept between calls of sandbox_exec, by drivers that do what is asked and drivers that do
// not (tests/contexts/languages).

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { nsbox, text, until } from './helpers.mjs';

process.env.NSBOX_LANGUAGES_DIR = join(dirname(nsbox), 'toys');
const { Sandbox, connectTools, session } = await import('./sandboxes.mjs');

const server = await connectTools();
after(server.close);
const { call, failure, initialize, tool } = server;
const toy = () => initialize({ language: 'toy' });
const cell = (box, code, more) => box.exec({ context: 'a', code, ...more });
const states = async box => Object.fromEntries((await box.tool('context_list', {})).contexts.map(one => [one.name, one.state]));
const blocks = async (box, code, more) => (await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code, ...more })).content;

describe('what is kept', { concurrency: 4 }, () => {
	test('variables are, and the last value comes back', async () => {
		const box = await toy();
		const first = await cell(box, 'x = 41\nprint("out")\nx');
		assert.deepEqual([first.stdout, first.status, first.results], ['out\n', 'ok', [{ kind: 'result', text: '41' }]]);
		assert.deepEqual(first.context, { name: 'a', language: 'toy', call: 1 });
		const second = await cell(box, 'x + 1');
		assert.deepEqual([second.results[0].text, second.context.call], ['42', 2]);
		assert.equal(text({ content: await blocks(box, 'print("out")\nx') }), 'out\n41\n');
		assert.deepEqual(await states(box), { a: 'idle' });
		await box.stop();
	});

	test('an error leaves it usable', async () => {
		const box = await toy();
		const wrong = await cell(box, 'y = 1\n1 / 0');
		assert.deepEqual([wrong.status, wrong.ended_by, wrong.error],
			['error', 'exited', { name: 'ZeroDivisionError', message: 'division by zero', line: 1, traceback: 'trace' }]);
		assert.equal((await cell(box, 'y')).results[0].text, '1');
		assert.equal(text({ content: await blocks(box, '1 / 0') }), 'trace\n');
		await box.stop();
	});

	test('two contexts do not mix, and run at the same time', async () => {
		const box = await toy();
		await Promise.all([cell(box, 'x = "a"'), cell(box, 'x = "b"', { context: 'b' })]);
		// Each waits for what the other does.
		const meet = (own, other) => `import time\nopen("${own}", "w").close()\nwhile not os.path.exists("${other}"): time.sleep(0.01)\nx`;
		await Promise.all([cell(box, 'import os'), cell(box, 'import os', { context: 'b' })]);
		const [a, b] = await Promise.all([cell(box, meet('1', '2'), { timeout: 25 }), cell(box, meet('2', '1'), { context: 'b', timeout: 25 })]);
		assert.deepEqual([a.results[0].text, b.results[0].text], ["'a'", "'b'"]);
		await box.stop();
	});

	test('calls of one context come one after the other, in their order', async () => {
		const box = await toy();
		await cell(box, 'seen = []');
		const calls = await Promise.all([...Array(8).keys()].map(i => cell(box, `seen.append(${i})\nlen(seen)`)));
		assert.deepEqual(calls.map(one => one.results[0].text), [...Array(8).keys()].map(i => `${i + 1}`));
		assert.equal((await cell(box, 'seen')).results[0].text, '[0, 1, 2, 3, 4, 5, 6, 7]');
		await box.stop();
	});

	test('files that it changes are told, and images among them shown', async () => {
		const box = await toy();
		const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
		const { content, structuredContent } = await call('sandbox_exec', { sandbox_id: box.id, context: 'a',
			code: `import base64\nopen("/workspace/dot.png", "wb").write(base64.b64decode("${png}")) and None` });
		assert.deepEqual(structuredContent.changes.created.map(file => file.path), ['dot.png']);
		assert.deepEqual(content.filter(part => part.type === 'image').map(part => part.data), [png]);
		await box.stop();
	});
});

describe('output', { concurrency: 4 }, () => {
	test('what children write while a call runs is the call\'s, and what they write later the next one\'s, apart', async () => {
		const box = await toy();
		await cell(box, 'import subprocess, threading, os');
		const during = await cell(box, 'subprocess.run("echo child; echo wrong >&2", shell=True).returncode');
		assert.deepEqual([during.stdout, during.stderr], ['child\n', 'wrong\n']);
		await cell(box, 'p = subprocess.Popen("while ! test -e go; do sleep 0.01; done; echo late; touch done", shell=True)');
		await box.write('go', '');
		await until('it is written', async () => (await box.list('.')).entries.some(entry => entry.name === 'done'));
		const { structuredContent: later, content } = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'print("now")' });
		assert.equal(later.before.stdout, 'late\n');
		assert.equal(later.stdout, 'now\n');
		assert.equal(content[0].text, '[written since the last call]\nlate\n[this call]\nnow\n');
		await box.stop();
	});

	test('a flood is bounded, and can be read whole', async () => {
		const box = await toy();
		const { structuredContent, content } = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'for i in range(40000): print("line", i)' });
		assert.ok(structuredContent.stdout_omitted_bytes > 300000);
		assert.match(structuredContent.stdout, /^line 0\n[^]*bytes left out[^]*line 39999\n$/);
		const uri = content.find(part => part.type === 'resource_link').uri;
		const { contents } = await server.client.readResource({ uri });
		assert.equal(contents[0].text.split('\n').length, 40001);
		await box.stop();
	});

	test('the text of a result is bounded, whatever is shown', async () => {
		const box = await toy();
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a',
			code: 'print("o" * 99999)\nimport sys\nprint("e" * 99999, file=sys.stderr)\n' +
				'for i in range(40): part(i + 1, "display", "text/plain", b"v" * 60000)\nshown = 40\n"r" * 60000' });
		assert.ok(text(result).length < 50000, `${text(result).length}`);
		assert.ok(JSON.stringify(result).length < 9 << 20);
		assert.equal(result.structuredContent.results.length, 41);
		assert.match(text(result), /^o+\n.*left out.*\no+\n\[stderr\]\ne+/);
		const cut = text({ content: await blocks(box, 'for i in range(1, 65):\n    for n in range(16): say(f"cut {cell} {i} display a{n}/{\'x\' * 100} 99999")') });
		assert.ok(cut.length < 5000, `${cut.length}`);
		assert.match(cut, /\n\[1008 representations more were left out\]\n/);
		await box.stop();
	});

	test('and so is the message, with images from wherever, and whatever is long in JSON', async () => {
		const box = await toy();
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: `
png = b"\\x89PNG\\r\\n\\x1a\\n"
for i in range(4):
    part(i + 1, "display", "image/png", png + b"a" * 1000000)
    with open(f"{i}.png", "wb") as file: file.write(png + bytes([i]) * 1000000)
part(5, "display", "image/svg+xml", b"<svg>" + b"\\1" * 900000)
part(6, "display", "image/svg+xml", b"<svg/>")` });
		assert.ok(JSON.stringify(result).length < 9 << 20, `${JSON.stringify(result).length}`);
		const { images, results } = result.structuredContent;
		assert.equal(images.length + results.filter(value => value.image).length, 4);
		assert.deepEqual(results[4].omitted, [{ mime_type: 'image/svg+xml', bytes: 900005 }]);
		assert.equal(result.content[results[5].svg].resource.text, '<svg/>');
		await box.stop();
	});

	test('a NUL does not end it', async () => {
		const box = await toy();
		await cell(box, 'import subprocess\np = subprocess.Popen(r"while ! test -e go; do sleep 0.01; done; printf \'la\\0te\\n\'; touch done", shell=True)');
		await box.write('go', '');
		await until('it is written', async () => (await box.list('.')).entries.some(entry => entry.name === 'done'));
		const shown = await blocks(box, 'print("now")\npart(1, "display", "text/plain", b"a\\0b")\nshown = 1\n"behind"');
		assert.equal(shown[0].text, '[written since the last call]\nla\0te\n[this call]\nnow\na\0b\n\'behind\'\n');
		await box.stop();
	});
});

describe('values', { concurrency: 4 }, () => {
	const png = Buffer.from('89504e470d0a1a0a', 'hex').toString('latin1');

	test('in all their representations', async () => {
		const box = await toy();
		const { structuredContent: { results }, content } = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: `
part(1, "display", "text/plain", b"a frame")
part(1, "display", "text/html", b"<table>")
part(2, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\nrest")
part(2, "display", "application/vnd.nsbox.chart+json", b'{"kind": "line"}')
part(3, "display", "image/svg+xml", b"<svg/>")
part(4, "display", "application/json", b'{"a": [0.1, 0.30000000000000004, 12345678901234567, "\\\\u0000"]}')
part(5, "display", "image/jpeg", b"no jpeg")
say(f"cut {cell} 5 display text/html 999999")
part(5, "display", "text/x-unknown", b"?")
part(6, "display", "text/markdown", b"*m*")
part(6, "display", "text/latex", b"$l$")
part(6, "display", "application/vnd.plotly.v1+json", b"[]")` });
		assert.deepEqual(results, [
			{ kind: 'display', text: 'a frame', html: '<table>' },
			{ kind: 'display', image: 1, chart: { kind: 'line' } },
			{ kind: 'display', svg: 2 },
			{ kind: 'display', json: { a: [0.1, 0.30000000000000004, 12345678901234567, '\0'] } },
			{ kind: 'display', omitted: [{ mime_type: 'image/jpeg', bytes: 7 }, { mime_type: 'text/html', bytes: 999999 }, { mime_type: 'text/x-unknown', bytes: 1 }] },
			{ kind: 'display', markdown: '*m*', latex: '$l$', plotly: [] },
		]);
		assert.deepEqual([content[1].type, content[1].mimeType, Buffer.from(content[1].data, 'base64').toString('latin1')], ['image', 'image/png', png + 'rest']);
		assert.deepEqual([content[2].type, content[2].resource.mimeType, content[2].resource.text], ['resource', 'image/svg+xml', '<svg/>']);
		assert.match(content[2].resource.uri, /^nsbox:\/\/context\/[0-9a-f]{32}\/a\/1\/3\.svg$/);
		assert.match(content[0].text, /^a frame\n[^]*\[text\/html of 999999 bytes left out\]\n/);
		await box.stop();
	});

	test('that are not what they say are kept as text, or left out', async () => {
		const box = await toy();
		const { results } = await cell(box, `
part(1, "display", "application/json", b"{")
part(2, "display", "application/json", b"[" * 3000 + b"]" * 3000)
part(3, "display", "text/plain", b"\\xff\\x00")
part(4, "display", "application/json", b"NaN")
part(5, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\n" + bytes(5 << 20))
part(6, "display", "text/html", b"x" * (1 << 20))`);
		assert.equal(results[0].json_text, '{');
		assert.equal(results[1].json_text.length, 6000);
		assert.equal(results[2].text, '\ufffd\0');
		assert.equal(results[3].json_text, 'NaN');
		assert.deepEqual([results[4].omitted[0].mime_type, results[5].omitted[0].mime_type], ['image/png', 'text/html']);
		await box.stop();
	});

	test('are bounded together', async () => {
		const box = await toy();
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: `
for i in range(20):
    part(2 * i + 1, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\n" + bytes(600000))
    part(2 * i + 2, "display", "text/html", b"\\x00" * 200000)` });
		assert.ok(JSON.stringify(result).length < 9 << 20, `${JSON.stringify(result).length}`);
		assert.equal(result.content.filter(part => part.type === 'image').length, 6);
		assert.equal(result.structuredContent.results.length, 40);
		await box.stop();
	});

	test('more images than one result has are counted in its text', async () => {
		const box = await toy();
		const shown = number => call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: `
for i in range(${number}):
    part(i + 1, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\n" + bytes(100))` });
		assert.doesNotMatch(text(await shown(8)), /left out/);
		const result = await shown(10);
		assert.equal(result.content.filter(part => part.type === 'image').length, 8);
		assert.match(text(result), /^\[2 more images left out: a call returns at most 8, /m);
		assert.deepEqual(result.structuredContent.results.map(value => value.omitted?.length ?? 0), [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
		await box.stop();
	});
});

describe('interruption', { concurrency: 4 }, () => {
	test('of an endless loop keeps the state', async () => {
		const box = await toy();
		await cell(box, 'x = 1\nimport time');
		const running = cell(box, 'x = 2\nwhile True: pass');
		await until('it runs', async () => (await states(box)).a === 'busy');
		assert.deepEqual(await box.tool('context_interrupt', { context: 'a' }), { interrupted: true, obeyed: true, state: 'idle' });
		const result = await running;
		assert.deepEqual([result.status, result.ended_by, result.signal], ['interrupted', 'signaled', 'SIGINT']);
		assert.equal(result.message, 'interrupted');
		assert.equal((await cell(box, 'x')).results[0].text, '2');
		assert.deepEqual(await box.tool('context_interrupt', { context: 'a' }), { interrupted: false, state: 'idle' });
		await box.stop();
	});

	test('by the time limit keeps the state, where it is obeyed', async () => {
		const box = await toy();
		await cell(box, 'x = 2'); // it has started; the rest takes far less than its time
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'x = 3\nwhile True: pass', timeout: 2.5 });
		assert.deepEqual([result.structuredContent.status, result.structuredContent.ended_by], ['interrupted', 'timeout']);
		assert.deepEqual(result.structuredContent.limits_hit.map(hit => hit.limit), ['time']);
		assert.match(text(result), /interrupted: time limit of 2\.5 s[^]*keeps its state/);
		assert.equal((await cell(box, 'x')).results[0].text, '3');
		await box.stop();
	});

	test('that is not obeyed ends the context, and both is said', async () => {
		const box = await toy();
		await cell(box, 'import signal, subprocess\nx = 1');
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', timeout: 2.5,
			code: 'signal.signal(signal.SIGINT, signal.SIG_IGN)\nsubprocess.Popen(["sleep", "1000"])\nwhile True: pass' });
		assert.deepEqual([result.structuredContent.status, result.structuredContent.ended_by], ['ended', 'timeout']);
		assert.match(text(result), /time limit of 2\.5 s[^]*the context has ended: its code did not stop/);
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'x' }), /has ended: .*did not stop[^]*context_restart/);
		assert.deepEqual((await box.tool('process_list', {})).processes, []);
		assert.equal((await box.tool('context_restart', { context: 'a' })).state, 'idle');
		assert.equal((await cell(box, 'x')).error.name, 'NameError');
		await box.stop();
	});

	test('of a call that is cancelled keeps the state', async () => {
		const box = await toy();
		await cell(box, 'x = 4');
		const controller = new AbortController();
		const running = box.exec({ context: 'a', code: 'x = 5\nwhile True: pass' }, { signal: controller.signal });
		await until('it runs', async () => (await states(box)).a === 'busy');
		controller.abort();
		await assert.rejects(running);
		assert.equal((await cell(box, 'x')).results[0].text, '5');
		await box.stop();
	});

	test('of one that is starting ends it, and a call that waits for it can be cancelled', async () => {
		const box = await toy();
		await box.write('slow-start', '');
		const controller = new AbortController();
		const cancelled = box.exec({ context: 'a', code: '1' }, { signal: controller.signal });
		const waiting = failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' });
		const waits = async count => (await box.tool('context_list', {})).contexts.find(one => one.waiting === count);
		await until('both wait', () => waits(2));
		controller.abort();
		await assert.rejects(cancelled);
		await until('one waits', () => waits(1));
		assert.deepEqual(await states(box), { a: 'starting' });
		assert.deepEqual(await box.tool('context_interrupt', { context: 'a' }), { interrupted: true, obeyed: true, was_starting: true, state: 'ended' });
		assert.match(await waiting, /could not be started: its start was interrupted/);
		assert.deepEqual(await states(box), {});
		await box.tool('delete_file', { path: 'slow-start' });
		assert.equal((await cell(box, '1')).results[0].text, '1');
		await box.stop();
	});

	test('is not waited for by what comes after it', async () => {
		const wide = await connectTools({ args: ['--max-parallel', '64'] }); // more than a sandbox is asked at a time
		after(wide.close);
		const box = await wide.initialize({ language: 'toy' });
		const running = [...Array(40).keys()].map(() => cell(box, 'while True: pass').catch(() => null));
		await until('one runs', async () => (await states(box)).a === 'busy');
		assert.equal((await box.tool('context_interrupt', { context: 'a' })).interrupted, true);
		await box.stop();
		await Promise.all(running);
	});
});

describe('ends', { concurrency: 4 }, () => {
	const ends = [
		['exits', 'import sys\nprint("last words")\nsys.stdout.flush()\nos._exit(3)', 'exited', /it exited with status 3/],
		['is killed', 'os.kill(os.getpid(), 9)', 'signaled', /it was ended by SIGKILL/],
		['speaks nonsense', 'say("nonsense")', 'signaled', /speaks nonsense: a header is none/],
		['counts wrongly', 'part(3, "display", "text/plain", b"x")', 'signaled', /speaks nonsense: its values are not counted up/],
		['says too much', 'for i in range(1, 60): part(i, "display", "text/plain", bytes(1 << 20))', 'signaled', /speaks nonsense: it says more than 32 MiB/],
		['closes its replies', 'os.close(reply)\nimport time\ntime.sleep(100)', 'signaled', /has closed its pipes/],
		['takes too much memory', 'hold = bytearray(400 << 20)', 'oom', /it was killed: memory limit/],
	];
	for (const [what, code, endedBy, why] of ends)
		test(`one that ${what} says so, and its session lives`, async () => {
			const box = await initialize({ language: 'toy', memory_limit: '128m' });
			await cell(box, 'import os\nx = 1');
			const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code });
			assert.ok(!result.isError, text(result));
			assert.deepEqual([result.structuredContent.status, result.structuredContent.ended_by], ['ended', endedBy]);
			assert.match(text(result), why);
			if (endedBy === 'oom') {
				assert.deepEqual(result.structuredContent.limits_hit.map(hit => hit.limit), ['memory']);
				// What raises it is said once, and is an argument of the tool that is named.
				assert.match(text(result), /killed: memory limit[^;]*; sandbox_fork with more memory_limit [^;]*; the context has ended: it was killed: memory limit[^;]*$/);
			}
			if (what === 'exits')
				assert.deepEqual([result.structuredContent.stdout, result.structuredContent.exit_code], ['last words\n', 3]);
			assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'x' }), why);
			assert.deepEqual((await box.tool('context_list', {})).contexts.map(one => one.state), ['ended']);
			assert.equal((await cell(box, '7', { context: 'other' })).results[0].text, '7');
			await box.tool('context_restart', { context: 'a' });
			assert.equal((await cell(box, 'x')).error.name, 'NameError');
			await box.stop();
		});

	test('one that ends while nothing runs is told of by the next call', async () => {
		const box = await toy();
		await cell(box, 'import threading, os, time\nthreading.Timer(0.1, lambda: os._exit(5)).start()');
		await until('it has ended', async () => (await states(box)).a === 'ended');
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' }), /has ended: it exited with status 5/);
		await box.stop();
	});

	test('one whose process is ended by process_signal', async () => {
		const box = await toy();
		await cell(box, '1');
		const [process] = (await box.tool('process_list', {})).processes;
		assert.deepEqual([process.context, process.background, process.running], ['a', true, true]);
		await box.tool('process_signal', { process_id: process.process_id });
		await until('it has ended', async () => (await states(box)).a === 'ended');
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' }), /has ended: it was ended by SIGKILL/);
		await box.stop();
	});

	test('one that is restarted ends the call that runs', async () => {
		const box = await toy();
		const running = call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'while True: pass' });
		await until('it runs', async () => (await states(box)).a === 'busy');
		const waiting = failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' });
		await until('the next one waits', async () => (await box.tool('context_list', {})).contexts[0].waiting === 1);
		assert.equal((await box.tool('context_restart', { context: 'a' })).state, 'idle');
		const result = await running;
		assert.deepEqual([result.structuredContent.status, result.structuredContent.ended_by], ['ended', 'cancelled']);
		assert.match(text(result), /a restart was asked for/);
		assert.match(await waiting, /was restarted before this code was run/);
		await box.stop();
	});

	test('one that cannot start says why, and is none', async () => {
		const box = await toy();
		await box.write('no-start', '');
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' }),
			/could not be started: it exited with status 1; it wrote: it will not start/);
		assert.deepEqual(await states(box), {});
		await box.tool('delete_file', { path: 'no-start' });
		assert.equal((await cell(box, '1')).results[0].text, '1');
		await box.stop();
	});

	test('a sandbox is stopped during a call', async () => {
		const box = await toy();
		const running = call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: 'while True: pass' });
		await until('it runs', async () => (await states(box)).a === 'busy');
		await box.stop();
		const result = await running;
		assert.ok(result.isError, text(result));
		assert.match(text(result), /ended/);
	});
});

describe('arguments', { concurrency: 4 }, () => {
	test('that do not go with a context', async () => {
		const box = await toy(), base = { sandbox_id: box.id, context: 'a', code: '1' };
		for (const [name, value] of [['stdin', 'x'], ['args', ['x']], ['file', 'x'], ['command', 'x'], ['env', { A: 'b' }], ['cwd', '/'], ['background', true]])
			assert.match(await failure('sandbox_exec', { ...base, [name]: value }), new RegExp(`context: not with ${name}`));
		assert.match(await failure('sandbox_exec', { ...base, code: undefined }), /context: expected code/);
		for (const name of ['', 'a b', '../x', 'ä', 'x'.repeat(65)])
			assert.match(await failure('sandbox_exec', { ...base, context: name }), /cannot be the name of a context/);
		for (const name of ['context_interrupt', 'context_restart'])
			assert.match(await failure(name, { sandbox_id: box.id, context: 'none' }), /there is no context "none"[^]*context_list/);
		assert.deepEqual((await box.tool('context_list', {})).contexts, []);
		await box.stop();
	});

	test('a language that is another, or has no contexts', async () => {
		const box = await initialize();
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1' }), /which language.*\nGive language;/);
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1', language: 'plain' }), /Plain has no contexts/);
		await cell(box, '1', { language: 'toy' });
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '1', language: 'plain' }), /is one of toy, not of plain/);
		assert.equal((await cell(box, '2')).results[0].text, '2');
		await box.stop();
	});

	test('no more than 16 of them', async () => {
		const box = await initialize({ language: 'toy', memory_limit: '1g' });
		for (let i = 0; i < 16; i++)
			await cell(box, '1', { context: `c${i}` });
		assert.match(await failure('sandbox_exec', { sandbox_id: box.id, context: 'more', code: '1' }), /16 contexts already/);
		session('context', 'end', box.id, 'c0');
		assert.equal((await cell(box, '1', { context: 'more' })).results[0].text, '1');
		await box.stop();
	});
});

describe('growth', () => {
	// Each takes a hundred times its two bytes, where it is taken apart, in the supervisor and in the server.
	test('values of many items are text, and take no memory', async () => {
		const box = await toy();
		const { supervisor } = JSON.parse(session('ls', '--json')).find(entry => entry.id === box.id);
		const { results } = await cell(box, `
part(1, "display", "application/vnd.plotly.v1+json", b"[" + b"1," * 100000 + b"1]")
for i in range(2, 12): part(i, "display", "application/vnd.plotly.v1+json", b"[" + b"[]," * 300000 + b"[]]")`);
		assert.equal(results[0].plotly.length, 100001);
		assert.deepEqual(results.slice(1).map(value => value.plotly), Array(10).fill(undefined));
		for (const pid of [supervisor, server.pid]) {
			const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
			assert.ok(peak < 160 << 10, `${peak} KiB`);
		}
		await box.stop();
	});

	test('code that is not read is not kept', async () => {
		const box = await toy();
		// In place of the driver: it reads headers, and no code.
		await cell(box, `import os
say(f"end {cell} ok")
header = b""
while not header.endswith(b"\\n"): header += os.read(request, 1)
say(f"end {int(header.split()[1])} ok")
import signal
signal.pause()`);
		const result = await call('sandbox_exec', { sandbox_id: box.id, context: 'a', code: '#' + 'x'.repeat(1 << 20) });
		assert.equal(result.structuredContent.status, 'ended');
		assert.match(text(result), /speaks nonsense: it ends code that it has not read/);
		await box.stop();
	});

	test('many calls leave nothing behind in the supervisor', async () => {
		const box = await toy(), calls = process.getuid() === 0 ? 1000 : 200;
		const { supervisor } = JSON.parse(session('ls', '--json')).find(entry => entry.id === box.id) ?? {};
		const descriptors = () => readdirSync(`/proc/${supervisor}/fd`).length;
		const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${supervisor}/status`, 'utf8'))[1]);
		const run = async count => {
			for (let i = 0; i < count; i++)
				assert.equal((await cell(box, 'print("x" * 1000)\n"y" * 1000')).stdout_bytes, 1001);
		};
		await run(50);
		const before = [descriptors(), resident()];
		await run(calls);
		await until('no descriptor is left open', () => descriptors() <= before[0]);
		assert.ok(resident() - before[1] < 512, `${before[1]} KiB, then ${resident()} KiB`);
		await box.stop();
	});
});
