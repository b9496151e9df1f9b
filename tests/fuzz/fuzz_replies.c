/* SPDX-License-Identifier: MIT */
/*
 * What a context's driver says, and so the code that it runs. Whatever it is: it is the same in one piece as in many, what
 * is kept of it is bounded and valid JSON, and what is wrong stays wrong.
 *
 * Input: a byte with the length of the pieces, then what is said. A cell is given whenever none runs.
 */
#define _GNU_SOURCE
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "session/cells.h"
#include "session/replies.h"

struct heard {
	struct replies replies;
	struct shown shown;
	uint32_t cell;
	uint64_t digest; /* of all replies, and of the bytes in them */
};

static void note(struct heard *heard, const void *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		heard->digest =
			(heard->digest ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
}

static void begin(struct heard *heard)
{
	replies_begin(&heard->replies, ++heard->cell);
	shown_free(&heard->shown);
}

static void check_shown(const struct shown *shown)
{
	json_t *object = json_object();
	char *text;

	require(shown->bytes <= SHOWN_BYTES_MAX, "no more is kept than may be");
	shown_to_json(shown, object);
	text = json_dumps(object, JSON_COMPACT);
	require(text != NULL, "it can be written");
	require(json_array_size(json_object_get(object, "values")) <= REPLIES_VALUES_MAX,
		"values are bounded");
	free(text);
	json_decref(object);
}

static void take(struct heard *heard, const struct reply *reply)
{
	note(heard, &(uint32_t){reply->kind}, 4);
	note(heard, reply->data, reply->length);
	require(reply->kind == REPLY_READY || reply->kind == REPLY_END || heard->replies.cell,
		"a cell runs");
	switch (reply->kind) {
	case REPLY_ERROR:
		require(reply->name_length + reply->message_length + reply->trace_length ==
				reply->length,
			"an error is whole");
		/* fall through */
	case REPLY_PART:
	case REPLY_CUT:
		shown_add(&heard->shown, reply, SIZE_MAX);
		return;
	case REPLY_END:
		require(reply->status <= CELL_INTERRUPTED, "a status is one");
		check_shown(&heard->shown);
		begin(heard);
		return;
	case REPLY_READY:
		return;
	}
	require(false, "a reply is of a kind");
}

static void hear(struct heard *heard, const uint8_t *data, size_t size)
{
	/* Exactly as large as it must be, for a sanitizer to see what reads past it. */
	uint8_t *copy = malloc(size ? size : 1);
	const uint8_t *next = copy;
	enum replies_found found = REPLIES_MORE;
	struct reply reply;

	memcpy(copy, data, size);
	while (size > 0) {
		found = replies_take(&heard->replies, &next, &size, &reply);
		if (found == REPLIES_ONE)
			take(heard, &reply);
		else if (found == REPLIES_NONSENSE)
			break;
		else
			require(size == 0, "all was taken");
	}
	require((found == REPLIES_NONSENSE) == (heard->replies.fault != NULL),
		"nonsense has a reason");
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	size_t piece = take_byte(&input) + 1U;
	struct heard whole = {0}, pieces = {0};

	begin(&whole);
	begin(&pieces);
	if (input.left > 0)
		hear(&whole, input.data, input.left);
	for (size_t at = 0; at < input.left && !pieces.replies.fault; at += piece)
		hear(&pieces, input.data + at, input.left - at < piece ? input.left - at : piece);
	require(whole.digest == pieces.digest, "the same is heard");
	require(whole.replies.fault == pieces.replies.fault, "and for the same reason no more");
	check_shown(&whole.shown);
	check_shown(&pieces.shown);
	if (whole.replies.fault) {
		const uint8_t *next = (const uint8_t *)"ready\n";
		size_t length = 6;
		struct reply reply;

		require(replies_take(&whole.replies, &next, &length, &reply) == REPLIES_NONSENSE,
			"and never again");
	}
	replies_free(&whole.replies);
	replies_free(&pieces.replies);
	shown_free(&whole.shown);
	shown_free(&pieces.shown);
	return 0;
}
