# SPDX-License-Identifier: MIT
"""R that is kept."""

import os
import re
import time

from harness import Picture, Skip, check, equal, language, matches

test = language("r")


def failed(cell, name, message, line):
    equal((cell.status, cell.error and cell.error.name), ("error", name), f"{cell}")
    matches(cell.error.message, message, "message")
    equal(cell.error.line, line, f"line: {cell.error}")
    return cell


@test("variables, functions, libraries, options and the working directory stay")
def _(driver):
    driver.ok("x <- 1\nf <- function(n) n * 2\nlibrary(stats4)\noptions(digits = 4)\ndir.create('d'); setwd('d')\nassign('y', 3)")
    equal(driver.value("c(x, f(5), y, pi)"), "[1]  1.000 10.000  3.000  3.142", "state")
    equal(driver.value("c(basename(getwd()), 'package:stats4' %in% search())"), '[1] "d"    "TRUE"', "state")
    failed(driver.run("x <- 7\nstop('why')"), "simpleError", "^why$", 2)
    equal(driver.value("x"), "[1] 7", "after an error")
    equal(driver.value(".Last.value + 1"), "[1] 8", ".Last.value")
    equal(driver.value("ls()"), '[1] "f" "x" "y"', "nothing of the driver's")


@test("what is visible is printed, and the last value is the result")
def _(driver):
    for code in ("x <- 1", "invisible(1)", "", "# nothing", "for (i in 1:2) i", "f <- function() 1", "1;", "library(stats)", "q()"):
        equal(driver.ok(code).result, None, code)
    cell = driver.ok("'a'\ncat('b\\n')\n2")
    equal((cell.out, cell.result["text/plain"].text), ('[1] "a"\nb\n', "[1] 2"), f"{cell}")
    for code, value in (("1:3", [1, 2, 3]), ("0.1 + 0.2", 0.1 + 0.2), ("c(a = 1, b = NA)", {"a": 1, "b": None}), ("list(1, 'ä\"\\n\\\\', TRUE, NULL)", [1, 'ä"\n\\', True, None]),
                        ("list(a = list(b = 1:2))", {"a": {"b": [1, 2]}}), ("matrix(1:4, 2)", [[1, 3], [2, 4]]), ("list()", []), ("NULL", None), ("1e300", 1e300), ("100000L", 100000)):
        equal(driver.ok(code).result["application/json"].json, value, code)
    equal(driver.ok("c(1.5, NA)").err, "", "no warnings of the driver's")
    for code in ("NaN", "Inf", "factor('a')", "Sys.Date()", "mean", "quote(a + b)", "1i", "list(a = 1, a = 2)", "new.env()", "array(1:8, c(2, 2, 2))"):
        equal(list(driver.ok(code).result), ["text/plain"], code)
    equal(driver.value("structure(1, class = 'odd')\nprint.odd <- function(x, ...) cat('odd\\n')\nstructure(1, class = 'odd')"), "odd", "S3")
    cell = driver.ok("setClass('P', representation(a = 'numeric'))\nsetMethod('show', 'P', function(object) cat('S4', object@a, '\\n'))\nnew('P', a = 2)")
    equal(cell.result["text/plain"].text, "S4 2 ", "S4")
    failed(driver.run("print.bad <- function(x, ...) stop('in print')\nstructure(1, class = 'bad')"), "simpleError", "in print", 1)
    equal(driver.value("1"), "[1] 1", "after it")


@test("data frames are text, HTML and JSON, of which the middle is left out")
def _(driver):
    cell = driver.ok("data.frame(n = c(1.5, NA), s = c('<a>', 'ä'), f = factor(c('u', 'v')), d = as.Date('2024-02-29') + 0:1, row.names = c('r1', 'r2'))")
    equal(sorted(cell.result), ["application/json", "text/html", "text/plain"], "what it is")
    check("<td>&lt;a&gt;</td>" in cell.result["text/html"].text, cell.result["text/html"].text)
    equal(cell.result["application/json"].json, {"columns": ["n", "s", "f", "d"], "index": ["r1", "r2"], "data": [[1.5, "<a>", "u", "2024-02-29"], [None, "ä", "v", "2024-03-01"]],
          "dtypes": ["numeric", "character", "factor", "Date"], "rows": 2}, "JSON")
    cell = driver.ok("data.frame(a = 1:100000, b = rnorm(100000))")
    table = cell.result["application/json"].json
    equal((table["rows"], table["omitted"], len(table["data"]), table["index"][-1]), (100000, 99900, 100, 100000), "rows")
    check("99900 of 100000 rows left out" in cell.result["text/plain"].text and len(cell.result["text/plain"].text) < 6000, "text")
    check("99900 rows left out" in cell.result["text/html"].text, "html")
    cell = driver.ok("as.data.frame(matrix(0, 3, 200))")
    equal(cell.result["application/json"].json["omitted_columns"], 150, "columns")
    equal(driver.ok("data.frame()").result["application/json"].json["rows"], 0, "an empty one")


@test("large values are bounded")
def _(driver):
    for code in ("1:1000000", "rnorm(1e6)", "as.list(1:30000)", "strrep('ä', 200000)", "matrix(0, 3000, 50)"):
        cell = driver.ok(code)
        matches(cell.result["text/plain"].text, "left out", code)
    equal(driver.ok("strrep('a', 70000)").result["application/json"].length, 70002, "cut")
    failed(driver.run("stop(strrep('m', 8000))"), "simpleError", "^m{8000}$", 1)
    cell = driver.run("f <- function(n) 1 + f(n + 1)\nf(1)")
    equal(cell.status, "error", "an infinite recursion")
    check(len(cell.error.trace) < 10000, "its trace")


@test("errors have their lines and calls, warnings come as R shows them")
def _(driver):
    cell = failed(driver.run("g <- function(x) {\n  y <- x\n  stop('why')\n}\nf <- function(x) {\n  g(x)\n}\n\nf(1)"), "simpleError", "^why$", 3)
    equal(cell.error.trace, "Error in g(x) : why\nCalls:\n  1. f(1)\n  2. g(x) at <cell 1>:6", "trace")
    failed(driver.run("\n\nf(1)"), "simpleError", "why", 3)
    cell = failed(driver.run("x <- 1\nfor (i in 1:3) {\n  x + 'a'\n}"), "simpleError", "non-numeric", 3)
    equal(failed(driver.run("stop('top')"), "simpleError", "top", 1).error.trace, "Error: top", "trace")
    failed(driver.run("x <- 1\ny <- ) 2"), "parseError", "unexpected '\\)'", 2)
    failed(driver.run("no_such"), "simpleError", "no_such", 1)
    failed(driver.run("library(no.such)"), "packageNotFoundError", "no.such", 1)
    failed(driver.run("stop(structure(class = c('mine', 'error', 'condition'), list(message = 'm', call = NULL)))"), "mine", "^m$", 1)
    cell = driver.ok("h <- function() as.integer('x')\nh(); warning('top'); message('msg')")
    equal(cell.err, "Warning message:\nIn h() : NAs introduced by coercion\nWarning message:\ntop\nmsg\n", "warnings")
    equal(driver.ok("for (i in 1:2) warning('w')").err, "Warning messages:\n1: w\n2: w\n", "warnings")
    matches(driver.value("warnings()"), "1: w", "warnings()")
    equal(driver.ok("tryCatch(stop('x'), error = function(e) cat('caught\\n'), finally = cat('finally\\n')); suppressWarnings(log(-1)); try(log('a'), silent = TRUE)").out.split()[:2], ["caught", "finally"], "tryCatch")
    failed(driver.run("options(warn = 2); as.integer('x')"), "simpleError", "converted from warning", 1)
    driver.ok("options(warn = 0)")
    failed(driver.run(b"x <- 'a\0b'"), "simpleError", "NUL", 0)


@test("quit ends the cell")
def _(driver):
    driver.ok("x <- 1; reg.finalizer(globalenv(), function(e) cat('bye', file = 'bye'), onexit = TRUE)")
    driver.ok("cat('a\\n'); quit(); cat('b\\n')")
    failed(driver.run("f <- function() q('no', status = 3)\nf()"), "quit", "^status 3$", 0)
    equal(driver.value("x"), "[1] 1", "state")
    driver.end()
    equal((driver.workspace / "bye").read_text(), "bye", "finalizers")


for code in ("while (TRUE) {}", "Sys.sleep(60)", "repeat x <- 1", "system('sleep 60')", "system('sleep 60', intern = TRUE)", "f <- function() tryCatch(Sys.sleep(60), error = function(e) 1, finally = cat('fin\\n')); f()",
             "print(structure(1, class = 'slow'))", "structure(1, class = 'slow')", "repeat lapply(1:1e5, function(i) i)", "repeat sum(sapply(1:1e5, sqrt))"):
    @test(f"an interrupt of {code!r}")
    def _(driver, code=code):
        driver.ok("y <- 1; print.slow <- function(x, ...) Sys.sleep(60)")
        driver.interrupt()
        cell = driver.interrupted(f"cat('go\\n'); {code}\ncat('NO\\n')" if "slow" not in code else f"cat('go\\n'); {code}", b"go")
        equal((cell.status, cell.out.replace("fin\n", "")), ("interrupted", "go\n"), f"{cell}")
        driver.interrupt()
        equal(driver.value("y"), "[1] 1", "state")


@test("system() writes where the cell does, and has a status")
def _(driver):
    cell = driver.ok("cat('a\\n'); r <- system('echo b; echo c >&2; exit 3'); cat(r, '\\n'); system('echo d', ignore.stdout = TRUE); system2('echo', 'e'); system('cat', input = 'f')")
    equal((cell.out, cell.err), ("a\nb\n3 \ne\nf\n", "c\n"), f"{cell}")
    driver.ok("system('sleep 300 &'); system('sleep 300', wait = FALSE)")
    check(driver.last.seconds < 200, "a background")
    equal(driver.value("c(readline(), length(readLines(file('stdin'))))"), '[1] ""  "0"', "input")
    cell = driver.ok("system('ls -l /proc/self/fd')")
    check(os.readlink(f"/proc/self/fd/{driver.replies}") not in cell.out, "descriptors")


@test("plots are shown without display code")
def _(driver):
    cell = driver.ok("plot(1:10, main = 'One')\nlines(10:1, col = 'red', lwd = 8)\ncat('between\\n')\nhist(c(1, 2, 2, 3), col = 'blue')\n5")
    equal((cell.out, len(cell.images()), cell.result["text/plain"].text), ("between\n", 2, "[1] 5"), f"{cell}")
    one, two = map(Picture, cell.images())
    equal((one.width, one.height), (672, 480), "size")
    check(one.near((255, 0, 0)) > 1000 and two.near((0, 0, 255)) > 5000, "what is drawn")
    failed(driver.run("plot(1:3)\nlines(stop('no'))"), "simpleError", "no", 2)
    equal(len(driver.last.images()), 1, "a plot of a cell that fails")
    failed(driver.run("lines(1:3)"), "simpleError", "plot.new has not been called", 1)
    equal(driver.ok("options(repr.plot.width = 4, repr.plot.height = 3, repr.plot.res = 100); invisible(dev.new()); plot(1)").images()[0][16:24], b"\0\0\x01\x90\0\0\x01\x2c", "options")
    equal(driver.ok("png('own.png'); plot(1); invisible(dev.off())").parts, [], "a device of the code's")
    check((driver.workspace / "own.png").exists(), "its file")
    equal(len(driver.ok("for (i in 1:45) plot(i)").displays), 40, "many")
    equal(driver.ok("1").displays, [], "afterwards")
    equal(len(driver.ok("grid::grid.newpage(); grid::grid.rect()").images()), 1, "grid")
    equal(os.listdir(driver.folder), [name for name in os.listdir(driver.folder) if not name.startswith("plots")], "files")


@test("charts as data")
def _(driver):
    def chart(code):
        cell = driver.ok(code)
        equal((len(cell.charts()), len(cell.images())), (1, 1), f"{code}: {cell}")
        return cell.charts()[0]

    data = chart("plot(c(1, 2, 4), c(10, 100, 1000), log = 'y', main = 'Title', xlab = 'X', ylab = 'Y'); lines(1:2, c(20, 30)); legend('top', c('p', 'l'), lty = 1)")
    equal((data["kind"], data["title"], data["x"]["label"], data["y"]), ("mixed", "Title", "X", {"label": "Y", "scale": "log", "min": 10, "max": 1000}), "axes")
    equal(data["series"], [{"kind": "scatter", "label": "p", "points": [[1, 10], [2, 100], [4, 1000]]}, {"kind": "line", "label": "l", "points": [[1, 20], [2, 30]]}], "series")
    data = chart("barplot(c(a = 1, b = 2.5), main = 'B')")
    equal((data["kind"], data["x"]["scale"], data["series"][0]["bars"]), ("bar", "categorical", [{"label": "a", "value": 1}, {"label": "b", "value": 2.5}]), "bars")
    data = chart("barplot(matrix(1:4, 2, dimnames = list(c('r', 's'), c('c', 'd'))), beside = TRUE)")
    equal([(s["label"], [b["value"] for b in s["bars"]]) for s in data["series"]], [("r", [1, 3]), ("s", [2, 4])], "grouped bars")
    data = chart("hist(c(1, 2, 2, 3, 9), breaks = c(0, 5, 10), main = 'H')")
    equal((data["kind"], [(b["from"], b["to"], b["value"]) for b in data["series"][0]["bars"]]), ("histogram", [(0, 5, 4), (5, 10, 1)]), "histogram")
    data = chart("pie(c(u = 1, v = 3))")
    equal((data["kind"], data["series"][0]["slices"][1]), ("pie", {"label": "v", "value": 3, "percent": 75}), "pie")
    data = chart("boxplot(list(p = 1:9, q = c(1:9, 50)))")
    equal((data["kind"], data["series"][0]["boxes"][1]["outliers"], data["series"][0]["boxes"][0]["median"]), ("box", [50], 5), "boxes")
    data = chart("image(matrix(1:6, 2))")
    equal((data["kind"], data["series"][0]["values"]), ("heatmap", [[1, 2], [3, 4], [5, 6]]), "heatmap")
    data = chart("par(mfrow = c(1, 2)); plot(1:3); plot(as.Date('2024-01-01') + 0:2, 1:3, type = 'l')")
    equal((data["kind"], data["axes"][1]["x"]["scale"], data["axes"][1]["series"][0]["points"][0]), ("figure", "datetime", ["2024-01-01", 1]), "figure")
    data = chart("plot(1:1000, type = 'l')")
    equal((len(data["series"][0]["points"]), data["series"][0]["omitted"], data["series"][0]["points"][-1]), (200, 800, [1000, 1000]), "many points")
    data = chart("curve(sin, 0, 1); abline(h = 0)")
    equal(data["kind"], "line", "curve")


@test("charts of ggplot2 as data")
def _(driver):
    if driver.value("c(requireNamespace('ggplot2', quietly = TRUE))") != "[1] TRUE":
        raise Skip("ggplot2 is not installed")
    driver.ok("library(ggplot2)\nd <- data.frame(x = c(1, 10, 100), y = c(2, 4, 8), g = c('a', 'b', 'b'), t = as.Date('2024-01-01') + 0:2)")

    def chart(code):
        cell = driver.ok(code)
        equal((len(cell.charts()), len(cell.images()), cell.result), (1, 1, None), f"{code}: {cell}")
        return cell.charts()[0]

    data = chart("ggplot(d, aes(x, y, colour = g)) + geom_point() + scale_x_log10() + labs(title = 'T', y = 'Y')")
    equal((data["kind"], data["title"], data["y"]["label"], data["x"]["scale"], data["x"]["max"]), ("scatter", "T", "Y", "log", 100), "axes")
    equal([(s["label"], s["points"]) for s in data["series"]], [("a", [[1, 2]]), ("b", [[10, 4], [100, 8]])], "series")
    data = chart("p <- ggplot(d, aes(g)) + geom_bar()\nprint(p)")
    equal((data["x"]["scale"], data["series"][0]["bars"]), ("categorical", [{"label": "a", "value": 1}, {"label": "b", "value": 2}]), "bars")
    equal(chart("ggplot(d, aes(t, y)) + geom_line()")["series"][0]["points"], [["2024-01-01", 2], ["2024-01-02", 4], ["2024-01-03", 8]], "dates")
    data = chart("ggplot(d, aes(x)) + geom_histogram(breaks = c(0, 50, 150))")
    equal([(b["from"], b["to"], b["value"]) for b in data["series"][0]["bars"]], [(0, 50, 2), (50, 150, 1)], "histogram")
    equal([axes["title"] for axes in chart("ggplot(d, aes(x, y)) + geom_point() + facet_wrap(~g)")["axes"]], ["a", "b"], "facets")
    equal(chart("ggplot(d, aes(g, y)) + geom_boxplot()")["series"][0]["boxes"][1]["median"], 6, "boxes")


@test("a thousand cells leave nothing, and interrupts at any moment tear nothing")
def _(driver):
    def rss():
        child = open(f"/proc/{driver.process.pid}/task/{driver.process.pid}/children").read().split()[0]
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{child}/status").read())[1])

    for _ in range(200):
        driver.ok("x <- rnorm(100); f <- function(a) a; x")
    before = rss()
    for _ in range(1000):
        driver.ok("x <- rnorm(100); f <- function(a) a; x")
    check(rss() < before + 16384, f"{before} KiB before, {rss()} after")
    statuses = set()
    for i in range(100):
        driver.start("for (i in 1:20000) y <- i; x")
        for _ in range(i % 3 + 1):
            time.sleep(0.0005 * (i % 20))
            driver.interrupt()
        statuses.add(driver.finish().status)
    check(statuses <= {"ok", "interrupted"}, f"{statuses}")
    equal(driver.value("length(x)"), "[1] 100", "state")
