// SPDX-License-Identifier: MIT
// Nothing of an earlier call, of the same call's source, or of the server's environment is in the memory
// of a sandbox's agent. Root scans it from the host; an ordinary user must not be able to read it at all.

import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { test } from 'node:test';
import { connect, newMarker, processOf, supervisors, text, until, withMarker } from './helpers.mjs';

// Whether `needle` is anywhere in the readable memory of the process, or in what its /proc files show.
function holds(pid, needle) {
	const memory = openSync(`/proc/${pid}/mem`, 'r');
	try {
		for (const line of readFileSync(`/proc/${pid}/maps`, 'latin1').split('\n')) {
			const match = line.match(/^([0-9a-f]+)-([0-9a-f]+) r.*/);
			if (!match || line.includes('[vvar') || line.includes('[vsyscall]'))
				continue;
			const start = parseInt(match[1], 16), length = parseInt(match[2], 16) - start;
			const buffer = Buffer.alloc(length);
			let n = 0;
			try {
				n = readSync(memory, buffer, 0, length, start);
			} catch {
				continue; // a part of a file that is not there
			}
			if (buffer.subarray(0, n).includes(needle))
				return true;
		}
	} finally {
		closeSync(memory);
	}
	return ['cmdline', 'environ'].some(file => readFileSync(`/proc/${pid}/${file}`, 'latin1').includes(needle));
}

test("the agent's memory", async () => {
	const secret = newMarker(), earlier = newMarker(), source = newMarker(), marker = newMarker();
	const server = await connect({ env: { NSBOX_TEST_CANARY: secret } });
	const first = await server.run({
		language: 'python', code: `import os\nprint("${earlier}", sorted(os.environ))`, env: { CANARY: earlier },
		stdin: earlier, args: [earlier], files: { canary: earlier },
	});
	assert.ok(text(first).includes(earlier));
	assert.ok(!text(first).includes('NSBOX_TEST_CANARY'));
	const running = server.run({ language: 'python', code: `kept = "${source}"\nimport time\ntime.sleep(200)`, args: [marker], timeout: 250 });
	const ended = assert.rejects(running);
	await until('the second call', () => withMarker(marker).length === 1);
	const [payload] = withMarker(marker);
	const agent = processOf(payload).parent;
	assert.ok(supervisors(server.pid).some(process => process.pid === processOf(agent).parent));
	if (process.getuid() !== 0) {
		assert.throws(() => openSync(`/proc/${agent}/mem`, 'r'), { code: 'EACCES' });
		assert.throws(() => readFileSync(`/proc/${agent}/environ`), { code: 'EACCES' });
	} else {
		await until('the source to be read', () => holds(payload, source)); // and the scan does find things
		assert.ok(holds(server.pid, secret), 'a control: the server has its environment');
		for (const [what, needle] of Object.entries({ secret, earlier, source, marker }))
			assert.ok(!holds(agent, needle), what);
		for (const [what, needle] of Object.entries({ secret, earlier }))
			assert.ok(!holds(payload, needle), `${what} in the program`);
	}
	await server.close();
	await ended;
});
