# SPDX-License-Identifier: MIT
"""Tests as functions of a Place: a folder with a store and a home of its own, and nsbox in them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

IS_ROOT = os.geteuid() == 0
tests = []
nsbox_path = None
started = []  # processes that end with the suite


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def test(description, needs=()):
    """Registers a test. `needs`: programs without which it is skipped."""

    def register(function):
        tests.append((description, function, needs))
        return function

    return register


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(seen, expected, what):
    check(seen == expected, f"{what}: {seen!r}, expected {expected!r}")


def run(*command, **options):
    """A program that has to succeed; its standard output."""
    options.setdefault("timeout", 300)
    done = subprocess.run([str(part) for part in command], capture_output=True, **options)
    if done.returncode != 0:
        words = (done.stdout + done.stderr).decode(errors="replace")
        raise Failure(f"{' '.join(map(str, command))}: status {done.returncode}\n{words[-2000:]}")
    return done.stdout.decode(errors="replace")


class Done:
    """What a run of nsbox came to."""

    def __init__(self, arguments, status, output, errors):
        self.arguments, self.status, self.output, self.errors = arguments, status, output, errors

    def describe(self):
        return f"nsbox {' '.join(self.arguments)}: status {self.status}\n{self.output[-1500:]}\n{self.errors[-1500:]}"

    def ok(self):
        check(self.status == 0, self.describe())
        return self

    def refused(self, pattern):
        """nsbox itself failed, in one line (and perhaps a hint) that matches."""
        check(self.status == 125, f"expected status 125 of {self.describe()}")
        check(re.search(pattern, self.errors), f"expected /{pattern}/ of {self.describe()}")
        final = [line for line in self.errors.splitlines() if "; trying again in " not in line]
        check(1 <= len(final) <= 2, f"expected one line and a hint of {self.describe()}")
        check(all(len(line) < 1000 and line.isprintable() for line in final), f"expected a clear line of {self.describe()}")
        return self


class Place:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.store = self.folder / "store"
        self.home = self.folder / "home"
        self.home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.home),
                            "NSBOX_STORE": str(self.store),
                            "NSBOX_LANGUAGES_DIR": str(Path(nsbox_path).parent / "languages")}

    def start(self, *arguments, env=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([nsbox_path, *map(str, arguments)], env=self.environment | (env or {}), **options)

    def nsbox(self, *arguments, input=None, env=None, timeout=300):
        process = self.start(*arguments, env=env, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failure(f"nsbox {' '.join(map(str, arguments))} did not end in {timeout} s") from None
        return Done([str(part) for part in arguments], process.returncode, output.decode(errors="replace"),
                    errors.decode(errors="replace"))

    def pull(self, name, *options, **more):
        return self.nsbox("pull", *options, name, **more)

    def inspect(self, name):
        return json.loads(self.nsbox("images", "inspect", name).ok().output)

    def listing(self, *parts):
        """Names in the store, as «layers/…», without what is not named by content."""
        names = set()
        for part in parts or ("blobs/sha256", "layers", "tmp"):
            if (self.store / part).is_dir():
                names |= {f"{part}/{name}" for name in os.listdir(self.store / part)}
        return names

    def record(self, name):
        for path in (self.store / "images").rglob("*"):
            if path.is_file() and str(path).endswith(name):
                return json.loads(path.read_text())
        raise Failure(f"no record of {name} in {self.listing('images')}")

    def differences(self, name, reference, unnamed=(), crossing=()):
        """
        Between the merged layers of an image and the tree in folder `reference`. `unnamed`: directories that no layer names,
        whose time is their own. `crossing`: names with hard links from layer to layer, which are links within each alone.
        """
        chain = [layer["chain_id"].split(":")[-1] for layer in reversed(self.record(name)["layers"])
                 if not layer.get("hidden")]
        command = ["unshare", "-m"] if IS_ROOT else ["unshare", "-Urm"]
        command += [sys.executable, Path(__file__).parent / "compare.py", self.store / "layers", ":".join(chain), reference,
                    json.dumps({"owners": IS_ROOT, "unnamed": list(unnamed), "crossing": list(crossing)})]
        return json.loads(run(*command))

    def same_tree(self, name, reference, unnamed=(), crossing=()):
        found = self.differences(name, reference, unnamed, crossing)
        check(found["entries"] > 5 and not found["differences"], "\n".join(found["differences"][:20]) or "no entries")


def start_server(command, port, **options):
    """A server that is stopped at the end; returns when it takes connections."""
    import socket

    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, **options)
    started.append(process)
    for _ in range(1200):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise Failure(f"{command[0]} does not listen on port {port}")


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


_shared = {}


def shared(make):
    """What several tests use: made once, in a folder that lives as long as the suite."""
    if make not in _shared:
        folder = Path("shared") / make.__module__ / make.__name__
        folder.mkdir(parents=True)
        _shared[make] = make(folder.resolve())
    return _shared[make]


def remove(folder):
    """Images can have directories that are closed to their owner."""
    subprocess.run(["chmod", "-R", "u+rwX", folder], stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


def run_one(number, description, function, needs):
    missing = [program for program in needs if not shutil.which(program)]
    if missing:
        print(f"ok {number} - {description} # skip {missing[0]} is not installed", flush=True)
        return True
    folder = tempfile.mkdtemp(prefix="place-", dir=".")
    began = time.monotonic()
    try:
        function(Place(Path(folder).resolve()))
    except Skip as skip:
        print(f"ok {number} - {description} # skip {skip}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        print(f"not ok {number} - {description}")
        words = str(error) if isinstance(error, Failure) else traceback.format_exc()
        print("".join(f"#   {line}\n" for line in words.splitlines()), end="", flush=True)
        return False
    else:
        print(f"ok {number} - {description}", flush=True)
    finally:
        if time.monotonic() - began > 5:
            print(f"# {time.monotonic() - began:.1f} s", flush=True)
        remove(folder)
    return True


def main(nsbox, pattern):
    global nsbox_path
    nsbox_path = nsbox
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    chosen = [each for each in tests if re.search(pattern, each[0])]
    print(f"1..{len(chosen)}")
    failed = 0
    try:
        for number, (description, function, needs) in enumerate(chosen, 1):
            failed += not run_one(number, description, function, needs)
    finally:
        for process in started:
            process.terminate()
            process.wait()
    return 1 if failed or not chosen else 0
