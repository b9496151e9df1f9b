# SPDX-License-Identifier: MIT
# Files, processes and words of the host, which are put there to be found.

echo secret >"$work/canary"
output=$("$probe" @reach "$work/canary" 2>&1)
[[ $? = 1 ]]
report $? "control: a file of the host is found without a sandbox" "$output"
for options in "" "-u 1000" "--read-only" "--network host" "--seccomp unconfined" "--root-emulation"; do
	output=$(inside $options -- @reach "$work/canary" 2>&1)
	report $? "a file of the host is not found${options:+ with $options}" "$output"
done
mkdir -p "$work/empty-tree"
for options in "" "-u 1000" "--read-only" "--network host" "--tmpfs /mnt" "--bind $work/empty-tree:/mnt" "--root-emulation"; do
	output=$(inside --rootfs "$work/empty-tree" $options -- @reach "$work/canary" 2>&1)
	report $? "a file of the host is not found with --rootfs${options:+ ${options//$work/…}}" "$output"
done
output=$(cd "$work" && inside -- @reach "$work/canary" 2>&1)
report $? "a file in the caller's current folder is not found" "$output"

# In two halves, so that the prober's own command line does not hold the word.
first=nsbox second=canary$$
output=$(env NSBOX_TEST_WORD=$first$second "$probe" @canary "$first" "$second" 2>&1)
[[ $? = 1 ]]
report $? "control: a word in the environment is found without a sandbox" "$output"
output=$(NSBOX_TEST_WORD=$first$second inside -- @canary "$first" "$second" 2>&1)
report $? "a word in the caller's environment is not found" "$output"
mkdir "$work/$first$second"
output=$(inside --ro-bind "$work/canary:/shown" --cgroup "/sys/fs/cgroup/$first$second" -- @canary "$first" "$second" 2>&1)
status=$?
((status == 0 || status == 125))
report $? "a word in the options is not found, or the option is refused" "status $status: $output"
output=$(inside --tmpfs "/tmp/a:1m" --hostname "host" -e "A=b" --timeout 17.125s -- @canary 17. 125s 2>&1)
report $? "the caller's command line is not found" "$output"

output=$(inside -- @canary "$(basename "$work" | cut -c 1-10)" "$(basename "$work" | cut -c 11-)" 2>&1)
# mountinfo names the source folder of what was bound into the sandbox: the caller asked for that.
[[ $? = 0 || $(grep -v mountinfo <<<"$output") = "" ]]
report $? "the folder that nsbox was started from is not found, but for what was bound" "$output"

name=$("$nsbox" run --hostname "" -- true 2>&1; "$nsbox" run -- uname -n)
[[ $name != *"$(uname -n)"* ]]
report $? "the name of the host is not found" "$name"

# A process of the caller's own user, and one of its group: whether a signal reaches them.
survives() { # name, then options of nsbox run, --, probe
	local name=$1 canary group output status
	shift
	sleep 61 </dev/null >/dev/null 2>&1 &
	canary=$!
	output=$(inside "$@" 2>&1)
	status=$?
	[[ $status != 125 && $status != 2 ]] && kill -0 "$canary" 2>/dev/null
	report $? "$name: a process of the caller's survives" "status $status: $output"
	kill -9 "$canary" 2>/dev/null
	wait "$canary" 2>/dev/null
}
survives "kill(-1)" -- @kill-all
survives "kill(0)" -- @kill-group
survives "kill(0) without a terminal" -T -- @kill-group

# The same with a control: outside, kill(0) ends everything of the group, so a group of its own is made for it.
output=$(setsid --wait bash -c 'sleep 61 & "$1" @kill-group >/dev/null; sleep 0.2; kill -0 $! 2>/dev/null && kill -9 $! && echo survived' - "$probe" 2>/dev/null)
[[ $output != survived ]]
report $? "control: kill(0) ends a process of the group without a sandbox" "$output"

output=$(inside -- processes 2>&1)
report $? "processes of the host are not seen" "$output"
