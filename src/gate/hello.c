/* SPDX-License-Identifier: MIT */
/* ClientHello: see hello.h. */
#define _GNU_SOURCE
#include "gate/hello.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16384, /* bytes of a record's content */
	CLIENT_HELLO = 1,
	SERVER_NAME = 0, /* the extension, and in it the kind of name */
	RANDOM_SIZE = 32,
	SESSION_ID_MAX = 32,
};

/* The content of handshake records, one after the other. */
struct reader {
	const uint8_t *data;
	size_t length, at;
	size_t record;             /* bytes that are left of the one at `at` */
	enum hello_result stopped; /* HELLO_NAME: not yet */
};

static uint8_t raw(struct reader *reader)
{
	if (reader->stopped == HELLO_NAME && reader->at == reader->length)
		reader->stopped = HELLO_MORE;
	return reader->stopped == HELLO_NAME ? reader->data[reader->at++] : 0;
}

static void begin_record(struct reader *reader)
{
	uint8_t type = raw(reader), major = raw(reader);
	size_t length;

	raw(reader);
	length = (size_t)raw(reader) << 8;
	length |= raw(reader);
	/* What is there already may show that it is none. */
	if ((reader->at > 0 && type != RECORD_HANDSHAKE && reader->stopped == HELLO_NAME) ||
		(reader->stopped == HELLO_NAME &&
			(major != 3 || length == 0 || length > RECORD_MAX)))
		reader->stopped = HELLO_INVALID;
	reader->record = length;
}

static uint8_t next(struct reader *reader)
{
	uint8_t byte;

	if (reader->stopped == HELLO_NAME && reader->record == 0)
		begin_record(reader);
	byte = raw(reader);
	if (reader->stopped == HELLO_NAME)
		reader->record--;
	return reader->stopped == HELLO_NAME ? byte : 0;
}

static size_t number(struct reader *reader, unsigned bytes)
{
	size_t value = 0;

	for (; bytes > 0; bytes--)
		value = value << 8 | next(reader);
	return value;
}

/* Takes `count` bytes off `left`, which has to have them. */
static bool take(struct reader *reader, size_t *left, size_t count)
{
	if (reader->stopped == HELLO_NAME && *left < count)
		reader->stopped = HELLO_INVALID;
	*left -= reader->stopped == HELLO_NAME ? count : 0;
	return reader->stopped == HELLO_NAME;
}

static void skip(struct reader *reader, size_t *left, size_t count)
{
	if (!take(reader, left, count))
		return;
	for (; count > 0 && reader->stopped == HELLO_NAME; count--)
		next(reader);
}

/* A vector whose length has so many bytes, and is so long at most. */
static void skip_vector(struct reader *reader, size_t *left, unsigned bytes, size_t max)
{
	size_t length = take(reader, left, bytes) ? number(reader, bytes) : 0;

	if (reader->stopped == HELLO_NAME && length > max)
		reader->stopped = HELLO_INVALID;
	skip(reader, left, length);
}

/* One name, of the one kind that there is. */
static bool read_server_name(struct reader *reader, size_t left, char ret[POLICY_NAME_MAX + 1])
{
	char name[POLICY_NAME_MAX + 2];
	size_t list = take(reader, &left, 2) ? number(reader, 2) : 0, length;

	if (!take(reader, &left, 3) || list != left + 3 || next(reader) != SERVER_NAME)
		return false;
	length = number(reader, 2);
	if (reader->stopped != HELLO_NAME)
		return true;
	if (length != left || length == 0 || length >= sizeof name)
		return false;
	for (size_t i = 0; i < length; i++)
		name[i] = (char)next(reader);
	/* RFC 6066: no dot at the end. */
	return reader->stopped != HELLO_NAME ||
	       (name[length - 1] != '.' && policy_normalize(name, length, ret));
}

static bool read_extensions(struct reader *reader, size_t left, char ret[POLICY_NAME_MAX + 1])
{
	bool found = false;

	while (left > 0 && reader->stopped == HELLO_NAME) {
		size_t type = take(reader, &left, 4) ? number(reader, 2) : 0,
		       length = number(reader, 2);

		if (type != SERVER_NAME) {
			skip(reader, &left, length);
			continue;
		}
		if (!take(reader, &left, length))
			break;
		if (found || !read_server_name(reader, length, ret))
			reader->stopped =
				reader->stopped == HELLO_NAME ? HELLO_INVALID : reader->stopped;
		found = true;
	}
	return found;
}

enum hello_result hello_read(const void *data, size_t length, char ret[POLICY_NAME_MAX + 1])
{
	struct reader reader = {.data = data, .length = length, .stopped = HELLO_NAME};
	size_t left, extensions;
	bool found;

	ret[0] = '\0';
	if (length > HELLO_MAX)
		return HELLO_INVALID;
	/* Its first byte tells plain text of other protocols at once. */
	if (length > 0 && reader.data[0] != RECORD_HANDSHAKE)
		return HELLO_INVALID;
	if (next(&reader) != CLIENT_HELLO && reader.stopped == HELLO_NAME)
		return HELLO_INVALID;
	left = number(&reader, 3);
	if (reader.stopped == HELLO_NAME && left > HELLO_MAX)
		return HELLO_INVALID;
	skip(&reader, &left, 2 + RANDOM_SIZE);
	skip_vector(&reader, &left, 1, SESSION_ID_MAX);
	skip_vector(&reader, &left, 2, UINT16_MAX);
	skip_vector(&reader, &left, 1, UINT8_MAX);
	if (reader.stopped != HELLO_NAME)
		return reader.stopped;
	if (left == 0)
		return HELLO_NO_NAME; /* of before there were extensions */
	extensions = take(&reader, &left, 2) ? number(&reader, 2) : 0;
	if (reader.stopped == HELLO_NAME && extensions != left)
		return HELLO_INVALID;
	found = read_extensions(&reader, extensions, ret);
	return reader.stopped != HELLO_NAME ? reader.stopped : found ? HELLO_NAME : HELLO_NO_NAME;
}
