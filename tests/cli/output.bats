#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --output: what a run leaves in its working directory, copied.

load helpers

left() { # what is in the directory `out`, as lines of type, mode, size and name
  (cd out && find . -mindepth 1 -printf '%y %m %s %p\n' | sed 's/^d \([0-7]*\) [0-9]*/d \1 -/' | sort -k4)
}

refused() { # words that the first line must have, then the options
  local words=$1
  shift
  box "$@" -- sh -c 'echo RAN'
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: --output: "*"$words"* || $stderr = "nsbox: "*"$words"* ]]
  [ "$(wc -l <<<"$stderr")" -le 2 ]
}

has_python() {
  command -v python3 >/dev/null || skip "no python3"
}

@test "output: files, directories and links arrive as they are, and are the caller's" {
  umask 022
  box --output out -u 1000 -- sh -c 'umask 0; mkdir -p a/b empty; printf hello >a/b/c; chmod 4751 a/b/c; chmod 555 empty
    printf x >closed; chmod 0 closed; ln -s b/c a/link; ln -s ../a/b/../b a/odd 2>/dev/null; ln -s a/link again; ln -s nowhere dangling; echo told'
  [ "$status" = 0 ]
  [ "$output" = told ]
  if am_root; then
    [[ $(left) = *"f 400 1 ./closed"* ]]
    [ "$stderr" = 'nsbox: warning: --output: left out "a/odd" (a symbolic link that may lead outside)' ]
  else
    [ "$stderr" = 'nsbox: warning: --output: left out "a/odd" (a symbolic link that may lead outside), "closed" (Permission denied)' ]
  fi
  [ "$(left | grep -v closed)" = 'd 755 - ./a
d 755 - ./a/b
f 751 5 ./a/b/c
l 777 3 ./a/link
l 777 6 ./again
l 777 7 ./dangling
d 755 - ./empty' ]
  [ "$(cat out/again)" = hello ]
  [ -z "$(find out ! -user "$(id -u)")" ]
  [ -z "$(find out ! -group "$(id -g)")" ]
}

@test "output: the directory may be there already, empty, and is made with no other" {
  mkdir -m 700 out
  box --output out -- touch f
  [ "$status" = 0 ]
  [ -e out/f ]
  [ "$(stat -c %a out)" = 700 ]
  box --output new -- true
  [ "$status" = 0 ]
  [ -d new ]
  [ -z "$(ls -A new)" ]
  box --output never -- /nowhere
  [ "$status" = 127 ]
  box --output never2 --bind "$place/missing:/x" -- true
  [ "$status" = 125 ]
  [ ! -e never2 ]
}

@test "output: what cannot be one is refused in one line, and nothing is run" {
  mkdir full mine
  touch full/.hidden file
  refused '"full" is not empty' --output full
  refused '"file": Not a directory' --output file
  refused 'making "no/where": No such file or directory' --output no/where
  refused 'contradict' --workspace mine --output out
  refused 'is the host'"'"'s: what is left there is in ' --output out --bind "$place/mine:/workspace"
  refused 'is the host'"'"'s: what is left there is in ' --output out --bind "$place/mine:/a" -w /a/b/..
  refused "the sandbox's root" --output out -w /
  if ! am_root; then
    chmod 555 mine
    refused '"mine": Permission denied' --output mine
    refused 'making "mine/new": Permission denied' --output mine/new
    chmod 755 mine
  fi
  [ ! -e out ]
  observe "$nsbox" session new --output out
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: --output says how a command is run, not what a session is"* ]]
  box --output out --print-spec -- true
  [ "$status" = 0 ]
  [ ! -e out ]
}

@test "output: also of a run that a limit or a signal has ended" {
  emptied() { rm -rf timeout; box "$@"; }
  in_time emptied --output timeout -- sh -c 'echo x >f; : >/place/done; sleep 60'
  [ "$status" = 124 ]
  [ "$(cat timeout/f)" = x ]
  box --output killed -- sh -c 'echo x >f; kill -9 $$'
  [ "$status" = 137 ]
  [ "$(cat killed/f)" = x ]
  loaded --output oom -m 64m -- /bin/sh -c 'echo x >f; exec /load memory 200'
  [ "$status" = 137 ]
  [ "$(cat oom/f)" = x ]
  box --output full --disk 1m -- sh -c 'echo x >f; head -c 4000000 /dev/zero >g; exit 3'
  [ "$status" = 3 ]
  [ "$(cat full/f)" = x ]
  "$nsbox" run --output term -- sh -c 'echo x >f; echo go; sleep 60' >started & nsbox_pid=$!
  eventually grep -q go started
  kill -TERM $nsbox_pid
  ! wait $nsbox_pid || false
  [ "$(cat term/f)" = x ]
}

@test "output: of other roots, what was made and changed" {
  mkdir -p tree/app/old tree/bin
  cp "$load" tree/bin/load
  echo old >tree/app/old/same
  echo old >tree/app/changed
  echo old >tree/app/gone
  ln -s app tree/link
  box --output out --rootfs tree -- /bin/load write made 1
  [ "$status" = 0 ]
  [ "$(ls -A out)" = made ]
  if [ -x /bin/busybox ]; then
    cp /bin/busybox tree/bin/busybox
    box --output other --rootfs tree -w /app -- /bin/busybox sh -c 'echo new >changed; /bin/busybox rm gone; echo new >old/new'
    [ "$status" = 0 ]
    [ "$(cd other && find . | sort | xargs)" = ". ./changed ./old ./old/new" ]
    [ -z "$stderr" ]
  fi
  refused 'leads through a symbolic link' --output not --rootfs tree -w /link
  [ "$(cat tree/app/gone)" = old ]
}

@test "output: of a tmpfs in the working directory's place" {
  box --output out --tmpfs /workspace -- touch f
  [ -e out/f ]
  box --output out2 --tmpfs /a --tmpfs /b -w /b -- sh -c 'mkdir -p c && touch c/f'
  [ -e out2/c/f ]
}

@test "output: what is mounted in the working directory is no part of it, nor is the place that was made for it" {
  mkdir in
  touch in/f
  box --output out --ro-bind "$PWD/in:/workspace/in" --ro-bind "$PWD/in/f:/workspace/f" --bind "$PWD/in/f:/workspace/d/f" \
    --tmpfs /workspace/t -- sh -c 'ls in/f f d/f && touch made d/made t/made'
  [ "$status" = 0 ]
  [ -z "$stderr" ]
  [ "$(cd out && find . -mindepth 1 | sort | xargs)" = "./d ./d/made ./made" ]
}

@test "output: the code itself is not returned, unless it was changed" {
  has_python
  box --image none --lang python --output out -c 'open("x", "w").write("1")'
  [ "$(ls -A out)" = x ]
  box --image none --lang python --output out2 -c 'open("main.py", "a").write("#")'
  [ "$(ls -A out2)" = main.py ]
}

@test "output: --json says how much came, and what was left out" {
  json --output out -- sh -c 'mkdir d; printf 12345 >d/f; ln -s f d/l; mkfifo p'
  is '.output | tojson' '{"files":1,"bytes":5,"directories":1,"links":1,"left_out_count":1,"left_out":[{"path":"p","why":"a FIFO"}],"error":null}'
  json -- true
  is .output null
  mkdir full
  touch full/f
  json --output full -- true
  is .status 125
  is .ended_by setup
}

@test "output: links that lead outside, FIFOs, sockets and devices are left out" {
  has_python
  echo secret >secret
  chmod 644 secret
  box --output out --root-emulation -- python3 -c '
import os, socket
os.makedirs("a/b")
links = {"abs": "/etc/shadow", "up": "../x", "a/up": "../../x", "a/b/L": "..", "trick": "a/b/L/../../etc/shadow",
         "proc": "/proc/self/root", "dots": "a/../../x", "a/ok": "../a/b", "a/self": "../.", "slash": "a//b/./",
         "empty2": "./../x"}
for name, target in links.items():
    os.symlink(target, name)
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.mknod("device", 0o20666, os.makedev(1, 3))
print(os.path.exists("device"))'
  [ "$status" = 0 ]
  [ "$output" = False ]
  [ "$(cd out && find . -mindepth 1 | sort | xargs)" = "./a ./a/b ./a/b/L ./a/ok ./a/self ./slash" ]
  [ "$(find out -type l -exec readlink -f {} + | grep -cv "^$place/out")" = 0 ]
  [ "$(wc -l <<<"$stderr")" = 1 ]
  for name in abs up a/up trick proc dots empty2; do
    [[ $stderr = *"\"$name\" (a symbolic link that may lead outside)"* || $stderr = *" more" ]]
  done
}

@test "output: names of any bytes" {
  has_python
  box --output out -- python3 -c '
import os
for name in [b"new\nline", b"\xff\xfe", b"\x1b[31m", b" ", b"-rf", b".nsbox-0", b"a" * 255, "ü".encode()]:
    open(name, "wb").write(name)
os.mkfifo(b"\x1b]0;title\x07\n\xff")'
  [ "$status" = 0 ]
  [ "$(ls -A out | wc -c)" -gt 255 ]
  python3 -c '
import os
names = os.listdir(b"out")
assert len(names) == 8, names
for name in names:
    assert open(os.path.join(b"out", name), "rb").read() == name'
  [ "$(wc -l <<<"$stderr")" = 1 ]
  [[ $stderr != *$'\e'* ]]
}

@test "output: no more than --disk allows, holes stay holes" {
  box --output out --disk 8m -- sh -c 'truncate -s 1T huge; truncate -s 3M hole; printf x >>hole; dd if=/dev/zero of=full bs=1M count=2 2>/dev/null; ln full again; ln full more; ln full much'
  [ "$status" = 0 ]
  [ ! -e out/huge ]
  [ "$(stat -c %s out/hole)" = 3145729 ]
  [ "$(stat -c %b out/hole)" -lt 1000 ]
  [ "$(find out -type f -printf '%s\n' | awk '{ n += $1 } END { print n <= 8388608 }')" = 1 ]
  [[ $stderr = *'"huge" (more than --disk allows for all)'* ]]
}

@test "output: many files, and directories in each other" {
  has_python
  observe timeout 300 "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --output out --disk 512m -m 1g --timeout 200 -- python3 -c '
import os
os.mkdir("many")
for i in range(100000): open(f"many/{i}", "w").close()
os.mkdir("deep"); os.chdir("deep")
for i in range(3000):
    os.mkdir("d" * 20); os.chdir("d" * 20)
open("bottom", "w").close()'
  [ "$status" = 0 ]
  [ "$(ls out/many | wc -l)" = 100000 ]
  [ "$(find out/deep -type d | wc -l)" = 127 ]
  [[ $stderr = *"(a directory that lies too deep)" ]]
}

@test "output: a process that is left over changes nothing meanwhile" {
  for i in 1 2 3 4 5; do
    box --output "out$i" -- sh -c 'mkdir d; for i in $(seq 300); do echo x >d/$i; done
      (setsid sh -c "while :; do mv d e; ln -s /etc d; rm d; mv e d; done" >/dev/null 2>&1 &) ; sleep 0.1'
    [ "$status" = 0 ]
    [ ! -e "out$i/d/passwd" ]
    [ -z "$(find "out$i" -type f -size +2c)" ]
    rm -rf "out$i"
  done
}

@test "output: the working directory as a link, or gone" {
  box --output out -- sh -c 'cd / && mv workspace old && ln -s /etc workspace'
  [ "$status" = 0 ]
  [ "$stderr" = 'nsbox: warning: --output: left out "." (not a directory any more)' ]
  [ -z "$(ls -A out)" ]
  box --output out -- sh -c 'cd / && rmdir workspace && mkfifo workspace'
  [ "$status" = 0 ]
  [ "$stderr" = 'nsbox: warning: --output: left out "." (not a directory any more)' ]
  [ -z "$(ls -A out)" ]
  box --output out -- sh -c 'cd / && rmdir workspace'
  [ "$status" = 0 ]
  [ -z "$stderr" ]
  [ -z "$(ls -A out)" ]
}

@test "output: what the code put into the directory through a bind is not mixed with it" {
  mkdir shared
  box --output shared/out --bind "$place/shared:/s" -- sh -c 'ln -s /etc/passwd /s/out/f; echo x >f'
  [ "$status" = 125 ]
  [[ $stderr = *'"shared/out" is not empty'* ]]
  [ "$(ls -A shared/out)" = f ]
}

@test "output: a full disk leaves no file in part" {
  am_root || skip "not root"
  mkdir small
  mount -t tmpfs -o size=1m none small
  box --output small/out -- sh -c 'echo x >a; head -c 3000000 /dev/zero >b; echo x >c'
  umount_later=$(ls -A small/out)
  umount small
  [ "$umount_later" = a ]
  [ "$status" = 125 ]
  [ "$stderr" = 'nsbox: --output: writing "b": No space left on device' ]
}
