#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What tests/vm/run runs, as root of the guest. $1 is the folder of the build, $2 whom to run the tests as
# (root, user or both); the parts may follow:
#
#   unit     the unit tests of the cgroup and of the watcher
#   cgroup   tests/vm/*.bats: what only a cgroup v2 host can show
#   cli      of tests/cli what depends on the kernel and the cgroup
#   session  of tests/cli/session.bats and contexts.bats what ends commands of one sandbox, each of which has a cgroup
#   snapshots  of tests/cli/snapshots.bats what stops commands, or makes a sandbox and its cgroup anew
#   escape   tests/escape
#   faults   tests/faults, a part of it: with a cgroup to be made, limited and removed
#
# Each is run as root, in the cgroup /init, where nobody manages the hierarchy; and as an ordinary user
# who has a cgroup of their own: /user/UID, delegated, with the shell in …/shell and an empty …/sandboxes
# that is named to nsbox.
set -uo pipefail
tests=$(cd "$(dirname "$0")/.." && pwd)
build=$1 as=$2
shift 2
parts=("${@:-all}")
user=tester uid=23456 top=/sys/fs/cgroup

wanted() {
	[[ " ${parts[*]} " == *" $1 "* || " ${parts[*]} " == *" all "* ]]
}

# A copy of everything that an ordinary user can read. (The tree may be in root's home.)
place=/srv/nsbox
mkdir -p "$place/build/tests"
cp -rL "$tests" "$tests"/../{languages,contrib,man} "$place/"
cp "$build/nsbox" "$place/build/"
cp -r "$build/tests/." "$place/build/tests/"
chmod -R go=u,go-w "$place"

useradd --uid $uid --create-home $user
delegated=$top/user/$uid
mkdir -p "$delegated"
echo "+cpu +memory +pids" >$top/user/cgroup.subtree_control
chown $uid:$uid "$delegated" "$delegated"/cgroup.{procs,threads,subtree_control}
mkdir "$delegated/shell" "$delegated/sandboxes"
chown -R $uid:$uid "$delegated/shell" "$delegated/sandboxes"
echo "+cpu +memory +pids" >"$delegated/cgroup.subtree_control"

# The caller's images would be taken for languages.
export NSBOX=$place/build/nsbox NSBOX_TEST_TOOLS=$place/build/tests/cli NSBOX_LANGUAGES_DIR=$place/languages
export PROBE=$place/build/tests/escape/probe PTY=$place/build/tests/cli/pty CMOCKA_MESSAGE_OUTPUT=TAP

# Pages of a program belong to the cgroup that reads them first. A sandbox near its limit would drop and read its
# own again and again, which takes minutes over an emulated 9p.
python3 -c 'import json' 2>/dev/null
perl -e 1 2>/dev/null

failed=0
as_root() {
	echo "# as root: $*"
	(cd /scratch && TMPDIR=/scratch NSBOX_STORE=/scratch/store "$@") || failed=1
}
as_user() {
	echo "# as an ordinary user: $*"
	(
		echo $BASHPID >"$delegated/shell/cgroup.procs"
		cd /home/$user
		exec setpriv --reuid $uid --regid $uid --clear-groups env HOME=/home/$user USER=$user NSBOX_STORE=/home/$user/store \
			NSBOX_CGROUP="$delegated/sandboxes" NSBOX_TEST_OPTIONS="--cgroup $delegated/sandboxes" "$@"
	) || failed=1
}
as_both() {
	[[ $as = user ]] || as_root "$@"
	[[ $as = root ]] || as_user "$@"
}

if wanted unit; then
	as_both "$place/build/tests/unit/test_cgroup"
	as_both "$place/build/tests/unit/test_watcher"
fi
if wanted cgroup; then
	as_both bats --tap "$place/tests/vm"
fi
if wanted cli; then
	as_both bats --tap "$place"/tests/cli/{limits,isolation,leftovers,run,check}.bats
fi
if wanted session; then
	as_both bats --tap --filter 'ends with it|not the session|number, output' "$place/tests/cli/session.bats"
	as_both bats --tap --filter 'runs out of memory|does not stop is ended|four descriptors' "$place/tests/cli/contexts.bats"
fi
if wanted snapshots; then
	# The user's store is in memory there.
	[[ $as = user ]] || as_root bats --tap -f 'while commands|limits hold' "$place/tests/cli/snapshots.bats"
fi
if wanted escape; then
	as_both "$place/tests/escape/run"
fi
# Only when it is named: each call under a tracer takes long in an emulated machine.
if [[ " ${parts[*]} " == *" faults "* ]]; then
	[[ $as = user ]] || as_root "$place/tests/faults/run" --build "$place/build" --as root --cgroups --every 40 host
	[[ $as = root ]] || as_user "$place/tests/faults/run" --build "$place/build" --cgroups --every 40 host
fi
exit $failed
