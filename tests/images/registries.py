# SPDX-License-Identifier: MIT
"""Registries on the loopback interface: Debian's docker-registry, and a stub that can misbehave."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import free_port, run, start_server


def docker_registry(folder, tls=None, htpasswd=None):
    """Starts docker-registry with its data in `folder`; returns HOST:PORT. `tls`: certificate and key."""
    port = free_port()
    config = {"version": 0.1, "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
              "http": {"addr": f"127.0.0.1:{port}"}}
    if tls:
        config["http"]["tls"] = {"certificate": str(tls[0]), "key": str(tls[1])}
    if htpasswd:
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(htpasswd)}}
    (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    start_server(["docker-registry", "serve", folder / "config.yml"], port)
    return f"127.0.0.1:{port}"


def push(source, target, *options):
    run("skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *options, source, f"docker://{target}")


class Stub:
    """
    A registry that serves an image layout. `hook(request, kind, name)` sees each request first and answers it where it
    returns True; kind is «manifests», «blobs» or the first part of another path.
    """

    def __init__(self, layout, hook=None, tls=None):
        self.layout, self.hook = layout, hook
        self.seen = []  # (method, path, headers)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.daemon_threads = True
        self.server.stub = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.name = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def requests(self, part):
        """Those whose path has `part` in it."""
        return [each for each in self.seen if part in each[1]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    @property
    def stub(self):
        return self.server.stub

    def send(self, status, body=b"", headers=(), length=None):
        """An answer; `length` is what Content-Length says."""
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def cut(self, body, count, headers=(), status=200):
        """The headers of the whole, and only the first bytes of it."""
        self.send(status, body[:count], headers, len(body))
        self.wfile.flush()
        self.close_connection = True

    def first_byte(self):
        wanted = self.headers.get("Range", "")
        return int(wanted[6:].split("-")[0]) if wanted.startswith("bytes=") else 0

    def send_blob(self, body):
        first = self.first_byte()
        if first:
            self.send(206, body[first:], {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"})
        else:
            self.send(200, body)

    def do_GET(self):
        stub = self.stub
        stub.seen.append((self.command, self.path, dict(self.headers)))
        path = self.path.split("?")[0].strip("/").split("/")
        kind, name = (path[-2], path[-1]) if len(path) > 3 and path[-2] in ("manifests", "blobs") else (path[0], path[-1])
        if stub.hook and stub.hook(self, kind, name):
            return
        try:
            if kind == "manifests":
                descriptor = stub.layout.descriptor(name)
                digest = descriptor["digest"] if descriptor else name
                body = stub.layout.blob(digest)
                media_type = descriptor["mediaType"] if descriptor else json.loads(body)["mediaType"]
                self.send(200, body, {"Content-Type": media_type, "Docker-Content-Digest": digest})
            elif kind == "blobs":
                self.send_blob(stub.layout.blob(name))
            else:
                self.send(200)
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            self.send(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not here"}]}')

    do_HEAD = do_POST = do_CONNECT = do_GET
