/* SPDX-License-Identifier: MIT */
/*
 * What is done to bytes that a command writes, and to source that is run: UTF-8, base64, head and tail of
 * a stream, images by their first bytes, names of types in Java.
 *
 * The first byte is the size that is kept of a stream, the second the size of the pieces that it comes in.
 */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"
#include "language/typenames.h"
#include "sandbox/capture.h"
#include "sandbox/collect.h"
#include "util/base64.h"
#include "util/utf8.h"

static void check_utf8(const uint8_t *data, size_t size)
{
	size_t length = 0, bad = 0, at = 0;
	char *clean = utf8_replace_invalid(data, size, &length);

	require(utf8_valid(clean, length) && clean[length] == '\0', "what was made valid is");
	require(!utf8_valid(data, size) || (length == size && (!size || memcmp(clean, data, size) == 0)),
		"what is valid stays as it is");
	free(clean);
	while (at < size) {
		size_t next = utf8_next(data + at, size - at, &bad);

		require(next <= 4 && (next || bad), "there is a way on");
		at += next ?: bad;
	}
	require(at == size, "characters end where the text does");
	for (size_t i = 0; i <= size; i += 1 + size / 16) {
		size_t before = utf8_boundary_before(data, size, i), after = utf8_boundary_after(data, size, i);

		require(before <= i && i - before < 4 && after >= i && after - i < 4 && after <= size,
			"a boundary is near");
	}
}

static void check_base64(const uint8_t *data, size_t size)
{
	void *decoded = NULL;
	size_t length = 0;
	char *encoded = base64_encode(data, size);

	require(base64_decode(encoded, strlen(encoded), &decoded, &length) == 0, "what was encoded can be decoded");
	require(length == size && (!size || memcmp(decoded, data, size) == 0), "to what it was");
	free(encoded);
	free(decoded);
	if (base64_decode((const char *)data, size, &decoded, &length) < 0)
		return;
	encoded = base64_encode(decoded, length);
	require(strlen(encoded) == size && memcmp(encoded, data, size) == 0, "bytes have one encoding");
	free(encoded);
	free(decoded);
}

static void check_capture(const uint8_t *data, size_t size, size_t limit, size_t piece)
{
	struct capture capture;
	struct captured kept = {0};
	size_t left_out;

	capture_init(&capture, limit);
	for (size_t at = 0; at < size; at += piece)
		require(capture_add(&capture, data + at, size - at < piece ? size - at : piece) == 0, "there is memory");
	require(capture.last_line_length <= CAPTURE_LINE_MAX, "a line is cut");
	capture_finish(&capture, &kept);
	capture_free(&capture);
	left_out = size - kept.head_length - kept.tail_length;
	require(kept.total == size && kept.head_length + kept.tail_length <= limit, "no more is kept than asked");
	require(size > limit || left_out == 0, "what fits is kept whole");
	require(left_out == 0 || kept.head_length + kept.tail_length + 6 >= limit, "no more is left out than must be");
	require(memcmp(kept.data ?: data, data, kept.head_length) == 0, "the head is the beginning");
	require(!kept.tail_length ||
			memcmp(kept.data + kept.head_length, data + size - kept.tail_length, kept.tail_length) == 0,
		"the tail is the end");
	free(kept.data);
}

static void check_typenames(const uint8_t *data, size_t size)
{
	char *text = to_string(data, size);
	struct typenames names = {0};

	typenames_read(text, size, &names);
	require(!names.public_type || *names.public_type, "a name is not empty");
	require(!names.main_type || *names.main_type, "a name is not empty");
	typenames_free(&names);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact;

	if (size < 2)
		return 0;
	exact = (uint8_t *)to_string(data + 2, size - 2);
	check_utf8(exact, size - 2);
	check_base64(exact, size - 2);
	check_capture(exact, size - 2, data[0], 1 + data[1]);
	check_typenames(exact, size - 2);
	image_type(exact, size - 2);
	free(exact);
	return 0;
}
