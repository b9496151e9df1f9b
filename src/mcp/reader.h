/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_READER_H
#define NSBOX_MCP_READER_H

/*
 * Lines from a descriptor, in bounded memory. A line that is longer than the limit is skipped to its end
 * and reported once; what comes after it is read as usual.
 */

#include <stdbool.h>
#include <stddef.h>

enum reader_event {
	READER_AGAIN,    /* no whole line yet */
	READER_LINE,     /* *ret_line, without its newline; valid until the next call */
	READER_TOO_LONG, /* a line above the limit was skipped */
	READER_END,      /* EOF, or the descriptor failed; a last line without newline is not one */
};

struct reader {
	int fd;
	size_t limit; /* bytes of a line */
	char *buffer;
	size_t length, size;
	size_t consumed; /* of the buffer, by the line that was returned last */
	size_t searched; /* bytes after `consumed` that have no newline */
	bool skipping;   /* inside a line that is too long */
	bool ended;
	int errnum; /* why, where the descriptor failed; else 0 */
};

/* `fd` is borrowed. */
void reader_init(struct reader *reader, int fd, size_t limit);

/* Reads once: call it when poll says that there is something. */
void reader_fill(struct reader *reader);

/* The next thing that was read. Call it until it says READER_AGAIN or READER_END. */
enum reader_event reader_next(struct reader *reader, const char **ret_line, size_t *ret_length);

void reader_free(struct reader *reader);

#endif
