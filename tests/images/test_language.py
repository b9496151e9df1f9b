# SPDX-License-Identifier: MIT
"""Code in a language, in an image: nsbox run --lang, nsbox languages and nsbox mcp. The interpreter is a shell script."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import image
from harness import Failure, check, equal, test
from image import Entry
from registries import Stub
from test_run import ACCOUNTS, BUSYBOX, busybox_layer

LOCAL = "localhost/nsbox/toy:latest"
# Runs its source; with --version it says what it is. FROM says which image it is of.
INTERPRETER = """#!/bin/sh
[ "$1" = --version ] && { echo "toy $(cat /version)"; exit; }
. "$1"
"""
CONFIG = {"Env": ["PATH=/opt/toy/bin:/bin", "FROM=image", "BOTH=image"]}


def toolchain(version="1.0", *more):
    return busybox_layer(*ACCOUNTS, Entry("version", content=version), Entry("opt", "dir"), Entry("opt/toy", "dir"),
                         Entry("opt/toy/bin", "dir"), Entry("opt/toy/bin/toy", content=INTERPRETER, mode=0o755), *more)


def describe(place, remote=None, **more):
    """The user's language «toy», whose interpreter only images have."""
    folder = place.home / ".config/nsbox/languages"
    folder.mkdir(parents=True, exist_ok=True)
    language = {"name": "toy", "title": "Toy", "extension": "toy", "source": "main.toy", "run": {"argv": ["toy", "{source}"]},
                "env": {"BOTH": "language"}, "version": ["toy", "--version"],
                "needs": [{"program": "toy", "packages": {"debian": "toy-package"}}]} | more
    if remote:
        language["image"] = {"remote": remote}
    (folder / "toy.json").write_text(json.dumps(language))


def configure(place, **keys):
    (place.home / ".config/nsbox/nsbox.conf").write_text(json.dumps(keys))


def add(place, name, layers, config=None, tag="layout"):
    folder = place.folder / f"{tag}-{name.replace('/', '-').replace(':', '-')}"
    layout = image.simple(folder, layers, config or CONFIG)
    place.nsbox("images", "import", folder, name).ok()
    return layout.manifests[0]["digest"]


def toy(place, code, *options, **more):
    return place.nsbox("run", "--lang", "toy", *options, "-c", code, **more)


class Server:
    """nsbox mcp, spoken to line by line."""

    def __init__(self, place, *options, env=None):
        self.process = place.start("mcp", *options, env=env, stdin=subprocess.PIPE)
        self.number = 0
        self.notes = []  # notifications
        self.send("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        equal(self.process.wait(20), 0, "status of nsbox mcp")

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, **params):
        self.number += 1
        self.write({"id": self.number, "method": method, "params": params})
        return self.number

    def answer(self):
        """The next message that is no notification."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failure(f"the server is gone: {self.process.stderr.read().decode()}")
            message = json.loads(line)
            if "id" in message:
                return message
            self.notes.append(message["params"])

    def start(self, tool="execute_code", **arguments):
        return self.send("tools/call", name=tool, arguments=arguments, _meta={"progressToken": "token"})

    def call(self, tool="execute_code", **arguments):
        number = self.start(tool, **arguments)
        message = self.answer()
        equal(message["id"], number, "id")
        return message["result"]

    def run(self, code="echo $FROM", **arguments):
        """Structured content of a call that could run."""
        result = self.call(language="toy", code=code, **arguments)
        check(not result["isError"], result["content"][0]["text"])
        return result["structuredContent"]

    def refused(self, *words, language="toy", **arguments):
        result = self.call(language=language, code="echo", **arguments)
        text = result["content"][0]["text"]
        check(result["isError"] and all(word in text for word in words), f"{words} expected in {text}")
        return text

    def toy(self):
        """What list_languages says of the language, and the text of it all."""
        result = self.call("list_languages")
        languages = {each["name"]: each for each in result["structuredContent"]["languages"]}
        return languages["toy"], result["content"][0]["text"]


@test("lang: the image when it is in the store, the host when it is not; what is said of both", BUSYBOX)
def _(place):
    describe(place, "example.org/toy:1")
    done = toy(place, "echo")
    done.refused('needs the program "toy".*')
    check("in an image: nsbox pull example.org/toy:1" in done.errors, done.describe())
    digest = add(place, LOCAL, [toolchain()])
    equal(toy(place, "echo $FROM $BOTH; pwd; echo $HOME; touch x && ls").ok().output,
          "image language\n/workspace\n/root\nmain.toy\nx\n", "output")
    result = json.loads(toy(place, "exit 4", "--json").output)
    equal((result["exit_code"], result["sandbox"]["root"], result["sandbox"]["root_digest"]), (4, LOCAL, digest), "result")
    toy(place, "echo", "--image", "none").refused('needs the program "toy"')
    spec = json.loads(toy(place, "echo", "--print-spec").ok().output)
    equal((spec["root"], spec["root_path"], spec["root_digest"]), ("image", LOCAL, digest), "spec")
    host = json.loads(place.nsbox("run", "--json", "--lang", "bash", "-c", "true").ok().output)["sandbox"]
    equal((host["root"], host["root_digest"]), ("host", None), "without an image")
    place.nsbox("images", "rm", LOCAL).ok()
    toy(place, "echo").refused('needs the program "toy"')


@test("lang: an image that lacks the program is an error, and nothing is taken in its place", BUSYBOX)
def _(place):
    describe(place, needs=[{"program": "bash"}], run={"argv": ["bash", "{source}"]})
    equal(toy(place, "echo host").ok().output, "host\n", "on the host")
    add(place, LOCAL, [busybox_layer()])
    done = toy(place, "echo host")
    done.refused(f'Toy needs the program "bash", which is not in /opt/toy/bin:/bin of the image {LOCAL}')
    check("--image none" in done.errors, done.describe())
    equal(toy(place, "echo host", "--image", "none").ok().output, "host\n", "--image none")
    configure(place, image_policy="host")
    equal(toy(place, "echo host").ok().output, "host\n", "image_policy host")
    toy(place, "echo host", "--image", LOCAL).refused("needs the program")
    with Server(place) as server:
        equal(server.run("echo hi")["root"], "host", "root")
        server.refused("bash", LOCAL, image=LOCAL)
    with Server(place, "--image-policy", "stored") as server:
        server.refused("bash", LOCAL, "nsbox images rm")


@test("lang: a store that others can change: said, and no reason not to take the host's toolchain", BUSYBOX)
def _(place):
    describe(place, needs=[{"program": "bash"}], run={"argv": ["bash", "{source}"]})
    equal(toy(place, "echo host").ok().output, "host\n", "without a store")
    add(place, LOCAL, [toolchain()])
    place.store.chmod(0o777)
    done = toy(place, "echo host")
    done.refused("the store .* can be changed by others")
    check("--image none" in done.errors, done.describe())
    equal(toy(place, "echo host", "--image", "none").ok().output, "host\n", "--image none")
    with Server(place) as server:
        server.refused("can be changed by others")
    for variables in ({"NSBOX_STORE": ""}, {"NSBOX_STORE": "", "HOME": "/nonexistent"}, {"NSBOX_STORE": "/nonexistent/store"}):
        done = place.nsbox("run", "--lang", "bash", "-c", "echo host", env=variables)
        equal(done.ok().output, "host\n", f"with {variables}")


@test("lang: programs as the layers show them: links, whiteouts, opaque directories", BUSYBOX)
def _(place):
    describe(place)
    base = toolchain("1", Entry("usr", "dir"), Entry("usr/a", "dir"), Entry("usr/a/toy", content=INTERPRETER, mode=0o755))
    cases = {
        "relative": (True, [Entry("opt/toy/bin/toy", "symlink", "../../../usr/a/toy")]),
        "absolute": (True, [Entry("opt/toy/bin", "symlink", "/usr/a")]),
        "chain": (True, [Entry("opt/toy/bin/toy", "symlink", "t2"), Entry("opt/toy/bin/t2", "symlink", "/opt/../usr/./a/toy")]),
        "above": (True, [Entry("opt/toy/bin/toy", "symlink", "../../../../../../usr/a/toy")]),
        "dangling": (False, [Entry("opt/toy/bin/toy", "symlink", "nowhere")]),
        "loop": (False, [Entry("opt/toy/bin/toy", "symlink", "toy")]),
        "host": (False, [Entry("opt/toy/bin/toy", "symlink", "/usr/bin/python3")]),
        "whiteout": (False, [Entry("opt/toy/bin/.wh.toy")]),
        "whiteout above": (False, [Entry("opt/.wh.toy")]),
        "opaque": (False, [Entry("opt/toy/bin", "dir"), Entry("opt/toy/bin/.wh..wh..opq")]),
        "opaque with it": (True, [Entry("opt/toy/bin", "dir"), Entry("opt/toy/bin/.wh..wh..opq"),
                                  Entry("opt/toy/bin/toy", content=INTERPRETER, mode=0o755)]),
        "a file above": (False, [Entry("opt/toy", content="x")]),
        "no right": (False, [Entry("opt/toy/bin/toy", content=INTERPRETER, mode=0o644)]),
        "a directory": (False, [Entry("opt/toy/bin/toy", "dir")]),
        "merged": (True, [Entry("opt/toy/bin", "dir"), Entry("opt/toy/bin/other", content="x")]),
    }
    for number, (name, (there, entries)) in enumerate(cases.items()):
        add(place, f"case{number}", [base, image.layer(entries)])
        done = toy(place, "echo ran", "--image", f"case{number}")
        if there:
            equal(done.ok().output, "ran\n", name)
        else:
            done.refused('needs the program "toy"')
        # The kernel's own view agrees.
        seen = place.nsbox("run", "--image", f"case{number}", "--", "/bin/sh", "-c", "[ -f /opt/toy/bin/toy ] && [ -x /opt/toy/bin/toy ]")
        equal(seen.status == 0, there, f"{name}, in the sandbox")
    # A layer on top that brings it back.
    add(place, "back", [base, image.layer([Entry("opt/toy/bin/.wh.toy")]),
                        image.layer([Entry("opt/toy/bin/toy", "symlink", "/usr/a/toy")])])
    equal(toy(place, "echo ran", "--image", "back").ok().output, "ran\n", "brought back")


@test("lang: the image's user can write where the code is; options go over it", BUSYBOX)
def _(place):
    describe(place)
    add(place, LOCAL, [toolchain()], CONFIG | {"User": "app", "WorkingDir": "/made", "Entrypoint": ["/no/such"]})
    code = "id -u; id -g; echo $HOME; pwd; touch /workspace/x ~/y /tmp/z && echo written; ls -d /made"
    equal(toy(place, code).ok().output, "1234\n1235\n/srv/app\n/workspace\nwritten\n/made\n", "as the image's user")
    equal(toy(place, "id -u; touch x && echo written", "-u", "7").ok().output, "7\nwritten\n", "-u")
    equal(toy(place, "echo $FROM $BOTH $X", "-e", "FROM=me", "-e", "X=y").ok().output, "me language y\n", "-e")
    configure(place, env={"FROM": "config"})
    equal(toy(place, "echo $FROM").ok().output, "config\n", "the configuration's variables")
    with Server(place) as server:
        result = server.run("id -u; touch x && cat data/in", files={"data/in": "f\n"}, env={"FROM": "call"})
        equal(result["stdout"], "1234\nf\n", "output of a call")
    toy(place, "echo", "--entrypoint", "x").refused("--entrypoint")


@test("lang: --pull and image_policy: nothing is fetched unless that is asked for", BUSYBOX)
def _(place):
    first = image.simple(place.folder / "first", [toolchain("1")], CONFIG)
    second = image.simple(place.folder / "second", [toolchain("2")], CONFIG)
    with Stub(first) as stub:
        name = f"{stub.name}/toy:latest"
        describe(place, name)
        toy(place, "cat /version").refused("needs the program")
        toy(place, "cat /version", "--pull", "never").refused("needs the program")
        equal(stub.seen, [], "requests so far")
        done = toy(place, "cat /version", "--pull", "missing").ok()
        check(done.output == "1" and f"fetching it from {stub.name}" in done.errors, done.describe())
        stub.layout, count = second, len(stub.seen)
        equal(toy(place, "cat /version").ok().output, "1", "now that it is in the store")
        equal(toy(place, "cat /version", "--pull", "missing").ok().output, "1", "missing")
        equal(len(stub.seen), count, "requests when it is there")
        equal(toy(place, "cat /version", "--pull", "always").ok().output, "2", "always")
        add(place, LOCAL, [toolchain("local")])
        equal(toy(place, "cat /version").ok().output, "local", "the local one goes before it")
        equal(toy(place, "cat /version", "--pull", "missing").ok().output, "local", "missing, with the local one there")
        equal(toy(place, "cat /version", "--pull", "always").ok().output, "2", "always, with the local one there")
        place.nsbox("images", "rm", LOCAL, name).ok()
        configure(place, image_policy="pull")
        toy(place, "cat /version", "--pull", "never").refused("needs the program")
        equal(toy(place, "cat /version").ok().output, "2", "image_policy pull")
        place.nsbox("images", "rm", name).ok()
        stub.hook = lambda request, *_: request.send(404) is None
        done = toy(place, "cat /version")
        check(done.status == 125 and "could not be pulled" in done.errors, done.describe())
    describe(place)
    toy(place, "echo").refused("needs the program")
    toy(place, "echo", "--pull", "missing").refused("no image of Toy is known")
    for options in (("--pull", "missing", "--image", "none"), ("--pull", "missing", "--rootfs", "/"), ("--image", "x", "--rootfs", "/")):
        toy(place, "echo", *options).refused("contradict")
    configure(place, image_policy="sometimes")
    toy(place, "echo").refused('image_policy: "sometimes" is not one of')


@test("lang: no registry is asked for what is built here", BUSYBOX)
def _(place):
    describe(place)
    for done in (place.pull(LOCAL), place.nsbox("run", "--image", LOCAL, "true"), toy(place, "echo", "--image", LOCAL),
                 toy(place, "echo", "--image", LOCAL, "--pull", "always")):
        done.refused("localhost/")
        check("resolve" not in done.errors and "connect" not in done.errors, done.describe())
    with Server(place, "--allow-pull") as server:
        server.refused("localhost/nsbox/toy", image=LOCAL)
    folder = place.home / ".config/nsbox/languages"
    for value, word in (({"local": "python:3"}, "image.local"), ({"remote": "localhost/x"}, "image.remote"),
                        ({"remote": "UPPER"}, "image: remote: image reference"), ({"other": "x"}, "image: other: unknown key"),
                        ("x", "image: expected an object"), ({"local": 1}, "image: local: expected a string")):
        describe(place, image=value)
        done = toy(place, "echo")
        done.refused(word)
        check(f"{folder}/toy.json" in done.errors, done.describe())


@test("lang: a cache of a compiler belongs to one image, or to the host", BUSYBOX)
def _(place):
    cache = {"argv": ["sh", "-c", "cat /version 2>/dev/null >$0/of || echo host >$0/of", "{cache}"]}
    describe(place, needs=[{"program": "sh"}], cache=cache, run={"argv": ["sh", "-c", "cat {cache}/of 2>/dev/null || echo cold"]})
    cached = place.home / ".cache/nsbox"
    place.nsbox("languages", "--warm", "toy").ok()
    equal(toy(place, "").ok().output, "host\n", "the host's")
    first = add(place, LOCAL, [toolchain("one")])
    equal(toy(place, "").ok().output, "cold\n", "in the image, before there is one")
    check(f"toy-image-{first[7:]}" in place.nsbox("languages", "--warm", "toy").ok().output, "no path of the image's cache")
    equal(toy(place, "").ok().output, "one", "the image's")
    equal(toy(place, "", "--image", "none").ok().output, "host\n", "the host's, still")
    second = add(place, LOCAL, [toolchain("two")], tag="second")
    equal(toy(place, "").ok().output, "cold\n", "in another image of that name")
    with Server(place) as server:
        server.run()
        for _ in range(1200):
            if list(cached.glob(f"toy-image-{second[7:]}-*[!w]")):
                break
            time.sleep(0.05)
        equal(server.run("")["stdout"], "two", "filled in the background")
    # Not an image that somebody has named: its command would write on the host.
    add(place, "named", [toolchain("three")])
    with Server(place, "--allow-image", "*") as server:
        equal(server.run("", image="named")["stdout"], "cold\n", "an image that is not the language's")
        time.sleep(0.5)
    equal(len(list(cached.iterdir())), 3, "caches")


def command_lines():
    """Of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().split(b"\0")
        except OSError:
            pass


@test("lang: rm and prune during a run: it goes on, also a call of the server's", BUSYBOX)
def _(place):
    describe(place)
    code = "echo here; sleep 1.5; cat /version; ls /opt/toy/bin"
    for _ in range(2):
        add(place, LOCAL, [toolchain("still")], tag=str(time.monotonic()))
        process = place.start("run", "--lang", "toy", "-c", code)
        check(process.stdout.readline() == b"here\n", "the run does not begin")
        place.nsbox("images", "rm", LOCAL).ok()
        place.nsbox("images", "prune", "--all").ok()
        equal(process.communicate(timeout=30)[0], b"stilltoy\n", "output")
    add(place, LOCAL, [toolchain("still")], tag="for-a-call")
    with Server(place) as server:
        seconds = f"9.{os.getpid()}"  # the same test may run elsewhere at the same time
        number = server.start(language="toy", code=code.replace("1.5", seconds))
        for _ in range(600):
            if any(seconds.encode() in words for words in command_lines()):
                break
            time.sleep(0.05)
        place.nsbox("images", "rm", LOCAL).ok()
        place.nsbox("images", "prune", "--all").ok()
        check(place.listing("layers"), "the layer is gone during the call")
        message = server.answer()
        equal((message["id"], message["result"]["structuredContent"]["stdout"]), (number, "here\nstilltoy\n"), "output of the call")
    place.nsbox("images", "prune", "--all").ok()
    equal(place.listing("layers"), set(), "layers at the end")


@test("languages: what is ready where, and what there is to do", BUSYBOX)
def _(place):
    describe(place, "example.org/toy:1")

    def listed():
        return json.loads(place.nsbox("languages", "--json", "toy").output)[0]

    one = listed()
    equal((one["root"], one["ready"], one["host"]["ready"], one["image"]["stored"]), ("host", False, False, False), "nothing there")
    equal(one["image"]["hint"], "nsbox pull example.org/toy:1", "how to get it")
    check("toy-package" in one["hint"] or "package manager" in one["hint"], one["hint"])
    digest = add(place, LOCAL, [toolchain("4.5.6")])
    one = listed()
    equal((one["root"], one["ready"], one["version"], one["digest"], one["programs"]),
          (LOCAL, True, "4.5.6", digest, ["/opt/toy/bin/toy"]), "with the image")
    equal((one["image"]["name"], one["image"]["version"], one["host"]["ready"]), (LOCAL, "4.5.6", False), "of both")
    lines = place.nsbox("languages", "toy").ok().output.splitlines()
    check(lines[0].split()[:4] == ["toy", "4.5.6", "image", LOCAL + ":"] and "missing" in lines[1], "\n".join(lines))
    configure(place, image_policy="host")
    equal(listed()["root"], "host", "root with image_policy host")
    done = place.nsbox("languages", "toy")
    check(done.status == 125 and done.output.startswith("toy          missing"), done.describe())
    equal(place.nsbox("languages", "--no-config", "toy").status, 0, "status with --no-config")
    with Server(place) as server:
        one, text = server.toy()
        equal((one["root"], one["ready"], one["image"]["version"]), ("host", False, "4.5.6"), "list_languages, image_policy host")
    with Server(place, "--image-policy", "stored") as server:
        one, text = server.toy()
        equal((one["root"], one["ready"], one["version"]), (LOCAL, True, "4.5.6"), "list_languages")
        check(f"language toy: ready, version 4.5.6, in the image {LOCAL}" in text, text)
        # Another image of the same name is asked anew.
        add(place, LOCAL, [toolchain("7.8")], tag="newer")
        equal(server.toy()[0]["version"], "7.8", "version of the next image")
        place.nsbox("images", "rm", LOCAL).ok()
        one, text = server.toy()
        equal((one["root"], one["ready"]), ("host", False), "without it")
        check("nsbox pull example.org/toy:1" in text, text)


@test("mcp: the image of a call, within the server's bounds", BUSYBOX)
def _(place):
    describe(place, "example.org/toy:1")
    digest = add(place, LOCAL, [toolchain()])
    add(place, "ghcr.io/owner/deep/toy:2", [toolchain("2")])
    add(place, "toy", [toolchain("3")])
    with Server(place) as server:
        result = server.run()
        equal((result["stdout"], result["root"], result["root_digest"]), ("image\n", LOCAL, digest), "by default")
        equal(server.run(image="localhost/nsbox/toy")["root"], LOCAL, "the language's own, by name")
        text = server.call(language="toy", code="exit 3")["content"][0]["text"]
        check(f"exit code 3; it ran in the image {LOCAL}" in text, text)
        server.refused("ghcr.io/owner/deep/toy:2", "--allow-image", image="ghcr.io/owner/deep/toy:2")
        server.refused("--allow-image", image="toy")
        server.refused("image", "reference", image="!")
        server.refused("image: expected", image=7)
        server.refused("example.org/toy:1", "--allow-pull", "nsbox pull", image="example.org/toy:1")
        host = server.call(language="bash", code="echo hi")["structuredContent"]
        check(host["root"] == "host" and "root_digest" not in host, str(host))
    with Server(place, "--allow-image", "ghcr.io/owner/*", "--allow-image", "toy:*") as server:
        equal(server.run("cat /version", image="ghcr.io/owner/deep/toy:2")["stdout"], "2", "allowed by a pattern")
        equal(server.run("cat /version", image="docker.io/library/toy")["stdout"], "3", "by its short name")
        server.refused("--allow-image", image="toys:1")
        server.refused("--allow-image", image="evil.org/toy:1")
        server.refused("--allow-pull", image="toy:other")
    with Server(place, "--allow-image", "toy*") as server:
        equal(server.run("cat /version", image="toy")["stdout"], "3", "allowed by a star")
        server.refused("--allow-image", image="toys.example/x:1")
    configure(place, mcp={"allow_image": "toy:*"})
    with Server(place) as server:
        equal(server.run("cat /version", image="toy")["stdout"], "3", "allowed by the configuration")
    with Server(place, "--allow-image", "other") as server:
        server.refused("--allow-image", image="toy")
    place.nsbox("mcp", "--image-policy", "x").refused("--image-policy")


@test("mcp: an image is fetched during a call: progress, other calls meanwhile, an end by cancelling", BUSYBOX)
def _(place):
    layout = image.simple(place.folder / "layout", [toolchain("far")], CONFIG)
    gate = threading.Event()

    def wait(request, kind, name):
        if kind == "blobs" and name != layout.manifests[0]["digest"]:
            gate.wait(20)
        return False

    with Stub(layout, wait) as stub:
        short = f"{stub.name}/toy"
        name = f"{short}:latest"
        describe(place, name)
        with Server(place) as server:
            server.refused("--allow-pull", short, image=name)
            server.refused("toy", f"nsbox pull {short}")
            equal(stub.seen, [], "requests of a server that may not")
        configure(place, image_policy="pull")
        with Server(place) as server:
            server.refused('needs the program "toy"', f"nsbox pull {short}")
            equal(server.call(language="bash", code="true")["structuredContent"]["root"], "host", "root of another language")
            equal(stub.seen, [], "requests: image_policy alone is not enough for a server")
        configure(place)
        with Server(place, "--allow-pull") as server:
            number = server.start(language="toy", image=name, code="cat /version; sleep 2.5")
            ping = server.send("ping")
            equal(server.answer()["id"], ping, "the first answer")
            other = server.start(language="bash", code="echo other")
            message = server.answer()
            equal((message["id"], message["result"]["structuredContent"]["stdout"]), (other, "other\n"), "a call meanwhile")
            time.sleep(1.5)
            gate.set()
            message = server.answer()
            equal((message["id"], message["result"]["structuredContent"]["stdout"]), (number, "far"), "the call")
            equal(message["result"]["structuredContent"]["root"], name, "root")
            told = [note["progress"] for note in server.notes if note.get("progressToken") == "token"]
            check(told == sorted(set(told)) and told[-1] > 2.9, f"progress: {told}")
            check(any(f"fetching the image {short}" in note.get("message", "") for note in server.notes), str(server.notes))
        place.nsbox("images", "rm", name).ok()
        gate.clear()
        with Server(place, "--allow-pull", "--image-policy", "pull") as server:
            count = len(stub.seen)
            number = server.start(language="toy", code="echo")
            while len(stub.seen) < count + 2:
                time.sleep(0.05)
            pulls = pulls_of(server.process.pid)
            check(pulls, "no process fetches")
            server.write({"method": "notifications/cancelled", "params": {"requestId": number}})
            ping = server.send("ping")
            equal(server.answer()["id"], ping, "nothing comes of a cancelled call")
            gone(pulls)
            # And so it is when the client goes.
            server.start(language="toy", code="echo")
            for _ in range(600):
                pulls = pulls_of(server.process.pid)
                if pulls:
                    break
                time.sleep(0.05)
            check(pulls, "no process fetches")
        gone(pulls)
        gate.set()
        stub.hook = lambda request, *_: request.send(404) is None
        with Server(place, "--allow-pull", "--image-policy", "pull") as server:
            server.refused("fetching an image", "does not have it")
        configure(place, mcp={"allow_pull": True})
        with Server(place) as server:
            server.refused("fetching an image", image=name)


@test("mcp: what has come of an image is told; also pull --json", BUSYBOX)
def _(place):
    layout = image.simple(place.folder / "layout", [toolchain()], CONFIG)

    def drip(request, kind, name):
        body = layout.blob(name) if kind == "blobs" else b""
        if len(body) < 100000:
            return False
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[:200000])
        request.wfile.flush()
        time.sleep(6)
        request.wfile.write(body[200000:])
        return True

    with Stub(layout, drip) as stub:
        name = f"{stub.name}/toy"
        describe(place, f"{name}:latest")
        lines = [json.loads(line) for line in place.pull(name, "--json").ok().output.splitlines()]
        coming = [line for line in lines if line.get("state") == "coming"]
        check(coming and all(line["layer"] == 1 and 150000 < line["come"] <= 200000 < line["bytes"] for line in coming), str(lines))
        equal([line["state"] for line in lines[len(coming):-1]], ["done"], "what follows")
        place.nsbox("images", "rm", name).ok()
        place.nsbox("images", "prune").ok()
        with Server(place, "--allow-pull") as server:
            equal(server.run("echo $FROM", image=name)["stdout"], "image\n", "output")
            told = [note.get("message", "") for note in server.notes]
            check(any(f"fetching the image {name}: 195." in text and "0 of 1 layers" in text for text in told), str(told))


def pulls_of(server):
    """nsbox-image processes below the server."""
    found, parents = [], {server}
    for _ in range(4):
        for entry in os.listdir("/proc"):
            try:
                words = open(f"/proc/{entry}/stat").read() if entry.isdigit() else ""
            except OSError:
                continue
            if words and int(words.rsplit(")", 1)[1].split()[1]) in parents:
                parents.add(int(entry))
                if "(nsbox-image)" in words and int(entry) not in found:
                    found.append(int(entry))
    return found


def gone(processes):
    for _ in range(600):
        if not any(os.path.exists(f"/proc/{process}") for process in processes):
            return
        time.sleep(0.05)
    raise Failure(f"nsbox-image goes on: {processes}")


@test("run: a pull ends with the nsbox that waits for it", BUSYBOX)
def _(place):
    layout = image.simple(place.folder / "layout", [toolchain()], CONFIG)
    gate = threading.Event()
    with Stub(layout, lambda request, kind, name: kind == "blobs" and gate.wait(20) and False) as stub:
        describe(place, f"{stub.name}/toy:latest")
        process = place.start("run", "--lang", "toy", "--pull", "missing", "-c", "echo")
        while not stub.requests("/blobs/"):
            time.sleep(0.05)
        pulls = pulls_of(process.pid)
        check(pulls, "no process fetches")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
        gone(pulls)
        gate.set()


@test("run: a SIGTERM is the signal that the image wants; code in a language gets its own", BUSYBOX)
def _(place):
    describe(place)
    script = "".join(f"trap 'echo got {name}; exit 3' {name}; " for name in ("TERM", "INT", "USR1")) + \
             "echo ready; while :; do sleep 0.05; done"

    def stopped(*arguments):
        process = place.start(*arguments)
        equal(process.stdout.readline(), b"ready\n", "the first line")
        process.terminate()
        output, errors = process.communicate(timeout=30)
        equal(process.returncode, 3, f"status, with {output} and {errors}")
        return output.decode().split()[-1]

    for number, (value, expected) in enumerate(((None, "TERM"), ("SIGINT", "INT"), ("usr1", "USR1"), ("10", "USR1"))):
        add(place, f"stop{number}", [toolchain()], CONFIG | ({"StopSignal": value} if value else {}))
        run = ("run", "--image", f"stop{number}", "--", "/bin/sh", "-c", script)
        equal(stopped(*run), expected, f"StopSignal {value}")
        equal(stopped(run[0], "--stop-signal", "INT", *run[1:]), "INT", "--stop-signal")
    equal(stopped("run", "--lang", "toy", "--image", "stop2", "-c", script), "TERM", "code in a language")
    add(place, "bad", [toolchain()], CONFIG | {"StopSignal": "SIGNOTHING"})
    place.nsbox("run", "--image", "bad", "true").refused("image bad: its StopSignal: \"SIGNOTHING\" is no signal")
    equal(stopped("run", "--stop-signal", "TERM", "--image", "bad", "--", "/bin/sh", "-c", script), "TERM", "over a bad one")
    place.nsbox("run", "--stop-signal", "x", "true").refused("--stop-signal: \"x\" is no signal")
    # Time that is up kills at once.
    began = time.monotonic()
    done = place.nsbox("run", "--timeout", "300ms", "--image", "stop1", "--", "/bin/sh", "-c", script)
    check(done.status == 124 and "got" not in done.output and time.monotonic() - began < 60, done.describe())
