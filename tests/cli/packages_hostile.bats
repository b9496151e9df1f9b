#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Packages as attackers: installs that leave what they like, code that has them, and what of it all reaches the host, other
# installs and whoever removes it. The package manager is the test's own; a package is a script of this file.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  mkdir -m 700 runtime config
  mkdir languages
  export XDG_RUNTIME_DIR=$place/runtime NSBOX_STORE=$place/store XDG_CONFIG_HOME=$place/config NSBOX_LANGUAGES_DIR=$place/languages
  mark=$(mark)
}

teardown() {
  "$nsbox" session stop --all
  chmod -R u+rwX store 2>/dev/null || true
}

# More keys of the packages, with a comma: $keys. The language «fake», whose packages are shell scripts: NAME SCRIPT …, in the folder of its packages; others do nothing.
# $manager: what it is called, for that one's settings.
packages() {
  local files=
  while [ $# -gt 0 ]; do
    files="$files, \"$1.sh\": $(jq -n --arg text "$2" '[$text]')"
    shift 2
  done
  cat >languages/fake.json <<-END
	{
	  "name": "fake", "title": "Fake", "extension": "sh", "source": "main.sh",
	  "run": { "argv": ["sh", "{source}"] },
	  "needs": [{ "program": "sh" }],
	  "packages": {
	    "manager": "${manager:-fakepm}", "hosts": ["fake.invalid"],
	    "names": { "pattern": "[a-z][a-z0-9-]*", "example": "good" },
	    "install": { "argv": ["sh", "{support}/install.sh", "{packages}", "{names}"] },
	    ${keys-}
	    "env": { "FAKE": "{packages}" },
	    "files": {
	      "install.sh": ["cd \"\$1\"; shift; support=\${0%/*}", "for name; do [ ! -e \$support/\$name.sh ] || . \$support/\$name.sh; done"],
	      "good.sh": ["echo good >good"]$files
	    }
	  }
	}
	END
}

layers() {
  ls -A store/packages 2>/dev/null
}

install_into() {
  observe timeout 60 "$nsbox" session install "$@"
}

# The answer of a server to a call of the tool $1 with arguments $2, in $result.
ask_server() {
  local server pid
  coproc server { exec "$nsbox" mcp 2>/dev/null; }
  pid=$server_PID # which is unset as soon as it has ended
  jq -nc '{jsonrpc: "2.0", id: 1, method: "initialize",
    params: {protocolVersion: "2025-06-18", capabilities: {}, clientInfo: {name: "test", version: "1"}}},
    {jsonrpc: "2.0", method: "notifications/initialized"},
    {jsonrpc: "2.0", id: 2, method: "tools/call", params: {name: $ARGS.positional[0], arguments: $ARGS.positional[1]}}' \
    --args "$1" --jsonargs "$2" >&"${server[1]}"
  while read -r -t 60 -u "${server[0]}" result && ! jq -e '.id == 2' <<<"$result" >/dev/null; do :; done
  eval "exec ${server[1]}>&-"
  wait "$pid"
}

@test "code that locks its packages keeps no install from them" {
  command -v flock >/dev/null || skip "flock is not installed"
  packages
  id=$("$nsbox" session new --lang fake)
  "$nsbox" session exec "$id" -- flock "/opt/nsbox/packages" flock /opt/nsbox/packages/fake sleep "$mark" 3>&- &
  eventually inner_pid "sleep $mark"
  observe timeout 20 "$nsbox" session install "$id" good
  [ "$status" = 0 ]
  "$nsbox" session stop "$id"
  wait
  [ -z "$(ls -A store/sessions)" ]
}

@test "what a killed install has left in its home leads the next one nowhere" {
  mkdir victim
  chmod 777 victim
  manager=pip packages plant "rm -rf \$HOME/.config \$HOME/tmp; ln -s $place/victim \$HOME/.config; ln -s $place/victim \$HOME/tmp; exec sleep $mark"
  export PIP_INDEX_URL=https://index.invalid/simple
  id=$("$nsbox" session new --lang fake)
  # A session's first install is one of the store's; others are its own.
  for first in 1 ''; do
    setsid "$nsbox" session install "$id" plant 3>&- &
    eventually inner_pid "sleep $mark"
    kill -9 $!
    wait $! || true
    eventually nothing_runs "sleep $mark"
    planted=$(find store -type l -name .config)
    if [ "$first" ]; then
      [[ $planted = store/packages/*/work/.config ]]
    else
      [ "$planted" = "store/sessions/$id.packages/work/.config" ]
    fi
    install_into "$id" good
    [ "$status" = 0 ]
    [ -z "$(ls -A victim)" ]
    [ ! -e "store/sessions/$id.packages/work" ]
  done
  # Who installs the same again finds the draft.
  setsid "$nsbox" run --lang fake --with plant -c true 3>&- &
  eventually inner_pid "sleep $mark"
  kill -9 $!
  wait $! || true
  eventually nothing_runs "sleep $mark"
  [ -z "$(ls -A victim)" ]
}

@test "a link in place of a part that is shown elsewhere leads no session out: not a fork, nor one that is restored" {
  mkdir victim
  echo "$mark" >victim/secret
  keys='"binds": { "part": "/part" },' packages part 'mkdir part' plant "rm -rf part; ln -s $place/victim part"
  id=$("$nsbox" session new --lang fake)
  observe "$nsbox" session snapshot --name before "$id"
  [ "$status" = 0 ]
  # The first is a copy of the store's, which takes no link there; what comes over it is the session's own.
  install_into "$id" part
  [ "$status" = 0 ]
  install_into "$id" plant
  [ "$status" = 0 ]
  [ -L "store/sessions/$id.packages/space/fake/part" ]
  observe "$nsbox" session fork "$id"
  [ "$status" = 0 ]
  observe "$nsbox" session exec "$output" -- sh -c 'cat /part/secret || echo "nothing"'
  [ "$output" = nothing ]
  # Here the sandbox is to be made anew, with the same packages.
  observe "$nsbox" session restore "$id" before
  [ "$status" = 125 ]
  [[ $stderr = *"/fake/part: Too many levels of symbolic links"* ]]
  observe "$nsbox" session exec "$id" -- sh -c 'cat /part/secret || echo "nothing"'
  [ "$output" = nothing ]
  [ "$(ls -A victim)" = secret ]
}

@test "a file in place of a part that is shown elsewhere: a fork lacks the packages, and the session goes on" {
  keys='"binds": { "part": "/part" },' packages part 'mkdir part' file 'rm -rf part; echo x >part'
  id=$("$nsbox" session new --lang fake)
  observe "$nsbox" session snapshot --name before "$id"
  [ "$status" = 0 ]
  install_into "$id" part
  install_into "$id" file
  [ "$status" = 0 ]
  observe "$nsbox" session fork "$id"
  [ "$status" = 0 ]
  observe "$nsbox" session exec "$output" -- ls -d /opt/nsbox/packages/fake /workspace
  [ "$output" = /workspace ]
  observe "$nsbox" session restore "$id" before
  [ "$status" = 125 ]
  [[ $stderr = *"/fake/part: Not a directory"* ]]
  observe "$nsbox" session exec "$id" -- cat /opt/nsbox/packages/fake/part
  [ "$output" = x ]
}

@test "what lies below many directories is kept like the rest, and counts while it grows" {
  packages deep 'i=0; while [ $i -lt 450 ]; do mkdir d; cd -P d; i=$((i+1)); done; head -c 90000000 /dev/zero >hidden' \
    deeper '. $support/deep.sh; for n in 1 2 3 4; do head -c 90000000 /dev/zero >hidden$n; done; sleep 60'
  observe timeout 60 "$nsbox" run --lang fake --with deep -c 'echo code'
  [ "$status" = 0 ]
  [ "$output" = code ]
  [ "$(layers | wc -w)" = 1 ]
  echo '{"packages": {"disk": "100m"}}' >config/nsbox.conf
  observe timeout 50 "$nsbox" run --config config/nsbox.conf --lang fake --with deeper -c 'echo code'
  [ "$status" = 125 ]
  [[ $stderr = *"could not install deeper: killed: writable space of 100 MiB is full"*"raise it with packages.disk in nsbox.conf"* ]]
  [ "$(layers | wc -w)" = 1 ]
}

@test "of 200 MB of output the ends are shown, and no option that would not change that" {
  packages loud 'head -c 100000000 /dev/zero | tr "\0" x; head -c 100000000 /dev/zero | tr "\0" y >&2; exit 3'
  observe timeout 60 "$nsbox" run --lang fake --with loud -c true
  [ "$status" = 125 ]
  [[ ${stderr##*$'\n'} = "nsbox: fakepm could not install loud: exit status 3; output of 95.37 MiB is more than the 8 MiB that are kept of a stream: its middle was left out" ]]
}

@test "a terminal is not told anything by a package; a file has its words as they were" {
  packages escape 'printf "one\\n\\033]0;owned\\007\\302\\233[5n\\000two\\r\\303\\244\\n"; exit 3'
  observe timeout 60 "$nsbox" run --lang fake --with escape -c true
  [[ $stderr = *$'\e]0;owned\a\xc2\x9b[5n'* ]]
  run "$pty" -- "$nsbox" run --lang fake --with escape -c true
  [[ $output = *$'one\r\n?]0;owned??[5n?two?\xc3\xa4\r\n'*"could not install escape"* ]]
}

@test "a NUL hides nothing of what the manager said from who called a tool" {
  packages nul 'printf "before\\000after\\n"; printf "more\\n" >&2; exit 3'
  ask_server execute_code '{"language": "fake", "code": "true", "dependencies": ["nul"]}'
  is .result.isError true
  [[ $(of .result.content[0].text) = *$'before\ufffdafter\nmore' ]]
}

@test "as many packages as there may be, with names as long, are removed like others; more are refused" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  image=$(dirname "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")/nsbox-image
  [ -x "$image" ] || skip "built without images"
  packages
  observe timeout 60 "$nsbox" run --lang fake --with "$(python3 -c 'print(",".join(f"p{i:03}" + "x" * 252 for i in range(256)))')" -c 'echo code'
  [ "$output" = code ]
  observe timeout 60 "$nsbox" run --lang fake --with "$(python3 -c 'print(",".join(f"p{i}" for i in range(257)))')" -c 'echo code'
  [ "$stderr" = "nsbox: --with: expected from 1 to 256 packages, not 257" ]
  mkdir -p tree/bin
  observe timeout 60 "$nsbox" run --rootfs tree --with "$(python3 -c 'print(",".join(f"apt:p{i}" for i in range(257)))')" -- true
  [ "$stderr" = "nsbox: --with: expected from 1 to 256 packages of the system, not 257" ]
  observe timeout 60 "$image" prune
  [ -z "$(layers)" ]
}

@test "nobody is told how to let a package into the host's network" {
  packages inside 'bash -c ": </dev/tcp/169.254.169.254/80"; exit 3' host 'getent hosts host.nsbox.internal; exit 3' name 'getent hosts other.invalid; exit 3'
  observe timeout 60 "$nsbox" run --lang fake --with inside -c true
  [ "${stderr##*$'\n'}" = "nsbox: it was kept from 169.254.169.254:80, which is none of the registry's" ]
  observe timeout 60 "$nsbox" run --lang fake --with host -c true
  [ "${stderr##*$'\n'}" = "nsbox: it was kept from host.nsbox.internal, which is none of the registry's" ]
  observe timeout 60 "$nsbox" run --lang fake --with name -c true
  [ "${stderr##*$'\n'}" = 'nsbox: it was kept from other.invalid; {"packages": {"allow": "other.invalid"}} in nsbox.conf lets installs go there' ]
}
