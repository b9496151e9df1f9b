#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Completion in bash: the function is called as bash calls it, with the words that bash makes of a line.

bats_require_minimum_version 1.5.0

setup() {
  nsbox=$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")
  completion=$(realpath "$BATS_TEST_DIRNAME/../../contrib/bash-completion/nsbox")
  export NSBOX_LANGUAGES_DIR=$BATS_TEST_TMPDIR/languages XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/home
  mkdir -p "$NSBOX_LANGUAGES_DIR" "$XDG_CONFIG_HOME/nsbox/languages"
  cd "$BATS_TEST_TMPDIR"
}

# What completes the last of the words, sorted, in one line.
completes() {
  # shellcheck disable=SC2016
  bash --norc -c '
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    [[ $(complete -p nsbox) = "complete -F _nsbox nsbox" ]] || exit 1
    _nsbox "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' completion "$completion" "$nsbox" "$@" | sort -u | xargs
}

is() { # $1: what is wanted; then the words
  local wanted=$1 seen
  shift
  seen=$(completes "$@")
  [ "$seen" = "$wanted" ] || { echo "$*: ${seen:0:500}, not $wanted"; return 1; }
}

@test "completion: commands are those of nsbox --help" {
  local commands
  commands=$("$nsbox" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
  [ -n "$commands" ]
  is "$({ echo "$commands"; echo --help; echo --version; } | sort | xargs)" ""
  is "run" ru
  is "$(sort <<<"$commands" | xargs)" help ""
  is "" help run ""
}

@test "completion: options of each command are those of its --help" {
  local command commands options
  commands=$("$nsbox" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
  [ -n "$commands" ]
  for command in $commands; do
    [ "$command" != help ] || continue
    options=$("$nsbox" "$command" --help | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+')
    [ -n "$options" ]
    is "$(sort -u <<<"$options" | xargs)" "$command" --
  done
}

@test "completion: what takes an argument, and what does not" {
  # The first word of a description must not be taken for an argument.
  local command options words
  for command in run check mcp; do
    options=$(bash -c 'source "$1"; _nsbox_options "$2" "$3"' completion "$completion" "$nsbox" "$command")
    words=$(awk 'NF > 1 { print $2 }' <<<"$options" | grep -vE '^([[]?[A-Z]+[][A-Z:=|,]*(\[:ro\])?|[A-Z]+\|[a-z]+|[a-z]+=?(\|[a-z]+=?)+)$') || true
    [ -z "$words" ] || { echo "$command: $words"; return 1; }
    grep -qE '^--(timeout|rootfs) [A-Z]+$' <<<"$options"
    grep -qE '^--(help|json) $' <<<"$options"
  done
}

@test "completion: beginnings of options, also after others" {
  is "--memory" run --mem
  is "--tty" run -m 1g -e A=b --tt
  is "" run --no-such
  is "--max-memory --max-parallel --max-sessions --max-timeout" mcp --max-
}

@test "completion: languages after --lang, the user's own too" {
  touch "$NSBOX_LANGUAGES_DIR/python.json" "$NSBOX_LANGUAGES_DIR/perl.json" "$XDG_CONFIG_HOME/nsbox/languages/own.json"
  is "own perl python" run --lang ""
  is "perl python" run --lang p
  is "python" run --lang = py
  is "own perl python" session repl ""
  is "--keep" session repl python --ke
  is "pause" session pa
  is "own perl python" languages ""
  is "perl python" languages own p
}

@test "completion: languages of the installed folder" {
  mkdir -p prefix/bin prefix/share/nsbox/languages
  cp "$nsbox" prefix/bin/nsbox
  touch prefix/share/nsbox/languages/lua.json
  unset NSBOX_LANGUAGES_DIR
  nsbox=$PWD/prefix/bin/nsbox
  is "lua" run --lang ""
}

@test "completion: files and directories where they belong" {
  mkdir -p x/folder
  touch x/file "x/a space" "x/a space [*]"
  is "x/folder" run --rootfs x/
  is "x/folder" run --cgroup x/
  is "x/folder" run -w x/
  is "x/a space x/a space [*] x/file x/folder" run --env-file x/
  is "x/file x/folder" run --bind x/f
  is "" run --bind x/file : /wor
  is "x/file x/folder" run --config x/f
  is "x/folder" check --rootfs x/f
  touch default.json
  is "default default.json" run --seccomp def
  is "strict" run --seccomp str
  is "x/file x/folder" run --lang python x/f
  is "x/file x/folder" run cat x/f
}

@test "completion: words of an option that has a few" {
  is "allow= host none pasta" run --network ""
  is "host" run --network = h
  is "" run --memory ""
}

@test "completion: variables after --env, and nothing to complete in their values" {
  export NSBOX_COMPLETION_TEST=1
  is "NSBOX_COMPLETION_TEST" run -e NSBOX_COMPL
  is "NSBOX_COMPLETION_TEST" run --env NSBOX_COMPL
}

@test "completion: a command of nsbox run, and then no option of ours" {
  [[ " $(completes run ech) " = *" echo "* ]]
  [[ " $(completes run -m 1g -- ech) " = *" echo "* ]]
  [[ " $(completes run -t ech) " = *" echo "* ]]
  is "" run ls --mem
}

@test "completion: images of the store, also after a colon" {
  local layout=$BATS_TEST_TMPDIR/tree name
  [ -x "${nsbox%/*}/nsbox-image" ] || skip "this build has no images"
  export NSBOX_STORE=$BATS_TEST_TMPDIR/store
  is "none" run --image ""
  mkdir -p "$layout/bin"
  for name in localhost/nsbox/python python:3.13-slim python:3.12 ghcr.io/owner/tool:1; do
    tar -C "$layout" -c . | "$nsbox" images import - "$name" >/dev/null
  done
  is "ghcr.io/owner/tool:1 localhost/nsbox/python none python:3.12 python:3.13-slim" run --image ""
  is "localhost/nsbox/python" run --lang python --image loc
  is "python:3.12 python:3.13-slim" run --image = py
  is "3.12 3.13-slim" run --image python : 3
  is "3.13-slim" images rm x python : 3.13
  is "ghcr.io/owner/tool:1" images inspect gh
  is "python:3.12 python:3.13-slim" images export py
  is "tree" images export python : 3.12 tr
  is "export import inspect ls prune pull rm" images ""
  is "--all" images prune --a
}

@test "completion: commands of nsbox session, and snapshots" {
  export NSBOX_STORE=$BATS_TEST_TMPDIR/store XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/runtime
  local id=0123456789abcdef0123456789abcdef
  mkdir -p -m 700 "$NSBOX_STORE" "$XDG_RUNTIME_DIR"
  mkdir -p "$NSBOX_STORE"/snapshots/{records,layers}
  echo '{"version": 1, "id": "'$id'", "name": null, "session": "'$id'", "parent": null, "created_s": 1, "shared": false,
    "copied": false, "bytes": 0, "layers": [], "packages": null, "spec": {}, "options": {}}' >"$NSBOX_STORE/snapshots/records/$id"
  is "repl restore resume" session re
  is "commit context cp" session c
  is "end interrupt ls restart" session context ""
  is "" session context ls ""
  is "$id" session commit ""
  is "$id" session fork 01
  is "" session restore ""
  is "$id" session restore x ""
  is "rm" session snapshots ""
  is "$id" session snapshots rm ""
  is "--changes --code --context" session exec 01 --c
  is "" session exec 01 ls --c
  is "--lang" session install 01 --la
  is "--author --change --help --json --message --quiet" session commit --
}
