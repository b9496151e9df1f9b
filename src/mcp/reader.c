/* SPDX-License-Identifier: MIT */
/* Lines in bounded memory: see reader.h. */
#define _GNU_SOURCE
#include "mcp/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 64 << 10, KEEP_SIZE = 1 << 20 /* bytes */ };

void reader_init(struct reader *reader, int fd, size_t limit)
{
	memset(reader, 0, sizeof *reader);
	reader->fd = fd;
	reader->limit = limit;
}

/* Moves what is left to the front, and gives a buffer back that one long line has made large. */
static void compact(struct reader *reader)
{
	size_t rest = reader->length - reader->consumed;

	if (reader->consumed == 0)
		return;
	memmove(reader->buffer, reader->buffer + reader->consumed, rest);
	reader->length = rest;
	reader->consumed = 0;
	if (reader->size > KEEP_SIZE && rest <= READ_SIZE) {
		char *smaller = realloc(reader->buffer, 2 * READ_SIZE);

		if (smaller) {
			reader->buffer = smaller;
			reader->size = 2 * READ_SIZE;
		}
	}
}

static int make_room(struct reader *reader)
{
	size_t size = reader->size ? reader->size : 2 * READ_SIZE;
	char *grown;

	while (size - reader->length < READ_SIZE)
		size *= 2;
	if (size == reader->size)
		return 0;
	grown = realloc(reader->buffer, size);
	if (!grown)
		return -1;
	reader->buffer = grown;
	reader->size = size;
	return 0;
}

void reader_fill(struct reader *reader)
{
	ssize_t n;

	compact(reader);
	if (make_room(reader) < 0) {
		/* The line cannot be kept: as if it were above the limit. */
		reader->skipping = true;
		reader->length = reader->searched = 0;
	}
	do
		n = read(reader->fd, reader->buffer + reader->length, READ_SIZE);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0)
		reader->errnum = errno;
	if (n <= 0)
		reader->ended = true;
	else
		reader->length += (size_t)n;
}

enum reader_event reader_next(struct reader *reader, const char **ret_line, size_t *ret_length)
{
	size_t available = reader->length - reader->consumed, line_length;
	bool skipped = reader->skipping;
	char *start, *newline;

	if (!reader->buffer)
		return reader->ended ? READER_END : READER_AGAIN;
	start = reader->buffer + reader->consumed;
	newline = available > reader->searched
			  ? memchr(start + reader->searched, '\n', available - reader->searched)
			  : NULL;
	if (!newline) {
		reader->searched = available;
		if (reader->skipping || available > reader->limit) {
			reader->skipping = true;
			reader->consumed = reader->length;
			reader->searched = 0;
		}
		return reader->ended ? READER_END : READER_AGAIN;
	}
	line_length = (size_t)(newline - start);
	reader->consumed += line_length + 1;
	reader->searched = 0;
	reader->skipping = false;
	if (skipped || line_length > reader->limit)
		return READER_TOO_LONG;
	*ret_line = start;
	*ret_length = line_length;
	return READER_LINE;
}

void reader_free(struct reader *reader)
{
	free(reader->buffer);
	memset(reader, 0, sizeof *reader);
}
