# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2154
# What quickstart and run-tests have in common: install what is missing, and build nsbox in ./build. They
# source it, in the top folder of the source, with `me` set to their name. What is needed is in scripts/packages.
#
# POSIX sh, since not every distribution comes with bash.

die() {
	echo "$me: $*" >&2
	exit 1
}

# --- what is missing ---

is_there() {
	case $1 in
	cmd:*/*) is_there "${1%%/*}" || is_there "cmd:${1#*/}" ;;
	cmd:*) command -v "${1#cmd:}" >/dev/null || [ -x "/usr/sbin/${1#cmd:}" ] || [ -x "/sbin/${1#cmd:}" ] ;;
	file:*) [ -e "${1#file:}" ] ;;
	perl:*) perl -M"${1#perl:}" -e 1 2>/dev/null ;;
	lib:*) pkg-config --exists "${1#lib:}" 2>/dev/null ;;
	header:*) echo "#include <${1#header:}>" | gcc -E - >/dev/null 2>&1 ;;
	esac
}

# The package manager's column in scripts/packages, and the commands that install.
find_manager() {
	for manager in apt-get dnf pacman zypper apk; do
		command -v $manager >/dev/null && break
		manager=
	done
	case $manager in
	apt-get) column=1 refresh="apt-get update -qq" install="env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends" ;;
	dnf) column=2 refresh=true install="dnf install -y -q" ;;
	pacman) column=3 refresh="pacman -Sy --noconfirm" install="pacman -S --needed --noconfirm" ;;
	zypper) column=4 refresh=true install="zypper --non-interactive install --no-recommends" ;;
	apk) column=5 refresh="apk update -q" install="apk add -q" ;;
	*) column=1 ;;
	esac
}

# The packages, separated by spaces, that lack for the purpose $1.
missing_packages() {
	grep "^$1[[:space:]]" scripts/packages | while read -r _ need packages; do
		is_there "$need" && continue
		# shellcheck disable=SC2086 # the columns
		set -- $packages
		shift $((column - 1))
		[ "$1" = - ] || echo "$1" | tr , ' '
	done | tr '\n' ' '
}

# What could not be found, for whom no package manager of ours is there.
missing_needs() {
	grep "^$1[[:space:]]" scripts/packages | while read -r _ need _; do
		is_there "$need" || printf '%s ' "${need#*:}"
	done
}

# --- installing ---

find_privilege() {
	if [ "$(id -u)" = 0 ]; then
		as_root=
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		as_root="sudo -n"
	else
		return 1
	fi
}

# Runs a command quietly; what it wrote is shown when it fails.
quietly() {
	quietly_log=$(mktemp "${TMPDIR:-/tmp}/nsbox-setup.XXXXXX") || die "no temporary file can be made"
	if "$@" >"$quietly_log" 2>&1 </dev/null; then
		rm -f "$quietly_log"
		return 0
	fi
	tail -n 15 "$quietly_log" >&2
	rm -f "$quietly_log"
	return 1
}

# Installs what the purpose $1 lacks, or ends with the line that says how to.
install_needed() {
	lacking=$(missing_packages "$1")
	[ "$lacking" ] || return 0
	[ "$manager" ] || die "missing: $(missing_needs "$1"); there is no apt, dnf, pacman, zypper or apk here to install it with"
	find_privilege || die "something is missing that root has to install: $refresh && $install $lacking"
	echo "$me: installing $lacking"
	# shellcheck disable=SC2086 # lists of words
	quietly $as_root $refresh || echo "$me: $refresh failed; trying with what is known" >&2
	# shellcheck disable=SC2086
	quietly $as_root $install $lacking || die "installing failed: $install $lacking"
	[ ! "$(missing_packages "$1")" ] || die "still missing after installing: $(missing_needs "$1")"
}

# Installs what it can of the purpose $1. What stays missing is for the suites to say.
install_wanted() {
	lacking=$(missing_packages "$1")
	[ "$lacking" ] && [ "$manager" ] && find_privilege || return 0
	echo "$me: installing $lacking"
	# shellcheck disable=SC2086
	quietly $as_root $refresh || true
	# shellcheck disable=SC2086
	quietly $as_root $install $lacking && return 0
	for package in $lacking; do
		# shellcheck disable=SC2086
		quietly $as_root $install "$package" || echo "$me: $package could not be installed" >&2
	done
}

# --- building ---

# Configures and builds in folder $1; the other arguments are configure's. It configures anew where
# these are others than before, or cmocka, which it looks for, has come or gone.
build_in() {
	build_folder=$1
	shift
	configured_for="$* $(is_there lib:cmocka && echo cmocka)"
	mkdir -p "$build_folder" 2>/dev/null || die "the folder $build_folder cannot be made by $(id -un)"
	[ -w "$build_folder" ] || die "the folder $build_folder belongs to another user; remove it, or use a copy of the source"
	log=$build_folder/build.log
	[ ! -e "$log" ] || [ -w "$log" ] || die "$log belongs to another user; remove $build_folder"
	if [ ! -e configure ] || [ ! -e build-aux/install-sh ] || [ "$(find configure.ac -newer configure)" ]; then
		autoreconf -i >"$log" 2>&1 || build_failed "autoreconf -i"
	fi
	if [ ! -e "$build_folder/Makefile" ] || [ "$(cat "$build_folder/configured-for" 2>/dev/null)" != "$configured_for" ]; then
		(cd "$build_folder" && "../configure" -q "$@") >"$log" 2>&1 || build_failed "configure"
		echo "$configured_for" >"$build_folder/configured-for"
	fi
	make -C "$build_folder" -j"$(nproc)" >"$log" 2>&1 || build_failed "make"
}

build_failed() {
	tail -n 20 "$log" >&2
	die "$1 failed; all that it wrote is in $log"
}
