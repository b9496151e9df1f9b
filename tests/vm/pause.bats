#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pause of a session by a cgroup: the leaves of its commands are frozen, the agent is not, and all can be ended.

load ../cli/helpers
load helpers

setup() {
  cd "$BATS_TEST_TMPDIR"
  export XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/runtime
  mkdir -m 700 runtime
  # shellcheck disable=SC2086 # options
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-})
}

teardown() {
  "$nsbox" session stop --all
}

in_background() {
  "$nsbox" session exec -d "$id" -- "$@"
}

logs() {
  "$nsbox" session logs "$id" "$1"
}

logged() {
  logs "$1" | grep -q "$2"
}

info() {
  "$nsbox" session ls --json | jq -r ".[] | select(.id == \"$id\") | $1"
}

ended() {
  [ "$(info ".processes[] | select(.process == $1) | .running")" = false ]
}

# «frozen 0» or «frozen 1» of the cgroups $@, once each.
frozen() {
  local folder
  for folder; do
    grep ^frozen "$folder/cgroup.events"
  done | sort -u
}

@test "the leaves of commands are frozen, and nothing else; what runs there cannot tell" {
  # It would be told of a signal.
  loop=$(in_background sh -c 'trap "echo continued" CONT; i=0; while :; do i=$((i + 1)); echo $i; sleep 0.05; done')
  bomb=$(in_background bash -c 'for i in 1 2 3 4 5 6 7 8; do (while :; do (:); done) & done; echo begun; wait')
  stopped=$(in_background sh -c 'sleep 1000 & kill -STOP $!; echo stopped; wait')
  eventually logged "$loop" 3
  eventually logged "$bomb" begun
  eventually logged "$stopped" stopped
  one_sandbox
  sandbox=$(sandboxes)
  "$nsbox" session pause "$id"
  [ "$(find "$sandbox" -name 'run-*' | wc -l)" = 3 ]
  [ "$(frozen "$sandbox"/run-*)" = 'frozen 1' ]
  [ "$(frozen "$sandbox" "$sandbox/agent")" = 'frozen 0' ]
  sleep 0.5 # what it had written before has come then
  before=$(logs "$loop" | tail -n 1) used=$(grep usage_usec "$sandbox"/run-*/cpu.stat)
  sleep 1
  [ "$(logs "$loop" | tail -n 1)" = "$before" ]
  [ "$(grep usage_usec "$sandbox"/run-*/cpu.stat)" = "$used" ]
  "$nsbox" session resume "$id"
  [ "$(frozen "$sandbox"/run-*)" = 'frozen 0' ]
  eventually logged "$loop" "^$((before + 3))\$"
  ! logged "$loop" continued || false
  ended "$stopped" && return 1
  "$nsbox" session stop "$id"
  no_sandboxes
}

@test "what is frozen ends: by a signal, with its session, and with the supervisor" {
  process=$(in_background sh -c 'echo here; while :; do sleep 0.1; done')
  other=$(in_background sh -c 'echo here; while :; do sleep 0.1; done')
  eventually logged "$process" here
  eventually logged "$other" here
  "$nsbox" session pause "$id"
  "$nsbox" session kill "$id" "$process"
  eventually ended "$process"
  [ "$(frozen "$(sandboxes)"/run-*)" = 'frozen 1' ]
  inside=$(processes_in "$(find "$(sandboxes)" -name 'run-*')")
  [ -n "$inside" ]
  observe timeout 30 "$nsbox" session stop "$id"
  [ "$status" = 0 ]
  no_sandboxes
  # shellcheck disable=SC2086 # options
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-})
  other=$(in_background sh -c 'echo here; while :; do sleep 0.1; done')
  eventually logged "$other" here
  "$nsbox" session pause "$id"
  sandbox=$(sandboxes)
  kill -9 "$(info .supervisor)"
  eventually eval '! grep -q "^populated 1" "$sandbox/cgroup.events"'
  # The next one sweeps what is empty.
  box true
  [ "$status" = 0 ]
  no_sandboxes
}
