# SPDX-License-Identifier: MIT
"""Bash that is kept."""

import os
import time

from harness import check, equal, language, matches

test = language("bash")


def failed(cell, name, message, line=0):
    equal((cell.status, cell.error and cell.error.name), ("error", name), f"{cell}")
    equal((cell.error.message, cell.error.line), (message, line), f"{cell}")


@test("variables, arrays, functions, aliases, options, traps, the working directory and $? stay")
def _(driver):
    driver.ok("x=1; a=(1 'b c' $'d\\ne'); declare -A h=([k]=v); export E=env; f() { local y=$1; echo \"f $y\"; return 0; }\nalias ll='echo aliased'; shopt -s expand_aliases extglob; set -f; mkdir d; cd d; trap 'echo usr1' USR1; set -- p q; umask 027; exec 7>log")
    cell = driver.ok("set +f; echo $x ${#a[@]} ${h[k]} $(printenv E) $1 $2; f 2; ll; pwd; kill -USR1 $$; umask; echo hi >&7; cat log; [[ aab == +(a)b ]] && echo glob")
    equal(cell.out, f"1 3 v env p q\nf 2\naliased\n{driver.workspace}/d\nusr1\n0027\nhi\nglob\n", "state")
    failed(driver.run("false"), "exit status", "1")
    equal(driver.ok("echo $?").out, "1\n", "status")
    cell = driver.ok("sleep 100 & job=$!")
    equal(driver.ok("jobs -p | grep -c .; kill $job; wait $job 2>/dev/null; echo $?").out, "1\n143\n", "a job")


for number, (code, after) in enumerate([
    ("echo go; while :; do :; done; echo NO", b"go"),
    ("echo go; sleep 60; echo NO", b"go"),
    ("f() { g; echo NO; }; g() { while :; do h; echo NO; done; }; h() { echo go; while :; do sleep 0.02; done; echo NO; }; f; echo NO", b"go"),
    ("echo go; yes >/dev/null | while :; do :; done; echo NO", b"go"),
    ("sleep 60 & echo go; wait; echo NO", b"go"),
    ("f() { eval 'eval \"echo go; sleep 60\"'; echo NO; }; f; echo NO", b"go"),
    ("echo go; y=$(sleep 60); echo NO", b"go"),
    ("mkfifo p; echo go; read x <> p; echo NO", b"go"),
    ("echo go; (while :; do :; done); echo NO", b"go"),
    ("set -e; f() { echo go; sleep 60; }; f; echo NO", b"go"),
    ("set -e; echo go; if while :; do :; done; then echo NO; fi; echo NO", b"go"),
    ("echo 'echo go; while :; do :; done; echo NO' >s; f() { source ./s; echo NO; }; f; echo NO", b"go"),
    ("f() { echo go; while :; do :; done; }; trap 'f; echo NO' USR1; kill -USR1 $$; echo NO", b"go"),
]):
    @test(f"an interrupt of {code!r}")
    def _(driver, code=code, after=after):
        driver.ok("x=1; sleep 60 & p=$!")
        cell = driver.interrupted(code, after)
        equal((cell.status, cell.out, cell.error), ("interrupted", "go\n", None), f"{cell}")
        cell = driver.ok("set +e; jobs %1 | grep -c sleep; kill $p; wait $p 2>/dev/null; echo $x $?")
        equal(cell.out, "1\n1 143\n", "state")


@test("an interrupt between cells does nothing, and one within leaves traps and options as they were")
def _(driver):
    driver.ok("trap 'echo debug >>log' DEBUG; set -eu -E; trap ':' ERR")
    driver.interrupt()
    driver.ok("trap - DEBUG")
    driver.ok("f() { echo go; while :; do :; done; }")
    before = driver.ok("trap; echo $-; shopt extdebug || :").out
    equal(driver.interrupted("f; echo NO", b"go").status, "interrupted", "status")
    driver.interrupt()
    equal(driver.ok("trap; echo $-; shopt extdebug || :").out, before, "traps and options")
    check("__nsbox" not in before, before)


@test("a trap of the code's for SIGINT is what an interrupt runs")
def _(driver):
    cell = driver.interrupted("trap 'echo caught; break' INT; echo go; while :; do sleep 0.02; done; echo after", b"go")
    equal((cell.status, cell.out), ("ok", "go\ncaught\nafter\n"), f"{cell}")
    cell = driver.interrupted("trap 'echo bye; exit 130' INT; echo go; while :; do sleep 0.02; done", b"go")
    equal((cell.status, cell.out), ("interrupted", "go\nbye\n"), f"{cell}")
    equal(driver.ok("trap -p INT; trap - INT; trap").out, "trap -- 'echo bye; exit 130' SIGINT\n", "trap -p")
    equal(driver.interrupted("echo go; sleep 60; echo NO", b"go").out, "go\n", "without it")


@test("what Bash says of code begins with the name of the cell that it is in, and the right line")
def _(driver):
    cell = driver.run("echo a\n\nnosuch; (nosuch)\nf() {\n\tnosuch\n}\nf; x=$(nosuch)")
    equal(cell.err, "".join(f"<cell 1>: line {line}: nosuch: command not found\n" for line in (3, 3, 5, 7)), "names")
    equal(driver.run("\nf; nosuch").err, "<cell 1>: line 5: nosuch: command not found\n<cell 2>: line 2: nosuch: command not found\n", "a function")
    equal(driver.run("\n\n: ${y?is needed}").err, "<cell 3>: line 3: y: is needed\n", "what exits")
    equal(driver.run("set -o posix; set -C; umask 077").status, "ok", "options")
    matches(driver.run("nosuch; set +o posix +o noclobber; umask 022").err, r"^\./<cell 5>: line 1: nosuch: command not found$", "posix")
    driver.ok("mkdir p; for i in {7..9}; do echo 'echo another' >\"p/<cell $i>\"; done; PATH=.:$PWD/p:$PATH")
    equal(driver.run("nosuch; shopt -q sourcepath && echo yes").err, "<cell 7>: line 1: nosuch: command not found\n", "with such names in PATH")
    driver.ok("umask 777; ulimit -f 0; x=1")
    matches(driver.run("nosuch").err, r": line 1: nosuch: command not found$", "where no file can be made")
    equal(driver.ok("echo $x; FUNCNEST=2").out, "1\n", "state")
    equal(driver.ok("echo $x; IFS=").out, "1\n", "with few functions in each other")
    equal(driver.ok("echo $x").out, "1\n", "with no IFS")


@test("no process is started between cells, as there may be room for none")
def _(driver):
    faults = "read -r line </proc/$$/stat; line=(${line##*) }); echo ${line[8]}"  # of children that were waited for
    before = driver.ok(f"/bin/true; {faults}").out
    for _ in range(3):
        equal(driver.ok(faults).out, before, "faults of children")
    check(driver.ok(f"/bin/true; {faults}").out != before, "a child has none")


@test("a cell is run where the last one was, whatever became of that folder and of its name")
def _(driver):
    where = "echo $PWD; pwd; pwd -P; echo ${OLDPWD-none}; export | grep -c PWD"
    here = str(driver.workspace)
    equal(driver.ok(where).out, f"{here}\n{here}\n{os.path.realpath(here)}\nnone\n2\n", "at first")
    driver.ok("mkdir real; ln -s real link; cd link; exit 0")
    equal(driver.ok(where).out, f"{here}/link\n{here}/link\n{os.path.realpath(here)}/real\n{here}\n2\n", "a link")
    equal(driver.ok("cd - && cd real && nosuch() { pwd; }; nosuch").out, f"{here}\n{here}/real\n", "cd -")
    driver.ok("mv ../real ../moved")
    equal(driver.ok("pwd -P; [[ . -ef ../moved ]] && echo there").out, f"{os.path.realpath(here)}/moved\nthere\n", "a folder that was moved")
    driver.ok("mkdir ../real")
    equal(driver.ok("[[ . -ef ../moved ]] && echo there; cd ../real; rmdir ../real").out, "there\n", "another in its place")
    cell = driver.run("pwd; nosuchcommand")
    check(cell.out == f"{here}/real\n" and "line 1: nosuchcommand" in cell.err, f"a folder that is gone: {cell}")
    equal(driver.ok("cd ../moved; unset PWD; set -u").out, "", "no name")
    equal(driver.ok("set +u; pwd; PWD=/").out, f"{here}/moved\n", "no name")
    equal(driver.ok("pwd; cd .; readonly PWD; pwd").out, f"{here}/moved\n{here}/moved\n", "a wrong name")
    equal(driver.ok("pwd -P; [[ . -ef ../moved ]] && echo there").out, f"{os.path.realpath(here)}/moved\nthere\n", "a name that stays")
    driver.ok("OLDPWD=/; readonly OLDPWD")
    for _ in range(2):
        equal(driver.ok("pwd -P; echo $OLDPWD").out, f"{os.path.realpath(here)}/moved\n/\n", "a last folder that stays")
    driver.ok("trap 'pwd -P >>/dev/fd/9' DEBUG; exec 9>log")
    driver.ok("echo")
    driver.ok("trap - DEBUG")
    equal(driver.ok("sort -u log").out, f"{os.path.realpath(here)}/moved\n", "what a trap sees")
    beside = sorted(path.name for path in (driver.folder / "driver").iterdir() if path.stat().st_size > 0)
    equal((len(beside), beside[-1]), (2, "bash.bash"), "what is beside the driver, and not empty")


@test("exit, set -e, set -u and ${x?} end the cell and not the shell")
def _(driver):
    driver.ok("declare -ix n=3; declare -A h=([a]=$'1\\n2' [\"b c\"]=\"d'e\"); declare -r ro=1; a=([5]=five); shopt -s extglob nullglob expand_aliases; cd /; IFS=:; umask 022; set -- 'p q' r; f() { echo f; }; export -f f; alias hi='echo hi'; trap 'echo usr1' USR1; exec 8>&1; c=$'\\xff\\xfe'; declare -n ref=n; sleep 60 & p=$!")
    driver.ok("before=$(trap; declare -p h ro a n c ref; declare -F; alias; shopt; set +o; pwd; umask; printf '%q,' \"$@\" \"$IFS\" $$)")
    after = "after=$(trap; declare -p h ro a n c ref; declare -F; alias; shopt; set +o; pwd; umask; printf '%q,' \"$@\" \"$IFS\" $$); [[ $before == \"$after\" ]] || diff <(echo \"$before\") <(echo \"$after\")"
    failed(driver.run("echo 1; exit 3; echo 2"), "exit status", "3")
    equal(driver.run(after).out, "", "state")
    cell = driver.run("x=new; g() { y=new; false; exit; }; g")
    failed(cell, "exit status", "1")
    equal(driver.ok("unset -f g; echo $x $y; f; hi; kill -USR1 $$; bash -c f; echo to8 >&8").out, "new new\nf\nhi\nusr1\nf\nto8\n", "what it set")
    equal(driver.ok("echo 1; exit 0; echo 2").out, "1\n", "exit 0")
    cell = driver.run("set -euo pipefail\necho 1\nfalse | true\necho 2")
    failed(cell, "exit status", "1")
    equal(cell.out, "1\n", "before")
    failed(driver.run("ls /nonexistent 2>/dev/null; echo 2"), "exit status", "2")
    check("e" in driver.ok("echo $-; set +eu +o pipefail").out, "it stays")
    equal(driver.run(after).out, "", "state")
    cell = driver.run("set -u\necho $unset\necho 2")
    equal((cell.status, cell.out, "unset: unbound variable" in cell.err), ("error", "", True), f"{cell}")
    cell = driver.run("set +u; echo ${unset:?is needed}\necho 2")
    equal((cell.status, cell.out, "is needed" in cell.err), ("error", "", True), f"{cell}")
    equal(driver.ok("(exit 3); echo $?; x=$(exit 4); echo $?; kill $p; exit 0").out, "3\n4\n", "a subshell")
    equal(driver.run(after).out, "", "state")


@test("where POSIX is asked for, by a variable or by the code, it stays, and so does the shell", {"POSIXLY_CORRECT": "1"})
def _(driver):
    asked = "echo $x $(f); printenv POSIXLY_CORRECT; shopt -qo posix && echo posix"
    failed(driver.run("x=1; f() { echo f; }; exit 3"), "exit status", "3")
    equal(driver.ok(asked).out, "1 f\n1\nposix\n", "by a variable")
    equal(driver.run("set +o posix; exit 0").status, "ok", "without it")
    equal(driver.ok(f"{asked}; x=2").out, "1 f\n", "without it")
    equal(driver.run("set -o posix; exit 0").status, "ok", "by the code")
    equal(driver.ok(asked).out, "2 f\nposix\n", "by the code")


@test("a trap for EXIT runs when a cell exits, once, or with the end of the shell")
def _(driver):
    driver.ok("trap 'echo bye $?; exit 5' EXIT")
    equal(driver.ok("trap").out, "trap -- 'echo bye $?; exit 5' EXIT\n", "trap")
    cell = driver.run("exit 2")
    equal((cell.out, cell.error.message), ("bye 2\n", "2"), f"{cell}")
    failed(driver.run("exit 2"), "exit status", "2")
    equal(driver.ok("(trap 'echo sub' EXIT); trap").out, "sub\n", "a subshell's")
    driver.ok("trap 'echo over >over' EXIT")
    driver.end()
    equal((driver.workspace / "over").read_text(), "over\n", "at the end")


@test("a syntax error has its line, and the state stays")
def _(driver):
    failed(driver.run("echo a\nif then\n"), "syntax error", "near unexpected token `then'", 2)
    matches(driver.last.error.trace, "^<cell 1>: line 2: syntax error near.*`then'\n<cell 1>: line 2: `if then'$", "trace")
    equal(driver.run("echo 'open\n").error.name, "syntax error", "an open quote")
    failed(driver.run("f() { return 2; }; f"), "exit status", "2")
    failed(driver.run("bash -c 'kill -SEGV $$'"), "exit status", "139 (SIGSEGV)")
    cell = driver.run("echo 1\n\nnosuchcommand")
    failed(cell, "exit status", "127")
    check("line 3: nosuchcommand: command not found" in cell.err, cell.err)


@test("a function that calls itself without end is an error")
def _(driver):
    cell = driver.ok("x=1; f() { local a=1; if true; then eval f; fi; }; f; echo $?", 180)
    equal(cell.out, "1\n", "status")
    check("maximum function nesting level exceeded" in cell.err, cell.err)
    equal(driver.ok("echo $x").out, "1\n", "state")


@test("code is read to the byte")
def _(driver):
    equal(driver.ok("echo 'größe 😀'").out, "größe 😀\n", "UTF-8")
    equal(driver.run(b"echo a\0b\n").error.name, "NUL byte", "NUL")
    equal(driver.run(b"\0").error.name, "NUL byte", "NUL")
    equal(driver.ok("").out, "", "nothing")
    equal(driver.ok("LC_ALL=C; IFS=x; echo 'ä'").out, "ä\n", "in C")
    equal(driver.ok("echo äx 'äx'; unset LC_ALL IFS").out, "äx äx\n", "in C")
    big = "x='" + "ä" * 300000 + "'\necho ${#x}"
    equal(driver.ok(big).out, "300000\n", "a large one")
    equal(driver.ok("cat <<A\nheredoc\nA").out, "heredoc\n", "a heredoc")
    equal(driver.ok("cat <<'A'\nheredoc\nA\n\n\n").out, "heredoc\n", "a heredoc")
    equal(driver.ok("printf '\\xff\\x00\\xfe'").stdout, b"\xff\0\xfe", "binary")
    equal(driver.ok("exit 0 # after ä" + "ä" * 100).out, "", "exit")


@test("the code reads the end of its input, and its programs have no descriptors of the driver's")
def _(driver):
    equal(driver.run("read x; echo $?; cat").out, "1\n", "input")
    requests = os.readlink(f"/proc/{driver.process.pid}/fd/252")
    for code in ("ls -l /proc/self/fd", "exit 0", "exec 3>x 10>y 11>z; ls -l /proc/self/fd"):
        cell = driver.ok(code)
        check(requests not in cell.out and os.readlink(f"/proc/self/fd/{driver.replies}") not in cell.out, cell.out)
    driver.ok("return 0; echo NO")


@test("set -x and set -v do not show the driver")
def _(driver):
    driver.ok("set -x")
    cell = driver.ok("echo a")
    equal(cell.out, "a\n", "out")
    check(cell.err.endswith("+ echo a\n"), cell.err)
    driver.ok("exit 0")
    cell = driver.ok("set +x; set -v")
    driver.ok("set +v")


@test("a thousand cells leave nothing, and a driver that is interrupted in each")
def _(driver):
    for _ in range(100):
        driver.ok("x=1; f() { :; }")
    before = driver.rss()
    for _ in range(1000):
        driver.ok("x=1; f() { echo ä; }; f")
    check(driver.rss() < before + 1024, f"{before} KiB before, {driver.rss()} after")
    for i in range(12):
        driver.start("while :; do :; done")
        time.sleep(0.001 * (i % 10))
        driver.interrupt()
        if i % 3 == 0:
            driver.interrupt()
        while not driver.last.status:
            try:
                driver.finish(0.05)
            except Exception:
                driver.interrupt()
        equal(driver.last.status, "interrupted", f"{i}")
    equal(driver.ok("echo $x").out, "1\n", "state")
