/* SPDX-License-Identifier: MIT */
/* Caches of compilers on the host: see cache.h. */
#define _GNU_SOURCE
#include "language/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/definition.h"
#include "language/managers.h"
#include "language/needs.h"
#include "packages/layers.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/trust.h"

enum { WALK_FILES_MAX = 16 };

static char *caches_directory(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (cache && cache[0] == '/')
		return xasprintf("%s/nsbox", cache);
	return home && home[0] == '/' ? xasprintf("%s/.cache/nsbox", home) : NULL;
}

/* What another command has filled need not have what this one puts there. */
static uint32_t digest_of(char *const *argv)
{
	uint32_t hash = 0x811c9dc5; /* FNV-1a */

	for (; *argv; argv++)
		for (const char *byte = *argv;; byte++) {
			hash = (hash ^ (unsigned char)*byte) * 0x01000193;
			if (!*byte)
				break;
		}
	return hash;
}

char *cache_path(const struct language *language, const struct choice *choice)
{
	cleanup_free char *directory = caches_directory();
	struct stat status;
	uint32_t command;

	if (!directory || !choice->toolchain->cache_argv || choice->programs_count == 0)
		return NULL;
	if (choice->image_digest && !choice->own_image)
		return NULL;
	command = digest_of(choice->toolchain->cache_argv);
	if (choice->layer)
		return xasprintf("%s/%s-image-%s-%.12s-%08x", directory, language->name,
			choice->image_digest + strlen("sha256:"), layer_key(choice->layer), command);
	if (choice->image_digest)
		return xasprintf("%s/%s-image-%s-%08x", directory, language->name,
			choice->image_digest + strlen("sha256:"), command);
	if (!choice->programs[0].location.file ||
		stat(choice->programs[0].location.file, &status) < 0)
		return NULL;
	return xasprintf("%s/%s-%llx-%llx-%08x", directory, language->name,
		(unsigned long long)status.st_size, (unsigned long long)status.st_mtim.tv_sec, command);
}

char *cache_find(const struct language *language, const struct choice *choice,
	struct error *ret_reason)
{
	cleanup_free char *path = cache_path(language, choice);
	char *real = path ? realpath(path, NULL) : NULL;

	*ret_reason = (struct error){0};
	if (real && manager_check_bind(real, ret_reason) < 0) {
		error_context(ret_reason, "%s is not used", real);
		error_hint(ret_reason, "Mend that, or remove it: rm -r %s", real);
		free(real);
		return NULL;
	}
	return real;
}

static int make_parents(const char *path, struct error *err)
{
	cleanup_free char *copy = xstrdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return error_set(err, errno, "making %s", copy);
		*slash = '/';
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void cache_abandon(const char *directory)
{
	nftw(directory, remove_one, WALK_FILES_MAX, FTW_DEPTH | FTW_PHYS);
}

static int remove_inner(
	const char *path, const struct stat *status, int type, struct FTW *walk)
{
	return walk->level == 0 ? 0 : remove_one(path, status, type, walk);
}

/* Makes `directory` or opens the one that is there, and locks it. Returns as open(2), with errno. */
static int make_and_lock(const char *directory, bool wait)
{
	cleanup_close int fd = -1;
	struct stat status;

	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &status) < 0 || status.st_uid != geteuid())) {
		errno = EPERM; /* somebody else's, in a folder like /tmp */
		return -1;
	}
	if (fd < 0 || flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0)
		return -1;
	return move_fd(&fd);
}

/* Whoever had the lock before may have renamed or removed the directory. */
static bool is_still(const char *directory, int fd)
{
	struct stat opened, named;

	return fstat(fd, &opened) == 0 && lstat(directory, &named) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

int cache_begin(
	const char *path, bool wait, char **ret_directory, int *ret_lock, struct error *err)
{
	cleanup_free char *real = NULL, *directory = NULL;

	/* What is made and removed here goes by its path, which must be nobody else's to exchange. */
	if (path_check_future(path, &real, err) < 0) {
		error_context(err, "the cache %s", path);
		return error_hint(err, "set XDG_CACHE_HOME to a folder of your own");
	}
	path = real;
	directory = xasprintf("%s.new", path);
	if (make_parents(path, err) < 0 || path_check_future(path, NULL, err) < 0)
		return -1;
	for (;;) {
		cleanup_close int lock = make_and_lock(directory, wait);

		if (lock < 0 && errno == EWOULDBLOCK)
			return 0;
		if (lock < 0 && errno != ENOENT && errno != EINTR)
			return error_set(err, errno, "making %s", directory);
		if (lock < 0 || !is_still(directory, lock))
			continue;
		if (access(path, F_OK) == 0) {
			cache_abandon(directory);
			return 0;
		}
		/* What a killed process has left. */
		nftw(directory, remove_inner, WALK_FILES_MAX, FTW_DEPTH | FTW_PHYS);
		*ret_directory = directory;
		*ret_lock = move_fd(&lock);
		directory = NULL;
		return 1;
	}
}

int cache_commit(const char *directory, const char *path, struct error *err)
{
	if (rename(directory, path) == 0)
		return 0;
	return error_set(err, errno, "renaming %s to %s", directory, path);
}
