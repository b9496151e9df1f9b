# SPDX-License-Identifier: MIT
"""PHP that is kept."""

import atexit
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from harness import check, equal, language, matches

test = language("php")


def failed(cell, name, message, line):
    equal(cell.status, "error", f"{cell}")
    raised(cell, name, message, line)
    return cell


def raised(cell, name, message, line):
    equal(cell.error and cell.error.name, name, f"{cell}")
    matches(cell.error.message, message, "message")
    equal(cell.error.line, line, f"line: {cell.error}")


def end_of_context(driver):
    """The driver ends by itself, and the cell with it, which is not said to have ended."""
    driver.wait(lambda: driver.process.poll() is not None, 100, "the end of the driver", ending=True)
    driver.drain()
    driver.over = True
    equal(driver.last.status, None, "status")


def without_pcntl():
    folder = tempfile.mkdtemp(prefix="nsbox-php.")
    atexit.register(shutil.rmtree, folder)
    Path(folder, "pcntl.ini").write_text("disable_functions=pcntl_signal\n")
    return {"PHP_INI_SCAN_DIR": f":{folder}"}


@test("variables, functions, classes, constants, imports and the working directory stay")
def _(driver):
    driver.ok("$x = 1; function f(int $n) { global $x; return $n + $x; } class P { public $q = 2; } const K = 3; define('L', 4); mkdir('d'); chdir('d');")
    driver.ok("<?php\nuse ArrayObject as AO;\nuse function strtoupper as up;")
    equal(driver.value("[$x, f(5), (new P)->q, K, L, count(new AO([1])), up('a'), basename(getcwd()), basename(__DIR__)]"), "[1, 6, 2, 3, 4, 1, 'A', 'd', 'd']", "state")
    failed(driver.run("$x = 7;\nthrow new LogicException('why');"), "LogicException", "^why$", 2)
    equal(driver.value("$x"), "7", "after an error")
    equal(driver.value("array_values(array_diff(array_keys(get_defined_vars()), ['_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_ENV', '_REQUEST', 'argv', 'argc']))"), "['x']", "variables")
    equal(driver.ok("<?php\ndeclare(strict_types=1);\nnamespace N\\M;\nclass C { }\nfunction g() { return __FUNCTION__; }\necho g(), ' ', C::class, ' ', __NAMESPACE__;").out, "N\\M\\g N\\M\\C N\\M", "a namespace")
    equal(driver.value("N\\M\\g()"), "'N\\\\M\\\\g'", "from without")
    failed(driver.run("declare(strict_types=1);\nstrlen(5);"), "TypeError", "must be of type string", 2)
    equal(driver.value("new AO([]) instanceof ArrayObject"), "true", "imports")
    (driver.workspace / "d" / "lib.php").write_text("<?php\nfunction lib() {\n  throw new Exception('in lib');\n}\nreturn 5;\n")
    equal(driver.value("require __DIR__ . '/lib.php'"), "5", "require")
    cell = failed(driver.run("\nlib();"), "Exception", "in lib", 2)
    check("lib.php:3" in cell.error.trace and "{main}" in cell.error.trace, cell.error.trace)


@test("a result is the last expression's value, as JSON where that says all of it")
def _(driver):
    for code in ("$x = 1", "$x += 1;", "[$a, $b] = [1, 2];", "null", "echo 1;", "function g() {}", "class C {}", "if (true) { 1; }", "", "// nothing", "foreach ([1] as $v) { $v; }",
                 "$f = function () { return 1; };", "while (false) { }", "for (;;) { break; }", "return 5;", "exit;", "static $s;", "enum E { case A; }", "unset($x);"):
        equal(driver.ok(code).result, None, code)
    for code, value in (("1", 1), ("'ä\"\n'", 'ä"\n'), ("[1, [2.5, null, true], ['a' => 'b']]", [1, [2.5, None, True], {"a": "b"}]), ("[]", []), ("(object) ['a' => 1]", {"a": 1}), ("1.0;", 1.0),
                        ("match (true) { true => 5 };", 5), ("(function () { return 6; })();", 6), ("array_map(function ($x) { return $x; }, [7])", [7]), ("1 // a comment", 1), ("2; // a comment", 2),
                        ("if (true) { } 3", 3), ("function h() { return 4; } h();", 4), ("$x == 1 ? 'a' : \"{$a}b\";", "1b")):
        equal(driver.ok(code).result["application/json"].json, value, code)
    for code in ("NAN", "PHP_INT_MAX", '"\\xff"', "[1 => 2]", "new ArrayObject", "fn () => 1", "STDOUT", "E::A"):
        equal(list(driver.ok(code).result), ["text/plain"], code)
    equal(driver.value("E::A"), "E::A", "an enumeration")
    equal(driver.value('"a\\x00\\n"'), '"a\\x00\\n"', "binary")
    equal(driver.value("$o = new stdClass; $o->o = $o; $o;").split(" ")[0], "stdClass", "a cycle")
    failed(driver.run("class Bad { function __debugInfo() { throw new Exception('no'); } }\nnew Bad"), "Exception", "no", 1)
    cell = driver.ok("class H { function toHtml() { return '<b>'; } } Nsbox::display(1); Nsbox::display('<i>', 'text/html'); new H")
    equal((cell.result["text/html"].text, [sorted(shown) for shown in cell.displays]), ("<b>", [["application/json", "text/plain"], ["text/html"]]), "displays")
    equal(len(driver.ok("for ($i = 0; $i < 50; $i++) Nsbox::display($i);").displays), 40, "many")


@test("large values are bounded")
def _(driver):
    for code in ("str_repeat('ä', 1000000)", "range(1, 100000)", "array_fill(0, 10, str_repeat('x', 30000))", "array_combine(range(1, 50000), range(1, 50000))"):
        matches(driver.ok(code).result["text/plain"].text, "left out", code)
    equal(driver.ok("str_repeat('a', 70000)").result["application/json"].length, 70002, "cut")
    failed(driver.run("throw new Exception(str_repeat('m', 1000000));"), "Exception", "left out", 1)


@test("errors have their lines, and no frames of the driver's")
def _(driver):
    cell = failed(driver.run("function f() {\n  throw new RuntimeException('why', 3, new Exception('cause'));\n}\n\nf();"), "RuntimeException", "^why$", 2)
    check("cause in <cell 1>:2" in cell.error.trace and "#0 <cell 1>(5): f()\n#1 {main}" in cell.error.trace, cell.error.trace)
    failed(driver.run("\n\nf();"), "RuntimeException", "why", 3)
    failed(driver.run("$x = 1;\n$x = = 2;\n"), "ParseError", "unexpected token", 2)
    failed(driver.run("\nno_such();"), "Error", "undefined function no_such", 2)
    failed(driver.run("1 % 0"), "DivisionByZeroError", "", 1)
    failed(driver.run("\neval('1 +');"), "ParseError", "", 2)
    cell = driver.ok("echo 'a';\necho $undefined; fwrite(STDERR, 'err'); echo 'b';")
    equal((cell.out, cell.err), ("ab", "Warning: Undefined variable $undefined in <cell 7> on line 2\nerr"), f"{cell}")
    driver.ok("ob_start(); echo 'buffered';")
    equal(driver.last.out, "buffered", "output buffers")
    driver.ok("function f() {\n  throw new RuntimeException('why', 3, new Exception('cause'));\n} // again")
    failed(driver.run("$y = 1;\nfunction f() { return 2; }"), "Error", "Cannot redeclare function f\\(\\)", 2)
    failed(driver.run("f();"), "RuntimeException", "why", 1)
    driver.ok("class C { function m() { return 1; } }")
    driver.ok("class C {\n  function m() { return 1; } }\necho __LINE__;")
    equal(driver.last.out, "3", "lines after what was left out")
    failed(driver.run("class C { }"), "Error", "Cannot redeclare class c", 1)


@test("exit and die end the cell")
def _(driver):
    driver.ok("$x = 1; register_shutdown_function(function () { file_put_contents('bye', 'bye'); });")
    equal(driver.ok("echo 1; exit; echo 2;").out, "1", "exit")
    equal(driver.ok("function leave() { die('died'); } leave(); echo 2;").out, "died", "die")
    failed(driver.run("\nfalse or exit(3);"), "exit", "^status 3$", 2)
    equal(driver.value("class M { function exit() { return 'mine'; } } (new M)->exit()"), "'mine'", "a method")
    equal(driver.value("$x"), "1", "state")
    driver.end()
    equal((driver.workspace / "bye").read_text(), "bye", "at the end")


@test("a fatal error is said, and ends the context")
def _(driver):
    cell = driver.start("echo 'before';\n$a = [];\nwhile (true) $a[] = str_repeat('x', 1000000);")
    driver.allow_stderr = True
    end_of_context(driver)
    raised(cell, "FatalError", "Allowed memory size", 3)
    matches(cell.error.trace, "context has ended", "trace")
    equal(driver.process.returncode, 255, "status")
    check("kill" not in cell.err, f"standard error: {cell.err}")


@test("exit in a file that was included is said, and ends the context")
def _(driver):
    (driver.workspace / "lib.php").write_text("<?php exit(3);")
    cell = driver.start("include 'lib.php';")
    end_of_context(driver)
    raised(cell, "exit", "included", 0)
    equal(driver.process.returncode, 3, "status")


@test("standard output that is closed is said to end the context")
def _(driver):
    cell = driver.start("fclose(STDOUT); echo 1;")
    end_of_context(driver)
    raised(cell, "exit", "standard output is closed", 0)


for code in ("while (true);", "while (true) { $x = 1; }", "sleep(60);", "usleep(60000000);", "system('sleep 60');", "shell_exec('sleep 60');", "function f() { while (true) { g(); } } function g() { } f();",
             "try { sleep(60); } finally { echo 'fin'; }", "Nsbox::display(new class { function __debugInfo() { sleep(60); return []; } });", "array_map(function ($x) { sleep(60); }, [1]);"):
    @test(f"an interrupt of {code!r}")
    def _(driver, code=code):
        equal(driver.value("function_exists('pcntl_signal')"), "true", "pcntl")
        driver.ok("$y = 1;")
        driver.interrupt()
        cell = driver.interrupted(f"echo 'go'; {code}\necho 'NO';", b"go")
        equal((cell.status, cell.out.replace("fin", "")), ("interrupted", "go"), f"{cell}")
        driver.interrupt()
        equal(driver.value("$y"), "1", "state")


@test("without pcntl an interrupt ends the context, and says why", env=without_pcntl)
def _(driver):
    equal(driver.value("function_exists('pcntl_signal')"), "false", "pcntl")
    cell = driver.start("echo 'go'; while (true);")
    driver.wait(lambda: cell.stdout == b"go", 100, "go")
    driver.interrupt()
    end_of_context(driver)
    matches(cell.err, "without its extension pcntl", "why")
    equal(driver.process.returncode, -2, "status")


@test("a handler of the code's for SIGINT is kept, and not for between cells")
def _(driver):
    driver.ok("pcntl_signal(SIGINT, function () { echo 'caught'; $GLOBALS['stop'] = true; });")
    driver.interrupt()
    cell = driver.interrupted("echo 'go'; $stop = false; while (!$stop) usleep(1000); echo 'after';", b"go")
    equal((cell.status, cell.out), ("ok", "gocaughtafter"), f"{cell}")


@test("forks do not answer, and programs have no descriptors of the driver's")
def _(driver):
    cell = driver.ok("echo 'a'; $pid = pcntl_fork(); if ($pid) { pcntl_waitpid($pid, $s); echo pcntl_wexitstatus($s); } else { echo 'child'; }")
    equal(cell.out, "achild0", f"{cell}")
    equal(driver.ok("$pid = pcntl_fork(); if (!$pid) throw new Exception; pcntl_waitpid($pid, $s); echo pcntl_wexitstatus($s);").out, "1", "one that fails")
    fds = f"/proc/{open(f'/proc/{driver.process.pid}/task/{driver.process.pid}/children').read().split()[-1]}/fd"
    mine = {os.readlink(f"{fds}/{fd}") for fd in os.listdir(fds)}
    check(any("replies" in name for name in mine), mine)
    out = driver.ok("system('ls -l /proc/self/fd');").out
    check("replies" not in out and "requests" not in out and os.readlink(f"/proc/self/fd/{driver.replies}") not in out, out)
    equal(driver.value("[fgets(STDIN), file_get_contents('php://stdin')]"), "[false, '']", "input")
    equal([name for name in os.listdir(driver.folder) if name.startswith("tmp")], [], "files")


@test("code and output are bytes as they came")
def _(driver):
    equal(driver.ok("echo 'größe 😀';").out, "größe 😀", "UTF-8")
    equal(driver.ok('echo "\\xff\\0\\xfe";').stdout, b"\xff\0\xfe", "binary")
    failed(driver.run(b"throw new Exception(\"\xff\");"), "Exception", r"^\\xff$", 1)
    equal(driver.ok(b"echo strlen('a\0\xff');").out, "3", "code")
    driver.ok("$x = '" + "ä" * 300000 + "';")
    equal(driver.value("strlen($x)"), "600000", "a large one")


@test("a thousand cells leave nothing, and interrupts at any moment tear nothing")
def _(driver):
    def rss():
        child = open(f"/proc/{driver.process.pid}/task/{driver.process.pid}/children").read().split()[-1]
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{child}/status").read())[1])

    for _ in range(200):
        driver.ok("$x = range(1, 100); array_map(fn ($a) => $a, $x)")
    before = rss()
    for _ in range(1000):
        driver.ok("$x = range(1, 100); array_map(fn ($a) => $a, $x)")
    check(rss() < before + 4096, f"{before} KiB before, {rss()} after")
    statuses = set()
    for i in range(200):
        driver.start("for ($i = 0; $i < 200000; $i++) { $y = $i; } $x")
        for _ in range(i % 3 + 1):
            time.sleep(0.0005 * (i % 20))
            driver.interrupt()
        statuses.add(driver.finish().status)
    check(statuses <= {"ok", "interrupted"}, f"{statuses}")
    equal(driver.value("count($x)"), "100", "state")
