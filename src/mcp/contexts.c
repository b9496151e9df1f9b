/* SPDX-License-Identifier: MIT */
/* The tools that interrupt, restart and list contexts of a sandbox that lasts; sandbox_exec runs code in them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/arguments.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/step.h"
#include "mcp/tools.h"
#include "util/error.h"

#define CONTEXT_FIELD                                                                              \
	{                                                                                          \
		"context", "string", "Its name, as sandbox_exec was given it", true                \
	}

static int ask_context(
	const json_t *arguments, const char *action, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "context", NULL};
	json_t *request = json_pack("{s:s, s:s}", "op", "context", "action", action);
	const char *name = NULL;

	if (sandbox_ask(arguments, known, request, step, err) < 0 ||
		argument_string(arguments, "context", true, &name, err) < 0)
		return -1;
	json_object_set_new(request, "context", json_string(name));
	return 0;
}

static const char *name_of(const json_t *arguments)
{
	return json_string_value(json_object_get(arguments, "context")) ?: "";
}

/* ---- context_interrupt ---- */

static json_t *describe_interrupt(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, CONTEXT_FIELD, {0}};
	static const struct schema_field output[] = {
		{"interrupted", "boolean", "Whether code ran in it, and was interrupted", true},
		{"obeyed", "boolean", "Whether it has stopped within 2 seconds", false},
		{"state", "string",
			"Of the context now: idle, busy, interrupted (and not yet stopped), ended", true},
		{"was_starting", "boolean", "Whether it was starting, and was ended: no code had run in it", false},
		{0}};

	(void)options;
	return schema_tool("context_interrupt", "Interrupt a context",
		"Stops the code that runs in a context, as Ctrl-C does. The context keeps its state: variables, imports and files "
		"stay as the code left them. It does not wait for the call that it stops, which returns with status interrupted. A context "
		"that is still starting is ended, and calls that wait for it fail.",
		schema_object(input, true), schema_object(output, false), HINT_IDEMPOTENT);
}

static int prepare_interrupt(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	(void)options;
	return ask_context(arguments, "interrupt", step, err);
}

static json_t *finish_interrupt(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *state = json_string_value(json_object_get(answer, "state")) ?: "",
		   *name = name_of(arguments);

	(void)options, (void)kept;
	if (!json_is_true(json_object_get(answer, "interrupted")))
		return sandbox_result(json_deep_copy(answer),
			"No code runs in the context %s: it is %s.", name, state);
	if (json_is_true(json_object_get(answer, "obeyed")) && json_is_true(json_object_get(answer, "was_starting")))
		return sandbox_result(json_deep_copy(answer),
			"The context %s was still starting, and was ended: no code had run in it.", name);
	if (json_is_true(json_object_get(answer, "obeyed")))
		return sandbox_result(json_deep_copy(answer),
			"The code in the context %s has stopped; the context is %s.", name, state);
	return sandbox_result(json_deep_copy(answer),
		"The code in the context %s was interrupted, and has not stopped yet. context_restart ends it with the context.",
		name);
}

const struct tool tool_context_interrupt = {
	.name = "context_interrupt",
	.describe = describe_interrupt,
	.prepare = prepare_interrupt,
	.finish = finish_interrupt,
	.at_once = true,
};

/* ---- context_restart ---- */

static json_t *describe_restart(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, CONTEXT_FIELD, {0}};
	static const struct schema_field output[] = {{"name", "string", "The context", true},
		{"language", "string", "Its language", true},
		{"state", "string", "Of the context now: idle", true}, {0}};

	(void)options;
	return schema_tool("context_restart", "Restart a context",
		"Ends a context, with all processes that it has started and the code that runs in it, and begins it anew, with "
		"nothing in it; also one that has ended of itself. Files stay.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_restart(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	(void)options;
	return ask_context(arguments, "restart", step, err);
}

static json_t *finish_restart(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	(void)options, (void)kept;
	return sandbox_result(json_pack("{s:O, s:O, s:O}", "name", json_object_get(answer, "name"),
				      "language", json_object_get(answer, "language"), "state",
				      json_object_get(answer, "state")),
		"The context %s has begun anew: nothing of what was in it is left.",
		name_of(arguments));
}

const struct tool tool_context_restart = {
	.name = "context_restart",
	.describe = describe_restart,
	.prepare = prepare_restart,
	.finish = finish_restart,
	.at_once = true,
};

/* ---- context_list ---- */

static json_t *describe_list(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, {0}};
	static const struct schema_field output[] = {
		{"contexts", "object[]",
			"Each: name, language, state (starting, idle, busy, interrupted, restarting, ending, ended), calls, "
			"waiting (calls more), process_id (for the tools of processes), and of one that has ended how (ended)",
			true},
		{0}};

	(void)options;
	return schema_tool("context_list", "List contexts of a sandbox",
		"The interpreters that sandbox_exec with context has begun in a sandbox, what they do now, and how those ended that "
		"have ended, which refuse code until context_restart, but where a restore of the sandbox has ended them: then the next "
		"code begins them anew.",
		schema_object(input, true), schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_list(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", NULL};

	(void)options;
	return sandbox_ask(arguments, known,
		json_pack("{s:s, s:s}", "op", "context", "action", "list"), step, err);
}

static json_t *entry_of(const json_t *context)
{
	static const char *const copied[] = {
		"name", "language", "state", "calls", "waiting", "ended"};
	json_t *entry = json_object();

	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
		if (json_object_get(context, copied[i]))
			json_object_set(entry, copied[i], json_object_get(context, copied[i]));
	if (json_object_get(context, "process"))
		json_object_set(entry, "process_id", json_object_get(context, "process"));
	return entry;
}

static json_t *finish_list(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	json_t *list = json_array(), *context, *result;
	char *text = NULL;
	size_t i, length = 0;
	FILE *out = open_memstream(&text, &length);

	(void)options, (void)arguments, (void)kept;
	json_array_foreach(json_object_get(answer, "contexts"), i, context)
	{
		const char *ended = json_string_value(json_object_get(context, "ended"));
		json_int_t calls = json_integer_value(json_object_get(context, "calls"));

		json_array_append_new(list, entry_of(context));
		if (out)
			fprintf(out, "%s  %s, %s, %lld call%s%s%s\n",
				json_string_value(json_object_get(context, "name")),
				json_string_value(json_object_get(context, "language")),
				json_string_value(json_object_get(context, "state")),
				(long long)calls, calls == 1 ? "" : "s",
				ended ? ": " : "", ended ?: "");
	}
	if (out)
		fclose(out);
	result = sandbox_result(json_pack("{s:o}", "contexts", list), "%s",
		length > 0 ? text
			   : "There is no context in it; sandbox_exec with context begins one.");
	free(text);
	return result;
}

const struct tool tool_context_list = {
	.name = "context_list",
	.describe = describe_list,
	.prepare = prepare_list,
	.finish = finish_list,
	.at_once = true,
};
