# SPDX-License-Identifier: MIT
"""The driver of Python: the language. What libraries show is in test_python_libraries.py."""

import random
import re
import signal
import time

from harness import Failure, check, equal, language, matches

test = language("python")


def trace_of(driver, code):
    cell = driver.run(code)
    equal(cell.status, "error", f"the end of {code!r}")
    return cell.error


# --- values ---


@test("the value of the last expression, as text and as JSON")
def _(driver):
    for code, text, json in (
        ("1 + 1", "2", 2),
        ("'grüße \\n'", "'grüße \\n'", "grüße \n"),
        ("x = 5\nx * 2  # double", "10", 10),
        ("[1, 2.5, None, True, 'a']", "[1, 2.5, None, True, 'a']", [1, 2.5, None, True, "a"]),
        ("{'a': (1, 2), 'b': {}}", "{'a': (1, 2), 'b': {}}", {"a": [1, 2], "b": {}}),
        ("(1)", "1", 1),
        ("(\n 1,\n)", "(1,)", [1]),
        ("if True:\n    y = 3\ny", "3", 3),
        ("a = 1\r\nb = 2\r\na + b", "3", 3),
        ("a = 1\rb = 3\ra + b", "4", 4),
        ("\ufeff5", "5", 5),
        ("0" + " + 1" * 200, "200", 200),
        ("2 ** 53", "9007199254740992", 2 ** 53),
        ("''", "''", ""),
        ("False", "False", False),
    ):
        result = driver.ok(code).result
        equal(result["text/plain"].text, text, code)
        equal(result["application/json"].json, json, code)
        equal(set(result), {"text/plain", "application/json"}, f"representations of {code}")
    for code, text in (("2 ** 53 + 1", "9007199254740993"), ("float('nan')", "nan"), ("[float('inf')]", "[inf]"), ("{1: 2}", "{1: 2}"),
                       ("{1, }", "{1}"), ("b'a'", "b'a'"), ("1j", "1j"), ("print", "<built-in function print>"),
                       ("a = []; a.append(a); a", "[[...]]"), ("d = {}; d['d'] = d; d", "{'d': {...}}"),
                       ("'\\ud800'", "'\\ud800'"), ("frozenset([1])", "frozenset({1})"), ("()", "()")):
        result = driver.ok(code).result
        equal(result["text/plain"].text, text, code)
        if code != "()":
            check("application/json" not in result, f"{code} as JSON")


@test("no value: statements, None, and what has a semicolon after it")
def _(driver):
    for code in ("x = 1", "None", "print()", "1;", "(1);", "1; # a remark", "x;\n\n# a remark\n", "'ü';", "def f(): return 1", "", "# only a remark", "\n\n",
                 "for i in range(3): i", "import os", "class A: pass"):
        equal(driver.ok(code).parts, [], f"{code!r}")
    equal(driver.value("1; 2"), "2", "the second of two")
    equal(driver.value("'a;b'"), "'a;b'", "a semicolon in a string")


@test("state stays: variables, imports, functions, the working directory, __future__, contexts; _ is the last value")
def _(driver):
    driver.ok("import math, os\nx = 40\ndef f(y):\n    return x + y\nclass A:\n    def __init__(self): self.v = 1")
    equal(driver.value("f(2)"), "42", "a function")
    driver.ok("None")
    equal(driver.value("_ + 1"), "43", "the last value")
    driver.ok("_ = 'own'")
    driver.ok("99")
    equal(driver.value("_"), "'own'", "a variable of the code")
    driver.ok("os.mkdir('sub'); os.chdir('sub')")
    equal(driver.value("os.path.basename(os.getcwd())"), "'sub'", "the working directory")
    driver.ok("from __future__ import annotations")
    equal(driver.value("def g(a: nothing): pass\ng.__annotations__"), "{'a': 'nothing'}", "a future")
    driver.ok("import decimal; decimal.getcontext().prec = 7")
    equal(driver.value("decimal.Decimal(1) / 3"), "Decimal('0.3333333')", "a context variable")
    driver.ok("import asyncio\nawait asyncio.sleep(0)\ndecimal.getcontext().prec = 5")
    equal(driver.value("decimal.Decimal(1) / 3"), "Decimal('0.33333')", "a context variable of a cell that awaits")
    equal(driver.value("__name__"), "'__main__'", "the name")
    equal(driver.ok("if __name__ == '__main__':\n    print('main')").out, "main\n", "a program's last lines")
    equal(driver.value("import sys; sys.argv"), "['']", "arguments")
    driver.ok("open('beside.py', 'w').write('value = 7');")
    equal(driver.value("import beside; beside.value"), "7", "a module in the working directory")


@test("values that are bounded: head and tail, and what was left out")
def _(driver):
    result = driver.ok("list(range(10_000_000))").result
    text = result["text/plain"].text
    check(text.startswith("[0, 1, 2, ") and text.endswith(", 9999998, 9999999]"), f"{text[:50]} {text[-50:]}")
    found = re.search(r"\n… ([\d,]+) of 10,000,000 items left out …\n", text)
    check(found, text[30000:34000])
    numbers = [int(number) for number in re.findall(r"\d+", text.replace(found[0], " "))]
    equal(len(numbers) + int(found[1].replace(",", "")), 10_000_000, "items")
    text = driver.ok("'ab' * 50_000_000").result["text/plain"].text
    check(text.startswith("'abab") and text.endswith("abab'") and "characters left out" in text, text[:100])
    for code in ("{i: str(i) for i in range(100_000)}", "set(range(100_000))", "[[i] * 1000 for i in range(1000)]", "tuple(['x' * 100] * 10_000)",
                 "[['x' * 1_000_000] * 100]", "b'a' * 1_000_000", "[{'k' * 100: ['v' * 100_000]}] * 5000"):
        _, before = driver.group()
        text = driver.ok(code).result["text/plain"].text
        check("left out" in text and 8_000 < len(text) < 66_000, f"{code}: {len(text)} {text[:200]}")
        took = driver.group()[1] - before
        check(took < 5, f"{code} took {took} s of CPU time")
    # What fits is whole.
    for code in ("list(range(8000))", "['x' * 30] * 1500", "{'a': [1, (2, {3: {4}})], 'b': frozenset([5])}", "[['x' * 300] * 10] * 10", "[[[[[[1]]]]]]"):
        equal(driver.value(code), repr(eval(code)), code)
    cell = driver.ok("list(range(100_000))")
    part = cell.result["application/json"]
    check(part.data is None and part.length == len(str(list(range(100_000)))), f"JSON that is too large: {cell}")
    text = driver.ok("class L:\n    def __repr__(self): return 'ü' * 1_000_000 + 'end'\nL()").result["text/plain"].text
    check(text.startswith("üü") and text.endswith("üend") and "characters left out" in text, text[:100])
    left = int(re.search(r"… ([\d,]+) characters", text)[1].replace(",", ""))
    equal(text.count("ü") + 3 + left, 1_000_003, "characters")


@test("a repr that fails is said, and the cell ends well")
def _(driver):
    cell = driver.ok("class R:\n    def __repr__(self):\n        raise KeyError('no')\nR()")
    matches(cell.result["text/plain"].text, r"^<R object at 0x[0-9a-f]+: its repr raised KeyError: 'no'>$", "the text")
    matches(cell.err, r"Traceback.*<cell 1>\", line 3.*raise KeyError", "standard error")
    cell = driver.ok("class S:\n    def __repr__(self): return repr(self)\nS()")
    matches(cell.result["text/plain"].text, "its repr raised RecursionError", "a repr without an end")
    cell = driver.ok("class T:\n    def __repr__(self): return 5\nT()")
    matches(cell.result["text/plain"].text, "its repr raised TypeError", "a repr that is none")
    cell = driver.ok("10 ** 10_000")
    check(cell.result["text/plain"].text.startswith(("<int object", "1000")), "a number of many digits")
    driver.ok("def deep(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x")
    matches(driver.ok("deep(100_000)").result["text/plain"].text, r"RecursionError|left out|\[\[\[", "lists in lists")


# --- errors ---


@test("an exception: name, message, line, trace")
def _(driver):
    error = trace_of(driver, "x = 1\n\n1 / 0")
    equal((error.name, error.message, error.line), ("ZeroDivisionError", "division by zero", 3), "a division")
    equal(re.sub(r"\n +[~^]+", "", error.trace), 'Traceback (most recent call last):\n  File "<cell 1>", line 3, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n', "the trace")
    driver.ok("def f(n):\n    return g(n)\n\ndef g(n):\n    return [][n]")
    error = trace_of(driver, "a = 1\nf(\n  2)")
    equal(error.line, 2, "the line of this cell")
    matches(error.trace, r'<cell 3>", line 2, in <module>.*<cell 2>", line 2, in f\n    return g\(n\).*<cell 2>", line 5, in g\n    return \[\]\[n\]', "frames of two cells")
    error = trace_of(driver, "import json\njson.loads('{')")
    equal((error.name, error.line), ("json.decoder.JSONDecodeError", 2), "an error in a library")
    error = trace_of(driver, "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e")
    matches(error.trace, "KeyError: 'k'.*direct cause.*ValueError: v", "a cause")
    equal(error.line, 4, "its line")
    error = trace_of(driver, "class Own(Exception):\n    def __str__(self): raise RuntimeError\nraise Own")
    equal((error.name, error.line), ("Own", 3), "an exception without words")
    error = trace_of(
        driver,
        "class Kind(type):\n    @property\n    def __name__(self): raise ValueError\n"
        "class Own(Exception, metaclass=Kind): pass\nraise Own",
    )
    equal((error.name, driver.value("1")), ("Own", "1"), "an exception whose class says no name")
    error = trace_of(driver, "def f(n): return f(n + 1)\nf(0)")
    equal((error.name, error.line), ("RecursionError", 1), "a recursion")
    check(len(error.trace) < 5000, f"{len(error.trace)} characters of it")
    error = trace_of(driver, "raise ValueError('x' * 10_000_000)")
    check(len(error.message) < 66_000 and len(error.trace) < 66_000 and "left out" in error.message, "long words")
    error = trace_of(driver, "display(1); import asyncio\nawait asyncio.sleep(0)\n\nraise ValueError(1)")
    equal(error.line, 4, "a cell that awaits")
    check("asyncio" not in error.trace and "python.py" not in error.trace, error.trace)
    error = trace_of(driver, "async def h():\n    raise OSError(2, 'no')\nasyncio.run(h())")
    equal((error.name, error.message, error.line), ("FileNotFoundError", "[Errno 2] no", 2), "in a loop of its own")
    equal(driver.value("1"), "1", "afterwards")


@test("syntax errors have the right line, and run nothing")
def _(driver):
    for code, name, line in (("print(1)\nx = = 2", "SyntaxError", 2), ("if True:\nprint(1)", "IndentationError", 2), ("x = 1\n  y = 2", "IndentationError", 2),
                             ("\n\nreturn 5", "SyntaxError", 3), ("def f():\n    x = 1\n\ty = 2", "TabError", 3), ("print('a)\n", "SyntaxError", 1),
                             ("def f():\n    await x", "SyntaxError", 2), ("print(1)\n(", "SyntaxError", 2), ("nonlocal x", "SyntaxError", 1)):
        cell = driver.run(code)
        equal((cell.status, cell.error.name, cell.error.line, cell.out), ("error", name, line, ""), f"{code!r}: {cell.error}")
        matches(cell.error.trace, rf'^  File "<cell {cell.number}>", line {line}\n', "the trace")
    error = trace_of(driver, "x = 1\n%matplotlib inline")
    matches(error.trace, "IPython's", "a hint")
    error = trace_of(driver, "x = '\\0'\ny = 'a\0b'")
    check(error.name in ("SyntaxError", "ValueError"), f"a null: {error}")
    error = trace_of(driver, "eval('1 +')")
    equal(error.line, 1, "an error in a text that is evaluated")


@test("exit says that the context goes on, and threads may do as they like")
def _(driver):
    driver.ok("x = 1")
    for code in ("exit()", "quit(0)", "import sys\nsys.exit()"):
        matches(driver.ok(code + "\nx = 2").err, "^The code has exited. The context goes on", code)
    for code, message in (("exit(1)", "1"), ("import sys\nsys.exit(3)", "3"), ("raise SystemExit('words')", "words")):
        error = trace_of(driver, code)
        equal(error.name, "SystemExit", code)
        check(message in error.message, f"{code}: {error.message}")
        matches(error.trace, "The context goes on", code)
    driver.ok("import threading\nt = threading.Thread(target=sys.exit)\nt.start(); t.join()")
    cell = driver.ok("t = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()")
    matches(cell.err, "ZeroDivisionError", "standard error of a thread")
    equal(driver.value("x"), "1", "a variable")
    error = trace_of(driver, "input()")
    equal(error.name, "EOFError", "standard input")
    equal(driver.value("sys.stdin.read()"), "''", "standard input")


@test("a module that is __main__: pickle, dataclasses, type hints, inspect, sources after a hundred cells")
def _(driver):
    driver.ok("import dataclasses, inspect, pickle, sys, typing\n\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: 'Q' = None\n\n    def double(self):\n        return 2 * self.x\n\n\nclass Q: pass\n\n\ndef f():\n    # a remark\n    return P")
    equal(driver.value("pickle.loads(pickle.dumps(P(1, [Q]))).x"), "1", "pickle")
    result = driver.ok("P(1, 2)").result
    equal((result["text/plain"].text, result["application/json"].json), ("P(x=1, y=2)", {"x": 1, "y": 2}), "a dataclass")
    equal(driver.value("typing.get_type_hints(P)['y'] is Q"), "True", "type hints")
    equal(driver.value("inspect.getsource(f)"), repr("def f():\n    # a remark\n    return P\n"), "the source of a function")
    matches(driver.value("inspect.getsource(P)"), "class P:.*x: int.*return 2", "the source of a class")
    equal(driver.value("inspect.getsource(P.double)"), repr("    def double(self):\n        return 2 * self.x\n"), "the source of a method")
    equal(driver.value("sys.modules['__main__'].__dict__ is globals()"), "True", "the module")
    check("not defined" in trace_of(driver, "wire").message, "a name of the driver")
    equal(driver.value("[n for n in dir() if not n.startswith('__')]"), "['P', 'Q', 'dataclasses', 'f', 'inspect', 'pickle', 'sys', 'typing']", "names")
    for _ in range(120):
        driver.ok("0")
    equal(trace_of(driver, "1 / 0\nx").line, 1, "a line")
    error = trace_of(driver, "raise TypeError(2)")
    matches(error.trace, r"raise TypeError\(2\)", "a source")
    matches(driver.run("def g(): assert 0\nimport traceback\ntry: g()\nexcept AssertionError: traceback.print_exc()").err, "assert 0", "a trace of the code's own")


# --- await ---


def goes_on(driver, when):
    """That `n`, which a task counts up, becomes greater, and not by the cells that look at it alone."""
    for _ in range(30):
        before = int(driver.value("n"))
        time.sleep(0.5)
        if int(driver.value("n")) > before + 5:
            return
    raise Failure(f"a task does not go on {when}")


@test("await at the top, in one loop: tasks and locks stay, and tasks go on between cells")
def _(driver):
    driver.ok("import asyncio\nlock = asyncio.Lock()\nq = asyncio.Queue()")
    equal(driver.value("await lock.acquire()"), "True", "a lock")
    equal(driver.value("lock.locked()"), "True", "a lock in the next cell")
    equal(driver.value("async def f(x):\n    await asyncio.sleep(0.01)\n    return x\nawait asyncio.gather(*(f(i) for i in range(3)))"), "[0, 1, 2]", "several")
    equal(driver.value("[await f(i) for i in range(2)]"), "[0, 1]", "a comprehension")
    driver.ok("async with asyncio.timeout(5) if hasattr(asyncio, 'timeout') else lock.__class__():\n    z = 1")
    driver.ok("n = 0\nasync def count():\n    global n\n    while True:\n        n += 1\n        await asyncio.sleep(0.01)\ntask = asyncio.create_task(count())")
    goes_on(driver, "between cells")
    driver.interrupt()  # is nobody's
    goes_on(driver, "after an interrupt between cells")
    equal(driver.value("task.cancel()\nawait asyncio.sleep(0.02)\ntask.cancelled()"), "True", "a task that is cancelled")
    equal(driver.value("asyncio.run(f(5))"), "5", "asyncio.run, as in a program")
    equal(driver.value("asyncio.get_event_loop().run_until_complete(f(6))"), "6", "the loop")
    equal(driver.value("await f(7)"), "7", "the loop after asyncio.run")
    driver.ok("async def fail():\n    await asyncio.sleep(0.05)\n    raise SystemExit(3)\nt = asyncio.create_task(fail())\nNone")
    time.sleep(0.2)
    equal(driver.value("1"), "1", "after a task that exits")
    driver.allow_stderr = True
    driver.ok("async def spin():\n    await asyncio.sleep(0.05)\n    while True: pass\nspinning = asyncio.create_task(spin())")
    driver.works(0.2)
    driver.start("'never'")
    driver.works(0.2)
    driver.interrupt()
    equal(driver.finish().status, "interrupted", "a cell behind a task that does not let it in")
    equal(driver.value("spinning.done()"), "True", "that task")
    driver.ok("forever = asyncio.create_task(count())")


# --- interrupts ---


INTERRUPTED = {
    "a loop": "print('go', flush=True)\nwhile True: pass",
    "sleep": "import time\nprint('go', flush=True)\ntime.sleep(60)",
    "await": "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(60)",
    "a loop in a coroutine": "async def f():\n    print('go', flush=True)\n    while True: pass\nawait f()",
    "a loop in a task": "import asyncio\nasync def f():\n    print('go', flush=True)\n    while True: pass\nawait asyncio.gather(f(), asyncio.sleep(60))",
    "asyncio.run": "import asyncio\nprint('go', flush=True)\nasyncio.run(asyncio.sleep(60))",
    "a lock": "import threading\nl = threading.Lock(); l.acquire()\nprint('go', flush=True)\nl.acquire()",
    "a thread that is waited for": "import threading, time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start()\nprint('go', flush=True)\nt.join()",
    "a queue": "import queue\nprint('go', flush=True)\nqueue.Queue().get()",
    "a program": "import subprocess\nprint('go', flush=True)\nsubprocess.run(['sleep', '60'])",
    "a pipe": "import os\nr, w = os.pipe()\nprint('go', flush=True)\nos.read(r, 1)",
    "a socket": "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\nprint('go', flush=True)\ns.accept()",
    "a repr": "class E:\n    def __repr__(self):\n        print('go', flush=True)\n        while True: pass\nE()",
    "a method that shows": "class H:\n    def _repr_html_(self):\n        print('go', flush=True)\n        while True: pass\nH()",
    "sort": "print('go', flush=True)\nwhile True: sorted(range(1000), key=lambda x: -x)",
    "except Exception": "print('go', flush=True)\nwhile True:\n    try:\n        sum(range(100))\n    except Exception:\n        pass",
    "values that are shown": "print('go', flush=True)\nwhile True: display(1)",
    "output": "print('go', flush=True)\nwhile True: print('x' * 100)",
    "a generator": "def g():\n    while True: yield 1\nprint('go', flush=True)\nsum(g())",
    "a handler of the code's own": "import signal\nsignal.signal(signal.SIGINT, lambda *a: 1 / 0)\nprint('go', flush=True)\nwhile True: pass",
}


@test("a cell is interrupted wherever it is, and its state stays")
def _(driver):
    driver.ok("kept = 1")
    for name, code in INTERRUPTED.items():
        cell = driver.interrupted(code, after=b"go")
        status = "error" if "of the code's own" in name else "interrupted"
        equal(cell.status, status, name)
        if status == "interrupted":
            equal(cell.error.name, "KeyboardInterrupt", name)
            check(cell.error.line > 0, f"{name}: no line: {cell.error}")
        equal(driver.value("kept"), "1", f"state after {name}")
    equal(driver.ok("try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt: print('caught')").out, "caught\n", "an exception of the code's own")
    equal(driver.run("raise KeyboardInterrupt").status, "error", "an exception that the code raises")
    equal(driver.interrupted("import time\ntry:\n    print('go', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')", after=b"go").status, "ok", "one that the code catches")


@test("the shower of interrupts: none ends the driver or tears a reply in two")
def _(driver):
    driver.ok("x = 0")
    statuses, chance = {}, random.Random(1)
    begin = time.monotonic()
    codes = ("for x in range(10000): pass\ndisplay(x)\nx", "for x in range(200): print(x)", "[x] * 20000", "[[[x]] * 10] * 500", "x +",
             "for x in range(5): display({'text/x-long': 'y' * 3_000_000}, raw=True)", "for x in range(5): display({'text/x-long': 'y' * 3_000_000}, raw=True)",
             "import asyncio\nfor x in range(20): await asyncio.sleep(0.0001)\nx", "for x in range(30): display(x)\n1 / 0",
             "import asyncio\nasync def f():\n    for i in range(10000): pass\nawait asyncio.gather(f(), f(), asyncio.sleep(0.01))")
    # For five seconds, or as much longer as a slow machine needs for twenty of each.
    while (spent := time.monotonic() - begin) < 5 or spent < 200 and min(statuses.get("interrupted", 0), statuses.get("ok", 0)) <= 20:
        cell = driver.start(chance.choice(codes))
        for _ in range(chance.randrange(5)):
            time.sleep(chance.random() * 0.003)
            for _ in range(chance.choice((1, 1, 100))):
                driver.interrupt()
        driver.finish()
        statuses[cell.status] = statuses.get(cell.status, 0) + 1
        driver.interrupt()
    check(statuses.get("interrupted", 0) > 20 and statuses.get("ok", 0) > 20, f"{statuses}")
    time.sleep(0.1)
    equal(driver.value("x >= 0"), "True", "state")


# --- processes and output ---


@test("children: fork, multiprocessing in each way, programs; none of them answers in the driver's place")
def _(driver):
    cell = driver.ok("import os\npid = os.fork()\nif pid == 0:\n    print('child', flush=True)\nelse:\n    os.waitpid(pid, 0)\n    print('parent')\n'value'")
    equal((cell.out, cell.result["text/plain"].text), ("child\nparent\n", "'value'"), "a child that goes on")
    cell = driver.ok("pid = os.fork()\nif pid == 0: 1 / 0\nos.waitpid(pid, 0)[1]")
    equal(cell.result["text/plain"].text, "256", "a child that fails")
    matches(cell.err, r'<cell \d+>", line 2.*ZeroDivisionError', "its trace")
    equal(driver.value("import sys\npid = os.fork()\nif pid == 0: sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8"), "7", "a child that exits")
    equal(driver.ok("if os.fork() == 0:\n    display('child')\nelse:\n    _ = os.wait()").out, "'child'\n", "a child that displays")
    here = driver.ok("import os\nprint(len(os.listdir('/proc/self/fd')))").out
    there = driver.ok("if os.fork() == 0: print(len(os.listdir('/proc/self/fd')), flush=True)\nelse: _ = os.wait()").out
    equal(int(here) - int(there), 2, "descriptors that a child has not")
    driver.ok("import multiprocessing, concurrent.futures\nN = 10\n\n\ndef square(x):\n    return N * x * x\n\n\nclass Pair:\n    def __init__(self, a): self.a = a\n    def __eq__(self, other): return self.a == other.a\n\n\ndef pair(x):\n    return Pair(x)")
    for method in ("fork", "spawn", "forkserver"):
        equal(driver.value(f"with multiprocessing.get_context({method!r}).Pool(2) as pool:\n    found = pool.map(square, [1, 2, 3])\nfound"), "[10, 40, 90]", method)
    equal(driver.value("with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('spawn')) as pool:\n    found = list(pool.map(pair, [1, 2]))\nfound == [Pair(1), Pair(2)]"), "True", "objects of a class of a cell")
    driver.ok("def square(x):\n    return -x")
    equal(driver.value("with multiprocessing.get_context('spawn').Pool(1) as pool:\n    found = pool.map(square, [1])\nfound"), "[-1]", "a function that was defined anew")
    cell = driver.ok("import subprocess\nprint('one')\nsubprocess.run(['sh', '-c', 'echo two; ls /proc/self/fd | wc -l'])\nprint('three');")
    matches(cell.out, "^one\ntwo\n[45]\nthree\n$", "output in order, and no descriptors")
    matches(driver.ok("import os, threading, time\ndef work():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late')\nthreading.Thread(target=work).start()").out, "^$", "a thread")
    (driver.workspace / "go").touch()
    driver.wait(lambda: driver.stray[1] == b"late\n", 60, "what a thread prints later")
    (driver.workspace / "go").unlink()
    driver.ok("def show():\n    while not os.path.exists('go'): time.sleep(0.01)\n    display(5)\nthreading.Thread(target=show).start()")
    (driver.workspace / "go").touch()
    driver.wait(lambda: driver.stray[1] == b"late\n5\n", 60, "what a thread displays later")


@test("what ends the interpreter leaves a trace")
def _(driver):
    driver.start("import ctypes\nctypes.string_at(0)")
    driver.over = True
    driver.process.wait(100)
    driver.drain()
    matches(driver.cell.err, r'Segmentation fault.*<cell 1>", line 2', "standard error")
    equal(driver.process.returncode, -signal.SIGSEGV, "status")


@test("the end of requests runs what Python runs at its end")
def _(driver):
    driver.ok("import atexit\natexit.register(print, 'the end', flush=True);")
    driver.end()
    equal(driver.stray[1], b"the end\n", "standard output")


@test("a thousand cells leave nothing behind")
def _(driver):
    def some(count):
        for i in range(count):
            driver.ok(f"x = {i}  # {'remark ' * 500}\ndef f{i % 7}(a): return a\n'{'text ' * 50}'")
            driver.run("1 / 0")

    some(150)
    before = driver.rss()
    some(500)
    check(driver.rss() - before < 1500, f"{before} KiB became {driver.rss()} KiB")


# --- display ---


@test("display: values with representations as IPython knows them")
def _(driver):
    driver.ok("""
class All:
    def _repr_html_(self): return '<b>x</b>'
    def _repr_markdown_(self): return '**x**'
    def _repr_latex_(self): return '$x$'
    def _repr_svg_(self): return '<svg/>'
    def _repr_json_(self): return {'x': 1}, {'meta': 1}
    def __repr__(self): return 'All'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'b', 'text/html': '<i>', 'x/bad type': '', 'application/x+json': {'a': [1]}, 'application/x-none': None}, {}
    def _repr_html_(self): raise AssertionError
class Own:
    def _ipython_display_(self): print('shown')
class Fails:
    def _repr_html_(self): raise ValueError('no html')
    def __repr__(self): return 'Fails'
class Any:
    def __getattr__(self, name): return lambda *a, **k: 'any'
""")
    result = driver.ok("All()").result
    equal({mime: part.text for mime, part in result.items()}, {
        "text/plain": "All", "text/html": "<b>x</b>", "text/markdown": "**x**", "text/latex": "$x$", "image/svg+xml": "<svg/>",
        "application/json": '{"x": 1}'}, "all")
    cell = driver.ok("display(1, All())\ndisplay(Bundle())\n'result'")
    equal([sorted(shown) for shown in cell.displays], [["application/json", "text/plain"], sorted(result), ["application/x+json", "text/html", "text/plain"]], "three displays")
    equal(cell.displays[2]["application/x+json"].json, {"a": [1]}, "JSON of a bundle")
    cell = driver.ok("Own()")
    equal((cell.out, cell.parts), ("shown\n", []), "what shows itself")
    cell = driver.ok("Fails()")
    equal(cell.result["text/plain"].text, "Fails", "what fails")
    matches(cell.err, "no html", "what fails")
    check(not any(str(driver.folder / "driver") in cell.err for _ in [0]), cell.err)
    equal(set(driver.ok("Any()").result), {"text/plain"}, "what has all methods")
    check("text/plain" in driver.ok("All").result, "a class")
    cell = driver.ok("for i in range(50): display(i)")
    equal(len(cell.displays), 41, "values")
    equal(cell.displays[-1]["text/plain"].text, "… 10 more values left out: a cell shows at most 40 …", "the last")
    cell = driver.run("for i in range(50): display(i)\n1 / 0")
    equal(len(cell.displays), 41, "values before an error")
    cell = driver.ok("display({'text/html': '<p>', 'text/plain': 'p'}, raw=True)\nh = display(1, display_id='a')\nh.update(2)")
    equal([shown["text/plain"].text for shown in cell.displays], ["p", "1", "2"], "raw, and updates")
    cell = driver.ok("class Big:\n    def _repr_png_(self): return b'x' * 5_000_000\n    def _repr_html_(self): return '<p>' * 1_000_000\nBig()")
    equal((cell.result["image/png"].data, cell.result["image/png"].length), (None, 5_000_000), "an image that is too large")
    matches(cell.result["text/html"].text, "characters left out", "HTML that is too long")


@test("IPython.display, where IPython is not installed")
def _(driver):
    driver.ok("import sys\nsys.path[:] = [path for path in sys.path if 'site-packages' not in path and 'dist-packages' not in path]")
    cell = driver.ok("from IPython.display import display, HTML, Markdown, Image, SVG, JSON, Latex, clear_output\ndisplay(HTML('<b>'))\nclear_output()\nMarkdown('*m*')")
    equal(cell.displays[0]["text/html"].text, "<b>", "HTML")
    equal(cell.result["text/markdown"].text, "*m*", "Markdown")
    equal(driver.ok("import IPython\nIPython.get_ipython()").result, None, "get_ipython")
    error = trace_of(driver, "from IPython.display import Video")
    matches(error.message, "Video", "what is not there")
    png = "import base64, struct, zlib\ndef chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\npng = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(bytes(4))) + chunk(b'IEND', b'')\nopen('a.png', 'wb').write(png);"
    driver.ok(png)
    equal(len(driver.ok("Image('a.png')").images()), 1, "a picture of a file")
    equal(len(driver.ok("Image(data=png)").images()), 1, "a picture")
    equal(driver.ok("SVG('<svg></svg>')").result["image/svg+xml"].text, "<svg></svg>", "SVG")
