/* SPDX-License-Identifier: MIT */
/* A copy of what a sandbox has written: see duplicate.h. */
#define _GNU_SOURCE
#include "image/duplicate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/storage.h"
#include "image/upper.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	PIECE = 8 << 20, /* bytes between two looks at what is free, */
	MANY = 1024,	 /* and names */
	FD_LINK_SIZE = 40,
	XATTR_NAMES_MAX = 64 << 10,
	XATTR_VALUE_MAX = 64 << 10,
	BUCKETS = 1024,
};

/* A file with more names, by the first that it got in the copy. */
struct linked {
	struct linked *next;
	dev_t device;
	ino_t inode;
	char *path; /* owned, from the top */
};

struct duplication {
	int top;		   /* of the copy */
	int directories[UPPER_DEPTH_MAX + 1]; /* of the copy, in each other: the first is `top` */
	unsigned depth;
	uint64_t floor_bytes, bytes, since_look;
	const struct duplicate_end *end; /* NULL: nobody else has what is copied */
	struct linked *linked[BUCKETS];
	struct tree_merged *merged; /* of a merge: what it has made; or NULL */
	bool clones;		    /* the file system may be able to share content between files */
	char names[XATTR_NAMES_MAX];
	char value[XATTR_VALUE_MAX];
};

static const char *fd_link(int fd, char buffer[FD_LINK_SIZE])
{
	snprintf(buffer, FD_LINK_SIZE, "/proc/self/fd/%d", fd);
	return buffer;
}

/* --- what is to be said of a file --- */

/* Of what is open, both of them. Only user.*: all else names ids of the one sandbox, or is the kernel's. */
static int copy_attributes(struct duplication *copy, int from, int to, const char *path, struct error *err)
{
	char from_link[FD_LINK_SIZE], to_link[FD_LINK_SIZE];
	ssize_t length = listxattr(fd_link(from, from_link), copy->names, sizeof copy->names);

	if (length < 0 && errno != EOPNOTSUPP)
		return error_set(err, errno, "%s: reading its attributes", path);
	fd_link(to, to_link);
	for (const char *name = copy->names; length > 0 && name < copy->names + length; name += strlen(name) + 1) {
		ssize_t size;

		if (strncmp(name, "user.", 5) != 0 || (copy->merged && strncmp(name, "user.overlay.", 13) == 0))
			continue;
		size = getxattr(from_link, name, copy->value, sizeof copy->value);
		if (size < 0 || setxattr(to_link, name, copy->value, (size_t)size, 0) < 0)
			return error_set(err, errno, "%s: copying its attribute %s", path, name);
	}
	return 0;
}

/* Last of all: what comes after would change it. `name` is in `dir` of the copy. */
static int finish(int dir, const char *name, const struct stat *st, const char *path, struct error *err)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (geteuid() == 0 && fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "%s: setting its owner in the copy", path);
	if (!S_ISLNK(st->st_mode) && fchmodat(dir, name, st->st_mode & 07777, 0) < 0)
		return error_set(err, errno, "%s: setting its mode in the copy", path);
	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "%s: setting its times in the copy", path);
	return 0;
}

/* --- content --- */

/* Who wants it to end says so by a signal that waits, and not by one that kills: modes that were changed are put back. */
static bool is_cancelled(const struct duplication *copy)
{
	sigset_t pending;

	if (copy->end)
		return copy->end->is_due(copy->end->data);
	return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

static int check_floor(const struct duplication *copy, int to, struct error *err)
{
	if (storage_free_bytes(to) >= copy->floor_bytes)
		return 0;
	error_set(err, ENOSPC, "the disk has less free than has to stay free for others");
	return error_hint(err, "free some there, or remove snapshots: nsbox session snapshots rm SNAPSHOT");
}

static int check_free(struct duplication *copy, int to, uint64_t bytes, struct error *err)
{
	copy->bytes += bytes;
	copy->since_look += bytes;
	if (copy->since_look < PIECE)
		return 0;
	copy->since_look = 0;
	return check_floor(copy, to, err);
}

/* Returns the bytes, 0 at an end that came early. */
static ssize_t copy_piece(int from, int to, off_t offset, size_t length)
{
	static char buffer[256 << 10];
	off_t in = offset, out = offset;
	ssize_t n = copy_file_range(from, &in, to, &out, length, 0);

	if (n >= 0 || (errno != EXDEV && errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
		return n;
	n = pread(from, buffer, length < sizeof buffer ? length : sizeof buffer, offset);
	return n <= 0 ? n : pwrite(to, buffer, (size_t)n, offset);
}

static int copy_range(struct duplication *copy, int from, int to, off_t offset, off_t end, struct error *err)
{
	while (offset < end) {
		ssize_t n = copy_piece(from, to, offset, end - offset < PIECE ? (size_t)(end - offset) : PIECE);

		if (n < 0)
			return error_set(err, errno, "copying content");
		if (n == 0)
			return 0;
		if (is_cancelled(copy))
			return error_set(err, ECANCELED, "copying content");
		if (check_free(copy, to, (uint64_t)n, err) < 0)
			return -1;
		offset += n;
	}
	return 0;
}

static int copy_content(struct duplication *copy, int from, int to, off_t size, struct error *err)
{
	off_t offset = 0;

	if (size == 0 || ioctl(to, FICLONE, from) == 0)
		return 0;
	if (ftruncate(to, size) < 0)
		return error_set(err, errno, "setting a size");
	for (;;) {
		off_t data = lseek(from, offset, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			return 0; /* holes up to the end */
		if (data < 0)
			return error_set(err, errno, "looking for content");
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return error_set(err, errno, "looking for content");
		if (copy_range(copy, from, to, data, hole, err) < 0)
			return -1;
		offset = hole;
	}
}

/* For reading, also where its mode keeps its owner out, if nobody else looks now. */
static int open_file(const struct upper_entry *entry, bool shared)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = openat(entry->dir, entry->name, flags);

	if (fd >= 0 || errno != EACCES || shared || fchmodat(entry->dir, entry->name, 0600, 0) < 0)
		return fd;
	fd = openat(entry->dir, entry->name, flags);
	return fchmodat(entry->dir, entry->name, entry->st.st_mode & 07777, 0) < 0 ? -1 : fd;
}

static int copy_file(struct duplication *copy, const struct upper_entry *entry, int dir, struct error *err)
{
	cleanup_close int from = open_file(entry, copy->end || copy->merged), to = -1;

	if (from < 0)
		return error_set(err, errno, "opening %s", entry->path);
	to = openat(dir, entry->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return error_set(err, errno, "making %s in the copy", entry->path);
	if (copy_content(copy, from, to, entry->st.st_size, err) < 0)
		return error_context(err, "%s", entry->path);
	return copy_attributes(copy, from, to, entry->path, err);
}

/* --- names --- */

static struct linked **bucket_of(struct duplication *copy, const struct stat *st)
{
	return &copy->linked[st->st_ino % BUCKETS];
}

static const char *first_name(struct duplication *copy, const struct stat *st)
{
	for (const struct linked *linked = *bucket_of(copy, st); linked; linked = linked->next)
		if (linked->inode == st->st_ino && linked->device == st->st_dev)
			return linked->path;
	return NULL;
}

static void remember(struct duplication *copy, const struct upper_entry *entry)
{
	struct linked **bucket = bucket_of(copy, &entry->st), *linked;

	if (entry->st.st_nlink < 2)
		return;
	linked = xcalloc(1, sizeof *linked);
	*linked = (struct linked){*bucket, entry->st.st_dev, entry->st.st_ino, xstrdup(entry->path)};
	*bucket = linked;
}

static void forget(struct duplication *copy)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct linked *linked = copy->linked[i], *next; linked; linked = next) {
			next = linked->next;
			free(linked->path);
			free(linked);
		}
}

static int link_within(int place, const char *path, int dir, const char *name);

/* The directory `place`, which may keep its owner out, is searched all the same. */
static int link_in_opened(int place, const char *path, int dir, const char *name)
{
	char link[FD_LINK_SIZE];
	struct stat st;
	bool closed;
	int r;

	if (fstat(place, &st) < 0)
		return -1;
	closed = faccessat(place, ".", X_OK, AT_EACCESS) < 0;
	if (closed && chmod(fd_link(place, link), (st.st_mode & 07777) | S_IXUSR) < 0)
		return -1;
	r = link_within(place, path, dir, name);
	return closed && chmod(link, st.st_mode & 07777) < 0 ? -1 : r;
}

/* As linkat(2), of a path in the copy, whose directories have the modes of the originals already. */
static int link_within(int place, const char *path, int dir, const char *name)
{
	const char *slash = strchr(path, '/');
	char step[NAME_MAX + 1];
	cleanup_close int next = -1;

	if (!slash)
		return linkat(place, path, dir, name, 0);
	snprintf(step, sizeof step, "%.*s", (int)(slash - path), path);
	next = openat(place, step, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return next < 0 ? -1 : link_in_opened(next, slash + 1, dir, name);
}

static int link_first(const struct duplication *copy, const char *first, int dir, const struct upper_entry *entry,
	struct error *err)
{
	if (linkat(copy->top, first, dir, entry->name, 0) == 0 ||
		(errno == EACCES && link_within(copy->top, first, dir, entry->name) == 0))
		return 0;
	return error_set(err, errno, "linking %s in the copy", entry->path);
}

static int make_link(const struct upper_entry *entry, int dir, struct error *err)
{
	cleanup_free char *target = xcalloc(1, UPPER_PATH_MAX);

	if (readlinkat(entry->dir, entry->name, target, UPPER_PATH_MAX - 1) < 0)
		return error_set(err, errno, "reading the link %s", entry->path);
	return symlinkat(target, dir, entry->name) < 0 ? error_set(err, errno, "making %s in the copy", entry->path) : 0;
}

static int enter(struct duplication *copy, const struct upper_entry *entry, int dir, struct error *err)
{
	int fd;

	if (mkdirat(dir, entry->name, 0700) < 0)
		return error_set(err, errno, "making %s in the copy", entry->path);
	fd = openat(dir, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "opening %s in the copy", entry->path);
	copy->directories[++copy->depth] = fd;
	return copy_attributes(copy, entry->fd, fd, entry->path, err);
}

/* What is no directory and no file. */
static int make_node(const struct upper_entry *entry, int dir, struct error *err)
{
	bool fifo = entry->kind == UPPER_FIFO;

	if (entry->kind == UPPER_SYMLINK)
		return make_link(entry, dir, err);
	return mknodat(dir, entry->name, fifo ? S_IFIFO | 0600 : S_IFCHR, fifo ? 0 : makedev(0, 0)) < 0
		       ? error_set(err, errno, "making %s in the copy", entry->path)
		       : 0;
}

static int copy_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	struct duplication *copy = data;
	int dir = copy->directories[copy->depth], r;
	const char *first;

	if (is_cancelled(copy))
		return error_set(err, ECANCELED, "copying %s", entry->path);
	if (entry->kind == UPPER_DIRECTORY)
		return enter(copy, entry, dir, err);
	if (entry->kind == UPPER_OTHER)
		return 0;
	first = entry->kind != UPPER_WHITEOUT && entry->st.st_nlink > 1 ? first_name(copy, &entry->st) : NULL;
	if (first)
		return link_first(copy, first, dir, entry, err);
	r = entry->kind == UPPER_FILE ? copy_file(copy, entry, dir, err) : make_node(entry, dir, err);
	if (r < 0)
		return -1;
	if (entry->kind == UPPER_WHITEOUT)
		return geteuid() == 0 && fchownat(dir, entry->name, entry->st.st_uid, entry->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0
			       ? error_set(err, errno, "%s: setting its owner in the copy", entry->path)
			       : 0;
	remember(copy, entry);
	return finish(dir, entry->name, &entry->st, entry->path, err);
}

static int leave_copy(void *data, const struct upper_entry *entry, struct error *err)
{
	struct duplication *copy = data;
	int fd = copy->directories[copy->depth--];

	close(fd);
	return finish(copy->directories[copy->depth], entry->name, &entry->st, entry->path, err);
}

static int duplicate(struct duplication *copy, int from, int to, struct error *err)
{
	const struct upper_visitor visitor = {
		.data = copy, .entry = copy_entry, .leave = leave_copy, .shared = copy->end != NULL};
	struct stat st;
	int r;

	copy->top = copy->directories[0] = to;
	if (fstat(from, &st) < 0)
		return error_set(err, errno, "looking at what is to be copied");
	r = copy_attributes(copy, from, to, "/", err);
	if (r == 0)
		r = upper_walk(from, &visitor, err);
	while (copy->depth > 0)
		close(copy->directories[copy->depth--]);
	forget(copy);
	return r == 0 ? finish(to, ".", &st, "/", err) : r;
}

int tree_duplicate(int from, int to, uint64_t floor_bytes, uint64_t *ret_bytes, struct error *err)
{
	cleanup_free struct duplication *copy = xcalloc(1, sizeof *copy);
	int r;

	copy->floor_bytes = floor_bytes;
	r = duplicate(copy, from, to, err);
	*ret_bytes = copy->bytes;
	return r;
}

int tree_duplicate_shared(int from, int to, uint64_t floor_bytes, const struct duplicate_end *end, struct error *err)
{
	cleanup_free struct duplication *copy = xcalloc(1, sizeof *copy);

	copy->floor_bytes = floor_bytes;
	copy->end = end;
	return duplicate(copy, from, to, err);
}

/* --- merging --- */

/* Names of files that are there already, whose content is not to be had twice. */

static bool cannot_link(int number)
{
	return number == EMLINK || number == EPERM || number == EXDEV || number == EOPNOTSUPP;
}

static bool cannot_clone(int number)
{
	return number == EOPNOTSUPP || number == ENOTTY || number == EXDEV || number == EINVAL || number == ENOSYS;
}

/* The content is the same, the file another. Returns 1 where that cannot be here. */
static int clone_content(const struct upper_entry *entry, int from, int dir, int to, struct error *err)
{
	if (entry->st.st_size == 0 || ioctl(to, FICLONE, from) == 0)
		return 0;
	if (!cannot_clone(errno))
		return error_set(err, errno, "sharing the content of %s", entry->path);
	return unlinkat(dir, entry->name, 0) < 0 ? error_set(err, errno, "removing %s", entry->path) : 1;
}

static int clone_file(struct duplication *copy, const struct upper_entry *entry, int dir, struct error *err)
{
	cleanup_close int from =
		openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), to = -1;
	int r;

	if (from < 0)
		return error_set(err, errno, "opening %s", entry->path);
	to = openat(dir, entry->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return error_set(err, errno, "making %s", entry->path);
	r = clone_content(entry, from, dir, to, err);
	if (r != 0)
		return r;
	if (copy_attributes(copy, from, to, entry->path, err) < 0)
		return -1;
	remember(copy, entry);
	return finish(dir, entry->name, &entry->st, entry->path, err);
}

/* Where there can be no more names of it. */
static int copy_instead(struct duplication *copy, const struct upper_entry *entry, int dir, struct error *err)
{
	int r = entry->kind == UPPER_FILE ? copy_file(copy, entry, dir, err) : make_node(entry, dir, err);

	if (r < 0)
		return -1;
	copy->merged->bytes += (uint64_t)entry->st.st_blocks * 512;
	remember(copy, entry);
	return finish(dir, entry->name, &entry->st, entry->path, err);
}

static int share_file(struct duplication *copy, const struct upper_entry *entry, int dir, struct error *err)
{
	/* That is remembered only where it is another file than that of the layer. */
	const char *first = entry->st.st_nlink > 1 ? first_name(copy, &entry->st) : NULL;

	if (first)
		return link_first(copy, first, dir, entry, err);
	copy->merged->shared[entry->layer] += (uint64_t)entry->st.st_blocks * 512;
	if (copy->clones && entry->kind == UPPER_FILE) {
		int r = clone_file(copy, entry, dir, err);

		if (r <= 0)
			return r;
		copy->clones = false;
	}
	if (linkat(entry->dir, entry->name, dir, entry->name, 0) == 0)
		return 0;
	if (!cannot_link(errno))
		return error_set(err, errno, "linking %s", entry->path);
	return copy_instead(copy, entry, dir, err);
}

/* Those of the kernel are of one file, which may have got too many names; and one may be a marked file (merge.h). */
static int share_whiteout(const struct upper_entry *entry, int dir, struct error *err)
{
	if (S_ISCHR(entry->st.st_mode) && linkat(entry->dir, entry->name, dir, entry->name, 0) == 0)
		return 0;
	return mknodat(dir, entry->name, S_IFCHR, makedev(0, 0)) < 0 ? error_set(err, errno, "making %s", entry->path) : 0;
}

static int merge_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	struct duplication *copy = data;
	int dir = copy->directories[copy->depth];

	if (is_cancelled(copy))
		return error_set(err, ECANCELED, "merging %s", entry->path);
	if (++copy->merged->entries % MANY == 0 && check_floor(copy, dir, err) < 0)
		return -1;
	if (entry->kind == UPPER_OTHER)
		return 0;
	if (entry->kind == UPPER_WHITEOUT)
		return share_whiteout(entry, dir, err);
	if (entry->kind != UPPER_DIRECTORY)
		return share_file(copy, entry, dir, err);
	if (enter(copy, entry, dir, err) < 0)
		return -1;
	return entry->opaque && fsetxattr(copy->directories[copy->depth], "user.overlay.opaque", "y", 1, 0) < 0
		       ? error_set(err, errno, "%s: making it opaque", entry->path)
		       : 0;
}

static void count_directory(struct duplication *copy, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		copy->merged->bytes += (uint64_t)st.st_blocks * 512;
}

static int leave_merged(void *data, const struct upper_entry *entry, struct error *err)
{
	struct duplication *copy = data;

	count_directory(copy, copy->directories[copy->depth]);
	return leave_copy(data, entry, err);
}

int tree_merge(const struct merge_layer *layers, size_t count, bool open, int to, uint64_t floor_bytes,
	struct tree_merged *ret, struct error *err)
{
	cleanup_free struct duplication *copy = xcalloc(1, sizeof *copy);
	const struct upper_visitor visitor = {.data = copy, .entry = merge_entry, .leave = leave_merged};
	struct stat st;
	int r;

	copy->top = copy->directories[0] = to;
	copy->floor_bytes = floor_bytes;
	copy->merged = ret;
	copy->clones = true;
	ret->bytes = 0;
	ret->entries = 1;
	if (fstat(layers[0].fd, &st) < 0)
		return error_set(err, errno, "looking at what is to be merged");
	r = check_floor(copy, to, err);
	if (r == 0)
		r = copy_attributes(copy, layers[0].fd, to, "/", err);
	if (r == 0)
		r = merge_walk_all(layers, count, open, &visitor, err);
	while (copy->depth > 0)
		close(copy->directories[copy->depth--]);
	forget(copy);
	count_directory(copy, to);
	return r < 0 ? -1 : finish(to, ".", &st, "/", err);
}
