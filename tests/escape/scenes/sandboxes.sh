# SPDX-License-Identifier: MIT
# Two sandboxes, or a sandbox and the host, do not meet by the names of System V and POSIX objects, sockets and files.

number=$((RANDOM * 3 % 9999 + 1))
kinds="shm sem msg mqueue dev-shm tmp abstract tcp"

# Starts `$@ @share`, and waits until all is made. Ends when descriptor $sharing is closed.
start_sharing() {
	mkfifo "$work/share.in"
	"$@" @share "$number" <"$work/share.in" >"$work/share.out" 2>&1 &
	sharer=$!
	exec {sharing}>"$work/share.in"
	for _ in {1..100}; do
		grep -q '^shared' "$work/share.out" && break
		sleep 0.05
	done
	rm "$work/share.in"
}

stop_sharing() {
	exec {sharing}>&-
	wait "$sharer"
}

start_sharing "$probe"
for kind in $kinds; do
	output=$("$probe" @find "$number" "$kind" 2>&1 {sharing}>&-)
	if [[ $? != 1 ]]; then
		uncontrolled=$((uncontrolled + 1))
		echo "# the host's $kind is not found outside either: $output"
	fi
	output=$(inside -- @find "$number" "$kind" 2>&1 {sharing}>&-)
	report $? "the host's $kind is not found in a sandbox" "$output"
done
# The network is shared; Landlock has it from ABI 6 on.
abi=$("$nsbox" check | sed -n 's/.*landlock.* ABI \([0-9]*\).*/\1/p')
if ((${abi:-0} >= 6)); then
	output=$(inside --network host -- @find "$number" abstract 2>&1 {sharing}>&-)
	report $? "the host's abstract socket is not reached with the host's network" "$output"
fi
stop_sharing

start_sharing "$nsbox" run --ro-bind "$probe:/probe" -- /probe
for kind in $kinds; do
	output=$(inside -- @find "$number" "$kind" 2>&1 {sharing}>&-)
	report $? "a sandbox's $kind is not found in another" "$output"
	output=$("$probe" @find "$number" "$kind" 2>&1 {sharing}>&-)
	report $? "a sandbox's $kind is not found on the host" "$output"
done
stop_sharing
