# SPDX-License-Identifier: MIT
"""Ruby that is kept."""

import os
import time

from harness import check, equal, language, matches

test = language("ruby")


def failed(cell, name, message, line):
    equal((cell.status, cell.error and cell.error.name), ("error", name), f"{cell}")
    matches(cell.error.message, message, "message")
    equal(cell.error.line, line, f"line: {cell.error}")
    return cell


@test("variables, methods, classes, constants, requires and the working directory stay")
def _(driver):
    driver.ok("x = 1\n@y = 2\n$z = 3\nK = 4\ndef f(n) = n * 2\nclass P; attr_accessor :q; end\nrequire 'set'\nDir.mkdir('d'); Dir.chdir('d')")
    equal(driver.value("[x, @y, $z, K, f(5), P.new.class.name, Set[1].size, Dir.pwd]"), f'[1, 2, 3, 4, 10, "P", 1, "{driver.workspace}/d"]', "state")
    failed(driver.run("x = 7\n1 / 0"), "ZeroDivisionError", "divided by 0", 2)
    equal(driver.value("x"), "7", "after an error")
    equal(driver.value("_ + 1"), "8", "_")
    equal(driver.value("$0 == __FILE__"), "true", "$0")
    check(driver.ok("local_variables.inspect").result["text/plain"].text in ('"[:x, :_]"', '"[:_, :x]"'), "no variables of the driver's")


@test("a result is an expression's value, as JSON where that says all of it")
def _(driver):
    for code in ("x = 1", "x += 1", "a, b = 1, 2", "nil", "def g; end", "class C; end", "puts 1", "", "# nothing", "exit"):
        equal(driver.ok(code).result, None, code)
    for code, value in (("1", 1), ('"ä\\"\\n\\u0001"', 'ä"\n\x01'), ("[1, [2.5, nil, true], {a: 'b', 'c' => -1e30}]", [1, [2.5, None, True], {"a": "b", "c": -1e30}]), ("{}", {}), ("false", False)):
        equal(driver.ok(code).result["application/json"].json, value, code)
    for code in ("Float::NAN", "1 << 60", ":a", "{1 => 2}", "{a: 1, 'a' => 2}", "1.0 / 0", '"\\xff"', "Object.new", "a = []; a << a; a", "1..2", "3r", "'ä'.encode('UTF-16')"):
        cell = driver.ok(code)
        equal(list(cell.result), ["text/plain"], code)
    equal(driver.value("'ä'.encode('ISO-8859-1')"), '"\\xE4"', "another encoding")
    equal(driver.ok("1;\n2 # two").result["text/plain"].text, "2", "the last")
    equal(driver.run("BasicObject.new").result["text/plain"].text, "#<BasicObject>", "BasicObject")
    failed(driver.run("class Bad; def inspect = raise('no'); end\nBad.new"), "RuntimeError", "no", 1)


@test("what objects can be is shown")
def _(driver):
    driver.ok("class H; def to_html = '<b>h</b>'; def to_png = \"\\x89PNG\\r\\n\\x1a\\n....IEND\\xaeB`\\x82\".b; end")
    cell = driver.ok("Nsbox.display(H.new); Nsbox.display('text/html' => '<i>'); Nsbox.display([1]); puts 'out'; H.new")
    equal(cell.result["text/html"].text, "<b>h</b>", "html")
    equal([sorted(shown) for shown in cell.displays], [["image/png", "text/html", "text/plain"], ["text/html"], ["application/json", "text/plain"]], "displays")
    cell = driver.ok("50.times { |i| Nsbox.display(i) }; 7")
    equal((len(cell.displays), cell.result["text/plain"].text), (40, "7"), "many")
    matches(cell.displays[-1]["text/plain"].text, "^11 more", "the rest")
    equal(driver.ok("[1].display").out, "[1]", "Kernel#display")


@test("large values are bounded")
def _(driver):
    for code in ("'ä' * 1_000_000", "(1..300_000).to_a", "[['x' * 100_000] * 10]", "(1..200_000).to_h { [_1, _1] }", "Struct.new(:a).new('y' * 200_000)"):
        cell = driver.ok(code)
        check(cell.result["text/plain"].length <= 66000, code)
        check("left out" in cell.result["text/plain"].text or "more …" in cell.result["text/plain"].text, code)
    cell = driver.ok("'a' * 70_000")
    equal((cell.result["application/json"].data, cell.result["application/json"].length), (None, 70002), "cut")
    failed(driver.run("raise 'm' * 1_000_000"), "RuntimeError", "left out", 1)
    failed(driver.run("class String; def to_html = self; end\ndef f = f\nf"), "SystemStackError", "deep", 2)


@test("errors have their lines, and no frames of the driver's")
def _(driver):
    cell = failed(driver.run("def f\n  raise ArgumentError, 'why'\nend\n\nf"), "ArgumentError", "^why$", 2)
    check(cell.error.trace.startswith("<cell 1>:2:in ") and "why (ArgumentError)" in cell.error.trace, cell.error.trace)
    equal(len(cell.error.trace.splitlines()), 2, cell.error.trace)
    failed(driver.run("\n\nf"), "ArgumentError", "why", 3)
    failed(driver.run("x = 1\nif x\n  foo(\nend\n"), "SyntaxError", "", 4)
    failed(driver.run("x = 1\nputs )\n"), "SyntaxError", "", 2)
    failed(driver.run("1\neval('1 +')"), "SyntaxError", "", 2)
    cell = failed(driver.run("begin\n  raise 'one'\nrescue\n  raise TypeError, 'two'\nend"), "TypeError", "two", 4)
    check("one (RuntimeError)" in cell.error.trace, cell.error.trace)
    failed(driver.run("throw :x"), "UncaughtThrowError", "", 1)
    failed(driver.run("\nno_such"), "NameError", "no_such", 2)
    failed(driver.run("require 'no/such'"), "LoadError", "no/such", 1)
    failed(driver.run("raise Class.new(StandardError), 'x'"), "an anonymous exception", "x", 1)
    failed(driver.run("raise Class.new(StandardError) { def message = raise('y') }"), "an anonymous exception", "RuntimeError", 1)
    (driver.workspace / "lib.rb").write_text("require_relative 'sub/lib2'\ndef lib = 1\n")
    (driver.workspace / "sub").mkdir()
    (driver.workspace / "sub" / "lib2.rb").write_text("def lib2\n\n  raise 'in lib'\nend\n")
    equal(driver.value("require_relative 'lib'\nlib"), "1", "require_relative")
    failed(driver.run("1\nlib2"), "RuntimeError", "in lib", 2)


@test("exit and abort end the cell, at_exit is for the end")
def _(driver):
    driver.ok("x = 1; at_exit { File.write('bye', x.to_s) }")
    driver.ok("puts 1; exit; puts 2")
    failed(driver.run("exit 3"), "SystemExit", "^status 3$", 1)
    equal(failed(driver.run("\nabort 'why'"), "SystemExit", "^why$", 2).err, "why\n", "abort")
    equal(driver.value("x"), "1", "state")
    check(not (driver.workspace / "bye").exists(), "at_exit was early")
    driver.end()
    equal((driver.workspace / "bye").read_text(), "1", "at_exit")


for code in ("loop {}", "sleep", "Thread.new { sleep }; Queue.new.pop", "Thread.new { sleep }.join", "system('sleep 60')", "`sleep 60`", "IO.pipe[0].read",
             # With a thread that is not for ever, or Ruby itself ends what cannot go on, after a while.
             "Thread.new { sleep 300 }; Mutex.new.tap(&:lock).then { |m| Thread.new { m.lock }.join }", "begin; sleep; ensure; puts 'ensure'; end",
             "x = Class.new { def inspect = sleep }.new"):
    @test(f"an interrupt of {code!r}")
    def _(driver, code=code):
        driver.ok("y = 1")
        driver.interrupt()
        if code.startswith("x = "):
            driver.ok(code)
            code = "x"
        cell = driver.interrupted(f"puts 'go'; {code}", b"go")
        equal((cell.status, cell.out.replace("ensure\n", "")), ("interrupted", "go\n"), f"{cell}")
        driver.interrupt()
        equal(driver.value("y"), "1", "state")


@test("a trap of the code's for SIGINT is kept, and not for between cells")
def _(driver):
    driver.ok("trap('INT') { puts 'caught'; $stop = true }")
    driver.interrupt()
    cell = driver.interrupted("puts 'go'; sleep 0.01 until $stop; puts 'after'", b"go")
    equal((cell.status, cell.out), ("ok", "go\ncaught\nafter\n"), f"{cell}")
    driver.ok("trap('INT', 'DEFAULT')")
    driver.interrupt()
    equal(driver.interrupted("puts 'go'; sleep", b"go").status, "interrupted", "default")


@test("forks do not answer, threads write, and programs have no descriptors of the driver's")
def _(driver):
    cell = driver.ok("$stdout.sync = false\nprint 'a'\npid = fork\nif pid\n  Process.wait(pid)\n  puts $?.exitstatus\nelse\n  puts 'child'\nend\n5")
    check("child" in cell.out and cell.out.endswith("0\n"), f"{cell}")
    cell = driver.ok("Process.wait(fork { raise 'in the child' }); $?.exitstatus")
    equal(cell.result["text/plain"].text, "1", "status")
    check("in the child" in cell.err, cell.err)
    driver.ok("pid = fork; raise 'out of it' unless pid; Process.wait(pid)")
    equal(driver.ok("t = Thread.new { puts 'thread' }; t.join; system('echo child'); warn 'err'; puts 'end'").out, "thread\nchild\nend\n", "order")
    links = os.listdir(f"/proc/{driver.process.pid}/fd")
    pipes = {os.readlink(f"/proc/{driver.process.pid}/fd/{fd}") for fd in links if int(fd) >= 10}
    own = os.readlink(f"/proc/self/fd/{driver.replies}")
    check(own in pipes, "the replies")
    check(own not in driver.ok("puts `ls -l /proc/self/fd`").out, "descriptors")
    equal(driver.value("[gets, $stdin.read]"), '[nil, ""]', "input")


@test("code and output are bytes as they came")
def _(driver):
    equal(driver.ok("print 'größe 😀'").out, "größe 😀", "UTF-8")
    equal(driver.ok("$stdout.binmode; print \"\\xff\\0\\xfe\".b").stdout, b"\xff\0\xfe", "binary")
    equal(driver.ok("# encoding: utf-8\n'ä'.size").result["text/plain"].text, "1", "encoding")
    equal(driver.ok("require 'stringio'; $stdout = StringIO.new; puts 'x'; $stdout = STDOUT").out, "", "another $stdout")
    driver.ok("x = '" + "ä" * 300000 + "'")
    equal(driver.value("x.size"), "300000", "a large one")
    equal(driver.run(b"x = \"\xff\"").status, "error", "what is no UTF-8")


@test("a thousand cells leave nothing, and interrupts at any moment tear nothing")
def _(driver):
    for _ in range(200):
        driver.ok("x = [1] * 1000; x.size")
    before = driver.rss()
    for _ in range(1000):
        driver.ok("x = [1] * 1000; x.size")
    check(driver.rss() < before + 8192, f"{before} KiB before, {driver.rss()} after")
    statuses = set()
    for i in range(200):
        driver.start("x.inspect; 20_000.times { |i| i.to_s }")
        for _ in range(i % 3 + 1):
            time.sleep(0.0005 * (i % 20))
            driver.interrupt()
        statuses.add(driver.finish().status)
    check(statuses <= {"ok", "interrupted"}, f"{statuses}")
    equal(driver.value("x.size"), "1000", "state")
