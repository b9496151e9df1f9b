#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where something can be mounted, and what of the host a mount may change: nothing.

load helpers

refused() { # a word that the line must have, then the options
  local word=$1
  shift
  box "$@" -- sh -c 'echo RAN'
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: "*"$word"* ]]
  [ "$(wc -l <<<"$stderr")" -le 2 ]
}

@test "mount points are made in the sandbox's own space, never on the host" {
  mkdir -p shared/there
  echo data >file
  before=$(find shared | sort)
  for options in "--tmpfs /d/new" "--tmpfs /d/there/deep/new" "--ro-bind $place/file:/d/new" \
    "--ro-bind $place/shared:/d/new" "--bind $place/shared:/d/there/a/b"; do
    refused "does not exist" --bind "$place/shared:/d" $options
    refused "does not exist" --ro-bind "$place/shared:/d" $options
    [ "$(find shared | sort)" = "$before" ]
  done
  box --bind "$place/shared:/d" --tmpfs /d/there -- sh -c 'touch /d/there/x'
  [ "$status" = 0 ]
  box --tmpfs /d --tmpfs /d/a/b --ro-bind "$place/file:/d/a/b/c" -- cat /d/a/b/c
  [ "$output" = data ]
  [ "$(find shared | sort)" = "$before" ]
}

@test "mount points below the host's programs are not made" {
  [ ! -e /usr/nsbox-test ]
  refused /usr/nsbox-test --tmpfs /usr/nsbox-test
}

@test "what the sandbox needs cannot be covered" {
  for target in / /./ /dev /dev/ //dev/. /dev/null /dev/pts /dev/pts/0 /dev/stdin /dev/fd/0 /proc /proc/self /proc/sys/kernel; do
    refused "\"$target\"" --tmpfs "$target"
    refused "\"$target\"" --ro-bind "$place:$target"
  done
}

@test "nor by a link in the root" {
  mkdir tree
  cp "$load" tree/load
  for target in / /dev /proc /proc/self; do
    ln -sfn "$target" tree/link
    refused /link --rootfs "$place/tree" --tmpfs /link
    refused /link --rootfs "$place/tree" --ro-bind "$place:/link"
  done
}

@test "below /dev there is room for other names" {
  echo data >file
  loaded --tmpfs /dev/shm:2m --ro-bind "$place/file:/dev/data" -- /load write /dev/shm/file 8
  [ "$output" = ENOSPC ]
  box --tmpfs /dev/mine --ro-bind "$place/file:/dev/data" -- sh -c 'cat /dev/data && touch /dev/mine/x && : </dev/null'
  [ "$output" = data ]
  [ "$status" = 0 ]
}

@test "read-only, with the directory above the home covered" {
  box --read-only -u 1000 --tmpfs /home -- sh -c 'touch /home/x && touch /tmp/x && ! touch /x'
  [ "$status" = 0 ]
}

@test "writable binds: no set-user-ID or set-group-ID file can be made" {
  command -v python3 >/dev/null || skip "no python3"
  mkdir -m 777 shared
  cat >try.py <<'END'
import ctypes, os, platform, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]

def attempt(what, call):
    try:
        call()
        print(what, "done")
    except OSError as e:
        print(what, e.strerror)

for bit in 0o4755, 0o2755:
    name = folder + "/f%o" % bit
    open(name, "w").close()
    attempt("chmod %o" % bit, lambda: os.chmod(name, bit))
    with open(name) as f:
        attempt("fchmod %o" % bit, lambda: os.fchmod(f.fileno(), bit))
    attempt("open %o" % bit, lambda: os.close(os.open(name + "o", os.O_CREAT | os.O_WRONLY, bit)))
    attempt("tmpfile %o" % bit, lambda: os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, bit)))
    attempt("mknod %o" % bit, lambda: os.mknod(name + "n", bit | stat.S_IFREG))
    how = (ctypes.c_ulonglong * 3)(os.O_CREAT | os.O_WRONLY, bit, 0)
    def openat2():
        if libc.syscall(437, -100, (name + "2").encode(), how, 24) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    attempt("openat2 %o" % bit, openat2)
END
  for filter in default unconfined; do
    rm -rf shared/*
    box --seccomp "$filter" --bind "$place/shared:/d" --ro-bind "$place/try.py:/try.py" -- python3 /try.py /d
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 12 ]
    ! grep done <<<"$output" || false
    [ -z "$(find shared -perm /6000)" ]
    box --seccomp "$filter" --bind "$place/shared:/d" -- sh -c 'touch /d/x && chmod 755 /d/x'
    [ "$status" = 0 ]
  done
  box --ro-bind "$place/try.py:/try.py" -- python3 /try.py /tmp
  [[ $output = *"chmod 4755 done"* ]]
}
