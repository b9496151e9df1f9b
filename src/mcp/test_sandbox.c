/* SPDX-License-Identifier: MIT */
/*
 * The tool test_sandbox: what works on this host. It is proven by a run: `true` in a sandbox as
 * execute_code makes them. What a failing run has to say (a cause, and the command that mends it) is the
 * tool's result, not an error of the tool.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "config.h"
#include "mcp/arguments.h"
#include "mcp/list_languages.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static json_t *output_schema(void)
{
	static const struct {
		const char *name, *type, *description;
	} properties[] = {
		{"works", "boolean", "Whether code can be run"},
		{"reason", "string", "Why not; absent when it works"},
		{"remedy", "string",
			"What to do about it; absent when nothing is known, or needed"},
		{"version", "string", "Of nsbox"},
		{"kernel", "string", "Of the host"},
		{"machine", "string", "Architecture of the host"},
		{"cpus", "integer", "That sandboxes may use"},
		{"memory_bytes", "integer", "Of the host"},
		{"setup_ms", "number",
			"From nothing to the start of a program; absent when it does not work"},
		{"sandbox", "object",
			"The walls: root, network, seccomp, ids inside and on the host, cgroup"},
		{"limits", "object",
			"Each limit of a call that asks for none: value, unit, enforced_by"},
		{"maximum", "object",
			"What a call may ask for: memory_bytes, timeout_ms, and the calls that run at a time"},
		{"warnings", "array", "Where this host's sandbox is weaker than usual"},
		{"languages", "array", "Each: name, ready, and what is missing where it is not"},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
		json_object_set_new(object, properties[i].name,
			json_pack("{s:s, s:s}", "type", properties[i].type, "description",
				properties[i].description));
	json_object_set_new(
		json_object_get(object, "warnings"), "items", json_pack("{s:s}", "type", "string"));
	json_object_set_new(json_object_get(object, "languages"), "items",
		json_pack("{s:s}", "type", "object"));
	return json_pack("{s:s, s:[s, s, s, s, s], s:o}", "type", "object", "required", "works",
		"version", "kernel", "maximum", "languages", "properties", object);
}

static json_t *describe(const struct mcp_options *options)
{
	(void)options;
	return json_pack("{s:s, s:s, s:s, s:{s:s, s:b, s:{}}, s:o, s:{s:b, s:b, s:b, s:b}}", "name",
		"test_sandbox", "title", "Test the sandbox", "description",
		"Tells what works on this host and how to mend what does not: starts a sandbox to prove it, and lists "
		"how each limit is enforced, what a call may ask for, and which languages are there. Takes well "
		"under a second, changes nothing, has no arguments.",
		"inputSchema", "type", "object", "additionalProperties", 0, "properties",
		"outputSchema", output_schema(), "annotations", "readOnlyHint", 1,
		"destructiveHint", 0, "idempotentHint", 1, "openWorldHint", 0);
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct step *step,
	struct error *err)
{
	static const char *const known[] = {NULL};
	struct spec *spec = &step->spec;
	struct exec_spec *exec = &spec->execs[0];

	step->kind = STEP_RUN;
	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0)
		return -1;
	spec->limits.memory_bytes = options->memory_default_bytes;
	spec->capture = true;
	spec->execs_count = 1;
	exec->phase = "run";
	exec->timeout_ms = options->timeout_default_ms;
	exec->stdin_kind = STDIN_NULL;
	exec_add_arg(exec, "true");
	exec_set_env(exec, "PATH", "/usr/bin:/bin");
	return 0;
}

/* ---- The result ---- */

static void set_host(json_t *object)
{
	struct utsname host;
	struct sysinfo memory;
	cpu_set_t cpus;

	if (uname(&host) == 0) {
		json_object_set_new(object, "kernel", json_string(host.release));
		json_object_set_new(object, "machine", json_string(host.machine));
	}
	if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
		json_object_set_new(object, "cpus", json_integer(CPU_COUNT(&cpus)));
	if (sysinfo(&memory) == 0)
		json_object_set_new(object, "memory_bytes",
			json_integer((json_int_t)memory.totalram * (json_int_t)memory.mem_unit));
}

/* Whether `true` was run and said so. */
static void set_outcome(json_t *object, const json_t *run)
{
	const json_t *code = json_object_get(run, "exit_code"),
		     *error = json_object_get(run, "error");
	bool works = json_is_integer(code) && json_integer_value(code) == 0;
	json_t *reason = json_object_get(error, "text"), *remedy = json_object_get(error, "hint");

	json_object_set_new(object, "works", json_boolean(works));
	if (works) {
		json_object_set(object, "setup_ms",
			json_object_get(json_object_get(run, "timing"), "setup_ms"));
		return;
	}
	if (!json_is_string(reason))
		reason = json_object_get(run, "message");
	json_object_set(object, "reason",
		json_is_string(reason) ? reason : json_object_get(run, "ended_by"));
	if (json_is_string(remedy))
		json_object_set(object, "remedy", remedy);
}

static json_t *structured(const struct mcp_options *options, const json_t *run)
{
	static const char *const copied[] = {"sandbox", "limits", "warnings"};
	json_t *object = json_object();

	set_outcome(object, run);
	json_object_set_new(object, "version", json_string(PACKAGE_VERSION));
	set_host(object);
	for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
		json_object_set(object, copied[i], json_object_get(run, copied[i]));
	json_object_set_new(object, "maximum",
		json_pack("{s:I, s:I, s:i}", "memory_bytes", (json_int_t)options->memory_max_bytes,
			"timeout_ms", (json_int_t)options->timeout_max_ms, "parallel",
			(int)options->parallel_max));
	json_object_set_new(object, "languages", languages_to_json(options));
	return object;
}

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

static void print_limits(FILE *out, const json_t *object)
{
	const char *name;
	json_t *limit;

	json_object_foreach(json_object_get(object, "limits"), name, limit)
	{
		const json_t *value = json_object_get(limit, "value");
		const char *unit = string_of(limit, "unit");
		char text[64];

		if (!json_is_number(value))
			continue;
		snprintf(text, sizeof text, "%g %s", json_number_value(value), unit);
		if (strcmp(unit, "bytes") == 0)
			format_bytes((uint64_t)json_integer_value(value), text, sizeof text);
		if (strcmp(unit, "ms") == 0)
			format_duration_ms((uint64_t)json_integer_value(value), text, sizeof text);
		fprintf(out, "limit %s: %s, enforced by %s\n", name, text,
			string_of(limit, "enforced_by"));
	}
}

static void print_text(FILE *out, const struct mcp_options *options, const json_t *object)
{
	json_t *warning;
	char memory[64], timeout[64];
	size_t i;

	if (json_is_true(json_object_get(object, "works")))
		fprintf(out, "The sandbox works: a program started in %.1f ms.\n",
			json_number_value(json_object_get(object, "setup_ms")));
	else
		fprintf(out, "The sandbox does not work: %s\n%s\n", string_of(object, "reason"),
			string_of(object, "remedy"));
	fprintf(out, "nsbox %s, Linux %s, %s\n", PACKAGE_VERSION, string_of(object, "kernel"),
		string_of(object, "machine"));
	print_limits(out, object);
	format_bytes(options->memory_max_bytes, memory, sizeof memory);
	format_duration_ms(options->timeout_max_ms, timeout, sizeof timeout);
	fprintf(out,
		"a call may ask for: memory_limit up to %s, timeout up to %s; %u calls run at a time\n",
		memory, timeout, options->parallel_max);
	json_array_foreach(json_object_get(object, "warnings"), i, warning)
	{
		fprintf(out, "warning: %s\n", json_string_value(warning));
	}
	languages_print(json_object_get(object, "languages"), out);
}

static json_t *finish(const struct mcp_options *options, const json_t *arguments,
	const json_t *run, const struct output *kept)
{
	json_t *object = structured(options, run), *result = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (out) {
		print_text(out, options, object);
		fclose(out);
		result = tool_result(text, length, json_incref(object));
	}
	free(text);
	json_decref(object);
	return result;
}

const struct tool tool_test_sandbox = {
	.name = "test_sandbox",
	.describe = describe,
	.prepare = prepare,
	.finish = finish,
	.runs_code = true,
};
