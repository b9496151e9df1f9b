/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_STORAGE_H
#define NSBOX_IMAGE_STORAGE_H

/*
 * The writable space of sessions on disk: a folder for each in the store.
 *
 *     sessions/ID/             locked (flock(2)) by the session's supervisor as long as that lives
 *     sessions/ID/space/       what the sandbox has, and all that it makes; as root the sandbox's ids own it
 *     sessions/ID.packages/    likewise: space/ has the packages that are installed for it (packages/session.h)
 *
 * A folder that nobody has locked is a dead session's, and is removed by whoever finds it. What is in one is a
 * stranger's: it is looked into with descriptors, never through links, and only when the sandbox is gone.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct error;
struct store;

struct storage {
	int sessions;       /* the folder of all */
	int folder;         /* of this one, locked */
	int space;          /* what the sandbox has: to be looked at, not to be entered */
	char name[64];      /* in `sessions` */
	char path[PATH_MAX]; /* of the space, absolute */
};

#define STORAGE_NONE ((struct storage){.sessions = -1, .folder = -1, .space = -1})

/* The file system of a folder (statfs(2)), and what has to stay free of it for others: 5 %, but 1 GiB at most. */
uint64_t storage_free_bytes(int fd);
uint64_t storage_free_files(int fd); /* 0 where the file system has no number of them */
uint64_t storage_floor_bytes(int fd);
bool storage_files_low(int fd); /* less than 5 % of the files that the file system can have are free */

/* Whether its file system tells of what was written, or removed, only once that has come to the disk, as btrfs does. */
bool storage_tells_late(int fd);

/*
 * Makes the folder of a new session, in a store that is made where it is missing. Fails where the disk is as good as full,
 * and, with `on_disk`, where the store is in memory itself.
 */
int storage_make(const char *name, bool on_disk, struct storage *ret, struct error *err);

/*
 * The space, of which something may have been taken away, or it itself, is empty again; what was in it and takes longer
 * than `budget_us` to be removed is beside it as *ret_old, a descriptor, else -1: storage_remove_old.
 */
int storage_renew(struct storage *storage, uint64_t budget_us, int *ret_old, struct error *err);
void storage_remove_old(const struct storage *storage, int old);

/*
 * Removes it with all that is in it, for at most `budget_us` microseconds. Returns 1 where that was not enough: it can be
 * gone on with, by a process that has the descriptors too.
 */
int storage_remove(const struct storage *storage, uint64_t budget_us);

void storage_close(struct storage *storage);

/*
 * Opens the folder of all, where the caller's store has one; else -1.
 */
int storage_open_all(void);

/* Whether any of the folders is a dead session's. */
bool storage_has_dead(int sessions);

/* Removes all that are. Returns of how many sessions on disk. */
unsigned storage_sweep(int sessions);

#endif
