/* SPDX-License-Identifier: MIT */
/* The tools of processes in the background: process_output, process_input, process_signal, process_list. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/arguments.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/tools.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"
#include "util/utf8.h"

enum { OUTPUT_DEFAULT = 40000, OUTPUT_MAX = 1 << 20, WAIT_MAX_S = 60, INPUT_MAX = 1 << 20 };

#define PROCESS_ID_FIELD                                                                           \
	{                                                                                          \
		"process_id", "integer", "As sandbox_exec with background returned it", true       \
	}

/* Adds the process to a request. */
static int ask_process(const json_t *arguments, const char *const *known, json_t *request,
	struct step *step, struct error *err)
{
	json_int_t process = 0;

	if (sandbox_ask(arguments, known, request, step, err) < 0 ||
		argument_count(arguments, "process_id", UINT32_MAX, &process, err) < 0)
		return -1;
	if (process == 0)
		return error_set(err, 0, "process_id: expected the number that sandbox_exec returned");
	json_object_set_new(request, "process", json_integer(process));
	return 0;
}

/* ---- process_output ---- */

static json_t *describe_output(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PROCESS_ID_FIELD,
		{"offset", "integer", "The byte to begin with: next_offset of the call before; 0 if not given", false},
		{"limit", "integer", "Bytes to return at most, up to 1048576; 40000 if not given", false},
		{"wait", "number",
			"Seconds to wait, at most 60, until there is something from the offset on or the process ends; 0 if not given",
			false},
		{0}};
	static const struct schema_field output[] = {
		{"output", "string", "Standard output and error as they came; invalid UTF-8 is U+FFFD", true},
		{"offset", "integer", "Of the first byte of output: more than was asked for where that is not kept any more", true},
		{"next_offset", "integer", "Where the next call goes on", true},
		{"running", "boolean", "Whether it still runs", true},
		{"more", "boolean", "Whether there is more now, from next_offset on", true},
		{"lost_bytes", "integer", "Of what it wrote first, bytes that are not kept any more: of each process the last 64 MiB are", true},
		{"ended_by", "string", "exited, signaled, timeout, oom or cancelled, once it has ended", false},
		{"exit_code", "integer", "Where it exited", false},
		{"signal", "string", "The signal that ended it", false},
		{"message", "string", "How it ended and which limits it met", false},
		{0}};

	(void)options;
	return schema_tool("process_output", "Output of a background process",
		"What a process of sandbox_exec with background has written so far, from an offset on, and whether it still runs.",
		schema_object(input, true), schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_output(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {
		"sandbox_id", "process_id", "offset", "limit", "wait", NULL};
	json_t *request = json_pack("{s:s}", "op", "output");
	json_int_t offset = 0, limit = OUTPUT_DEFAULT;
	double wait = 0;

	(void)options;
	if (ask_process(arguments, known, request, step, err) < 0 ||
		argument_count(arguments, "offset", INT64_MAX / 2, &offset, err) < 0 ||
		argument_count(arguments, "limit", OUTPUT_MAX, &limit, err) < 0 ||
		argument_number(arguments, "wait", "a number of seconds from 0 to 60", &wait, err) < 0)
		return -1;
	if (!(wait >= 0 && wait <= WAIT_MAX_S))
		return argument_wrong("wait", "a number of seconds from 0 to 60",
			json_object_get(arguments, "wait"), err);
	json_object_set_new(request, "offset", json_integer(offset));
	json_object_set_new(request, "limit", json_integer(limit > 0 ? limit : 1));
	json_object_set_new(request, "wait_ms", json_integer((json_int_t)(wait * 1000)));
	step->wait_ms += (uint64_t)(wait * 1000);
	return 0;
}

static void copy_known(json_t *object, const char *key, const json_t *from)
{
	json_t *value = json_object_get(from, key);

	if (value && !json_is_null(value))
		json_object_set(object, key, value);
}

static json_t *finish_output(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *encoded = json_string_value(json_object_get(answer, "output")) ?: "";
	const json_t *how = json_object_get(answer, "result");
	json_int_t offset = json_integer_value(json_object_get(answer, "offset"));
	json_int_t total = json_integer_value(json_object_get(answer, "total"));
	bool ended = json_is_true(json_object_get(answer, "ended"));
	cleanup_free char *text = NULL;
	void *bytes = NULL;
	size_t length = 0, shown = 0, text_length = 0;
	const char *message;
	json_t *object, *result;

	(void)options, (void)arguments, (void)kept;
	base64_decode(encoded, strlen(encoded), &bytes, &length);
	/* A character that may still be being written is left for the next call. */
	shown = ended && offset + (json_int_t)length >= total ? length : utf8_whole(bytes, length);
	text = utf8_replace_invalid(bytes ? bytes : "", shown, &text_length);
	free(bytes);
	object = json_pack("{s:s%, s:I, s:I, s:b, s:b, s:O}", "output", text, text_length, "offset", offset, "next_offset",
		offset + (json_int_t)shown, "running", !ended, "more",
		offset + (json_int_t)shown < total, "lost_bytes", json_object_get(answer, "lost_bytes"));
	copy_known(object, "ended_by", how);
	copy_known(object, "exit_code", how);
	copy_known(object, "signal", how);
	copy_known(object, "message", how);
	message = json_string_value(json_object_get(how, "message")) ?: "";
	result = sandbox_result(object, "[%s%s%s; next_offset %lld]", ended ? "ended" : "running",
		*message ? ": " : "", message, (long long)(offset + (json_int_t)shown));
	if (text_length > 0)
		json_array_insert_new(json_object_get(result, "content"), 0,
			json_pack("{s:s, s:s%}", "type", "text", "text", text, text_length));
	return result;
}

const struct tool tool_process_output = {
	.name = "process_output",
	.describe = describe_output,
	.prepare = prepare_output,
	.finish = finish_output,
};

/* ---- process_input ---- */

static json_t *describe_input(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PROCESS_ID_FIELD,
		{"text", "string", "What to write; a line ends with \\n", false},
		{"close", "boolean", "Close its standard input afterwards", false}, {0}};
	static const struct schema_field output[] = {
		{"bytes", "integer", "Bytes that were taken", true}, {0}};

	(void)options;
	return schema_tool("process_input", "Input of a background process",
		"Writes to the standard input of a process that sandbox_exec has started with background and stdin_open.",
		schema_object(input, true), schema_object(output, false), 0);
}

static int prepare_input(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "process_id", "text", "close", NULL};
	json_t *request = json_pack("{s:s}", "op", "input");
	cleanup_free char *encoded = NULL;
	const char *text = "";
	size_t length = 0;
	bool close = false;

	(void)options;
	if (ask_process(arguments, known, request, step, err) < 0 ||
		argument_bytes(arguments, "text", false, &text, &length, err) < 0 ||
		argument_boolean(arguments, "close", &close, err) < 0)
		return -1;
	if (length == 0 && !close)
		return error_set(err, 0, "text: expected something to write, or close: true");
	if (length > INPUT_MAX)
		return error_set(err, 0, "text: at most 1 MiB can be written at a time");
	encoded = base64_encode(text, length);
	json_object_set_new(request, "data", json_string(encoded));
	json_object_set_new(request, "close", json_boolean(close));
	return 0;
}

static json_t *finish_input(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	size_t length = json_string_length(json_object_get(arguments, "text"));

	(void)options, (void)answer, (void)kept;
	return sandbox_result(json_pack("{s:I}", "bytes", (json_int_t)length), "%zu bytes were written%s.",
		length, json_is_true(json_object_get(arguments, "close")) ? ", and its input is closed" : "");
}

const struct tool tool_process_input = {
	.name = "process_input",
	.describe = describe_input,
	.prepare = prepare_input,
	.finish = finish_input,
};

/* ---- process_signal ---- */

static json_t *describe_signal(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PROCESS_ID_FIELD,
		{"signal", "string",
			"Such as SIGINT or SIGTERM; SIGKILL, which ends it with all that it has started, if not given", false},
		{0}};
	static const struct schema_field output[] = {
		{"signal", "string", "The signal that was sent", true}, {0}};

	(void)options;
	return schema_tool("process_signal", "Signal a background process",
		"Sends a signal to the process group of a process of sandbox_exec with background, or ends it with all that it has started.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_signal(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "process_id", "signal", NULL};
	json_t *request = json_pack("{s:s}", "op", "signal");
	const char *name = "SIGKILL";
	uint32_t number;

	(void)options;
	if (ask_process(arguments, known, request, step, err) < 0 ||
		argument_string(arguments, "signal", false, &name, err) < 0 ||
		parse_signal("signal", name, &number, err) < 0)
		return -1;
	json_object_set_new(request, "signal", json_integer(number));
	return 0;
}

static json_t *finish_signal(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *name = json_string_value(json_object_get(arguments, "signal")) ?: "SIGKILL";

	(void)options, (void)answer, (void)kept;
	return sandbox_result(json_pack("{s:s}", "signal", name), "%s was sent.", name);
}

const struct tool tool_process_signal = {
	.name = "process_signal",
	.describe = describe_signal,
	.prepare = prepare_signal,
	.finish = finish_signal,
	.at_once = true,
};

/* ---- process_list ---- */

static json_t *describe_list(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, {0}};
	static const struct schema_field output[] = {
		{"processes", "object[]",
			"Each: process_id, command, background, running, paused where it is, age_s, context where it is one's interpreter, "
			"and of those that have ended ended_by and exit_code",
			true},
		{0}};

	(void)options;
	return schema_tool("process_list", "List processes of a sandbox",
		"The programs and commands of sandbox_exec that run in a sandbox, and those in the background that have ended.",
		schema_object(input, true), schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_list(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", NULL};

	(void)options;
	return sandbox_ask(arguments, known, json_pack("{s:s}", "op", "info"), step, err);
}

static json_t *process_entry(const json_t *process)
{
	json_t *entry = json_pack("{s:O}", "process_id", json_object_get(process, "process"));

	copy_known(entry, "command", process);
	copy_known(entry, "background", process);
	copy_known(entry, "running", process);
	copy_known(entry, "paused", process);
	copy_known(entry, "age_s", process);
	copy_known(entry, "context", process);
	copy_known(entry, "ended_by", process);
	if (json_object_get(process, "status"))
		json_object_set(entry, "exit_code", json_object_get(process, "status"));
	return entry;
}

static void print_process(FILE *out, const json_t *entry)
{
	const json_t *word;
	size_t i;

	fprintf(out, "%lld  ", (long long)json_integer_value(json_object_get(entry, "process_id")));
	if (json_is_true(json_object_get(entry, "running")))
		fputs(json_is_true(json_object_get(entry, "paused")) ? "paused" : "running", out);
	else
		fprintf(out, "%s, exit code %lld",
			json_string_value(json_object_get(entry, "ended_by")) ?: "ended",
			(long long)json_integer_value(json_object_get(entry, "exit_code")));
	fputs(" ", out);
	json_array_foreach(json_object_get(entry, "command"), i, word)
		fprintf(out, " %s", json_string_value(word) ?: "?");
	fputs("\n", out);
}

static json_t *finish_list(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	json_t *list = json_array(), *process, *result;
	char *text = NULL;
	size_t i, length = 0;
	FILE *out = open_memstream(&text, &length);

	(void)options, (void)arguments, (void)kept;
	json_array_foreach(json_object_get(answer, "processes"), i, process) {
		json_t *entry = process_entry(process);

		if (out)
			print_process(out, entry);
		json_array_append_new(list, entry);
	}
	if (out)
		fclose(out);
	result = sandbox_result(json_pack("{s:o}", "processes", list), "%s",
		length > 0 ? text : "No process runs in it.");
	free(text);
	return result;
}

const struct tool tool_process_list = {
	.name = "process_list",
	.describe = describe_list,
	.prepare = prepare_list,
	.finish = finish_list,
};
