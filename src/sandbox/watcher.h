/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_WATCHER_H
#define NSBOX_SANDBOX_WATCHER_H

/*
 * Tier 2 of the memory limit, where no cgroup can be had: the supervisor looks.
 *
 * Each tick adds up the resident pages of the sandbox's processes (statm: an upper bound, since shared
 * pages count once a process) and what its tmpfs hold. Only when that is over the limit is the exact
 * sum taken (Pss of smaps_rollup), and only when that is over too is the limit hit. Processes are
 * listed through a descriptor of the sandbox's own /proc, which was opened during create: it shows
 * exactly them. watcher.c says what exactly is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watcher {
	int proc_fd;          /* the sandbox's /proc; borrowed */
	const int *tmpfs_fds; /* one on each tmpfs; borrowed */
	size_t tmpfs_count;
	uint64_t memory_limit_bytes;
	uint32_t pids_limit;
	/* what was seen */
	uint64_t
		memory_peak_bytes; /* the greatest best-known sum: exact where exact was taken, else the upper bound */
	uint32_t pids_peak; /* processes and threads, pid 1 left out */
	bool pids_hit;      /* the count was seen at the limit */
	unsigned
		next_tick_ms; /* when to look again: 10 above half the limit, else 50; later where looking is dear */
	unsigned
		doubtful_ticks; /* private: looks in a row that were over the limit only with what may be counted twice */
};

/*
 * Looks once. Returns true when the memory limit is exceeded; *ret_used is then the sum that decided. Never blocks.
 */
bool watcher_tick(struct watcher *watcher, uint64_t *ret_used);

/*
 * CPU time, in microseconds, of all processes that live in the sandbox and of those that they waited for,
 * with the kernel's resolution of 10 ms. When a sandbox is killed whole, its kernel throws the times of
 * the processes away, so they are read before.
 */
void watcher_cpu(int proc_fd, uint64_t *ret_user_us, uint64_t *ret_system_us);

/*
 * ret_bytes[i]: what is resident in the process tops[i] and in all processes below it (statm's sum: an upper bound).
 */
void watcher_resident_below(int proc_fd, const int *tops, size_t count, uint64_t *ret_bytes);

/*
 * ret_bytes[i]: what the process tops[i] and all processes below it have written to disks, those that they waited for
 * included, as far as the kernel lets it be read.
 */
void watcher_written_below(int proc_fd, const int *tops, size_t count, uint64_t *ret_bytes);

/* Bytes in use on the file system of `fd` (fstatfs), and its size (may be NULL); 0 where it cannot be told. */
uint64_t tmpfs_used(int fd, uint64_t *ret_size);

/* Inodes in use on the file system of `fd` and their number at most (may be NULL); 0 where it cannot be told. */
uint64_t tmpfs_inodes_used(int fd, uint64_t *ret_limit);

#endif
