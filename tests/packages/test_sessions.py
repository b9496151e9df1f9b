# SPDX-License-Identifier: MIT
"""Packages of sessions: the first ones of a language are a copy of what the store has, and the session's own from then on."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time

from harness import IS_ROOT, Failure, Skip, check, equal, shared, test
from places import NPM, layers, need, nothing_left, own_pypi, prepare, with_packages

FINE = "import acme_fine; print(acme_fine.value)"
MORE = "import acme_more; print(acme_more.value)"
LARGE = "import acme_large; print(acme_large.value)"


def ready(place):
    need("python3")
    prepare(place)
    place.environment["XDG_RUNTIME_DIR"] = str(place.folder)
    return own_pypi(place)


def new(place, *packages, options=(), language="python", **more):
    words = [word for package in packages for word in ("--with", package)]
    return place.nsbox("session", "new", "--no-config", "--image", "none", "--lang", language, *words, *options, **more)


def prints(place, session, code, language="python"):
    return place.nsbox("session", "exec", "--timeout", "5m", "--lang", language, "-c", code, session).ok().output


def stop_all(place):
    place.nsbox("session", "stop", "--all")


def sessions_are_stopped(function):
    def run(place):
        try:
            function(place)
        finally:
            stop_all(place)

    return run


def place_of(place, session, *parts):
    return place.store.joinpath("sessions", f"{session}.packages", *parts)


def tree_of(folder, times=True):
    """What is below a folder, with all that can be said of it but its place."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else \
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        file_times = about.st_mtime_ns if times and not path.is_dir() else 0
        found[str(path.relative_to(folder))] = (stat.filemode(about.st_mode), about.st_uid, about.st_gid, file_times, content)
    return found


def layer_tree(place):
    (layer,) = layers(place)
    return place.store / "packages" / layer / "fs"


def until(what, happens, seconds=300):
    """Waits for it; what it returned."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = happens()
        if found:
            return found
        time.sleep(0.01)
    raise Failure(f"{what}: not within {seconds} s")


def draft(place):
    return [name for name in layers(place) if name.endswith(".new")]


@test("a second session with the same packages asks the registry nothing, and the files are its own")
@sessions_are_stopped
def _(place):
    registry = ready(place)
    first = new(place, "acme-fine", "acme-more").ok().output.strip()
    before, asked = layers(place), len(registry.requests)
    check(len(before) == 1 and asked > 0, f"{before}, {asked} requests")
    tree = layer_tree(place)
    for options in (), ("--storage", "memory"):
        done = new(place, "acme-more", "acme-fine", options=options).ok()
        check("installing" not in done.errors, done.describe())
        second = done.output.strip()
        equal((layers(place), len(registry.requests)), (before, asked), "layers and requests")
        for session in first, second:
            own = place_of(place, session, "space", "python")
            equal(tree_of(own), tree_of(tree), "the copy")
            equal(stat.filemode(own.stat().st_mode), "drwxr-xr-x", "its mode")
            check(own.joinpath("bin/acme-more").stat().st_ino != tree.joinpath("bin/acme-more").stat().st_ino, "one file for both")
            equal(sorted(os.listdir(place_of(place, session))), ["lock", "space"], "what is beside it")
            equal(prints(place, session, f"{FINE}; {MORE}"), "42\n43\n", "what is installed")
            equal(place.nsbox("session", "exec", session, "acme-more").ok().output, "43\n", "a program of a package")
            check(place.nsbox("session", "exec", session, "touch", "/opt/nsbox/packages/python/x").status != 0, "its code can write")
    # For a run and for a session they are the same.
    equal(with_packages(place, "python", ["acme-fine", "acme-more"], FINE).ok().output, "42\n", "a run")
    equal((layers(place), len(registry.requests)), (before, asked), "layers and requests")


@test("packages of a session that lives: the first are taken from the store, further ones are installed over them")
@sessions_are_stopped
def _(place):
    registry = ready(place)
    equal(with_packages(place, "python", ["acme-fine"], FINE).ok().output, "42\n", "a run")
    before, asked = layers(place), len(registry.requests)
    seen = tree_of(layer_tree(place))
    session, other = new(place).ok().output.strip(), new(place, "acme-fine").ok().output.strip()
    place.nsbox("session", "install", session, "acme-fine").ok()
    equal((layers(place), len(registry.requests)), (before, asked), "layers and requests")
    equal(prints(place, session, FINE), "42\n", "the first")
    place.nsbox("session", "install", session, "acme-more").ok()
    check(len(registry.requests) > asked, "acme-more came from nowhere")
    equal(prints(place, session, f"{FINE}; {MORE}"), "42\n43\n", "both")
    # Of others nothing has changed, and they can go.
    equal((layers(place), tree_of(layer_tree(place))), (before, seen), "the layer")
    check("No module" in place.nsbox("session", "exec", "--lang", "python", "-c", MORE, other).errors, "another session has it, too")
    place.nsbox("images", "prune").ok()
    equal(layers(place), [], "layers")
    equal(prints(place, session, f"{FINE}; {MORE}"), "42\n43\n", "after the layer is gone")
    equal(prints(place, other, FINE), "42\n", "after the layer is gone")


@test("a layer that a run and sessions have changes by none of them")
@sessions_are_stopped
def _(place):
    ready(place)
    hold = ["run", "--no-config", "--image", "none", "--timeout", "5m", "--lang", "python", "--with", "acme-fine", "-c",
            "import acme_fine, sys; print('has it', flush=True); sys.stdin.readline(); "
            "import importlib; print(importlib.reload(acme_fine).value)"]
    runs = place.start(*hold, stdin=subprocess.PIPE)
    equal(runs.stdout.readline(), b"has it\n", "the run")
    seen, before = tree_of(layer_tree(place)), layers(place)
    session = new(place, "acme-fine").ok().output.strip()
    place.nsbox("session", "install", session, "acme-more").ok()
    done = place.nsbox("session", "install", session, "acme-broken")
    check(done.status != 0, done.describe())
    # What is written to the session's own file is not in the layer.
    (module,) = place_of(place, session).rglob("acme_fine.py")
    module.write_text("value = 7\n")
    equal(prints(place, session, FINE), "7\n", "the session")
    place.nsbox("images", "prune").ok()
    equal((layers(place), tree_of(layer_tree(place))), (before, seen), "the layer")
    output, errors = runs.communicate(b"\n", timeout=300)
    equal((runs.returncode, output), (0, b"42\n"), errors)
    stop_all(place)
    equal((layers(place), tree_of(layer_tree(place))), (before, seen), "the layer after the session")


@test("a folder of packages that is shown elsewhere, too: what runs sees what is taken from the store")
@sessions_are_stopped
def _(place):
    need("node", "npm")
    prepare(place)
    place.environment["XDG_RUNTIME_DIR"] = str(place.folder)
    registry = shared(NPM)
    (place.home / ".npmrc").write_text(f"registry={registry.url}/\n")
    code = "console.log(require('acme-script').length > 0, require('fs').existsSync('/node_modules/acme-script/main.js'))"
    equal(with_packages(place, "javascript", ["acme-script"], code).ok().output, "true true\n", "a run")
    asked = len(registry.requests)
    session = new(place, language="javascript").ok().output.strip()
    waits = place.start("session", "exec", "--timeout", "5m", session, "sh", "-c",
                        "until [ -e /node_modules/acme-script/main.js ]; do sleep 0.1; done; echo seen")
    place.nsbox("session", "install", session, "acme-script").ok()
    output, errors = waits.communicate(timeout=300)
    equal((waits.returncode, output), (0, b"seen\n"), errors)
    equal(prints(place, session, code, "javascript"), "true true\n", "the session")
    equal(len(registry.requests), asked, "requests")
    equal(tree_of(place_of(place, session, "space", "javascript")), tree_of(layer_tree(place)), "the copy")


@test("many sessions at once install once, and each has it")
@sessions_are_stopped
def _(place):
    registry = ready(place)
    before = sum("acme_fine-1.0" in path for path in registry.requests)
    words = ["session", "new", "--no-config", "--image", "none", "--lang", "python", "--with", "acme-fine"]
    processes = [place.start(*words) for _ in range(4)]
    made = []
    for process in processes:
        output, errors = process.communicate(timeout=300)
        equal(process.returncode, 0, errors)
        made.append(output.decode().strip())
    for session in made:
        equal(prints(place, session, FINE), "42\n", "what is installed")
    equal(sum("acme_fine-1.0" in path for path in registry.requests) - before, 1, "downloads")
    equal(len(layers(place)), 1, "layers")


def killed_while_it_copies(place, session):
    """Returns whether it came to that: the copy was begun, and not yet in its place."""
    work = place_of(place, session, "work", "copy")
    process = place.start("session", "install", session, "acme-large")
    while process.poll() is None and not work.exists():
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    return work.exists()


@test("an install that is killed while it copies leaves nothing in the session, and the next one is whole")
@sessions_are_stopped
def _(place):
    ready(place)
    with_packages(place, "python", ["acme-large"], LARGE).ok()
    seen = tree_of(layer_tree(place))
    for _ in range(20):
        session = new(place).ok().output.strip()
        if killed_while_it_copies(place, session):
            break
        place.nsbox("session", "stop", session).ok()
    else:
        raise Failure("it was never killed in time")
    equal(os.listdir(place_of(place, session, "space", "python")), [], "what is in the session")
    check(not place_of(place, session, "space", ".python").exists(), "it is marked")
    check("No module" in place.nsbox("session", "exec", "--lang", "python", "-c", LARGE, session).errors, "the session has it")
    place.nsbox("session", "install", session, "acme-large").ok()
    equal(prints(place, session, LARGE), "44\n", "the next one")
    equal(tree_of(place_of(place, session, "space", "python")), seen, "the copy")
    equal(sorted(os.listdir(place_of(place, session))), ["lock", "space"], "what is beside it")
    # Where it was killed between its last two steps it is there, and no mark: it is taken anew, whatever is there.
    place_of(place, session, "space", ".python").unlink()
    place_of(place, session, "space", "python", "left").mkdir()
    place_of(place, session, "space", "python", "left", "file").write_text("of a killed one")
    place.nsbox("session", "install", session, "acme-large").ok()
    equal(tree_of(place_of(place, session, "space", "python")), seen, "the copy")
    equal(tree_of(layer_tree(place)), seen, "the layer")


@test("killed while it installs for a session: neither the store nor the session has anything")
@sessions_are_stopped
def _(place):
    ready(place)
    session = new(place).ok().output.strip()
    process = place.start("session", "install", session, "acme-slow")
    until("the install begins", lambda: draft(place))
    process.kill()
    process.communicate(timeout=300)
    # What it has left is swept once its sandbox has ended, too.
    until("nothing is left", lambda: place.nsbox("images", "prune").ok() and not layers(place))
    equal(os.listdir(place_of(place, session, "space", "python")), [], "what is in the session")
    place.nsbox("session", "install", session, "acme-fine").ok()
    equal(len(layers(place)), 1, "layers")
    equal(prints(place, session, FINE), "42\n", "the next one")


@test("an install ends with its session, also one that waits for another's, which goes on")
@sessions_are_stopped
def _(place):
    ready(place)
    first, second = new(place).ok().output.strip(), new(place).ok().output.strip()
    makes = place.start("session", "install", first, "acme-slow")
    until("the install begins", lambda: draft(place))
    waits = place.start("session", "install", second, "acme-slow")
    until("the second install begins", place_of(place, second, "work").exists)
    for process, session in (waits, second), (makes, first):
        check(process.poll() is None, "it has ended")
        place.nsbox("session", "stop", session).ok()
        _, errors = process.communicate(timeout=300)
        equal(process.returncode, 125, errors)
        check(b"the session has ended" in errors, errors)
    nothing_left(place)


@test("packages that take more than packages.disk are not taken from the store, and the line says what raises it")
@sessions_are_stopped
def _(place):
    ready(place)
    with_packages(place, "python", ["acme-large"], LARGE).ok()
    config = place.folder / "nsbox.conf"
    config.write_text(json.dumps({"packages": {"disk": "4m"}}))
    done = place.nsbox("session", "new", "--config", config, "--image", "none", "--lang", "python", "--with", "acme-large")
    done.refused("no room for acme-large: .*4 MiB.*packages.disk")
    place.environment["XDG_CONFIG_HOME"] = str(place.folder / "config")
    (place.folder / "config/nsbox").mkdir(parents=True)
    config.rename(place.folder / "config/nsbox/nsbox.conf")
    session = new(place).ok().output.strip()
    place.nsbox("session", "install", session, "acme-large").refused("packages.disk")
    equal(os.listdir(place_of(place, session, "space", "python")), [], "what is in the session")
    equal(sorted(os.listdir(place_of(place, session))), ["lock", "space"], "what is beside it")
    place.nsbox("session", "install", session, "acme-fine").ok()
    equal(prints(place, session, FINE), "42\n", "what is not too much")


@test("a disk that is too full for the copy is said to be, and the session has nothing of it", needs=["unshare", "mount"])
def _(place):
    if not IS_ROOT:
        raise Skip("only root can have such a disk")
    ready(place)
    small = place.folder / "small"
    small.mkdir()
    # The layer takes 12 MiB, and pip some for itself.
    script = """mount -t tmpfs -o size=24m none "$1" && NSBOX_STORE="$1/store" && export NSBOX_STORE || exit
        "$2" run --no-config --image none --timeout 5m --lang python --with acme-large -c 'import acme_large' || exit
        session=$("$2" session new --no-config --image none --lang python) || exit
        head -c 7m /dev/zero >"$1/filler"
        "$2" session install "$session" acme-large
        echo "status $?"
        (cd "$NSBOX_STORE/sessions/$session.packages" && find . -path './space/python*' -o -path './work*' -o -name .python)
        "$2" session stop "$session" """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", small, sys.argv[1]], env=place.environment,
                          capture_output=True, text=True, timeout=300, check=False)
    equal(done.stdout, "status 125\n./space/python\n", done.stderr)
    check("disk" in done.stderr or "space" in done.stderr, done.stderr)


@test("a layer with files that are closed to their owner: a session gets the same packages")
@sessions_are_stopped
def _(place):
    registry = ready(place)
    with_packages(place, "python", ["acme-more"], MORE).ok()
    (data,) = layer_tree(place).rglob("acme_more/data")
    data.chmod(0)
    asked = len(registry.requests)
    session = new(place, "acme-more").ok().output.strip()
    equal(prints(place, session, MORE), "43\n", "what is installed")
    # Root can read it all the same. An ordinary user gets them from the registry, and the layer stays as it is.
    equal(len(registry.requests) > asked, not IS_ROOT, "whether the registry was asked")
    equal(stat.filemode(data.stat().st_mode), "----------", "its mode in the layer")
    equal(sorted(os.listdir(place_of(place, session))), ["lock", "space"], "what is beside it")
