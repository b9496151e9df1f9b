# SPDX-License-Identifier: MIT
"""The driver of JavaScript."""

import base64
import json
import os

from harness import CHART, check, equal, language, matches

test = language("javascript")

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def error(driver, code, name, line):
    """The error of a cell that has to fail."""
    cell = driver.run(code)
    equal((cell.status, cell.error and cell.error.name, cell.error and cell.error.line), ("error", name, line), code)
    return cell.error


@test("values and declarations stay")
def _(driver):
    equal(driver.value("1 + 1"), "2", "a value")
    equal(driver.ok("const x = 20; let y = 1; var z; class A { b = 1 }\nfunction f() { return x }").result, None,
          "the result of declarations")
    equal(driver.value("f() + y"), "21", "a value of two cells")
    equal(driver.ok("const x = 30; let y = 2; class A { b = 2 }").result, None, "declared again")
    equal(driver.value("[f() + y, new A().b]"), "[ 32, 2 ]", "a value of what was declared again")
    equal(driver.value("process.chdir('/'); process.cwd()"), "'/'", "the folder")
    equal(driver.value("process.cwd()"), "'/'", "the folder afterwards")
    driver.ok("const broken = (() => { globalThis.reached = 1 })(), late = await 5; var { p, ...rest } = { p: 1, q: 2 }")
    equal(driver.value("[reached, late, p, rest.q]"), "[ 1, 5, 1, 2 ]", "declarations after an await")


@test("what has a result")
def _(driver):
    for code in ("undefined", "let a = 1", "for (const x of [1, 2]) x", "if (true) { 5 }", "do 1; while (false)", "", "// 5",
                 "function g() {}", "try { 5 } finally { }", "void 5", "label: 5", "switch (1) { case 1: 5 }", "console.log(5)", ";"):
        equal(driver.ok(code).result, None, f"the result of {code!r}")
    for code, text in (("null", "null"), ("5;", "5"), ("let b = 4\nb // said", "4"), ("'a\\nb'", "'a\\nb'"), ("-0", "-0"), ("7n", "7n"),
                       ("{ a: 1 }", "{ a: 1 }"), ("[1, 2]\n  .map((x) => x * 2)\n  .filter((x) => x > 2)", "[ 4 ]"),
                       ("new Map([[1, { a: 2 }]])", "Map(1) { 1 => { a: 2 } }"), ("if (0) { }\n(5)", "5"), ("async () => 1",
                       "[AsyncFunction (anonymous)]"), ("Symbol('s')", "Symbol(s)"), ("x = 3", "3"), ("#!/usr/bin/env node\n6", "6"),
                       ("a\n++a\na", "2"), ("class P { q = 1 }; new P()", "P { q: 1 }"), ("Buffer.from('hi')", "<Buffer 68 69>")):
        equal(driver.value(code), text, f"the result of {code!r}")


@test("JSON, where it keeps what the value is")
def _(driver):
    for code, value in (("({ a: [1, null, 'é', true], b: {} })", {"a": [1, None, "é", True], "b": {}}), ("2.5", 2.5), ("''", ""),
                        ("Object.assign(Object.create(null), { c: 1 })", {"c": 1}), ("let shared = [1]; [shared, shared]", [[1], [1]])):
        equal(driver.ok(code).result["application/json"].json, value, f"the JSON of {code}")
    for code in ("NaN", "-0", "[-0]", "1n", "[undefined]", "[1,,2]", "new Date(0)", "new Map()", "'\\ud800'", "() => 1", "({ get a() { return 1 } })",
                 "let cycle = {}; cycle.c = cycle; cycle", "new (class A { a = 1 })()", "Buffer.from('a')", "({ [Symbol('s')]: 1 })",
                 "new Proxy({}, {})", "({ toJSON() { return 1 } })", "Object.assign([1], { more: 1 })"):
        check("application/json" not in driver.ok(code).result, f"{code} has JSON")


@test("what is shown besides")
def _(driver):
    image = base64.b64encode(PIXEL).decode()
    cell = driver.ok(f"""display(1, 'two'); display.html('<b>x</b>'); display.markdown('# x'); display.svg('<svg/>'); display.latex('x^2')
        display.png('{image}'); display.png(Buffer.from('{image}', 'base64')); display({{ 'text/html': '<i>', 'image/png': '{image}' }})
        display.json({{ a: 1 }}); 5""")
    shown = [{mime: part.data for mime, part in value.items()} for value in cell.displays]
    equal(shown, [{"text/plain": b"1", "application/json": b"1"}, {"text/plain": b"'two'", "application/json": b'"two"'},
                  {"text/html": b"<b>x</b>"}, {"text/markdown": b"# x"}, {"image/svg+xml": b"<svg/>"}, {"text/latex": b"x^2"},
                  {"image/png": PIXEL}, {"image/png": PIXEL}, {"text/html": b"<i>", "image/png": PIXEL},
                  {"text/plain": b"{ a: 1 }", "application/json": b'{"a":1}'}], "what was shown")
    equal(cell.result["text/plain"].text, "5", "the result after it")

    def result(code):
        return {mime: part.data for mime, part in driver.ok(code).result.items()}

    for symbol in ("nsbox.display", "Jupyter.display"):
        for prefix in ("", "async "):
            own = result(f"({{ {prefix}[Symbol.for('{symbol}')]() {{ return {{ 'text/html': '<p>', 'text/plain': 'P' }} }} }})")
            equal(own, {"text/html": b"<p>", "text/plain": b"P"}, f"{prefix}{symbol}")
    equal(result(f"Buffer.from('{image}', 'base64')")["image/png"], PIXEL, "the bytes of an image")
    canvas = f"({{ getContext() {{}}, toBuffer(type) {{ return Buffer.from(type === 'image/png' ? '{image}' : '', 'base64') }} }})"
    equal(result(canvas)["image/png"], PIXEL, "a canvas")
    equal(result("({ nodeType: 1, tagName: 'svg', outerHTML: '<svg></svg>' })")["image/svg+xml"], b"<svg></svg>", "an element")
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "mark": "bar"}
    equal(json.loads(result(json.dumps(spec))["application/vnd.vegalite.v5+json"]), spec, "a specification of Vega-Lite")
    error(driver, "display.png('no image')", "TypeError", 1)
    error(driver, "\ndisplay.json(() => 1)", "TypeError", 2)


@test("tables and charts")
def _(driver):
    table = driver.ok("display.table([{ a: 1, b: 'x<' }, { a: 2 }])").displays[0]
    equal(table["text/plain"].text, "   a  b\n0  1  x<\n1  2\n2 rows, 2 columns", "a table")
    check("<td>x&lt;</td>" in table["text/html"].text, "a table in HTML")
    long = driver.ok("display.table(Array.from({ length: 1000 }, (_, i) => [i]))").displays[0]["text/plain"].text.splitlines()
    equal((len(long), long[1], long[-2], long[-1]), (63, "0    0", "999  999", "1000 rows, 1 columns"), "a long table")
    cell = driver.ok("""display.plotly({
        data: [{ x: [1, 2, 3], y: [2, 4, null], name: 'line' }, { type: 'bar', x: ['a'], y: [5] },
            { y: Array.from({ length: 1000 }, (_, i) => i), mode: 'markers' }],
        layout: { title: { text: 'T' }, xaxis: { title: 'X' }, yaxis: { type: 'log' } } })
        display.plotly([{ type: 'pie', labels: ['p', 'q'], values: [1, 3] }])
        display.plotly([{ y: [1] }, { y: [2], xaxis: 'x2', yaxis: 'y2' }])""")
    equal(cell.displays[0]["application/vnd.plotly.v1+json"].json["data"][0]["x"], [1, 2, 3], "the figure")
    chart, pie, figure = cell.charts()
    equal((chart["kind"], chart["title"], chart["x"]["label"], chart["y"]["scale"]), ("mixed", "T", "X", "log"), "a chart")
    equal(chart["series"][0], {"kind": "line", "label": "line", "points": [[1, 2], [2, 4], [3, None]]}, "a line")
    equal(chart["series"][1], {"kind": "bar", "label": None, "bars": [{"label": "a", "value": 5}]}, "bars")
    equal((len(chart["series"][2]["points"]), chart["series"][2]["points"][-1], chart["series"][2]["omitted"]), (200, [999, 999], 800), "points")
    equal(pie["series"][0]["slices"][1], {"label": "q", "value": 3, "percent": 75}, "a slice")
    equal((figure["kind"], len(figure["axes"])), ("figure", 2), "a figure of two")


@test("bounds of what is shown")
def _(driver):
    result = driver.ok("'a'.repeat(1e6) + 'z'").result
    matches(result["text/plain"].text, r"^'a{30000,}\n… \d+ bytes left out …\na{30000,}z'$", "a long text")
    equal((result["application/json"].data, result["application/json"].length), (None, 1000003), "its JSON")
    html = driver.ok("display.html('é'.repeat(300000))").displays[0]["text/html"].text
    matches(html, r"^é+\n… \d+ bytes left out …\né+$", "long HTML")
    driver.ok("const big = Buffer.alloc(5 << 20); big.write('89504e470d0a1a0a', 'hex')")
    equal(driver.ok("display.png(big)").displays[0]["image/png"].data, None, "a large image")
    cell = driver.ok("for (let i = 0; i < 50; i++) display(i)\n'last'")
    equal(len(cell.displays), 40, "values shown")
    equal(cell.displays[-1]["text/plain"].text, "11 more values were shown", "the last of them")
    equal(cell.result["text/plain"].text, "'last'", "the result after them")
    matches(driver.value("({ [require('util').inspect.custom]() { throw new Error('inside') } })"), "cannot be shown.*inside", "no text")


@test("errors: names, lines, traces")
def _(driver):
    trace = error(driver, "let x = 1\nx = 2\n  null.field", "TypeError", 3).trace
    matches(trace, r"^<cell 1>:3\n  null.field\n       \^\n\nTypeError: [^\n]*\n    at <cell 1>:3:8$", "a trace")
    equal(driver.value("x"), "2", "what was set before it")
    matches(error(driver, "let a = 1\nlet b = ;", "SyntaxError", 2).trace,
            r"^<cell 3>:2\nlet b = ;\n        \^\n\nSyntaxError: Unexpected token ';'$", "a trace of what does not compile")
    driver.ok("function thrower() {\n  throw new RangeError('deep')\n}")
    matches(error(driver, "\n\nthrower()", "RangeError", 3).trace, r"at thrower \(<cell 4>:2:9\)\n    at <cell 5>:3:1$", "a trace of two cells")
    matches(error(driver, "async function f() {\n  await null\n  throw new Error('late')\n}\nawait f()", "Error", 3).trace,
            r"at f \(<cell 6>:3:9\)\n    at async <cell 6>:5:1$", "a trace of what was awaited")
    for code, message in (("throw 'text'", "'text'"), ("throw { code: 1 }", "{ code: 1 }"), ("throw null", "null"), ("await Promise.reject(4)", "4")):
        thrown = error(driver, code, "Uncaught", 0)
        equal((thrown.message, thrown.trace), (message, f"Uncaught {message}"), code)
    matches(error(driver, "throw new Error('outer', { cause: new TypeError('inner') })", "Error", 1).trace, r"\[cause\]: TypeError: inner", "a cause")
    error(driver, "class Own extends Error { name = 'Own' }\nthrow new Own('x')", "Own", 2)
    driver.ok("var twice = 1")
    error(driver, "\n\nlet other = 2, twice = 2", "SyntaxError", 3)
    error(driver, "\neval('foo bar')", "SyntaxError", 2)
    error(driver, "let never = (() => { throw new Error('x') })()", "Error", 1)
    equal(driver.value("let never = 3; never"), "3", "declared again after its initializer failed")
    matches(error(driver, "Error.prepareStackTrace = undefined\nthrow new Error('raw')", "Error", 2).trace, r"Error: raw\n    at <cell \d+>:2:7$",
            "a trace without our hand")


@test("promises are awaited; what nothing catches is told")
def _(driver):
    equal(driver.value("Promise.resolve(5)"), "5", "the value of a promise")
    cell = driver.ok("async function main() { console.log('begin'); await new Promise((done) => setTimeout(done, 20)); console.log('end'); return 7 }\nmain()")
    equal((cell.out, cell.result["text/plain"].text), ("begin\nend\n", "7"), "a main function")
    error(driver, "async function bad() {\n  throw new TypeError('x')\n}\nbad()", "TypeError", 2)
    equal(driver.ok("void new Promise(() => {})").result, None, "a promise that is not waited for")
    cell = driver.ok("Promise.reject(new Error('lost')); setTimeout(() => { throw new Error('late') }, 1); await new Promise((done) => setTimeout(done, 50)); 1")
    matches(cell.err, r"^Uncaught \(in promise\) Error: lost\n    at <cell 5>:1:16\nUncaught Error: late\n    at Timeout", "standard error")
    driver.ok("process.on('uncaughtException', (error) => console.log('own', error.message)); 0")
    cell = driver.ok("setTimeout(() => { throw new Error('again') }, 1); await new Promise((done) => setTimeout(done, 50))")
    equal((cell.out, cell.err), ("own again\n", ""), "a listener of the code's own")


@test("imports and exports")
def _(driver):
    (driver.workspace / "lib.mjs").write_text("export const two = 2\nexport default class { three = 3 }\n")
    (driver.workspace / "old.js").write_text("module.exports = { four: 4, fail() { throw new Error('old') } }\n")
    package = driver.workspace / "node_modules" / "pack"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{ "exports": "./index.mjs" }')
    (package / "index.mjs").write_text("export const five = 5\n")
    equal(driver.value("""import fs, { readFileSync as read,
            existsSync } from 'node:fs'  // import no from 'no'
        import * as path from "path"; import Three, { two } from './lib.mjs'
        import 'node:os'
        import old, * as all from './old.js'
        import { five } from 'pack'
        import data from 'data:application/json,{"six":6}' with { type: 'json' }
        [typeof fs.statSync, typeof read, typeof existsSync, typeof path.join, two, new Three().three, old.four, all.default === old, five, data.six]""".replace(
        "        [typeof", "\n;[typeof")).split(), "[ 'function', 'function', 'function', 'function', 2, 3, 4, true, 5, 6 ]".split(), "imports")
    equal(driver.value("[two, five, (await import('./lib.mjs')).two, require('./old').four]"), "[ 2, 5, 2, 4 ]", "imported before, and otherwise")
    equal(driver.value("[import.meta.url, import.meta.filename === __filename, import.meta.resolve('./x.js'), require.main === module]").count("file:///"),
          2, "import.meta")
    matches(error(driver, "1\nimport none from 'none'", "Error", 2).trace, r"at <cell 4>:2:1\b", "a place in what was rewritten")
    error(driver, "1\n\nawait import('./none.js')", "Error", 3)
    matches(error(driver, "\nimport { none } from 'fs'", "SyntaxError", 2).message, "does not provide an export named 'none'", "a name that is not there")
    matches(error(driver, "\nrequire('./old').fail()", "Error", 2).trace, r"at [^\n]*fail \([^\n]*old.js:1:44\)\n    at <cell 7>:2:18$", "a trace")
    equal(driver.value("export const six = 6; export default function seven() { return 7 }\nexport { six }; six + seven()"), "13", "exports")
    equal(driver.value("export default { a: 8 }.a"), "8", "a default export")


@test("source that looks like imports")
def _(driver):
    for code, text in (("const d = 8, q = 4, g = 2; `${d /q/ g} ${`}`}` + \"import x from 'y'\"", "\"1 }import x from 'y'\""),
                       ("const re = /import('x')[/'\"`]/g; re.source.length", "17"), ("({ import: 1, export: 2 }).import", "1"),
                       ("let s = 'it\\'s'; /* import a from 'b' */ s // export default", "\"it's\""), ("if (1) /'/.test('x')\n;`import`", "'import'"),
                       ("let i = 1; i++ / 2 + (i) / 1 + [4][0] / 2 / 1", "4.5"), ("function h() { return /}/ }\nh().source", "'}'"),
                       ("class M { import(x) { return x } export() { return 3 } }; new M().import(2) + new M().export()", "5"),
                       ("const o = { a: 6 / 2 / 3 }; o.a / 1", "1"), ("`a${{ b: `c${1}` }.b}d`", "'ac1d'"), ("const ünï = 1; ünï", "1")):
        equal(driver.value(code), text, code)


LONG = "await new Promise(() => {})"
CODE = {
    "a loop": "console.log('go'); while (true);",
    "a loop that catches": "console.log('go'); for (;;) try { for (;;); } catch { } finally { }",
    "a loop after an await": "console.log('go'); await 1; while (true);",
    "a loop in a callback": f"setTimeout(() => {{ console.log('go'); for (;;); }}, 1); {LONG}",
    "loops that begin each other": f"function loop() {{ setTimeout(loop); setImmediate(loop); console.log('go'); for (;;); }}\nloop(); {LONG}",
    "a loop of microtasks": "console.log('go'); for (;;) await null",
    "an await": f"console.log('go'); {LONG}",
    "a promise as the value": "console.log('go'); new Promise(() => {})",
    "Atomics.wait": "console.log('go'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "a child process": "console.log('go'); require('child_process').execSync('sleep 100')",
    "an inspection": "console.log('go'); ({ [require('util').inspect.custom]() { for (;;); } })",
}


@test("code is interrupted, whatever it does")
def _(driver):
    driver.ok("let x = 20")
    for what, code in CODE.items():
        equal(driver.interrupted(code, after=b"go").status, "interrupted", what)
        equal(driver.value("x + 1"), "21", f"a value after {what}")


@test("what an interrupted cell left does not go on")
def _(driver):
    driver.ok("let x = 0; const sleep = (ms) => new Promise((done) => setTimeout(done, ms))\nsetInterval(() => x++, 5); 0")
    for code in ("for (;;) { await sleep(5); console.log('go') }", f"setInterval(() => console.log('go'), 5); {LONG}",
                 "for (;;) { await require('timers/promises').setTimeout(5); console.log('go') }",
                 "for (;;) { await require('fs/promises').stat('/'); console.log('go') }"):
        equal(driver.interrupted(code, after=b"go").status, "interrupted", code)
        equal(driver.ok("await sleep(60)").out, "", f"output after {code}")
    equal(driver.value("const seen = x; await sleep(100); x > seen"), "true", "a timer of another cell goes on")


@test("SIGINT never ends the driver")
def _(driver):
    for _ in range(30):
        driver.interrupt()
    driver.go_on()
    equal(driver.value("1 + 1"), "2", "a value after signals between cells")
    cell = driver.start("console.log('go'); let n = 0; for (;;) { n++; await null; display(n) }")
    driver.wait(lambda: b"go" in cell.stdout, 100, "the cell to begin")
    for _ in range(200):
        driver.interrupt()
    equal(driver.finish().status, "interrupted", "status of a cell with many signals")
    driver.go_on()
    for code in ("process.on('SIGINT', () => console.log('own')); 0", "process.removeAllListeners('SIGINT'); 0", "process.removeAllListeners(); 0"):
        driver.ok(code)
        equal(driver.interrupted("console.log('go'); for (;;);", after=b"go").out, "go\n", f"output after {code}")
    driver.go_on()
    equal(driver.value("n > 0"), "true", "what was declared before the signal")


@test("process.exit() ends the cell")
def _(driver):
    cell = driver.ok("let x = 1\nconsole.log('before')\nprocess.exit()\nconsole.log('after')")
    equal((cell.out, cell.result), ("before\n", None), "the cell")
    matches(error(driver, "x = 2\ntry { process.exit(3) } catch { x = 3 } finally { x = 4 }", "ProcessExit", 2).message, r"process.exit\(3\)", "a status")
    error(driver, "await null\nprocess.exitCode = 2\nprocess.exit()", "ProcessExit", 3)
    cell = driver.ok("setTimeout(() => process.exit(1), 1); process.nextTick(() => {}); 5")
    driver.ok("await new Promise((done) => setTimeout(done, 50))")
    driver.allow_stderr = True
    equal(driver.value("x"), "2", "a value after them")


@test("output, descriptors, children")
def _(driver):
    cell = driver.ok("console.log('a'); process.stdout.write('b\\n'); console.error('e'); require('child_process').execSync('echo c', { stdio: 'inherit' })\n"
                     "process.stdout.write('z'.repeat(3e6)); require('fs').writeSync(1, 'end')")
    equal((cell.stdout[:6], cell.stdout[-4:], len(cell.stdout), cell.err), (b"a\nb\nc\n", b"zend", 3000009, "e\n"), "output")
    cell = driver.start("process.stdout.write('y'.repeat(1e6)); while (true);")
    driver.wait(lambda: len(cell.stdout) == 1000000, 100, "the output before a loop")
    driver.interrupt()
    equal(driver.finish().status, "interrupted", "status")
    equal(driver.value("require('fs').readFileSync(0, 'utf8')"), "''", "standard input")
    child = driver.value("require('child_process').execSync('cat; ls -l /proc/self/fd', { stdio: ['inherit', 'pipe', 'inherit'] }).toString()")
    links = driver.ok("const { readdirSync, readlinkSync } = require('fs')\n"
                      "readdirSync('/proc/self/fd').map((fd) => { try { return [fd, readlinkSync(`/proc/self/fd/${fd}`)] } catch { return ['', ''] } })"
                      ).result["application/json"].json
    private = {f"pipe:[{os.fstat(fd).st_ino}]" for fd in (driver.requests, driver.replies)}
    equal(len([fd for fd, link in links if link in private and int(fd) >= 10]), 2, f"private descriptors ({links})")
    equal([fd for fd, link in links if link in private and int(fd) < 10], [], "descriptors in the way")
    equal([link for link in private if link in child], [], "what a child has open")


@test("the end")
def _(driver):
    driver.ok("process.on('exit', () => require('fs').writeFileSync('gone', 'x')); setInterval(() => {}, 1000); require('net').createServer().listen(0); 0")
    driver.end()
    check((driver.workspace / "gone").exists(), "listeners for the exit")


@test("a thousand cells leave nothing behind")
def _(driver):
    def cells(count):
        for i in range(count):
            driver.ok(f"const rows = Array.from({{ length: 500 }}, (_, i) => ({{ i, s: 'x' + i }}))\nfunction f(x) {{ return x + {i} }}\n"
                      "console.log(rows.length); display({ a: 1 }); await null; f(3)")
            if i % 10 == 0:
                driver.run("await null; null.field")
    cells(200)
    before = driver.rss()
    cells(800)
    check(driver.rss() < before + (24 << 10), f"{before} KiB grew to {driver.rss()} KiB")


@test("what is awaited is not collected")
def _(driver):
    driver.ok("require('v8').setFlagsFromString('--expose-gc'); const gc = require('vm').runInNewContext('gc'); setInterval(gc, 5); 0")
    cell = driver.start("console.log('go'); await new Promise(() => {})")
    driver.wait(lambda: cell.stdout, 100, "the cell to begin")
    driver.go_on()
    driver.interrupt()
    equal(driver.finish().status, "interrupted", "status")
    driver.ok("process.exit()")
    equal(driver.value("await new Promise((done) => setTimeout(done, 50)); 1"), "1", "a value afterwards")
