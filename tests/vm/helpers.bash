# SPDX-License-Identifier: MIT
# For the tests that run in the guest (see guest.sh). Where the user's sandboxes go is in NSBOX_CGROUP; root has none.

top=/sys/fs/cgroup

# A test for root, which alone can change the host.
root_only() {
  am_root || skip "needs root"
}

# Runs as an ordinary user who has no cgroup, from where root is.
as_stranger() {
  observe setpriv --reuid 34567 --regid 34567 --clear-groups env HOME=/ "$@"
}

# A program that a stranger can reach.
stranger_nsbox() {
  local copy
  copy=$(mktemp -d /tmp/stranger.XXXXXX)
  chmod 755 "$copy"
  cp "$nsbox" "$copy/nsbox"
  stranger_folder=$copy
  stranger=$copy/nsbox
}

# The folder of cgroups in which the sandboxes of this user are made.
base() {
  echo "${NSBOX_CGROUP:-$top/nsbox}"
}

# The cgroups of sandboxes that there are.
sandboxes() {
  find "$(base)" -mindepth 1 -maxdepth 1 -name 'nsbox-*' 2>/dev/null || true
}

no_sandboxes() {
  [ -z "$(sandboxes)" ]
}

one_sandbox() {
  [ "$(sandboxes | wc -l)" = 1 ]
}

# Starts `sleep` of a length of its own in a sandbox in the background, and waits until it sleeps there.
start_sleeper() {
  seconds=$(mark)
  # shellcheck disable=SC2086 # options
  "$nsbox" run ${NSBOX_TEST_OPTIONS:-} --timeout none "$@" -- sleep "$seconds" </dev/null >/dev/null 2>&1 3>&- &
  sleeper=$!
  eventually inner_pid "sleep $seconds"
}

processes_in() {
  cat "$1/cgroup.procs"
}
