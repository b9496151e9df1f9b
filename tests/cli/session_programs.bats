#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs in a session: text in a language, beside the files of the workspace.

load helpers
load sessions

program() {
  observe timeout 60 "$nsbox" session exec "$@"
}

@test "a program finds what is in the workspace, and leaves neither itself nor what a compiler made" {
  session
  echo 'def f(): return 42' >module.py
  echo '#define ANSWER 43' >answer.h
  "$nsbox" session cp module.py "$id:/workspace/module.py"
  "$nsbox" session cp answer.h "$id:/workspace/answer.h"
  program --lang python -c 'import module, sys; print(module.f(), sys.argv[1:])' "$id" a 'b c'
  [ "$status" -eq 0 ]
  [ "$output" = "42 ['a', 'b c']" ]
  program --lang c -c '#include "answer.h"
#include <stdio.h>
int main(void) { printf("%d\n", ANSWER); return 3; }' "$id"
  [ "$status" -eq 3 ]
  [ "$output" = 43 ]
  program "$id" sh -c 'ls -A /workspace; ls -A /tmp/.nsbox'
  [ "$output" = $'answer.h\nmodule.py' ] || [ "$output" = $'answer.h\nmodule.py\n/tmp/.nsbox' ]
}

@test "a program reads standard input, and one that comes by it has none" {
  session
  printf 'import sys; print(sys.stdin.read())' >read.py
  [ "$(timeout 60 "$nsbox" session exec --lang python "$id" read.py <<<'some input')" = 'some input' ]
  [ "$(timeout 60 "$nsbox" session exec --lang python "$id" - <read.py)" = '' ]
  timeout 60 "$nsbox" session exec --lang c "$id" - <<<'#include <stdio.h>
int main(void) { return getchar() == EOF ? 7 : 8; }' || status=$?
  [ "$status" -eq 7 ]
}

@test "programs of one session at a time do not meet" {
  session
  for i in 1 2 3 4 5 6; do
    timeout 120 "$nsbox" session exec --lang c -c "#include <stdio.h>
int main(void) { printf(\"%d\\n\", $i); return 0; }" "$id" >"out$i" &
  done
  wait
  [ "$(cat out1 out2 out3 out4 out5 out6)" = "$(seq 6)" ]
}

@test "a session has a language, and says where none is named" {
  session
  program -c 'print(1)' "$id"
  [ "$status" -eq 125 ]
  [[ $stderr == *'which language is the code in?'$'\n''nsbox: name it with --lang' ]]
  program --context one -c 'print(1)' "$id"
  [ "$status" -eq 125 ]
  [[ $stderr == *'which language is the code in?'$'\n''nsbox: name it with --lang' ]]
  session --lang py
  program -c 'print(1)' "$id"
  [ "$output" = 1 ]
  program "$id" sh -c 'echo $PYTHONUTF8'
  [ "$output" = 1 ]
  observe "$nsbox" session new --lang cobol
  [ "$status" -eq 125 ]
  [[ $stderr == *'unknown language "cobol"'* ]]
  program --lang cobol -c x "$id"
  [ "$status" -eq 125 ]
  [[ $stderr == *'unknown language "cobol"'* ]]
}

@test "what a compiler says is there, and the file keeps its line" {
  session
  program --lang c -c 'int main(void) {
  return x; }' "$id"
  [ "$status" -ne 0 ]
  [[ $stderr == *'exec_1.c:2:10: error: '* ]]
}

@test "no source of a program is left when it has ended" {
  mkdir mine
  session --workspace mine
  for i in 1 2 3 4 5 6 7 8; do
    program -c 'pass' --lang python "$id"
    [ -z "$(ls mine)" ]
  done
}
