/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_GROWTH_H
#define NSBOX_PACKAGES_GROWTH_H

/*
 * How much an install takes of the disk: it writes to a folder of the host, of which nobody else keeps count.
 *
 * While it runs the free space of the disk is asked for, so often that what is left cannot have been filled meanwhile;
 * when that has become less by enough to matter the folder is walked through (sandbox/diskuse.h). The install ends when
 * the folder is over its limit, or the disk has less free than has to stay free for others (storage_floor_bytes).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/result.h"

struct growth {
	int folder; /* borrowed */
	uint64_t limit_bytes, limit_entries, floor_bytes;
	uint64_t used_bytes, entries; /* at the last look */
	bool whole;		      /* it has seen all of the folder */
	uint64_t first_free_bytes;    /* of the disk */
	uint64_t free_bytes;	      /* of the disk, when the last look began */
	uint64_t looked_us, cost_us;  /* when it ended, and how long it took */
	pid_t looker;		      /* a look that goes on; 0: none */
	int answer;
	uint64_t started_us, started_free_bytes;
};

/* Returns -1 where the disk is as good as full already. */
int growth_begin(int folder, uint64_t limit_bytes, struct growth *ret, struct error *err);

/* For run_watch: `data` is a struct growth. */
enum ended_by growth_look(void *data, int proc_fd, struct exec_result *exec, uint64_t *ret_next_us);

/*
 * The last look, when the sandbox is gone: what the folder takes, and `whole`. Returns true with a hit in *exec where that
 * is more than it may.
 */
bool growth_end(struct growth *growth, struct exec_result *exec);

#endif
