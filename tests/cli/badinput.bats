#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Input that cannot be right: one clear line that names it, status 125, nothing run, and the same in JSON.

load helpers

# The arguments are refused: a line that contains $1, and perhaps a second one that says what to do.
refused() {
  local word=$1
  shift
  observe "$nsbox" run "$@" -- sh -c 'echo RAN'
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = "nsbox: "*"$word"* ]]
  [ "$(wc -l <<<"$stderr")" -le 2 ]
  observe "$nsbox" run --json "$@" -- sh -c 'echo RAN'
  [ "$status" = 125 ]
  [ "$(jq -r .ended_by <<<"$output")" = setup ]
  [[ $(jq -r .error.text <<<"$output") = *"$word"* ]]
}

@test "an unknown option, with the one that was meant" {
  refused "--no-such-option" --no-such-option
  refused "--timeout" --timout 5
  refused "-Z" -Z
  observe "$nsbox" run --memory
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: "*"--memory"*argument* ]]
}

@test "an unknown subcommand, and none" {
  observe "$nsbox" no-such-command
  [ "$status" = 125 ]
  [[ $stderr = *no-such-command* ]]
  observe "$nsbox"
  [ "$status" = 125 ]
}

@test "no command" {
  for arguments in "" "--" "-m 64m" "--json"; do
    observe "$nsbox" run $arguments
    [ "$status" = 125 ]
    [[ $output$stderr = *command* ]]
  done
  observe "$nsbox" run -- ""
  [[ $status = 12[57] ]]
  [ -n "$stderr" ]
}

@test "sizes" {
  for size in 0 -1 abc 12q "" 1.5.5 99999999999g 18446744073709551616 "1 m" 0x10 1k; do
    refused memory --memory="$size"
  done
  for size in 0 -1 abc "" 99999999999g; do
    refused disk --disk="$size"
    observe "$nsbox" run --json --output-limit="$size" -- sh -c 'echo RAN'
    [ "$status" = 125 ]
    [[ $(jq -r .error.text <<<"$output") = *output-limit* ]]
  done
  refused --file-size --file-size=abc
}

@test "times" {
  for time in -1 abc 5x "" 1e9 99999999999999999999 "5 s" .; do
    refused --timeout --timeout="$time"
  done
}

@test "numbers" {
  for number in 0 -1 abc "" 99999999999 1.5; do
    refused --pids-limit --pids-limit="$number"
  done
  for number in -1 abc "" 1000000 0.0001; do
    refused --cpus --cpus="$number"
  done
  refused --open-files --open-files=abc
}

@test "users" {
  for user in -1 abc 65536 "" : 1: :1 1:abc 4294967295 1:2:3; do
    refused --user --user="$user"
  done
}

@test "variables" {
  refused --env -e =x
  refused --env -e ""
  refused no-such-file --env-file "$place/no-such-file"
}

@test "folders and files" {
  echo x >file
  refused absent --rootfs "$place/absent"
  refused file --rootfs "$place/file"
  refused absent --bind "$place/absent:/x"
  refused absent --ro-bind "$place/absent:/x"
  refused relative --bind "$place:relative"
  refused --bind --bind "$place"
  refused --bind --bind ":"
  refused relative --tmpfs relative
  refused .. --tmpfs /a/../b
  refused relative -w relative
  refused "" --bind "$place:/"
  refused absent --seccomp "$place/absent"
  refused file --seccomp "$place/file"
  refused absent --cgroup "$place/absent"
}

@test "networks and names" {
  refused --network --network bridge
  refused hostname --hostname ""
  refused hostname --hostname "$(printf 'x%.0s' {1..65})"
}

@test "options that contradict each other" {
  refused "contradict" -t -T
  observe "$nsbox" run -t --json -- true
  [ "$status" = 125 ]
  observe "$nsbox" run --output-limit 1m -- true
  [ "$status" = 125 ]
  [[ $stderr = *--json* ]]
  observe "$nsbox" run -c 'x' true
  [ "$status" = 125 ]
  [[ $stderr = *--lang* ]]
}

@test "too much: arguments, variables, mounts" {
  observe "$nsbox" run -- sh -c 'echo $#' x $(seq 20000)
  [ "$status" = 0 ]
  [ "$output" = 20000 ]
  observe "$nsbox" run -e "BIG=$(head -c 100000 /dev/zero | tr '\0' x)" -- sh -c 'echo ${#BIG}'
  [ "$output" = 100000 ]
  tmpfs=()
  for i in {1..40}; do tmpfs+=(--tmpfs "/t$i"); done
  observe "$nsbox" run "${tmpfs[@]}" -- true
  [ "$status" = 125 ]
  [[ $stderr = *--tmpfs* ]]
}

@test "a command whose name would write to the terminal" {
  observe "$nsbox" run -- $'/no\e[31m/such\nthing'
  [ "$status" = 127 ]
  [[ $stderr != *$'\e'* ]]
  [ "$(wc -l <<<"$stderr")" = 1 ]
}

@test "a rootfs with nothing in it, and one whose names are traps" {
  mkdir tree
  observe timeout 10 "$nsbox" run --rootfs "$place/tree" -- /bin/sh
  [ "$status" = 127 ]
  cp "$load" tree/load
  mkdir outside tree/etc
  for name in dev proc tmp etc/passwd etc/hosts workspace; do
    for trap in link fifo; do
      rm -rf "tree/$name"
      if [ "$trap" = link ]; then ln -s "$place/outside" "tree/$name"; else mkfifo "tree/$name"; fi
      observe timeout 10 "$nsbox" run --rootfs "$place/tree" -- /load ids
      [[ $status = 0 || ($status = 125 && $stderr = "nsbox: "*) ]]
      [ -z "$(ls -A outside)" ]
      rm -rf "tree/$name"
    done
  done
}

@test "help and version" {
  observe "$nsbox" run --help
  [ "$status" = 0 ]
  [[ $output = "Usage: nsbox run"* ]]
  [ -z "$stderr" ]
  observe "$nsbox" --help
  [ "$status" = 0 ]
  observe "$nsbox" --version
  [ "$status" = 0 ]
  [[ $output = "nsbox "[0-9]* ]]
}

@test "a command that there is not: those that there are" {
  run --separate-stderr "$nsbox" rnu
  [ "$status" -eq 125 ]
  [ "$stderr" = 'nsbox: there is no command "rnu"; there are: run, check, languages, pull, images, session, mcp, help; see nsbox --help' ]
  run --separate-stderr "$nsbox" images lst
  [ "$status" -eq 125 ]
  [[ $stderr = 'nsbox: there is no command "lst" of nsbox images; there are: '*'; see nsbox images --help' || $stderr = *nsbox-image* ]]
}
