# SPDX-License-Identifier: MIT
"""What comes of installs that fail, are refused, meet a limit or come together."""

import json
import os
import re
import subprocess
import sys
import time

from harness import IS_ROOT, Skip, check, equal, shared, test
from places import NPM, PYPI, layers, need, not_installed, nothing_left, own_pypi, prepare, with_packages

FINE = "import acme_fine; print(acme_fine.value)"


def fine(place):
    """The next right call works, and only what it has made is left."""
    equal(with_packages(place, "python", ["acme-fine"], FINE).ok().output, "42\n", "the next right call")
    equal(len(layers(place)), 1, "layers")


def limited(place, packages, **limits):
    config = place.folder / "nsbox.conf"
    config.write_text(json.dumps({"packages": limits}))
    return place.nsbox("run", "--config", config, "--image", "none", "--lang", "python", "--with", packages, "-c", FINE, timeout=300)


@test("what is no package's name is refused in one line, before anything runs")
def _(place):
    need("python3")
    registry = own_pypi(prepare(place))
    asked = len(registry.requests)
    for language, name, why in (
            ("python", "", "empty"), ("python", "-rfile", "options"), ("python", "--index-url=x", "options"),
            ("python", "git+https://example.org/x", "URL"), ("python", "./x", "path"), ("python", "/etc", "path"),
            ("python", "~/x", "path"), ("python", "a b", "space"), ("python", "a\nb", "control"), ("python", "x" * 300, "long"),
            ("python", "a;b", "write it as"), ("python", "a @ b", "space"), ("python", "requests@2", "requests==2.32.3"),
            ("javascript", "lodash==4", "lodash@4"), ("javascript", "x@npm:y", "lodash@4"), ("javascript", "a/b", "lodash@4"),
            ("javascript", "x@file:y", "lodash@4"), ("go", "fmt", "github.com"), ("go", "github.com/x/../../y/@v1", "write it as"),
            ("rust", "serde=1", "serde@1"), ("java", "gson", "gson:gson"), ("java", "a:b:${c}", "write it as"),
            ("java", "a:b:1</version>", "write it as"), ("ruby", "a;b", "write it as"), ("php", "monolog", "monolog/monolog"),
            ("perl", "A-B", "write it as"), ("lua", "a'b", "write it as"), ("r", "a_b", "write it as"),
            ("bash", "curl", "apt:"), ("c", "zlib", "apt:")):
        done = with_packages(place, language, [name], "1")
        # A language that is not ready here says that instead.
        if not re.search("needs the program", done.errors):
            done.refused(f"(?s)--with.*{re.escape(why)}")
    nothing_left(place)
    equal(len(registry.requests), asked, "requests")


@test("a wrong name, a wrong version and a package that cannot be built: pip's words, and one line")
def _(place):
    need("python3")
    own_pypi(prepare(place))
    for package, says in (("acme-nowhere", "No matching distribution found for acme-nowhere"),
                          ("acme-fine==7", "No matching distribution found for acme-fine==7"),
                          ("acme-broken", "acme-broken needs a libacme that is nowhere")):
        not_installed(with_packages(place, "python", [package], FINE), says, f"could not install {package}: ")
        nothing_left(place)
    fine(place)


@test("a registry that does not answer, and one that is not there")
def _(place):
    need("python3")
    registry = own_pypi(prepare(place))
    registry.down = True
    try:
        not_installed(with_packages(place, "python", ["acme-fine"], FINE), "acme-fine", "could not install acme-fine")
    finally:
        registry.down = False
    nothing_left(place)
    place.environment["PIP_INDEX_URL"] = "http://127.0.0.1:1/simple"
    not_installed(with_packages(place, "python", ["acme-fine"], FINE), "acme-fine", "could not install acme-fine")
    nothing_left(place)
    own_pypi(place)
    fine(place)


@test("an install that takes too much disk, memory or time ends, and the line says what and what raises it")
def _(place):
    need("python3")
    own_pypi(prepare(place))
    for package, limits, words in (("acme-big", {"disk": "64m"}, "packages.disk"), ("acme-greedy", {"memory": "128m"}, "packages.memory"),
                                   ("acme-slow", {"timeout": "6s"}, "packages.timeout")):
        began = time.monotonic()
        done = limited(place, package, **limits)
        check(done.status == 125 and time.monotonic() - began < 120, done.describe())
        check(any(words in line for line in done.errors.splitlines()[-2:]), f"expected {words} at the end of {done.describe()}")
        nothing_left(place)
    fine(place)


@test("a disk that is full is said to be, and leaves nothing", needs=["unshare", "mount"])
def _(place):
    if not IS_ROOT:
        raise Skip("only root can have such a disk")
    need("python3")
    own_pypi(prepare(place))
    small = place.folder / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=6m none "$1" && NSBOX_STORE="$1/store" && export NSBOX_STORE && shift && "$@"; status=$?; ' \
             'ls "$NSBOX_STORE/packages" >&2; exit $status'
    words = ["run", "--no-config", "--image", "none", "--lang", "python", "--with", "acme-big", "-c", FINE]
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", small, sys.argv[1], *words], env=place.environment,
                          capture_output=True, text=True, timeout=300, check=False)
    check(done.returncode == 125 and re.search("disk|space", done.stderr), f"{done.returncode}\n{done.stderr}")
    check(not re.search("^[0-9a-f]{64}", done.stderr, re.M), f"a layer is left\n{done.stderr}")


@test("many at once install once, and each has it")
def _(place):
    need("python3")
    registry = own_pypi(prepare(place))
    before = sum("acme_fine-1.0" in path for path in registry.requests)
    words = ["run", "--no-config", "--image", "none", "--lang", "python", "--with", "acme-fine", "-c", FINE]
    processes = [place.start(*words) for _ in range(5)]
    for process in processes:
        output, errors = process.communicate(timeout=300)
        equal((process.returncode, output), (0, b"42\n"), errors)
    equal(sum("acme_fine-1.0" in path for path in registry.requests) - before, 1, "downloads")
    equal(len(layers(place)), 1, "layers")


@test("install scripts run, and see nothing of the code, its files and its environment")
def _(place):
    need("node", "npm")
    registry = shared(NPM)
    prepare(place)
    (place.home / ".npmrc").write_text(f"registry={registry.url}/\n")
    (place.folder / "mine").mkdir()
    (place.folder / "mine/secret.txt").write_text("secret")
    seen = place.nsbox("run", "--no-config", "--image", "none", "--workspace", place.folder / "mine", "-e", "TOKEN=secret", "--lang",
                       "javascript", "--with", "acme-script", "-c", "console.log(require('acme-script'))", timeout=120).ok().output
    equal(seen.splitlines()[0], "0", seen)
    check("secret" not in seen and "TOKEN" not in seen and "npm_lifecycle_event=install" in seen, seen)
    equal(sorted(os.listdir(place.folder / "mine")), ["secret.txt"], "the workspace")
    not_installed(with_packages(place, "javascript", ["acme-broken"], "1"), "acme-broken needs a libacme that is nowhere",
                  "could not install acme-broken: ")
    equal(len(layers(place)), 1, "layers")
