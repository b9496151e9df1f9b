/* SPDX-License-Identifier: MIT */
/*
 * The tool execute_code: one program in a sandbox of its own.
 *
 * isError says that nsbox could not run the code. A program that fails, a compiler that refuses it, and a
 * limit that ends it are results: what a model needs is the output and how it ended, not a retry.
 * What a result looks like is in execute_code_result.c.
 */
#define _GNU_SOURCE
#include <fnmatch.h>
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
#include "mcp/execute_code.h"
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

/* What a call may name as its image; malloc'd. */
static char *describe_image(const struct mcp_options *options)
{
	cleanup_free char *allowed = xstrdup("those that list_languages names");

	for (char *const *pattern = options->allow_images; pattern && *pattern; pattern++) {
		cleanup_free char *before = allowed;

		allowed = xasprintf("%s, %s", before, *pattern);
	}
	return xasprintf("An OCI image to run it in; usually not given: then it runs in the language's own image where that "
			 "is on this machine, else with the host's toolchain. Allowed are %s; %s",
		allowed, options->allow_pull ? "one that is not on this machine is fetched"
					     : "it must be on this machine already");
}

static json_t *input_schema(const struct mcp_options *options)
{
	cleanup_free char *languages = xstrdup(""), *language = NULL, *timeout = NULL,
			  *memory = NULL, *image = describe_image(options);
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
	return json_pack(
		"{s:s, s:b, s:[s, s], s:{"
		"s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s, s:{s:s}}, s:{s:s, s:s, s:{s:s}},"
		"s:{s:s, s:s, s:{s:s}}, s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s, s:[s]}, s:{s:s, s:s}}}",
		"type", "object", "additionalProperties", 0, "required", "code", "language",
		"properties", "code", "type", "string", "description",
		"The whole source text of the program", "language", "type", "string", "description",
		language, "stdin", "type", "string", "description",
		"Standard input of the program; empty if not given", "args", "type", "array",
		"description", "Arguments of the program", "items", "type", "string", "env", "type",
		"object", "description", "Environment variables of the program",
		"additionalProperties", "type", "string", "files", "type", "object", "description",
		"Files that are there when the program starts: path relative to its working directory, to text",
		"additionalProperties", "type", "string", "timeout", "type", "number",
		"description", timeout, "memory_limit", "type", "string", "description", memory,
		"image", "type", "string", "description", image, "network", "type", "string", "description",
		"Only \"none\" is allowed: the program has no network", "enum", "none", "explain",
		"type", "boolean", "description",
		"Name the system calls that the sandbox refused: for a program that fails with EPERM or ENOSYS; it costs some time");
}

static json_t *property(const char *type, const char *description)
{
	return json_pack("{s:s, s:s}", "type", type, "description", description);
}

static json_t *output_schema(void)
{
	static const struct {
		const char *name, *type, *description;
	} properties[] = {
		{"ended_by", "string", "exited, signaled, timeout or oom"},
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
		{"limits_hit", "array",
			"The limits that were met: limit, value, used, unit, known_from, message"},
		{"limits", "object", "Each limit: value, unit, enforced_by"},
		{"usage", "object",
			"wall_ms, cpu_user_ms, cpu_system_ms, memory_peak_bytes, pids_peak, disk_used_bytes"},
		{"refused", "array",
			"With explain, the system calls that the sandbox's filter refused, the first 64 that differ: "
			"syscall, number, arguments, error, count, message; absent without it"},
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
	json_object_set_new(
		json_object_get(object, "images"), "items", json_pack("{s:s}", "type", "object"));
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
		"that it met. No network, none of the host's files, nothing kept from one call to the next; the "
		"working directory /workspace is writable. Limits: %s of memory and %g s unless given, %s of "
		"files, %d processes; of each output stream the first and last %d bytes are returned, the whole "
		"is a resource; PNG, JPEG, GIF and WebP files that it leaves in /workspace are returned as images. A program "
		"that exits with a code other than 0, does not compile or meets a limit is a normal result; isError "
		"means that it could not be run.",
		memory, (double)options->timeout_default_ms / 1000, disk, (int)limits.pids,
		EXECUTE_CODE_KEPT_BYTES / 2);
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}", "name",
		"execute_code", "title", "Run code in a sandbox", "description", text,
		"inputSchema", input_schema(options), "outputSchema", output_schema(),
		"annotations", "readOnlyHint", 0, "destructiveHint", 0, "idempotentHint", 0,
		"openWorldHint", 0);
}

/* ---- Arguments ---- */

static int read_timeout(const struct mcp_options *options, const json_t *arguments,
	uint64_t *ret_ms, struct error *err)
{
	double seconds = (double)options->timeout_default_ms / 1000;
	char given[64], max[64];

	if (argument_number(arguments, "timeout", "a number of seconds", &seconds, err) < 0)
		return -1;
	if (!(seconds > 0))
		return argument_wrong("timeout", "a number of seconds above 0",
			json_object_get(arguments, "timeout"), err);
	if (seconds * 1000 > (double)options->timeout_max_ms) {
		snprintf(given, sizeof given, "%g s", seconds);
		format_duration_ms(options->timeout_max_ms, max, sizeof max);
		error_set(
			err, 0, "timeout: %s is above the %s that this server allows", given, max);
		return error_hint(
			err, "Whoever starts the server can raise that with --max-timeout.");
	}
	*ret_ms = seconds * 1000 < 1 ? 1 : (uint64_t)(seconds * 1000);
	return 0;
}

static int read_memory(const struct mcp_options *options, const json_t *arguments,
	uint64_t *ret_bytes, struct error *err)
{
	const char *text = NULL;
	char given[64], max[64];

	*ret_bytes = options->memory_default_bytes;
	if (argument_string(arguments, "memory_limit", false, &text, err) < 0 ||
		(text && parse_size("memory_limit", text, ret_bytes, err) < 0))
		return -1;
	if (*ret_bytes <= options->memory_max_bytes)
		return 0;
	format_bytes(*ret_bytes, given, sizeof given);
	format_bytes(options->memory_max_bytes, max, sizeof max);
	error_set(err, 0, "memory_limit: %s is above the %s that this server allows", given, max);
	return error_hint(err, "Whoever starts the server can raise that with --max-memory.");
}

static int read_network(const json_t *arguments, struct error *err)
{
	const char *network = "none";

	if (argument_string(arguments, "network", false, &network, err) < 0)
		return -1;
	if (strcmp(network, "none") == 0)
		return 0;
	argument_wrong("network", "\"none\", which is all that this server allows",
		json_object_get(arguments, "network"), err);
	return error_hint(
		err, "The program runs without a network; pass what it needs as files or stdin.");
}

/* Models know the argument from other servers, so it is not unknown: nothing can be installed is the answer. */
static int refuse_dependencies(const json_t *arguments, struct error *err)
{
	const json_t *packages = NULL;

	if (argument_array(arguments, "dependencies", &packages, err) < 0)
		return -1;
	if (json_array_size(packages) == 0)
		return 0;
	error_set(err, 0, "dependencies: this version of nsbox cannot install packages yet");
	return error_hint(err,
		"Leave dependencies out and use what comes with the language; nothing was run.");
}

static int read_args(const json_t *arguments, char ***ret, struct error *err)
{
	const json_t *array = NULL, *value;
	size_t i;

	if (argument_array(arguments, "args", &array, err) < 0)
		return -1;
	*ret = xcalloc(json_array_size(array) + 1, sizeof **ret);
	json_array_foreach(array, i, value)
	{
		char name[32];
		const char *text;

		snprintf(name, sizeof name, "args[%zu]", i);
		text = argument_text(name, value, err);
		if (!text)
			return -1;
		(*ret)[i] = (char *)text;
	}
	return 0;
}

static int set_env(const json_t *arguments, struct exec_spec *exec, struct error *err)
{
	const json_t *env = NULL, *value;
	const char *name;

	if (argument_object(arguments, "env", &env, err) < 0)
		return -1;
	json_object_foreach((json_t *)env, name, value)
	{
		const char *text;
		char shown[80];

		snprintf(shown, sizeof shown, "env.%.60s", name);
		if (!name[0] || strchr(name, '='))
			return error_set(
				err, 0, "env: \"%.60s\" cannot be the name of a variable", name);
		text = argument_text(shown, value, err);
		if (!text)
			return -1;
		exec_set_env(exec, name, text);
	}
	return 0;
}

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

static int set_stdin(const json_t *arguments, struct exec_spec *exec, struct error *err)
{
	const char *text = NULL;
	size_t length = 0;

	if (argument_bytes(arguments, "stdin", false, &text, &length, err) < 0)
		return -1;
	exec->stdin_kind = length > 0 ? STDIN_DATA : STDIN_NULL;
	if (length > 0) {
		exec->stdin_data = xmemdup(text, length);
		exec->stdin_length = length;
	}
	return 0;
}

/*
 * A star in the first part, which may be a host, ends with it: «python*» is not «python.example/x». After that it stands for
 * slashes too, as in a pattern for all that an owner has.
 */
static bool name_matches(const char *pattern, const char *name)
{
	size_t first = strcspn(pattern, "/"), length = strcspn(name, "/");
	cleanup_free char *host_pattern = xmemdup(pattern, first), *host = xmemdup(name, length);

	return !pattern[first] == !name[length] && fnmatch(host_pattern, host, 0) == 0 &&
	       (!pattern[first] || fnmatch(pattern + first + 1, name + length + 1, 0) == 0);
}

/*
 * Languages' own images need no permission: whoever installed their files has given it. A pattern may be of the whole name
 * or of the short one, where that leaves «:latest» out with it or without.
 */
static bool image_is_allowed(
	const struct mcp_options *options, const struct language *language, const struct reference *reference)
{
	char whole[REFERENCE_MAX + 1], brief[REFERENCE_MAX + 1];
	cleanup_free char *latest = xasprintf("%s%s", reference_format_short(reference, brief),
		!reference->digest[0] && strcmp(reference->tag, "latest") == 0 ? ":latest" : "");

	reference_format(reference, whole);
	for (char *const *pattern = options->allow_images; pattern && *pattern; pattern++)
		if (name_matches(*pattern, whole) || name_matches(*pattern, brief) ||
			name_matches(*pattern, latest))
			return true;
	return language_has_image(language, whole) || languages_have_image(whole);
}

static int check_image(const struct mcp_options *options, const struct language *language, const char *image,
	struct reference *ret, struct error *err)
{
	char name[REFERENCE_MAX + 1];

	if (reference_parse(image, ret, err) < 0)
		return error_context(err, "image");
	if (image_is_allowed(options, language, ret))
		return 0;
	error_set(err, 0, "image: %s is not among the images that this server allows",
		reference_format_short(ret, name));
	return error_hint(err, "Whoever starts the server can allow it with --allow-image; without image the code runs "
			       "in the language's own, or with the host's toolchain.");
}

/* An image that is not in the store: 1 with its name in *pull where it may be fetched. */
static int missing_image(const struct mcp_options *options, const char *name, struct error *err)
{
	struct reference reference;

	if (reference_parse(name, &reference, err) < 0)
		return -1;
	if (options->allow_pull && !reference_is_local(&reference))
		return 1;
	image_missing(&reference, err);
	error_context(err, "image");
	if (reference_is_local(&reference))
		return -1;
	return error_hint(err, "Whoever starts the server can allow that it is fetched with --allow-pull, or fetch it with: "
			       "nsbox pull %s",
		name);
}

/* The root of the spec: what the call names, else what the server's policy chooses. As tool.prepare. */
static int choose_root(const struct mcp_options *options, const struct language *language,
	const json_t *arguments, struct spec *spec, char **ret_pull, struct error *err)
{
	enum image_policy policy = options->image_policy;
	cleanup_free char *missing = NULL;
	const char *image = NULL;
	struct reference reference;
	int r;

	/* What a person's runs may fetch, a model's may not: that takes --allow-pull. */
	if (policy == IMAGE_POLICY_PULL && !options->allow_pull)
		policy = IMAGE_POLICY_STORED;
	if (argument_string(arguments, "image", false, &image, err) < 0 ||
		(image && check_image(options, language, image, &reference, err) < 0))
		return -1;
	r = image ? image_choose_root(image, false, spec, &missing, err)
		  : language_choose_root(language, policy, false, spec, &missing, err);
	if (r > 0)
		r = missing_image(options, missing, err);
	if (r > 0) {
		*ret_pull = missing;
		missing = NULL;
	}
	return r;
}

/* What there is to do where the toolchain is missing in what was chosen. */
static void add_remedy(const struct mcp_options *options, const struct language *language, const struct spec *spec,
	const json_t *arguments, struct error *err)
{
	if (spec->root == ROOT_HOST && options->image_policy != IMAGE_POLICY_HOST)
		language_add_image_hint(language, err);
	if (spec->root == ROOT_IMAGE && !err->hint[0])
		error_hint(err, json_object_get(arguments, "image")
					? "Name another image, or none: then the language's own, or the host's toolchain, is taken."
					: "Whoever runs the server can remove it: nsbox images rm %s",
			spec->root_path);
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct spec *spec,
	char **ret_pull, struct error *err)
{
	static const char *const known[] = {"code", "language", "stdin", "args", "env", "files",
		"timeout", "memory_limit", "image", "network", "explain", NULL};
	const char *name = NULL, *code = NULL;
	cleanup_free char **args = NULL;
	struct language *language;
	struct exec_spec *exec;
	size_t length = 0;
	uint64_t timeout_ms = 0;
	int result;

	if (arguments_refuse_unknown(arguments, known, "dependencies", err) < 0 ||
		argument_bytes(arguments, "code", true, &code, &length, err) < 0 ||
		argument_string(arguments, "language", true, &name, err) < 0 ||
		read_timeout(options, arguments, &timeout_ms, err) < 0 ||
		read_memory(options, arguments, &spec->limits.memory_bytes, err) < 0 ||
		read_network(arguments, err) < 0 || refuse_dependencies(arguments, err) < 0 ||
		read_args(arguments, &args, err) < 0 ||
		argument_boolean(arguments, "explain", &spec->explain, err) < 0)
		return -1;
	if (language_load(name, &language, err) < 0)
		return error_context(err, "language");
	spec->capture = true;
	spec->collect_images = true;
	spec->keep_output = true;
	spec->limits.output_bytes = EXECUTE_CODE_KEPT_BYTES;
	result = choose_root(options, language, arguments, spec, ret_pull, err);
	if (result == 0) {
		result = language_prepare(language, code, length, args, timeout_ms, spec, err);
		if (result < 0)
			add_remedy(options, language, spec, arguments, err);
	}
	language_free(language);
	if (result != 0)
		return result;
	for (size_t i = 0; options->config && i < spec->execs_count; i++)
		config_apply_to_exec(options->config, &spec->execs[i]);
	exec = &spec->execs[spec->execs_count - 1];
	if (set_stdin(arguments, exec, err) < 0 || set_env(arguments, exec, err) < 0)
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

const struct tool tool_execute_code = {
	.name = "execute_code",
	.describe = describe,
	.prepare = prepare,
	.finish = execute_code_finish,
	.cold_language = cold_language,
};
