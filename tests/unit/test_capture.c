/* SPDX-License-Identifier: MIT */
/* capture.h: exact cases, and random streams compared with a model that keeps everything. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sandbox/capture.h"

/* Feeds `text` in pieces of `step` bytes. */
static void feed(struct capture *capture, const void *text, size_t length, size_t step)
{
	for (size_t at = 0; at < length; at += step)
		assert_int_equal(capture_add(capture, (const char *)text + at, length - at < step ? length - at : step), 0);
}

/* What is kept of `text` under `limit` must be `head` and `tail`. */
static void expect_kept(size_t limit, const char *text, const char *head, const char *tail)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		struct capture capture;
		struct captured kept;

		capture_init(&capture, limit);
		feed(&capture, text, strlen(text), step);
		capture_finish(&capture, &kept);
		assert_int_equal(kept.head_length, strlen(head));
		assert_int_equal(kept.tail_length, strlen(tail));
		assert_int_equal(kept.total, strlen(text));
		if (strlen(head) + strlen(tail) > 0) {
			assert_memory_equal(kept.data, head, strlen(head));
			assert_memory_equal(kept.data + strlen(head), tail, strlen(tail));
		}
		free(kept.data);
	}
}

static void everything_is_kept_up_to_the_limit(void **state)
{
	expect_kept(10, "", "", "");
	expect_kept(10, "a", "a", "");
	expect_kept(10, "0123456789", "0123456789", "");
	expect_kept(1000, "0123456789", "0123456789", "");
}

static void head_and_tail_are_kept_above_the_limit(void **state)
{
	expect_kept(10, "0123456789a", "01234", "6789a");
	expect_kept(10, "0123456789abcdefghijklm", "01234", "ijklm");
	expect_kept(5, "0123456789", "012", "89");
	expect_kept(1, "0123456789", "0", "");
	expect_kept(0, "0123456789", "", "");
}

static void characters_are_not_cut(void **state)
{
	/* é is 2 bytes, € 3, 😀 4. */
	expect_kept(8, "abcé12345678", "abc", "5678");
	expect_kept(8, "ab€12345678", "ab", "5678");
	expect_kept(8, "a😀12345678", "a", "5678");
	expect_kept(8, "😀12345678", "😀", "5678");
	expect_kept(8, "12345678é678", "1234", "678");
	expect_kept(8, "12345678€78", "1234", "78");
	expect_kept(8, "12345678😀8", "1234", "8");
	expect_kept(8, "1234xxxx😀", "1234", "😀");
	expect_kept(8, "€€€€€€€€", "€", "€");
}

static void characters_at_the_limit_are_not_touched_when_nothing_is_left_out(void **state)
{
	expect_kept(8, "abc\xc3", "abc\xc3", "");
	expect_kept(8, "\x82\xac" "123456", "\x82\xac" "123456", "");
}

static void bytes_that_are_no_character_stay(void **state)
{
	expect_kept(8, "abc\x80xxxxx1234", "abc\x80", "1234");
	expect_kept(8, "abc\xffxxxxx1234", "abc\xff", "1234");
	expect_kept(8, "abcdxxxxx\x80\x80\x80\x80", "abcd", "\x80\x80\x80\x80");
}

static const char *last_line(const char *text, size_t step)
{
	static char line[CAPTURE_LINE_MAX + 1];
	struct capture capture;

	capture_init(&capture, 16);
	feed(&capture, text, strlen(text), step);
	memcpy(line, capture.last_line, capture.last_line_length);
	line[capture.last_line_length] = '\0';
	capture_free(&capture);
	return line;
}

static void the_last_line_is_the_last_finished_one_that_is_not_empty(void **state)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{ "", "" },
		{ "unfinished", "" },
		{ "\n\n", "" },
		{ "one\n", "one" },
		{ "one\ntwo", "one" },
		{ "one\ntwo\n", "two" },
		{ "one\ntwo\n\n\r\n", "two" },
		{ "one\r\ntwo\r\nthr", "two" },
		{ " 10 %\r 20 %\r 30", " 20 %" },
		{ "\n\none\n\n\nunfinished", "one" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t step = 1; step <= strlen(cases[i].text) + 1; step++)
			assert_string_equal(last_line(cases[i].text, step), cases[i].line);
}

static void a_long_last_line_is_cut_at_a_character(void **state)
{
	char text[1200], expected[CAPTURE_LINE_MAX + 1];

	memset(text, 'x', sizeof text);
	memcpy(text + CAPTURE_LINE_MAX - 1, "é", 2); /* half of it would fit */
	text[sizeof text - 2] = '\n';
	text[sizeof text - 1] = '\0';
	memset(expected, 'x', sizeof expected);
	expected[CAPTURE_LINE_MAX - 1] = '\0';
	assert_string_equal(last_line(text, 1), expected);
	assert_string_equal(last_line(text, 7), expected);
	assert_string_equal(last_line(text, sizeof text), expected);
}

static void memory_follows_the_stream_and_stays_within_the_limit(void **state)
{
	static uint8_t block[64 * 1024];
	struct capture capture;
	struct captured kept;
	size_t limit = 1000 * 1000;

	capture_init(&capture, limit);
	capture_add(&capture, "x", 1);
	assert_true(capture.size <= 4096);
	for (uint64_t total = 1; total < 5ULL << 30; total += sizeof block) {
		capture_add(&capture, block, sizeof block);
		assert_true(capture.size <= limit);
		assert_true(capture.size <= 2 * capture.total + 4096);
	}
	capture_finish(&capture, &kept);
	assert_int_equal(kept.total, 1 + (5ULL << 30));
	assert_int_equal(kept.head_length + kept.tail_length, limit);
	assert_int_equal(capture.size, 0);
	free(kept.data);
}

/* The model: the whole stream, and the rule of the header applied to it. */
static size_t model_end_cut(const uint8_t *data, size_t length)
{
	for (size_t back = 1; back <= 3 && back <= length; back++) {
		uint8_t byte = data[length - back];
		size_t wanted = byte >= 0xf5 ? 0 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;

		if (byte < 0x80 || byte > 0xbf)
			return wanted > back ? back : 0;
	}
	return 0;
}

static size_t model_start_cut(const uint8_t *data, size_t length)
{
	size_t count = 0;

	while (count < length && data[count] >= 0x80 && data[count] <= 0xbf)
		count++;
	return count > 3 ? 0 : count;
}

static void compare_with_model(const uint8_t *stream, size_t total, size_t limit, const struct captured *kept)
{
	size_t head = total, tail = 0;

	if (total > limit) {
		head = limit - limit / 2;
		tail = limit / 2;
		head -= model_end_cut(stream, head);
		tail -= model_start_cut(stream + total - tail, tail);
	}
	assert_int_equal(kept->total, total);
	assert_int_equal(kept->head_length, head);
	assert_int_equal(kept->tail_length, tail);
	if (head)
		assert_memory_equal(kept->data, stream, head);
	if (tail)
		assert_memory_equal(kept->data + head, stream + total - tail, tail);
}

static void random_streams_are_kept_as_the_model_keeps_them(void **state)
{
	static const char *const pieces[] = { "a", "\n", "é", "€", "😀", "\x80", "\xf0\x9f", "\xff", "word ", "\r\n" };
	static uint8_t stream[40000];
	unsigned seed = 20261129;

	for (int round = 0; round < 3000; round++) {
		size_t limit = (size_t)rand_r(&seed) % (round % 2 ? 64 : 20000), total = 0, at = 0;
		size_t wanted = (size_t)rand_r(&seed) % (round % 2 ? 300 : sizeof stream - 8);
		struct capture capture;
		struct captured kept;

		while (total < wanted) {
			const char *piece = pieces[(size_t)rand_r(&seed) % (sizeof pieces / sizeof *pieces)];

			memcpy(stream + total, piece, strlen(piece));
			total += strlen(piece);
		}
		capture_init(&capture, limit);
		while (at < total) {
			size_t step = (size_t)rand_r(&seed) % (round % 3 ? 50 : 9000);

			if (step > total - at)
				step = total - at;
			assert_int_equal(capture_add(&capture, stream + at, step), 0);
			at += step;
		}
		capture_finish(&capture, &kept);
		compare_with_model(stream, total, limit, &kept);
		free(kept.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_kept_up_to_the_limit),
		cmocka_unit_test(head_and_tail_are_kept_above_the_limit),
		cmocka_unit_test(characters_are_not_cut),
		cmocka_unit_test(characters_at_the_limit_are_not_touched_when_nothing_is_left_out),
		cmocka_unit_test(bytes_that_are_no_character_stay),
		cmocka_unit_test(the_last_line_is_the_last_finished_one_that_is_not_empty),
		cmocka_unit_test(a_long_last_line_is_cut_at_a_character),
		cmocka_unit_test(memory_follows_the_stream_and_stays_within_the_limit),
		cmocka_unit_test(random_streams_are_kept_as_the_model_keeps_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
