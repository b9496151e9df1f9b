/* SPDX-License-Identifier: MIT */
/* UTF-8: see utf8.h. */
#define _GNU_SOURCE
#include "util/utf8.h"

#include <string.h>

#include "util/alloc.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

/* What may follow a first byte: how many bytes, and the range of the second (table 3-7 of Unicode). */
struct lead {
	uint8_t first, last; /* of the lead byte */
	uint8_t length;      /* of the character */
	uint8_t second_min, second_max;
};

static const struct lead leads[] = {
	{0x00, 0x7f, 1, 0, 0}, {0xc2, 0xdf, 2, 0x80, 0xbf},
	{0xe0, 0xe0, 3, 0xa0, 0xbf},                              /* below: overlong */
	{0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, /* above: surrogates */
	{0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf}, /* below: overlong */
	{0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f}, /* above: over U+10FFFF */
};

static const struct lead *find_lead(uint8_t byte)
{
	for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
		if (byte >= leads[i].first && byte <= leads[i].last)
			return &leads[i];
	return NULL;
}

static bool is_continuation(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t utf8_next(const void *data, size_t length, size_t *ret_bad)
{
	const uint8_t *bytes = data;
	const struct lead *lead = find_lead(bytes[0]);
	size_t good = 1;

	while (lead && good < lead->length && good < length) {
		bool fits = good == 1 ? bytes[1] >= lead->second_min && bytes[1] <= lead->second_max
				      : is_continuation(bytes[good]);
		if (!fits)
			break;
		good++;
	}
	if (lead && good == lead->length)
		return good;
	if (ret_bad)
		*ret_bad = good;
	return 0;
}

/* How many of the first bytes are ASCII: most output is, and the table is slow. */
static size_t ascii_run(const uint8_t *bytes, size_t length)
{
	size_t run = 0;

	while (run < length && bytes[run] < 0x80)
		run++;
	return run;
}

bool utf8_valid(const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (size_t at = ascii_run(bytes, length); at < length;
		at += ascii_run(bytes + at, length - at)) {
		size_t size = utf8_next(bytes + at, length - at, NULL);

		if (!size)
			return false;
		at += size;
	}
	return true;
}

/* Writes to `out` (NULL: only counts). Returns the number of bytes. */
static size_t replace_invalid(const uint8_t *bytes, size_t length, char *out)
{
	size_t written = 0;

	for (size_t at = 0, bad = 0; at < length;) {
		size_t size = ascii_run(bytes + at, length - at);
		const void *from = bytes + at;

		if (!size)
			size = utf8_next(bytes + at, length - at, &bad);
		at += size ? size : bad;
		if (!size) {
			from = REPLACEMENT;
			size = sizeof REPLACEMENT - 1;
		}
		if (out)
			memcpy(out + written, from, size);
		written += size;
	}
	return written;
}

char *utf8_replace_invalid(const void *data, size_t length, size_t *ret_length)
{
	size_t needed = replace_invalid(data, length, NULL);
	char *copy = xcalloc(needed + 1, 1);

	*ret_length = replace_invalid(data, length, copy);
	return copy;
}

/* The character that lies across `position`: its beginning and length, or 0 when there is none. */
static size_t across(const uint8_t *bytes, size_t length, size_t position, size_t *ret_start)
{
	for (size_t back = 1; back <= 3 && back <= position; back++) {
		size_t start = position - back;
		size_t size = utf8_next(bytes + start, length - start, NULL);

		if (size > back) {
			*ret_start = start;
			return size;
		}
		if (!is_continuation(bytes[start]))
			break;
	}
	return 0;
}

size_t utf8_boundary_before(const void *data, size_t length, size_t position)
{
	size_t start;

	return position < length && across(data, length, position, &start) ? start : position;
}

size_t utf8_boundary_after(const void *data, size_t length, size_t position)
{
	size_t start, size;

	if (position >= length)
		return position;
	size = across(data, length, position, &start);
	return size ? start + size : position;
}

size_t utf8_whole(const void *data, size_t length)
{
	for (size_t back = 1; back <= 3 && back < length; back++) {
		unsigned char byte = ((const unsigned char *)data)[length - back];
		size_t need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;

		if (byte < 0x80 || byte >= 0xc0)
			return need > back ? length - back : length;
	}
	return length;
}
