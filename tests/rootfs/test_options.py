# SPDX-License-Identifier: MIT
"""rootfs-scripts: help, and what they say when something is wrong."""

import json
import os
import re
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import IS_ROOT, check, equal, run, test
from scripts import FOLDER, LANGUAGES, NAMES, environment, refused, script

NOWHERE = ("--mirror", "http://127.0.0.1:9/debian", "--security-mirror", "none")


@test("--help of each script: its image, every option, lines that fit a terminal")
def _(place):
    text = (FOLDER / "lib.sh").read_text()
    options = set(re.findall(r"(?<![a-z])--[a-z-]+", text[text.index("parse_options()"):text.index("check_options()")]))
    options -= {"--help"}
    check(len(options) > 8, f"options of lib.sh: {options}")
    for name in NAMES:
        for option in ("--help", "-h"):
            done = script(name, option, env=environment(place)).ok()
            check(done.output.startswith(f"Usage: {name} [OPTION]") and not done.errors, done.describe())
            check(f"localhost/nsbox/{name}" in done.output, done.describe())
        missing = {each for each in options if each not in done.output}
        check(not missing, f"{name} --help does not have {missing}")
        check(max(map(len, done.output.splitlines())) <= 120, f"{name} --help has long lines")
    done = script("all", "--help", env=environment(place)).ok()
    check(all(f" {name}" in done.output for name in NAMES), done.describe())
    done = script("all", "--help", env={"PATH": os.environ["PATH"]}).ok()  # without a home
    equal(sorted(path.name for path in FOLDER.iterdir()), sorted([*NAMES, "all", "lib.sh", "inside.sh", "README.md"]), "files")


@test("each language's image has the packages that languages/*.json name for Debian")
def _(place):
    for path in LANGUAGES.glob("*.json"):
        language = json.loads(path.read_text())
        needs = language.get("needs") or language["toolchains"][0]["needs"]
        wanted = {package for need in needs for package in need["packages"]["debian"].split()}
        has = set(re.search(r'packages="([^"]*)"', (FOLDER / path.stem).read_text()).group(1).split())
        check(wanted <= has, f"{path.stem}: {has}, and languages/{path.name} says {wanted}")


@test("shellcheck has nothing to say", ("shellcheck",))
def _(place):
    run("shellcheck", "-x", "-P", FOLDER, *[FOLDER / name for name in (*NAMES, "all", "lib.sh", "inside.sh")])


@test("wrong options: one line, nothing made")
def _(place):
    for words, pattern in (
            (["--nothing"], "no option --nothing"), (["--suite"], "--suite needs an argument"), (["word"], '"word" is more'),
            (["--nothing=5"], "no option --nothing"), (["--suite", "a b"], "not the name of a suite"), (["--suite="], "not the name"),
            (["--suite", "../x"], "not the name"), (["--mirror", "ftp://x/"], "http:// or https://"),
            (["--mirror", "none"], "only --security-mirror"), (["--mirror", 'http://x/"; Dir "/'], "not a plain address"),
            (["--mirror", "http://x/\nTypes: deb"], "not a plain address"), (["--include", "a b"], "not names of packages"),
            (["--include", "python3,-oDir=/x"], "not names of packages"), (["--keyring", "/nothing"], "/nothing is not there"),
            (["--nsbox", "/nothing"], "/nothing is not a program")):
        for name in ("debian", "python"):
            done = refused(script(name, *words, env=environment(place)), pattern)
            equal(len(done.errors.splitlines()), 1, f"lines of {done.describe()}")
    for words, pattern in ((["--nothing"], "no option --nothing"), (["cobol"], 'no image "cobol"'), (["--suite"], "needs an argument"),
                           (["--output", "x"], "no option --output here"), (["--suite", "a b"], "space")):
        refused(script("all", *words, env=environment(place)), pattern)
    equal(os.listdir(place.home), [], "files in the home")
    check(not place.store.exists(), "a store was made")


@test("programs that are missing are named")
def _(place):
    folder = place.folder / "bin"
    folder.mkdir()
    programs = ("sh", "dirname", "apt-get", "apt-config", "dpkg", "dpkg-deb", "flock", "gzip", "sha256sum", "tar", "sed", "head", "cat", "tr")
    for program in programs:
        (folder / program).symlink_to(shutil.which(program))
    for program in programs[2:8]:
        (folder / program).rename(folder / "away")
        done = script("lua", env=environment(place, PATH=str(folder)))
        refused(done, f"^lua: {program} is not installed")
        (folder / "away").rename(folder / program)
    refused(script("lua", env={"PATH": str(folder), "HOME": str(place.home)}), "nsbox is not found")


class Mirror(BaseHTTPRequestHandler):
    """Has a suite, which nobody has signed."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = b"Origin: Debian\nLabel: Debian\nSuite: bookworm\nCodename: bookworm\nDate: Sat, 01 Nov 2025 10:00:00 UTC\n" \
               b"Architectures: amd64\nComponents: main\n"
        known = self.path.endswith("/Release")
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body) if known else 0))
        self.end_headers()
        if known:
            self.wfile.write(body)


@test("a mirror that cannot be reached, has no such suite, or is not Debian's: refused, nothing left")
def _(place):
    refused(script("debian", *NOWHERE, env=environment(place)), "lists of packages could not be fetched")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    mirror = f"http://127.0.0.1:{server.server_address[1]}/debian"
    done = refused(script("debian", "--mirror", mirror, "--security-mirror", "none", env=environment(place)), "could not be fetched")
    check("is not signed" in done.errors, done.describe())
    server.shutdown()
    server.server_close()
    done = refused(script("debian", "--suite", "nothing", env=environment(place)), 'is there a suite "nothing" at http.*signed by')
    check("does not have a Release file" in done.errors, done.describe())
    check(not place.store.exists(), "a store was made")
    equal(os.listdir(place.home / ".cache/nsbox/rootfs/tmp"), [], "what is left in the cache")


@test("packages that the suite does not have: named, nothing left")
def _(place):
    done = refused(script("debian", "--include", "no-such-package", env=environment(place)), "packages are missing.*no-such-package")
    check("Unable to locate package no-such-package" in done.errors, done.describe())
    equal(os.listdir(place.home / ".cache/nsbox/rootfs/tmp"), [], "what is left in the cache")
    check(not place.store.exists(), "a store was made")


@test("a home that is somebody else's: nothing is removed or written through their links")
def _(place):
    if os.geteuid() != 0:
        return
    others, kept = place.folder / "others", place.folder / "kept"
    kept.mkdir()
    (kept / "file").touch()
    for path in (others, others / ".cache", others / ".cache/nsbox", others / ".cache/nsbox/rootfs"):
        path.mkdir()
        os.chown(path, 12345, 12345)
    (others / ".cache/nsbox/rootfs/tmp").symlink_to(kept)
    (place.folder / "link").symlink_to(others / ".cache")
    for more in ({"HOME": str(others)}, {"XDG_CACHE_HOME": str(place.folder / "link")}, {"XDG_CACHE_HOME": str(others / "new")}):
        refused(script("lua", "--mirror", "http://127.0.0.1:1", env=environment(place, **more)), "is somebody else's")
        equal(os.listdir(kept), ["file"], "what is left")
    check(not (others / "new").exists(), "a folder was made")


@test("a cache that cannot be written to, a full disk: said, nothing left")
def _(place):
    (place.folder / "file").write_text("")
    refused(script("debian", "--cache", place.folder / "file/cache", env=environment(place)), "cannot be made")
    small = place.folder / "small"
    small.mkdir()
    for size in ("30m", "160m"):  # lists, the root of the packages
        words = f"""mount -t tmpfs -o size={size} none {small} && {FOLDER}/debian --cache {small}/cache --quiet
            echo status $?; ls -A {small}/cache/tmp; ! ls -A {small}/cache/built 2>/dev/null"""
        seen = run("unshare", "-m" if IS_ROOT else "-Urm", "sh", "-c", f"exec 2>&1; {words}", env=environment(place), timeout=300)
        check(re.search("No space left on device|is its disk full", seen) and re.search(r"\ndebian: [^\n]*\nstatus 1\n$", seen), f"a disk of {size}: {seen}")
    check(not place.store.exists(), "a store was made")
