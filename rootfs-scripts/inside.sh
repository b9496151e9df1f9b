# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What happens inside the sandbox whose root becomes an image: lib.sh starts it, with root emulation, no network
# and this folder at /.build/scripts, the packages at /.build/debs. Standard output is a layer (tar, gzip), standard
# error the log.
#
#	inside.sh bootstrap        the root has the packages' files, and nothing has been configured; all of it is the layer
#	inside.sh layer PACKAGE…   the root is the parent image; what changes is the layer. The packages named were asked for.
#
# EPOCH    no file of the layer is younger, in seconds since 1970
# SOURCES  what becomes of the bootstrap's /etc/apt/sources.list.d/debian.sources
#
# What would be different in another build of the same packages is left out: logs, backup copies, caches, times.
# All that is used here (tar, gzip, find, dpkg, apt) is the image's own, so that it does not matter on which machine.
set -eu
umask 022
export SOURCE_DATE_EPOCH="$EPOCH" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin

build=/.build
work=/.work # in the sandbox's own writable space, and no part of the layer
exec 3>&1 1>&2

# --- what a file of the image is like ---

write_settings() {
	# Licences are kept: they have to come with the programs.
	cat >/etc/dpkg/dpkg.cfg.d/nsbox <<-'END'
		path-exclude=/usr/share/doc/*
		path-include=/usr/share/doc/*/copyright
		path-exclude=/usr/share/man/*
		path-exclude=/usr/lib/jvm/*/man/*
		path-exclude=/usr/share/info/*
		path-exclude=/usr/share/locale/*
		path-include=/usr/share/locale/locale.alias
		path-exclude=/usr/share/lintian/*
		path-exclude=/usr/share/gtk-doc/*
		path-exclude=/usr/share/help/*
		force-unsafe-io
	END
	cat >/etc/apt/apt.conf.d/nsbox <<-'END'
		// For images: nothing that is not asked for, nothing that is kept.
		APT::Install-Recommends "false";
		Acquire::Languages "none";
		APT::Keep-Downloaded-Packages "false";
	END
	printf '%s\n' "$SOURCES" >/etc/apt/sources.list.d/debian.sources
	rm -f /etc/apt/sources.list
	# Nothing starts a service here.
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
}

clean() {
	rm -rf /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/apt/archives/lock /var/lib/apt/lists/lock \
		/var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/cache/fontconfig/* /var/cache/man/* \
		/var/lib/dpkg/available /var/lib/dpkg/*-old /var/lib/dpkg/lock* /var/lib/dpkg/triggers/Lock \
		/var/log/*.log /var/log/apt/* \
		/etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid- /etc/.pwd.lock \
		/var/lib/systemd/catalog/database /var/lib/dbus/machine-id /root/.wget-hsts /root/.cache
	[ ! -e /etc/machine-id ] || : >/etc/machine-id
	settle_keystore /etc/ssl/certs/java/cacerts
}

# A keystore of Java's has the time at which each certificate was put in. The format (JKS): magic number, version and
# count; of each entry a tag (2: certificate), alias, milliseconds, type and certificate; then the SHA-1 of the password
# in UTF-16, two words, and all that.
settle_keystore() {
	[ -f "$1" ] || return 0
	perl -e '
		binmode $_ for *STDIN, *STDOUT;
		local $/;
		my $store = <STDIN>;
		my ($magic, $version, $count) = unpack "N3", $store;
		$magic == 0xfeedfeed or die "no keystore";
		my $at = 12;
		for (1 .. $count) {
			my ($tag, $alias) = unpack "N n/a", substr $store, $at;
			$tag == 2 or die "no certificate";
			$at += 6 + length $alias;
			substr($store, $at, 8) = pack "Q>", $ENV{EPOCH} * 1000;
			my ($type, $certificate) = unpack "n/a N/a", substr $store, $at + 8;
			$at += 14 + length($type) + length $certificate;
		}
		print substr $store, 0, $at' <"$1" >"$work/keystore"
	digest=$({
		printf 'changeit' | sed 's/./\x00&/g'
		printf 'Mighty Aphrodite'
		cat "$work/keystore"
	} | sha1sum | cut -c 1-40)
	{
		cat "$work/keystore"
		perl -e 'binmode STDOUT; print pack "H*", shift' "$digest"
	} >"$1"
}

# --- owners: root emulation leaves all files to one id, the packages say whose they are ---

# Lines «UID/GID PATH» of what is not root's. Of /bin, /sbin and /lib* the place is where the links lead.
owners() {
	for deb in "$build"/debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar --numeric-owner -tvf -
	done | awk '$2 != "0/0" {
		owner = $2
		for (i = 0; i < 5; i++)
			sub(/^[^ ]+ +/, "")
		sub(/ (->|link to) .*/, "")
		sub(/\/$/, "")
		if (/^\.\/s?bin\// || /^\.\/lib/)
			sub(/^\./, "./usr")
		print owner, $0
	}'
	# What the scripts of base-files, base-passwd, passwd and apt give away.
	cat <<-'END'
		0/42 ./etc/shadow
		0/42 ./etc/gshadow
		0/8 ./var/mail
		0/43 ./var/log/btmp
		0/43 ./var/log/lastlog
		0/43 ./var/log/wtmp
	END
	[ ! -g /var/local ] || echo "0/50 ./var/local" # before Debian 13
}

# --- the layer ---

# Paths as «./a/b», one a line, in the order of bytes.
all_paths() {
	find . -xdev -path ./.build -prune -o -path ./.work -prune -o "$@" -print | sort_bytes
}

sort_bytes() {
	LC_ALL=C sort
}

# What nsbox puts there at each run, and what is empty in an image.
not_of_image() {
	grep -v -x -e '\.' -e '\./dev\(/.*\)\?' -e '\./proc\(/.*\)\?' -e '\./sys\(/.*\)\?' -e '\./run\(/.*\)\?' \
		-e '\./tmp\(/.*\)\?' -e '\./workspace\(/.*\)\?' -e '\./\.build' -e '\./\.work' \
		-e '\./etc/hosts' -e '\./etc/hostname' -e '\./etc/resolv\.conf' \
		-e '\./etc/apt/apt\.conf\.d/99nsbox-root-emulation'
}

# One file of records is an archive with two blocks of zeros at its end, without which it can be gone on with.
archive() {
	{
		tar -c -b 1 -f - --format=posix --pax-option='delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f' \
			--numeric-owner --no-recursion --mtime="@$EPOCH" --clamp-mtime "$@" || : >"$work/broken"
	} | head -c -1024
}

# The entries in $work/paths, those of other owners than root last, and then whiteouts for $work/gone.
layer() {
	awk -v work="$work" '
		FILENAME ~ /owners$/ { owner = $1; sub(/^[^ ]+ /, ""); owners[$0] = owner; next }
		{ print >(work "/by-owner/" ($0 in owners ? owners[$0] : "0/0")) }' "$work/owners" "$work/paths"
	archive --owner=0 --group=0 -T "$work/by-owner/0/0"
	for list in "$work"/by-owner/*/*; do
		[ "$list" != "$work/by-owner/0/0" ] || continue
		id=${list#"$work/by-owner/"}
		archive --owner="${id%/*}" --group="${id#*/}" -T "$list"
	done
	mkdir "$work/white"
	# Where a directory is gone, so is what was in it.
	awk '{ for (p = $0; sub(/\/[^\/]*$/, "", p) && p != "."; ) if (p in gone) next; gone[$0]; print }' "$work/gone" |
		while read -r path; do
			mkdir -p "$work/white/${path%/*}"
			: >"$work/white/${path%/*}/.wh.${path##*/}"
		done
	(cd "$work/white" && find . -type f | sort_bytes >"$work/white-paths" &&
		archive --owner=0 --group=0 -T "$work/white-paths")
	head -c 10240 /dev/zero
	: >"$work/complete"
}

# mawk makes no directories.
prepare_owners() {
	owners >"$work/owners"
	mkdir "$work/by-owner"
	{ echo 0/0; cut -d ' ' -f 1 "$work/owners"; } | sort -u | while read -r owner; do
		mkdir -p "$work/by-owner/${owner%/*}"
		: >"$work/by-owner/$owner"
	done
}

mkdir "$work"
cd /
case $1 in
bootstrap)
	write_settings
	dpkg --install --force-depends "$build"/debs/*.deb
	dpkg --audit
	# Alternatives of a few packages, Java's among them, fail where there is no folder for a link to a manual.
	for section in 1 2 3 4 5 6 7 8; do
		mkdir -p /usr/share/man/man$section
	done
	clean
	# Places of the image, which here are covered, or the sandbox's own.
	mkdir -p "$work/places/dev" "$work/places/proc" "$work/places/sys" "$work/places/run/lock" "$work/places/tmp"
	chmod 1777 "$work/places/tmp" "$work/places/run/lock"
	prepare_owners
	all_paths | not_of_image >"$work/paths"
	: >"$work/gone"
	{
		(cd "$work/places" && find . -mindepth 1 | sort_bytes | archive --owner=0 --group=0 -T -)
		layer
	} | gzip -n >&3
	;;
layer)
	shift
	all_paths | not_of_image >"$work/before"
	: >"$work/began"
	sleep 0.05 # times are those of the last tick
	# Of archives apt needs no lists; the order in which they go is still its own.
	apt-get -y -o Debug::NoLocking=1 -o Dpkg::Use-Pty=0 install "$build"/debs/*.deb
	for deb in "$build"/debs/*.deb; do
		package=${deb##*/}
		case " $* " in
		*" ${package%%_*} "*) ;;
		*) echo "${package%%_*}" ;;
		esac
	done | xargs -r apt-mark auto >/dev/null
	clean
	prepare_owners
	all_paths | not_of_image >"$work/after"
	all_paths -newercm "$work/began" | not_of_image >"$work/paths"
	comm -23 "$work/before" "$work/after" >"$work/gone"
	layer | gzip -n >&3
	;;
esac
# Of a pipeline only the last program's status is seen.
if [ ! -e "$work/complete" ] || [ -e "$work/broken" ]; then
	echo "the layer could not be written"
	exit 1
fi
