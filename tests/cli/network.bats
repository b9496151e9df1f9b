#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --network allow=…: what a person sees of it. (What gets round it, and what the Internet does to it, is in tests/network.)

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  unset HTTPS_PROXY https_proxy ALL_PROXY all_proxy NO_PROXY no_proxy SSL_CERT_FILE
  export XDG_RUNTIME_DIR=$place/runtime
  mkdir -m 700 runtime
}

teardown() {
  [ -z "${server:-}" ] || kill "$server"
  "$nsbox" session stop --all
}

# A server of HTTP on the host's loopback interface: its port is in $port.
serve() {
  mkdir -p served
  echo "a page" >served/page
  python3 -u -c '
import functools, http.server
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="served")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()' >port 2>/dev/null 3>&- &
  server=$!
  eventually test -s port
  port=$(<port)
}

# Gets a page, in the sandbox.
get="import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"

# Dials, and says how that goes: the name of the error, or «connected».
dial='
import errno, socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
    s.sendall(b"\x16\x03\x01\x00\x01\x00")
    s.recv(1)
    print("connected")
except OSError as e:
    print(errno.errorcode.get(e.errno, type(e).__name__))'

# Asks for a record of services (SRV), and says the code of the answer; 3: there is no such name.
ask='
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
name = b"".join(bytes([len(label)]) + label.encode() for label in sys.argv[1].split("."))
s.sendto(b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + name + b"\x00\x00\x21\x00\x01", ("192.0.2.53", 53))
print(s.recv(512)[3] & 15)'

# The process id of the gate of the supervisor $1.
gate_of() {
  pgrep -x -P "$1" nsbox-gate
}

@test "network allow: what is named is reached, and listed" {
  serve
  json --network "allow=host.nsbox.internal:$port" -- python3 -c "$get" "http://host.nsbox.internal:$port/page"
  is .status 0
  is .stdout "a page"
  is .sandbox.network "allow=host.nsbox.internal:$port"
  holds ".network_allowed == [\"host.nsbox.internal:$port\"] and .network_blocked == [] and .network_omitted == 0"
}

@test "network allow: what is not named is blocked, and said with the rule that would allow it" {
  box --network allow=example.org -- getent hosts other.example
  [ "$status" = 2 ]
  [ "$stderr" = "nsbox: blocked: other.example: no rule allows that name; add other.example to --network allow=" ]
  json --network allow=example.org -- python3 -c "$dial" 192.0.2.7 443
  is .stdout ECONNRESET
  holds '.network_blocked == [{"host": "192.0.2.7:443", "rule": "192.0.2.7", "count": 1,
    "why": "no allowed name led to that address, and no rule has it"}]'
  # What programs ask for to show it.
  json --network allow=example.org -- python3 -c 'import socket; print(socket.getfqdn("192.0.2.7"))'
  is .stdout 192.0.2.7
  holds '.network_blocked == []'
  # The name of a service of an allowed host, which programs ask for besides, and which no rule would make be answered.
  json --network allow=example.org -- python3 -c "$ask" _http._tcp.example.org
  is .stdout 3
  holds '.network_blocked == []'
  json --network allow=example.org -- python3 -c "$ask" _http._tcp.other.example
  is .stdout 3
  holds '.network_blocked | map(.host) == ["_http._tcp.other.example"]'
  # A port that is in no rule: the kernel refuses it, and the gate does not see it.
  json --network allow=example.org -- python3 -c "$dial" 192.0.2.7 444
  is .stdout ECONNREFUSED
  holds '.network_blocked == [] and .hint == null'
  local dials='import socket; socket.create_connection(("192.0.2.7", 444))'
  json --network allow=example.org -- python3 -c "$dials"
  holds '.hint | test("no rule of the network has")'
  json -- python3 -c 'import socket; socket.create_connection(("127.0.0.1", 444))'
  is .hint null
}

@test "network allow: what serves on the host is asked for with its port" {
  box --network allow=example.org -- getent hosts host.nsbox.internal
  [[ $stderr = *"; add host.nsbox.internal:PORT to --network allow=" ]]
}

@test "network allow: on port 443 there is TLS with a name, on port 80 there is HTTP" {
  json --network allow=192.0.2.0/24:443,example.org -- python3 -c "$dial" 192.0.3.1 443
  is .stdout ECONNRESET
  json --network allow=192.0.2.0/24:80 -- python3 -c "$dial" 192.0.2.1 80
  is .stdout ECONNRESET
  holds '.network_blocked[0] | .host == "192.0.2.1:80" and .why == "what the client said is no request of HTTP to one host"'
}

@test "network allow: the loopback interface is the sandbox's own" {
  serve
  json --network "allow=host.nsbox.internal:$port" -- python3 -c "$dial" 127.0.0.1 "$port"
  is .stdout ECONNRESET
  json --network "allow=host.nsbox.internal:$port" -- python3 -c "$dial" ::1 "$port"
  is .stdout ECONNRESET
  holds '.network_allowed == [] and .network_blocked == []'
  # Its own servers work, below 1024 too.
  box --network allow=example.org -- python3 -c '
import socket
server = socket.create_server(("", 81))
client = socket.create_connection(("127.0.0.1", 81))
client.sendall(b"own")
print(server.accept()[0].recv(3).decode())'
  [ "$output" = own ]
  # The ports of the gate are taken, whatever the address.
  for address in 0.0.0.0 127.0.0.1 192.0.2.1; do
    box --network allow=example.org:5000 -- python3 -c '
import errno, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    s.bind((sys.argv[1], 5000))
    s.listen()
except OSError as e:
    print(errno.errorcode[e.errno])' "$address"
    [ "$output" = EADDRINUSE ]
  done
}

@test "network allow: rules that are none are refused in a line" {
  local rules
  for rules in "" , a.org, "*.org" "*" a.org:0 a.org:99999 http://a.org 127.0.0.1:80 "[::1]:80" a.org:53 1.2.3.4/40; do
    box --network "allow=$rules" true
    [ "$status" = 125 ]
    [[ $stderr = "nsbox: --network: "*$'\n'"nsbox: "* ]]
    [ "$(wc -l <<<"$stderr")" = 2 ]
  done
  for rules in 127.0.0.1:5432 localhost:5432; do
    box --network "allow=$rules" true
    [[ $stderr = *"own loopback interface"*host.nsbox.internal:PORT ]]
  done
  box --network allow=https://a.org/b true
  [ "${stderr##*nsbox: }" = "write its host alone, with :PORT where that is neither 443 nor 80" ]
}

@test "network allow: a port of the gate cannot be published" {
  local port
  for port in 53 80 443 5000; do
    box --network allow=example.org,example.net:5000 --publish "0:$port" true
    [ "$status" = 125 ]
    [ "${stderr%%$'\n'*}" = "nsbox: publish: port $port is the gate's inside, with --network allow=" ]
  done
  box --network allow=example.org --publish 0:5000 true
  [ "$status" = 0 ]
}

@test "network allow: the last that is said counts; nsbox.conf has it too" {
  json --network allow=a.example --network allow=b.example --print-spec true
  is '.network + " " + .allow' "allow b.example"
  json --network allow=a.example --network none --print-spec true
  is '.network + " \(.allow)"' "none null"
  mkdir -p config/nsbox
  echo '{"network": "allow=c.example:1"}' >config/nsbox/nsbox.conf
  XDG_CONFIG_HOME=$place/config json --print-spec true
  is .allow c.example:1
}

@test "network allow: a gate that is killed is missed, and there is no other way out" {
  local run
  serve
  # The address outlives the gate; what is dialled then is refused, as nobody listens there any more.
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --network "allow=host.nsbox.internal:$port" -- python3 -c "
import socket, sys, time
$get
address = socket.gethostbyname('host.nsbox.internal')
print('then', flush=True)
while True:
    try:
        socket.create_connection((address, int(sys.argv[2])), 5).close()
    except ConnectionError as e:
        print('ECONN', flush=True)
        break
    time.sleep(0.05)" "http://host.nsbox.internal:$port/page" "$port" >seen 2>said </dev/null 3>&- &
  run=$!
  eventually gate_of "$run"
  eventually grep -q then seen
  kill -9 "$(gate_of "$run")"
  eventually grep -q ECONN seen
  wait "$run" || true
  grep -q "^nsbox: warning: the gate of --network allow=... was ended by signal 9 .*: since then the sandbox reaches nothing" said
}

@test "network allow: what a command said before it ended arrives" {
  # More than the sockets on the way hold, to a server that takes its time.
  python3 -u -c '
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
time.sleep(0.5)
got = 0
while data := connection.recv(65536):
    got += len(data)
    time.sleep(0.002)
print(got, flush=True)' >port 3>&- &
  server=$!
  eventually test -s port
  port=$(<port)
  box --network "allow=host.nsbox.internal:$port" -- python3 -c '
import os, socket, sys
socket.create_connection(("host.nsbox.internal", int(sys.argv[1]))).sendall(b"x" * 16000000)
os._exit(0)' "$port"
  [ "$status" = 0 ]
  eventually grep -qx 16000000 port
  server=
}

@test "network allow: nothing is left of the gate" {
  local run gate
  SECRET_OF_THE_CALLER=x "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --network allow=example.org -- sleep 1000 </dev/null 3>&- &
  run=$!
  eventually gate_of "$run"
  gate=$(gate_of "$run")
  [ "$(awk '/^CapEff|^CapPrm/ { print $2 }' "/proc/$gate/status" | sort -u)" = 0000000000000000 ]
  [ "$(awk '/^NoNewPrivs/ { print $2 }' "/proc/$gate/status")" = 1 ]
  # What sanitizers report takes more system calls than the gate has: with them there is no filter.
  grep -q __asan_init "$nsbox" || [ "$(awk '/^Seccomp:/ { print $2 }' "/proc/$gate/status")" = 2 ]
  if am_root; then
    # What the caller's environment has it does not keep.
    ! grep -q SECRET_OF_THE_CALLER "/proc/$gate/environ" || false
    grep -q SECRET_OF_THE_CALLER "/proc/$run/environ"
  fi
  kill -9 "$run"
  wait "$run" || true
  eventually eval "! kill -0 $gate 2>/dev/null"
  # Nor when all goes well.
  box --network allow=example.org -- true
  eventually nothing_runs
}

@test "network allow: each command of a session is told of its own" {
  local id
  serve
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-} --network "allow=host.nsbox.internal:$port")
  json_of() {
    result=$("$nsbox" session exec --json "$id" -- "$@" </dev/null) || true
  }
  json_of python3 -c "$get" "http://host.nsbox.internal:$port/page"
  is .stdout "a page"
  holds ".network_allowed == [\"host.nsbox.internal:$port\"] and .network_blocked == []"
  json_of getent hosts other.example
  holds '.network_allowed == [] and (.network_blocked | map(.host)) == ["other.example"]'
  json_of true
  holds '.network_allowed == [] and .network_blocked == []'
  "$nsbox" session stop "$id"
}

@test "network allow: a proxy that the gate cannot speak with is refused before anything runs" {
  HTTPS_PROXY=socks5://127.0.0.1:1080 box --network allow=example.org -- echo ran
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: HTTPS_PROXY: it is a proxy that does not begin with http://"* ]]
  HTTPS_PROXY=socks5://127.0.0.1:1080 NO_PROXY='*' box --network allow=example.org -- echo ran
  [ "$output" = ran ]
}

@test "a network: programs are told whom the host trusts, unless they were told otherwise" {
  local bundle variables="CARGO_HTTP_CAINFO CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS PIP_CERT REQUESTS_CA_BUNDLE SSL_CERT_FILE"
  printf 'not really\n' >bundle.pem
  chmod 644 bundle.pem
  SSL_CERT_FILE=$place/bundle.pem box --network allow=example.org -- sh -c 'env; cat "$SSL_CERT_FILE"'
  [ "$(sed -n 's/=.*nsbox-authorities.pem$//p' <<<"$output" | sort | xargs)" = "$variables" ]
  [ "${lines[-1]}" = "not really" ]
  SSL_CERT_FILE=$place/bundle.pem box --network allow=example.org -e PIP_CERT=own -- sh -c 'echo "$PIP_CERT"; rm "$SSL_CERT_FILE"'
  [ "${lines[0]}" = own ]
  [ -s bundle.pem ]
  SSL_CERT_FILE=$place/none.pem box --network allow=example.org -- true
  [[ $stderr = "nsbox: warning: SSL_CERT_FILE is $place/none.pem, which cannot be read"* ]]
  box -- env
  ! grep -q CERT <<<"$output" || false
}

@test "TCP is as loopback needs it: inside, and to the host itself" {
  command -v ss >/dev/null || skip "ss is not installed"
  serve
  [ "$("$nsbox" run cat /proc/sys/net/ipv4/tcp_congestion_control)" = reno ]
  "$nsbox" run --network "allow=host.nsbox.internal:$port" -- python3 -c '
import socket, sys, time
there = socket.create_connection(("host.nsbox.internal", int(sys.argv[1])))
time.sleep(60)' "$port" 3>&- &
  run=$!
  as_loopback() { ss -tinH state established "dport = :$port" | grep -q -w reno; }
  eventually as_loopback
  kill "$run"
  wait "$run" || true
}
