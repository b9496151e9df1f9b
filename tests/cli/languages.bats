#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `nsbox languages`, languages of the user's own, and caches of compilers.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_CONFIG_HOME=$place/config XDG_CACHE_HOME=$place/cache
  mkdir -p config/nsbox/languages cache
}

# `nsbox languages` with arguments.
languages() {
  observe timeout 120 "$nsbox" languages "$@"
  result=$output
}

# Adds the user's language $1: what is on standard input, but for the keys that all have.
add() {
  { printf '{\n"name": "%s", "title": "Test %s", "extension": "t", "source": "main.t",\n' "$1" "$1"; cat; echo '}'; } \
    >"config/nsbox/languages/$1.json"
}

# A language whose compiler takes its time: the command $2 fills its cache.
add_cached() {
  add "$1" <<END
"needs": [{"program": "bash"}],
"cache": {"argv": ["bash", "-c", "$2", "fill", "{cache}"], "timeout_ms": 60000},
"compile": {"argv": ["bash", "-c", "cat \$0/* 2>/dev/null || echo cold", "{cache}"]},
"run": {"argv": ["bash", "{source}"]}
END
}

is_half_filled() {
  [ -e cache/nsbox/slow-*.new/half ]
}

@test "a table: every language, with the version that its program tells, or what it lacks" {
  languages
  [ "$status" = 0 ]
  [ -z "$stderr" ]
  for name in bash c cpp go java javascript lua perl php python r ruby rust typescript; do
    grep -qE "^$name +([0-9][0-9.a-z-]* +/.*/|missing +[A-Z].* needs the program )" <<<"$output" || { echo "no line of $name"; return 1; }
  done
  [[ ${lines[0]} = "bash "*" $(bash -c 'echo "${BASH_VERSION%%(*}"') "*/bash ]]
  # What is missing has its remedy in the next line.
  awk '/^[a-z]+ +missing/ { want = 1; next } want { if ($1 != "->") exit 1; want = 0 }' <<<"$output"
}

@test "--json: the same as an array of objects" {
  languages --json
  [ "$status" = 0 ]
  is 'map(.name) == (map(.name) | sort)' true
  holds 'map(.name) | contains(["bash", "python", "typescript"])'
  holds 'all(.[]; .title and (.aliases | type == "array") and .root == "host" and (.ready | type == "boolean"))'
  holds 'all(.[] | select(.ready); (.version | test("^[0-9]+[.][0-9]")) and (.programs | length > 0) and (.binds | type == "array"))'
  holds 'all(.[] | select(.ready | not); .error and .hint)'
  for program in $(of '.[] | select(.ready).programs[]'); do
    [ -x "$program" ]
  done
}

@test "some languages, by name or alias, in the order in which they are named" {
  languages sh BASH
  [ "$status" = 0 ]
  # Each with the line that says how to get its image.
  [ "${#lines[@]}" = 4 ]
  [[ ${lines[0]} = "bash "*/bash && ${lines[2]} = "${lines[0]}" ]]
  [[ ${lines[1]} = *"-> in an image: nsbox pull "* && ${lines[3]} = "${lines[1]}" ]]
  languages --json bash
  is 'length' 1
  is '.[0].aliases | contains(["sh"])' true
}

@test "a missing toolchain: what is missing, and how to get it" {
  add absent <<'END'
"needs": [{"program": ["no-such-compiler", "no-such-one"],
  "packages": {"debian": "the-package", "fedora": "the-package", "arch": "the-package", "suse": "the-package", "alpine": "the-package"}}],
"run": {"argv": ["no-such-compiler", "{source}"]}
END
  languages
  [ "$status" = 0 ]
  grep -A 1 -E '^absent +missing +Test absent needs the program "no-such-compiler"' <<<"$output" | grep -E '^ +-> Install it.*the-package'
  languages absent
  [ "$status" = 125 ]
  [[ $output = *no-such-compiler*the-package* ]]
  languages --json absent
  [ "$status" = 125 ]
  is '.[0].ready' false
  [[ $(of '.[0].error') = *no-such-compiler* && $(of '.[0].hint') = *the-package* ]]
  box --lang absent -c x
  [ "$status" = 125 ]
  [[ $stderr = *no-such-compiler*the-package* ]]
}

@test "--rootfs: as they are in another root" {
  mkdir -p root/usr/bin
  languages --rootfs root bash
  [ "$status" = 125 ]
  [[ $output = *"bash"*"missing"*"$place/root"* ]]
  languages --rootfs root --json
  [ "$status" = 0 ]
  is 'all(.[]; .ready == false)' true
  is '.[0].root' "$place/root"
}

@test "a file that is broken is named with its line and the reason; the others work" {
  printf '{\n\t"name": "broken",\n\t"title": oops\n}\n' >config/nsbox/languages/broken.json
  add wrong <<<'"run": {"argv": ["true"]}, "colour": "red"'
  add good <<<'"run": {"argv": ["bash", "{source}"]}, "needs": [{"program": "bash"}]'
  languages
  [ "$status" = 0 ]
  grep -E "^broken +broken +.*/broken\.json:3: " <<<"$output"
  grep -E "^wrong +broken +.*/wrong\.json.*colour" <<<"$output"
  grep -E "^good +ready +/" <<<"$output"
  grep -E "^bash +[0-9]" <<<"$output"
  languages --json
  is '.[] | select(.name == "broken").ready' false
  [[ $(of '.[] | select(.name == "broken").error') = *broken.json:3:* ]]
  box --lang broken -c x
  [ "$status" = 125 ]
  [[ $stderr = *broken.json:3:* ]]
  box --lang good -c 'echo works'
  [ "$output" = works ]
  box --lang bash -c 'echo works'
  [ "$output" = works ]
  box --lang unknown -c x
  [[ $stderr = *"unknown language \"unknown\""*broken.json:3:* ]]
}

@test "a language that is added as a file: listed, run, compiled, with its own limits" {
  add shout <<'END'
"aliases": ["loud"],
"needs": [{"program": "bash"}],
"env": {"WHERE": "{workspace} {memory_mib}"},
"compile": {"argv": ["bash", "-c", "tr a-z A-Z <$0 >$1; echo compiled >&2", "{source}", "{output}"]},
"run": {"argv": ["bash", "-c", "cat {output}; echo; echo $WHERE $*", "shout"]},
"version": ["bash", "-c", "echo shout 7.8.9"]
END
  languages loud
  [ "$status" = 0 ]
  [[ $output = "shout "*7.8.9*/bash ]]
  box --lang shout -m 100m -c 'some words' one two
  [ "$status" = 0 ]
  [ "$output" = $'SOME WORDS\n/workspace 100 one two' ]
  [[ $stderr = compiled* ]]
}

@test "a language of the user's goes before the one of the same name" {
  add bash <<<'"run": {"argv": ["bash", "-c", "echo mine"]}, "needs": [{"program": "bash"}]'
  box --lang bash -c 'echo theirs'
  [ "$output" = mine ]
  languages --json
  is '[.[] | select(.name == "bash").title] | join(",")' "Test bash"
  XDG_CONFIG_HOME=$place/none box --lang bash -c 'echo theirs'
  [ "$output" = theirs ]
}

@test "what is no language and no option is told" {
  languages no-such-language
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = 'nsbox: unknown language "no-such-language"; there are: bash, '*typescript ]]
  languages no-such-language bash
  [ "$status" = 125 ]
  [[ $output = "bash "* ]]
  languages ../bash
  [ "$status" = 125 ]
  languages --colour
  [ "$status" = 125 ]
  [[ $stderr = "nsbox languages: unknown option --colour; see nsbox languages --help" ]]
  languages --rootfs
  [ "$status" = 125 ]
  [[ $stderr = "nsbox languages: --rootfs needs a value" ]]
  languages --rootfs "$place/absent"
  [ "$status" = 125 ]
  [[ $stderr = "nsbox languages: --rootfs $place/absent: No such file or directory" ]]
  languages --warm --json
  [ "$status" = 125 ]
  [[ $stderr = *"--warm goes with neither --json nor --rootfs" ]]
  languages --help
  [ "$status" = 0 ]
  [[ $output = "Usage: nsbox languages"*--json*--rootfs*--warm* ]]
}

@test "--warm fills a cache once; sandboxes see it, and cannot change it" {
  add_cached slow 'echo filled >$1/file'
  json --lang slow -c 'echo x >/var/cache/nsbox/file && echo changed'
  is '.phases[0].stdout' cold
  languages --warm slow
  [ "$status" = 0 ]
  [[ $output = "slow: $place/cache/nsbox/slow-"* ]]
  [ "$(cat cache/nsbox/slow-*/file)" = filled ]
  # All that there are, once more: nothing is left to do.
  mkdir few
  cp "$NSBOX_LANGUAGES_DIR/bash.json" few
  NSBOX_LANGUAGES_DIR=$place/few languages --warm
  [ "$status" = 0 ]
  [ -z "$output$stderr" ]
  json --lang slow -c 'echo x >/var/cache/nsbox/file && echo changed'
  is '.phases[0].stdout' filled
  is .stdout ''
  [[ $(of .stderr) = *"Read-only file system"* ]]
  [ "$(cat cache/nsbox/slow-*/file)" = filled ]
}

@test "--warm that fails says why, and leaves nothing" {
  add_cached slow 'echo half >$1/file; echo the reason >&2; exit 3'
  languages --warm slow
  [ "$status" = 125 ]
  [ -z "$output" ]
  [[ $stderr = *"the reason"*"slow: the cache could not be filled: "* ]]
  [ -z "$(ls cache/nsbox)" ]
  add absent <<<'"run": {"argv": ["x"]}, "cache": {"argv": ["x"]}, "needs": [{"program": "no-such-compiler"}]'
  languages --warm absent
  [ "$status" = 125 ]
  [[ $stderr = *no-such-compiler* ]]
  languages --warm no-such-language
  [ "$status" = 125 ]
}

@test "--warm that is interrupted leaves nothing; what a killed one leaves is taken over" {
  # One command, as another one has another cache; it goes on when its sleep is ended.
  local seconds=$(mark)
  add_cached slow "ls \$1 >\$1/file; echo half >\$1/half; sleep $seconds || :"
  "$nsbox" languages --warm slow >out 2>err 3>&- &
  pid=$!
  eventually is_half_filled
  kill -TERM $pid
  status=0
  wait $pid || status=$?
  [ "$status" != 0 ]
  [ -z "$(ls cache/nsbox)" ]
  "$nsbox" languages --warm slow >out 2>err 3>&- &
  pid=$!
  eventually is_half_filled
  kill -KILL $pid
  wait $pid || true
  eventually nothing_runs "sleep $seconds"
  is_half_filled
  ends_sleep() { pkill -f "^sleep $seconds"; }
  eventually ends_sleep 3>&- &
  languages --warm slow
  [ "$status" = 0 ]
  [ "$(ls cache/nsbox | wc -l)" = 1 ]
  [ "$(cat cache/nsbox/slow-*/file)" = file ]
}

@test "a cache that others can change is not used, and is told" {
  add_cached slow 'echo filled >$1/file'
  languages --warm slow
  chmod o+w cache/nsbox/slow-*
  json --lang slow -c true
  is '.phases[0].stdout' cold
  languages --warm slow
  [ "$status" = 125 ]
  [[ $stderr = "nsbox: $place/cache/nsbox/slow-"*" is not used: "*"can be changed by others"*"rm -r $place/cache/nsbox/slow-"* ]]
}

@test "of two --warm at the same time one fills the cache, and the other waits" {
  add_cached slow 'sleep 1; echo $RANDOM >$1/file'
  "$nsbox" languages --warm slow >first 3>&- &
  "$nsbox" languages --warm slow >second 3>&- &
  wait -n
  [ -e cache/nsbox/slow-*/file ]
  wait
  [ "$(cat first second | wc -l)" = 1 ]
  [ "$(ls cache/nsbox | wc -l)" = 1 ]
}

@test "root with the HOME of another user: nothing is written, removed or taken there" {
  am_root || skip "needs root"
  unset XDG_CONFIG_HOME XDG_CACHE_HOME
  mkdir -p theirs/.config/nsbox/languages theirs/.cache
  add_cached slow 'echo x >$1/half'
  mv config/nsbox/languages/slow.json theirs/.config/nsbox/languages/
  chown -R 65534 theirs
  HOME=$place/theirs languages --warm slow
  [ "$status" = 125 ]
  [[ $stderr = *"unknown language"*slow* ]] # of a folder that its owner can change
  mkdir -p mine/nsbox/languages
  cp theirs/.config/nsbox/languages/slow.json mine/nsbox/languages/
  HOME=$place/theirs XDG_CONFIG_HOME=$place/mine languages --warm slow
  [ "$status" = 125 ]
  [[ $stderr = *"$place/theirs"*"can be changed by others than you"* ]]
  [ -z "$(ls -A theirs/.cache)" ]
}
