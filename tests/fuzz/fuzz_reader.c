/* SPDX-License-Identifier: MIT */
/*
 * What a client writes: lines, messages, what a request says of its revision, and a call's arguments. The
 * first byte of the input is the size of the pieces that it comes in. Beyond what sanitizers find it is
 * checked that lines are those of a plain split at newlines, that each message is of one kind, and that
 * whatever it was, an answer to it can be made that is one line of JSON.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "mcp/arguments.h"
#include "mcp/jsonrpc.h"
#include "mcp/reader.h"
#include "mcp/revision.h"
#include "util/error.h"
#include "util/utf8.h"

enum { LIMIT = 1000, INPUT_MAX = 60000 /* bytes; a pipe takes them at once */ };


/* An answer is one line of UTF-8, and JSON again. */
static void check_answer(char *line, size_t length)
{
	json_t *parsed;

	require(line != NULL, "there is an answer");
	require(length > 0 && memchr(line, '\n', length) == line + length - 1, "it is one line");
	require(utf8_valid(line, length), "it is UTF-8");
	parsed = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
	require(json_is_object(parsed), "it is JSON");
	json_decref(parsed);
	free(line);
}

/* As the server does for what it refuses: the reason quotes, cut anywhere. */
static void answer_error(const json_t *id, const char *quoted)
{
	char reason[40];
	size_t length = 0;
	char *line;

	snprintf(reason, sizeof reason, "no such method: %.20s", quoted);
	line = jsonrpc_error(id, JSONRPC_METHOD_NOT_FOUND, reason, NULL, &length);
	check_answer(line, length);
}

static void read_arguments(const json_t *arguments)
{
	static const char *const known[] = {"code", "args", "env", "timeout", NULL};
	const json_t *array = NULL, *object = NULL, *value;
	struct error err = {0};
	const char *text = NULL;
	double number = 0;
	size_t length = 0, i;

	if (!json_is_object(arguments))
		return;
	if (arguments_refuse_unknown(arguments, known, NULL, &err) < 0)
		answer_error(NULL, err.text);
	if (argument_bytes(arguments, "code", true, &text, &length, &err) < 0 ||
		argument_string(arguments, "code", false, &text, &err) < 0 ||
		argument_number(arguments, "timeout", "a number", &number, &err) < 0 ||
		argument_object(arguments, "env", &object, &err) < 0 ||
		argument_array(arguments, "args", &array, &err) < 0) {
		require(err.text[0] && !strchr(err.text, '\n'), "a reason of one line");
		answer_error(NULL, err.text);
	}
	json_array_foreach(array, i, value) {
		text = argument_text("args", value, &err);
		require(text || err.text[0], "a value or a reason");
	}
}

static void read_request(const struct jsonrpc_message *message)
{
	struct request_meta meta = {0};
	const char *reason = NULL;
	size_t length = 0;
	char *line;
	json_t *result = json_object();
	enum revision revision = REVISION_2025_11_25;

	switch (request_meta_read(message->params, &meta, &reason)) {
	case META_ABSENT:
		break;
	case META_OK:
		revision = meta.revision;
		break;
	case META_INVALID:
	case META_UNSUPPORTED:
		require(reason != NULL, "a reason");
		answer_error(message->id, reason);
		break;
	}
	json_object_set(result, "echo", json_object_get(message->params, "echo"));
	line = jsonrpc_result(
		message->id, revision_fit_result(revision, RESULT_CACHEABLE, result), &length);
	check_answer(line, length);
	answer_error(message->id, message->method);
	read_arguments(json_object_get(message->params, "arguments"));
}

static void read_message(struct jsonrpc_message *message, int depth)
{
	struct jsonrpc_message part;
	json_t *element;
	size_t i;

	switch (message->kind) {
	case JSONRPC_REQUEST:
		require(message->id && message->method, "a request has an id and a method");
		read_request(message);
		break;
	case JSONRPC_NOTIFICATION:
		require(message->method && !message->id, "a notification has a method and no id");
		break;
	case JSONRPC_RESPONSE:
		break;
	case JSONRPC_BATCH:
		require(depth == 0 && json_array_size(message->root) > 0, "a batch is not empty, nor in another");
		json_array_foreach(message->root, i, element) {
			jsonrpc_take_apart(element, &part);
			read_message(&part, depth + 1);
		}
		break;
	case JSONRPC_INVALID:
		require(message->code < 0 && message->reason[0], "there is a reason");
		answer_error(message->id, message->reason);
		break;
	}
	jsonrpc_message_free(message);
}

/* The next line by a plain split; NULL: there is none. */
static const uint8_t *next_line(const uint8_t **rest, size_t *left, size_t *ret_length)
{
	const uint8_t *line = *rest, *newline = *left ? memchr(line, '\n', *left) : NULL;

	if (!newline)
		return NULL;
	*ret_length = (size_t)(newline - line);
	*left -= *ret_length + 1;
	*rest = newline + 1;
	return line;
}

/* Takes what has come. Returns whether there may be more. */
static bool drain(struct reader *reader, const uint8_t **rest, size_t *left)
{
	struct jsonrpc_message message;

	for (;;) {
		const char *line = NULL;
		size_t length = 0, wanted_length = 0;
		enum reader_event event = reader_next(reader, &line, &length);
		const uint8_t *wanted;

		if (event == READER_AGAIN || event == READER_END)
			return event == READER_AGAIN;
		wanted = next_line(rest, left, &wanted_length);
		require(wanted != NULL, "no more lines than newlines");
		require((event == READER_TOO_LONG) == (wanted_length > LIMIT), "long lines are refused, others not");
		if (event == READER_TOO_LONG)
			continue;
		require(length == wanted_length && memcmp(line, wanted, length) == 0, "the line as it was written");
		jsonrpc_parse(line, length, &message);
		read_message(&message, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader reader;
	const uint8_t *rest = data + 1;
	size_t piece, left = size - 1, sent = 0, total = size - 1, length;
	int fds[2];

	if (size < 2 || size > INPUT_MAX || pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	piece = data[0] ? data[0] * 8u : total;
	reader_init(&reader, fds[0], LIMIT);
	while (sent < total) {
		size_t count = total - sent < piece ? total - sent : piece;

		require(write(fds[1], data + 1 + sent, count) == (ssize_t)count, "the pipe takes it");
		sent += count;
		reader_fill(&reader);
		require(drain(&reader, &rest, &left), "no end yet");
	}
	close(fds[1]);
	reader_fill(&reader);
	require(!drain(&reader, &rest, &left), "the end");
	require(!next_line(&rest, &left, &length), "no line was left out");
	reader_free(&reader);
	close(fds[0]);
	return 0;
}
