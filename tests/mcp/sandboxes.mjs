// SPDX-License-Identifier: MIT
// Sandboxes that last, for the suites about them: all are in a runtime folder of the file's own, and gone after its tests.

import { AsyncLocalStorage } from 'node:async_hooks';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import assert from 'node:assert/strict';
import { after, test as plainTest } from 'node:test';
import { connect, nsbox, text } from './helpers.mjs';

export const runtime = mkdtempSync(`${tmpdir()}/nsbox-runtime.`);
process.env.XDG_RUNTIME_DIR = runtime;
after(() => {
	session('stop', '--all');
	rmSync(runtime, { recursive: true });
});

// The ids of the sandboxes that the test made which runs.
const made = new AsyncLocalStorage();

// node's own, but that a test that failed leaves no sandbox: others count what lives, and would fail for it.
export function test(name, ...rest) {
	const run = rest.pop();
	return plainTest(name, ...rest, context => made.run([], async () => {
		try {
			await run(context);
		} catch (error) {
			made.getStore().filter(id => sockets().includes(id)).forEach(id => spawnSync(nsbox, ['session', 'stop', id]));
			throw error;
		}
	}));
}

// `nsbox session …`: what it prints.
export function session(...args) {
	const output = execFileSync(nsbox, ['session', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
	if (args[0] === 'new')
		made.getStore()?.push(output.trim());
	return output;
}

// The sockets of sessions that there are.
export function sockets() {
	try {
		return readdirSync(`${runtime}/nsbox/sessions`);
	} catch {
		return [];
	}
}

// A client with the tools of sandboxes: each call gives structuredContent, and fails where it is an error.
export async function connectTools(options) {
	const server = await connect(options);
	const call = (name, args, more) => server.client.callTool({ name, arguments: args }, undefined, more);
	const tool = async (name, args, more) => {
		const result = await call(name, args, more);
		assert.ok(!result.isError, `${name}: ${text(result)}`);
		return result.structuredContent;
	};
	return {
		...server,
		call,
		tool,
		// What it says is wrong.
		failure: async (name, args) => {
			const result = await call(name, args);
			assert.equal(result.isError, true, `${name} ${JSON.stringify(args).slice(0, 200)}: ${text(result).slice(0, 500)}`);
			return text(result);
		},
		initialize: async args => {
			const { sandbox_id } = await tool('sandbox_initialize', args ?? {});
			made.getStore()?.push(sandbox_id);
			return new Sandbox(tool, sandbox_id);
		},
	};
}

export class Sandbox {
	constructor(tool, id) {
		this.tool = (name, args, more) => tool(name, { sandbox_id: id, ...args }, more);
		this.id = id;
	}

	write(path, content, more) {
		return this.tool('write_file', { path, content, ...more });
	}

	async read(path, more) {
		return (await this.tool('read_file', { path, ...more })).content;
	}

	list(path, more) {
		return this.tool('list_files', { path, ...more });
	}

	exec(args, more) {
		return this.tool('sandbox_exec', typeof args === 'string' ? { command: args } : args, more);
	}

	// The output of a command that must not fail.
	async output(args) {
		const result = await this.exec(args);
		assert.equal(result.exit_code, 0, `${JSON.stringify(args)}: ${result.message} ${result.stderr}`);
		return result.stdout;
	}

	background(command, more) {
		return this.exec({ command, background: true, ...more }).then(result => result.process_id);
	}

	stop() {
		return this.tool('sandbox_stop', {});
	}
}
