/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_CAPTURE_H
#define NSBOX_SANDBOX_CAPTURE_H

/*
 * Keeps the head and the tail of a stream of any length in bounded memory, and counts it.
 *
 * Half of the limit is the head; the tail is a ring of the other half. Memory grows with what comes,
 * never above the limit. When the stream is at most `limit` long everything is kept.
 */

#include <stddef.h>
#include <stdint.h>

#include "sandbox/result.h"

struct capture {
	size_t limit; /* bytes */
	uint8_t *head;
	size_t head_length, head_size;
	uint8_t *tail; /* ring */
	size_t tail_length, tail_size, tail_next;
	uint64_t total;
	uint8_t last_line[256]; /* for progress: the last line that is not empty, cut to the size */
	size_t last_line_length;
	uint8_t line[256]; /* the line that is being written */
	size_t line_length;
};

void capture_init(struct capture *capture, size_t limit);

/* Takes `length` bytes. Returns -1 when memory is short (what was kept stays). */
int capture_add(struct capture *capture, const void *data, size_t length);

/*
 * Hands over what was kept. Where bytes were left out, the end of the head and the beginning of the
 * tail are moved to character boundaries when what is there is UTF-8 (never more than 3 bytes each).
 * The capture is empty afterwards.
 */
void capture_finish(struct capture *capture, struct captured *ret);

void capture_free(struct capture *capture);

#endif
