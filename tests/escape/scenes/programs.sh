# SPDX-License-Identifier: MIT
# The program of nsbox itself, also when it belongs to who is inside; capabilities of files; working directories that
# are descriptors.

# In a folder of the caller's, writable through a bind, under the name that it is run by: pid 1 has it as its program.
mkdir -p "$work/own"
cp "$nsbox" "$work/own/nsbox"
chmod 755 "$work/own/nsbox"
digest=$(sha256sum <"$work/own/nsbox")
for options in "" "--bind $work/own:/own" "--rootfs $work/own" "--seccomp unconfined"; do
	output=$(timeout 20 "$work/own/nsbox" run --ro-bind "$probe:/probe" $options -- /probe @write-exe 2>&1)
	status=$?
	[[ $status = 0 && $(sha256sum <"$work/own/nsbox") = "$digest" ]]
	report $? "the program of pid 1 cannot be opened${options:+ with ${options//$work/…}}" "status $status: $output"
done

# A descriptor that nsbox has open while it sets up must not be where the command starts.
for number in 3 4 5 6 7 8 9 10 11 12 13 14 15; do
	for path in "/proc/self/fd/$number" "/proc/1/fd/$number"; do
		output=$(inside -w "$path" -- @reach "$work/canary" 2>&1)
		status=$?
		[[ $status = 125 && $output = "nsbox: "* ]] || ((status == 0))
		report $? "a working directory of $path leads nowhere" "status $status: $output"
	done
done

if [[ $(id -u) = 0 ]] && command -v setcap >/dev/null; then
	mkdir -p "$work/capable"
	cp "$probe" "$work/capable/probe"
	if setcap cap_sys_admin,cap_sys_chroot+ep "$work/capable/probe" 2>/dev/null; then
		output=$(setpriv --reuid 12345 --regid 12345 --clear-groups "$work/capable/probe" chroot 2>&1)
		[[ $? = 1 ]]
		report $? "control: a file's capabilities are given without a sandbox" "$output"
		output=$(timeout 20 "$nsbox" run --rootfs "$work/capable" -u 1000 -- /probe chroot 2>&1)
		report $? "a file of the root gives no capabilities" "$output"
		output=$(timeout 20 "$nsbox" run --bind "$work/capable:/capable" -u 1000 --seccomp unconfined -- /capable/probe chroot 2>&1)
		report $? "a file of a bound folder gives no capabilities, without a filter either" "$output"
	fi
fi
