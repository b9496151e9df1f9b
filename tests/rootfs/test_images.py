# SPDX-License-Identifier: MIT
"""rootfs-scripts: the images themselves, who builds them and how, and what runs in them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import harness
from harness import IS_ROOT, check, equal, run, shared, test
from scripts import LANGUAGES, NAMES, built, environment, refused, script, start

LAYERS_MAX_MIB = {"debian": 32, "bash": 32, "python": 50, "javascript": 70, "typescript": 80, "lua": 44, "perl": 49, "ruby": 45,
                  "php": 55, "r": 100, "c": 105, "cpp": 125, "go": 165, "java": 205, "rust": 270}


def take(place):
    """The place with all images in its store."""
    place.environment["NSBOX_STORE"] = str(shared(built).store)
    return place


def inside(place, name, *words, options=(), **more):
    return take(place).nsbox("run", "--image", f"localhost/nsbox/{name}", "--pull", "never", *options, "--", *words, **more)


def blobs_of(name):
    return [path for path in (shared(built).layout(name) / "blobs/sha256").iterdir() if path.stat().st_size > 100_000]


@test("all images are built, debian and one a language")
def _(place):
    digests = shared(built).digests
    equal(sorted(digests), sorted(NAMES), "images")
    listed = json.loads(take(place).nsbox("images", "ls", "--json").ok().output)
    equal({each["image"]: each["digest"] for each in listed},
          {f"localhost/nsbox/{name}:latest": digest for name, digest in digests.items()}, "images in the store")
    for name in NAMES:
        size = sum(path.stat().st_size for path in blobs_of(name)) >> 20
        check(size <= LAYERS_MAX_MIB[name], f"{name} takes {size} MiB, more than {LAYERS_MAX_MIB[name]}")


@test("a second time nothing is done, and the result is the same")
def _(place):
    if os.environ["ROOTFS_BEFORE"]:
        return
    images = shared(built)
    done = script("python", "--cache", images.cache, env=images.env | {"NSBOX_STORE": str(place.store)}).ok()
    check("installing" not in done.errors and "fetching" not in done.errors, done.describe())
    equal(done.output.split(), ["localhost/nsbox/python:latest", images.digests["python"]], "output")
    equal(os.listdir(images.cache / "tmp"), [], "what is left in the cache")


@test("another cache, another user, place, time zone, language and umask: the same images")
def _(place):
    images = shared(built)
    env = environment(place, TZ="Asia/Kolkata", LANG="de_DE.UTF-8", LC_ALL="de_DE.UTF-8", LANGUAGE="de", EXTRA="x")
    os.umask(0o077)
    try:
        done = script("all", "--quiet", *(["lua", "javascript"] if IS_ROOT else ["lua"]), env=env, cwd="/").ok()
    finally:
        os.umask(0o022)
    lines = done.output.split()
    equal(lines[:2], ["localhost/nsbox/lua:latest", images.digests["lua"]], "lua")
    if IS_ROOT:
        equal(lines[2:], ["localhost/nsbox/javascript:latest", images.digests["javascript"]], "javascript")
    # With a date of one's own, and more packages; into an archive, which is the same again.
    archives = []
    for file in ("a.tar", "b.tar"):
        target = place.folder / file
        done = script("lua", "--include=lua-lpeg", "-o", target, env=env | {"SOURCE_DATE_EPOCH": "1700000000"}).ok()
        equal(done.output.split()[0], str(target), "output")
        check(done.output.split()[1] != images.digests["lua"], "more packages made no other image")
        archives.append(target.read_bytes())
    check(archives[0] == archives[1], "the two archives differ")
    name = place.nsbox("images", "import", place.folder / "a.tar", "localhost/mine/lua", "--quiet").ok().output
    equal(name, "localhost/mine/lua:latest\n", "import")
    done = place.nsbox("run", "--image", "localhost/mine/lua", "lua5.4", "-e", "require 'lpeg'; print(_VERSION)").ok()
    equal(done.output, "Lua 5.4\n", "output")
    with tarfile.open(place.folder / "a.tar") as archive:
        names = [member.name for member in archive if member.isfile()]
        configuration = next(content for content in (json.load(archive.extractfile(each)) for each in names
                                                     if archive.getmember(each).size < 100_000) if "rootfs" in content)
        equal({member.mtime for member in archive}, {1700000000}, "times in the archive")
    equal(configuration["created"], "2023-11-14T22:13:20Z", "date")
    if shutil.which("skopeo"):
        seen = json.loads(run("skopeo", "inspect", f"oci-archive:{place.folder}/a.tar"))
        equal(seen["Created"][:19], "2023-11-14T22:13:20", "date that skopeo sees")


@test("no logs, caches, lists, manuals, translations or names of machines; licences; one date")
def _(place):
    for name in NAMES:
        newest = 0
        created = json.loads(take(place).nsbox("images", "inspect", f"localhost/nsbox/{name}").ok().output)
        for path in blobs_of(name):
            with tarfile.open(path) as archive:
                names, files = [], set()
                for member in archive:
                    names.append(member.name.removeprefix("./"))
                    if member.isfile():
                        files.add(names[-1])
                    newest = max(newest, member.mtime)
                    if member.isfile() and (member.mode & 0o6000):
                        check(member.uid == 0, f"{name}: {member.name} of user {member.uid}")
            equal(len(names), len(set(names)), f"{name}: names in a layer that are there once")
            bad = [each for each in names
                   if each.startswith(("var/log/apt/", "var/lib/apt/lists/deb", "usr/share/info/", "run/nsbox", "tmp/", "workspace",
                                       ".build", ".work", "proc/", "dev/")) or
                   each in ("etc/hostname", "etc/hosts", "etc/resolv.conf", "var/log/dpkg.log", "var/cache/ldconfig/aux-cache",
                            "etc/passwd-", "var/cache/apt/pkgcache.bin", "etc/apt/apt.conf.d/99nsbox-root-emulation") or
                   (each.startswith("usr/share/man/") and each.count("/") > 3) or
                   (each.startswith("usr/share/locale/") and each != "usr/share/locale/locale.alias") or
                   (each.startswith("usr/share/doc/") and each.count("/") > 3 and not each.endswith("/copyright"))]
            # Directories and links, which the filter of dpkg leaves where something below them may be wanted, are no harm.
            bad = [each for each in bad if not each.startswith(("usr/share/doc/", "usr/share/locale/", "usr/share/man/"))
                   or each in files and each.endswith((".gz", ".mo"))]
            bad = [each for each in bad if each != "usr/share/info/dir"]  # of base-files
            check(not bad, f"{name}: {bad[:10]}")
        epoch = int((shared(built).layout(name).parent / "epoch").read_text())
        check(newest <= epoch, f"{name}: a file of {newest}, the image of {epoch}")
        check(created["layers"], name)
    done = inside(place, "debian", "sh", "-c", "ls /usr/share/doc/bash; stat -c %u:%g:%a /usr/sbin/unix_chkpwd /var/mail /tmp").ok()
    owners = ["0:42:2755", "0:8:2775", "0:0:1777"] if IS_ROOT else ["0:0:2755", "0:0:2775", "0:0:1777"]
    equal(done.output.split(), ["copyright", *owners], "licence, owners")


def in_tree(path):
    """Entries of a root as {name: (type, mode, owner)}."""
    with tarfile.open(path) as archive:
        return {member.name.removeprefix("./").rstrip("/"): (member.type, oct(member.mode), member.uid, member.gid)
                for member in archive if member.type not in (tarfile.CHRTYPE, tarfile.BLKTYPE)}


@test("the minimal system is what mmdebstrap makes of the same packages", ("mmdebstrap",))
def _(place):
    if not IS_ROOT and not shutil.which("newuidmap"):
        raise harness.Skip("mmdebstrap needs newuidmap for an ordinary user")
    uris = {label: run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian",
                       f"Label: {label}").split() for label in ("Debian", "Debian-Security")}
    sources = place.folder / "sources.list"
    sources.write_text("".join(f"deb {uris[label][0]} {suite} main\n" for label, suite in
                               (("Debian", "trixie"), ("Debian", "trixie-updates"), ("Debian-Security", "trixie-security"))
                               if uris[label]))
    filters = [line for line in inside(place, "debian", "cat", "/etc/dpkg/dpkg.cfg.d/nsbox").ok().output.splitlines()
               if line.startswith("path-")]
    done = subprocess.run(["mmdebstrap", "--quiet", f"--mode={'root' if IS_ROOT else 'unshare'}", "--variant=apt",
                           "--include=tzdata,usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr",
                           *[f"--dpkgopt={line}" for line in filters], "trixie", place.folder / "tree.tar", sources],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    if done.returncode != 0 and b"newuidmap" in done.stderr + done.stdout or b"subuid" in done.stderr:
        raise harness.Skip("this user has no ids of its own in /etc/subuid")
    check(done.returncode == 0, done.stderr.decode()[-1000:])
    theirs, ours = in_tree(place.folder / "tree.tar"), in_tree(max(blobs_of("debian"), key=lambda path: path.stat().st_size))
    own = ("etc/apt/", "etc/dpkg/dpkg.cfg.d/", "var/cache/apt", "var/lib/apt", "usr/share/man", "etc/fstab", "etc/hostname",
           "etc/resolv.conf", "usr/sbin/policy-rc.d", "dev", "proc", "sys", "run", "tmp", "var/lib/dpkg/", "var/cache/debconf/",
           "etc/.pwd.lock", "etc/group-", "etc/passwd-", "etc/gshadow-", "etc/shadow-", "usr/share/locale", "/",
           "lib32", "libx32", "usr/lib32", "usr/libx32")  # the hook makes these
    found = [f"{name}: {ours.get(name)} and not {theirs.get(name)}" for name in sorted(set(ours) | set(theirs))
             if name not in ("", ".") and ours.get(name) != theirs.get(name) and not name.startswith(own)]
    check(len(ours) > 3000 and not found, f"{len(ours)} entries\n" + "\n".join(found[:20]))


@test("apt-get update and install, in the image of Debian, with root emulation and the host's network")
def _(place):
    # Nothing is said of apt's own users: see nsbox-run(1), --root-emulation.
    words = "apt-get -q update && apt-get -q install -y file && file -b /bin/true && id -un && dpkg --audit"
    done = inside(place, "debian", "sh", "-ec", words, timeout=300,
                  options=("--root-emulation", "--network", "host", "--timeout", "280s", "-m", "1g", "--disk", "600m")).ok()
    check(" executable" in done.output.splitlines()[-2] and done.output.endswith("\nroot\n"), done.describe())
    check("W: " not in done.output + done.errors and "E: " not in done.output + done.errors, done.describe())
    done = inside(place, "debian", "sh", "-c", "dpkg -s file")  # what was installed was the sandbox's alone
    equal(done.status, 1, done.describe())


@test("packages with users, groups and set-group-id programs of their own")
def _(place):
    words = ("apt-get -q update && apt-get -q install -y openssh-client postgresql-common man-db cron && dpkg --audit"
             " && getent passwd postgres && ls -l /usr/bin/crontab /usr/bin/ssh-agent")
    done = inside(place, "debian", "sh", "-ec", words, timeout=400,
                  options=("--root-emulation", "--network", "host", "--timeout", "380s", "-m", "2g", "--disk", "1g")).ok()
    check("\npostgres:x:" in done.output, done.describe())


def processes_of(folder):
    seen = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                seen.append(entry.name)
        except OSError:
            pass
    return seen


@test("a build that is ended, or killed: no process is left, and the next one goes on")
def _(place):
    images = shared(built)
    env = environment(place)
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = start("debian", env=env)
        for line in process.stderr:
            if b"installing" in line:
                break
        time.sleep(1.5)
        check(process.poll() is None, "it has ended already")
        os.killpg(process.pid, number)
        process.communicate()
        check(process.returncode != 0, f"status {process.returncode}")
        for _ in range(300):
            left = processes_of(place.home)
            if not left:
                break
            time.sleep(0.1)
        check(not left, f"processes {left} are left after {number}")
        if number == signal.SIGTERM:
            equal(os.listdir(place.home / ".cache/nsbox/rootfs/tmp"), [], "what is left in the cache")
    # Two at once with one cache: one after the other.
    both = [start("debian", env=env), start("debian", env=env)]
    outputs = [process.communicate(timeout=600) for process in both]
    check(all(process.returncode == 0 for process in both), f"{outputs}")
    equal({output.decode().split()[-1] for output, _ in outputs}, {images.digests["debian"]}, "digests")
    check(sum(b"waiting for another build" in errors for _, errors in outputs) == 1, f"{outputs}")
    check(sum(b"installing" in errors for _, errors in outputs) == 1, f"{outputs}")
    equal(os.listdir(place.home / ".cache/nsbox/rootfs/tmp"), [], "what is left in the cache")


@test("errors while packages are installed are shown")
def _(place):
    wrapper = place.folder / "nsbox"
    wrapper.write_text(f"""#!/bin/sh
for word; do [ "$word" != bootstrap ] || {{ echo 'dpkg: error: it broke' >&2; exit 1; }}; done
exec {harness.nsbox_path} "$@"
""")
    wrapper.chmod(0o755)
    done = refused(script("debian", "--nsbox", wrapper, env=environment(place)), "installing failed")
    check("dpkg: error: it broke" in done.errors, done.describe())
    # A layer of which the end is missing, though all programs were content.
    wrapper.write_text(f"""#!/bin/sh
case " $* " in *inside.sh*) {harness.nsbox_path} "$@" | head -c 5000000 ;; *) exec {harness.nsbox_path} "$@" ;; esac
""")
    refused(script("debian", "--nsbox", wrapper, env=environment(place)), "the layer is not whole")
    cache = place.home / ".cache/nsbox/rootfs"
    check(not (cache / "built").exists() and not os.listdir(cache / "tmp"), "something is left in the cache")
    check(not place.store.exists(), "a store was made")


CORPUS = Path(harness.__file__).parent / "languages"


def chosen(language):
    """All programs; for root, after the ordinary user, those that have input and those that fail."""
    if not IS_ROOT or not os.environ["ROOTFS_BEFORE"]:
        return [language]
    names = {path.stem for path in (CORPUS / language).iterdir()
             if path.suffix in (".args", ".stdin", ".stderr-match") or path.stem == "algorithms"}
    return [f"{language}/{name}" for name in sorted(names)]


def programs(language):
    """Runs those of tests/languages in the language's image; how many there were."""
    env = shared(built).env | {"NSBOX_LANGUAGES_DIR": str(LANGUAGES)}
    if language == "go":  # else each program compiles the standard library
        run(harness.nsbox_path, "languages", "--warm", "go", env=env, timeout=900)
    if "SDK" in os.environ:
        env |= {"SDK": os.environ["SDK"]}
    done = subprocess.run([sys.executable, CORPUS / "run", "--image", "--all", *(["--client"] if "SDK" in env else []),
                           *chosen(language)], capture_output=True, timeout=1100, env=env)
    text = done.stdout.decode()
    check(done.returncode == 0 and "0 failed, 0 skipped" in text, "\n".join(
        line for line in text.splitlines() if not line.startswith("ok ")) + done.stderr.decode()[-500:])
    return len(re.findall("^ok ", text, re.MULTILINE))


def test_language(language):
    how = "nsbox run and execute_code" if "SDK" in os.environ else "nsbox run"

    @test(f"programs in {language}, in its image: {how}")
    def _(place):
        count = programs(language)
        check(count >= (3 if IS_ROOT else 8), f"{count} programs")


for each in NAMES[1:]:
    test_language(each)


@test("nsbox run --lang takes the image where it is in the store, and says so")
def _(place):
    done = take(place).nsbox("run", "--json", "--lang", "lua", "-c", "print(_VERSION)", env={"NSBOX_LANGUAGES_DIR": str(LANGUAGES)})
    result = json.loads(done.ok().output)
    equal(result["stdout"], "Lua 5.4\n", "output")
    check("localhost/nsbox/lua" in result["sandbox"]["root"], done.output)
