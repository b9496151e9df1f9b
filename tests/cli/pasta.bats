#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --network pasta, in a network namespace of the tests' own: what is «outside» there is on its loopback interface, and the
# way out is an interface that leads nowhere.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  for program in pasta ip unshare; do
    command -v $program >/dev/null || skip "$program is not installed"
  done
  mkdir -m 700 runtime
  cat >servers.py <<'END'
import http.server, socket, struct, threading

def tcp(address, port, answer):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family)
    def loop():
        while True:
            peer = listener.accept()[0]
            peer.sendall(answer)
            peer.close()
    threading.Thread(target=loop).start()

def udp(address, port, answer):
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind((address, port))
    def loop():
        while True:
            question, peer = bound.recvfrom(4096)
            bound.sendto(answer(question), peer)
    threading.Thread(target=loop).start()

# A name server that knows all names, and one address.
def name(question):
    end = question.index(b"\0", 12) + 5
    asked = question[12:end]
    if asked[-4:-2] != b"\0\1":
        return question[:2] + b"\x81\x80" + struct.pack(">4H", 1, 0, 0, 0) + asked
    return (question[:2] + b"\x81\x80" + struct.pack(">4H", 1, 1, 0, 0) + asked + b"\xc0\x0c" +
            struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton("10.99.0.9"))

for outside in "10.99.0.9", "fd99::9":
    tcp(outside, 8000, b"outside")
    udp(outside, 8000, lambda data: data.upper())
for loopback in "127.0.0.1", "::1":
    tcp(loopback, 8001, b"loopback")
for address in "127.0.0.53", "10.99.0.9":
    udp(address, 53, name)
open("servers", "w").close()
END
  cat >prelude.bash <<'END'
set -euo pipefail
load=$load nsbox=$nsbox place=$place
ip link set lo up
ip link add out type veth peer name nowhere 2>/dev/null && ip link set nowhere up || ip tuntap add out mode tap
ip address add 10.99.1.2/24 dev out
ip -6 address add fd99:1::2/64 dev out nodad
ip link set out up
ip route add default via 10.99.1.1
ip -6 route add default via fd99:1::1
ip address add 10.99.0.9/32 dev lo
ip -6 address add fd99::9/128 dev lo nodad
printf 'nameserver 127.0.0.53\nsearch example\n' >resolv.conf
mount --bind resolv.conf "$(realpath /etc/resolv.conf)"
python3 servers.py &
servers=$!
trap 'kill $servers' EXIT
until [ -e servers ]; do sleep 0.05; done
box() { timeout 60 "$nsbox" run --network pasta "$@"; }
eventually_pasta() { eventually eval '[ -n "$(pastas)" ]'; }
pastas() { pgrep -f '^pasta --foreground' || true; }
eventually() {
  local i
  for i in {1..600}; do
    "$@" && return
    sleep 0.05
  done
  echo "in vain: $*"
  return 1
}
none_left() { [ -z "$(pastas)" ]; }
END
  probe='
import socket, sys
def tcp(address, port, patience=20):
    try:
        return socket.create_connection((address, port), timeout=patience).recv(100).decode()
    except TimeoutError:
        return "silence"
    except OSError as failure:
        return failure.strerror
def udp(address, port):
    peer = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    peer.settimeout(20)
    peer.sendto(b"datagram", (address, port))
    try:
        return peer.recv(100).decode()
    except OSError as failure:
        return str(failure)
'
  export probe place nsbox load XDG_RUNTIME_DIR=$place/runtime
}

# Runs a script of standard input in such a namespace, as the caller. root makes the device that pasta needs as udev has it.
world() {
  cat prelude.bash - >script.bash
  if am_root; then
    unshare -mnp --fork --kill-child --mount-proc sh -c '
      mount -t tmpfs none /dev/net 2>/dev/null || { mkdir -p /dev/net && mount -t tmpfs none /dev/net; }
      mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun && exec bash script.bash' </dev/null
  else
    [ -r /dev/net/tun ] && [ -w /dev/net/tun ] || skip "/dev/net/tun is not open to this user"
    unshare -Umnpc --keep-caps --fork --kill-child --mount-proc bash script.bash </dev/null
  fi
}

@test "pasta: what is outside is reached by TCP, UDP and both protocols of the Internet" {
  world <<'END'
box -- python3 -c "$probe
print(tcp('10.99.0.9', 8000), tcp('fd99::9', 8000), udp('10.99.0.9', 8000), udp('fd99::9', 8000))" >out
[ "$(cat out)" = "outside outside DATAGRAM DATAGRAM" ]
END
}

@test "pasta: an echo request is answered, where the caller may send them" {
  world <<'END'
echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range || echo "$(id -g) $(id -g)" >/proc/sys/net/ipv4/ping_group_range
box -u 0:0 -- python3 -c '
import socket
ping = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
ping.settimeout(20)
ping.sendto(b"\x08\0\0\0\0\0\0\1hello", ("10.99.0.9", 0))
print(ping.recv(100)[-5:].decode())' >out
[ "$(cat out)" = hello ]
END
}

@test "pasta: the host's loopback interface is not reached, by none of its names" {
  world <<'END'
box -- python3 -c "$probe
for address in '127.0.0.1', '::1', '0.0.0.0', '10.99.1.1', '10.99.1.2', 'fd99:1::1', 'fd99:1::2', '169.254.1.1', '169.254.2.1', '10.0.2.2':
    print(tcp(address, 8001, 3))" >out
[ "$(wc -l <out)" = 10 ]
! grep -v -e refused -e silence -e 'No route' -e unreachable out || false
END
}

@test "pasta: a name server on the host's loopback interface answers, and the network is there from the first moment on" {
  world <<'END'
box -- sh -c 'cat /etc/resolv.conf; getent ahostsv4 anything.example | head -n 1; cat /proc/net/route; cat /proc/net/if_inet6' >out
[ "$(head -n 2 out)" = $'nameserver 169.254.1.1\nsearch example' ]
grep -q '^10\.99\.0\.9 ' out
grep -q '^eth0.00000000.0101630A' out
# Not tentative.
grep -q '^fd990001000000000000000000000002 02 40 00 .*eth0' out
END
}

@test "pasta: a name server elsewhere answers, to those that take answers of nobody else" {
  world <<'END'
printf 'nameserver 10.99.0.9\nnameserver 127.0.0.53\n' >resolv.conf
box -- sh -c 'cat /etc/resolv.conf; getent ahostsv4 anything.example | head -n 1' >out
[ "$(head -n 1 out)" = "nameserver 10.99.0.9" ]
grep -q '^10\.99\.0\.9 ' out
END
}

@test "pasta: nothing of the sandbox is reached from outside but what is published" {
  world <<'END'
box --publish 8088:8088 --bind "$place:/place" -- timeout 50 python3 -c '
import os, socket, time
for port in 8088, 8089:
    globals()[f"listener{port}"] = socket.create_server(("0.0.0.0", port))
listener8088.accept()[0].sendall(b"inside")
while not os.path.exists("/place/go"): time.sleep(0.1)' &
eventually python3 -c "$probe
import sys
sys.exit(tcp('127.0.0.1', 8088) != 'inside')"
# Without the option pasta looks for what listens once a second.
sleep 2
python3 -c "$probe
print(tcp('127.0.0.1', 8089), tcp('10.99.1.2', 8089), tcp('10.99.1.2', 8088))" >out
touch go
[ "$(cat out)" = "Connection refused Connection refused Connection refused" ]
wait %2
END
}

@test "pasta: in a session, until that ends" {
  world <<'END'
id=$("$nsbox" session new --network pasta)
"$nsbox" session exec "$id" python3 -c "$probe
print(tcp('10.99.0.9', 8000))" >out
[ "$(cat out)" = outside ]
[ -n "$(pastas)" ]
"$nsbox" session exec --json "$id" true | jq -e '.sandbox.network == "pasta"'
"$nsbox" session stop "$id"
none_left
END
}

@test "pasta: it runs with nothing of root's, and the code sees nothing of it" {
  world <<'END'
id=$("$nsbox" session new --network pasta)
pid=$(pastas)
grep -q $'^NoNewPrivs:\t1' "/proc/$pid/status"
grep -q $'^Seccomp:\t2' "/proc/$pid/status"
[ "$(id -u)" != 0 ] || ! grep -q $'^Uid:.*\t0\t' "/proc/$pid/status" || false
[ "$(readlink "/proc/$pid/ns/user" || echo hidden)" != "$(readlink /proc/self/ns/user)" ]
"$nsbox" session exec "$id" sh -c 'cat /proc/[0-9]*/comm' >out
! grep -q -e pasta -e passt out || false
"$nsbox" session stop "$id"
none_left
END
}

@test "pasta: it counts as none of the sandbox's processes" {
  world <<'END'
box --pids-limit 20 --ro-bind "$load:/load" /load threads 50 >out
[ "$(cat out)" = "19 threads" ]
END
}

@test "pasta: killed, the command goes on, and the result says so" {
  world <<'END'
box --json --bind "$place:/place" -- sh -c 'touch /place/there; until [ -e /place/go ]; do sleep 0.1; done; exit 7' >result.json &
eventually test -e there
pid=$(pastas)
kill -KILL $pid
eventually eval '! test -e /proc/$pid' # the supervisor has seen it
touch go
wait %2 || [ $? = 7 ]
jq -e '.exit_code == 7' result.json
jq -e '.warnings | map(select(startswith("pasta was ended by signal 9"))) | length == 1' result.json
id=$("$nsbox" session new --network pasta)
pid=$(pastas)
kill -KILL $pid
eventually eval '! test -e /proc/$pid'
"$nsbox" session exec --json "$id" true | jq -e '.warnings | map(select(startswith("pasta was ended by signal 9"))) | length == 1'
"$nsbox" session stop "$id"
END
}

@test "pasta: it ends with the supervisor of a run, or of a session" {
  world <<'END'
"$nsbox" run --network pasta --timeout none -- sleep 60 &
eventually_pasta
sleep 0.5
kill -KILL %2
eventually none_left
eventually eval '! pgrep -x sleep'
id=$("$nsbox" session new --network pasta)
[ -n "$(pastas)" ]
kill -KILL "$("$nsbox" session ls --json | jq '.[0].supervisor')"
eventually none_left
# Before it is there.
for i in 1 2 3 4 5 6 7 8; do
  "$nsbox" run --network pasta -- sleep 60 &
  sleep 0.00$((i * i))
  kill -KILL $!
done
eventually none_left
END
}

@test "pasta: without the device that it needs nothing is run" {
  world <<'END'
mount -t tmpfs none /dev/net
! timeout 60 "$nsbox" run --network pasta --bind "$place:/place" -- touch /place/ran 2>err || false
[ "$(sed -n 1p err)" = "nsbox: pasta did not set up the sandbox's network: /dev/net/tun: No such file or directory" ]
[ "$(sed -n 2p err)" = "nsbox: modprobe tun; in a container, the device has to be given to that: --device /dev/net/tun" ]
[ ! -e ran ]
! "$nsbox" session new --network pasta 2>err || false
[ "$(sed -n 1p err)" = "nsbox: pasta did not set up the sandbox's network: /dev/net/tun: No such file or directory" ]
none_left
END
}

@test "pasta: without a way out it says so, and nothing is run" {
  world <<'END'
ip route del default
ip -6 route del default
ip address flush dev out
status=0
box -- cat /proc/net/dev >out 2>err || status=$?
# Newer ones make a network that leads nowhere but to the host.
[ $status = 0 ] || [[ $(cat err) = "nsbox: pasta did not set up the sandbox's network: "* ]]
END
}

@test "pasta: without a name server that can be reached there is a warning" {
  world <<'END'
printf 'nameserver ::1\n' >resolv.conf
box --json -- cat /etc/resolv.conf >result.json
jq -e '.warnings | map(select(startswith("names do not resolve in the sandbox"))) | length == 1' result.json
jq -e '.stdout == ""' result.json
END
}

@test "pasta: nsbox check has it make a network" {
  world <<'END'
"$nsbox" check --json | jq -e '.[] | select(.name == "pasta") | .ok == true'
mount -t tmpfs none /dev/net
"$nsbox" check --json | jq -e '.[] | select(.name == "pasta") | .ok == "warning" and (.remedy | test("modprobe tun"))'
none_left
END
}

# --- without it ---

@test "pasta: where there is none, a run says how to get it" {
  mkdir empty
  observe env PATH="$place/empty" /usr/bin/timeout 60 "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --network pasta --bind "$place:/place" -- touch /place/ran
  [ "$status" = 125 ]
  [ "${stderr%%$'\n'*}" = "nsbox: the network pasta needs the program pasta, and no directory of PATH has it" ]
  [[ $stderr = *$'\n'"nsbox: install the package passt: apt-get install passt, "* ]]
  [ ! -e ran ]
}

@test "pasta: one that fails is the reason that is given, and one that is too old is said to be" {
  world <<'END'
mount -t tmpfs -o mode=755 none /mnt
fake() {
  printf '#!/bin/sh\n%s\n' "$1" >/mnt/pasta
  chmod 755 /mnt/pasta
  status=0
  PATH=/mnt:$PATH box --bind "$place:/place" -- touch /place/ran 2>err || status=$?
  cat err
  [ $status = 125 ]
  [ ! -e ran ]
  none_left
}
fake 'echo Failed to send 9 bytes to syslog >&2; echo a reason of its own >&2; echo Failed to send 9 bytes to syslog >&2; exit 1'
[ "$(cat err)" = "nsbox: pasta did not set up the sandbox's network: a reason of its own" ]
fake "echo \"pasta: unrecognized option '--config-net'\" >&2; echo Usage >&2; exit 1"
[ "$(sed -n 1p err)" = "nsbox: pasta did not set up the sandbox's network: unrecognized option '--config-net'" ]
[[ $(sed -n 2p err) = "nsbox: this pasta is too old: "* ]]
fake 'kill -9 $$'
[ "$(cat err)" = "nsbox: pasta did not set up the sandbox's network: it was killed, or said nothing" ]
fake 'head -c 200000 /dev/zero | tr "\0" x >&2; exit 1'
[[ $(cat err) = "nsbox: pasta did not set up the sandbox's network: xxxx"* ]]
[ "$(wc -c <err)" -lt 600 ]
fake 'printf "a\033[31mb\n" >&2; exit 1'
! grep -q $'\033' err || false
END
}
