#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The writable space of a session on disk: files are not memory, the limit holds, others keep their space, and nothing
# is left.

load helpers
load sessions

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime NSBOX_STORE=$place/store
  mkdir -m 700 runtime
}

inside() {
  observe timeout 60 "$nsbox" session exec "$id" -- "$@"
}

inside_json() {
  observe timeout 100 "$nsbox" session exec --json "$id" -- "$@"
  result=$output
}

nothing_left() {
  [ -z "$(ls -A store/sessions)" ]
}

# What is much goes on being removed after the session has ended, and a disk may have other work.
nothing_left_soon() {
  eventually nothing_left || eventually nothing_left || eventually nothing_left || eventually nothing_left
}

# Files of 2 MiB in /tmp, up to $1.
many_files() {
  echo "i=0; while [ \$i -lt $1 ]; do head -c 2097152 /dev/zero >/tmp/\$i || exit 1; i=\$((i+1)); done; echo done"
}

@test "on disk where that can be, and it is said where" {
  session
  [ "$(info .storage)" = disk ] || skip "$(info .storage_note)"
  [ "$(info .storage_note)" = null ]
  [ ! -s warnings ]
  inside sh -c 'echo here >/workspace/file; echo here >/tmp/file; echo here >~/file'
  space=store/sessions/$id/space
  [ "$(stat -c %a store/sessions "store/sessions/$id")" = $'700\n700' ]
  [ "$(cat "$space/workspace/file" "$space/tmp/file")" = $'here\nhere' ]
  # What is shared is memory, also then.
  inside stat -f -c %T /dev/shm
  [ "$output" = tmpfs ]
  "$nsbox" session stop "$id"
  nothing_left
  session --storage memory
  [ "$(info .storage)" = memory ]
  [ "$(info .storage_note)" = null ]
  [ "$(ls store/sessions)" = "$id.packages" ]
  run --separate-stderr "$nsbox" session new --storage paper
  [ "$status" = 125 ]
  [ "$stderr" = 'nsbox: --storage: "paper" is neither disk nor memory' ]
}

@test "in memory where it cannot be on disk: told to who asked" {
  NSBOX_STORE=/dev/shm/nsbox-test-$$ session --storage disk
  [ "$(info .storage)" = memory ]
  [ "$(info .storage_note)" = "/dev/shm/nsbox-test-$$ is in memory itself" ]
  grep -q "the writable space is in memory, not on disk: /dev/shm/nsbox-test-$$ is in memory itself" warnings
  inside sh -c 'echo works >file; cat file'
  [ "$output" = works ]
  NSBOX_STORE=/dev/shm/nsbox-test-$$ session
  [ "$(info .storage)" = memory ]
  ! grep "on disk" warnings || false
  rm -r /dev/shm/nsbox-test-$$
  XDG_DATA_HOME='' HOME='' NSBOX_STORE='' session
  [ "$(info .storage_note)" = "there is no place for images: neither NSBOX_STORE, XDG_DATA_HOME nor HOME is set" ]
}

@test "files are not memory" {
  disk_session --storage disk -m 64m --disk 1g
  inside_json sh -c 'head -c 500000000 /dev/zero >big; stat -c %s big'
  is .ended_by exited
  is .stdout 500000000
  holds '.limits_hit == []'
  holds '.usage.disk_used_bytes > 500000000'
  holds '.limits.disk.enforced_by == "watcher" and .limits.host_disk.value > 0'
}

@test "the limit: who writes is ended, who does not write is not" {
  disk_session --storage disk --disk 32m
  idle=$("$nsbox" session exec -d "$id" sh -c 'while :; do sleep 0.1; done')
  inside_json sh -c "$(many_files 1000)"
  is .ended_by disk
  [ "$status" = 137 ]
  is '.limits_hit[0].limit' disk
  is '.limits_hit[0].known_from' watcher
  [[ $(of .message) = "killed: writable space of 32 MiB is full ("*" used, known from watcher); raise it with --disk" ]]
  holds '.usage.disk_used_bytes < 600000000'
  [ "$("$nsbox" session ps --json "$id" | jq ".[] | select(.process == $idle) | .running")" = true ]
  # Reading and deleting go on, and so does writing then.
  inside sh -c 'ls /tmp | wc -l; head -c 10000000 /dev/zero >/workspace/more'
  [[ $output -gt 10 ]]
  [[ $stderr = *"File size limit exceeded"*"writable space of 32 MiB is full"* ]]
  observe "$nsbox" session cp "$load" "$id:copy"
  [ "$status" = 125 ]
  [[ $stderr = *"the writable space of 32 MiB is full: No space left on device"* ]]
  inside sh -c 'rm /tmp/* /workspace/*'
  [ "$status" = 0 ]
  inside sh -c 'head -c 10000000 /dev/zero >/workspace/more; stat -c %s more'
  [ "$output" = 10000000 ]
  [ -z "$stderr" ]
  "$nsbox" session cp "$load" "$id:copy"
  [ "$("$nsbox" session ps --json "$id" | jq ".[] | select(.process == $idle) | .running")" = true ]
}

@test "the limit: one file, which the kernel stops" {
  disk_session --storage disk --disk 16m
  inside_json python3 -c 'open("big", "wb").write(bytes(100 << 20))'
  holds '.limits_hit[0].limit == "disk"'
  inside stat -c %s big
  [ "$output" = 16777216 ]
}

@test "the limit: what is hidden counts, too" {
  disk_session --storage disk --disk 32m
  # In a directory that is closed to its owner.
  inside_json sh -c "mkdir /tmp/a; cd /tmp/a; chmod 0 /tmp/a; i=0; while [ \$i -lt 1000 ]; do head -c 2097152 /dev/zero >\$i; i=\$((i+1)); done"
  [ "$(of .ended_by)" = disk ] || [ "$(of '.usage.disk_used_bytes < 30000000')" = true ]
  inside sh -c 'chmod 755 /tmp/a; rm -r /tmp/a'
  # Without a name.
  inside_json python3 -c '
files = []
for i in range(500):
    files.append(open("gone", "wb"))
    import os
    os.unlink("gone")
    files[-1].write(bytes(2 << 20))
    files[-1].flush()'
  is .ended_by disk
  # With several names it counts once.
  inside_json sh -c 'head -c 20000000 /dev/zero >one; for i in 1 2 3 4 5 6 7; do ln one name$i; done'
  is .ended_by exited
  holds '.limits_hit == []'
  holds '.usage.disk_used_bytes > 20000000 and .usage.disk_used_bytes < 30000000'
}

@test "the limit: names" {
  disk_session --storage disk --disk 4m
  inside_json python3 -c 'for i in range(500000): open("/tmp/%d" % i, "w").close()'
  is '.limits_hit[0].limit' inodes
  [ "$(of .ended_by)" = disk ] || is .ended_by exited
}

@test "the limit: nothing is reserved in advance" {
  disk_session --storage disk --disk 32m
  inside python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
f = os.open("file", os.O_RDWR | os.O_CREAT)
os.write(f, bytes(8192))
for mode in (0, 1, 16, 2 | 1):
    r = libc.fallocate(f, mode, ctypes.c_long(0), ctypes.c_long(4096))
    print(mode, r, os.strerror(ctypes.get_errno()) if r else "")
os.posix_fallocate(f, 0, 100000)
print(os.fstat(f).st_size)'
  [ "$output" = $'0 -1 Operation not supported\n1 -1 Operation not supported\n16 -1 Operation not supported\n3 0 \n100000' ]
}

@test "nothing is left: deep, closed, many" {
  disk_session --storage disk
  inside sh -c 'mkdir -p a/b; echo x >a/b/c; chmod 0 a/b a; mkfifo fifo; ln -s /etc link'
  inside python3 -c '
import os
for i in range(1200):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").close()'
  [ "$status" = 0 ]
  "$nsbox" session stop "$id"
  nothing_left_soon
  session --disk 1g
  inside python3 -c '
for i in range(60000): open("/tmp/%d" % i, "w").close()'
  "$nsbox" session stop "$id"
  nothing_left_soon
}

@test "nothing is left: whatever is killed, at any moment" {
  disk_session --storage disk
  # The supervisors are forks of who made them: they are killed as well.
  for moment in 0 1 2 3 5 8 13 20 40 80; do
    "$nsbox" session new --storage disk >/dev/null 2>&1 &
    maker=$!
    sleep "$(printf '0.%03d' "$moment")"
    pkill -9 -f "^[^ ]*$nsbox session new" || true
    wait "$maker" || true
    # One that was not executed yet then has made a session.
    pkill -9 -f "^[^ ]*$nsbox session new" || true
  done
  # What is dying has its folder still.
  eventually not_running
  session
  inside sh -c 'head -c 3000000 /dev/zero >file'
  only_ours() { [ "$(ls store/sessions)" = "$id"$'\n'"$id.packages" ]; }
  eventually only_ours
  kill -9 "$(info .supervisor)"
  eventually not_running
  session
  eventually only_ours
  # Two at once do not take each other's.
  first=$id
  for _ in 1 2 3 4; do
    "$nsbox" session new --storage disk >>made 2>/dev/null &
  done
  wait
  left_all() { [ "$(ls store/sessions | sort)" = "$(sort made <(echo "$first") <(sed 's/$/.packages/' made <(echo "$first")))" ]; }
  eventually left_all
  while read -r id; do
    inside sh -c 'echo works >file; cat file'
    [ "$output" = works ]
  done <made
}

@test "the limit: many writers at a time, and one that does not write" {
  disk_session --storage disk --disk 64m --pids-limit 100
  idle=$("$nsbox" session exec -d "$id" sh -c 'while :; do sleep 0.1; done')
  for writer in 1 2 3 4 5 6 7 8; do
    "$nsbox" session exec -d "$id" sh -c "i=0; while :; do head -c 1048576 /dev/zero >/tmp/$writer-\$i; i=\$((i+1)); done" >/dev/null
  done
  only_idle() { [ "$("$nsbox" session ps --json "$id" | jq -c '[.[] | select(.running) | .process]')" = "[$idle]" ]; }
  eventually only_idle
  run jq -c '[.[] | select(.ended_by) | .ended_by] | unique' <<<"$("$nsbox" session ps --json "$id")"
  [ "$output" = '["disk"]' ]
  inside_json true
  holds '.usage.disk_used_bytes > 64000000 and .usage.disk_used_bytes < 1000000000'
}

@test "what is bound is the host's, also on the same disk: nothing is made in it" {
  mkdir bound
  disk_session --storage disk --bind "$place/bound:/bound" --bind "$place/bound:/made/on/the/way"
  inside sh -c 'echo x >/bound/file; cat /made/on/the/way/file'
  [ "$output" = x ]
  [ "$(stat -c %u bound/file)" = "$(id -u)" ]
  run --separate-stderr "$nsbox" session new --storage disk --bind "$place/bound:/bound" --tmpfs /bound/deep
  [ "$status" = 125 ]
  [[ $stderr = *"/bound/deep does not exist, and the directory that it would be in is not the sandbox's own, so it is not made"* ]]
  [ "$(ls bound)" = file ]
  [ "$(ls store/sessions)" = "$id"$'\n'"$id.packages" ]
}

@test "a read-only root on disk: what is to be written can be" {
  disk_session --storage disk --read-only -u 1000:1000
  inside sh -c 'echo x >/workspace/a; echo x >/tmp/b; mv /tmp/b ~/c; cat ~/c; echo x >/etc/d'
  [ "$output" = x ]
  [[ $stderr = *"/etc/d"*"Read-only file system"* ]]
}

@test "nothing is left: of killed ones, after nsbox images prune" {
  command -v nsbox-image >/dev/null || [ -x "$(dirname "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")")/nsbox-image" ] || skip "without nsbox-image"
  programs=$(dirname "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")")
  disk_session --storage disk
  killed=$(info .supervisor)
  disk_session --storage disk
  kill -9 "$killed"
  gone() { ! "$programs/nsbox" session ls --json | grep -q "\"supervisor\": $killed,"; }
  eventually gone
  run "$programs/nsbox" images prune
  [ "${lines[1]}" = "removed the files of 1 session that does not live any more" ]
  [ "$(ls store/sessions)" = "$id"$'\n'"$id.packages" ]
  inside sh -c 'echo works >file; cat file'
  [ "$output" = works ]
}

# A disk of 200 MiB on $place/disk, in a mount namespace of its own, in which what follows is run.
on_a_small_disk() {
  [ "$(id -u)" = 0 ] || skip "a loop device needs root"
  command -v mkfs.ext4 >/dev/null || skip "there is no mkfs.ext4"
  truncate -s 200M image
  mkfs.ext4 -q image
  mkdir disk
  cat >inner <<END
set -e
mount -o loop "$place/image" "$place/disk" || exit 77
export NSBOX_STORE="$place/disk/store"
$1
END
  run --separate-stderr unshare -m bash inner
  [ "$status" != 77 ] || skip "there is no loop device"
}

@test "the host's disk: others keep their part of it" {
  on_a_small_disk "
id=\$('$nsbox' session new ${NSBOX_TEST_OPTIONS:-} --disk 10g)
'$nsbox' session exec -d \$id sh -c 'while :; do sleep 0.1; done' >/dev/null
'$nsbox' session exec --json \$id sh -c '$(many_files 1000)' >result || true
'$nsbox' session ls --json | jq -r '.[].storage'
'$nsbox' session ps --json \$id | jq -c '[.[] | .running]'
other=\$('$nsbox' session new ${NSBOX_TEST_OPTIONS:-})
'$nsbox' session ls --json | jq -r \".[] | select(.id == \\\"\$other\\\") | .storage_note\"
'$nsbox' session exec \$id sh -c 'head -c 20000000 /dev/zero >/tmp/more' 2>&1 || true
'$nsbox' session exec \$id sh -c 'rm /tmp/*'
'$nsbox' session exec \$id sh -c 'head -c 10000000 /dev/zero >/tmp/more; stat -c %s /tmp/more'
'$nsbox' session stop --all
ls -A '$place/disk/store/sessions'
"
  result=$(cat result)
  is .ended_by disk
  is '.limits_hit[0].limit' host_disk
  [[ $(of .message) = "killed: the host's disk has "*" free, less than the "*" that are left for others (known from statfs); free some there, or choose another disk with NSBOX_STORE" ]]
  [ "${lines[0]}" = disk ]
  [ "${lines[1]}" = '[true,false]' ] || [ "${lines[1]}" = '[true]' ]
  [ "${lines[2]}" = "the disk of $place/disk/store has less free than has to stay free for others" ]
  [[ $output = *"the host's disk has "* ]]
  [ "${lines[-1]}" = 10000000 ]
}
