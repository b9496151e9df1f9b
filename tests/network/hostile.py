# SPDX-License-Identifier: MIT
"""Servers and clients that mean harm: they cannot end the gate, fill it, or keep it from the others."""

import contextlib
import os
import socket

import time

from box import WEB, check, describe, equal, gates, matches, test
from internet import WWW4, WWW6, address_record, reset, wait_until

MOST_RSS_KIB = 24 << 10  # anonymous memory of a gate, whatever happens
MOST_FDS = 2 * 256 + 400  # two a connection, its pipes, questions and listening sockets


def gate_of(box):
    found = gates(box.nsbox)
    equal(len(found), 1)
    return found[0]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def modest(box, what):
    """The gate is there, and small."""
    gate = gate_of(box)
    check(gate.rss_kib() < MOST_RSS_KIB, f"{what}: the gate has {gate.rss_kib()} KiB")
    with contextlib.suppress(PermissionError):
        check(gate.fds() < MOST_FDS, f"{what}: the gate has {gate.fds()} descriptors")
    return gate


def sleeps(gate):
    """It takes next to nothing of a second and a half, as soon as what was begun is done, for which it may need others."""
    for _ in range(20):
        before = cpu_ticks(gate.pid)
        time.sleep(1.5)
        ticks = cpu_ticks(gate.pid) - before
        if ticks < 15:
            return
    raise AssertionError(f"the gate took {ticks} ticks of 150 while nothing happened")


def dialogue(process, text):
    """Writes a line to the code inside, and reads one."""
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


PORT = 2240
ONE = f"allow=mail.example.org:{PORT},www.example.org"
MAY = WEB | {f"tcp {address} {PORT}" for address in (WWW4, WWW6)}  # where one fails, the other is tried

# --- servers ---


def endless_headers(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-Header: " + b"x" * 8000 + b"\r\n")


def one_byte_at_a_time(connection, _):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello":
        connection.sendall(bytes([byte]))
        time.sleep(0.005)


def garbage(connection, _):
    connection.sendall(os.urandom(100000))


def reset_after_some(connection, _):
    connection.recv(1)  # else it can come before the client knows that it is connected
    connection.sendall(b"x" * 50000)
    reset(connection)


def close_at_once(connection, _):
    connection.close()


def urgent(connection, _):
    connection.send(b"!", socket.MSG_OOB)
    connection.sendall(b"calm")


SERVERS = (
    (
        "headers without an end",
        endless_headers,
        "c.sendall(b'GET / HTTP/1.1\\r\\nHost: mail.example.org\\r\\n\\r\\n')\n"
        "say(o=len(read_all(c, 20 << 20)) >= 20 << 20)",
    ),
    ("a byte at a time", one_byte_at_a_time, "say(o=read_all(c).endswith(b'hello'))"),
    ("noise", garbage, "say(o=len(read_all(c)) == 100000)"),
    ("a reset in the middle", reset_after_some, "c.sendall(b'x')\nsay(o=attempt(read_all, c) == 'ECONNRESET')"),
    ("an end at once", close_at_once, "say(o=attempt(read_all, c) in ('through b\\'\\'', 'ECONNRESET'))"),
    ("urgent data", urgent, "say(o=read_all(c).endswith(b'calm'))"),
)
for _what, _handler, _code in SERVERS:

    def _make(handler, code):
        def run(box):
            with box.net.serving(PORT, handler):
                result = box.python(
                    f"resolve('mail.example.org')\nc = connect(WWW4, {PORT})\n{code}\nc.close()\n"
                    "tried(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org'))",
                    network=ONE,
                    may=MAY,
                )
            equal(result.said[0], {"o": True}, result)
            matches("^through 200", result.outcome, result)

        return run

    test(f"a server that sends {_what}")(_make(_handler, _code))


@test("forty servers that never read: what the gate holds of it is bounded, and it sleeps meanwhile")
def never_reads(box):
    def deaf(connection, _):
        time.sleep(350)

    code = f"""
resolve('mail.example.org')
several = []
for _ in range(40):
    c = connect(WWW4, {PORT})
    c.setblocking(False)
    several.append(c)
sent = 0
quiet = time.monotonic()
while time.monotonic() - quiet < .5:
    for c in several:
        try:
            sent += c.send(bytes(1 << 16))
            quiet = time.monotonic()
        except BlockingIOError:
            pass
    time.sleep(.005)
print(sent, flush=True)
for line in sys.stdin:
    print(attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')), flush=True)
"""
    with box.net.serving(PORT, deaf), box.running(code, network=ONE) as (process, sent):
        gate = modest(box, "forty that never read")
        check(int(sent) < 40 * (16 << 20), f"{sent} bytes were taken")
        sleeps(gate)
        matches("^through 200", dialogue(process, "x"))
        return f"{int(sent) >> 20} MiB on their way, the gate has {gate.rss_kib()} KiB"


@test("forty clients that never read, of servers that send without an end")
def client_never_reads(box):
    def source(connection, _):
        connection.settimeout(350)
        while True:
            connection.sendall(bytes(1 << 20))

    code = f"""
resolve('mail.example.org')
several = [connect(WWW4, {PORT}) for _ in range(40)]
time.sleep(2)
print('there', flush=True)
for line in sys.stdin:
    print(attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')), flush=True)
"""
    with box.net.serving(PORT, source), box.running(code, network=ONE) as (process, there):
        equal(there, "there")
        gate = modest(box, "clients that never read")
        sleeps(gate)
        matches("^through 200", dialogue(process, "x"))
        return f"the gate has {gate.rss_kib()} KiB"


@test("connections whose one half is closed wait without work, and end with their clients")
def half_closed(box):
    ended = []

    def patient(connection, _):
        connection.sendall(b"hello")
        connection.settimeout(350)
        with contextlib.suppress(OSError):
            while connection.recv(100):
                pass
            connection.settimeout(None)
            time.sleep(60)
            connection.recv(1)
        ended.append(True)

    code = f"""
resolve('mail.example.org')
several = []
for _ in range(30):
    c = connect(WWW4, {PORT})
    c.recv(5)
    c.shutdown(socket.SHUT_WR)
    several.append(c)
print('there', flush=True)
sys.stdin.readline()
"""
    with box.net.serving(PORT, patient), box.running(code, network=ONE) as (_, there):
        equal(there, "there")
        gate = modest(box, "halves")
        sleeps(gate)


HOLE = 2241  # on which no server of the Internet listens


@test("a server that never answers a SYN holds up nobody else")
def black_hole(box):
    hole = socket.socket()
    hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    hole.bind(("93.184.216.40", HOLE))
    hole.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("93.184.216.40", HOLE))
        fillers.append(filler)
    box.net.dns.zone["mail.example.org"] = ["93.184.216.40"]
    code = f"""
resolve('mail.example.org')
stuck = []
for _ in range(50):
    c = socket.socket()
    c.setblocking(False)
    c.connect_ex(('93.184.216.40', {HOLE}))
    stuck.append(c)
time.sleep(.3)
for _ in range(20):
    tried(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org'))
"""
    try:
        result = box.python(
            code, network=f"allow=mail.example.org:{HOLE},www.example.org", may=WEB | {f"tcp 93.184.216.40 {HOLE}"}
        )
    finally:
        for connection in (*fillers, hole):
            connection.close()
    for said in result.said:
        matches("^through 200", said["outcome"], result)
    # It is given up after half a minute; until then the others need not wait.
    check(sorted(said["seconds"] for said in result.said)[10] < 8, "it took long", result)


# --- clients ---

CROWD = """
import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
def crowd(count, address, port):
    result = []
    for _ in range(count):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex((address, port))
        result.append(c)
    return result
"""


@test("blocked: ten thousand connections from inside; afterwards all is as before")
def ten_thousand(box):
    code = CROWD + """
resolve('www.example.org')
several = crowd(10000, WWW4, 443)
time.sleep(1.5)
print(len(several), flush=True)
sys.stdin.readline()
for c in several:
    c.close()
print(attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')), flush=True)
sys.stdin.readline()
"""
    with box.running(code, options=("--open-files", "20000", "-m", "1g")) as (process, first):
        equal(first, "10000")
        gate = modest(box, "ten thousand connections")
        matches("^through 200", dialogue(process, "x"))
        modest(box, "after ten thousand connections")
        return f"the gate has {gate.rss_kib()} KiB"


@test("blocked: slow clients hold a place no longer than ten seconds", once=True)
def slow(box):
    code = CROWD + """
resolve('www.example.org')
several = crowd(300, WWW4, 443)
time.sleep(.3)
text = hello('www.example.org')
start = time.monotonic()
import threading
def drip():
    for at in range(200):
        for c in several:
            try:
                c.send(text[at:at + 1])
            except OSError:
                pass
        time.sleep(.5)
threading.Thread(target=drip, daemon=True).start()
def patient():
    import probe
    probe.SECONDS = 120
    return tls(WWW4, 'www.example.org')
tried(patient)
"""
    result = box.python(code, options=("--open-files", "4096"))
    matches("^through 200", result.outcome, result)
    check(result.said[0]["seconds"] < 60, "it took long", result)
    return f"another one waited {result.said[0]['seconds']} s"


@test("a thousand connections of all kinds, twenty at a time: no descriptor stays")
def soak(box):
    def some(connection, _):
        connection.settimeout(60)
        first = connection.recv(1)
        if first == b"r":
            reset(connection)
        elif first == b"h":
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
        elif first == b"l":
            connection.sendall(bytes(200000))

    code = f"""
import random, threading
random.seed(3)
resolve('mail.example.org'), resolve('www.example.org')
def one():
    with contextlib.suppress(OSError):
        with connect(*random.choice(((WWW4, {PORT}), (WWW4, {PORT}), (WWW4, 443), (WWW4, 80), (EVIL4, {PORT}), ('127.0.0.1', 53)))) as c:
            c.settimeout(.3)
            kind = random.choice('rhl!cGx')
            if kind == 'c':
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            elif kind == 'x':
                c.sendall(hello('www.example.org')[:random.randrange(300)])
            else:
                c.sendall(kind.encode() * random.choice((1, 1, 1, 50000)))
            if random.random() < .5:
                c.shutdown(socket.SHUT_WR)
            if random.random() < .7:
                c.recv(random.choice((1, 100000)))
def several():
    for _ in range(50):
        one()
print(attempt(lambda: tls(WWW4, 'www.example.org')), flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=several) for _ in range(20)]
[t.start() for t in threads]
[t.join() for t in threads]
print('done', flush=True)
sys.stdin.readline()
print(attempt(lambda: tls(WWW4, 'www.example.org')), flush=True)
sys.stdin.readline()
"""
    with box.net.serving(PORT, some), box.running(code, network=ONE, options=("-m", "1g")) as (
        process,
        first,
    ):
        matches("^through 200", first)
        gate = gate_of(box)
        try:
            before = gate.fds()
        except PermissionError:
            before = None
        equal(dialogue(process, "x"), "done")
        matches("^through 200", dialogue(process, "x"))
        after = gate_of(box)
        check(
            before is None or wait_until(lambda: after.fds() <= before + 6),
            f"{before} descriptors before, {after.fds() if before else 0} after",
        )
        return f"{before} descriptors before, {after.fds()} after, {after.rss_kib()} KiB" if before else None


@test("ten thousand other names, and what is told of them is bounded")
def many_names(box):
    code = """
import random, string
random.seed(5)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
answered = 0
for n in range(10000):
    name = '.'.join(''.join(random.choices(string.ascii_lowercase, k=60)) for _ in range(3)) + '.net'
    s.sendto(question(name, number=n), ('127.0.0.1', 53))
    try:
        answered += len(s.recv(600)) > 0
    except TimeoutError:
        pass
print(answered, flush=True)
for line in sys.stdin:
    print(attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')), flush=True)
"""
    with box.running(code) as (process, answered):
        equal(answered, "10000")
        modest(box, "ten thousand names")
        matches("^through 200", dialogue(process, "x"))
    result = box.python(
        "for n in range(500):\n    attempt(ask, f'n{n}.example.net')\nattempt(resolve, 'www.example.org')\n"
        "tls(WWW4, 'www.example.org')"
    )
    check(0 < len(result.blocked) <= 64, f"{len(result.blocked)} names are told", result)
    equal(result.allowed, ["www.example.org:443"], result)
    check(len(result.stderr) < 10000, "it says too much", result)


@test("more addresses than are remembered: the newest are")
def many_addresses(box):
    box.net.dns.zone["turn.example.org"] = lambda q: q.answer(
        [
            address_record("turn.example.org", f"93.185.{len(box.net.dns.queries) % 250}.{n}", ttl=0)
            for n in range(1, 30)
        ]
        if q.type == 1
        else []
    )
    code = """
for n in range(45):
    last = attempt(resolve, 'turn.example.org', socket.AF_INET)
    time.sleep(.06)
tried(lambda: http(resolve('turn.example.org', socket.AF_INET)[0], 'turn.example.org'))
"""
    result = box.python(
        code,
        network="allow=turn.example.org",
        may={f"tcp 93.185.{n}.{m} 80" for n in range(250) for m in range(30)},
    )
    matches("^through 200", result.outcome, result)
    equal(len(result.contacts), 1, result)


@test("what is blocked is told as hosts and ports: no paths, headers or queries")
def secrets(box):
    code = """
resolve('www.example.org')
EVIL = b'Host: evil.example.net\\r\\n'
attempt(raw, WWW4, 80, b'GET /secret-path?secret-query HTTP/1.1\\r\\n' + EVIL + b'Cookie: secret-cookie\\r\\n\\r\\n')
attempt(raw, WWW4, 80, b'GET http://user:secret-word@evil.example.net/secret-path HTTP/1.1\\r\\n' + EVIL + b'\\r\\n')
attempt(raw, WWW4, 80, b'GET / HTTP/1.1\\r\\nHost: \\x1b]0;secret-title\\x07\\r\\n\\r\\n')
attempt(raw, WWW4, 443, hello('evil.example.net'))
attempt(http, WWW4, 'www.example.org')
"""
    result = box.python(code)
    check("secret" not in describe(result), "a secret is in the result", result)
    check("\x1b" not in result.stderr, "a terminal's words are in what it says", result)
    equal(result.allowed, ["www.example.org:80"], result)
