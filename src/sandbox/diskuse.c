/* SPDX-License-Identifier: MIT */
/* How much of a disk a sandbox has taken: see diskuse.h. */
#define _GNU_SOURCE
#include "sandbox/diskuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/idmap.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	OPEN_MAX = 64, /* directories that lie in each other and are open: each takes a descriptor and 32 KiB */
	LOOK_AT_CLOCK = 64,
	BLOCK = 512,
	FD_SPACE = 3,
	FD_PROC,
	FD_ANSWER,
	FD_FIRST_OTHER,
};

struct look {
	struct disk_use use;
	uint64_t until_us, entries_max;
	unsigned steps;
	bool over, able;
	dev_t device;
	/* files with several names, or none, that were counted: a table with room for twice as many */
	struct seen {
		dev_t device;
		ino_t inode;
	} *seen;
	size_t seen_count, seen_size;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Whether to stop. */
static bool step(struct look *look)
{
	if (++look->steps % LOOK_AT_CLOCK == 0 && now_us() >= look->until_us) {
		look->use.whole = false;
		look->over = true;
	}
	/* That is known then, and the rest does not matter. */
	if (look->use.entries > look->entries_max)
		look->over = true;
	return look->over;
}

/* --- files that were counted --- */

static struct seen *find_seen(const struct look *look, dev_t device, ino_t inode)
{
	size_t at = (size_t)(inode * 0x9e3779b97f4a7c15ULL >> 20) % look->seen_size;

	while (look->seen[at].inode && (look->seen[at].inode != inode || look->seen[at].device != device))
		at = (at + 1) % look->seen_size;
	return &look->seen[at];
}

static bool grow_seen(struct look *look)
{
	struct look bigger = {.seen_size = look->seen_size ? look->seen_size * 2 : 256};

	bigger.seen = calloc(bigger.seen_size, sizeof *bigger.seen);
	if (!bigger.seen)
		return false;
	for (size_t i = 0; i < look->seen_size; i++)
		if (look->seen[i].inode)
			*find_seen(&bigger, look->seen[i].device, look->seen[i].inode) = look->seen[i];
	free(look->seen);
	look->seen = bigger.seen;
	look->seen_size = bigger.seen_size;
	return true;
}

/* Without memory for it a file counts more than once, which is the safe side. */
static bool is_new(struct look *look, dev_t device, ino_t inode)
{
	struct seen *place;

	if (look->seen_count * 2 >= look->seen_size && !grow_seen(look))
		return true;
	place = find_seen(look, device, inode);
	if (place->inode)
		return false;
	*place = (struct seen){device, inode};
	look->seen_count++;
	return true;
}

/* --- what is open and has no name --- */

static void look_at_descriptor(struct look *look, int dir, const char *pid, const char *name)
{
	static const char deleted[] = " (deleted)";
	char target[4096], path[96];
	struct statfs status;
	struct stat st;
	ssize_t n = readlinkat(dir, name, target, sizeof target);

	if (n < (ssize_t)sizeof deleted || memcmp(target + n - (sizeof deleted - 1), deleted, sizeof deleted - 1) != 0)
		return;
	if (fstatat(dir, name, &st, AT_NO_AUTOMOUNT) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0)
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d/%s/fd/%s", FD_PROC, pid, name);
	/* In an image's root it is the overlay's; others are in memory, or somebody else's. */
	if (st.st_dev != look->device && (statfs(path, &status) < 0 || status.f_type != OVERLAYFS_SUPER_MAGIC))
		return;
	if (is_new(look, st.st_dev, st.st_ino))
		look->use.bytes += (uint64_t)st.st_blocks * BLOCK;
}

static void look_at_process(struct look *look, const char *pid)
{
	char path[300];
	struct dirent *entry;
	DIR *stream;
	int fd;

	snprintf(path, sizeof path, "%s/fd", pid);
	fd = openat(FD_PROC, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		close_fd(&fd); /* it has ended, or is the first, which has nothing open */
		return;
	}
	while (!step(look) && (entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			look_at_descriptor(look, dirfd(stream), pid, entry->d_name);
	closedir(stream);
}

static void look_at_processes(struct look *look)
{
	int fd = openat(FD_PROC, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&fd);
		return;
	}
	while (!step(look) && (entry = readdir(stream)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			look_at_process(look, entry->d_name);
	closedir(stream);
}

/* --- what has a name --- */

/* Directories whose modes keep their owner out: all of the sandbox's are the caller's own. */
static bool become_able(struct look *look)
{
	struct error unimportant;

	if (look->able)
		return false;
	look->able = true;
	return idmap_take_power(&unimportant) == 0;
}

/* Not into what is mounted here. A subvolume of btrfs, which anybody can make, is none. */
static int open_directory(int dir, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};

	return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

/* The directories that lead to the one that is read: the last of them. */
struct level {
	DIR *stream; /* NULL while the one below is read, where it lies deeper than OPEN_MAX */
	dev_t device;
	ino_t inode;
	long next; /* then: where reading goes on, for seekdir */
};

struct path {
	struct level *levels;
	size_t depth, size;
};

static bool push(struct path *path, struct level level)
{
	if (path->depth == path->size) {
		size_t size = path->size ? path->size * 2 : 256;
		struct level *levels = reallocarray(path->levels, size, sizeof *levels);

		if (!levels)
			return false;
		path->levels = levels;
		path->size = size;
	}
	path->levels[path->depth++] = level;
	return true;
}

static void enter(struct look *look, struct path *path, int dir, const char *name)
{
	struct level level = {0}, *above;
	int fd = open_directory(dir, name);
	struct stat st;

	if (fd < 0 && errno == EACCES && become_able(look))
		fd = open_directory(dir, name);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return;
	if (fd >= 0 && fstat(fd, &st) == 0)
		level = (struct level){.stream = fdopendir(fd), .device = st.st_dev, .inode = st.st_ino};
	if (!level.stream)
		close_fd(&fd);
	if (!level.stream || !push(path, level)) {
		look->use.whole = false;
		if (level.stream)
			closedir(level.stream);
		return;
	}
	if (path->depth <= OPEN_MAX)
		return;
	above = &path->levels[path->depth - 2];
	above->next = telldir(above->stream);
	closedir(above->stream);
	above->stream = NULL;
}

/* Back by «..», unless that is another one by now. */
static DIR *open_above(struct look *look, int dir, const struct level *above)
{
	int fd = open_directory(dir, "..");
	struct stat st;
	DIR *stream = NULL;

	if (fd < 0 && errno == EACCES && become_able(look))
		fd = open_directory(dir, "..");
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == above->device && st.st_ino == above->inode)
		stream = fdopendir(fd);
	if (stream)
		seekdir(stream, above->next);
	else
		close_fd(&fd);
	return stream;
}

static void leave(struct look *look, struct path *path)
{
	struct level *level = &path->levels[--path->depth], *above = path->depth ? level - 1 : NULL;

	if (above && !above->stream && !look->over)
		above->stream = open_above(look, dirfd(level->stream), above);
	closedir(level->stream);
	/* It was moved meanwhile: what is above it, down to OPEN_MAX, cannot be come by either. */
	for (; path->depth && !path->levels[path->depth - 1].stream; path->depth--)
		look->use.whole &= look->over;
}

/* A directory may let its owner read its names and nothing more. */
static bool look_at_one(struct look *look, int dir, const char *name, struct stat *ret)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;

	if (fstatat(dir, name, ret, flags) == 0)
		return true;
	if (errno == EACCES && become_able(look) && fstatat(dir, name, ret, flags) == 0)
		return true;
	if (errno != ENOENT)
		look->use.whole = false;
	return false;
}

static void look_at_entry(struct look *look, struct path *path, const char *name)
{
	int dir = dirfd(path->levels[path->depth - 1].stream);
	struct stat st;

	if (!look_at_one(look, dir, name, &st))
		return;
	look->use.entries++;
	if (S_ISDIR(st.st_mode) || st.st_nlink < 2 || is_new(look, st.st_dev, st.st_ino))
		look->use.bytes += (uint64_t)st.st_blocks * BLOCK;
	if (S_ISDIR(st.st_mode))
		enter(look, path, dir, name);
}

static void look_at_tree(struct look *look, int root)
{
	struct path path = {0};

	enter(look, &path, root, ".");
	while (path.depth > 0) {
		struct dirent *entry = step(look) ? NULL : readdir(path.levels[path.depth - 1].stream);

		if (!entry)
			leave(look, &path);
		else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			look_at_entry(look, &path, entry->d_name);
	}
	free(path.levels);
}

/* --- the process --- */

/* Nothing but what it needs: locks and ends of pipes are not for it to hold. */
static bool keep_only(int space, int proc_fd, int answer)
{
	int high[3] = {fcntl(space, F_DUPFD, 64), fcntl(proc_fd, F_DUPFD, 64), fcntl(answer, F_DUPFD, 64)};

	for (int i = 0; i < 3; i++)
		if (high[i] < 0 || dup2(high[i], FD_SPACE + i) < 0)
			return false;
	return close_range(FD_FIRST_OTHER, ~0U, 0) == 0;
}

_Noreturn static void look_main(int space, int proc_fd, uint64_t entries_max, uint64_t budget_us, pid_t parent, int answer)
{
	struct look look = {.use = {.whole = true}, .until_us = now_us() + budget_us, .entries_max = entries_max};
	struct stat st;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || !keep_only(space, proc_fd, answer) ||
		fstat(FD_SPACE, &st) < 0)
		_exit(1);
	take_descriptors();
	look.device = st.st_dev;
	look_at_processes(&look);
	look_at_tree(&look, FD_SPACE);
	_exit(write_whole(FD_ANSWER, &look.use, sizeof look.use) < 0);
}

pid_t disk_use_start(int space, int proc_fd, uint64_t entries_max, uint64_t budget_us, int *ret_answer)
{
	pid_t parent = getpid(), pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		look_main(space, proc_fd, entries_max, budget_us, parent, ends[1]);
	close(ends[1]);
	if (pid < 0)
		close(ends[0]);
	else
		*ret_answer = ends[0];
	return pid;
}
