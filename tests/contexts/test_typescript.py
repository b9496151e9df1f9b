# SPDX-License-Identifier: MIT
"""The driver of TypeScript: what it has of its own. The rest is JavaScript's."""

import subprocess

from harness import equal, language, matches

test = language("typescript")


def error(driver, code, name, line):
    """The error of a cell that has to fail."""
    cell = driver.run(code)
    equal((cell.status, cell.error and cell.error.name, cell.error and cell.error.line), ("error", name, line), code)
    return cell.error


@test("values and types")
def _(driver):
    equal(driver.value("let x: number = 20;\ninterface Point { x: number }\n(x as number) + 1"), "21", "a value")
    for code, text in (("const same = <T,>(a: T): T => a; same<string>('a')!", "'a'"), ("enum Kind { A = 1, B }\nKind.B", "2"),
                       ("namespace Inner { export const k = 3 }\nInner.k", "3"), ("{ a: 1 }", "{ a: 1 }"),
                       ("class Own { constructor(private a: number, readonly b = 2) {} }\nnew Own(1)", "Own { a: 1, b: 2 }"),
                       ("function seal(type: Function) { sealed = type.name }\nvar sealed: string\n@seal class Sealed {}\nsealed", "'Sealed'"),
                       ("export default x as number", "20"), ("let pair: [a: string, b?: number] = ['p']; pair", "[ 'p' ]"),
                       ("await Promise.resolve(5 as number)", "5")):
        equal(driver.value(code), text, code)
    for code in ("type A = { a: string }", "for (const i of [1] as number[]) i", "@seal class More {}", "declare const no: number", "enum Last { A }"):
        equal(driver.ok(code).result, None, f"the result of {code}")
    equal(driver.ok("let wrong: number = 'text'; wrong").result["text/plain"].text, "'text'", "types are not checked")


@test("lines of errors")
def _(driver):
    trace = error(driver, "type A = {\n  a: string\n}\n\nconst f = (a: A): string => null!.a\nf({ a: '' })", "TypeError", 5).trace
    matches(trace, r"^<cell 1>:5\nconst f = \(a: A\): string => null!.a\n +\^\n\nTypeError: [^\n]*\n    at f \(<cell 1>:5:\d+\)\n    at <cell 1>:6:1$", "a trace")
    matches(error(driver, "let a: number = 1\nlet b: = 2", "SyntaxError", 2).trace,
            r"^<cell 2>:2\nlet b: = 2\n       \^\n\nSyntaxError: Type expected. \(TS1110\)$", "a trace of what does not compile")
    error(driver, "interface B {\n}\nlet twice = 1; let twice = 2", "SyntaxError", 3)
    driver.ok("interface C {\n  c: number\n}\nfunction fail(): never {\n  throw new Error('x')\n}")
    matches(error(driver, "\n\nfail()", "Error", 3).trace, r"at fail \(<cell 4>:5:9\)\n    at <cell 5>:3:1$", "a trace of two cells")
    for i in range(100):
        driver.ok(f"let n{i}: number")
    matches(error(driver, "fail()", "Error", 1).trace, r"at fail \(<cell 4>\)\n    at <cell 106>:1:1$", "a cell whose lines are forgotten")


@test("imports, and modules of the workspace")
def _(driver):
    (driver.workspace / "shape.ts").write_text(
        "export interface Shape {\n  area: number\n}\nimport { two } from './two.js'\nexport const four: number = two * 2\n"
        "export function fail(): never {\n  throw new Error('in shape')\n}\nexport default class Square implements Shape { area = four }\n")
    (driver.workspace / "two.ts").write_text("export const two: number = 2\n")
    equal(driver.ok("import fs, { type Stats } from 'fs'; import type { Dirent } from 'fs'").result, None, "imports that nothing uses yet")
    equal(driver.value("typeof fs.readFileSync"), "'function'", "what was imported for a later cell")
    equal(driver.value("import Square, { four, fail, type Shape } from './shape'\nimport * as all from './shape.ts'\n"
                       "[four, new Square().area, all.four, (await import('./two.js')).two]"), "[ 4, 4, 4, 2 ]", "modules")
    matches(error(driver, "\nfail()", "Error", 2).trace, r"at fail \([^\n]*shape.ts:7:9\)\n    at <cell 4>:2:1$", "a trace")
    (driver.workspace / "wrong.ts").write_text("let a = 1\nlet b: = 2\n")
    matches(error(driver, "\nimport './wrong'", "SyntaxError", 2).trace, r"wrong.ts:2\nlet b: = 2\n       \^", "a trace of a module that does not compile")


@test("a loop is interrupted")
def _(driver):
    driver.ok("let x: number = 20")
    equal(driver.interrupted("console.log('go' as string); while (true);", after=b"go").status, "interrupted", "status")
    equal(driver.value("x + 1"), "21", "a value")


@test("without tsc")
def _(driver):
    program = driver.folder / "driver" / "javascript.cjs"
    node, strips = driver.value("process.execPath").strip("'"), driver.value("typeof require('module').stripTypeScriptTypes")
    started = subprocess.Popen(["/bin/sh", "-c", 'exec "$0" "$1" typescript 3>&1', node, program], env={"PATH": "/nowhere"},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = started.stdout.readline()
    words = started.communicate(timeout=60)[1]
    if strips == "'function'":
        equal((ready, words, started.returncode), ("ready\n", "", 0), "a driver that takes types out itself")
    else:
        equal((ready, started.returncode), ("", 1), "a driver that cannot")
        matches(words, r"^TypeScript needs the program tsc [^\n]*\n$", "what it says")
