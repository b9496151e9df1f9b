# SPDX-License-Identifier: MIT
"""The gate as a process: it begins with its sandbox, ends with it, and is missed when it is killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from box import PYTHON, Skip, check, describe, equal, gates, matches, processes, test
from internet import WWW4, wait_until

FETCH = "tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')"
LOOP = (
    f"print(attempt(lambda: {FETCH}), flush=True)\nfor line in sys.stdin:\n"
    f"    print(attempt(lambda: {FETCH}), flush=True)\n"
)


def refused(what, rules, pattern, options=()):
    @test(f"{what} is refused, with a line that says what is wrong, and a hint at most")
    def run(box):
        process = box.start("run", "--network", rules, *options, "--", "true")
        out, errors = process.communicate(timeout=100)
        equal((process.returncode, out), (125, ""))
        matches(pattern, errors)
        check(len(errors.splitlines()) <= 2, f"it says {errors!r}")


refused("no rule at all", "allow=", "empty")
refused("an empty rule", "allow=www.example.org,,x.example.org", "two commas|empty")
refused("a port that is none", "allow=www.example.org:0", "port")
refused("a port that is too large", "allow=www.example.org:65536", "port")
refused("a whole top-level domain", "allow=*.org", "top-level")
refused("a star elsewhere", "allow=www.*.org", "no name")
refused("an address with bits behind its mask", "allow=10.0.0.1/8", "no name|address")
refused("nearly an address", "allow=10.0.0.256", "no name|address")
refused("the sandbox's own loopback", "allow=127.0.0.1:8080", "host.nsbox.internal")
refused("a URL", "allow=https://www.example.org/", "no scheme and no path.*\n.*host alone")
refused("a network that there is not", "bridge", "none.*allow|allow.*host")
refused("more hosts than there may be", "allow=" + ",".join(f"n{n}.example.org" for n in range(300)), "more than")


@test("no gate where none is wanted")
def none(box):
    for network in ("none", "host"):
        with box.running("print('there', flush=True)\nsys.stdin.read()", network=network) as (_, there):
            equal(there, "there")
            equal(gates(box.nsbox), [])
    result = box.python("tried(resolve, 'www.example.org')", network="none", may=())
    check(result.outcome in ("no name", "try again"), f"the outcome is {result.outcome}", result)
    equal((result.json.get("network_allowed"), result.json.get("network_blocked")), (None, None), result)


@test("the result says which network it was, what was reached and what was not, and so does a line")
def reported(box):
    result = box.python(f"{FETCH}\nattempt(resolve, 'evil.example.net')\nattempt(tls, WWW4, 'evil.example.net')")
    matches("allow", json.dumps(result.json["sandbox"]), result)
    equal(result.allowed, ["www.example.org:443"], result)
    check(any(re.match("evil.example.net", host) for host in result.blocked), "it is not named", result)
    for entry in result.json["network_blocked"]:
        check(entry["why"], "there is no reason", result)
    process = box.start(
        "run",
        "--network",
        "allow=www.example.org",
        "--",
        PYTHON,
        "-c",
        "import socket\ntry:\n    socket.getaddrinfo('evil.example.net', 443)\nexcept OSError:\n    pass",
    )
    _, errors = process.communicate(timeout=100)
    equal(process.returncode, 0)
    matches("evil.example.net", errors)
    matches("allow=", errors)


@test("the gate has no rights: no capabilities, new privileges, files or other sockets; and another name")
def confined(box):
    with box.running(LOOP) as (_, first):
        matches("^through 200", first)
        gate = gates(box.nsbox)[0]
        for field in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            equal(int(gate.status[field], 16), 0)
        equal((gate.status["NoNewPrivs"], gate.status["Seccomp"]), ("1", "2"))
        equal(os.readlink(f"/proc/{gate.pid}/ns/net"), os.readlink("/proc/self/ns/net"))
        try:
            links = [os.readlink(f"/proc/{gate.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{gate.pid}/fd")]
        except PermissionError:
            return
        kinds = re.compile(
            r"socket:|anon_inode:\[(eventpoll|timerfd|signalfd|eventfd|pidfd)|pipe:|/dev/null|/dev/zero|/memfd:|pidfd:"
        )
        others = [link for link in links if not kinds.match(link)]
        equal(others, [])


@test("an ended sandbox ends its gate: by itself, by its time, by its supervisor's death")
def ends(box):
    with box.running(LOOP) as (process, first):
        matches("^through 200", first)
        process.stdin.close()
        process.wait(60)
        check(wait_until(lambda: not gates(box.nsbox)), "the gate is there after its sandbox")
    for limit in ("1500ms", "10s", "60s"):  # a busy machine needs longer for what is before the sleep
        result = box.python(f"{FETCH}\ntime.sleep(300)", options=("--timeout", limit))
        equal(result.json["ended_by"], "timeout", result)
        if result.allowed:
            break
    equal(result.allowed, ["www.example.org:443"], result)
    check(wait_until(lambda: not gates(box.nsbox)), "the gate is there after its time")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with box.running(LOOP) as (process, first):
            matches("^through 200", first)
            # setpriv and unshare have become nsbox
            os.kill(process.pid, number)
            check(
                wait_until(lambda: not gates(box.nsbox)),
                f"the gate is there after signal {number} of its supervisor",
            )
            check(wait_until(lambda: not processes(box.nsbox)), f"left: {box.left()}")


@test("a gate that is killed is missed: connections end, nothing gets another way, the run says so")
def killed(box):
    box.net.sniffer.take()
    with box.running(LOOP) as (process, first):
        matches("^through 200", first)
        os.kill(gates(box.nsbox)[0].pid, signal.SIGKILL)
        process.stdin.write("x\n")
        process.stdin.flush()
        second = process.stdout.readline().strip()
        check(not second.startswith("through"), f"it is {second!r}")
        process.stdin.close()
        process.wait(60)
        errors = process.stderr.read()
    matches("gate", errors)
    equal([gate.pid for gate in gates(box.nsbox)], [])


@test("kill -9 of each of its processes leaves nothing", once=True)
def kill_each(box):
    names = set()
    for number in range(12):
        with box.running(LOOP) as (process, first):
            matches("^through 200", first)
            there = sorted(processes(box.nsbox), key=lambda process: process.pid)
            victim = there[number % len(there)]
            names.add(victim.name)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            check(
                wait_until(lambda: not processes(box.nsbox)), f"after {victim.name} was killed, left: {box.left()}"
            )
    return ", ".join(sorted(names))


def rss_and_pss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        fields = dict(re.findall(r"^(\w+): +(\d+) kB", file.read(), re.M))
    return int(fields["Rss"]), int(fields["Pss"])


@test("a hundred sandboxes with a gate each, at once", once=True)
def hundred(box):
    # Two at a time reach out: a hundred handshakes of Python's at once would show what the machine can do.
    code = (
        f"print('there', flush=True)\nsys.stdin.readline()\n"
        f"print(attempt(lambda: {FETCH}), attempt(resolve, 'evil.example.net'), flush=True)\nsys.stdin.read()"
    )
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(box.running(code, options=("--timeout", "5m"))) for _ in range(100)]
        equal([first for _, first in boxes], ["there"] * 100)
        began = time.monotonic() - start
        there = gates(box.nsbox)
        equal(len(there), 100)
        for process, _ in boxes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process, _ in boxes:
            matches("^through 200 .* no name$", process.stdout.readline().strip())
        own = max(gate.rss_kib() for gate in there)
        try:
            rss, pss = rss_and_pss(there[0].pid)
            note = f"a gate has {own} KiB of its own at most, RSS {rss} KiB, PSS {pss} KiB"
        except OSError:
            note = f"a gate has {own} KiB of its own at most"
        for process, _ in boxes:
            process.stdin.close()
    check(wait_until(lambda: not processes(box.nsbox)), f"left: {box.left()[:5]}")
    return f"{note}; all were there after {began:.1f} s"


@test("a host with few descriptors has fewer connections, and says so where there are too few")
def few_descriptors(box):
    for limit in (1024, 200, 110):
        prefix, box.prefix = box.prefix, [*box.prefix, "prlimit", f"--nofile={limit}"]
        try:
            code = f"say(o=[attempt(lambda: {FETCH}) for _ in range(5)])"
            result = box.python(code, options=("--open-files", str(min(limit, 100))))
        finally:
            box.prefix = prefix
        for outcome in result.said[0]["o"]:
            matches("^through 200", outcome, result)


@test("a session has one gate for its life, and each command's result is its own")
def session(box):
    def nsbox(*arguments):
        process = box.start("session", *arguments)
        out, errors = process.communicate(timeout=100)
        return process.returncode, out.strip(), errors

    status, number, errors = nsbox(
        "new",
        "--network",
        "allow=www.example.org",
        "--ro-bind",
        f"{box.probes}:/probes",
        "-e",
        "PYTHONPATH=/probes",
        "--storage",
        "memory",
    )
    equal(status, 0)
    try:
        equal(len(gates(box.nsbox)), 1)
        gate = gates(box.nsbox)[0].pid
        seen = []
        for code in (FETCH, "attempt(resolve, 'evil.example.net')", "pass"):
            status, out, errors = nsbox("exec", "--json", number, "--", PYTHON, "-c", "from probe import *\n" + code)
            check(status == 0 and out, f"status {status}: {errors}")
            said = json.loads(out)
            seen.append((said["network_allowed"], [entry["host"] for entry in said["network_blocked"] or []]))
        equal(seen[0], (["www.example.org:443"], []))
        check(not seen[1][0] and len(seen[1][1]) == 1 and seen[1][1][0].startswith("evil.example.net"), f"{seen}")
        check(not seen[2][0] and not seen[2][1], f"{seen}")
        equal([process.pid for process in gates(box.nsbox)], [gate])
    finally:
        equal(nsbox("stop", number)[0], 0)
    check(wait_until(lambda: not gates(box.nsbox)), "the gate is there after its session")


@test("a result that nobody reads, and a standard error that is closed, hold up nothing")
def closed(box):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = box.start(
        *box.options("allow=www.example.org"),
        "--",
        PYTHON,
        "-c",
        f"from probe import *\n{FETCH}",
        stdout=write_end,
        stderr=write_end,
    )
    os.close(write_end)
    process.wait(60)
    check(wait_until(lambda: not processes(box.nsbox)), f"left: {box.left()}")
