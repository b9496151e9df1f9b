# SPDX-License-Identifier: MIT
"""What the gate costs, beside the same without it in the same minute."""

import json
import subprocess
import sys

from box import check, equal, test
from internet import WWW4

# Three processes have to share what two have without the gate, and on a machine with few CPUs whatever else runs there
# takes from the three. What an idle one gives is printed; what must not happen is a gate that copies byte by byte or
# wakes up for nothing, and that is slower than any neighbour makes it.
LEAST = 0.25
PORT, SIZE, LEAST_ROUNDS, MOST_ROUNDS = 2260, 600 << 20, 3, 9

SERVER = """
import socket, sys
listener = socket.create_server(('', int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print(flush=True)
block = bytes(1 << 20)
while True:
    connection = listener.accept()[0]
    try:
        kind = connection.recv(1)
        left = int(sys.argv[2])
        if kind == b'<':
            while left:
                left -= connection.send(block[:left])
        else:
            buffer = bytearray(1 << 20)
            while left and (got := connection.recv_into(buffer)):
                left -= got
            connection.sendall(b'.')
    except OSError:
        pass
    connection.close()
"""

CLIENT = f"""
attempt(resolve, 'www.example.org', socket.AF_INET)
buffer, block = bytearray(1 << 20), bytes(1 << 20)
for way in '<>':
    with connect(WWW4, {PORT}) as c:
        start = time.monotonic()
        c.sendall(way.encode())
        left = {SIZE}
        if way == '<':
            while left and (got := c.recv_into(buffer)):
                left -= got
        else:
            while left:
                left -= c.send(block[:left])
            c.recv(1)
        say(way=way, rate=round({SIZE} / (time.monotonic() - start) / 1e6))
"""


@test("throughput beside plain loopback", once=True)
def throughput(box):
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(PORT), str(SIZE)], stdout=subprocess.PIPE)
    server.stdout.readline()
    best = {"host": {"<": 0, ">": 0}, f"allow=www.example.org:{PORT}": {"<": 0, ">": 0}}
    try:
        for number in range(1, MOST_ROUNDS + 1):
            for network, rates in best.items():
                result = box.python(CLIENT, network=network, may={f"tcp {WWW4} {PORT}"})
                equal(len(result.said), 2, result)
                for said in result.said:
                    rates[said["way"]] = max(rates[said["way"]], said["rate"])
            plain, gated = best.values()
            ratios = {way: gated[way] / plain[way] for way in "<>"}
            if number >= LEAST_ROUNDS and min(ratios.values()) >= LEAST:
                break
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    note = ", ".join(
        f"{name} {gated[way]} of {plain[way]} MB/s: {ratios[way]:.2f}" for way, name in (("<", "down"), (">", "up"))
    )
    check(min(ratios.values()) >= LEAST, note)
    return note


@test("what a sandbox with a gate costs to start", once=True)
def start(box):
    times = {}
    for network in ("none", "allow=www.example.org"):
        for _ in range(10):
            result = box.run("true", network=network)
            times.setdefault(network, []).append(result.json["timing"]["total_ms"])
    least = {network: min(values) for network, values in times.items()}
    return json.dumps(least)
