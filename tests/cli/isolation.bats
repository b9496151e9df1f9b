#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the kernel says of a command in the sandbox, as seen from the host: what the sandbox itself says can be
# a lie of the same hand.

load helpers

# Starts a sleeping command in the sandbox: sets $pid to its process on the host, $runner to nsbox's.
start_inside() {
  seconds=$(mark)
  "$nsbox" run --timeout none "$@" -- sleep "$seconds" </dev/null >"$place/started" 2>&1 &
  runner=$!
  eventually inner_pid "sleep $seconds"
  pid=$(inner_pid "sleep $seconds")
}

teardown() {
  [ -z "${runner:-}" ] || kill -KILL "$runner" 2>/dev/null || true
}

status_of() {
  sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status"
}

each_way() { # runs a test's body for the ways that a sandbox can be made
  mkdir -p "$place/tree"
  cp -L /bin/busybox "$place/tree/sleep" 2>/dev/null || true
  for options in "" "-u 1000:1000" "--network host" "--seccomp unconfined" "--read-only"; do
    start_inside $options
    "$1"
    kill -TERM "$runner"
    wait "$runner" || true
    runner=
  done
}

no_capabilities() {
  for set in CapInh CapPrm CapEff CapBnd CapAmb; do
    [ "$(status_of $set)" = 0000000000000000 ]
  done
  [ "$(status_of NoNewPrivs)" = 1 ]
}

@test "no capability in any set, and none can be gained" {
  each_way no_capabilities
}

@test "a filter of system calls, on the agent too" {
  start_inside
  [ "$(status_of Seccomp)" = 2 ]
  pid=$(status_of PPid)
  [ "$(status_of Seccomp)" = 2 ]
  [ "$(status_of NoNewPrivs)" = 1 ]
  for set in CapInh CapPrm CapEff CapBnd CapAmb; do
    [ "$(status_of $set)" = 0000000000000000 ]
  done
}

landlock_abi() {
  "$nsbox" check | sed -n 's/^ok *landlock *ABI \([0-9]*\):.*/\1/p'
}

@test "Landlock is applied wherever the kernel has it, and the result says so" {
  abi=$(landlock_abi)
  [ "$("$nsbox" run --json true | jq -c .sandbox.landlock)" = "${abi:-null}" ]
  [ -n "$abi" ] || skip "this kernel has no Landlock that can be used"
  # Landlock says EACCES before the kernel looks at capabilities and says EPERM.
  for options in "" "-u 1000" "--read-only" "--network host" "--seccomp unconfined"; do
    run "$nsbox" run $options -- python3 -c '
import os, stat
try:
    os.mknod("/tmp/null", stat.S_IFCHR, os.makedev(1, 3))
except PermissionError as error:
    print(error.errno)'
    [ "$output" = 13 ]
  done
}

@test "Landlock leaves alone what a sandbox is for" {
  echo text >"$place/in"
  for options in "" "--read-only" "-u 1000" "--bind $place:/bound"; do
    run "$nsbox" run $options -- sh -ec 'cd /workspace; mkdir a b; echo x >a/x; mv a/x b/; ln b/x a/y; rm -r b; : >a/y; mkfifo a/f
      echo new >/dev/null; echo 700 >/proc/self/oom_score_adj; : >/dev/shm/x; : >/tmp/x; : >~/x; cat /dev/stdin; echo err >/dev/stderr' <"$place/in"
    [ "$status" = 0 ]
    [ "$output" = $'text\nerr' ]
  done
}

safe_ids() {
  read -r -a uids <<<"$(status_of Uid)"
  read -r -a gids <<<"$(status_of Gid)"
  if am_root; then
    for id in "${uids[@]}" "${gids[@]}"; do
      ((id > 65535))
    done
    [ -z "$(status_of Groups | tr -d ' ')" ]
  else
    [ "$(xargs -n 1 <<<"${uids[*]}" | sort -u)" = "$(id -u)" ]
    [ "$(xargs -n 1 <<<"${gids[*]}" | sort -u)" = "$(id -g)" ]
  fi
}

@test "ids: never the host's root, and no groups of root's; an ordinary user's own" {
  each_way safe_ids
}

@test "ids: a group of root's opens nothing inside" {
  am_root || skip "only root has such groups"
  mkdir shared
  echo secret >shared/file
  chown 0:4 shared/file
  chmod 640 shared/file
  observe setpriv --groups 0,4,6 "$nsbox" run --ro-bind "$place/shared:/data" -u 1000 -- sh -c 'id -G; cat /data/file'
  [ "$(wc -w <<<"${lines[0]}")" = 1 ]
}

@test "two sandboxes of root's share no id" {
  am_root || skip "an ordinary user has one id"
  start_inside
  first=$(status_of Uid | cut -f1)
  one=$runner
  start_inside
  second=$(status_of Uid | cut -f1)
  kill -KILL "$one"
  [ "$first" != "$second" ]
  ((first / 65536 != second / 65536))
}

@test "seven namespaces of its own" {
  start_inside
  for kind in user mnt pid net ipc uts cgroup; do
    inside=$(readlink "/proc/$pid/ns/$kind")
    [ -n "$inside" ]
    [ "$inside" != "$(readlink "/proc/$$/ns/$kind")" ]
    [ "$inside" != "$(readlink "/proc/$runner/ns/$kind")" ]
  done
}

@test "network host: all but the network's" {
  start_inside --network host
  [ "$(readlink "/proc/$pid/ns/net")" = "$(readlink /proc/$$/ns/net)" ]
  for kind in user mnt pid ipc uts cgroup; do
    [ "$(readlink "/proc/$pid/ns/$kind")" != "$(readlink "/proc/$$/ns/$kind")" ]
  done
}

# Mount point, options, type, root in its file system.
mounts_of() {
  awk '{ for (i = 7; $i != "-"; i++); print $5, $6, $(i + 1), $4 }' "/proc/$pid/mountinfo"
}

@test "mounts: only those of the host root, those of the host's read-only, none with devices or set-user-id" {
  start_inside
  mounts_of >mounts
  cat mounts
  # What is there at all.
  ! grep -v -E '^/(usr|bin|sbin|lib[a-z0-9]*|etc/[^ ]+|proc(/[^ ]+)?|dev/[^ ]+|)( |$)' mounts || false
  # A file system of the host's is read-only, but for device nodes.
  while read -r point options type root; do
    case $type in
    tmpfs | proc | devpts | mqueue) [[ $point != /usr* ]] ;;
    devtmpfs) [[ $point = /dev/* || $options = ro,* ]] ;;
    *) [[ $options = ro,* || $point = /dev/* ]] ;;
    esac
    [[ $options = *nosuid* ]]
    [[ $options = *nodev* || $point = /dev/* ]]
  done <mounts
  grep -q '^/proc/sys ro,' mounts
  # Every tmpfs has a size and a number of files.
  ! awk '{ for (i = 7; $i != "-"; i++); if ($(i + 1) == "tmpfs") print $NF }' "/proc/$pid/mountinfo" | grep -v 'size=.*nr_inodes=' || false
}

@test "mounts: of a rootfs, only the tree and ours" {
  mkdir -p tree
  cp "$load" tree/load
  "$nsbox" run --timeout none --rootfs "$place/tree" -- /load stubborn </dev/null >started 2>&1 &
  runner=$!
  eventually inner_pid "/load stubborn"
  pid=$(inner_pid "/load stubborn")
  mounts_of >mounts
  cat mounts
  ! grep -v -E '^/((proc|dev)(/[^ ]+)?|tmp|workspace|etc/[^ ]+|) ' mounts || false
  while read -r point options type root; do
    [[ $type = overlay || $type = tmpfs || $type = proc || $type = devpts || $point = /dev/* || $options = ro,* ]]
    [[ $options = *nosuid* ]]
  done <mounts
}

@test "mounts: none is propagated from or to the host" {
  start_inside
  ! awk '{ for (i = 7; $i != "-"; i++) print $i }' "/proc/$pid/mountinfo" | grep -E 'shared|master' || false
}

@test "root and current folder are inside" {
  start_inside
  [ "$(stat -L -c %d:%i "/proc/$pid/root/")" != "$(stat -c %d:%i /)" ]
  [ "$(readlink "/proc/$pid/cwd")" = /workspace ]
  [ "$(stat -L -c %d "/proc/$pid/cwd")" = "$(stat -L -c %d "/proc/$pid/root/")" ]
}

@test "descriptors: three, as the host sees them" {
  exec 8<"$BATS_TEST_FILENAME"
  start_inside
  exec 8<&-
  [ "$(ls "/proc/$pid/fd" | xargs)" = "0 1 2" ]
}

@test "environment: only what was given, as the host sees it" {
  export CALLERS=secret
  start_inside -e GIVEN=1
  [ "$(tr '\0' '\n' <"/proc/$pid/environ" | cut -d= -f1 | sort | xargs)" = "GIVEN HOME LANG PATH USER" ]
}

@test "the agent: pid 1, with nothing of the caller's in its command line and environment" {
  export CALLERS=secret
  start_inside -e GIVEN=secret
  agent=$(status_of PPid)
  [ "$(awk '/^NSpid:/ { print $NF }' "/proc/$agent/status")" = 1 ]
  [ -z "$(tr -d '\0' <"/proc/$agent/cmdline")" ]
  if am_root; then
    [ -z "$(tr -d '\0' <"/proc/$agent/environ")" ]
  else
    ! cat "/proc/$agent/environ" 2>/dev/null || false
  fi
}

@test "process group and session are the sandbox's own" {
  start_inside
  own=$(ps -o sid= -p "$pid" | xargs)
  [ "$own" != "$(ps -o sid= -p $$ | xargs)" ]
  [ "$(ps -o pgid= -p "$pid" | xargs)" != "$(ps -o pgid= -p "$runner" | xargs)" ]
}

@test "the out-of-memory killer of the host prefers the sandbox" {
  start_inside
  (($(cat "/proc/$pid/oom_score_adj") >= 500))
}

@test "the caller's keyring is not the command's" {
  start_inside
  command -v keyctl >/dev/null || skip "no keyctl"
  box -- grep -c . /proc/keys
  [ "$output" = 0 ]
}

# Runs a shell's line as root of a container with ids 0 to 2299 and a /run of its own; $5 is nsbox.
in_container() {
  cat >"$place/container.py" <<'END'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
made, mapped = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.dup2(os.open(sys.argv[1], os.O_RDONLY), 5)
    if libc.unshare(0x10000000 | 0x20000) != 0: # CLONE_NEWUSER, CLONE_NEWNS
        os._exit(99)
    os.write(made[1], b"x")
    os.read(mapped[0], 1)
    os.setgroups([]); os.setgid(0); os.setuid(0)
    os.execvp("bash", ["bash", "-c", "mount --make-rprivate / && mount -t tmpfs none /run && " + sys.argv[2]])
os.read(made[0], 1)
for kind in "uid", "gid":
    with open(f"/proc/{child}/{kind}_map", "w") as f:
        f.write("0 100000 2300")
os.write(mapped[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
END
  python3 "$place/container.py" "$nsbox" "$1"
}

@test "ids: in a container with few, each sandbox has one of its own, or there is none" {
  am_root || skip "only root can make such a container"
  command -v python3 >/dev/null || skip "no python3"
  observe in_container '/proc/self/fd/5 run --json -- true'
  [ "$status" = 0 ]
  result=$output
  is .sandbox.id_range false
  holds '.sandbox.host_uid > 1700 and .sandbox.host_uid < 2300 and (.warnings | length) > 0'

  LOCKS=$(cat <<'END'
import fcntl, json, os, struct, subprocess, sys
run = ["/proc/self/fd/5", "run", "--json", "--", "sh", "-c", "cat"]
def start():
    return subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[5])
def end(child):
    out, _ = child.communicate(b"", 60)
    return json.loads(out)
end(start())
ids = os.open("/run/nsbox/ids", os.O_RDWR)
def lock(kind, begin, length):
    fcntl.fcntl(ids, 37, struct.pack("hhqqi4x", kind, 0, begin, length, 0)) # F_OFD_SETLK
lock(fcntl.F_WRLCK, 0, 498)
first, second = start(), start()
import time
def taken(slot):
    seen = fcntl.fcntl(ids, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, slot, 1, 0)) # F_OFD_GETLK
    return struct.unpack("hhqqi4x", seen)[0] != fcntl.F_UNLCK
end_of_patience = time.monotonic() + 50
while not (taken(498) and taken(499)) and time.monotonic() < end_of_patience:
    time.sleep(0.05)
third = end(start())
seen = [end(child)["sandbox"]["host_uid"] for child in (first, second)]
print(len(set(seen)), third["ended_by"], third["error"]["text"])
lock(fcntl.F_UNLCK, 0, 498)
print(end(start())["ended_by"])
END
  )
  export LOCKS
  observe in_container 'exec python3 -c "$LOCKS"'
  [ "${lines[0]}" = "2 setup all ids for sandboxes are taken: 500 run already, which is as many as can" ]
  [ "${lines[1]}" = exited ]
}
