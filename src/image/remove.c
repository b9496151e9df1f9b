/* SPDX-License-Identifier: MIT */
/* Removing trees that strangers made: deep ones, and ones with directories that may not be read or written. */
#define _GNU_SOURCE
#include "image/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"

enum { DEPTH_MAX = 1024 };

static int remove_entry(int dir, const char *name, unsigned depth, struct error *err);

static int empty_directory(int fd, unsigned depth, struct error *err)
{
	DIR *stream;
	struct dirent *entry;
	int r = 0;

	fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		close_fd(&fd);
		return error_set(err, errno, "reading a directory");
	}
	while (r == 0 && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = remove_entry(dirfd(stream), entry->d_name, depth + 1, err);
	closedir(stream);
	return r;
}

static int remove_directory(int dir, const char *name, unsigned depth, struct error *err)
{
	cleanup_close int fd = -1;

	if (depth > DEPTH_MAX)
		return error_set(err, ELOOP, "removing %s", name);
	/* Its own mode may keep its owner out. A link that took its place would not be a directory. */
	fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_set(err, errno, "removing %s", name);
	if (faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
		(void)fchmodat(dir, name, 0700, 0);
	if (empty_directory(fd, depth, err) < 0)
		return -1;
	if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return error_set(err, errno, "removing %s", name);
	return 0;
}

static int remove_entry(int dir, const char *name, unsigned depth, struct error *err)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR || errno == EPERM)
		return remove_directory(dir, name, depth, err);
	return error_set(err, errno, "removing %s", name);
}

int remove_tree(int dir, const char *name, struct error *err)
{
	return remove_entry(dir, name, 0, err);
}
