/* SPDX-License-Identifier: MIT */
/* Text → values: what is taken, what is refused, and that a refusal says what, where and how. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/parse.h"

static const uint64_t KIB = 1024, MIB = 1024 * 1024, GIB = 1024 * 1024 * 1024;

static void sizes_are_taken(void **state)
{
	const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"4096", 4096},
		{"1b", 1},
		{"100k", 100 * KIB},
		{"100K", 100 * KIB},
		{"512m", 512 * MIB},
		{"512mb", 512 * MIB},
		{"512MiB", 512 * MIB},
		{"512Mi", 512 * MIB},
		{"1g", GIB},
		{"1.5GiB", GIB + GIB / 2},
		{".5k", 512},
		{"2t", 2048 * GIB},
		{"9223372036854775807", INT64_MAX},
		{"0.0001k", 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		uint64_t bytes = 1;

		assert_int_equal(parse_size("--memory", cases[i].text, &bytes, &err), 0);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void sizes_are_refused(void **state)
{
	const char *const cases[] = {"", " 1", "1 ", "1 g", "-1", "+1", "-5m", "m", "1x", "1kk",
		"1.m", ".", "1.5", "1.5b", "0x10", "1e3", "1,5g", "12 parsecs", "1kib1", "inf",
		"nan", "1.0000000001g", "9223372036854775808", "18446744073709551616",
		"99999999999999999999999", "9999999999g", "8388608t"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err = {0};
		uint64_t bytes = 77;

		assert_int_equal(parse_size("--memory", cases[i], &bytes, &err), -1);
		assert_int_equal(bytes, 77);
		assert_int_equal(strncmp(err.text, "--memory: \"", 11), 0);
	}
}

static void refusals_say_how(void **state)
{
	struct error err;
	uint64_t value;

	parse_size("--memory", "12 parsecs", &value, &err);
	assert_string_equal(
		err.text, "--memory: \"12 parsecs\" is not a size; write it as 512m or 1g");
	parse_size("--memory", "8388608t", &value, &err);
	assert_string_equal(err.text, "--memory: \"8388608t\" is too large");
}

static void long_text_is_shortened_between_characters(void **state)
{
	char text[400], buffer[QUOTED_MAX];
	const char *shown;

	for (size_t i = 0; i + 2 < sizeof text; i += 2)
		memcpy(text + i, "ä", 3);
	shown = quoted(text, buffer);
	assert_true(strlen(shown) < QUOTED_MAX);
	assert_string_equal(shown + strlen(shown) - strlen("ä…\""), "ä…\"");
	shown = quoted(text + 1, buffer); /* begins in the middle of one */
	assert_true(strlen(shown) < QUOTED_MAX);
	assert_string_equal(shown + strlen(shown) - strlen("ä…\""), "ä…\"");
	assert_string_equal(quoted("short", buffer), "\"short\"");
}

static void durations_are_taken(void **state)
{
	const struct {
		const char *text;
		uint64_t ms;
	} cases[] = {{"30", 30000}, {"30s", 30000}, {"1.5s", 1500}, {"500ms", 500}, {"2m", 120000},
		{"1h", 3600000}, {"0", 0}, {"0s", 0}, {"none", 0}, {"0.25", 250},
		{"0.0001s", 1}, /* never «none» */
		{"8760h", 31536000000}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		uint64_t ms = 12345;

		assert_int_equal(parse_duration_ms("--timeout", cases[i].text, &ms, &err), 0);
		assert_int_equal(ms, cases[i].ms);
	}
}

static void durations_are_refused(void **state)
{
	const char *const cases[] = {"", "-1", "1d", "1 s", "s", "1S", "1.s", "None", "1m30s",
		"8761h", "99999999999999999999", "99999999999h", "1e3"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		uint64_t ms = 77;

		assert_int_equal(parse_duration_ms("--timeout", cases[i], &ms, &err), -1);
		assert_int_equal(ms, 77);
	}
}

static void cpus(void **state)
{
	struct error err;
	uint32_t millis = 0;

	assert_int_equal(parse_cpus("--cpus", "0.5", &millis, &err), 0);
	assert_int_equal(millis, 500);
	assert_int_equal(parse_cpus("--cpus", "2", &millis, &err), 0);
	assert_int_equal(millis, 2000);
	assert_int_equal(parse_cpus("--cpus", "0.01", &millis, &err), 0);
	assert_int_equal(millis, 10);
	assert_int_equal(parse_cpus("--cpus", "none", &millis, &err), 0);
	assert_int_equal(millis, 0);
	assert_int_equal(parse_cpus("--cpus", "0.009", &millis, &err), -1);
	assert_int_equal(parse_cpus("--cpus", "0.0001", &millis, &err), -1);
	assert_int_equal(parse_cpus("--cpus", "1001", &millis, &err), -1);
	assert_int_equal(parse_cpus("--cpus", "-1", &millis, &err), -1);
	assert_int_equal(parse_cpus("--cpus", "two", &millis, &err), -1);
	assert_int_equal(parse_cpus("--cpus", "99999999999999999999", &millis, &err), -1);
}

static void counts(void **state)
{
	struct error err;
	uint32_t count = 0;

	assert_int_equal(parse_count("--pids-limit", "1", 1, 10, &count, &err), 0);
	assert_int_equal(count, 1);
	assert_int_equal(parse_count("--pids-limit", "10", 1, 10, &count, &err), 0);
	assert_int_equal(count, 10);
	assert_int_equal(parse_count("--pids-limit", "0", 1, 10, &count, &err), -1);
	assert_string_equal(err.text, "--pids-limit: \"0\" is out of range; it goes from 1 to 10");
	assert_int_equal(parse_count("--pids-limit", "11", 1, 10, &count, &err), -1);
	assert_int_equal(parse_count("--pids-limit", "4294967297", 1, 10, &count, &err), -1);
	assert_int_equal(
		parse_count("--pids-limit", "99999999999999999999", 1, 10, &count, &err), -1);
	assert_int_equal(parse_count("--pids-limit", "1.5", 1, 10, &count, &err), -1);
	assert_int_equal(parse_count("--pids-limit", "-1", 1, 10, &count, &err), -1);
	assert_int_equal(parse_count("--pids-limit", "", 1, 10, &count, &err), -1);
	assert_int_equal(count, 10);
}

static void ids(void **state)
{
	const char *const bad[] = {"", "root", "1000:", ":1000", "1000:1000:1", "-1", "65536",
		"1000:65536", "1000 1000", "99999999999999999999"};
	struct error err;
	uint32_t uid = 1, gid = 1;

	assert_int_equal(parse_ids("--user", "1000:100", 65535, &uid, &gid, &err), 0);
	assert_int_equal(uid, 1000);
	assert_int_equal(gid, 100);
	assert_int_equal(parse_ids("--user", "65535", 65535, &uid, &gid, &err), 0);
	assert_int_equal(uid, 65535);
	assert_int_equal(gid, 65535);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(parse_ids("--user", bad[i], 65535, &uid, &gid, &err), -1);
	assert_int_equal(uid, 65535);
}

static void signals(void **state)
{
	static const struct {
		const char *text;
		uint32_t number;
	} good[] = {{"SIGTERM", 15}, {"TERM", 15}, {"term", 15}, {"sigInt", 2}, {"1", 1}, {"64", 64}, {"SIGRTMIN", 34},
		{"RTMIN+3", 37}, {"rtmax-1", 63}, {"SIGRTMAX", 64}, {"KILL", 9}};
	static const char *const bad[] = {"", "0", "65", "SIG", "SIGNOTHING", "-1", "15 ", "RTMIN-1", "RTMIN+31", "RTMAX+1",
		"RTMIN+", "9999999999"};
	struct error err;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		uint32_t number = 0;

		if (parse_signal("--stop-signal", good[i].text, &number, &err) < 0)
			fail_msg("%s: %s", good[i].text, err.text);
		assert_int_equal(number, good[i].number);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		uint32_t number = 7;

		if (parse_signal("--stop-signal", bad[i], &number, &err) == 0)
			fail_msg("%s is taken for %u", bad[i], number);
		assert_int_equal(number, 7);
	}
}

static void assignments(void **state)
{
	struct error err;
	const char *value;
	char *name;

	assert_int_equal(parse_assignment("--env", "A=b=c", &name, &value, &err), 0);
	assert_string_equal(name, "A");
	assert_string_equal(value, "b=c");
	free(name);
	assert_int_equal(parse_assignment("--env", "A=", &name, &value, &err), 0);
	assert_string_equal(value, "");
	free(name);
	assert_int_equal(parse_assignment("--env", "A", &name, &value, &err), 0);
	assert_string_equal(name, "A");
	assert_null(value);
	free(name);
	assert_int_equal(parse_assignment("--env", "=b", &name, &value, &err), -1);
	assert_int_equal(parse_assignment("--env", "", &name, &value, &err), -1);
}

static void check_bind(
	const char *text, bool read_only, const char *source, const char *target, bool expected)
{
	struct error err;
	char *got_source, *got_target;

	assert_int_equal(parse_bind("--bind", text, &got_source, &got_target, &read_only, &err), 0);
	assert_string_equal(got_source, source);
	assert_string_equal(got_target, target);
	assert_int_equal(read_only, expected);
	free(got_source);
	free(got_target);
}

static void binds(void **state)
{
	const char *const bad[] = {"", "a", ":/b", "a:", "a:b", "/a:ro", "a:b:ro", ":ro", "::ro"};
	char *source = NULL, *target = NULL;
	bool read_only = false;
	struct error err;

	check_bind("/a:/b", false, "/a", "/b", false);
	check_bind("/a:/b", true, "/a", "/b", true);
	check_bind("/a:/b:ro", false, "/a", "/b", true);
	check_bind("/a:/b:rw", true, "/a", "/b", false);
	check_bind("a:b:/c", false, "a:b", "/c", false);
	check_bind("a:b:/c:ro", false, "a:b", "/c", true);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(
			parse_bind("--bind", bad[i], &source, &target, &read_only, &err), -1);
	assert_null(source);
	assert_null(target);
	assert_false(read_only);
}

static void tmpfs(void **state)
{
	const char *const bad[] = {"", "a", "a:1m", "/a:", "/a:0", "/a:x"};
	struct error err;
	uint64_t bytes = 1;
	char *target;

	assert_int_equal(parse_tmpfs("--tmpfs", "/a", &target, &bytes, &err), 0);
	assert_string_equal(target, "/a");
	assert_int_equal(bytes, 0);
	free(target);
	assert_int_equal(parse_tmpfs("--tmpfs", "/a:64m", &target, &bytes, &err), 0);
	assert_string_equal(target, "/a");
	assert_int_equal(bytes, 64 * MIB);
	free(target);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(parse_tmpfs("--tmpfs", bad[i], &target, &bytes, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_taken),
		cmocka_unit_test(sizes_are_refused),
		cmocka_unit_test(refusals_say_how),
		cmocka_unit_test(long_text_is_shortened_between_characters),
		cmocka_unit_test(durations_are_taken),
		cmocka_unit_test(durations_are_refused),
		cmocka_unit_test(cpus),
		cmocka_unit_test(counts),
		cmocka_unit_test(ids),
		cmocka_unit_test(signals),
		cmocka_unit_test(assignments),
		cmocka_unit_test(binds),
		cmocka_unit_test(tmpfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
