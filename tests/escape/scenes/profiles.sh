# SPDX-License-Identifier: MIT
# Every probe again under other profiles: the debugger's, a user's that allows all, and with --explain, where
# somebody is asked about what is refused. What one may do by its profile is named here; all else must not work.

echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}' >"$work/all.json"
chmod 644 "$work/all.json"

under() { # the name, what it may do (names between spaces), then options of nsbox run
	local name=$1 allowed=" $2 " seen='' kind probe_name what output
	shift 2
	while IFS=$'\t' read -r probe_name kind what; do
		[[ $probe_name != @* && $kind != terminal && $allowed != *" $probe_name "* ]] || continue
		output=$(inside "$@" -- "$probe_name" </dev/null 2>&1)
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
# These reach nothing of the host that its own users, without any right, do not. (A clock is not set to a time that is none.)
harmless="socket-netlink fanotify vmsplice process-madvise personality quotactl clock move-pages file-handle modify-ldt"
under "a profile that allows all" "$harmless" --seccomp "$work/all.json"
under "a profile that allows all, and --explain" "$harmless" --explain --seccomp "$work/all.json"
