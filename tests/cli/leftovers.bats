#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# However a run ends, nothing of it is left: no process, mount, lock on ids, cgroup or file.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export TMPDIR=$place/tmp
  mkdir "$TMPDIR"
  seconds=$(mark)
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} true # sweeps what the test before killed
  before=$(traces)
}

teardown() {
  pkill -KILL -x "$(basename "$nsbox")" || true
}

# What a run could leave where everybody sees it.
traces() {
  cut -d' ' -f 4- /proc/self/mountinfo
  ls -A "$TMPDIR" /dev/shm | grep -vE '^nsbox-(fuzz|images|test|probe)' # other tests may run at the same time
  find /run/nsbox /var/run/nsbox -type f 2>/dev/null | sort
  find /sys/fs/cgroup -type d -name '*nsbox*' 2>/dev/null | sort
}

nothing_is_left() {
  eventually nothing_runs "sleep $seconds"
  # The file of locks is made once, and stays.
  eventually same_traces
}

# A killed supervisor cannot remove its cgroup: the next one that makes a sandbox does.
nothing_is_left_for_the_next() {
  eventually nothing_runs "sleep $seconds"
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} true
  nothing_is_left
}

same_traces() {
  diff <(grep -v /run/nsbox/ids <<<"$before") <(traces | grep -v /run/nsbox/ids)
}

start() {
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --timeout none "$@" -- sh -c "sleep $seconds & sleep $seconds" </dev/null >/dev/null 2>&1 &
  runner=$!
  eventually inner_pid "sleep $seconds" >/dev/null
}

# The sandbox's pid 1, on the host.
agent_pid() {
  local pid
  for pid in $(pgrep -x "$(basename "$nsbox")"); do
    [ "$(awk '/^NSpid:/ { print $NF, NF }' "/proc/$pid/status" 2>/dev/null)" != "1 3" ] || echo "$pid"
  done
}

# Whether any process holds a lock on the ids file for the slot of host id $1.
slot_is_locked() {
  [ -e /run/nsbox/ids ] || return 1
  local inode slot
  inode=$(stat -c %i /run/nsbox/ids)
  slot=$((($1 - 0x70000000) / 65536))
  grep -q ":$inode $slot $slot$" /proc/locks
}

@test "after a normal end, a failure, a timeout and a limit" {
  box -- sh -c "sleep $seconds & exit 0"
  nothing_is_left
  box -- sh -c "sleep $seconds & exit 3"
  nothing_is_left
  box --timeout 200ms -- sleep "$seconds"
  nothing_is_left
  loaded -m 64m -- sh -c "sleep $seconds & exec /load memory 500"
  [ "$status" = 137 ]
  nothing_is_left
  box -- no-such-program
  nothing_is_left
  box --rootfs "$place/absent" -- true
  nothing_is_left
}

@test "after a run with a rootfs, a bind and a tmpfs" {
  mkdir tree
  cp "$load" tree/load
  box --rootfs "$place/tree" --bind "$TMPDIR:/data" --tmpfs /scratch:1m -- /load write /scratch/x 4
  [ "$status" = 1 ]
  nothing_is_left
  [ "$(find tree | sort | xargs)" = "tree tree/load" ]
}

@test "after SIGKILL of nsbox" {
  for i in 1 2 3 4 5; do
    start
    kill -KILL "$runner"
    wait "$runner" || true
    nothing_is_left_for_the_next
  done
}

@test "after SIGKILL of nsbox at any moment" {
  for delay in 0.000 0.002 0.003 0.004 0.005 0.006 0.008 0.010 0.015 0.020; do
    "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --timeout none -- sleep "$seconds" </dev/null >/dev/null 2>&1 &
    runner=$!
    sleep "$delay"
    kill -KILL "$runner"
    wait "$runner" || true
  done
  nothing_is_left_for_the_next
}

@test "after SIGKILL of the agent: nsbox says so and fails" {
  start
  agent=$(agent_pid)
  [ -n "$agent" ]
  kill -KILL $agent
  code=0
  wait "$runner" || code=$?
  [ "$code" -ge 125 ]
  nothing_is_left
}

@test "after SIGTERM, SIGHUP and SIGQUIT" {
  for signal in TERM HUP; do
    start
    kill "-$signal" "$runner"
    wait "$runner" || true
    nothing_is_left
  done
}

@test "after Ctrl-C on a terminal, and after the terminal is gone" {
  run "$pty" wait:ready pause:1500 "type:\\x03" -- "$nsbox" run ${NSBOX_TEST_OPTIONS:-} -- sh -c "echo ready; sleep $seconds"
  [ "$status" = 130 ]
  nothing_is_left
  run "$pty" wait:ready signal:HUP -- "$nsbox" run ${NSBOX_TEST_OPTIONS:-} -- sh -c "echo ready; sleep $seconds"
  nothing_is_left
  run "$pty" wait:ready signal:KILL -- "$nsbox" run ${NSBOX_TEST_OPTIONS:-} -- sh -c "echo ready; sleep $seconds"
  nothing_is_left_for_the_next
}

@test "after the parent of nsbox is killed" {
  bash -c "'$nsbox' run --timeout 7 -- sleep $seconds & echo started; wait" </dev/null >out 2>&1 &
  parent=$!
  eventually inner_pid "sleep $seconds" >/dev/null
  kill -KILL "$parent"
  wait "$parent" || true
  nothing_is_left_for_the_next
}

@test "two hundred at once" {
  for i in {1..200}; do
    "$nsbox" run ${NSBOX_TEST_OPTIONS:-} -- sh -c "sleep $seconds & echo $i" </dev/null >"$place/out.$i" 2>"$place/err.$i" &
    ((i % 40)) || sleep 0.05
  done
  wait
  cat "$place"/err.* >errors
  [ ! -s errors ] || { sort errors | uniq -c; return 1; }
  [ "$(cat "$place"/out.* | sort -n | xargs)" = "$(seq 200 | xargs)" ]
  rm "$place"/out.* "$place"/err.*
  nothing_is_left
}

@test "a slot of ids is free again after the run" {
  am_root || skip "an ordinary user has one id"
  result=$("$nsbox" run --json -- true </dev/null)
  [ "$(of .sandbox.id_range)" = true ]
  eventually bash -c "! $(declare -f slot_is_locked); ! slot_is_locked $(of .sandbox.host_uid)"
  start
  host_uid=$(stat -c %u "/proc/$(inner_pid "sleep $seconds")")
  slot_is_locked "$host_uid"
  kill -KILL "$runner"
  wait "$runner" || true
  slot_is_free() { ! slot_is_locked "$host_uid"; }
  eventually slot_is_free
}

@test "with a full /tmp and nothing writable" {
  full="mount -t tmpfs -o size=4k none /tmp; dd if=/dev/zero of=/tmp/fill bs=4k count=9 2>/dev/null"
  own="--user --map-current-user --keep-caps"
  ! am_root || own=
  run unshare $own --mount bash -c "
    exec 5<'$nsbox'; $full; ! echo x >/tmp/no 2>/dev/null; exec /proc/self/fd/5 run -- echo works"
  [ "$status" = 0 ]
  [[ $output = *works* ]]
}

@test "descriptors of the caller's are left as they were" {
  output=$(bash -c "
    exec 5<'$BATS_TEST_FILENAME'
    before=\$(cat /proc/\$\$/fdinfo/0 /proc/\$\$/fdinfo/1 | grep flags)
    '$nsbox' run -- true
    after=\$(cat /proc/\$\$/fdinfo/0 /proc/\$\$/fdinfo/1 | grep flags)
    [ \"\$before\" = \"\$after\" ] && echo same" </dev/null)
  [ "$output" = same ]
}
