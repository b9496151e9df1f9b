/* SPDX-License-Identifier: MIT */
/* Names in directories, for operations on files: see fileops_work.h. */
#define _GNU_SOURCE
#include "sandbox/fileops_work.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINKS_MAX = 40 /* as the kernel has it */, DIRECTORY = O_PATH | O_DIRECTORY | O_CLOEXEC };

/* Opens a component, making it where it is missing. -1 with errno. */
static int enter(int dir, const char *name)
{
	int fd = openat(dir, name, DIRECTORY);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(dir, name, DIRECTORY);
}

/* Opens a directory component by component, making what is missing. Takes `path` apart. -1 with errno. */
static int enter_all(int base, char *path)
{
	int fd = openat(base, *path == '/' ? "/" : ".", DIRECTORY);
	char *rest = path, *name;

	while (fd >= 0 && (name = strsep(&rest, "/"))) {
		int next, errnum;

		if (!*name)
			continue;
		next = enter(fd, name);
		errnum = errno;
		close(fd);
		errno = errnum;
		fd = next;
	}
	return fd;
}

/* Splits `path` into a directory, which it becomes, and the place's name behind it. */
static char *split(struct place *place)
{
	char *path = place->path, *end = path + strlen(path), *name;

	place->slash = end > path && end[-1] == '/';
	while (end > path && end[-1] == '/')
		*--end = '\0';
	if (end == path) { /* slashes alone */
		place->name = ".";
		return strcpy(path, "/");
	}
	name = strrchr(path, '/');
	if (!name) {
		place->name = path;
		return NULL;
	}
	place->name = name + 1;
	while (name > path && name[-1] == '/')
		name--;
	if (name == path) /* in the root, whose slash has to stay */
		return "/";
	*name = '\0';
	return path;
}

/* Of the path that is in `place`, which begins at `base`. -1 with errno; *ret_stage: what failed. */
static int open_split(struct place *place, int base, bool parents, enum fileop_stage *ret_stage)
{
	char *directory = split(place);
	int dir = openat(base, directory ? directory : ".", DIRECTORY);

	*ret_stage = FILEOP_OPENING;
	if (dir < 0 && errno == ENOENT && parents && directory) {
		*ret_stage = FILEOP_MAKING_PARENTS;
		dir = enter_all(base, directory);
	}
	place->dir = dir;
	return dir < 0 ? -1 : 0;
}

int place_open(struct work *work, struct place *place, const char *path, bool parents)
{
	enum fileop_stage stage;

	strcpy(place->path, path); /* both have FILEOP_PATH_MAX */
	if (open_split(place, work->base, parents, &stage) < 0)
		return work_fail(work, stage, errno);
	return 0;
}

int place_follow(struct work *work, struct place *place, bool parents)
{
	static char target[FILEOP_PATH_MAX];

	bool slash = place->slash;

	for (int i = 0; i <= LINKS_MAX; i++) {
		ssize_t length = readlinkat(place->dir, place->name, target, sizeof target);
		enum fileop_stage stage;
		int base = place->dir, errnum;

		if (length < 0) /* no link: EINVAL; nothing: ENOENT; what else there is comes out when it is opened */
			return 0;
		if (length == sizeof target)
			return work_fail(work, FILEOP_OPENING, ENAMETOOLONG);
		memcpy(place->path, target, (size_t)length);
		place->path[length] = '\0';
		errnum = open_split(place, base, parents, &stage) < 0 ? errno : 0;
		close(base);
		if (errnum)
			return work_fail(work, stage, errnum);
		place->slash |= slash;
	}
	return work_fail(work, FILEOP_OPENING, ELOOP);
}

void place_close(struct place *place)
{
	if (place->dir >= 0)
		close(place->dir);
	place->dir = -1;
}

int place_take(const struct place *place, int dir, const char *name, bool exclusive)
{
	/* Not all C libraries have a function for it. */
	if (syscall(SYS_renameat2, dir, name, place->dir, place->name, exclusive ? RENAME_NOREPLACE : 0) == 0)
		return 0;
	if (!exclusive || errno != EINVAL)
		return -1;
	/*
	 * NFS, 9p and some FUSE servers cannot rename so; but a link never replaces anything. A directory stays
	 * EINVAL.
	 */
	if (linkat(dir, name, place->dir, place->name, 0) < 0) {
		if (errno == EPERM)
			errno = EINVAL;
		return -1;
	}
	return unlinkat(dir, name, 0);
}
