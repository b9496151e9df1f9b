# SPDX-License-Identifier: MIT
"""The scripts under test, and what they have built."""

import json
import os
import re
import subprocess
from pathlib import Path

import harness
from harness import Done, Failure, check

FOLDER = Path(os.environ["ROOTFS_SCRIPTS"])
LANGUAGES = Path(harness.__file__).parent.parent / "bin/languages"
NAMES = ["debian", *sorted(path.stem for path in LANGUAGES.glob("*.json"))]


def environment(place_or_none=None, **more):
    basic = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": os.environ["HOME"], "NSBOX": harness.nsbox_path}
    if place_or_none:
        basic |= {"NSBOX_STORE": str(place_or_none.store), "HOME": str(place_or_none.home)}
    return basic | more


def start(script, *words, env, **options):
    return subprocess.Popen([FOLDER / script, *map(str, words)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True, **options)


def script(name, *words, env, timeout=900, **options):
    process = start(name, *words, env=env, **options)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise Failure(f"rootfs-scripts/{name} {words} did not end in {timeout} s") from None
    return Done([f"(rootfs-scripts/{name})", *map(str, words)], process.returncode, output.decode(errors="replace"),
                errors.decode(errors="replace"))


def refused(done, pattern):
    """The script failed; its last line says why and is of its own."""
    check(done.status == 1, f"expected status 1 of {done.describe()}")
    lines = done.errors.splitlines()
    check(lines and re.search(pattern, lines[-1]), f"expected /{pattern}/ at the end of {done.describe()}")
    check(re.match(r"[a-z]+: ", lines[-1]), f"expected a line of the script's own: {done.describe()}")
    return done


class Built:
    """All images, in a store and a cache."""

    def __init__(self, folder):
        self.folder = Path(os.environ["ROOTFS_KEPT"] or "kept").absolute() if not os.environ["ROOTFS_BEFORE"] else folder
        self.folder.mkdir(exist_ok=True)
        self.store, self.cache, self.digests = self.folder / "store", self.folder / "cache", {}
        self.env = environment() | {"NSBOX_STORE": str(self.store)}
        before = os.environ["ROOTFS_BEFORE"]
        self.log = ""
        if before:
            self.digests = json.loads((Path(before) / "digests.json").read_text())
            for layout in sorted(Path(before).glob("cache/built/*/layout")):
                harness.run(harness.nsbox_path, "images", "import", "--quiet", layout,
                            "localhost/nsbox/" + layout.parent.name.split("-")[0], env=self.env, timeout=300)
        else:
            done = script("all", "--cache", self.cache, env=self.env, timeout=1100)
            self.log = done.errors
            done.ok()
            lines = done.output.splitlines()
            for name, digest in zip(lines[-2::-1], lines[::-1]):
                if name.startswith("localhost/"):
                    self.digests[name.split("/")[2].split(":")[0]] = digest
            (self.folder / "digests.new").write_text(json.dumps(self.digests))
            (self.folder / "digests.new").rename(self.folder / "digests.json")  # root's tests wait for it

    def layout(self, name):
        found = list((Path(os.environ["ROOTFS_BEFORE"] or self.folder) / "cache/built").glob(f"{name}-*/layout"))
        check(len(found) == 1, f"layouts of {name} in the cache: {found}")
        return found[0]


def built(folder):
    return Built(folder)
