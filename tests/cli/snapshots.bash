# SPDX-License-Identifier: MIT
# What tests of snapshots have in common, besides sessions.bash: a store of the test's own, and what is in it.

setup() {
  place=$BATS_TEST_TMPDIR
  cd "$place"
  export XDG_RUNTIME_DIR=$place/runtime NSBOX_STORE=$place/store
  mkdir -m 700 runtime
}

teardown() {
  [ "${BATS_TEST_COMPLETED-}" ] || tell_sessions
  "$nsbox" session stop --all
  eventually not_running
  chmod -R u+rwX . 2>/dev/null || true
  ! mountpoint -q small || umount -R small
}

# Of a snapshot: its object is in $result.
snapshot() {
  observe timeout 100 "$nsbox" session snapshot --json "$@"
  [ "$status" = 0 ]
  result=$output
}

fork() {
  observe timeout 100 "$nsbox" session fork "$@"
  [ "$status" = 0 ]
  forked=$output
}

count() {
  find "$1" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

nothing_kept() {
  [ "$(count store/snapshots/layers)" = 0 ] && [ "$(count store/snapshots/records)" = 0 ] && [ "$(count store/sessions)" = 0 ]
}

end_all() {
  "$nsbox" session stop --all
  # shellcheck disable=SC2046 # ids
  [ "$(count store/snapshots/records)" = 0 ] || "$nsbox" session snapshots rm $("$nsbox" session snapshots -q)
  eventually nothing_kept
}
