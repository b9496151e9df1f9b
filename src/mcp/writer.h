/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_WRITER_H
#define NSBOX_MCP_WRITER_H

/*
 * What is to be written to the client. Writing never blocks, though the descriptor is not made
 * non-blocking: that would change it for everybody who shares it, such as the client's terminal.
 */

#include <stdbool.h>
#include <stddef.h>

struct writer {
	int fd;
	bool socket; /* as far as known: false after the first ENOTSOCK */
	char *data;
	size_t sent, length, size;
};

/* `fd` is borrowed. */
void writer_init(struct writer *writer, int fd);

/* Appends. Returns -1 when memory is short: the stream cannot be gone on with. */
int writer_add(struct writer *writer, const char *data, size_t length);

/* Bytes that wait. */
size_t writer_pending(const struct writer *writer);

/* Writes what the descriptor takes now. Returns -1 with errno when the client is gone. */
int writer_flush(struct writer *writer);

void writer_free(struct writer *writer);

#endif
