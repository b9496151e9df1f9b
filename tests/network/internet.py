# SPDX-License-Identifier: MIT
"""
An Internet in a network namespace of its own: every address in the world is on its loopback interface.

Names are answered by a server of DNS that does what a test says, connections by servers on [::] that see which address
was dialled, and each packet that somebody sends is seen by a packet socket: what a sandbox reached is what was seen
there, whatever the code inside believes.
"""

import contextlib
import ctypes
import dataclasses
import hashlib
import http.server
import ipaddress
import os
import random
import socket
import ssl
import struct
import subprocess
import threading
import time

WWW4, WWW6 = "93.184.216.34", "2606:2800:220::34"
EVIL4, EVIL6 = "93.184.216.66", "2606:2800:220::66"
DNS4, SECOND_DNS4 = "93.184.216.53", "93.184.216.54"
PROXY4 = "93.184.216.88"
PRIVATE4, METADATA4, PRIVATE6 = "10.0.0.5", "169.254.169.254", "fd00::5"

# Names of Linux that Python 3.11 lacks.
IP_RECVORIGDSTADDR, IP_FREEBIND, IPV6_FREEBIND = 20, 15, 78
SO_ATTACH_FILTER, PACKET_OUTGOING, ETH_P_ALL = 26, 4, 3

A, CNAME, TXT, AAAA, HTTPS = 1, 5, 16, 28, 65
NO_ERROR, SERVER_FAILURE, NO_NAME = 0, 2, 3


def run(*command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **options)


def enter(work):
    """
    Makes the namespaces that we are in the Internet's, with resolv.conf and hosts of its own. In a mount namespace, so
    that the machine's stay as they are.
    """
    run("ip", "link", "set", "lo", "up")
    run("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo")
    have_v6 = (
        subprocess.run(["ip", "-6", "route", "add", "local", "::/0", "dev", "lo"], stderr=subprocess.DEVNULL).returncode
        == 0
    )
    for name in ("resolv.conf", "hosts"):
        (work / name).write_text("")
        (work / name).chmod(0o644)
        run("mount", "--bind", work / name, os.path.realpath(f"/etc/{name}"))
    return have_v6


# --- what was sent ---

# TCP: a SYN without ACK. Everything else whole.
_FILTER = [
    (0x30, 0, 0, 0),
    (0x54, 0, 0, 0xF0),
    (0x15, 2, 0, 0x40),
    (0x15, 8, 0, 0x60),
    (0x06, 0, 0, 0),
    (0x30, 0, 0, 9),
    (0x15, 1, 0, 6),
    (0x06, 0, 0, 128),
    (0xB1, 0, 0, 0),
    (0x50, 0, 0, 13),
    (0x54, 0, 0, 0x12),
    (0x15, 6, 7, 0x02),
    (0x30, 0, 0, 6),
    (0x15, 1, 0, 6),
    (0x06, 0, 0, 128),
    (0x30, 0, 0, 53),
    (0x54, 0, 0, 0x12),
    (0x15, 0, 1, 0x02),
    (0x06, 0, 0, 128),
    (0x06, 0, 0, 0),
]


class Sniffer:
    """What was sent, as «tcp ADDRESS PORT», «udp ADDRESS PORT», «icmp ADDRESS» or «protocol N ADDRESS»."""

    MARK = "192.0.2.77"

    def __init__(self):
        self.seen = set()
        self._marks = 0
        self._arrived = threading.Condition()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        code = b"".join(struct.pack("HBBI", *line) for line in _FILTER)
        buffer = ctypes.create_string_buffer(code)
        self._socket.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(_FILTER), ctypes.addressof(buffer))
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind(("lo", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            packet, source = self._socket.recvfrom(128)
            if source[2] == PACKET_OUTGOING:
                self._note(packet)

    def _note(self, packet):
        if packet[0] >> 4 == 4:
            kind, target, rest = packet[9], str(ipaddress.ip_address(packet[16:20])), packet[(packet[0] & 15) * 4 :]
        else:
            kind, target, rest = packet[6], str(ipaddress.ip_address(packet[24:40])), packet[40:]
        if target == self.MARK:
            with self._arrived:
                self._marks += 1
                self._arrived.notify_all()
        elif kind in (6, 17) and len(rest) >= 4:
            source_port, port = struct.unpack("!HH", rest[:4])
            if kind == 6 or source_port != 53:  # a server's answer is none of the gate's words
                self.seen.add(f"{'tcp' if kind == 6 else 'udp'} {target} {port}")
        elif kind in (1, 58):
            if rest[:1] in (b"\x08", b"\x80"):  # not the kernel's errors
                self.seen.add(f"icmp {target}")
        elif kind != 0:
            self.seen.add(f"protocol {kind} {target}")

    def take(self):
        """All since the last time."""
        with self._arrived:
            wanted = self._marks + 1
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
                mark.sendto(b"", (self.MARK, 9))
            if not self._arrived.wait_for(lambda: self._marks >= wanted, 60):
                raise AssertionError("the packet socket is late")
        seen, self.seen = self.seen, set()
        return seen


# --- DNS ---


def name_to_wire(name):
    labels = [label.encode() for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def wire_to_name(message, at):
    labels = []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels).lower(), at + 1


def address_record(name, address, ttl=60):
    packed = ipaddress.ip_address(address).packed
    return record(name, A if len(packed) == 4 else AAAA, packed, ttl)


def record(name, kind, data, ttl=60):
    return name_to_wire(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def cname_record(name, target, ttl=60):
    return record(name, CNAME, name_to_wire(target), ttl)


@dataclasses.dataclass
class Query:
    message: bytes
    name: str
    type: int
    transport: str
    server: str

    @property
    def id(self):
        return struct.unpack("!H", self.message[:2])[0]

    @property
    def question(self):
        return self.message[12 : wire_to_name(self.message, 12)[1] + 4]

    def answer(self, records=(), code=NO_ERROR, id=None, truncated=False, question=None):
        flags = 0x8180 | code | (0x0200 if truncated else 0)
        head = struct.pack("!HHHHHH", self.id if id is None else id, flags, 1, len(records), 0, 0)
        return head + (self.question if question is None else question) + b"".join(records)


class Dns:
    """
    Answers from `zone`: name → a list of addresses, «CNAME target» among them, or a function of a Query that returns
    the message or messages to send, or None for silence. A name that is not there does not exist. `queries` has all
    that came.
    """

    def __init__(self, addresses):
        self.zone, self.queries = {}, []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                listener = socket.socket(family, kind)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.setsockopt(
                    *((socket.IPPROTO_IPV6, IPV6_FREEBIND) if ":" in address else (socket.IPPROTO_IP, IP_FREEBIND)), 1
                )
                listener.bind((address, 53))
                if kind == socket.SOCK_STREAM:
                    listener.listen(128)
                threading.Thread(
                    target=self._udp if kind == socket.SOCK_DGRAM else self._tcp, args=(listener, address), daemon=True
                ).start()

    def names(self):
        return {query.name for query in self.queries}

    def _reply(self, message, transport, server):
        try:
            name, end = wire_to_name(message, 12)
            query = Query(message, name, struct.unpack("!H", message[end : end + 2])[0], transport, server)
        except (IndexError, struct.error):
            return []
        self.queries.append(query)
        entry = self.zone.get(name)
        if entry is None:
            return [query.answer(code=NO_NAME)]
        if callable(entry):
            said = entry(query)
            return [] if said is None else [said] if isinstance(said, bytes) else list(said)
        return [query.answer(self.records(name, query.type))]

    def records(self, name, kind):
        result, owner = [], name
        for value in self.zone.get(name, []):
            if value.startswith("CNAME "):
                target = value.split()[1]
                result.append(cname_record(owner, target))
                if not callable(self.zone.get(target)):
                    result += self.records(target, kind)
            elif (":" in value) == (kind == AAAA) and kind in (A, AAAA):
                result.append(address_record(owner, value))
        return result

    def _udp(self, listener, address):
        while True:
            message, peer = listener.recvfrom(65535)
            for answer in self._reply(message, "udp", address):
                with contextlib.suppress(OSError):
                    listener.sendto(answer, peer)

    def _tcp(self, listener, address):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._tcp_one, args=(connection, address), daemon=True).start()

    def _tcp_one(self, connection, address):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(2)) == 2:
                message = stream.read(struct.unpack("!H", head)[0])
                for answer in self._reply(message, "tcp", address):
                    connection.sendall(struct.pack("!H", len(answer)) + answer)


# --- servers ---

BLOCK = random.Random(7).randbytes(1 << 20)


def pattern(size):
    """Bytes that are not the same at two places close to each other, by pieces."""
    for start in range(0, size, len(BLOCK)):
        yield BLOCK[: size - start]


def digest(size):
    state = hashlib.sha256()
    for piece in pattern(size):
        state.update(piece)
    return state.hexdigest()


class Web(http.server.BaseHTTPRequestHandler):
    """/where says who was asked for and where; /bytes/N is N bytes; what is sent is answered by its SHA-256."""

    protocol_version = "HTTP/1.1"
    timeout = 300
    files = None

    def log_message(self, *_):
        pass

    def _send(self, body, status=200, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("/where"):
            local = self.connection.getsockname()
            self._send(f"{self.headers['Host']} {plain(local[0])} {local[1]}\n".encode(), kind="text/plain")
        elif path.startswith("/bytes/"):
            size = int(path.split("/")[2])
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            for piece in pattern(size):
                self.wfile.write(piece)
        else:
            self._file(path)

    do_HEAD = do_GET

    def _file(self, path):
        name = os.path.join(self.files, path.lstrip("/"))
        if os.path.isdir(name):
            name = os.path.join(name, "index.html")
        try:
            with open(name, "rb") as file:
                body = file.read()
        except OSError:
            return self._send(b"not found\n", 404)
        host = self.headers["Host"] or ""
        scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
        kind = (
            "text/html"
            if name.endswith(".html")
            else "application/json" if name.endswith("json") else "application/octet-stream"
        )
        return self._send(body.replace(b"@URL@", f"{scheme}://{host}".encode()), kind=kind)

    def do_PUT(self):
        state, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            if not piece:
                return
            state.update(piece)
            left -= len(piece)
        self._send(f"{state.hexdigest()}\n".encode())

    do_POST = do_PUT


def plain(address):
    """An address as it was dialled: without ::ffff: before an IPv4 one."""
    mapped = ipaddress.ip_address(address.split("%")[0])
    return str(getattr(mapped, "ipv4_mapped", None) or mapped)


class Internet:
    """The servers. `serve` gives a port a function of (socket, address that was dialled), in a thread of its own."""

    def __init__(self, work, have_v6):
        self.have_v6 = have_v6
        self.work = work
        self.sniffer = Sniffer()
        self.dns = Dns([DNS4, SECOND_DNS4])
        self.connections = []  # (address, port) in the order in which they came
        self.names = []  # that clients of TLS asked for
        self._handlers = {}
        self.resolvers()
        self.hosts()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(work / "server.pem", work / "server.key")
        self._context.sni_callback = lambda _, name, __: self.names.append(name)
        Web.files = str(work / "files")
        self.serve(80, self.web)
        self.serve(443, self.secure_web)
        self.serve(8443, self.secure_web)
        self.serve(8080, self.web)

    def resolvers(self, *addresses, options=""):
        (self.work / "resolv.conf").write_text(
            "".join(f"nameserver {address}\n" for address in addresses or [DNS4]) + options
        )

    def hosts(self, text=""):
        (self.work / "hosts").write_text("127.0.0.1 localhost\n" + text)

    def zone(self):
        """The names that are there at the beginning of each test."""
        www = [WWW4, WWW6] if self.have_v6 else [WWW4]
        evil = [EVIL4, EVIL6] if self.have_v6 else [EVIL4]
        self.dns.zone = {
            "www.example.org": www,
            "files.example.org": www,
            "mail.example.org": www,
            "deep.www.example.org": evil,
            "evil.example.net": evil,
            "example.org": evil,
            "badexample.org": evil,
            "evilwww.example.org": evil,
            "www.example.org.evil.example.net": evil,
            "dns.google": ["8.8.8.8"],
            "private.example.org": [PRIVATE4],
            "alias.example.org": ["CNAME evil.example.net"],
            "four.example.org": [WWW4],
            "six.example.org": [WWW6],
        }
        self.dns.queries.clear()
        self.connections.clear()
        self.names.clear()
        self.resolvers()
        self.hosts()

    def web(self, connection, address):
        with contextlib.suppress(OSError, ValueError):
            Web(connection, address, None)

    def secure_web(self, connection, address):
        with contextlib.suppress(OSError, ValueError):
            connection.settimeout(200)
            with self._context.wrap_socket(connection, server_side=True) as secure:
                self.web(secure, address)
                secure.unwrap()

    def serve(self, port, handler, backlog=4096):
        """Replaces what was on this port."""
        there = port in self._handlers
        self._handlers[port] = handler
        if not there:
            family = socket.AF_INET6 if self.have_v6 else socket.AF_INET
            listener = socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=self.have_v6)
            threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    @contextlib.contextmanager
    def serving(self, port, handler):
        before = self._handlers.get(port, lambda connection, _: None)
        self.serve(port, handler)
        yield
        self._handlers[port] = before

    def _accept(self, listener, port):
        while True:
            connection, _ = listener.accept()
            address = plain(connection.getsockname()[0])
            self.connections.append((address, port))
            threading.Thread(target=self._handle, args=(connection, address, port), daemon=True).start()

    def _handle(self, connection, address, port):
        with contextlib.suppress(OSError), connection:
            self._handlers[port](connection, address)


def reset(connection):
    """Closes a connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def certificates(work):
    """A CA of our own in ca.pem, and a certificate for all names of the zone."""

    def openssl(*arguments):
        run("openssl", *arguments, cwd=work, stderr=subprocess.DEVNULL)

    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "30",
        "-subj",
        "/CN=nsbox tests",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
    )
    openssl(
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
        "-subj",
        "/CN=www.example.org",
    )
    names = ("*.example.org", "example.org", "*.www.example.org", "*.example.net", "dns.google", "localhost")
    (work / "names").write_text(
        "subjectAltName="
        + ",".join(f"DNS:{name}" for name in names)
        + f",IP:{WWW4},IP:{WWW6},IP:{EVIL4}\nbasicConstraints=CA:FALSE\n"
    )
    openssl(
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "server.pem",
        "-days",
        "30",
        "-extfile",
        "names",
    )


def wait_until(condition, seconds=60):
    """The time is for what never comes to be; what does, comes soon where nothing else runs on the machine."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
