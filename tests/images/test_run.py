# SPDX-License-Identifier: MIT
"""nsbox run --image: what an image says about running it, and what options say instead."""

import json
import shutil

import image
from harness import IS_ROOT, Skip, check, equal, test
from image import Entry
from registries import Stub

BUSYBOX = ("busybox",)


def busybox():
    with open(shutil.which("busybox"), "rb") as file:
        return file.read()


def busybox_layer(*more):
    names = ("sh", "cat", "id", "env", "pwd", "ls", "stat", "echo", "true", "touch", "rm", "mkdir")
    return image.layer([Entry("./", "dir"), Entry("bin", "dir"), Entry("bin/busybox", content=busybox(), mode=0o755)]
                       + [Entry(f"bin/{name}", "symlink", "busybox") for name in names] + list(more))


ACCOUNTS = [Entry("etc", "dir"),
            Entry("etc/passwd", content="root:x:0:0:root:/root:/bin/sh\napp:x:1234:1235:App:/srv/app:/bin/sh\n"),
            Entry("etc/group", content="root:x:0:\napp:x:1235:\nstaff:x:50:app\n")]


def add(place, name, config, *more, layers=()):
    folder = place.folder / f"layout-{name}"
    place.nsbox("images", "import", image.simple(folder, [busybox_layer(*ACCOUNTS, *more), *layers], config).folder, name).ok()


def run_image(place, name, *words, options=(), **more):
    return place.nsbox("run", "--image", name, "--pull", "never", *options, "--", *words, **more)


def output(place, *arguments, **more):
    return run_image(place, *arguments, **more).ok().output


@test("run: environment, entry point, command, working directory, volumes", BUSYBOX)
def _(place):
    add(place, "full", {"Env": ["PATH=/bin", "A=b c", "EMPTY=", "EQ=x=y"], "Entrypoint": ["/bin/sh", "-c"],
                        "Cmd": ["pwd; echo $A:$EQ; ls -d /data/deep; touch /data/deep/x && echo written"],
                        "WorkingDir": "/made/for it", "Volumes": {"/data/deep": {}}})
    equal(output(place, "full"), "/made/for it\nb c:x=y\n/data/deep\nwritten\n", "output")
    equal(output(place, "full", "echo other; env"), "other\n" + output(place, "full", "env"), "operands replace the command")
    environment = dict(line.split("=", 1) for line in output(place, "full", "env").splitlines())
    equal((environment["EMPTY"], environment["PATH"]), ("", "/bin"), "environment")
    equal(output(place, "full", "echo $A", options=("-e", "A=mine")), "mine\n", "-e")
    equal(output(place, "full", "pwd", options=("-w", "/etc")), "/etc\n", "-w")
    equal(output(place, "full", "x", "y", options=("--entrypoint", "/bin/echo")), "x y\n", "--entrypoint")
    equal(output(place, "full", "/bin/echo", "z", options=("--entrypoint", "")), "z\n", "--entrypoint of nothing")
    run_image(place, "full", options=("--entrypoint", "")).refused("command")


@test("run: users by name, number, group; their home; -u", BUSYBOX)
def _(place):
    script = "echo $(id -u):$(id -g) $HOME"
    for number, (user, expected) in enumerate({
            "": "0:0 /root", "app": "1234:1235 /srv/app", "app:staff": "1234:50 /srv/app", "1234": "1234:1235 /srv/app",
            "77": "77:0 ", "77:88": "77:88 ", "root": "0:0 /root", "app:7": "1234:7 /srv/app"}.items()):
        add(place, f"user-{number}", {"User": user, "Env": ["PATH=/bin"]})
        seen = output(place, f"user-{number}", "/bin/sh", "-c", script)
        check(seen.startswith(expected), f"user {user!r}: {seen!r}, expected {expected!r}")
    seen = output(place, "user-1", "/bin/sh", "-c", "id -u; id -g", options=("-u", "5:6"))
    equal(seen, "5\n6\n", "-u")
    folder = place.folder / "layout-bad"
    layout = image.simple(folder, [busybox_layer(*ACCOUNTS)], {"User": "nobody-there"})
    place.nsbox("images", "import", layout.folder, "bad").refused("nobody-there.* is not in its")


@test("run: --pull never, missing, always", BUSYBOX)
def _(place):
    first = image.simple(place.folder / "first", [busybox_layer(Entry("v", content="1"))], {"Cmd": ["/bin/cat", "/v"]})
    second = image.simple(place.folder / "second", [busybox_layer(Entry("v", content="2"))], {"Cmd": ["/bin/cat", "/v"]})
    with Stub(first) as stub:
        name = f"{stub.name}/x:latest"

        def at(policy):
            return place.nsbox("run", "--image", name, *(("--pull", policy) if policy else ()))

        at("never").refused("pull")
        equal(stub.seen, [], "requests with never")
        equal(at(None).ok().output, "1", "output with missing")
        stub.layout = second
        count = len(stub.seen)
        equal(at("missing").ok().output, "1", "output when it is there")
        equal(len(stub.seen), count, "requests when it is there")
        equal(at("always").ok().output, "2", "output with always")
        equal(at("never").ok().output, "2", "output with never")
        stub.hook = lambda request, *_: request.send(404) is None
        done = at("always")
        check(done.status == 125 and "does not have it" in done.errors and "could not be pulled" in done.errors, done.describe())
    place.nsbox("run", "--pull", "never", "true").refused("--image")
    place.nsbox("run", "--image", "x", "--pull", "sometimes", "true").refused("sometimes")
    place.nsbox("run", "--image", "x", "--rootfs", "/", "true").refused("--rootfs|--image")


@test("run: seventy layers, the last one on top", BUSYBOX)
def _(place):
    more = [image.layer([Entry("top", content=str(number)), Entry(f"only-{number}")] + ([Entry(f".wh.only-{number - 1}")]
                        if number % 2 else [])) for number in range(70)]
    add(place, "many", {}, layers=more)
    seen = output(place, "many", "/bin/sh", "-c", "cat /top; ls -d /only-* | /bin/busybox wc -l")
    equal(seen.split(), ["6935"] if "\n" not in seen.strip() else ["69", "35"], "output")


@test("session: the upper of hundreds of layers is on disk, and goes with the session", BUSYBOX)
def _(place):
    more = [image.layer([Entry(f"only-{number}", content="x")]) for number in range(380)]
    add(place, "many", {"User": "app"}, Entry("closed", "dir", mode=0o700), Entry("closed/in", content="i"),
        Entry("mine", "dir", mode=0o777), Entry("mine/old", content="o"), layers=more)
    runtime = place.folder / "runtime"
    runtime.mkdir(mode=0o700)

    def session(*words):
        return place.nsbox("session", *words, env={"XDG_RUNTIME_DIR": str(runtime)}).ok().output

    for options in ((), ("-u", "0", "--root-emulation")):
        made = session("new", "--image", "many", "--pull", "never", "--storage", "disk", "--disk", "64m", *options).strip()
        try:
            described = json.loads(session("ls", "--json"))[0]
            if described["storage"] == "memory":
                raise Skip(described["storage_note"])
            seen = session("exec", made, "/bin/sh", "-c", """cat /only-0 /only-379; rm -r /mine/old; mkdir /mine/old; ls -A /mine/old
                /bin/busybox dd if=/dev/zero of=/mine/file bs=1M count=20 2>/dev/null; ls -l /mine/file | /bin/busybox cut -c1-10
                /bin/busybox chown 1000 /mine/file 2>/dev/null; mkdir /mine/closed; touch /mine/closed/x; /bin/busybox chmod 0 /mine/closed""")
            equal(seen, "xx-rw-r--r--\n", "what it saw")
            upper = place.store / "sessions" / made / "space" / "upper"
            equal((upper / "mine" / "file").stat().st_size, 20 << 20, "the size of the file on disk")
            check(IS_ROOT == ((upper / "mine" / "file").stat().st_uid >= 0x70000000), "whose it is")
            check(json.loads(session("exec", "--json", made, "/bin/sh", "-c", "exit 0"))["usage"]["disk_used_bytes"] > 20 << 20,
                  "what is used")
        finally:
            session("stop", "--all")
        equal(list((place.store / "sessions").iterdir()), [], "what is left")


@test("run: what a sandbox writes stays out of the store", BUSYBOX)
def _(place):
    add(place, "base", {}, Entry("there", content="t"), Entry("closed", "dir", mode=0), Entry("closed/in", content="i"))
    before = {path: path.lstat().st_mtime_ns for path in (place.store / "layers").rglob("*")}
    output(place, "base", "/bin/sh", "-c", "rm /there; echo x >/etc/passwd; mkdir /new; rm -r /closed; echo y >/bin/busybox || true")
    after = {path: path.lstat().st_mtime_ns for path in (place.store / "layers").rglob("*")}
    equal(after, before, "files of the store")
    equal(output(place, "base", "/bin/cat", "/there"), "t", "the file in the next run")


@test("run: set-user-ID programs of an image have no power", BUSYBOX)
def _(place):
    add(place, "suid", {}, Entry("suid", "dir"), Entry("suid/id", content=busybox(), mode=0o4755))
    seen = output(place, "suid", "/bin/sh", "-c", "stat -c %a /suid/id; /suid/id -u", options=("-u", "1000"))
    equal(seen, "4755\n1000\n", "output")


@test("run --json: which root it was", BUSYBOX)
def _(place):
    add(place, "json", {"Cmd": ["/bin/true"]})
    result = json.loads(run_image(place, "json", options=("--json",)).ok().output)
    equal(result["exit_code"], 0, "exit_code")
    equal(result["sandbox"]["root"], "docker.io/library/json:latest", "root")


@test("--json of pull, import, ls and inspect")
def _(place):
    layout = image.simple(place.folder / "layout", [image.layer([Entry("f", content=str(n))]) for n in range(2)],
                          {"Env": ["A=b"], "User": "5"})
    digest = layout.manifests[0]["digest"]
    with Stub(layout) as stub:
        lines = [json.loads(line) for line in place.pull(f"{stub.name}/x:latest", "--json").ok().output.splitlines()]
        equal(lines[-1], {"image": f"{stub.name}/x:latest", "digest": digest}, "last line of pull")
        equal(sorted(line["layer"] for line in lines[:-1]), [1, 2], "layers of pull")
        for line in lines[:-1]:
            equal(set(line), {"layer", "layers", "digest", "bytes", "state"}, "keys of a layer")
    lines = place.nsbox("images", "import", layout.folder, "y", "--json").ok().output.splitlines()
    equal(json.loads(lines[-1]), {"image": "docker.io/library/y:latest", "digest": digest}, "last line of import")
    listed = json.loads(place.nsbox("images", "ls", "--json").ok().output)
    equal(len(listed), 2, "images")
    described = place.inspect("y")
    check(described["manifest"] == digest and len(described["layers"]) == 2, json.dumps(described))
