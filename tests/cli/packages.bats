#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# nsbox run --with, with a package manager of the test's own: what is installed once, what becomes of an install that
# fails or is killed at any stage, and who sees what. Real managers are in tests/packages.

load helpers

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  mkdir -m 700 runtime config
  mkdir languages
  export XDG_RUNTIME_DIR=$place/runtime NSBOX_STORE=$place/store XDG_CONFIG_HOME=$place/config NSBOX_LANGUAGES_DIR=$place/languages
  mkdir -p config/nsbox
  mark=$(mark)
  language
}

teardown() {
  "$nsbox" session stop --all
  chmod -R u+rwX store 2>/dev/null || true
}

# A language that is the shell, whose packages are files; a package does what its name says. $1: more keys, with a comma.
language() {
  cat >languages/fake.json <<-END
	{
	  "name": "fake", "title": "Fake", "extension": "sh", "source": "main.sh",
	  "run": { "argv": ["sh", "{source}"] },
	  "needs": [{ "program": "sh" }],
	  "packages": {
	    "manager": "fakepm", "hosts": ["fake.invalid"],
	    "names": { "pattern": "[a-z][a-z0-9-]*(=[0-9.]+)?", "example": "good or good=1.0" },
	    "install": { "argv": ["sh", "{support}/install.sh", "{packages}", "{names}"], "env": { "INSTALLING": "{packages}" } },
	    ${1:-}
	    "env": { "FAKE": "{packages}", "PATH": "{packages}/bin:{path}" },
	    "files": { "install.sh": [
	      "cd \"\$1\"; shift; mkdir -p bin",
	      "for name; do",
	      "  echo \"installing \$name\"",
	      "  case \$name in",
	      "  good*) head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\\\n' >\$name; printf '#!/bin/sh\\\\necho runs \$1\\\\n' >bin/\$name; chmod +x bin/\$name ;;",
	      "  slow) echo part >slow; sleep 3; echo whole >slow ;;",
	      "  held) echo part >held; sleep $mark || :; echo whole >held ;;",
	      "  forever) echo part >forever; exec sleep $mark ;;",
	      "  large) echo \"large: File too large\" >&2; exit 1 ;;",
	      "  big) head -c 40000000 /dev/zero >big ;;",
	      "  many) i=0; while [ \$i -lt 60 ]; do head -c 1000000 /dev/zero >many\$i; i=\$((i+1)); sleep 0.05; done ;;",
	      "  greedy) head -c 300000000 /dev/zero | tail -c 300000000 | wc -c ;;",
	      "  closed) mkdir -p a/b; echo x >a/b/c; chmod 000 a/b/c; chmod 000 a/b a ;;",
	      "  link) ln -s /etc part ;;",
	      "  part) mkdir part; echo shown >part/file ;;",
	      "  look) ls / /workspace /opt/nsbox; env; pwd; cat \$HOME/../*/main.sh 2>&1; true ;;",
	      "  *) echo \"no such package: \$name\" >&2; exit 3 ;;",
	      "  esac",
	      "done"
	    ] }
	  }
	}
	END
}

# Runs code with packages.
with() {
  local packages=$1
  shift
  box --lang fake --with "$packages" -c "$@"
}

conf() {
  echo "$1" >config/nsbox/nsbox.conf
}

# What the store has of packages: keys, and of those that are being made what remains.
layers() {
  ls -A store/packages 2>/dev/null
}

nothing_is_left() {
  [ -z "$(layers)" ] || { echo "left: $(find store/packages)"; return 1; }
}

@test "what is installed is there, read-only, and the code has no network and no variables of the install" {
  with good,good-two 'cat $FAKE/good; echo; good x; good-two y; echo ${INSTALLING-none}; touch $FAKE/new 2>&1; rm -f $FAKE/good; echo gone >$FAKE/good; ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1'
  [ "$status" = 0 ]
  [[ $output =~ ^[0-9a-f]{32}$'\n' ]]
  [[ $output = *$'\nruns x\nruns y\nnone\n'*"Read-only file system"* ]]
  [ "${lines[-1]// /}" = lo ]
  [ "$(layers | wc -l)" = 1 ]
  [ "$(stat -c %a store/packages)" = 700 ]
}

@test "the same set in another order, and named twice, is not installed again; another one is" {
  with good,good-two 'cat $FAKE/good'
  first=$output
  with good-two,good,good 'cat $FAKE/good'
  [ "$output" = "$first" ]
  box --lang fake --with good-two --with good -c 'cat $FAKE/good'
  [ "$output" = "$first" ]
  [ "$(layers | wc -l)" = 1 ]
  with good 'cat $FAKE/good; ls $FAKE'
  [ "${lines[0]%good*}" != "$first" ]
  [ "$(layers | wc -l)" = 2 ]
}

@test "another recipe is another set" {
  with good 'cat $FAKE/good'
  first=$output
  language '"run": { "argv": ["sh", "{source}"] },'
  with good 'cat $FAKE/good'
  [ "$output" != "$first" ]
  language
  with good 'cat $FAKE/good'
  [ "$output" = "$first" ]
}

@test "an install sees nothing of the code, and nothing of the caller's" {
  echo secret >secret
  box --lang fake --with look --ro-bind "$place/secret:/secret" --env TOKEN=secret --json -c 'echo code'
  observe timeout 60 "$nsbox" run --lang fake --with look,nosuch --ro-bind "$place/secret:/secret" --env TOKEN=secret -c 'echo code'
  [ "$status" = 125 ]
  [[ $stderr = *INSTALLING=/opt/nsbox/packages/fake* ]]
  [[ $stderr = *HOME=/opt/nsbox/install* ]]
  [[ $stderr != *secret* ]]
  [[ $stderr != *"echo code"* ]]
}

@test "what the manager says of a failure comes whole, with one line of ours; nothing is left, and the next one works" {
  with nosuch 'echo not run'
  [ "$status" = 125 ]
  [ "$output" = "" ]
  [ "$stderr" = $'installing nosuch\nno such package: nosuch\nnsbox: fakepm could not install nosuch: exit status 3' ]
  nothing_is_left
  json --lang fake --with nosuch -c 'echo not run'
  [ "$status" = 125 ]
  is .error.text "fakepm could not install nosuch: exit status 3"
  is .stderr "no such package: nosuch"
  is .ended_by setup
  [ "$stderr" = "" ]
  with good 'good z'
  [ "$output" = "runs z" ]
}

@test "names that are options, paths, URLs or not written as the language has them are refused before anything runs" {
  local name
  for name in -x --upgrade ../x /x ./x '~x' http://host/x 'a b' $'a\nb' UPPER 'a;b' ''; do
    box --lang fake --with="$name" -c true
    [ "$status" = 125 ]
    [[ $stderr = nsbox:* ]]
    [ "$(wc -l <<<"$stderr")" -le 2 ]
    nothing_is_left
  done
  with UPPER true
  [ "$stderr" = $'nsbox: --with: "UPPER" cannot be a package of fakepm\nnsbox: write it as good or good=1.0' ]
  box --with good true
  [[ $stderr = *"--with: the language is missing"* ]]
  NSBOX_LANGUAGES_DIR=$BATS_TEST_DIRNAME/../../languages box --lang bash --with good -c true
  [[ $stderr = *"no packages"*$'\n'*apt:NAME* ]]
}

@test "two at once install once, and see the same" {
  timeout 60 "$nsbox" run --lang fake --with slow,good -c 'cat $FAKE/good $FAKE/slow' >one &
  timeout 60 "$nsbox" run --lang fake --with good,slow -c 'cat $FAKE/good $FAKE/slow' >two &
  wait
  [ -s one ]
  cmp one two
  grep -q whole one
  [ "$(layers | wc -l)" = 1 ]
}

@test "who waits for another's install can be ended, and the other goes on" {
  timeout 100 "$nsbox" run --lang fake --with held -c 'cat $FAKE/held' >one &
  eventually inner_pid "sleep $mark"
  observe timeout -s INT 1 "$nsbox" run --lang fake --with held -c 'cat $FAKE/held'
  [ "$status" = 124 ]
  # Which lets the install go on.
  pkill -f "^sleep $mark"
  wait
  [ "$(cat one)" = whole ]
}

@test "an install that is ended by a signal leaves nothing" {
  local signal
  for signal in INT TERM HUP; do
    # A shell has what is in the background ignore SIGINT.
    env --default-signal=INT "$nsbox" run --lang fake --with good,forever -c true 3>&- &
    eventually inner_pid "sleep $mark"
    kill -s "$signal" $!
    wait $! || true
    eventually nothing_runs "sleep $mark"
    nothing_is_left
  done
}

@test "killed -9 at any time: no process is left, and the next install removes the rest" {
  local delay
  for delay in 0 0.02 0.05 0.1 0.2; do
    setsid "$nsbox" run --lang fake --with good,forever -c true 3>&- &
    pid=$!
    sleep "$delay"
    kill -9 "$pid"
    wait "$pid" || true
    eventually nothing_runs "sleep $mark"
  done
  setsid "$nsbox" run --lang fake --with good,forever -c true 3>&- &
  eventually inner_pid "sleep $mark"
  kill -9 $!
  wait $! || true
  eventually nothing_runs "sleep $mark"
  [ "$(layers | wc -l)" = 1 ]
  with good 'good x'
  [ "$output" = "runs x" ]
  [ "$(layers | wc -l)" = 1 ]
  [ -z "$(compgen -G 'store/packages/*.new')" ]
}

@test "limits of installs are their own; which one was met, and what raises it, is said" {
  conf '{"limits": {"memory": "64m"}, "packages": {"disk": "20m"}}'
  with good 'good x'
  [ "$output" = "runs x" ]
  with big true
  [[ $stderr = *"fakepm could not install big: "*"packages.disk in nsbox.conf"* ]]
  with large true
  [[ $stderr = *"fakepm could not install large: exit status 1"*"packages.disk in nsbox.conf"* ]]
  with many true
  [[ $stderr = *"fakepm could not install many: killed: "*"20 MiB"*"raise it with packages.disk in nsbox.conf"* ]]
  conf '{"packages": {"timeout": "1s"}}'
  with forever true
  [[ $stderr = *"fakepm could not install forever: killed: time limit of 1 s reached; raise it with packages.timeout in nsbox.conf"* ]]
  conf '{"packages": {"memory": "64m"}}'
  with greedy true
  [[ $stderr = *"fakepm could not install greedy: "*"packages.memory in nsbox.conf"* ]]
  [ "$(layers | wc -l)" = 1 ]
}

@test "a disk without room ends the install, and nothing is left" {
  am_root || skip "mounts a small disk"
  mkdir small
  mount -t tmpfs -o size=32m small small
  export NSBOX_STORE=$place/small/store
  observe timeout 60 "$nsbox" run --lang fake --with big -c true
  listing=$(ls -A small/store/packages)
  observe timeout 60 "$nsbox" run --lang fake --with good -c 'good x'
  umount small
  [ "$output" = "runs x" ]
  [ -z "$listing" ]
}

@test "a disk without room: the error says so" {
  am_root || skip "mounts a small disk"
  mkdir small
  mount -t tmpfs -o size=32m small small
  export NSBOX_STORE=$place/small/store
  observe timeout 60 "$nsbox" run --lang fake --with many -c true
  head -c 32m /dev/zero >small/fill 2>/dev/null || true
  kept=$stderr
  observe timeout 60 "$nsbox" run --lang fake --with good -c true
  umount small
  [[ $kept = *"fakepm could not install many: "*"host's disk has "*" free"* ]]
  [ "$status" = 125 ]
  [[ $stderr = nsbox:*"less free than has to stay free"* || $stderr = nsbox:*"No space left"* ]]
}

@test "when all sets are larger than packages.size, those that were used the longest time ago go" {
  conf '{"packages": {"size": "90k"}}'
  with good=1 true
  touch -d '2 hours ago' store/packages/*/about
  old=$(layers)
  with good=2 true
  touch -d '1 hour ago' store/packages/*/about
  touch -d '2 hours ago' "store/packages/$old/about"
  for number in 3 4 5 6 7 8; do
    with "good=$number" true
  done
  [ ! -e "store/packages/$old" ]
  [ "$(layers | wc -l)" -ge 1 ]
  [ "$(layers | wc -l)" -le 7 ]
}

@test "prune removes what no sandbox has, and leaves what one has" {
  image=$(dirname "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")/nsbox-image
  [ -x "$image" ] || skip "built without images"
  with closed true
  with good true
  "$nsbox" run --lang fake --with good -c "sleep $mark; good x" >used &
  eventually inner_pid "sleep $mark"
  observe "$image" prune
  [ "$status" = 0 ]
  [[ $output = *"removed 1 set of installed packages: "*$'\n1 set of packages is in use by sandboxes that run, and stays until the next prune' ]]
  [ "$(layers | wc -l)" = 1 ]
  pkill -f "^sleep $mark"
  wait
  observe "$image" prune
  [[ $output = *"removed 1 set of installed packages: "* ]]
  nothing_is_left
}

@test "what is installed is listed, what was used last first" {
  image=$(dirname "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")/nsbox-image
  [ -x "$image" ] || skip "built without images"
  observe "$image" ls --packages
  [ "$output" = "" ]
  with good true
  touch -d '3 hours ago' store/packages/*/about
  with good-two,good=1.0 true
  observe "$image" ls --packages
  [ "${#lines[@]}" = 3 ]
  [[ ${lines[1]} =~ ^fakepm\ +[0-9.]+\ KiB\ +0m\ +host\ +good-two,\ good=1.0$ ]]
  [[ ${lines[2]} =~ ^fakepm\ +[0-9.]+\ KiB\ +3h\ +host\ +good$ ]]
  result=$("$image" ls --packages --json)
  is '.[0].packages | join(" ")' "good-two good=1.0"
  is '.[1].language' fake
  holds '.[1].unused_s >= 10800 and .[1].bytes > 0'
  [ "$("$image" ls --packages --quiet | sort)" = "$(layers)" ]
}

@test "a part that is to be shown elsewhere must be a directory, and no link of an install's" {
  language '"binds": { "part": "/part" },'
  with part 'cat /part/file'
  [ "$output" = shown ]
  with link 'ls /part'
  [ "$status" = 125 ]
  [[ $stderr = *"fakepm: part in what was installed: "* ]]
  [ "$(layers | wc -l)" = 1 ]
}

@test "the way to the store has a link: also the first call of all shows what it installed" {
  language '"binds": { "part": "/part" },'
  mkdir real
  ln -s real linked
  export NSBOX_STORE=$place/linked/store
  for _ in first second; do
    with part 'cat /part/file'
    [ "$output" = shown ]
  done
  id=$("$nsbox" session new --lang fake --with part)
  observe "$nsbox" session exec "$id" -- cat /part/file
  [ "$output" = shown ]
}

@test "a session's code sees what is installed while it lives, and has no network by it" {
  id=$("$nsbox" session new --lang fake)
  observe timeout 60 "$nsbox" session exec "$id" -- sh -c 'echo $FAKE; ls -A $FAKE; touch $FAKE/x'
  [ "$status" = 1 ]
  [ "$output" = /opt/nsbox/packages/fake ]
  "$nsbox" session exec "$id" -- sh -c 'until good live 2>/dev/null; do sleep 0.1; done' >live &
  observe timeout 60 "$nsbox" session install "$id" good
  [ "$status" = 0 ]
  wait
  [ "$(cat live)" = "runs live" ]
  observe timeout 60 "$nsbox" session exec -c 'good code; cat /proc/net/dev | tail -n +3 | cut -d: -f1' "$id"
  [ "${lines[0]}" = "runs code" ]
  [ "${lines[1]// /}" = lo ]
  observe timeout 60 "$nsbox" session install "$id" nosuch
  [ "$status" = 125 ]
  [ "$stderr" = $'installing nosuch\nno such package: nosuch\nnsbox: fakepm could not install nosuch: exit status 3' ]
  [ ! -e "store/sessions/$id.packages/work" ]
  "$nsbox" session stop "$id"
  [ -z "$(ls -A store/sessions)" ]
}

@test "the language of a session's packages is named, or its own" {
  id=$("$nsbox" session new)
  observe timeout 60 "$nsbox" session install "$id" good
  [ "$status" = 125 ]
  [ "$stderr" = $'nsbox: the packages of which language?\nnsbox: name it with --lang' ]
  observe timeout 60 "$nsbox" session install --lang fake "$id" good
  [ "$status" = 0 ]
  observe timeout 60 "$nsbox" session install --lang fake "$id" good -x
  [ "$status" = 125 ]
  observe timeout 60 "$nsbox" session install "$id" --lang fake good
  [ "$status" = 0 ]
  observe timeout 60 "$nsbox" session install "$id" --lang fake -- -x
  [ "$status" = 125 ]
  [[ $stderr = *-x* ]]
  observe timeout 60 "$nsbox" session install --lang fake nosuchid good
  [ "$status" = 125 ]
}

no_sessions() {
  [ -z "$("$nsbox" session ls --quiet)" ]
}

@test "a session that is made with packages has them; where they cannot be installed there is none" {
  id=$("$nsbox" session new --lang fake --with good)
  observe timeout 60 "$nsbox" session exec "$id" -- good new
  [ "$output" = "runs new" ]
  "$nsbox" session stop "$id"
  observe timeout 60 "$nsbox" session new --lang fake --with nosuch
  [ "$status" = 125 ]
  [ "$output" = "" ]
  eventually no_sessions
  observe timeout 60 "$nsbox" session new --with good
  [[ $stderr = *"the language is missing"* ]]
}

@test "an install in a session ends with it; one that is killed leaves no process, and the next one works" {
  id=$("$nsbox" session new --lang fake)
  "$nsbox" session install "$id" forever 2>ended 3>&- &
  eventually inner_pid "sleep $mark"
  "$nsbox" session stop "$id"
  wait $! || true
  grep -q "the session has ended" ended
  eventually nothing_runs "sleep $mark"
  id=$("$nsbox" session new --lang fake)
  setsid "$nsbox" session install "$id" forever 3>&- &
  eventually inner_pid "sleep $mark"
  kill -9 $!
  wait $! || true
  eventually nothing_runs "sleep $mark"
  observe timeout 60 "$nsbox" session install "$id" good
  [ "$status" = 0 ]
  [ ! -e "store/sessions/$id.packages/work" ]
}

@test "what the host's settings name can be reached, also on its own loopback; secrets are not given" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  mkdir served home
  echo "from the mirror" >served/file
  port=$((20000 + RANDOM % 20000))
  (cd served && exec setsid python3 -m http.server --bind 127.0.0.1 "$port" >/dev/null 2>&1 3>&-) &
  server=$!
  eventually bash -c "</dev/tcp/127.0.0.1/$port" 2>/dev/null
  sed -i 's/"manager": "fakepm"/"manager": "npm"/; s|"  slow)|"  fetch) cat $HOME/.npmrc; url=$(sed -n s/^registry=//p $HOME/.npmrc); /usr/bin/python3 -c \\"import urllib.request,sys; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())\\" $url/file ;;",\n"  slow)|' languages/fake.json
  printf 'registry=http://u:hidden@127.0.0.1:%s\n//127.0.0.1:%s/:_authToken=hidden\n' "$port" "$port" >home/.npmrc
  observe env HOME="$place/home" timeout 60 "$nsbox" run --lang fake --with fetch,nosuch -c true
  kill "$server"
  [[ $stderr = *"registry=http://host.nsbox.internal:$port"* ]]
  [[ $stderr = *"from the mirror"* ]]
  [[ $stderr != *hidden* ]]
  [[ $stderr = *"nsbox: warning: $place/home/.npmrc: the name and password of 127.0.0.1:$port are not given to the install"* ]]
  [[ $stderr = *"nsbox: warning: $place/home/.npmrc: the token or password of 127.0.0.1 is not given to the install"* ]]
}
