#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `nsbox check`: what it says on this host, and on hosts that refuse something. These are made of user
# namespaces in which a sysctl is set, a mount is made or the root is changed: nothing of the host is touched.

bats_require_minimum_version 1.5.0

setup() {
  nsbox=${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}
  # A place that an ordinary user can reach, for the tests that root runs as one.
  place=$(mktemp -d /tmp/nsbox-check.XXXXXX)
  chmod 755 "$place"
  cp "$nsbox" "$place/nsbox"
  nsbox=$place/nsbox
}

teardown() {
  rm -rf "$place"
}

# Runs as an ordinary user, whoever runs the tests.
ordinary() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid 65534 --regid 65534 --clear-groups env -C / HOME=/ "$@"
  else
    "$@"
  fi
}

# Runs a shell script on a host of its own: $1 are more options of unshare, $2 the script.
on_a_host() {
  ordinary unshare --user --map-current-user --keep-caps $1 sh -ec "$2"
}

line_of() { # the finding $1 of $output, with its remedy
  grep -A1 -E "^(ok|warning|failed) +$1 " <<<"$output"
}

@test "check: this host can run nsbox, as root and as an ordinary user" {
  run "$nsbox" check
  [ "$status" = 0 ]
  [ "${lines[-1]}" = "nsbox can run here." ]
  for name in kernel namespaces mounts proc seccomp ids run; do
    [[ $(line_of $name) = ok* ]]
  done
  run ordinary "$nsbox" check
  [ "$status" = 0 ]
  [[ $(line_of run) = ok* ]]
}

@test "check: each finding is a line, and a remedy is the line after it" {
  run "$nsbox" check
  for line in "${lines[@]::${#lines[@]}-1}"; do
    [[ $line =~ ^(ok|warning|failed)\ +[a-z] || $line =~ ^(ok|warning|failed)\ +TIOCSTI || $line =~ ^\ {20,}-\>\ . ]]
  done
}

@test "check --json: the same findings as an array of name, ok, text and remedy" {
  run --separate-stderr "$nsbox" check --json
  [ "$status" = 0 ]
  jq -e 'all(.[]; (keys == ["name", "ok", "remedy", "text"]) and (.ok | . == true or . == false or . == "warning")
    and (.text | type == "string") and (.remedy | type == "string" or . == null))' <<<"$output"
  jq -e 'any(.[]; .name == "run" and .ok == true)' <<<"$output"
  json=$(jq -r '.[].name' <<<"$output")
  run "$nsbox" check
  text=$(sed -n -E 's/^(ok|warning|failed) +(.{17}) .*/\2/p' <<<"$output" | sed 's/ *$//')
  [ "$json" = "$text" ]
}

@test "check: user namespaces forbidden by user.max_user_namespaces" {
  run on_a_host "" "echo 0 >/proc/sys/user/max_user_namespaces; $nsbox check"
  [ "$status" = 125 ]
  [ "${lines[-1]}" = "nsbox cannot run here: see what failed." ]
  [[ $(line_of namespaces) = failed*"the sysctl user.max_user_namespaces is 0, which forbids user namespaces"*"-> "* ]]
  [ -z "$(line_of run)" ]
  run on_a_host "" "echo 0 >/proc/sys/user/max_user_namespaces; $nsbox check --json"
  [ "$status" = 125 ]
  jq -e 'any(.[]; .name == "namespaces" and .ok == false and .remedy != null)' <<<"$output"
}

@test "check: each other kind of namespace forbidden" {
  for kind in mnt pid net ipc uts cgroup; do
    run on_a_host "" "echo 0 >/proc/sys/user/max_${kind}_namespaces; $nsbox check"
    [ "$status" = 125 ]
    [[ $(line_of namespaces) = failed*"user.max_${kind}_namespaces is 0"* ]]
  done
}

@test "run: says the same as check where namespaces are forbidden" {
  run on_a_host "" "echo 0 >/proc/sys/user/max_net_namespaces; exec $nsbox run true"
  [ "$status" = 125 ]
  [[ $output = *"the sysctl user.max_net_namespaces is 0, which forbids network namespaces"* ]]
}

@test "check: a masked /proc, as in a container" {
  run on_a_host "--mount --pid --fork --mount-proc" "mount -t tmpfs none /proc/tty; $nsbox check"
  [ "$status" = 125 ]
  [[ $(line_of proc) = failed*"/proc/tty is mounted over"*"-> "*"umount /proc/tty"*"systempaths=unconfined"* ]]
  [[ $(line_of namespaces) = ok* ]]
  run on_a_host "--mount --pid --fork --mount-proc" "mount -t tmpfs none /proc/tty; exec $nsbox run true"
  [ "$status" = 125 ]
  [[ $output = *"/proc/tty is mounted over"* ]]
}

@test "check: no /sys/fs/cgroup is a warning" {
  run on_a_host "--mount" "mount -t tmpfs none /sys; $nsbox check"
  [ "$status" = 0 ]
  [[ $(line_of cgroup) = warning*"tier 2"*"-> "*"mount -t cgroup2"* ]]
}

# In an otherwise empty root only a static program starts.
needs_static() {
  ! readelf -lW "$nsbox" | grep -q INTERP || skip "nsbox is linked dynamically"
}

@test "check: a chroot, in which the kernel allows no user namespaces" {
  needs_static
  mkdir -p "$place"/root/{proc,dev,tmp}
  cp "$nsbox" "$place/root/"
  run on_a_host "--mount" "mount --rbind /proc $place/root/proc; chroot $place/root /nsbox check"
  [ "$status" = 125 ]
  [[ $(line_of namespaces) = failed*"nsbox runs in a chroot"*"-> "* ]]
}

@test "check: inside of a sandbox, whose filter refuses another" {
  needs_static
  run "$nsbox" run -u 1000 --ro-bind "$nsbox:/opt/nsbox" -- /opt/nsbox check
  [ "$status" = 125 ]
  [[ $(line_of namespaces) = failed*"a seccomp filter that nsbox runs under"*"-> "* ]]
}

@test "check --rootfs: examines that directory" {
  mkdir -p "$place/tree/bin"
  run "$nsbox" check --rootfs "$place/tree"
  [ "$status" = 0 ]
  [[ $(line_of run) = ok*"$place/tree"* ]]
  if [ "$(id -u)" = 0 ]; then
    [[ $(line_of "idmapped mounts") = *"$place/tree"* ]]
  fi
  [ -z "$(find "$place/tree" -mindepth 1 ! -path "$place/tree/bin")" ]
}

@test "check --rootfs: a file system that cannot be idmapped is a warning with its type" {
  [ "$(id -u)" = 0 ] || skip "only root has idmapped mounts"
  run "$nsbox" check --rootfs /proc/tty
  [[ $(line_of "idmapped mounts") = warning*"proc, on which /proc/tty is, cannot be idmapped"*"-> "* ]]
}

# Of the JSON report in $output: the finding $1.
finding() {
  jq -c --arg name "$1" '.[] | select(.name == $name)' <<<"$output"
}

@test "check --inside: in a sandbox nothing is possible that must not be, as root and as an ordinary user" {
  needs_static
  for as in "" ordinary; do
    run $as "$nsbox" check --inside
    [ "$status" = 0 ]
    [ "${lines[-1]}" = "Nothing was found possible that must not be in a sandbox." ]
    for line in "${lines[@]::${#lines[@]}-1}"; do
      [[ $line =~ ^(ok|-)\ +[a-z] ]]
    done
    for name in user capabilities no_new_privs seccomp namespaces "system calls" sockets mounts devices proc sysctls sys processes; do
      grep -qE "^ok +$name " <<<"$output"
    done
  done
}

@test "check --inside --json: name, ok, text and details, with what was tried" {
  needs_static
  run --separate-stderr "$nsbox" check --inside --json
  [ "$status" = 0 ]
  jq -e 'all(.[]; (keys == ["details", "name", "ok", "text"]) and (.ok | . == true or . == null) and (.details | type == "object"))' <<<"$output"
  [ "$(finding namespaces | jq -c .details.shared)" = '["time"]' ]
  finding "system calls" | jq -e '.details | .forbidden == [] and (.answers | (.allowed | contains(["read", "openat", "mmap"])) and
    (.EPERM | contains(["mount", "setns", "bpf"])) and (.ENOSYS | length > 0))'
  finding sockets | jq -e '.details.allowed | contains(["unix", "inet"]) and (contains(["packet"]) | not)'
  finding sysctls | jq -e '.details.writable == []'
  finding writable | jq -e '.details.places | contains(["/tmp", "/workspace"]) and (contains(["/usr"]) | not)'
  finding processes | jq -e '.details.names | length == 2'
  finding network | jq -e '.details.interfaces == ["lo"]'
  finding capabilities | jq -e '.details | length == 5 and all(.[]; test("^0+$"))'
  finding limits | jq -e '.details | .core == 0 and .open_files == 1024'
  finding user | jq -e '.details | .uid == 0 and (.uid_map | test("^ *0 +[1-9][0-9]* +(1|65536)$"))'
}

@test "check --inside: the options of nsbox run after --" {
  needs_static
  run "$nsbox" check --inside --json -- --read-only -u 1000:100 --pids-limit 77
  [ "$status" = 0 ]
  finding user | jq -e '.details | .uid == 1000 and .gid == 100'
  finding writable | jq -e '.details.places | any(. == "/tmp") and all(. != "/")'
  run "$nsbox" check --inside --json -- --network host
  [ "$status" = 0 ]
  [ "$(finding namespaces | jq -c '[.ok, .details.shared]')" = '[true,["net","time"]]' ]
  run "$nsbox" check --inside --json -- --seccomp strict
  [ "$status" = 0 ]
  finding sockets | jq -e '.details.allowed == []'
}

@test "check --inside: what must not be possible is status 1" {
  needs_static
  run ordinary "$nsbox" check --inside -- --seccomp unconfined
  [ "$status" = 1 ]
  grep -qE "^failed +seccomp +no filter" <<<"$output"
  grep -qE "^failed +system calls .*must not be: .*mount" <<<"$output"
  [[ ${lines[-1]} = *"of these must not be so in a sandbox"* ]]
}

@test "check --inside --rootfs: an empty tree will do" {
  needs_static
  mkdir "$place/tree"
  run "$nsbox" check --inside --rootfs "$place/tree"
  [ "$status" = 0 ]
  [ -z "$(ls -A "$place/tree")" ]
}

@test "check --here: outside of a sandbox much is possible" {
  run ordinary "$nsbox" check --here --json
  [ "$status" = 1 ]
  for name in no_new_privs seccomp processes; do
    finding $name | jq -e '.ok == false'
  done
  run ordinary setpriv --no-new-privs "$nsbox" check --here --json
  finding no_new_privs | jq -e '.ok == true'
}

@test "check --here: in a sandbox the same as --inside finds" {
  needs_static
  run "$nsbox" run --ro-bind "$nsbox:/opt/nsbox" -- /opt/nsbox check --here
  [ "$status" = 0 ]
  [ "${lines[-1]}" = "Nothing was found possible that must not be in a sandbox." ]
}

@test "check --here: leaves no queue, no file and no process" {
  run on_a_host "--ipc" "$nsbox check --here >/dev/null || true; cat /proc/sysvipc/msg /proc/sysvipc/sem /proc/sysvipc/shm | wc -l"
  [ "$output" = 3 ] # the headings
  [ -z "$(find /tmp /dev/shm -maxdepth 1 -name '.nsbox-check*')" ]
  [ "$(ls -A "$place")" = nsbox ]
  [ -z "$(pgrep -f "^$nsbox check")" ]
}

@test "check --inside, --here: what does not fit is one clear line and status 125" {
  for arguments in "--here --inside" "--here --rootfs /" "--here surplus" "--inside -- sh" "--inside -- --no-such" "--inside -- --lang c -c x"; do
    run "$nsbox" check $arguments
    [ "$status" = 125 ]
    [ -n "$output" ]
    [[ $output = "nsbox"*": "* ]]
  done
}

@test "check: bad arguments are one clear line and status 125" {
  for arguments in "--no-such" "--rootfs" "--rootfs $place/absent" "surplus"; do
    run "$nsbox" check $arguments
    [ "$status" = 125 ]
    [ "${#lines[@]}" = 1 ]
    [[ $output = "nsbox check: "* ]]
  done
}

@test "check --help: on standard output, status 0" {
  run --separate-stderr "$nsbox" check --help
  [ "$status" = 0 ]
  [[ $output = "Usage: nsbox check"* ]]
}

@test "check: output that cannot be written is an error" {
  run bash -c "'$nsbox' check >/dev/full"
  [ "$status" = 125 ]
}

@test "check: leaves no mount, no process and no file" {
  mounts=$(cat /proc/self/mountinfo)
  files=$(ls -A "$place")
  "$nsbox" check
  [ "$mounts" = "$(cat /proc/self/mountinfo)" ]
  [ "$files" = "$(ls -A "$place")" ]
  [ -z "$(pgrep -f "^$nsbox check")" ]
}
