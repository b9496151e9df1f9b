# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2154 # the script's variables
# What the scripts of this folder have in common. Each sets these and calls `build "$@"`:
#
#	name      of the image: localhost/nsbox/$name
#	title     what is in it
#	from      the image that it stands on, a script of this folder; empty for the first
#	packages  of Debian, separated by spaces
#	command   what runs where no command is given, as JSON
#
# How an image is made: apt, with a state of its own in the cache and the configuration of the sources that were
# asked for, says which packages it takes and fetches them, as the user who calls. Then inside.sh installs them in a
# sandbox without a network and sends the layer: for the first image in a root to which the packages were only
# extracted, for the others in the image that they stand on. An image is kept in the cache under a digest of
# everything that went into it, and is not made again while that is the same.
#
# mmdebstrap is not needed for that: its part here would be to extract archives. It needs newuidmap (set-user-ID) or
# fakechroot for an ordinary user to run maintainer scripts, which are run by nsbox.

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd)

die() { # in one line, whatever is in the words
	printf '%s: %s\n' "$me" "$(echo "$*" | tr '\n' ' ' | sed 's/ *$//')" >&2
	exit 1
}

say() {
	[ "$quiet" ] || echo "$me: $*" >&2
}

usage() {
	cat <<-END
		Usage: $me [OPTION]…
		Builds the image localhost/nsbox/$name, $title, from Debian's packages, without root and without
		Docker, and puts it into the store of nsbox: nsbox run --image localhost/nsbox/$name

		  --suite NAME          of Debian ($suite; bookworm works, too)
		  --mirror URI          where packages come from (apt's own here, on Debian; else $default_mirror)
		  --security-mirror URI for security updates; none: without them (likewise; $default_security)
		  --include NAME[,NAME] more packages
		  --name NAME           of the image (localhost/nsbox/$name:latest)
		  -o, --output FILE     write the image to FILE, as an archive of an OCI image layout, and not into the store
		  --cache DIR           what is kept for the next time (\${XDG_CACHE_HOME:-~/.cache}/nsbox/rootfs)
		  --keyring FILE        that signs the packages ($keyring)
		  --nsbox PROGRAM       which nsbox (\$NSBOX, else the one built beside this script, else that in \$PATH)
		  -q, --quiet           print the image's name and digest only
		  -v, --verbose         show what apt, dpkg and the packages' scripts say
		  -h, --help            show this

		The image is the same, to the last bit, wherever and by whomever it is built, of the same packages and the same
		addresses of mirrors (which it names in its /etc/apt). SOURCE_DATE_EPOCH sets its date; else it is that of the
		youngest package. It needs apt-get and dpkg-deb, Debian's keyring (package debian-archive-keyring) and, for a
		while, up to 2 GiB of memory. What is in it: no manuals, no documentation but licences, no translations, no
		lists of packages; apt-get install works in it, with --root-emulation and --network host.
	END
}

# --- options ---

find_nsbox() {
	if [ "${NSBOX-}" ]; then
		echo "$NSBOX"
	elif [ -e "$here/../configure.ac" ] && [ -x "$here/../build/nsbox" ]; then
		echo "${here%/*}/build/nsbox"
	else
		command -v nsbox || true
	fi
}

parse_options() {
	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help) usage; exit 0 ;;
		-q | --quiet) quiet=1 ;;
		-v | --verbose) verbose=1 ;;
		--*=*) set_option "${1%%=*}" "${1#*=}" ;;
		-?*)
			set_option "$@"
			shift
			;;
		*) die "\"$1\" is more than is taken; see $me --help" ;;
		esac
		shift
	done
}

# $1: an option that takes an argument, which is $2.
set_option() {
	case $1 in
	--suite | --mirror | --security-mirror | --include | --name | -o | --output | --cache | --keyring | --nsbox) ;;
	*) die "there is no option $1; see $me --help" ;;
	esac
	[ $# -gt 1 ] || die "$1 needs an argument; see $me --help"
	case $1 in
	--suite) suite=$2 ;;
	--mirror) mirror=${2%/} ;;
	--security-mirror) security=${2%/} ;;
	--include) include=$2 ;;
	--name) image=$2 ;;
	-o | --output) output=$2 ;;
	--cache) cache=$2 ;;
	--keyring) keyring=$2 ;;
	--nsbox) nsbox=$2 ;;
	esac
}

# The words of options become parts of apt's configuration: what is no name or address is refused.
check_options() {
	case $suite in
	"" | *[!a-z0-9.-]*) die "--suite $suite: not the name of a suite, such as trixie" ;;
	esac
	for uri in "$mirror" "$security"; do
		case $uri in
		"") ;; # what apt has here
		none) [ "$mirror" != none ] || die "--mirror none: only --security-mirror can be none" ;;
		*[!A-Za-z0-9:/._~%@+-]*) die "the mirror $uri: not a plain address, such as $default_mirror" ;;
		http://?* | https://?*) ;;
		*) die "the mirror $uri: an address that begins with http:// or https:// is needed" ;;
		esac
	done
	case $include in
	*[!a-z0-9,.+-]* | *,-*  | -*) die "--include $include: not names of packages, separated by commas" ;;
	esac
	[ -r "$keyring" ] || die "$keyring is not there: install debian-archive-keyring, or name another by --keyring"
	for program in apt-get apt-config dpkg dpkg-deb flock gzip sha256sum tar; do
		command -v $program >/dev/null ||
			die "$program is not installed; on Debian: apt-get install apt dpkg util-linux gzip coreutils tar"
	done
	[ "$nsbox" ] || die "nsbox is not found; install it, or name it by --nsbox"
	[ -x "$nsbox" ] || command -v "$nsbox" >/dev/null || die "$nsbox is not a program"
}

# What apt here has for Debian: $1 is Debian or Debian-Security. Of several the first.
host_mirror() {
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
		sed -n "s|^$1 \\(https\\{0,1\\}://.*\\)|\\1|p" | head -n 1 | sed 's|/$||'
}

# --- apt, with a state of its own: nothing of the host's but its proxies and credentials ---

write_sources() { # $1: signed by
	updates=" $suite-updates"
	[ "$suite" != sid ] && [ "$suite" != unstable ] || updates=
	stanza='Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n'
	# shellcheck disable=SC2059 # it is a format
	printf "$stanza" "$mirror" "$suite$updates" "$1"
	# shellcheck disable=SC2059
	[ "$security" = none ] || [ ! "$updates" ] || printf "\n$stanza" "$security" "$suite-security" "$1"
}

in_image_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

prepare_apt() {
	apt=$cache/apt/$(write_sources "$keyring" | sha256sum | cut -c 1-16)
	mkdir -p "$apt/etc/sources.list.d" "$apt/etc/apt.conf.d" "$apt/etc/preferences.d" "$apt/lists/partial" \
		"$cache/debs/partial"
	write_sources "$keyring" >"$apt/etc/sources.list.d/debian.sources"
	: >"$apt/none"
	{
		apt-config dump | grep -E '^Acquire::(http|https|Retries)' || true
		cat <<-END
			Dir::Etc "$apt/etc";
			Dir::Etc::SourceList "/dev/null";
			Dir::Etc::Trusted "/dev/null";
			Dir::Etc::TrustedParts "/dev/null";
			Dir::Etc::Netrc "/etc/apt/auth.conf";
			Dir::Etc::NetrcParts "/etc/apt/auth.conf.d";
			Dir::State "$apt";
			Dir::State::Lists "$apt/lists";
			Dir::State::Status "$apt/none";
			Dir::State::Extended_States "$apt/none";
			Dir::Cache "$cache";
			Dir::Cache::Archives "$cache/debs";
			Dir::Cache::PkgCache "";
			Dir::Cache::SrcPkgCache "$apt/lists.bin";
			Dir::Log "/dev/null";
			Acquire::Languages "none";
			Acquire::Retries "3";
			Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
			APT::Architecture "$architecture";
			APT::Architectures "$architecture";
			APT::Install-Recommends "false";
			APT::Sandbox::User "root";
			APT::Update::Error-Mode "any";
			pkgCacheGen::ForceEssential ",";
			Debug::NoLocking "true";
		END
	} >"$apt/apt.conf"
}

own_apt() {
	APT_CONFIG=$apt/apt.conf LC_ALL=C.UTF-8 apt-get -y -q "$@"
}

# Runs a command whose words go to the log; they are shown when it fails.
logged() {
	if [ "$verbose" ]; then
		"$@" >&2 || return
	elif ! "$@" >"$work/log" 2>&1; then
		tail -n 12 "$work/log" >&2
		# The log may have had no room either.
		head -c 100000 /dev/zero >"$work/log" 2>/dev/null ||
			echo "$me: no more can be written to $cache: is its disk full?" >&2
		return 1
	fi
}

update() {
	say "reading which packages $suite has at $mirror"
	logged own_apt update || die "the lists of packages could not be fetched: see above;" \
		"is there a suite \"$suite\" at $mirror, signed by $keyring?"
}

# Which packages, in files of $1: `wanted` their names, versions and digests; fetches them to $1/debs.
# $2: the status of dpkg in the image below.
fetch() {
	fetch_folder=$1
	fetch_status=$2
	shift 2
	mkdir -p "$fetch_folder/debs/partial"
	# With archives that are there, it would not name them.
	own_apt -o Dir::State::Status="$fetch_status" -o Dir::Cache::Archives="$fetch_folder/debs" --print-uris \
		install "$@" >"$fetch_folder/uris" 2>"$work/log" || {
		grep '^[EW]: ' "$work/log" >&2 || cat "$work/log" >&2
		die "packages are missing for $name: $*"
	}
	# 'URI' FILE SIZE DIGEST
	sed -n "s/^'[^']*' //p" "$fetch_folder/uris" | LC_ALL=C sort >"$fetch_folder/wanted"
}

download() {
	download_folder=$1
	download_status=$2
	shift 2
	say "fetching $(wc -l <"$download_folder/wanted") packages"
	logged own_apt -o Dir::State::Status="$download_status" --download-only install "$@" ||
		die "packages could not be fetched; see above"
	while read -r file _; do
		ln "$cache/debs/$file" "$download_folder/debs/" 2>/dev/null || cp "$cache/debs/$file" "$download_folder/debs/" ||
			die "$cache/debs/$file cannot be put into $download_folder"
	done <"$download_folder/wanted"
	chmod -R a+rX "$download_folder/debs"
}

# When the youngest of the packages was built: that stands in the head of an archive, ar(5), at 24. No image is older
# than what it stands on.
youngest() {
	if [ "${SOURCE_DATE_EPOCH-}" ]; then
		echo "$SOURCE_DATE_EPOCH"
		return
	fi
	{
		[ ! "$from" ] || cat "$parent/epoch"
		for deb in "$work"/build/debs/*.deb; do
			[ ! -e "$deb" ] || head -c 36 "$deb" | tail -c 12
			echo
		done
	} | sort -n | tail -n 1 | tr -d ' '
}

# --- the image ---

# Runs inside.sh in the root $1 (options of nsbox run), writes the layer to $work/layer.
run_inside() {
	run_root=$1
	shift
	# What is linked into the cache may belong to another user in another mode: only the sandbox sees it.
	# shellcheck disable=SC2086 # two words
	"$nsbox" run --no-config $run_root --root-emulation --timeout none -m 4g --disk 3g --pids-limit 1024 \
		-w / -u 0 --hostname debian --ro-bind "$work/build:/.build" \
		-e EPOCH="$epoch" -e SOURCES="$(write_sources $in_image_keyring)" -- \
		/bin/sh /.build/scripts/inside.sh "$@" >"$work/layer"
}

descriptor() { # media type, file
	printf '{"mediaType":"%s","digest":"sha256:%s","size":%s}' "$1" "$(sha256sum <"$2" | cut -c 1-64)" "$(wc -c <"$2")"
}

put_blob() {
	mv "$1" "$layout/blobs/sha256/$(sha256sum <"$1" | cut -c 1-64)"
}

iso_date() {
	date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ
}

# An OCI image layout (image-layout.md) of the layers before and this one.
write_layout() {
	layout=$work/layout
	mkdir -p "$layout/blobs/sha256"
	layers='' diff_ids='' history=''
	if [ "$from" ]; then
		read -r layers <"$parent/layers"
		read -r diff_ids <"$parent/diff-ids"
		read -r history <"$parent/history"
		for blob in "$parent"/layout/blobs/sha256/*; do
			ln "$blob" "$layout/blobs/sha256/" 2>/dev/null || cp "$blob" "$layout/blobs/sha256/"
		done
		# The parent's own configuration and manifest are no part of this one.
		while read -r document; do
			rm "$layout/blobs/sha256/$document"
		done <"$parent/documents"
	fi
	media=application/vnd.oci.image
	if [ -e "$work/layer" ]; then
		mkfifo "$work/pipe"
		layers=${layers:+$layers,}$(descriptor $media.layer.v1.tar+gzip "$work/layer")
		gzip -dc "$work/layer" >"$work/pipe" || die "the layer is not whole: is the disk of $cache full?" &
		diff_ids="${diff_ids:+$diff_ids,}\"sha256:$(sha256sum <"$work/pipe" | cut -c 1-64)\""
		wait $! || exit 1
		created=$(iso_date "$epoch")
		history=${history:+$history,}$(printf '{"created":"%s","created_by":"nsbox rootfs-scripts/%s"}' "$created" "$name")
		put_blob "$work/layer"
	fi
	path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	labels=$(printf '"org.opencontainers.image.title":"%s","org.opencontainers.image.description":"%s"' \
		"nsbox/$name" "$title, Debian $suite")
	{
		printf '{"architecture":"%s","config":{"Cmd":%s,"Env":["PATH=%s","LANG=C.UTF-8"],"Labels":{%s}},' \
			"$oci_architecture" "$command" "$path" "$labels"
		printf '"created":"%s","history":[%s],"os":"linux","rootfs":{"diff_ids":[%s],"type":"layers"}%s}' \
			"$(iso_date "$epoch")" "$history" "$diff_ids" "$variant"
	} >"$work/config"
	printf '{"schemaVersion":2,"mediaType":"%s","config":%s,"layers":[%s]}' $media.manifest.v1+json \
		"$(descriptor $media.config.v1+json "$work/config")" "$layers" >"$work/manifest"
	annotation='"annotations":{"org.opencontainers.image.ref.name":"latest"}'
	printf '{"schemaVersion":2,"manifests":[%s]}' \
		"$(descriptor $media.manifest.v1+json "$work/manifest" | sed "s|}\$|,$annotation}|")" >"$layout/index.json"
	printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
	for document in config manifest; do
		sha256sum <"$work/$document" | cut -c 1-64
		put_blob "$work/$document"
	done >"$work/documents"
	echo "$layers" >"$work/layers"
	echo "$diff_ids" >"$work/diff-ids"
	echo "$history" >"$work/history"
	echo "$epoch" >"$work/epoch"
}

# For the first image: the files of the packages, as they are, so that dpkg can run.
extract() ( # its own process, for the umask
	umask 022
	mkdir "$work/root"
	folders="bin sbin lib"
	[ "$architecture" != amd64 ] || folders="$folders lib64"
	for folder in $folders; do
		mkdir -p "$work/root/usr/$folder"
		ln -s "usr/$folder" "$work/root/$folder"
	done
	for deb in "$work"/build/debs/*.deb; do
		# Not dpkg-deb --extract, which makes a directory of the link bin.
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink --no-same-owner -p -C "$work/root" --anchored \
			--exclude='./usr/share/doc/?*' --exclude='./usr/share/man/?*' --exclude='./usr/share/locale/?*' \
			--exclude='./usr/share/info/?*' --exclude='./usr/share/lintian/?*' || exit 1
	done
	mkdir -p "$work/root/var/lib/dpkg/info" "$work/root/var/lib/dpkg/updates"
	: >"$work/root/var/lib/dpkg/status"
	: >"$work/root/var/lib/dpkg/available"
	echo "$architecture" >"$work/root/var/lib/dpkg/arch"
)

# --- all of it ---

# Sets $built, where the image is in the cache, and makes it where it is not.
make_image() {
	all_packages="$packages $(echo "$include" | tr , ' ')"
	all_packages=${all_packages% }
	status=$apt/none
	if [ "$from" ]; then
		parent=$("$here/$from" --suite "$suite" --mirror "$mirror" --security-mirror "$security" --cache "$cache" \
			--keyring "$keyring" --nsbox "$nsbox" ${quiet:+--quiet} ${verbose:+--verbose}) || exit 1
		status=$work/status
		"$nsbox" run --no-config --image "localhost/nsbox/$from" --pull never -- cat /var/lib/dpkg/status >"$status" ||
			die "the image of $from in $cache/store cannot be used"
	fi
	# shellcheck disable=SC2086 # a list of packages
	fetch "$work/build" "$status" $all_packages
	key=$({
		cat "$here/lib.sh" "$here/inside.sh" "$work/build/wanted"
		echo "$name $title $from $command $all_packages $suite $architecture ${SOURCE_DATE_EPOCH-} ${parent-}"
		write_sources $in_image_keyring
	} | sha256sum | cut -c 1-32)
	built=$cache/built/$name-$key
	if [ ! -e "$built" ]; then
		# shellcheck disable=SC2086
		[ ! -s "$work/build/wanted" ] || download "$work/build" "$status" $all_packages
		epoch=$(youngest)
		mkdir "$work/build/scripts"
		cp "$here/inside.sh" "$work/build/scripts/"
		if [ ! -s "$work/build/wanted" ]; then
			say "all of it is in the image of $from"
		elif [ "$from" ]; then
			say "installing them in the image of $from"
			# shellcheck disable=SC2086
			logged run_inside "--image localhost/nsbox/$from --pull never" layer $all_packages ||
				die "installing failed; see above, or use --verbose"
		else
			say "installing them"
			logged extract || die "the packages cannot be extracted; see above"
			logged run_inside "--rootfs $work/root" bootstrap || die "installing failed; see above, or use --verbose"
		fi
		write_layout
		keep
	fi
}

# Moves the image to its place in the cache; what was there of it before, of other packages, goes.
keep() {
	mkdir "$work/built"
	mv "$layout" "$work/layers" "$work/diff-ids" "$work/history" "$work/epoch" "$work/documents" "$work/built/"
	if [ "$include" ]; then # one of many that there may be
		built=$work/built
		return
	fi
	mkdir -p "$cache/built"
	for old in "$cache/built/$name"-*; do
		rm -rf "$old"
	done
	mv "$work/built" "$built"
}

# Whoever has one of the folders that the cache is in, as where root has a user's HOME, could have a link of theirs in its
# place, and have files removed and written elsewhere. (65534: owners that a container does not know.)
check_owners() { # $1: an absolute path
	folder=$1
	while [ "$folder" ]; do
		owner=$(stat -c %u "$folder" 2>/dev/null) || owner=0
		case $owner in
		0 | 65534 | "$(id -u)") ;;
		*) die "the cache $cache: $folder is somebody else's; name another by --cache, or set HOME" ;;
		esac
		folder=${folder%/*}
	done
}

# Two builds with one cache: one after the other.
lock() {
	check_owners "$cache"
	check_owners "$(realpath -m "$cache")"
	mkdir -p "$cache" || die "the cache $cache cannot be made"
	exec 9>"$cache/lock" || die "the cache $cache cannot be used"
	flock -n 9 || {
		say "waiting for another build with the cache $cache"
		flock 9
	}
	# What a build that was killed has left.
	mkdir -p "$cache/tmp"
	chmod -R u+rwX "$cache/tmp"
	rm -rf "$cache/tmp"/*
}

write_archive() {
	tar -c --format=ustar --sort=name --mtime="@$(cat "$built/epoch")" --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX -f "$1" -C "$built/layout" blobs index.json oci-layout
}

deliver() {
	digest=$(sed 's/.*"digest":"\(sha256:[0-9a-f]*\)".*/\1/' "$built/layout/index.json")
	if [ "$output" ]; then
		say "writing $output"
		if ! write_archive "$output.part" || ! mv "$output.part" "$output"; then
			rm -f "$output.part"
			die "$output could not be written"
		fi
		echo "$output"
	else
		"$nsbox" images import ${quiet:+--quiet} "$built/layout" "$image" || exit 1
	fi
	echo "$digest"
}

build() {
	suite=trixie default_mirror=http://deb.debian.org/debian default_security=http://deb.debian.org/debian-security
	mirror='' security='' include='' image=localhost/nsbox/$name:latest output='' quiet='' verbose=''
	cache=${XDG_CACHE_HOME:-${HOME-}/.cache}/nsbox/rootfs
	keyring=$in_image_keyring
	nsbox=$(find_nsbox)
	parse_options "$@"
	case $cache in
	/*) ;;
	*) cache=$PWD/$cache ;;
	esac
	check_options
	mirror=${mirror:-$(host_mirror Debian)} security=${security:-$(host_mirror Debian-Security)}
	mirror=${mirror:-$default_mirror} security=${security:-$default_security}
	architecture=$(dpkg --print-architecture) variant=''
	case $architecture in
	amd64) oci_architecture=amd64 ;;
	arm64) oci_architecture=arm64 variant=',"variant":"v8"' ;;
	*) die "nsbox has no images for $architecture, only for amd64 and arm64" ;;
	esac
	# Started by the script of an image that stands on this one, which holds the lock and wants to know where it is.
	within=${NSBOX_ROOTFS_WITHIN-}
	[ "$within" ] || lock
	work=$(mktemp -d "$cache/tmp/$name.XXXXXX") || die "nothing can be written to $cache"
	trap 'chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	prepare_apt
	[ "$within" ] || [ "${NSBOX_ROOTFS_UPDATED-}" ] || update
	# The images that this one stands on are in a store of the cache, whatever is in the user's.
	user_store=${NSBOX_STORE-}
	export NSBOX_ROOTFS_WITHIN=1 NSBOX_STORE="$cache/store"
	make_image
	if [ "$within" ]; then
		"$nsbox" images import --quiet "$built/layout" "localhost/nsbox/$name" >/dev/null || exit 1
		echo "$built"
		return
	fi
	if [ "$user_store" ]; then NSBOX_STORE=$user_store; else unset NSBOX_STORE; fi
	deliver
}
