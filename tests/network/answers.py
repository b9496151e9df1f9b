# SPDX-License-Identifier: MIT
"""DNS: what the gate asks for and answers, and whom it believes."""

import ipaddress
import struct
import time

from box import WEB, check, describe, equal, matches, test
from internet import (
    A,
    AAAA,
    DNS4,
    EVIL4,
    METADATA4,
    NO_ERROR,
    PRIVATE4,
    SECOND_DNS4,
    SERVER_FAILURE,
    WWW4,
    WWW6,
    address_record,
    cname_record,
    name_to_wire,
    record,
)

NAMED = "allow=turn.example.org"


# --- rebinding ---


def teredo(v4):
    """An address of Teredo (RFC 4380) whose client is that one."""
    return str(
        ipaddress.IPv6Address(
            bytes.fromhex("20010000" + "5db8d8230000ffff") + bytes(255 - b for b in ipaddress.IPv4Address(v4).packed)
        )
    )


def six_to_four(v4):
    return str(ipaddress.IPv6Address(b"\x20\x02" + ipaddress.IPv4Address(v4).packed + bytes(9) + b"\1"))


PRIVATE = [
    "127.0.0.1",
    "127.77.0.1",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.5",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.0.1",
    "100.64.0.1",
    "100.127.255.255",
    METADATA4,
    "169.254.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
]
PRIVATE6 = [
    "::",
    "::1",
    "fc00::1",
    "fd00::5",
    "fdff:ffff::1",
    "fe80::1",
    "febf::1",
    "ff02::1",
    "ff0e::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.5",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::a00:5",
    *(six_to_four(a) for a in ("127.0.0.1", "10.0.0.5", METADATA4)),
    *(teredo(a) for a in ("127.0.0.1", "192.168.0.1")),
    "::127.0.0.1",
    "::10.0.0.5",
    "::ffff:0:10.0.0.5",
    "64:ff9b:1::a00:5",
    "fec0::1",
]


def rebinding(target):
    @test(f"blocked: a name that leads to {target}")
    def run(box):
        if ":" in target and not box.net.have_v6:
            return "without IPv6"
        box.net.dns.zone["turn.example.org"] = lambda query: query.answer(
            [address_record("turn.example.org", target)] if (query.type == AAAA) == (":" in target) else []
        )
        code = (
            f"say(o=[attempt(resolve, 'turn.example.org'), attempt(http, '{target}', 'turn.example.org'), "
            f"attempt(tls, '{target}', 'turn.example.org')])"
        )
        result = box.python(code, network=NAMED, may=())
        equal(result.said[0]["o"][0], "no name", result)
        for outcome in result.said[0]["o"][1:]:
            check(not outcome.startswith("through"), f"it is {outcome}", result)
        check(
            any(host.startswith("turn.example.org") for host in result.blocked),
            "the name is not named as blocked",
            result,
        )
        return None


for _target in [*PRIVATE, *PRIVATE6]:
    rebinding(_target)


@test("a public address inside of NAT64 and 6to4 is none that is private")
def translated(box):
    if not box.net.have_v6:
        return "without IPv6"
    addresses = ["64:ff9b::5db8:d822", "2002:5db8:d822::1"]
    box.net.dns.zone["turn.example.org"] = addresses
    result = box.python("say(o=attempt(resolve, 'turn.example.org'))", network=NAMED, may=())
    equal(result.said[0]["o"], f"through {sorted(addresses)}", result)
    return None


@test("addresses of documentation and benchmarks are not private: networks use them")
def documentation(box):
    addresses = ["198.18.0.1", "192.0.2.5", "198.51.100.7"]
    box.net.dns.zone["turn.example.org"] = addresses
    result = box.python(
        "say(o=attempt(resolve, 'turn.example.org'), h=attempt(http, '192.0.2.5', 'turn.example.org'))",
        network=NAMED,
        may={"tcp 192.0.2.5 80"},
    )
    equal(
        result.said[0], {"o": f"through {sorted(addresses)}", "h": "through 200 turn.example.org 192.0.2.5 80"}, result
    )


@test("blocked: the private ones of several addresses are left out")
def mixed(box):
    box.net.dns.zone["turn.example.org"] = [PRIVATE4, WWW4, "127.0.0.1"]
    result = box.python(
        "say(o=attempt(resolve, 'turn.example.org'), h=attempt(http, '10.0.0.5', 'turn.example.org'))",
        network=NAMED,
        may=(),
    )
    equal(result.said[0], {"o": f"through {[WWW4]}", "h": "ECONNRESET"}, result)


@test("a private address is named with the rule that would allow it")
def reason(box):
    result = box.python(
        "say(o=attempt(resolve, 'private.example.org'))", network="allow=private.example.org:5432", may=()
    )
    why = " ".join(entry["why"] for entry in result.json["network_blocked"])
    check(PRIVATE4 in why and "private" in why, "the reason does not say so", result)
    matches(r"10\.0\.0\.5", result.stderr + why, result)


@test("blocked: an answer that changes between two questions")
def changes(box):
    answers = [WWW4, PRIVATE4, EVIL4]
    box.net.dns.zone["turn.example.org"] = lambda query: query.answer(
        [
            address_record(
                "turn.example.org", answers[min(len([q for q in box.net.dns.queries if q.type == A]) - 1, 2)], ttl=0
            )
        ]
        if query.type == A
        else []
    )
    code = """
first = attempt(resolve, 'turn.example.org', socket.AF_INET)
time.sleep(1.1)
second = attempt(resolve, 'turn.example.org', socket.AF_INET)
say(first=first, second=second, http=attempt(http, WWW4, 'turn.example.org'),
    private=attempt(http, '10.0.0.5', 'turn.example.org'))
"""
    result = box.python(code, network=NAMED, may={f"tcp {WWW4} 80"})
    equal(result.said[0]["first"], f"through {[WWW4]}", result)
    check(result.said[0]["second"] in ("no name", f"through {[WWW4]}"), "the second answer", result)
    equal(result.said[0]["http"], f"through 200 turn.example.org {WWW4} 80", result)  # not looked up again
    equal(result.said[0]["private"], "ECONNRESET", result)


# --- chains ---


def chain(box, length, end):
    zone = box.net.dns.zone
    owner = "turn.example.org"
    for number in range(length):
        zone[owner] = [f"CNAME c{number}.example.net"]
        owner = f"c{number}.example.net"
    zone[owner] = end


@test("a chain of eight other names is followed, and their names are not allowed by it")
def short_chain(box):
    chain(box, 8, [WWW4])
    result = box.python(
        "say(o=attempt(resolve, 'turn.example.org'), h=attempt(http, WWW4, 'turn.example.org'),"
        "c=attempt(resolve, 'c3.example.net'), t=attempt(tls, WWW4, 'c3.example.net'))",
        network=NAMED,
    )
    equal(
        result.said[0],
        {"o": f"through {[WWW4]}", "h": f"through 200 turn.example.org {WWW4} 80", "c": "no name", "t": "ECONNRESET"},
        result,
    )


@test("blocked: a chain of two hundred other names", once=True)
def long_chain(box):
    chain(box, 200, [WWW4])
    result = box.python("tried(resolve, 'turn.example.org')", network=NAMED, may=())
    check(result.outcome in ("no name", "try again"), f"the outcome is {result.outcome}", result)


@test("blocked: chains that do not end", once=True)
def loops(box):
    def to_itself(query):
        return query.answer([cname_record(query.name, query.name)])

    def in_a_ring(query):
        return query.answer(
            [cname_record("turn.example.org", "b.example.net"), cname_record("b.example.net", "turn.example.org")]
        )

    for entry in (to_itself, in_a_ring):
        box.net.dns.zone["turn.example.org"] = entry
        result = box.python("tried(resolve, 'turn.example.org')", network=NAMED, may=())
        check(result.outcome in ("no name", "try again"), f"the outcome is {result.outcome}", result)
        check(result.said[0]["seconds"] < 100, "it took long", result)


@test("blocked: a chain to a private address")
def private_chain(box):
    chain(box, 3, [PRIVATE4])
    result = box.python("tried(resolve, 'turn.example.org')", network=NAMED, may=())
    equal(result.outcome, "no name", result)


# --- servers that lie, or say nothing ---

OURS = [address_record("turn.example.org", WWW4)]
THEIRS = [address_record("turn.example.org", EVIL4)]


def lie(what, messages, outcome=f"through {[WWW4]}"):
    """A lie before the truth: it is not believed."""

    @test(f"not believed: {what}")
    def run(box):
        box.net.dns.zone["turn.example.org"] = lambda query: messages(query) if query.type == A else query.answer([])
        result = box.python("tried(resolve, 'turn.example.org', socket.AF_INET)", network=NAMED, may=())
        check(
            result.outcome in ((outcome,) if isinstance(outcome, str) else outcome),
            f"the outcome is {result.outcome}",
            result,
        )


lie("an answer with another number", lambda q: [q.answer(THEIRS, id=q.id ^ 1), q.answer(OURS)])
lie(
    "an answer to another question",
    lambda q: [q.answer(THEIRS, question=name_to_wire("evil.example.net") + q.question[-4:]), q.answer(OURS)],
)
lie(
    "an answer to another type",
    lambda q: [q.answer(THEIRS, question=q.question[:-4] + struct.pack("!HH", AAAA, 1)), q.answer(OURS)],
)
lie("a question that comes back", lambda q: [q.message, q.answer(OURS)])
lie("an answer that is cut", lambda q: [q.answer(OURS)[:-2], q.answer(OURS)])
lie("an empty datagram", lambda q: [b"", q.answer(OURS)])
lie("noise", lambda q: [bytes(range(200)), b"\xff" * 500, q.answer(OURS)])
lie("a pointer to itself", lambda q: [q.answer([b"\xc0\x22" + address_record("x", EVIL4)[3:]]), q.answer(OURS)])
lie("a pointer behind the end", lambda q: [q.answer([b"\xff\xff" + address_record("x", EVIL4)[3:]]), q.answer(OURS)])
lie(
    "an address of the wrong length",
    lambda q: [q.answer([record("turn.example.org", A, bytes([10, 0, 0])), *THEIRS]), q.answer(OURS)],
)
lie("addresses under another name", lambda q: q.answer([address_record("other.example.org", EVIL4), *OURS]))
lie(
    "an address that is only additional",
    lambda q: q.answer(OURS)[:12] + q.question + b"".join(OURS) + address_record("turn.example.org", EVIL4),
)
lie(
    "a hundred answers before the right one",
    lambda q: [q.answer(THEIRS, id=(q.id + n) & 0xFFFF) for n in range(1, 101)] + [q.answer(OURS)],
)
lie("one that has nothing in it", lambda q: q.answer([]), "no name")
lie("a server that fails", lambda q: q.answer(code=SERVER_FAILURE), "try again")


@test("an answer that is too long comes over TCP")
def truncated(box):
    box.net.dns.zone["turn.example.org"] = lambda q: (
        q.answer([], truncated=True) if q.transport == "udp" else q.answer(OURS if q.type == A else [])
    )
    result = box.python("tried(resolve, 'turn.example.org', socket.AF_INET)", network=NAMED, may=())
    equal(result.outcome, f"through {[WWW4]}", result)
    check(any(query.transport == "tcp" for query in box.net.dns.queries), "TCP was not used", result)


@test("a server of DNS over TCP that says nothing, or sends without an end", once=True)
def tcp_server(box):
    for answer in (lambda q: None, lambda q: [bytes(60000)] * 3):
        box.net.dns.zone["turn.example.org"] = lambda q, answer=answer: (
            q.answer([], truncated=True) if q.transport == "udp" else answer(q)
        )
        result = box.python(
            "tried(resolve, 'turn.example.org', socket.AF_INET)\ntried(resolve, 'www.example.org', socket.AF_INET)",
            network=NAMED + ",www.example.org",
            may=(),
        )
        check(result.said[0]["outcome"] in ("no name", "try again"), "it is resolved", result)
        equal(result.outcome, f"through {[WWW4]}", result)


@test("the second server of resolv.conf is asked where the first is silent")
def second_server(box):
    box.net.resolvers(DNS4, SECOND_DNS4)
    box.net.dns.zone["turn.example.org"] = lambda q: None if q.server == DNS4 else q.answer(OURS if q.type == A else [])
    result = box.python("tried(resolve, 'turn.example.org', socket.AF_INET)", network=NAMED, may=())
    equal(result.outcome, f"through {[WWW4]}", result)
    check(result.said[0]["seconds"] < 60, "it took long", result)


@test("no server of DNS answers: that is said in a while", once=True)
def silence(box):
    box.net.dns.zone["turn.example.org"] = lambda q: None
    result = box.python(
        "tried(resolve, 'turn.example.org', socket.AF_INET)\ntried(resolve, 'www.example.org', socket.AF_INET)",
        network=NAMED + ",www.example.org",
        may=(),
    )
    check(result.said[0]["outcome"] in ("try again", "no name"), "it is resolved", result)
    check(result.said[0]["seconds"] < 100, "it took long", result)
    equal(result.outcome, f"through {[WWW4]}", result)


@test("an unreachable server of DNS, and none at all")
def no_server(box):
    box.net.resolvers("93.184.216.99")
    result = box.python(
        "tried(resolve, 'www.example.org', socket.AF_INET)", may={"udp 93.184.216.99 53", "tcp 93.184.216.99 53"}
    )
    check(result.outcome in ("try again", "no name"), f"the outcome is {result.outcome}", result)
    (box.net.work / "resolv.conf").write_text("# nothing\n")
    result = box.python(
        "tried(resolve, 'www.example.org', socket.AF_INET)", may={"udp 127.0.0.1 53", "tcp 127.0.0.1 53"}
    )
    check(result.outcome in ("try again", "no name"), f"the outcome is {result.outcome}", result)


@test("answers over TCP, over IPv6, from every address that is asked")
def transports(box):
    servers = ["127.0.0.1", "127.0.0.53", "8.8.8.8"] + (["::1", "2001:4860:4860::8888"] if box.net.have_v6 else [])
    result = box.python(
        f"for server in {servers}:\n    for tcp in (False, True):\n"
        f"        tried(ask, 'www.example.org', A, server, tcp)",
        may=(),
    )
    equal([said["outcome"] for said in result.said], ["through code 0 with 1"] * 2 * len(servers), result)


@test("what was answered is answered again without a question, as long as it may")
def cached(box):
    box.net.dns.zone["turn.example.org"] = lambda q: q.answer(
        [address_record("turn.example.org", WWW4, ttl=1)] if q.type == A else []
    )
    result = box.python(
        "start = time.monotonic()\nfor _ in range(20):\n    resolve('turn.example.org', socket.AF_INET)\n"
        "say(seconds=time.monotonic() - start)\ntime.sleep(2.2)\nresolve('turn.example.org', socket.AF_INET)",
        network=NAMED,
        may=(),
    )
    asked = len([query for query in box.net.dns.queries if query.type == A])
    # A second is how long the answer may be kept.
    check(2 <= asked <= 4 + result.said[0]["seconds"], f"{asked} questions were asked", result)


@test("blocked: a flood of questions goes out as a trickle")
def flood(box):
    for number in range(2000):
        box.net.dns.zone[f"n{number}.example.org"] = [WWW4]
    code = """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 3
for n in range(2000):
    s.sendto(question(f'n{n}.example.org', number=n), ('127.0.0.1', 53))
while time.monotonic() < end:
    time.sleep(.1)
say(done=True)
"""
    started = time.monotonic()
    result = box.python(code, network="allow=*.example.org", may=())
    most = 40 + 20 * (time.monotonic() - started + 1)
    equal(result.said, [{"done": True}], result)
    check(len(box.net.dns.queries) <= most * 1.2, f"{len(box.net.dns.queries)} questions went out", result)
    return f"{len(box.net.dns.queries)} of 2000 went out"


@test("every beginning of a question, changed bytes, and noise: it goes on answering")
def malformed(box):
    code = """
import random
random.seed(11)
good = question('www.example.org') 
wide = bytearray(good + bytes.fromhex('00002904d000000000000c000a00081122334455667788'))
wide[11] = 1
wide = bytes(wide)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0)
def send(data):
    s.sendto(data, ('127.0.0.1', 53))
    try:
        while True:
            s.recv(4096)
    except OSError:
        pass
for message in (good, wide):
    for end in range(len(message)):
        send(message[:end])
        send(message[:end] + b'\\xc0\\x0c' + message[end + 2:])
    for at in range(len(message)):
        for value in (0, 1, 63, 64, 127, 128, 192, 255):
            send(message[:at] + bytes([value]) + message[at + 1:])
for _ in range(500):
    send(random.randbytes(random.randrange(700)))
send(bytes(65000))
for end in range(0, len(good), 3):
    with connect('127.0.0.1', 53) as c:
        c.sendall(struct.pack('!H', len(good)) + good[:end])
with connect('127.0.0.1', 53) as c:
    c.sendall(b'\\0\\0' + struct.pack('!H', len(good)) + good)
import probe
probe.SECONDS = 1
while attempt(ask, 'www.example.org') == 'timeout':
    pass  # what there was no room for is lost, as UDP has it
probe.SECONDS = 30
tried(ask, 'www.example.org')
tried(ask, 'www.example.org', tcp=True)
tried(tls, WWW4, 'www.example.org')
"""
    result = box.python(code)
    equal([said["outcome"] for said in result.said[:2]], ["through code 0 with 1"] * 2, result)
    matches("^through 200", result.outcome, result)


@test("many questions in one connection, and a client that stays silent in it")
def tcp_client(box):
    code = """
q = question('www.example.org')
idle = [connect('127.0.0.1', 53) for _ in range(20)]
[c.sendall(b'\\0') for c in idle]
with connect('127.0.0.1', 53) as c:
    c.sendall((struct.pack('!H', len(q)) + q) * 5)
    got = b''
    while len(got) < 5 * (2 + len(q) + 16) and (piece := c.recv(4096)):
        got += piece
    say(o=len(got) >= 5 * (2 + len(q)))
"""
    equal(box.python(code, may=()).said, [{"o": True}])
