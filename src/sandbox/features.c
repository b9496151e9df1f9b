/* SPDX-License-Identifier: MIT */
/* Kernel features and the versions that have them: see features.h. */
#define _GNU_SOURCE
#include "sandbox/features.h"

#include <stdio.h>
#include <sys/utsname.h>

#include "util/error.h"

#define TOO_OLD "nsbox does not run."

const struct feature features[] = {
	{"mounts by descriptor (fsopen, open_tree, move_mount)", 5, 2, true, false, false, TOO_OLD},
	{"clone3", 5, 3, true, false, false, TOO_OLD},
	{"waiting for a pidfd", 5, 4, true, false, false, TOO_OLD},
	{"openat2", 5, 6, true, false, false, TOO_OLD},
	{"clone into a cgroup", 5, 7, true, false, false, TOO_OLD},
	{"close_range with CLOEXEC", 5, 11, true, false, false, TOO_OLD},
	{"overlayfs in a user namespace", 5, 11, true, false, false, TOO_OLD},
	{"mount_setattr, idmapped ext4 and xfs", 5, 12, true, false, false, TOO_OLD},
	{"cgroup.kill", 5, 14, true, false, false, TOO_OLD},
	{"process limit counted per user namespace", 5, 14, true, false, false, TOO_OLD},
	{"idmapped btrfs", 5, 15, false, false, true,
		"A --rootfs on btrfs gives a sandbox of root's a single unprivileged id."},
	{"overlayfs on an idmapped tree", 5, 19, false, false, true,
		"A --rootfs gives a sandbox of root's a single unprivileged id."},
	{"memory.peak of a cgroup", 5, 19, false, false, false,
		"The result of a run in a cgroup has no peak of memory."},
	{"Landlock with renames between directories", 5, 19, false, true, false,
		"There is no second wall behind the mounts of a sandbox."},
	{"pids.peak of a cgroup", 6, 1, false, false, false,
		"The result of a run in a cgroup has no peak of processes."},
	{"idmapped tmpfs", 6, 3, false, false, true,
		"A --rootfs on a tmpfs gives a sandbox of root's a single unprivileged id."},
	{"user extended attributes on tmpfs", 6, 6, false, true, false,
		"With --rootfs, a directory of the tree that was removed cannot be made again (EIO)."},
	{"Landlock for TCP ports", 6, 7, false, false, false,
		"The gate of --network allow= is held to the ports of its rules by itself alone."},
	{"whiteouts on overlayfs itself", 6, 8, false, false, false,
		"Images in which something is removed cannot be kept on overlayfs, such as a container's own file system."},
	{"Landlock for abstract sockets and signals", 6, 12, false, true, false,
		"With the host's network, its abstract sockets can be reached."},
};

const unsigned features_count = sizeof features / sizeof *features;

bool feature_is_in(const struct feature *feature, int major, int minor)
{
	return major > feature->major || (major == feature->major && minor >= feature->minor);
}

void kernel_version_parse(const char *release, int *ret_major, int *ret_minor)
{
	int major_number, minor_number;

	*ret_major = *ret_minor = 0;
	if (sscanf(release, "%9d.%9d", &major_number, &minor_number) != 2 || major_number < 0 ||
		minor_number < 0)
		return;
	*ret_major = major_number;
	*ret_minor = minor_number;
}

void kernel_version(int *ret_major, int *ret_minor)
{
	struct utsname name;

	*ret_major = *ret_minor = 0;
	if (uname(&name) == 0)
		kernel_version_parse(name.release, ret_major, ret_minor);
}

int features_require_version(int major, int minor, struct error *err)
{
	const struct feature floor = {.major = KERNEL_FLOOR_MAJOR, .minor = KERNEL_FLOOR_MINOR};

	/* A release that is no version says nothing: the system calls themselves will tell. */
	if (major == 0 || feature_is_in(&floor, major, minor))
		return 0;
	error_set(err, 0, "Linux %d.%d is too old: nsbox needs %d.%d or later", major, minor,
		KERNEL_FLOOR_MAJOR, KERNEL_FLOOR_MINOR);
	return error_hint(err,
		"boot a newer kernel: Debian 12, Ubuntu 22.04, RHEL 9, SLES 15 SP4 and what came after them have one");
}

int features_require_kernel(struct error *err)
{
	int major_number, minor_number;

	kernel_version(&major_number, &minor_number);
	return features_require_version(major_number, minor_number, err);
}
