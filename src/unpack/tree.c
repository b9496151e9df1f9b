/* SPDX-License-Identifier: MIT */
/* A layer's directory while it is filled: see tree.h. */
#define _GNU_SOURCE
#include "unpack/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/features.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { LINKS_MAX = 40, REST_MAX = 2 * PATH_MAX };

/* A directory whose time is set at the end, since each name that is made in it changes it. */
struct directory {
	char *path;
	struct timespec mtime;
};

struct tree {
	int root, notes;
	bool owners, lowest;
	uint32_t notes_count;
	size_t notes_bytes;
	bool opaque; /* the root */

	/* The directory of the last entry and those above it, opened: archives go through a tree in order. */
	int fds[TREE_DEPTH_MAX + 1];
	size_t depth;                    /* of `fds` that are open, the root not counted */
	char path[PATH_MAX];             /* of fds[depth], from the root */
	size_t ends[TREE_DEPTH_MAX + 1]; /* path's length at each depth */

	struct directory *directories; /* that the archive has, in its order */
	size_t directories_count, directories_room;
	char **implied; /* paths of those that it has something in */
	size_t implied_count, implied_room;
	char **marked; /* paths of whiteouts that are marked files */
	size_t marked_count, marked_room;
	size_t names_bytes; /* of memory for all of them */
};

struct tree *tree_new(int root, int notes, bool owners, bool lowest)
{
	struct tree *tree = xcalloc(1, sizeof *tree);

	tree->root = root;
	tree->notes = notes;
	tree->owners = owners;
	tree->lowest = lowest;
	tree->fds[0] = root;
	return tree;
}

static int note(
	struct tree *tree, char kind, const char *path, const char *other, struct error *err)
{
	char record[2 * PATH_MAX + 4];
	size_t length = 1, path_length = strlen(path) + 1, other_length = strlen(other) + 1;

	if (path_length > PATH_MAX || other_length > PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s", path);
	tree->notes_bytes += length + path_length + other_length;
	if (tree->notes_bytes > TREE_NOTES_BYTES_MAX)
		return error_set(
			err, 0, "too many directories and hard links depend on the layers below");
	record[0] = kind;
	memcpy(record + length, path, path_length);
	memcpy(record + length + path_length, other, other_length);
	if (write_whole(tree->notes, record, length + path_length + other_length) < 0)
		return error_set(err, errno, "noting what the layers below decide");
	tree->notes_count++;
	return 0;
}

/* --- directories to come back to --- */

static int count_name(struct tree *tree, const char *path, struct error *err)
{
	tree->names_bytes += strlen(path) + sizeof(struct directory) + 16;
	if (tree->names_bytes > TREE_DIRECTORIES_BYTES_MAX)
		return error_set(err, 0, "there are too many directories with long names");
	return 0;
}

static int remember_directory(
	struct tree *tree, const char *path, const struct timespec *mtime, struct error *err)
{
	if (count_name(tree, path, err) < 0)
		return -1;
	if (tree->directories_count == tree->directories_room) {
		tree->directories_room = tree->directories_room ? 2 * tree->directories_room : 1024;
		tree->directories = xrealloc(
			tree->directories, tree->directories_room, sizeof *tree->directories);
	}
	tree->directories[tree->directories_count++] =
		(struct directory){.path = xstrdup(path), .mtime = *mtime};
	return 0;
}

static int remember_path(struct tree *tree, const char *path, char ***list, size_t *count,
	size_t *room, struct error *err)
{
	if (count_name(tree, path, err) < 0)
		return -1;
	if (*count == *room) {
		*room = *room ? 2 * *room : 64;
		*list = xrealloc(*list, *room, sizeof **list);
	}
	(*list)[(*count)++] = xstrdup(path);
	return 0;
}

static int remember_implied(struct tree *tree, const char *path, struct error *err)
{
	return remember_path(
		tree, path, &tree->implied, &tree->implied_count, &tree->implied_room, err);
}

static int remember_marked(struct tree *tree, const char *path, struct error *err)
{
	return remember_path(
		tree, path, &tree->marked, &tree->marked_count, &tree->marked_room, err);
}

/* --- the way to a directory --- */

static void climb_to(struct tree *tree, size_t depth)
{
	while (tree->depth > depth)
		close(tree->fds[tree->depth--]);
	tree->path[tree->ends[depth]] = '\0';
}

static int descend(struct tree *tree, int fd, const char *name, struct error *err)
{
	size_t at = tree->ends[tree->depth], length = strlen(name), slash = at > 0;

	if (tree->depth == TREE_DEPTH_MAX || at + slash + length >= sizeof tree->path) {
		close(fd);
		return error_set(err, 0,
			"a path is deeper than %d directories or longer than %d bytes",
			TREE_DEPTH_MAX, PATH_MAX - 1);
	}
	if (slash)
		tree->path[at++] = '/';
	memcpy(tree->path + at, name, length + 1);
	tree->fds[++tree->depth] = fd;
	tree->ends[tree->depth] = at + length;
	return 0;
}

static int open_directory(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- removal, as overlayfs reads it --- */

static const char opaque_attribute[] = "user.overlay.opaque",
		  whiteout_attribute[] = "user.overlay.whiteout";

/* The value of the first attribute: y, x, or 0. */
static char opaqueness(int dir)
{
	char value;

	return fgetxattr(dir, opaque_attribute, &value, 1) == 1 ? value : '\0';
}

/* A whiteout that is an empty file. */
static bool is_marked(int dir, const char *name)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char value;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	       fgetxattr(fd, whiteout_attribute, &value, 1) >= 0;
}

static bool is_whiteout(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return S_ISCHR(st.st_mode) ? st.st_rdev == makedev(0, 0)
				   : S_ISREG(st.st_mode) && is_marked(dir, name);
}

/*
 * overlayfs has no devices 0/0 in it, since they would be whiteouts of its own: not in a container whose file system it
 * is. Since Linux 6.8 an empty file with an attribute is a whiteout too, where the directory is marked with an x in place of
 * the y of an opaque one (Documentation/filesystems/overlayfs.rst, «whiteouts and opaque directories»). Not in the lowest
 * layer, nor in an opaque directory, where the file would show; there nothing is below that could.
 */
static int mark_removed(
	struct tree *tree, int dir, const char *name, const char *path, struct error *err)
{
	cleanup_close int fd = -1;
	char marked[2 * PATH_MAX];
	int major_number, minor_number;

	if (tree->lowest || opaqueness(dir) == 'y')
		return 0;
	kernel_version(&major_number, &minor_number);
	if (major_number < 6 || (major_number == 6 && minor_number < 8)) {
		error_set(err, EPERM, "marking %s as removed", path);
		return error_hint(err,
			"the store is on overlayfs, as in a container, and before Linux 6.8 that takes no whiteouts; "
			"put it elsewhere: on a volume, or NSBOX_STORE=/dev/shm/nsbox");
	}
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || fsetxattr(fd, whiteout_attribute, "y", 1, 0) < 0 ||
		fsetxattr(dir, opaque_attribute, "x", 1, 0) < 0)
		return error_set(err, errno, "marking %s as removed", path);
	snprintf(marked, sizeof marked, "%s%s%s", tree->path, tree->depth ? "/" : "", name);
	return remember_marked(tree, marked, err);
}

/* A directory with marked whiteouts becomes opaque: they would show. */
static void remove_marked(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	while (stream && (entry = readdir(stream)))
		if (is_marked(dir, entry->d_name))
			unlinkat(dir, entry->d_name, 0);
	if (stream)
		closedir(stream);
	else
		close_fd(&copy);
}

static int set_opaque(int dir, const char *path, struct error *err)
{
	if (opaqueness(dir) == 'x')
		remove_marked(dir);
	if (fsetxattr(dir, opaque_attribute, "y", 1, 0) == 0)
		return 0;
	error_set(err, errno, "marking %s as opaque", *path ? path : "/");
	if (err->errnum == EOPNOTSUPP)
		error_hint(err,
			"the store is on a file system without user extended attributes, which overlayfs "
			"needs; put it on ext4, xfs or btrfs, or on tmpfs with Linux 6.6 or later");
	return -1;
}

static int make_directory(
	int dir, const char *name, const char *path, bool opaque, struct error *err)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0)
		return error_set(err, errno, "making the directory %s", path);
	fd = open_directory(dir, name);
	if (fd < 0)
		return error_set(err, errno, "opening the directory %s", path);
	if (opaque && set_opaque(fd, path, err) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* In front of what is left of a path comes what a link says. */
static int follow(
	struct tree *tree, const char *name, char *rest, unsigned *links, struct error *err)
{
	char target[PATH_MAX], old[REST_MAX];
	ssize_t n = readlinkat(tree->fds[tree->depth], name, target, sizeof target - 1);

	if (n <= 0)
		return error_set(err, n < 0 ? errno : ENOENT, "reading the link %s", name);
	target[n] = '\0';
	if (++*links > LINKS_MAX)
		return error_set(err, ELOOP, "following links");
	strcpy(old, rest);
	if (snprintf(rest, REST_MAX, "%s/%s", target, old) >= REST_MAX)
		return error_set(err, ENAMETOOLONG, "following links");
	if (target[0] == '/')
		climb_to(tree, 0);
	return 0;
}

/*
 * One component, which is not there as a directory. Made, with a note that its attributes come from below; a link
 * is followed; anything else gives way, and hides what is below.
 */
static int enter_otherwise(
	struct tree *tree, const char *name, char *rest, unsigned *links, struct error *err)
{
	int dir = tree->fds[tree->depth], fd;
	bool opaque = false;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISLNK(st.st_mode))
			return follow(tree, name, rest, links, err);
		if (unlinkat(dir, name, 0) < 0)
			return error_set(err, errno, "replacing %s", name);
		opaque = true;
	} else if (errno != ENOENT) {
		return error_set(err, errno, "looking at %s", name);
	}
	fd = make_directory(dir, name, name, opaque, err);
	if (fd < 0 || descend(tree, fd, name, err) < 0)
		return -1;
	return opaque ? 0 : remember_implied(tree, tree->path, err);
}

static int enter(
	struct tree *tree, const char *name, char *rest, unsigned *links, struct error *err)
{
	int fd;

	if (strcmp(name, ".") == 0 || !*name)
		return 0;
	if (strcmp(name, "..") == 0) {
		climb_to(tree, tree->depth ? tree->depth - 1 : 0);
		return 0;
	}
	fd = open_directory(tree->fds[tree->depth], name);
	if (fd >= 0)
		return descend(tree, fd, name, err);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return enter_otherwise(tree, name, rest, links, err);
	return error_set(err, errno, "opening the directory %s", name);
}

/* How much of `path` (`length` bytes) the open directories are; the rest of it is put into `rest`. */
static void share(struct tree *tree, const char *path, size_t length, char *rest)
{
	size_t depth = tree->depth;

	while (depth > 0) {
		size_t end = tree->ends[depth];

		if (end <= length && memcmp(tree->path, path, end) == 0 &&
			(end == length || path[end] == '/'))
			break;
		depth--;
	}
	climb_to(tree, depth);
	path += tree->ends[depth];
	length -= tree->ends[depth];
	memcpy(rest, path, length);
	rest[length] = '\0';
}

/*
 * Goes to the directory in which the last component of `path` is; returns its descriptor, which stays the tree's.
 */
static int enter_parent(
	struct tree *tree, const char *path, const char **ret_name, struct error *err)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;
	char rest[REST_MAX], name[NAME_MAX + 1];
	unsigned links = 0;

	if (strlen(path) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "a path of %zu bytes", strlen(path));
	*ret_name = slash ? slash + 1 : path;
	if (strlen(*ret_name) > NAME_MAX)
		return error_set(err, ENAMETOOLONG, "a name of %zu bytes", strlen(*ret_name));
	share(tree, path, length, rest);
	while (*rest) {
		size_t part = strcspn(rest, "/");

		if (part > NAME_MAX)
			return error_set(err, ENAMETOOLONG, "a name of %zu bytes", part);
		memcpy(name, rest, part);
		name[part] = '\0';
		part += rest[part] == '/';
		memmove(rest, rest + part, strlen(rest + part) + 1);
		if (enter(tree, name, rest, &links, err) < 0)
			return error_context(err, "%s", path);
	}
	return tree->fds[tree->depth];
}

/* --- removal --- */

static int remove_below(int dir, unsigned depth, struct error *err);

static int remove_one(int dir, const char *name, unsigned depth, struct error *err)
{
	cleanup_close int fd = -1;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return error_set(err, errno, "removing %s", name);
	if (depth > 2 * TREE_DEPTH_MAX)
		return error_set(err, ELOOP, "removing %s", name);
	fd = open_directory(dir, name);
	if (fd < 0 || remove_below(fd, depth + 1, err) < 0 || unlinkat(dir, name, AT_REMOVEDIR) < 0)
		return err->text[0] ? -1 : error_set(err, errno, "removing %s", name);
	return 0;
}

static int remove_below(int dir, unsigned depth, struct error *err)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&copy);
		return error_set(err, errno, "reading a directory");
	}
	while (r == 0 && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = remove_one(dir, entry->d_name, depth, err);
	closedir(stream);
	return r;
}

/*
 * Makes room for something new at `name`. *ret_hides: something that the layers below could show through was
 * there, and a new directory has to hide it.
 */
static int make_room(
	struct tree *tree, int dir, const char *name, bool *ret_hides, struct error *err)
{
	struct stat st;

	*ret_hides = false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_set(err, errno, "looking at %s", name);
	*ret_hides = true;
	return remove_one(dir, name, 0, err);
}

/* --- attributes --- */

/* A change of owner clears the set-user-ID bits, so the mode comes after it. */
static int set_attributes(struct tree *tree, int fd, const char *path,
	const struct attributes *attributes, bool times, struct error *err)
{
	struct timespec both[2] = {attributes->mtime, attributes->mtime};

	if (tree->owners && fchown(fd, attributes->uid, attributes->gid) < 0)
		return error_set(err, errno, "%s: setting its owner to %u:%u", path,
			attributes->uid, attributes->gid);
	if (fchmod(fd, attributes->mode & 07777) < 0)
		return error_set(err, errno, "%s: setting its mode", path);
	if (times && futimens(fd, both) < 0)
		return error_set(err, errno, "%s: setting its time", path);
	return 0;
}

/* The same for what cannot be opened. */
static int set_attributes_at(struct tree *tree, int dir, const char *name, const char *path,
	const struct attributes *attributes, struct error *err)
{
	struct timespec both[2] = {attributes->mtime, attributes->mtime};

	if (tree->owners &&
		fchownat(dir, name, attributes->uid, attributes->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "%s: setting its owner to %u:%u", path,
			attributes->uid, attributes->gid);
	if (utimensat(dir, name, both, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "%s: setting its time", path);
	return 0;
}

/* --- entries --- */

int tree_directory(
	struct tree *tree, const char *path, const struct attributes *attributes, struct error *err)
{
	cleanup_close int fd = -1;
	const char *name;
	bool hides = false;
	int dir;

	if (!*path) { /* the root itself */
		if (set_attributes(tree, tree->root, "/", attributes, false, err) < 0)
			return -1;
		return remember_directory(tree, "", &attributes->mtime, err);
	}
	dir = enter_parent(tree, path, &name, err);
	if (dir < 0)
		return -1;
	fd = open_directory(dir, name);
	if (fd < 0) {
		if (make_room(tree, dir, name, &hides, err) < 0)
			return -1;
		fd = make_directory(dir, name, path, hides, err);
		if (fd < 0)
			return -1;
	}
	if (set_attributes(tree, fd, path, attributes, false, err) < 0 ||
		descend(tree, move_fd(&fd), name, err) < 0)
		return -1;
	return remember_directory(tree, tree->path, &attributes->mtime, err);
}

int tree_symlink(struct tree *tree, const char *path, const char *target,
	const struct attributes *attributes, struct error *err)
{
	const char *name;
	bool hides;
	int dir = enter_parent(tree, path, &name, err);

	if (dir < 0 || make_room(tree, dir, name, &hides, err) < 0)
		return -1;
	if (symlinkat(target, dir, name) < 0)
		return error_set(err, errno, "making the symbolic link %s", path);
	return set_attributes_at(tree, dir, name, path, attributes, err);
}

int tree_fifo(
	struct tree *tree, const char *path, const struct attributes *attributes, struct error *err)
{
	const char *name;
	bool hides;
	int dir = enter_parent(tree, path, &name, err);

	if (dir < 0 || make_room(tree, dir, name, &hides, err) < 0)
		return -1;
	if (mknodat(dir, name, S_IFIFO | (attributes->mode & 07777), 0) < 0)
		return error_set(err, errno, "making the FIFO %s", path);
	/* The owner first: the kernel takes set-user-ID bits away with it. */
	if (set_attributes_at(tree, dir, name, path, attributes, err) < 0)
		return -1;
	return fchmodat(dir, name, attributes->mode & 07777, 0) < 0 ? error_set(err, errno, "%s: setting its mode", path) : 0;
}

/*
 * Opens (O_PATH) what a hard link points to; its parents are searched as a path of the image is, the last component
 * is not followed. Returns -1 with ENOENT in errno where this layer does not have it.
 */
static int open_link_target(struct tree *tree, const char *target, struct error *err)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(target, '/');
	size_t length = slash ? (size_t)(slash - target) : 0;
	cleanup_close int dir = -1;
	int fd;

	if (length >= sizeof parent)
		return error_set(err, ENAMETOOLONG, "%s", target);
	memcpy(parent, target, length);
	parent[length] = '\0';
	dir = open(length ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = dir < 0 ? -1
		     : openat(dir, slash ? slash + 1 : target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		errno = errno == ENOTDIR ? ENOENT : errno;
		return -1;
	}
	if (is_whiteout(dir, slash ? slash + 1 : target)) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	return fd;
}

int tree_hard_link(struct tree *tree, const char *path, const char *target, struct error *err)
{
	cleanup_close int fd = open_link_target(tree, target, err);
	struct stat st, old;
	const char *name;
	bool hides;
	int dir;

	if (fd < 0 && errno != ENOENT)
		return error_set(err, errno, "the hard link %s to %s", path, target);
	if (fd >= 0 && fstat(fd, &st) < 0)
		return error_set(err, errno, "the hard link %s to %s", path, target);
	if (fd >= 0 && S_ISDIR(st.st_mode))
		return error_set(err, 0, "the hard link %s is to the directory %s", path, target);
	dir = enter_parent(tree, path, &name, err);
	if (dir < 0)
		return -1;
	if (fd < 0)
		return make_room(tree, dir, name, &hides, err) < 0
			       ? -1
			       : note(tree, 'l', path, target, err);
	if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_dev == st.st_dev &&
		old.st_ino == st.st_ino)
		return 0;
	if (make_room(tree, dir, name, &hides, err) < 0)
		return -1;
	/* By its name: AT_EMPTY_PATH would need a capability. The process is alone in the tree. */
	if (linkat(tree->root, target, dir, name, 0) < 0)
		return error_set(err, errno, "making the hard link %s to %s", path, target);
	return 0;
}

int tree_file(struct tree *tree, const char *path, struct error *err)
{
	const char *name;
	bool hides;
	int dir = enter_parent(tree, path, &name, err), fd;

	if (dir < 0)
		return -1;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) {
		if (make_room(tree, dir, name, &hides, err) < 0)
			return -1;
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		error_set(err, errno, "making the file %s", path);
	return fd;
}

int tree_file_done(struct tree *tree, int fd, const char *path, const struct attributes *attributes,
	struct error *err)
{
	int r = set_attributes(tree, fd, path, attributes, true, err);

	/* Some file systems say only now that there was no room. */
	if (close(fd) < 0 && r == 0)
		return error_set(err, errno, "writing %s", path);
	return r;
}

int tree_xattr(struct tree *tree, const char *path, const char *name, const void *value,
	size_t size, struct error *err)
{
	cleanup_close int fd = -1;
	const char *last;
	int dir;

	if (!*path) {
		fd = openat(tree->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		dir = enter_parent(tree, path, &last, err);
		if (dir < 0)
			return -1;
		fd = openat(dir, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	if (fd < 0)
		return errno == ELOOP
			       ? 1
			       : error_set(err, errno, "%s: setting its attribute %s", path, name);
	if (fsetxattr(fd, name, value, size, 0) == 0)
		return 0;
	if (errno == EOPNOTSUPP || errno == EPERM)
		return 1;
	return error_set(err, errno, "%s: setting its attribute %s", path, name);
}

int tree_whiteout(struct tree *tree, const char *path, struct error *err)
{
	const char *name;
	int dir = enter_parent(tree, path, &name, err);
	cleanup_close int fd = -1;
	struct stat st;

	if (dir < 0)
		return -1;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		/* What this layer has stays; only what is below goes. */
		if (!S_ISDIR(st.st_mode))
			return 0;
		fd = open_directory(dir, name);
		return fd < 0 ? error_set(err, errno, "opening %s", path)
			      : set_opaque(fd, path, err);
	}
	if (errno == ENOENT && mknodat(dir, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	if (errno == EPERM)
		return mark_removed(tree, dir, name, path, err);
	return error_set(err, errno, "marking %s as removed", path);
}

int tree_opaque(struct tree *tree, const char *path, struct error *err)
{
	char below[PATH_MAX + 2];
	const char *name;
	int dir;

	if (!*path) {
		tree->opaque = true;
		return 0;
	}
	/* The directory, made where it is not there yet: the parent of a name in it. */
	if (snprintf(below, sizeof below, "%s/x", path) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s", path);
	dir = enter_parent(tree, below, &name, err);
	return dir < 0 ? -1 : set_opaque(dir, path, err);
}

/* --- the end --- */

static int set_times(struct tree *tree, struct error *err)
{
	for (size_t i = 0; i < tree->directories_count; i++) {
		const struct directory *directory = &tree->directories[i];
		struct timespec both[2] = {directory->mtime, directory->mtime};
		/* One that has been replaced since has no time to be set. */
		cleanup_close int fd = openat(tree->root, *directory->path ? directory->path : ".",
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && futimens(fd, both) < 0)
			return error_set(err, errno, "%s: setting its time", directory->path);
	}
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* An entry of its own that came later has said what the directory is. */
static int note_implied(struct tree *tree, struct error *err)
{
	char **named = xcalloc(tree->directories_count + 1, sizeof *named);
	int r = 0;

	for (size_t i = 0; i < tree->directories_count; i++)
		named[i] = tree->directories[i].path;
	qsort(named, tree->directories_count, sizeof *named, compare_paths);
	for (size_t i = 0; r == 0 && i < tree->implied_count; i++)
		if (!bsearch(&tree->implied[i], named, tree->directories_count, sizeof *named,
			    compare_paths))
			r = note(tree, 'd', tree->implied[i], "", err);
	free(named);
	return r;
}

int tree_finish(struct tree *tree, uint32_t *ret_notes, bool *ret_opaque, struct error *err)
{
	climb_to(tree, 0);
	/* Such a layer is the lowest. */
	for (size_t i = 0; tree->opaque && i < tree->marked_count; i++)
		if (is_marked(tree->root, tree->marked[i]))
			unlinkat(tree->root, tree->marked[i], 0);
	if (set_times(tree, err) < 0 || note_implied(tree, err) < 0)
		return -1;
	*ret_notes = tree->notes_count;
	*ret_opaque = tree->opaque;
	return 0;
}

void tree_free(struct tree *tree)
{
	climb_to(tree, 0);
	for (size_t i = 0; i < tree->directories_count; i++)
		free(tree->directories[i].path);
	for (size_t i = 0; i < tree->implied_count; i++)
		free(tree->implied[i]);
	for (size_t i = 0; i < tree->marked_count; i++)
		free(tree->marked[i]);
	free(tree->directories);
	free(tree->implied);
	free(tree->marked);
	free(tree);
}
