# SPDX-License-Identifier: MIT
"""Runs nsbox within the Internet of these tests, and tests in TAP."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import traceback

from internet import DNS4, SECOND_DNS4, WWW4, WWW6, wait_until

PYTHON = "/usr/bin/python3"
WEB = frozenset(f"tcp {address} {port}" for address in (WWW4, WWW6) for port in (80, 443))
DNS = frozenset(f"{kind} {address} 53" for kind in ("udp", "tcp") for address in (DNS4, SECOND_DNS4))


@dataclasses.dataclass
class Result:
    json: dict
    stderr: str
    contacts: set  # all that was sent meanwhile, but for questions to the servers of DNS

    @property
    def status(self):
        return self.json["exit_code"]

    @property
    def out(self):
        return self.json["stdout"]

    @property
    def said(self):
        """The objects that code of probe.py has printed."""
        check(self.out and not self.status, "the code inside failed", self)
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def outcome(self):
        return self.said[-1]["outcome"]

    @property
    def allowed(self):
        return self.json.get("network_allowed") or []

    @property
    def blocked(self):
        return [entry["host"] for entry in self.json.get("network_blocked") or []]

    def why(self, host):
        return next(entry["why"] for entry in self.json["network_blocked"] if entry["host"] == host)


class Box:
    """
    nsbox as some user: `prefix` is the command that makes it that user's. Each run is checked by what was sent
    meanwhile: nothing but what `may` says, which is the web of www.example.org if nothing is said.
    """

    def __init__(self, net, nsbox, prefix, home, probes):
        self.net, self.nsbox, self.prefix, self.probes = net, str(nsbox), list(prefix), str(probes)
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "XDG_RUNTIME_DIR": str(home / "runtime"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "LC_ALL": "C.UTF-8",
            "SSL_CERT_FILE": str(probes / "ca.pem"),
        }

    def command(self, *arguments):
        return [*self.prefix, self.nsbox, *arguments]

    def start(self, *arguments, environment=None, **options):
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            **options,
        }
        return subprocess.Popen(self.command(*arguments), env={**self.environment, **(environment or {})}, **options)

    def options(self, network, more=()):
        return [
            "run",
            "--json",
            "--timeout",
            "4m",
            "--network",
            network,
            "--ro-bind",
            f"{self.probes}:/probes",
            "-e",
            "PYTHONPATH=/probes",
            "-e",
            "PYTHONDONTWRITEBYTECODE=1",
            *more,
        ]

    def finish(self, process, timeout=300):
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            raise AssertionError(f"nsbox did not end; it said {errors!r}") from None
        assert out, f"nsbox ended with {process.returncode}: {errors}"
        return Result(json.loads(out), errors, set())

    def run(self, *command, network="allow=www.example.org", options=(), may=WEB, timeout=300, environment=None):
        self.net.sniffer.take()
        process = self.start(*self.options(network, options), "--", *command, environment=environment)
        result = self.finish(process, timeout)
        result.contacts = self.net.sniffer.take() - DNS
        if network != "host" and not result.contacts <= set(may):
            raise AssertionError(f"it reached {sorted(result.contacts - set(may))}; {describe(result)}")
        return result

    def python(self, code, *arguments, **options):
        return self.run(PYTHON, "-c", "from probe import *\n" + code, *arguments, **options)

    @contextlib.contextmanager
    def running(self, code, *arguments, network="allow=www.example.org", options=(), environment=None):
        """Code in a sandbox that waits for its standard input to end; yields (process, first line that it wrote)."""
        process = self.start(
            *[o for o in self.options(network, options) if o != "--json"],
            "--",
            PYTHON,
            "-c",
            "from probe import *\n" + code,
            *arguments,
            stdin=subprocess.PIPE,
            environment=environment,
        )
        try:
            yield process, process.stdout.readline().strip()
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()

    def left(self):
        """What still runs of this program, as «PID STATE NAME»."""
        return [f"{process.pid} {process.name}" for process in processes(self.nsbox)]


@dataclasses.dataclass
class Process:
    pid: int
    name: str
    parent: int
    status: dict

    def rss_kib(self):
        return int(self.status["RssAnon"].split()[0])

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def processes(nsbox):
    """Those of the program, the sandboxes' first ones too, by its file."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if not entry.isdigit() or os.readlink(f"/proc/{entry}/exe") != nsbox:
                continue
            lines = pathlib.Path(f"/proc/{entry}/status").read_text().splitlines()
        except OSError:
            continue
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if not status["State"].startswith(("Z", "X")):
            found.append(Process(int(entry), status["Name"].strip(), int(status["PPid"]), status))
    return found


def gates(nsbox):
    return [process for process in processes(nsbox) if "gate" in process.name]


def describe(result):
    said = {
        name: result.json.get(name)
        for name in (
            "ended_by",
            "exit_code",
            "message",
            "stdout",
            "stderr",
            "network_allowed",
            "network_blocked",
            "error",
            "warnings",
        )
    }
    return f"result {json.dumps(said)}, on standard error {result.stderr!r}, reached {sorted(result.contacts)}"


# --- tests ---

TESTS = []


class Skip(Exception):
    pass


def test(what, once=False):
    """`once`: as one user only, as it takes long and the user makes no difference."""

    def register(function):
        TESTS.append((what, once, function))
        return function

    return register


def equal(seen, expected, result=None):
    if seen != expected:
        raise AssertionError(f"{seen!r} is not {expected!r}" + (f"; {describe(result)}" if result else ""))


def check(condition, what, result=None):
    if not condition:
        raise AssertionError(what + (f"; {describe(result)}" if result else ""))


def matches(pattern, text, result=None):
    check(re.search(pattern, text), f"{text!r} does not match {pattern!r}", result)


def reap():
    """Orphans of the namespace come to us, who are its first process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def run_tests(box, pattern, share, seconds=400):
    """With `share`, 0 or 1, those of one user only are every second one. Returns how many failed."""
    number = failed = turn = 0

    def too_late(*_):
        raise AssertionError(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, too_late)
    for what, once, function in TESTS:
        turn += once
        if not re.search(pattern, what) or (once and share is not None and turn % 2 != share):
            continue
        number += 1
        box.net.zone()
        start, note = time.monotonic(), None
        signal.alarm(seconds)
        try:
            note = function(box)
            signal.alarm(0)
            check(wait_until(lambda: not box.left()), f"left: {box.left()}")
            print(f"ok {number} - {what}" + (f" ({note})" if note else ""), flush=True)
        except Skip as reason:
            print(f"ok {number} - {what} # SKIP {reason}", flush=True)
        except Exception as error:
            failed += 1
            print(f"not ok {number} - {what}", flush=True)
            said = str(error) if isinstance(error, AssertionError) else "".join(traceback.format_exception(error))
            print("\n".join(f"#   {line}" for line in said.splitlines()), flush=True)
        finally:
            signal.alarm(0)
            for process in processes(box.nsbox):
                with contextlib.suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)
            reap()
        if time.monotonic() - start > 5:
            print(f"# {time.monotonic() - start:.1f} s", flush=True)
    print(f"1..{number}", flush=True)
    return failed
