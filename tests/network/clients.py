# SPDX-License-Identifier: MIT
"""What is allowed is reached, by clients as they are, which know of no proxy."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time

from box import PYTHON, Skip, check, describe, equal, matches, test
from internet import EVIL4, EVIL6, METADATA4, PRIVATE4, PROXY4, WWW4, WWW6, digest, reset, wait_until

BIG = ("-m", "2g", "--pids-limit", "1024", "--disk", "1g", "--timeout", "4m", "-w", "/tmp")
HERE = "www.example.org"


def needs(*programs):
    for program in programs:
        if not os.path.exists(program):
            raise Skip(f"{program} is not installed")


def needs_v6(box):
    if not box.net.have_v6:
        raise Skip("there is no IPv6 here")


def where(port=443, name=HERE, address=WWW4):
    return f"{name} {address} {port}"


@test("curl: https and http, and another name not")
def curl(box):
    needs("/usr/bin/curl")
    result = box.run("curl", "-4sS", "https://www.example.org/where", "http://www.example.org/where")
    equal(result.out, where(443) + "\n" + where(80) + "\n", result)
    equal(sorted(result.allowed), ["www.example.org:443", "www.example.org:80"], result)
    equal(result.blocked, [], result)
    result = box.run("curl", "-sS", "https://evil.example.net/where")
    equal(result.status, 6, result)  # could not resolve host
    check(any(host.startswith("evil.example.net") for host in result.blocked), "the name is not named", result)
    equal(result.allowed, [], result)


@test("curl over IPv6")
def curl_v6(box):
    needs("/usr/bin/curl")
    needs_v6(box)
    result = box.run("curl", "-6sS", "https://www.example.org/where", "http://www.example.org/where")
    equal(result.out, where(443, address=WWW6) + "\n" + where(80, address=WWW6) + "\n", result)


@test("python's urllib")
def urllib(box):
    code = "import urllib.request\nprint(urllib.request.urlopen('https://www.example.org/where').read().decode())"
    result = box.python(code)
    matches(f"^{HERE} ({WWW4}|{WWW6}) 443$", result.out.strip(), result)


@test("git over https")
def git(box):
    needs("/usr/bin/git")
    result = box.run(
        "sh", "-c", "git clone -q https://www.example.org/repository.git got && git -C got log --format=%s", options=BIG
    )
    equal(result.out, "cloned by git\n", result)
    result = box.run("git", "clone", "-q", "https://evil.example.net/repository.git", "got", options=BIG)
    equal(result.status, 128, result)


@test("node's fetch")
def node(box):
    needs("/usr/bin/node")
    code = (
        "fetch(process.argv[1]).then(r => r.text()).then(t => console.log(t)).catch(e => { console.log('error', "
        "e.cause.code) })"
    )
    result = box.run("node", "-e", code, "https://www.example.org/where", options=BIG)
    matches(f"^{HERE} ({WWW4}|{WWW6}) 443$", result.out.strip(), result)
    result = box.run("node", "-e", code, "https://evil.example.net/where", options=BIG)
    equal(result.out, "error ENOTFOUND\n", result)


@test("java's HttpClient")
def java(box):
    needs("/usr/bin/java")
    if not os.path.exists(f"{box.probes}/Fetch.class"):
        raise Skip("javac is not installed")
    # Its releases differ in what of http/2 they offer in a clear request; over TLS they do not.
    result = box.run("java", "-cp", "/probes", "Fetch", "https://www.example.org/where", options=BIG)
    matches(f"^200 {HERE} ({WWW4}|{WWW6}) 443$", result.out.strip(), result)
    result = box.run("java", "-cp", "/probes", "Fetch", "https://evil.example.net/where", options=BIG)
    equal(result.status, 1, result)


@test("go's net/http, with the resolver of its own")
def go(box):
    if not os.path.exists(f"{box.probes}/fetch-go"):
        raise Skip("go is not installed")
    for scheme, port in (("https", 443), ("http", 80)):
        result = box.run("/probes/fetch-go", f"{scheme}://www.example.org/where", options=BIG)
        matches(f"^200 {HERE} ({WWW4}|{WWW6}) {port}$", result.out.strip(), result)
    result = box.run("/probes/fetch-go", "https://evil.example.net/where", options=BIG)
    matches("no such host", result.out, result)


@test("pip installs from an index")
def pip(box):
    needs("/usr/bin/pip3")
    result = box.run(
        "sh",
        "-c",
        f"{PYTHON} -m pip install -q --disable-pip-version-check --no-cache-dir --target here "
        f"-i https://www.example.org/simple nsbxprobe && PYTHONPATH=here {PYTHON} -c 'import nsbxprobe'",
        options=BIG,
    )
    equal(result.out, "installed by pip\n", result)


@test("npm installs from a registry")
def npm(box):
    needs("/usr/bin/npm", "/usr/bin/node")
    # An npmrc of this machine may name a file of authorities, which goes before what the environment says.
    result = box.run(
        "sh",
        "-c",
        "npm install --silent --no-audit --no-fund --cafile $SSL_CERT_FILE --registry "
        "https://www.example.org/npm/ nsbxprobe && "
        "node -e 'require(\"nsbxprobe\")'",
        options=(*BIG, "-e", "npm_config_update_notifier=false"),
    )
    equal(result.out, "installed by npm\n", result)


def rust_of(box):
    """cargo as the sandbox has it, or options that show it the caller's."""
    if os.path.exists("/usr/bin/cargo") and os.path.exists("/usr/bin/rustc"):
        return "/usr/bin/cargo", ()
    rustc = shutil.which("rustc")
    found = subprocess.run(
        [*box.prefix, rustc or "rustc", "--print", "sysroot"], capture_output=True, text=True, check=False
    )
    root = found.stdout.strip()
    if found.returncode or not os.path.exists(f"{root}/bin/cargo"):
        raise Skip("there is no cargo for this user")
    return "/rust/bin/cargo", ("--ro-bind", f"{root}:/rust")


@test("cargo fetches from a registry")
def cargo(box):
    program, options = rust_of(box)
    version = box.run(program, "--version", options=(*BIG, *options, "-e", "PATH=/rust/bin:/usr/bin:/bin")).out.split()[1]
    # Before 1.68 the protocol of such an index was there, but not by default.
    unstable, sparse = ("RUSTC_BOOTSTRAP=1", "-Z sparse-registry") if tuple(map(int, version.split(".")[:2])) < (1, 68) else ("", "")
    manifest = (
        '[package]\nname = "user"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        'nsbxprobe = { version = "1.0.0", registry = "ours" }\n'
    )
    script = (
        f"mkdir src && echo 'fn main() {{}}' >src/main.rs && printf '%s' '{manifest}' >Cargo.toml && "
        f"PATH=/rust/bin:$PATH {unstable} {program} {sparse} fetch -q && ls cargo/registry/src/*"
    )
    result = box.run(
        "sh",
        "-c",
        script,
        options=(
            *BIG,
            *options,
            "-e",
            "CARGO_HOME=/tmp/cargo",
            "-e",
            "CARGO_REGISTRIES_OURS_INDEX=sparse+https://www.example.org/index/",
        ),
    )
    equal(result.out, "nsbxprobe-1.0.0\n", result)


@test("go downloads a module from a proxy")
def go_modules(box):
    program = next((p for p in ("/usr/bin/go", "/usr/local/go/bin/go") if os.path.exists(p)), None)
    if not program:
        raise Skip("go is not installed")
    script = (
        f"mkdir user && cd user && printf 'module user\\n\\ngo 1.19\\n\\nrequire example.org/nsbxprobe v1.0.0\\n"
        f"' >go.mod && {program} mod download && ls ../gopath/pkg/mod/example.org"
    )
    result = box.run(
        "sh",
        "-c",
        script,
        options=(
            *BIG,
            "-e",
            "GOPATH=/tmp/gopath",
            "-e",
            "GOPROXY=https://www.example.org/goproxy",
            "-e",
            "GONOSUMDB=*",
            "-e",
            "GOFLAGS=-mod=mod",
            "-e",
            "GOTOOLCHAIN=local",
            "-e",
            "HOME=/tmp",
        ),
    )
    equal(result.out, "nsbxprobe@v1.0.0\n", result)


@test("names in capitals and with a dot at the end are the same")
def spelling(box):
    result = box.python(
        "for name in ('WWW.Example.ORG', 'www.example.org.', 'wWw.eXample.org.'):\n"
        "    print(tls(resolve(name, socket.AF_INET)[0], name.rstrip('.'), host='x'))"
    )
    equal(result.out, f"200 x {WWW4} 443\n" * 3, result)


@test("a star is for what is below a name")
def wildcard(box):
    result = box.python(
        "say(a=attempt(resolve, 'files.example.org', socket.AF_INET), b=attempt(tls, WWW4, 'files.example.org'))\n"
        "say(a=attempt(resolve, 'example.org'), b=attempt(resolve, 'badexample.org'))\n"
        "say(a=attempt(tls, WWW4, 'a.b.files.example.org'))",
        network="allow=*.example.org",
    )
    equal(result.said[0], {"a": f"through {[WWW4]}", "b": f"through 200 files.example.org {WWW4} 443"}, result)
    equal(result.said[1], {"a": "no name", "b": "no name"}, result)


@test("ports that a rule names, and no others")
def ports(box):
    may = {f"tcp {WWW4} {port}" for port in (8443, 8080)}
    result = box.python(
        "resolve('www.example.org')\n"
        "say(o=[attempt(tls, WWW4, 'www.example.org', 8443), attempt(http, WWW4, 'www.example.org:8080', 8080),"
        "attempt(tls, WWW4, 'www.example.org')])",
        network="allow=www.example.org:8443,www.example.org:8080",
        may=may,
    )
    equal(
        result.said[0]["o"],
        [f"through 200 www.example.org {WWW4} 8443", f"through 200 www.example.org:8080 {WWW4} 8080", "ECONNREFUSED"],
        result,
    )
    equal(sorted(result.allowed), ["www.example.org:8080", "www.example.org:8443"], result)


@test("addresses that a rule has, with bits and ports, need no name")
def addresses(box):
    code = (
        "say(o=[attempt(tls, WWW4, None, 8443), attempt(tls, WWW4, 'anything.example.net', 8443), attempt(tls, "
        "EVIL4, None, 8443),"
        "attempt(tls, '93.184.217.1', None, 8443)])"
    )
    result = box.python(code, network="allow=93.184.216.0/24:8443", may={f"tcp {WWW4} 8443", f"tcp {EVIL4} 8443"})
    seen = result.said[0]["o"]
    matches("^through 200", seen[0], result)
    matches("^through 200", seen[2], result)
    equal(seen[3], "ECONNRESET", result)
    check("93.184.217.1:8443" in result.blocked, "the address is not named", result)
    if box.net.have_v6:
        result = box.python(
            "say(o=[attempt(tls, WWW6, None), attempt(tls, EVIL6, None), attempt(tls, '2606:2800:221::1', None)])",
            network="allow=2606:2800:220::/48",
            may={f"tcp {WWW6} 443", f"tcp {EVIL6} 443"},
        )
        matches("^through 200", result.said[0]["o"][0], result)
        equal(result.said[0]["o"][2], "ECONNRESET", result)


@test("a private address is reached where a rule has it")
def private(box):
    code = "say(o=attempt(resolve, 'private.example.org'), h=attempt(http, '10.0.0.5', 'private.example.org'))"
    result = box.python(code, network=f"allow=private.example.org:80,{PRIVATE4}:80", may={f"tcp {PRIVATE4} 80"})
    equal(result.said[0], {"o": f"through {[PRIVATE4]}", "h": f"through 200 private.example.org {PRIVATE4} 80"}, result)
    result = box.python(
        "say(h=attempt(http, '169.254.169.254', '169.254.169.254'))",
        network=f"allow={METADATA4}:80",
        may={f"tcp {METADATA4} 80"},
    )
    equal(result.said[0]["h"], f"through 200 {METADATA4} {METADATA4} 80", result)


def banner(connection, _):
    """As ssh has it: the server speaks first; then each line is said again."""
    connection.sendall(b"SSH-2.0-tests\r\n")
    with connection.makefile("rb") as lines:
        for line in lines:
            connection.sendall(b"again " + line)
    connection.sendall(b"bye\n")


@test("a protocol whose server speaks first, and halves that are closed")
def server_first(box):
    code = """
resolve('mail.example.org')
with connect(WWW4, 2222) as c:
    first = c.recv(15)
    c.sendall(b'one\\ntwo\\n')
    c.shutdown(socket.SHUT_WR)
    say(first=first.decode(), rest=read_all(c).decode())
"""
    with box.net.serving(2222, banner):
        result = box.python(code, network="allow=mail.example.org:2222", may={f"tcp {WWW4} 2222"})
    equal(result.said[0], {"first": "SSH-2.0-tests\r\n", "rest": "again one\nagain two\nbye\n"}, result)
    equal(result.allowed, ["mail.example.org:2222"], result)


@test("protocols whose clients begin with a word that is also a method of HTTP")
def words(box):
    lines = ["PRI * HTTP/2.0", "CONNECT {}", "OPTIONS rtsp://mail.example.org/ RTSP/1.0", "GET key", "EHLO example.org", "a1 LOGIN x y"]
    code = f"""
resolve('mail.example.org')
for line in {lines}:
    with connect(WWW4, 2223) as c:
        c.sendall(line.encode() + b'\\r\\n')
        say(heard=c.recv(100).decode().strip())
"""

    def echo(connection, _):
        connection.sendall(connection.recv(100))

    with box.net.serving(2223, echo):
        result = box.python(code, network="allow=mail.example.org:2223", may={f"tcp {WWW4} 2223"})
    equal([said["heard"] for said in result.said], lines, result)
    equal(result.blocked, [], result)


@test("a server that closes its half still reads")
def server_half(box):
    heard = []

    def half(connection, _):
        connection.sendall(b"all that I say")
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            heard.append(stream.read())

    code = (
        "resolve('mail.example.org')\nwith connect(WWW4, 2223) as c:\n    print(read_all(c).decode())\n"
        "    time.sleep(.1)\n    c.sendall(b'x' * 100000)\n"
    )
    with box.net.serving(2223, half):
        result = box.python(code, network="allow=mail.example.org:2223", may={f"tcp {WWW4} 2223"})
        wait_until(lambda: heard)
        check(heard == [b"x" * 100000], f"the server heard {[len(h) for h in heard]} bytes", result)
    equal(result.out, "all that I say\n", result)


@test("resets go through in both directions")
def resets(box):
    seen = []

    def one(connection, _):
        connection.sendall(b"now")
        try:
            connection.settimeout(100)
            seen.append(connection.recv(10))
        except OSError as error:
            seen.append(type(error).__name__)

    code = """
resolve('mail.example.org')
say(o=attempt(lambda: read_all(connect(WWW4, 2224))))
c = connect(WWW4, 2225)
c.recv(3)
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
c.close()
time.sleep(.3)
"""
    with box.net.serving(2224, lambda connection, _: reset(connection)), box.net.serving(2225, one):
        result = box.python(
            code,
            network="allow=mail.example.org:2224,mail.example.org:2225",
            may={f"tcp {WWW4} 2224", f"tcp {WWW4} 2225"},
        )
        wait_until(lambda: seen)
    equal(result.said[0]["o"], "ECONNRESET", result)
    equal(seen, ["ConnectionResetError"], result)


@test("what an allowed server refuses is refused")
def refused(box):
    result = box.python(
        "resolve('www.example.org')\nsay(o=attempt(raw, WWW4, 2299, b'x'))",
        network="allow=www.example.org:2299",
        may={f"tcp {WWW4} 2299", f"tcp {WWW6} 2299"},
    )  # where one address refuses, the other is tried
    check(result.said[0]["o"] in ("ECONNRESET", "ECONNREFUSED", "EPIPE"), "it is not refused", result)


@test("a hundred megabytes down and up, unharmed")
def transfers(box):
    size = 100_000_000
    code = f"""
import hashlib, urllib.request
state = hashlib.sha256()
with urllib.request.urlopen('https://www.example.org/bytes/{size}', context=context()) as body:
    while piece := body.read(1 << 20):
        state.update(piece)
class Body:
    left = {size}
    def read(self, size):
        piece = block[:min(self.left, 1 << 20)]
        self.left -= len(piece)
        return piece
import random
block = random.Random(7).randbytes(1 << 20)
request = urllib.request.Request('http://www.example.org/', Body(), {{'Content-Length': '{size}'}}, method='PUT')
say(down=state.hexdigest(), up=urllib.request.urlopen(request).read().decode().strip())
"""
    result = box.python(code)
    equal(result.said[0], {"down": digest(size), "up": digest(size)}, result)


@test("three hundred connections at once: all of them are served")
def many(box):
    code = """
import resource, selectors, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
resolve('www.example.org')
answers = []
def one(number):
    with connect(WWW4, 80) as c:
        c.settimeout(200)
        c.sendall(b'PUT /x HTTP/1.1\\r\\nHost: www.example.org\\r\\n'
                  b'Content-Length: 1000\\r\\nConnection: close\\r\\n\\r\\n')
        time.sleep(.5)
        c.sendall(b'%1000d' % number)
        answers.append(status_and_body(read_all(c))[:4])
threads = [threading.Thread(target=one, args=(n,)) for n in range(300)]
[t.start() for t in threads]
[t.join() for t in threads]
say(count=answers.count('200 '))
"""
    result = box.python(code, options=("--pids-limit", "1000", "--open-files", "4096", "-m", "1g"))
    equal(result.said, [{"count": 300}], result)


@test("a name of the host's /etc/hosts, which nobody is asked for")
def hosts_file(box):
    box.net.hosts(f"{WWW4} only-here.example.org\n{EVIL4} other-here.example.org\n")
    code = (
        "say(o=[attempt(resolve, 'only-here.example.org'), attempt(http, WWW4, 'only-here.example.org'), "
        "attempt(resolve, 'other-here.example.org')])"
    )
    result = box.python(code, network="allow=only-here.example.org")
    equal(result.said[0]["o"], [f"through {[WWW4]}", f"through 200 only-here.example.org {WWW4} 80", "no name"], result)
    check("only-here.example.org" not in box.net.dns.names(), "a server of DNS was asked", result)


@test("a private address of the host's /etc/hosts needs a rule as well")
def hosts_private(box):
    box.net.hosts(f"{PRIVATE4} db.example.org\n127.0.0.1 me.example.org\n")
    code = (
        "say(o=[attempt(resolve, 'db.example.org'), attempt(http, '10.0.0.5', 'db.example.org'), attempt(resolve, "
        "'me.example.org')])"
    )
    result = box.python(code, network="allow=db.example.org,me.example.org", may=())
    equal(result.said[0]["o"], ["no name", "ECONNRESET", "no name"], result)
    result = box.python(code, network=f"allow=db.example.org,{PRIVATE4}", may={f"tcp {PRIVATE4} 80"})
    equal(result.said[0]["o"][:2], [f"through {[PRIVATE4]}", f"through 200 db.example.org {PRIVATE4} 80"], result)


# --- a company's proxy ---


class Proxy:
    """CONNECT only; notes what it was told."""

    def __init__(self, status="200 Connection established"):
        self.heads, self.status = [], status

    def __call__(self, connection, _):
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := connection.recv(1)):
                return
            head += piece
        self.heads.append(head.decode())
        connection.sendall(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        target, _, port = head.split()[1].decode().rpartition(":")
        if not self.status.startswith("200"):
            return
        address = {"www.example.org": WWW4, "behind.example.org": WWW4, "evil.example.net": EVIL4}.get(target, target)
        with socket.create_connection((address, int(port))) as other:
            threads = [
                threading.Thread(target=self.copy, args=pair) for pair in ((connection, other), (other, connection))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)

    def targets(self):
        return [head.split()[1] for head in self.heads]


PROXIED = {f"tcp {PROXY4} 3128", f"tcp {WWW4} 443", f"tcp {WWW4} 80", f"tcp {WWW6} 443", f"tcp {WWW6} 80"}


@test("the host's HTTPS_PROXY is used, and its password is not seen inside")
def proxy(box):
    there = Proxy()
    environment = {"HTTPS_PROXY": f"http://someone:s3cret@{PROXY4}:3128"}
    code = """
import urllib.request
say(body=urllib.request.urlopen('https://www.example.org/where', context=context()).read().decode().strip(),
    behind=attempt(lambda: tls(resolve('behind.example.org')[0], 'behind.example.org')),
    env={k: v for k, v in os.environ.items() if 'PROXY' in k.upper() or 's3cret' in v})
"""
    with box.net.serving(3128, there):
        result = box.python(
            code, network="allow=www.example.org,behind.example.org", may=PROXIED, environment=environment
        )
    matches("^www.example.org .* 443$", result.said[0]["body"], result)
    matches("^through 200 behind.example.org", result.said[0]["behind"], result)
    equal(result.said[0]["env"], {}, result)
    equal(sorted(set(there.targets())), ["behind.example.org:443", "www.example.org:443"], result)
    check(
        all("Proxy-Authorization: Basic c29tZW9uZTpzM2NyZXQ=" in head for head in there.heads), f"{there.heads}", result
    )
    check("s3cret" not in describe(result), "the password is in the result", result)


@test("a proxy gets no name that is not allowed, and none that NO_PROXY has")
def no_proxy(box):
    there = Proxy()
    environment = {"https_proxy": f"http://{PROXY4}:3128", "NO_PROXY": "localhost,.example.org"}
    code = """
say(evil=attempt(resolve, 'evil.example.net'),
    www=attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')))
say(sni=attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'evil.example.net')))
"""
    with box.net.serving(3128, there):
        result = box.python(code, may=PROXIED, environment=environment)
        equal(there.targets(), [], result)
        equal(result.said[0], {"evil": "no name", "www": f"through 200 www.example.org {WWW4} 443"}, result)
        environment["NO_PROXY"] = ""
        result = box.python(code, may=PROXIED, environment=environment)
    equal(set(there.targets()), {"www.example.org:443"}, result)
    equal(result.said[0]["evil"], "no name", result)
    equal(result.said[1]["sni"], "ECONNRESET", result)


@test("a proxy that refuses, or is not there, is said")
def bad_proxy(box):
    environment = {"HTTPS_PROXY": f"http://{PROXY4}:3128"}
    code = "say(o=attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')))"
    with box.net.serving(3128, Proxy("403 Forbidden")):
        result = box.python(code, may={f"tcp {PROXY4} 3128"}, environment=environment)
    equal(result.said[0]["o"], "ECONNRESET", result)
    result = box.python(code, may={f"tcp {PROXY4} 3129"}, environment={"HTTPS_PROXY": f"http://{PROXY4}:3129"})
    equal(result.said[0]["o"], "ECONNRESET", result)


@test("a proxy by its name, in the host's hosts file or asked for; on the host's own loopback")
def proxy_names(box):
    code = (
        "say(o=attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')),"
        " p=attempt(resolve, 'proxy.example.net'))"
    )
    places = {f"tcp {PROXY4} 3128", f"tcp 127.0.0.1 3128", f"tcp {WWW4} 443"}
    for name in (
        "proxy.example.net",
        "proxy.hosts.example.net",
        "127.0.0.1",
        "[::1]" if box.net.have_v6 else "127.0.0.1",
    ):
        there = Proxy()
        box.net.dns.zone["proxy.example.net"] = [PROXY4]
        box.net.hosts(f"{PROXY4} proxy.hosts.example.net\n")
        with box.net.serving(3128, there):
            result = box.python(
                code, may={*places, "tcp ::1 3128"}, environment={"HTTPS_PROXY": f"http://{name}:3128/"}
            )
        matches("^through 200 www.example.org", result.said[0]["o"], result)
        equal(result.said[0]["p"], "no name", result)
        equal(there.targets(), ["www.example.org:443"], result)


@test("proxies that answer nonsense, too much, slowly, or more than the answer at once")
def odd_proxies(box):
    def one(answer, pause=0.0):
        def handler(connection, _):
            head = b""
            while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
                head += piece
            for start in range(0, len(answer), 1 if pause else len(answer)):
                connection.sendall(answer[start : start + (1 if pause else len(answer))])
                time.sleep(pause)
            connection.settimeout(100)
            connection.recv(1)

        return handler

    code = """
def talk():
    with connect(resolve('mail.example.org')[0], 2300) as c:
        c.settimeout(100)
        c.sendall(b'x')
        return read_all(c)
tried(talk)
"""
    good = b"HTTP/1.1 200 OK\r\nX-Proxy: yes\r\n\r\nfirst words"
    for answer, pause, outcome in (
        (good, 0.0, "through b'first words'"),
        (good, 0.002, "through b'first words'"),
        (b"HTTP/1.0 200\r\n\r\nfirst words", 0.0, "through b'first words'"),
        (b"", 0.0, "ECONNRESET"),
        (b"SSH-2.0-x\r\n\r\n", 0.0, "ECONNRESET"),
        (b"HTTP/1.1 407 Who are you\r\n\r\n", 0.0, "ECONNRESET"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100000, 0.0, "ECONNRESET"),
        (b"HTTP/1.1 99999999999999999999 OK\r\n\r\n", 0.0, "ECONNRESET"),
        (os.urandom(5000), 0.0, "ECONNRESET"),
    ):
        with box.net.serving(3128, one(answer, pause) if answer else lambda connection, _: None):
            result = box.python(
                code,
                network="allow=mail.example.org:2300",
                may={f"tcp {PROXY4} 3128"},
                environment={"ALL_PROXY": f"{PROXY4}:3128"},
            )
        equal(result.outcome, outcome, result)
        if outcome == "ECONNRESET":
            equal(result.allowed, [], result)


@test("a proxy of another kind is refused before anything runs")
def other_proxies(box):
    for url in (
        "socks5://127.0.0.1:1080",
        "https://proxy.example.net",
        "http://:0",
        "http://bad host:1",
        "http://a:b:c",
    ):
        process = box.start("run", "--network", "allow=www.example.org", "--", "true", environment={"HTTPS_PROXY": url})
        _, errors = process.communicate(timeout=100)
        equal((url, process.returncode), (url, 125))
        matches("HTTPS_PROXY", errors)
        check("s3cret" not in errors and len(errors.splitlines()) <= 2, errors)


@test("the host's own loopback by the name that it has inside, where a rule has that name and the port")
def host_name(box):
    heard = []

    def here(connection, address):
        heard.append(address)
        connection.sendall(b"here")

    code = (
        "say(o=attempt(resolve, 'host.nsbox.internal'), r=attempt(lambda: raw(resolve('host.nsbox.internal')[0], "
        "7071, b'x')))"
    )
    with box.net.serving(7071, here):
        result = box.python(code, network="allow=host.nsbox.internal:7071", may={"tcp 127.0.0.1 7071"})
        equal(result.said[0]["r"], "through b'here'", result)
        equal(heard, ["127.0.0.1"], result)
        for rules in (
            "www.example.org:7071",
            "*.nsbox.internal:7071",
            "host.nsbox.internal:7072,www.example.org:7071",
        ):
            result = box.python(code, network=f"allow={rules}", may=())
            check(not result.said[0]["r"].startswith("through"), f"with {rules}", result)
        equal(heard, ["127.0.0.1"], result)
