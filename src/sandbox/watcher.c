/* SPDX-License-Identifier: MIT */
/*
 * Tier 2 of the memory limit: see watcher.h.
 *
 * What counts, and why:
 *
 * - Pid 1 of the sandbox, the agent, is left out: its pages are mostly shared with the supervisor,
 *   and its memory is nsbox's, not the code's.
 * - The exact sum is Pss_Anon of all processes plus the greater of Pss_Shmem and what the tmpfs hold.
 *   Clean file pages are left out, since the kernel drops them when it needs to: a program that maps
 *   a file larger than its limit is not killed by a cgroup either. A tmpfs file that is mapped is in
 *   both Pss_Shmem and the tmpfs, and shared anonymous memory is in Pss_Shmem only. Adding the two
 *   would kill programs for mapping a file (wrong); the greater misses at most the lesser one,
 *   which the sandbox's disk limit bounds (tolerable).
 * - A process whose smaps_rollup cannot be read (it runs a program that its user may not read)
 *   counts with its whole RSS, an upper bound: nothing is gained by hiding. So does every process that
 *   is left when reading took longer than EXACT_BUDGET_US.
 * - A vforked child shares its parent's memory until it executes, and Pss counts that twice. A child
 *   that has not executed yet, has its parent's sizes and may be waited for by it is doubtful. When the sum is over
 *   the limit only because of doubtful children, it must stay so for DOUBTFUL_TICKS looks.
 * - Swapped pages and memory that no process maps (pipes, sockets) are not seen.
 *
 * A look at 250 processes of 4 MiB takes 1.1 ms, with the exact sum 10 ms (2 cores, Linux 6.18).
 *
 * Only stat and smaps_rollup are read, for which the kernel waits for nothing that the sandbox
 * controls. A process may be gone at any time: then it counts nothing.
 */
#define _GNU_SOURCE
#include "sandbox/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/file.h"

enum {
	TICK_NEAR_MS = 10,
	TICK_FAR_MS = 50,
	TICK_MAX_MS = 500,
	COST_FACTOR = 4, /* looking takes at most a fifth of the time */
	EXACT_BUDGET_US = 200 * 1000,
	PROCESSES_MAX = 4096, /* that are looked at for whose memory it is */
	DOUBTFUL_TICKS = 10,
	DOUBTFUL_PAGES = 16,      /* how far a vforked child's RSS may be from its parent's */
	FLAG_FORK_NO_EXEC = 0x40, /* PF_FORKNOEXEC: forked, and has not executed yet */
};

struct process {
	pid_t pid, parent;
	pid_t thread; /* one that has the memory: pid, unless that has ended before the others */
	char state;
	unsigned flags;
	uint32_t threads;
	uint64_t virtual_bytes;
	uint64_t resident_pages;
};

struct sums {
	uint64_t anonymous; /* bytes; with the RSS of what could not be read */
	uint64_t shared;
	uint64_t doubtful; /* the part of the two that may be counted twice */
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Parses a name of /proc: the pid, or 0 where it is something else. */
static pid_t parse_pid(const char *name)
{
	pid_t pid = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9' || pid > 100 * 1000 * 1000)
			return 0;
		pid = pid * 10 + (*name - '0');
	}
	return pid;
}

/* The command's name in it may contain anything, parentheses and newlines too, so fields count from the last one. */
static int parse_stat(const char *text, struct process *ret)
{
	const char *fields = strrchr(text, ')');
	long parent, threads;
	unsigned long vsize;
	long rss;

	if (!fields ||
		sscanf(fields + 1,
			" %c %ld %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %*u %lu %ld",
			&ret->state, &parent, &ret->flags, &threads, &vsize, &rss) != 6)
		return -1;
	ret->parent = (pid_t)parent;
	ret->threads = threads > 0 ? (uint32_t)threads : 0;
	ret->virtual_bytes = vsize;
	ret->resident_pages = rss > 0 ? (uint64_t)rss : 0;
	return 0;
}

static int read_stat(int proc_fd, const char *path, struct process *ret)
{
	char text[1024];

	if (read_small_file(proc_fd, path, text, sizeof text) < 0)
		return -1;
	return parse_stat(text, ret);
}

struct listing {
	int fd; /* opened anew for each listing, so that its position is nobody else's */
	ssize_t length, at;
	_Alignas(struct dirent64) char buffer[8192];
};

static int listing_open(struct listing *listing, int proc_fd)
{
	listing->length = listing->at = 0;
	listing->fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return listing->fd;
}

/* The next pid but 1, in ascending order; 0 at the end. */
static pid_t listing_next(struct listing *listing)
{
	for (;;) {
		const struct dirent64 *entry;
		pid_t pid;

		if (listing->at >= listing->length) {
			listing->at = 0;
			listing->length = getdents64(
				listing->fd, (void *)listing->buffer, sizeof listing->buffer);
			if (listing->length <= 0)
				return 0;
		}
		entry = (const struct dirent64 *)(listing->buffer + listing->at);
		listing->at += entry->d_reclen;
		pid = parse_pid(entry->d_name);
		if (pid > 1)
			return pid;
	}
}

/*
 * The first thread of a process may end before the others: then it is a zombie that seems to have no
 * memory, and one of the others tells of it.
 */
static void read_other_thread(int proc_fd, struct process *process)
{
	struct process thread = {0};
	struct listing listing;
	char path[48];
	pid_t tid;
	int dir;

	snprintf(path, sizeof path, "%d/task", process->pid);
	dir = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return;
	if (listing_open(&listing, dir) >= 0) {
		while ((tid = listing_next(&listing)) > 0) {
			snprintf(path, sizeof path, "%d/task/%d/stat", process->pid, tid);
			if (tid == process->pid || read_stat(proc_fd, path, &thread) < 0 ||
				thread.resident_pages == 0)
				continue;
			process->thread = tid;
			process->resident_pages = thread.resident_pages;
			process->virtual_bytes = thread.virtual_bytes;
			break;
		}
		close(listing.fd);
	}
	close(dir);
}

static int read_process(int proc_fd, pid_t pid, struct process *ret)
{
	char path[32];

	snprintf(path, sizeof path, "%d/stat", pid);
	*ret = (struct process){.pid = pid, .thread = pid};
	if (read_stat(proc_fd, path, ret) < 0)
		return -1;
	if (ret->state == 'Z' && ret->threads > 1)
		read_other_thread(proc_fd, ret);
	return 0;
}

/* Adds up RSS and threads of all processes. */
static void sum_upper_bound(int proc_fd, uint64_t *ret_bytes, uint32_t *ret_threads)
{
	struct listing listing;
	struct process process;
	uint64_t pages = 0;
	uint32_t threads = 0;
	pid_t pid;

	*ret_bytes = 0;
	*ret_threads = 0;
	if (listing_open(&listing, proc_fd) < 0)
		return;
	while ((pid = listing_next(&listing)) > 0) {
		if (read_process(proc_fd, pid, &process) < 0)
			continue;
		pages += process.resident_pages;
		threads += process.threads;
	}
	close(listing.fd);
	*ret_bytes = pages * page_bytes();
	*ret_threads = threads;
}

/* The processes of the sandbox but the first, at most `room`. Returns their number. */
static size_t list_all(int proc_fd, struct process *list, size_t room)
{
	struct listing listing;
	size_t count = 0;
	pid_t pid;

	if (listing_open(&listing, proc_fd) < 0)
		return 0;
	while (count < room && (pid = listing_next(&listing)) > 0)
		if (read_process(proc_fd, pid, &list[count]) == 0)
			count++;
	close(listing.fd);
	return count;
}

/* The process below the first one that a process is below, or is itself; 0 where that is not known. */
static pid_t top_of(const struct process *list, size_t count, const struct process *process)
{
	for (size_t steps = 0; steps < count; steps++) {
		size_t i = 0;

		if (process->parent <= 1)
			return process->pid;
		while (i < count && list[i].pid != process->parent)
			i++;
		if (i == count)
			return 0;
		process = &list[i];
	}
	return 0;
}

void watcher_resident_below(int proc_fd, const int *tops, size_t count, uint64_t *ret_bytes)
{
	static struct process list[PROCESSES_MAX];
	size_t processes = list_all(proc_fd, list, PROCESSES_MAX);

	memset(ret_bytes, 0, count * sizeof *ret_bytes);
	for (size_t i = 0; i < processes; i++) {
		pid_t top = top_of(list, processes, &list[i]);

		for (size_t j = 0; j < count; j++)
			if (top == tops[j])
				ret_bytes[j] += list[i].resident_pages * page_bytes();
	}
}

static uint64_t written_by(int proc_fd, pid_t pid)
{
	char path[32], text[512];
	unsigned long long bytes;
	const char *line;

	snprintf(path, sizeof path, "%d/io", pid);
	if (read_small_file(proc_fd, path, text, sizeof text) < 0)
		return 0;
	line = strstr(text, "\nwrite_bytes: ");
	return line && sscanf(line, "\nwrite_bytes: %llu", &bytes) == 1 ? bytes : 0;
}

void watcher_written_below(int proc_fd, const int *tops, size_t count, uint64_t *ret_bytes)
{
	static struct process list[PROCESSES_MAX];
	size_t processes = count > 0 ? list_all(proc_fd, list, PROCESSES_MAX) : 0;

	memset(ret_bytes, 0, count * sizeof *ret_bytes);
	for (size_t i = 0; i < processes; i++) {
		pid_t top = top_of(list, processes, &list[i]);

		for (size_t j = 0; j < count; j++)
			if (top == tops[j])
				ret_bytes[j] += written_by(proc_fd, list[i].pid);
	}
}

/* Finds «NAME:   N kB» at the beginning of a line. */
static bool find_kib(const char *text, const char *name, uint64_t *ret_bytes)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		unsigned long long kib;

		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && line[length] == ':') {
			if (sscanf(line + length + 1, "%llu", &kib) != 1)
				return false;
			*ret_bytes = kib * 1024;
			return true;
		}
	}
	return false;
}

/* Returns -1 with errno when it cannot be read, ENODATA when it lacks the sums. */
static int read_proportional(
	int proc_fd, const struct process *process, uint64_t *ret_anonymous, uint64_t *ret_shared)
{
	char path[64], text[4096];

	if (process->thread == process->pid)
		snprintf(path, sizeof path, "%d/smaps_rollup", process->pid);
	else
		snprintf(path, sizeof path, "%d/task/%d/smaps_rollup", process->pid, process->thread);
	if (read_small_file(proc_fd, path, text, sizeof text) < 0)
		return -1;
	if (!find_kib(text, "Pss_Anon", ret_anonymous) ||
		!find_kib(text, "Pss_Shmem", ret_shared)) {
		errno = ENODATA;
		return -1;
	}
	return 0;
}

/* A thread that vforks is in state D until its child executes; of a process, stat shows the first thread only. */
static bool may_share_parents_memory(const struct process *process, const struct process *parent)
{
	uint64_t a = process->resident_pages, b = parent->resident_pages;

	return (process->flags & FLAG_FORK_NO_EXEC) &&
	       (parent->state == 'D' || parent->threads > 1) &&
	       process->virtual_bytes == parent->virtual_bytes &&
	       (a > b ? a - b : b - a) <= DOUBTFUL_PAGES;
}

static int compare_pids(const void *a, const void *b)
{
	const struct process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Processes are listed in ascending order, so an earlier parent is found by bisection. */
static bool is_doubtful(
	const struct process *processes, size_t count, const struct process *process)
{
	struct process key = {.pid = process->parent};
	const struct process *parent = NULL;

	if (count)
		parent = bsearch(&key, processes, count, sizeof *processes, compare_pids);
	return parent && may_share_parents_memory(process, parent);
}

/*
 * Adds one process to the sums: exactly while there is time, else with its RSS. (ESRCH and ENOENT: it
 * is gone, or it is a zombie or a kernel thread and has no memory.)
 */
static void add_process(
	int proc_fd, const struct process *process, bool exactly, bool doubtful, struct sums *sums)
{
	uint64_t anonymous = 0, shared = 0;

	if (process->resident_pages == 0)
		return;
	if (!exactly) {
		anonymous = process->resident_pages * page_bytes();
	} else if (read_proportional(proc_fd, process, &anonymous, &shared) < 0) {
		if (errno == ESRCH || errno == ENOENT)
			return;
		anonymous = process->resident_pages * page_bytes();
		shared = 0;
	}
	sums->anonymous += anonymous;
	sums->shared += shared;
	if (doubtful)
		sums->doubtful += anonymous + shared;
}

static void sum_exactly(int proc_fd, uint64_t started_us, struct sums *ret)
{
	struct listing listing;
	cleanup_free struct process *processes = NULL;
	size_t count = 0, size = 0;
	pid_t pid;

	*ret = (struct sums){0};
	if (listing_open(&listing, proc_fd) < 0)
		return;
	while ((pid = listing_next(&listing)) > 0) {
		struct process process;

		if (read_process(proc_fd, pid, &process) < 0)
			continue;
		add_process(proc_fd, &process, now_us() - started_us < EXACT_BUDGET_US,
			is_doubtful(processes, count, &process), ret);
		if (count == size) {
			struct process *grown =
				reallocarray(processes, size ? size * 2 : 64, sizeof *grown);

			if (!grown)
				continue; /* its children will not be seen as doubtful, which is the safe side */
			processes = grown;
			size = size ? size * 2 : 64;
		}
		processes[count++] = process;
	}
	close(listing.fd);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Takes the exact sum. Returns whether the limit is exceeded. */
static bool decide(struct watcher *watcher, uint64_t tmpfs, uint64_t started_us, uint64_t *ret_used)
{
	uint64_t limit = watcher->memory_limit_bytes, full, certain;
	struct sums sums;

	sum_exactly(watcher->proc_fd, started_us, &sums);
	full = sums.anonymous + max_u64(sums.shared, tmpfs);
	certain = full - (sums.doubtful < full ? sums.doubtful : full);
	watcher->doubtful_ticks =
		full > limit && certain <= limit ? watcher->doubtful_ticks + 1 : 0;
	*ret_used = full > limit && watcher->doubtful_ticks < DOUBTFUL_TICKS ? certain : full;
	return *ret_used > limit;
}

static unsigned next_tick_ms(const struct watcher *watcher, uint64_t used, uint64_t cost_us)
{
	uint64_t ms = used > watcher->memory_limit_bytes / 2 ? TICK_NEAR_MS : TICK_FAR_MS;

	ms = max_u64(ms, cost_us * COST_FACTOR / 1000);
	return (unsigned)(ms < TICK_MAX_MS ? ms : TICK_MAX_MS);
}

bool watcher_tick(struct watcher *watcher, uint64_t *ret_used)
{
	uint64_t started_us = now_us(), tmpfs = 0, used;
	uint32_t threads;
	bool exceeded = false;

	for (size_t i = 0; i < watcher->tmpfs_count; i++)
		tmpfs += tmpfs_used(watcher->tmpfs_fds[i], NULL);
	sum_upper_bound(watcher->proc_fd, &used, &threads);
	used += tmpfs;
	if (used > watcher->memory_limit_bytes)
		exceeded = decide(watcher, tmpfs, started_us, &used);
	else
		watcher->doubtful_ticks = 0;

	watcher->memory_peak_bytes = max_u64(watcher->memory_peak_bytes, used);
	if (threads > watcher->pids_peak)
		watcher->pids_peak = threads;
	if (watcher->pids_limit && threads >= watcher->pids_limit)
		watcher->pids_hit = true;
	watcher->next_tick_ms = next_tick_ms(watcher, used, now_us() - started_us);
	if (exceeded)
		*ret_used = used;
	return exceeded;
}

/* utime, stime, cutime and cstime of proc_pid_stat(5), in clock ticks. */
static void add_cpu(int proc_fd, pid_t pid, uint64_t *user_ticks, uint64_t *system_ticks)
{
	char path[32], text[1024];
	const char *fields;
	unsigned long user, system, children_user, children_system;

	snprintf(path, sizeof path, "%d/stat", pid);
	if (read_small_file(proc_fd, path, text, sizeof text) < 0)
		return;
	fields = strrchr(text, ')');
	if (!fields ||
		sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
			&user, &system, &children_user, &children_system) != 4)
		return;
	*user_ticks += user + children_user;
	*system_ticks += system + children_system;
}

void watcher_cpu(int proc_fd, uint64_t *ret_user_us, uint64_t *ret_system_us)
{
	uint64_t user = 0, system = 0, tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct listing listing;
	pid_t pid = 1;

	if (listing_open(&listing, proc_fd) >= 0) {
		do
			add_cpu(proc_fd, pid, &user, &system);
		while ((pid = listing_next(&listing)) > 0);
		close(listing.fd);
	}
	*ret_user_us = user * tick_us;
	*ret_system_us = system * tick_us;
}

uint64_t tmpfs_used(int fd, uint64_t *ret_size)
{
	struct statfs status;

	if (ret_size)
		*ret_size = 0;
	if (fstatfs(fd, &status) < 0)
		return 0;
	if (ret_size)
		*ret_size = (uint64_t)status.f_blocks * (uint64_t)status.f_bsize;
	return (uint64_t)(status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
}

uint64_t tmpfs_inodes_used(int fd, uint64_t *ret_limit)
{
	struct statfs status;

	if (ret_limit)
		*ret_limit = 0;
	if (fstatfs(fd, &status) < 0)
		return 0;
	if (ret_limit)
		*ret_limit = status.f_files;
	return status.f_files - status.f_ffree;
}
