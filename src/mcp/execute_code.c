/* SPDX-License-Identifier: MIT */
/*
 * The tool execute_code: one program in a sandbox of its own.
 *
 * isError says that nsbox could not run the code. A program that fails, a compiler that refuses it, and a
 * limit that ends it are results: what a model needs is the output and how it ended, not a retry.
 * What a result looks like is in execute_code_result.c.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "image/root.h"
#include "language/language.h"
#include "language/root.h"
#include "mcp/arguments.h"
#include "mcp/dependencies.h"
#include "mcp/execute_code.h"
#include "mcp/run_arguments.h"
#include "mcp/schema.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

/* ---- What the tool looks like ---- */

static void add_language(void *data, const char *name, const struct error *broken)
{
	char **names = data;
	cleanup_free char *before = *names;

	*names =
		broken ? xstrdup(before) : xasprintf("%s%s%s", before, before[0] ? ", " : "", name);
}

static json_t *input_schema(const struct mcp_options *options)
{
	cleanup_free char *languages = xstrdup(""), *language = NULL, *timeout = NULL,
			  *memory = NULL, *image = run_describe_image(options),
			  *network = run_describe_network(options);
	char default_memory[64], max_memory[64];

	language_list(add_language, &languages);
	format_bytes(options->memory_default_bytes, default_memory, sizeof default_memory);
	format_bytes(options->memory_max_bytes, max_memory, sizeof max_memory);
	language = xasprintf("The language of the code: %s", languages);
	timeout = xasprintf(
		"Wall time in seconds, more than 0, at most %g; %g if not given. A compiler has its own",
		(double)options->timeout_max_ms / 1000, (double)options->timeout_default_ms / 1000);
	memory = xasprintf(
		"Memory of the program with all of its files, such as \"512m\" or \"1g\"; at most %s; %s if not given",
		max_memory, default_memory);
	const struct schema_field fields[] = {
		{"code", "string", "The whole source text of the program", true},
		{"language", "string", language, true},
		{"dependencies", "string[]", DEPENDENCIES_DESCRIPTION, false},
		{"stdin", "string", "Standard input of the program; empty if not given", false},
		{"args", "string[]", "Arguments of the program", false},
		{"env", "string{}", "Environment variables of the program", false},
		{"files", "string{}", "Files that are there when the program starts: path relative to its working directory, to text",
			false},
		{"timeout", "number", timeout, false},
		{"memory_limit", "string", memory, false},
		{"image", "string", image, false},
		{"network", "string", network, false},
		{"explain", "boolean",
			"Name the system calls that the sandbox refused: for a program that fails with EPERM or ENOSYS; it costs some time",
			false},
		{0}};
	return schema_object(fields, true);
}

static json_t *property(const char *type, const char *description)
{
	return json_pack("{s:s, s:s}", "type", type, "description", description);
}

json_t *execute_code_output_schema(void)
{
	static const struct {
		const char *name, *type, *description;
	} properties[] = {
		{"ended_by", "string", "exited, signaled, timeout, oom or disk"},
		{"exit_code", "integer",
			"The program's exit code; absent when it did not exit by itself"},
		{"signal", "string", "The signal that ended it; absent when none did"},
		{"phase", "string", "compile when the compiler was the last to run, else run"},
		{"message", "string",
			"How it ended and which limits it met; absent when there is nothing to say"},
		{"stdout", "string",
			"Standard output; invalid UTF-8 is U+FFFD, a long middle is left out"},
		{"stderr", "string", "Standard error, likewise"},
		{"stdout_bytes", "integer", "Bytes that were written in all"},
		{"stderr_bytes", "integer", "Bytes that were written in all"},
		{"stdout_omitted_bytes", "integer", "Bytes that were left out of stdout"},
		{"stderr_omitted_bytes", "integer", "Bytes that were left out of stderr"},
		{"stdout_base64", "string", "The exact bytes, where stdout is not UTF-8"},
		{"stderr_base64", "string", "The exact bytes, where stderr is not UTF-8"},
		{"compiler_output", "string", "What the compiler of a program that was run wrote"},
		{"images", "array",
			"The images that were returned as content, in their order: name, mime_type, bytes"},
		{"files", "array",
			"The other files that it left in /workspace, new or changed: path, size in bytes, uri of a resource"},
		{"files_omitted", "integer", "Files more that were left out; absent where none was"},
		{"limits_hit", "array",
			"The limits that were met: limit, value, used, unit, known_from, message"},
		{"limits", "object", "Each limit: value, unit, enforced_by"},
		{"usage", "object",
			"wall_ms, cpu_user_ms, cpu_system_ms, memory_peak_bytes, pids_peak, disk_used_bytes"},
		{"refused", "array",
			"With explain, the system calls that the sandbox's filter refused, the first 64 that differ: "
			"syscall, number, arguments, error, count, message; absent without it"},
		{"network_allowed", "array", "With network, the hosts that were reached: HOST:PORT"},
		{"network_blocked", "array", "With network, what was not allowed: host, why, count, and the rule that would allow it"},
		{"network_failed", "array", "With network, what was allowed and could not be reached: host, why, count"},
		{"network_omitted", "integer", "Hosts more than have room in these lists"},
		{"hint", "string", "That explain may tell why it failed; absent when it would not"},
		{"root", "string", "Where it ran: host, with the host's toolchain, or the name of an image"},
		{"root_digest", "string", "Of that image's manifest; absent for host"},
		{"warnings", "array", "Where this host's sandbox is weaker than usual"},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
		json_object_set_new(object, properties[i].name,
			property(properties[i].type, properties[i].description));
	json_object_set_new(json_object_get(object, "limits_hit"), "items",
		json_pack("{s:s}", "type", "object"));
	json_object_set_new(json_object_get(object, "network_allowed"), "items", json_pack("{s:s}", "type", "string"));
	for (size_t i = 0; i < 2; i++)
		json_object_set_new(json_object_get(object, i ? "network_failed" : "network_blocked"), "items",
			json_pack("{s:s}", "type", "object"));
	json_object_set_new(
		json_object_get(object, "images"), "items", json_pack("{s:s}", "type", "object"));
	json_object_set_new(
		json_object_get(object, "files"), "items", json_pack("{s:s}", "type", "object"));
	json_object_set_new(
		json_object_get(object, "refused"), "items", json_pack("{s:s}", "type", "object"));
	json_object_set_new(
		json_object_get(object, "warnings"), "items", json_pack("{s:s}", "type", "string"));
	return json_pack("{s:s, s:[s, s, s, s, s, s, s, s, s, s, s, s, s], s:o}", "type", "object",
		"required", "ended_by", "phase", "stdout", "stderr", "stdout_bytes", "stderr_bytes",
		"stdout_omitted_bytes", "stderr_omitted_bytes", "limits_hit", "limits", "usage",
		"root", "warnings", "properties", object);
}

/* What a call cannot choose. */
static struct limits fixed_limits(const struct mcp_options *options)
{
	struct limits limits;
	struct spec spec;

	spec_init(&spec);
	if (options->config)
		config_apply_to_spec(options->config, &spec);
	limits = spec.limits;
	spec_free(&spec);
	return limits;
}

static json_t *describe(const struct mcp_options *options)
{
	const struct limits limits = fixed_limits(options);
	char memory[64], disk[64];
	cleanup_free char *text = NULL;

	format_bytes(options->memory_default_bytes, memory, sizeof memory);
	format_bytes(limits.disk_bytes, disk, sizeof disk);
	text = xasprintf(
		"Runs a program in a fresh sandbox on this host and returns its output, its exit code and the limits "
		"that it met. %s, none of the host's files, nothing kept from one call to the next but installed dependencies; the "
		"working directory /workspace is writable. Limits: %s of memory and %g s unless given, %s of "
		"files, %d processes; of each output stream the first and last %d bytes are returned, the whole "
		"is a resource; PNG, JPEG, GIF and WebP files that it leaves in /workspace are returned as images, "
		"other files (100, 64 MiB in all) as resources. A program "
		"that exits with a code other than 0, does not compile or meets a limit is a normal result; isError "
		"means that it could not be run.",
		network_ceiling_allows_any(&options->network) ? "No network but what the argument network names" : "No network",
		memory, (double)options->timeout_default_ms / 1000, disk, (int)limits.pids,
		EXECUTE_CODE_KEPT_BYTES / 2);
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}", "name",
		"execute_code", "title", "Run code in a sandbox", "description", text,
		"inputSchema", input_schema(options), "outputSchema", execute_code_output_schema(),
		"annotations", "readOnlyHint", 0, "destructiveHint", 0, "idempotentHint", 0,
		"openWorldHint", !options->network.none);
}

/* ---- Arguments ---- */

/* A relative path whose every part is a name. */
static bool path_is_plain(const char *path)
{
	if (strlen(path) > 4000)
		return false;
	for (;;) {
		size_t length = strcspn(path, "/");

		if (length == 0 || length > 255 || (length == 1 && path[0] == '.') ||
			(length == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (!path[length])
			return true;
		path += length + 1;
	}
}

static int add_files(const json_t *arguments, struct spec *spec, struct error *err)
{
	const char *path, *source = spec->files[0].path;
	const json_t *files = NULL, *value;

	if (argument_object(arguments, "files", &files, err) < 0)
		return -1;
	json_object_foreach((json_t *)files, path, value)
	{
		cleanup_free char *whole = xasprintf("/workspace/%s", path);

		if (!json_is_string(value)) {
			cleanup_free char *name = xasprintf("files.%.80s", path);

			return argument_wrong(name, "the file's text", value, err);
		}
		if (!path_is_plain(path))
			return error_set(err, 0,
				"files: \"%.80s\": expected a path relative to the working "
				"directory, such as \"data/in.csv\", without \"..\"",
				path);
		if (strcmp(whole, source) == 0)
			return error_set(err, 0,
				"files: \"%.80s\" is where the code itself is written", path);
		spec_add_file(spec, whole, json_string_value(value), json_string_length(value), 0);
		source = spec->files[0].path; /* the array may have moved */
	}
	return 0;
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct step *step,
	struct error *err)
{
	static const char *const known[] = {"code", "language", "stdin", "args", "env", "files",
		"dependencies", "timeout", "memory_limit", "image", "network", "explain", NULL};
	const char *name = NULL, *code = NULL;
	cleanup_free char **args = NULL;
	struct spec *spec = &step->spec;
	struct language *language;
	struct exec_spec *exec;
	size_t length = 0;
	uint64_t timeout_ms = 0;
	int result;

	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0 ||
		argument_bytes(arguments, "code", true, &code, &length, err) < 0 ||
		argument_string(arguments, "language", true, &name, err) < 0 ||
		run_argument_timeout(options, arguments, &timeout_ms, err) < 0 ||
		run_argument_memory(options, arguments, &spec->limits.memory_bytes, err) < 0 ||
		run_argument_network(options, arguments, spec, err) < 0 ||
		run_argument_args(arguments, &args, err) < 0 ||
		argument_boolean(arguments, "explain", &spec->explain, err) < 0)
		return -1;
	if (language_load(name, &language, err) < 0)
		return error_context(err, "language");
	spec->capture = true;
	spec->collect_images = true;
	spec->collect_files = true;
	spec->keep_output = true;
	spec->limits.output_bytes = EXECUTE_CODE_KEPT_BYTES;
	step->kind = STEP_RUN;
	result = run_argument_root(options, language, arguments, spec, &step->image, err);
	if (result > 0)
		step->kind = STEP_PULL;
	if (result == 0)
		result = run_argument_dependencies(options, language, arguments, false, step, err);
	if (result == 0) {
		result = language_prepare(language, code, length, args, timeout_ms, spec, err);
		if (result < 0)
			run_argument_remedy(options, language, spec, arguments, err);
	}
	language_free(language);
	if (result != 0)
		return result < 0 ? -1 : 0;
	for (size_t i = 0; options->config && i < spec->execs_count; i++)
		config_apply_to_exec(options->config, &spec->execs[i]);
	exec = &spec->execs[spec->execs_count - 1];
	if (run_argument_stdin(arguments, exec, err) < 0 || run_argument_env(arguments, exec, err) < 0)
		return -1;
	return add_files(arguments, spec, err);
}

static char *cold_language(const json_t *arguments, const struct spec *spec)
{
	const char *name = json_string_value(json_object_get(arguments, "language"));
	struct language *language;
	struct error err;
	char *cold = NULL;

	if (!name || language_load(name, &language, &err) < 0)
		return NULL;
	if (language_wants_cache(language, spec))
		cold = xstrdup(language_name(language));
	language_free(language);
	return cold;
}

static json_t *finish(const struct mcp_options *options, const json_t *arguments,
	const json_t *run, const struct output *kept)
{
	return execute_code_finish(options, EXECUTE_CODE_ONCE, run, kept);
}

const struct tool tool_execute_code = {
	.name = "execute_code",
	.describe = describe,
	.prepare = prepare,
	.finish = finish,
	.cold_language = cold_language,
	.runs_code = true,
};
