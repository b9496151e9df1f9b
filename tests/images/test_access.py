# SPDX-License-Identifier: MIT
"""TLS with a CA of one's own, passwords, tokens, credential helpers."""

import base64
import json
import os
import time
import urllib.parse

import image
from harness import check, equal, run, shared, test
from registries import Stub, docker_registry, push

TLS = ("openssl",)
IMAGE = [image.layer([image.Entry("file", content="x")])]


class Authority:
    """A CA, and a certificate of it for this machine."""

    def __init__(self, folder):
        self.ca, self.key, self.certificate = folder / "ca.crt", folder / "server.key", folder / "server.crt"
        ca_key, request, names = folder / "ca.key", folder / "request", folder / "names"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", f"/CN=test {folder.name}", "-keyout", ca_key, "-out", self.ca)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=server",
            "-keyout", self.key, "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "30",
            "-extfile", names, "-out", self.certificate)


def authority(folder):
    return Authority(folder)


def other_authority(folder):
    return Authority(folder)


def layout(folder):
    return image.simple(folder / "layout", IMAGE)


def trust(place, registry, authority_):
    folder = place.home / ".config/containers/certs.d" / registry
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.crt").write_bytes(authority_.ca.read_bytes())


def encoded(user, password):
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def credentials(place, content, name="auth.json"):
    """The environment with credentials."""
    path = place.folder / name
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return {"REGISTRY_AUTH_FILE": str(path)}


@test("TLS: a CA in certs.d; another CA, or none: one line, and nothing in clear", TLS)
def _(place):
    ours = shared(authority)
    with Stub(shared(layout), tls=(ours.certificate, ours.key)) as stub:
        name = f"{stub.name}/x:latest"
        place.pull(name).refused("certificate.*\n.*certs.d")
        trust(place, stub.name, shared(other_authority))
        place.pull(name).refused("certificate.*\n.*certs.d")
        equal(stub.seen, [], "requests")
        trust(place, stub.name, ours)
        place.pull(name).ok()


@test("TLS: --insecure takes a certificate that nobody vouches for", TLS)
def _(place):
    ours = shared(authority)
    with Stub(shared(layout), tls=(ours.certificate, ours.key)) as stub:
        place.pull(f"{stub.name}/x:latest", "--insecure").ok()


@test("docker-registry with TLS and htpasswd: REGISTRY_AUTH_FILE, wrong ones, none", ("docker-registry", "skopeo", "htpasswd", *TLS))
def _(place):
    ours = shared(authority)
    folder = place.folder / "registry"
    folder.mkdir()
    (folder / "htpasswd").write_text(run("htpasswd", "-Bbn", "-C", "4", "user", "secret:word"))
    registry = docker_registry(folder, (ours.certificate, ours.key), folder / "htpasswd")
    trust(place, registry, ours)
    name = f"{registry}/some/name:1"
    push(f"oci:{shared(layout).folder}:latest", name, "--dest-creds", "user:secret:word")
    place.pull(name).refused("does not allow it.*UNAUTHORIZED.*\n.*podman login " + registry)
    wrong = credentials(place, {"auths": {registry: {"auth": encoded("user", "wrong")}}})
    place.pull(name, env=wrong).refused("does not allow it.*\n.*do not do")
    right = {registry: {"auth": encoded("user", "secret:word")}}
    place.pull(name, env=credentials(place, {"auths": right})).ok()


@test("credentials: the places where they are looked for", ())
def _(place):
    def hook(request, kind, _):
        if request.headers.get("Authorization") == "Basic " + encoded("user", "word"):
            return False
        request.send(401, headers={"WWW-Authenticate": 'Basic realm="test"'})
        return True

    with Stub(shared(layout), hook) as stub:
        name = f"{stub.name}/x:latest"
        right = json.dumps({"auths": {stub.name: {"auth": encoded("user", "word")}}})
        other = {"XDG_RUNTIME_DIR": str(place.home / "run"), "DOCKER_CONFIG": str(place.home / "docker")}
        for path in ("run/containers/auth.json", ".config/containers/auth.json", ".docker/config.json", "docker/config.json"):
            file = place.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            place.pull(name, env=other if path.startswith(("run", "docker")) else None).refused("does not allow it")
            file.write_text(right)
            place.pull(name, env=other if path.startswith(("run", "docker")) else None).ok()
            file.unlink()
        for wrong in ("{", '{"auths": {"%s": {"auth": "***"}}}' % stub.name, '{"auths": {"%s": {"auth": "dXNlcg=="}}}' % stub.name):
            (place.home / ".docker/config.json").write_text(wrong)
            place.pull(name).refused("config.json")


class Tokens:
    """The hook of a registry that wants a token of its own server's."""

    def __init__(self, accepts, token="t0ken"):
        self.accepts, self.token, self.asked = accepts, token, []

    def __call__(self, request, kind, _):
        if kind == "token":
            length = int(request.headers.get("Content-Length") or 0)
            query = request.path.partition("?")[2] or request.rfile.read(length).decode()
            fields = dict(urllib.parse.parse_qsl(query))
            self.asked.append((request.command, request.headers.get("Authorization"), fields))
            if self.accepts(request, fields):
                request.send(200, json.dumps({"token": self.token, "expires_in": 300}).encode())
            else:
                request.send(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}')
            return True
        if request.headers.get("Authorization") == f"Bearer {self.token}":
            return False
        challenge = (f'Bearer realm="http://{request.stub.name}/token",service="the service",'
                     'scope="repository:some/name:pull"')
        request.send(401, headers={"WWW-Authenticate": challenge})
        return True


@test("tokens: for nobody, and for a user with a password")
def _(place):
    anybody = Tokens(lambda request, fields: True)
    with Stub(shared(layout), anybody) as stub:
        place.pull(f"{stub.name}/some/name:latest").ok()
        method, authorization, fields = anybody.asked[0]
        equal((method, authorization), ("GET", None), "request for a token")
        equal((fields["service"], fields["scope"]), ("the service", "repository:some/name:pull"), "what is asked for")
        equal(len(anybody.asked), 1, "requests for tokens")
    user = Tokens(lambda request, fields: request.headers.get("Authorization") == "Basic " + encoded("user", "word"))
    with Stub(shared(layout), user) as stub:
        name = f"{stub.name}/some/name:latest"
        place.pull(name).refused("token.*does not allow it.*who are you")
        place.pull(name, env=credentials(place, {"auths": {stub.name: {"auth": encoded("user", "word")}}})).ok()


@test("tokens: an identity token")
def _(place):
    tokens = Tokens(lambda request, fields: request.command == "POST" and fields.get("refresh_token") == "id+token/="
                    and fields.get("grant_type") == "refresh_token")
    with Stub(shared(layout), tokens) as stub:
        identity = {"auths": {stub.name: {"auth": encoded("00000000-0000-0000-0000-000000000000", ""),
                                          "identitytoken": "id+token/="}}}
        place.pull(f"{stub.name}/some/name:latest", env=credentials(place, identity)).ok()


@test("tokens: a server that gives none, or one that cannot be understood")
def _(place):
    for answer in (b"{}", b"no JSON", b'{"token": 5}', b'{"token": "a\\r\\nX-Evil: 1"}'):
        def hook(request, kind, name):
            if kind == "token":
                request.send(200, answer)
                return True
            return tokens(request, kind, name)

        tokens = Tokens(lambda request, fields: True)
        with Stub(shared(layout), hook) as stub:
            done = place.pull(f"{stub.name}/some/name:latest", "--quiet")
            done.refused("gave no token")
            check(not [each for each in stub.seen if "X-Evil" in each[2]], "a token became a header")


@test("credential helpers: asked for the registry, missing, failing")
def _(place):
    folder = place.folder / "bin"
    folder.mkdir()
    helper = folder / "docker-credential-test"
    log = place.folder / "log"
    helper.write_text(f'#!/bin/sh\nread -r server\necho "$1 $server" >>{log}\n'
                      'printf \'{"ServerURL":"%s","Username":"user","Secret":"word"}\' "$server"\n')
    helper.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    user = Tokens(lambda request, fields: request.headers.get("Authorization") == "Basic " + encoded("user", "word"))
    with Stub(shared(layout), user) as stub:
        name = f"{stub.name}/some/name:latest"
        for content in ({"credHelpers": {stub.name: "test"}}, {"credsStore": "test"}):
            place.pull(name, env=credentials(place, content) | path).ok()
        equal(log.read_text(), f"get {stub.name}\n" * 2, "what the helper was asked")
        place.pull(name, env=credentials(place, {"credHelpers": {stub.name: "absent"}}) | path).refused(
            "docker-credential-absent.* is not in PATH")
        place.pull(name, env=credentials(place, {"credHelpers": {stub.name: "../evil"}}) | path).refused("no name of a credential")
        helper.write_text("#!/bin/sh\necho nonsense\n")
        place.pull(name, env=credentials(place, {"credHelpers": {stub.name: "test"}}) | path).refused("nothing that could be")


@test("a name that only begins like the loopback interface gets no plain HTTP")
def _(place):
    def proxy(request, kind, name):
        if request.command == "CONNECT":
            request.send(200)
            request.close_connection = True
            return True
        return False

    with Stub(shared(layout), proxy) as stub:
        proxies = {"https_proxy": f"http://{stub.name}", "http_proxy": f"http://{stub.name}", "no_proxy": ""}
        for host in ("localhost.example.org", "127.example.org"):
            done = place.start("pull", f"{host}/x:latest", env=proxies)
            began = time.monotonic()
            while not stub.requests(host) and time.monotonic() - began < 60:
                time.sleep(0.05)
            try:
                done.communicate(timeout=3)
            except Exception:  # pylint: disable=broad-except
                done.kill()
                done.communicate()
            check(stub.requests(host), f"no request for {host}")
            check(not [each for each in stub.seen if each[0] != "CONNECT"], f"plain HTTP: {stub.seen}")
