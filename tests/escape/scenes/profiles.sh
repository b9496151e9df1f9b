# SPDX-License-Identifier: MIT
# Every probe again under other profiles: the debugger's, the strict one, a user's that allows all, with --explain,
# where somebody is asked about what is refused, and with --root-emulation.

echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}' >"$work/all.json"
chmod 644 "$work/all.json"

under() { # the name, what it may do (names between spaces), then options of nsbox run
	local name=$1 allowed=" $2 " seen='' kind probe_name what output
	shift 2
	while IFS=$'\t' read -r probe_name kind what; do
		[[ $probe_name != @* && $allowed != *" $probe_name "* ]] || continue
		if [[ $kind = terminal ]]; then
			output=$(timeout 20 "$pty" -- "$nsbox" run --ro-bind "$probe:/probe" "$@" -t -- /probe "$probe_name" 2>&1)
		else
			output=$(inside "$@" -- "$probe_name" </dev/null 2>&1)
		fi
		# 2: the probe could not even try it.
		[[ $? = [02] ]] || seen+="$probe_name ($what): $output"$'\n'
	done < <("$probe" --list)
	[[ ! $seen ]]
	report $? "no probe works under $name" "$seen"
}

# A process of one's own, and where its addresses are.
under "--seccomp debug" "process-madvise personality" --seccomp debug
under "--seccomp strict" "" --seccomp strict
under "--explain" "" --explain
# Answered with success, and not done: tests/cli/seccomp.bats. The two capabilities open nothing.
under "--root-emulation" "capset mknod" --root-emulation

# What works without any filter, and is not essential, is for the profile to refuse: it reaches nothing of the host
# that its own users do not. The rest is stopped by other walls, or must be by the filter that goes with a file.
essential=" clone-newuser clone-high-bits clone3-newuser unshare-newuser prlimit-init affinity-init scheduler-init
	trace-around-filter keyctl add-key request-key perf-event userfaultfd io-uring int80 socket-families
	socket-vsock socket-high-bits lease "
essential=${essential//[$'\n\t']/ }
left_to_profiles=
while IFS=$'\t' read -r name kind what; do
	[[ $name != @* && $kind != terminal && $essential != *" $name "* ]] || continue
	inside --seccomp unconfined -- "$name" </dev/null >/dev/null 2>&1
	[[ $? = 0 ]] || left_to_profiles+="$name "
done < <("$probe" --list)
for name in $essential; do
	"$probe" --list | cut -f1 | grep -Fxq "$name" || [[ $name = int80 ]]
	report $? "$name is a probe" ""
done
under "a profile that allows all" "$left_to_profiles" --seccomp "$work/all.json"
under "a profile that allows all, and --explain" "$left_to_profiles" --explain --seccomp "$work/all.json"
