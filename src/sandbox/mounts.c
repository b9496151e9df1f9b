/* SPDX-License-Identifier: MIT */
/* The mount API by descriptor, and names inside a tree that is not trusted: see mounts.h. */
#define _GNU_SOURCE
#include "sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { OLD_ROOTS_MAX = 4 }; /* more than there can be */

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif

int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

int sys_move_mount(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from_dirfd, from, to_dirfd, to, flags);
}

int sys_mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr)
{
	return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, sizeof *attr);
}

int sys_fsopen(const char *filesystem)
{
	return (int)syscall(SYS_fsopen, filesystem, FSOPEN_CLOEXEC);
}

int sys_fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

int sys_fsmount(int fd, uint64_t attributes)
{
	return (int)syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, (unsigned)attributes);
}

int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

int sys_umount_detach(const char *path)
{
	return (int)syscall(SYS_umount2, path, MNT_DETACH);
}

int tree_restrict(int tree, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};

	if (!attributes)
		return 0;
	return sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr);
}

int tree_clone(int dirfd, const char *path, bool follow, uint64_t attributes)
{
	/* Recursive always: a mount below, locked by a more privileged owner, makes a plain clone EINVAL. */
	cleanup_close int tree = sys_open_tree(dirfd, path,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
			(follow ? 0 : AT_SYMLINK_NOFOLLOW) | (path[0] ? 0 : AT_EMPTY_PATH));

	if (tree < 0 || tree_restrict(tree, attributes) < 0)
		return -1;
	return move_fd(&tree);
}

int open_exact(const char *path, bool exact, int flags)
{
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = exact ? RESOLVE_NO_SYMLINKS : 0};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

int refuse_exact(bool exact, struct error *err)
{
	return exact && err->errnum == ELOOP
		       ? error_hint(err, "there is a symbolic link now that was not there before: it is not followed")
		       : -1;
}

/* O_DIRECTORY first, as what is mounted when it is needed (autofs) is not for O_PATH alone. */
static int open_source(const struct mount_spec *mount)
{
	int fd = open_exact(mount->source, mount->exact, O_PATH | O_DIRECTORY);

	return fd < 0 && errno == ENOTDIR ? open_exact(mount->source, mount->exact, O_PATH) : fd;
}

static int refuse_source(const struct mount_spec *mount, struct error *err)
{
	error_set(err, errno, "binding %s", mount->source);
	return refuse_exact(mount->exact, err);
}

int tree_check_source(const struct mount_spec *mount, struct error *err)
{
	cleanup_close int fd = open_source(mount);

	return fd < 0 ? refuse_source(mount, err) : 0;
}

int tree_clone_source(const struct mount_spec *mount, struct error *err)
{
	cleanup_close int fd = open_source(mount);
	int tree = fd < 0 ? -1
			  : tree_clone(fd, "", false, TREE_NO_DEV_SUID | (mount->read_only ? TREE_READ_ONLY : 0));

	return tree < 0 ? refuse_source(mount, err) : tree;
}

static bool is_exact(const struct spec *spec, size_t index)
{
	return spec->root_exact && spec_lower(spec, index) == spec->root_path;
}

int open_lower(const struct spec *spec, size_t index, struct error *err)
{
	int fd = open_exact(spec_lower(spec, index), is_exact(spec, index), O_PATH | O_DIRECTORY);

	if (fd >= 0)
		return fd;
	error_set(err, errno, "the root %s", spec_lower(spec, index));
	return refuse_exact(is_exact(spec, index), err);
}

int tree_clone_lower(const struct spec *spec, size_t index, bool recursive, uint64_t attributes, struct error *err)
{
	const char *path = spec_lower(spec, index);
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0);
	cleanup_close int tree = -1;

	if (is_exact(spec, index)) {
		cleanup_close int fd = open_lower(spec, index, err);

		if (fd < 0)
			return -1;
		tree = sys_open_tree(fd, "", flags | AT_EMPTY_PATH);
	} else {
		char directory[PATH_MAX]; /* what ends in a slash is one */

		errno = ENAMETOOLONG;
		if (snprintf(directory, sizeof directory, "%s/", path) < (int)sizeof directory)
			tree = sys_open_tree(AT_FDCWD, directory, flags);
	}
	if (tree < 0 || tree_restrict(tree, attributes) < 0)
		return error_set(err, errno, "the root %s", path);
	return move_fd(&tree);
}

int tree_tmpfs(
	uint64_t bytes, uint64_t inodes, const char *mode, uint64_t attributes, struct error *err)
{
	cleanup_close int fs = sys_fsopen("tmpfs");
	char size_text[24], inodes_text[24];
	int tree;

	if (fs < 0)
		return error_set(err, errno, "opening a new tmpfs");
	snprintf(size_text, sizeof size_text, "%llu", (unsigned long long)bytes);
	snprintf(inodes_text, sizeof inodes_text, "%llu", (unsigned long long)inodes);
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", size_text, 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes_text, 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", mode, 0) < 0)
		return error_set(err, errno, "setting the size of a tmpfs");
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_set(err, errno, "creating a tmpfs");
	tree = sys_fsmount(fs, attributes);
	if (tree < 0)
		return error_set(err, errno, "mounting a tmpfs");
	return tree;
}

int tree_attach(int tree, int dirfd, const char *name)
{
	return sys_move_mount(tree, "", dirfd, name, MOVE_MOUNT_F_EMPTY_PATH);
}

int tree_attach_at(int tree, int target)
{
	return sys_move_mount(
		tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int open_in_root(int root, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd;

	/* EAGAIN: something was renamed on the host while the kernel looked. */
	do
		fd = syscall(SYS_openat2, root, path, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN);
	return (int)fd;
}

const char *split_path(const char *path, char *ret_parent)
{
	size_t end = strlen(path);
	size_t start;

	while (end > 1 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	memcpy(ret_parent, path, start);
	ret_parent[start] = '\0';
	if (start == 0)
		strcpy(ret_parent, "/");
	return path + start;
}

void own_mounts_add(struct own_mounts *own, int fd)
{
	uint64_t id = mount_id(fd, "", AT_EMPTY_PATH);

	if (own->count < OWN_MOUNTS_MAX && id)
		own->ids[own->count++] = id;
}

/* Whether something may be made in the directory `parent`: in one of the host's it would stay. */
static int check_own(int parent, const char *path, const struct own_mounts *own, struct error *err)
{
	uint64_t id = mount_id(parent, "", AT_EMPTY_PATH);

	if (!id)
		return error_set(err, errno, "looking at the directory of %s inside", path);
	for (size_t i = 0; i < own->count; i++)
		if (own->ids[i] == id)
			return 0;
	error_set(err, 0,
		"%s does not exist, and the directory that it would be in is not the sandbox's own, so it is not made",
		path);
	return error_hint(
		err, "make it on the host beforehand, or choose a path that is not below a bind");
}

int make_directories_in_root(
	int root, const char *path, const struct own_mounts *own, struct error *err)
{
	cleanup_close int dir = open_in_root(root, path, O_PATH | O_DIRECTORY, 0, 0);
	cleanup_close int parent = -1;
	char parent_path[4096], name[256];
	const char *last;

	if (dir >= 0)
		return move_fd(&dir);
	if (errno != ENOENT)
		return error_set(err, errno, "opening %s inside", path);
	last = split_path(path, parent_path);
	if (strcspn(last, "/") >= sizeof name)
		return error_set(err, ENAMETOOLONG, "making %s inside", path);
	memcpy(name, last, strcspn(last, "/"));
	name[strcspn(last, "/")] = '\0';
	parent = make_directories_in_root(root, parent_path, own, err);
	if (parent < 0 || check_own(parent, path, own, err) < 0)
		return -1;
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the directory %s inside", path);
	dir = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_set(err, errno, "opening %s inside", path);
	return move_fd(&dir);
}

static int make_file_in_root(
	int root, const char *path, const struct own_mounts *own, struct error *err)
{
	cleanup_close int parent = -1, fd = -1;
	char parent_path[4096];
	const char *name = split_path(path, parent_path);

	parent = make_directories_in_root(root, parent_path, own, err);
	if (parent < 0 || check_own(parent, path, own, err) < 0)
		return -1;
	fd = openat(parent, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_set(err, errno, "making the file %s inside", path);
	close_fd(&fd);
	fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "opening %s inside", path);
	return move_fd(&fd);
}

int make_target_in_root(
	int root, const char *path, bool file, const struct own_mounts *own, struct error *err)
{
	cleanup_close int target = -1;
	struct stat st;

	if (!file)
		return make_directories_in_root(root, path, own, err);
	target = open_in_root(root, path, O_PATH, 0, 0);
	if (target < 0 && errno == ENOENT)
		return make_file_in_root(root, path, own, err);
	if (target < 0 || fstat(target, &st) < 0)
		return error_set(err, errno, "opening %s inside", path);
	if (S_ISDIR(st.st_mode))
		return error_set(err, EISDIR, "mounting a file on %s", path);
	return move_fd(&target);
}

uint64_t mount_id(int dirfd, const char *path, int flags)
{
	struct statx stx;

	if (statx(dirfd, path, flags | AT_NO_AUTOMOUNT, STATX_MNT_ID, &stx) < 0)
		return 0;
	return stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0;
}

/*
 * After pivot_root(".", ".") the old root lies on the new one, and what had been mounted on the old root
 * lies on that: with a scratch mount there are two of them, and «/..» leads to the topmost. So each is let
 * go of until it is the new root itself that is reached; it must be seen, since what stays would be
 * the host's tree, open to the command.
 */
static int leave_old_root(int tree, struct error *err)
{
	uint64_t ours = mount_id(tree, "", AT_EMPTY_PATH), topmost;

	for (int i = 0; i < OLD_ROOTS_MAX; i++) {
		topmost = mount_id(AT_FDCWD, "/..", 0);
		if (!ours || !topmost)
			return error_set(err, errno, "looking at what is mounted on the new root");
		if (topmost == ours)
			return 0;
		if (sys_umount_detach(".") < 0)
			return error_set(err, errno, "letting go of the host's root");
	}
	return error_set(
		err, 0, "letting go of the host's root: something is mounted on the new one still");
}

int tree_become_root(int tree, struct error *err)
{
	/* The old root comes to lie on the new one, at the same place: pivot_root(2), «pivot_root(".", ".")». */
	if (fchdir(tree) < 0 || sys_pivot_root(".", ".") < 0)
		return error_set(err, errno, "changing the root (pivot_root)");
	if (leave_old_root(tree, err) < 0)
		return -1;
	if (chdir("/") < 0)
		return error_set(err, errno, "entering the new root");
	return 0;
}

/* --- overlays --- */

/* By mount(2), with all options in one string: what there was before lower directories could be added one by one. */
static int overlay_by_string(unsigned count, const struct overlay_upper *upper, struct error *err)
{
	char options[4096] = "userxattr";
	size_t used = strlen(options);

	if (upper)
		used += (size_t)snprintf(options + used, sizeof options - used, ",upperdir=%s,workdir=%s%s", upper->upper,
			upper->work, upper->is_volatile ? ",volatile" : "");
	used += (size_t)snprintf(options + used, sizeof options - used, ",lowerdir=");
	for (unsigned i = 0; i < count && used < sizeof options; i++)
		used += (size_t)snprintf(options + used, sizeof options - used, "%sl/%u", i ? ":" : "", i);
	if (used >= sizeof options)
		return error_set(err, 0, "%u layers are more than this kernel's overlayfs takes (Linux 6.8 takes more)", count);
	if (mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return error_set(err, errno, "mounting an overlay");
	return openat(AT_FDCWD, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Returns 1 where the kernel does not know «lowerdir+» and says so now. */
static int add_lowers(int fs, unsigned count, struct error *err)
{
	char name[16];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "l/%u", i);
		if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir+", name, 0) == 0)
			continue;
		return i == 0 && errno == EINVAL ? 1 : error_set(err, errno, "adding a layer to an overlay");
	}
	return 0;
}

/*
 * Returns 1 where the kernel does not know «lowerdir+». Before Linux 6.5 overlayfs is not asked about options before
 * the end, so that it may be any of them that is refused then: the same overlay made otherwise tells.
 */
static int configure_overlay(int fs, unsigned count, const struct overlay_upper *upper, struct error *err)
{
	int r = 0;

	/* One alone has been «lowerdir» for longer. */
	if (count == 1 && sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", "l/0", 0) < 0)
		return error_set(err, errno, "configuring an overlay");
	if (count > 1)
		r = add_lowers(fs, count, err);
	if (r != 0)
		return r;
	if ((upper && (sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper->upper, 0) < 0 ||
			      sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", upper->work, 0) < 0)) ||
		(upper && upper->is_volatile && sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0) ||
		sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		return error_set(err, errno, "configuring an overlay");
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return count > 1 && errno == EINVAL ? 1 : error_set(err, errno, "mounting an overlay");
	return 0;
}

int tree_overlay(int scratch, unsigned count, const struct overlay_upper *upper, struct error *err)
{
	cleanup_close int fs = -1, tree = -1;
	int r;

	if (fchdir(scratch) < 0)
		return error_set(err, errno, "entering the writable space");
	fs = sys_fsopen("overlay");
	if (fs < 0)
		return error_set(err, errno, "overlayfs");
	r = configure_overlay(fs, count, upper, err);
	if (r != 0)
		return r < 0 ? -1 : overlay_by_string(count, upper, err);
	tree = sys_fsmount(fs, TREE_NO_DEV_SUID);
	if (tree < 0 || tree_attach(tree, scratch, "root") < 0)
		return error_set(err, errno, "mounting an overlay");
	return move_fd(&tree);
}
