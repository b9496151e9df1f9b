/* SPDX-License-Identifier: MIT */
/* Kept outputs and files: addresses, parts that do not cut characters, what is not text, and the oldest one that goes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mcp/outputs.h"
#include "util/error.h"

static struct outputs outputs;

static int setup(void **state)
{
	outputs_init(&outputs);
	return 0;
}

static int teardown(void **state)
{
	outputs_free(&outputs);
	return 0;
}

static int file_of(const void *data, size_t length)
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, length), length);
	return fd;
}

/* Keeps `data` as standard output. Returns its address, static. */
static const char *keep(const void *data, size_t length)
{
	static char uri[OUTPUT_URI_MAX];
	int fds[OUTPUT_KINDS] = {file_of(data, length), -1, -1};
	const struct output *output = outputs_add(&outputs, fds, NULL);

	assert_non_null(output);
	assert_int_equal(fds[0], -1);
	assert_int_equal(output->bytes[0], length);
	output_uri(output, 0, uri);
	return uri;
}

/* The one part that is at `uri`: a new reference. */
static json_t *read_part(const char *uri)
{
	struct error err = {0};
	json_t *contents = outputs_read(&outputs, uri, &err), *part;

	if (!contents)
		fail_msg("%s: %s", uri, err.text);
	assert_int_equal(json_array_size(contents), 1);
	part = json_incref(json_array_get(contents, 0));
	json_decref(contents);
	assert_string_equal(json_string_value(json_object_get(part, "uri")), uri);
	return part;
}

static const char *next_of(const json_t *part)
{
	return json_string_value(json_object_get(json_object_get(part, "_meta"), "nsbox/next"));
}

static void test_small(void **state)
{
	json_t *part = read_part(keep("text\n", 5));

	assert_string_equal(json_string_value(json_object_get(part, "text")), "text\n");
	assert_null(next_of(part));
	json_decref(part);
}

/* Characters of three bytes never fit a part evenly: from each start they come back whole. */
static void test_parts(void **state)
{
	enum { COUNT = OUTPUT_PART_BYTES, BYTES = 3 * COUNT };
	char *data = malloc(BYTES + 2), *uri;

	for (size_t shift = 0; shift < 3; shift++) {
		size_t at = 0, length = shift + BYTES;
		json_t *part = NULL;

		free(data);
		data = malloc(length);
		memset(data, 'x', shift);
		for (size_t i = 0; i < COUNT; i++)
			memcpy(data + shift + 3 * i, "\xe2\x82\xac", 3);
		uri = strdup(keep(data, length));
		while (uri) {
			const json_t *text;

			part = read_part(uri);
			free(uri);
			text = json_object_get(part, "text");
			assert_true(json_is_string(text));
			assert_memory_equal(
				data + at, json_string_value(text), json_string_length(text));
			at += json_string_length(text);
			uri = next_of(part) ? strdup(next_of(part)) : NULL;
			json_decref(part);
		}
		assert_int_equal(at, length);
	}
	free(data);
}

static void test_binary(void **state)
{
	json_t *part = read_part(keep("a\0\xff" "b", 4));

	assert_string_equal(json_string_value(json_object_get(part, "blob")), "YQD/Yg==");
	assert_null(json_object_get(part, "text"));
	json_decref(part);
	part = read_part(keep("a\0b", 3)); /* valid UTF-8 */
	assert_int_equal(json_string_length(json_object_get(part, "text")), 3);
	json_decref(part);
	part = read_part(keep("cut \xe2\x82", 6)); /* the output itself ends inside of a character */
	assert_string_equal(json_string_value(json_object_get(part, "blob")), "Y3V0IOKC");
	json_decref(part);
}

/* What one byte takes most of in JSON: a message stays below the 10 MiB that clients accept. */
static void test_escapes(void **state)
{
	char *zeros = calloc(1, 2 * OUTPUT_PART_BYTES), *line;
	json_t *part = read_part(keep(zeros, 2 * OUTPUT_PART_BYTES));

	line = json_dumps(part, JSON_COMPACT);
	assert_true(strlen(line) < 8 << 20);
	free(line);
	free(zeros);
	json_decref(part);
}

static void expect_error(const char *uri, const char *wanted)
{
	struct error err = {0};
	json_t *contents = outputs_read(&outputs, uri, &err);

	if (contents)
		fail_msg("%s was read", uri);
	if (!strstr(err.text, wanted))
		fail_msg("%s: %s", uri, err.text);
}

static void test_addresses(void **state)
{
	const char *uri = keep("abc", 3);
	char changed[OUTPUT_URI_MAX + 64];
	static const struct {
		const char *suffix, *error;
	} wrong[] = {
		{"x", "no such resource"},
		{"/", "no such resource"},
		{"?offset=", "offset: expected a number"},
		{"?offset=-1", "offset: expected a number"},
		{"?offset=1x", "offset: expected a number"},
		{"?offset=99999999999999999999999", "offset: expected a number"},
		{"?offset=4", "3 bytes only"},
		{"?length=4", "expected ?offset=N"},
	};
	json_t *part;

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		snprintf(changed, sizeof changed, "%s%s", uri, wrong[i].suffix);
		expect_error(changed, wrong[i].error);
	}
	snprintf(changed, sizeof changed, "%s?offset=1", uri);
	part = read_part(changed);
	assert_string_equal(json_string_value(json_object_get(part, "text")), "bc");
	json_decref(part);
	snprintf(changed, sizeof changed, "%s?offset=3", uri);
	part = read_part(changed);
	assert_string_equal(json_string_value(json_object_get(part, "text")), "");
	json_decref(part);
	/* The other stream was not kept; half an id; nothing at all; an empty id of a free place. */
	snprintf(changed, sizeof changed, "%.*sstderr", (int)(strlen(uri) - 6), uri);
	expect_error(changed, "no such resource");
	for (size_t length = 0; length < strlen(uri); length++) {
		snprintf(changed, sizeof changed, "%.*s", (int)length, uri);
		expect_error(changed, "no such resource");
	}
	expect_error("nsbox://output//stdout", "no such resource");
	expect_error("nsbox://output/00000000000000000000000000000000/stdout", "no such resource");
}

static void test_oldest_goes(void **state)
{
	char *first = strdup(keep("first", 5)), *second = strdup(keep("second", 6));
	json_t *list, *part;

	for (int i = 2; i < OUTPUTS_MAX; i++)
		keep("x", 1);
	json_decref(read_part(first));
	keep("newest", 6);
	expect_error(first, "the last 64 runs");
	json_decref(read_part(second));
	list = outputs_list(&outputs);
	assert_int_equal(json_array_size(list), OUTPUTS_MAX);
	part = read_part(json_string_value(json_object_get(json_array_get(list, 0), "uri")));
	assert_string_equal(json_string_value(json_object_get(part, "text")), "newest");
	json_decref(part);
	json_decref(list);
	free(first);
	free(second);
}

static void test_none(void **state)
{
	int fds[OUTPUT_KINDS] = {-1, -1, -1};

	assert_null(outputs_add(&outputs, fds, NULL));
}

/* Keeps `data` as what files have, which `files` says as JSON. */
static const struct output *keep_files(const char *data, const char *files)
{
	int fds[OUTPUT_KINDS] = {-1, -1, file_of(data, strlen(data))};
	json_t *list = json_loads(files, 0, NULL);
	const struct output *output = outputs_add(&outputs, fds, list);

	assert_non_null(list);
	assert_non_null(output);
	json_decref(list);
	return output;
}

static void expect_file(const struct output *output, const char *rest, const char *text)
{
	char uri[OUTPUT_URI_MAX + 64];
	json_t *part;

	snprintf(uri, sizeof uri, "nsbox://output/%s/%s", output->id, rest);
	if (!text) {
		expect_error(uri, "no such resource");
		return;
	}
	part = read_part(uri);
	assert_string_equal(json_string_value(json_object_get(part, "text")), text);
	assert_null(next_of(part));
	json_decref(part);
}

static void test_files(void **state)
{
	const struct output *output = keep_files("onethree",
		"[{\"path\": \"a\", \"offset\": 0, \"size\": 3}, {\"path\": \"b/c\", \"offset\": 3, \"size\": 5},"
		" {\"path\": \"none\", \"offset\": 8, \"size\": 0}]");
	char uri[OUTPUT_URI_MAX];
	json_t *list = outputs_list(&outputs), *second = json_array_get(list, 1);

	assert_int_equal(output->files_count, 3);
	expect_file(output, "files/0", "one");
	expect_file(output, "files/1", "three");
	expect_file(output, "files/1?offset=2", "ree");
	expect_file(output, "files/2", "");
	output_file_uri(output, 1, uri);
	assert_int_equal(json_array_size(list), 3);
	assert_string_equal(json_string_value(json_object_get(second, "uri")), uri);
	assert_string_equal(json_string_value(json_object_get(second, "name")), "b/c");
	assert_int_equal(json_integer_value(json_object_get(second, "size")), 5);
	json_decref(list);
	for (size_t i = 0; i < 11; i++) {
		static const char *const wrong[] = {"files/3", "files/", "files", "files/00", "files/01", "files/-1", "files/0x",
			"files/ 0", "files/0/", "files/18446744073709551616", "stdout"};

		expect_file(output, wrong[i], NULL);
	}
	snprintf(uri, sizeof uri, "nsbox://output/%s/files/0?offset=4", output->id);
	expect_error(uri, "3 bytes only");
}

/* Files never lead to what lies behind their end. */
static void test_files_that_do_not_fit(void **state)
{
	static const char *const wrong[] = {
		"[{\"path\": \"a\", \"offset\": 0, \"size\": 9}]",
		"[{\"path\": \"a\", \"offset\": 9, \"size\": 0}]",
		"[{\"path\": \"a\", \"offset\": 4, \"size\": 9223372036854775807}]",
		"[{\"path\": \"a\", \"offset\": -1, \"size\": 1}]",
		"[{\"path\": \"a\", \"offset\": 1, \"size\": -1}]",
		"[{\"path\": 5, \"offset\": 1, \"size\": 1}]",
		"[{\"path\": \"a\", \"offset\": 0, \"size\": 1}, 5]",
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		const struct output *output = keep_files("onethree", wrong[i]);

		assert_int_equal(output->fds[OUTPUT_FILES], -1);
		assert_int_equal(output->files_count, 0);
		expect_file(output, "files/0", NULL);
	}
}

static void test_ids(void **state)
{
	char a[OUTPUT_ID_LENGTH + 1], b[OUTPUT_ID_LENGTH + 1];

	assert_int_equal(random_id(a, OUTPUT_ID_LENGTH), 0);
	assert_int_equal(random_id(b, OUTPUT_ID_LENGTH), 0);
	assert_int_equal(strspn(a, "0123456789abcdef"), OUTPUT_ID_LENGTH);
	assert_string_not_equal(a, b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_small),
		TEST(test_parts),
		TEST(test_binary),
		TEST(test_escapes),
		TEST(test_addresses),
		TEST(test_oldest_goes),
		TEST(test_none), TEST(test_files), TEST(test_files_that_do_not_fit),
		TEST(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
