#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Limits by a cgroup: what is made, what the kernel is told, that it goes, and what is said where it cannot be had.

load ../cli/helpers
load helpers

teardown() {
  [ -z "${sleeper:-}" ] || kill -9 "$sleeper" 2>/dev/null || true
  [ -z "${stranger_folder:-}" ] || rm -rf "$stranger_folder"
}

@test "the limits of memory, processes and CPU are the cgroup's" {
  json --cpus 1 --require-cgroup -- true
  [ "$status" = 0 ]
  is .limits.memory.enforced_by cgroup
  is .limits.pids.enforced_by cgroup
  is .limits.cpu.enforced_by cgroup
  holds '.warnings == []'
}

@test "agent and command are in cgroups of their own, with the limits above them" {
  start_sleeper -m 100m --pids-limit 40 --cpus 0.5
  one_sandbox
  sandbox=$(sandboxes)
  [ "$(<"$sandbox/memory.max")" = "$((104857600 + 4194304))" ] # with room for the agent
  [ "$(<"$sandbox/run-1/memory.max")" = 104857600 ]
  [ "$(<"$sandbox/memory.swap.max")" = 0 ]
  [ "$(<"$sandbox/pids.max")" = 41 ]
  [ "$(<"$sandbox/cpu.max")" = "50000 100000" ]
  [ "$(<"$sandbox/run-1/pids.max")" = 40 ]
  [ "$(<"$sandbox/run-1/memory.oom.group")" = 1 ]
  [ "$(processes_in "$sandbox/run-1")" = "$(inner_pid "sleep $seconds")" ]
  [ "$(processes_in "$sandbox/agent" | wc -l)" = 1 ]
  kill "$sleeper"
  wait "$sleeper" || true
  no_sandboxes
}

@test "inside, the cgroup's path on the host is not shown" {
  box -- cat /proc/self/cgroup
  [ "$output" = "0::/../run-1" ]
  box -- ls /sys
  [ "$status" != 0 ]
}

@test "memory: the kernel's own count is what is reported" {
  json -m 64m --ro-bind "$load:/load" -- /load memory 2048
  is .ended_by oom
  is .signal SIGKILL
  is '.limits_hit[0].known_from' memory.events
  is '.limits_hit | length' 1
  no_sandboxes
}

@test "memory: all processes of the command die, and nothing waits for the rest" {
  begin=$(milliseconds)
  json -m 96m --ro-bind "$load:/load" -- /load processes 8 30
  is .ended_by oom
  (($(milliseconds) - begin < 20000))
  eventually nothing_runs "/load processes"
}

@test "memory: a program that is done before the limit is not near it" {
  json -m 128m --ro-bind "$load:/load" -- /load shared 2 20
  [ "$status" = 0 ]
  holds '.limits_hit == []'
  holds '.usage.memory_peak_bytes > 15 * 1048576 and .usage.memory_peak_bytes < 60 * 1048576'
}

@test "memory: memfds that nobody maps count" {
  json -m 32m --timeout 50 -- perl -e '
    for (1 .. 32) {
      my $name = "x";
      open($file[$_], ">&=", syscall(319, $name, 0)) or die;
      syswrite($file[$_], "x" x (1 << 20)) for 1 .. 8;
    }'
  is .ended_by oom
}

@test "memory: what lies in pipes and sockets, and page tables, which are in no process, count" {
  json -m 24m --timeout 50 -- perl -e '
    use Fcntl;
    for (1 .. 3) { last unless fork }
    for (1 .. 450) {
      pipe($r[$_], $w[$_]) or die;
      fcntl($w[$_], F_SETFL, O_NONBLOCK);
      syswrite($w[$_], "x" x 65536);
    }
    sleep 20'
  is .ended_by oom
  json -m 24m --timeout 50 -- perl -e '
    use Socket; use Fcntl;
    for (1 .. 450) {
      socketpair($r[$_], $w[$_], AF_UNIX, SOCK_STREAM, 0) or die;
      fcntl($w[$_], F_SETFL, O_NONBLOCK);
      1 while syswrite($w[$_], "x" x 32768);
    }'
  is .ended_by oom
  json -m 24m --timeout 50 -- python3 -c '
import mmap
space = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
space.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, 1 << 36, 1 << 21): space[at]'
  is .ended_by oom
  no_sandboxes
}

@test "memory: files on tmpfs, which are in no process" {
  json -m 32m --disk 200m --ro-bind "$load:/load" -- /load write /tmp/file 100
  is .ended_by oom
  is '.limits_hit[0].known_from' memory.events
  no_sandboxes
}

@test "pids: a fork bomb is counted by the kernel" {
  json --pids-limit 25 --timeout 8 --ro-bind "$load:/load" -- /load bomb 6
  is '[.limits_hit[] | select(.limit == "pids") | .known_from] | first' pids.events
  is '[.limits_hit[] | select(.limit == "pids") | .value] | first' 25
  no_sandboxes
}

@test "compile and run are limited and counted each for itself" {
  command -v cc >/dev/null || skip "no compiler"
  json -m 200m --lang c -c '#include <stdlib.h>
int main(void) { for (;;) { volatile char *p = malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; } }'
  is .ended_by oom
  is .phase run
  is '.phases | map(.limits_hit | length) | join(",")' '0,1'
  no_sandboxes
}

@test "cgroups are gone after every end" {
  json -- false
  no_sandboxes
  json --timeout 300ms -- sleep 30
  is .ended_by timeout
  no_sandboxes
  json -- /nonexistent
  no_sandboxes
  json -w /nonexistent -- true
  [ "$status" = 125 ]
  no_sandboxes
  start_sleeper
  kill -HUP "$sleeper"
  wait "$sleeper" || true
  no_sandboxes
}

@test "what a killed nsbox left is gone with the next run" {
  start_sleeper
  one_sandbox
  kill -9 "$sleeper"
  wait "$sleeper" || true
  eventually nothing_runs "sleep $seconds"
  box -- true
  [ "$status" = 0 ]
  no_sandboxes
}

@test "a live sandbox is left alone by the next run" {
  start_sleeper
  box -- true
  one_sandbox
  inner_pid "sleep $seconds"
  kill "$sleeper"
  wait "$sleeper" || true
  no_sandboxes
}

@test "forty at once" {
  for i in {1..40}; do
    # shellcheck disable=SC2086 # options
    "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --require-cgroup -- sh -c "exit $i" </dev/null 2>"$place/error.$i" 3>&- &
    pids[i]=$!
  done
  for i in {1..40}; do
    status=0
    wait "${pids[i]}" || status=$?
    [ "$status" = "$i" ] || { echo "$i: status $status"; cat "$place/error.$i"; false; }
  done
  no_sandboxes
  nothing_runs
}

@test "own cgroup: nsbox that is alone in one works below it, and leaves it as it was" {
  own=${NSBOX_CGROUP:-$top}/alone-$$
  mkdir "$own"
  bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$own" \
    "$nsbox" run --json --require-cgroup -- true </dev/null >result.json
  result=$(<result.json)
  is .limits.memory.enforced_by cgroup
  [[ $(of .sandbox.cgroup) = "$own/nsbox-"* ]]
  [ -z "$(find "$own" -mindepth 1 -type d)" ]
  [ -z "$(<"$own/cgroup.subtree_control")" ]
  rmdir "$own"
}

@test "named: processes in it are a clear error" {
  named=${NSBOX_CGROUP:-$top}/busy-$$
  mkdir "$named"
  sleep 1000 3>&- &
  busy=$!
  echo $busy >"$named/cgroup.procs"
  box --cgroup "$named" -- true
  kill $busy
  wait $busy || true
  rmdir "$named"
  [ "$status" = 125 ]
  [[ $stderr = *"the cgroup $named has processes in it"* ]]
}

@test "named: without controllers is a clear error" {
  parent=${NSBOX_CGROUP:-$top}/parent-$$
  mkdir -p "$parent/child"
  box --cgroup "$parent/child" -- true
  rmdir "$parent/child" "$parent"
  [ "$status" = 125 ]
  [[ $stderr = *"the cgroup $parent/child is without the memory controller"* ]]
}

@test "named: no cgroup at all is a clear error" {
  box --cgroup "$place" -- true
  [ "$status" = 125 ]
  [[ $stderr = *"$place is not a directory of a cgroup v2 hierarchy"* ]]
  box --cgroup /nonexistent -- true
  [ "$status" = 125 ]
  [[ $stderr = *"/nonexistent"*"No such file or directory"* ]]
}

@test "not delegated: the watcher, and why" {
  root_only
  stranger_nsbox
  as_stranger "$stranger" run --json -m 64m -- true
  result=$output
  is .limits.memory.enforced_by watcher
  holds '.warnings | length == 1'
  [[ $(of '.warnings[0]') = *"the cgroup $top/init is not writable for uid 34567"* ]]
}

@test "not delegated: --require-cgroup refuses, with the remedy" {
  root_only
  stranger_nsbox
  as_stranger "$stranger" run --require-cgroup -- true
  [ "$status" = 125 ]
  [[ $stderr = *"no usable cgroup"*"not writable for uid 34567"* ]]
  [[ $stderr = *"nsbox check"*"--cgroup"* ]] # with systemd: systemd-run
}

@test "not delegated: a cgroup that is out of reach is named with what is in the way" {
  root_only
  stranger_nsbox
  mkdir "$top/theirs"
  chown -R 34567 "$top/theirs"
  as_stranger "$stranger" run --cgroup "$top/theirs" -- true
  rmdir "$top/theirs"
  [ "$status" = 125 ]
  [[ $stderr = *"no process can be moved from $top/init"*"$top/theirs"*"$top/cgroup.procs is not writable for uid 34567"* ]]
}

@test "not delegated: a memory hog is stopped by the watcher" {
  root_only
  stranger_nsbox
  cp "$load" "$stranger_folder/load"
  as_stranger "$stranger" run --json -m 64m --ro-bind "$stranger_folder/load:/load" -- /load memory 2048
  result=$output
  is .ended_by oom
  is '.limits_hit[0].known_from' watcher
}

@test "check: tier 1, with the place" {
  observe "$nsbox" check
  if am_root; then
    [[ $output = *"ok       cgroup            tier 1"*"$top/nsbox"* ]]
  else
    [[ $output = *"warning  cgroup            tier 2"* ]] # check is not told of the one that is named
  fi
}

weighs_ten() {
  grep -lx 10 "$(base)"/nsbox-*/cpu.weight
}

@test "a cache that a server fills in the background gets a tenth of the processor time" {
  root_only
  export XDG_CONFIG_HOME=$place/config XDG_CACHE_HOME=$place/cache
  mkdir -p config/nsbox/languages
  cat >config/nsbox/languages/slow.json <<'END'
{"name": "slow", "title": "Slow", "extension": "t", "source": "main.t", "needs": [{"program": "bash"}],
"cache": {"argv": ["sleep", "60"]}, "run": {"argv": ["bash", "{source}"]}}
END
  mkfifo requests
  "$nsbox" mcp <requests >answers 2>&1 3>&- &
  sleeper=$!
  exec 4>requests
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"slow","code":"echo called"}}}' >&4
  eventually weighs_ten
  eventually grep -q called answers
  exec 4>&-
  wait "$sleeper"
  no_sandboxes
}
