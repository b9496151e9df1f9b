#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Hosts that refuse user namespaces, and root's two ways to give ids: what is said, and the remedy.

load ../cli/helpers
load helpers

setup() {
  root_only
  place=$BATS_TEST_TMPDIR
  cd "$place"
  stranger_nsbox
}

teardown() {
  [ -z "${stranger_folder:-}" ] || rm -rf "$stranger_folder"
  if am_root; then
    sysctl -q kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000
  fi
  rm -rf /scratch/root-$$ /var/root-$$
}

# What is said in the run, as JSON, and in the check: $1 the cause, $2 the remedy.
refused() {
  as_stranger "$stranger" run -- true
  [ "$status" = 125 ]
  [[ $stderr = *"$1"* ]]
  [[ $stderr = *"$2"* ]]
  as_stranger "$stranger" run --json -- true
  [ "$status" = 125 ]
  result=$output
  is .ended_by setup
  [[ $(of .error.text) = *"$1"* ]]
  [[ $(of .error.hint) = *"$2"* ]]
  as_stranger "$stranger" check
  [ "$status" != 0 ]
  [[ $output = *"failed   namespaces"*"$1"*"-> as root: "*"$2"* ]]
}

@test "kernel.unprivileged_userns_clone=0" {
  sysctl -q kernel.unprivileged_userns_clone=0
  refused "the sysctl kernel.unprivileged_userns_clone is 0" "kernel.unprivileged_userns_clone = 1"
  box -- true
  [ "$status" = 0 ] # root needs no leave
}

@test "user.max_user_namespaces=0" {
  sysctl -q user.max_user_namespaces=0
  refused "the sysctl user.max_user_namespaces is 0" "user.max_user_namespaces = "
  box -- true
  [ "$status" = 125 ]
  [[ $stderr = *"user.max_user_namespaces"* ]]
  no_sandboxes
}

# A root of a shell and a file of root's own.
make_root() {
  mkdir -p "$1/bin" "$1/etc" "$1/tmp" "$1/proc" "$1/dev"
  cp "$(command -v busybox)" "$1/bin/busybox"
  ln -s busybox "$1/bin/sh"
  echo secret >"$1/etc/secret"
  chmod 600 "$1/etc/secret"
}

@test "root: a tree on ext4 is idmapped: 65536 ids, files are root's inside, the tree is unchanged" {
  tree=/scratch/root-$$
  make_root "$tree"
  json --rootfs "$tree" -- /bin/sh -c 'busybox stat -c %u /etc/secret; busybox cat /etc/secret
    echo x >/etc/new && busybox stat -c %u:%g /etc/new
    echo changed >/etc/secret; busybox cat /proc/self/uid_map | busybox tr -s " "'
  [ "$status" = 0 ]
  is .stdout $'0\nsecret\n0:0\n 0 '"$(of .sandbox.host_uid) 65536"
  holds '.warnings == []'
  is .sandbox.id_range true
  holds '.sandbox.host_uid >= 1879048192'
  [ ! -e "$tree/etc/new" ]
  [ "$(<"$tree/etc/secret")" = secret ]
  [ "$(stat -c %u "$tree/etc/secret")" = 0 ]
  holds '.limits.memory.enforced_by == "cgroup"'
}

@test "root: a tree that cannot be idmapped: a warning, a single id, root's files stay shut" {
  tree=/var/root-$$
  make_root "$tree"
  json --rootfs "$tree" -- /bin/sh -c 'busybox cat /etc/secret; busybox cat /proc/self/uid_map'
  holds '.warnings | length == 1'
  [[ $(of '.warnings[0]') = *"cannot be idmapped"* ]]
  is .sandbox.id_range false
  holds '.sandbox.host_uid != 0'
  [[ $(of .stdout) != *secret* ]]
  [[ $(of .stderr) = *"Permission denied"* ]]
  holds '.limits.memory.enforced_by == "cgroup"'
}

@test "root: two sandboxes at once have no id in common" {
  tree=/scratch/root-$$
  make_root "$tree"
  for i in 1 2; do
    seconds[i]=$i$(mark)
    "$nsbox" run --json --timeout none --rootfs "$tree" -- busybox sleep "${seconds[i]}" </dev/null >"$place/$i.json" 3>&- &
    pids[i]=$!
  done
  for i in 1 2; do
    eventually inner_pid "busybox sleep ${seconds[i]}"
  done
  for i in 1 2; do
    kill "$(inner_pid "busybox sleep ${seconds[i]}")"
    wait "${pids[i]}" || true
  done
  first=$(jq .sandbox.host_uid 1.json) second=$(jq .sandbox.host_uid 2.json)
  ((first > 0 && second > 0))
  ((first / 65536 != second / 65536))
}
