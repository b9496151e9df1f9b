/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_CELLS_H
#define NSBOX_SESSION_CELLS_H

/*
 * What a cell (a piece of code that ran in a context) has shown: values in several representations, and an error. It is
 * kept within bounds whatever the driver says, and becomes JSON:
 *
 *     "values": [{"kind": "result"|"display", "text", "html", "markdown", "latex": TEXT,
 *                 "json": VALUE, "chart": {…}, "plotly": {…}; or "json_text" … where it is no JSON, or nested too deep,
 *                 "image": {"mime_type", "bytes", "data": BASE64}, "svg": TEXT,
 *                 "omitted": [{"mime_type", "bytes"}]: representations that were too large, or that nobody knows}]
 *     "error": {"name", "message", "line": of the code, or null, "traceback"} or null
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "session/replies.h"

struct shown_part {
	uint32_t value;
	bool is_result;
	char *mime;    /* owned */
	uint8_t *data; /* owned; NULL: left out */
	uint64_t length;
};

struct shown {
	struct shown_part *parts; /* owned */
	size_t count;
	size_t bytes; /* of data that is held, */
	size_t told;  /* and what they come to in JSON */
	bool has_error;
	uint32_t line;
	struct {
		char *data; /* owned */
		size_t length;
	} name, message, trace;
};

enum { SHOWN_BYTES_MAX = 12 << 20 /* of a cell, */, SHOWN_TOLD_MAX = 36 << 20 /* and what is written besides fits in one answer */ };

/* Takes a reply of the kinds PART, CUT and ERROR. `room`: bytes that may be held besides, by all together. */
void shown_add(struct shown *shown, const struct reply *reply, size_t room);

/* Sets "values" and "error". */
void shown_to_json(const struct shown *shown, json_t *object);

void shown_free(struct shown *shown);

#endif
