#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What commands of a session change in /workspace.

load helpers
load sessions

# Runs a line of shell: what changed is in $changes, a line each.
changing() {
  observe timeout 60 "$nsbox" session exec --changes "$id" sh -c "$1"
  changes=$stderr
}

# The same as an object, in $result.
telling() {
  observe timeout 60 "$nsbox" session exec --changes --json "$id" "$@"
  result=$(jq .changes <<<"$output")
}

@test "what was created, modified and deleted, with what is in directories" {
  session
  changing 'echo one >a; mkdir -p d/e; echo two >d/e/f; ln -s /etc link; mkfifo fifo; echo out'
  [ "$status" = 0 ]
  [ "$output" = out ]
  [ "$changes" = $'A a\nA d/\nA d/e/\nA d/e/f\nA fifo\nA link' ]
  changing true
  [ "$changes" = "" ]
  changing 'echo more >>a; rm fifo; rm -r d/e; : >d/e; chmod 700 d'
  [ "$changes" = $'A d/e\nM a\nM d/\nD d/e/\nD d/e/f\nD fifo' ]
  # What only reads, or writes elsewhere, changes nothing.
  changing 'cat a >/tmp/b; ls -lR / >/dev/null 2>&1; touch ~/c'
  [ "$changes" = "" ]
}

@test "the same content in the same number of bytes is modified, at once too" {
  session
  changing 'echo 0 >f'
  for i in {1..30}; do
    changing "echo $((i % 10)) >f"
    [ "$changes" = "M f" ]
  done
  changing 'cp f g; mv g f'
  [ "$changes" = "M f" ]
  changing 'touch -d 2001-01-01 f'
  [ "$changes" = "M f" ]
  changing 'mv f h'
  [ "$changes" = $'A h\nD f' ]
}

@test "with --json: sizes, sorted paths, and bytes that are not UTF-8" {
  session
  telling sh -c 'printf 12345 >b; mkdir a; : >a.txt; : >a/x; : >"$(printf "n\377")"; : >"ä
b"'
  holds '.created == [{"path": "a.txt", "size": 0}, {"path": "a/", "size": 0}, {"path": "a/x", "size": 0},
    {"path": "b", "size": 5}, {"path": {"base64": "bv8="}, "size": 0}, {"path": "ä\nb", "size": 0}]'
  holds '.modified == [] and .deleted == [] and .omitted == 0 and (has("incomplete") | not)'
  telling sh -c 'printf 1 >>b; rm -r a; rm n*'
  holds '. == {"created": [], "modified": [{"path": "b", "size": 6}],
    "deleted": ["a/", "a/x", {"base64": "bv8="}], "omitted": 0}'
  observe timeout 60 "$nsbox" session exec --json "$id" sh -c 'rm b'
  jq -e 'has("changes") | not' <<<"$output"
  # Not for a terminal to obey.
  changing ': >"$(printf "z\033[31m")"'
  [ "$changes" = "A z?[31m" ]
}

@test "many: two hundred are told of, those that lie deepest last" {
  session
  telling sh -c 'mkdir d; cd d; for i in $(seq 1000 1399); do : >$i; done; : >../z'
  holds '(.created | length) == 200 and .omitted == 202 and .created[0].path == "d/" and .created[199].path == "z"'
  changing 'rm -r d'
  [ "$(grep -c '^D d/' <<<"$changes")" = 200 ]
  [[ $changes = *$'\nnsbox: 201 more changes are not shown' ]]
}

@test "what was there before, by whomever, is not the command's" {
  session
  "$nsbox" session exec "$id" sh -c 'echo 1 >by-another-command'
  changing ': >a'
  [ "$changes" = "A a" ]
  echo content >file
  "$nsbox" session cp file "$id:/workspace/copied"
  "$nsbox" session cp file "$id:/workspace/a"
  changing ': >b'
  [ "$changes" = "A b" ]
  # What runs meanwhile is told of by all that see it.
  "$nsbox" session exec -d "$id" sh -c 'until [ -e go ]; do sleep 0.05; done; : >meanwhile'
  changing ': >go; until [ -e meanwhile ]; do sleep 0.05; done'
  [ "$changes" = $'A go\nA meanwhile' ]
}

@test "a directory of the host's, that changes from outside too" {
  mkdir bound
  session --bind "$place/bound:/workspace"
  changing ': >a'
  [ "$changes" = "A a" ]
  echo outside >bound/b
  changing ': >c'
  [ "$changes" = "A c" ]
  rm bound/a
  changing 'echo more >>b'
  [ "$changes" = "M b" ]
}

@test "a program's own source is none of it" {
  session
  for _ in 1 2 3; do
    observe timeout 60 "$nsbox" session exec --changes --lang bash -c 'echo x >>written; : >"new.$RANDOM"; ls' "$id"
    [[ $output = *exec_*.sh* ]]
    [[ $stderr = "A new."* ]]
    [[ $stderr = *written ]]
    [[ $stderr != *exec_* ]]
  done
  # Nor that of others that begin or end meanwhile.
  timeout 60 "$nsbox" session exec --changes "$id" sh -c ': >begun; until [ -e up ]; do sleep 0.05; done' 2>first &
  eventually "$nsbox" session exec "$id" test -e begun
  "$nsbox" session exec -d --lang bash -c ': >up; until [ -e go ]; do sleep 0.05; done' "$id"
  wait $!
  [ "$(cat first)" = $'A begun\nA up' ]
  changing ': >go; while [ "$(ls exec_*)" ]; do sleep 0.05; done 2>/dev/null'
  [ "$changes" = "A go" ]
}

@test "a command that is ended, or fails, or is none" {
  session -m 128m
  # With more time, where a busy machine does not come as far in less.
  for limit in '300 ms' '4 s' '20 s'; do
    observe timeout 60 "$nsbox" session exec --changes --timeout "${limit/ /}" "$id" sh -c ': >a; sleep 60'
    [ "$status" = 124 ]
    ! "$nsbox" session exec "$id" test -e a || break
  done
  [ "$stderr" = $'A a\nnsbox: killed: time limit of '"$limit reached; raise it with --timeout" ]
  observe timeout 60 "$nsbox" session exec --changes "$id" python3 -c 'open("b", "w"); x = bytearray(400 << 20); import time; time.sleep(60)'
  [ "$status" = 137 ]
  [[ $stderr = "A b"$'\n'"nsbox: killed: memory limit of 128 MiB"* ]]
  observe timeout 60 "$nsbox" session exec --changes "$id" sh -c ': >c; kill -9 $$'
  [ "$status" = 137 ]
  [[ $stderr = "A c"* ]]
  observe timeout 60 "$nsbox" session exec --changes "$id" nothing-of-this-name
  [ "$status" = 127 ]
  [ "$stderr" = "nsbox: nothing-of-this-name: no such program inside in PATH" ]
  telling nothing-of-this-name
  is . "$(jq -n '{created: [], modified: [], deleted: [], omitted: 0}')"
}

@test "where it is incomplete, it says so, and the command is none the worse" {
  session
  changing 'mkdir d; : >d/x; : >a'
  changing 'chmod 0 d; rm a'
  [ "$status" = 0 ]
  [ "$changes" = $'M d/\nD a\nnsbox: warning: not all changes are known: /workspace/d/ was not looked into: Permission denied' ]
  changing 'chmod 700 d; : >b'
  [[ $changes = $'A b\nM d/\n'*"/workspace/d/ was not looked into: Permission denied" ]]
  changing true
  [ "$changes" = "" ]
  changing 'mkdir many; cd many; i=0; while [ $i -lt 20001 ]; do : >$i; i=$((i + 1)); done; : >../c'
  [[ $changes = $'A c\nA many/\n'*": /workspace/many/ was not looked into: there are too many files and directories" ]]
  changing 'rm -r many'
  [[ $changes = $'D many/\n'*": /workspace/many/ was not looked into"* ]]
}

@test "hostile: no /workspace, another one, a link in its place" {
  session
  changing ': >a'
  changing 'rm -r /workspace'
  [ "$status" = 0 ]
  [ "$changes" = "D a" ]
  observe timeout 60 "$nsbox" session exec --changes -w / "$id" sh -c 'mkdir /workspace; : >/workspace/b'
  [ "$stderr" = "A b" ]
  changing 'rm -r /workspace; ln -s /etc /workspace'
  [ "$status" = 0 ]
  [ "$changes" = "nsbox: warning: not all changes are known: /workspace is no directory" ]
  observe timeout 60 "$nsbox" session exec --changes -w / "$id" sh -c 'rm /workspace; mkfifo /workspace'
  [ "$status" = 0 ]
  [ "$stderr" = "nsbox: warning: not all changes are known: /workspace is no directory" ]
}

@test "hostile: what looks at the files is killed, again and again" {
  session
  "$nsbox" session exec -d "$id" sh -c 'echo $$ >/tmp/killer; while :; do for p in /proc/[0-9]*; do p=${p#/proc/}
    [ $p = 1 ] || [ $p = $$ ] || [ -s /proc/$p/cmdline ] || kill -9 $p; done 2>/dev/null; done'
  for _ in {1..30}; do
    observe timeout 60 "$nsbox" session exec --changes --json "$id" true
    [ "$status" = 0 ] || [ "$status" = 137 ]
    jq -e '.changes | has("created")' <<<"$output"
  done
  "$nsbox" session ls --json | jq -e 'length == 1'
}

@test "several at the same time, each with its own" {
  session
  for i in {1..8}; do
    timeout 60 "$nsbox" session exec --changes --json "$id" sh -c "mkdir d$i; for i in \$(seq 50); do : >d$i/\$i; done" >out.$i &
  done
  wait
  for i in {1..8}; do
    jq -e --arg d "d$i/" '.status == 0 and (.changes | has("incomplete") | not) and
      (.changes.omitted > 0 or ([.changes.created[] | select(.path | startswith($d))] | length) == 51)' out.$i
  done
}

@test "--changes is told at the end, so not with --detach" {
  session
  observe "$nsbox" session exec --changes -d "$id" true
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: --changes "* ]]
}

@test "thousands of files, of which one has changed" {
  session
  "$nsbox" session exec "$id" sh -c 'for d in $(seq 50); do mkdir $d; for f in $(seq 100); do : >$d/$f; done; done'
  telling sh -c ': >1/1'
  holds '.modified == [{"path": "1/1", "size": 0}] and .created == [] and .deleted == []'
}
