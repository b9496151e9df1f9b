#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pause and resume of a session: nothing of the code runs meanwhile, as the host's /proc shows it, and all goes on.

load helpers
load sessions

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime TERM=vt100
  mkdir -m 700 runtime
}

is_paused() {
  [ "$(info .paused)" = true ]
}

in_background() {
  "$nsbox" session exec -d "$id" -- "$@"
}

logs() {
  "$nsbox" session logs "$id" "$1"
}

pause() {
  observe "$nsbox" session pause "$id"
  [ "$status" = 0 ]
}

resume() {
  observe "$nsbox" session resume "$id"
  [ "$status" = 0 ]
}

# The pids of processes named $1 in the sandbox; without a name, of all but the agent, which is the first below.
pids() {
  below "$(info .supervisor)" | awk -v name="${1-}" '(name == "" && NR > 1) || $2 == name { print $1 }'
}

# Whether no thread of the processes $@ runs. A frozen one is not seen in its state: its clock is. One in «D» waits in vfork(2) for
# a child that stands.
stand() {
  local pid before=() after=()
  for pid; do
    if [ "$by" = signals ]; then
      [[ $(cat /proc/"$pid"/task/*/stat | sed 's/.*) //' | cut -c1 | sort -u | tr -d 'DTtZ\n') = '' ]] || return 1
    fi
  done
  before=$(cat $(printf '/proc/%s/schedstat ' "$@"))
  sleep 0.3
  after=$(cat $(printf '/proc/%s/schedstat ' "$@"))
  [ "$before" = "$after" ]
}

how() {
  if [ "$(tier)" = cgroup ]; then by=cgroup; else by=signals; fi
}

# Code that counts, a line each, in process $1.
count_of() {
  logs "$1" | tail -n 1
}

comes_to_a_stand() {
  local count
  count=$(count_of "$1")
  sleep 0.2
  [ "$(count_of "$1")" = "$count" ]
}

counts() {
  [[ $(count_of "$1") -gt ${2:-3} ]]
}

@test "all that runs stands still, and goes on where it stood" {
  session
  how
  loop=$(in_background sh -c 'i=0; while :; do i=$((i + 1)); echo $i; sleep 0.02; done')
  busy=$(in_background python3 -c '
import threading
for _ in range(4): threading.Thread(target=lambda: [sum(range(100)) for _ in iter(int, 1)]).start()
print("begun", flush=True)')
  eventually counts "$loop"
  eventually eval 'logs $busy | grep -q begun'
  pause
  [ -z "$stderr" ]
  is_paused
  mapfile -t all < <(pids)
  [ "${#all[@]}" -ge 2 ]
  eventually stand $(pids sh) $(pids python3)
  [ "$(info '[.processes[] | .paused] | unique | tostring')" = '[true]' ]
  [ "$("$nsbox" session ps "$id" | grep -c '  paused  ')" = 2 ]
  "$nsbox" session ls | grep -q "^$id .* paused "
  # What it had written before may come yet.
  eventually comes_to_a_stand "$loop"
  before=$(count_of "$loop")
  sleep 0.5
  [ "$(count_of "$loop")" = "$before" ]
  pause
  [ "$stderr" = "nsbox: $id is paused already" ]
  resume
  [ -z "$stderr" ]
  eventually counts "$loop" $((before + 5))
  # It has lost no line.
  logs "$loop" | awk '$1 != NR { exit 1 }'
  resume
  [ "$stderr" = "nsbox: $id is not paused" ]
  [ "$(info .paused)" = false ]
}

@test "what would begin something is refused, and says how to go on; what needs nothing inside is not" {
  session
  echo text >file
  reader=$("$nsbox" session exec -d -i "$id" sh -c 'echo here; cat')
  eventually eval 'logs $reader | grep -q here'
  pause
  for request in 'exec ID true' 'exec -d ID true' "exec --lang bash -c : ID" 'cp file ID:file' 'cp ID:/etc/passwd out'; do
    observe "$nsbox" session ${request//ID/$id}
    [ "$status" = 125 ]
    [[ $stderr = *"the session is paused: nothing can begin in it"*"nsbox session resume $id lets it go on" ]]
  done
  observe "$nsbox" session kill -s CONT "$id" "$reader"
  [ "$status" = 125 ]
  [ "$(logs "$reader")" = here ]
  "$nsbox" session input "$id" "$reader" later
  resume
  eventually eval 'logs $reader | grep -q later'
  "$nsbox" session exec "$id" true
}

@test "a process that the code has stopped itself stays stopped" {
  session
  how
  process=$(in_background sh -c 'sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; echo stopped; while :; do sleep 0.1; done')
  eventually eval 'logs $process | grep -q stopped'
  stopped=$(for pid in $(pids sleep); do grep -lz 1000 "/proc/$pid/cmdline"; done | cut -d/ -f3)
  [ "$(cut -d ' ' -f 3 "/proc/$stopped/stat")" = T ]
  for _ in 1 2 3; do
    pause
    eventually stand $(pids)
    resume
    [ "$(cut -d ' ' -f 3 "/proc/$stopped/stat")" = T ]
  done
  eventually eval '[ "$(cut -d " " -f 3 /proc/$(pids sh)/stat)" = S ]'
}

@test "one that waits in vfork goes on, whatever children the code has stopped" {
  session
  # The child that is about to be opens a pipe, for which it waits; until then its parent is in vfork(2). A program that the code
  # has stopped before it has become one is another child, or this one.
  local code='
import os, signal, sys
if sys.argv[1] == "sibling":
    sibling = os.fork()
    if not sibling: signal.pause()
    os.kill(sibling, signal.SIGSTOP)
    os.waitpid(sibling, os.WUNTRACED)
elif not os.fork():
    children = "/proc/%d/task/%d/children" % (os.getppid(), os.getppid())
    mine = str(os.getpid())
    while not (others := [pid for pid in open(children).read().split() if pid != mine]): pass
    os.kill(int(others[0]), signal.SIGSTOP)
    os.mkfifo("stopped")
    open("stopped").read() # until the pause is over
    os.kill(int(others[0]), signal.SIGCONT)
    os._exit(0)
os.mkfifo("pipe-" + sys.argv[1])
print("about to", flush=True)
os.posix_spawn("/bin/echo", ["echo", "it is one"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "pipe-" + sys.argv[1], os.O_RDONLY, 0)])
print("goes on", flush=True)'
  for child in sibling itself; do
    process=$(in_background python3 -c "$code" $child)
    eventually eval 'logs $process | grep -q "about to"'
    eventually eval 'cat $(printf "/proc/%s/stat " $(pids python3)) | grep -q ") D "'
    [ $child = sibling ] || eventually "$nsbox" session exec "$id" test -p stopped
    pause
    resume
    [ $child = sibling ] || "$nsbox" session exec "$id" sh -c ': >stopped'
    "$nsbox" session exec "$id" timeout 20 sh -c ": >pipe-$child"
    eventually eval 'logs $process | grep -q "goes on"'
    eventually eval 'logs $process | grep -q "it is one"'
  done
}

@test "a job of a shell is not taken for one that was stopped" {
  session
  cat >pauses <<END
until '$nsbox' session exec $id test -e begun; do sleep 0.1; done
'$nsbox' session pause $id
sleep 0.3
'$nsbox' session resume $id
'$nsbox' session exec $id touch resumed
END
  run timeout 60 "$pty" 'wait:# ' 'type:PS1=; set -m; until [ -e resumed ]; do sleep 0.2; echo "a""t"; : >begun; done; echo "the e""nd"\r' \
    wait:at 'wait:the end' 'type:jobs; exit 4\r' -- sh -c "sh pauses </dev/null >/dev/null 2>paused & exec '$nsbox' session shell $id"
  [ ! -s paused ]
  echo "# $output"
  [ "$status" = 4 ]
  [[ $output != *Stopped* ]]
}

@test "a fork bomb comes to a stand" {
  session --pids-limit 60
  how
  # Processes begin and end all the time, and the first of them stays. (A bash that cannot fork ends after a while.)
  in_background perl -e '$SIG{CHLD} = "IGNORE"; while (1) { my $pid = fork; $child ||= defined $pid && !$pid; exit if $child && rand() < 0.01 }'
  eventually eval '[ "$(pids | wc -l)" -gt 30 ]'
  pause
  mapfile -t all < <(pids)
  [ "${#all[@]}" -gt 10 ]
  eventually stand "${all[@]}"
  before=$(pids | sort | tr '\n' ' ')
  sleep 0.3
  [ "$(pids | sort | tr '\n' ' ')" = "$before" ]
  observe timeout 30 "$nsbox" session stop "$id"
  [ "$status" = 0 ]
}

@test "what a kernel's timer lets go on is stopped again" {
  ! grep -q __asan_init "$nsbox" || skip "a sanitizer makes what stops it too slow for this"
  session
  how
  # timer_create with SIGCONT, every 20 ms, in which nobody is asked.
  process=$(in_background python3 -c '
import ctypes, signal, os, time
libc = ctypes.CDLL(None)
signal.signal(signal.SIGCONT, lambda *_: None) # one that is ignored is not sent again
timer, event = ctypes.c_void_p(), (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 20000000), None) == 0
print("set", flush=True)
while True: os.kill(-1, signal.SIGCONT)')
  eventually eval 'logs $process | grep -q set'
  loop=$(in_background python3 -uc '
import time
for i in range(1, 1 << 30):
    print(i)
    time.sleep(0.02)')
  eventually counts "$loop"
  # In two seconds it comes less far than else in one; somebody else's work is no fault of it.
  for _ in 1 2 3; do
    before=$(count_of "$loop")
    sleep 1
    rate=$(($(count_of "$loop") - before))
    pause
    before=$(count_of "$loop")
    sleep 2
    after=$(count_of "$loop")
    resume
    [ "$after" -ge $((before + rate)) ] || break
  done
  [ "$after" -lt $((before + rate)) ]
  before=$(count_of "$loop")
  eventually counts "$loop" $((before + 5))
}

@test "the time limit of a command stands, and its idle time; the life of the session does not" {
  session --idle 6s
  timeout 60 "$nsbox" session exec --timeout 6s --json "$id" sleep 1000 >result &
  waiting=$!
  eventually eval '[ "$(info ".processes | length")" = 1 ]'
  pause
  sleep 8
  kill -0 "$waiting"
  is_paused
  resume
  code=0
  wait "$waiting" || code=$?
  [ "$code" = 124 ]
  jq -e '.ended_by == "timeout" and .usage.wall_ms < 14000 and .usage.wall_ms >= 5900' result || { cat result; false; }
  session --life 6s
  pause
  eventually eval '! "$nsbox" session ls -q | grep -q "$id"'
}

@test "commands end in a pause: by a signal, with who waits, with their terminal" {
  session
  how
  process=$(in_background sh -c 'trap "" TERM HUP; echo here; while :; do sleep 0.1; done')
  other=$(in_background sh -c 'i=0; while :; do i=$((i + 1)); echo $i; sleep 0.02; done')
  "$nsbox" session exec "$id" sh -c 'trap "" TERM HUP; echo here; while :; do sleep 0.1; done' >out &
  waiting=$!
  eventually eval 'logs $process | grep -q here && grep -q here out'
  eventually counts "$other"
  pause
  "$nsbox" session kill "$id" "$process"
  eventually eval '[ "$(info ".processes[] | select(.process == $process) | .running")" = false ]'
  kill -9 "$waiting"
  wait "$waiting" || true
  eventually eval '[ "$(info "[.processes[] | select(.running)] | length")" = 1 ]'
  eventually stand $(pids)
  before=$(count_of "$other")
  resume
  eventually counts "$other" $((before + 5))
  # Its source, which is in the workspace, goes after the pause.
  process=$("$nsbox" session exec -d --lang python -c 'import time; print("here", flush=True); time.sleep(1000)' "$id")
  eventually eval 'logs $process | grep -q here'
  pause
  "$nsbox" session kill "$id" "$process"
  eventually eval '[ "$(info ".processes[] | select(.process == $process) | .running")" = false ]'
  resume
  eventually eval '[ -z "$("$nsbox" session exec "$id" ls /workspace)" ]'
  # A terminal's end sends SIGCONT.
  "$pty" 'wait:here' pause:60000 -- "$nsbox" session exec -t "$id" sh -c 'trap "echo woken >>/workspace/woken" HUP; echo here; while :; do sleep 0.1; done' >out 2>&1 &
  terminal=$!
  eventually eval 'grep -q here out'
  pause
  kill -9 "$terminal"
  pkill -9 -P "$terminal" || true
  wait "$terminal" || true
  eventually eval '[ "$(info "[.processes[] | select(.running)] | length")" = 1 ]'
  eventually stand $(pids)
  resume
  observe "$nsbox" session exec "$id" test -e woken
  [ "$status" = 1 ]
}

@test "stop, and kill -9 of each process, in a pause: nothing is left" {
  for victim in stop supervisor agent keeper command; do
    session
    process=$(in_background sh -c 'echo here; sleep 1000; true')
    eventually eval 'logs $process | grep -q here'
    pause
    mapfile -t all < <(below "$(info .supervisor)" | cut -d ' ' -f 1)
    [ "${#all[@]}" -ge 4 ]
    supervisor=$(info .supervisor)
    case $victim in
    stop) observe timeout 30 "$nsbox" session stop "$id" && [ "$status" = 0 ] ;;
    supervisor) kill -9 "$supervisor" ;;
    agent) kill -9 "${all[0]}" ;;
    keeper) kill -9 "${all[1]}" ;;
    command) kill -9 "${all[2]}" ;;
    esac
    case $victim in
    keeper)
      eventually eval '[ "$(info ".processes[0].running")" = false ]'
      eventually eval '[ -z "$(pids)" ]'
      ;;
    command)
      # Who waits for it stands still as well.
      resume
      eventually eval '[ "$(info ".processes[0].running")" = false ]'
      eventually eval '[ -z "$(pids)" ]'
      ;;
    *)
      for pid in "${all[@]}" "$supervisor"; do
        eventually eval '! kill -0 "$pid" 2>/dev/null || grep -q "^State:.Z" "/proc/$pid/status"'
      done
      ;;
    esac
    "$nsbox" session stop --all
  done
}

@test "pause and resume, again and again, at any moment" {
  session
  in_background bash -c 'while :; do (true; true) | cat; done'
  in_background python3 -c '
import subprocess
while True: subprocess.run(["true"])'
  for _ in {1..25}; do
    "$nsbox" session pause "$id"
    "$nsbox" session resume "$id"
  done
  observe timeout 30 "$nsbox" session exec "$id" echo well
  [ "$output" = well ]
  [ "$(info '[.processes[] | select(.running)] | length')" = 2 ]
}

@test "mistakes are told" {
  observe "$nsbox" session pause
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: nsbox session pause: which session? See nsbox session pause --help" ]]
  session
  observe "$nsbox" session pause 0123456789abcdef "$id"
  [ "$status" = 125 ]
  is_paused
  observe "$nsbox" session resume --all
  [ "$status" = 125 ]
  [[ $stderr = *'unknown option "--all"'* ]]
}
