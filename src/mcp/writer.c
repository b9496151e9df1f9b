/* SPDX-License-Identifier: MIT */
/* The way to the client: see writer.h. */
#define _GNU_SOURCE
#include "mcp/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEEP_SIZE = 1 << 20 /* bytes */ };

void writer_init(struct writer *writer, int fd)
{
	memset(writer, 0, sizeof *writer);
	writer->fd = fd;
	writer->socket = true;
}

size_t writer_pending(const struct writer *writer)
{
	return writer->length - writer->sent;
}

/* Drops what was sent, and gives back a buffer that a slow client has made large. */
static void compact(struct writer *writer)
{
	if (writer->sent == writer->length)
		writer->sent = writer->length = 0;
	if (writer->length == 0 && writer->size > KEEP_SIZE) {
		free(writer->data);
		writer->data = NULL;
		writer->size = 0;
	}
	if (writer->sent > 0 && writer->sent >= writer->length / 2) {
		memmove(writer->data, writer->data + writer->sent, writer->length - writer->sent);
		writer->length -= writer->sent;
		writer->sent = 0;
	}
}

int writer_add(struct writer *writer, const char *data, size_t length)
{
	size_t size;
	char *grown;

	compact(writer);
	size = writer->size ? writer->size : 4096;
	while (size - writer->length < length)
		size *= 2;
	if (size != writer->size || !writer->data) {
		grown = realloc(writer->data, size);
		if (!grown)
			return -1;
		writer->data = grown;
		writer->size = size;
	}
	memcpy(writer->data + writer->length, data, length);
	writer->length += length;
	return 0;
}

/*
 * A socket can be asked not to block. A pipe that poll calls writable has room for PIPE_BUF bytes,
 * which is as much as may be written then without blocking; files and terminals do not wait long.
 */
static ssize_t write_some(struct writer *writer)
{
	const char *next = writer->data + writer->sent;
	size_t length = writer_pending(writer);
	struct pollfd poll_fd = {.fd = writer->fd, .events = POLLOUT};

	if (writer->socket) {
		ssize_t n = send(writer->fd, next, length, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0 || errno != ENOTSOCK)
			return n;
		writer->socket = false;
	}
	if (poll(&poll_fd, 1, 0) <= 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(writer->fd, next, length < PIPE_BUF ? length : PIPE_BUF);
}

int writer_flush(struct writer *writer)
{
	while (writer_pending(writer) > 0) {
		ssize_t n = write_some(writer);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -1;
		writer->sent += (size_t)n;
	}
	compact(writer);
	return 0;
}

void writer_free(struct writer *writer)
{
	free(writer->data);
	memset(writer, 0, sizeof *writer);
}
