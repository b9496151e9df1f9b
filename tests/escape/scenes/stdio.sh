# SPDX-License-Identifier: MIT
# The standard descriptors that the caller gives: what is behind them must not be a way to the host.

mkdir -p "$work/stdio/directory"
echo secret >"$work/stdio/file"

# A line that says so, and nothing is started.
refused_with_a_line() {
	local name=$1 descriptor=$2 status=$3 output=$4
	[[ $status = 125 && $output = "nsbox: "*"$descriptor"* && $output != *ESCAPED* ]]
	report $? "$name: refused with a clear line" "status $status: $output"
}

output=$("$nsbox" run -- sh -c 'cd /proc/self/fd/0/ && ls .. && echo ESCAPED' <"$work/stdio/directory" 2>&1)
refused_with_a_line "directory as standard input" "standard input" $? "$output"

output=$("$nsbox" run -- sh -c 'cd /proc/self/fd/2/ && echo ESCAPED' 2>&1 >/dev/null 2<"$work/stdio/directory")
status=$?
[[ $status = 125 ]]
report $? "directory as standard error: refused" "status $status: $output"

# A descriptor that can only name: open it again, and it is the directory.
output=$("$probe" @exec-on-path "$work/stdio/directory" "$nsbox" run -- sh -c 'echo ESCAPED' 2>&1)
refused_with_a_line "O_PATH directory as standard input" "standard input" $? "$output"
output=$("$probe" @exec-on-path "$work/stdio/file" "$nsbox" run -- sh -c 'echo ESCAPED' 2>&1)
refused_with_a_line "O_PATH file as standard input" "standard input" $? "$output"

# Devices: those that this user can open here.
for device in $(find /dev -maxdepth 2 -type b) /dev/fuse /dev/net/tun /dev/kmsg /dev/kvm /dev/mem; do
	(: <"$device") 2>/dev/null || continue
	output=$("$nsbox" run -- sh -c 'echo ESCAPED' <"$device" 2>&1)
	refused_with_a_line "$device as standard input" "standard input" $? "$output"
done

before=$(sha256sum "$work/stdio/file"; stat -c '%a %u %s' "$work/stdio/file")
unchanged() { # name, status and output of the run
	[[ $2 = 0 && $before = "$(sha256sum "$work/stdio/file"; stat -c '%a %u %s' "$work/stdio/file")" ]]
	report $? "$1" "status $2: $3; the file: $(stat -c '%a %u %s' "$work/stdio/file")"
}

cp "$work/stdio/file" "$work/stdio/control"
"$probe" @reopen 0 <"$work/stdio/control" >/dev/null 2>&1
[[ $? = 1 && ! -s $work/stdio/control ]]
report $? "control: a file as standard input can be opened again for writing without a sandbox" ""

output=$(inside -- @reopen 0 <"$work/stdio/file" 2>&1)
unchanged "file as standard input: cannot be opened again for writing" $? "$output"
output=$(inside -- @reopen 0 <>"$work/stdio/file" 2>&1)
unchanged "file for reading and writing as standard input: cannot be written" $? "$output"
output=$(inside -u 1000 -- @reopen 0 <"$work/stdio/file" 2>&1)
unchanged "file as standard input of user 1000: cannot be opened again for writing" $? "$output"

# Code that is compiled first is the second command of its sandbox.
reopen='int open(const char *, int); int main(void) { return open("/proc/self/fd/0", 01001) >= 0; }'
chmod 666 "$work/stdio/file"
before=$(sha256sum "$work/stdio/file"; stat -c '%a %u %s' "$work/stdio/file")
if output=$("$nsbox" run --lang c -c "$reopen" <"$work/stdio/file" 2>&1); [[ $? = 125 ]]; then
	report 0 "file as standard input of compiled code: cannot be opened again for writing # skip no compiler" ""
else
	unchanged "file as standard input of compiled code: cannot be opened again for writing" 0 "$output"
fi

printf 'line 1\nline 2\n' >"$work/stdio/log"
output=$(inside -- @reopen 1 2>&1 >>"$work/stdio/log")
status=$?
[[ $status = 0 && $(head -n 2 "$work/stdio/log") = $'line 1\nline 2' ]] && ! grep -q escaped "$work/stdio/log"
report $? "log for appending as standard output: what it holds cannot be changed" "status $status: $(cat "$work/stdio/log")"
output=$(inside -- @reopen 2 2>>"$work/stdio/log" >/dev/null)
status=$?
[[ $status = 0 && $(head -n 2 "$work/stdio/log") = $'line 1\nline 2' ]]
report $? "log for appending as standard error: what it holds cannot be changed" "status $status: $(cat "$work/stdio/log")"

# More descriptors than the three.
output=$("$probe" descriptors 7<"$work/stdio/directory" 2>&1)
[[ $? = 1 ]]
report $? "control: a descriptor that is left open is there without a sandbox" "$output"
output=$(inside -- descriptors 7<"$work/stdio/directory" 9>>"$work/stdio/log" 63<"$work/stdio/file" 2>&1)
report $? "descriptors 7, 9 and 63 of the caller: not there" "$output"
output=$(inside -- walk-descriptors <"$work/stdio/file" 2>&1)
report $? "a standard descriptor is no directory, nor below one" "$output"
