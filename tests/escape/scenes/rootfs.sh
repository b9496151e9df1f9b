# SPDX-License-Identifier: MIT
# A --rootfs whose names are traps: links to the host, FIFOs, devices, files in place of directories. Each
# must either run, or be refused with one clear line; the host, and the tree itself, stay as they are.

outside=$work/outside
tree=$work/tree

fill() {
	rm -rf "$outside" "$tree"
	mkdir -p "$outside/directory" "$tree"/{dev,proc,sys,tmp,etc,workspace,root,run,home}
	echo host >"$outside/file"
	cp "$probe" "$tree/probe"
	chmod 755 "$tree" "$outside"
	echo root:x:0:0::/:/bin/sh >"$tree/etc/passwd"
	echo root:x:0: >"$tree/etc/group"
	for name in hosts resolv.conf hostname; do
		echo "# $name" >"$tree/etc/$name"
	done
}

# All that is there, with type, owner, mode, device, size, times of content, links and content.
picture() {
	find "$outside" "$tree" -printf '%P %y %U %m %s %T@ %l\n' | sort
	find "$outside" "$tree" -type f -exec sha256sum {} + | sort
}

attempt() { # name of the trap; more options of nsbox run
	local trap=$1 before output status
	shift
	before=$(picture)
	output=$(timeout 20 "$nsbox" run --rootfs "$tree" "$@" -- /probe mount-tmpfs 2>&1 </dev/null)
	status=$?
	[[ $before = "$(picture)" ]] && { [[ $status = 0 ]] || [[ $status = 12[567] && $output = "nsbox: "* && $(wc -l <<<"$output") -le 2 ]]; }
	report $? "--rootfs with $trap: safe (status $status)" "$output
$(diff <(echo "$before") <(picture))"
}

fill
attempt "ordinary names"
[[ $(timeout 20 "$nsbox" run --rootfs "$tree" -- /probe mount-tmpfs 2>&1) = *"not permitted"* ]]
report $? "--rootfs with ordinary names: runs" ""

for name in dev proc sys tmp workspace root etc run home; do
	for trap in "link to the host" "relative link to the host" "link to itself" "FIFO" "file" "link to /proc/1/root"; do
		fill
		rm -rf "${tree:?}/$name"
		case $trap in
		"link to the host") ln -s "$outside/directory" "$tree/$name" ;;
		"relative link to the host") ln -s "../outside/directory" "$tree/$name" ;;
		"link to itself") ln -s "$name" "$tree/$name" ;;
		"FIFO") mkfifo "$tree/$name" ;;
		"file") echo x >"$tree/$name" ;;
		"link to /proc/1/root") ln -s /proc/1/root "$tree/$name" ;;
		esac
		attempt "/$name as a $trap"
	done
done

for name in etc/passwd etc/group etc/hosts etc/resolv.conf etc/hostname dev/null dev/shm dev/pts dev/fd proc/self; do
	for trap in "link to the host" "link to a host file that is not there" "FIFO" "directory"; do
		fill
		rm -rf "${tree:?}/$name"
		case $trap in
		"link to the host") ln -s "$outside/file" "$tree/$name" ;;
		"link to a host file that is not there") ln -s "../../outside/made" "$tree/$name" ;;
		"FIFO") mkfifo "$tree/$name" ;;
		"directory") mkdir "$tree/$name" ;;
		esac
		attempt "/$name as a $trap"
	done
done

if [[ $(id -u) = 0 ]]; then
	for name in dev tmp etc/passwd etc/hosts dev/null; do
		fill
		rm -rf "${tree:?}/$name"
		mknod "$tree/$name" c 1 1
		attempt "/$name as the device of the memory"
	done
	fill
	mknod "$tree/memory" c 1 1
	chmod 666 "$tree/memory"
	output=$(timeout 20 "$nsbox" run --rootfs "$tree" -- /probe @reach /memory 2>&1)
	[[ $output = *"/memory: opened"* ]] # by name only (O_PATH): it is there
	report $? "--rootfs with a device node: it is shown" "$output"
	cp "$work/probe" "$tree/probe"
	output=$(timeout 20 "$nsbox" run --rootfs "$tree" --ro-bind /bin:/bin --ro-bind /usr:/usr --ro-bind /lib:/lib --ro-bind /lib64:/lib64 -- /bin/sh -c 'head -c 1 /memory >/dev/null && echo ESCAPED' 2>&1)
	[[ $output != *ESCAPED* ]]
	report $? "--rootfs with a device node: it cannot be opened" "$output"
fi

# Places that options name, through links of the tree.
fill
ln -s "$outside/directory" "$tree/out"
ln -s / "$tree/top"
ln -s ../../../../../../.. "$tree/up"
attempt "a bind below a link to the host" --ro-bind "$work/probe:/out/bound"
attempt "a bind below a link to /" --ro-bind "$work/probe:/top$outside/bound"
attempt "a bind below a link upwards" --ro-bind "$work/probe:/up$outside/bound"
attempt "a bind on a link to the host" --bind "$work/outside:/out"
attempt "a tmpfs below a link to the host" --tmpfs /out/tmpfs
attempt "a tmpfs on a link to the host" --tmpfs /out
attempt "a working directory that is a link to the host" -w /out
attempt "a working directory below a link upwards" -w "/up$outside"

fill
rm "$tree/probe"
ln -s "$probe" "$tree/probe"
before=$(picture)
output=$(timeout 20 "$nsbox" run --rootfs "$tree" -- /probe mount-tmpfs 2>&1)
status=$?
[[ $status = 127 && $before = "$(picture)" ]]
report $? "--rootfs with the command as a link to the host: not found" "status $status: $output"

# Writing inside stays inside.
fill
output=$(timeout 20 "$nsbox" run --rootfs "$tree" --disk 8m -- /probe @make-files /etc 100000 2>&1)
status=$?
[[ $status = 0 && $(ls "$tree/etc" | wc -l) = 5 ]]
report $? "--rootfs: files made inside are bounded and do not reach the tree" "status $status: $output"
