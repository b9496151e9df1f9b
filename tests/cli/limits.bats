#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Limits: each is met, said with its numbers and the option that raises it, and no other is. Who enforces
# memory, processes and CPU depends on the host (see `tier`); the rest does not.

load helpers

# --- memory ---

killed_for_memory() { # the limit in bytes
  [ "$status" = 137 ]
  is .ended_by oom
  is .status 137
  is .limits.memory.value "$1"
  is .limits.memory.enforced_by "$(tier)"
  is '.limits_hit[0].limit' memory
  is '.limits_hit[0].value' "$1"
  is '.limits_hit[0].option' --memory
  holds ".limits_hit[0].used > $1 * 0.9"
  holds '.limits_hit[0].known_from | length > 0'
  [[ $(of .message) = *"memory limit of"*"--memory"* ]]
}

@test "memory: a program that takes 2 GiB under 128 MiB" {
  json -m 128m --ro-bind "$load:/load" -- /load memory 2048
  killed_for_memory 134217728
  loaded -m 128m -- /load memory 2048
  [ "$status" = 137 ]
  [[ $stderr = *"nsbox: killed: memory limit of 128 MiB reached"*"--memory"* ]]
  [ "$(grep -c . <<<"$stderr")" -le 2 ]
}

@test "memory: a Python program that takes 2 GiB under 128 MiB" {
  command -v python3 >/dev/null || skip "no python3"
  json -m 128m -- python3 -c 'x = []
while True: x.append(bytearray(1 << 20))'
  killed_for_memory 134217728
}

@test "memory: eight processes together" {
  json -m 128m --ro-bind "$load:/load" -- /load processes 8 24
  killed_for_memory 134217728
}

@test "memory: eight processes that share 100 MiB are within 200 MiB" {
  json -m 200m --ro-bind "$load:/load" -- /load shared 8 100
  [ "$status" = 0 ]
  is .stdout shared
  holds '.limits_hit == []'
  holds '.usage.memory_peak_bytes > 100 * 1048576 * 0.9 and .usage.memory_peak_bytes <= 200 * 1048576'
}

@test "memory: a process whose first thread has ended" {
  loaded -m 128m --timeout 50 -- /load orphaned-threads 1000
  [ "$status" = 137 ]
  [[ $stderr = *memory* ]]
}

@test "memory: shared memory counts" {
  json -m 64m --ro-bind "$load:/load" -- /load shared 4 200
  killed_for_memory 67108864
}

@test "memory: files on tmpfs count" {
  json -m 64m --disk 512m --ro-bind "$load:/load" -- sh -c '/load write /tmp/file 400; sleep 25'
  killed_for_memory 67108864
}

@test "memory: what is used is reported" {
  # Before it executes, a command shares the memory of an agent that a sanitizer makes large.
  ! readelf -lW "$nsbox" | grep -q INTERP || skip "nsbox is linked dynamically"
  in_time json --ro-bind "$load:/load" -- bash -c 'exec /load memory 60 > >(read -r line; : >/place/done)'
  is .ended_by timeout
  holds '.usage.memory_peak_bytes > 55 * 1048576 and .usage.memory_peak_bytes < 110 * 1048576'
}

# --- processes ---

@test "pids: a fork bomb is held; the host stays usable; the run says so" {
  own=/load.$(mark) # the same test as another user, say, has bombs too
  begin=$(milliseconds)
  json --pids-limit 30 --timeout 2 --ro-bind "$load:$own" -- "$own" bomb 20 &
  bomb=$!
  sleep 0.7
  most=0
  for i in 1 2 3; do
    [ "$(bash -c 'echo usable')" = usable ]
    now=$(pgrep -c -f "^$own bomb" || true)
    ((now <= most)) || most=$now
  done
  wait "$bomb"
  ((most <= 31))
  # They are as many for a while, in which who watches has looked.
  limits="3000 20000" in_time json --pids-limit 30 --ro-bind "$load:$own" -- bash -c "'$own' bomb 50 &"'
    until all=(/proc/[0-9]*); ((${#all[@]} >= 30)); do :; done
    SECONDS=0; until ((SECONDS >= 2)); do :; done; : >/place/done; while :; do :; done'
  is .ended_by timeout
  is '[.limits_hit[] | select(.limit == "pids") | .value] | first' 30
  is '[.limits_hit[] | select(.limit == "pids") | .option] | first' --pids-limit
  [[ $(of .message) = *"limit of 30 processes"* ]]
  eventually nothing_runs "$own bomb"
}

@test "pids: threads count, and a limit is exact" {
  loaded --pids-limit 20 -- /load threads 50
  [ "$output" = "19 threads" ]
  loaded --pids-limit 60 -- /load threads 50
  [ "$output" = "50 threads" ]
}

@test "pids: other processes of the same user do not count" {
  seconds=$(mark)
  others=()
  for i in {1..15}; do
    sleep "$seconds" &
    others+=($!)
  done
  loaded --pids-limit 10 -- /load threads 5
  kill "${others[@]}"
  [ "$output" = "5 threads" ]
}

# --- time ---

timed_out() { # the limit in ms
  [ "$status" = 124 ]
  is .ended_by timeout
  is .limits.time.value "$1"
  is .limits.time.enforced_by supervisor
  is '.limits_hit[0].limit' time
  is '.limits_hit[0].value' "$1"
  is '.limits_hit[0].option' --timeout
  # Nothing that runs here would end before.
  holds ".usage.wall_ms >= $1 and .usage.wall_ms < $1 + 15000"
}

@test "time: sleeping" {
  in_time json -- sh -c 'echo before; : >/place/done; sleep 50; echo after'
  timed_out $limit
  is .stdout before
}

@test "time: busy" {
  # Its user and system time are in hundredths of a second.
  in_time json -- bash -c 'until read -r -a stat </proc/self/stat; ((stat[13] + stat[14] >= 8)); do :; done; : >/place/done; while :; do :; done'
  timed_out $limit
  holds '.usage.cpu_user_ms + .usage.cpu_system_ms > 50'
}

@test "time: a tree of processes" {
  seconds=$(mark)
  in_time json -- sh -c "sleep $seconds & (sleep $seconds & setsid sleep $seconds &)
    until [ \"\$(cat /proc/[0-9]*/comm | grep -c '^sleep')\" = 3 ]; do :; done; : >/place/done; sleep $seconds"
  timed_out $limit
  eventually nothing_runs "sleep $seconds"
}

@test "time: one that ignores every signal" {
  own=/load.$(mark)
  in_time json --ro-bind "$load:$own" -- bash -c "exec '$own' stubborn > >(read -r line; echo \$line; : >/place/done; exec cat)"
  timed_out $limit
  [[ $(of .stdout) = stubborn* ]]
  eventually nothing_runs "$own stubborn"
}

@test "time: none" {
  json --timeout none -- true
  is .limits.time.value null
  is .limits.time.enforced_by none
}

# --- CPU ---

@test "cpus: half a CPU, by a share of time or by fewer CPUs" {
  json --cpus 0.5 --timeout 2 -- sh -c 'while :; do :; done & while :; do :; done'
  is .limits.cpu.value 0.5
  if [ "$(tier)" = cgroup ]; then
    is .limits.cpu.enforced_by cgroup
    holds '.usage.cpu_user_ms + .usage.cpu_system_ms < .usage.wall_ms * 0.85'
    holds '[.limits_hit[] | select(.limit == "cpu")] | length == 1'
  else
    is .limits.cpu.enforced_by affinity
    holds '.usage.cpu_user_ms + .usage.cpu_system_ms < .usage.wall_ms * 1.4'
    box --cpus 0.5 -- nproc
    [ "$output" = 1 ]
  fi
}

# --- writable space ---

@test "disk: a full space is the command's error, and the run says so" {
  json --disk 4m --ro-bind "$load:/load" -- /load write /workspace/file 16
  [ "$status" = 1 ]
  is .stdout ENOSPC
  is .ended_by exited
  is .limits.disk.enforced_by tmpfs
  is '.limits_hit[0].limit' disk
  is '.limits_hit[0].value' 4194304
  is '.limits_hit[0].option' --disk
  [[ $(of .message) = *"writable space of 4 MiB is full"* ]]
  loaded --disk 4m -- /load write /tmp/file 16
  [ "$output" = ENOSPC ]
  [[ $stderr = *"nsbox: writable space of 4 MiB is full"*"--disk"* ]]
}

@test "disk: it is one space, not one for each folder" {
  loaded --disk 8m -- sh -c '/load write /tmp/a 3; /load write /dev/shm/b 3; /load write /workspace/c 3; /load write "$HOME/d" 3'
  [[ $output = *ENOSPC* ]]
}

@test "inodes: empty files are bounded" {
  json --disk 4m -- sh -c 'cd /tmp; i=0; while : >$i; do i=$((i + 1)); [ $i -lt 50000 ] || exit 9; done 2>/dev/null'
  [ "$status" != 9 ]
  is '[.limits_hit[] | select(.limit == "inodes") | .option] | first' --disk
  is .limits.inodes.enforced_by tmpfs
}

@test "file size: of each file" {
  json --file-size 1m -- sh -c 'head -c 1m /dev/zero >/tmp/fits && exec head -c 2m /dev/zero >/tmp/large'
  is .ended_by signaled
  is .signal SIGXFSZ
  is '.limits_hit[0].limit' file_size
  is '.limits_hit[0].option' --file-size
  [[ $(of .message) = *"file size limit of 1 MiB"*"--file-size"* ]]
  is .limits.file_size.enforced_by rlimit
}

@test "open files: of each process" {
  box --open-files 20 -- bash -c 'ulimit -n; ulimit -Hn'
  [ "$output" = $'20\n20' ]
  json --open-files 20 -- true
  is .limits.open_files.value 20
}

# --- output ---

@test "output: a flood is counted, head and tail are kept, nsbox stays small" {
  peak=$(mktemp "$place/peak.XXXX")
  for limit in 3 30; do
    result=$("$load" peak "$nsbox" run --json --timeout $limit --output-limit 64k --bind "$place:/place" -- \
      sh -c 'yes | head -c 11000000; : >/place/done; exec yes' 9>"$peak" </dev/null) || true
    cat "$peak"
    (($(cat "$peak") < 32 * 1024))
    [ ! -e done ] || break
  done
  is .ended_by timeout
  holds '.stdout_bytes > 10000000'
  holds '.stdout_omitted_bytes == .stdout_bytes - 65536'
  is '.limits_hit | map(.limit) | sort | join(" ")' "output time"
  [[ $(of .stdout) = y$'\n'y* ]]
  [[ $(of .stdout) = *"bytes left out"* ]]
}

@test "output: with the largest limit nsbox stays within it" {
  peak=$(mktemp "$place/peak.XXXX")
  "$load" peak "$nsbox" run --json --timeout 2 -- yes 9>"$peak" >/dev/null </dev/null || true
  cat "$peak"
  (($(cat "$peak") < 32 * 1024))
}

@test "output: both streams, each with a limit of its own" {
  json --output-limit 4k -- sh -c 'seq 10000; seq 20000 >&2; echo end'
  is .stdout_bytes "$(($(seq 10000 | wc -c) + 4))"
  is .stderr_bytes "$(seq 20000 | wc -c)"
  [[ $(of .stdout) = 1$'\n'2* && $(of .stdout) = *10000$'\n'end ]]
  [[ $(of .stderr) = *20000 ]]
  holds '.stdout_omitted_bytes == .stdout_bytes - 4096'
  is '.limits_hit | map(.limit) | unique | join(" ")' output
}

@test "output: exactly the limit is whole" {
  json --output-limit 4k -- head -c 4096 /dev/zero
  is .stdout_omitted_bytes 0
  holds '.limits_hit == []'
  json --output-limit 4k -- head -c 4097 /dev/zero
  is .stdout_omitted_bytes 1
}

@test "output: without --json it is passed on whole, and nsbox stays small" {
  peak=$(mktemp "$place/peak.XXXX")
  "$load" peak "$nsbox" run --timeout 200 -- head -c 300000000 /dev/zero 9>"$peak" </dev/null | wc -c >count
  [ "$(cat count)" = 300000000 ]
  (($(cat "$peak") < 32 * 1024))
}

# --- defaults ---

@test "defaults: what they are, and that nothing meets them" {
  json -- true
  is .limits.memory.value 536870912
  is .limits.pids.value 256
  is .limits.disk.value 268435456
  is .limits.time.value 30000
  is .limits.output.value 1048576
  is .limits.open_files.value 1024
  holds '.limits_hit == []'
  if [ "$(tier)" = watcher ]; then
    holds '.warnings | length == 1'
    is .limits.pids.enforced_by rlimit
  else
    is .limits.pids.enforced_by cgroup
  fi
}

@test "defaults: node starts" {
  command -v node >/dev/null || skip "no node"
  box -- node -e 'console.log([1, 2, 3].map((x) => x * x).join(), new Array(1e6).fill(1).length)'
  [ "$status" = 0 ]
  [ "$output" = "1,4,9 1000000" ]
}

@test "defaults: java starts" {
  command -v java >/dev/null || skip "no java"
  box -- java -version
  [ "$status" = 0 ]
  [[ $stderr = *version* ]]
}

@test "defaults: gcc compiles" {
  command -v gcc >/dev/null || skip "no gcc"
  box -- sh -c 'echo "int main(void) { return 7; }" >a.c && gcc -o a a.c && ./a'
  [ "$status" = 7 ]
}

@test "require-cgroup: runs with the cgroup's limits, or not at all" {
  json --require-cgroup -- true
  if [ "$(tier)" = cgroup ]; then
    [ "$status" = 0 ]
    is .limits.memory.enforced_by cgroup
  else
    [ "$status" = 125 ]
    is .ended_by setup
  fi
}
