#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The standard descriptors that a caller may have: what the command gets of each, and that the host's end of it
# stays as it is.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  command -v python3 >/dev/null || skip "no python3"
}

# Runs Python inside, with standard descriptors as they are.
python_inside() {
  printf '%s' "$1" >"$place/code.py"
  timeout 60 "$nsbox" run "${@:2}" --ro-bind "$place/code.py:/code.py" -- python3 /code.py
}

# What must not change of a file, FIFO or terminal of the host.
marks() {
  stat -L -c '%a %u %g %X %Y %Z' "$@"
}

# --- standard input ---

@test "stdin: a file of /proc shows what it showed to the caller" {
  MARKED=yes sleep 30 3>&- &
  sleeper=$!
  eventually grep -q MARKED "/proc/$sleeper/environ"
  output=$("$nsbox" run -- sh -c 'tr "\0" "\n"' <"/proc/$sleeper/environ" | grep MARKED) || true
  kill "$sleeper"
  [ "$output" = MARKED=yes ]
  output=$("$nsbox" run -- cat </proc/version)
  [ "$output" = "$(cat /proc/version)" ]
}

@test "stdin: files that have no name any more, or that the name does not open" {
  for way in deleted unreadable replaced; do
    rm -f file
    printf 'first\nsecond\n' >file
    exec {input}<file
    read -r _ <&"$input"
    case $way in
    deleted) rm file ;;
    unreadable) chmod 0 file ;;
    replaced) rm file; echo another >file ;;
    esac
    output=$("$nsbox" run -- cat <&"$input")
    exec {input}<&-
    [ "$output" = second ]
  done
  output=$(python3 -c '
import os, sys
fd = os.memfd_create("x") if sys.argv[1] == "memfd" else os.open(".", os.O_TMPFILE | os.O_RDWR)
os.write(fd, b"in memory")
os.lseek(fd, 3, 0)
os.dup2(fd, 0)
os.execv(sys.argv[2], ["nsbox", "run", "cat"])' memfd "$nsbox")
  [ "$output" = "memory" ]
}

@test "stdin: open for writing only cannot be read" {
  echo secret >file
  for file in file /dev/null; do
    run "$nsbox" run -- cat 0>>"$file"
    [ "$status" = 1 ]
    [[ $output = *"Bad file descriptor"* && $output != *secret* ]]
  done
  [ "$(cat file)" = secret ]
}

@test "stdin: devices without a place of their own" {
  output=$("$nsbox" run -- head -c 4 </dev/zero | od -An -tx1 | xargs)
  [ "$output" = "00 00 00 00" ]
  run bash -c "'$nsbox' run -- sh -c 'echo x' >/dev/full"
  [ "$status" != 0 ]
  run python3 -c '
import os, sys
os.dup2(os.eventfd(1), 0)
os.execv(sys.argv[1], ["nsbox", "run", "cat"])' "$nsbox"
  [ "$status" = 125 ]
  [[ $output = "nsbox: standard input is"* ]]
}

@test "stdin: what the command does not read of a pipe stays there" {
  output=$(seq 100 | { "$nsbox" run -- true; cat; } | sha256sum)
  [ "$output" = "$(seq 100 | sha256sum)" ]
}

# --- sockets and FIFOs ---

@test "sockets are carried: the command has none, and takes no descriptor out of one" {
  echo secret >file
  cat >run.py <<'END'
import array, os, socket, subprocess, sys
ours, theirs = socket.socketpair()
secret = os.open("file", os.O_RDONLY)
socket.send_fds(ours, [b"sent\n"], [secret])
ours.shutdown(socket.SHUT_WR)
child = subprocess.Popen([sys.argv[1], "run", "--ro-bind", os.getcwd() + "/inner.py:/code.py", "python3", "/code.py"],
    stdin=theirs, stdout=theirs, stderr=theirs)
theirs.close()
data = b""
while part := ours.recv(4096):
    data += part
sys.stdout.write(data.decode())
sys.exit(child.wait())
END
  cat >inner.py <<'END'
import os, socket, stat, sys
print([stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in range(3)])
try:
    socket.socket(fileno=0)
    print("a socket")
except OSError as e:
    print(e.strerror)
print(sys.stdin.read().strip(), len(os.listdir("/proc/self/fd")))
print("error", file=sys.stderr)
END
  run timeout 60 python3 run.py "$nsbox"
  [ "$status" = 0 ]
  [[ $output = *"[True, True, True]"* && $output = *"Socket operation on non-socket"* && $output = *"sent 4"* && $output = *error* ]]
}

@test "sockets that are no connection are refused" {
  for kind in dgram listening; do
    run timeout 60 python3 -c '
import os, socket, sys
if sys.argv[2] == "dgram":
    s = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
else:
    s = socket.socket(socket.AF_INET); s.bind(("127.0.0.1", 0)); s.listen()
os.dup2(s.fileno(), 0)
os.execv(sys.argv[1], ["nsbox", "run", "true"])' "$nsbox" "$kind"
    [ "$status" = 125 ]
    [[ $output = "nsbox: standard input is a socket"* ]]
  done
}

@test "FIFOs are carried: the host's cannot be changed through a descriptor" {
  mkfifo -m 600 in out
  before=$(marks in out | cut -d' ' -f1-3)
  { echo data; sleep 1; } >in &
  cat out >received &
  reader=$!
  python_inside '
import os
print([os.readlink("/proc/self/fd/%d" % fd)[:5] for fd in (0, 1)], input())
for fd in 0, 1:
    os.fchmod(fd, 0o666)' <in >out
  wait "$reader"
  [ "$(cat received)" = "['pipe:', 'pipe:'] data" ]
  [ "$(marks in out | cut -d' ' -f1-3)" = "$before" ]
}

@test "FIFOs: one that the command has too does not make nsbox wait" {
  mkfifo -m 666 fifo
  sleep 60 3>&- >fifo &
  writer=$!
  start=$(milliseconds)
  run timeout 50 bash -c "'$nsbox' run --timeout 1 --bind '$place:/d' -- sh -c 'cat /d/fifo >/dev/null & cat' <fifo"
  kill "$writer"
  [ "$status" = 124 ]
  (($(milliseconds) - start < 30000))
}

# --- pipes ---

@test "pipes: one that is parked in the queue of a socket is not waited for" {
  # A service of the host's that does not get round to its clients.
  mkdir -m 755 shared
  python3 -c '
import socket, os, time
s = socket.socket(socket.AF_UNIX)
s.bind("shared/socket")
os.chmod("shared/socket", 0o777)
s.listen(9)
open("listens", "w").close()
time.sleep(100)' 3>&- &
  service=$!
  eventually test -e listens
  for options in "" --json; do
    start=$(milliseconds)
    code=0
    python_inside '
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/d/socket")
socket.send_fds(s, [b"x"], [1, 2])
print("parked", flush=True)' --ro-bind "$place/shared:/d" $options >file || code=$?
    [ "$code" = 0 ]
    grep -q parked file
    (($(milliseconds) - start < 50000))
  done
  kill "$service"
}

# How many pipes process $1 reads from that would make it wait, and how many that would not.
read_pipes() {
  local fd flags waiting=0 others=0
  for fd in "/proc/$1/fd"/*; do
    flags=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$1/fdinfo/${fd##*/}" 2>/dev/null) || continue
    [[ $(readlink "$fd") = pipe:* && $flags = *0 ]] || continue
    if ((flags & 04000)); then others=$((others + 1)); else waiting=$((waiting + 1)); fi
  done
  echo "$waiting $others"
}

reads_pipes() {
  [ "$(read_pipes "$1")" != "0 0" ]
}

# Whether process $1 is seen reading from pipes before it has ended.
seen_reading() {
  until reads_pipes "$1"; do
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.05
  done
}

@test "pipes: a command that steals from its own output does not make nsbox wait" {
  # What was there when nsbox looked may be gone when it reads.
  for options in "" --json; do
    # With more time, where a busy machine does not come to looking in less.
    for limit in 3 20; do
      "$nsbox" run --timeout $limit $options -- python3 -c '
import os, time
steal = os.open("/proc/self/fd/1", os.O_RDONLY)
for _ in range(3):
    if os.fork() == 0:
        while True:
            os.read(steal, 65536)
end = time.monotonic() + 1
while time.monotonic() < end:
    os.write(1, b"x")
time.sleep(100)' </dev/null >file 2>&1 &
      runner=$!
      start=$(milliseconds)
      seen=
      ! seen_reading "$runner" || seen=$(read_pipes "$runner")
      code=0
      wait "$runner" || code=$?
      [ "$code" = 124 ]
      (($(milliseconds) - start < (limit + 25) * 1000))
      [ ! "$seen" ] || break
    done
    [[ $seen = "0 "* ]]
  done
}

@test "pipes: the caller's belong to whom they belonged, and /dev/stdin and its kin can be opened" {
  cat >run.py <<'END'
import os, subprocess, sys
pipes = [os.pipe() for _ in range(3)]
os.write(pipes[0][1], b"data\n")
os.close(pipes[0][1])
ends = [pipes[0][0], pipes[1][1], pipes[2][1]]
before = [(os.fstat(fd).st_uid, os.fstat(fd).st_gid) for fd in ends]
script = "cat /dev/stdin >/dev/stdout; echo error >/dev/stderr; exec sleep 0.3"
child = subprocess.Popen([sys.argv[1], "run", "sh", "-c", script], stdin=ends[0], stdout=ends[1], stderr=ends[2])
outputs = [os.read(pipes[1][0], 5), os.read(pipes[2][0], 6)]
during = [(os.fstat(fd).st_uid, os.fstat(fd).st_gid) for fd in ends]
child.wait()
after = [(os.fstat(fd).st_uid, os.fstat(fd).st_gid) for fd in ends]
print(outputs, during[1:] == before[1:], after == before)
END
  run timeout 60 python3 run.py "$nsbox"
  [ "$output" = "[b'data\\n', b'error\\n'] True True" ]
}

@test "pipes: what others have written into an output pipe cannot be read from it" {
  cat >run.py <<'END'
import os, subprocess, sys
script = """
import os, select
for fd in (1, 2):
    other = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_NONBLOCK)
    print("%d: %r" % (fd, os.read(other, 100) if select.select([other], [], [], 0.5)[0] else None), file=out)
""".replace("file=out", "file=open('/workspace/seen', 'a')") + "print(open('/workspace/seen').read(), flush=True)"
command = [sys.argv[1], "run", "python3", "-c", script] if len(sys.argv) < 3 else ["python3", "-c", script.replace("/workspace/seen", "seen")]
pipes = [os.pipe() for _ in range(2)]
for _, end in pipes:
    os.write(end, b"secret of another writer\n")
subprocess.run(command, stdin=subprocess.DEVNULL, stdout=pipes[0][1], stderr=pipes[1][1])
for start, end in pipes:
    os.close(end)
    print(b"".join(iter(lambda: os.read(start, 100), b"")).decode(), end="")
END
  # Without a sandbox it works.
  run timeout 60 python3 run.py - control
  [[ $output = *"1: b'secret of another writer"* && $output = *"2: b'secret of another writer"* ]]
  run timeout 60 python3 run.py "$nsbox"
  [ "$output" = $'secret of another writer\n1: None\n2: None\n\nsecret of another writer' ]
}

@test "pipes: a command that waits for its reader to go away sees that" {
  start=$(milliseconds)
  run bash -c "'$nsbox' run --timeout 50 -- python3 -c '
import select
print(\"first\", flush=True)
p = select.poll()
p.register(1, 0)
p.poll()
exit(3)' | head -n 1; echo \${PIPESTATUS[0]}"
  [ "$output" = $'first\n3' ]
  (($(milliseconds) - start < 40000))
}

@test "pipes: lines of several writers stay whole" {
  output=$(for i in 1 2 3 4; do
    "$nsbox" run -- sh -c 'i=0; while [ $i -lt 5000 ]; do echo "line of writer $0"; i=$((i + 1)); done' $i &
  done | { sleep 0.5; sort; } | uniq -c | xargs)
  [ "$output" = "5000 line of writer 1 5000 line of writer 2 5000 line of writer 3 5000 line of writer 4" ]
}

# --- terminals that are passed on ---

changes='
import os, sys
for fd in range(3):
    if not os.isatty(fd):
        continue
    for what in (lambda: os.fchmod(fd, 0o666), lambda: os.utime(fd, (1, 1)), lambda: os.utime(fd),
            lambda: os.chmod("/proc/self/fd/%d" % fd, 0o666),
            lambda: os.fchmod(os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_NOCTTY), 0o666)):
        try:
            what()
            print("CHANGED")
        except OSError as e:
            print("terminal", fd, e.strerror)
    os.set_blocking(fd, False)'

@test "terminals: without -t the host's cannot be changed, whichever descriptors it is on" {
  printf '%s' "$changes" >code.py
  for redirection in "" "| cat" "2>/dev/null | cat" "</dev/null" "</dev/null >/dev/null"; do
    run "$pty" -- bash -c "before=\$(stat -c '%a %u %g' \$(tty))
      '$nsbox' run -T --ro-bind '$place/code.py:/code.py' -- python3 /code.py $redirection
      [ \"\$before\" = \"\$(stat -c '%a %u %g' \$(tty))\" ] && ((\$(stat -c %Y \$(tty)) > 1)) && echo unchanged
      python3 -c 'import os; print([os.get_blocking(fd) for fd in range(3)])'"
    [[ $output = *unchanged* && $output != *CHANGED* ]] || { echo "$redirection: $output"; return 1; }
    [[ $output = *"[True, True, True]"* ]]
    [[ $redirection = *"</dev/null >/dev/null"* || $output = *"Read-only file system"* ]]
  done
}

@test "terminals: without -t what is typed and shown is the command's" {
  run "$pty" wait:ready "type:hello\\r" -- "$nsbox" run -T -- sh -c '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo ready; read -r x; echo "got <$x>"'
  [ "$status" = 0 ]
  [[ $output = *"got <hello>"* ]]
}

@test "terminals: without -t too the modes are as they were after every end" {
  # The first is a limit of time: with more of it, where a busy machine does not come as far in less.
  for way in "" "signal:TERM" "signal:HUP" "signal:INT"; do
    limits=60
    [ "$way" ] || limits="4 20"
    for limit in $limits; do
      run "$pty" wait:ready modes ${way:+"$way"} -- "$nsbox" run -T --timeout $limit -- \
        python3 -c 'import time, tty; tty.setraw(0); print("ready", flush=True); time.sleep(80)'
      [[ $output != *"[pty: raw]"* ]] || break
    done
    [[ $output = *"[pty: raw]"*"[pty at the end: cooked]"* ]] || { echo "$way: $output"; return 1; }
  done
  run "$pty" -- "$nsbox" run -T -- stty raw -echo
  [[ $output = *"[pty at the end: cooked]"* ]]
}

@test "terminals: the side that rules one is refused" {
  run python3 -c '
import os, sys
os.dup2(os.openpty()[0], 0)
os.execv(sys.argv[1], ["nsbox", "run", "true"])' "$nsbox"
  [ "$status" = 125 ]
  [[ $output = "nsbox: standard input is"* ]]
}

@test "pipes: whether reads and writes of the caller's wait stays the caller's" {
  command -v python3 >/dev/null || skip "no python3"
  run bash -c "(for i in 1 2 3; do echo item\$i; sleep 0.4; done) | (while read -r line; do echo got \$line
    '$nsbox' run -- python3 -c 'import os; os.set_blocking(0, False); os.set_blocking(1, False)'; done)"
  [ "$status" = 0 ]
  [ "$output" = $'got item1\ngot item2\ngot item3' ]
}

@test "pipes: as root, standard input can be opened again to be read, and not to be written or changed" {
  am_root || skip "needs root"
  run bash -c "echo x | { '$nsbox' run -- sh -c 'echo evil >/proc/self/fd/0; chmod 777 /proc/self/fd/0; cat /dev/stdin'; stat -Lc %a:%u:%g /dev/stdin; }"
  [[ $output = *"ermission denied"*$'\nx\n600:0:0' ]]
}
