/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_RELAY_H
#define NSBOX_SANDBOX_RELAY_H

/*
 * Carries bytes from one descriptor to another inside the supervisor's poll loop, without ever
 * blocking it: 64 KiB at most are in hand, and a writer that has to wait makes the reader wait.
 *
 * The flags of descriptors that the caller shares with others are never changed; where a write could
 * block, as much is written as poll(2) promises room for.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct refusal_words;

enum relay_target {
	RELAY_FILE,        /* a regular file: writing does not wait for anybody */
	RELAY_NONBLOCKING, /* a descriptor of ours with O_NONBLOCK */
	RELAY_PIPE, /* a pipe or device that others may have: at most PIPE_BUF bytes at a time, after POLLOUT */
	RELAY_SOCKET, /* somebody's socket: MSG_DONTWAIT */
};

struct relay {
	int from;    /* -1: only what is in the buffer */
	int watched; /* polled for `from`: the same, or another descriptor of it (see stdio.c) */
	int to;
	bool owns_from, owns_to;
	bool from_socket; /* read without waiting and without taking descriptors that come with the bytes */
	enum relay_target target;
	int eof_byte; /* sent once when `from` has ended (for a terminal's end of file); -1: nothing */
	bool drop;    /* the target is gone, but go on reading */
	uint8_t *buffer;
	size_t start, length, size;
	bool from_ended;
	bool done;
	int read_errno;  /* why reading failed, else 0 */
	int write_errno; /* why writing failed, else 0 */
	struct refusal_words *words; /* looks at what is read; borrowed; or NULL */
	int number;      /* the caller's descriptor that it serves: 0, 1 or 2 */
	bool has_errors; /* it carries the command's standard error, alone or with its output */
};

/* A relay between two descriptors. The buffer is allocated when it is needed. */
void relay_init(struct relay *relay, int from, bool owns_from, int to, bool owns_to,
	enum relay_target target);

/* A relay that writes `data` (borrowed until it is done) to `to`, which it owns, and closes it. */
void relay_init_data(struct relay *relay, void *data, size_t length, int to);

enum { RELAY_POLLFDS = 2 };

/* What to poll for. fd is -1 where there is nothing. */
void relay_pollfds(const struct relay *relay, struct pollfd ret[RELAY_POLLFDS]);

/* Does what revents allow. */
void relay_step(struct relay *relay, const struct pollfd fds[RELAY_POLLFDS]);

/* Whether something may still arrive. */
bool relay_active(const struct relay *relay);

/*
 * Reads what is in the pipe now, and then no more: others than who was meant may have its other end. What cannot be
 * written at once is in hand.
 */
void relay_finish(struct relay *relay);

/* Closes what it owns and frees the buffer. */
void relay_close(struct relay *relay);

/* How a write to `fd`, a descriptor that the caller gave us, has to be made. */
enum relay_target relay_target_of(int fd);

#endif
