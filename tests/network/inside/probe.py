# SPDX-License-Identifier: MIT
"""What the code inside the sandboxes of these tests uses. Everything is tried by hand, so that no library is polite."""

import contextlib
import ctypes
import errno
import json
import os
import socket
import ssl
import struct
import sys  # noqa: F401 (for the code that uses this)
import time

WWW4, WWW6 = "93.184.216.34", "2606:2800:220::34"
EVIL4, EVIL6 = "93.184.216.66", "2606:2800:220::66"
A, TXT, AAAA, NULL, ANY, HTTPS, AXFR = 1, 16, 28, 10, 255, 65, 252
SECONDS = 30


def say(**what):
    print(json.dumps(what), flush=True)


def attempt(function, *arguments, **options):
    """What came of it: «through …», or the name of the error."""
    try:
        return f"through {function(*arguments, **options)}"
    except socket.gaierror as error:
        return {socket.EAI_NONAME: "no name", socket.EAI_AGAIN: "try again", socket.EAI_NODATA: "no name"}.get(
            error.errno, str(error)
        )
    except TimeoutError:
        return "timeout"
    except ssl.SSLEOFError:
        return "closed"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def tried(function, *arguments, **options):
    start = time.monotonic()
    outcome = attempt(function, *arguments, **options)
    say(outcome=outcome, seconds=round(time.monotonic() - start, 3))


def resolve(name, family=0):
    return sorted({entry[4][0] for entry in socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)})


def connect(address, port):
    return socket.create_connection((address, port), timeout=SECONDS)


def context():
    return ssl.create_default_context(cafile="/probes/ca.pem")


def read_all(connection, limit=1 << 20):
    data = bytearray()
    while len(data) < limit and (piece := connection.recv(65536)):
        data += piece
    return bytes(data)


def status_and_body(answer):
    if not answer:
        raise ConnectionResetError(errno.ECONNRESET, "closed without a word")
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b" ")[1].decode() + " " + body.decode("latin-1").strip()


def request(connection, host):
    connection.sendall(f"GET /where HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    return status_and_body(read_all(connection))


def tls(address, name, port=443, host=None):
    """What the server of TLS there says; `name` None is none."""
    trust = context()
    trust.check_hostname = name is not None
    with connect(address, port) as plain, trust.wrap_socket(plain, server_hostname=name) as secure:
        return request(secure, host or name or address)


def http(address, host, port=80):
    with connect(address, port) as connection:
        return request(connection, host)


def raw(address, port, data, shut=False, pieces=None):
    """Sends bytes and returns what comes, at least a byte. With `pieces`, so many bytes a segment."""
    with connect(address, port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), pieces or len(data)):
            connection.sendall(data[start : start + (pieces or len(data))])
            if pieces:
                time.sleep(0.002)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(60)
        if not answer:
            raise ConnectionResetError(errno.ECONNRESET, "closed without a word")
        return answer


def hello(name, padding=0):
    """A ClientHello of OpenSSL's, in one record; with so many bytes more in an extension of its own."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    side = trust.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
    record = outgoing.read()
    return with_extension(record, 0xFDE8, bytes(padding)) if padding else record


def with_extension(record, kind, data):
    """The same ClientHello with one more extension before all others."""
    body = record[9:]
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + struct.unpack("!H", body[at : at + 2])[0]
    at += 1 + body[at]
    extensions = struct.pack("!HH", kind, len(data)) + data + body[at + 2 :]
    body = body[:at] + struct.pack("!H", len(extensions) & 0xFFFF) + extensions
    return records(b"\1" + struct.pack("!I", len(body))[1:] + body, 16384)


def records(message, size):
    """A handshake message in records of `size` bytes each."""
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece for piece in pieces)


def question(name, kind=A, number=0x1234, wire=None):
    if wire is None:
        wire = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + wire + struct.pack("!HH", kind, 1)


def parse_answer(message):
    """Code and number of records."""
    _, flags, _, answers, _, _ = struct.unpack("!HHHHHH", message[:12])
    return f"code {flags & 15} with {answers}"


def ask(name, kind=A, server="127.0.0.1", tcp=False, wire=None):
    query = question(name, kind, wire=wire)
    if tcp:
        with connect(server, 53) as connection:
            connection.sendall(struct.pack("!H", len(query)) + query)
            return parse_answer(read_all(connection, 14)[2:])
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(SECONDS)
        channel.connect((server, 53))
        channel.send(query)
        return parse_answer(channel.recv(65535))


def udp(address, port, data=b"hello"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(2)
        channel.connect((address, port))
        channel.send(data)
        return channel.recv(65535)


libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """A function of libc; raises what it failed with."""
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
    return name
