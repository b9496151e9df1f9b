/* SPDX-License-Identifier: MIT */
/* A ring in a file: see backlog.h. */
#define _GNU_SOURCE
#include "session/backlog.h"

#include <unistd.h>

#include "util/cleanup.h"
#include "util/file.h"

int backlog_open(struct backlog *ret)
{
	*ret = BACKLOG_NONE;
	ret->fd = open_unnamed();
	return ret->fd < 0 ? -1 : 0;
}

void backlog_close(struct backlog *backlog)
{
	close_fd(&backlog->fd);
	*backlog = BACKLOG_NONE;
}

uint64_t backlog_bytes(const struct backlog *backlog)
{
	return backlog->fd < 0 ? 0 : backlog->capacity ? backlog->capacity : backlog->total;
}

uint64_t backlog_start(const struct backlog *backlog)
{
	return backlog->total - (backlog->total < backlog_bytes(backlog) ? backlog->total : backlog_bytes(backlog));
}

/* Where the next byte goes, and how many fit there in one piece. */
static uint64_t next_room(struct backlog *backlog, uint64_t max, uint64_t *ret_position)
{
	if (!backlog->capacity && backlog->total >= max)
		backlog->capacity = backlog->total;
	if (!backlog->capacity) {
		*ret_position = backlog->total;
		return max - backlog->total;
	}
	*ret_position = backlog->total % backlog->capacity;
	return backlog->capacity - *ret_position;
}

void backlog_add(struct backlog *backlog, const void *data, size_t length, uint64_t max)
{
	const char *next = data;

	while (backlog->fd >= 0 && length > 0) {
		uint64_t position, room = next_room(backlog, max, &position);
		size_t part = room < length ? (size_t)room : length;
		ssize_t n = part ? pwrite(backlog->fd, next, part, (off_t)position) : -1;

		if (n > 0) {
			backlog->total += (uint64_t)n;
			next += n;
			length -= (size_t)n;
		} else if (!backlog->capacity && backlog->total > 0) {
			backlog->capacity = backlog->total; /* the disk is full */
		} else {
			close_fd(&backlog->fd); /* nothing can be kept at all */
		}
	}
	backlog->total += length;
}

ssize_t backlog_read(const struct backlog *backlog, uint64_t *offset, void *data, size_t length)
{
	uint64_t start = backlog_start(backlog), end = backlog->total;
	char *next = data;
	size_t done = 0;

	*offset = *offset < start ? start : *offset > end ? end : *offset;
	if (length > end - *offset)
		length = (size_t)(end - *offset);
	while (done < length) {
		uint64_t at = *offset + done, position = backlog->capacity ? at % backlog->capacity : at;
		uint64_t room = backlog->capacity ? backlog->capacity - position : length;
		size_t part = room < length - done ? (size_t)room : length - done;
		ssize_t n = pread(backlog->fd, next + done, part, (off_t)position);

		if (n <= 0)
			return done > 0 ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}
