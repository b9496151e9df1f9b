# SPDX-License-Identifier: MIT
"""A registry that misbehaves: nsbox resumes, tries again, or says in one line what is wrong."""

import threading
import time

import image
from harness import check, equal, shared, test
from registries import Stub

SIZE = 3 << 20
CONTENT = image.noise(SIZE)


def layout(folder):
    return image.simple(folder / "layout", [image.layer([image.Entry("file", content=CONTENT)])], gzipped=False)


def blob(stub):
    """The layer's digest."""
    return next(image.sha256(path.read_bytes()) for path in stub.layout.blobs.iterdir() if path.stat().st_size > SIZE)


def is_layer(request, kind, name):
    return kind == "blobs" and name == blob(request.stub)


def only_layer(answer):
    """A hook that answers requests for the layer alone."""

    def hook(request, kind, name):
        return is_layer(request, kind, name) and answer(request, request.stub.layout.blob(name)) is not False

    return hook


def arrived(place, content=CONTENT):
    """The file came whole."""
    files = list((place.store / "layers").glob("*/fs/file"))
    equal([file.read_bytes() == content for file in files], [True], "the file that was pulled")
    equal(place.listing("tmp"), set(), "store/tmp")


def pull(place, stub, *options, **more):
    return place.pull(f"{stub.name}/x:latest", *options, **more)


@test("cut off at every tenth: goes on where it broke off")
def _(place):
    asked = []

    def answer(request, body):
        first = request.first_byte()
        asked.append(first)
        last = min(first + len(body) // 10, len(body))
        if first:
            request.cut(body[first:], last - first, {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}, 206)
        else:
            request.cut(body, last)

    # A tenth is more than a MiB, after which the count of tries begins anew.
    content = image.noise(11 << 20)
    large = image.simple(place.folder / "layout", [image.layer([image.Entry("file", content=content)])], gzipped=False)
    with Stub(large, only_layer(answer)) as stub:
        pull(place, stub).ok()
        equal(len(set(asked)), len(asked), "no part was sent twice")
        check(len(asked) >= 10, f"requests: {asked}")
    arrived(place, content)


@test("cut off, from a server that ignores Range: the whole anew")
def _(place):
    asked = []

    def answer(request, body):
        asked.append(request.first_byte())
        if len(asked) < 3:
            request.cut(body, len(body) * len(asked) // 3)
        else:
            request.send(200, body)

    with Stub(shared(layout), only_layer(answer)) as stub:
        pull(place, stub).ok()
        equal(len(asked), 3, "requests")
        check(asked[1] > 0 and asked[2] > asked[1], f"asked for {asked}")
    arrived(place)


@test("another part than was asked for: one line")
def _(place):
    def answer(request, body):
        if request.first_byte():
            request.send(206, body[5:], {"Content-Range": f"bytes 5-{len(body) - 1}/{len(body)}"})
        else:
            request.cut(body, len(body) // 2)

    with Stub(shared(layout), only_layer(answer)) as stub:
        pull(place, stub).refused("another part of the blob than was asked for")


@test("too much, too little, wrong bytes: one line, and a good server is believed again")
def _(place):
    answers = {
        "larger than": lambda request, body: request.send(200, body + b"more"),
        "was damaged or changed on the way": lambda request, body: request.send(200, body[:-1] + b"?"),
    }
    for pattern, answer in answers.items():
        with Stub(shared(layout), only_layer(answer)) as stub:
            pull(place, stub).refused(pattern)
            equal(place.listing("tmp", "layers"), set(), "store/tmp and store/layers")
    with Stub(shared(layout)) as stub:
        pull(place, stub).ok()
    arrived(place)


@test("a Content-Length that is too small, then the truth")
def _(place):
    asked = []

    def answer(request, body):
        asked.append(request.first_byte())
        if len(asked) > 1:
            return False
        request.send(200, body, length=len(body) - 1000)
        request.close_connection = True

    with Stub(shared(layout), only_layer(answer)) as stub:
        pull(place, stub).ok()
        equal(len(asked), 2, "requests")
    arrived(place)


@test("a byte of what came before is wrong: thrown away, and pulled again")
def _(place):
    asked = []

    def answer(request, body):
        asked.append(request.first_byte())
        if len(asked) > 1:
            return False
        request.cut(b"?" + body[1:], len(body) // 2)

    with Stub(shared(layout), only_layer(answer)) as stub:
        pull(place, stub).refused(".")
        equal(place.listing("tmp"), set(), "store/tmp")
        pull(place, stub).ok()
        equal(asked[-1], 0, "where it is begun again")
    arrived(place)


@test("what an earlier pull has left is wrong: fetched from its beginning, in one pull")
def _(place):
    def cut(request, body):
        request.stub.hook = refuse
        request.cut(body[:1 << 20] + b"?" + body[(1 << 20) + 1:], len(body) // 2)

    def refuse(request, kind, _):
        return kind == "blobs" and request.send(403) is None

    with Stub(shared(layout), only_layer(cut)) as stub:
        pull(place, stub).refused("does not allow it")
        equal(len(place.listing("tmp")), 1, "parts in store/tmp")
        stub.hook = None
        done = pull(place, stub).ok()
        check("what was there of it is wrong; fetching it from its beginning" in done.errors, done.describe())
    arrived(place)


@test("one registry that is slow and one that lies: neither is in the way of who asks another")
def _(place):
    over = threading.Event()

    def slowly(request, body):
        request.cut(body, len(body) // 2)
        over.wait(100)

    def lie(request, body):
        request.cut(b"?" + body[1:], len(body) // 2)
        over.wait(100)

    with Stub(shared(layout), only_layer(slowly)) as slow, Stub(shared(layout), only_layer(lie)) as liar:
        waiting = [place.start("pull", "--quiet", f"{stub.name}/x:latest") for stub in (slow, liar)]
        began = time.monotonic()
        while len(place.listing("tmp")) < 4 and time.monotonic() - began < 30:
            time.sleep(0.02)
        with Stub(shared(layout)) as stub:
            began = time.monotonic()
            pull(place, stub).ok()
            check(time.monotonic() - began < 60, f"the honest one took {time.monotonic() - began} s")
            equal(len(stub.requests(blob(stub))), 1, "requests at the honest one")
        over.set()
        for process in waiting:
            process.kill()
            process.communicate()
        files = list((place.store / "layers").glob("*/fs/file"))
        equal([file.read_bytes() == CONTENT for file in files], [True], "the file that was pulled")


@test("status 500 twice, for manifests and layers")
def _(place):
    seen = {}

    def hook(request, kind, name):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 2:
            return False
        request.send(500, b"sorry")
        return True

    with Stub(shared(layout), hook) as stub:
        done = pull(place, stub).ok()
        check("answered with status 500; trying again in 0.5 s" in done.errors, done.describe())
        equal(set(seen.values()), {3}, "requests of each")
    arrived(place)


@test("status 429 with Retry-After: so long, and not sooner")
def _(place):
    times = []

    def answer(request, _):
        times.append(time.monotonic())
        if len(times) > 1:
            return False
        request.send(429, b'{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}', {"Retry-After": "2"})

    with Stub(shared(layout), only_layer(answer)) as stub:
        done = pull(place, stub).ok()
        check("too many requests from here (TOOMANYREQUESTS: slow down); trying again in 2.0 s" in done.errors, done.describe())
        check(times[1] - times[0] >= 1.9, f"after {times[1] - times[0]} s")


@test("statuses that no further try would change: at once, in one line")
def _(place):
    for status, pattern in ((403, "does not allow it"), (404, "does not have it"), (410, "status 410"), (501, "status 501")):
        with Stub(shared(layout), only_layer(lambda request, _, status=status: request.send(status))) as stub:
            pull(place, stub).refused(pattern)
            equal(len(stub.requests(blob(stub))), 1, "requests")


@test("redirected in a circle: one line")
def _(place):
    with Stub(shared(layout), lambda request, *_: request.send(302, headers={"Location": request.path}) is None) as stub:
        pull(place, stub).refused("redirect")
        check(len(stub.seen) <= 12, f"{len(stub.seen)} requests")


@test("redirected to another host or port: followed, without Authorization")
def _(place):
    from test_access import Tokens, credentials, encoded

    for target in ("127.0.0.1", "localhost"):
        with Stub(shared(layout)) as other:
            tokens = Tokens(lambda request, fields: True)

            def hook(request, kind, name):
                if tokens(request, kind, name):
                    return True
                if not is_layer(request, kind, name):
                    return False
                request.send(307, headers={"Location": f"http://{target}:{other.port}/elsewhere/blobs/{name}?signature=1",
                                           "Content-Type": "text/html"})
                return True

            with Stub(shared(layout), hook) as stub:
                environment = credentials(place, {"auths": {stub.name: {"auth": encoded("user", "word")}}})
                other.hook = lambda request, kind, name: request.path.startswith("/elsewhere") and request.send_blob(
                    stub.layout.blob(name)) is None
                pull(place, stub, env=environment).ok()
                equal(len(other.seen), 1, "requests at the other host")
                check("Authorization" not in other.seen[0][2], f"Authorization went to {target}")
        place.nsbox("images", "prune", "--all").ok()


@test("redirected to a host that asks for credentials: it gets none")
def _(place):
    from test_access import credentials, encoded

    for path in ("/manifests/", "/blobs/"):
        with Stub(shared(layout)) as other:
            def ask(request, kind, name):
                if request.path.startswith("/token"):
                    request.send(200, b'{"token": "x"}')
                else:
                    request.send(401, headers={"WWW-Authenticate": f'Bearer realm="http://{other.name}/token",service="s"'})
                return True

            other.hook = ask

            def hook(request, kind, name):
                if path not in request.path:
                    return False
                request.send(307, headers={"Location": f"http://{other.name}/elsewhere"})
                return True

            with Stub(shared(layout), hook) as stub:
                environment = credentials(place, {"auths": {stub.name: {"auth": encoded("user", "word")}}})
                pull(place, stub, env=environment).refused("does not allow it")
                check(other.seen, "nobody was asked")
                for seen in other.seen:
                    check("Authorization" not in seen[2], f"credentials went to another host: {seen[:2]}")
                    check("/token" not in seen[1], "the other host's token server was asked")


@test("redirected to a file, or from HTTPS to HTTP: not followed", ("openssl",))
def _(place):
    from test_access import authority, trust

    (place.folder / "secret").write_bytes(b"secret")
    with Stub(shared(layout)) as plain:
        for location in (f"file://{place.folder}/secret", "gopher://127.0.0.1:1/", f"http://{plain.name}/v2/x/manifests/latest"):
            ours = shared(authority)
            with Stub(shared(layout), lambda request, *_: request.send(302, headers={"Location": location}) is None,
                      tls=(ours.certificate, ours.key)) as stub:
                trust(place, stub.name, ours)
                pull(place, stub).refused("rotocol")
        equal(plain.seen, [], "requests in clear")


@test("a slow drip: --stall-timeout, and one line")
def _(place):
    def answer(request, body):
        request.cut(body, 100)
        for _ in range(400):
            request.wfile.write(b"x")
            request.wfile.flush()
            time.sleep(0.1)

    with Stub(shared(layout), only_layer(answer)) as stub:
        process = place.start("pull", "--stall-timeout", "2s", f"{stub.name}/x:latest")
        began = time.monotonic()
        while not stub.requests("/blobs/" + blob(stub))[1:] and time.monotonic() - began < 60:
            time.sleep(0.05)
        process.kill()
        errors = process.communicate()[1].decode()
        check("Operation too slow" in errors and "trying again" in errors, errors)
        check(2 <= time.monotonic() - began < 60, f"the second try came after {time.monotonic() - began} s")


@test("another Content-Type than the manifest has, and another digest")
def _(place):
    def wrong_type(request, kind, name):
        if kind != "manifests":
            return False
        request.send(200, request.stub.layout.blob(request.stub.layout.descriptor(name)["digest"]),
                     {"Content-Type": "application/vnd.docker.distribution.manifest.list.v2+json"})
        return True

    def wrong_digest(request, kind, name):
        if kind != "manifests":
            return False
        descriptor = request.stub.layout.manifests[0]
        request.send(200, request.stub.layout.blob(descriptor["digest"]) + b" ", {"Content-Type": descriptor["mediaType"],
                                                                                 "Docker-Content-Digest": descriptor["digest"]})
        return True

    with Stub(shared(layout), wrong_type) as stub:
        pull(place, stub).refused("was sent as")
    with Stub(shared(layout), wrong_digest) as stub:
        pull(place, stub).refused("digest")
        place.pull(f"{stub.name}/x@{stub.layout.manifests[0]['digest']}").refused("digest")


@test("an endless document: one line")
def _(place):
    def hook(request, kind, _):
        if kind != "manifests":
            return False
        request.send(200, b"[" * (6 << 20), {"Content-Type": image.OCI + "manifest.v1+json"})
        return True

    with Stub(shared(layout), hook) as stub:
        pull(place, stub).refused("larger than")


@test("a server that hangs up: tried again, and one line at the end")
def _(place):
    def hook(request, *_):
        request.close_connection = True
        return True

    with Stub(shared(layout), hook) as stub:
        process = place.start("pull", f"{stub.name}/x:latest")
        began = time.monotonic()
        while len(stub.seen) < 3 and time.monotonic() - began < 60:
            time.sleep(0.05)
        process.kill()
        errors = process.communicate()[1].decode()
        check(len(stub.seen) >= 3 and errors.count("trying again") >= 2, errors)
