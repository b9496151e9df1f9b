/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_CAPTURE_H
#define NSBOX_SANDBOX_CAPTURE_H

/*
 * Keeps the head and the tail of a stream of any length in bounded memory, and counts it.
 *
 * One buffer that grows with what comes, never above the limit: its first half is the head, its
 * second half a ring that holds the tail. When the stream is at most `limit` long everything is kept.
 */

#include <stddef.h>
#include <stdint.h>

#include "sandbox/result.h"

enum { CAPTURE_LINE_MAX = 256 };

struct capture {
	size_t limit; /* bytes kept at most */
	uint8_t *data;
	size_t size;    /* of data: what is allocated */
	size_t kept;    /* bytes in data */
	size_t oldest;  /* where the tail begins in its ring, once kept == limit */
	uint64_t total; /* bytes that came */
	uint8_t last_line
		[CAPTURE_LINE_MAX]; /* for progress: the last finished line that is not empty, cut to the size */
	size_t last_line_length;
	uint8_t line[CAPTURE_LINE_MAX]; /* the line that is being written */
	size_t line_length;
};

void capture_init(struct capture *capture, size_t limit);

/* Takes `length` bytes. Returns -1 when memory is short: then none of them was taken, and what was kept stays. */
int capture_add(struct capture *capture, const void *data, size_t length);

/*
 * Hands over what was kept. Where bytes were left out, the end of the head and the beginning of the
 * tail are moved to character boundaries when what is there is UTF-8 (never more than 3 bytes each).
 * The capture is empty afterwards.
 */
void capture_finish(struct capture *capture, struct captured *ret);

void capture_free(struct capture *capture);

#endif
