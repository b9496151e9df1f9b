/* SPDX-License-Identifier: MIT */
/* JSON-RPC messages: see jsonrpc.h. */
#define _GNU_SOURCE
#include "mcp/jsonrpc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/utf8.h"
#include "util/alloc.h"

static void invalid(struct jsonrpc_message *message, int code, const char *reason)
{
	message->kind = JSONRPC_INVALID;
	message->code = code;
	snprintf(message->reason, sizeof message->reason, "%s", reason);
}

static bool id_valid(const json_t *id)
{
	return json_is_string(id) || json_is_integer(id);
}

/* A string that is the same in C: one with a NUL in it equals no name that we know. */
static const char *plain_string(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static void classify(struct jsonrpc_message *message)
{
	const json_t *root = message->root, *id = json_object_get(root, "id");
	const json_t *params = json_object_get(root, "params");
	const char *version = plain_string(json_object_get(root, "jsonrpc"));

	if (id_valid(id))
		message->id = id;
	if (!version || strcmp(version, "2.0") != 0) {
		invalid(message, JSONRPC_INVALID_REQUEST, "jsonrpc: expected \"2.0\"");
		return;
	}
	if (!json_object_get(root, "method") &&
		(json_object_get(root, "result") || json_object_get(root, "error"))) {
		message->kind = JSONRPC_RESPONSE;
		return;
	}
	message->method = plain_string(json_object_get(root, "method"));
	if (!message->method) {
		invalid(message, JSONRPC_INVALID_REQUEST, "method: expected a string");
		return;
	}
	if (id && !message->id) {
		invalid(message, JSONRPC_INVALID_REQUEST, "id: expected a string or an integer");
		return;
	}
	if (params && !json_is_object(params)) {
		invalid(message, message->id ? JSONRPC_INVALID_PARAMS : JSONRPC_INVALID_REQUEST,
			"params: expected an object");
		return;
	}
	message->params = params;
	message->kind = message->id ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
}

/* The value of «\uXXXX» at `text`; -1: there is none. */
static long escape_at(const char *text, size_t length)
{
	char digits[5] = "", *end;
	long value;

	if (length < 6 || text[0] != '\\' || text[1] != 'u')
		return -1;
	memcpy(digits, text + 2, 4);
	value = strtol(digits, &end, 16);
	return end == digits + 4 && digits[0] != '-' && digits[0] != '+' && digits[0] != ' ' ? value : -1;
}

/*
 * Half of a surrogate pair is no character, and jansson refuses it; clients in JavaScript send one where they cut a text
 * inside of a character. It becomes U+FFFD, in a copy. NULL: there is none.
 */
static char *without_halves(const char *text, size_t length)
{
	char *copy = NULL;

	for (size_t i = 0; i + 1 < length; i++) {
		long unit = escape_at(text + i, length - i), next;

		if (text[i] != '\\')
			continue;
		next = unit >= 0xd800 && unit <= 0xdbff ? escape_at(text + i + 6, length - i - 6) : -1;
		if (next >= 0xdc00 && next <= 0xdfff) {
			i += 11;
		} else if (unit >= 0xd800 && unit <= 0xdfff) {
			if (!copy)
				copy = xmemdup(text, length);
			memcpy(copy + i, "\\ufffd", 6);
			i += 5;
		} else {
			i++; /* another escape: what it stands for begins none */
		}
	}
	return copy;
}

void jsonrpc_parse(const char *text, size_t length, struct jsonrpc_message *ret)
{
	cleanup_free char *repaired = NULL;
	json_error_t error;

	memset(ret, 0, sizeof *ret);
	ret->root = json_loadb(text, length, JSON_ALLOW_NUL, &error);
	if (!ret->root && (repaired = without_halves(text, length)))
		ret->root = json_loadb(repaired, length, JSON_ALLOW_NUL, &error);
	if (!ret->root) {
		invalid(ret, JSONRPC_PARSE_ERROR, "parse error");
		snprintf(ret->reason, sizeof ret->reason, "parse error at byte %d: %s",
			error.position, error.text);
		return;
	}
	if (json_is_object(ret->root))
		classify(ret);
	else if (json_is_array(ret->root) && json_array_size(ret->root) > 0)
		ret->kind = JSONRPC_BATCH;
	else
		invalid(ret, JSONRPC_INVALID_REQUEST,
			"expected an object");
}

void jsonrpc_take_apart(json_t *value, struct jsonrpc_message *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->root = json_incref(value);
	if (json_is_object(value))
		classify(ret);
	else
		invalid(ret, JSONRPC_INVALID_REQUEST, "expected an object");
}

void jsonrpc_message_free(struct jsonrpc_message *message)
{
	json_decref(message->root);
	memset(message, 0, sizeof *message);
}

/* Serializes and takes over `message`. jansson escapes newlines, so the line is one. */
static char *to_line(json_t *message, size_t *ret_length)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL, *line;
	size_t length;

	json_decref(message);
	if (!text)
		return NULL;
	length = strlen(text);
	line = realloc(text, length + 2);
	if (!line) {
		free(text);
		return NULL;
	}
	line[length] = '\n';
	line[length + 1] = '\0';
	*ret_length = length + 1;
	return line;
}

/* A copy, since a reference count cannot be changed through const. */
static json_t *copy_id(const json_t *id)
{
	return json_deep_copy(id);
}

char *jsonrpc_result(const json_t *id, json_t *result, size_t *ret_length)
{
	return to_line(
		json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", copy_id(id), "result", result),
		ret_length);
}

char *jsonrpc_notification(const char *method, json_t *params, size_t *ret_length)
{
	return to_line(
		json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params),
		ret_length);
}

char *jsonrpc_error(
	const json_t *id, int code, const char *reason, json_t *data, size_t *ret_length)
{
	size_t length;
	cleanup_free char *text = utf8_replace_invalid(reason, strlen(reason), &length);
	json_t *error = json_pack("{s:i, s:s%}", "code", code, "message", text, length);
	json_t *message = json_pack("{s:s}", "jsonrpc", "2.0");

	if (data)
		json_object_set_new(error, "data", data);
	if (id)
		json_object_set_new(message, "id", copy_id(id));
	json_object_set_new(message, "error", error);
	return to_line(message, ret_length);
}
