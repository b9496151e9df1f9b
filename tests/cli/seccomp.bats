# SPDX-License-Identifier: MIT
# Profiles of system calls: the built-in ones, users' own, the cache of these, and --explain.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_CACHE_HOME=$place/cache
  mkdir -m 700 "$XDG_CACHE_HOME"
}

# A profile in the file $1 that allows by default, but for the entries $2.
allowing() {
  printf '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [%s]}' "${2-}" >"$1"
}

# The error of a profile with the text $1.
wrong() {
  printf '%s' "$1" >"$place/wrong.json"
  box --seccomp "$place/wrong.json" -- true
  [ "$status" = 125 ] && [[ $stderr = "nsbox: seccomp: $place/wrong.json$2"* ]]
}

# Python code under a profile: $1 are the options, $2 is the code.
python() {
  box $1 -- python3 -c "import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    if getattr(libc, name)(*arguments) < 0:
        print(name, errno.errorcode[ctypes.get_errno()])
    else:
        print(name, 'done')
$2"
}

@test "the profile is in the spec and in the result" {
  [ "$("$nsbox" run --print-spec true | jq -r '.seccomp, .explain' | xargs)" = "default false" ]
  for name in default strict debug unconfined; do
    [ "$("$nsbox" run --print-spec --seccomp "$name" true | jq -r .seccomp)" = "$name" ]
    json --seccomp "$name" true
    is .sandbox.seccomp "$name"
    is .status 0
  done
  allowing own.json
  json --seccomp own.json true
  is .sandbox.seccomp "$(realpath own.json)"
}

@test "a name that is none, and what cannot be explained, are refused" {
  box --seccomp essential true
  [ "$status" = 125 ]
  [[ $stderr = *'--seccomp: "essential": No such file or directory'*"default, strict, debug, unconfined"* ]]
  box --explain --seccomp unconfined true
  [ "$status" = 125 ]
  [[ $stderr = *"--explain and --seccomp unconfined contradict"* ]]
}

@test "strict: interpreters and compilers run" {
  python "--seccomp strict" 'import subprocess, threading, multiprocessing, asyncio
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True).stdout.strip())
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=print, args=("fork",), daemon=False); child.start(); child.join()
asyncio.run(asyncio.sleep(0.01))
open("/tmp/file", "w").write("x")
print(os.listdir("/tmp"))'
  [ "$output" = $'thread\nchild\nfork\n[\'file\']' ]
  box --seccomp strict -- bash -c 'mkfifo /tmp/f; (echo fifo >/tmp/f &); cat /tmp/f; cat <(echo process); echo a | tr a b; test -t 0 || echo none'
  [ "$output" = $'fifo\nprocess\nb\nnone' ]
  box --seccomp strict -- perl -e 'print `echo perl`'
  [ "$output" = perl ]
  if command -v cc; then
    box --seccomp strict --lang c -c '#include <stdio.h>
int main(void) { puts("c"); }'
    [ "$output" = c ]
  fi
  if command -v node; then
    box --seccomp strict --lang javascript -c 'console.log(require("child_process").execSync("echo child").toString().trim());
new (require("worker_threads").Worker)("console.log(\"worker\")", { eval: true })'
    [ "$output" = $'child\nworker' ]
  fi
}

@test "strict: programs in every language that is here, with a thread or a process of their own" {
  local -A code=(
    [cpp]=$'#include <thread>\n#include <iostream>\nint main() { std::thread t([] { std::cout << 7; }); t.join(); }'
    [go]=$'package main\nimport "fmt"\nfunc main() { c := make(chan int); go func() { c <- 7 }(); fmt.Print(<-c) }'
    [java]='public class M { public static void main(String[] a) throws Exception {
      System.out.print(new String(new ProcessBuilder("printf", "7").start().getInputStream().readAllBytes())); } }'
    [lua]='io.write(io.popen("printf 7"):read("a"))'
    [perl]='print `printf 7`'
    [php]='echo shell_exec("printf 7");'
    [r]='cat(system("printf 7", intern = TRUE))'
    [ruby]='Thread.new { print `printf 7` }.join'
    [rust]='fn main() { std::thread::spawn(|| print!("7")).join().unwrap(); }'
    [typescript]='const x: number = 7; process.stdout.write(String(x))'
  )
  for language in "${!code[@]}"; do
    "$nsbox" languages "$language" >/dev/null 2>&1 || continue
    # Go compiles its standard library.
    observe timeout 400 "$nsbox" run --seccomp strict --timeout 180 --lang "$language" -c "${code[$language]}"
    [ "$output" = 7 ] || { echo "$language"; return 1; }
  done
}

@test "strict: pairs are all the sockets that there are" {
  python "--seccomp strict" 'for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK):
    call("socket", family, 1, 0)
call("socket", 1 | 1 << 40, 1, 0)
a, b = socket.socketpair()
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
a.send(b"pair"); print(b.recv(4).decode())
call("bind", a.fileno(), 0, 0)
call("connect", a.fileno(), 0, 0)
call("setsockopt", a.fileno(), 1, 26, 0, 0)
call("memfd_create", b"x", 0)
call("shmget", 0, 1, 0)
call("prctl", 22, 1, 0, 0, 0)
call("ioctl", 0, 0x541d)
call("mknod", b"/tmp/s", 0o140600, 0)
call("mkfifo", b"/tmp/f", 0o600)
call("personality", 0x40000)'
  [ "$(sort -u <<<"$output" | xargs)" = "bind EPERM connect EPERM ioctl ENOSYS memfd_create ENOSYS mkfifo done mknod EPERM pair personality ENOSYS prctl ENOSYS setsockopt ENOPROTOOPT shmget ENOSYS socket EAFNOSUPPORT" ]
}

@test "debug: a debugger sees what it starts, and not process 1" {
  python "--seccomp debug" 'import signal, time
child = os.fork()
if child == 0:
    time.sleep(60)
call("ptrace", 16, child, 0, 0)
os.waitpid(child, 0)
print(open("/proc/%d/maps" % child).read().count("\n") > 1)
os.kill(child, 9)
call("ptrace", 16, 1, 0, 0)
call("ptrace", 0x4206, 1, 0, 0)
buffer = ctypes.create_string_buffer(8)
mine = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
call("process_vm_readv", os.getpid(), ctypes.byref(mine), 1, ctypes.byref(mine), 1, 0)
call("process_vm_readv", 1, ctypes.byref(mine), 1, ctypes.byref(mine), 1, 0)
for name in "mem", "environ", "fd", "maps", "auxv", "root":
    try:
        path = "/proc/1/" + name
        print(name, os.listdir(path) if name in ("fd", "root") else open(path, "rb").read(16))
    except OSError as error:
        print(name, errno.errorcode[error.errno])'
  [ "$output" = $'ptrace done\nTrue\nptrace EPERM\nptrace EPERM\nprocess_vm_readv done\nprocess_vm_readv EPERM\nmem EACCES\nenviron EACCES\nfd EACCES\nmaps EACCES\nauxv EACCES\nroot EACCES' ]
  box --seccomp default -- python3 -c 'import ctypes
libc = ctypes.CDLL(None); print(libc.ptrace(0, 0, 0, 0))'
  [ "$output" = -1 ]
  if command -v gdb && command -v strace; then
    box --seccomp debug -- gdb -q -batch -ex run -ex 'info line' /bin/true
    [[ $output = *"exited normally"* ]]
    box --seccomp debug -- strace -f -c true
    [ "$status" = 0 ]
  fi
}

@test "debug: a command that asks its parent to trace it goes on" {
  python "--seccomp debug" 'call("ptrace", 0, 0, 0, 0)
os.execvp("sh", ["sh", "-c", "trap \"echo trapped\" USR1; kill -USR1 $$; (while sleep 0.2; do kill -CONT $$; done) & kill -STOP $$; echo on"])'
  [ "$status" = 0 ]
  [ "$output" = $'trapped\non' ] || [ "$output" = $'on' ]
  python "--seccomp debug" 'import signal
call("ptrace", 0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR2)'
  [ "$status" = 140 ]
}

@test "Docker's profiles are taken as they are" {
  for file in "$BATS_TEST_DIRNAME"/seccomp/docker-*.json; do
    python "--seccomp $file" 'print("runs")
call("unshare", 0x10000000)
call("socket", 40, 1, 0)
call("socket", 2, 1, 0)
call("mount", 0, 0, 0, 0, 0)
call("klogctl", 3, 0, 0)'
    [ "$status" = 0 ]
    [[ $output = $'runs\nunshare EPERM\nsocket E'*$'\nsocket done\nmount EPERM\nklogctl EPERM' ]]
  done
}

@test "a file may allow more, and what is essential stays refused" {
  allowing all.json
  python "--seccomp all.json" 'call("ptrace", 0, 0, 0, 0)
call("unshare", 0x400)
call("unshare", 0x10000000)
call("unshare", 0x20000)
call("mount", 0, 0, 0, 0, 0)
call("chroot", b"/tmp")
call("ioctl", 0, 0x5412, b"x")
call("ioctl", 0, 0x5412 | 1 << 33, b"x")
call("syscall", 425, 1, 0)
call("syscall", 321, 0, 0, 0)
call("syscall", 250, 0, 0)
call("syscall", 435, 0, 0)
call("socket", 40, 1, 0)
call("socket", 38, 5, 0)
call("prlimit", 1, 7, ctypes.byref((ctypes.c_uint64 * 2)(0, 0)), 0)
call("prlimit", 0, 4, ctypes.byref((ctypes.c_uint64 * 2)(0, 0)), 0)
call("setpriority", 0, 1, 19)
call("setpriority", 2, 0, 19)'
  [ "$(uname -m)" = x86_64 ] || skip "the numbers are those of x86-64"
  [ "$(xargs <<<"$output")" = "ptrace done unshare done unshare EPERM unshare EPERM mount EPERM chroot EPERM ioctl EPERM ioctl EPERM syscall EPERM syscall EPERM syscall EPERM syscall ENOSYS socket EAFNOSUPPORT socket EAFNOSUPPORT prlimit EPERM prlimit done setpriority EPERM setpriority EPERM" ]
  [ "$(box --seccomp all.json -- cat /proc/self/status >/dev/null; grep -E '^(Seccomp|NoNewPrivs):' <<<"$output" | xargs)" = "NoNewPrivs: 1 Seccomp: 2" ] ||
    { box --seccomp all.json -- cat /proc/self/status; [[ $output = *$'NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2'* ]]; }
}

@test "a file's actions and arguments do what they say" {
  allowing own.json '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
    {"names": ["dup"], "action": "SCMP_ACT_KILL_PROCESS"}, {"name": "sethostname", "action": "SCMP_ACT_ERRNO", "errno": "EXDEV"},
    {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 33, "args": [{"index": 1, "value": 18446744073709551615, "valueTwo": 5, "op": "SCMP_CMP_MASKED_EQ"}]},
    {"names": ["chown", "fchownat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0},
    {"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 7, "includes": {"minKernel": "99.0"}},
    {"names": ["getpgid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 7, "excludes": {"caps": ["CAP_SYS_ADMIN"]}}'
  python "--seccomp own.json" 'call("mkdir", b"/tmp/d", 0o700)
call("sethostname", b"x", 1)
call("kill", 0, 5)
call("kill", 0, 0)
call("chown", b"/nonexistent", 1, 1)
print(libc.getppid())
call("getpgid", 0)'
  [ "$(xargs <<<"$output")" = "mkdir EACCES sethostname EXDEV kill EDOM kill done chown done 1 getpgid E2BIG" ]
  python "--seccomp own.json" 'print("before", flush=True); libc.dup(0); print("after")'
  [ "$output" = before ]
  [ "$status" = 159 ]
}

@test "errors have the file, the line and the name" {
  wrong '' ":1: "
  wrong '{
"defaultAction": "SCMP_ACT_ALLOW",
"syscalls": [,]}' ":3: "
  wrong '{"defaultAction": "SCMP_ACT_ALLOW",
"syscalls": [
 {"names": ["dup"],
  "action": "ALLOW"}]}' ':4: syscalls[0]: unknown action "ALLOW"'
  wrong '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
 {"names": ["dup"], "action": "SCMP_ACT_ERRNO"},
 {"names": ["dup",
   "dpu"], "action": "SCMP_ACT_ERRNO"}]}' ':4: syscalls[1]: unknown system call "dpu"'
  wrong '{"defaultAction": "SCMP_ACT_NOTIFY", "syscalls": []}' ':1: SCMP_ACT_NOTIFY needs a supervising program'
  wrong '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["dup"], "action": "SCMP_ACT_ERRNO", "args": [
 {"index": 0, "op": "SCMP_CMP_EQ", "value": 1},
 {"index": 1, "op": "SCMP_CMP_IS", "value": 1}]}]}' ':3: syscalls[0]: args[1]: unknown op "SCMP_CMP_IS"'
  wrong '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_KILL"}]}' \
    " refuses what nsbox itself needs to start a command: execve"
  wrong '{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}' " refuses what nsbox itself needs to start a command: brk, "
  box --seccomp / -- true
  [ "$status" = 125 ]
  [[ $stderr = *"/: Is a directory"* ]]
}

@test "a profile is compiled once" {
  allowing own.json '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}'
  for turn in 1 2; do
    box --seccomp own.json -- mkdir /tmp/d
    [ "$status" = 1 ]
  done
  cached=("$XDG_CACHE_HOME"/nsbox/seccomp/*)
  [ ${#cached[@]} = 1 ]
  [ "$(stat -c %a "${cached[0]}")" = 600 ]
  # Not by its name or its time, but by what it says.
  touch -d 2001-01-01 own.json
  cp own.json other.json
  before=$(stat -c %i "${cached[0]}")
  box --seccomp other.json -- mkdir /tmp/d
  [ "$status" = 1 ]
  [ "$(stat -c %i "${cached[0]}")" = "$before" ]
  allowing own.json
  box --seccomp own.json -- mkdir /tmp/d
  [ "$status" = 0 ]
  rm -r "$XDG_CACHE_HOME"
  box --seccomp other.json -- mkdir /tmp/d
  [ "$status" = 1 ]
  # Without a place for it.
  XDG_CACHE_HOME=/proc/nowhere box --seccomp other.json -- mkdir /tmp/d
  [ "$status" = 1 ]
  [ -z "${stderr##*mkdir*}" ]
}

# Whether own.json is still what it says although the cache was tampered with.
holds_still() {
  box --seccomp own.json -- mkdir /tmp/d
  [ "$status" = 1 ] && [[ $stderr = *"Operation not permitted"* ]]
}

@test "what others could have put into the cache is not used" {
  allowing own.json '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}'
  holds_still
  entry=$(echo "$XDG_CACHE_HOME"/nsbox/seccomp/*)
  folder=${entry%/*}
  # A filter that lets all pass, in the place of the right one.
  python3 - "$entry" <<'END'
import sys, struct
data = open(sys.argv[1], "rb").read()
head = struct.unpack("16sIIQQQ", data[:48])
text = data[48:48 + head[2] + head[3]]
open("forged", "wb").write(struct.pack("16sIIQQQ", *head[:4], 1, 1) + text + struct.pack("HBBI", 6, 0, 0, 0x7fff0000) * 2)
END
  # It is one that is taken, in a folder and file that are the caller's own: it shows that the rest of this test tests.
  cp forged "$entry"
  box --seccomp own.json -- mkdir /tmp/d
  [ "$status" = 0 ]
  chmod 666 "$entry"
  holds_still
  [ "$(stat -c %a "$entry")" = 600 ]
  cp forged "$entry" && chmod 777 "$folder"
  holds_still
  chmod 700 "$folder" && chmod 770 "$XDG_CACHE_HOME/nsbox"
  holds_still
  chmod 700 "$XDG_CACHE_HOME/nsbox"
  mv "$folder" elsewhere && ln -s "$PWD/elsewhere" "$folder"
  holds_still
  rm "$folder" && mv elsewhere "$folder" && rm "$entry" && cp forged file && ln -s "$PWD/file" "$entry"
  holds_still
  if am_root; then
    rm -f "$entry"; cp forged "$entry"; chown nobody "$entry"
    holds_still
    rm -f "$entry"; cp forged "$entry"; chown nobody "$folder"
    holds_still
  fi
}

@test "broken entries, and several at once" {
  allowing own.json '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}'
  holds_still
  entry=$(echo "$XDG_CACHE_HOME"/nsbox/seccomp/*)
  for size in 0 5 47 100 400 "$(($(stat -c %s "$entry") - 1))"; do
    head -c "$size" "$entry" >cut && cp cut "$entry"
    holds_still
  done
  head -c 100000 /dev/urandom >"$entry"
  holds_still
  rm "$entry" && mkfifo "$entry"
  holds_still
  rm -rf "$entry" && mkdir "$entry"
  holds_still
  rm -r "$XDG_CACHE_HOME/nsbox"
  for i in {1..12}; do
    "$nsbox" run --seccomp own.json -- mkdir /tmp/d 2>"out.$i" </dev/null &
  done
  wait
  [ "$(grep -l "Operation not permitted" out.* | wc -l)" = 12 ]
  [ "$(ls "$XDG_CACHE_HOME/nsbox/seccomp" | wc -l)" = 1 ]
}

@test "explain: what was refused, with what it was for, and how often" {
  python --explain 'for i in range(3): call("socket", 40, 1 | 0o2000000, 0)
call("socket", 16, 3, 9)
call("unshare", 0x10000000)
call("ioctl", 0, 0x5412 | 1 << 33, b"x")
call("ptrace", 16, 1, 0, 0)
call("getpid")'
  [ "$status" = 0 ]
  grep -Fx 'nsbox: refused: socket(AF_VSOCK, SOCK_STREAM, 0): EAFNOSUPPORT (Address family not supported by protocol), 3 times' <<<"$stderr"
  grep -Fx 'nsbox: refused: socket(AF_NETLINK, SOCK_RAW, 9): EPROTONOSUPPORT (Protocol not supported), once' <<<"$stderr"
  grep -Fx 'nsbox: refused: unshare(CLONE_NEWUSER): EPERM (Operation not permitted), once' <<<"$stderr"
  grep -Fx 'nsbox: refused: ioctl(TIOCSTI): EPERM (Operation not permitted), once' <<<"$stderr"
  grep -Fx 'nsbox: refused: ptrace(PTRACE_ATTACH, 1): EPERM (Operation not permitted), once' <<<"$stderr"
  explained=$output
  python "" 'for i in range(3): call("socket", 40, 1 | 0o2000000, 0)
call("socket", 16, 3, 9)
call("unshare", 0x10000000)
call("ioctl", 0, 0x5412 | 1 << 33, b"x")
call("ptrace", 16, 1, 0, 0)
call("getpid")'
  [ "$output" = "$explained" ]
  [ -z "$stderr" ]
  box --explain true
  [ "$stderr" = "nsbox: the filter refused no system call" ]
}

@test "explain: in the result; without it a hint where there is reason for one" {
  json --explain -- sh -c 'unshare -U true; unshare -U true; unshare -n true'
  is '.refused | length' 2
  is '.refused[0] | .syscall, .arguments, .error, .count' "$(printf '%s\n' unshare CLONE_NEWUSER EPERM 2)"
  is '.refused[1].message' "unshare(CLONE_NEWNET): EPERM (Operation not permitted), once"
  is .refused_others 0
  is .hint null
  json -- unshare -U true
  is .refused null
  is .refused_others null
  holds '.hint | contains("--explain")'
  json --seccomp unconfined -- sh -c 'echo EPERM >&2; exit 1'
  is .hint null
  json -- sh -c 'echo nothing >&2; exit 1'
  is .hint null
  json -- sh -c 'echo Operation not permitted >&2'
  is .hint null
  json --explain --lang python -c 'import socket, threading
t = threading.Thread(target=print); t.start(); t.join()
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError: pass'
  holds '.refused | map(.syscall) | contains(["socket"])'
}

@test "a hint where nsbox sees standard error: a file, or a terminal" {
  box -- unshare -U true
  [[ $stderr = *$'\nnsbox: its output names an error that the filter of system calls gives too; --explain says '* ]]
  # Where output and errors go to one place, too.
  [[ $("$nsbox" run unshare -U true 2>&1) = *$'\nnsbox: its output names an error '* ]]
  "$nsbox" run unshare -U true >both 2>&1 || [[ $(cat both) = *$'\nnsbox: its output names an error '* ]]
  [ "$("$pty" -- "$nsbox" run -t unshare -U true </dev/null | grep -c -- '--explain')" = 1 ]
  box -- sh -c 'unshare -U true; true'
  [ "$status" = 0 ]
  [[ $stderr != *explain* ]]
  box -- sh -c 'echo oops >&2; false'
  [ "$stderr" = oops ]
  box --explain -- unshare -U true
  [[ $stderr != *"--explain"* ]]
  box --seccomp unconfined -- sh -c 'echo EPERM >&2; false'
  [ "$stderr" = EPERM ]
  json -- sh -c 'printf Operation >&2; sleep 0.1; echo " not permitted" >&2; false'
  holds '.hint | contains("--explain")'
}

@test "explain: the first 64 that differ, and how many more" {
  json --explain -- python3 -c 'import ctypes
libc = ctypes.CDLL(None)
for turn in range(2):
    for number in range(600, 700): libc.syscall(number)'
  is '.refused | length' 64
  is .refused_others 72
  holds '.refused | all(.count == 2)'
  holds '.refused | all(.syscall | startswith("system call 6"))'
}

@test "explain: profiles of users, essential refusals, and files with set-user-ID bits" {
  mkdir shown && chmod 777 shown
  allowing own.json '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 17},
    {"names": ["fchownat", "chown"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0}'
  box --explain --seccomp own.json --bind "$PWD/shown:/shown" -- sh -c \
    'mkdir /tmp/d; touch /shown/f; chmod 4755 /shown/f; unshare -U true; chown 7 /tmp; mkdir -p /tmp/e; :'
  [ "$status" = 0 ]
  grep -E '^nsbox: refused: mkdir(at)?: EEXIST' <<<"$stderr"
  grep -E '^nsbox: refused: (fchmodat2?|chmod)\(04755\): EPERM' <<<"$stderr"
  grep -F 'nsbox: refused: unshare(CLONE_NEWUSER): EPERM' <<<"$stderr"
  ! grep chown <<<"$stderr" || false
  [ ! -u shown/f ]
  box --seccomp own.json --bind "$PWD/shown:/shown" -- sh -c 'chmod 4755 /shown/f'
  [ "$status" = 1 ]
  [ ! -u shown/f ]
}

@test "explain: a flood of refused calls, threads that end in the middle, and signals" {
  limits="1000 5000 20000" in_time box --explain -- python3 -c 'import ctypes
libc = ctypes.CDLL(None)
for turn in range(9): libc.unshare(0x10000000)
open("/place/done", "w").close()
while True: libc.unshare(0x10000000)'
  [ "$status" = 124 ]
  grep -E '^nsbox: refused: unshare\(CLONE_NEWUSER\): EPERM \(Operation not permitted\), [0-9]+ times$' <<<"$stderr"
  box --explain --timeout 50 -- python3 -c 'import ctypes, os, signal, threading, time
libc = ctypes.CDLL(None)
signal.signal(signal.SIGALRM, lambda *ignored: None)
for turn in range(20):
    if os.fork() == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        def loop():
            while True: libc.unshare(0x10000000)
        for i in range(4): threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.02)
        os._exit(0)
for turn in range(20): os.wait()
print("all")'
  [ "$status" = 0 ]
  [ "$output" = all ]
}

@test "explain: when nsbox is killed in the middle nothing is left" {
  seconds=$(mark)
  "$nsbox" run --explain --timeout none -- python3 -c 'import ctypes
libc = ctypes.CDLL(None)
while True: libc.unshare(0x10000000)' "$seconds" </dev/null &
  supervisor=$!
  eventually eval 'pgrep -f "libc.unshare.0x10000000.*$seconds" | grep -q -v -x $supervisor'
  sleep 0.5
  kill -9 "$supervisor"
  wait "$supervisor" || true
  until_gone() { ! pgrep -f "^$nsbox" >/dev/null && ! pgrep -f "libc.unshare.0x10000000.*$seconds" >/dev/null; }
  eventually until_gone
}

@test "explain: the command has no part in it" {
  python --explain 'print(sorted(os.listdir("/proc/self/fd")))
class program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
code = (ctypes.c_uint64)(0x7fff000000000006)
call("syscall", 317, 1, 8, ctypes.byref(program(1, ctypes.addressof(code))))'
  [[ ${lines[0]} = "['0', '1', '2', '3']" ]]
  [ "$(uname -m)" != x86_64 ] || [ "${lines[1]}" = "syscall EBUSY" ]
}

@test "mcp: the one who starts the server chooses the profile, a call may ask for explanations" {
  local options ask
  ask() { # $1: arguments of execute_code; the rest: options of nsbox mcp
    local arguments=$1
    shift
    : >answers
    { printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' \
      '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_code\",\"arguments\":$arguments}}"
      eventually grep -q '"id":2' answers >&2; } |
      timeout 60 "$nsbox" mcp "$@" >answers
    jq -c 'select(.id == 2).result' answers
  }
  code='"language":"python","code":"import socket\nsocket.socket(socket.AF_INET)"'
  result=$(ask "{$code}" --seccomp strict)
  is .structuredContent.exit_code 1
  holds '.structuredContent.hint | contains("explain")'
  holds '.content[0].text | contains("explain")'
  result=$(ask "{$code}")
  is .structuredContent.exit_code 0
  is .structuredContent.refused null
  result=$(ask "{$code,\"explain\":true}" --seccomp strict)
  is '.structuredContent.refused[0] | .syscall, .error' "$(printf 'socket\nEAFNOSUPPORT')"
  holds '.content[0].text | contains("[refused: socket(AF_INET, SOCK_STREAM, 0): EAFNOSUPPORT")'
  result=$(ask "{$code,\"explain\":1}")
  is .isError true
  holds '.content[0].text | contains("explain: expected true or false")'
  observe "$nsbox" mcp --seccomp "$place/absent.json"
  [ "$status" = 125 ]
  [[ $stderr = *"absent.json"* ]]
}

@test "--root-emulation: owners, ids, groups and devices seem to change, and do not" {
  box --root-emulation -- sh -c 'touch f && chown 5:6 f && chown -h 5:6 f && stat -c %u:%g f
    mknod d c 1 3 && [ ! -e d ] && mkfifo p && [ -p p ] && echo fifo
    perl -e "use POSIX; \$) = q(5 5); print qq(groups \$!\n) if \$!; POSIX::setuid(5) or print qq(setuid\n); print POSIX::getuid(), qq(\n)"'
  [ "$status" = 0 ]
  [ "$output" = $'0:0\nfifo\n0' ]
  box -- sh -c 'touch f && ! chown 5:6 f 2>/dev/null && stat -c %u:%g f'
  [ "$status" = 0 ]
  [ "$output" = 0:0 ] # for root too, who has 65536 ids inside and no capability
  box --root-emulation --explain -- true
  [ "$status" = 125 ]
  [[ $stderr = *"--explain and --root-emulation contradict each other"* ]]
}

# Two of capabilities(7), 1 and 3, in all sets; and what they are good for.
@test "--root-emulation: power over the modes of the sandbox's files, and no other capability" {
  box --root-emulation -- sh -c 'grep -c "^Cap.*000000000000000a$" /proc/self/status
    mkdir d && echo in >d/f && chmod 0 d/f d && cat d/f && echo more >>d/f && cat d/f'
  [ "$status" = 0 ]
  [ "$output" = $'5\nin\nin\nmore' ]
  box --root-emulation -u 7 -- grep -c '^Cap.*0000000000000000$' /proc/self/status
  [ "$status" = 0 ]
  [ "$output" = 5 ]
  box -- sh -c 'grep -c "^Cap.*0000000000000000$" /proc/self/status; echo in >f; chmod 0 f; cat f'
  [ "$status" = 1 ]
  [ "$output" = 5 ]
}

@test "--root-emulation: no power over files of others on the host" {
  mkdir "$place/bound"
  echo mine >"$place/bound/mine"
  chmod 0 "$place/bound/mine"
  box --root-emulation --bind "$place/bound:/mnt" -- cat /mnt/mine # of the caller, who could have given it a mode
  [ "$status" = 0 ]
  [ "$output" = mine ]
  box --root-emulation -- cat /etc/shadow
  [ "$status" = 1 ]
  if [ "$(id -u)" = 0 ]; then
    echo other >"$place/bound/other"
    mkdir "$place/bound/closed"
    chmod 600 "$place/bound/other"
    chmod 700 "$place/bound/closed"
    chown 1234:1234 "$place/bound/other" "$place/bound/closed"
    box --root-emulation --bind "$place/bound:/mnt" -- sh -c 'cat /mnt/other; echo x >/mnt/other; ls /mnt/closed; rm /mnt/mine && echo mine'
    [ "$output" = mine ]
    [ "$(cat "$place/bound/other")" = other ]
    [ "$(grep -c 'Permission denied' <<<"$stderr")" = 3 ]
  else
    found=$(find /var/log /var/lib /etc /run /root -maxdepth 2 -type f ! -readable -size +0 2>/dev/null | head -n 1)
    [ -n "$found" ] || found=$(find /root /var/cache -maxdepth 2 ! -readable 2>/dev/null | head -n 1)
    [ -n "$found" ] || skip "no file here is closed to this user"
    box --root-emulation --ro-bind "${found%/*}:/mnt" -- cat "/mnt/${found##*/}"
    [ "$status" = 1 ]
    [[ $stderr = *"Permission denied"* ]]
  fi
}

# apt sees that its rights did not change; see the manual.
@test "--root-emulation: apt in a root that has it is told to stay who it is" {
  mkdir -p "$place/tree/etc/apt/apt.conf.d" "$place/plain" "$place/link/etc" "$place/elsewhere/apt.conf.d"
  cp -L "$(command -v busybox)" "$place/tree/busybox" || skip "busybox is not installed"
  cp "$place/tree/busybox" "$place/plain"
  cp "$place/tree/busybox" "$place/link"
  ln -s "$place/elsewhere" "$place/link/etc/apt"
  box --rootfs "$place/tree" --root-emulation -- /busybox cat /etc/apt/apt.conf.d/99nsbox-root-emulation
  [ "$status" = 0 ]
  [[ $output = *'APT::Sandbox::User "root";'* ]]
  [ -z "$(ls "$place/tree/etc/apt/apt.conf.d")" ]
  box --rootfs "$place/tree" -- /busybox ls -A /etc/apt/apt.conf.d
  [ "$status" = 0 ]
  [ -z "$output" ]
  box --rootfs "$place/plain" --root-emulation -- /busybox ls /etc/apt
  [ "$status" = 1 ]
  box --rootfs "$place/link" --root-emulation -- /busybox readlink /etc/apt
  [ "$status" = 0 ]
  [ "$output" = "$place/elsewhere" ]
}
