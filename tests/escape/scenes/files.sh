# SPDX-License-Identifier: MIT
# Set-user-id files give nothing, and files without content are bounded too.

mkdir -p "$work/setuid/tmp"
cp "$probe" "$work/setuid/probe"
chmod 4755 "$work/setuid/probe"
if [[ $(id -u) = 0 ]]; then
	output=$(setpriv --reuid 12345 --regid 12345 --clear-groups "$work/setuid/probe" @effective-id 0 2>&1)
	if [[ $? != 1 ]]; then
		uncontrolled=$((uncontrolled + 1))
		echo "# set-user-id gives nothing on this file system: $output"
	fi
fi
output=$(timeout 20 "$nsbox" run --rootfs "$work/setuid" -u 1000 -- /probe @effective-id 0 2>&1)
report $? "a set-user-id file of the root gives nothing" "$output"
output=$(timeout 20 "$nsbox" run --bind "$work/setuid:/setuid" -u 1000 -- /setuid/probe @effective-id 0 2>&1)
report $? "a set-user-id file of a bound folder gives nothing" "$output"
output=$("$nsbox" run -u 1000 -- bash -c 'for p in su mount passwd newgrp chsh; do p=$(command -v $p) && [ -u $p ] && echo $p; done; grep -E "^(Cap(Prm|Eff)|Uid)" /proc/self/status' 2>&1)
[[ $output = *CapEff* ]] && ! grep -q 'Cap.*[1-9a-f]$' <<<"$output"
report $? "no capability beside the host's set-user-id programs" "$output"

for place in /tmp /dev/shm /workspace /root /run; do
	output=$(inside --disk 8m --timeout 15 -- @make-files "$place" 300000 2>&1)
	report $? "files without content in $place are bounded" "$output"
done
output=$(inside --tmpfs /mnt:1m --timeout 15 -- @make-files /mnt 300000 2>&1)
report $? "files without content in a --tmpfs are bounded" "$output"
output=$(inside --timeout 15 -- @make-files /proc 10 2>&1)
[[ $? = 2 ]]
report $? "files in /proc cannot be made" "$output"
