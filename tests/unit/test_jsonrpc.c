/* SPDX-License-Identifier: MIT */
/* JSON-RPC: what is a request, what is refused and how, and what the answers look like. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "mcp/jsonrpc.h"

static const struct {
	const char *text;
	enum jsonrpc_kind kind;
	int code;
	const char *id; /* as JSON; NULL: none */
} cases[] = {
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", JSONRPC_REQUEST, 0, "1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\",\"params\":{}}\r", JSONRPC_REQUEST, 0,
		"\"a\""},
	{"{\"jsonrpc\":\"2.0\",\"id\":-9007199254740993,\"method\":\"m\"}", JSONRPC_REQUEST, 0,
		"-9007199254740993"},
	{"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", JSONRPC_NOTIFICATION, 0, NULL},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", JSONRPC_RESPONSE, 0, "1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", JSONRPC_RESPONSE, 0, "1"},
	{"", JSONRPC_INVALID, JSONRPC_PARSE_ERROR, NULL},
	{"{", JSONRPC_INVALID, JSONRPC_PARSE_ERROR, NULL},
	{"{} {}", JSONRPC_INVALID, JSONRPC_PARSE_ERROR, NULL},
	{"\"\xff\"", JSONRPC_INVALID, JSONRPC_PARSE_ERROR, NULL},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\"}", JSONRPC_INVALID, JSONRPC_PARSE_ERROR,
		NULL},
	{"[]", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST, NULL},
	{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", JSONRPC_BATCH, 0, NULL},
	{"{}", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST, NULL},
	{"{\"id\":1,\"method\":\"m\"}", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST, "1"},
	{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, "1"},
	{"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST,
		"1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":1}", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST, "1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", JSONRPC_INVALID, JSONRPC_INVALID_REQUEST,
		"1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\\u0000x\"}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, "1"},
	{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, NULL},
	{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, NULL},
	{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, NULL},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}", JSONRPC_INVALID,
		JSONRPC_INVALID_PARAMS, "1"},
	{"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":3}", JSONRPC_INVALID,
		JSONRPC_INVALID_REQUEST, NULL},
};

static void test_parse(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct jsonrpc_message message;
		char *id;

		jsonrpc_parse(cases[i].text, strlen(cases[i].text), &message);
		if (message.kind != cases[i].kind || message.code != cases[i].code)
			fail_msg("%s: kind %d, code %d", cases[i].text, message.kind, message.code);
		id = message.id ? json_dumps(message.id, JSON_ENCODE_ANY) : NULL;
		if (!cases[i].id != !id || (id && strcmp(id, cases[i].id) != 0))
			fail_msg("%s: id %s", cases[i].text, id ? id : "none");
		if (message.kind == JSONRPC_INVALID)
			assert_true(message.reason[0] != '\0');
		free(id);
		jsonrpc_message_free(&message);
	}
}

/* jansson limits the depth: a parse error, not a stack that is used up. */
static void test_deep(void **state)
{
	size_t length = 1 << 20;
	char *text = malloc(length);
	struct jsonrpc_message message;

	memset(text, '[', length);
	jsonrpc_parse(text, length, &message);
	assert_int_equal(message.code, JSONRPC_PARSE_ERROR);
	jsonrpc_message_free(&message);
	free(text);
}

static void test_params(void **state)
{
	static const char text[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"x\\u0000y\"}}";
	struct jsonrpc_message message;

	jsonrpc_parse(text, sizeof text - 1, &message);
	assert_string_equal(message.method, "m");
	assert_int_equal(json_string_length(json_object_get(message.params, "a")), 3);
	jsonrpc_message_free(&message);
}

static void expect(char *line, size_t length, const char *expected)
{
	assert_non_null(line);
	assert_string_equal(line, expected);
	assert_int_equal(length, strlen(expected));
	free(line);
}

static void test_answers(void **state)
{
	json_t *id = json_string("a\nb");
	size_t length;
	char *line;

	line = jsonrpc_result(id, json_pack("{s:s}", "t", "x\ny"), &length);
	expect(line, length,
		"{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"result\":{\"t\":\"x\\ny\"}}\n");
	line = jsonrpc_error(json_null(), JSONRPC_PARSE_ERROR, "why", NULL, &length);
	expect(line, length,
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"why\"}}\n");
	line = jsonrpc_error(NULL, -5, "why", json_pack("[i]", 1), &length);
	expect(line, length,
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-5,\"message\":\"why\",\"data\":[1]}}\n");
	/* A name that was cut inside of a character. */
	line = jsonrpc_error(id, -5, "no such method: \xc3", NULL, &length);
	expect(line, length,
		"{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"error\":{\"code\":-5,\"message\":\"no such method: \xef\xbf\xbd\"}}\n");
	line = jsonrpc_notification("n", json_object(), &length);
	expect(line, length, "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n");
	json_decref(id);
}

/* Half of a surrogate pair, as JavaScript has it of a text that was cut inside of a character. */
static void test_halves(void **state)
{
	static const struct {
		const char *escaped, *expected; /* NULL: it is no JSON */
	} halves[] = {
		{"\\ud83d", "\xef\xbf\xbd"},
		{"a\\ude00b", "a\xef\xbf\xbd" "b"},
		{"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
		{"\\ud83d\\ud83d\\ude00", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
		{"\\ud83d\\u0041", "\xef\xbf\xbd" "A"},
		{"\\\\ud83d\\ud83d", "\\ud83d\xef\xbf\xbd"},
		{"\\ud83", NULL},
		{"\\ud83d\\x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
		char text[128];
		struct jsonrpc_message message;

		snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}", halves[i].escaped);
		jsonrpc_parse(text, strlen(text), &message);
		if (halves[i].expected) {
			assert_int_equal(message.kind, JSONRPC_REQUEST);
			assert_string_equal(message.method, halves[i].expected);
		} else {
			assert_int_equal(message.kind, JSONRPC_INVALID);
		}
		jsonrpc_message_free(&message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_params),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
