/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_SPACE_H
#define NSBOX_SESSION_SPACE_H

/*
 * The writable space of a session on disk: where it is, how much of it is used, and what follows from that.
 *
 * No kernel counts it for an ordinary user, so it is looked (sandbox/diskuse.h): while commands run, the free space of
 * the disk is asked for at each tick, and when that has become less by enough to matter, the folder is walked through
 * by a process of its own. Whoever made the use go over the limit, or grow when it was over already, is ended. The same
 * happens where the disk itself has less free than has to stay free for others (storage_floor_bytes).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/storage.h"
#include "util/error.h"

struct job;
struct session;
struct snapshots;

struct space {
	struct storage storage;		/* folder -1: it is in memory */
	char in_memory[ERROR_TEXT_MAX]; /* why it is; empty: it was asked for, or it is not */
	struct storage packages; /* what is installed for its code; folder -1: nothing can be */
	char no_packages[ERROR_TEXT_MAX]; /* why not */
	uint64_t first_free_bytes;	/* of the disk, when it was made */
	bool late;			/* see storage_tells_late */
	/* the last look */
	uint64_t used_bytes, entries;
	uint64_t free_bytes, free_files; /* of the disk */
	uint64_t looked_us, cost_us;
	uint64_t given_bytes; /* by work on files since */
	/* over the limit, or the disk as good as full: what it was least since */
	bool full, disk_low;
	uint64_t least_bytes, least_entries;
	bool settling; /* somebody is being ended */
	/* a look that goes on */
	pid_t looker; /* 0: none */
	int answer;
	uint64_t started_us, started_free_bytes, started_free_files;
	uint64_t tick_us;
};

#define SPACE_NONE ((struct space){.storage = STORAGE_NONE, .packages = STORAGE_NONE, .answer = -1, .tick_us = UINT64_MAX})

/*
 * Chooses where the space of the session is to be, and makes the folder. Where it cannot be on disk it is in memory,
 * and why is kept.
 */
void space_choose(struct session *session);

/*
 * Makes the folder for packages, where the spec wants one, and its mounts. Where it cannot be made the session has none, and
 * why is kept; where it is to have some, and they cannot be had, that fails.
 */
int space_choose_packages(struct session *session, struct error *err);

/* The sandbox is gone: removes it. */
void space_end_packages(struct session *session);

/* It could not be used, for that reason: the space is in memory after all. */
void space_give_up(struct session *session, const struct error *why);

/* The sandbox is gone: removes the folder, or has a process go on with that. */
void space_end(struct session *session);

/* The sandbox is gone: what it has written is removed, what was not taken away before, and the next one begins with nothing. */
int space_renew(struct session *session, struct error *err);

/* Has what dead sessions left removed, by a process of its own. */
void space_sweep(const struct session *session);

/* The same for layers of snapshots that nobody needs any more. */
void space_sweep_snapshots(const struct snapshots *snapshots);

/* Time has passed, or the answer of a look is there. Returns when to come again, at the latest. */
uint64_t space_check(struct session *session);

/* Before a command starts: limits what it can write where nothing is left. */
void space_before_command(struct session *session);

/* After one has ended: what is used, and whether there is anything left. */
void space_after_command(struct session *session, struct job *job);

/* Whether there is room for `length` bytes that work on files brings. */
/* Bytes of a file that a command may write where nothing is left. */
enum { SPACE_FULL_FILE = 64 << 10 };

int space_take(struct session *session, uint64_t length, struct error *err);

#endif
