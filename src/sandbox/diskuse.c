/* SPDX-License-Identifier: MIT */
/* How much of a disk a sandbox has taken: see diskuse.h. */
#define _GNU_SOURCE
#include "sandbox/diskuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/file.h"

enum {
	DEPTH_MAX = 400, /* directories in each other: paths that are names have at most 2048, and each takes a descriptor */
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

/*
 * The power to look into directories whose modes keep their owner out, which an ordinary user has in a user namespace of
 * its own over files of its own, as all of the sandbox's are.
 */
static bool become_able(struct look *look)
{
	unsigned uid = geteuid(), gid = getegid();
	char text[48];

	if (look->able)
		return false;
	look->able = true;
	if (unshare(CLONE_NEWUSER) < 0 || write_small_file(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
		return false;
	snprintf(text, sizeof text, "%u %u 1\n", uid, uid);
	if (write_small_file(AT_FDCWD, "/proc/self/uid_map", text) < 0)
		return false;
	snprintf(text, sizeof text, "%u %u 1\n", gid, gid);
	return write_small_file(AT_FDCWD, "/proc/self/gid_map", text) == 0;
}

/* Not into what is mounted here. A subvolume of btrfs, which anybody can make, is none. */
static int open_directory(int dir, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};

	return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

static void look_into(struct look *look, int dir, const char *name, unsigned depth);

static void look_at_entry(struct look *look, int dir, const char *name, unsigned depth)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		if (errno == EACCES)
			look->use.whole = false;
		return;
	}
	look->use.entries++;
	if (S_ISDIR(st.st_mode) || st.st_nlink < 2 || is_new(look, st.st_dev, st.st_ino))
		look->use.bytes += (uint64_t)st.st_blocks * BLOCK;
	if (S_ISDIR(st.st_mode))
		look_into(look, dir, name, depth + 1);
}

static void look_into(struct look *look, int dir, const char *name, unsigned depth)
{
	int fd = depth < DEPTH_MAX ? open_directory(dir, name) : -1;
	struct dirent *entry;
	DIR *stream;

	if (fd < 0 && depth < DEPTH_MAX && errno == EACCES && become_able(look))
		fd = open_directory(dir, name);
	if (fd < 0 && (depth == DEPTH_MAX || (errno != ENOENT && errno != ENOTDIR)))
		look->use.whole = false;
	stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		close_fd(&fd);
		return;
	}
	while (!step(look) && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			look_at_entry(look, dirfd(stream), entry->d_name, depth);
	closedir(stream);
}

/* --- the process --- */

static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

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
	raise_limit();
	look.device = st.st_dev;
	look_at_processes(&look);
	look_into(&look, FD_SPACE, ".", 0);
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
