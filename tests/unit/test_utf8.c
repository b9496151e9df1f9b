/* SPDX-License-Identifier: MIT */
/* UTF-8 and base64. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/base64.h"
#include "util/utf8.h"

static void valid(void **state)
{
	const char *const cases[] = {"", "a", "ä", "€", "😀", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf",
		"\xee\x80\x80", "aä€😀z"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_true(utf8_valid(cases[i], strlen(cases[i])));
	assert_true(utf8_valid("a\0b", 3));
	assert_true(utf8_valid(NULL, 0));
}

static void invalid(void **state)
{
	const char *const cases[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(",
		"\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98",
		"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ok\xff"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_false(utf8_valid(cases[i], strlen(cases[i])));
}

/* The expectations are Unicode's own examples of replacing maximal subparts, and the edges. */
static void invalid_is_replaced(void **state)
{
	const struct {
		const char *in, *out;
	} cases[] = {
		{"", ""},
		{"plain", "plain"},
		{"\xff", "\xef\xbf\xbd"},
		{"a\xf0\x9f\x98z", "a\xef\xbf\xbdz"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",
			"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x41"},
		{"ä\x80ä", "ä\xef\xbf\xbdä"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t length;
		char *out = utf8_replace_invalid(cases[i].in, strlen(cases[i].in), &length);

		assert_string_equal(out, cases[i].out);
		assert_int_equal(length, strlen(cases[i].out));
		assert_true(utf8_valid(out, length));
		free(out);
	}
}

static void boundaries(void **state)
{
	static const char text[] = "a😀b"; /* 1, 4, 1 bytes */
	static const size_t before[] = {0, 1, 1, 1, 1, 5, 6}, after[] = {0, 1, 5, 5, 5, 5, 6};

	for (size_t at = 0; at <= 6; at++) {
		assert_int_equal(utf8_boundary_before(text, 6, at), before[at]);
		assert_int_equal(utf8_boundary_after(text, 6, at), after[at]);
	}
	for (size_t at = 0; at <= 4; at++) { /* not UTF-8: anywhere */
		assert_int_equal(utf8_boundary_before("\x80\x80\x80\x80", 4, at), at);
		assert_int_equal(utf8_boundary_after("\x80\x80\x80\x80", 4, at), at);
	}
}

static void check_base64(const void *data, size_t length, const char *text)
{
	char *encoded = base64_encode(data, length);
	void *decoded;
	size_t decoded_length;

	assert_string_equal(encoded, text);
	assert_int_equal(base64_decode(text, strlen(text), &decoded, &decoded_length), 0);
	assert_int_equal(decoded_length, length);
	assert_memory_equal(decoded, data, length);
	free(encoded);
	free(decoded);
}

static void base64_known(void **state)
{
	check_base64("", 0, "");
	check_base64("f", 1, "Zg==");
	check_base64("fo", 2, "Zm8=");
	check_base64("foo", 3, "Zm9v");
	check_base64("foobar", 6, "Zm9vYmFy");
	check_base64("\xfb\xff\xbf\0\x01", 5, "+/+/AAE=");
}

static void base64_every_byte(void **state)
{
	unsigned char data[256];

	for (int i = 0; i < 256; i++)
		data[i] = (unsigned char)(i * 7);
	for (size_t length = 0; length <= sizeof data; length++) {
		char *encoded = base64_encode(data, length);
		void *decoded;
		size_t decoded_length;

		assert_int_equal(
			base64_decode(encoded, strlen(encoded), &decoded, &decoded_length), 0);
		assert_int_equal(decoded_length, length);
		assert_memory_equal(decoded, data, length);
		free(encoded);
		free(decoded);
	}
}

static void base64_strict(void **state)
{
	const char *const cases[] = {"Z", "Zg", "Zg=", "Zg===", "====", "=", "Zm9v\n", "Zm 9",
		"Zh==", "Zm9=", "Zg==Zg==", "Zm-_", "Z=g=", "\xc3\xa4ZZ"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		void *decoded = NULL;
		size_t length = 7;

		assert_int_equal(base64_decode(cases[i], strlen(cases[i]), &decoded, &length), -1);
		assert_null(decoded);
		assert_int_equal(length, 7);
	}
}

/* What goes on behind its end is taken but for the beginning of a character. */
static void test_whole(void **state)
{
	static const struct {
		const char *text;
		size_t length, whole;
	} texts[] = {{"", 0, 0}, {"ab", 2, 2}, {"a\xc3\xa9", 3, 3}, {"a\xc3", 2, 1}, {"a\xe2\x82\xac", 4, 4},
		{"a\xe2\x82", 3, 1}, {"a\xe2", 2, 1}, {"a\xf0\x9f\x98\x80", 5, 5}, {"a\xf0\x9f\x98", 4, 1},
		{"a\xf0", 2, 1}, {"\xe2\x82", 2, 2}, {"\x80\x80\x80\x80\x80", 5, 5}};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_int_equal(utf8_whole(texts[i].text, texts[i].length), texts[i].whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(valid),
		cmocka_unit_test(invalid),
		cmocka_unit_test(invalid_is_replaced),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(base64_known),
		cmocka_unit_test(base64_every_byte),
		cmocka_unit_test(base64_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
