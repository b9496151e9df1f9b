/* SPDX-License-Identifier: MIT */
/* What a context's driver says, right and wrong, in any pieces; and what becomes of what it has shown. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "session/cells.h"
#include "session/frame.h"
#include "session/replies.h"
#include "util/alloc.h"

/* A line for each reply of `text`, that comes in pieces of `piece` bytes; a cell 7 runs from the beginning. Malloc'd. */
static char *read_in_pieces(const char *text, size_t length, size_t piece)
{
	struct replies replies;
	char *told = NULL;
	size_t told_length;
	FILE *out = open_memstream(&told, &told_length);
	struct reply reply;

	replies_init(&replies);
	replies_begin(&replies, 7);
	for (size_t at = 0; at < length && !replies.fault; at += piece) {
		const uint8_t *next = (const uint8_t *)text + at;
		size_t left = length - at < piece ? length - at : piece;
		enum replies_found found;

		do {
			found = replies_take(&replies, &next, &left, &reply);
			if (found != REPLIES_ONE)
				break;
			fprintf(out, "%d %u %d %s %u.%u.%zu.%zu.%zu.%zu [%.*s]\n", reply.kind,
				reply.value, reply.is_result, reply.mime, (unsigned)reply.status,
				reply.line, (size_t)reply.cut_length, reply.name_length,
				reply.message_length, reply.trace_length, (int)reply.length,
				(const char *)reply.data);
		} while (left > 0);
	}
	if (replies.fault)
		fprintf(out, "%s\n", replies.fault);
	fclose(out);
	replies_free(&replies);
	return told;
}

/* In all ways alike. */
static void assert_told(const char *text, const char *expected)
{
	for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
		char *told = read_in_pieces(text, strlen(text), piece);

		assert_string_equal(told, expected);
		free(told);
	}
}

static void replies_are_taken_apart(void **state)
{
	assert_told("ready\n"
		    "part 7 1 display text/plain 3\nabc"
		    "part 7 1 display image/svg+xml 0\n"
		    "cut 7 2 result text/html 99\n"
		    "error 7 12 3 0 2\nErrtr"
		    "end 7 error\n",
		"0 0 0  0.0.0.0.0.0 []\n"
		"1 1 0 text/plain 0.0.0.0.0.0 [abc]\n"
		"1 1 0 image/svg+xml 0.0.0.0.0.0 []\n"
		"2 2 1 text/html 0.0.99.0.0.0 []\n"
		"3 0 0  0.12.0.3.0.2 [Errtr]\n"
		"4 0 0  1.0.0.0.0.0 []\n");
	assert_told("ready\nend 7 interrupted\n", "0 0 0  0.0.0.0.0.0 []\n4 0 0  2.0.0.0.0.0 []\n");
	/* Bytes are no headers. */
	assert_told("ready\npart 7 1 result text/plain 12\nend 7 ok\nendend 7 ok\n",
		"0 0 0  0.0.0.0.0.0 []\n1 1 1 text/plain 0.0.0.0.0.0 [end 7 ok\nend]\n4 0 0  0.0.0.0.0.0 []\n");
}

static void nonsense_is_said_to_be_some(void **state)
{
	static const struct {
		const char *text, *fault;
	} cases[] = {
		{"hello\n", "it does not begin with «ready»\n"},
		{"ready \n", "it does not begin with «ready»\n"},
		{"ready\r\n", "a header has other characters than those of ASCII that are shown\n"},
		{"ready\n\n", "a header is none\n"},
		{"ready\nready\n", "a header is none\n"},
		{"ready\npart 7 1 result text/plain\n",
			"a header has too many words, or too few\n"},
		{"ready\npart  7 1 result text/plain 0\n", "a header is none\n"},
		{"ready\npart 7 1 result text/plain 0 0\n",
			"a header has too many words, or too few\n"},
		{"ready\npart 7 1 result text/plain 0 0 0\n", "a header is none\n"},
		{"ready\npart 8 1 result text/plain 0\n", "it speaks of code that does not run\n"},
		{"ready\npart 07 1 result text/plain 0\n", "it speaks of code that does not run\n"},
		{"ready\npart 7 0 result text/plain 0\n",
			"its values are not counted up, or too many\n"},
		{"ready\npart 7 2 result text/plain 0\n",
			"its values are not counted up, or too many\n"},
		{"ready\npart 7 x result text/plain 0\n", "the number of a value is none\n"},
		{"ready\npart 7 1 none text/plain 0\n", "a value is neither result nor display\n"},
		{"ready\npart 7 1 result text 0\n", "a MIME type is none\n"},
		{"ready\npart 7 1 result text/pl/ain 0\n", "a MIME type is none\n"},
		{"ready\npart 7 1 result text/ 0\n", "a MIME type is none\n"},
		{"ready\npart 7 1 result text/plain;a=b 0\n", "a MIME type is none\n"},
		{"ready\npart 7 1 result text/plain 33554433\n",
			"it says more than 32 MiB of one cell\n"},
		{"ready\npart 7 1 result text/plain 99999999999999999999999999\n",
			"it says more than 32 MiB of one cell\n"},
		{"ready\npart 7 1 result text/plain -1\n",
			"it says more than 32 MiB of one cell\n"},
		{"ready\ncut 7 1 result text/plain x\n", "a length is none\n"},
		{"ready\nerror 7 x 0 0 0\n", "a line is no number\n"},
		{"ready\nerror 7 1 33554432 33554432 1\n",
			"it says more than 32 MiB of one cell\n"},
		{"ready\nend 7 fine\n", "a status is none\n"},
		{"ready\nend 7\n", "a header has too many words, or too few\n"},
		{"ready\nend 7 ok ok\n", "a header has too many words, or too few\n"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *told = read_in_pieces(cases[i].text, strlen(cases[i].text), 5);
		const char *last = strstr(told, cases[i].fault);

		if (!last || strcmp(last, cases[i].fault) != 0)
			fail_msg("%s gave %s", cases[i].text, told);
		free(told);
	}
}

static void what_does_not_fit_what_was_said_is_nonsense(void **state)
{
	static const char *const cases[][2] = {
		{"part 7 1 result a/b 0\npart 7 1 display a/c 0\n", "a value is of two kinds\n"},
		{"part 7 1 result a/b 0\npart 7 2 result a/b 0\n", "there are two results\n"},
		{"part 7 1 result a/b 0\npart 7 1 result a/b 0\n",
			"a value has a representation twice, or too many\n"},
		{"part 7 1 result a/b 0\npart 7 2 display a/b 0\npart 7 1 result a/c 0\n",
			"its values are not counted up, or too many\n"},
		{"error 7 1 0 0 0\nerror 7 1 0 0 0\n", "there are two errors\n"},
		{"error 7 1 0 0 0\nend 7 ok\n", "code with an error ended well\n"},
		{"end 7 ok\nend 7 ok\n", "it speaks though no code runs\n"},
		{"end 7 ok\nx", "it speaks though no code runs\n"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = xasprintf("ready\n%s", cases[i][0]),
		     *told = read_in_pieces(text, strlen(text), 1000);
		const char *last = strstr(told, cases[i][1]);

		if (!last || strcmp(last, cases[i][1]) != 0)
			fail_msg("%s gave %s", cases[i][0], told);
		free(told);
		free(text);
	}
}

static void a_header_has_a_length(void **state)
{
	char *text = xasprintf("ready\npart 7 1 result text/%0*d 0\n", 600, 1),
	     *told = read_in_pieces(text, strlen(text), 64);

	assert_non_null(strstr(told, "a header is too long\n"));
	free(told);
	free(text);
	/* One of 512 bytes is none too long, and wrong for another reason. */
	text = xasprintf("ready\n%0*d\n", 511, 1);
	told = read_in_pieces(text, strlen(text), 64);
	assert_non_null(strstr(told, "a header is none\n"));
	free(told);
	free(text);
}

/* A driver that says nothing but small things ends, too. */
static void all_of_a_cell_is_counted(void **state)
{
	static const char line[] = "part 7 1 display a/b 0\n";
	struct replies replies;
	struct reply reply;
	size_t said = 0;

	replies_init(&replies);
	replies_begin(&replies, 7);
	for (const uint8_t *next = (const uint8_t *)"ready\n"; next;) {
		size_t left = 6;

		assert_int_equal(replies_take(&replies, &next, &left, &reply), REPLIES_ONE);
		break;
	}
	for (enum replies_found found = REPLIES_ONE;
		found != REPLIES_NONSENSE && said < 2U * REPLIES_CELL_MAX;
		said += sizeof line - 1) {
		const uint8_t *next = (const uint8_t *)line;
		size_t left = sizeof line - 1;

		replies.mimes_count = 0; /* as if there were ever so many */
		found = replies_take(&replies, &next, &left, &reply);
	}
	assert_string_equal(replies.fault, "it says more than 32 MiB of one cell");
	assert_in_range(said, REPLIES_CELL_MAX - 64, REPLIES_CELL_MAX + 64);
	replies_free(&replies);
}

/* --- what was shown --- */

static void show(struct shown *shown, uint32_t value, bool is_result, const char *mime,
	const void *data, size_t length)
{
	struct reply reply = {.kind = REPLY_PART,
		.value = value,
		.is_result = is_result,
		.data = data,
		.length = length};

	strcpy(reply.mime, mime);
	shown_add(shown, &reply, SIZE_MAX);
}

static char *as_text(const struct shown *shown)
{
	json_t *object = json_object();
	char *text;

	shown_to_json(shown, object);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static void values_have_their_representations(void **state)
{
	struct shown shown = {0};
	char *text;

	show(&shown, 1, false, "text/plain", "a\xff", 2);
	show(&shown, 1, false, "application/json", "[1,{\"a\":null}]", 14);
	show(&shown, 2, true, "application/json", "nonsense", 8);
	show(&shown, 2, true, "image/png", "\x89PNG\r\n\x1a\n", 8);
	show(&shown, 2, true, "image/jpeg", "\xff\xd8\xff", 3);
	show(&shown, 3, false, "image/png", "\xff\xd8\xff", 3);
	show(&shown, 3, false, "who/knows", "?", 1);
	text = as_text(&shown);
	assert_string_equal(text,
		"{\"values\":[{\"kind\":\"display\",\"text\":\"a\xef\xbf\xbd\",\"json\":[1,{\"a\":null}]},"
		"{\"kind\":\"result\",\"json_text\":\"nonsense\",\"image\":{\"mime_type\":\"image/png\",\"bytes\":8,"
		"\"data\":\"iVBORw0KGgo=\"},\"omitted\":[{\"mime_type\":\"image/jpeg\",\"bytes\":3}]},"
		"{\"kind\":\"display\",\"omitted\":[{\"mime_type\":\"image/png\",\"bytes\":3},"
		"{\"mime_type\":\"who/knows\",\"bytes\":1}]}],\"error\":null}");
	free(text);
	shown_free(&shown);
}

/* By depth, and not by what the brackets in strings seem to be. */
static void json_has_a_depth(void **state)
{
	static const struct {
		const char *text;
		bool is_json;
	} cases[] = {
		{"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
			true},
		{"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
			false},
		{"\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"",
			true},
		{"[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]",
			true},
		{"99999999999999999999", false},
		{"1e999", false},
		{"", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct shown shown = {0};
		json_t *object = json_object();
		const json_t *value;

		show(&shown, 1, true, "application/json", cases[i].text, strlen(cases[i].text));
		shown_to_json(&shown, object);
		value = json_array_get(json_object_get(object, "values"), 0);
		if (!json_object_get(value, cases[i].is_json ? "json" : "json_text"))
			fail_msg("%s", cases[i].text);
		json_decref(object);
		shown_free(&shown);
	}
}

static void no_more_is_held_than_there_is_room_for(void **state)
{
	struct shown shown = {0};
	struct reply reply = {.kind = REPLY_PART, .mime = "image/png"};
	uint8_t *data = xcalloc(1, 5 << 20);

	memcpy(data, "\x89PNG\r\n\x1a\n", 8);
	show(&shown, 1, false, "image/png", data, 5 << 20);
	assert_int_equal(shown.bytes, 0);
	for (uint32_t value = 2; value < 6; value++)
		show(&shown, value, false, "image/png", data, 4 << 20);
	assert_int_equal(shown.bytes, SHOWN_BYTES_MAX);
	shown_free(&shown);
	reply.value = 1;
	reply.data = data;
	reply.length = 100;
	shown_add(&shown, &reply, 99);
	assert_int_equal(shown.bytes, 0);
	shown_add(&shown, &reply, 100);
	assert_int_equal(shown.bytes, 100);
	shown_free(&shown);
	free(data);
}

/* Whatever it is, the answer that has it can be sent. */
static void what_is_long_in_json_is_bounded(void **state)
{
	const size_t length = 256 << 10;
	static const char bytes[] = {'\1', '"', '\xff', 'a'};
	char *data = xmalloc(length), *text;

	for (size_t i = 0; i < sizeof bytes; i++) {
		struct shown shown = {0};

		memset(data, bytes[i], length);
		for (uint32_t value = 1; value <= REPLIES_VALUES_MAX; value++)
			show(&shown, value, false, "text/html", data, length);
		text = as_text(&shown);
		assert_in_range(strlen(text), SHOWN_BYTES_MAX, SHOWN_TOLD_MAX + (64 << 10));
		assert_true(SHOWN_TOLD_MAX + (16 << 20) < FRAME_MAX);
		free(text);
		shown_free(&shown);
	}
	free(data);
}

static void errors_are_bounded(void **state)
{
	char *data = xcalloc(1, 200 << 10);
	struct reply reply = {.kind = REPLY_ERROR,
		.line = 3,
		.data = (uint8_t *)data,
		.name_length = 4,
		.message_length = 2,
		.trace_length = 150 << 10};
	struct shown shown = {0};
	json_t *object = json_object(), *error;

	memset(data, 't', 200 << 10);
	memcpy(data, "Name\xc3\xa4", 6);
	memcpy(data + 6, "first", 5);
	shown_add(&shown, &reply, 0);
	shown_to_json(&shown, object);
	error = json_object_get(object, "error");
	assert_string_equal(json_string_value(json_object_get(error, "name")), "Name");
	assert_string_equal(json_string_value(json_object_get(error, "message")), "ä");
	assert_int_equal(json_integer_value(json_object_get(error, "line")), 3);
	assert_in_range(json_string_length(json_object_get(error, "traceback")), 64 << 10,
		(64 << 10) + 100);
	assert_memory_equal(json_string_value(json_object_get(error, "traceback")), "first", 5);
	assert_non_null(strstr(json_string_value(json_object_get(error, "traceback")),
		"[… 88064 bytes left out …]"));
	json_decref(object);
	shown_free(&shown);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_taken_apart),
		cmocka_unit_test(nonsense_is_said_to_be_some),
		cmocka_unit_test(what_does_not_fit_what_was_said_is_nonsense),
		cmocka_unit_test(a_header_has_a_length),
		cmocka_unit_test(all_of_a_cell_is_counted),
		cmocka_unit_test(values_have_their_representations),
		cmocka_unit_test(json_has_a_depth),
		cmocka_unit_test(no_more_is_held_than_there_is_room_for),
		cmocka_unit_test(what_is_long_in_json_is_bounded),
		cmocka_unit_test(errors_are_bounded),
	};

	return cmocka_run_group_tests_name("replies", tests, NULL, NULL);
}
