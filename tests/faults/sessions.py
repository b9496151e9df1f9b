# SPDX-License-Identifier: MIT
"""Makes system calls of what is asked of sessions go wrong, each in turn, and looks at what comes of it. Prints TAP.

    sessions.py [--all] [--every N] [--offset N] [--most N] [--only FAULT] WORK NAME [SCENARIO]...

WORK is a folder with the programs nsbox, nsbox-alloc (alloc.c), fault, and files; NAME says whose sandboxes they are. Who asks, the session's
supervisor, and what these two make while it is asked meet the faults (fault.c). Of each scenario there are about N
faults, spread over all that there can be and others with another offset; --every N: each N-th of all; --all: all, which
takes hours.

What must hold, whatever fails:
  - the command ends in time; with success what was asked for is done, else it is not, and one line says why, and perhaps
    one more what to do;
  - the session goes on with all its files, or it is said that it ended, and where its files are;
  - its files are those of before, or where it was asked for, of after: never a mix;
  - every snapshot that is listed is whole;
  - when sessions, snapshots and images are removed nothing is left: no process, mount, lock on ids or file.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

WAIT_S = 20
SHOWN_MAX = 12
KILL, TERM = 3, 4  # enum fault_kind
SET_CHILD_SUBREAPER = 36
IDS = Path("/run/nsbox/ids")
# System calls: fcntl, read, and those that a request or an answer is sent with.
FCNTL, READ, *SENDS = (72, 0, 44, 46) if os.uname().machine == "x86_64" else (25, 63, 206, 211)


class Wrong(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Wrong(what)


def wait_for(condition):
    until = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Done:
    def __init__(self, status, output, errors):
        self.status, self.output, self.errors = status, output, errors


class Fault:
    """What fault.c says of one."""

    def __init__(self, line):
        self.text, self.name, place = line.split()
        self.place = int(place)
        self.words = ["--fault", self.text]
        self.process, self.call, self.number, self.kind, self.errnum = map(int, self.text.split(":"))

    @property
    def ends_client(self):
        return self.process == 0 and self.kind in (KILL, TERM)

    @property
    def ends_session(self):
        """Also where it must think that the sandbox has died."""
        return self.process == 1 and (self.kind in (KILL, TERM) or self.errnum == errno.ECONNRESET)

    @property
    def happens(self):
        """A connection that is closed can be read to its end, too; and the supervisor reads no file but from pipes and sockets."""
        return not ((self.process == 0 and self.number in SENDS and self.errnum == errno.EPIPE) or
                    (self.process == 1 and self.number == READ and self.errnum == errno.EIO))

    @property
    def hides(self):
        """What was done the one who asked may not come to know."""
        return self.process == 0 or (self.process == 1 and self.number in SENDS)

    @property
    def ends_another(self):
        """Perhaps the first process of a sandbox, with which the session ends."""
        return self.process > 1 and self.kind == KILL

    def __str__(self):
        return f"{self.text} (call {self.place} of process {self.process}, system call {self.number}), {self.name}"


class Allocation:
    """The N-th. One that fails ends the process that it is in, which can be the supervisor."""

    kind, process, ends_client, ends_session, ends_another, hides = None, 0, False, True, True, True

    def __init__(self, number):
        self.number = number
        self.words = ["--allocation", str(number)]

    def __str__(self):
        return f"allocation {self.number}"


class Place:
    """Where one user's sandboxes are."""

    def __init__(self, work):
        self.work = work
        self.traced = work / "nsbox"
        self.nsbox_path = work / "nsbox"
        self.folder = work / "tmp" / f"sessions-{os.getpid()}"
        self.folder.mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.store = self.folder / "store"
        # Of this user's own: who has no other ids could not change it.
        shutil.copytree(work / "files-tree", self.folder / "tree")
        self.environment = os.environ | {"NSBOX_STORE": str(self.store), "XDG_RUNTIME_DIR": str(self.folder / "run"),
                                         "TREE": str(self.folder / "tree")}
        self.mounts = mounts()

    def nsbox(self, *words):
        done = subprocess.run([self.nsbox_path, *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=120)
        return Done(done.returncode, done.stdout, done.stderr)

    def must(self, *words):
        done = self.nsbox(*words)
        check(done.status == 0, f"nsbox {' '.join(words)}: {done.status}, {done.errors.strip()}")
        return done.output

    def trace(self, prepare, words, fault=None):
        """Returns what the command did, and what is said of it."""
        ends = os.pipe()
        # What it says comes on descriptor 3, whatever else is open.
        command = ["sh", "-c", f'exec "$@" 3>&{ends[1]}', "sh", self.work / "fault", *(fault.words if fault else []),
                   "--prepare", prepare, self.traced, *words]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment | {"NSBOX": str(self.traced)}, stdin=subprocess.DEVNULL, text=True, errors="replace",
                              stdout=(self.folder / "out").open("w"), stderr=(self.folder / "err").open("w"),
                              pass_fds=[ends[1]]) as process:
            os.close(ends[1])
            with open(ends[0], encoding="ascii") as file:
                report = file.read().splitlines()
        if process.returncode != 0:
            raise SystemExit(f"fault: {(self.folder / 'err').read_text()}")
        said = {line.split()[0]: int(line.split()[1]) for line in report if not line.startswith("fault ")}
        return (Done(os.waitstatus_to_exitcode(said["status"]), (self.folder / "out").read_text(errors="replace"),
                     (self.folder / "err").read_text(errors="replace")),
                said, [Fault(line[6:]) for line in report if line.startswith("fault ")])

    # --- what there is ---

    def id(self):
        return (self.folder / "id").read_text().strip()

    def sessions(self):
        return self.must("session", "ls", "-q").split()

    def snapshots(self):
        return json.loads(self.must("session", "snapshots", "--json"))

    def files(self, session, places):
        return self.must("session", "exec", session, "/files", "print", *places)

    # --- what is left ---

    def remove_all(self):
        for session in self.sessions():
            self.must("session", "stop", session)
        for snapshot in self.snapshots():
            self.must("session", "snapshots", "rm", snapshot["id"])

    def left(self):
        """What a process that was killed leaves goes with the next one that tidies up."""
        self.nsbox("images", "prune", "--all")
        found = [str(path.relative_to(self.store)) for path in self.store.rglob("*")
                 if path.parent != self.store and path.name not in ("records", "layers", "sha256", "lock")]
        found += [str(path.relative_to(self.folder)) for path in (self.folder / "run").rglob("*") if path.is_socket()]
        if IDS.exists():
            st = IDS.stat()
            inode = f" {os.major(st.st_dev):02x}:{os.minor(st.st_dev):02x}:{st.st_ino} "
            found += ["a lock on ids"] if inode in Path("/proc/locks").read_text() else []
        return found + children()

    def find_left(self):
        found = []

        def nothing():
            nonlocal found
            found = self.left()
            return not found

        wait_for(nothing)
        # One that goes is no matter of ours: others take away what they have mounted.
        return found + sorted(mounts() - self.mounts)


def mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def children():
    """Those that nobody has ended: whoever loses its parent becomes one of this process's."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            return []
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [f"the process {pid} ({Path('/proc', pid, 'comm').read_text().strip()})" for pid in pids]


# --- scenarios ---


class Scenario:
    """How it is prepared, what is asked, and what must be true afterwards. Files of a session are in `places`."""

    places = ["/data", "/workspace/data"]
    new = 'nsbox session new --rootfs "$TREE" >id; '
    before = 'nsbox session exec "$(cat id)" /files write 1 /data /workspace/data; '
    more = ""
    words = ()
    changes = False  # whether the session's own files become others
    has_manager = False  # whether one of packages runs

    def prepare(self):
        return f'set -e; nsbox() {{ "$NSBOX" "$@"; }}; {self.new}{self.before}{self.more} true'

    def learn(self, place):
        """What the files are before it is asked, and after."""
        self.first = place.files(place.id(), self.places)
        self.second = None

    def same(self, files, other, what):
        check(strip(files) == strip(other), f"{what} are others")

    def verify(self, place, fault, done):
        pass

    def goes_on(self, place, fault, done):
        """The session's own files."""
        if place.id() not in place.sessions():
            if fault.ends_session or (fault.ends_another and done.status == 0):
                return False
            check("session" in done.errors, "the session is gone, and nothing says so")
            check([each for each in place.snapshots() if each["id"] in done.errors], "the files of the session are lost")
            return False
        files = strip(place.files(place.id(), self.places))
        if not self.changes:
            check(files == strip(self.first), "the session's files are others")
        elif done.status == 0:
            check(files == strip(self.second), "success, and the session's files are not what they are then")
        else:
            check(files in (strip(self.first), strip(self.second)), "the session's files are a mix")
        return True


def strip(files):
    """Without the times of what is written in each run."""
    return [[word for i, word in enumerate(line.split(" ")) if i != 3] for line in files.splitlines()]


class Snapshot(Scenario):
    words = ("session", "snapshot", "--name", "wanted", "@id")

    def verify(self, place, fault, done):
        there = [each for each in place.snapshots() if each["name"] == "wanted"]
        said = [each for each in place.snapshots() if each["id"] in done.output or each["id"] in done.errors]
        if done.status == 0:
            check(there and said, "success, and no snapshot")
        elif not fault.hides and not fault.ends_session:
            check(not there or said, "failure, and there is a snapshot")


class SnapshotOver(Snapshot):
    more = 'nsbox session snapshot --name base "$(cat id)" >base; nsbox session exec "$(cat id)" /files write 2 /data /workspace/data; '


class SnapshotHost(Snapshot):
    """The root is the space itself."""

    places = ["/workspace/data"]
    new = 'nsbox session new --ro-bind "$TREE/files:/files" >id; '
    before = 'nsbox session exec "$(cat id)" /files write 1 /workspace/data; '


class SnapshotCopy(Snapshot):
    more = 'nsbox session exec --detach "$(cat id)" /files wait >process; '


class Restore(SnapshotOver):
    words = ("session", "restore", "@id", "base")
    changes = True

    def learn(self, place):
        self.first = place.files(place.id(), self.places)
        made = place.must("session", "fork", "base").strip()
        self.second = place.files(made, self.places)
        check(self.first != self.second, "there is nothing to restore")

    def verify(self, place, fault, done):
        check([each["name"] for each in place.snapshots() if each["id"] not in done.errors] == ["base"], "other snapshots")


def made_session(place, fault, done):
    """The session that was made, after success; None: it has ended, and may have."""
    made = done.output.strip()
    if fault.ends_another and made not in place.sessions():
        return None
    check(made in place.sessions(), "success, and no session")
    return made


class Fork(Scenario):
    words = ("session", "fork", "@id")

    def verify(self, place, fault, done):
        if done.status == 0:
            made = made_session(place, fault, done)
            if not made:
                return
            self.same(place.files(made, self.places), self.first, "the files of the session that was made")
        else:
            check(wait_for(lambda: set(place.sessions()) <= {place.id()}) or fault.hides, "failure, and there is a session")


class Pause(Scenario):
    more = 'nsbox session exec --detach "$(cat id)" /files wait >process; '
    words = ("session", "pause", "@id")
    paused = True

    def goes_on(self, place, fault, done):
        if place.id() not in place.sessions():
            return super().goes_on(place, fault, done)
        probe = place.nsbox("session", "exec", place.id(), "/files")
        if probe.status != 0:
            check("paused" in probe.errors, f"nothing can begin in it: {probe.errors}")
        if done.status == 0:
            check((probe.status != 0) == self.paused, "success, and it is not so")
        elif not fault.hides:
            check((probe.status != 0) != self.paused, "failure, and it is so")
        place.must("session", "resume", place.id())
        return super().goes_on(place, fault, done)


class Resume(Pause):
    more = Pause.more + 'nsbox session pause "$(cat id)"; '
    words = ("session", "resume", "@id")
    paused = False

    def learn(self, place):
        place.must(*self.words[:2], place.id())
        super().learn(place)


class Commit(Scenario):
    words = ("session", "commit", "--quiet", "@id", "wanted")

    def verify(self, place, fault, done):
        there = "wanted" in place.must("images", "ls", "-q")
        if done.status == 0:
            check(there, "success, and no image")
        elif not fault.hides and not fault.ends_session:
            check(not there, "failure, and there is an image")
        if there:
            self.same(place.must("run", "--image", "wanted", "--", "/files", "print", *self.places), self.first, "the files of the image")


class Execute(Scenario):
    words = ("session", "exec", "@id", "/files", "write", "2", "/data", "/workspace/data")
    changes = True

    def learn(self, place):
        self.first = place.files(place.id(), self.places)
        place.must("session", "exec", place.id(), *self.words[3:])
        self.second = place.files(place.id(), self.places)

    def goes_on(self, place, fault, done):
        # What a command does half is its own.
        if place.id() in place.sessions() and done.status != 0:
            place.files(place.id(), self.places[:0])
            return True
        return super().goes_on(place, fault, done)


class Context(Scenario):
    places = SnapshotHost.places
    new = 'nsbox session new --lang bash --ro-bind "$TREE/files:/files" >id; '
    before = SnapshotHost.before
    words = ("session", "exec", "--context", "kept", "-c", "kept=1; echo said", "@id")
    expected = "1"

    def verify(self, place, fault, done):
        if done.status == 0:
            check(done.output == "said\n", f"success, and another output: {done.output!r}")
        if place.id() not in place.sessions():
            return
        words = ("session", "exec", "--context", "kept", "-c", 'echo "now $kept"', place.id())
        again = place.nsbox(*words)
        if again.status != 0:
            check(again.errors.startswith("nsbox: "), f"the next call fails without a word: {again.errors}")
            if "nsbox session context restart" in again.errors:  # it has ended, and that is said
                place.must("session", "context", "restart", place.id(), "kept")
            again = place.nsbox(*words)
        check(again.status == 0, f"the context is not usable: {again.errors}")
        if done.status == 0 and fault.process == 0:
            check(again.output == f"now {self.expected}\n", f"the context has lost what was in it: {again.output!r}")


class ContextAgain(Context):
    more = 'nsbox session exec --context kept -c other=2 "$(cat id)"; '


class RunWith(Scenario):
    has_manager = True
    new = before = ""
    language = ("--no-config", "--image", "none", "--lang", "files", "--with", "one")
    words = ("run", *language, "-c", 'cat "$FILES_FOLDER/one"')

    def learn(self, place):
        pass

    def works(self, place):
        check(place.must(*RunWith.words) == "one\n", "the packages are others")

    def verify(self, place, fault, done):
        if done.status == 0:
            check(done.output == "one\n", f"success, and another output: {done.output!r}")
        self.works(place)
        layers = list((place.store / "packages").iterdir())
        check(len(layers) == 1 and not layers[0].suffix, f"beside packages: {[each.name for each in layers]}")

    def goes_on(self, place, fault, done):
        return False


class NewWith(RunWith):
    words = ("session", "new", *RunWith.language)

    def verify(self, place, fault, done):
        if done.status == 0:
            made = made_session(place, fault, done)
            if not made:
                return
            check(place.must("session", "exec", "--lang", "files", "-c", RunWith.words[-1], made) == "one\n", "it has other packages")
        else:
            check(wait_for(lambda: not place.sessions()) or fault.hides, "failure, and there is a session")
        self.works(place)


class Install(Scenario):
    has_manager = True
    places = SnapshotHost.places
    new = 'nsbox session new --lang files --ro-bind "$TREE/files:/files" >id; '
    before = SnapshotHost.before
    words = ("session", "install", "@id", "one")

    def verify(self, place, fault, done):
        if place.id() not in place.sessions():
            return
        words = ("session", "exec", "--lang", "files", "-c", RunWith.words[-1], place.id())
        ran = place.nsbox(*words)
        if done.status == 0:
            check(ran.output == "one\n", f"success, and no package: {ran.errors}")
        place.must("session", "install", place.id(), "one")
        check(place.must(*words) == "one\n", "what is installed again is not there")


SCENARIOS = {
    "snapshot": Snapshot, "snapshot-over": SnapshotOver, "snapshot-host": SnapshotHost, "snapshot-copy": SnapshotCopy,
    "restore": Restore, "fork": Fork, "pause": Pause, "resume": Resume, "commit": Commit, "execute": Execute,
    "context": Context, "context-again": ContextAgain, "run-with": RunWith, "new-with": NewWith, "install": Install,
}


# What allocations fail in, too.
WITHOUT_MEMORY = ("snapshot", "snapshot-copy", "restore", "fork", "context", "install")


# --- judging ---


def check_words(scenario, fault, done):
    """Of the one who asked: its status, and what it says. A package manager that fails has words of its own, and so has a shell
    whose command was killed."""
    if fault.ends_client and done.status < 0:
        check(-done.status == (signal.SIGKILL if fault.kind == KILL else signal.SIGTERM), "it was ended otherwise")
        return
    check(done.status >= 0, f"it was ended by signal {-done.status}")
    lines = [line for line in done.errors.splitlines() if not line.startswith("nsbox: warning: ")]
    if scenario.has_manager and fault.kind in (KILL, TERM):
        lines = [line for line in lines if line not in ("Killed", "Terminated")]
    if scenario.has_manager and any(" could not install " in line for line in lines if line.startswith("nsbox: ")):
        lines = [line for line in lines if line.startswith("nsbox: ")]
    check(all(line.startswith("nsbox: ") and len(line) >= 20 for line in lines), "a line that is not nsbox's")
    if done.status == 0:
        check(not lines, "success, and a line that says why not")
    else:
        check(lines or done.errors, "it failed without a word")
        check(len(lines) <= 2, "it failed with too many words")


def check_snapshots(place, scenario):
    for snapshot in place.snapshots():
        made = place.must("session", "fork", snapshot["id"]).strip()
        files = strip(place.files(made, scenario.places))
        check(files in [strip(each) for each in (scenario.first, scenario.second) if each] or snapshot["name"] == "base",
              "a snapshot has other files")
        place.must("session", "stop", made)


def judge(place, scenario, fault, done, said):
    check(not said["hung"], "it hung")
    check_words(scenario, fault, done)
    scenario.verify(place, fault, done)
    if scenario.goes_on(place, fault, done):
        place.must("session", "exec", place.id(), "/files")
    if scenario.new:
        check_snapshots(place, scenario)


def try_fault(place, scenario, fault):
    """Returns whether the call was met. Wrong says what is not as it must be."""
    done, said, _ = place.trace(scenario.prepare(), scenario.words, fault)
    wrong = []
    try:
        if said["reached"] or said.get("made", 0) >= fault.number:
            judge(place, scenario, fault, done, said)
    except Wrong as what:
        wrong.append(str(what))
    try:
        place.remove_all()
        left = place.find_left()
        check(not left, f"left: {', '.join(left[:4])}")
    except Wrong as what:
        wrong.append(str(what))
        clear(place)
    if wrong:
        raise Wrong(f"{'; '.join(wrong)} (status {done.status})\n{done.errors}")
    return bool(said["reached"] or said.get("made"))


def clear(place):
    """After something went wrong, so that the next one begins with nothing."""
    for session in place.nsbox("session", "ls", "-q").output.split():
        place.nsbox("session", "stop", session)
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    children()
    shutil.rmtree(place.store, ignore_errors=True)


def learn(place, scenario):
    """Without a fault, what there is to go wrong."""
    none = Fault("0:0:0:0:0 none 0")
    place.trace(scenario.prepare(), ("session", "ls"))
    scenario.learn(place)
    place.remove_all()
    done, said, faults = place.trace(scenario.prepare(), scenario.words)
    check(done.status == 0, f"it fails without a fault: {done.errors}")
    judge(place, scenario, none, done, said)
    place.remove_all()
    left = place.find_left()
    check(not left, f"left without a fault: {', '.join(left)}")
    # The C library's own, before anything is said of failures: as sweep.c has it.
    begins = next((fault.place for fault in faults if fault.process == 0 and fault.number == FCNTL), 0)
    return [fault for fault in faults if fault.happens and (fault.process != 0 or fault.place >= begins)]


def learn_allocations(place, scenario):
    learn(place, scenario)
    _, said, _ = place.trace(scenario.prepare(), scenario.words, Allocation(0))
    place.remove_all()
    check(not place.find_left(), "left without a fault")
    return [Allocation(number) for number in range(1, said["made"] + 1)]


def choose(faults, options):
    if options["all"]:
        return faults
    if options["only"]:
        return [fault for fault in faults if f"{fault} ".startswith(options["only"] + " ")]
    every = options["every"]
    if not every:
        every = max(1, len(faults) // options["most"])
        # One that shares nothing with how many faults a call has.
        while every > 1 and any(every % divisor == 0 for divisor in (2, 3, 5)):
            every += 1
    return faults[options["offset"] % every::every]


def sweep(place, number, name, who, options):
    allocations = name.endswith("-memory")
    scenario = SCENARIOS[name.removesuffix("-memory")]()
    wrong, reached, faults = [], 0, []
    place.traced = place.work / ("nsbox-alloc" if allocations else "nsbox")
    try:
        faults = (learn_allocations if allocations else learn)(place, scenario)
        chosen = choose(faults, options)
    except Wrong as what:
        wrong.append(("without a fault", what))
        clear(place)
        chosen = []
    for fault in chosen:
        try:
            reached += try_fault(place, scenario, fault)
        except Wrong as what:
            wrong.append((fault, what))
    print(f"{'not ' * bool(wrong)}ok {number} - {who}, {name}: {reached} of {len(faults)} faults", flush=True)
    for fault, what in wrong[:SHOWN_MAX]:
        print(f"#   {fault}: " + "\n#     ".join(str(what).splitlines()), flush=True)
    return not wrong


def main(words):
    options = {"all": False, "every": 0, "offset": 0, "most": 5, "only": ""}
    while words and words[0].startswith("--"):
        name = words.pop(0)[2:]
        options[name] = True if name == "all" else words.pop(0) if name == "only" else int(words.pop(0))
    work, who, names = Path(words[0]), words[1], words[2:] or [*SCENARIOS, *(f"{name}-memory" for name in WITHOUT_MEMORY)]
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.umask(0o022)
    place = Place(work)
    if not (work / "nsbox-image").exists():
        names = [name for name in names if name != "commit"]
    try:
        good = [sweep(place, number, name, who, options) for number, name in enumerate(names, 1)]
    finally:
        clear(place)
    print(f"1..{len(good)}")
    return 0 if all(good) else 1


sys.exit(main(sys.argv[1:]))
