# SPDX-License-Identifier: MIT
"""A Python that is kept between cells of code.

Cells run in the namespace of one module, which is `__main__`; this file is none that they meet. The value of a cell's
last expression is its result, as is known from notebooks, and `display(value, …)` shows others. Plots that are open at
the end of a cell are shown and closed.

Interrupts. Python runs the handler of SIGINT between any two instructions of the main thread, so also between those of
this file. The handler raises KeyboardInterrupt only while `armed`, that is within guard(), and never where guard()
itself is the innermost frame; otherwise it comes again a little later, as long as the cell runs (again_later). So the
exception arises in what guard() has called, and whatever it breaks off there, guard() sees. Where a cell awaits, and
nothing but the event loop's own code runs, an exception would break the loop: the cell's task is cancelled instead.

Forks. A child of os.fork() or multiprocessing has lost the descriptors of the protocol, and ends with the cell.

Lines of tracebacks come from linecache, where cells are entered under their names. What notebooks are known for and
Python has not, as pyplot.show() without a screen, is added to the module in question once the code has imported it
(Hooks).
"""

import builtins
import os
import signal
import sys
import time

DRIVER, NOTED = __file__, "<noted for the chart>"
MAX_TEXT = 64 << 10  # characters of text/plain, and bytes of application/json
MAX_HTML = 256 << 10
MAX_BLOB = 4 << 20  # bytes of an image, and of all else
MAX_CELL = 24 << 20  # bytes of all values of a cell
MAX_VALUES = 40
MAX_TRACE = 64 << 10
KEPT_SOURCES = 100
LOWEST_FD = 10
CHART = "application/vnd.nsbox.chart+json"


# --- the protocol ---


class Wire:
    """Requests in and replies out, on descriptors that no other program gets."""

    def __init__(self):
        import fcntl
        from _thread import allocate_lock

        self.requests = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
        self.replies = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.close(3)
        self.buffer = b""
        self.lock = allocate_lock()
        self.value, self.bytes_left = 0, 0

    def forget(self):
        """In a child: it is none of its business."""
        os.close(self.requests)
        os.close(self.replies)
        self.requests = self.replies = None

    def read(self, length):
        """So many bytes; fewer at the end of requests."""
        while len(self.buffer) < length:
            data = os.read(self.requests, max(1 << 16, length - len(self.buffer)))
            if not data:
                break
            self.buffer += data
        data, self.buffer = self.buffer[:length], self.buffer[length:]
        return data

    def request(self):
        """The number and the code of the next cell, or None at the end."""
        while b"\n" not in self.buffer:
            data = os.read(self.requests, 1 << 16)
            if not data:
                return None
            self.buffer += data
        header, self.buffer = self.buffer.split(b"\n", 1)
        word, number, length = header.split()
        if word != b"run":
            raise ValueError(f"{DRIVER}: a request that is none: {header!r}")
        data = self.read(int(length))
        return (int(number), data.decode()) if len(data) == int(length) else None

    def write(self, header, *fields):
        data = memoryview(b"".join([header.encode("ascii"), b"\n", *fields]))
        while data:
            data = data[os.write(self.replies, data) :]


wire = None


class State:
    """What is so now. There is one; it is no module's global, so that it is plain where it changes."""

    def __init__(self):
        self.pid, self.main_thread = os.getpid(), None
        self.cell = None  # number of the cell that runs
        self.armed = False  # an interrupt may be raised
        self.closing = False  # the cell is over but for its last words
        self.interrupts = 0  # that came while the cell ran
        self.idle = self.interrupt_next = False  # tasks go on between cells; the cell that comes is interrupted already
        self.handling = False  # the handler is at work
        self.bringers, self.brought = [], True  # threads that bring an interrupt again; whether the last has
        self.loop = self.task = self.context = None  # of cells that await
        self.cancelled, self.trace = False, None  # by an interrupt, and where
        self.figures = []  # of matplotlib, shown while the cell ran
        self.flags = 0  # of `from __future__ import …`
        self.sources = {}  # name of a cell: its lines
        self.definitions = {}  # name: (cell, node) of what is defined at the top of cells


state = State()


# --- interrupts ---


def guard(function, *arguments):
    """Calls what runs code that is not ours. Returns its value and None, or None and what it raised."""
    try:
        state.armed = True
        value = function(*arguments)
        state.armed = False
        return value, None
    except BaseException as error:
        state.armed = False
        return None, error


def unarmed(function, *arguments):
    """Calls what must not be broken off, within what guard() has called."""
    if not in_main_thread():
        return function(*arguments)
    armed, state.armed = state.armed, False
    try:
        return function(*arguments)
    finally:
        state.armed = armed


def in_main_thread():
    from _thread import get_ident

    return get_ident() == state.main_thread


def on_interrupt(number, frame):
    while frame.f_code is on_interrupt.__code__:  # one within another
        frame = frame.f_back
    if not state.handling and takes_interrupt(frame):
        raise KeyboardInterrupt


def takes_interrupt(frame):
    """Whether an exception is to be raised in a frame; if not, what else is done."""
    if os.getpid() != state.pid:
        return True
    if state.cell is None and state.idle and has_request() and not in_loop(frame):
        state.interrupt_next = True  # a task keeps the loop, and the cell that is meant from being read
        return True
    if state.cell is None or state.closing:
        return False
    state.handling = True
    try:
        state.interrupts += 1
        if not state.armed or frame.f_code is guard.__code__:
            again_later()
            return False
        if state.task is None or not in_loop(frame):
            return True
        state.cancelled = True
        state.task.cancel()
        state.loop.call_soon_threadsafe(int)  # wakes it
        return False
    finally:
        state.handling = False


def has_request():
    import select

    return bool(wire.buffer or select.select([wire.requests], [], [], 0)[0])


def in_loop(frame):
    """Whether nothing but the event loop runs, and none of its tasks."""
    while frame is not None and frame.f_code not in (run_task.__code__, idle.__code__):
        if not is_asyncio(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return True


def is_asyncio(path):
    modules = [sys.modules.get(name) for name in ("asyncio", "selectors")]
    return path.startswith(tuple(module.__file__.replace("__init__.py", "") for module in modules if module))


def again_later():
    from _thread import start_new_thread

    if not state.brought:
        return
    state.brought, cell = False, state.cell
    state.bringers.append(cell)

    def bring():
        time.sleep(0.005)
        state.brought = True
        if state.cell == cell and not state.closing:
            signal.pthread_kill(state.main_thread, signal.SIGINT)
        state.bringers.pop()

    start_new_thread(bring, ())


def restore_handler():
    """What the code has made of SIGINT is over with its cell."""
    if signal.getsignal(signal.SIGINT) is not on_interrupt:
        signal.signal(signal.SIGINT, on_interrupt)


# --- a cell ---


class Cell:
    """A cell's code, compiled: `codes`, of which the last has the value where `has_value`."""

    def __init__(self, number, text):
        self.number, self.name, self.text = number, f"<cell {number}>", text[1:] if text.startswith("\ufeff") else text
        self.codes, self.has_value, self.waits = [], False, False

    def compile(self):
        import ast

        flags = state.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(self.text, self.name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not self.is_quiet(tree.body[-1]):
            last = tree.body.pop()
        if tree.body:
            self.codes.append(compile(tree, self.name, "exec", flags, dont_inherit=True))
            state.flags |= self.codes[0].co_flags & future_flags()
        if last:
            self.codes.append(
                compile(ast.Expression(last.value), self.name, "eval", state.flags | flags, dont_inherit=True)
            )
            self.has_value = True
        self.waits = any(waits(code) for code in self.codes)
        remember_definitions(self, tree)

    def is_quiet(self, statement):
        """Whether a semicolon comes after it: then its value is not wanted, as in notebooks."""
        line = self.lines()[statement.end_lineno - 1].encode()
        return line[statement.end_col_offset :].lstrip().startswith(b";")

    def lines(self):
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def run(self):
        """The value of the last expression, or None."""
        if state.interrupt_next:
            state.interrupt_next, state.interrupts = False, 1
            raise KeyboardInterrupt
        self.compile()
        if self.waits:
            return run_task(self)
        value = None
        for code in self.codes:
            value = state.context.run(eval, code, namespace)
        return value if self.has_value else None

    async def run_within_loop(self):
        value = None
        try:
            for code in self.codes:
                value = eval(code, namespace)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        except BaseException as error:
            state.trace = error.__traceback__  # which a task does not keep where it was cancelled
            raise
        return value if self.has_value else None


CO_COROUTINE = 0x80
# What has to be called while an event loop runs. A cell that names one of these at its top runs within the loop; others
# do not, so that asyncio.run() works there, as in a program.
WITHIN_LOOP = {"create_task", "ensure_future", "get_running_loop", "current_task", "TaskGroup"}


def waits(code):
    return bool(code.co_flags & CO_COROUTINE or not WITHIN_LOOP.isdisjoint(code.co_names))


def future_flags():
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags & ~0x10  # `nested_scopes` has the flag of something else


def event_loop():
    """The loop of all cells that await."""
    import asyncio

    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(state.loop)
    return state.loop


def run_task(cell):
    import asyncio

    loop = event_loop()
    if sys.version_info >= (3, 11):
        task = loop.create_task(cell.run_within_loop(), context=state.context)
    else:
        task = state.context.run(loop.create_task, cell.run_within_loop())
    state.task, state.cancelled, state.trace = task, False, None
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if state.cancelled:
            raise KeyboardInterrupt().with_traceback(state.trace) from None
        raise
    finally:
        state.task = state.trace = None
        if not task.done():  # what was interrupted is another
            task.cancel()
            regardless(loop.run_until_complete, task)


def regardless(function, *arguments):
    """Calls what may fail."""
    try:
        function(*arguments)
    except BaseException:
        pass


def idle():
    """Lets tasks that cells have begun go on until a request comes."""
    import asyncio

    loop = state.loop
    if wire.buffer or loop is None or loop.is_closed() or not asyncio.all_tasks(loop):
        return
    loop.add_reader(wire.requests, loop.stop)
    try:
        state.idle = True
        loop.run_forever()
    except BaseException as error:  # SystemExit of a task, or KeyboardInterrupt
        state.idle = False
        print_error(error)
    finally:
        state.idle = False
        loop.remove_reader(wire.requests)


def end_loop():
    """As asyncio.run() ends one."""
    import asyncio

    loop = state.loop
    if loop is None or loop.is_closed():
        return
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        regardless(loop.run_until_complete, asyncio.wait(tasks))
    regardless(loop.run_until_complete, loop.shutdown_asyncgens())
    loop.close()


# --- sources ---


def remember_source(cell):
    """For tracebacks and inspect, of the last cells."""
    state.sources[cell.name] = [line + "\n" for line in cell.lines()]
    if len(state.sources) > KEPT_SOURCES:
        old = next(iter(state.sources))
        del state.sources[old]
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache.pop(old, None)
    if "linecache" in sys.modules:
        enter_sources(sys.modules["linecache"])


def enter_sources(linecache):
    for name, lines in state.sources.items():
        if name not in linecache.cache:
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def remember_definitions(cell, tree):
    """What processes that multiprocessing starts anew need of cells, and where classes are for inspect."""
    import ast

    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [ast.dump(node)] if getattr(node, "module", None) != "__future__" else []
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
            names = [node.target.id] if isinstance(node.target, ast.Name) else []
        else:
            continue
        for name in names:
            state.definitions.pop(name, None)  # so that it comes last
            state.definitions[name] = (cell.name, node)


def write_definitions():
    """A program that defines what cells have defined; its path. It goes at the end."""
    import ast
    import atexit
    import shutil
    import tempfile

    if not getattr(write_definitions, "folder", None):
        write_definitions.folder = tempfile.mkdtemp(prefix="nsbox-cells.")
        atexit.register(
            lambda pid: os.getpid() == pid and shutil.rmtree(write_definitions.folder, ignore_errors=True), os.getpid()
        )
        write_definitions.count = 0
    import __future__

    features = [
        name
        for name in __future__.all_feature_names
        if state.flags & getattr(__future__, name).compiler_flag & future_flags()
    ]
    nodes = [node for name, (_, node) in state.definitions.items() if not name.isidentifier() or name in namespace]
    text = "".join(f"from __future__ import {name}\n" for name in features)
    text += "\n\n".join(ast.unparse(node) for node in nodes) + "\n"
    write_definitions.count += 1
    path = os.path.join(write_definitions.folder, f"cells{write_definitions.count}.py")
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    return path


# --- errors ---


# Of a class, whatever its metaclass says its name is.
class_name = type.__dict__["__name__"].__get__


def describe_error(cell, error):
    """Name, message, trace and line of an exception."""
    import traceback

    name = class_name(type(error))
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{type(error).__qualname__}"
    line = 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == cell.name:
            line = number
    if isinstance(error, SyntaxError) and error.filename == cell.name and not line:
        line = error.lineno or 0
        lines = traceback.format_exception_only(type(error), error)
        if is_ipython(cell, line):
            lines.append(
                "Lines with % or ! are IPython's, and not Python: packages come by install_packages (nsbox session install), "
                "commands by subprocess.run(); plots need nothing.\n"
            )
    else:
        described = traceback.TracebackException(type(error), error, error.__traceback__)
        strip_frames(described, set())
        lines = list(described.format())
    if isinstance(error, SystemExit):
        lines.append(f"{GOES_ON}\n")
    return name, text_of_error(error), "".join(lines), line or 0


GOES_ON = "The context goes on, and what it has defined stays."


def is_ipython(cell, line):
    lines = cell.lines()
    return 0 < line <= len(lines) and lines[line - 1].lstrip().startswith(("%", "!"))


def text_of_error(error):
    try:
        return str(error)
    except Exception as another:
        return f"<its __str__ raised {type(another).__name__}>"


def strip_frames(described, seen):
    """Leaves frames of this file, and of the loop around cells, out of a TracebackException and its causes."""
    if described is None or id(described) in seen:
        return
    seen.add(id(described))
    stack = described.stack or []
    while stack and (stack[0].filename == DRIVER or is_asyncio(stack[0].filename)):
        del stack[0]
    stack[:] = [frame for frame in stack if frame.filename != DRIVER and not frame.filename.endswith(NOTED)]
    for other in (described.__cause__, described.__context__, *(getattr(described, "exceptions", None) or ())):
        strip_frames(other, seen)


def print_error(error):
    """On standard error, as Python would."""
    import traceback

    described = traceback.TracebackException(type(error), error, error.__traceback__)
    strip_frames(described, set())
    print("".join(described.format()), end="", file=sys.stderr)


def print_line(text):
    print(text, file=sys.stderr)


# --- values ---


def encode(text):
    return text.encode("utf-8", "backslashreplace")


def bounded(text, limit):
    """Head and tail of a text, and between them what was left out."""
    if len(text) <= limit and (text.isascii() or len(encode(text)) <= limit):
        return text
    half = limit // 2 - 100
    head, tail = text[:half], text[len(text) - half :]
    if not (head.isascii() and tail.isascii()):
        head, tail = encode(head)[:half].decode(errors="ignore"), encode(tail)[-half:].decode(errors="ignore")
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters left out …\n{tail}"


def plain(value):
    """repr(), bounded: what containers of Python have in their middle is not even built."""
    text, whole = bounded_repr(value, MAX_TEXT - 1024, set())
    return text if whole else bounded(text, MAX_TEXT)


def bounded_repr(value, limit, above):
    """About `limit` characters of repr(), and whether that is all."""
    kind = type(value)
    if kind in (str, bytes, bytearray) and len(value) > limit:
        half = limit // 2
        left = len(value) - 2 * half
        return (
            f"{value[:half]!r}\n… {left:,} {'characters' if kind is str else 'bytes'} left out …\n{value[-half:]!r}",
            False,
        )
    if kind not in (list, tuple, dict, set, frozenset) or not value or len(value) * 3 < limit and is_flat(value):
        return repr(value), True
    if id(value) in above:
        return {list: "[...]", dict: "{...}"}.get(kind, repr(value)), True
    above.add(id(value))
    try:
        return repr_of_items(value, kind, limit, above)
    finally:
        above.discard(id(value))


def is_flat(value):
    """Whether its repr is no longer than a few dozen characters for each item."""
    items = value.items() if type(value) is dict else ((item,) for item in value)
    return (
        all(
            type(item) in (int, float, bool, type(None))
            and (type(item) is not int or -1 << 63 < item < 1 << 63)
            or type(item) is str
            and len(item) < 40
            for pair in items
            for item in pair
        )
        and len(value) < 1000
    )


def repr_of_items(value, kind, limit, above):
    opening, closing = {list: "[]", tuple: "()", dict: "{}", set: "{}"}.get(kind) or ("frozenset({", "})")

    def one(item, limit):
        if kind is not dict:
            return bounded_repr(item, limit, above)
        key, whole_key = bounded_repr(item[0], limit // 2, above)
        text, whole = bounded_repr(item[1], limit // 2, above)
        return f"{key}: {text}", whole_key and whole

    def some(items, limit):
        """Texts of the first items that fit; whether each is whole, and whether they are all."""
        texts, whole, length = [], True, 0
        for item in items:
            text, whole_one = one(item, max(200, limit // 2))
            if length + len(text) > limit and texts:
                return texts, whole, False
            texts.append(text)
            whole, length = whole and whole_one, length + len(text) + 2
        return texts, whole, True

    pairs = value.items() if kind is dict else value
    texts, whole, all_there = some(pairs, limit)
    if all_there:
        comma = "," if kind is tuple and len(value) == 1 else ""
        return f"{opening}{', '.join(texts)}{comma}{closing}", whole
    head, _, _ = some(pairs, limit // 2)
    tail = []
    if kind not in (set, frozenset):
        tail, _, _ = some(reversed(pairs), limit // 2)
        tail.reverse()
    left = len(value) - len(head) - len(tail)
    if left <= 0:
        return f"{opening}{', '.join(texts)}, …", False
    after = f"{', '.join(tail)}" if tail else ""
    return f"{opening}{', '.join(head)},\n… {left:,} of {len(value):,} items left out …\n{after}{closing}", False


class NoJson(Exception):
    """It cannot be said in JSON what a value is."""


def as_json(value, loose=False, budget=None, above=()):
    """A value as json.dumps() takes it, exactly. `loose`: what JSON lacks is null, or its text."""
    budget = budget or [MAX_BLOB]  # characters, roughly
    kind = type(value)
    budget[0] -= len(value) if kind is str else 4
    if budget[0] < 0:
        raise NoJson
    if value is None or kind is bool:
        return value
    if kind is str:
        return value
    if kind is int and -1 << 53 <= value <= 1 << 53:
        return value
    if kind is float and value - value == 0:
        return value
    if id(value) in above or len(above) > 100:
        raise NoJson
    if kind in (list, tuple):
        return [as_json(item, loose, budget, (*above, id(value))) for item in value]
    if kind is dict and (loose or all(type(key) is str for key in value)):
        return {
            key if type(key) is str else str(key): as_json(item, loose, budget, (*above, id(value)))
            for key, item in value.items()
        }
    return other_as_json(value, loose, budget, above)


def other_as_json(value, loose, budget, above):
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields and not isinstance(value, type):
        return {
            name: as_json(getattr(value, name), loose, budget, (*above, id(value)))
            for name in fields
            if hasattr(value, name)
        }
    if is_of(value, "numpy", "generic"):
        item = value.item()
        if type(item) in (bool, int, float, str):
            return as_json(item, loose, budget, above)
    if is_of(value, "numpy", "ndarray"):
        if value.size > budget[0]:
            raise NoJson
        return as_json(value.tolist(), loose, budget, above)
    if loose:
        if type(value) is float or is_missing(value):
            return None
        return value.isoformat() if hasattr(value, "isoformat") else bounded(str(value), 1000)
    raise NoJson


def is_missing(value):
    """None of pandas and numpy."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except Exception:
        return False


def is_of(value, module, name):
    """Whether a value is of a class of a library, or of one derived from it; the library is not imported for it."""
    return any(
        kind.__name__ == name and (kind.__module__ or "").split(".")[0] == module for kind in type(value).__mro__
    )


MAX_ROWS, MAX_COLUMNS = 100, 50  # of a table as JSON


def shortened(length, most):
    """Which of so many are kept, and how many are left out of the middle."""
    if length <= most:
        return list(range(length)), 0
    half = most // 2
    return [*range(half), *range(length - half, length)], length - 2 * half


def table_as_json(value):
    """Tables of pandas and polars as {columns, index, data, dtypes, rows}, as pandas' orient="split"; or None.

    Rows and columns in the middle that are left out are counted as omitted and omitted_columns."""
    if is_of(value, "pandas", "DataFrame"):
        rows, omitted = shortened(len(value), MAX_ROWS)
        columns, omitted_columns = shortened(len(value.columns), MAX_COLUMNS)
        part = value.iloc[rows, columns]
        table = {
            "columns": labels(part.columns),
            "index": labels(part.index),
            "data": (
                [list(row) for row in zip(*(part.iloc[:, i].tolist() for i in range(len(columns))))] if columns else []
            ),
            "dtypes": [str(dtype) for dtype in part.dtypes],
        }
    elif is_of(value, "pandas", "Series"):
        rows, omitted = shortened(len(value), MAX_ROWS)
        omitted_columns = 0
        part = value.iloc[rows]
        table = {"name": value.name, "index": labels(part.index), "data": part.tolist(), "dtype": str(value.dtype)}
    elif is_of(value, "pandas", "Index"):
        rows, omitted = shortened(len(value), MAX_ROWS)
        omitted_columns = 0
        table = {"name": value.name, "data": labels(value[rows]), "dtype": str(value.dtype)}
    elif is_of(value, "polars", "DataFrame"):
        rows, omitted = shortened(value.height, MAX_ROWS)
        columns, omitted_columns = shortened(value.width, MAX_COLUMNS)
        part = value[rows, columns] if value.height and value.width else value
        table = {
            "columns": part.columns,
            "data": [list(row) for row in part.iter_rows()],
            "dtypes": [str(dtype) for dtype in part.dtypes],
        }
    elif is_of(value, "polars", "Series"):
        rows, omitted = shortened(len(value), MAX_ROWS)
        omitted_columns = 0
        table = {"name": value.name, "data": value[rows].to_list(), "dtype": str(value.dtype)}
    else:
        return None
    table["rows"] = len(value)
    if omitted:
        table["omitted"] = omitted
    if omitted_columns:
        table["omitted_columns"] = omitted_columns
    return as_json(table, loose=True)


def labels(index):
    return [list(label) if isinstance(label, tuple) else label for label in index.tolist()]


def json_of(value):
    """The text of a value in JSON, or None."""
    import json

    try:
        found = table_as_json(value)
        if found is None:
            found = as_json(value)
        text = json.dumps(found, ensure_ascii=False, allow_nan=False)
        text.encode()
        return text
    except (NoJson, ValueError, RecursionError):
        return None


# What IPython knows of values, by its method.
REPRESENTATIONS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/json": "_repr_json_",
}


def method_of(value, name):
    """A method of a value for its representation; objects that have whatever they are asked for have none."""
    if isinstance(value, type) or getattr(value, "_ipython_canary_method_should_not_exist_", None) is not None:
        return None
    method = getattr(value, name, None)
    return method if callable(method) else None


def said(value, name, *arguments, **options):
    """What a method of a value for its representation gives; None where it has none, or it fails, which is said."""
    try:
        method = method_of(value, name)
        found = method(*arguments, **options) if method else None
    except Exception as error:
        if type(error).__name__ != "NotImplementedError":
            print_error(error)
        return None
    return found[0] if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict) else found


def bundle_of(value):
    """All representations of a value: {MIME type: str, bytes, or what is to be JSON}."""
    special = special_bundle(value)
    if special is not None:
        return special
    bundle = {}
    more = said(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(more, dict):
        bundle.update(more)
    for mime, name in REPRESENTATIONS.items():
        if mime not in bundle:
            found = said(value, name)
            if found is not None:
                bundle[mime] = found
    if "image/png" in bundle and "image/jpeg" in bundle:
        del bundle["image/jpeg"]
    if "application/json" not in bundle:
        text = json_of(value)
        if text is not None:
            bundle["application/json"] = text
    if "text/plain" not in bundle:
        bundle["text/plain"] = text_of(value)
    return bundle


def text_of(value):
    try:
        return plain(value)
    except Exception as error:
        print_error(error)
        what = f"{type(error).__name__}: {bounded(text_of_error(error), 1000)}"
        return f"<{type(value).__qualname__} object at {id(value):#x}: its repr raised {what}>"


def special_bundle(value):
    """What is no matter of methods: figures. None: it is none."""
    if is_of(value, "matplotlib", "Figure"):
        return figure_bundle(value)
    if is_of(value, "plotly", "BaseFigure"):
        return plotly_bundle(value)
    return None


def encoded(mime, value):
    """Bytes of a representation, or None."""
    import json

    if mime.endswith("json") and not isinstance(value, (str, bytes)):
        try:
            value = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except ValueError:
            value = json.dumps(as_json(value, loose=True), ensure_ascii=False)
    if isinstance(value, str) and mime in ("image/png", "image/jpeg", "application/pdf"):
        import base64

        value = base64.b64decode(value)
    if isinstance(value, str):
        value = (
            bounded(value, MAX_TEXT)
            if mime == "text/plain"
            else bounded(value, MAX_HTML) if mime == "text/html" else value
        )
        return encode(value)
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def is_mime(mime):
    return (
        isinstance(mime, str)
        and len(mime) < 128
        and mime.isascii()
        and mime.count("/") == 1
        and all(
            part and part[0].isalnum() and all(letter.isalnum() or letter in "+-._" for letter in part)
            for part in mime.split("/")
        )
    )


def send_value(kind, bundle):
    """Shows a value by its representations."""
    parts = []
    for mime in sorted(bundle, key=lambda mime: (mime != "text/plain", mime.startswith("application/"))):
        if bundle[mime] is None or not is_mime(mime):
            continue
        try:
            data = encoded(mime, bundle[mime])
        except Exception as error:
            print_error(error)
            continue
        if data is not None:
            parts.append((mime, data))
    if parts:
        unarmed(send_parts, kind, parts[:16])


def send_parts(kind, parts):
    if os.getpid() != state.pid or wire.replies is None:
        print(*(data.decode() for mime, data in parts if mime == "text/plain"))
        return
    with wire.lock:
        if state.cell is None:  # a thread that goes on
            print(*(data.decode() for mime, data in parts if mime == "text/plain"))
            return
        wire.value += 1
        if wire.value > MAX_VALUES:
            return
        for mime, data in parts:
            most = MAX_TEXT if mime == "application/json" else MAX_BLOB
            if mime != "text/plain" and (len(data) > most or len(data) > wire.bytes_left):
                wire.write(f"cut {state.cell} {wire.value} {kind} {mime} {len(data)}")
            else:
                wire.bytes_left -= len(data)
                wire.write(f"part {state.cell} {wire.value} {kind} {mime} {len(data)}", data)


def send_count():
    """How many values were too many."""
    if wire.value > MAX_VALUES:
        text = encode(f"… {wire.value - MAX_VALUES} more values left out: a cell shows at most {MAX_VALUES} …")
        wire.write(f"part {state.cell} {MAX_VALUES + 1} display text/plain {len(text)}", text)


def show(value, kind="display"):
    """Shows a value as IPython does."""
    method = method_of(value, "_ipython_display_")
    if method and not is_of(value, "plotly", "BaseFigure"):  # which would open a browser
        try:
            return method()
        except NotImplementedError:
            pass
        except Exception as error:
            print_error(error)
            return None
    send_value(kind, bundle_of(value))


class Handle:
    """What display(…, display_id=…) gives. What is shown cannot be changed any more, so it is shown again."""

    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, value, **options):
        display(value, **options)

    update = display


def display(
    *values,
    include=None,
    exclude=None,
    metadata=None,
    transient=None,
    display_id=None,
    raw=False,
    clear=False,
    **options,
):
    """Shows values: as pictures, tables or text, as they have it."""
    for value in values:
        if raw:
            send_value("display", dict(value))
        elif include or exclude:
            send_value(
                "display",
                {
                    mime: data
                    for mime, data in bundle_of(value).items()
                    if (not include or mime in include) and mime not in (exclude or ())
                },
            )
        else:
            show(value)
    return Handle(display_id) if display_id else None


# --- charts as data ---

MAX_POINTS = 200  # of a series
MAX_SERIES = 40  # of axes
MAX_SIDE = 64  # of the values of a heatmap, rows and columns
MAX_TICKS = 40


def evenly(length, most):
    """Which of so many are kept: the first, the last, and others at about the same distance."""
    if length <= most:
        return range(length)
    return [i * (length - 1) // (most - 1) for i in range(most)]


def plain_number(value):
    """A number of a library as one of JSON; what is none is None."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    if value - value != 0:
        return None
    return int(value) if value == int(value) and abs(value) < 1 << 53 else value


def thinned(series):
    """A series of which no more is said than is useful; what is left out is counted."""
    series = dict(series)
    for key in ("points", "bars", "slices", "boxes"):
        if key in series:
            kept = evenly(len(series[key]), MAX_POINTS)
            if len(kept) < len(series[key]):
                series["omitted"] = len(series[key]) - len(kept)
                series[key] = [series[key][i] for i in kept]
    if "values" in series:
        rows = series["values"]
        width = max((len(row) for row in rows), default=0)
        lines, columns = evenly(len(rows), MAX_SIDE), evenly(width, MAX_SIDE)
        series["values"] = [[rows[i][j] for j in columns if j < len(rows[i])] for i in lines]
        left = sum(map(len, rows)) - sum(map(len, series["values"]))
        if left:
            series["omitted"] = left
    return series


def axes_chart(title, x, y, series, **more):
    kinds = {one["kind"] for one in series}
    chart = {"kind": kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown", "title": title or None}
    if chart["kind"] != "pie":
        chart.update(x=x, y=y)
    chart["series"] = series
    chart.update(more)
    return chart


def figure_chart(title, charts):
    if len(charts) == 1 and not (title and charts[0]["title"]):
        return {**charts[0], "title": charts[0]["title"] or title}
    return {"kind": "figure", "title": title or None, "axes": charts}


def chart_text(chart):
    """The JSON of a chart, whose series are still whole."""
    import json

    def bounded_chart(chart):
        chart = dict(chart)
        if "axes" in chart:
            chart["axes"] = [bounded_chart(axes) for axes in chart["axes"]]
            return chart
        chart["series"] = [thinned(series) for series in chart["series"][:MAX_SERIES]]
        return chart

    return json.dumps(as_json(bounded_chart(chart), loose=True, budget=[MAX_CELL]), ensure_ascii=False, allow_nan=False)


# --- matplotlib ---


def figure_bundle(figure):
    import io

    file = io.BytesIO()
    canvas = figure.canvas
    if not hasattr(canvas, "print_png"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = FigureCanvasAgg(figure)
    canvas.print_figure(
        file,
        format="png",
        dpi=figure.dpi,
        bbox_inches="tight",
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
    )
    bundle = {"text/plain": repr(figure), "image/png": file.getvalue()}
    try:
        chart = FigureReader(figure).chart()
        bundle[CHART] = chart and chart_text(chart)
    except Exception as error:
        print(f"what this plot contains could not be read: {type(error).__name__}: {error}", file=sys.stderr)
    state.figures.append(figure)
    figure.stale = False  # so that it is seen whether it is changed after this
    return bundle


def show_figures():
    """Shows the open figures of pyplot, but for those that were shown and have not changed since, and closes them."""
    if "matplotlib._pylab_helpers" not in sys.modules:
        return
    helpers = sys.modules["matplotlib._pylab_helpers"]
    for manager in sorted(helpers.Gcf.get_all_fig_managers(), key=lambda manager: manager.num):
        figure = manager.canvas.figure
        drawn = any(shown is figure for shown in state.figures) and not figure.stale
        try:
            if not drawn and len(figure.get_children()) > 1:  # the first is the background
                send_value("display", figure_bundle(figure))
        except Exception as error:
            print_error(error)
        finally:
            helpers.Gcf.destroy(manager.num)


class FigureReader:
    """What a figure of matplotlib contains, from what is drawn in it and, for some plots, what they were made from."""

    def __init__(self, figure):
        self.figure = figure

    def chart(self):
        charts = [self.axes(axes) for axes in self.figure.axes if axes.get_visible() and not hasattr(axes, "_colorbar")]
        title = getattr(self.figure, "_suptitle", None)
        return figure_chart(title.get_text() if title else None, charts) if charts else None

    def axes(self, axes):
        self.now, self.x, self.y = axes, Scale(axes, "x"), Scale(axes, "y")
        self.done, self.labels = set(), {}  # artists that are part of others; lines that those have the label of
        series = []
        if axes.name != "3d":
            for read in (self.noted, self.containers, self.lines, self.collections, self.images):
                series += read()
        title = axes.get_title() or axes.get_title("left") or axes.get_title("right")
        more = {"omitted_series": len(series) - MAX_SERIES} if len(series) > MAX_SERIES else {}
        return axes_chart(title, self.x.described(), self.y.described(), series, **more)

    def label(self, artist):
        label = artist.get_label()
        return label if isinstance(label, str) and label and not label.startswith("_") else None

    def noted(self):
        """Of histograms, pies and boxes more is known than rectangles."""
        series = []
        for artists, one in getattr(self.now, "_nsbox_series", ()):
            if artists and artists[0].axes is self.now:  # not cleared since
                self.done.update(map(id, artists))
                series.append(one(self) if callable(one) else one)
        return series

    def containers(self):
        series = []
        for container in self.now.containers:
            kind = type(container).__name__
            if kind == "BarContainer":
                if container.patches and id(container.patches[0]) not in self.done:
                    series.append(self.bars(container.patches, self.label(container), container.orientation))
                self.done.update(map(id, container.patches))
            elif kind == "ErrorbarContainer":
                self.done.update(id(line) for line in container[1])
                self.labels[id(container[0])] = self.label(container)
            elif kind == "StemContainer":
                self.done.add(id(container.baseline))
                self.labels[id(container.markerline)] = self.label(container)
        return series

    def bars(self, patches, label, orientation):
        upright = orientation != "horizontal"
        bars = []
        for patch in patches:
            start, length = (patch.get_x(), patch.get_width()) if upright else (patch.get_y(), patch.get_height())
            base, value = (patch.get_y(), patch.get_height()) if upright else (patch.get_x(), patch.get_width())
            bars.append((start, start + length, base, value))
        scale = self.x if upright else self.y
        touch = (
            len(bars) > 2
            and scale.kind in ("linear", "log")
            and all(
                abs(before[1] - after[0]) <= 1e-6 * abs(after[1] - after[0]) for before, after in zip(bars, bars[1:])
            )
        )
        found = []
        for start, end, base, value in bars:
            bar = {
                "label": f"{start:g} to {end:g}" if touch else scale.name((start + end) / 2),
                "value": plain_number(value),
            }
            if touch:
                bar.update({"from": plain_number(start), "to": plain_number(end)})
            if abs(base) > 1e-12 and not scale.other_is_log():
                bar["base"] = plain_number(base)
            found.append(bar)
        series = {"kind": "histogram" if touch else "bar", "label": label, "bars": found}
        if not upright:
            series["orientation"] = "horizontal"
        return series

    def lines(self):
        series = []
        for line in self.now.lines:
            x, y = line.get_xdata(orig=False), line.get_ydata(orig=False)
            if id(line) in self.done or line.get_transform() != self.now.transData or not len(x):
                continue
            kind = "scatter" if line.get_linestyle() in ("None", "none", " ", "") else "line"
            series.append(
                {"kind": kind, "label": self.label(line) or self.labels.get(id(line)), "points": self.points(x, y)}
            )
        return series

    def points(self, x, y):
        return [[self.x.value(a), self.y.value(b)] for a, b in zip(x, y)]

    def collections(self):
        series = []
        for collection in self.now.collections:
            kind = type(collection).__name__
            if id(collection) in self.done:
                continue
            if kind == "PathCollection":
                offsets = collection.get_offsets()
                if len(offsets):
                    series.append(
                        {
                            "kind": "scatter",
                            "label": self.label(collection),
                            "points": self.points(offsets[:, 0], offsets[:, 1]),
                        }
                    )
            elif kind == "QuadMesh" and collection.get_array() is not None:
                array, shape = collection.get_array(), collection.get_coordinates().shape
                rows = array if array.ndim == 2 else array.reshape(-1, shape[1] - 1)
                series.append({"kind": "heatmap", "label": self.label(collection), "values": numbers(rows)})
        return series

    def images(self):
        series = []
        for image in self.now.images:
            array = image.get_array()
            if array is None:
                continue
            if array.ndim == 2:
                series.append({"kind": "heatmap", "label": self.label(image), "values": numbers(array)})
            else:
                series.append(
                    {
                        "kind": "image",
                        "label": self.label(image),
                        "values": [],
                        "omitted": array.shape[0] * array.shape[1],
                    }
                )
        return series


def numbers(rows):
    if getattr(rows, "mask", None) is not None and hasattr(rows, "filled"):
        rows = rows.astype(float).filled(float("nan"))
    return [[plain_number(value) for value in row] for row in rows.tolist()]


class Scale:
    """An axis of matplotlib: what its numbers mean."""

    def __init__(self, axes, side):
        self.axis, self.other = (axes.xaxis, axes.yaxis) if side == "x" else (axes.yaxis, axes.xaxis)
        self.limits = sorted(axes.get_xlim() if side == "x" else axes.get_ylim())
        self.texts = self.named_ticks()
        self.kind = self.find_kind()

    def find_kind(self):
        if "dates" in type(self.axis.get_major_formatter()).__module__ or type(
            self.axis.get_major_formatter()
        ).__name__ in (
            "TimeSeries_DateFormatter",
            "PandasAutoDateFormatter",
            "AutoDateFormatter",
            "ConciseDateFormatter",
        ):
            return "datetime"
        if self.texts:
            return "categorical"
        return "log" if self.axis.get_scale() in ("log", "symlog") else "linear"

    def named_ticks(self):
        """Texts of ticks that are names and not numbers, by their places."""
        formatter = type(self.axis.get_major_formatter()).__name__
        if formatter not in ("FixedFormatter", "StrCategoryFormatter", "FuncFormatter"):
            return {}
        units = getattr(self.axis, "units", None)
        mapping = getattr(units, "_mapping", None)
        if mapping:
            return {float(place): str(name) for name, place in mapping.items()}
        texts = {float(tick.get_loc()): tick.label1.get_text() for tick in self.axis.get_major_ticks()}
        texts = {place: text for place, text in texts.items() if text}
        is_fixed = formatter == "FixedFormatter" or type(self.axis.get_major_locator()).__name__ == "FixedLocator"
        return texts if is_fixed and not all(is_number(text) for text in texts.values()) else {}

    def other_is_log(self):
        return self.other.get_scale() == "log"

    def name(self, place):
        """What a place is called: the text of a tick that is near, a date, or the number."""
        if self.texts:
            near = min(self.texts, key=lambda tick: abs(tick - place))
            if abs(near - place) < 0.5:
                return self.texts[near]
        value = self.value(place)
        return value if isinstance(value, str) else "" if value is None else f"{value:g}"

    def value(self, number):
        if self.kind == "datetime":
            return self.date(number)
        if self.kind == "categorical" and number in self.texts:
            return self.texts[number]
        return plain_number(number)

    def date(self, number):
        import matplotlib.dates

        if (
            type(self.axis.get_major_formatter()).__name__ == "TimeSeries_DateFormatter"
        ):  # of pandas: counted in periods
            import pandas

            try:
                return (
                    pandas.Period(ordinal=int(number), freq=self.axis.get_major_formatter().freq)
                    .to_timestamp()
                    .isoformat()
                )
            except (ValueError, OverflowError):
                return None
        try:
            date = matplotlib.dates.num2date(number).replace(tzinfo=None)
        except (ValueError, OverflowError, TypeError):
            return None
        return date.isoformat()

    def described(self):
        low, high = self.limits
        ticks = [
            tidy(label.get_text())
            for place, label in zip(self.axis.get_majorticklocs(), self.axis.get_majorticklabels())
            if low - 1e-9 <= place <= high + 1e-9 and label.get_text()
        ]
        limits = [self.value(limit) if self.kind == "datetime" else plain_number(limit) for limit in (low, high)]
        return {
            "label": self.axis.get_label_text() or None,
            "scale": self.kind,
            "min": limits[0],
            "max": limits[1],
            "ticks": [ticks[i] for i in evenly(len(ticks), MAX_TICKS)],
        }


def is_number(text):
    return plain_number(tidy(text)) is not None


def tidy(text):
    """The text of a tick, without the marks of mathematics."""
    import re

    text = text.replace("\N{MINUS SIGN}", "-")
    found = re.fullmatch(r"\$\\mathdefault\{(.*)\}\$", text)
    return re.sub(r"\^\{(.*?)\}", r"^\1", found[1]) if found else text


def note(axes, artists, series):
    """For FigureReader.noted()."""
    if artists:
        if not hasattr(axes, "_nsbox_series"):
            axes._nsbox_series = []
        axes._nsbox_series.append((artists, series))
        del axes._nsbox_series[:-MAX_SERIES]


def hook_axes(module):
    """Has histograms, pies and boxes remember what they are made from: of rectangles it is hardly to be seen."""
    import functools

    def noted(function, *arguments):
        try:
            function(*arguments)
        except Exception as error:
            print(f"what this plot contains could not be noted: {type(error).__name__}: {error}", file=sys.stderr)

    def added(name, function):
        of_library = getattr(module.Axes, name)

        def method(axes, *arguments, **options):
            made = of_library(axes, *arguments, **options)
            noted(function, axes, made, arguments, options)
            return made

        # For warnings, whose place is the first that is not in matplotlib, it is in there.
        code = method.__code__.replace(co_filename=os.path.join(os.path.dirname(module.__file__), NOTED))
        method = type(method)(
            code, {"__name__": module.__name__, "__builtins__": builtins}, name, None, method.__closure__
        )
        setattr(module.Axes, name, functools.wraps(of_library)(method))

    def hist(axes, made, arguments, options):
        counts, edges, patches = made
        several = getattr(counts, "ndim", 1) == 2 or isinstance(counts, list)
        for values, container in zip(counts if several else [counts], patches if several else [patches]):
            label = container.get_label() if hasattr(container, "get_label") else None
            artists = list(getattr(container, "patches", container))
            note(
                axes,
                artists,
                {
                    **({"orientation": "horizontal"} if options.get("orientation") == "horizontal" else {}),
                    "kind": "histogram",
                    "label": (
                        label
                        if label and not label.startswith("_")
                        else artists[0].get_label() if artists and not artists[0].get_label().startswith("_") else None
                    ),
                    "bars": [
                        {
                            "label": f"{start:g} to {end:g}",
                            "value": plain_number(value),
                            "from": plain_number(start),
                            "to": plain_number(end),
                        }
                        for value, start, end in zip(values, edges, edges[1:])
                    ],
                },
            )

    def pie(axes, made, arguments, options):
        wedges = list(getattr(made, "wedges", None) or made[0])
        values = [plain_number(value) for value in (arguments[0] if arguments else options["x"])]
        total = max(sum(value or 0 for value in values), 1e-300)
        note(
            axes,
            wedges,
            {
                "kind": "pie",
                "label": None,
                "slices": [
                    {
                        "label": label if label and not label.startswith("_") else None,
                        "value": value,
                        "percent": round(100 * (value or 0) / total, 4),
                    }
                    for value, label in zip(values, (wedge.get_label() for wedge in wedges))
                ],
            },
        )

    def bxp(axes, made, arguments, options):
        stats = list(arguments[0] if arguments else options["bxpstats"])
        positions = arguments[1] if len(arguments) > 1 else options.get("positions")
        positions = range(1, len(stats) + 1) if positions is None else list(positions)
        upright = options.get("orientation", "vertical") == "vertical" and options.get("vert") is not False
        artists = [artist for group in made.values() for artist in group if hasattr(artist, "axes")]

        def series(reader):
            scale = reader.x if upright else reader.y
            boxes = [
                {
                    "label": scale.name(place) or str(one.get("label", "")),
                    "min": plain_number(one["whislo"]),
                    "q1": plain_number(one["q1"]),
                    "median": plain_number(one["med"]),
                    "q3": plain_number(one["q3"]),
                    "max": plain_number(one["whishi"]),
                    "outliers": [plain_number(value) for value in list(one.get("fliers", ()))[:50]],
                }
                for one, place in zip(stats, positions)
            ]
            return {"kind": "box", "label": None, "boxes": boxes, **({} if upright else {"orientation": "horizontal"})}

        note(axes, artists, series)

    added("hist", hist)
    added("pie", pie)
    added("bxp", bxp)


# --- plotly ---


def plotly_bundle(figure):
    """A picture by kaleido, if that is there and works; else by matplotlib, of the usual kinds, which is said."""
    bundle = {"application/vnd.plotly.v1+json": figure.to_json()}
    words, reader = [], PlotlyReader(figure)
    try:
        chart = reader.chart()
        bundle[CHART] = chart and chart_text(chart)
        if reader.unread:
            words.append(f"not in the chart: {', '.join(sorted(reader.unread))}")
    except Exception as error:
        chart = None
        words.append(f"what it contains could not be read: {first_line(error)}")
    bundle["image/png"], more = plotly_picture(figure, chart if not reader.unread and not reader.stacked else None)
    bundle["text/plain"] = f"plotly figure: {'; '.join([plotly_name(figure), *words, *more])}"
    return bundle


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:200]


def plotly_name(figure):
    """Its kinds and title: all that it has is in the JSON."""
    import collections

    kinds = collections.Counter(trace.type for trace in figure.data)
    name = ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items()) or "empty"
    title = " ".join(str(figure.layout.title.text or "").split())
    return name[:200] + (f", {title[:100]!r}" if title else "")


def plotly_picture(figure, chart):
    """PNG or None, and what is to be said about it."""
    import importlib.util

    if importlib.util.find_spec("kaleido"):
        try:
            return figure.to_image(format="png"), []
        except Exception as error:
            why = f"kaleido failed: {first_line(error)}"
    else:
        why = "kaleido is not installed"
    if not importlib.util.find_spec("matplotlib"):
        return None, [f"no picture: {why}, nor is matplotlib there, which does for most"]
    if not chart or not drawable(chart):
        return None, [f"no picture: {why}, and matplotlib does not do for this kind"]
    return draw_chart(chart), [f"drawn by matplotlib, as {why}"]


class PlotlyReader:
    """What a figure of plotly contains."""

    KINDS = {
        "scatter": "line",
        "scattergl": "line",
        "bar": "bar",
        "histogram": "histogram",
        "pie": "pie",
        "box": "box",
        "heatmap": "heatmap",
        "imshow": "heatmap",
        "image": "image",
    }

    def __init__(self, figure):
        self.figure = figure
        self.unread = set()  # what traces there are besides
        self.stacked = False  # lines that are above each other

    def chart(self):
        places = {}
        for trace in self.figure.data:
            key = (
                "pie"
                if trace.type == "pie"
                else (getattr(trace, "xaxis", None) or "x", getattr(trace, "yaxis", None) or "y")
            )
            places.setdefault(key, []).append(trace)
        title = self.figure.layout.title.text
        charts = [self.axes(key, traces, title if len(places) == 1 else None) for key, traces in places.items()]
        notes = [note.text for note in self.figure.layout.annotations if note.yref == "paper" and not note.showarrow]
        if len(notes) == len(charts) > 1:  # what make_subplots() makes of titles
            for chart, text in zip(charts, notes):
                chart["title"] = text
        return (charts[0] if len(charts) == 1 else figure_chart(title, charts)) if charts else None

    def axes(self, key, traces, title):
        self.names = {"x": None, "y": None}
        series = [one for trace in traces for one in self.series(trace)]
        layout = self.figure.layout
        if key == "pie":
            return axes_chart(title, None, None, series)
        sides = {}
        for side, name in zip("xy", key):
            axis = getattr(layout, f"{side}axis{name[1:]}", None)
            sides[side] = self.described(side, axis, series)
        mode = {"barmode": layout.barmode} if layout.barmode and any(one["kind"] == "bar" for one in series) else {}
        more = {"omitted_series": len(series) - MAX_SERIES} if len(series) > MAX_SERIES else {}
        return axes_chart(title, sides["x"], sides["y"], series, **mode, **more)

    def described(self, side, axis, series):
        values = self.values(side, series)
        kind = getattr(axis, "type", None)
        if kind in ("category", "multicategory"):
            kind = "categorical"
        elif kind == "date":
            kind = "datetime"
        elif kind not in ("log", "linear"):
            kind = "linear"
            if values and all(isinstance(value, str) for value in values):
                kind = "datetime" if all(is_date(value) for value in values) else "categorical"
        limits = list(axis.range) if axis is not None and axis.range else []
        if kind == "log" and limits:
            limits = [10**limit for limit in limits]
        if not limits and kind == "categorical":
            limits = [0, max(len(dict.fromkeys(values)) - 1, 0)]
        elif not limits:
            known = [value for value in values if value is not None and isinstance(value, str) == (kind == "datetime")]
            limits = [min(known), max(known)] if known else [None, None]
        found = {
            "label": axis.title.text if axis is not None else None,
            "scale": kind,
            "min": self.one(limits[0]),
            "max": self.one(limits[1]),
        }
        if getattr(axis, "autorange", None) == "reversed":
            found["reversed"] = True
        if kind == "categorical":
            names = list(dict.fromkeys(str(value) for value in values))
            found["ticks"] = [names[i] for i in evenly(len(names), MAX_TICKS)]
        return found

    def values(self, side, series):
        """What is on an axis."""
        values = []
        for one in series:
            flat = one.get("orientation") == "horizontal"
            values += [point["xy".index(side)] for point in one.get("points", ())]
            for bar in one.get("bars", ()):
                if (side == "x") != flat:
                    values += (
                        [bar["from"], bar["to"]] if "from" in bar else [bar["at"] if "at" in bar else bar["label"]]
                    )
                else:
                    values += [0, bar["value"]]
            for box in one.get("boxes", ()):
                values += [box["label"]] if (side == "x") != flat else [box["min"], box["max"], *box["outliers"]]
            values += one.get("names", {}).get(side) or ()
        return values

    def one(self, value):
        """A value on an axis: a number, a name or a date."""
        if value is None or type(value) in (int, bool, str):
            return value
        if hasattr(value, "isoformat"):
            return None if is_missing(value) else value.isoformat()
        if is_of(value, "numpy", "datetime64"):
            return str(value.astype("datetime64[us]").item().isoformat()) if str(value) != "NaT" else None
        number = plain_number(value)
        return (
            number
            if number is not None or isinstance(value, float) or is_of(value, "numpy", "floating")
            else str(value)
        )

    def list(self, values):
        return [] if values is None else [self.one(value) for value in values]

    def series(self, trace):
        kind, label = self.KINDS.get(trace.type), getattr(trace, "name", None) or None
        read = getattr(self, f"read_{kind}", None)
        if read and not self.is_special(trace):
            return read(trace, label)
        self.unread.add(trace.type)
        return []

    def is_special(self, trace):
        """Whether a trace is more than its values: bars with a base, histograms of something else than counts."""
        if trace.type == "histogram":
            return (
                trace.histfunc not in (None, "count")
                or bool(trace.histnorm)
                or bool(trace.cumulative.enabled)
                or (trace.xbins.size is not None or trace.ybins.size is not None)
            )
        if trace.type == "box":
            return trace.q1 is not None
        return trace.type == "bar" and trace.base is not None

    def read_line(self, trace, label):
        x, y = self.list(trace.x), self.list(trace.y)
        x, y = x or list(range(len(y))), y or list(range(len(x)))
        self.stacked = self.stacked or bool(trace.stackgroup)
        mode = trace.mode or ("lines+markers" if len(x) < 20 else "lines")
        return [
            {
                "kind": "line" if "lines" in mode else "scatter",
                "label": label,
                "points": [list(pair) for pair in zip(x, y)],
            }
        ]

    def read_bar(self, trace, label):
        flat = trace.orientation == "h"
        names, values = self.list(trace.y if flat else trace.x), self.list(trace.x if flat else trace.y)
        bars = []
        for name, value in zip(names or range(len(values)), values):
            bar = {"label": name if isinstance(name, str) else "" if name is None else f"{name:g}", "value": value}
            if not isinstance(name, str):
                bar["at"] = name
            bars.append(bar)
        return [{"kind": "bar", "label": label, "bars": bars, **({"orientation": "horizontal"} if flat else {})}]

    def read_histogram(self, trace, label):
        flat = trace.x is None
        values = [value for value in self.list(trace.y if flat else trace.x) if value is not None]
        if values and all(isinstance(value, str) for value in values):
            counts = {}
            for value in values:
                counts[value] = counts.get(value, 0) + 1
            bars = [{"label": name, "value": count} for name, count in counts.items()]
        else:
            bars = self.bins(values, trace.nbinsy if flat else trace.nbinsx)
        return [{"kind": "histogram", "label": label, "bars": bars, **({"orientation": "horizontal"} if flat else {})}]

    def bins(self, values, most):
        """Of round width, as plotly's: 1, 2 or 5 times a power of ten."""
        import math

        values = [value for value in values if not isinstance(value, str)]
        if not values:
            return []
        low, high = min(values), max(values)
        rough = (high - low) / (most or max(1, min(100, 2 * math.sqrt(len(values))))) or 1
        power = 10 ** math.floor(math.log10(rough))
        width = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999999)
        first = math.floor(low / width)
        counts = [0] * (math.floor(high / width) - first + 1)
        for value in values:
            counts[math.floor(value / width) - first] += 1
        edges = [(first + i) * width for i in range(len(counts) + 1)]
        return [
            {"label": f"{start:g} to {end:g}", "value": count, "from": plain_number(start), "to": plain_number(end)}
            for count, start, end in zip(counts, edges, edges[1:])
        ]

    def read_pie(self, trace, label):
        names, values, slices = self.list(trace.labels), self.list(trace.values), {}
        for name, value in zip(names or range(len(values)), values or [1] * len(names)):
            slices[str(name)] = slices.get(str(name), 0) + (plain_number(value) or 0)
        total = max(sum(slices.values()), 1e-300)
        return [
            {
                "kind": "pie",
                "label": label,
                "slices": [
                    {"label": name, "value": value, "percent": round(100 * value / total, 4)}
                    for name, value in slices.items()
                ],
            }
        ]

    def read_box(self, trace, label):
        flat = trace.orientation == "h" or trace.y is None
        values, names = (trace.x, trace.y) if flat else (trace.y, trace.x)
        groups = {}
        names = self.list(names) or [label or getattr(trace, "name", None) or ""] * len(values)
        for name, value in zip(names, self.list(values)):
            if plain_number(value) is not None:
                groups.setdefault(str(name), []).append(plain_number(value))
        return [
            {
                "kind": "box",
                "label": label,
                "boxes": [box(name, sorted(values)) for name, values in groups.items()],
                **({"orientation": "horizontal"} if flat else {}),
            }
        ]

    def read_heatmap(self, trace, label):
        rows = [] if trace.z is None else [[plain_number(value) for value in row] for row in trace.z]
        return [
            {
                "kind": "heatmap",
                "label": label,
                "values": rows,
                "names": {"x": self.list(trace.x), "y": self.list(trace.y)},
            }
        ]

    def read_image(self, trace, label):
        return [
            {"kind": "image", "label": label, "values": [], "omitted": len(trace.z or ()) * len((trace.z or [()])[0])}
        ]


def is_date(text):
    import re

    return bool(re.match(r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}.*)?)?$", text))


def box(name, values):
    """The five numbers of a box, by linear interpolation, and what is more than 1.5 times its height away."""

    def quantile(part):
        place = part * (len(values) - 1)
        low = int(place)
        return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])

    q1, median, q3 = quantile(0.25), quantile(0.5), quantile(0.75)
    reach = 1.5 * (q3 - q1)
    inside = [value for value in values if q1 - reach <= value <= q3 + reach]
    return {
        "label": name,
        "min": inside[0],
        "q1": q1,
        "median": median,
        "q3": q3,
        "max": inside[-1],
        "outliers": [value for value in values if not q1 - reach <= value <= q3 + reach][:50],
    }


def drawable(chart):
    if "axes" in chart:
        return all(drawable(axes) for axes in chart["axes"])
    kinds = {series["kind"] for series in chart["series"]}
    if (
        len(kinds & {"bar", "histogram", "box", "heatmap", "pie"}) > 1
        or "bar" in kinds
        and len(kinds) > 1
        and any(chart[side]["scale"] in ("categorical", "datetime") for side in ("x", "y"))
    ):
        return False  # they would not meet on one axis
    return bool(chart["series"]) and all(
        series["kind"] in ("line", "scatter", "bar", "histogram", "pie", "box", "heatmap") for series in chart["series"]
    )


def draw_chart(chart):
    """A chart, as PNG, by matplotlib; pyplot does not learn of it."""
    import io

    import matplotlib.figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    charts = chart.get("axes") or [chart]
    columns = 1 if len(charts) == 1 else 2 if len(charts) <= 4 else 3
    rows = -(-len(charts) // columns)
    figure = matplotlib.figure.Figure(
        figsize=(7, 4.5) if len(charts) == 1 else (4.5 * columns, 3.5 * rows), layout="constrained"
    )
    for number, one in enumerate(charts, 1):
        draw_axes(figure, figure.add_subplot(rows, columns, number), one)
    if "axes" in chart and chart["title"]:
        figure.suptitle(chart["title"])
    file = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(file, format="png", dpi=100)
    return file.getvalue()


COLOURS = (
    "#636efa",
    "#EF553B",
    "#00cc96",
    "#ab63fa",
    "#FFA15A",
    "#19d3f3",
    "#FF6692",
    "#B6E880",
    "#FF97FF",
    "#FECB52",
)  # plotly's


def draw_axes(figure, axes, chart):
    axes.set_title(chart["title"] or "")
    bars = [series for series in chart["series"] if series["kind"] == "bar"]
    stack = {}
    for number, series in enumerate(chart["series"]):
        colour = COLOURS[number % len(COLOURS)]
        draw_series(figure, axes, chart, series, colour, bars, stack)
    for side in ("x", "y"):
        axis = chart.get(side)
        if axis:
            getattr(axes, f"set_{side}label")(axis["label"] or "")
            if axis.get("reversed"):
                getattr(axes, f"invert_{side}axis")()
            if axis["scale"] == "datetime" and chart["kind"] in ("line", "scatter", "mixed"):
                set_date_ticks(getattr(axes, f"{side}axis"))
            if axis["scale"] == "log":
                getattr(axes, f"set_{side}scale")("log")
    if sum(bool(series["label"]) for series in chart["series"]) > 1 and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))  # where plotly has it
    if chart["kind"] not in ("pie", "heatmap"):
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)


def set_date_ticks(axis):
    import matplotlib.dates

    locator = matplotlib.dates.AutoDateLocator()
    axis.set_major_locator(locator)
    axis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))


def draw_series(figure, axes, chart, series, colour, bars, stack):
    kind, flat = series["kind"], series.get("orientation") == "horizontal"
    if kind in ("line", "scatter"):
        x, y = ([on_axis(chart[side], value) for value in values] for side, values in zip("xy", zip(*series["points"])))
        if kind == "line":
            axes.plot(x, y, color=colour, label=series["label"], marker="o" if len(x) < 20 else "", markersize=4)
        else:
            axes.scatter(x, y, color=colour, label=series["label"], s=25)
    elif kind == "bar":
        draw_bars(axes, chart, series, colour, bars, stack, flat)
    elif kind == "histogram":
        draw = axes.barh if flat else axes.bar
        if all("from" in bar for bar in series["bars"]):
            size = [bar["to"] - bar["from"] for bar in series["bars"]]
            draw(
                [bar["from"] for bar in series["bars"]],
                [bar["value"] for bar in series["bars"]],
                size,
                align="edge",
                color=colour,
                label=series["label"],
                alpha=0.8,
                edgecolor="white",
            )
        else:
            draw(
                [bar["label"] for bar in series["bars"]],
                [bar["value"] for bar in series["bars"]],
                color=colour,
                label=series["label"],
            )
    elif kind == "pie":
        axes.pie(
            [one["value"] for one in series["slices"]],
            labels=[one["label"] for one in series["slices"]],
            autopct="%.1f%%",
            colors=COLOURS,
        )
    elif kind == "box":
        place = stack.setdefault("boxes", [])
        first = len(place) + 1
        place += [box["label"] for box in series["boxes"]]
        boxes = [
            {
                "med": box["median"],
                "q1": box["q1"],
                "q3": box["q3"],
                "whislo": box["min"],
                "whishi": box["max"],
                "fliers": box["outliers"],
            }
            for box in series["boxes"]
        ]
        options = (
            {"vert": not flat}
            if "orientation" not in axes.bxp.__wrapped__.__code__.co_varnames
            else {"orientation": "horizontal" if flat else "vertical"}
        )
        axes.bxp(
            boxes,
            positions=range(first, first + len(boxes)),
            patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.6},
            **options,
        )
        (axes.set_yticks if flat else axes.set_xticks)(range(1, len(place) + 1), place)
    elif kind == "heatmap":
        names = series["names"]
        numeric = all(isinstance(value, (int, float)) for side in names.values() for value in side)
        values = [[float("nan") if value is None else value for value in row] for row in series["values"]]
        figure.colorbar(axes.imshow(values, aspect="auto", origin="lower", cmap="plasma"), ax=axes)
        for side in ("x", "y"):
            if names[side]:
                kept = evenly(len(names[side]), 12 if numeric else 30)
                getattr(axes, f"set_{side}ticks")(list(kept), [str(names[side][i]) for i in kept])


def draw_bars(axes, chart, series, colour, bars, stack, flat):
    names = stack.setdefault("names", list(dict.fromkeys(bar["label"] for one in bars for bar in one["bars"])))
    numeric = all("at" in bar for one in bars for bar in one["bars"])
    grouped = chart.get("barmode") not in ("stack", "relative", "overlay") and len(bars) > 1
    width = 0.8 / len(bars) if grouped else 0.8
    shift = (next(i for i, one in enumerate(bars) if one is series) - (len(bars) - 1) / 2) * width if grouped else 0
    base = stack.setdefault("base", {})
    places = [bar["at"] if numeric else names.index(bar["label"]) for bar in series["bars"]]
    below = [
        0 if grouped or chart.get("barmode") == "overlay" else base.get((bar["label"], (bar["value"] or 0) < 0), 0)
        for bar in series["bars"]
    ]
    for bar in series["bars"]:
        key = (bar["label"], (bar["value"] or 0) < 0)
        base[key] = base.get(key, 0) + (bar["value"] or 0)
    values, at = [bar["value"] or 0 for bar in series["bars"]], [place + shift for place in places]
    if flat:
        axes.barh(at, values, width, left=below, color=colour, label=series["label"])
    else:
        axes.bar(at, values, width, bottom=below, color=colour, label=series["label"])
    if not numeric:
        kept = evenly(len(names), 20)
        texts = [names[i].replace("T00:00:00", "") for i in kept]
        (axes.set_yticks if flat else axes.set_xticks)(list(kept), texts)
        if not flat and sum(map(len, texts)) > 80:
            axes.tick_params("x", rotation=60)


def on_axis(axis, value):
    if axis["scale"] == "datetime" and isinstance(value, str):
        import datetime

        return datetime.datetime.fromisoformat(value.replace("Z", ""))
    return float("nan") if value is None else value


# --- what is added to libraries ---


class Hooks:
    """Calls functions with modules that the code imports, once they are there."""

    def __init__(self, functions):
        self.functions = functions

    def install(self):
        for name, function in self.functions.items():
            if name in sys.modules:
                function(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        function = self.functions.get(name)
        if not function:
            return None
        spec = None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec:
                    break
        if not spec or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                function(module)
            except Exception as error:
                print(f"{name}: not all of it works in a context: {type(error).__name__}: {error}", file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


def hook_pyplot(pyplot):
    def show(*arguments, **options):
        """Shows the figures that are open, and closes them."""
        show_figures()

    pyplot.show = show


def hook_figure(module):
    module.Figure.show = lambda figure, warn=True: display(figure)


def hook_pil(module):
    class Viewer(module.Viewer):
        def show(self, image, **options):
            display(image)
            return 1

    module.register(Viewer, 0)


def hook_plotly(module):
    module.BaseFigure.show = lambda figure, *arguments, **options: display(figure)


def hook_plotly_show(module):
    module.show = lambda figure, *arguments, **options: display(figure)


def hook_ipython(module):
    module.display = display


def hook_inspect(inspect):
    """Classes have no file of their own, but the module's, of which `__main__` has none."""
    of_library = inspect.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            found = state.definitions.get(object.__qualname__.split(".")[0])
            if found and found[0] in state.sources:
                return found[0]
        return of_library(object)

    inspect.getfile = getfile


def hook_spawn(spawn):
    """A process that is started anew reads the program for what it defines; here that is what cells have defined."""
    of_library = spawn.get_preparation_data

    def get_preparation_data(name):
        data = of_library(name)
        if os.getpid() == state.pid and "init_main_from_name" not in data:
            data["init_main_from_path"] = write_definitions()
        return data

    spawn.get_preparation_data = get_preparation_data


def hook_asyncio(module):
    event_loop()


hooks = Hooks(
    {
        "linecache": enter_sources,
        "inspect": hook_inspect,
        "asyncio": hook_asyncio,
        "multiprocessing.spawn": hook_spawn,
        "matplotlib.pyplot": hook_pyplot,
        "matplotlib.figure": hook_figure,
        "matplotlib.axes._axes": hook_axes,
        "PIL.ImageShow": hook_pil,
        "plotly.basedatatypes": hook_plotly,
        "plotly.io._renderers": hook_plotly_show,
        "IPython.core.display_functions": hook_ipython,
    }
)


class StandIn:
    """IPython.display for code that was written for a notebook, where IPython is not installed.

    It comes last in sys.meta_path, and has what shows values: no get_ipython() of a shell, no widgets, no media."""

    NAMES = ("IPython", "IPython.core", "IPython.display", "IPython.core.display")

    def find_spec(self, name, path=None, target=None):
        if name not in self.NAMES:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=name in self.NAMES[:2])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__doc__ = StandIn.__doc__
        if module.__name__ == "IPython":
            module.get_ipython = lambda: None
        if module.__name__.endswith("display"):
            module.display, module.clear_output, module.DisplayHandle = display, lambda wait=False: None, Handle
            module.update_display = lambda value, *, display_id, **options: display(value, **options)
            module.DisplayObject = Shown
            for kind in (HTML, Markdown, Latex, Math, SVG, JSON, Pretty, Image):
                setattr(module, kind.__name__, kind)
            module.display_png = module.display_html = module.display_svg = module.display_markdown = display


class Shown:
    """What is one representation of itself: `data`, or what a file has."""

    mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **options):
        if filename is None and data is None and url is not None:
            raise ValueError("a URL is not fetched: give data or filename")
        if filename is not None:
            data = self.read(filename)
        self.data, self.filename, self.metadata = data, filename, metadata

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), self.mime: self.data}

    def __repr__(self):
        return f"<{type(self).__name__} object>"


class HTML(Shown):
    mime = "text/html"


class Markdown(Shown):
    mime = "text/markdown"


class Latex(Shown):
    mime = "text/latex"


class Math(Latex):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), self.mime: "$\\displaystyle " + self.data.strip("$") + "$"}


class SVG(Shown):
    mime = "image/svg+xml"

    def __init__(self, data=None, url=None, filename=None, **options):
        is_path = isinstance(data, str) and "<" not in data
        super().__init__(None if is_path else data, url, data if is_path else filename, **options)


class JSON(Shown):
    mime = "application/json"


class Pretty(Shown):
    def __repr__(self):
        return str(self.data)


class Image(Shown):
    """A PNG, JPEG or SVG: `data`, or what a file has."""

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, **options):
        if isinstance(data, (str, os.PathLike)):
            data, filename = None, data
        super().__init__(data, url, filename, **options)
        mimes = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
        self.mime = (
            next((mime for start, mime in mimes.items() if self.data.startswith(start)), None)
            or f"image/{format or 'png'}"
        )

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()


class Exit:
    """exit and quit, which are told to end a terminal's Python and close its input first."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"{self.name}() ends the cell; the context goes on"

    def __call__(self, code=None):
        raise SystemExit(code)


# --- the life of it ---


namespace = None


def run_cell(number, text):
    cell = Cell(number, text)
    remember_source(cell)
    wire.value, wire.bytes_left = 0, MAX_CELL
    state.cell, state.interrupts, state.figures, state.closing = number, 0, [], False
    if "asyncio" in sys.modules:
        event_loop()
    value, error = guard(cell.run)
    if os.getpid() != state.pid:
        end_child(error)
    if value is not None and error is None:
        builtins._ = value
        _, error = guard(show, value, "result")
    if isinstance(error, SystemExit) and error.code in (None, 0):
        guard(print_line, f"The code has exited. {GOES_ON}")
        error = None
    _, failed = guard(show_figures)
    error = error or failed
    status = "ok"
    with wire.lock:
        send_count()
    if error is not None:
        status = "interrupted" if isinstance(error, KeyboardInterrupt) and state.interrupts else "error"
        send_error(cell, error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    guard(flush)
    state.closing = True
    while state.bringers:  # none reaches the next cell
        time.sleep(0.001)
    with wire.lock:
        state.cell = None
        restore_handler()
        wire.write(f"end {number} {status}")


def send_error(cell, error):
    described, failed = guard(describe_error, cell, error)
    if failed is not None:
        described = (
            class_name(type(error)),
            "",
            f"{class_name(type(error))}: and {class_name(type(failed))} while it was described\n",
            0,
        )
    name, message, trace, line = described
    with wire.lock:
        fields = [encode(name[:200]), encode(bounded(message, MAX_TRACE)), encode(bounded(trace, MAX_TRACE))]
        wire.write(f"error {cell.number} {line} {' '.join(str(len(field)) for field in fields)}", *fields)


def flush():
    for stream in {id(stream): stream for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)}.values():
        try:
            stream.flush()
        except Exception:
            pass
    if "ctypes" in sys.modules:  # for the sake of libraries that write by C's streams
        sys.modules["ctypes"].CDLL(None).fflush(None)


def end_child(error):
    """A process that the cell has forked ends where the cell does, as a program would."""
    if isinstance(error, SystemExit):
        raise error
    if error is not None:
        print_error(error)
        sys.exit(1)
    sys.exit(0)


def prepare():
    """A `__main__` for the cells, and what they find elsewhere."""
    global namespace, wire
    import contextvars
    import faulthandler
    from _thread import get_ident

    wire = Wire()
    signal.signal(signal.SIGINT, on_interrupt)
    os.register_at_fork(after_in_child=wire.forget)
    faulthandler.enable(2)
    state.main_thread, state.context = get_ident(), contextvars.copy_context()
    sys.modules["nsbox_driver"] = sys.modules["__main__"]
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"], namespace = main, main.__dict__
    sys.argv[:], sys.path[0] = [""], ""
    builtins.display, builtins.exit, builtins.quit = display, Exit("exit"), Exit("quit")
    os.environ.setdefault("MPLBACKEND", "Agg")
    home = os.path.expanduser("~")
    if not os.access(home, os.W_OK):
        import tempfile

        os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "matplotlib"))
    hooks.install()
    sys.meta_path.append(StandIn())


def main():
    prepare()
    wire.write("ready")
    for name in (
        "ast",
        "json",
        "linecache",
        "traceback",
    ):  # which will be needed, while the first request is on its way
        __import__(name)

    while True:
        if state.loop is not None:
            idle()
        request = wire.request()
        if not request:
            break
        run_cell(*request)
    if state.loop is not None:
        end_loop()


main()
