/* SPDX-License-Identifier: MIT */
/* How much an install takes of the disk: see growth.h. */
#define _GNU_SOURCE
#include "packages/growth.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/storage.h"
#include "sandbox/account.h"
#include "sandbox/diskuse.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	ENTRIES_MAX = 1 << 20,
	TICK_MIN_MS = 10,
	TICK_MAX_MS = 250,
	DISK_BYTES_PER_MS = 4 << 20, /* that the fastest disk takes */
	COST_FACTOR = 4,	     /* looking takes at most a fifth of the time */
	MATTERS_BYTES = 4 << 20,     /* what can be written more before it is looked again */
	LATEST_MS = 2000,	     /* what others free on the disk must not hide for longer what is written here */
	LATEST_FACTOR = 20,
	LOOK_MAX_MS = 30 * 1000,
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

int growth_begin(int folder, uint64_t limit_bytes, struct growth *ret, struct error *err)
{
	*ret = (struct growth){
		.folder = folder,
		.limit_bytes = limit_bytes,
		.limit_entries = ENTRIES_MAX,
		.floor_bytes = storage_floor_bytes(folder),
		.free_bytes = storage_free_bytes(folder),
		.first_free_bytes = storage_free_bytes(folder),
		.looked_us = now_us(),
		.answer = -1,
	};
	if (ret->free_bytes > ret->floor_bytes)
		return 0;
	error_set(err, ENOSPC, "the disk of the store has less free than has to stay free for others");
	return error_hint(err, "free some space, or set NSBOX_STORE or XDG_DATA_HOME to a folder on another disk");
}

/* --- looks --- */

static void start_look(struct growth *growth, int proc_fd)
{
	pid_t pid;

	growth->started_us = now_us();
	growth->started_free_bytes = storage_free_bytes(growth->folder);
	pid = disk_use_start(growth->folder, proc_fd, growth->limit_entries * 2, LOOK_MAX_MS * 1000ULL, &growth->answer);
	growth->looker = pid > 0 ? pid : 0;
}

/* Waits for the answer. */
static void finish_look(struct growth *growth)
{
	struct disk_use use = {0};

	if (read_full(growth->answer, &use, sizeof use) == sizeof use) {
		uint64_t gone = less(growth->first_free_bytes, growth->started_free_bytes);

		/* What could not be seen is taken to be all that the disk has less since. */
		if (!use.whole && use.bytes < gone)
			use.bytes = gone;
		growth->whole = use.whole;
		growth->used_bytes = use.bytes;
		growth->entries = use.entries;
		growth->free_bytes = growth->started_free_bytes;
	}
	close_fd(&growth->answer);
	waitpid(growth->looker, NULL, 0);
	growth->looker = 0;
	growth->looked_us = now_us();
	growth->cost_us = growth->looked_us - growth->started_us;
}

static bool answer_is_there(const struct growth *growth)
{
	struct pollfd fd = {.fd = growth->answer, .events = POLLIN};

	return growth->looker > 0 && poll(&fd, 1, 0) > 0;
}

static bool is_over(const struct growth *growth, struct exec_result *exec)
{
	uint64_t free_bytes = storage_free_bytes(growth->folder);

	if (growth->used_bytes > growth->limit_bytes)
		exec_add_hit(exec, LIMIT_DISK, growth->limit_bytes, growth->used_bytes, "watcher");
	else if (growth->entries > growth->limit_entries)
		exec_add_hit(exec, LIMIT_INODES, growth->limit_entries, growth->entries, "watcher");
	else if (free_bytes < growth->floor_bytes)
		exec_add_hit(exec, LIMIT_HOST_DISK, growth->floor_bytes, free_bytes, "statfs");
	else
		return false;
	return true;
}

static bool wants_look(const struct growth *growth, uint64_t now)
{
	uint64_t gone = less(growth->free_bytes, storage_free_bytes(growth->folder));
	uint64_t half = less(growth->limit_bytes, growth->used_bytes) / 2;
	uint64_t latest_us = growth->cost_us * LATEST_FACTOR;

	if (now < growth->looked_us + growth->cost_us * COST_FACTOR)
		return false;
	if (latest_us < LATEST_MS * 1000)
		latest_us = LATEST_MS * 1000;
	return gone >= (half > MATTERS_BYTES ? half : MATTERS_BYTES) || now >= growth->looked_us + latest_us;
}

static uint64_t next_tick_us(const struct growth *growth, uint64_t now)
{
	uint64_t free_bytes = storage_free_bytes(growth->folder);
	uint64_t left = less(growth->limit_bytes, growth->used_bytes + less(growth->free_bytes, free_bytes));
	uint64_t host_left = less(free_bytes, growth->floor_bytes);
	uint64_t ms = (left < host_left ? left : host_left) / DISK_BYTES_PER_MS;

	if (growth->looker > 0 || ms < TICK_MIN_MS)
		ms = TICK_MIN_MS;
	return now + 1000 * (ms < TICK_MAX_MS ? ms : TICK_MAX_MS);
}

enum ended_by growth_look(void *data, int proc_fd, struct exec_result *exec, uint64_t *ret_next_us)
{
	struct growth *growth = data;
	uint64_t now = now_us();

	if (answer_is_there(growth))
		finish_look(growth);
	if (is_over(growth, exec))
		return ENDED_DISK;
	if (growth->looker == 0 && wants_look(growth, now))
		start_look(growth, proc_fd);
	*ret_next_us = next_tick_us(growth, now);
	return ENDED_BY_MAX;
}

bool growth_end(struct growth *growth, struct exec_result *exec)
{
	if (growth->looker > 0) {
		kill(growth->looker, SIGKILL);
		finish_look(growth);
	}
	growth->whole = false;
	/* No process is left that could have files without names: a folder without any stands for /proc. */
	start_look(growth, growth->folder);
	if (growth->looker > 0)
		finish_look(growth);
	return is_over(growth, exec);
}
