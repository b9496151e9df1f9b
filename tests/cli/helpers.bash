# SPDX-License-Identifier: MIT
# What the tests of nsbox run have in common.
#
# NSBOX              the program under test (default: nsbox in the top folder)
# NSBOX_TEST_TOOLS   where load and pty are (default: tests/cli beside nsbox)

bats_require_minimum_version 1.5.0

# A copy of a name of its own: its processes, the agent's too, can then be told from everybody else's.
setup_file() {
  local built
  built=$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")
  export nsbox=$BATS_FILE_TMPDIR/nsb$$
  export tools=${NSBOX_TEST_TOOLS:-$(dirname "$built")/tests/cli}
  export load=$tools/load pty=$tools/pty
  cp "$built" "$nsbox"
  if [ -z "${NSBOX_LANGUAGES_DIR:-}" ] && [ -d "$BATS_TEST_DIRNAME/../../languages" ]; then
    export NSBOX_LANGUAGES_DIR=$BATS_TEST_DIRNAME/../../languages
  fi
  [ -x "$load" ] && [ -x "$pty" ] || { echo "$load and $pty are not there; make check builds them" >&2; return 1; }
}

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
}

# Runs a command with nothing on standard input: sets status, output, lines and stderr. (bats' own `run` takes a
# status of 127 for a mistake of the test's.)
observe() {
  status=0
  output=$("$@" </dev/null 2>"$BATS_TEST_TMPDIR/stderr.observed") || status=$?
  stderr=$(<"$BATS_TEST_TMPDIR/stderr.observed")
  mapfile -t lines <<<"$output"
  echo "# $*: status $status, output: ${output:0:2000}, stderr: ${stderr:0:2000}"
}

# Runs in the sandbox.
box() {
  observe timeout 60 "$nsbox" run ${NSBOX_TEST_OPTIONS:-} "$@"
}

# The same with the programs of load.c as /load.
loaded() {
  box --ro-bind "$load:/load" "$@"
}

# The same with the result as JSON in $result.
json() {
  observe timeout 60 "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --json "$@"
  result=$output
  jq -e . >/dev/null <<<"$result" || { echo "no JSON"; return 1; }
}

# Calls $1, which is box, loaded or json, with a limit of time that ends the command: $limit, in ms. A busy machine gets
# more, until the command has come as far as making the file /place/done.
in_time() {
  for limit in ${limits:-400 4000 20000}; do
    "$1" --timeout "${limit}ms" --bind "$place:/place" "${@:2}"
    [ ! -e "$place/done" ] || return 0
  done
  echo "not done within $limit ms"
  return 1
}

# What a jq expression gives on $result; and whether it is $2.
of() {
  jq -r "$1" <<<"$result"
}

is() {
  local seen
  seen=$(of "$1")
  [ "$seen" = "$2" ] || { echo "$1 is $seen, not $2"; jq . <<<"$result"; return 1; }
}

# Whether a jq expression is true of $result.
holds() {
  jq -e "$1" >/dev/null <<<"$result" || { echo "not so: $1"; jq . <<<"$result"; return 1; }
}

# Who enforces the memory limit here: cgroup or watcher.
tier() {
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --json true </dev/null | jq -r .limits.memory.enforced_by
}

am_root() {
  [ "$(id -u)" = 0 ]
}

# Until a command succeeds, for half a minute: what comes, comes soon where the machine has nothing else to do.
eventually() {
  local i
  for i in {1..600}; do
    "$@" && return
    sleep 0.05
  done
  echo "in vain: $*"
  return 1
}

# The pid, on the host, of the process inside whose command line begins with $1.
inner_pid() {
  pgrep -n -f "^$1"
}

# No process of the program under test is left, the agents included, and none whose command line begins with $1.
# (A zombie is: it waits for the host's init to take notice.)
nothing_runs() {
  ps -eo stat=,comm=,args= | awk -v name="$(basename "$nsbox")" -v args="${1:-}" '
    $1 !~ /^Z/ { rest = $0; sub(/^[^ ]+ +[^ ]+ +/, "", rest)
      if ($2 == name || (args != "" && index(rest, args) == 1)) { print; found = 1 } }
    END { exit found }'
}

# A number that no other process has in its command line: sleeping that long marks one.
mark() {
  echo "$((RANDOM + 100000)).$$$BATS_TEST_NUMBER"
}

milliseconds() {
  date +%s%3N
}
