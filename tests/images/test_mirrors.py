# SPDX-License-Identifier: MIT
"""What nsbox.conf says about registries: mirrors, insecure ones, a CA of one's own. Names that cannot be resolved."""

import json
import re
import shutil
import subprocess

import harness
import image
from harness import IS_ROOT, Skip, check, equal, run, shared, test
from registries import Stub
from test_access import Tokens, authority, credentials, encoded

LAYERS = [image.layer([image.Entry("file", content="x")]), image.layer([image.Entry("noise", content=image.noise(2 << 20))])]


def layout(folder):
    return image.simple(folder / "layout", LAYERS)


def configure(place, registries):
    """The user's file; returns its path."""
    file = place.home / ".config/nsbox/nsbox.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"registries": registries}))
    file.chmod(0o600)
    return file


def is_there(place, name):
    """The image has the name that was asked for, whoever brought it, and is whole."""
    equal(place.record(name)["manifest"], shared(layout).manifests[0]["digest"], "manifest")
    equal(len(place.listing("layers")), 2, "layers")
    equal(place.listing("tmp"), set(), "store/tmp")


@test("mirrors: asked first, below the path in their URL; the registry itself is not")
def _(place):
    with Stub(shared(layout)) as origin, Stub(shared(layout)) as mirror:
        configure(place, {origin.name: {"mirrors": [f"http://{mirror.name}/some/path/"]}})
        done = place.pull(f"{origin.name}/group/x:latest").ok()
        equal((origin.seen, "cannot be used" in done.errors), ([], False), "requests at the registry, and whether one was of no use")
        check(mirror.seen[0][1] == "/v2/some/path/group/x/manifests/latest", mirror.seen[0][1])
        is_there(place, "group/x:latest")
        place.pull(f"{origin.name}/group/y:latest", "--no-config").ok()
        check(origin.seen and not mirror.requests("group/y"), "with --no-config the mirror was asked")
        digest = shared(layout).manifests[0]["digest"]
        place.pull(f"{origin.name}/group/x@{digest}").ok()
        check(mirror.requests(digest), "the mirror was not asked by digest")


def broken_mirrors():
    """Hooks of mirrors that are of no use, and what is said about each."""

    def answer(status, body=b""):
        return lambda request, *_: request.send(status, body) is None

    def cut(request, kind, name):
        body = request.stub.layout.blob(name) if kind == "blobs" else b""
        if len(body) < 1 << 20:
            return False
        request.cut(body, 1000)
        return True

    def other_bytes(request, kind, name):
        body = request.stub.layout.blob(name) if kind == "blobs" else b""
        if len(body) < 1 << 20:
            return False
        request.send_blob(body[:-1] + b"?")
        return True

    yield "does not have it", answer(404)
    yield "does not allow it", answer(401)
    yield "status 500", answer(500)
    yield "", cut
    yield "was damaged or changed on the way|compressed data is damaged", other_bytes


@test("mirrors: one that cannot be used is said, and the next one asked, at last the registry itself")
def _(place):
    for pattern, hook in broken_mirrors():
        with Stub(shared(layout)) as origin, Stub(shared(layout), hook) as mirror:
            configure(place, {origin.name: {"mirrors": ["http://127.0.0.1:1", f"http://{mirror.name}"]}})
            done = place.pull(f"{origin.name}/x:latest", "--quiet").ok()
            lines = [line for line in done.errors.splitlines() if "cannot be used" in line]
            equal(len(lines), 2, f"mirrors that were said to be of no use: {done.errors}")
            check("the mirror http://127.0.0.1:1 of" in lines[0], lines[0])
            check(mirror.seen and mirror.name in lines[1] and re.search(pattern, lines[1]), f"{pattern}: {lines[1]}")
            check(origin.seen, "the registry was not asked")
            is_there(place, "x:latest")
        place.nsbox("images", "prune", "--all").ok()


@test("mirrors: what is wrong here is not blamed on them")
def _(place):
    if not IS_ROOT:
        raise Skip("root is needed for a small tmpfs")
    place.store.mkdir(mode=0o700)
    run("mount", "-t", "tmpfs", "-o", "size=1000k,mode=700", "none", place.store)
    try:
        with Stub(shared(layout)) as origin, Stub(shared(layout)) as mirror:
            configure(place, {origin.name: {"mirrors": [f"http://{mirror.name}"]}})
            done = place.pull(f"{origin.name}/x:latest").refused("No space left on device")
            check("cannot be used" not in done.errors and not origin.seen, done.describe())
    finally:
        run("umount", place.store)


@test("mirrors: each gets its own credentials and no other's")
def _(place):
    ours, theirs = Tokens(lambda *_: True), Tokens(lambda *_: True)
    with Stub(shared(layout), ours) as origin, Stub(shared(layout), theirs) as mirror:
        environment = credentials(place, {"auths": {origin.name: {"auth": encoded("user", "ours")}}})
        configure(place, {origin.name: {"mirrors": [f"http://{mirror.name}"]}})
        place.pull(f"{origin.name}/x:latest", env=environment).ok()
        sent = [seen[2].get("Authorization", "") for seen in mirror.seen]
        check(not any(word.startswith("Basic") for word in sent), f"credentials went to the mirror: {sent}")
        environment = credentials(place, {"auths": {origin.name: {"auth": encoded("user", "ours")},
                                                    mirror.name: {"auth": encoded("user", "theirs")}}})
        count = len(mirror.seen)
        place.pull(f"{origin.name}/y:latest", env=environment).ok()
        sent = {seen[2].get("Authorization", "") for seen in mirror.seen[count:]}
        check(f"Basic {encoded('user', 'theirs')}" in sent, f"the mirror's credentials were not used: {sent}")
        check(f"Basic {encoded('user', 'ours')}" not in sent, "the registry's credentials went to the mirror")


@test("registries.HOST.ca and .insecure: for the registry and for a mirror", ("openssl",))
def _(place):
    ours = shared(authority)
    ca = place.folder / "own.pem"
    shutil.copy(ours.ca, ca)
    with Stub(shared(layout), tls=(ours.certificate, ours.key)) as stub:
        name = f"{stub.name}/x:latest"
        place.pull(name).refused("certificate")
        for settings in ({"ca": str(ca)}, {"insecure": True}):
            configure(place, {stub.name: settings})
            place.pull(name).ok()
            is_there(place, "x:latest")
            configure(place, {"registry.example:1": {"mirrors": [f"https://{stub.name}"]}, stub.name: settings})
            done = place.pull("registry.example:1/x:latest").ok()
            check("cannot be used" not in done.errors, done.describe())
            place.nsbox("images", "prune", "--all").ok()
        # A mirror of https is never spoken with in clear, and --insecure is for the registry that was named.
        with Stub(shared(layout)) as plain, Stub(shared(layout), lambda request, *_: request.send(404) is None) as origin:
            configure(place, {origin.name: {"mirrors": [f"https://{stub.name}", f"https://{plain.name}"]}})
            done = place.pull(f"{origin.name}/x:latest", "--insecure")
            check(re.search("cannot be used: .*certificate", done.errors), done.describe())
            equal((done.status, len(origin.seen), plain.seen), (125, 1, []), "status, and requests in clear")


@test("registries in a configuration that is wrong: one line")
def _(place):
    for registries, pattern in (
            ([], "registries: expected an object of hosts"),
            ({"docker": {}}, 'registries: "docker" is no registry\'s host'),
            ({"docker.io": []}, "registries.docker.io: expected an object"),
            ({"docker.io": {"mirror": []}}, '"mirror": unknown key; there are mirrors, insecure, ca'),
            ({"docker.io": {"mirrors": "https://mirror.example"}}, "mirrors: expected an array"),
            ({"docker.io": {"mirrors": [5]}}, "each a string"),
            ({"docker.io": {"mirrors": ["mirror.example"]}}, "does not begin with https://"),
            ({"docker.io": {"mirrors": ["https://user:word@mirror.example"]}}, "no URL of a registry"),
            ({"docker.io": {"mirrors": ["https://mirror.example/?x"]}}, "no URL of a registry"),
            ({"docker.io": {"mirrors": ["https://"]}}, "no URL of a registry"),
            ({"docker.io": {"insecure": "yes"}}, "insecure: expected true or false"),
            ({"docker.io": {"ca": "ca.pem"}}, "ca: expected the absolute path")):
        configure(place, registries)
        place.pull("127.0.0.1:1/x").refused(pattern)
    place.pull("127.0.0.1:1/x", "--config", "a", "--no-config").refused("contradict")


@test("run --image: mirrors of the file that --config names", ("busybox",))
def _(place):
    from test_run import busybox_layer

    with Stub(image.simple(place.folder / "layout", [busybox_layer()])) as mirror:
        file = configure(place, {"127.0.0.1:1": {"mirrors": [f"http://{mirror.name}"]}})
        other = place.folder / "other.conf"
        file.rename(other)
        done = place.nsbox("run", "--config", other, "--image", "127.0.0.1:1/box", "/bin/sh", "-c", "echo ran").ok()
        check("ran" in done.output, done.describe())


@test("a name that cannot be resolved at the moment: tried again, not for long")
def _(place):
    if not IS_ROOT:
        raise Skip("root is needed to be without a network and see who owns the folders above the store")
    done = subprocess.run(["unshare", "-n", harness.nsbox_path, "pull", "registry.example/x"], env=place.environment, capture_output=True,
                          timeout=60, check=False)
    errors = done.stderr.decode()
    equal((done.returncode, errors.count("trying again")), (125, 2), f"status and tries: {errors}")
    check("Could not resolve host" in errors.splitlines()[-2], errors)
