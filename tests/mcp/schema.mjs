// SPDX-License-Identifier: MIT
// Checks every message of a server against the JSON schema of the revision that its request was made in.
//
// The schemas are those that the protocol's own conformance suite is published with: they are taken out of
// that npm package, whose version is pinned. It has none for 2024-11-05, whose messages are checked by that
// of 2025-03-26, which only adds to it, and for what must not be in them. MCP_SCHEMA_DIR names a folder
// with REVISION.json for each revision to use those. The tasks extension has no schema there: by hand.

import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';

export const legacy = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
export const modern = '2026-07-28';
export const prefix = 'io.modelcontextprotocol/';

// From the brace at `start` to the one that closes it, strings skipped.
function literalAt(source, start) {
	let depth = 0, quote = null;
	for (let i = start; ; i++) {
		const char = source[i];
		if (quote) {
			if (char === '\\')
				i++;
			else if (char === quote)
				quote = null;
		} else if ('`"\''.includes(char)) {
			quote = char;
		} else if (char === '{' || char === '[') {
			depth++;
		} else if ((char === '}' || char === ']') && --depth === 0) {
			return source.slice(start, i + 1);
		}
	}
}

function revisionOf(names) {
	if (names.DiscoverRequest)
		return '2026-07-28';
	if (names.JSONRPCBatchRequest)
		return '2025-03-26';
	return names.JSONRPCErrorResponse ? '2025-11-25' : '2025-06-18';
}

function schemasOfPackage() {
	const resolve = createRequire(import.meta.url).resolve;
	const source = readFileSync(resolve('@modelcontextprotocol/conformance/dist/index.js'), 'utf8');
	const found = {};
	for (const match of source.matchAll(/\{\$schema:[^,]*,(?:definitions|\$defs):\{Annotations:/g)) {
		// Serialized, so that it is of this realm.
		const schema = JSON.parse(JSON.stringify(runInNewContext(`(${literalAt(source, match.index)})`)));
		found[revisionOf(schema.$defs ?? schema.definitions)] = schema;
	}
	found['2024-11-05'] = found['2025-03-26'];
	return found;
}

function loadSchemas() {
	const folder = process.env.MCP_SCHEMA_DIR;
	const schemas = folder
		? Object.fromEntries([...legacy, modern].map(name => [name, JSON.parse(readFileSync(join(folder, `${name}.json`)))]))
		: schemasOfPackage();
	for (const revision of [...legacy, modern])
		if (!schemas[revision])
			throw new Error(`no schema for ${revision}: the conformance package has changed`);
	return schemas;
}

const validators = {};
for (const [revision, schema] of Object.entries(loadSchemas())) {
	const ajv = new (schema.$defs ? Ajv2020 : Ajv)({ strict: false, allErrors: true });
	addFormats(ajv);
	ajv.addFormat('byte', /^[A-Za-z0-9+/]*={0,2}$/);
	ajv.addSchema(schema, 'mcp');
	validators[revision] = (definition, value) => {
		const validate = ajv.getSchema(`mcp#/${schema.$defs ? '$defs' : 'definitions'}/${definition}`);
		if (!validate)
			return [`${revision} has no ${definition}`];
		return validate(value) ? [] : validate.errors.map(error => `${definition}${error.instancePath} ${error.message}`);
	};
}

// Which of the schema's definitions a message is wrong by: a list of sentences, empty for a valid one.
export const validate = (revision, definition, value) => validators[revision](definition, value);

const results = {
	'initialize': 'InitializeResult', 'server/discover': 'DiscoverResult', 'ping': 'EmptyResult',
	'tools/list': 'ListToolsResult', 'tools/call': 'CallToolResult', 'prompts/list': 'ListPromptsResult',
	'resources/list': 'ListResourcesResult', 'resources/read': 'ReadResourceResult',
	'resources/templates/list': 'ListResourceTemplatesResult',
	'completion/complete': 'CompleteResult',
};

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

// Task, DetailedTask and the empty results of the extension.
function taskErrors(method, result) {
	const wrong = [];
	const want = (condition, what) => condition || wrong.push(`${method}: ${what}`);
	want(result.resultType === (method === 'tools/call' ? 'task' : 'complete'), `resultType ${result.resultType}`);
	if (method === 'tasks/cancel' || method === 'tasks/update')
		return wrong;
	want(/^[0-9a-f]{32}$/.test(result.taskId), 'taskId');
	want(['working', 'completed', 'cancelled'].includes(result.status), `status ${result.status}`);
	want(timestamp.test(result.createdAt) && timestamp.test(result.lastUpdatedAt), 'times');
	want(result.createdAt <= result.lastUpdatedAt, 'updated before it was created');
	want(result.ttlMs === null || Number.isInteger(result.ttlMs), 'ttlMs');
	want(Number.isInteger(result.pollIntervalMs) && result.pollIntervalMs > 0, 'pollIntervalMs');
	want(['string', 'undefined'].includes(typeof result.statusMessage), 'statusMessage');
	want(('result' in result) === (method === 'tasks/get' && result.status === 'completed'), 'result');
	return 'result' in result ? [...wrong, ...validate(modern, 'CallToolResult', result.result)] : wrong;
}

// Fields that are not of a revision; the schemas would let them pass as additional ones.
function strangers(revision, method, result) {
	const tools = result.tools ?? [], content = Array.isArray(result.content) ? result.content : [];
	const strange = {
		annotations: revision < '2025-03-26' && tools.some(tool => tool.annotations),
		outputSchema: revision < '2025-06-18' && tools.some(tool => tool.outputSchema),
		title: revision < '2025-06-18' && (tools.some(tool => tool.title) || result.serverInfo?.title),
		structuredContent: revision < '2025-06-18' && 'structuredContent' in result,
		resource_link: revision < '2025-06-18' && content.some(part => part.type === 'resource_link'),
		resultType: revision < modern && 'resultType' in result,
		ttlMs: revision < modern && 'ttlMs' in result,
		cacheScope: revision < modern && 'cacheScope' in result,
		extensions: revision < modern && result.capabilities?.extensions,
		execution: revision >= modern && tools.some(tool => tool.execution),
	};
	return Object.keys(strange).filter(key => strange[key]).map(key => `${method}: ${key} is not of ${revision}`);
}

function errorErrors(revision, message) {
	const definition = revision >= '2025-11-25' ? 'JSONRPCErrorResponse' : 'JSONRPCError';
	const special = { '-32021': 'MissingRequiredClientCapabilityError', '-32022': 'UnsupportedProtocolVersionError' }[message.error.code];
	// Before 2025-11-25 there was no form for an error whose request is not known; JSON-RPC's is null.
	const checked = message.id === null && revision < '2025-11-25' ? { ...message, id: 0 } : message;
	return [...validate(revision, definition, checked), ...(special ? validate(modern, special, message) : [])];
}

// What a client sends to one server, and what that answers.
export class Conversation {
	revision = '2025-11-25'; // of a connection that was not initialized
	requests = new Map();
	errors = [];
	checked = 0;

	sent(message) {
		for (const request of Array.isArray(message) ? message : [message])
			if (request?.id !== undefined && request.method)
				this.requests.set(JSON.stringify(request.id), {
					method: request.method,
					revision: request.params?._meta?.[prefix + 'protocolVersion'] === modern ? modern : undefined,
				});
	}

	// Notes what is wrong with the message, and returns it.
	received(message) {
		const request = this.requests.get(JSON.stringify(message.id)) ?? {};
		if (request.method === 'initialize' && message.result)
			this.revision = message.result.protocolVersion;
		const revision = request.revision ?? this.revision;
		const wrong = this.check(revision, request.method, message);
		wrong.forEach(error => this.errors.push(`${error} in ${JSON.stringify(message).slice(0, 300)}`));
		this.checked++;
		return wrong;
	}

	check(revision, method, message) {
		if (message.error)
			return errorErrors(revision, message);
		if (message.method)
			return [...validate(revision, 'JSONRPCNotification', message), ...(message.method === 'notifications/progress' ?
				validate(revision, 'ProgressNotification', message) : [`${message.method} was never asked for`])];
		const wrong = validate(revision, revision >= '2025-11-25' ? 'JSONRPCResultResponse' : 'JSONRPCResponse', message);
		if (method?.startsWith('tasks/') || message.result?.resultType === 'task')
			return [...wrong, ...taskErrors(method, message.result)];
		if (!results[method])
			return [...wrong, `a result for ${method ?? 'nothing that was asked'}`];
		return [...wrong, ...validate(revision, results[method], message.result), ...strangers(revision, method, message.result)];
	}
}
