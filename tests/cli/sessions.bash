# SPDX-License-Identifier: MIT
# What tests of sessions have in common, besides helpers.bash.

# A runtime directory of the test's own. A store of its own it has where it asks for one.
setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime
  mkdir -m 700 runtime
}

# Of the file's copy of nsbox nothing is left. A test that failed tells how its sessions are.
teardown() {
  [ "${BATS_TEST_COMPLETED-}" ] || tell_sessions
  "$nsbox" session stop --all
  eventually not_running
}

not_running() {
  ! pgrep -f "^[^ ]*$nsbox" >/dev/null
}

tell_sessions() {
  local pids pid
  timeout 20 "$nsbox" session ls --json | jq -c '.[]'
  pids=$(for pid in $(pgrep -f "^[^ ]*$nsbox"); do echo "$pid"; below "$pid"; done | cut -d ' ' -f 1 | sort -nu)
  [ ! "$pids" ] || ps -o pid,ppid,stat,wchan:20,etime,args -p "$(paste -sd , <<<"$pids")"
} 2>&1

# «PID NAME» of all processes below pid $1, each behind its parent.
below() {
  ps -eo pid=,ppid=,comm= | awk -v top="$1" '
    function show(pid,   list, count, i) {
      count = split(children[pid], list, " ")
      for (i = 1; i <= count; i++) { print list[i], name[list[i]]; show(list[i]) }
    }
    { children[$2] = children[$2] " " $1; name[$1] = $3 }
    END { show(top) }'
}

# Makes one: its id is in $id.
session() {
  id=$("$nsbox" session new ${NSBOX_TEST_OPTIONS:-} "$@" 2>warnings)
  [[ $id =~ ^[0-9a-f]{32}$ ]]
}

# One whose writable space is on disk.
disk_session() {
  session "$@"
  [ "$(info .storage)" = disk ] || skip "$(info .storage_note)"
}

info() {
  "$nsbox" session ls --json | jq -r ".[] | select(.id == \"$id\") | $1"
}
