/* SPDX-License-Identifier: MIT */
/* Mounts and roots: neither can be changed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

/* Newer than the oldest C library that nsbox builds with. */
enum {
	TREE_CLONE = 1,
	ATTR_READ_ONLY = 1,
};

struct attributes {
	uint64_t set, clear, propagation, userns_fd;
};

static enum outcome mount_tmpfs(int argc, char **argv)
{
	return refused("mount a tmpfs on /tmp", mount("none", "/tmp", "tmpfs", 0, NULL));
}

static enum outcome mount_proc(int argc, char **argv)
{
	return refused("mount a proc on /tmp", mount("none", "/tmp", "proc", 0, NULL));
}

/* A cgroup hierarchy has files that make the kernel start a program of the host's (release_agent). */
static enum outcome mount_cgroup(int argc, char **argv)
{
	return refused("mount a cgroup2 on /tmp", mount("none", "/tmp", "cgroup2", 0, NULL));
}

static enum outcome mount_sysfs(int argc, char **argv)
{
	return refused("mount a sysfs on /tmp", mount("none", "/tmp", "sysfs", 0, NULL));
}

static enum outcome mount_overlay(int argc, char **argv)
{
	return refused("mount an overlay of /usr and /bin on /tmp",
		mount("none", "/tmp", "overlay", 0, "lowerdir=/usr:/bin"));
}

static enum outcome mount_bind(int argc, char **argv)
{
	return refused("bind / on /tmp", mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL));
}

static enum outcome remount_writable(int argc, char **argv)
{
	return refused("remount /usr writable", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static enum outcome unmount(int argc, char **argv)
{
	enum outcome outcome = refused("umount /proc/sys", umount2("/proc/sys", MNT_DETACH));

	return worse(outcome, refused("umount /dev/pts", umount2("/dev/pts", MNT_DETACH)));
}

static enum outcome fs_open(int argc, char **argv)
{
	return refused("fsopen(tmpfs)", syscall(SYS_fsopen, "tmpfs", 0));
}

static enum outcome fs_pick(int argc, char **argv)
{
	return refused("fspick(/tmp)", syscall(SYS_fspick, AT_FDCWD, "/tmp", 0));
}

static enum outcome open_tree_clone(int argc, char **argv)
{
	return refused("open_tree(OPEN_TREE_CLONE)", syscall(SYS_open_tree, AT_FDCWD, "/", TREE_CLONE));
}

static enum outcome move_mount_tmp(int argc, char **argv)
{
	return refused("move_mount(/proc, /tmp)", syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
}

static enum outcome mount_attributes(int argc, char **argv)
{
	struct attributes attributes = {.clear = ATTR_READ_ONLY};

	return refused("mount_setattr(/, writable)",
		syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attributes, sizeof attributes));
}

static enum outcome pivot(int argc, char **argv)
{
	return refused("pivot_root", syscall(SYS_pivot_root, ".", "."));
}

static enum outcome change_root(int argc, char **argv)
{
	return refused("chroot", chroot("/tmp"));
}

const struct probe mount_probes[] = {
	{"mount-tmpfs", "mount a tmpfs", CONTROL_ADMIN, mount_tmpfs},
	{"mount-proc", "mount a fresh proc, which has no masks", CONTROL_ADMIN, mount_proc},
	{"mount-cgroup", "mount the hierarchy of cgroups", CONTROL_ADMIN, mount_cgroup},
	{"mount-sysfs", "mount a sysfs", CONTROL_ADMIN, mount_sysfs},
	{"mount-overlay", "mount an overlay", CONTROL_ADMIN, mount_overlay},
	{"mount-bind", "bind a directory", CONTROL_ADMIN, mount_bind},
	{"remount-writable", "remount /usr writable", CONTROL_ADMIN, remount_writable},
	{"umount", "take mounts away from what they cover", CONTROL_ADMIN, unmount},
	{"fsopen", "open a file system with the newer calls", CONTROL_ADMIN, fs_open},
	{"fspick", "reconfigure a file system", CONTROL_ADMIN, fs_pick},
	{"open-tree", "clone a tree of mounts", CONTROL_ADMIN, open_tree_clone},
	{"move-mount", "move a mount", CONTROL_ADMIN, move_mount_tmp},
	{"mount-setattr", "change the attributes of a mount", CONTROL_ADMIN, mount_attributes},
	{"pivot-root", "change the root of the mount namespace", CONTROL_ADMIN, pivot},
	{"chroot", "change its own root", CONTROL_ADMIN, change_root},
	{0},
};
