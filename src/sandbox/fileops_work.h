/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_FILEOPS_WORK_H
#define NSBOX_SANDBOX_FILEOPS_WORK_H

/*
 * What the files of one request share (fileops.h): the request, taken apart, the place that a name has in a
 * directory, and a file in the making. Functions return 0, or -1 with the failure in the answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "sandbox/fileops.h"

struct work {
	struct fileop request;
	int channel;
	int base;		/* where relative paths begin */
	char *path, *to;	/* with NULs; `to` of MOVE only */
	const char *from, *new; /* EDIT: from_length and to_length bytes */
	struct fileop_answer answer;
	bool answered;
	bool lost; /* nobody is there to be answered */
};

/* Puts a failure into the answer. Always -1. */
int work_fail(struct work *work, enum fileop_stage stage, int errnum);

/* The answer, and what follows it. */
int work_send_answer(struct work *work);
int work_send(struct work *work, const void *data, size_t length);

/* statx(2) with all that is needed here, STATX_MNT_ID too; flags AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH. -1 with errno. */
int look_at(int dir, const char *name, int flags, struct statx *ret);
uint64_t statx_ns(const struct statx_timestamp *time);

/* Type, mode, size and time into the answer. */
void work_describe(struct work *work, const struct statx *stx);

/* FILEOP_NOT_REGULAR for what has been described, unless it is. */
int work_need_regular(struct work *work);

/* A name in a directory, there or not: the last component of a path, with what is before it resolved. */
struct place {
	int dir;	  /* O_PATH, or -1 */
	const char *name; /* in `path`; «.» for the root */
	bool slash;	  /* it came with a slash behind it */
	char path[FILEOP_PATH_MAX];
};

#define PLACE_NONE ((struct place){.dir = -1})

/* `parents`: makes the directories that are missing. */
int place_open(struct work *work, struct place *place, const char *path, bool parents);

/* Goes on to where links lead that have the name, there or not. */
int place_follow(struct work *work, struct place *place, bool parents);
void place_close(struct place *place);

/* Gives the entry `name` of `dir` the place's name, in place of what has it, or of nothing. -1 with errno. */
int place_take(const struct place *place, int dir, const char *name, bool exclusive);

enum { TEMPORARY_MAX = 32 };

/* The new content of a file, which shows when all of it is there. */
struct save {
	struct place place;
	int fd;		 /* -1: none */
	bool exclusive;
	bool in_place;
	bool append;
	bool cut;	   /* in place: the old content is gone, or will be overwritten */
	bool reserved;
	uint64_t old_size; /* APPEND */
	uint64_t written;
	mode_t mode;		   /* what a new file gets */
	char name[TEMPORARY_MAX];  /* of the new file, in place.dir */
};

#define SAVE_NONE ((struct save){.place.dir = -1, .fd = -1})

/* Of the path of the request, with its mode and flags. */
int save_begin(struct work *work, struct save *save);

/* A new file for a place that was opened already: whatever is there will be replaced. */
int save_begin_at(struct work *work, struct save *save, mode_t mode);

/*
 * Makes sure, before anything is written, that there is room for `size` bytes, which is what will be added. File
 * systems that cannot reserve are taken at their word later.
 */
int save_reserve(struct work *work, struct save *save, uint64_t size);
int save_add(struct work *work, struct save *save, const void *data, size_t length);

/* Makes it the file, and describes that. */
int save_end(struct work *work, struct save *save);

/* Closes everything; what was not ended is taken back. */
void save_close(struct save *save);

int fileop_read(struct work *work);
int fileop_write(struct work *work);
int fileop_edit(struct work *work);
int fileop_list(struct work *work);
int fileop_move(struct work *work);
int fileop_delete(struct work *work);
int fileop_mkdir(struct work *work);
int fileop_stat(struct work *work);
int fileop_scan(struct work *work);

#endif
