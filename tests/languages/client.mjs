// SPDX-License-Identifier: MIT
// Runs programs through `nsbox mcp` with the client of the official TypeScript SDK, for `run --client`. One server
// serves them all; as many calls are in flight as programs have been asked for and not answered.
//
//	NSBOX=PROGRAM SDK=FOLDER node client.mjs    (tests/mcp/sdk prints the folder)
//
// A line of standard input is {id, arguments, timeout_ms}, the arguments being those of execute_code. A line of
// standard output is {id, status, stdout, stderr, text, root}: status as a shell has it, the whole outputs in base64, what a
// model gets to read, and where it ran; or {id, error}.

import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.SDK}/`);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

// An output that the result has not whole: resource by resource, until there is no next one.
async function readWhole(client, uri) {
	const parts = [];
	while (uri) {
		const { contents: [part] } = await client.readResource({ uri });
		parts.push('blob' in part ? Buffer.from(part.blob, 'base64') : Buffer.from(part.text));
		uri = part._meta?.['nsbox/next'];
	}
	return Buffer.concat(parts);
}

async function wholeStream(client, result, name) {
	const run = result.structuredContent;
	const link = result.content.find(part => part.type === 'resource_link' && part.name === name);
	if (Boolean(link) !== run[`${name}_omitted_bytes`] > 0)
		throw new Error(`${name}: ${run[`${name}_omitted_bytes`]} bytes omitted, ${link ? 'and' : 'and no'} resource`);
	const base64 = run[`${name}_base64`];
	const bytes = link ? await readWhole(client, link.uri) : base64 ? Buffer.from(base64, 'base64') : Buffer.from(run[name]);
	if (bytes.length !== run[`${name}_bytes`])
		throw new Error(`${name}: ${bytes.length} bytes could be read, of ${run[`${name}_bytes`]}`);
	return bytes;
}

function statusOf(run) {
	if (run.ended_by === 'exited')
		return run.exit_code;
	if (run.ended_by === 'timeout')
		return 124;
	return 128 + (run.ended_by === 'oom' ? constants.signals.SIGKILL : constants.signals[run.signal]);
}

async function runProgram(client, { id, arguments: args, timeout_ms: timeout }) {
	const result = await client.callTool({ name: 'execute_code', arguments: args }, undefined, { timeout });
	const text = result.content.filter(part => part.type === 'text').map(part => part.text).join('');
	if (result.isError)
		throw new Error(text);
	const run = result.structuredContent;
	const stderr = Buffer.concat([Buffer.from(run.compiler_output ?? ''), await wholeStream(client, result, 'stderr')]);
	return {
		id,
		text,
		root: run.root,
		status: statusOf(run),
		stdout: (await wholeStream(client, result, 'stdout')).toString('base64'),
		stderr: stderr.toString('base64'),
	};
}

const transport = new StdioClientTransport({
	command: process.env.NSBOX,
	args: ['mcp', '--max-timeout', '10m'],
	env: process.env,
	stderr: 'inherit',
});
const client = new Client({ name: 'nsbox-languages', version: '1' });
client.onerror = error => {
	console.error(`the client complains: ${error}`);
	process.exitCode = 1;
};
await client.connect(transport);
await client.listTools(); // from now on it checks results against the output schemas
const running = [];
for await (const line of createInterface({ input: process.stdin })) {
	const request = JSON.parse(line);
	running.push(runProgram(client, request)
		.catch(error => ({ id: request.id, error: String(error) }))
		.then(answer => console.log(JSON.stringify(answer))));
}
await Promise.all(running);
await client.close();
