/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_BACKLOG_H
#define NSBOX_SESSION_BACKLOG_H

/*
 * What a command in the background has written last: a ring in a file without a name. Bytes are named by their offset
 * in all that was written, so that who reads on sees what was overwritten meanwhile.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct backlog {
	int fd;            /* -1: there is none */
	uint64_t total;    /* bytes that were written in all */
	uint64_t capacity; /* of the ring; 0: the file still grows */
};

#define BACKLOG_NONE ((struct backlog){.fd = -1})

/* Returns 0, or -1 with errno. */
int backlog_open(struct backlog *ret);
void backlog_close(struct backlog *backlog);

/* Bytes that its file has. */
uint64_t backlog_bytes(const struct backlog *backlog);

/* The offset of the oldest byte that is there still. */
uint64_t backlog_start(const struct backlog *backlog);

/* Appends. `max`: bytes that its file may have now; with less it has what it has, and that becomes the ring. */
void backlog_add(struct backlog *backlog, const void *data, size_t length, uint64_t max);

/* Reads from *offset on, which becomes that of the first byte that is returned. As read(2). */
ssize_t backlog_read(const struct backlog *backlog, uint64_t *offset, void *data, size_t length);

#endif
