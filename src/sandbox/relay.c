/* SPDX-License-Identifier: MIT */
/* Bytes from one descriptor to another: see relay.h. */
#define _GNU_SOURCE
#include "sandbox/relay.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/refusal.h"

enum { RELAY_SIZE = 64 << 10 };

void relay_init(struct relay *relay, int from, bool owns_from, int to, bool owns_to,
	enum relay_target target)
{
	*relay = (struct relay){.from = from,
		.watched = from,
		.owns_from = owns_from,
		.to = to,
		.owns_to = owns_to,
		.target = target,
		.eof_byte = -1,
		.size = RELAY_SIZE};
}

void relay_init_data(struct relay *relay, void *data, size_t length, int to)
{
	*relay = (struct relay){.from = -1,
		.to = to,
		.owns_to = true,
		.target = RELAY_NONBLOCKING,
		.eof_byte = -1,
		.buffer = data,
		.length = length,
		.from_ended = true};
	if (length == 0) {
		relay->done = true;
		relay_close(relay);
	}
}

bool relay_active(const struct relay *relay)
{
	return !relay->done;
}

void relay_pollfds(const struct relay *relay, struct pollfd ret[RELAY_POLLFDS])
{
	ret[0] = ret[1] = (struct pollfd){.fd = -1};
	if (relay->done)
		return;
	if (relay->length > 0) {
		ret[0] = (struct pollfd){.fd = relay->to, .events = POLLOUT};
		return;
	}
	ret[0] = (struct pollfd){.fd = relay->watched, .events = POLLIN};
	/* A reader that goes away is to be seen by the command as well, which may wait for that. */
	if (relay->target == RELAY_PIPE)
		ret[1].fd = relay->to;
}

void relay_close(struct relay *relay)
{
	if (relay->owns_from && relay->from >= 0)
		close(relay->from);
	if (relay->owns_to && relay->to >= 0)
		close(relay->to);
	if (relay->size)
		free(relay->buffer);
	relay->from = relay->to = -1;
	relay->buffer = NULL;
	relay->length = 0;
	relay->done = true;
}

void relay_finish(struct relay *relay)
{
	uint8_t *grown = NULL;
	ssize_t n = 1;
	int left = 0;

	if (relay->done || relay->from_ended)
		return;
	relay->from_ended = true;
	ioctl(relay->from, FIONREAD, &left);
	if (left > 0 && !(grown = malloc(relay->length + (size_t)left)))
		relay->write_errno = ENOMEM;
	if (grown) {
		if (relay->length > 0)
			memcpy(grown, relay->buffer + relay->start, relay->length);
		free(relay->buffer);
		relay->buffer = grown;
		relay->start = 0;
	}
	while (grown && left > 0 && (n = read(relay->from, grown + relay->length, (size_t)left)) > 0) {
		relay->length += (size_t)n;
		left -= (int)n;
	}
	if (relay->length == 0)
		relay_close(relay);
}

static void fill(struct relay *relay)
{
	ssize_t n;

	if (!relay->buffer)
		relay->buffer = malloc(relay->size);
	if (!relay->buffer) {
		relay->write_errno = ENOMEM;
		relay_close(relay);
		return;
	}
	n = relay->from_socket ? recv(relay->from, relay->buffer, relay->size, MSG_DONTWAIT)
			       : read(relay->from, relay->buffer, relay->size);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	relay->start = 0;
	relay->length = n > 0 ? (size_t)n : 0;
	if (n > 0 && relay->words)
		refusal_words_add(relay->words, relay->buffer, relay->length);
	if (n > 0)
		return;
	/* A pty master says EIO when the last slave is closed: whoever asks for read_errno knows what it is. */
	relay->read_errno = n < 0 ? errno : 0;
	relay->from_ended = true;
	if (relay->eof_byte < 0) {
		relay_close(relay);
		return;
	}
	relay->buffer[0] = (uint8_t)relay->eof_byte;
	relay->length = 1;
}

/* What others write to the same pipe does not come between as many bytes as these; nor in a line, where it may be. */
static size_t whole_lines(const uint8_t *data, size_t length)
{
	const uint8_t *end;

	if (length <= PIPE_BUF)
		return length;
	end = memrchr(data, '\n', PIPE_BUF);
	return end ? (size_t)(end + 1 - data) : PIPE_BUF;
}

static ssize_t write_some(const struct relay *relay)
{
	const uint8_t *data = relay->buffer + relay->start;

	switch (relay->target) {
	case RELAY_SOCKET:
		return send(relay->to, data, relay->length, MSG_DONTWAIT | MSG_NOSIGNAL);
	case RELAY_PIPE:
		return write(relay->to, data, whole_lines(data, relay->length));
	case RELAY_FILE:
	case RELAY_NONBLOCKING:
		break;
	}
	return write(relay->to, data, relay->length);
}

/* Returns whether more can be tried at once: a pipe that does not make us wait gets its pieces one after the other. */
static bool drain(struct relay *relay)
{
	ssize_t n = relay->drop ? (ssize_t)relay->length : write_some(relay);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n < 0) {
		relay->write_errno = errno;
		relay_close(relay); /* the writer inside learns of it by SIGPIPE */
		return false;
	}
	relay->start += (size_t)n;
	relay->length -= (size_t)n;
	if (relay->length == 0 && relay->from_ended)
		relay_close(relay);
	return relay->length > 0 && relay->target == RELAY_PIPE && relay->owns_to;
}

void relay_step(struct relay *relay, const struct pollfd fds[RELAY_POLLFDS])
{
	if (relay->done)
		return;
	if (fds[1].revents) {
		relay->write_errno = EPIPE;
		relay_close(relay);
	} else if (fds[0].revents && relay->length > 0) {
		while (drain(relay))
			;
	} else if (fds[0].revents) {
		fill(relay);
	}
}

enum relay_target relay_target_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return RELAY_FILE;
	return S_ISSOCK(st.st_mode) ? RELAY_SOCKET : RELAY_PIPE;
}
