/* SPDX-License-Identifier: MIT */
/*
 * Head and tail of a stream: see capture.h.
 *
 * The buffer holds the stream's first `limit` bytes in their order. What comes after them overwrites
 * the second half as a ring, oldest first. So nothing has to be moved until the stream is over, and
 * then the ring is rotated in place: no second buffer is needed, and memory stays within the limit.
 */
#define _GNU_SOURCE
#include "sandbox/capture.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 4096 };

static size_t head_size(const struct capture *capture)
{
	return capture->limit - capture->limit / 2;
}

void capture_init(struct capture *capture, size_t limit)
{
	memset(capture, 0, sizeof *capture);
	capture->limit = limit;
}

/* Makes room for `wanted` bytes, of which there are never more than the limit. */
static int reserve(struct capture *capture, size_t wanted)
{
	size_t size = capture->size ? capture->size : FIRST_SIZE;
	uint8_t *grown;

	if (wanted <= capture->size)
		return 0;
	while (size < wanted && size <= capture->limit / 2)
		size *= 2;
	if (size < wanted || size > capture->limit)
		size = capture->limit;
	grown = realloc(capture->data, size);
	if (!grown)
		return -1;
	capture->data = grown;
	capture->size = size;
	return 0;
}

/* Overwrites the oldest bytes of the tail. */
static void ring_add(struct capture *capture, const uint8_t *data, size_t length)
{
	size_t head = head_size(capture), ring = capture->limit - head;

	if (ring == 0)
		return;
	if (length > ring) {
		/* Only the last `ring` bytes will be left, but the position moves on by all. */
		capture->oldest = (capture->oldest + (length - ring) % ring) % ring;
		data += length - ring;
		length = ring;
	}
	while (length > 0) {
		size_t part = ring - capture->oldest;

		if (part > length)
			part = length;
		memcpy(capture->data + head + capture->oldest, data, part);
		capture->oldest = (capture->oldest + part) % ring;
		data += part;
		length -= part;
	}
}

/* How many bytes the character that begins with `lead` takes; 0 when none begins so. */
static size_t utf8_length(uint8_t lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	return 0;
}

static bool is_continuation(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

/* How many bytes at the end are the beginning of a character that is cut: 0 to 3. */
static size_t cut_at_end(const uint8_t *data, size_t length)
{
	for (size_t back = 1; back <= 3 && back <= length; back++) {
		uint8_t byte = data[length - back];

		if (is_continuation(byte))
			continue;
		return utf8_length(byte) > back ? back : 0;
	}
	return 0;
}

/* How many bytes at the beginning are the end of a character that is cut: 0 to 3. */
static size_t cut_at_start(const uint8_t *data, size_t length)
{
	size_t count = 0;

	while (count < length && count < 4 && is_continuation(data[count]))
		count++;
	return count < 4 ? count : 0;
}

static void append_to_line(struct capture *capture, const uint8_t *data, size_t length)
{
	size_t room = sizeof capture->line - capture->line_length;

	if (length > room)
		length = room;
	if (length)
		memcpy(capture->line + capture->line_length, data, length);
	capture->line_length += length;
}

static void finish_line(struct capture *capture)
{
	if (capture->line_length == 0)
		return;
	if (capture->line_length == sizeof capture->line)
		capture->line_length -= cut_at_end(capture->line, capture->line_length);
	memcpy(capture->last_line, capture->line, capture->line_length);
	capture->last_line_length = capture->line_length;
	capture->line_length = 0;
}

/* A carriage return ends a line too: progress bars are lines to their reader. */
static bool is_line_end(uint8_t byte)
{
	return byte == '\n' || byte == '\r';
}

/* The number of bytes up to the last line end and with it; 0 when there is none. */
static size_t through_last_line_end(const uint8_t *data, size_t length)
{
	const uint8_t *newline = memrchr(data, '\n', length);
	size_t through = newline ? (size_t)(newline - data) + 1 : 0;
	const uint8_t *carriage_return = memrchr(data + through, '\r', length - through);

	return carriage_return ? (size_t)(carriage_return - data) + 1 : through;
}

/*
 * Only the last finished line and the unfinished rest matter, so the data are read from their end
 * and, for ordinary text, no further than two lines back.
 */
static void track_lines(struct capture *capture, const uint8_t *data, size_t length)
{
	size_t rest = through_last_line_end(data, length), end = rest, start;

	while (end > 0 && is_line_end(data[end - 1]))
		end--;
	start = through_last_line_end(data, end);
	if (rest > 0) {
		if (start > 0)
			capture->line_length =
				0; /* the line that was being written ended before this one */
		append_to_line(capture, data + start, end - start);
		finish_line(capture);
	}
	append_to_line(capture, data + rest, length - rest);
}

int capture_add(struct capture *capture, const void *data, size_t length)
{
	const uint8_t *bytes = data;
	size_t room = capture->limit - capture->kept;
	size_t part = length < room ? length : room;

	if (reserve(capture, capture->kept + part) < 0)
		return -1;
	if (part)
		memcpy(capture->data + capture->kept, bytes, part);
	capture->kept += part;
	ring_add(capture, bytes + part, length - part);
	capture->total += length;
	if (length)
		track_lines(capture, bytes, length);
	return 0;
}

static void reverse(uint8_t *data, size_t length)
{
	for (size_t i = 0; i < length / 2; i++) {
		uint8_t byte = data[i];

		data[i] = data[length - 1 - i];
		data[length - 1 - i] = byte;
	}
}

/* Moves the first `by` bytes behind the others. */
static void rotate(uint8_t *data, size_t length, size_t by)
{
	reverse(data, by);
	reverse(data + by, length - by);
	reverse(data, length);
}

void capture_finish(struct capture *capture, struct captured *ret)
{
	size_t head = head_size(capture), cut;
	size_t ring = capture->limit - head;

	*ret = (struct captured){.data = capture->data, .total = capture->total};
	if (capture->total <= capture->limit) {
		ret->head_length = capture->kept;
	} else if (capture->data) {
		rotate(capture->data + head, ring, capture->oldest);
		cut = cut_at_start(capture->data + head, ring);
		ret->head_length = head - cut_at_end(capture->data, head);
		ret->tail_length = ring - cut;
		memmove(capture->data + ret->head_length, capture->data + head + cut,
			ret->tail_length);
	}
	capture->data = NULL;
	capture_init(capture, capture->limit);
}

void capture_free(struct capture *capture)
{
	free(capture->data);
	capture_init(capture, capture->limit);
}
