/* SPDX-License-Identifier: MIT */
/*
 * Removing what a sandbox has left on disk: see discard.h.
 *
 * Directories that are deeper than DEPTH_MAX are moved up to the top before they are looked into, so that neither
 * stack nor descriptors grow with what a stranger has made.
 */
#define _GNU_SOURCE
#include "image/discard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"

enum { DEPTH_MAX = 32, PASSES_MAX = 16, LOOK_AT_CLOCK = 64 };

struct discard {
	int top;
	uint64_t until_us;
	unsigned looked_at, progress, moved;
	bool overdue;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Its own mode may keep its owner out. By descriptor: no link can have taken its place. */
static int open_up(int dir, const char *name)
{
	cleanup_close int place = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char link[40];

	if (place < 0)
		return -1;
	snprintf(link, sizeof link, "/proc/self/fd/%d", place);
	if (faccessat(place, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
		(void)chmod(link, 0700);
	return openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int empty(struct discard *discard, int dir, unsigned depth);

/* A directory: emptied, or put at the top to be emptied later. */
static int remove_directory(struct discard *discard, int dir, const char *name, unsigned depth)
{
	cleanup_close int fd = open_up(dir, name);
	char place[32];

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (depth >= DEPTH_MAX) {
		snprintf(place, sizeof place, ".deep-%u", discard->moved++);
		discard->progress++;
		return renameat(dir, name, discard->top, place);
	}
	if (empty(discard, fd, depth + 1) < 0)
		return -1;
	if (discard->overdue)
		return 0;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		discard->progress++;
	/* Something that dies just now may have made something there: the next pass takes it. */
	else if (errno != ENOENT && errno != ENOTEMPTY)
		return -1;
	return 0;
}

static int remove_entry(struct discard *discard, int dir, const struct dirent *entry, unsigned depth)
{
	if (++discard->looked_at % LOOK_AT_CLOCK == 0 && now_us() >= discard->until_us)
		discard->overdue = true;
	if (discard->overdue)
		return 0;
	if (unlinkat(dir, entry->d_name, 0) == 0 || errno == ENOENT) {
		discard->progress++;
		return 0;
	}
	return errno == EISDIR || errno == EPERM ? remove_directory(discard, dir, entry->d_name, depth) : -1;
}

/* Until a pass finds nothing: what a directory lists while it becomes smaller need not be all. */
static int empty(struct discard *discard, int dir, unsigned depth)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	bool found = true;

	if (!stream) {
		close_fd(&fd);
		return -1;
	}
	for (unsigned pass = 0; found && r == 0 && !discard->overdue && (depth == 0 || pass < PASSES_MAX); pass++) {
		unsigned before = discard->progress;
		struct dirent *entry;

		found = false;
		rewinddir(stream);
		while (r == 0 && !discard->overdue && (entry = readdir(stream))) {
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			found = true;
			r = remove_entry(discard, dirfd(stream), entry, depth);
		}
		if (found && r == 0 && !discard->overdue && discard->progress == before) {
			errno = ENOTEMPTY;
			r = -1;
		}
	}
	closedir(stream);
	return r;
}

int discard_content(int top, uint64_t budget_us)
{
	struct discard discard = {.top = top, .until_us = now_us() + budget_us, .moved = (unsigned)now_us()};

	if (budget_us == UINT64_MAX)
		discard.until_us = UINT64_MAX;
	if (empty(&discard, top, 0) < 0)
		return -1;
	return discard.overdue ? 1 : 0;
}
