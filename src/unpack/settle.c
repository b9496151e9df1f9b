/* SPDX-License-Identifier: MIT */
/* A layer's questions, answered by the layers below: see settle.h. */
#define _GNU_SOURCE
#include "unpack/settle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	LINKS_MAX = 40,
	COPIES_MAX = 1024,
	XATTR_NAMES_MAX = 64 << 10,
	XATTR_VALUE_MAX = 64 << 10,
	MOVES_MAX = 1024
};

/* A directory that has been moved to where a link leads. */
struct move {
	char *from, *to;
};

struct settling {
	int layer, lower;
	bool owners;
	struct move moves[MOVES_MAX];
	size_t moves_count;
	struct copy {
		char *target, *path;
	} copies[COPIES_MAX]; /* the newest, to which further links to the same are made */
	size_t copies_count;
};

/* --- names --- */

/* In the layer no link is followed: what is asked for was made there as a directory. */
static int open_in_layer(const struct settling *settling, const char *path, int flags)
{
	return open_in_root(
		settling->layer, *path ? path : ".", flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
}

static int open_in_lower(const struct settling *settling, const char *path, int flags)
{
	return open_in_root(settling->lower, *path ? path : ".", flags | O_CLOEXEC, 0, 0);
}

static bool is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 && (path[length] == '/' || !path[length]);
}

/* Where something is that the layer had at `path` when it was noted. */
static int present_path(
	const struct settling *settling, const char *path, char ret[PATH_MAX], struct error *err)
{
	char old[PATH_MAX];

	snprintf(ret, PATH_MAX, "%s", path);
	for (size_t i = 0; i < settling->moves_count; i++) {
		const struct move *move = &settling->moves[i];

		if (!is_below(ret, move->from))
			continue;
		strcpy(old, ret);
		if (snprintf(ret, PATH_MAX, "%s%s", move->to, old + strlen(move->from)) >= PATH_MAX)
			return error_set(err, ENAMETOOLONG, "%s", path);
	}
	return 0;
}

/* Adds a component to a path; «..» takes one away. */
static int append(char path[PATH_MAX], const char *name, size_t length)
{
	size_t used = strlen(path);
	char *slash;

	if (length == 0 || (length == 1 && *name == '.'))
		return 0;
	if (length == 2 && name[0] == '.' && name[1] == '.') {
		slash = strrchr(path, '/');
		*(slash ? slash : path) = '\0';
		return 0;
	}
	if (used + 1 + length >= PATH_MAX)
		return -1;
	if (used)
		path[used++] = '/';
	memcpy(path + used, name, length);
	path[used + length] = '\0';
	return 0;
}

/* What the layers below have, or where they have nothing the layer itself. */
static int open_in_either(const struct settling *settling, const char *path, int flags)
{
	int fd = open_in_lower(settling, path, flags);

	return fd < 0 && errno == ENOENT ? open_in_layer(settling, path, flags) : fd;
}

/* The path without links that `path`, a link of the layers below, leads to. Returns 1 where it leads nowhere. */
static int resolve_link(
	const struct settling *settling, const char *path, char ret[PATH_MAX], struct error *err)
{
	char rest[2 * PATH_MAX], target[PATH_MAX], old[2 * PATH_MAX];
	unsigned links = 0;

	snprintf(rest, sizeof rest, "%s", path);
	ret[0] = '\0';
	while (*rest) {
		size_t length = strcspn(rest, "/"), before = strlen(ret);
		cleanup_close int fd = -1;
		ssize_t n;

		if (append(ret, rest, length) < 0)
			return error_set(err, ENAMETOOLONG, "%s", path);
		length += rest[length] == '/';
		memmove(rest, rest + length, strlen(rest + length) + 1);
		fd = open_in_either(settling, ret, O_PATH | O_NOFOLLOW);
		if (fd < 0)
			return 1;
		n = readlinkat(fd, "", target, sizeof target - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (++links > LINKS_MAX)
			return 1;
		ret[target[0] == '/' ? 0 : before] = '\0';
		strcpy(old, rest);
		if (snprintf(rest, sizeof rest, "%s/%s", target, old) >= (int)sizeof rest)
			return error_set(err, ENAMETOOLONG, "%s", path);
	}
	return 0;
}

/* --- attributes --- */

static int copy_xattrs(int from, int to, const char *path, struct error *err)
{
	static char names[XATTR_NAMES_MAX], value[XATTR_VALUE_MAX];
	ssize_t length = flistxattr(from, names, sizeof names), size;

	for (const char *name = names; length > 0 && name < names + length;
		name += strlen(name) + 1) {
		if ((strncmp(name, "user.", 5) != 0 && strcmp(name, "security.capability") != 0) ||
			strncmp(name, "user.overlay.", 13) == 0)
			continue;
		size = fgetxattr(from, name, value, sizeof value);
		if (size < 0 || (fsetxattr(to, name, value, (size_t)size, 0) < 0 &&
					errno != EPERM && errno != EOPNOTSUPP))
			return error_set(err, errno, "%s: copying its attribute %s", path, name);
	}
	return 0;
}

/* Owner before mode, which the change of owner would clear bits of. */
static int copy_attributes(
	const struct settling *settling, int from, int to, const char *path, struct error *err)
{
	struct timespec both[2];
	struct stat st;

	if (fstat(from, &st) < 0)
		return error_set(err, errno, "looking at %s", path);
	both[0] = both[1] = st.st_mtim;
	if (settling->owners && fchown(to, st.st_uid, st.st_gid) < 0)
		return error_set(err, errno, "%s: setting its owner", path);
	if (fchmod(to, st.st_mode & 07777) < 0)
		return error_set(err, errno, "%s: setting its mode", path);
	if (copy_xattrs(from, to, path, err) < 0)
		return -1;
	if (futimens(to, both) < 0)
		return error_set(err, errno, "%s: setting its time", path);
	return 0;
}

/* --- directories --- */

/* A directory's time is what the image says, whatever is made in it here. */
static int set_time(int fd, const struct timespec *mtime, const char *path, struct error *err)
{
	const struct timespec both[2] = {*mtime, *mtime};

	return futimens(fd, both) < 0 ? error_set(err, errno, "%s: setting its time", path) : 0;
}

static int make_directory_as_below(
	const struct settling *settling, const char *path, struct error *err)
{
	cleanup_close int parent = -1, lower = -1, fd = -1;
	char parent_path[PATH_MAX];
	const char *name = split_path(path, parent_path);
	struct stat st;

	parent = open_in_layer(settling, parent_path, O_RDONLY | O_DIRECTORY);
	if (parent < 0 || fstat(parent, &st) < 0 || mkdirat(parent, name, 0755) < 0)
		return error_set(err, errno, "making the directory %s", path);
	fd = open_in_layer(settling, path, O_RDONLY | O_DIRECTORY);
	lower = open_in_lower(settling, path, O_RDONLY | O_DIRECTORY);
	if (fd >= 0 && lower >= 0 && copy_attributes(settling, lower, fd, path, err) < 0)
		return -1;
	return set_time(parent, &st.st_mtim, parent_path, err);
}

/* Opens the directory `path` of the layer; where it or one above it is missing, it is made as it is below. */
static int make_as_below(const struct settling *settling, const char *path, struct error *err)
{
	char part[PATH_MAX];
	int fd = -1;

	for (size_t length = 0;; length++) {
		length += strcspn(path + length, "/");
		memcpy(part, path, length);
		part[length] = '\0';
		close_fd(&fd);
		fd = open_in_layer(settling, part, O_RDONLY | O_DIRECTORY);
		if (fd < 0 && errno == ENOENT) {
			if (make_directory_as_below(settling, part, err) < 0)
				return -1;
			fd = open_in_layer(settling, part, O_RDONLY | O_DIRECTORY);
		}
		if (fd < 0)
			return error_set(err, errno, "the directory %s", part);
		if (!path[length])
			return fd;
	}
}

static int move_children(int from, int to, unsigned depth, struct error *err);

static int move_child(int from, int to, const char *name, unsigned depth, struct error *err)
{
	cleanup_close int source = -1, target = -1;

	if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST)
		return error_set(err, errno, "moving %s to where a link leads", name);
	source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (source < 0 || target < 0)
		return error_set(err, 0,
			"%s is in the layer twice: behind a link, and where it leads", name);
	if (move_children(source, target, depth + 1, err) < 0)
		return -1;
	return unlinkat(from, name, AT_REMOVEDIR) < 0 ? error_set(err, errno, "moving %s", name)
						      : 0;
}

static int move_children(int from, int to, unsigned depth, struct error *err)
{
	int copy = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;
	struct stat st;

	if (!stream || depth > PATH_MAX || fstat(to, &st) < 0) {
		error_set(err, errno, "reading a directory");
		if (stream)
			closedir(stream);
		else
			close_fd(&copy);
		return -1;
	}
	while (r == 0 && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = move_child(from, to, entry->d_name, depth, err);
	closedir(stream);
	return r < 0 ? -1 : set_time(to, &st.st_mtim, "a directory that a link leads to", err);
}

/* Removes a directory that is empty now. */
static int remove_moved(const struct settling *settling, const char *path, struct error *err)
{
	char parent_path[PATH_MAX];
	const char *name = split_path(path, parent_path);
	cleanup_close int parent = open_in_layer(settling, parent_path, O_RDONLY | O_DIRECTORY);
	struct stat st;

	if (parent < 0 || fstat(parent, &st) < 0 || unlinkat(parent, name, AT_REMOVEDIR) < 0)
		return error_set(err, errno, "moving %s to where a link leads", path);
	return set_time(parent, &st.st_mtim, parent_path, err);
}

/* The layers below have a link at `path`: what the layer has there goes where it leads. */
static int follow_link(
	struct settling *settling, const char *path, int directory, struct error *err)
{
	char target[PATH_MAX];
	cleanup_close int below = -1, to = -1;
	int r = resolve_link(settling, path, target, err);

	if (r != 0)
		return r < 0 ? -1 : 0; /* it leads nowhere, and the directory takes its place */
	below = open_in_either(settling, target, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	if (below < 0)
		return 0;
	if (is_below(target, path))
		return error_set(err, ELOOP, "%s", path);
	if (settling->moves_count == MOVES_MAX)
		return error_set(err, 0,
			"more than %d directories are behind links of the layers below", MOVES_MAX);
	to = make_as_below(settling, target, err);
	if (to < 0 || move_children(directory, to, 0, err) < 0)
		return -1;
	if (remove_moved(settling, path, err) < 0)
		return -1;
	settling->moves[settling->moves_count++] =
		(struct move){.from = xstrdup(path), .to = xstrdup(target)};
	return 0;
}

static int settle_directory(struct settling *settling, const char *noted, struct error *err)
{
	cleanup_close int directory = -1, below = -1;
	char path[PATH_MAX];
	struct stat st;

	if (present_path(settling, noted, path, err) < 0)
		return -1;
	directory = open_in_layer(settling, path, O_RDONLY | O_DIRECTORY);
	if (directory < 0)
		return 0; /* something else has taken its place since */
	below = open_in_lower(settling, path, O_PATH | O_NOFOLLOW);
	if (below < 0 || fstat(below, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return follow_link(settling, path, directory, err);
	if (!S_ISDIR(st.st_mode))
		return 0;
	close_fd(&below);
	below = open_in_lower(settling, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (below < 0)
		return error_set(err, errno, "opening %s of a layer below", path);
	return copy_attributes(settling, below, directory, path, err);
}

/* --- hard links --- */

static int copy_range(int from, int to, off_t at, off_t end)
{
	static char buffer[64 << 10];

	while (at < end) {
		size_t wanted =
			(size_t)(end - at) < sizeof buffer ? (size_t)(end - at) : sizeof buffer;
		ssize_t n = pread(from, buffer, wanted, at);

		if (n <= 0 || pwrite(to, buffer, (size_t)n, at) != n)
			return -1;
		at += n;
	}
	return 0;
}

/* Holes stay holes: a file that takes nothing in the layer below must not take its size in this one. */
static int copy_content(int from, int to)
{
	struct stat st;
	off_t data = 0, hole;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -1;
	while (data < st.st_size) {
		data = lseek(from, data, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -1;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || copy_range(from, to, data, hole) < 0)
			return -1;
		data = hole;
	}
	return 0;
}

static int copy_file(const struct settling *settling, int from, int dir, const char *name,
	const char *path, struct error *err)
{
	cleanup_close int to =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (to < 0 || copy_content(from, to) < 0)
		return error_set(err, errno, "copying %s from a layer below", path);
	return copy_attributes(settling, from, to, path, err);
}

static int copy_link(const struct settling *settling, int from, int dir, const char *name,
	const char *path, struct error *err)
{
	struct timespec both[2];
	char target[PATH_MAX];
	struct stat st;
	ssize_t n = readlinkat(from, "", target, sizeof target - 1);

	if (n < 0 || fstat(from, &st) < 0)
		return error_set(err, errno, "copying %s from a layer below", path);
	target[n] = '\0';
	both[0] = both[1] = st.st_mtim;
	if (symlinkat(target, dir, name) < 0 ||
		(settling->owners &&
			fchownat(dir, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0) ||
		utimensat(dir, name, both, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "copying %s from a layer below", path);
	return 0;
}

/* A second link to what has been copied is one to the copy, and takes no room. */
static bool link_to_copy(
	const struct settling *settling, int dir, const char *name, const char *target)
{
	for (size_t i = 0; i < settling->copies_count && i < COPIES_MAX; i++)
		if (strcmp(settling->copies[i].target, target) == 0 &&
			linkat(settling->layer, settling->copies[i].path, dir, name, 0) == 0)
			return true;
	return false;
}

static void remember_copy(struct settling *settling, const char *target, const char *path)
{
	struct copy *copy = &settling->copies[settling->copies_count++ % COPIES_MAX];

	free(copy->target);
	free(copy->path);
	*copy = (struct copy){.target = xstrdup(target), .path = xstrdup(path)};
}

static int make_link_or_copy(struct settling *settling, int dir, const char *name, const char *path,
	const char *target, struct error *err)
{
	cleanup_close int from = -1;
	struct stat st;

	if (linkat(settling->layer, target, dir, name, 0) == 0)
		return 0; /* it came later in the layer itself */
	if (link_to_copy(settling, dir, name, target))
		return 0;
	from = open_in_lower(settling, target, O_PATH | O_NOFOLLOW);
	if (from < 0 || fstat(from, &st) < 0)
		return error_set(err, 0,
			"the hard link %s is to %s, which neither this layer nor those below have",
			path, target);
	if (S_ISLNK(st.st_mode))
		return copy_link(settling, from, dir, name, path, err);
	if (!S_ISREG(st.st_mode))
		return error_set(
			err, 0, "the hard link %s is to %s, which is no file", path, target);
	close_fd(&from);
	from = open_in_lower(settling, target, O_RDONLY | O_NOFOLLOW);
	if (from < 0)
		return error_set(err, errno, "opening %s of a layer below", target);
	if (copy_file(settling, from, dir, name, path, err) < 0)
		return -1;
	remember_copy(settling, target, path);
	return 0;
}

static int settle_hard_link(
	struct settling *settling, const char *noted, const char *target, struct error *err)
{
	cleanup_close int dir = -1;
	char path[PATH_MAX], parent[PATH_MAX];
	struct stat st, old;
	const char *name;

	if (present_path(settling, noted, path, err) < 0)
		return -1;
	name = split_path(path, parent);
	dir = open_in_layer(settling, parent, O_RDONLY | O_DIRECTORY);
	if (dir < 0 || fstat(dir, &st) < 0 || fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* something else has taken its place since */
	if (make_link_or_copy(settling, dir, name, path, target, err) < 0)
		return -1;
	return set_time(dir, &st.st_mtim, parent, err);
}

int settle(int layer, int lower, const char *notes, size_t length, bool owners, struct error *err)
{
	struct settling *settling = xcalloc(1, sizeof *settling);
	const char *end = notes + length;
	int r = 0;

	settling->layer = layer;
	settling->lower = lower;
	settling->owners = owners;
	while (r == 0 && notes < end) {
		const char *path = notes + 1, *other = path + strlen(path) + 1;

		if (*notes == 'd')
			r = settle_directory(settling, path, err);
		else if (*notes == 'l')
			r = settle_hard_link(settling, path, other, err);
		notes = other + strlen(other) + 1;
	}
	for (size_t i = 0; i < settling->moves_count; i++) {
		free(settling->moves[i].from);
		free(settling->moves[i].to);
	}
	for (size_t i = 0; i < COPIES_MAX; i++) {
		free(settling->copies[i].target);
		free(settling->copies[i].path);
	}
	free(settling);
	return r;
}
