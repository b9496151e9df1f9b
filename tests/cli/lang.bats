#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `nsbox run --lang`: a file, standard input or -c, in each of the languages.

load helpers

need() {
  command -v "$1" >/dev/null || skip "no $1"
}

# Code $2 in language $1, in each of the three ways, with arguments; each must write $3.
three_ways() {
  printf '%s' "$2" >code
  box --lang "$1" code "one two" three
  [ "$status" = 0 ]
  [ "$output" = "$3" ]
  output=$("$nsbox" run --lang "$1" - "one two" three <code)
  [ "$output" = "$3" ]
  box --lang "$1" -c "$2" "one two" three
  [ "$status" = 0 ]
  [ "$output" = "$3" ]
}

@test "python" {
  need python3
  three_ways python 'import sys
print(sys.argv[1:], "grün")' "['one two', 'three'] grün"
  three_ways py 'import sys; print(len(sys.argv))' 3
}

@test "bash" {
  three_ways bash 'echo "$# $1 $2"; [[ a = a ]]' "2 one two three"
}

@test "c" {
  need gcc
  three_ways c '#include <stdio.h>
int main(int argc, char **argv) { printf("%d %s %s\n", argc, argv[1], argv[2]); return 0; }' "3 one two three"
}

@test "javascript" {
  need node
  three_ways javascript 'console.log(process.argv.slice(2).join("|"))' "one two|three"
}

@test "standard input is the program's, where the code is not on it" {
  need python3
  output=$(echo typed | "$nsbox" run --lang python -c 'print(input())')
  [ "$output" = typed ]
  output=$(echo typed | "$nsbox" run --lang bash -c 'read -r x; echo "$x"')
  [ "$output" = typed ]
  output=$("$nsbox" run --lang bash - <<<'read -r x || echo none')
  [ "$output" = none ]
  need gcc
  output=$(echo typed | "$nsbox" run --lang c -c '#include <stdio.h>
int main(void) { char s[9]; scanf("%8s", s); puts(s); }')
  [ "$output" = typed ]
}

@test "status: the program's own" {
  box --lang bash -c 'exit 42'
  [ "$status" = 42 ]
  need python3
  box --lang python -c 'import sys; sys.exit(7)'
  [ "$status" = 7 ]
  need gcc
  json --lang c -c 'int main(void) { return 9; }'
  [ "$status" = 9 ]
  is .phase run
  is '.phases | length' 2
}

@test "an exception has the line of the code, and the source's name" {
  need python3
  box --lang python -c 'x = 1

raise ValueError("wrong")'
  [ "$status" = 1 ]
  [[ $stderr = *"main.py\", line 3"*"ValueError: wrong"* ]]
  need node
  box --lang javascript -c '
throw new Error("wrong")'
  [ "$status" = 1 ]
  [[ $stderr = *"main.js:2"*"Error: wrong"* ]]
}

@test "a compile error: its line, its status, and that the program was not run" {
  need gcc
  json --lang c -c 'int main(void) {
  return undeclared;
}'
  [ "$status" = 1 ]
  is .phase compile
  is .ended_by exited
  is '.phases | length' 1
  [[ $(of .stderr) = *"main.c:2"*undeclared* ]]
  [[ $(of .message) = *compile* ]]
  box --lang c -c 'int main(void) { return undeclared; }'
  [ "$status" = 1 ]
  [[ $stderr = *"nsbox: compile failed"* ]]
}

@test "a package that is not there: what installs it is told, once the code has failed for it" {
  json --lang python -c 'import a_package_of_nobody'
  holds '.exit_code == 1 and (.hint | contains("--with"))'
  json --lang python -c 'try: import a_package_of_nobody
except ImportError as e: import sys; print(e, file=sys.stderr)'
  holds '.exit_code == 0 and .hint == null'
}

@test "a crash in C is a signal" {
  need gcc
  json --lang c -c 'int main(void) { *(volatile int *)0 = 1; }'
  is .ended_by signaled
  is .signal SIGSEGV
  [ "$status" = 139 ]
}

@test "limits hold for code, too" {
  need python3
  json --lang python --timeout 500ms -c 'while True: pass'
  [ "$status" = 124 ]
  is .ended_by timeout
  json --lang python -m 96m -c 'x = bytearray(1 << 30)'
  [ "$status" = 137 ]
  is .ended_by oom
}

@test "code that is empty, binary, without an end of line, or large" {
  : >empty
  box --lang bash empty
  [ "$status" = 0 ]
  box --lang bash -c 'echo -n x'
  [ "$output" = x ]
  { echo 'cat <<"END" | wc -c'; head -c 3000000 /dev/zero | tr '\0' a; printf '\nEND\n'; } >large
  box --lang bash large
  [ "$output" = 3000001 ]
}

@test "an absent file, an unknown language and no code are told" {
  box --lang bash "$place/absent"
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*absent* ]]
  box --lang no-such-language -c x
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*no-such-language* ]]
  [[ $stderr = *python* ]]
  box --lang python
  [ "$status" = 125 ]
}

@test "a file of the host that a bind shows is not overwritten by the code" {
  need python3
  mkdir -m 777 shared
  echo 'print("the host'"'"'s")' >shared/main.py
  before=$(cat shared/main.py; stat -c '%i %y' shared/main.py)
  box --bind "$place/shared:/workspace" --lang python -c 'print("new")'
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: "*"/workspace/main.py"*"not overwritten"* ]]
  [ "$(cat shared/main.py; stat -c '%i %y' shared/main.py)" = "$before" ]
}
