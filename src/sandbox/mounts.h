/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_MOUNTS_H
#define NSBOX_SANDBOX_MOUNTS_H

/*
 * The mount API by descriptor (Linux 5.2: fsopen(2), fsmount(2), open_tree(2), move_mount(2); 5.12:
 * mount_setattr(2)), and names resolved inside a tree that is not trusted.
 *
 * A *tree* is the descriptor of a detached mount. It is changed while nobody can reach it and is then
 * attached. Names below a root are resolved with openat2(2) RESOLVE_IN_ROOT: whatever links the tree
 * contains, nothing outside of it is opened, made or mounted on.
 *
 * The wrappers are ours, since glibc has them only from 2.36 on.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <linux/mount.h>

struct error;
struct mount_spec;
struct spec;

/* Attributes for mounts that the sandbox sees. */
enum {
	TREE_READ_ONLY = MOUNT_ATTR_RDONLY,
	TREE_NO_DEV_SUID = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
};

int sys_open_tree(int dirfd, const char *path, unsigned flags);
int sys_move_mount(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags);
int sys_mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr);
int sys_fsopen(const char *filesystem);
int sys_fsconfig(int fd, unsigned command, const char *key, const void *value, int aux);
int sys_fsmount(int fd, uint64_t attributes);
int sys_pivot_root(const char *new_root, const char *put_old);
int sys_umount_detach(const char *path);

/*
 * A detached clone of what is mounted at `path` (with all below it), with the attributes of TREE_*
 * added; an empty path means dirfd itself. Follows a last symbolic link only with `follow`. Returns
 * -1 with errno.
 */
int tree_clone(int dirfd, const char *path, bool follow, uint64_t attributes);

/* The same of the source of a bind mount, with *err. */
int tree_clone_source(const struct mount_spec *mount, struct error *err);

/* Whether that can be: 0, or -1 with *err. */
int tree_check_source(const struct mount_spec *mount, struct error *err);

/* One of spec_lower, with O_PATH; -1 with *err. */
int open_lower(const struct spec *spec, size_t index, struct error *err);

/* A clone of one, as tree_clone; without what is mounted below it where it is not `recursive`. -1 with *err. */
int tree_clone_lower(const struct spec *spec, size_t index, bool recursive, uint64_t attributes, struct error *err);

/* open(2), where with `exact` a path with a symbolic link on its way is ELOOP. */
int open_exact(const char *path, bool exact, int flags);

/* Adds to *err of it what that means. Returns -1. */
int refuse_exact(bool exact, struct error *err);

/* Adds attributes to every mount of a tree. */
int tree_restrict(int tree, uint64_t attributes);

/*
 * A new, detached tmpfs of at most `bytes` and `inodes`. `mode` is the octal mode of its root.
 */
int tree_tmpfs(
	uint64_t bytes, uint64_t inodes, const char *mode, uint64_t attributes, struct error *err);

/* Attaches a tree at the name `name` in the directory dirfd (no resolving: `name` is ours). */
int tree_attach(int tree, int dirfd, const char *name);

/* Attaches a tree on the file or directory that `target` (O_PATH) is. */
int tree_attach_at(int tree, int target);

/*
 * Opens `path` below `root` with openat2 RESOLVE_IN_ROOT and no magic links. A leading slash means
 * `root`. `resolve` adds RESOLVE_* flags. Returns -1 with errno.
 */
int open_in_root(int root, const char *path, int flags, mode_t mode, uint64_t resolve);

/*
 * The mounts that are the sandbox's own and go with it. Names are made in these alone: through a bind they would be
 * made on the host's disk, and stay there. (The file system does not tell: with its writable space on disk, what is
 * bound can be on the same.)
 */
enum { OWN_MOUNTS_MAX = 20 };

struct own_mounts {
	uint64_t ids[OWN_MOUNTS_MAX];
	size_t count;
};

/* Adds the mount that `fd` is on. */
void own_mounts_add(struct own_mounts *own, int fd);

/*
 * Opens (O_PATH) the directory `path` below `root`, making what is missing with mode 0755. What is missing
 * on a mount other than those of `own` is an error.
 */
int make_directories_in_root(
	int root, const char *path, const struct own_mounts *own, struct error *err);

/*
 * Opens (O_PATH) something to mount on at `path` below `root`: a directory or, with `file`, a regular
 * file; makes it and the directories above it when they are missing, as above. What is there of the wrong
 * type is an error.
 */
int make_target_in_root(
	int root, const char *path, bool file, const struct own_mounts *own, struct error *err);

/* What can be written of an overlay: names in the directory that it is mounted in. */
struct overlay_upper {
	const char *upper, *work; /* directories of one mount */
	bool is_volatile;	  /* what is synchronized need not be on disk: it is not wanted after the overlay */
};

/*
 * Mounts an overlay on «root» in the directory `scratch` and returns its descriptor. Its lower directories are «l/0»,
 * the topmost, to «l/COUNT-1» in `scratch`; with no `upper` (NULL) there have to be two of them. Its own attributes are «user.overlay.*» (Linux 5.11). Changes
 * the current directory to `scratch`. Before «lowerdir+» (Linux 6.8) all names have to fit into one page.
 */
int tree_overlay(int scratch, unsigned count, const struct overlay_upper *upper, struct error *err);

/* Splits a path: the directory part into `ret_parent` (at least 4096 bytes), the last name returned. */
const char *split_path(const char *path, char *ret_parent);

/* The mount that a name leads to, whatever is mounted on it. 0 with errno: it cannot be told. `flags` as in statx(2). */
uint64_t mount_id(int dirfd, const char *path, int flags);

/*
 * Makes an attached tree the root and the current directory of the process, and lets go of all that the mount
 * namespace had before. Nothing of that can be reached afterwards, other than by descriptors that are open.
 */
int tree_become_root(int tree, struct error *err);

#endif
