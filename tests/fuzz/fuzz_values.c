/* SPDX-License-Identifier: MIT */
/*
 * Values that a person or a model writes: sizes, durations, counts, ids, assignments and mounts. The first
 * byte says which. Beyond what sanitizers find: a result is in its range, an error is one line of text,
 * and what was refused leaves the result alone.
 */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"
#include "util/error.h"
#include "util/parse.h"
#include "util/utf8.h"

enum { UNTOUCHED = 0xa5 };

static void check_error(const struct error *err)
{
	size_t length = strlen(err->text);

	require(length > 0 && length < sizeof err->text, "there is a reason");
	require(!memchr(err->text, '\n', length), "the reason is one line");
}

static void check_number(int (*parse)(const char *, const char *, uint64_t *, struct error *), const char *text,
	uint64_t max)
{
	struct error err = {0};
	uint64_t value = UNTOUCHED;

	if (parse("--value", text, &value, &err) == 0) {
		require(value <= max, "it is in range");
		return;
	}
	require(value == UNTOUCHED, "an error leaves the result alone");
	check_error(&err);
}

static void check_counts(const char *text)
{
	struct error err = {0};
	uint32_t value = 0, gid = 0;
	uint64_t size = 0;

	if (parse_count("--count", text, 3, 70000, &value, &err) == 0)
		require(value >= 3 && value <= 70000, "a count is in its range");
	else
		check_error(&err);
	if (parse_ids("--user", text, 65535, &value, &gid, &err) == 0)
		require(value <= 65535 && gid <= 65535, "ids are in their range");
	if (parse_cpus("--cpus", text, &value, &err) == 0)
		require(value == 0 || value >= 10, "there are no fewer CPUs than a hundredth");
	if (parse_size_between("--size", text, 100, 1 << 20, &size, &err) == 0)
		require(size >= 100 && size <= 1 << 20, "a size is in its range");
}

static void check_assignment(const char *text)
{
	struct error err = {0};
	const char *value = NULL;
	char *name = NULL;

	if (parse_assignment("--env", text, &name, &value, &err) < 0) {
		check_error(&err);
		return;
	}
	require(*name && !strchr(name, '='), "a name is not empty and has no = in it");
	require(!value || (value > text && value[-1] == '=' && strlen(name) + 1 + strlen(value) == strlen(text)),
		"a value is what follows the =");
	free(name);
}

static void check_mounts(const char *text)
{
	struct error err = {0};
	char *source = NULL, *target = NULL;
	bool read_only = false;
	uint64_t size = 0;

	if (parse_bind("--bind", text, &source, &target, &read_only, &err) == 0)
		require(*source && target[0] == '/', "a target is absolute, a source is not empty");
	else
		check_error(&err);
	free(source);
	free(target);
	target = NULL;
	if (parse_tmpfs("--tmpfs", text, &target, &size, &err) == 0)
		require(target[0] == '/', "a tmpfs is at an absolute path");
	free(target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, buffer[QUOTED_MAX];

	if (size < 1)
		return 0;
	text = to_string(data + 1, size - 1);
	switch (data[0] % 6) {
	case 0:
		check_number(parse_size, text, INT64_MAX);
		check_number(parse_size_or_none, text, INT64_MAX);
		break;
	case 1:
		check_number(parse_duration_ms, text, 366ull * 24 * 3600 * 1000);
		break;
	case 2:
		check_counts(text);
		break;
	case 3:
		check_assignment(text);
		break;
	case 4:
		check_mounts(text);
		break;
	case 5:
		require(quoted(text, buffer) == buffer && memchr(buffer, '\0', sizeof buffer), "quoted text ends");
		require(!utf8_valid(text, strlen(text)) || utf8_valid(buffer, strlen(buffer)), "UTF-8 stays so");
		break;
	}
	free(text);
	return 0;
}
