/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_DISKUSE_H
#define NSBOX_SANDBOX_DISKUSE_H

/*
 * How much of a disk a sandbox has taken, where its writable space is a folder there: nobody but root could have the
 * kernel count it (project quotas), so it is looked.
 *
 * A look is a process of its own, which can take as long as it may and be killed. It never opens a file that the
 * sandbox made, only directories, however many lie in each other; it goes through no link and no mount, and through
 * «..» only back to the directory that it came from. What counts are blocks, of a file with several names once, and of
 * files that have no name any more, but are open in a process of the sandbox.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct disk_use {
	uint64_t bytes;
	uint64_t entries; /* files and directories */
	bool whole;       /* all of it was seen that stayed where it was, or more entries than were to be */
};

/*
 * Starts a look at the directory `space`, which goes on for `budget_us` microseconds or until there are more than
 * `entries_max` entries. `proc_fd`: the sandbox's /proc. Returns the process, which dies with its parent and is to be
 * reaped, and *ret_answer, where one struct disk_use comes; -1 with errno.
 */
pid_t disk_use_start(int space, int proc_fd, uint64_t entries_max, uint64_t budget_us, int *ret_answer);

#endif
