#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Sessions: what goes into them and comes out of them. Nobody who does not take or give what he should holds a session up.

load helpers
load sessions

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime
  mkdir -m 700 runtime
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-})
}

inside() {
  timeout 60 "$nsbox" session exec "$id" -- "$@" </dev/null
}

input() {
  observe timeout 60 "$nsbox" session input "$@"
}

# Whether what process $1 has written is $2.
wrote() {
  [ "$("$nsbox" session logs "$id" "$1")" = "$2" ]
}

# One request as a Python expression, as it goes over the wire; the answer is printed.
request() {
  timeout 60 python3 - "$XDG_RUNTIME_DIR/nsbox/sessions/$id" "$1" <<'END'
import base64, json, socket, struct, sys
body = json.dumps(eval(sys.argv[2])).encode()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(struct.pack("II", 18, len(body)) + body)
f = s.makefile("rb")
kind, length = struct.unpack("II", f.read(8))
print(f.read(length).decode())
END
}

@test "input: lines, bytes and the end of it" {
  process=$("$nsbox" session exec -d -i "$id" sh -c 'while read -r line; do echo "got $line"; done; echo end')
  input "$id" "$process" 'one  line\'
  [ "$status" = 0 ]
  eventually wrote "$process" 'got one  line\'
  input -n "$id" "$process" 'two '
  input "$id" "$process" lines
  eventually wrote "$process" $'got one  line\\\ngot two lines'
  printf 'three\nfour\n' | "$nsbox" session input "$id" "$process" -
  eventually wrote "$process" $'got one  line\\\ngot two lines\ngot three\ngot four'
  input --close "$id" "$process"
  run timeout 60 "$nsbox" session logs -f "$id" "$process"
  [ "$status" = 0 ]
  [ "${lines[-1]}" = end ]
  # Bytes of any kind, and more of them than any pipe takes.
  head -c 5000000 /dev/urandom >bytes
  process=$("$nsbox" session exec -d -i "$id" sh -c 'sleep 1; sha256sum')
  "$nsbox" session input --close "$id" "$process" - <bytes
  run timeout 60 "$nsbox" session logs -f "$id" "$process"
  [ "${output%% *}" = "$(sha256sum <bytes | cut -d ' ' -f 1)" ]
}

@test "input: where there is none, that is said" {
  process=$("$nsbox" session exec -d "$id" sh -c 'cat; echo empty; sleep 1000')
  eventually wrote "$process" empty
  input "$id" "$process" text
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: the standard input of process $process is not open"* ]]
  process=$("$nsbox" session exec -d -i "$id" sh -c 'exec <&-; echo closed; sleep 1000')
  eventually wrote "$process" closed
  input "$id" "$process" text
  [ "$status" = 125 ]
  [ "$stderr" = "nsbox: process $process has closed its standard input" ]
  process=$("$nsbox" session exec -d -i "$id" sleep 1000)
  input --close "$id" "$process" text
  [ "$status" = 0 ]
  input "$id" "$process" text
  [ "$stderr" = "nsbox: the standard input of process $process was closed" ]
  process=$("$nsbox" session exec -d -i "$id" true)
  "$nsbox" session logs -f "$id" "$process"
  input "$id" "$process" text
  [ "$stderr" = "nsbox: process $process has ended" ]
  input "$id" 99 text
  [[ $stderr = "nsbox: the session has no process 99"* ]]
  input "$id" 99
  [ "$status" = 125 ]
}

@test "input: what is not read is kept, no more than 1 MiB of it, and nobody waits" {
  process=$("$nsbox" session exec -d -i "$id" sh -c 'until [ -e go ]; do sleep 0.1; done; wc -c')
  megabyte="{'op': 'input', 'process': $process, 'data': base64.b64encode(bytes(1 << 20)).decode()}"
  run request "$megabyte"
  [[ $output = *pending* ]]
  pending=$(jq .pending <<<"$output")
  ((pending > 900000 && pending < 1 << 20))
  run request "$megabyte"
  [[ $output = *"process $process has $pending bytes of its standard input still to read, and no more than 1 MiB are kept"* ]]
  run request "{'op': 'input', 'process': $process, 'data': base64.b64encode(bytes((1 << 20) + 1)).decode()}"
  [[ $output = *"at most 1 MiB"* ]]
  run request "{'op': 'input', 'process': $process, 'data': '%%'}"
  [[ $output = *"not base64"* ]]
  [ "$(inside echo there)" = there ]
  input --close "$id" "$process" end
  inside touch go
  run timeout 60 "$nsbox" session logs -f "$id" "$process"
  [ "$output" = $(((1 << 20) + 4)) ]
}

@test "input: after that of the request, and while there is no command yet" {
  "$nsbox" run --print-spec cat | jq '.execs[0] += {stdin: "data", stdin_data: "first\n", timeout_ms: 0}' >spec
  run request "{'op': 'exec', 'background': True, 'stdin_open': True, 'spec': json.load(open('spec'))}"
  process=$(jq .process <<<"$output")
  [ "$process" -ge 1 ]
  input --close "$id" "$process" second
  run timeout 60 "$nsbox" session logs -f "$id" "$process"
  [ "$output" = $'first\nsecond' ]
  run request "{'op': 'exec', 'stdin_open': True, 'spec': json.load(open('spec'))}"
  [[ $output = *"in the background only"* ]]
}

# What a file of the session has, and whether one is there.
content() {
  inside sha256sum "$1" | cut -d ' ' -f 1
}

has_nothing_beside() {
  [ "$(inside ls -A)" = "$1" ]
}

@test "cp: large files, and what ends in between, in both directions" {
  head -c 30000000 /dev/urandom >large
  sum=$(sha256sum <large | cut -d ' ' -f 1)
  "$nsbox" session cp large "$id:large"
  [ "$(content large)" = "$sum" ]
  "$nsbox" session cp "$id:large" - | sha256sum | grep -q "^$sum "
  cat large | "$nsbox" session cp - "$id:piped"
  [ "$(content piped)" = "$sum" ]
  # A file whose size the kernel does not tell.
  "$nsbox" session cp "$id:/proc/self/status" - | grep -q ^Name:
  # Who copies is killed: what was there is there, and nothing beside it.
  echo precious >old
  inside rm large piped
  "$nsbox" session cp old "$id:old"
  local seconds=$(mark)
  "$nsbox" session cp - "$id:old" < <(head -c 5000000 large; exec sleep "$seconds" 3>&-) &
  client=$!
  eventually inner_pid "sleep $seconds" # so that it has read all there is
  eventually eval '! has_nothing_beside old'
  kill -9 "$client"
  pkill -f "^sleep $seconds"
  eventually has_nothing_beside old
  [ "$(inside cat old)" = precious ]
  # What it reads fails: as if it had never been tried.
  observe bash -c "exec '$nsbox' session cp - '$id:old' </"
  [ "$status" = 125 ]
  eventually has_nothing_beside old
  [ "$(inside cat old)" = precious ]
  # Where it is to be written there is no room, or it is no file.
  "$nsbox" session cp large "$id:large"
  observe bash -c "'$nsbox' session cp '$id:large' - >/dev/full"
  [ "$status" = 125 ]
  [[ $stderr = *"writing it: No space left on device" ]]
  observe bash -c "timeout 20 '$nsbox' session cp '$id:large' - | head -c 1"
}

@test "cp: who does not go on holds up nobody, and no time runs for him" {
  head -c 30000000 /dev/zero >large
  "$nsbox" session cp large "$id:large"
  (until [ -e go ]; do sleep 0.1; done; cat large) | timeout 200 "$nsbox" session cp - "$id:late" &
  "$nsbox" session cp "$id:large" - | (until [ -e go ]; do sleep 0.1; done; wc -c >count) &
  for _ in 1 2 3 4; do
    [ "$(timeout 30 "$nsbox" session exec "$id" echo there </dev/null)" = there ]
    sleep 0.5
  done
  touch go
  wait
  [ "$(<count)" = 30000000 ]
  [ "$(inside stat -c %s late)" = 30000000 ]
  # Refused at once, whatever there is still to come.
  local seconds=$(mark)
  run timeout 30 "$nsbox" session cp - "$id:/proc/self/status/x" < <(exec sleep "$seconds" 3>&-)
  pkill -f "^sleep $seconds"
  [ "$status" = 125 ]
}

@test "cp: what the supervisor holds of it is bounded" {
  supervisor=$("$nsbox" session ls --json | jq .[].supervisor)
  head -c 60000000 /dev/zero >large
  "$nsbox" session cp large "$id:large"
  "$nsbox" session cp "$id:large" - >/dev/null
  peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$supervisor/status")
  most=20000
  ! grep -q __asan_init "$nsbox" || most=40000 # a sanitizer holds what was freed
  ((peak < most)) || { echo "$peak KiB"; return 1; }
}

@test "without descriptors: clients are told so, nobody waits, and it goes on" {
  "$nsbox" session stop --all
  observe bash -c "ulimit -n 100; '$nsbox' session new"
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: a session needs "*" open files, and the limit is 100"* ]]
  # Each keeper of a command is large with a sanitizer.
  id=$(ulimit -n 550 && "$nsbox" session new -m 8g)
  supervisor=$("$nsbox" session ls --json | jq .[].supervisor)
  for _ in {1..46}; do
    "$nsbox" session exec -d -i "$id" sleep 1000 >/dev/null
  done
  run timeout 300 python3 - "$XDG_RUNTIME_DIR/nsbox/sessions/$id" "$supervisor" "$nsbox" "$id" <<'END'
import array, os, resource, socket, struct, subprocess, sys, time
place, supervisor, nsbox, session = sys.argv[1:]
header = struct.pack("II", 18, 100)
null = [os.open("/dev/null", os.O_RDWR)] * 3
def cpu():
    fields = open(f"/proc/{supervisor}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
clients = []
for _ in range(95):
    s = socket.socket(socket.AF_UNIX)
    s.connect(place)
    s.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", null))])
    clients.append(s)
time.sleep(0.5)
def ask(what):
    return subprocess.run([nsbox, "session", "exec", session, "echo", what], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
# It may take a while to take them all; and how many descriptors a session itself has depends on where it is made.
for limit in [550] * 10 + list(range(548, 400, -2)):
    resource.prlimit(int(supervisor), resource.RLIMIT_NOFILE, (limit, 550))
    answer = ask("refused")
    if answer.returncode:
        break
print(answer.returncode, (answer.stderr.splitlines() or [""])[0])
for _ in range(10): # with what came before it may be busy for a while
    before = cpu()
    time.sleep(1)
    took = cpu() - before
    if took < 0.3:
        break
print("idle" if took < 0.3 else f"busy: {took}")
for s in clients:
    s.close()
for _ in range(60): # it may take a while to notice that they have gone
    answer = ask("there again")
    if not answer.returncode:
        break
    time.sleep(0.1)
print(answer.stdout, answer.stderr)
END
  echo "$output"
  # The one or the other, by whether one is left or two.
  [[ ${lines[0]} = "125 nsbox: the session has as many descriptors open as it may have" ||
    ${lines[0]} = "125 nsbox: "*": Too many open files" ]]
  [ "${lines[1]}" = idle ]
  [ "${lines[2]}" = "there again" ]
}

@test "more clients than there is room for are told so" {
  run timeout 300 python3 - "$XDG_RUNTIME_DIR/nsbox/sessions/$id" "$nsbox" "$id" <<'END'
import socket, subprocess, sys
place, nsbox, session = sys.argv[1:]
clients = []
for _ in range(96):
    s = socket.socket(socket.AF_UNIX)
    s.connect(place)
    clients.append(s)
run = lambda: subprocess.run([nsbox, "session", "exec", session, "echo", "there"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
print(run().stderr.splitlines()[0])
clients.pop().close()
for _ in range(60): # until it has noticed
    answer = run()
    if not answer.returncode:
        break
print(answer.stdout)
END
  [ "${lines[0]}" = "nsbox: the session has 96 clients already" ]
  [ "${lines[1]}" = there ]
}

@test "exec: files, FIFOs and pipes that cannot be opened anew are carried by the client" {
  seq 1 200000 >numbers
  "$nsbox" session exec "$id" sh -c 'cat; echo error >&2' <numbers >out 2>err
  cmp numbers out
  [ "$(<err)" = error ]
  echo first >log
  "$nsbox" session exec "$id" echo second </dev/null >>log 2>&1
  [ "$(<log)" = $'first\nsecond' ]
  mkfifo in
  timeout 60 "$nsbox" session exec "$id" cat <in >out &
  cat numbers >in
  wait
  cmp numbers out
  # Nothing is left of who carries, whatever there is still to be read.
  sleep 100 >in &
  timeout 50 "$nsbox" session exec "$id" echo there <in >out
  kill "$!"
  [ "$(<out)" = there ]
  observe bash -c "ulimit -f 1; exec '$nsbox' session exec '$id' head -c 100000 /dev/zero >small"
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: warning: writing to standard output failed: File too large; what came after is lost" ]]
  run timeout 60 python3 - "$nsbox" "$id" <<'END'
import os, subprocess, sys, time
nsbox, session = sys.argv[1:]
def closed_pipe():
    ends = os.pipe()
    os.fchmod(ends[0], 0)
    return ends
mine, theirs = closed_pipe()[::-1], closed_pipe()
client = subprocess.Popen([nsbox, "session", "exec", session, "cat"], stdin=mine[1], stdout=theirs[1])
os.close(mine[1]); os.close(theirs[1])
os.write(mine[0], b"through"); os.close(mine[0])
print(os.read(theirs[0], 100).decode(), client.wait(50))
# Nobody reads it.
theirs = closed_pipe()
client = subprocess.Popen([nsbox, "session", "exec", session, "yes"], stdin=subprocess.DEVNULL, stdout=theirs[1])
time.sleep(1)
print(subprocess.run([nsbox, "session", "exec", session, "echo", "there"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL).stdout, end="")
client.kill()
END
  [ "$output" = $'through 0\nthere' ]
}

@test "exec: the supervisor takes no descriptor that it would have to wait for" {
  "$nsbox" run --print-spec cat | jq '.execs[0].timeout_ms = 0' >spec
  run timeout 60 python3 - "$XDG_RUNTIME_DIR/nsbox/sessions/$id" <<'END'
import array, json, os, socket, struct, sys
body = json.dumps({"op": "exec", "spec": json.load(open("spec"))}).encode()
for name in "spec", "fifo":
    if name == "fifo":
        os.mkfifo(name)
    fd = os.open(name, os.O_RDWR)
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendmsg([struct.pack("II", 18, len(body))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 3))])
    s.sendall(body)
    f = s.makefile("rb")
    kind, length = struct.unpack("II", f.read(8))
    print(f.read(length).decode())
END
  echo "$output"
  [ "$(grep -c "neither a connection nor a pipe or terminal" <<<"$output")" = 2 ]
}
