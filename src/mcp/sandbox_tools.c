/* SPDX-License-Identifier: MIT */
/* Sandboxes that last, for tools: see sandbox_tools.h. Here are those that list and stop them. */
#define _GNU_SOURCE
#include "mcp/sandbox_tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/arguments.h"
#include "mcp/schema.h"
#include "mcp/tools.h"
#include "session/session.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* ---- In common ---- */

/* Names that other servers have for it. */
static const char *const id_names[] = {"sandbox_id", "container_id", "session_id"};
static const char *const hidden[] = {"container_id", "session_id", NULL};

static int read_id(const json_t *arguments, char ret[SESSION_ID_SIZE], struct error *err)
{
	const char *id = NULL;

	for (size_t i = 0; i < sizeof id_names / sizeof *id_names && !id; i++)
		if (argument_string(arguments, id_names[i], false, &id, err) < 0)
			return -1;
	if (!id)
		return error_set(err, 0, "sandbox_id: missing; expected what sandbox_initialize returned");
	if (!session_id_valid(id))
		return sandbox_unknown(id, err);
	strcpy(ret, id);
	return 0;
}

int sandbox_unknown(const char *id, struct error *err)
{
	error_set(err, 0,
		"sandbox_id: there is no sandbox \"%.40s\": it was stopped, its time was up, or it never was", id);
	return error_hint(err,
		"sandbox_list shows those that there are; sandbox_initialize makes a new one, in which files have to be "
		"written again.");
}

int sandbox_ask(const json_t *arguments, const char *const *known, json_t *request,
	struct step *step, struct error *err)
{
	step->kind = STEP_ASK;
	step->wait_ms = SANDBOX_ANSWER_MS;
	step->request = request;
	json_object_set_new(request, "from", json_string("mcp"));
	if (arguments_refuse_unknown(arguments, known, hidden, err) < 0)
		return -1;
	return read_id(arguments, step->id, err);
}

const char *sandbox_path_of(const json_t *arguments, const char *name, const char *otherwise)
{
	return json_string_value(json_object_get(arguments, name)) ?: otherwise;
}

char *sandbox_path(const json_t *arguments, const char *name, const char *otherwise, struct error *err)
{
	const char *path = otherwise;

	if (argument_string(arguments, name, !otherwise, &path, err) < 0)
		return NULL;
	if (!*path) {
		argument_wrong(name, "a path", json_object_get(arguments, name), err);
		return NULL;
	}
	return *path == '/' ? xstrdup(path) : xasprintf("/workspace/%s", path);
}

int argument_count(const json_t *arguments, const char *name, json_int_t max, json_int_t *ret,
	struct error *err)
{
	const json_t *value = json_object_get(arguments, name);
	char expected[80];

	if (!value || json_is_null(value))
		return 0;
	/* Some models write whole numbers as 5.0. */
	if (json_is_real(value) && json_real_value(value) >= 0 && json_real_value(value) <= (double)max &&
		json_real_value(value) == (double)(json_int_t)json_real_value(value)) {
		*ret = (json_int_t)json_real_value(value);
		return 0;
	}
	if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= max) {
		*ret = json_integer_value(value);
		return 0;
	}
	snprintf(expected, sizeof expected, "a whole number from 0 to %lld", (long long)max);
	return argument_wrong(name, expected, value, err);
}

json_t *sandbox_result(json_t *structured, const char *format, ...)
{
	cleanup_free char *text = NULL;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		text = NULL;
	return tool_result(text ?: "", text ? (size_t)length : 0, structured);
}

/* ---- sandbox_stop ---- */

static json_t *describe_stop(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, {0}};
	static const struct schema_field output[] = {
		{"sandbox_id", "string", "The sandbox that was stopped", true}, {0}};

	(void)options;
	return schema_tool("sandbox_stop", "Stop a sandbox",
		"Ends a sandbox with everything that runs in it and all of its files. Returns once nothing of it is left.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_stop(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", NULL};

	(void)options;
	return sandbox_ask(arguments, known, json_pack("{s:s}", "op", "stop"), step, err);
}

const char *sandbox_id_of(const json_t *arguments)
{
	for (size_t i = 0; i < sizeof id_names / sizeof *id_names; i++)
		if (json_is_string(json_object_get(arguments, id_names[i])))
			return json_string_value(json_object_get(arguments, id_names[i]));
	return "";
}

static json_t *finish_stop(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *id = sandbox_id_of(arguments);

	(void)options, (void)answer, (void)kept;
	return sandbox_result(json_pack("{s:s}", "sandbox_id", id), "The sandbox %s was stopped.", id);
}

const struct tool tool_sandbox_stop = {
	.name = "sandbox_stop",
	.describe = describe_stop,
	.prepare = prepare_stop,
	.finish = finish_stop,
	.at_once = true,
};

/* ---- sandbox_pause, sandbox_resume ---- */

static const struct schema_field pause_output[] = {
	{"sandbox_id", "string", "The sandbox", true},
	{"paused", "boolean", "Whether it is paused now", true},
	{"already", "boolean", "Whether it was so before", true},
	{0},
};

static json_t *describe_pause(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, {0}};

	(void)options;
	return schema_tool("sandbox_pause", "Pause a sandbox",
		"Stops everything that runs in a sandbox, until sandbox_resume. Timeouts of commands and the sandbox's idle time "
		"stand meanwhile, its life does not. What has been written can be read and processes can be ended; nothing new "
		"can begin in it, and its files cannot be read or written.",
		schema_object(input, true), schema_object(pause_output, false), HINT_IDEMPOTENT);
}

static json_t *describe_resume(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, {0}};

	(void)options;
	return schema_tool("sandbox_resume", "Resume a sandbox",
		"Lets a sandbox go on that sandbox_pause has stopped, from where it stood: commands, contexts and background "
		"processes run again, and their timeouts with them.", schema_object(input, true),
		schema_object(pause_output, false), HINT_IDEMPOTENT);
}

static int ask_plainly(const json_t *arguments, const char *op, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", NULL};

	return sandbox_ask(arguments, known, json_pack("{s:s}", "op", op), step, err);
}

static int prepare_pause(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	(void)options;
	return ask_plainly(arguments, "pause", step, err);
}

static int prepare_resume(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	(void)options;
	return ask_plainly(arguments, "resume", step, err);
}

static json_t *say_paused(const json_t *arguments, const json_t *answer, const char *what)
{
	const char *id = sandbox_id_of(arguments);
	bool already = json_is_true(json_object_get(answer, "already"));

	return sandbox_result(json_pack("{s:s, s:O, s:b}", "sandbox_id", id, "paused", json_object_get(answer, "paused"),
				      "already", already),
		"The sandbox %s %s%s.", id, what, already ? " already" : "");
}

static json_t *finish_pause(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	(void)options, (void)kept;
	return say_paused(arguments, answer, "is paused");
}

static json_t *finish_resume(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	(void)options, (void)kept;
	return say_paused(arguments, answer, json_is_true(json_object_get(answer, "already")) ? "runs" : "goes on");
}

const struct tool tool_sandbox_pause = {
	.name = "sandbox_pause",
	.describe = describe_pause,
	.prepare = prepare_pause,
	.finish = finish_pause,
};

const struct tool tool_sandbox_resume = {
	.name = "sandbox_resume",
	.describe = describe_resume,
	.prepare = prepare_resume,
	.finish = finish_resume,
};

/* ---- sandbox_list: each is asked, one after the other ---- */

static json_t *describe_list(const struct mcp_options *options)
{
	static const struct schema_field input[] = {{0}};
	static const struct schema_field output[] = {
		{"sandboxes", "object[]",
			"Each: sandbox_id, root (host, or the name of an image), language where it has one, age_s, idle_s, "
			"ends_when_idle_s, life_left_s, paused, processes that run",
			true},
		{"not_answering", "string[]", "Ids of those whose supervisor has not answered in 3 seconds", true},
		{0}};

	(void)options;
	return schema_tool("sandbox_list", "List sandboxes",
		"The sandboxes that last and live, also those that another server of the same user has made. Takes no "
		"arguments. Looking does not keep them alive.",
		schema_object(input, true), schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static json_t *begin_list(
	const struct mcp_options *options, const json_t *arguments, struct error *err)
{
	static const char *const known[] = {NULL};
	char (*ids)[SESSION_ID_SIZE];
	json_t *left = json_array();
	size_t count;

	(void)options;
	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0 ||
		session_list_shared(&ids, &count, err) < 0) {
		json_decref(left);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		json_array_append_new(left, json_string(ids[i]));
	free(ids);
	return json_pack("{s:o, s:[], s:[]}", "left", left, "found", "silent");
}

static json_t *entry_of(const json_t *info)
{
	const char *root = json_string_value(json_object_get(info, "root")) ?: "";
	const char *language = json_string_value(json_object_get(info, "language")) ?: "";
	json_t *processes = json_array(), *process, *entry;
	size_t i;

	json_array_foreach(json_object_get(info, "processes"), i, process)
		if (json_is_true(json_object_get(process, "running")))
			json_array_append(processes, json_object_get(process, "process"));
	entry = json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:o}", "sandbox_id",
		json_object_get(info, "id"), "root",
		strcmp(root, "host") == 0 ? json_object_get(info, "root")
					  : json_object_get(info, "root_path"),
		"age_s", json_object_get(info, "age_s"), "idle_s", json_object_get(info, "idle_s"),
		"ends_when_idle_s", json_object_get(info, "idle_limit_s"), "life_left_s",
		json_object_get(info, "life_left_s"), "paused", json_object_get(info, "paused"), "processes", processes);
	if (*language)
		json_object_set_new(entry, "language", json_string(language));
	return entry;
}

static bool next_list(json_t *state, const json_t *answer, struct step *step)
{
	json_t *left = json_object_get(state, "left");
	size_t count = json_array_size(left);

	if (answer)
		json_array_append_new(json_object_get(state, "found"), entry_of(answer));
	else if (json_object_get(state, "asked"))
		json_array_append(json_object_get(state, "silent"), json_object_get(state, "asked"));
	if (count == 0)
		return false;
	step->kind = STEP_ASK;
	step->request = json_pack("{s:s, s:s}", "op", "info", "from", "mcp");
	snprintf(step->id, sizeof step->id, "%s", json_string_value(json_array_get(left, 0)));
	json_object_set(state, "asked", json_array_get(left, 0));
	json_array_remove(left, 0);
	return true;
}

/* Of those that have not answered, the ones that have not ended meanwhile (new reference). */
static json_t *still_there(const json_t *silent)
{
	json_t *list = json_array(), *id;
	char (*ids)[SESSION_ID_SIZE];
	struct error unimportant;
	size_t count, i;

	if (json_array_size(silent) == 0 || session_list_shared(&ids, &count, &unimportant) < 0)
		return list;
	json_array_foreach(silent, i, id)
		for (size_t j = 0; j < count; j++)
			if (strcmp(ids[j], json_string_value(id)) == 0)
				json_array_append(list, id);
	free(ids);
	return list;
}

static json_t *conclude_list(const json_t *state)
{
	const json_t *found = json_object_get(state, "found");
	json_t *silent = still_there(json_object_get(state, "silent")), *entry;
	cleanup_free char *text = xstrdup("");
	size_t i;

	json_array_foreach(found, i, entry) {
		const char *language = json_string_value(json_object_get(entry, "language"));
		cleanup_free char *before = text;

		text = xasprintf("%s%s  %s%s%s  %.0f s old, idle for %.0f s of %.0f, %zu running%s\n", before,
			json_string_value(json_object_get(entry, "sandbox_id")),
			json_string_value(json_object_get(entry, "root")) ?: "", language ? ", " : "",
			language ?: "", json_number_value(json_object_get(entry, "age_s")),
			json_number_value(json_object_get(entry, "idle_s")),
			json_number_value(json_object_get(entry, "ends_when_idle_s")),
			json_array_size(json_object_get(entry, "processes")),
			json_is_true(json_object_get(entry, "paused")) ? ", paused" : "");
	}
	json_array_foreach(silent, i, entry) {
		cleanup_free char *before = text;

		text = xasprintf("%s%s  does not answer\n", before, json_string_value(entry));
	}
	return sandbox_result(json_pack("{s:O, s:o}", "sandboxes", found, "not_answering", silent), "%s",
		*text ? text : "There is no sandbox; sandbox_initialize makes one.");
}

const struct tool tool_sandbox_list = {
	.name = "sandbox_list",
	.describe = describe_list,
	.begin = begin_list,
	.next = next_list,
	.conclude = conclude_list,
};
