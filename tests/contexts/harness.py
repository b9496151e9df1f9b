# SPDX-License-Identifier: MIT
"""Drivers of contexts, bare: what one is started with, and its protocol, of which every frame is checked.

A file test_LANGUAGE.py says `test = harness.language("LANGUAGE")` and then, for each test,

    @test("an exception leaves its state")
    def _(driver):
        equal(driver.value("1 + 1"), "2", "a value")
        cell = driver.run("x = 1\\n1 / 0")
        equal((cell.status, cell.error.name, cell.error.line), ("error", "ZeroDivisionError", 2), "an error")

Each test has a driver of its own in an empty folder, with a process group of its own, and ends with the end of its requests:
then the driver has to end with status 0 and without a word on standard error that the test has not taken.
"""

import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import traceback
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
LANGUAGES = Path(os.environ.get("NSBOX_LANGUAGES_DIR", HERE.parent.parent / "languages"))
CHART = "application/vnd.nsbox.chart+json"

# How drivers are run where the file of the language does not say it.
CONTEXTS = {
    "python": {"driver": "python.py", "run": ["python3", "{driver}"]},
    "javascript": {"driver": "javascript.cjs", "run": ["node", "{driver}"]},
    "typescript": {"driver": "javascript.cjs", "run": ["node", "{driver}", "typescript"]},
    "bash": {"driver": "bash.bash", "run": ["bash", "{driver}"]},
    "ruby": {"driver": "ruby.rb", "run": ["ruby", "{driver}"]},
    "r": {"driver": "r.R", "run": ["Rscript", "{driver}"]},
    "php": {"driver": "php.php", "run": ["php", "{driver}"]},
}

MAX_HEADER = 512
MAX_VALUES = 40
MAX_CELL = 32 << 20
# What a representation may have, and for text the line about what was left out besides.
MAX_LENGTH = {"text/plain": (64 << 10) + 512, "text/html": (256 << 10) + 512, "application/json": 64 << 10}
MAX_IMAGE = 4 << 20
MIME = r"[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]*"
FRAMES = {
    "ready": r"ready",
    "part": rf"part (?P<id>[0-9]+) (?P<value>[0-9]+) (?P<kind>result|display) (?P<mime>{MIME}) (?P<length>[0-9]+)",
    "cut": rf"cut (?P<id>[0-9]+) (?P<value>[0-9]+) (?P<kind>result|display) (?P<mime>{MIME}) (?P<length>[0-9]+)",
    "error": r"error (?P<id>[0-9]+) (?P<line>[0-9]+) (?P<name>[0-9]+) (?P<message>[0-9]+) (?P<trace>[0-9]+)",
    "end": r"end (?P<id>[0-9]+) (?P<status>ok|error|interrupted)",
}

tests = []


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(seen, expected, what):
    check(seen == expected, f"{what}: {seen!r}, expected {expected!r}")


def matches(seen, pattern, what):
    check(re.search(pattern, seen, re.DOTALL), f"{what}: {seen[:3000]!r} does not match {pattern!r}")


# --- tests ---


def language(name):
    """A decorator for tests of a language. `env`: further variables; `programs`: without which it is skipped."""

    def test(description, env=None, programs=()):
        def register(function):
            tests.append((name, f"{name}: {description}", function, env, programs))
            return function

        return register

    return test


def run_test(name, function, env, programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix="nsbox-context.", ignore_cleanup_errors=True) as folder:
        driver = Driver(name, Path(folder), env() if callable(env) else env or {})
        try:
            function(driver)
            driver.end()
        finally:
            driver.kill()


def missing(name):
    """Why a language cannot be tested here, or None."""
    program = context(name)["run"][0]
    if not (LANGUAGES / "contexts" / context(name)["driver"]).exists():
        return "it has no driver"
    return None if shutil.which(program) else f"{program} is not installed"


def main(pattern=""):
    wanted = [test for test in tests if re.search(pattern, test[1])]
    print(f"1..{len(wanted)}", flush=True)
    failed = 0
    for number, (name, description, function, env, programs) in enumerate(wanted, 1):
        began, verdict, remark, words = time.monotonic(), "ok", "", ""
        try:
            why = missing(name)
            if why:
                raise Skip(why)
            run_test(name, function, env, programs)
        except Skip as why:
            if os.environ.get("CI"):
                verdict, words = "not ok", str(why)
            else:
                remark = f" # SKIP {why}"
        except Failure as failure:
            where = [
                frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if "/test_" in frame.filename
            ]
            verdict, words = "not ok", f"line {where[-1] if where else '?'}: {failure}"
        except Exception:
            verdict, words = "not ok", traceback.format_exc()
        failed += verdict != "ok"
        print(f"{verdict} {number} - {description}{remark}")
        if not remark:
            print(f"# {1000 * (time.monotonic() - began):.0f} ms")
        print("".join(f"#   {line}\n" for line in words.splitlines()), end="", flush=True)
    return 1 if failed else 0


# --- a driver ---


def context(name):
    file = json.loads((LANGUAGES / f"{name}.json").read_text())
    return file.get("context", CONTEXTS.get(name))


def contents(text):
    """A file of a language: its text, or a list of lines."""
    return text if isinstance(text, str) else "".join(f"{line}\n" for line in text)


class Part:
    """A representation of a value. `data`: bytes, or None where it was left out for its size."""

    def __init__(self, value, kind, mime, data, length):
        self.value, self.kind, self.mime, self.data, self.length = value, kind, mime, data, length

    @property
    def text(self):
        check(self.data is not None, f"{self.mime} was left out: {self.length} bytes")
        return self.data.decode()

    @property
    def json(self):
        return strict_json(self.text)


class Error:
    def __init__(self, name, message, trace, line):
        self.name, self.message, self.trace, self.line = name, message, trace, line

    def __repr__(self):
        return f"{self.name}: {self.message}, line {self.line}\n{self.trace}"


class Cell:
    """What came of a cell: `status`, `parts`, `error` (or None), `stdout` and `stderr` (bytes), `seconds`."""

    def __init__(self, number):
        self.number, self.status, self.parts, self.error, self.stdout, self.stderr = number, None, [], None, b"", b""
        self.began, self.seconds = time.monotonic(), None

    @property
    def out(self):
        return self.stdout.decode()

    @property
    def err(self):
        return self.stderr.decode()

    @property
    def result(self):
        """The result as {mime: Part}, or None."""
        found = {part.mime: part for part in self.parts if part.kind == "result"}
        return found or None

    @property
    def displays(self):
        """What was shown besides, in order: a list of {mime: Part}."""
        shown = {}
        for part in self.parts:
            if part.kind == "display":
                shown.setdefault(part.value, {})[part.mime] = part
        return list(shown.values())

    def charts(self):
        """The charts as data, in order."""
        return [part.json for part in self.parts if part.mime == CHART]

    def images(self, mime="image/png"):
        return [part.data for part in self.parts if part.mime == mime]

    def ok(self):
        check(self.status == "ok", f"cell {self.number}: {self.status}: {self.error} {self.err}")
        return self

    def __repr__(self):
        parts = [(part.value, part.kind, part.mime, part.length) for part in self.parts]
        return f"cell {self.number}: {self.status} {parts} {self.error} out {self.stdout[:500]} err {self.stderr[:500]}"


class Driver:
    """A driver that runs, in folder/workspace, with $HOME and what the language's file says of its environment."""

    def __init__(self, name, folder, env):
        self.name, self.folder, self.count, self.cell, self.over = name, folder, 0, None, False
        self.buffer, self.pending, self.stray, self.allow_stderr = b"", b"", {1: b"", 2: b""}, False
        file, own = json.loads((LANGUAGES / f"{name}.json").read_text()), context(name)
        (folder / "driver").mkdir()
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        driver = folder / "driver" / own["driver"]
        driver.write_bytes((LANGUAGES / "contexts" / own["driver"]).read_bytes())
        places = {
            "driver": str(driver),
            "support": str(folder / "driver"),
            "source": str(driver),
            "memory_mib": "512",
            "heap_mib": "384",
            "path": os.environ["PATH"],
            "tmp": str(folder),
        }
        for files in (file.get("files", {}), own.get("files", {})):
            for path, text in files.items():
                (folder / "driver" / path).write_text(contents(text))

        def expand(text):
            return re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], found[0]), text)

        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TMPDIR": str(folder)}
        for more in (file.get("env", {}), own.get("env", {}), env):
            variables.update({key: expand(value) for key, value in more.items()})
        requests, self.requests = os.pipe()
        self.replies, replies = os.pipe()

        def third():
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a shell has in the background
            if replies == 3:
                os.set_inheritable(3, True)
            else:
                os.dup2(replies, 3)

        self.process = subprocess.Popen(
            [expand(argument) for argument in own["run"]],
            stdin=requests,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env=variables,
            close_fds=False,
            start_new_session=True,
            preexec_fn=third,
        )  # noqa: PLW1509
        os.close(requests)
        os.close(replies)
        self.selector = selectors.DefaultSelector()
        self.outputs = {1: self.process.stdout.fileno(), 2: self.process.stderr.fileno()}
        for fd in (self.requests, self.replies, *self.outputs.values()):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        self.selector.register(self.replies, selectors.EVENT_READ)
        for number, fd in self.outputs.items():
            self.selector.register(fd, selectors.EVENT_READ, number)
        self.wait(lambda: self.is_ready, 200, "ready")

    is_ready = False

    # Cells.

    def start(self, code):
        """Hands a cell over, and does not wait for it."""
        check(self.cell is None, "a cell runs")
        self.count += 1
        self.cell = self.last = Cell(self.count)
        data = code.encode() if isinstance(code, str) else code
        self.send(b"run %d %d\n" % (self.count, len(data)) + data)
        return self.last

    def finish(self, timeout=200):
        """Waits for the end of the cell that runs."""
        cell = self.last
        self.wait(lambda: cell.status, timeout, "the end of the cell")
        return cell

    def run(self, code, timeout=200):
        self.start(code)
        return self.finish(timeout)

    def ok(self, code, timeout=200):
        return self.run(code, timeout).ok()

    def value(self, code):
        """The text of the result of a cell that has to end well."""
        result = self.ok(code).result
        check(result, f"{code!r} has no result")
        return result["text/plain"].text

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupted(self, code, after=b"", timeout=50):
        """A cell that is interrupted once it has written `after` on standard output."""
        cell = self.start(code)
        if after:
            self.wait(lambda: after in cell.stdout or cell.status, timeout, f"{after!r} on standard output")
            check(not cell.status, f"the cell ended before it could be interrupted: {cell}")
        self.go_on()
        self.interrupt()
        return self.finish(timeout)

    def end(self, timeout=60):
        """Ends the requests; the driver has to end well."""
        if self.over:
            return
        if self.requests is not None:
            os.close(self.requests)
            self.requests = None
        self.wait(lambda: self.process.poll() is not None, timeout, "the end of the driver", ending=True)
        self.drain()
        self.over = True
        equal(self.process.returncode, 0, f"status of the driver ({self.stray[2][-2000:]!r})")
        check(self.allow_stderr or not self.stray[2], f"standard error between cells: {self.stray[2][-2000:]!r}")
        check(not self.buffer, f"half a frame at the end: {self.buffer[:200]!r}")

    def kill(self):
        if self.process.poll() is None or self.children():
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        for fd in (self.requests, self.replies):
            if fd is not None:
                os.close(fd)
        self.process.stdout.close()
        self.process.stderr.close()
        self.selector.close()

    def children(self):
        """Whether anything of the driver's process group is left."""
        try:
            os.killpg(self.process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def rss(self):
        """KiB that the driver has in memory."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def group(self):
        """The states of the processes of the driver's group, and the seconds of CPU time that they and their children took."""
        states, ticks = "", 0
        for entry in Path("/proc").iterdir():
            try:
                fields = entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields and int(fields[2]) == self.process.pid:
                states += fields[0]
                ticks += sum(map(int, fields[11:15]))
        return states, ticks / os.sysconf("SC_CLK_TCK")

    def works(self, seconds):
        """Waits until the driver has taken so much CPU time."""
        until = self.group()[1] + seconds
        self.wait(lambda: self.group()[1] >= until, 100, "work of the driver")

    def go_on(self, seconds=0.05, timeout=60):
        """Lets the driver go on until it has worked for so long, or waits: whatever else the machine does, it is further."""
        _, began = self.group()
        states, before = "", began
        until = time.monotonic() + timeout
        while before - began < seconds and time.monotonic() < until:
            self.read(0)
            time.sleep(0.05)
            still = states and not states.strip("SZI")
            states, now = self.group()
            if still and now == before and not states.strip("SZI"):
                return
            before = now

    # The wire.

    def send(self, data):
        self.pending += data
        self.wait(lambda: not self.pending, 200, "the driver to read")

    def wait(self, condition, timeout, what, ending=False):
        until = time.monotonic() + timeout
        while not condition():
            check(time.monotonic() < until, f"no {what} after {timeout} s: {self.cell} {self.stray}")
            if self.pending:
                try:
                    self.pending = self.pending[os.write(self.requests, self.pending) :]
                except BlockingIOError:
                    pass
                if condition():
                    return
            self.read(0.02 if self.pending or ending else 0.2)
            gone = not ending and self.process.poll() is not None
            if gone:
                self.drain()
                self.over = True
                check(
                    condition(),
                    f"the driver ended with {self.process.returncode}: {self.cell} {self.stray[2][-2000:]!r}",
                )

    def read(self, timeout):
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                self.read_replies()
            else:
                self.read_output(key.data)

    def drain(self):
        """What is in the pipes already."""
        for number in self.outputs:
            self.read_output(number)
        self.read_replies()

    def read_output(self, number):
        while True:
            try:
                data = os.read(self.outputs[number], 1 << 16)
            except BlockingIOError:
                return
            if not data:
                if self.outputs[number] in self.selector.get_map():
                    self.selector.unregister(self.outputs[number])
                return
            if self.cell is None:
                self.stray[number] += data
            elif number == 1:
                self.cell.stdout += data
            else:
                self.cell.stderr += data

    def read_replies(self):
        while True:
            try:
                data = os.read(self.replies, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                if self.replies in self.selector.get_map():
                    self.selector.unregister(self.replies)
                break
            self.buffer += data
            while self.frame():
                pass

    def frame(self):
        """Takes one frame from what was read, if it is there whole."""
        line, newline, rest = self.buffer.partition(b"\n")
        check(len(line) < MAX_HEADER, f"a header of more than {MAX_HEADER} bytes: {line[:600]!r}")
        if not newline:
            return False
        text = line.decode("ascii", "backslashreplace")
        found = next(
            ((name, match) for name, pattern in FRAMES.items() if (match := re.fullmatch(pattern, text))), None
        )
        check(found, f"nonsense: {line!r}")
        name, match = found
        lengths = [
            int(match[key])
            for key in ("length", "name", "message", "trace")
            if key in match.groupdict() and name != "cut"
        ]
        if len(rest) < sum(lengths):
            return False
        fields = []
        for length in lengths:
            fields.append(rest[:length])
            rest = rest[length:]
        self.buffer = rest
        if name == "ready":
            check(not self.is_ready, "ready twice")
            self.is_ready = True
            return True
        check(self.is_ready, f"{text} before ready")
        check(self.cell and int(match["id"]) == self.cell.number, f"{text} while {self.cell} runs")
        getattr(self, f"frame_{name}")(match, fields)
        return True

    def frame_part(self, match, fields):
        self.take(Part(int(match["value"]), match["kind"], match["mime"], fields[0], len(fields[0])))

    def frame_cut(self, match, fields):
        self.take(Part(int(match["value"]), match["kind"], match["mime"], None, int(match["length"])))

    def take(self, part):
        cell, before = self.cell, self.cell.parts[-1] if self.cell.parts else None
        described = f"part {part.value} {part.kind} {part.mime}"
        check(not cell.error, f"{described} after the error")
        if before is None or part.value != before.value:
            expected = before.value + 1 if before else 1
            equal(part.value, expected, f"the number of {described}")
            check(
                part.kind != "result" or not any(p.kind == "result" for p in cell.parts),
                f"{described}: a second result",
            )
        else:
            equal(part.kind, before.kind, f"the kind of {described}")
        check(part.value <= MAX_VALUES + 1, f"{described}: too many values")
        same = [p.mime for p in cell.parts if p.value == part.value]
        check(part.mime not in same, f"{described} twice")
        cell.parts.append(part)
        check(sum(p.length for p in cell.parts if p.data is not None) <= MAX_CELL, "the cell is too large")
        if part.data is not None:
            check_part(part, described)

    def frame_error(self, match, fields):
        check(not self.cell.error, "a second error")
        name, message, trace = (field.decode() for field in fields)
        check(name, "an error without a name")
        check("\x1b" not in trace, f"colours in a trace: {trace!r}")
        check(str(self.folder / "driver") not in trace, f"the driver in a trace: {trace}")
        self.cell.error = Error(name, message, trace, int(match["line"]))

    def frame_end(self, match, fields):
        cell, status = self.cell, match["status"]
        for number in self.outputs:  # what the driver has flushed before
            self.read_output(number)
        check(status != "error" or cell.error, "a cell that failed has no error")
        check(status != "ok" or not cell.error, "a cell that ended well has an error")
        check(not cell.result or "text/plain" in cell.result, f"a result without text/plain: {cell}")
        cell.status, cell.seconds, self.cell = status, time.monotonic() - cell.began, None


def strict_json(text):
    def refuse(word):
        raise Failure(f"{word} in JSON: {text[:200]}")

    return json.loads(text, parse_constant=refuse)


def check_part(part, described):
    most = MAX_IMAGE if part.mime.startswith("image/") else MAX_LENGTH.get(part.mime, MAX_CELL)
    check(part.length <= most, f"{described}: {part.length} bytes")
    if part.mime == "image/png":
        check(
            part.data.startswith(b"\x89PNG\r\n\x1a\n") and part.data.endswith(b"IEND\xaeB`\x82"), f"{described}: no PNG"
        )
    elif part.mime == "image/jpeg":
        check(part.data.startswith(b"\xff\xd8\xff"), f"{described}: no JPEG")
    elif part.mime.startswith("text/") or part.mime == "image/svg+xml":
        check(part.text is not None, described)
    elif part.mime == CHART:
        check_chart(part.json)
    elif part.mime.endswith("json"):
        check(part.json is not Ellipsis, described)


# --- charts as data ---

KINDS = {"line", "scatter", "bar", "histogram", "pie", "box", "heatmap", "image", "mixed", "unknown"}
SCALES = {"linear", "log", "datetime", "categorical"}
SERIES = {"points", "bars", "slices", "boxes", "values"}


def check_chart(chart):
    """That a chart has the form of the protocol."""
    if chart["kind"] == "figure":
        check(chart["axes"] and "title" in chart, f"a figure without axes: {chart}")
        for axes in chart["axes"]:
            check_chart(axes)
        return
    check(chart["kind"] in KINDS, f"kind of a chart: {chart['kind']!r}")
    check(chart["title"] is None or isinstance(chart["title"], str), f"title of a chart: {chart['title']!r}")
    for side in ("x", "y"):
        axis = chart.get(side)
        if axis is None:  # a pie has none
            continue
        check({"label", "scale", "min", "max"} <= set(axis), f"{side} of a chart: {axis}")
        check(axis["scale"] in SCALES, f"scale of a chart: {axis['scale']!r}")
        check(all(isinstance(tick, str) for tick in axis.get("ticks", [])), f"ticks of a chart: {axis.get('ticks')}")
    for series in chart["series"]:
        check(series["kind"] in KINDS and "label" in series, f"a series of a chart: {str(series)[:300]}")
        data = [key for key in SERIES if key in series]
        equal(len(data), 1, f"data of a series of a chart: {str(series)[:300]}")
        check(len(series[data[0]]) <= 200, f"{len(series[data[0]])} {data[0]} in a series")


# --- pictures ---


class Picture:
    """A PNG, decoded: `width`, `height`, and `pixels`, rows of (red, green, blue) on white."""

    def __init__(self, data):
        position, parts, palette, alphas = 8, [], b"", b""
        while position < len(data):
            length, kind = struct.unpack(">I4s", data[position : position + 8])
            body = data[position + 8 : position + 8 + length]
            check(
                zlib.crc32(kind + body) == struct.unpack(">I", data[position + 8 + length : position + 12 + length])[0],
                f"checksum of {kind}",
            )
            if kind == b"IHDR":
                self.width, self.height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            elif kind == b"PLTE":
                palette = body
            elif kind == b"tRNS":
                alphas = body
            elif kind == b"IDAT":
                parts.append(body)
            position += 12 + length
        channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
        check(not interlaced and depth in (1, 2, 4, 8), f"a PNG that is not decoded here: depth {depth}")
        rows = unfilter(zlib.decompress(b"".join(parts)), self.width * channels * depth, max(1, channels * depth // 8))
        self.pixels = [list(self.row(row, depth, colour, palette, alphas)) for row in rows]
        equal(len(self.pixels), self.height, "rows of a PNG")

    def row(self, row, depth, colour, palette, alphas):
        if depth < 8:
            row = [byte >> shift & (1 << depth) - 1 for byte in row for shift in range(8 - depth, -1, -depth)][
                : self.width
            ]
            if colour == 0:
                row = [value * 255 // ((1 << depth) - 1) for value in row]
        for x in range(self.width):
            if colour == 3:
                alpha = alphas[row[x]] if row[x] < len(alphas) else 255
                pixel = palette[3 * row[x] : 3 * row[x] + 3]
            elif colour in (0, 4):
                step = 1 if colour == 0 else 2
                pixel, alpha = (row[x * step],) * 3, 255 if colour == 0 else row[2 * x + 1]
            else:
                step = 3 if colour == 2 else 4
                pixel, alpha = row[x * step : x * step + 3], 255 if colour == 2 else row[4 * x + 3]
            yield tuple(255 - (255 - value) * alpha // 255 for value in pixel)

    def colours(self):
        """How often each colour is there."""
        counts = {}
        for row in self.pixels:
            for pixel in row:
                counts[pixel] = counts.get(pixel, 0) + 1
        return counts

    def near(self, colour, distance=24):
        """How many pixels have about this colour."""
        return sum(
            count
            for pixel, count in self.colours().items()
            if all(abs(a - b) <= distance for a, b in zip(pixel, colour))
        )


def unfilter(data, bits, step):
    length, before, position = (bits + 7) // 8, None, 0
    before = bytearray(length)
    while position < len(data):
        kind, row = data[position], bytearray(data[position + 1 : position + 1 + length])
        position += 1 + length
        for i in range(length) if kind else ():
            left = row[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            else:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                guess = left if a <= b and a <= c else up if b <= c else corner
            row[i] = (row[i] + guess) & 255
        before = row
        yield row
