# SPDX-License-Identifier: MIT
"""nsbox run --with apt:NAME: packages of Debian, from its registry and from a repository of the tests' own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import IS_ROOT, Place, Skip, check, equal, free_port, remove, run, shared, start_server, test
from places import no_slower

ARCHIVE = os.environ.get("DEBIAN_ARCHIVE", "")  # of localhost/nsbox/debian, as rootfs-scripts/debian --output writes it
IMAGE = "localhost/nsbox/debian"
HERE = Path(__file__).parent


def with_image(folder):
    """A place with the image in its store."""
    archive = Path(ARCHIVE)
    while ARCHIVE and not archive.exists() and not (archive.parent / "failed").exists():
        time.sleep(0.2)  # it is being made beside us
    if not ARCHIVE or not archive.exists():
        raise Skip("no image of Debian could be built")
    place = Place(folder)
    place.nsbox("images", "import", "-q", ARCHIVE, IMAGE).ok()
    return place


def with_root(folder):
    """A place whose folder `root` has the image's files, and a repository that apt there knows alone."""
    place = shared(with_image)
    root = folder / "root"
    root.mkdir()
    pack = place.start("run", "--timeout", "10m", "--image", IMAGE, "--", "tar", "-c", "-C", "/", "--exclude=./dev/*", "--exclude=./proc/*", ".")
    run("tar", "-x", "-C", root, stdin=pack.stdout, timeout=600)
    equal(pack.wait(), 0, "tar's status")
    for name in (root / "etc/apt/sources.list.d").iterdir():
        name.unlink()
    (root / "etc/apt/sources.list.d/tests.sources").write_text(run(HERE / "repository", root / "repository"))
    original = root / "usr/share/root"
    (original / "directory").mkdir(parents=True)
    for name in ("gone", "replaced", "diverted", "directory/old"):
        (original / name).write_text("original")
    return root


def box(place, *arguments, **options):
    """In the directory with the repository."""
    return place.nsbox("run", "--rootfs", shared(with_root), *arguments, **options)


def layers(place):
    """What there is of installed packages: names, those that are being made among them."""
    folder = place.store / "packages"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def nothing_is_left(place, kept=0):
    names = layers(place)
    check(len(names) == kept and all(re.fullmatch("[0-9a-f]{64}", name) for name in names), f"there is {names}")


def eventually(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"in vain: {what}")
        time.sleep(0.05)


def configure(place, text):
    file = place.home / ".config/nsbox/nsbox.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# --- from Debian ---


@test("three packages of Debian are installed once, and used by code that has no network")
def _(place):
    place = shared(with_image)
    command = ("sh", "-c", "figlet -w 200 ok && echo '{\"a\": 42}' | jq .a && sqlite3 :memory: 'select 6*7'")
    three = ("--with", "apt:jq,apt:figlet", "--with", "apt:sqlite3")
    done = place.nsbox("run", "--image", IMAGE, *three, "--", *command).ok()
    equal(done.output.split()[-2:], ["42", "42"], "output")
    nothing_is_left(place, 1)
    # In another order it is the same set; with the network gone nobody could install it again.
    done = place.nsbox("run", "--image", IMAGE, "--with", "apt:sqlite3,apt:figlet,apt:jq,apt:jq", "--", *command).ok()
    equal(done.errors.replace("\n", ""), re.sub(r"(?s)^(nsbox: warning: limits[^\n]*)?.*", r"\1", done.errors), "errors")
    nothing_is_left(place, 1)
    done = place.nsbox("run", "--image", IMAGE, "--", "sh", "-c", "command -v jq; ls /var/lib/apt/lists | grep -c Packages")
    equal(done.output.split(), ["0"], "the image has of it")


@test("with packages that are installed a run starts as fast as without")
def _(place):
    place = shared(with_image)
    with_jq = ("run", "--image", IMAGE, "--with", "apt:jq", "--", "true")
    place.nsbox(*with_jq).ok()
    no_slower(lambda: place.nsbox("run", "--image", IMAGE, "--", "true"), lambda: place.nsbox(*with_jq))


@test("a name and a version that Debian does not have: apt's own words, and one line")
def _(place):
    place = shared(with_image)
    before = layers(place)
    for name, words in (("nosuchpackage", "E: Unable to locate package nosuchpackage"), ("jq=0.1", "E: Version '0.1' for 'jq' was not found")):
        done = place.nsbox("run", "--image", IMAGE, "--with", f"apt:{name}", "--", "true")
        equal(done.status, 125, "status")
        check(words in done.errors, done.describe())
        ours = [line for line in done.errors.splitlines() if line.startswith("nsbox: ") and "warning" not in line]
        equal(ours[-1], f"nsbox: apt could not install {name}: exit status 100", "our line")
        equal(layers(place), before, "layers")


@test("a language whose toolchain apt has installed, and in one of the two suites its package manager")
def _(place):
    place = shared(with_image)
    before = len(layers(place))
    system, packages = ("apt:python3", ()) if IS_ROOT else ("apt:python3-pip", ("six",))
    code = ("-c", f"import {','.join(('sys', *packages))}; print(sys.version_info.major, 6 * 7)")
    python = ("--image", IMAGE, "--lang", "python")
    done = place.nsbox("run", *python, "--with", ",".join((system, *packages)), *code, timeout=300).ok()
    equal(done.output, "3 42\n", "output")
    nothing_is_left(place, before + 1 + len(packages))
    # In another order it is the same.
    done = place.nsbox("run", *python, "--with", ",".join((*packages, system)), *code).ok()
    equal(done.output, "3 42\n", "output")
    nothing_is_left(place, before + 1 + len(packages))
    done = place.nsbox("run", *python, *code)
    equal(done.status, 125, f"status without it of {done.describe()}")
    session = place.nsbox("session", "new", *python, "--with", ",".join((system, *packages))).ok().output.strip()
    try:
        equal(place.nsbox("session", "exec", session, "--", "python3", *code).ok().output, "3 42\n", "in a session")
        nothing_is_left(place, before + 1 + len(packages))
        place.nsbox("session", "install", session, "apt:jq").refused("before a session is made")
    finally:
        place.nsbox("session", "stop", session)


# --- what packages do ---

LOOK = """
ls -l /usr/bin/tricky /usr/lib/tricky | awk 'NF > 4 { print $1, $3, $NF }'
ls /usr/share/root/* /tmp /run/left /var/tmp /repository/lock 2>&1 | grep -v 'No such'
tricky-again
cd /usr/share/root && cat replaced diverted diverted.original
cat /usr/lib/tricky/triggered
id -u tricky
dpkg --audit
dpkg-query -W -f '${Package} ${Status}\\n' tricky waking
"""


@test("set-user-ID files, owners, devices, users, services, triggers, diversions and removals")
def _(place):
    done = box(place, "--with", "apt:waking", "--", "sh", "-c", LOOK).ok()
    equal(done.output.splitlines(), """\
-rwsr-xr-x root /usr/bin/tricky
d--------- root closed
-rw-r--r-- root environment
prw-r--r-- root fifo
drwxrwsr-x root shared
-rw-r--r-- root triggered
/usr/share/root/diverted
/usr/share/root/diverted.original
/usr/share/root/replaced

/tmp:

/usr/share/root/directory:
new

/var/tmp:
tricky
replaced
diverted
original/usr/share/triggers
150
tricky install ok installed
waking install ok installed""".splitlines(), "what is there")
    environment = box(place, "--with", "apt:waking", "--", "cat", "/usr/lib/tricky/environment").ok().output
    check("DEBIAN_FRONTEND=noninteractive" in environment, environment)
    check(str(place.home) not in environment, "the caller's home is in the environment of a script")
    # The root itself is as it was.
    root = shared(with_root)
    equal(sorted(os.listdir(root / "usr/share/root")), ["directory", "diverted", "gone", "replaced"], "names in the root")
    check(not (root / "usr/bin/tricky").exists(), "the root has the package")
    done = box(place, "--", "cat", "/usr/share/root/gone", "/usr/share/root/directory/old").ok()
    equal(done.output, "originaloriginal", "without it")


@test("on disk a layer belongs to whom images belong, and is nobody else's")
def _(place):
    box(place, "--with", "apt:tricky", "--", "true").ok()
    tree = place.store / "packages" / layers(place)[0] / "fs"
    equal((tree / "usr/bin/tricky").stat().st_uid, os.geteuid(), "owner")
    equal((tree / "usr/bin/tricky").stat().st_ino, (tree / "usr/bin/tricky-again").stat().st_ino, "one file with two names")
    for folder in (place.store, place.store / "packages"):
        equal(folder.stat().st_mode & 0o077, 0, f"what others may in {folder}")
    for left in ("dev", "proc", "tmp/left", "run/left", "etc/hosts", "etc/resolv.conf", "usr/sbin/policy-rc.d", "usr/lib/tricky/socket",
                 "etc/apt/apt.conf.d/99nsbox-root-emulation", "var/lib/dpkg/lock", "var/log/dpkg.log"):
        check(not (tree / left).exists(), f"the layer has {left}")
    overlay = [name for path in tree.rglob("*") if path.is_file() and os.access(path, os.R_OK)
               for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.overlay.")]
    equal(overlay, [], "bookkeeping of overlayfs")


@test("code cannot change what was installed, and a run sees it as it was")
def _(place):
    spoil = "rm /usr/bin/tricky; echo spoilt >/usr/share/root/replaced; rm -r /usr/lib/tricky/shared; echo done"
    equal(box(place, "--with", "apt:tricky", "--", "sh", "-c", spoil).ok().output, "done\n", "output")
    done = box(place, "--with", "apt:tricky", "--", "sh", "-c", "tricky; cat /usr/share/root/replaced; ls -d /usr/lib/tricky/shared").ok()
    equal(done.output, "tricky\nreplaced\n/usr/lib/tricky/shared\n", "output")


@test("the code's user, limits and files have no part in an install")
def _(place):
    (place.folder / "w").mkdir()
    done = box(place, "--with", "apt:tricky", "-u", "1000", "-m", "64m", "--pids-limit", "8", "--bind", f"{place.folder}/w:/workspace",
               "-e", "SECRET=1", "--read-only", "--", "sh", "-c", "id -u; grep -c SECRET /usr/lib/tricky/environment; tricky")
    equal(done.output, "1000\n0\ntricky\n", "output")
    equal(os.listdir(place.folder / "w"), [], "files in the caller's folder")


@test("a version is pinned, and sets are told apart")
def _(place):
    def version(*names):
        options = [word for name in names for word in ("--with", name)]
        return box(place, *options, "--", "cat", "/usr/share/versions/version").ok().output.strip()

    equal(version("apt:versions=1.0"), "1.0", "version")
    equal(version("apt:versions"), "2.0", "version")
    equal(version("apt:versions=1.0", "apt:tricky"), "1.0", "version")
    equal(version("apt:versions=1.0"), "1.0", "version")
    nothing_is_left(place, 3)


@test("a root that has changed is another root")
def _(place):
    copy = place.folder / "root"
    run("cp", "-a", shared(with_root), copy)
    place.nsbox("run", "--rootfs", copy, "--with", "apt:tricky", "--", "tricky").ok()
    place.nsbox("run", "--rootfs", copy, "--with", "apt:tricky", "--", "tricky").ok()
    nothing_is_left(place, 1)
    status = copy / "var/lib/dpkg/status"
    status.rename(f"{status}-old")
    status.write_text((copy / "var/lib/dpkg/status-old").read_text())
    place.nsbox("run", "--rootfs", copy, "--with", "apt:tricky", "--", "tricky").ok()
    nothing_is_left(place, 2)
    remove(copy)


# --- what goes wrong ---


@test("a package that fails: its own words, nothing left, and the next call works")
def _(place):
    done = box(place, "--with", "apt:broken", "--", "echo", "ran")
    equal(done.status, 125, "status")
    check("no: this cannot be configured\n" in done.errors, done.describe())
    equal(done.errors.splitlines()[-1], "nsbox: apt could not install broken: exit status 100", "our line")
    equal(done.output, "", "output of the command")
    nothing_is_left(place)
    box(place, "--with", "apt:tricky", "--", "tricky").ok()


@test("names of a stranger, links to everywhere, and directories of any depth")
def _(place):
    count = box(place, "--with", "apt:hostile", "-u", "0", "--root-emulation", "--", "sh", "-c", "ls -A /usr/share/hostile | wc -l; ls -A /tmp | wc -l").ok()
    equal(count.output.split(), ["12", "0"], f"names ({count.describe()})")
    done = box(place, "--with", "apt:deep", "--", "true")
    equal(done.status, 125, "status")
    last = done.errors.splitlines()[-1]
    check(re.fullmatch("nsbox: what apt has installed: usr/share/d/d[d/]*: there are more than 256 directories in each other", last), last)
    nothing_is_left(place, 1)
    place.nsbox("images", "prune").ok()
    nothing_is_left(place)


@test("--json has it, too, and standard output has nothing else")
def _(place):
    done = box(place, "--json", "--with", "apt:broken", "--", "echo", "ran")
    result = json.loads(done.output)
    equal((done.status, result["ended_by"]), (125, "setup"), "status, ended_by")
    check("apt could not install broken" in json.dumps(result), done.output)


@test("names that are none, roots that have no apt: one line before anything is made")
def _(place):
    for name in ("", "jq-", "-oDir=/x", "jq=", "=1", "JQ", "j", "jq 1", "./jq.deb", "/repository/tricky_1.0.deb", "jq/sid", "~njq", "?name(jq)",
                 "jq=1 2", "*", "jq*", "jq\n", "jq:", "jq:amd64:x", "jq^", "a" * 300):
        box(place, "--with", f"apt:{name}", "--", "true").refused("--with: apt:.* is not the name of a package of Debian")
    place.nsbox("run", "--with", "apt:jq", "--", "true").refused("cannot be installed in the host's own root")
    place.nsbox("run", "--lang", "bash", "--image", "none", "--with", "apt:jq", "-c", "true").refused("the host's own root")
    empty = place.folder / "empty"
    empty.mkdir()
    place.nsbox("run", "--rootfs", empty, "--with", "apt:jq", "--", "true").refused("empty has no apt")
    box(place, "--with", "apt:tricky,", "--", "true").refused("a name is empty")
    box(place, "--with", "apt:tricky,six", "--", "true").refused("--lang")
    nothing_is_left(place)


@test("limits of installs: the time, the size; the line names what raises them")
def _(place):
    for name, limit, setting in (("endless", '"timeout": "2s"', "packages.timeout"), ("large", '"disk": "64m"', "packages.disk")):
        configure(place, f'{{"packages": {{{limit}}}}}')
        done = box(place, "--with", f"apt:{name}", "--", "true")
        equal(done.status, 125, f"status of {done.describe()}")
        check(f"apt could not install {name}: " in done.errors and setting in done.errors, done.describe())
        nothing_is_left(place)


@test("a disk that is full", ("unshare",))
def _(place):
    if not IS_ROOT:
        raise Skip("only root can have such a disk")
    root = shared(with_root)
    script = f"""
        mkdir -p {place.store} && mount -t tmpfs -o size=60m,mode=0700 none {place.store} || exit 1
        {sys.argv[1]} run --rootfs {root} --with apt:large -- true; echo "status $?"
        ls {place.store}/packages
        {sys.argv[1]} run --rootfs {root} --with apt:tricky -- tricky
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=place.environment, capture_output=True,
                          text=True, timeout=300, check=False)
    equal(done.stdout, "status 125\ntricky\n", f"output ({done.stderr})")
    check("apt could not install large: " in done.stderr and "disk" in done.stderr, done.stderr)


@test("no network: apt's own words, and one line", ("unshare",))
def _(place):
    if not IS_ROOT:
        raise Skip("only root can be without a network")
    place = shared(with_image)
    before = layers(place)
    done = subprocess.run(["unshare", "-n", sys.argv[1], "run", "--image", IMAGE, "--with", "apt:cowsay", "--", "true"],
                          env=place.environment, capture_output=True, text=True, timeout=300, check=False)
    equal(done.returncode, 125, "status")
    check("E: Failed to fetch http" in done.stderr and "Temporary failure resolving" in done.stderr, done.stderr)
    equal(done.stderr.splitlines()[-2], "nsbox: apt could not install cowsay: exit status 100", "our line")
    check(re.fullmatch("nsbox: not reached: [^ ]+: no name server of the host answered", done.stderr.splitlines()[-1]), done.stderr)
    equal(layers(place), before, "layers")


def with_source(place, text):
    """A copy of the root with another source."""
    copy = place.folder / "root"
    run("cp", "-a", shared(with_root), copy)
    (copy / "etc/apt/sources.list.d/tests.sources").unlink()
    (copy / "etc/apt/sources.list").write_text(text)
    return copy


@test("the sources are what an install reaches, and nothing of the host's loopback")
def _(place):
    port = free_port()
    server = start_server([sys.executable, "-m", "http.server", "-b", "127.0.0.1", str(port), "-d", shared(with_root) / "repository"], port)
    root = with_source(place, f"deb [trusted=yes] http://127.0.0.1:{port}/ ./\n")
    done = place.nsbox("run", "--rootfs", root, "--with", "apt:tricky", "--", "tricky")
    equal(done.status, 125, f"status of {done.describe()}")
    check(f"http://127.0.0.1:{port}" in done.errors and "apt could not install tricky" in done.errors, done.describe())
    nothing_is_left(place)
    remove(root)
    server.terminate()


def start(place, name):
    return place.start("run", "--rootfs", shared(with_root), "--with", f"apt:{name}", "--", "cat", f"/usr/share/{name}")


def started(place, name):
    """An install that goes on."""
    process = start(place, name)
    eventually(lambda: any(name.endswith(".new") for name in layers(place)), "a layer is begun")
    return process


def processes(place):
    """Those that have the store's folder in their command line, or a mount of it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{pid}/mountinfo").read_text() + Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        if f"{place.store}/packages" in text:
            found.append(pid)
    return found


@test("SIGTERM ends an install, with all that it has made")
def _(place):
    process = started(place, "endless")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    equal(process.wait(60), -signal.SIGTERM, "how it ended")
    process.communicate()
    nothing_is_left(place)
    eventually(lambda: not processes(place), "processes end")


@test("kill -9 at any time: no process and no layer is left, and the next install removes the rest")
def _(place):
    for after in (0, 0.1, 0.3, 0.6, 1.1):
        process = started(place, "slow")
        time.sleep(after)
        process.kill()
        process.communicate()
        eventually(lambda: not processes(place), "processes end")
        if not all(name.endswith(".new") for name in layers(place)):
            # It was installed already, where we were late; then it is whole, and the next one is to be installed again.
            check(len(box(place, "--with", "apt:slow", "--", "cat", "/usr/share/slow").ok().output) > 30, "half a layer")
            place.nsbox("images", "prune").ok()
    box(place, "--with", "apt:tricky", "--", "tricky").ok()
    check(not any(name.endswith(".new") for name in layers(place)), f"there is {layers(place)}")


@test("two at once install once")
def _(place):
    both = [start(place, "slow"), start(place, "slow")]
    outputs = [process.communicate(timeout=300) for process in both]
    equal([process.returncode for process in both], [0, 0], f"statuses ({outputs})")
    equal(outputs[0][0], outputs[1][0], "what it left")
    check(len(outputs[0][0]) > 30, outputs)
    nothing_is_left(place, 1)


@test("images prune removes what no sandbox has; afterwards it is installed anew")
def _(place):
    place.environment["XDG_RUNTIME_DIR"] = str(place.folder)
    first = box(place, "--with", "apt:slow", "--", "cat", "/usr/share/slow").ok().output
    box(place, "--with", "apt:tricky", "--", "true").ok()
    running = place.start("run", "--rootfs", shared(with_root), "--with", "apt:tricky", "--", "sh", "-c", "echo; read word; tricky",
                          stdin=subprocess.PIPE)
    running.stdout.readline()
    session = place.nsbox("session", "new", "--rootfs", shared(with_root), "--with", "apt:slow").ok().output.strip()
    try:
        place.nsbox("images", "prune").ok()
        nothing_is_left(place, 2)
        equal(running.communicate(b"go\n")[0], b"tricky\n", "in the run")
        place.nsbox("images", "prune").ok()
        nothing_is_left(place, 1)
        equal(place.nsbox("session", "exec", session, "--", "cat", "/usr/share/slow").ok().output, first, "in the session")
    finally:
        place.nsbox("session", "stop", session)
    place.nsbox("images", "prune").ok()
    nothing_is_left(place)
    again = box(place, "--with", "apt:slow", "--", "cat", "/usr/share/slow").ok().output
    check(again != first, "it is the same")


@test("an image without a language's package manager: the line says how it comes")
def _(place):
    done = shared(with_image).nsbox("run", "--no-config", "--image", IMAGE, "--lang", "perl", "--with", "Acme::NsboxHello", "-c", "1")
    done.refused("(?s)needs the program \"cpanm\".*--with apt:cpanminus")
