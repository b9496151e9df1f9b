/* SPDX-License-Identifier: MIT */
/* The tool sandbox_exec: code, a file or a command in a sandbox that lasts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/context_result.h"
#include "mcp/execute_code.h"
#include "mcp/run_arguments.h"
#include "mcp/sandbox_resources.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/server.h"
#include "mcp/snapshots.h"
#include "mcp/tools.h"
#include "report/report.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { COMPILERS_MS = 10 * 60 * 1000 /* of all languages' files, and some more */ };

static const char *const known[] = {"sandbox_id", "code", "file", "command", "language", "args", "stdin",
	"env", "cwd", "timeout", "background", "stdin_open", "context", "snapshot", NULL};

static json_t *input_schema(const struct mcp_options *options)
{
	cleanup_free char *timeout = xasprintf(
		"Wall time in seconds, more than 0, at most %g; what sandbox_initialize said if not given. With background "
		"there is none unless given. Code in a context is interrupted then, and the context keeps its state",
		(double)options->timeout_max_ms / 1000);
	const struct schema_field fields[] = {SANDBOX_ID_FIELD,
		{"code", "string", "The source text of a program. One of code, file and command is needed", false},
		{"file", "string", "A source file in the sandbox to be run, such as \"main.py\"", false},
		{"command", "string", "A line for bash (sh where that is missing), such as \"ls -l && make\"", false},
		{"context", "string",
			"A name, 1 to 64 of [A-Za-z0-9_.-]: code runs in an interpreter of that name, which is kept, with variables, "
			"imports, functions and directory, for the next call with it. It is made where there is none, and is of one "
			"language (list_languages says which have contexts)", false},
		{"language", "string",
			"The language of code or file; the sandbox's, or what the file's name tells, if not given", false},
		{"args", "string[]", "Arguments of the program", false},
		{"stdin", "string", "Standard input; empty if not given", false},
		{"env", "string{}", "Environment variables, over those of the sandbox", false},
		{"cwd", "string", "Where it starts; /workspace if not given", false},
		{"timeout", "number", timeout, false},
		{"background", "boolean",
			"Return a process_id at once and let it run; process_output then has what it writes", false},
		{"stdin_open", "boolean", "With background: standard input stays open for process_input", false},
		{"snapshot", "boolean",
			"Keep the files of the sandbox as they are when it has ended, as sandbox_snapshot does: the result has a "
			"snapshot_id. Not with background", false},
		{0}};
	return schema_object(fields, true);
}

static void add_property(json_t *properties, const char *name, const char *description)
{
	json_object_set_new(properties, name, json_pack("{s:s, s:s}", "type", "string", "description", description));
}

static json_t *output_schema(void)
{
	json_t *schema = execute_code_output_schema(), *properties = json_object_get(schema, "properties");

	/* With background there is a process_id and nothing else. */
	json_object_del(schema, "required");
	json_object_del(properties, "refused");
	json_object_del(properties, "limits");
	json_object_del(properties, "warnings");
	json_object_set_new(properties, "process_id",
		json_pack("{s:s, s:s}", "type", "integer", "description",
			"With background: its number, for the tools of processes"));
	context_result_schema(properties);
	add_property(properties, "snapshot_id", "With snapshot: for sandbox_restore and sandbox_fork");
	add_property(properties, "snapshot_how", "frozen, or copied as something else runs in the sandbox");
	add_property(properties, "snapshot_error", "Why there is no snapshot");
	json_object_set_new(properties, "changes",
		json_pack("{s:s, s:s}", "type", "object", "description",
			"The files below /workspace that are others than before: created and modified (path, size, uri), deleted "
			"(path), omitted (how many more), incomplete (why, where it is)"));
	return schema;
}

static json_t *describe(const struct mcp_options *options)
{
	return schema_tool("sandbox_exec", "Run code in a sandbox that lasts",
		"Runs a program or a command in a sandbox of sandbox_initialize and returns its output, its exit code, the "
		"limits that it met and the files that it changed. It starts in /workspace and finds what earlier calls left "
		"there; variables, the working directory and the environment of one call are kept for the next with context "
		"only, where values come back, too: that of a last expression, plots as images, tables, errors with their line. "
		"When it ends, everything that it has started ends with it; with background it runs on after this "
		"call. Several calls can run in one sandbox at a time. A program that fails or meets a limit is a normal "
		"result, and the sandbox stays; isError means that it could not be run.",
		input_schema(options), output_schema(), 0);
}

/* One of code, file and command, as the session has it; NULL with *err. New reference. */
static json_t *read_program(const json_t *arguments, struct error *err)
{
	static const struct {
		const char *argument, *key;
	} kinds[] = {{"code", "code"}, {"file", "file"}, {"command", "shell"}};
	const char *language = NULL;
	json_t *program = json_object();
	int given = 0;

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		json_t *value = json_object_get(arguments, kinds[i].argument);

		if (!value || json_is_null(value))
			continue;
		given++;
		if (i == 2 && json_is_array(value))
			continue;
		/* Only code may have bytes of NUL. */
		if (i == 0 ? !json_is_string(value) && argument_wrong("code", "a string", value, err) < 0
			   : !argument_text(kinds[i].argument, value, err))
			goto failed;
		json_object_set(program, kinds[i].key, value);
	}
	if (given != 1) {
		error_set(err, 0, "expected one of code, file and command, got %s",
			given ? "more than one" : "none");
		goto failed;
	}
	if (argument_string(arguments, "language", false, &language, err) < 0)
		goto failed;
	if (language)
		json_object_set_new(program, "language", json_string(language));
	return program;
failed:
	json_decref(program);
	return NULL;
}

/* "command" may be a list of words, too, which go before "args". The schema does not tell: not every client knows a choice. */
static int add_words(const json_t *arguments, struct exec_spec *exec, struct error *err)
{
	const json_t *words = json_object_get(arguments, "command"), *word;
	cleanup_free char **args = NULL;
	size_t i;

	if (json_is_array(words) && json_array_size(words) == 0)
		return argument_wrong("command", "a line, or at least one word", words, err);
	if (json_is_array(words))
		json_array_foreach(words, i, word) {
			const char *text = argument_text("command", word, err);

			if (!text)
				return -1;
			exec_add_arg(exec, text);
		}
	if (run_argument_args(arguments, &args, err) < 0)
		return -1;
	for (char **next = args; *next; next++)
		exec_add_arg(exec, *next);
	return 0;
}

static int read_cwd(const json_t *arguments, struct exec_spec *exec, struct error *err)
{
	if (!json_object_get(arguments, "cwd"))
		return 0;
	exec->cwd = sandbox_path(arguments, "cwd", "/workspace", err);
	return exec->cwd ? 0 : -1;
}

static bool has_timeout(const json_t *arguments)
{
	const json_t *timeout = json_object_get(arguments, "timeout");

	return timeout && !json_is_null(timeout);
}

static int read_run(const struct mcp_options *options, const json_t *arguments, struct spec *spec,
	bool background, struct error *err)
{
	struct exec_spec *exec = &spec->execs[0];

	spec->execs_count = 1;
	exec->phase = "run";
	spec->limits.output_bytes = EXECUTE_CODE_KEPT_BYTES;
	spec->keep_output = !background;
	spec->collect_images = !background;
	if (has_timeout(arguments) &&
		run_argument_timeout(options, arguments, &exec->timeout_ms, err) < 0)
		return -1;
	if (add_words(arguments, exec, err) < 0 || run_argument_stdin(arguments, exec, err) < 0 ||
		run_argument_env(arguments, exec, err) < 0)
		return -1;
	return read_cwd(arguments, exec, err);
}

/* Of what the arguments say of a program that is started, nothing can be said of one that runs already. */
static int refuse_with_context(const json_t *arguments, struct error *err)
{
	static const struct {
		const char *name, *instead;
	} others[] = {
		{"file", "give code that runs it"},
		{"command", "give code that runs it"},
		{"args", "put them into the code"},
		{"stdin", "put it into the code"},
		{"env", "set them in the code"},
		{"cwd", "change it in the code"},
		{"background", "leave one of them out"},
		{"stdin_open", "leave one of them out"},
	};

	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		const json_t *value = json_object_get(arguments, others[i].name);

		if (value && !json_is_null(value) && !json_is_false(value))
			return error_set(err, 0, "context: not with %s: the interpreter runs already; %s", others[i].name,
				others[i].instead);
	}
	return json_is_string(json_object_get(arguments, "code"))
		       ? 0
		       : error_set(err, 0, "context: expected code with it, which runs in the context");
}

static int read_snapshot(const struct mcp_options *options, const json_t *arguments, json_t *request, struct error *err)
{
	bool wanted = false;

	if (argument_boolean(arguments, "snapshot", &wanted, err) < 0)
		return -1;
	if (!wanted)
		return 0;
	if (json_is_true(json_object_get(request, "background")))
		return error_set(err, 0, "snapshot: not with background; sandbox_snapshot makes one while it runs");
	json_object_set_new(request, "snapshot", snapshot_wanted(options));
	return 0;
}

static int prepare_in_context(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	struct exec_spec *exec = &step->spec.execs[0];
	const char *context = NULL, *language = NULL;
	json_t *request = json_pack(
		"{s:s, s:s, s:b, s:b}", "op", "context", "action", "run", "changes", 1, "progress", 1);

	if (sandbox_ask(arguments, known, request, step, err) < 0 ||
		argument_string(arguments, "context", true, &context, err) < 0 ||
		argument_string(arguments, "language", false, &language, err) < 0 || refuse_with_context(arguments, err) < 0)
		return -1;
	json_object_set_new(request, "context", json_string(context));
	json_object_set(request, "code", json_object_get(arguments, "code"));
	if (language)
		json_object_set_new(request, "language", json_string(language));
	step->spec.execs_count = 1;
	exec->phase = "run";
	exec->stdin_kind = STDIN_NULL;
	step->spec.limits.output_bytes = CONTEXT_KEPT_BYTES;
	step->spec.keep_output = step->spec.collect_images = true;
	if (has_timeout(arguments) && run_argument_timeout(options, arguments, &exec->timeout_ms, err) < 0)
		return -1;
	json_object_set_new(request, "spec", spec_to_json(&step->spec));
	step->wait_ms += options->timeout_max_ms + COMPILERS_MS;
	return read_snapshot(options, arguments, request, err);
}

static bool is_in_context(const json_t *arguments)
{
	const json_t *context = json_object_get(arguments, "context");

	return context && !json_is_null(context);
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct step *step,
	struct error *err)
{
	bool background = false, stdin_open = false;
	json_t *program, *request;

	if (is_in_context(arguments))
		return prepare_in_context(options, arguments, step, err);
	if (argument_boolean(arguments, "background", &background, err) < 0 ||
		argument_boolean(arguments, "stdin_open", &stdin_open, err) < 0)
		return -1;
	request = json_pack("{s:s, s:b, s:b, s:b, s:b}", "op", "exec", "background", background,
		"stdin_open", stdin_open, "changes", !background, "progress", !background);
	if (sandbox_ask(arguments, known, request, step, err) < 0)
		return -1;
	if (stdin_open && !background)
		return error_set(err, 0, "stdin_open: only with background; give stdin itself");
	program = read_program(arguments, err);
	if (!program)
		return -1;
	if (json_object_size(program) > 0 && !json_is_array(json_object_get(arguments, "command")))
		json_object_set(request, "program", program);
	json_decref(program);
	if (read_run(options, arguments, &step->spec, background, err) < 0)
		return -1;
	json_object_set_new(request, "spec", spec_to_json(&step->spec));
	if (!background)
		step->wait_ms += options->timeout_max_ms + COMPILERS_MS;
	return read_snapshot(options, arguments, request, err);
}

static const char *name_of(const json_t *entry)
{
	return json_string_value(json_is_object(entry) ? json_object_get(entry, "path") : entry) ?: "?";
}

/* What it changed, on a line for each kind. */
static void print_changes(FILE *out, const json_t *changes)
{
	static const char *const kinds[] = {"created", "modified", "deleted"};
	enum { SHOWN = 20 };

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		const json_t *list = json_object_get(changes, kinds[k]), *entry;
		size_t i;

		if (json_array_size(list) == 0)
			continue;
		fprintf(out, "[%s: ", kinds[k]);
		json_array_foreach(list, i, entry) {
			if (i == SHOWN)
				break;
			fprintf(out, "%s%s", i ? ", " : "", name_of(entry));
		}
		if (json_array_size(list) > SHOWN)
			fprintf(out, " and %zu more", json_array_size(list) - SHOWN);
		fputs("]\n", out);
	}
	if (json_is_string(json_object_get(changes, "incomplete")))
		fprintf(out, "[what changed is not known whole: %s]\n",
			json_string_value(json_object_get(changes, "incomplete")));
}

/* Where each can be read. */
static void add_uris(const char *id, json_t *list)
{
	json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry) {
		const char *path = json_string_value(json_object_get(entry, "path"));
		cleanup_free char *uri = path ? sandbox_resource_uri(id, path) : NULL;

		if (uri)
			json_object_set_new(entry, "uri", json_string(uri));
	}
}

static void add_changes(json_t *result, const char *id, json_t *changes)
{
	json_t *structured = json_object_get(result, "structuredContent");
	char *text = NULL;
	size_t length = 0;
	FILE *out;

	if (!structured || !json_is_object(changes))
		return;
	json_object_set(structured, "changes", changes);
	add_uris(id, json_object_get(changes, "created"));
	add_uris(id, json_object_get(changes, "modified"));
	out = open_memstream(&text, &length);
	if (!out)
		return;
	print_changes(out, changes);
	fclose(out);
	if (length > 1)
		json_array_append_new(json_object_get(result, "content"),
			json_pack("{s:s, s:s%}", "type", "text", "text", text, length - 1));
	free(text);
}

static json_t *finish(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const json_t *process = json_object_get(answer, "process");
	json_t *result;

	if (json_is_integer(process)) {
		long long number = json_integer_value(process);

		return sandbox_result(json_pack("{s:I}", "process_id", (json_int_t)number),
			"process_id: %lld\nIt runs in the background; process_output has what it writes.", number);
	}
	result = is_in_context(arguments) ? context_result(options, sandbox_id_of(arguments), answer, kept)
					  : execute_code_finish(options, EXECUTE_CODE_LASTING, answer, kept);
	/* The same for all of its calls: sandbox_initialize has told them. */
	json_object_del(json_object_get(result, "structuredContent"), "limits");
	json_object_del(json_object_get(result, "structuredContent"), "warnings");
	add_changes(result, sandbox_id_of(arguments), json_object_get(answer, "changes"));
	snapshot_add_result(result, answer);
	return result;
}

const struct tool tool_sandbox_exec = {
	.name = "sandbox_exec",
	.describe = describe,
	.prepare = prepare,
	.finish = finish,
	.runs_code = true,
};
