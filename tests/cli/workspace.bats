#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --workspace: a directory of the caller's as the working directory.

load helpers

refused() { # words that the first line must have, then the options
  local words=$1
  shift
  box "$@" -- sh -c 'echo RAN'
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: --workspace"*"$words"* ]]
  [ "$(wc -l <<<"$stderr")" -le 2 ]
}

@test "workspace: what is in it is seen, and what is made belongs to the caller" {
  mkdir -p mine/sub
  echo there >mine/file
  for who in 0 1000 1000:100; do
    rm -rf mine/made mine/sub/link
    box --workspace mine -u "$who" -- sh -c 'pwd && cat file && echo new >made && chmod 4755 made 2>/dev/null; ln -s /etc/passwd sub/link && rm file && stat -c %u:%g .'
    [ "$status" = 0 ]
    [[ $who = *:* ]] || who=$who:$who
    [ "$output" = $'/workspace\nthere\n'"$who" ]
    [ "$(cat mine/made)" = new ]
    [ "$(stat -c %u:%g mine/made)" = "$(id -u):$(id -g)" ]
    [ "$(readlink mine/sub/link)" = /etc/passwd ]
    [ ! -e mine/file ]
    echo there >mine/file
  done
}

@test "workspace: with root emulation too" {
  mkdir -m 700 mine
  box --workspace mine --root-emulation -- sh -c 'mkdir d && touch d/f && chown 5:5 d/f && chmod 0 d && ls d && mknod dev c 1 3 && ls'
  [ "$status" = 0 ]
  [ "$output" = $'f\nd' ]
  [ "$(stat -c %u:%g:%a mine/d)" = "$(id -u):$(id -g):0" ]
  chmod 700 mine/d
}

@test "workspace: the command starts there with any root, unless it is told otherwise" {
  mkdir -p mine tree
  cp "$load" tree/load
  box --workspace mine --rootfs tree -- /load write file 1
  [ "$status" = 0 ]
  [ -s mine/file ]
  rm mine/file
  box --workspace mine -w /tmp -- sh -c 'pwd; touch x'
  [ "$output" = /tmp ]
  [ -z "$(ls mine)" ]
}

@test "workspace: a read-only root leaves it writable" {
  mkdir mine
  box --workspace mine --read-only -- sh -c 'touch made && ! touch /made'
  [ "$status" = 0 ]
  [ -e mine/made ]
}

@test "workspace: links in it lead nowhere outside" {
  mkdir mine
  echo secret >secret
  ln -s "$place/secret" mine/absolute
  ln -s ../secret mine/relative
  ln -s ../../../../../../../etc/shadow mine/shadow
  box --workspace mine -- sh -c 'cat absolute relative shadow; echo x >absolute; echo x >relative'
  [ -z "$output" ]
  [ "$(cat secret)" = secret ]
  ln -s mine link
  box --workspace link -- sh -c 'touch made'
  [ -e mine/made ]
}

@test "workspace: mounts below it are seen, wherever they are given" {
  mkdir -p mine/sub other
  touch other/seen
  for options in "--bind other:/workspace/sub --workspace mine" "--workspace mine --bind other:/workspace/sub"; do
    box $options -- ls sub
    [ "$output" = seen ]
  done
  box --workspace mine --tmpfs /workspace/sub -- touch sub/x
  [ -z "$(ls mine/sub)" ]
}

@test "workspace: --disk does not hold there" {
  mkdir mine
  box --workspace mine --disk 1m -- sh -c 'head -c 3000000 /dev/zero >f'
  [ "$status" = 0 ]
  [ "$(stat -c %s mine/f)" = 3000000 ]
}

@test "workspace: what cannot be one is refused in one line" {
  mkdir mine
  touch file
  refused '"nothing": No such file or directory' --workspace nothing
  refused '"file": Not a directory' --workspace file
  refused '"/" is the host'"'"'s root' --workspace /
  refused '"/proc/self/root" is the host' --workspace /proc/self/root
  refused 'given twice' --workspace mine --workspace mine
  refused 'and --bind at /workspace contradict' --workspace mine --bind "$place:/workspace"
  refused 'and --ro-bind at /workspace contradict' --ro-bind "$place:/./workspace/" --workspace mine
  refused 'and --tmpfs at /workspace contradict' --workspace mine --tmpfs //workspace/.
  if am_root; then
    chown 12345 mine
    refused '"mine" is not the caller'"'"'s, but user 12345' --workspace mine
  else
    refused '"/usr" is not the caller'"'"'s, but user 0' --workspace /usr
  fi
}

@test "workspace: code of a language is among the caller's files, in place of none, and does not stay" {
  command -v python3 >/dev/null || skip "no python3"
  mkdir mine
  echo 'answer = 42' >mine/mine.py
  echo theirs >mine/main.py
  for again in 1 2; do
    box --workspace mine --image none --lang python -c 'import mine; print(mine.answer, end="")
open("made", "a").write("x")'
    [ "$output" = 42 ]
  done
  box --workspace mine --image none --lang python -c 'raise SystemExit(3)'
  [ "$status" = 3 ]
  box --workspace mine --image none --timeout 200ms --lang python -c 'import time; time.sleep(60)'
  [ "$status" = 124 ]
  rm -rf mine/__pycache__
  [ "$(cd mine && echo *)" = 'made main.py mine.py' ]
  [ "$(cat mine/main.py mine/made)" = $'theirs\nxx' ]
}

@test "workspace: of a session, too" {
  mkdir mine runtime
  export XDG_RUNTIME_DIR=$place/runtime
  observe "$nsbox" session new --workspace mine
  [ "$status" = 0 ]
  id=$output
  observe "$nsbox" session exec "$id" sh -c 'pwd; echo x >made'
  "$nsbox" session stop "$id"
  [ "$output" = /workspace ]
  [ "$(stat -c %u mine/made)" = "$(id -u)" ]
}
