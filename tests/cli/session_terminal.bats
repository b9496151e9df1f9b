#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Sessions: a shell in one, on a terminal of its own.

load helpers
load sessions

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime TERM=vt100
  mkdir -m 700 runtime
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-})
}

inside() {
  timeout 60 "$nsbox" session exec "$id" -- "$@"
}

# Acts at a shell in the session: steps of pty.c.
at_shell() {
  run timeout 60 "$pty" "$@" -- "$nsbox" session shell "$id"
  echo "# status $status: $output"
}

no_processes() {
  [ "$("$nsbox" session ps --json "$id" | jq length)" = 0 ]
}

processes() {
  [ "$("$nsbox" session ps --json "$id" | jq length)" = "$1" ]
}

exists() {
  inside test -e "$1"
}

@test "a shell: its terminal has a name, a size and a kind, and is where one works" {
  at_shell size:33x77 'wait:# ' 'type:PS1=; tty; stty size; pwd; echo $TERM; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; ls /dev/pts; echo "name: $0"\r' \
    'wait:name: bash' 'type:: >/dev/tty && : >$(tty) && echo opened\r' 'wait:opened' 'type:exit 7\r'
  [ "$status" = 7 ]
  [[ $output = *$'/dev/pts/0\r\n33 77\r\n/workspace\r\nvt100\r\nall\r\n0  ptmx\r\nname: bash\r\n'* ]]
  [[ $output = *"[pty at the end: cooked]" ]]
  no_processes
}

@test "keys: an interrupt, a stop and an end of file reach the job in the foreground" {
  # What is waited for is never what was typed: that comes back as well.
  at_shell 'wait:# ' 'type:PS1="p"rompt:\r' wait:prompt: 'type:sh -c "echo r""eady; exec cat"\r' wait:ready 'type:\x03' wait:prompt: \
    'type:sh -c "echo r""eady; exec sleep 1000"\r' wait:ready 'type:\x1a' wait:Stopped wait:prompt: \
    'type:kill %1; echo "a"fter\r' wait:after 'type:sh -c "echo r""eady; exec cat"; echo "the end": $?\r' wait:ready \
    'type:a line\r\x04' 'wait:the end: 0' 'type:exit 3\r'
  [ "$status" = 3 ]
}

@test "a change of the size is passed on" {
  at_shell size:20x70 'wait:# ' \
    $'type:bash -c \'trap "stty size; echo changed; exit" WINCH; echo ready $((1 + 1)); while :; do sleep 0.05; done\'; stty size; exit\\r' \
    'wait:ready 2' size:31x91 'wait:changed'
  [ "$status" = 0 ]
  [[ $output = *$'31 91\r\nchanged\r\n31 91\r\n'* ]]
}

@test "exec --tty: a command on a terminal, its status, and what does not go together" {
  run timeout 60 "$pty" size:10x20 -- "$nsbox" session exec -t "$id" sh -c 'stty size; tty; exit 9'
  [ "$status" = 9 ]
  [[ $output = *$'10 20\r\n/dev/pts/0'* ]]
  run timeout 60 "$pty" -- "$nsbox" session shell "$id" -- sh -c 'kill -TERM $$'
  [ "$status" = 143 ]
  run -127 timeout 60 "$pty" -- "$nsbox" session shell "$id" nothing-of-this-name
  [ "$status" = 127 ]
  [[ $output = *"nsbox: nothing-of-this-name: no such program inside in PATH"* ]]
  observe "$nsbox" session exec -t -d "$id" true
  [ "$status" = 125 ]
  [ "$stderr" = "nsbox: --tty and --detach do not go together: a terminal is for somebody who waits, and sees it" ]
  run timeout 60 "$pty" -- "$nsbox" session exec --timeout 500ms -t "$id" sleep 60
  [ "$status" = 124 ]
  [[ $output = *"cooked]" ]]
}

@test "without a terminal of one's own: pipes" {
  run timeout 60 bash -c "printf 'one\ntwo\n' | '$nsbox' session exec -t '$id' sh -c 'stty -echo; tr a-z A-Z' | cat"
  [[ $output = *$'ONE\r\nTWO\r'* ]]
  # Much of it, and whole.
  [ "$("$nsbox" session exec -t "$id" sh -c 'stty raw -echo; head -c 3000000 /dev/zero' </dev/null | wc -c)" = 3000000 ]
  # Nobody reads it any more.
  timeout 20 bash -c "'$nsbox' session exec -t '$id' sh -c 'exec yes' </dev/null | head -n 1" >first
  [ "$(tr -d '\r' <first)" = y ]
  eventually no_processes
}

@test "several at once, each with its own" {
  for i in 1 2 3 4; do
    # None goes on before all are there.
    timeout 60 "$pty" 'wait:# ' "type:stty -echo; PS1=; tty; : >up-$i; until [ \$(ls up-* | wc -l) = 4 ]; do sleep 0.1; done\\r" \
      "type:echo all-\$((1 + 1)); read x; echo got-\$x\\r" wait:all-2 "type:$i\\r" "wait:got-$i" 'type:exit\r' -- \
      "$nsbox" session shell "$id" >"out-$i" &
  done
  wait
  [ "$(grep -ho '/dev/pts/[0-9]*' out-* | sort -u | wc -l)" = 4 ]
  for i in 1 2 3 4; do
    grep -q "got-$i" "out-$i"
  done
}

@test "a client that dies: its command is hung up, then killed, and the terminal is as it was" {
  inside sh -c 'cat >polite' <<'END'
trap "echo hung >hung; exit" HUP
echo ready
while :; do sleep 0.1; done
END
  inside sh -c 'cat >deaf' <<'END'
trap "" HUP TERM
echo ready
while :; do sleep 0.1; done
END
  for signal in TERM HUP KILL; do
    inside rm -f hung
    run timeout 60 "$pty" wait:ready "signal:$signal" -- "$nsbox" session exec -t "$id" sh polite
    ((status > 128))
    [[ $signal = KILL || $output = *"cooked]" ]]
    eventually exists hung
    eventually no_processes
  done
  run timeout 60 "$pty" wait:ready signal:TERM -- "$nsbox" session exec -t "$id" sh deaf
  [ "$status" = 143 ]
  eventually no_processes
  [ "$(inside echo there)" = there ]
}

@test "kill -9 of the supervisor, stop, and a sandbox that dies: the terminal is as it was" {
  supervisor=$("$nsbox" session ls --json | jq .[].supervisor)
  local seconds=$(mark)
  (eventually inner_pid "sleep $seconds"; kill -9 "$supervisor") >/dev/null 3>&- &
  at_shell 'wait:# ' "type:sleep $seconds\\r" 'wait:the session ended before it answered' modes
  [ "$status" = 125 ]
  [[ $output = *"cooked]" ]]
  id=$("$nsbox" session new)
  seconds=$(mark)
  (eventually inner_pid "sleep $seconds"; "$nsbox" session stop "$id") >/dev/null 3>&- &
  at_shell 'wait:# ' "type:sleep $seconds\\r" 'wait:the session has ended'
  [ "$status" = 125 ]
  [[ $output = *"cooked]" ]]
}

@test "a client that is stopped holds up nobody" {
  timeout -s KILL 200 "$pty" wait:y signal:STOP 'wait:what never comes' -- "$nsbox" session exec -t "$id" yes >/dev/null 3>&- &
  eventually eval 'pgrep -r T -f "^$nsbox session exec -t"'
  for _ in 1 2 3; do
    [ "$(timeout 30 "$nsbox" session exec "$id" echo there)" = there ]
  done
  pkill -KILL -f "^$nsbox session exec -t"
  wait || true
  eventually no_processes
}

@test "the code can neither take a shell its terminal nor keep it from getting one, but for using all there are" {
  inside chmod 0 /dev/pts/ptmx || :
  run timeout 60 "$pty" -- "$nsbox" session exec -t "$id" tty
  [[ $output = "/dev/pts/0"* ]]
  inside chmod 666 /dev/pts/ptmx
  process=$("$nsbox" session exec -d "$id" python3 -c '
import os, time
held = []
try:
    while True: held.append(os.open("/dev/ptmx", os.O_RDWR))
except OSError: pass
print(len(held), flush=True)
time.sleep(1000)')
  for _ in {1..300}; do
    [ "$("$nsbox" session logs "$id" "$process")" = "" ] || break
    sleep 0.1
  done
  observe "$nsbox" session exec -t "$id" tty
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: the session's sandbox has no room for another terminal"* ]]
  "$nsbox" session kill "$id" "$process"
  run timeout 60 "$pty" -- "$nsbox" session exec -t "$id" tty
  [[ $output = "/dev/pts/0"* ]]
}

@test "a shell ends where its input does, whatever that is" {
  timeout 30 "$nsbox" session shell "$id" </dev/null >out
  printf 'echo answer-$((6*7))\n' | timeout 30 "$nsbox" session shell "$id" >out
  grep -q answer-42 out
  timeout 30 "$nsbox" run -t bash </dev/null >out
}
