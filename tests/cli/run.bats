#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `nsbox run`: the status, the descriptors, the environment, the files and the terminal of a command.

load helpers

# --- how it ends ---

@test "status: the command's own" {
  for code in 0 1 3 42 255; do
    box -- sh -c "exit $code"
    [ "$status" = "$code" ]
    [ -z "$stderr" ]
    json -- sh -c "exit $code"
    [ "$status" = "$code" ]
    is .ended_by exited
    is .exit_code "$code"
    is .status "$code"
    is .signal null
  done
}

@test "status: 124, 125, 126, 127 and 137 of the command's stay its own in JSON" {
  for code in 124 125 126 127 137; do
    json -- sh -c "exit $code"
    [ "$status" = "$code" ]
    is .ended_by exited
    is .exit_code "$code"
    is .message null
    holds '.limits_hit == [] and .error == null and .exec_error == null'
  done
}

@test "status: 124 when the time is up, with a sentence" {
  box --timeout 300ms -- sleep 20
  [ "$status" = 124 ]
  [[ $stderr = "nsbox: "*"time limit of 300 ms"*"--timeout"* ]]
  json --timeout 300ms -- sleep 20
  [ "$status" = 124 ]
  is .ended_by timeout
  is .exit_code null
}

@test "status: 125 when nsbox cannot, with a line" {
  box --rootfs "$place/absent" -- true
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: "*absent* ]]
  json --rootfs "$place/absent" -- true
  [ "$status" = 125 ]
  is .ended_by setup
  holds '.error.text != null and .exit_code == null'
}

@test "status: 126 for what cannot be executed" {
  echo data >"$place/data"
  chmod 644 "$place/data"
  for command in /tmp /etc/passwd /data; do
    box --ro-bind "$place/data:/data" -- "$command"
    [ "$status" = 126 ]
    [[ $stderr = "nsbox: "*"$command"* ]]
  done
  json -- /etc/passwd
  [ "$status" = 126 ]
  is .exec_error EACCES
  chmod 755 "$place/data"
  json --ro-bind "$place/data:/data" -- /data
  [ "$status" = 126 ]
  is .exec_error ENOEXEC
}

@test "status: 127 for what is not found" {
  for command in /no/such/program no-such-program; do
    box -- "$command"
    [ "$status" = 127 ]
    [[ $stderr = "nsbox: "*"$command"* ]]
    json -- "$command"
    [ "$status" = 127 ]
    is .exec_error ENOENT
  done
}

@test "status: 128+n for signal n, which is named" {
  for signal in TERM:143 KILL:137 SEGV:139 ABRT:134 HUP:129 USR1:138; do
    box -- sh -c "kill -${signal%:*} \$\$"
    [ "$status" = "${signal#*:}" ]
    [[ $stderr = *"SIG${signal%:*}"* ]]
    json -- sh -c "kill -${signal%:*} \$\$"
    [ "$status" = "${signal#*:}" ]
    is .ended_by signaled
    is .signal "SIG${signal%:*}"
    is .exit_code null
  done
}

@test "a program that kills itself with SIGKILL is not said to have met a limit" {
  json -- sh -c 'kill -KILL $$'
  holds '.limits_hit == [] and .ended_by == "signaled"'
}

@test "what the command leaves behind ends with it: no waiting for a pipe held open" {
  seconds=$(mark)
  begin=$(milliseconds)
  output=$(timeout 50 "$nsbox" run --timeout none -- sh -c "sleep $seconds & sleep $seconds >/dev/null 2>&1 & echo done" </dev/null)
  [ "$output" = done ]
  (($(milliseconds) - begin < 25000))
  begin=$(milliseconds)
  json --timeout none -- sh -c "(setsid sleep $seconds &) ; echo done"
  is .stdout "done"
  is .status 0
  (($(milliseconds) - begin < 25000))
  eventually nothing_runs "sleep $seconds"
}

@test "orphans are reaped while the command runs" {
  box -- sh -c 'for i in 1 2 3 4 5; do (sh -c ": >ended-$i" & ) ; done; until [ -e ended-1 -a -e ended-2 -a -e ended-3 -a -e ended-4 -a -e ended-5 ]; do sleep 0.1; done
    i=0; while [ $i -lt 200 ] && grep -l "State:.Z" /proc/[0-9]*/status; do i=$((i + 1)); sleep 0.1; done >zombies; [ $i -lt 200 ] || cat zombies'
  [ -z "$output" ]
}

# --- standard input ---

@test "stdin: a pipe" {
  output=$(printf 'one\ntwo\n' | "$nsbox" run -- cat)
  [ "$output" = $'one\ntwo' ]
  output=$(seq 200000 | "$nsbox" run -- sha256sum)
  [ "$output" = "$(seq 200000 | sha256sum)" ]
}

@test "stdin: a file, from where it is read to" {
  printf 'first\nsecond\nthird\n' >file
  output=$("$nsbox" run -- cat <file)
  [ "$output" = "$(cat file)" ]
  output=$({ read -r line; "$nsbox" run -- cat; } < <(cat file))
  [ "$output" = $'second\nthird' ]
  exec {input}<file
  read -r line <&"$input"
  output=$("$nsbox" run -- cat <&"$input")
  exec {input}<&-
  [ "$output" = $'second\nthird' ]
}

@test "stdin: a file that can be sought in" {
  printf 'abcdef' >file
  output=$("$nsbox" run -- sh -c 'tail -c 2; dd bs=1 skip=0 count=0 2>/dev/null; stat -L -c %F /proc/self/fd/0' <file)
  [[ $output = "efregular file" ]]
}

@test "stdin: a file without a name" {
  printf 'gone\n' >file
  exec {input}<file
  rm file
  output=$("$nsbox" run -- cat <&"$input")
  exec {input}<&-
  [ "$output" = gone ]
}

@test "stdin: a file of mode 600 in a folder of mode 700" {
  mkdir -m 700 folder
  echo private >folder/file
  chmod 600 folder/file
  output=$("$nsbox" run -- cat <folder/file)
  [ "$output" = private ]
  output=$("$nsbox" run -u 1000 -- cat <folder/file)
  [ "$output" = private ]
}

@test "stdin: a large file" {
  seq 300000 >file
  output=$("$nsbox" run -- sha256sum <file)
  [ "$output" = "$(sha256sum <file)" ]
}

@test "stdin: /dev/null, a here-document, a FIFO, a socket" {
  output=$("$nsbox" run -- wc -c </dev/null)
  [ "$output" = 0 ]
  output=$("$nsbox" run -- cat <<<"here")
  [ "$output" = here ]
  mkfifo fifo
  for wait in 0 0.2; do
    # Also when the writer has gone before it is read from.
    echo through >fifo &
    output=$({ sleep $wait; "$nsbox" run -- cat; } <fifo)
    [ "$output" = through ]
  done
}

@test "stdin, stdout and stderr: closed" {
  output=$("$nsbox" run -- sh -c 'cat; echo out' <&-)
  [ "$output" = out ]
  "$nsbox" run -- sh -c 'exit 7' >&- || [ $? = 7 ]
  "$nsbox" run -- sh -c 'exit 7' 2>&- || [ $? = 7 ]
  "$nsbox" run -- sh -c 'exit 7' <&- >&- 2>&- || [ $? = 7 ]
}

@test "a directory as standard input or output is refused with a line that says what to do" {
  run "$nsbox" run -- true <"$place"
  [ "$status" = 125 ]
  [[ ${lines[0]} = "nsbox: standard input is a directory"* ]]
  run --separate-stderr "$nsbox" run --json -- true <"$place"
  [ "$status" = 125 ]
  [[ $(jq -r .error.text <<<"$output") = "standard input is a directory"* ]]
}

# --- standard output ---

@test "stdout: into a file, over what was there or behind it" {
  echo before >file
  "$nsbox" run -- echo after >>file
  [ "$(cat file)" = $'before\nafter' ]
  "$nsbox" run -- seq 100000 >file
  [ "$(sha256sum <file)" = "$(seq 100000 | sha256sum)" ]
}

@test "stdout: 2>&1 into a file keeps the order" {
  "$nsbox" run -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done' >file 2>&1
  for i in 1 2 3 4 5 6 7 8 9; do
    echo "out$i"
    echo "err$i"
  done >expected
  diff expected file
}

@test "stdout: everything arrives in the file before nsbox ends, after a kill too" {
  for i in 1 2 3; do
    "$nsbox" run -- sh -c 'seq 50000; kill -KILL $$' >file 2>/dev/null || true
    [ "$(tail -n 1 file)" = 50000 ]
  done
}

@test "stdout: a pipe that nobody reads from ends the command by SIGPIPE" {
  run bash -c "'$nsbox' run --timeout 50 -- yes | head -n 1; echo \${PIPESTATUS[0]}"
  [ "${lines[0]}" = y ]
  [ "${lines[1]}" = 141 ]
}

@test "stdout: /dev/full is an error of the command's own" {
  run bash -c "'$nsbox' run -- sh -c 'echo x' >/dev/full"
  [ "$status" != 0 ]
}

@test "stdout: a file that can take no more is told, and not passed over" {
  for command in "seq 100000" "sh -c 'seq 10000; trap \"\" PIPE; sleep 0.1; exit 0'"; do
    run bash -c "ulimit -f 8; trap '' XFSZ; '$nsbox' run -- $command >file"
    [ "$status" != 0 ]
    [[ $output = *"nsbox: "*"File too large"* ]]
  done
}

@test "JSON: that cannot be written is 125" {
  run bash -c "'$nsbox' run --json -- true >/dev/full"
  [ "$status" = 125 ]
}

@test "JSON: text, binary and Unicode output" {
  json -- printf 'gr\303\274n \342\202\254\n'
  is .stdout "grün €"
  is .stdout_base64 null
  is .stdout_bytes 10
  json -- printf 'a\377\000b'
  is .stdout_base64 "$(printf 'a\377\000b' | base64)"
  is .stdout_bytes 4
  json -- sh -c 'echo out; echo err >&2'
  is .stdout out
  is .stderr err
}

# --- environment and place ---

@test "env: only PATH, HOME, LANG and USER; none of the caller's" {
  SECRET=x LD_PRELOAD= box -- env
  [ "$(sort <<<"$output" | cut -d= -f1 | xargs)" = "HOME LANG PATH USER" ]
  box -u 1000 -- env
  [ "$(sort <<<"$output" | cut -d= -f1 | xargs)" = "HOME LANG PATH USER" ]
  [[ $output = *"HOME=/home/user"* ]]
}

@test "env: -e sets, takes over and wins; --env-file" {
  export TAKEN="from the caller"
  box -e A=1 -e EMPTY= -e "SPACED=a b=c" -e TAKEN -e HOME=/tmp -- sh -c 'echo "$A|$EMPTY|$SPACED|$TAKEN|$HOME"'
  [ "$output" = "1||a b=c|from the caller|/tmp" ]
  printf 'A=file\nB=file\n' >variables
  box --env-file variables -e A=option -- sh -c 'echo $A $B'
  [ "$output" = "option file" ]
}

@test "cwd: /workspace, / with a rootfs, or -w" {
  box -- pwd
  [ "$output" = /workspace ]
  box -w /tmp -- pwd
  [ "$output" = /tmp ]
  box -w /no/such -- pwd
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*"/no/such"* ]]
}

@test "the places that a program needs are writable, the host's are not" {
  box -- sh -c 'for d in . /tmp /dev/shm "$HOME"; do touch $d/x || exit 1; done; touch /usr/x 2>/dev/null && exit 2; exit 0'
  [ "$status" = 0 ]
  box -u 1000:1000 -- sh -c 'for d in . /tmp /dev/shm "$HOME"; do touch $d/x || exit 1; done'
  [ "$status" = 0 ]
}

@test "user: 0 by default, or -u UID[:GID]; with a name" {
  loaded -- /load ids
  [[ $output = "0 0 0 0"* ]]
  loaded -u 1000 -- /load ids
  [[ $output = "1000 1000 1000 1000"* ]]
  loaded -u 33:44 -- /load ids
  [[ $output = "33 33 44 44"* ]]
  box -- id -un
  [ "$output" = root ]
  box -u 1000 -- id -un
  [ "$status" = 0 ]
}

@test "umask: the caller's does not make the sandbox unusable" {
  mkdir tree
  cp "$load" tree/load
  observe sh -c 'umask 0777; exec "$0" "$@"' "$nsbox" run -u 1000 -- \
    sh -c 'umask; echo x >/tmp/x && cat /tmp/x && echo x >~/x && cat /etc/passwd >/dev/null && ls /run /var/tmp /dev/shm'
  [ "$status" = 0 ]
  [ "${lines[0]}" = 0022 ]
  observe sh -c 'umask 0777; exec "$0" "$@"' "$nsbox" run --rootfs "$place/tree" --tmpfs /a/b/c --ro-bind "$load:/d/e/load" -- \
    /d/e/load write /a/b/c/file 1
  [ "$output" = written ]
}

@test "hostname: nsbox, or what was asked for" {
  box -- uname -n
  [ "$output" = nsbox ]
  box --hostname box7 -- sh -c 'uname -n; grep -q box7 /etc/hosts && echo known'
  [ "$output" = $'box7\nknown' ]
}

@test "bind: the caller's owner outside, the inside user's inside" {
  mkdir shared
  echo mine >shared/file
  for user in 0 1000; do
    box --bind "$place/shared:/data" -u "$user" -- sh -c 'stat -c %u /data/file; echo new >/data/new; mkdir /data/folder; echo more >>/data/file; stat -c %u /data/new'
    [ "$status" = 0 ]
    [ "$output" = "$user"$'\n'"$user" ]
    [ "$(stat -c %u shared/new shared/folder shared/file | sort -u)" = "$(id -u)" ]
    [ "$(stat -c %g shared/new)" = "$(id -g)" ]
    rm -r shared/new shared/folder
  done
  [ "$(cat shared/file)" = $'mine\nmore\nmore' ]
}

@test "bind: read-only, a file, a folder below another" {
  mkdir -p shared/inner
  echo mine >shared/file
  box --ro-bind "$place/shared:/data" -- sh -c 'cat /data/file; echo x >/data/file'
  [ "$status" != 0 ]
  [ "${lines[0]}" = mine ]
  box --bind "$place/shared:/data:ro" -- sh -c 'echo x >/data/file'
  [ "$status" != 0 ]
  [ "$(cat shared/file)" = mine ]
  box --bind "$place/shared/file:/a/deep/place/file" -- sh -c 'echo changed >/a/deep/place/file'
  [ "$status" = 0 ]
  [ "$(cat shared/file)" = changed ]
  box --ro-bind "$place/shared:/data" --bind "$place/shared/inner:/data/inner" -- sh -c 'touch /data/inner/ok && ! touch /data/no'
  [ "$status" = 0 ]
  [ -e shared/inner/ok ]
}

@test "tmpfs: with a size of its own" {
  loaded --tmpfs /scratch:2m -- /load write /scratch/file 8
  [ "$output" = ENOSPC ]
  loaded --tmpfs /scratch:16m -- /load write /scratch/file 8
  [ "$output" = written ]
}

@test "read-only: no writing to the root, but to /tmp" {
  box --read-only -- sh -c 'touch /x && exit 1; touch /etc/x && exit 1; touch /usr/x && exit 1; touch /tmp/x'
  [ "$status" = 0 ]
}

@test "rootfs: of one static program; nothing of it is changed" {
  mkdir -p tree
  cp "$load" tree/load
  box --rootfs "$place/tree" -- /load ids
  [ "$status" = 0 ]
  [[ $output = "0 0 0 0"* ]]
  loaded --rootfs "$place/tree" -- /load write /file 1
  [ "$output" = written ]
  [ "$(ls tree)" = load ]
}

@test "rootfs: read-only" {
  mkdir -p tree
  cp "$load" tree/load
  box --rootfs "$place/tree" --read-only -- /load write /file 1
  [ "$status" != 0 ]
  [ "$(ls tree)" = load ]
}

@test "network: none has a loopback of its own, host is the host's" {
  command -v python3 >/dev/null || skip "no python3"
  box -- sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1 | xargs'
  [ "$output" = lo ]
  box -- python3 -c 'import socket
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    try: s = socket.create_server((address, 0), family=family)
    except OSError:
        if family == socket.AF_INET6: continue
        raise
    socket.create_connection(s.getsockname()[:2]).send(b"x")
print("served")'
  [ "$output" = served ]
  box --network host -- sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1 | xargs'
  [ "$output" = "$(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)" ]
}

@test "descriptors: 0, 1 and 2, whatever the caller has open" {
  exec 7<"$BATS_TEST_FILENAME" 21>>"$place/log"
  loaded -- /load descriptors
  exec 7<&- 21>&-
  [ "$(cut -d' ' -f1 <<<"$output" | xargs)" = "0 1 2" ]
}

@test "options end at the command" {
  box printf '%s ' -e --json -m
  [ "$output" = "-e --json -m " ]
  box -- echo --timeout
  [ "$output" = "--timeout" ]
}

@test "print-spec: what would be run, and nothing is" {
  run --separate-stderr "$nsbox" run --print-spec -m 64m -e A=b --timeout 5 -- sh -c "touch $place/made"
  [ "$status" = 0 ]
  jq -e . >/dev/null <<<"$output"
  [[ $output = *67108864* && $output = *"A=b"* || $output = *'"A"'* ]]
  [ ! -e made ]
}

# --- signals ---

@test "signals: forwarded to the command" {
  for signal in TERM INT HUP QUIT USR1 USR2; do
    rm -f out
    "$nsbox" run -- bash -c "trap 'echo got $signal; exit 9' $signal; echo ready; while :; do sleep 0.02; done" </dev/null >out 2>err &
    pid=$!
    eventually grep -q ready out
    # A background job of a shell ignores SIGINT and SIGQUIT; nsbox and the command then do, too.
    if [ "$signal" = INT ] || [ "$signal" = QUIT ]; then
      kill -TERM "$pid"
      wait "$pid" || true
      continue
    fi
    kill "-$signal" "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" = 9 ]
    grep -q "got $signal" out
  done
}

@test "signals: a command that does not handle SIGTERM ends by it" {
  seconds=$(mark)
  "$nsbox" run -- sleep "$seconds" </dev/null >out 2>&1 &
  pid=$!
  eventually inner_pid "sleep $seconds" >/dev/null
  kill -TERM "$pid"
  code=0
  wait "$pid" || code=$?
  [ "$code" = 143 ]
  eventually nothing_runs "sleep $seconds"
}

@test "signals: a stubborn command is still there after SIGTERM, and goes with SIGKILL of nsbox" {
  own=/load.$(mark)
  "$nsbox" run --timeout none --ro-bind "$load:$own" -- "$own" stubborn </dev/null >out 2>&1 &
  pid=$!
  eventually grep -q stubborn out
  kill -TERM "$pid"
  sleep 0.3
  inner_pid "$own stubborn" >/dev/null
  kill -KILL "$pid"
  wait "$pid" || true
  eventually nothing_runs "$own stubborn"
}

# --- terminal ---

@test "terminal: the command has one of its own, of the caller's size" {
  run "$pty" size:33x77 -- "$nsbox" run -- sh -c 'tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo $TERM'
  [ "$status" = 0 ]
  [[ $output = *"/dev/pts/"*"33 77"*all* ]]
  [[ $output = *"[pty at the end: cooked]"* ]]
}

@test "terminal: its size is there before the command is" {
  for _ in {1..20}; do
    run "$pty" size:33x77 -- "$nsbox" run --ro-bind "$load:/load" -- /load size
    [[ $output = *"33 77"* ]]
  done
}

@test "terminal: none with -T or --json, none where output is no terminal" {
  run "$pty" -- "$nsbox" run -T -- sh -c 'tty; ls /dev/pts'
  [[ $output != *"/dev/pts/0"* ]]
  run "$pty" -- sh -c "'$nsbox' run -- sh -c '[ -t 1 ] || echo piped' | cat"
  [[ $output = *piped* ]]
}

# Not by a shell, which between two commands notes a signal and goes on.
@test "terminal: raw on the outside while it runs, and cooked again after every way out" {
  for way in "type:\\r" "signal:TERM" "signal:HUP" "signal:INT" "signal:QUIT"; do
    run "$pty" wait:ready modes "$way" -- "$nsbox" run -- perl -e '$| = 1; print "ready\n"; <STDIN>'
    [[ $output = *"[pty: raw]"*"[pty at the end: cooked]"* ]] || { echo "$way: $output"; return 1; }
  done
  # What a busy machine does not come to in one second it does in more.
  for limit in 1 6 20; do
    run "$pty" wait:ready modes -- "$nsbox" run --timeout $limit -- sh -c 'echo ready; sleep 60'
    [[ $status != 124 || $output != *"[pty: raw]"* ]] || break
  done
  [ "$status" = 124 ]
  [[ $output = *"[pty: raw]"*"[pty at the end: cooked]"* ]]
}

@test "terminal: typed keys, line editing and end of file are the inner one's" {
  run "$pty" wait:ready "type:hellp\\x7fo\\r" "wait:got <hello>" "type:\\x04" -- "$nsbox" run -- \
    sh -c 'stty erase "^?"; echo ready; read line; echo "got <$line>"; cat; echo ended'
  [ "$status" = 0 ]
  [[ $output = *"got <hello>"*ended* ]]
}

# Not by a shell, which between two commands notes the signal and goes on.
@test "terminal: Ctrl-C reaches the command" {
  run "$pty" wait:ready "type:\\x03" -- "$nsbox" run -- perl -e '$| = 1; print "ready\n"; sleep 60'
  [ "$status" = 130 ]
  run "$pty" wait:ready "type:\\x03" wait:trapped -- "$nsbox" run -- bash -c 'trap "echo trapped; exit 5" INT; echo ready; while :; do sleep 0.05; done'
  [ "$status" = 5 ]
  run "$pty" wait:ready "type:\\x1c" -- "$nsbox" run -- perl -e '$| = 1; print "ready\n"; sleep 60'
  [ "$status" = 131 ]
}

@test "terminal: a change of size arrives" {
  run "$pty" size:24x80 wait:ready size:50x132 "wait:50 132" -- "$nsbox" run -- \
    bash -c 'trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.05; done'
  [ "$status" = 0 ]
}

@test "terminal: job control works in an interactive shell" {
  command -v bash >/dev/null || skip "no bash"
  run "$pty" "wait:# " "type:sh -c 'echo r\"\"eady; exec sleep 60'\\r" wait:ready "type:\\x1a" wait:Stopped "type:jobs\\r" wait:Stopped "type:kill -9 %1\\r" pause:300 "type:exit 3\\r" pause:300 "type:exit 3\\r" \
    -- "$nsbox" run -e "PS1=# " -- bash --norc -i
  [ "$status" = 3 ]
  [[ $output != *"no job control"* ]]
}

@test "terminal: no time limit on a terminal, unless it is asked for" {
  run "$pty" -- "$nsbox" run --print-spec -- true
  [[ $output != *'"timeout_ms": 30000'* ]]
}

@test "terminal: much output arrives whole" {
  run bash -c "'$pty' -- '$nsbox' run -- seq 20000 | tr -d '\r' | grep -x '[0-9]\+' | sha256sum"
  [ "$output" = "$(seq 20000 | sha256sum)" ]
}

@test "--image: a store that others can change is not used" {
  mkdir open
  chmod 1777 open
  NSBOX_STORE=$PWD/open box --image a --pull never -- true
  [ "$status" = 125 ]
  [[ $stderr = *"the store $PWD/open can be changed by others than you"* ]]
  am_root || return 0
  mkdir theirs
  chown 65534 theirs
  NSBOX_STORE=$PWD/theirs/store box --image a --pull never -- true
  [ "$status" = 125 ]
  [[ $stderr = *"$PWD/theirs can be changed by others than you"* ]]
}
