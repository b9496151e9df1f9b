#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Interactive interpreters of languages, in a session, on a terminal: nsbox session repl.

load helpers
load sessions

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime TERM=vt100
  mkdir -m 700 runtime
}

none_left() {
  [ -z "$("$nsbox" session ls -q)" ]
}

# Acts at the interpreter of language $1, with $2, a program, in the root: steps of pty.c.
at_repl() {
  local language=$1
  type -P "$2" >/dev/null || skip "there is no $2"
  shift 2
  run timeout 60 "$pty" size:24x80 "$@" -- "$nsbox" session repl "$language" ${NSBOX_TEST_OPTIONS:-} "${more[@]}"
  echo "# status $status: $output"
}

# A value, which the next line still has; an endless loop, which an interrupt ends and nothing else; the end of input.
# (libedit, as PHP has it, takes a ^D for a character of the line where it comes between the prompt and the terminal's mode: ^U.)
# $1: language, $2: program, $3: prompt, $4: sets x to 7000 and shows it + 42, $5: shows 6990 + 9 and does not end, $6: shows x + 43
behaves() {
  at_repl "$1" "$2" "wait:$3" "type:$4\\r" wait:7042 "wait:$3" "type:$5\\r" wait:6999 pause:300 'type:\x03' "wait:$3" 'type:\r' "wait:$3" \
    "type:$6\\r" wait:7043 "wait:$3" 'end:\x15\x04'
  [ "$status" = 0 ]
  [[ $output = *"[pty at the end: cooked]" ]]
  none_left
}

@test "python" {
  behaves python python3 '>>> ' 'x = 7000; x + 42' 'exec("print(6990 + 9)\\nwhile True: pass")' 'x + 43'
}

@test "javascript" {
  behaves javascript node '> ' 'x = 7000; x + 42' 'console.log(6990 + 9); while (true);' 'x + 43'
}

@test "typescript" {
  type -P tsc >/dev/null || node -e 'process.exit(require("module").stripTypeScriptTypes ? 0 : 1)' || skip "there is no tsc"
  # A type that is no JavaScript, and a block over lines.
  behaves ts node '> ' 'interface A { n: number }\rvar a: A = {\rn: 7042\r}\rvar x: number = 7000; a.n' 'console.log(6990 + 9); while (true);' 'x as number + 43'
}

@test "bash" {
  behaves bash bash '# ' 'PS1="# "; x=7000; echo $((x + 42))' 'echo $((6990 + 9)); while :; do :; done' 'echo $((x + 43))'
}

@test "ruby" {
  # Its line editor asks the terminal where the cursor is.
  asked=('wait:[6n' 'type:\x1b[1;1R')
  at_repl ruby irb "${asked[@]}" "${asked[@]}" 'wait:> ' pause:300 'type:x = 7000; x + 42\r' wait:7042 "${asked[@]}" 'wait:> ' pause:300 \
    'type:puts 6990 + 9; loop {}\r' wait:6999 pause:300 'type:\x03' "${asked[@]}" 'wait:> ' pause:300 'type:x + 43\r' wait:7043 "${asked[@]}" 'wait:> ' 'end:\x04'
  [ "$status" = 0 ]
  none_left
}

@test "r" {
  behaves r R '> ' 'x <- 7000; x + 42' '{cat(6990 + 9, "\\n"); repeat {}}' 'x + 43'
}

@test "php" {
  php -m 2>/dev/null | grep -qx readline || skip "there is no php with readline"
  php -m | grep -qx pcntl || skip "there is no php with pcntl"
  behaves php php 'php > ' '$x = 7000; echo $x + 42;' 'echo 6990 + 9; while (true);' 'echo $x + 43;'
}

@test "lua" {
  program=$(compgen -c lua | grep -m 1 -E '^lua(5\.4)?$' || true)
  behaves lua "${program:-lua}" '> ' 'x = 7000; print(x + 42)' 'print(6990 + 9) while true do end' 'print(x + 43)'
}

@test "perl" {
  behaves perl perl 'perl> ' '$x = 7000; sub add {\r$x + shift\r}; add(42)' 'print 6990 + 9, "\\n"; 1 while 1;' 'add(43)'
}

@test "java" {
  more=(-m 1g)
  behaves java jshell 'jshell> ' 'int x = 7000; x + 42' '{ System.out.println(6990 + 9); while (true); }' 'x + 43'
}

@test "an interrupt at the prompt ends the line, and nothing else" {
  for each in 'python python3 >>>' 'javascript node >' 'perl perl perl>'; do
    read -r language program prompt <<<"$each"
    at_repl "$language" "$program" "wait:$prompt " 'type:what is this' pause:200 'type:\x03' pause:300 'type:\r' 'type:7000 + 42\r' wait:7042 "wait:$prompt " 'end:\x04'
    [ "$status" = 0 ]
  done
}

@test "the status is the interpreter's, and a change of the size is passed on" {
  at_repl bash bash 'wait:# ' size:31x91 'type:until stty size | grep "31 9[1]"; do sleep 0.1; done\r' 'wait:31 91' 'type:exit 7\r'
  [ "$status" = 7 ]
  none_left
}

@test "in a given session: its files, its variables, and what was typed stay" {
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-} --env GREETING=hello)
  echo 'def double(n): return 2 * n' >module.py
  "$nsbox" session cp module.py "$id:module.py"
  run timeout 60 "$pty" size:24x80 'wait:>>> ' 'type:import module, os; module.double(3521), os.environ["GREETING"]\r' "wait:(7042, 'hello')" \
    'type:open("left", "w").write("text")\r' 'wait:>>> ' 'type:exit(3)\r' -- "$nsbox" session repl python --session "${id:0:12}"
  echo "# $output"
  [ "$status" = 3 ]
  [ "$("$nsbox" session exec "$id" cat left)" = text ]
  [ "$("$nsbox" session ps --json "$id" | jq length)" = 0 ]
  "$nsbox" session exec "$id" sh -c 'grep -q module.double ~/.python_history'
  # Nothing of it is left beside that.
  [ -z "$("$nsbox" session exec "$id" find /tmp -mindepth 2 2>/dev/null)" ]
}

@test "--keep: the session lives on" {
  run timeout 60 "$pty" 'wait:>>> ' 'type:open("left", "w").write("text")\r' 'wait:>>> ' 'end:\x04' -- "$nsbox" session repl ${NSBOX_TEST_OPTIONS:-} --keep python
  [ "$status" = 0 ]
  id=$("$nsbox" session ls -q)
  [[ $output = *"nsbox: session $id"* ]]
  [ "$("$nsbox" session exec "$id" cat left)" = text ]
}

@test "kill -9 of nsbox, and the end of the terminal: nothing is left" {
  for signal in KILL HUP; do
    "$pty" 'wait:>>> ' pause:500 "signal:$signal" -- "$nsbox" session repl ${NSBOX_TEST_OPTIONS:-} python >out 2>&1 || true
    eventually none_left
    eventually not_running
  done
}

@test "a session can be made on a terminal" {
  run timeout 60 "$pty" -- "$nsbox" session new ${NSBOX_TEST_OPTIONS:-}
  echo "# $output"
  [ "$status" = 0 ]
  [ "$("$nsbox" session exec "$("$nsbox" session ls -q)" echo well)" = well ]
}

@test "mistakes are told" {
  observe "$nsbox" session repl python
  [ "$status" = 125 ]
  [[ $stderr = *"is for a terminal, and standard input is none"*"session exec --lang"* ]]
  refused() {
    local expected=$1
    shift
    run timeout 60 "$pty" -- "$nsbox" session repl "$@"
    echo "# $*: $output"
    [ "$status" = 125 ]
    [[ $output = *"$expected"* ]]
  }
  refused 'Go has no interactive interpreter' go
  [[ $output = *'these have one: bash, java, javascript, lua, perl, php, python, r, ruby, typescript'* ]]
  refused 'unknown language "klingon"' klingon
  refused 'of which language?'
  refused 'takes one language' python ruby
  refused 'the other options are for a new one' --session 0123456789abcdef0123456789abcdef python --memory 1g
  refused 'there is no session' python --session 0123456789abcdef0123456789abcdef
  refused 'option --session needs an argument' python --session
  refused 'has its language already' python --lang ruby
  none_left
}
