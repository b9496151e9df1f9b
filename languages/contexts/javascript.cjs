// SPDX-License-Identifier: MIT
// Driver of contexts for JavaScript, and for TypeScript where its first argument is «typescript».
//
// A cell is evaluated by V8's inspector in the same thread, in the mode of a REPL: V8 itself then has await at the top level,
// declares let, const and class again, and keeps every declaration as a global one. Before that, imports become calls (see Source).
//
// A promise that is the value of a cell is awaited, so that `main()` as the last line runs to its end within its cell and fails
// with it; `void main()` does not wait. process.exit() ends the cell, not the context. Exceptions that nothing catches, in timers
// and promises, are written to standard error and end nothing. TypeScript is transpiled, not checked, as notebooks do it.
//
// An interrupt has to end code anywhere: in a loop, in a loop after an await, in a callback. Node.js gives a signal to
// JavaScript only when that returns, so a second thread waits for SIGINT (see Interrupts) and has V8 terminate what runs.
'use strict';

const fs = require('fs');
const path = require('path');
const util = require('util');
const vm = require('vm');
const Module = require('module');
const timers = require('timers');
const { Session } = require('inspector');
const { promiseHooks } = require('v8');
const { Socket } = require('net');
const { Worker } = require('worker_threads');
const { pathToFileURL } = require('url');

const typescript = process.argv[2] === 'typescript';
const workspace = process.cwd();
const program = path.join(workspace, typescript ? 'main.ts' : 'main.js'); // what a cell takes itself for
const { setImmediate, setTimeout } = globalThis;
const exit = process.exit.bind(process);

// --- Descriptors ---

const PRIVATE = 10; // the first descriptor that is not in the way of the code's own

/** Opens what `fd` is once more, privately: at PRIVATE or above, and closed when a program is executed. */
function privately(fd, flags) {
	const below = [];
	let opened = fs.openSync(`/proc/self/fd/${fd}`, flags);
	while (opened < PRIVATE) {
		below.push(opened);
		opened = fs.openSync(`/proc/self/fd/${fd}`, flags);
	}
	below.forEach((fd) => fs.closeSync(fd));
	return opened;
}

const requestsFd = privately(0, 'r');
const repliesFd = privately(3, 'w');
fs.closeSync(0);
fs.openSync('/dev/null', 'r'); // is 0, the lowest that is free
fs.closeSync(3);

// --- Replies ---

const MAX_TEXT = 64 << 10;
const MAX_HTML = 256 << 10;
const MAX_JSON = 64 << 10;
const MAX_IMAGE = 4 << 20;
const MAX_CELL = 24 << 20; // all parts of a cell; the supervisor takes 32 MiB
const MAX_DISPLAYS = 39; // and the result

let protections = 0; // how many calls run that an interrupt must not tear
let terminating = false; // the code that runs is about to be terminated, wherever it is then

/** A function that no interrupt ends: what runs into it while it is to be terminated ends before it. */
function protect(action) {
	return (...values) => {
		while (terminating);
		protections++;
		try {
			return action(...values);
		} finally {
			protections--;
		}
	};
}

const reply = protect((header, ...bodies) => {
	const data = Buffer.concat([Buffer.from(`${header}\n`), ...bodies]);
	try {
		for (let done = 0; done < data.length;)
			done += fs.writeSync(repliesFd, data, done);
	} catch {
		process.reallyExit(0); // the supervisor is gone
	}
});

// Node.js writes to a pipe at once, and waits while it is full. A write that is terminated would leave a stream that never writes again.
for (const stream of [process.stdout, process.stderr])
	stream.write = protect(stream.write.bind(stream));

/** The head and the tail of a text that has more than `most` bytes, and between them a line that says what is missing. */
function shorten(text, most) {
	const data = Buffer.from(text);
	if (data.length <= most)
		return data;
	let head = most >> 1, tail = data.length - (most >> 1);
	while ((data[head] & 0xc0) === 0x80)
		head--;
	while ((data[tail] & 0xc0) === 0x80)
		tail++;
	return Buffer.concat([data.subarray(0, head), Buffer.from(`\n… ${tail - head} bytes left out …\n`), data.subarray(tail)]);
}

/** Sends the representations of one value: [[MIME type, Buffer or text or length of what is too large], …]. */
function send(cell, kind, parts) {
	const value = ++cell.values;
	for (const [mime, contents] of parts) {
		const data = typeof contents === 'number' ? undefined : Buffer.from(contents);
		if (!data || data.length > (mime.startsWith('image/') ? MAX_IMAGE : Infinity) || cell.sent + data.length > MAX_CELL) {
			reply(`cut ${cell.id} ${value} ${kind} ${mime} ${data?.length ?? contents}`);
		} else {
			cell.sent += data.length;
			reply(`part ${cell.id} ${value} ${kind} ${mime} ${data.length}`, data);
		}
	}
}

// --- Values ---

function inspect(value) {
	const maxStringLength = typeof value === 'string' ? Infinity : 10000;
	try {
		return util.inspect(value, { depth: 5, maxArrayLength: 200, maxStringLength, breakLength: 100 });
	} catch (error) {
		return `[a value that cannot be shown: ${attempt(() => `${error}`, 'its inspection threw an exception')}]`;
	}
}

function attempt(action, otherwise) {
	try {
		return action();
	} catch {
		return otherwise;
	}
}

/** The length of a value as JSON, or undefined where JSON would change or lose a part of it. */
function jsonLength(value, above = []) {
	switch (typeof value) {
	case 'boolean':
		return `${value}`.length;
	case 'number':
		return Number.isFinite(value) && !Object.is(value, -0) ? `${value}`.length : undefined;
	case 'string':
		return /\p{Surrogate}/u.test(value) ? undefined : Buffer.byteLength(JSON.stringify(value));
	case 'object':
		break;
	default:
		return undefined;
	}
	if (value === null)
		return 4;
	const array = Array.isArray(value), prototype = !util.types.isProxy(value) && Object.getPrototypeOf(value);
	if ((array ? prototype !== Array.prototype : prototype !== Object.prototype && prototype !== null) ||
		'toJSON' in value || above.length > 200 || above.includes(value))
		return undefined;
	const keys = Reflect.ownKeys(value);
	if (array && keys.length !== value.length + 1) // holes, or more than elements
		return undefined;
	let length = 2 + Math.max(0, (array ? value.length : keys.length) - 1);
	above.push(value);
	for (const key of keys) {
		if (array && key === 'length')
			continue;
		const property = Object.getOwnPropertyDescriptor(value, key);
		const own = typeof key === 'string' && property.enumerable && 'value' in property ? jsonLength(property.value, above) : undefined;
		if (own === undefined)
			return undefined;
		length += own + (array ? 0 : jsonLength(key) + 1);
	}
	above.pop();
	return length;
}

const jsonPart = (value, mime = 'application/json') => {
	const length = attempt(() => jsonLength(value));
	return length === undefined ? [] : [[mime, length > MAX_JSON ? length : JSON.stringify(value)]];
};
const textPart = (text) => ['text/plain', shorten(text, MAX_TEXT)];
const isMime = (key) => /^[a-z]+\/[A-Za-z0-9][A-Za-z0-9.+-]*$/.test(key) && key.length < 200;

/** What an image is by its first bytes. */
function imageType(data) {
	if (data.length > 8 && Buffer.compare(data.subarray(0, 8), Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')) === 0)
		return 'image/png';
	return data.length > 3 && data[0] === 0xff && data[1] === 0xd8 && data[2] === 0xff ? 'image/jpeg' : undefined;
}

/** The bytes of an image: bytes already, base64 or a data: URL. */
function imageData(image, mime) {
	let data = image;
	if (typeof image === 'string')
		data = Buffer.from(image.replace(/^data:[^,]*,/, ''), 'base64');
	else if (ArrayBuffer.isView(image) || util.types.isAnyArrayBuffer(image))
		data = Buffer.from(image.buffer ?? image, image.byteOffset, image.byteLength);
	if (!Buffer.isBuffer(data) || imageType(data) !== mime)
		throw new TypeError(`display: expected ${mime} as a Buffer, base64 or a data: URL`);
	return data;
}

/** One representation, as display() takes it: bytes of images or base64, objects for JSON, else text. */
function partOf(mime, contents) {
	if (mime === 'image/png' || mime === 'image/jpeg')
		return [mime, imageData(contents, mime)];
	if (mime.endsWith('json') && typeof contents !== 'string')
		contents = JSON.stringify(contents);
	if (typeof contents !== 'string')
		throw new TypeError(`display: expected text for ${mime}, not ${inspect(contents).slice(0, 100)}`);
	if (mime.endsWith('json'))
		JSON.parse(contents);
	if (mime === 'application/json' && Buffer.byteLength(contents) > MAX_JSON)
		return [mime, Buffer.byteLength(contents)];
	return [mime, mime === 'text/html' ? shorten(contents, MAX_HTML) : mime.startsWith('text/') ? shorten(contents, MAX_TEXT) : contents];
}

function bundleParts(bundle) {
	const parts = Object.entries(bundle ?? {}).filter(([mime, contents]) => isMime(mime) && contents !== undefined && contents !== null)
		.map(([mime, contents]) => partOf(mime, contents));
	const figure = bundle?.['application/vnd.plotly.v1+json'];
	if (figure && typeof figure === 'object')
		parts.push(...chartPart(figure));
	return parts;
}

const OWN = [Symbol.for('nsbox.display'), Symbol.for('Jupyter.display')];

/** What an object says of itself: a method [Symbol.for("nsbox.display")] or ["Jupyter.display"], an element of a document, a canvas,
 *  an image's bytes, a specification of Vega-Lite. May be a promise. */
function ownParts(value) {
	if (value === null || (typeof value !== 'object' && typeof value !== 'function') || util.types.isProxy(value))
		return [];
	for (const symbol of OWN) {
		if (typeof value[symbol] === 'function') {
			const bundle = value[symbol]();
			return util.types.isPromise(bundle) ? bundle.then((bundle) => bundleParts(bundle)) : bundleParts(bundle);
		}
	}
	if (value.nodeType === 1 && typeof value.outerHTML === 'string')
		return [partOf(/^svg$/i.test(value.tagName) ? 'image/svg+xml' : 'text/html', value.outerHTML)];
	if (typeof value.getContext === 'function' && typeof value.toBuffer === 'function')
		return canvasParts(value);
	if (util.types.isUint8Array(value) && imageType(value))
		return [partOf(imageType(value), value)];
	const schema = /\/vega-lite\/v(\d+)[^/]*\.json$/.exec(typeof value.$schema === 'string' ? value.$schema : '');
	return schema ? [partOf(`application/vnd.vegalite.v${schema[1]}+json`, value)] : [];
}

function canvasParts(canvas) {
	const parts = (data) => util.types.isUint8Array(data) && imageType(data) ? [partOf(imageType(data), data)] : [];
	const data = canvas.toBuffer('image/png');
	return util.types.isPromise(data) ? data.then(parts) : parts(data);
}

/** All representations of a value: a list, or a promise of one. */
function partsOf(value) {
	const common = () => {
		const text = textPart(inspect(value));
		return util.types.isUint8Array(value) ? [text] : [text, ...jsonPart(value)];
	};
	const join = (own) => {
		const types = own.map(([mime]) => mime);
		return [...own, ...common().filter(([mime]) => !types.includes(mime))];
	};
	const own = ownParts(value);
	return util.types.isPromise(own) ? own.then(join) : join(own);
}

// --- display() ---

let current; // the cell that runs

function showParts(parts) {
	if (util.types.isPromise(parts))
		return parts.then(showParts);
	if (!current)
		throw new Error('display: no cell runs');
	if (++current.displays <= MAX_DISPLAYS)
		send(current, 'display', parts);
}

function isBundle(value) {
	const keys = value !== null && typeof value === 'object' && !util.types.isProxy(value) ? Object.keys(value) : [];
	return keys.length > 0 && keys.every((key) => isMime(key) && /^(text|image|application)\//.test(key));
}

/** Shows values, one after the other; of a bundle {"image/png": …, "text/html": …} each representation. */
function display(...values) {
	const shown = values.map((value) => showParts(isBundle(value) ? bundleParts(value) : partsOf(value)));
	return shown.some(util.types.isPromise) ? Promise.all(shown).then(() => {}) : undefined;
}

const text = (mime) => (contents) => showParts([partOf(mime, `${contents}`)]);
Object.assign(display, {
	html: text('text/html'),
	markdown: text('text/markdown'),
	latex: text('text/latex'),
	svg: text('image/svg+xml'),
	png: (image) => showParts([partOf('image/png', image)]),
	jpeg: (image) => showParts([partOf('image/jpeg', image)]),
	json: (value) => showParts([textPart(inspect(value)), partOf('application/json', value)]),
	table: (rows) => showParts(tableParts(rows)),
	plotly: (figure) => {
		const { data, layout = {} } = Array.isArray(figure) ? { data: figure } : figure;
		if (!Array.isArray(data) || typeof layout !== 'object')
			throw new TypeError('display.plotly: expected { data: [traces], layout }');
		showParts(bundleParts({ 'application/vnd.plotly.v1+json': { ...figure, data, layout } }));
	},
	vegalite: (spec) => showParts([partOf(`application/vnd.vegalite.v${/\/v(\d+)/.exec(spec.$schema)?.[1] ?? 5}+json`, spec)]),
});

const MAX_ROWS = 60;
const escapeHtml = (text) => text.replace(/[&<>"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character]);

/** A table of rows, which are objects or arrays; of many rows the first and the last. */
function tableParts(rows) {
	rows = Array.from(rows);
	const columns = [...new Set(rows.flatMap((row) => Object.keys(Object(row))))];
	const shown = rows.map((row, index) => [index, row]);
	const omitted = shown.length > MAX_ROWS ? shown.splice(MAX_ROWS >> 1, shown.length - MAX_ROWS).length : 0;
	const cellText = (value) => value === undefined ? '' : typeof value === 'string' ? value : inspect(value);
	const cells = shown.map(([index, row]) => [`${index}`, ...columns.map((column) => cellText(Object(row)[column]))]);
	if (omitted)
		cells.splice(MAX_ROWS >> 1, 0, ['…', ...columns.map(() => '…')]);
	const lines = [['', ...columns], ...cells];
	const widths = lines[0].map((_, column) => Math.min(80, Math.max(...lines.map((line) => line[column].length))));
	const size = `${rows.length} rows, ${columns.length} columns`;
	const html = lines.map((line, number) => `<tr>${line.map((text, column) =>
		number && column ? `<td>${escapeHtml(text)}</td>` : `<th>${escapeHtml(text)}</th>`).join('')}</tr>`);
	return [
		textPart(`${lines.map((line) => line.map((text, column) => text.padEnd(widths[column])).join('  ').trimEnd()).join('\n')}\n${size}`),
		['text/html', shorten(`<table>\n${html.join('\n')}\n</table>\n<p>${size}</p>`, MAX_HTML)],
	];
}

// --- Charts as data ---

const MAX_POINTS = 200;
const list = (value) => Array.isArray(value) ? value : ArrayBuffer.isView(value) ? Array.from(value) : [];
const titleOf = (title) => (typeof title === 'string' ? title : title?.text) ?? null;
const plain = (value) => value instanceof Date ? value.toISOString() : typeof value === 'bigint' ? Number(value)
	: typeof value === 'string' || Number.isFinite(value) ? value : null;

/** At most MAX_POINTS of `items`, evenly chosen, the first and the last among them. */
function sample(key, items) {
	if (items.length <= MAX_POINTS)
		return { [key]: items };
	const step = (items.length - 1) / (MAX_POINTS - 1);
	return { [key]: Array.from({ length: MAX_POINTS }, (_, i) => items[Math.round(i * step)]), omitted: items.length - MAX_POINTS };
}

function plotlySeries(trace) {
	const label = trace.name ?? null, type = trace.type ?? 'scatter';
	const ys = list(trace.y), xs = trace.x === undefined ? ys.map((_, i) => i) : list(trace.x);
	const pairs = xs.map((x, i) => [plain(x), plain(ys[i])]);
	switch (type) {
	case 'scatter':
	case 'scattergl':
		return { kind: (trace.mode ?? 'lines').includes('lines') ? 'line' : 'scatter', label, ...sample('points', pairs) };
	case 'bar':
		return { kind: 'bar', label, ...sample('bars', pairs.map(([x, y]) =>
			trace.orientation === 'h' ? { label: `${y}`, value: x } : { label: `${x}`, value: y })) };
	case 'pie': {
		const values = list(trace.values).map(Number), sum = values.reduce((a, b) => a + b, 0), names = list(trace.labels);
		return { kind: 'pie', label, ...sample('slices', values.map((value, i) =>
			({ label: `${names[i] ?? i}`, value: plain(value), percent: plain(100 * value / sum) }))) };
	}
	case 'histogram':
		return { kind: 'histogram', label, ...sample('points', list(trace.x ?? trace.y).map((x, i) => [i, plain(x)])) };
	case 'box':
		return { kind: 'box', label, ...sample('boxes', boxes(trace)) };
	case 'heatmap':
		return { kind: 'heatmap', label, ...sample('values', list(trace.z).map((row) => list(row).slice(0, MAX_POINTS).map(plain))) };
	default:
		return { kind: 'unknown', label, points: [] };
	}
}

function boxes(trace) {
	const groups = new Map(), names = list(trace.x);
	list(trace.y).forEach((y, i) => {
		const name = `${names[i] ?? trace.name ?? ''}`;
		groups.set(name, [...groups.get(name) ?? [], Number(y)]);
	});
	return [...groups].map(([label, values]) => {
		values.sort((a, b) => a - b);
		const at = (share) => {
			const place = share * (values.length - 1), below = Math.floor(place);
			return plain(values[below] + (place - below) * ((values[below + 1] ?? values[below]) - values[below]));
		};
		return { label, min: at(0), q1: at(0.25), median: at(0.5), q3: at(0.75), max: at(1) };
	});
}

function plotlyAxis(axis, values) {
	const dates = values.length && values.every((value) => /^\d{4}-\d\d(-\d\d|$)/.test(value));
	const numbers = values.map((value) => typeof value === 'number' ? value : Number.NaN).filter(Number.isFinite);
	const scale = axis.type === 'log' ? 'log' : axis.type === 'date' || dates ? 'datetime'
		: axis.type === 'category' || (values.length && !numbers.length) ? 'categorical' : 'linear';
	const range = scale === 'linear' && Array.isArray(axis.range) ? axis.range : undefined;
	const known = scale === 'datetime' ? values.filter((value) => value !== null).sort() : numbers.sort((a, b) => a - b);
	const bounded = scale !== 'categorical';
	const ticks = list(axis.ticktext ?? axis.tickvals).map(String);
	return { label: titleOf(axis.title), scale, min: bounded ? plain(range?.[0] ?? known[0]) : null,
		max: bounded ? plain(range?.[1] ?? known[known.length - 1]) : null, ...(ticks.length ? { ticks } : {}) };
}

function plotlyAxes(traces, layout, title) {
	const series = traces.map(plotlySeries), kinds = new Set(series.map(({ kind }) => kind));
	const kind = kinds.size === 1 ? [...kinds][0] : kinds.size ? 'mixed' : 'unknown';
	if (kind === 'pie')
		return { kind, title, series };
	const axis = (side) => plotlyAxis(layout[(traces[0]?.[`${side}axis`] ?? side).replace(side, `${side}axis`)] ?? {},
		traces.flatMap((trace) => list(trace[side]).map(plain)));
	return { kind, title, x: axis('x'), y: axis('y'), series };
}

/** What a figure of Plotly contains. A histogram's points are its values by their index: Plotly counts when it draws. */
function chartPart({ data, layout = {} }) {
	return attempt(() => {
		const axes = new Map(), title = titleOf(layout.title);
		for (const trace of data) {
			const place = `${trace.xaxis ?? 'x'} ${trace.yaxis ?? 'y'}`;
			axes.set(place, [...axes.get(place) ?? [], trace]);
		}
		const charts = [...axes.values()].map((traces) => plotlyAxes(traces, layout, axes.size > 1 ? null : title));
		const chart = charts.length > 1 ? { kind: 'figure', title, axes: charts } : charts[0];
		return chart ? [['application/vnd.nsbox.chart+json', JSON.stringify(chart)]] : [];
	}, []);
}

// --- Source: what V8 takes for a cell ---

// What stands for `import` in a cell: V8 does not let code of the inspector import. Of the same length, and read as the same.
const IMPORT = 'ımport';

const EXPECT_OPERAND = new Set(('return typeof case do else in instanceof new void delete throw yield await of').split(' '));
const CONDITION = new Set(['if', 'while', 'for', 'with']);
const NOT_AT_START = new Set(['else', 'catch', 'finally', 'case', 'default', 'in', 'instanceof', 'of', 'as']);
const ESCAPE = /\\u(?:[\da-f]{4}|\{[\da-f]+\})/.source;
const TOKEN = new RegExp([
	/(?<space>\s+|\/\/.*|\/\*[^]*?\*\/|^#!.*)/.source,
	`(?<name>(?:[\\p{ID_Start}$_#]|${ESCAPE})(?:[\\p{ID_Continue}$\\u200c\\u200d]|${ESCAPE})*)`,
	/(?<number>(?:0[xob][\da-f_]+|\d[\d_]*\.?[\d_]*(?:e[+-]?\d[\d_]*)?|\.\d[\d_]*(?:e[+-]?\d[\d_]*)?)n?)/.source,
	/(?<string>'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*")/.source,
	/(?<punctuation>\+\+|--|=>|\.\.\.|\?\.(?!\d)|[^])/.source,
].join('|'), 'yiu');
const REGEXP = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\p{ID_Continue}$]*/yu;
const TEMPLATE = /(?:[^`\\$]|\\[^]|\$(?!\{))*(`|\$\{)/y;

/** The tokens of `code`: {type, text, start, end, depth (of brackets around), fresh (begins a line)}; undefined where it has no end. */
function tokenize(code) {
	const tokens = [], open = [];
	let at = 0, fresh = true;
	const push = (type, start, depth = open.length) => {
		tokens.push({ type, text: code.slice(start, at), start, end: at, depth, fresh });
		fresh = false;
	};
	const operand = () => { // whether an operand comes here, and / therefore begins a regular expression
		const last = tokens[tokens.length - 1];
		if (!last || last.type === 'name')
			return !last || (EXPECT_OPERAND.has(last.text) && tokens[tokens.length - 2]?.text !== '.');
		return last.type === 'punctuation' && !['++', '--', ']'].includes(last.text) && (!/^[)}]$/.test(last.text) || last.ends === 'statement');
	};
	const template = (start) => {
		TEMPLATE.lastIndex = at;
		const found = TEMPLATE.exec(code);
		if (!found)
			return false;
		at = TEMPLATE.lastIndex;
		if (found[1] === '`')
			push('template', start);
		else {
			push('punctuation', start);
			open.push({ text: '${' });
		}
		return true;
	};
	while (at < code.length) {
		const start = at;
		if (code[at] === '/' && code[at + 1] !== '/' && code[at + 1] !== '*' && operand()) {
			REGEXP.lastIndex = at;
			if (!REGEXP.test(code))
				return undefined;
			at = REGEXP.lastIndex;
			push('regexp', start);
			continue;
		}
		if (code[at] === '`') {
			at++;
			if (!template(start))
				return undefined;
			continue;
		}
		TOKEN.lastIndex = at;
		const { groups } = TOKEN.exec(code);
		at = TOKEN.lastIndex;
		if (groups.space !== undefined) {
			fresh ||= groups.space.includes('\n');
		} else if (groups.punctuation === undefined) {
			push(groups.name !== undefined ? 'name' : groups.number !== undefined ? 'number' : 'string', start);
		} else if ('([{'.includes(groups.punctuation)) {
			const last = tokens[tokens.length - 1];
			const block = groups.punctuation === '{' && (!last || last.type === 'name' ? !last || !EXPECT_OPERAND.has(last.text) ||
				['else', 'do'].includes(last.text) : ['=>', ')', ';', '{', '}'].includes(last.text) || (last.text === ':' && last.fresh));
			const condition = groups.punctuation === '(' && last?.type === 'name' && CONDITION.has(last.text);
			push('punctuation', start);
			open.push({ text: groups.punctuation, ends: block || condition ? 'statement' : 'operand' });
		} else if (')]}'.includes(groups.punctuation)) {
			const opened = open.pop();
			if (!opened)
				return undefined;
			if (opened.text === '${') {
				if (!template(start))
					return undefined;
			} else {
				push('punctuation', start);
				tokens[tokens.length - 1].ends = opened.ends;
			}
		} else {
			push('punctuation', start);
		}
	}
	return open.length ? undefined : tokens;
}

const quote = (token) => token.type === 'string' ? token.text : JSON.stringify(token.text);

/** Reads {a, b as c, …} from tokens[at] on: the names outside and those within. */
function readNames(tokens, at) {
	const names = [];
	for (at++; tokens[at] && tokens[at].text !== '}'; at++) {
		const name = tokens[at];
		if (name.text === ',')
			continue;
		const renamed = tokens[at + 1]?.text === 'as';
		if (renamed)
			at += 2;
		names.push([quote(name), tokens[at]?.text]);
	}
	return [names, at + 1];
}

/** Reads `from "x" with {…};` from tokens[at] on: the module as arguments of a call, and the token after; or undefined. */
function readFrom(code, tokens, at, named = true) {
	if (named && tokens[at++]?.text !== 'from')
		return undefined;
	if (tokens[at]?.type !== 'string')
		return undefined;
	let text = tokens[at++].text;
	if (['with', 'assert'].includes(tokens[at]?.text) && !(tokens[at].text === 'assert' && tokens[at].fresh) && tokens[at + 1]?.text === '{') {
		const [, end] = readNames(tokens, at + 1);
		text += `,{${tokens[at].text}:${code.slice(tokens[at + 1].start, tokens[end - 1]?.end)}}`;
		at = end;
	} else {
		text += ',undefined';
	}
	return [text, tokens[at]?.text === ';' ? at + 1 : at];
}

/** What becomes of the import declaration at tokens[at]: [text, token after it], or undefined where it is none. */
function readImport(code, tokens, at) {
	const bindings = [], names = [];
	let space;
	at++;
	if (tokens[at]?.type !== 'string') {
		while (tokens[at] && tokens[at].text !== 'from' || tokens[at + 1]?.text === 'from' || tokens[at + 1]?.text === ',') {
			if (tokens[at].text === '{') {
				const [read, after] = readNames(tokens, at);
				for (const [name, local] of read) {
					names.push(name);
					bindings.push(`${name}:${local}`);
				}
				at = after;
			} else if (tokens[at].text === '*') {
				space = tokens[at + 2]?.text;
				at += 3;
			} else {
				names.push('"default"');
				bindings.push(`default:${tokens[at++].text}`);
			}
			if (tokens[at]?.text === ',')
				at++;
			else
				break;
		}
	}
	const from = readFrom(code, tokens, at, tokens[at]?.type !== 'string');
	if (!from)
		return undefined;
	const call = `await ${IMPORT}.of(${from[0]}${names.map((name) => `,${name}`).join('')})`;
	const text = space ? `const ${space}=${call}${bindings.length ? `,{${bindings}}=${space}` : ''};`
		: bindings.length ? `const {${bindings}}=${call};` : `${call},undefined;`;
	return [text, from[1]];
}

/** What becomes of `export` at tokens[at]: it goes, and what is exported stays; a module that is exported from is loaded. */
function readExport(code, tokens, at) {
	const next = tokens[at + 1], after = tokens[at + 2];
	if (next?.text === 'default') {
		const name = tokens[at + (after?.text === 'async' ? 4 : 3)]; // of a function or class, if it has one, which then is declared
		const declared = /^(function|class)$/.test(after?.text) || (after?.text === 'async' && tokens[at + 3]?.text === 'function');
		return [declared && (name?.text === '*' || (name?.type === 'name' && name.text !== 'extends')) ? ' '.repeat(next.end - tokens[at].start)
			: 'module.exports.default=', at + 2];
	}
	if (next?.text !== '{' && next?.text !== '*')
		return [' '.repeat(6), at + 1];
	const [names, end] = next.text === '{' ? readNames(tokens, at + 1) : [[], after?.text === 'as' ? at + 4 : at + 2];
	const from = readFrom(code, tokens, end);
	if (from)
		return [`await ${IMPORT}.of(${from[0]}${names.map(([name]) => `,${name}`).join('')}),undefined;`, from[1]];
	return ['', tokens[end]?.text === ';' ? end + 1 : end];
}

/** Whether the name at tokens[at] is that of a method: a body follows what is in brackets. */
function isMethod(tokens, at) {
	const end = tokens.findIndex(({ text, depth }, index) => index > at && text === ')' && depth === tokens[at].depth);
	return tokens[end + 1]?.text === '{' && !tokens[end + 1].fresh;
}

/** Makes calls of imports, and takes exports away: { text, changed: for lines that have others columns, the last that is right }. */
function rewrite(code, tokens) {
	let text = '', done = 0;
	const replace = (start, end, by) => {
		text += code.slice(done, start) + by + code.slice(start, end).replace(/[^\n]+/g, '');
		done = end;
	};
	for (let at = 0; at < tokens.length; at++) {
		const { type, text: word, depth, start, end } = tokens[at], next = tokens[at + 1]?.text;
		if (type !== 'name' || (word !== 'import' && word !== 'export') || /^[:=]$/.test(next) || /^(\.|\?\.)$/.test(tokens[at - 1]?.text))
			continue;
		if (word === 'import' && (next === '.' || next === '(')) {
			if (next === '.' || !isMethod(tokens, at))
				replace(start, end, IMPORT);
		} else if (depth === 0) {
			const read = (word === 'import' ? readImport : readExport)(code, tokens, at);
			if (!read)
				continue; // V8 will say what is wrong with it
			replace(start, tokens[read[1] - 1].end, read[0]);
			at = read[1] - 1;
		}
	}
	text += code.slice(done);
	const changed = new Map();
	if (text !== code) {
		const lines = text.split('\n');
		for (const [number, line] of code.split('\n').entries()) {
			const other = [...line].findIndex((character, at) => character !== lines[number][at] && lines[number][at] !== IMPORT[0]);
			if (other >= 0)
				changed.set(number + 1, other + 1);
		}
	}
	return { text, changed };
}

const parses = (code) => attempt(() => new vm.Script(code) && true, false);
const isStatements = (code) => parses(`(async()=>{${code}\n})`);
const isExpression = (code) => parses(`(async()=>(\n${code}\n))`);

/** Whether the last statement is an expression, whose value is the cell's: a loop has a value for V8 too, which nobody wants to see. */
function endsInExpression(code, tokens) {
	let last = tokens.length - 1, tries = 0;
	while (last >= 0 && tokens[last].text === ';')
		last--;
	for (let at = last; at >= 0; at--) {
		const { text, type, start, depth, fresh } = tokens[at];
		if (depth > 0 || !(at === 0 || fresh || tokens[at - 1].text === ';' || tokens[at - 1].text === '}') ||
			(type === 'punctuation' && !/^(\+\+|--|`[^]*|[([{!~+-])$/.test(text)) || NOT_AT_START.has(text))
			continue;
		if (++tries > 500)
			return true;
		if (at > 0 && !isStatements(code.slice(0, start)))
			continue;
		const rest = code.slice(start, tokens[last].end);
		if (!/^(\{|function\b|class\b)/.test(rest) && !/^async\s+function\b/.test(rest) && isExpression(rest))
			return true;
		if (isStatements(rest))
			return false;
	}
	return false;
}

/** Whether the whole of a cell is what looks like an object, and is one for Node.js' own REPL, not a block with labels. */
const isObject = (code, tokens) => tokens[0]?.text === '{' && isExpression(code) &&
	tokens.filter(({ depth, text }) => depth === 0 && text !== ';').length === 2;

/** A cell for V8: { text, shows: whether its value is shown, changed: see rewrite(), mappings: of a cell that was compiled }. */
function prepare(code) {
	if (typescript)
		return transpile(code);
	const tokens = tokenize(code);
	if (!tokens)
		return { text: code, shows: true }; // V8 will say what is wrong with it
	const expression = code.replace(/[;\s]+$/, '');
	if (isObject(expression, tokens))
		return { text: `(${rewrite(expression, tokens).text}\n)`, shows: true };
	const { text, changed } = rewrite(code, tokens);
	return { text, changed, shows: endsInExpression(text, text === code ? tokens : tokenize(text) ?? []) };
}

// --- TypeScript ---

let ts; // the package, or undefined: then Node.js itself takes the types out, which it can since 22.13

/** The package that the program tsc belongs to; since 7 it has no compiler in JavaScript. */
function findTypeScript() {
	for (const folder of (process.env.PATH ?? '').split(':')) {
		const found = attempt(() => require(path.join(path.dirname(fs.realpathSync(path.join(folder, 'tsc'))), '../lib/typescript.js')));
		if (found?.transpileModule)
			return found;
	}
	return undefined;
}

if (typescript) {
	ts = findTypeScript();
	if (!ts && !Module.stripTypeScriptTypes) {
		console.error(`TypeScript needs the program tsc of TypeScript before 7, or Node.js 22.13 or later; this is ${process.version}`);
		process.exit(1);
	}
}

function compilerOptions(module) {
	const version = parseFloat(ts.version), options = { target: ts.ScriptTarget.ES2022, module, sourceMap: true, esModuleInterop: true };
	if (version < 5) // imports that only a later cell uses must stay; and there are no other decorators yet
		Object.assign(options, { isolatedModules: true, preserveValueImports: true, importsNotUsedAsValues: 1, experimentalDecorators: true });
	else
		options.verbatimModuleSyntax = module === ts.ModuleKind.ESNext;
	return options;
}

/** A SyntaxError as V8 makes one, with its place in `file` and the line. */
function syntaxErrorAt(message, file, code, line, column) {
	const error = new SyntaxError(message), source = code.split(/\r?\n/)[line - 1] ?? '';
	error.stack = `${file}:${line}\n${source}\n${source.slice(0, column - 1).replace(/[^\t]/g, ' ')}^\n\nSyntaxError: ${message}`;
	return error;
}

/** The same by Node.js: takes types out, which leaves lines as they are; transforms enums and the like where this version can. */
function stripTypes(code, file) {
	const { emitWarning } = process;
	process.emitWarning = () => {}; // that it is an experimental feature
	try {
		return { text: Module.stripTypeScriptTypes(code, { mode: 'strip' }) };
	} catch (error) {
		const transformed = error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' &&
			attempt(() => Module.stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true }));
		const [text, map] = transformed ? transformed.split(/\n?\/\/# sourceMappingURL=.*;base64,/) : [];
		if (text !== undefined)
			return { text, mappings: JSON.parse(Buffer.from(map, 'base64')).mappings };
		const [, line, before] = /^[^\n]*:(\d+)\n(?:[^\n]*\n)+?([ \t]*)\^+\n/.exec(error.stack) ?? [undefined, 1, ''];
		throw syntaxErrorAt(error.message, file, code, Number(line), before.length + 1);
	} finally {
		process.emitWarning = emitWarning;
	}
}

function compile(code, file, module) {
	if (!ts)
		return stripTypes(code, file);
	const { outputText, sourceMapText, diagnostics } =
		ts.transpileModule(code, { compilerOptions: compilerOptions(module), fileName: path.basename(file).replace(/^[^.]*$/, 'cell.ts'), reportDiagnostics: true });
	const wrong = diagnostics.find(({ category, start }) => category === ts.DiagnosticCategory.Error && start !== undefined);
	if (wrong) {
		const { line, character } = ts.getLineAndCharacterOfPosition({ ...wrong.file, text: code, lineMap: undefined }, wrong.start);
		throw syntaxErrorAt(`${ts.flattenDiagnosticMessageText(wrong.messageText, '\n')} (TS${wrong.code})`, file, code, line + 1, character + 1);
	}
	return { text: outputText.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '\n'), mappings: JSON.parse(sourceMapText).mappings };
}

function transpile(code) {
	const expression = code.replace(/[;\s]+$/, ''), object = /^\s*\{/.test(code) && attempt(() => compile(`(${expression})`, '<cell>', 99));
	const { text, mappings } = object || compile(code, `<cell ${current.id}>`, ts?.ModuleKind.ESNext);
	const tokens = tokenize(text);
	if (!tokens)
		return { text, shows: true, mappings };
	const rewritten = rewrite(text, tokens);
	return { ...rewritten, mappings, shows: ts ? endsInTypeScriptExpression(object ? `(${expression})` : code)
		: endsInExpression(rewritten.text, tokenize(rewritten.text) ?? []) };
}

/** In what was compiled, a class with decorators ends in an expression too. */
function endsInTypeScriptExpression(code) {
	const { statements } = ts.createSourceFile('cell.ts', code, ts.ScriptTarget.ES2022);
	const last = [...statements].reverse().find(({ kind }) => kind !== ts.SyntaxKind.EmptyStatement);
	return last?.kind === ts.SyntaxKind.ExpressionStatement || last?.kind === ts.SyntaxKind.ExportAssignment;
}

const modules = new Map(); // path of a module in TypeScript → { mappings }, as for cells
const existing = (files) => files.find((file) => attempt(() => fs.statSync(file).isFile(), false));

/** The module in TypeScript that is meant by a path, or undefined where a file of that very name is there, or none is. */
const typescriptModule = (file) => !/\.[cm]?ts$/.test(file) && existing([file]) ? undefined
	: existing([file.replace(/\.([cm]?)js$/, '.$1ts'), `${file}.ts`, path.join(file, 'index.ts')].filter((file) => /\.[cm]?ts$/.test(file)));

// Modules of the workspace in TypeScript are compiled as they are required; as Node.js does it by itself since 22.18, if with names in full.
if (ts) {
	const load = (module, file) => {
		const { text, mappings } = compile(fs.readFileSync(file, 'utf8'), file, ts.ModuleKind.CommonJS);
		modules.set(file, { mappings });
		module._compile(text, file);
	};
	for (const extension of ['.ts', '.cts', '.mts'])
		Module._extensions[extension] = load;
	const resolve = Module._resolveFilename;
	Module._resolveFilename = (request, parent, ...rest) => {
		const found = /^\.{0,2}\//.test(request) && parent?.filename && typescriptModule(path.resolve(path.dirname(parent.filename), request));
		return found || resolve(request, parent, ...rest);
	};
}

// --- Places in cells ---

const MAX_SOURCES = 100;
const SCRIPT = 'nsbox-cell-'; // V8 takes no space in the name of a script; traces say <cell 1>
const sources = new Map(); // id of a cell → { changed and mappings, of prepare(), and decoded, of decodeMappings() }

function remember(id, source) {
	sources.set(id, source);
	if (sources.size > MAX_SOURCES)
		sources.delete(sources.keys().next().value);
}

/** Decodes the mappings of a source map with one source: for each line a list of [column, source's line, source's column], from 0. */
function decodeMappings(mappings) {
	const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
	let line = 0, column = 0;
	return mappings.split(';').map((segments) => {
		let own = 0;
		return segments.split(',').filter(Boolean).map((segment) => {
			const fields = [];
			let value = 0, shift = 0;
			for (const digit of segment) {
				const bits = digits.indexOf(digit);
				value |= (bits & 31) << shift;
				shift += 5;
				if (!(bits & 32)) {
					fields.push(value & 1 ? -(value >>> 1) : value >>> 1);
					value = shift = 0;
				}
			}
			own += fields[0];
			line += fields[2] ?? 0;
			column += fields[3] ?? 0;
			return [own, line, column];
		});
	});
}

/** Where line:column of what V8 runs is in the source of a cell or module. */
function place(source, line, column) {
	if (!source)
		return typescript && ts ? undefined : [line, column];
	column = Math.min(column, source.changed?.get(line) ?? column);
	if (!source.mappings)
		return [line, column];
	source.decoded ??= decodeMappings(source.mappings);
	for (let at = line - 1; at >= 0; at--) {
		const segments = source.decoded[at] ?? [];
		const found = at === line - 1 ? segments.filter(([own]) => own < column).pop() ?? segments[0] : segments[segments.length - 1];
		if (found)
			return [found[1] + 1, found[2] + 1];
	}
	return [1, 1];
}

const placed = (text) => text.replace(new RegExp(`${SCRIPT}(\\d+)(?::(\\d+):(\\d+))?`, 'g'), (_, id, line, column) => {
	const found = line ? place(sources.get(Number(id)), Number(line), Number(column)) : undefined;
	return found ? `<cell ${id}>:${found[0]}:${found[1]}` : `<cell ${id}>`;
});

/** The text of one frame of a trace. */
function frameText(frame) {
	const file = frame.getFileName(), text = placed(`${frame}`), module = modules.get(file);
	return module ? text.replace(/:\d+:\d+(\)?)$/, (_, end) =>
		`:${place(module, frame.getLineNumber(), frame.getColumnNumber()).join(':')}${end}`) : text;
}

/** Traces as Node.js prints them, with the cells' names and without the frames of the driver. */
Error.prepareStackTrace = (error, frames) => {
	const bottom = frames.findIndex((frame) => frame.getFileName() === 'node:inspector');
	const own = (bottom < 0 ? frames : frames.slice(0, bottom)).filter((frame) => frame.getFileName() !== __filename);
	return [attempt(() => Error.prototype.toString.call(error), 'Error'), ...own.map((frame) => `    at ${frameText(frame)}`)].join('\n');
};

/** The same for a trace that was made without it, as where the code has a prepareStackTrace of its own. */
const withoutDriver = (trace) => placed(trace).replace(/\n +at .*\(node:inspector:.*(?:\n +at .*)*/g, '')
	.split('\n').filter((line) => !line.includes(__filename)).join('\n');

// --- Errors ---

/** What is said of an exception that ends a cell: { name, message, trace, line }. */
function describe(error, cell, details) {
	if (!util.types.isNativeError(error) && !(error instanceof Error)) {
		const message = inspect(error);
		return { name: 'Uncaught', message, trace: `Uncaught ${message}`, line: 0 };
	}
	const stack = withoutDriver(attempt(() => `${error.stack}`, ''));
	let trace = /\n    at /.test(stack) ? withoutDriver(inspect(error)) : stack, line = Number(new RegExp(`<cell ${cell.id}>:(\\d+)`).exec(stack)?.[1] ?? 0);
	if (!line && attempt(() => error.name) === 'SyntaxError' && details && !details.stackTrace) {
		const found = syntaxPlace(error, cell, details);
		line = found[0];
		trace = `${arrow(cell, ...found)}${trace}`;
	} else if (line && !stack.startsWith('<cell ')) {
		const [, at, column] = new RegExp(`<cell ${cell.id}>:(\\d+):(\\d+)`).exec(stack);
		trace = `${arrow(cell, Number(at), Number(column))}${trace}`;
	}
	const name = attempt(() => `${error.name}`) || 'Error';
	return { name, message: attempt(() => `${error.message}`, ''), trace, line };
}

/** The line of a cell's code with an arrow below, as Node.js shows it above an error. */
function arrow(cell, line, column) {
	const source = cell.code.split('\n')[line - 1];
	return source === undefined || source.length > 1000 ? `<cell ${cell.id}>:${line}\n\n`
		: `<cell ${cell.id}>:${line}\n${source}\n${source.slice(0, column - 1).replace(/[^\t]/g, ' ')}^\n\n`;
}

/** Where a cell that V8 does not compile is wrong. It does not say it where a name is declared twice in two cells. */
function syntaxPlace(error, cell, { lineNumber, columnNumber }) {
	const twice = /^Identifier '(.*)' has already been declared$/.exec(error.message);
	if (twice && !lineNumber && !columnNumber) {
		const found = tokenize(cell.text)?.find(({ type, text, depth }, at, tokens) => type === 'name' && text === twice[1] &&
			(depth > 0 || /^(let|const|class|var|function|\*|,)$/.test(tokens[at - 1]?.text)));
		const before = cell.text.slice(0, found?.start ?? 0).split('\n');
		lineNumber = before.length - 1;
		columnNumber = before[lineNumber].length;
	}
	return place(sources.get(cell.id), lineNumber + 1, columnNumber + 1);
}

// --- Cells ---

let session; // with V8's inspector
const received = { value: undefined };
let receivedId; // the inspector's name for `received`

function connect() {
	session = new Session();
	session.connect();
	globalThis.nsboxReceived = received;
	session.post('Runtime.evaluate', { expression: 'nsboxReceived' }, (_, { result }) => { receivedId = result.objectId; });
	delete globalThis.nsboxReceived;
}

connect();

/** The value that the inspector describes. */
function take({ objectId, unserializableValue, value }) {
	const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value };
	session.post('Runtime.callFunctionOn', {
		objectId: receivedId, functionDeclaration: 'function (value) { this.value = value; }', arguments: [argument],
	});
	const taken = received.value;
	received.value = undefined;
	return taken;
}

function run(cell) {
	if (cell.status)
		return;
	try {
		Object.assign(cell, prepare(cell.code));
	} catch (error) {
		fail(cell, error);
		return;
	}
	remember(cell.id, { changed: cell.changed, mappings: cell.mappings });
	session.post('Runtime.evaluate', { expression: `${cell.text}\n//# sourceURL=${SCRIPT}${cell.id}`, replMode: true, objectGroup: 'cell' },
		(error, answer) => {
			cell.answered = true;
			if (current !== cell || cell.status)
				return;
			if (error)
				fail(cell, new Error(error.message));
			else if (answer.exceptionDetails)
				fail(cell, take(answer.exceptionDetails.exception), answer.exceptionDetails);
			else if (cell.shows || answer.result.subtype === 'promise')
				succeed(cell, take(answer.result));
			else
				finish(cell, 'ok');
		});
}

async function succeed(cell, value) {
	try {
		if (util.types.isPromise(value))
			value = await value;
		if (current !== cell || cell.status)
			return;
		const parts = value === undefined || !cell.shows ? undefined : await partsOf(value);
		if (current !== cell || cell.status)
			return;
		if (parts)
			send(cell, 'result', parts);
		finish(cell, 'ok');
	} catch (error) {
		fail(cell, error);
	}
}

function fail(cell, error, details) {
	if (current !== cell || cell.status)
		return;
	cell.error = describe(error, cell, details);
	finish(cell, 'error');
}

/** Ends a cell, after what its last turn left: callbacks, rejections that nothing handles, output. */
function finish(cell, status) {
	cell.status = status;
	if (status === 'interrupted')
		abandon(cell.owner);
	setImmediate(function later() {
		if (current !== cell)
			return;
		if (cell.status !== 'interrupted' && Atomics.load(shared, SIGNALS) !== Atomics.load(shared, ACTED)) {
			setTimeout(later, 1); // a signal ended a child first, and the cell by that
			return;
		}
		session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
		session.post('Runtime.discardConsoleEntries');
		if (!cell.answered) { // nor may the inspector wait for it later
			session.disconnect();
			connect();
		}
		flush(() => end(cell));
	});
}

/** Waits a moment where the code made its streams such that what it wrote is not yet out. */
function flush(done, turns = 100) {
	const waiting = [process.stdout, process.stderr].some((stream) => stream.writableLength > 0 && !stream.destroyed);
	waiting && turns ? setTimeout(flush, 1, done, turns - 1) : done();
}

const end = protect((cell) => {
	if (current !== cell)
		return;
	const omitted = cell.displays - MAX_DISPLAYS;
	if (omitted > 0)
		send(cell, 'display', [textPart(`${omitted} more values were shown`)]);
	if (cell.status === 'error') {
		const { name, message, trace, line } = cell.error;
		const fields = [shorten(name, 1024), shorten(message, MAX_TEXT), shorten(trace, MAX_TEXT)];
		reply(`error ${cell.id} ${line} ${fields.map((field) => field.length).join(' ')}`, ...fields);
	}
	current = undefined;
	reply(`end ${cell.id} ${cell.status}`);
	next();
});

// --- What an interrupted cell leaves ---

// It does not go on: its timers do nothing any more, and what it awaits ends it instead of resuming it. Each promise is told by a private
// field which cell ran when it was made; V8 says when one is about to resume. What other cells left goes on.

class Same {
	constructor(object) {
		return object;
	}
}

class Owned extends Same {
	#owner;

	constructor(promise, owner) {
		super(promise);
		this.#owner = owner;
	}

	static isAbandoned(promise) {
		return #owner in promise && promise.#owner.interrupted;
	}
}

promiseHooks.onInit((promise) => {
	if (!current)
		return;
	new Owned(promise, current.owner);
	current.promise ??= promise; // that of the cell itself, which is the first: the inspector, and Node.js with it, abort when it is collected
});

let abandoned = false; // whether there ever was a cell that was interrupted

function abandon(owner) {
	owner.interrupted = true;
	if (!abandoned)
		promiseHooks.onBefore((promise) => Owned.isAbandoned(promise) && terminate());
	abandoned = true;
}

/** Ends the code that runs, by what cannot be caught. */
function terminate() {
	session.post('Runtime.terminateExecution');
	for (;;);
}

for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
	const original = timers[name], clear = timers[name.replace('set', 'clear')];
	const own = {
		[name](callback, ...values) {
			const owner = current?.owner;
			return original(!owner || typeof callback !== 'function' ? callback : function (...values) {
				return owner.interrupted ? clear(this) : callback.apply(this, values);
			}, ...values);
		},
	}[name];
	Object.defineProperty(own, util.promisify.custom, Object.getOwnPropertyDescriptor(original, util.promisify.custom) ?? { configurable: true });
	globalThis[name] = timers[name] = own;
}
Module.syncBuiltinESMExports();

// --- Interrupts ---

// Two threads help. One hears of SIGINT: it waits in a script that the signal may interrupt, which is the one way by which Node.js tells
// of a signal while JavaScript runs. The other then evaluates interrupt() in this thread, which V8 does in the midst of whatever runs,
// and where that is a cell's code has V8 terminate it. When V8 says that it is done, the cell ends.
//
// A script that ends while it is the last of its kind gives SIGINT back to the kernel, which would end the process. So there are
// several around each other, and a signal between two of them ends one more than it had to.

const [SIGNALS, ACTED] = [0, 1]; // words of what is shared: how many there were, and how many of them were acted on
const [NOTHING, LATER, TERMINATE, DONE] = [0, 1, 2, 3]; // answers
const shared = new Int32Array(new SharedArrayBuffer(8));
const INTERRUPT = 'nsbox:interrupt';

function interrupt(terminated) {
	if (terminated) {
		terminating = false;
		if (current)
			finish(current, 'interrupted');
		if (requests.destroyed)
			leave();
	} else if (!current) {
		return NOTHING;
	} else if (protections) {
		return LATER;
	} else if (isBusy()) {
		terminating = true;
		current.status = 'interrupted';
		abandon(current.owner);
		return TERMINATE;
	} else {
		finish(current, 'interrupted');
	}
	return DONE;
}

/** Whether anything runs below this: else the stack is that of interrupt() alone. */
function isBusy() {
	const { stackTraceLimit, prepareStackTrace } = Error;
	Error.stackTraceLimit = 10;
	Error.prepareStackTrace = (_, frames) => frames.length;
	const depth = new Error().stack;
	Object.assign(Error, { stackTraceLimit, prepareStackTrace });
	return depth > 3;
}

Object.defineProperty(globalThis, INTERRUPT, { value: interrupt });

/** The thread that hears. It has no turn of its loop after this. */
function hear({ shared, SIGNALS }) {
	const { Script } = require('vm');
	const never = new Int32Array(new SharedArrayBuffer(4));
	let waits = () => Atomics.wait(never, 0, 0);
	for (let depth = 0; depth < 4; depth++) {
		const within = waits, script = new Script(`waits[${depth}]()`);
		(globalThis.waits ??= []).push(within);
		waits = () => {
			for (;;) {
				try {
					script.runInThisContext({ breakOnSigint: true });
				} catch {
					Atomics.add(shared, SIGNALS, 1);
					Atomics.notify(shared, SIGNALS);
				}
			}
		};
	}
	require('worker_threads').parentPort.postMessage('ready');
	waits();
}

/** The thread that acts. It is connected only meanwhile, as Node.js does not exit before. */
async function act({ shared, SIGNALS, ACTED, LATER, TERMINATE, expression }) {
	const { Session } = require('inspector');
	require('worker_threads').parentPort.postMessage('ready');
	setInterval(() => {}, 1 << 30); // a session does not keep the thread alive
	for (let seen = 0;;) {
		Atomics.wait(shared, SIGNALS, seen);
		seen = Atomics.load(shared, SIGNALS);
		const session = new Session();
		session.connectToMainThread();
		const post = (method, parameters) => new Promise((resolve) => session.post(method, parameters, (_, answer) => resolve(answer?.result?.value)));
		const interrupt = (terminated) => post('Runtime.evaluate', { expression: `${expression}(${terminated})`, silent: true });
		let answer = await interrupt(false);
		for (; answer === LATER; answer = await interrupt(false))
			await new Promise((resolve) => setTimeout(resolve, 2));
		if (answer === TERMINATE) {
			await post('Runtime.terminateExecution');
			await interrupt(true);
		}
		session.disconnect();
		Atomics.store(shared, ACTED, seen);
	}
}

/** Ends the driver, when no thread is connected. */
function leave() {
	process.exit = exit;
	setTimeout(Atomics.load(shared, SIGNALS) === Atomics.load(shared, ACTED) ? exit : leave, 2, 0);
}

// Node.js' own handler is there first, and stays, or the end of the last listener for SIGINT would give that back to the kernel.
const ignore = () => {};
process.on('SIGINT', ignore);
process.prependListener('removeListener', (event, listener) => {
	if (listener === ignore)
		process.on('SIGINT', ignore);
});

/** Ends the cell that runs process.exit() as a program would end by it: at once, and in order where its status is 0. */
process.exit = (code = process.exitCode) => {
	const status = Number(code ?? 0);
	process.exitCode = undefined;
	if (!current) {
		process.stderr.write(`process.exit(${status}) between two cells: the context goes on\n`);
	} else if (!current.status) {
		const error = new Error(`process.exit(${status})`);
		error.name = 'ProcessExit';
		status ? fail(current, error) : finish(current, 'ok');
	}
	terminate();
};

// --- What cells find ---

const main = new Module(program, undefined);
Object.assign(main, { id: '.', filename: program, paths: Module._nodeModulePaths(workspace) });
main._compile(`module.exports = {
	require,
	load: (specifier, options) => options === undefined ? import(specifier) : import(specifier, options)
};`, program);
const { load, require: requireModule } = main.exports;
main.exports = {};
requireModule.main = main;
process.argv.splice(1, Infinity, program);

/** import(). An error that comes from looking for the module has a trace of Node.js' loader only: it gets that of the cell. */
async function importModule(specifier, options) {
	const here = {};
	Error.captureStackTrace(here, importModule);
	try {
		const own = ts && /^\.{0,2}\//.test(specifier) && typescriptModule(path.resolve(workspace, specifier));
		if (!own)
			return await load(specifier, options);
		const loaded = requireModule(own);
		return loaded.__esModule ? loaded : { ...loaded, default: loaded };
	} catch (error) {
		if (util.types.isNativeError(error) && !/\n    at (?!.*node:)/.test(error.stack))
			error.stack = `${error.stack.replace(/\n    at [^]*/, '')}${/\n    at [^]*/.exec(here.stack)?.[0] ?? ''}`;
		throw error;
	}
}

Object.assign(importModule, {
	/** An import declaration: the module, if it has the names. TypeScript's imports of types are not told apart, so there it is not asked. */
	of(specifier, attributes, ...names) {
		return importModule(specifier, attributes).then((loaded) => {
			const missing = typescript ? undefined : names.find((name) => !(name in loaded));
			if (missing !== undefined)
				throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
			return loaded;
		});
	},
	meta: {
		dirname: workspace,
		filename: program,
		url: pathToFileURL(program).href,
		resolve: (specifier) => /^(\.{0,2}\/|[a-z]+:)/.test(specifier) ? new URL(specifier, pathToFileURL(program)).href
			: Module.isBuiltin?.(specifier) ? `node:${specifier.replace(/^node:/, '')}` : pathToFileURL(requireModule.resolve(specifier)).href,
	},
});
for (const [name, value] of Object.entries({ display, require: requireModule, module: main, exports: main.exports,
	__filename: program, __dirname: workspace, [IMPORT]: importModule }))
	Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });

/** Tells what nothing catches, which ends nothing. Where the code listens for it itself it is its own affair. */
function tellUncaught() {
	for (const [event, name] of [['uncaughtException', 'Uncaught'], ['unhandledRejection', 'Uncaught (in promise)']]) {
		process.on(event, (error) => {
			if (process.listenerCount(event) === 1)
				process.stderr.write(`${name} ${withoutDriver(inspect(error))}\n`);
		});
	}
}

// --- Requests ---

const requests = new Socket({ fd: requestsFd, readable: true, writable: false });
let chunks = [], awaited = 0; // what was read, and how many bytes of it a request needs

const next = protect(() => {
	let data = Buffer.concat(chunks);
	chunks = [data];
	const newline = data.indexOf('\n');
	if (current || newline < 0)
		return;
	const [, id, length] = /^run (\d+) (\d+)$/.exec(data.toString('latin1', 0, newline)) ?? [];
	if (id === undefined) {
		process.stderr.write('the driver of the context was sent a request that is none\n');
		process.reallyExit(1);
	}
	awaited = newline + 1 + Number(length);
	if (data.length < awaited)
		return;
	const code = data.toString('utf8', newline + 1, awaited);
	chunks = [Buffer.from(data.subarray(awaited))];
	awaited = 0;
	current = { id: Number(id), code, owner: { interrupted: false }, values: 0, displays: 0, sent: 0, status: undefined };
	setImmediate(run, current);
});

requests.on('data', protect((chunk) => {
	chunks.push(chunk);
	if (chunks.reduce((sum, { length }) => sum + length, 0) >= awaited)
		next();
}));
requests.on('close', leave);
requests.pause();

/** Starts the threads, and says when both are ready. */
function startThreads(ready) {
	const workerData = { shared, SIGNALS, ACTED, LATER, TERMINATE, expression: `this[${JSON.stringify(INTERRUPT)}]` };
	let starting = 0;
	for (const role of [hear, act]) {
		const thread = new Worker(`(${role})(require('worker_threads').workerData)`, { eval: true, workerData });
		starting++;
		thread.once('message', () => --starting || ready());
		thread.unref();
	}
}

startThreads(() => {
	tellUncaught();
	reply('ready');
	requests.resume();
});
