/* SPDX-License-Identifier: MIT */
/* Who else can change what a path leads to: see trust.h. */
#define _GNU_SOURCE
#include "util/trust.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* Whether others can put something else in the place of `path`: its directory would then be theirs to choose. */
static bool others_can_write(const struct stat *status)
{
	bool own_group =
		status->st_gid == getegid() && getegid() == geteuid(); /* a group of one user */

	if (status->st_uid != geteuid() && status->st_uid != 0)
		return true;
	if (status->st_mode & S_ISVTX)
		return false; /* as in /tmp: what is ours there is not theirs to exchange */
	return (status->st_mode & S_IWOTH) ||
	       ((status->st_mode & S_IWGRP) && status->st_gid != 0 && !own_group);
}

int path_check_writers(const char *directory, struct error *err)
{
	cleanup_free char *path = xstrdup(directory);
	struct stat status;

	for (;;) {
		char *slash = strrchr(path, '/');

		if (lstat(path[0] ? path : "/", &status) < 0)
			return error_set(err, errno, "%s", path);
		if (others_can_write(&status))
			return error_set(err, 0, "%s can be changed by others than you",
				path[0] ? path : "/");
		if (!slash)
			return 0;
		*slash = '\0';
	}
}

int path_check_future(const char *path, char **ret, struct error *err)
{
	cleanup_free char *existing = xstrdup(path), *real = NULL;
	size_t length = strlen(existing);

	/* A link that leads nowhere is something that exists, and an error. */
	for (struct stat status; length > 0 && lstat(existing, &status) < 0 && errno == ENOENT;) {
		while (length > 0 && existing[length - 1] != '/')
			length--;
		while (length > 1 && existing[length - 1] == '/')
			length--;
		existing[length] = '\0';
	}
	real = realpath(existing, NULL);
	if (!real)
		return error_set(err, errno, "%s", existing);
	if (path_check_writers(real, err) < 0)
		return -1;
	if (ret) {
		const char *rest = path + length;

		*ret = *rest ? xasprintf("%s/%s", strcmp(real, "/") == 0 ? "" : real, rest + strspn(rest, "/"))
			     : xstrdup(real);
	}
	return 0;
}
