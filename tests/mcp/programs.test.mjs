// SPDX-License-Identifier: MIT
// Sixteen programs in four languages, through the official client: what a model gets to see of each.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, text, timedOut } from './helpers.mjs';

let server;
before(async () => server = await connect({ args: ['--timeout', '2m'] }));
after(() => server.close());

// `text` and `stderr` are a string that must be equal, or patterns that must all match.
const programs = [
	{
		name: 'python: output',
		args: { language: 'python', code: 'import sys\nprint(6 * 7)\nprint(sys.argv, __file__)' },
		text: "42\n['/workspace/main.py'] /workspace/main.py\n",
	},
	{
		name: 'python: Unicode',
		args: { language: 'python', code: 'print("Grüße, 世界 🙂")\nprint(input())', stdin: 'żółw 🐢\n' },
		text: 'Grüße, 世界 🙂\nżółw 🐢\n',
	},
	{
		name: 'python: an exception names its line',
		args: { language: 'python', code: 'print("before")\ndef f():\n    return 1 / 0\nf()' },
		exit_code: 1,
		stdout: 'before\n',
		text: [/^before\n\[stderr\]\n/, /File "\/workspace\/main\.py", line 3, in f/, /ZeroDivisionError/, /\[exit code 1\]$/],
	},
	{
		name: 'python: stdin, args, env, files',
		args: {
			language: 'python',
			code: 'import os, sys\nprint(sys.stdin.read(), sys.argv[1:], os.environ["A"], open("data/in.txt").read())',
			stdin: 'input', args: ['one', '', 'two words', '{source}'], env: { A: 'ä=1' }, files: { 'data/in.txt': 'from a file' },
		},
		text: "input ['one', '', 'two words', '{source}'] ä=1 from a file\n",
	},
	{
		name: 'bash: both streams and an exit code',
		args: { language: 'bash', code: 'echo out; echo err >&2; exit 42' },
		exit_code: 42,
		stderr: 'err\n',
		text: 'out\n[stderr]\nerr\n[exit code 42]',
	},
	{
		name: 'bash: no output at all',
		args: { language: 'bash', code: ':' },
		text: '[no output; exit code 0]',
		stdout: '',
	},
	{
		name: 'bash: 5 MB of output',
		args: { language: 'bash', code: 'printf begin; head -c 4999992 /dev/zero | tr "\\0" x; printf end' },
		text: [/^begin/, /\[… 4979520 bytes left out …\]/, /xend\n\[exit code 0; output of 4\.77 MiB .* 20 KiB/],
		check(result) {
			assert.equal(result.structuredContent.stdout_bytes, 5000000);
			assert.equal(result.structuredContent.stdout_omitted_bytes, 4979520);
			assert.equal(result.structuredContent.limits_hit[0].limit, 'output');
		},
	},
	{
		name: 'bash: nothing of the host, and an end of standard input',
		args: { language: 'bash', code: 'pwd; cat; ls /home /root 2>&1; id -u; env | grep -c TEST_CANARY' },
		exit_code: 1,
		text: [/^\/workspace\n/, /\n0\n0\n\[exit code 1\]$/],
	},
	{
		name: 'c: output with arguments and the mathematics library',
		args: {
			language: 'c', args: ['2'],
			code: '#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **v) { printf("%.3f %s\\n", sqrt(atof(v[1])), v[1]); }',
		},
		text: '1.414 2\n',
	},
	{
		name: 'c: a compile error',
		args: { language: 'c', code: 'int main(void) {\n\treturn nothing;\n}\n' },
		exit_code: 1,
		phase: 'compile',
		text: [/main\.c:2:16: error: .*nothing/, /the program was not run\]$/],
	},
	{
		name: 'c: a warning and an exit code',
		args: { language: 'c', code: '#include <stdio.h>\nint main(void) { int unused; puts("ran"); return 7; }' },
		exit_code: 7,
		stdout: 'ran\n',
		stderr: '',
		text: [/^ran\n\[compiler\]\n/, /warning: unused variable/, /\n\[exit code 7\]$/],
		check(result) {
			assert.match(result.structuredContent.compiler_output, /unused variable/);
		},
	},
	{
		name: 'c: a signal',
		args: { language: 'c', code: '#include <signal.h>\nint main(void) { raise(SIGSEGV); for (;;); }' },
		ended_by: 'signaled',
		exit_code: undefined,
		text: [/ended by SIGSEGV/],
		check(result) {
			assert.equal(result.structuredContent.signal, 'SIGSEGV');
		},
	},
	{
		name: 'javascript: output',
		args: { language: 'javascript', code: 'console.log(JSON.stringify({ a: [1, 2] }), process.argv.length, __filename)' },
		text: '{"a":[1,2]} 2 /workspace/main.js\n',
	},
	{
		name: 'javascript: an exception names its line',
		args: { language: 'js', code: 'console.log("before");\n\nthrow new TypeError("no");' },
		exit_code: 1,
		stdout: 'before\n',
		text: [/\/workspace\/main\.js:3/, /TypeError: no/, /\[exit code 1\]$/],
	},
	{
		name: 'javascript: stdin and args',
		args: {
			language: 'node', stdin: 'a\nb\n', args: ['--x', 'y'],
			code: 'console.log(require("fs").readFileSync(0, "utf8").split("\\n").length, process.argv.slice(2))',
		},
		text: "3 [ '--x', 'y' ]\n",
	},
	{
		name: 'javascript: binary output',
		args: { language: 'javascript', code: 'process.stdout.write(Buffer.from([0, 1, 254, 255, 65, 195]))' },
		text: [/^\u0000\u0001\ufffd+A\ufffd\n\[stdout is not valid UTF-8/],
		check(result) {
			assert.deepEqual([...Buffer.from(result.structuredContent.stdout_base64, 'base64')], [0, 1, 254, 255, 65, 195]);
		},
	},
];

function matches(actual, expected) {
	for (const pattern of Array.isArray(expected) ? expected : [])
		assert.match(actual, pattern);
	if (typeof expected === 'string')
		assert.equal(actual, expected);
}

describe('sixteen programs', () => {
	assert.equal(programs.length, 16);
	for (const program of programs)
		test(program.name, async () => {
			const result = await server.run(program.args);
			const content = result.structuredContent;
			assert.ok(!result.isError, text(result));
			assert.equal(content.ended_by, program.ended_by ?? 'exited');
			assert.equal(content.exit_code, 'exit_code' in program ? program.exit_code : 0);
			assert.equal(content.phase, program.phase ?? 'run');
			matches(text(result), program.text);
			matches(content.stdout, program.stdout);
			matches(content.stderr, program.stderr);
			program.check?.(result);
			assert.ok(text(result).length < 50000);
			assert.ok(JSON.stringify(result).length < 1 << 20);
			assert.deepEqual(server.errors, []);
		});
});

describe('limits', () => {
	test('time: ended, with what was written until then', async () => {
		const { result, seconds } = await timedOut(
			timeout => server.run({ language: 'python', code: 'print("until here")\nwhile True: pass', timeout }),
			({ structuredContent }) => structuredContent.stdout !== '');
		assert.equal(result.structuredContent.stdout, 'until here\n');
		assert.match(text(result), /^until here\n\[killed: time limit of [0-9]+ m?s .*raise it with timeout\]$/);
		assert.ok(text(result).includes(seconds < 1 ? '700 ms' : `${seconds} s`), text(result));
		assert.ok(!result.isError);
	});

	test('memory: ended, and says which limit and argument', async () => {
		const result = await server.run({ language: 'python', code: 'a = bytearray(900 << 20)\nprint(len(a))', memory_limit: '128m' });
		assert.equal(result.structuredContent.ended_by, 'oom');
		assert.match(text(result), /memory limit of 128 MiB .*raise it with memory_limit\]$/);
		assert.equal(result.structuredContent.limits_hit[0].value, 128 << 20);
	});

	test('the worst output stays within what clients take', async () => {
		const code = 'import sys\nfor s in (sys.stdout, sys.stderr):\n    s.buffer.write(bytes(range(1, 32)) * 200000)';
		const result = await server.run({ language: 'python', code });
		assert.equal(result.structuredContent.stderr_bytes, 6200000);
		assert.ok(text(result).length < 50000);
		assert.ok(JSON.stringify(result).length < 1 << 20);
	});
});
