#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Sessions: sandboxes that last, for people. What their commands leave is there, what they start is not.

load helpers
load sessions

inside() {
  observe timeout 60 "$nsbox" session exec "$id" -- "$@"
}

info() {
  "$nsbox" session ls --json | jq -r ".[] | select(.id == \"$id\") | $1"
}

@test "what one command leaves, the next one finds" {
  session
  inside sh -c 'echo one >file; mkdir dir; pwd'
  [ "$status" = 0 ]
  [ "$output" = /workspace ]
  inside sh -c 'cat file; ls -d dir'
  [ "$output" = $'one\ndir' ]
}

@test "streams: standard input, output and error are the client's, as they come" {
  session
  run --separate-stderr bash -c "printf 'some data' | '$nsbox' session exec $id sh -c 'cat; echo; echo error >&2; exit 9'"
  [ "$status" = 9 ]
  [ "$output" = "some data" ]
  [ "$stderr" = error ]
  # Not only at the end.
  mkfifo go
  "$nsbox" session exec "$id" sh -c 'echo first; read -r _; echo last' <go >out &
  exec 8>go
  eventually grep -q first out
  [ "$(cat out)" = first ]
  echo >&8
  exec 8>&-
  wait
  [ "$(cat out)" = $'first\nlast' ]
  # Much of it, and whole.
  run bash -c "'$nsbox' session exec $id head -c 30000000 /dev/zero | wc -c"
  [ "$output" = 30000000 ]
  run bash -c "'$nsbox' session exec $id sh -c 'exec yes' | head -n 1"
  [ "$output" = y ]
}

@test "the exit status: the command's, and what nsbox has for the others" {
  session
  inside sh -c 'exit 42'
  [ "$status" = 42 ]
  inside sh -c 'kill -TERM $$'
  [ "$status" = 143 ]
  inside nothing-of-this-name
  [ "$status" = 127 ]
  [ "$stderr" = "nsbox: nothing-of-this-name: no such program inside in PATH" ]
  inside /etc/passwd
  [ "$status" = 126 ]
  observe timeout 60 "$nsbox" session exec --timeout 300ms "$id" sleep 60
  [ "$status" = 124 ]
  [ "$stderr" = "nsbox: killed: time limit of 300 ms reached; raise it with --timeout" ]
}

@test "what a command has started ends with it, and nothing else does" {
  session
  inside sh -c 'sleep 1000 & (setsid sleep 1001 &); echo started'
  [ "$output" = started ]
  process=$("$nsbox" session exec -d "$id" sleep 1002)
  has_begun() { inside sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "' && [[ $output = *"sleep 1002"* ]]; }
  eventually has_begun
  [[ $output != *"sleep 1000"* && $output != *"sleep 1001"* ]]
  "$nsbox" session kill "$id" "$process"
  has_ended() { ! has_begun; }
  eventually has_ended
}

@test "a time limit, an interrupted client and too much memory end one command, not the session" {
  session -m 128m
  process=$("$nsbox" session exec -d "$id" sh -c 'while :; do sleep 0.1; done')
  observe timeout 60 "$nsbox" session exec --timeout 300ms "$id" sh -c 'sleep 1000 & sleep 1001'
  [ "$status" = 124 ]
  observe timeout 60 "$nsbox" session exec "$id" python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'
  [ "$status" = 137 ]
  [[ $stderr = "nsbox: killed: memory limit of 128 MiB reached"* ]]
  timeout -s INT 1 "$nsbox" session exec "$id" sleep 1003 || true
  for _ in {1..300}; do
    [[ $("$nsbox" session exec "$id" -- sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "') = *"sleep 1003"* ]] || break
    sleep 0.1
  done
  inside sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "'
  [[ $output != *"sleep 100"* ]]
  run jq -r '.[] | select(.process == '"$process"') | .running' <<<"$("$nsbox" session ps --json "$id")"
  [ "$output" = true ]
}

@test "in the background: number, output from any place, status, signals" {
  session
  process=$("$nsbox" session exec -d "$id" sh -c 'echo one; sleep 0.5; echo two >&2; exit 5')
  [[ $process =~ ^[0-9]+$ ]]
  run "$nsbox" session logs -f "$id" "$process"
  [ "$status" = 5 ]
  [ "$output" = $'one\ntwo' ]
  run "$nsbox" session logs "$id" "$process"
  [ "$status" = 0 ]
  [ "$output" = $'one\ntwo' ]
  process=$("$nsbox" session exec -d "$id" sh -c 'trap "echo told; exit 7" USR1; echo up; while :; do sleep 0.1; done')
  for _ in {1..300}; do
    [ "$("$nsbox" session logs "$id" "$process")" != up ] || break
    sleep 0.1
  done
  "$nsbox" session kill -s USR1 "$id" "$process"
  run "$nsbox" session logs -f "$id" "$process"
  [ "$status" = 7 ]
  [[ $output = up*told* ]]
  run --separate-stderr "$nsbox" session kill "$id" "$process"
  [ "$status" = 125 ]
  [ "$stderr" = "nsbox: process $process has ended" ]
}

all_ended() {
  [ "$("$nsbox" session ps --json "$id" | jq '[.[] | select(.running)] | length')" = 0 ]
}

@test "in the background: what is kept of all is bounded" {
  session
  for _ in 1 2 3 4 5 6; do
    "$nsbox" session exec -d "$id" head -c 60000000 /dev/zero
  done
  for _ in {1..300}; do
    ! all_ended || break
    sleep 0.1
  done
  all_ended
  # Its files have no names: they are seen through its descriptors. Of each there is half at least of what it may have.
  kept=$(stat -L -c '%s %F' /proc/"$(info .supervisor)"/fd/* | awk '/regular/ { sum += $1 } END { print sum }')
  ((kept > 2 * 64 * 1024 * 1024 && kept <= 4 * 64 * 1024 * 1024)) || { echo "$kept bytes"; false; }
}

@test "a server in the background is reached by a later command" {
  session
  "$nsbox" session exec "$id" sh -c 'echo served >page'
  process=$("$nsbox" session exec -d "$id" python3 -m http.server 8000)
  for _ in {1..300}; do
    inside python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8000/page").read().decode(), end="")'
    [ "$output" != served ] || break
    sleep 0.2
  done
  [ "$output" = served ]
  "$nsbox" session kill "$id" "$process"
}

@test "cp: in and out, whole, with mode and any name" {
  session
  head -c 9000000 /dev/urandom >big
  printf '#!/bin/sh\necho ran\n' >script
  chmod 750 script
  "$nsbox" session cp big "$id:/workspace/new/folder/big"
  "$nsbox" session cp script "$id:script"
  "$nsbox" session cp "$id:new/folder/big" back
  cmp big back
  inside ./script
  [ "$output" = ran ]
  name=$'a b\n\u00e4'
  echo content | "$nsbox" session cp - "$id:$name"
  run "$nsbox" session cp "$id:$name" -
  [ "$output" = content ]
  : >empty
  "$nsbox" session cp empty "$id:empty"
  inside stat -c %s empty
  [ "$output" = 0 ]
}

@test "cp: what fails leaves what there was" {
  session -m 64m --disk 8m
  echo precious >keep
  observe "$nsbox" session cp "$id:not-there" keep
  [ "$status" = 125 ]
  [ "$(cat keep)" = precious ]
  observe "$nsbox" session cp "$id:not-there" new
  [ ! -e new ]
  "$nsbox" session cp keep "$id:keep"
  observe bash -c "head -c 20000000 /dev/zero | '$nsbox' session cp - '$id:keep'"
  [ "$status" = 125 ]
  [[ $stderr = *"No space left on device"* ]]
  inside sh -c 'cat keep; ls -A'
  [ "$output" = $'precious\nkeep' ]
  [ "$(ls -d keep* new* 2>/dev/null)" = keep ]
}

@test "cp: links lead nowhere but inside, and what is no file does not hold anybody up" {
  session
  inside sh -c 'ln -s /etc/shadow shadow; mkfifo fifo; ln -s /proc/1/root/etc/passwd root; mkdir dir'
  for name in shadow root; do
    observe timeout 30 "$nsbox" session cp "$id:$name" -
    [ "$status" = 125 ]
    [ -z "$output" ]
    [[ $stderr = "nsbox: copying $id:$name to -: "* ]]
  done
  observe timeout 30 "$nsbox" session cp "$id:fifo" -
  [ "$stderr" = "nsbox: copying $id:fifo to -: \"fifo\" is a FIFO, which has no content to be read or written" ]
  observe timeout 30 "$nsbox" session cp script "$id:dir"
  [ "$status" = 125 ]
  observe timeout 30 "$nsbox" session cp "$id:/dev/zero" -
  [[ $stderr = *"is a device"* ]]
}

@test "the host is as far away as from a run" {
  session
  echo secret >"$place/host-file"
  inside sh -c "cat $place/host-file; cat /proc/1/environ; ls /proc/1/fd"
  [ "$status" != 0 ]
  [ -z "$output" ]
  inside grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status
  [ "$output" = $'CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2' ]
  # The keeper of a command, its parent, is no way in.
  inside sh -c 'cat /proc/$PPID/mem /proc/$PPID/environ 2>&1; ls /proc/$PPID/fd 2>&1'
  [[ $output != *root* ]]
  [ "$(grep -c 'Permission denied' <<<"$output")" -ge 3 ]
}

@test "no session is reached from inside, where a bind shows the folder of their sockets" {
  session
  observe timeout 20 "$nsbox" run --bind "$XDG_RUNTIME_DIR:/runtime" --ro-bind "$nsbox:/nsbox" --env XDG_RUNTIME_DIR=/runtime \
    sh -c "ls /runtime/nsbox/sessions; /nsbox session exec $id echo reached; /nsbox session stop $id"
  [[ ${lines[*]} == "$id" ]]
  inside echo there
  [[ $output == there ]]
}

@test "options: variables, folder, limits, what is bound" {
  mkdir data
  session -e NAME=value --bind "$place/data:/data" -w /data --pids-limit 20
  inside sh -c 'echo $NAME; pwd; echo made >made'
  [ "$output" = $'value\n/data' ]
  [ "$(cat data/made)" = made ]
  [ "$(stat -c %u data/made)" = "$(id -u)" ]
  run "$nsbox" session exec -e NAME=other -w /tmp "$id" sh -c 'echo $NAME; pwd'
  [ "$output" = $'other\n/tmp' ]
  inside sh -c 'for i in $(seq 40); do sleep 100 & done; wait'
  [[ $stderr = *"annot fork"* ]]
}

@test "where the sandbox is weaker than was asked for, that is said when it is made" {
  [ "$(tier)" = watcher ] || skip "there is a cgroup"
  run --separate-stderr "$nsbox" session new -m 64m
  [ "$status" = 0 ]
  [[ $stderr = "nsbox: warning: "*cgroup* ]]
  run --separate-stderr "$nsbox" session new
  [ -z "$stderr" ]
  run --separate-stderr "$nsbox" session new --require-cgroup
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*cgroup* ]]
}

@test "an image" {
  command -v nsbox-image >/dev/null || [ -x "$(dirname "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")")/nsbox-image" ] || skip "without nsbox-image"
  local programs
  programs=$(dirname "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")")
  export NSBOX_STORE=$place/store
  mkdir -p root/bin root/data
  cp -L "$load" root/bin/load
  tar -C root -cf root.tar .
  "$programs/nsbox" images import root.tar localhost/test/session
  session --image localhost/test/session
  inside /bin/load nothing
  [[ $stderr != *"layers and a name"* ]]
  "$nsbox" session cp root.tar "$id:/data/file"
  "$nsbox" session cp "$id:/data/file" back
  cmp root.tar back
  observe "$nsbox" session exec --json "$id" /bin/load nothing
  [ "$(jq -r .sandbox.root <<<"$output")" = localhost/test/session:latest ] || [ "$(jq -r .sandbox.root <<<"$output")" = image ]
  # It stays for as long as the session does.
  "$programs/nsbox" images rm localhost/test/session
  inside /bin/load nothing
  [[ $stderr != *"no such program"* ]]
  [ "$status" != 127 ]
  [ "$(find store/layers -name load)" ]
  "$nsbox" session stop "$id"
  "$programs/nsbox" images prune
  [ -z "$(find store/layers -name load)" ]
}

@test "a limit of time in the configuration is none of a session, and how a command ended is told" {
  mkdir -p config/nsbox
  echo '{"limits": {"timeout": "5s"}}' >config/nsbox/nsbox.conf
  XDG_CONFIG_HOME=$place/config session
  process=$("$nsbox" session exec -d --timeout 300ms "$id" sleep 60)
  run --separate-stderr "$nsbox" session logs -f "$id" "$process"
  [ "$status" = 124 ]
  [ "$stderr" = "nsbox: killed: time limit of 300 ms reached; raise it with --timeout" ]
  [ "$("$nsbox" session ps --json "$id" | jq -c '.[] | [.running, .status, .ended_by]')" = '[false,124,"timeout"]' ]
  run --separate-stderr bash -c "'$nsbox' session exec '$id' echo lost >/dev/full"
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: warning: writing to standard output failed: No space left on device"* ]]
  run --separate-stderr bash -c "'$nsbox' session new >/dev/full"
  [ "$status" = 125 ]
  [ "$("$nsbox" session ls -q)" = "$id" ]
}

@test "result as JSON" {
  session
  observe "$nsbox" session exec --json "$id" sh -c 'echo out; echo err >&2; exit 4'
  [ "$status" = 4 ]
  result=$output
  is .ended_by exited
  is .exit_code 4
  is .stdout $'out'
  is .stderr $'err'
  holds '.limits.memory.value == 536870912 and .usage.wall_ms > 0'
}

@test "ls, ps, ids that are shortened, stop" {
  session
  first=$id
  session
  [ "$("$nsbox" session ls -q | sort)" = "$(printf '%s\n' "$first" "$id" | sort)" ]
  run "$nsbox" session exec "${id:0:8}" echo short
  [ "$output" = short ]
  run --separate-stderr "$nsbox" session exec "" true
  [ "$status" = 125 ]
  [[ $stderr == *'the id of the session is empty'* ]]
  "$nsbox" session stop "$first"
  [ "$("$nsbox" session ls -q)" = "$id" ]
  run --separate-stderr "$nsbox" session exec "$first" true
  [ "$status" = 125 ]
  [ "${stderr_lines[0]}" = "nsbox: there is no session \"$first\" in $XDG_RUNTIME_DIR/nsbox: it was stopped, its time was up, or it never was" ]
  "$nsbox" session stop --all
  [ -z "$("$nsbox" session ls -q)" ]
  [ -z "$(ls runtime/nsbox/sessions)" ]
}

@test "its time: without requests, and all in all" {
  # The time without requests begins when the last one has been answered.
  session --idle 6s
  "$nsbox" session exec "$id" sleep 7
  [ "$("$nsbox" session ls -q)" = "$id" ]
  for _ in {1..300}; do
    [ "$("$nsbox" session ls -q)" ] || break
    sleep 0.1
  done
  [ -z "$("$nsbox" session ls -q)" ]
  session --life 1s
  run timeout 50 "$nsbox" session exec "$id" sleep 60
  [ "$status" = 125 ]
  eventually no_sessions
}

no_sessions() {
  [ -z "$("$nsbox" session ls -q)" ]
}

@test "kill -9 of who makes it: there is none that nobody knows of" {
  for _ in {1..20}; do
    timeout -s KILL 0.002 "$nsbox" session new >ids || :
    # The last thing that it does is to say that the id was said.
    ! [ -s ids ] || "$nsbox" session stop "$(<ids)" || :
  done
  eventually no_sessions
}

@test "kill -9 of the supervisor: nothing is left, and nobody is told of it" {
  session
  "$nsbox" session exec -d "$id" sleep 1000
  supervisor=$(info .supervisor)
  kill -9 "$supervisor"
  eventually not_running
  [ -z "$("$nsbox" session ls -q)" ]
  [ -z "$(ls runtime/nsbox/sessions)" ]
  session
  inside true
  [ "$status" = 0 ]
}

@test "a supervisor that is stopped: that is said, and the others are listed" {
  session
  stopped=$id
  supervisor=$(info .supervisor)
  session
  kill -STOP "$supervisor"
  observe timeout 30 "$nsbox" session ls -q
  kill -CONT "$supervisor"
  [ "$status" = 125 ]
  [ "$output" = "$id" ]
  [[ $stderr == *"$stopped: the session does not answer"* ]]
  [ "$("$nsbox" session ls -q | wc -l)" = 2 ]
}

has_a_command() {
  [ "$(info '.processes | length')" = 1 ]
}

@test "kill -9 of its first process: its clients are told, and nothing is left" {
  session
  supervisor=$(info .supervisor)
  "$nsbox" session exec "$id" sleep 1000 2>errors &
  client=$!
  eventually has_a_command
  kill -9 "$(pgrep -P "$supervisor" | head -n 1)"
  status=0
  wait "$client" || status=$?
  [ "$status" = 125 ]
  [[ $(cat errors) = "nsbox: the session's sandbox has ended"* ]]
  eventually no_sessions
}

@test "many at a time: four clients on one session, sessions beside each other" {
  session
  for i in 1 2 3 4 5 6 7 8; do
    (
      for j in 1 2 3 4 5; do
        [ "$("$nsbox" session exec "$id" sh -c "echo $i-$j; sleep 0.0$j; echo $i-$j")" = "$i-$j"$'\n'"$i-$j" ] || echo "wrong: $i-$j" >>wrong
      done
    ) &
  done
  wait
  [ ! -e wrong ]
  first=$id
  session
  "$nsbox" session exec "$first" sh -c 'echo mine >file'
  inside cat file
  [ "$status" = 1 ]
  inside sh -c 'ls /proc | grep -c "^[0-9]"'
  [ "$output" -le 6 ]
}

@test "hostile: a fork bomb, a full disk, no /workspace, output without end" {
  session --pids-limit 50 --disk 10m
  observe timeout 60 "$nsbox" session exec --timeout 1s "$id" perl -e 'while (1) { fork }'
  [ "$status" = 124 ]
  inside sh -c 'head -c 50000000 /dev/zero >full; echo $?'
  # In memory the kernel says so; on disk no file can be larger than all of the space, and who fills that is ended.
  [[ $output = 1 || $output = 153 || $status = 137 ]]
  observe timeout 60 "$nsbox" session cp "$nsbox" "$id:copy"
  [ "$status" = 125 ]
  [[ $stderr = *"No space left on device"* ]]
  inside sh -c 'rm -rf full; rm -rf /workspace/* ; ls -a'
  [ "$status" = 0 ]
  observe timeout 60 "$nsbox" session exec --json --timeout 1s "$id" yes
  [ "$(jq -r .ended_by <<<"$output")" = timeout ]
  [ "${#output}" -lt 4000000 ]
  inside echo still here
  [ "$output" = "still here" ]
}

@test "wrong input" {
  session
  for wrong in "exec" "exec $id" "exec --nothing $id true" "exec --timeout x $id true" "ps" "logs $id" "logs $id x" "logs $id 99" "kill $id 99" \
    "kill -s NOTHING $id 1" "cp a b" "cp $id:a $id:b" "cp $id:a" "stop" "stop --all $id" "stop nothing" "new true" "new --timeout 3" "new --json" \
    "new --lang python -c 1" "new --idle x" "new --idle" "ls x" "nothing"; do
    observe "$nsbox" session $wrong
    [ "$status" = 125 ]
    [ -z "$output" ]
    [[ $stderr = "nsbox: "* ]]
    [ "$(wc -l <<<"$stderr")" -le 2 ]
  done
  # A folder of sessions that others could put something into.
  chmod 777 runtime/nsbox
  observe "$nsbox" session new
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*"can be changed by others"* ]]
  chmod 700 runtime/nsbox
}

@test "who reads slowly, or shares its input with others, holds up nobody else" {
  session
  # With room for less than there is to be written.
  { "$nsbox" session exec --timeout 1s "$id" -- yes || :; } | {
    sleep 0.5
    head -c 4096 >/dev/null
    until [ -e go ]; do sleep 0.1; done
  } &
  { sleep 1; echo once; until [ -e go ]; do sleep 0.1; done; } |
    { "$nsbox" session exec "$id" -- cat & "$nsbox" session exec "$id" -- cat & wait; } >read &
  sleep 2
  timeout 30 "$nsbox" session ls --json >/dev/null
  touch go
  wait
  [[ $(<read) == once ]]
}

@test "hostile: other commands hold its output open, and write to it" {
  session
  "$nsbox" session exec -d "$id" -- sh -c '
    until read -r victim </workspace/victim; do sleep 0.05; done 2>/dev/null
    exec 3>"/proc/$victim/fd/1"
    : >/workspace/held
    exec 2>/dev/null
    while :; do yes >&3; done'
  # Through the client's streams, and kept.
  "$nsbox" session exec "$id" -- sh -c 'echo $$ >/workspace/victim; until [ -e /workspace/held ]; do sleep 0.05; done' |
    timeout 60 cat >/dev/null
  [[ ${PIPESTATUS[*]} == "0 0" ]]
  inside true
  [[ $status == 0 ]]
}

@test "what whoever made it had open is not held" {
  exec 8>lock
  flock 8
  session
  exec 8>&-
  flock -n lock true
}

@test "of a command in the background that writes much, the newest is kept" {
  session
  n=$("$nsbox" session exec -d "$id" sh -c 'seq 10000000; echo end')
  timeout 120 "$nsbox" session logs -f "$id" "$n" >followed 2>warnings
  [ "$(tail -n 2 followed)" = $'10000000\nend' ]
  "$nsbox" session logs "$id" "$n" >kept 2>warnings
  [ "$(stat -c %s kept)" -eq $((64 << 20)) ]
  [ "$(tail -n 2 kept)" = $'10000000\nend' ]
  [ "$(cat warnings)" = "nsbox: warning: $((78888897 + 4 - (64 << 20))) bytes that were written before are not kept any more" ]
}

@test "one that is being made is not taken for a dead one by who lists sessions" {
  local lost=0
  touch listing
  for _ in 1 2 3; do
    while [[ -e listing ]]; do "$nsbox" session ls -q >/dev/null; done 3>&- &
  done
  for _ in {1..40}; do
    session
    "$nsbox" session stop "$id" || lost=$((lost + 1))
  done
  rm listing
  wait
  [[ $lost == 0 ]]
}

@test "what commands were given is not held when they have ended, and not without bound while they run" {
  session
  words=()
  for _ in {1..14}; do words+=("$(printf '%*s' 120000 ' ')"); done
  for _ in {1..30}; do "$nsbox" session exec -d "$id" -- true "${words[@]}" >/dev/null; done
  # A sanitizer holds what was freed.
  grep -q __asan_init "$nsbox" || [[ $(awk '/VmRSS/ { print $2 }' "/proc/$(info .supervisor)/status") -lt 24000 ]]
  [[ $("$nsbox" session ps --json "$id" | jq '[.[].command | tostring | length] | length, max <= 5000') == $'30\ntrue' ]]
  # Words are cut between characters.
  "$nsbox" session exec -d "$id" -- true "$(printf 'é%.0s' {1..3000})" last >/dev/null
  run -0 bash -c "'$nsbox' session ps --json $id | jq -r '.[-1].command | length, .[1][-1:]'"
  [[ $output == $'2\n…' ]]
  { printf 'sleep 100; exit\n'; head -c 15M /dev/zero | tr '\0' '#'; } >program
  for _ in {1..8}; do "$nsbox" session exec -d --lang bash "$id" program; done
  run -125 "$nsbox" session exec -d --lang bash "$id" program
  [[ $output == *"hold 135 MiB of arguments, input and files, and may hold 128"* ]]
  [[ $(info '[.processes[] | select(.running)] | length') == 8 ]]
}

takes_no_more() {
  observe timeout 30 "$nsbox" session ls -q
  [[ $stderr == *"$id: it takes no connections"* ]]
}

@test "a supervisor that is stopped, with more clients than can wait for it" {
  session
  supervisor=$(info .supervisor)
  kill -STOP "$supervisor"
  for _ in {1..70}; do timeout 60 "$nsbox" session ps "$id" >/dev/null 2>&1 3>&- & done
  eventually takes_no_more
  [[ $status == 125 ]]
  kill -CONT "$supervisor"
  wait
  [[ $("$nsbox" session ls -q) == "$id" ]]
}

@test "a process that takes long to die, as one that waits for a disk, ends with its command and not with the session" {
  freezer=$(awk '$3 == "cgroup" && $4 ~ /freezer/ { print $2; exit }' /proc/mounts)
  [[ $EUID == 0 && -n $freezer ]] || skip "only root can hold up the end of a process, and with a freezer of cgroup v1"
  session
  n=$("$nsbox" session exec -d "$id" -- sh -c 'sleep 987654 & sleep 987655')
  eventually pgrep -f '^sleep 987654'
  slow=$(pgrep -f '^sleep 987654')
  mkdir "$freezer/nsbox-test.$$"
  echo "$slow" >"$freezer/nsbox-test.$$/cgroup.procs"
  echo FROZEN >"$freezer/nsbox-test.$$/freezer.state"
  "$nsbox" session kill "$id" "$n"
  sleep 5
  echo THAWED >"$freezer/nsbox-test.$$/freezer.state"
  inside echo on
  eventually rmdir "$freezer/nsbox-test.$$"
  [[ $output == on ]]
  eventually eval '[[ ! -e /proc/$slow ]]'
}

@test "who is there is stopped, whoever else is not" {
  session
  one=$id
  session
  observe "$nsbox" session stop ffff "$one" eeee "$id"
  [ "$status" -eq 125 ]
  [[ $stderr == *'no session "ffff"'*'no session "eeee"'* ]]
  [ -z "$("$nsbox" session ls -q)" ]
}

@test "options may follow the id, as far as a command, an argument or --" {
  session
  observe "$nsbox" session exec "$id" --env A=b -w /tmp --timeout 1m sh -c 'echo $A $PWD'
  [ "$output" = 'b /tmp' ]
  observe "$nsbox" session exec -e A=b "$id" -e B=c -- sh -c 'echo $A $B'
  [ "$output" = 'b c' ]
  observe "$nsbox" session exec "$id" --lang bash -c 'echo "$@"' one --json
  [ "$output" = 'one --json' ]
  observe "$nsbox" session exec -- "$id" --lang bash -c 'echo "$@"' -- --json
  [ "$output" = --json ]
  [ "$("$nsbox" session exec "$id" --lang bash - -e <<<'printf %s "$1"')" = -e ]
  observe "$nsbox" session exec "$id" --help
  [[ $output = Usage:* ]]
  observe "$nsbox" session exec "$id" -- --json
  [ "$status" -eq 127 ]
  inside printf %s -c
  [ "$output" = -c ]
  for words in --nonsense '-x command' '-- ' --lang '-c code --nonsense'; do
    # shellcheck disable=SC2086 # words
    observe "$nsbox" session exec "$id" $words
    [ "$status" -eq 125 ]
    [[ $stderr = nsbox:* && ($words != --nonsense || $stderr = *'unknown option "--nonsense"'*'-- goes before a command'*) ]]
  done
  observe "$nsbox" session shell "$id" --json
  [ "$status" -eq 125 ]
  [[ $stderr = *'unknown option "--json"'* ]]
}

@test "a directory as the target of cp gets a file of the same name" {
  session
  echo content >file
  mkdir there
  "$nsbox" session cp file "$id:"
  "$nsbox" session cp file "$id:new/dir/"
  "$nsbox" session cp "$id:new/dir/file" there
  "$nsbox" session cp "$id:file" ./there/
  inside sh -c 'cat file new/dir/file'
  [ "$output" = $'content\ncontent' ]
  [ "$(cat there/file)" = content ]
}

@test "ps tells how what was in the background has ended, and a limit's advice is about the session" {
  session --memory 64m
  "$nsbox" session exec -d "$id" sh -c 'exit 3' >number
  eventually has_ended
  observe "$nsbox" session ps "$id"
  [[ $output == *'ended (3)'* ]]
  observe timeout 60 "$nsbox" session exec "$id" sh -c 'tail -c 200m /dev/zero >/dev/null; exit'
  [[ $stderr == *'make a session, or a fork of this one, with more --memory'* ]] || [[ $stderr != *'raise it with --memory'* ]]
}

has_ended() {
  [ "$("$nsbox" session ps --json "$id" | jq -r '.[0].running')" = false ]
}
