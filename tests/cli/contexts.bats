#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Interpreters that are kept between pieces of code, by a driver of the tests' own (tests/contexts/languages) that does
# as the code says. What there is of it over MCP is in tests/mcp/contexts.test.mjs.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime NSBOX_LANGUAGES_DIR=$BATS_TEST_DIRNAME/../contexts/languages
  mkdir -m 700 runtime
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-} --lang toy)
}

teardown() {
  "$nsbox" session stop --all
}

# Code in the context a.
cell() {
  observe timeout 60 "$nsbox" session exec --context a "$@" "$id"
}

context() {
  observe timeout 60 "$nsbox" session context "$@"
}

nothing_runs_of() {
  ! pgrep -f "^$1"
}

state_is() {
  [ "$("$nsbox" session context ls --json "$id" | jq -r --arg name "${2:-a}" '.[] | select(.name == $name).state')" = "$1" ]
}

@test "what code leaves, the next code finds; values come behind output" {
  cell -c $'x = 41\nprint("out")\nx'
  [ "$output" = $'out\n41' ]
  [ "$status" -eq 0 ]
  [ ! "$stderr" ]
  cell -c 'x + 1'
  [ "$output" = 42 ]
  echo 'x + 2' >code
  observe "$nsbox" session exec --context a "$id" code
  [ "$output" = 43 ]
  [ "$("$nsbox" session exec --context a "$id" - <<<'x + 3')" = 44 ]
  cell -c 'import os; os.getcwd(), beside, os.environ["TOY"]'
  [ "$output" = "('/workspace', 'a file beside the driver\n', 'yes')" ]
  cell -c $'part(1, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\n")\npart(2, "display", "text/html", b"<b>")'
  [[ $("$nsbox" session ls) = *LANGUAGE*$'\n'"$id  host      toy  "* ]]
  [ "$output" = $'[image/png, 8 bytes; --results DIR saves it]\n[text/html, 3 bytes; --results DIR saves it]' ]
}

# A picture, a table, and a number, which is its text.
shown=$'part(1, "display", "image/png", b"\\x89PNG\\r\\n\\x1a\\n")
part(2, "result", "text/plain", b"a table")
part(2, "result", "text/html", b"<table>")
part(2, "result", "application/json", b"[1, 0.1]")
part(3, "display", "text/plain", b"5")
part(3, "display", "application/json", b"5")'

@test "what is shown is saved in a folder, under names that nothing has" {
  mkdir plots elsewhere
  echo theirs >elsewhere/file
  ln -s ../elsewhere/file plots/a-1-1.png
  echo theirs >plots/a-1-2.html
  umask 027
  cell --results plots -c "$shown"
  [ "$status" -eq 0 ]
  [ ! "$stderr" ]
  [ "$output" = $'[image/png, 8 bytes: plots/a-1-1_2.png]\na table\n[text/html, 7 bytes: plots/a-1-2_2.html]\n[application/json, '"$(wc -c <plots/a-1-2.json)"$' bytes: plots/a-1-2.json]\n5' ]
  [ "$(stat -c '%a %u' plots/a-1-2.json)" = "640 $(id -u)" ]
  [ "$(od -An -c plots/a-1-1_2.png | tr -d ' ')" = '211PNG\r\n032\n' ]
  [ "$(jq -c . plots/a-1-2.json) $(<plots/a-1-2_2.html)" = '[1,0.1] <table>' ]
  [ "$(cat elsewhere/file plots/a-1-2.html)" = $'theirs\ntheirs' ]
  [ "$(find plots elsewhere | wc -l)" -eq 8 ]
  cell --results made/ --json -c "$shown"
  result=$output
  holds '.cell.values | map(.files) == [[{mime_type: "image/png", bytes: 8, path: "made/a-2-1.png"}],
    [{mime_type: "text/html", bytes: 7, path: "made/a-2-2.html"}, {mime_type: "application/json", bytes: .[1].files[1].bytes, path: "made/a-2-2.json"}], null]'
  [ -s made/a-2-1.png ]
}

@test "what is shown and cannot be saved is said in one line, and shown" {
  ulimit -f 8
  cell --results plots -c $'part(1, "display", "text/html", b"x" * 100000)\npart(2, "display", "text/html", b"y")'
  [ "$status" -eq 125 ]
  [ "$stderr" = 'nsbox: --results: writing plots/a-1-1.html: File too large' ]
  [ "$output" = $'[text/html, 100000 bytes: not saved]\n[text/html, 1 bytes: not saved]' ]
  [ ! "$(ls plots)" ]
  ln -s plots link
  mkdir -m 500 closed
  for folder in link link/ /dev/null missing/folder closed; do
    [ $folder != closed ] || ! am_root || continue
    cell --results $folder -c 'open("ran", "w").close()'
    [ "$status" -eq 125 ]
    [[ $stderr = 'nsbox: --results: '*$folder* && $stderr != *$'\n'* ]]
  done
  observe "$nsbox" session exec "$id" test -e ran
  [ "$status" -eq 1 ]
  observe "$nsbox" session exec --context a --results unused -c 1 00000000
  [ "$status" -eq 125 ]
  [ ! -e unused ]
  observe "$nsbox" session exec --results plots "$id" true
  [ "$status" -eq 125 ]
  [[ $stderr = *'add --context NAME'* ]]
}

@test "a context has the variables of its session, but those of its language" {
  other=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-} --env GIVEN=yes --env TOY=no)
  observe "$nsbox" session exec --context a --lang toy -c 'import os; os.environ["GIVEN"], os.environ["TOY"], os.environ["PATH"] != ""' "$other"
  [ "$output" = "('yes', 'yes', True)" ]
}

@test "an error has its traceback on standard error, and status 1" {
  cell -c $'y = 5\n1 / 0'
  [ "$status" -eq 1 ]
  [ "$stderr" = trace ]
  [ ! "$output" ]
  cell -c y
  [ "$output" = 5 ]
}

@test "the driver has four descriptors, and can open each of them anew" {
  cell -c 'import os
names = {name: os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}
names["0"], names["1"][:5], names["2"][:5], len(names)'
  [ "$output" = "('/dev/null', 'pipe:', 'pipe:', 5)" ]
  cell -c 'for fd, mode in (request, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY), (reply, os.O_WRONLY):
    os.close(os.open(f"/dev/fd/{fd}", mode))
    os.fstat(fd).st_uid == os.getuid() or print("another owner")'
  [ "$status" -eq 0 ]
  [ ! "$output" ]
  [ ! "$stderr" ]
}

@test "an endless loop is interrupted, by name, by its time, and when who waits goes away; the state stays" {
  cell -c 'x = 1'
  "$nsbox" session exec --context a -c $'x = 2\nwhile True: pass' "$id" &
  eventually state_is busy
  context interrupt "$id" a
  [ "$status" -eq 0 ]
  [ ! "$stderr" ]
  wait $! || status=$?
  [ "$status" -eq 130 ]
  # With more time, where a busy machine does not come as far in less.
  for limit in '300 ms' '4 s' '20 s'; do
    cell --timeout "${limit/ /}" -c $'x = 3\nopen("done", "w").close()\nwhile True: pass'
    [ "$status" -eq 124 ]
    [[ $stderr = *"interrupted: time limit of $limit"*'the context keeps its state'* ]]
    ! "$nsbox" session exec "$id" test -e done || break
  done
  "$nsbox" session exec --context a -c $'x += 1\nwhile True: pass' "$id" &
  eventually state_is busy
  kill -9 $!
  eventually state_is idle
  cell -c x
  [ "$output" = 4 ]
  context interrupt "$id" a
  [ "$status" -eq 0 ]
  [[ $stderr = *'runs no code: it is idle'* ]]
}

@test "code that does not stop is ended with its context, which says so until it is restarted" {
  marker=$(mark)
  cell -c 'import signal, subprocess'
  # With more time, where a busy machine is interrupted before it does not listen.
  for limit in '300 ms' '4 s' '20 s'; do
    cell --timeout "${limit/ /}" -c "signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(['sleep', '$marker'])
open('deaf', 'w').close()
while True: pass"
    [ "$status" -eq 124 ]
    [[ $stderr = *'the context keeps its state'* ]] && ! "$nsbox" session exec "$id" test -e deaf || break
  done
  [[ $stderr = *"time limit of $limit"*'the context has ended: its code did not stop when it was interrupted'* ]]
  eventually nothing_runs_of "sleep $marker"
  cell -c '1'
  [ "$status" -eq 125 ]
  [[ $stderr = *'the context "a" has ended: its code did not stop'*'restart'* ]]
  context restart "$id" a
  [ "$status" -eq 0 ]
  cell -c subprocess
  [ "$status" -eq 1 ]
}

@test "code that an interrupt ends with its context, as its time is up, has ended by its time" {
  cell -c 'import signal'
  cell --timeout 300ms -c $'signal.signal(signal.SIGINT, signal.SIG_DFL)\nwhile True: pass'
  [ "$status" -eq 124 ]
  [[ $stderr = *'time limit of 300 ms'*'the context has ended: it was ended by SIGINT'* ]]
}

@test "a context that is starting can be interrupted, and keeps a call no longer than its time" {
  "$nsbox" session exec "$id" touch slow-start
  "$nsbox" session exec --context a -c 1 "$id" 2>first &
  eventually state_is starting
  cell --timeout 1s -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'the context "a" was not ready in 10 s, and the code was not run'*interrupt* ]]
  state_is starting
  context interrupt "$id" a
  [ "$status" -eq 0 ]
  [ "$stderr" = 'nsbox: the context "a" was starting, and was ended: no code had run in it' ]
  wait $! || status=$?
  [ "$status" -eq 125 ]
  [ "$(<first)" = 'nsbox: the context "a" could not be started: its start was interrupted' ]
  context ls "$id"
  [ ! "$output" ]
  # Who waits goes away; the next one finds it starting, and gets it.
  "$nsbox" session exec --context a -c 'never = 1' "$id" &
  eventually state_is starting
  kill -9 $!
  nobody_waits() { [ "$("$nsbox" session context ls --json "$id" | jq '.[0].waiting')" = 0 ]; }
  eventually nobody_waits
  "$nsbox" session exec --context a --timeout 50s -c '"never" in globals()' "$id" >out &
  "$nsbox" session exec "$id" rm slow-start
  wait $!
  [ "$(<out)" = False ]
  # One that is restarted has been there, and stays.
  "$nsbox" session exec "$id" touch slow-start
  "$nsbox" session context restart "$id" a 2>restarted &
  eventually state_is starting
  context interrupt "$id" a
  [ "$status" -eq 0 ]
  status=0
  wait $! || status=$?
  [ "$status" -eq 125 ]
  [ "$(<restarted)" = 'nsbox: its start was interrupted' ]
  "$nsbox" session exec "$id" rm slow-start
  cell -c 1
  [[ $stderr = *'the context "a" has ended: its start was interrupted'*restart* ]]
  context restart "$id" a
  cell -c 1
  [ "$output" = 1 ]
}

@test "code that does not stop is said to go on" {
  "$nsbox" session exec --context a -c $'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen("deaf", "w").close()\nwhile True: pass' "$id" &
  eventually "$nsbox" session exec "$id" test -e deaf
  context interrupt "$id" a
  [ "$status" -eq 1 ]
  [[ $stderr = *'has not stopped yet'*restart* ]]
  state_is interrupted
  context end "$id" a
  [ "$status" -eq 0 ]
  wait $! || status=$?
  [ "$status" -ne 0 ]
  context ls "$id"
  [ ! "$output" ]
}

@test "output that is too long is cut, and no option is named that would be refused" {
  cell -c 'print("x" * (2 << 20))'
  [ "$status" -eq 0 ]
  [ "${#output}" -lt $((2 << 20)) ]
  [[ $stderr = 'nsbox: output of 2 MiB'*'its middle was left out' ]]
}

@test "a context that runs out of memory says so, and the session and other contexts live" {
  observe "$nsbox" session exec --context b -c 'x = "b"' "$id"
  cell -c 'hold = bytearray(1 << 30)'
  [ "$status" -eq 137 ]
  [[ $stderr = *'memory limit of 512 MiB'*'the context has ended: it was killed: memory limit'* ]]
  result=$("$nsbox" session context ls --json "$id")
  holds 'map({name, state}) | sort_by(.name) == [{name: "a", state: "ended"}, {name: "b", state: "idle"}]'
  observe "$nsbox" session exec --context b -c x "$id"
  [ "$output" = "'b'" ]
}

@test "a context whose driver, client or supervisor is killed" {
  cell -c 'import os; os.getpid()'
  result=$("$nsbox" session ps --json "$id")
  holds '.[0] | .context == "a" and .background and .running'
  "$nsbox" session kill "$id" "$(of '.[0].process')"
  eventually state_is ended
  cell -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'it was ended by SIGKILL'* ]]
  marker=$(mark)
  "$nsbox" session exec --context b -c "import subprocess; subprocess.run(['sleep', '$marker'])" "$id" 2>"$place/said" &
  eventually pgrep -f "^sleep $marker"
  kill -9 "$("$nsbox" session ls --json | jq '.[0].supervisor')"
  wait $! || status=$?
  [ "$status" -eq 125 ]
  [[ $(<said) = *ended* ]]
  eventually nothing_runs "sleep $marker"
}

@test "a session is stopped while code runs in it, and while code waits for its turn" {
  "$nsbox" session exec --context a -c $'while True: pass' "$id" 2>first &
  first=$!
  eventually state_is busy
  "$nsbox" session exec --context a -c '1' "$id" 2>second &
  second=$!
  waits() { [ "$("$nsbox" session context ls --json "$id" | jq '.[0].waiting')" = 1 ]; }
  eventually waits
  "$nsbox" session stop "$id"
  for call in first second; do
    status=0
    wait "${!call}" || status=$?
    [ "$status" -eq 125 ]
    [[ $(<$call) = *'the session has ended'* && $(<$call) != *restart* ]]
  done
  eventually nothing_runs
}

@test "what is written between calls comes with the next, and apart in JSON" {
  cell -c 'import subprocess
p = subprocess.Popen("while ! test -e go; do sleep 0.01; done; echo late; echo wrong >&2; touch done", shell=True)'
  "$nsbox" session exec "$id" touch go
  eventually "$nsbox" session exec "$id" test -e done
  cell --json -c $'print("now")\n0.1 + 0.2'
  result=$output
  is .cell.before.stdout $'late'
  is .cell.before.stderr $'wrong'
  is .stdout now
  [[ $output = *'"text": "0.30000000000000004"'* ]]
  cell --json -c $'part(1, "display", "application/json", b"[0.30000000000000004, 1e300]")'
  [[ $output = *0.30000000000000004* ]]
  result=$output
  holds '.cell | .status == "ok" and .context == "a" and .language == "toy" and .call == 3 and .error == null and .note == null'
}

@test "files that code changes are told; what was made for a context goes with it" {
  cell --changes -c 'open("new", "w").close()'
  [ "$stderr" = 'A new' ]
  observe "$nsbox" session exec "$id" sh -c 'ls /tmp/.nsbox/*'
  [[ $output = *toy.py* ]]
  context end "$id" a
  gone() { ! "$nsbox" session exec "$id" sh -c 'ls /tmp/.nsbox/*/toy.py' 2>/dev/null; }
  eventually gone
}

@test "limits of time stand in a pause" {
  # With more time, where it is over before a busy machine comes to the pause, or to the end of the code after it.
  for limit in 2 15; do
    "$nsbox" session exec "$id" rm -f begun go
    "$nsbox" session exec --context a --timeout ${limit}s -c $'import os, time\nopen("begun", "w").close()
while not os.path.exists("go"): time.sleep(0.02)\n"done"' "$id" >out &
    eventually "$nsbox" session exec "$id" test -e begun
    "$nsbox" session pause "$id"
    cell -c 1
    [ "$status" -eq 125 ]
    [[ $stderr = *paused* ]]
    was_busy=
    ! state_is busy || was_busy=yes
    sleep $limit
    "$nsbox" session resume "$id"
    "$nsbox" session exec "$id" touch go
    wait $! || true
    [ ! "$was_busy" ] || [ "$(<out)" != "'done'" ] || break
  done
  [ "$was_busy" ]
  [ "$(<out)" = "'done'" ]
}

@test "a context that a restore has ended begins anew, which is said once; one that had ended before does not" {
  [ "$("$nsbox" session ls --json | jq -r ".[] | select(.id == \"$id\").storage")" = disk ] || skip "files in memory are in no snapshot"
  cell -c 'import os; x = 1'
  observe "$nsbox" session exec --context dead -c 'import os; os._exit(3)' "$id"
  context restart "$id" a # where there is no state to miss, too
  snapshot=$("$nsbox" session snapshot --name before "$id")
  cell -c 'x = 2; 1'
  observe timeout 60 "$nsbox" session restore "$id" before
  [ "$status" -eq 0 ]
  [ "$stderr" = 'nsbox: ended 1 context of the session, which the next code begins anew, without variables' ]
  result=$("$nsbox" session context ls --json "$id")
  holds 'map(select(.name == "a"))[0] | .state == "ended" and .ended == "the session was restored to the snapshot before; the next code begins it anew"'
  # Also where it is asked for twice, and where its driver does not start at first.
  "$nsbox" session restore "$id" before
  "$nsbox" session exec "$id" touch no-start
  cell -c 1
  [ "$status" -eq 125 ]
  "$nsbox" session exec "$id" rm no-start
  cell -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'the context "a" has ended: it exited with status 1'*restart* ]]
  context restart "$id" a
  cell -c 'x = 3; x'
  [ "$output" = 3 ]
  [ ! "$stderr" ]
  "$nsbox" session restore "$id" before
  cell -c $'"x" in globals()'
  [ "$output" = False ]
  [ "$stderr" = 'nsbox: the context was started anew after a restore: its variables are gone' ]
  cell -c 'x = 4; x'
  [ "$output" = 4 ]
  [ ! "$stderr" ]
  "$nsbox" session restore "$id" before
  cell --json -c 'os._exit(4)'
  result=$output
  is .cell.note "the context was started anew after a restore: its variables are gone"
  "$nsbox" session restore "$id" before
  cell --timeout 300ms -c 'while True: pass'
  [ "$status" -eq 124 ]
  [[ $stderr = *'started anew after a restore: its variables are gone; the context keeps its state' ]]
  observe "$nsbox" session exec --context dead -c 1 "$id"
  [ "$status" -eq 125 ]
  [[ $stderr = *'"dead" has ended: it exited with status 3'*restart* ]]
  "$nsbox" session snapshots rm "$snapshot"
}

@test "what is no code for a context" {
  for option in --detach --tty '--env A=b' '--workdir /' '--detach --interactive'; do
    # shellcheck disable=SC2086 # options
    observe "$nsbox" session exec --context a $option -c 1 "$id"
    [ "$status" -eq 125 ]
    [[ $stderr = *'--context and --'*'do not go together'* ]]
  done
  observe "$nsbox" session exec --context a -c 1 "$id" argument
  [ "$status" -eq 125 ]
  [[ $stderr = *'takes no arguments'* ]]
  observe "$nsbox" session exec --context a "$id"
  [ "$status" -eq 125 ]
  [[ $stderr = *'which file?'* ]]
  observe "$nsbox" session exec --context 'a b' -c 1 "$id"
  [ "$status" -eq 125 ]
  [[ $stderr = *"cannot be the name of a context"* ]]
  cell --lang plain -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'Plain has no contexts'* ]]
  cell -c 1
  cell --lang plain -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'the context "a" is one of toy, not of plain'* ]]
  for action in interrupt restart end; do
    context $action "$id" none
    [ "$status" -eq 125 ]
    [[ $stderr = *'no context "none"'* ]]
    context $action "$id"
    [ "$status" -eq 125 ]
    [[ $stderr = *'takes an id and the name'* ]]
  done
  context
  [ "$status" -eq 125 ]
  [[ $stderr = *'takes ls, interrupt, restart or end'* ]]
  context lst "$id"
  [ "$status" -eq 125 ]
  [[ $stderr = *'"lst" is none of ls, interrupt, restart and end'* ]]
}

@test "a context that does not start says why, and stays none" {
  "$nsbox" session exec "$id" touch no-start
  cell -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'could not be started: it exited with status 1; it wrote: it will not start'* ]]
  context ls "$id"
  [ ! "$output" ]
  "$nsbox" session exec "$id" rm no-start
  cell -c 1
  [ "$output" = 1 ]
  "$nsbox" session exec "$id" touch no-start
  context restart "$id" a
  [ "$status" -eq 125 ]
  [[ $stderr = *'it exited with status 1'* ]]
  cell -c 1
  [ "$status" -eq 125 ]
  [[ $stderr = *'has ended: it exited with status 1'* ]]
}
