/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_REPLIES_H
#define NSBOX_SESSION_REPLIES_H

/*
 * What a context's driver says (contexts.h), taken apart as it comes. It is the code's word as much as the driver's, so
 * it is taken as hostile: every header is checked in full, nothing is kept for what was only announced, and of one cell
 * no more than REPLIES_CELL_MAX bytes are taken. What is not a reply in its turn is nonsense, and ends the driver.
 *
 *     ready
 *     part ID VALUE KIND MIME LENGTH        and LENGTH bytes
 *     cut ID VALUE KIND MIME LENGTH
 *     error ID LINE NAME MESSAGE TRACE      (lengths) and so many bytes
 *     end ID STATUS
 *
 * Pure: reads and writes no descriptor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REPLIES_HEADER_MAX = 512,    /* bytes, with the newline */
	REPLIES_CELL_MAX = 32 << 20, /* bytes of all replies of a cell */
	REPLIES_MIME_MAX = 127,      /* characters */
	REPLIES_VALUES_MAX = 64,     /* of a cell */
	REPLIES_PARTS_MAX = 16,      /* of a value */
};

enum reply_kind { REPLY_READY, REPLY_PART, REPLY_CUT, REPLY_ERROR, REPLY_END };

enum cell_status { CELL_OK, CELL_ERROR, CELL_INTERRUPTED };

struct reply {
	enum reply_kind kind;
	/* PART, CUT */
	uint32_t value;
	bool is_result; /* else `display` */
	char mime[REPLIES_MIME_MAX + 1];
	uint64_t cut_length;
	/* PART: `length` bytes; ERROR: name, message and trace, one behind the other. Borrowed until the next replies_take. */
	const uint8_t *data;
	size_t length;
	/* ERROR */
	uint32_t line; /* 0: not known */
	size_t name_length, message_length, trace_length;
	/* END */
	enum cell_status status;
};

struct replies {
	bool ready;
	uint32_t cell;  /* that runs; 0: none does, and nothing is to come */
	size_t left;    /* bytes that it may still say */
	uint32_t value; /* the last that it has shown a part of */
	bool value_is_result, has_result, has_error;
	char mimes[REPLIES_PARTS_MAX][REPLIES_MIME_MAX + 1]; /* of that value */
	size_t mimes_count;
	char header[REPLIES_HEADER_MAX];
	size_t header_length;
	struct reply coming; /* whose bytes are `wanted`, of which `payload_length` are there */
	bool has_header;
	size_t wanted;
	uint8_t *payload; /* owned */
	size_t payload_length, payload_size;
	const char *fault; /* a literal: what is wrong, once something is */
};

void replies_init(struct replies *ret);
void replies_free(struct replies *replies);

/* A cell of that number, more than 0, is run; what comes until its end is about it. */
void replies_begin(struct replies *replies, uint32_t cell);

enum replies_found {
	REPLIES_MORE,     /* all of the bytes were taken, and more are needed */
	REPLIES_ONE,      /* *ret is a whole reply */
	REPLIES_NONSENSE, /* replies->fault says why, and so it stays */
};

/* Takes bytes from *data on, which are *length, up to the end of a reply. */
enum replies_found replies_take(
	struct replies *replies, const uint8_t **data, size_t *length, struct reply *ret);

#endif
