/* SPDX-License-Identifier: MIT */
/* The tool sandbox_initialize: a sandbox that lasts, for sandbox_exec and the tools of files and processes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/dependencies.h"
#include "mcp/run_arguments.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "report/report.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { TTL_DEFAULT_S = 60 * 60, TTL_MAX_S = 24 * 60 * 60 };

static const char *const known[] = {
	"language", "dependencies", "image", "timeout", "memory_limit", "network", "ttl", "env", NULL};

static json_t *input_schema(const struct mcp_options *options)
{
	cleanup_free char *image = run_describe_image(options), *network = run_describe_network(options), *timeout = NULL, *memory = NULL;
	char default_memory[64], max_memory[64];

	format_bytes(options->memory_default_bytes, default_memory, sizeof default_memory);
	format_bytes(options->memory_max_bytes, max_memory, sizeof max_memory);
	timeout = xasprintf(
		"Wall time in seconds of a sandbox_exec that names none, at most %g; %g if not given",
		(double)options->timeout_max_ms / 1000, (double)options->timeout_default_ms / 1000);
	memory = xasprintf(
		"Memory of all that runs in it at a time, with its files, such as \"512m\" or \"1g\"; at most %s; %s if not given",
		max_memory, default_memory);
	const struct schema_field fields[] = {
		{"language", "string",
			"The language of code that names none, as in list_languages; it may be in an image of its own. "
			"Without it the host's toolchains can all be used",
			false},
		{"dependencies", "string[]", "Packages of the language that are installed in it first, as install_packages does; "
			"\"apt:NAME\" is one of the system, in an image with apt", false},
		{"image", "string", image, false},
		{"timeout", "number", timeout, false},
		{"memory_limit", "string", memory, false},
		{"network", "string", network, false},
		{"ttl", "number",
			"Seconds without a call that names it, after which it ends; at most 86400; 3600 if not given", false},
		{"env", "string{}", "Environment variables of all that runs in it", false},
		{0}};
	return schema_object(fields, true);
}

static json_t *describe(const struct mcp_options *options)
{
	static const struct schema_field output[] = {
		{"sandbox_id", "string", "The sandbox, for the other tools", true},
		{"root", "string", "host, with the host's toolchains, or the name of an image", true},
		{"root_digest", "string", "Of that image's manifest; absent for host", false},
		{"language", "string", "Of code that names none; absent where there is none", false},
		{"workspace", "string", "Where commands start and relative paths begin", true},
		{"ends_when_idle_s", "number", "It ends after so long without a call that names it", true},
		{"ends_after_s", "number", "It ends after so long anyway", true},
		{"limits", "object", "Each limit: value, unit, enforced_by", true},
		{"warnings", "string[]", "Where this host's sandbox is weaker than usual", true},
		{0}};
	cleanup_free char *text = xasprintf(
		"Makes a sandbox that lasts, and returns its sandbox_id: files that one call leaves in it, the next one finds. "
		"%s, none of the host's files. It ends with sandbox_stop, after an hour without a call that names it "
		"(ttl), and after 24 hours anyway; it outlives this server, and sandbox_list finds it again. At most %u at a "
		"time. For one program that needs nothing kept, execute_code is simpler.",
		network_ceiling_allows_any(&options->network) ? "No network but what the argument network names" : "No network",
		options->sessions_max);

	return schema_tool("sandbox_initialize", "Make a sandbox that lasts", text,
		input_schema(options), schema_object(output, false), 0);
}

static int read_ttl(const json_t *arguments, uint64_t *ret_ms, struct error *err)
{
	double seconds = TTL_DEFAULT_S;

	if (argument_number(arguments, "ttl", "a number of seconds", &seconds, err) < 0)
		return -1;
	if (!(seconds > 0) || seconds > TTL_MAX_S)
		return argument_wrong("ttl", "a number of seconds above 0, at most 86400",
			json_object_get(arguments, "ttl"), err);
	*ret_ms = seconds < 0.001 ? 1 : (uint64_t)(seconds * 1000);
	return 0;
}

/* What commands begin with, in the root that was chosen. */
static int prepare_commands(const struct mcp_options *options, const struct language *language,
	const json_t *arguments, struct spec *spec, struct error *err)
{
	struct exec_spec *exec = &spec->execs[0];

	spec->execs_count = 1;
	exec->phase = "run";
	exec->cwd = xstrdup("/workspace");
	exec->stdin_kind = STDIN_NULL;
	exec_add_arg(exec, "true"); /* never run: a session begins without a command */
	if (language_prepare_lasting(language, spec, err) < 0) {
		if (language)
			run_argument_remedy(options, language, spec, arguments, err);
		return -1;
	}
	if (options->config)
		config_apply_to_exec(options->config, exec);
	return run_argument_env(arguments, exec, err);
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct step *step,
	struct error *err)
{
	struct session_options *session = &step->options;
	struct language *language = NULL;
	struct spec *spec = &step->spec;
	const char *name = NULL;
	int r;

	*session = (struct session_options){.life_ms = SESSION_LIFE_DEFAULT_MS,
		.shared = true,
		.shared_max = options->sessions_max};
	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0 ||
		argument_string(arguments, "language", false, &name, err) < 0 ||
		run_argument_timeout(options, arguments, &session->timeout_ms, err) < 0 ||
		run_argument_memory(options, arguments, &spec->limits.memory_bytes, err) < 0 ||
		run_argument_network(options, arguments, spec, err) < 0 ||
		read_ttl(arguments, &session->idle_ms, err) < 0)
		return -1;
	if (name && language_load(name, &language, err) < 0)
		return error_context(err, "language");
	if (language)
		snprintf(session->language, sizeof session->language, "%s", language_name(language));
	step->kind = STEP_CREATE;
	spec->session = true;
	spec->packages = !options->network.none;
	r = run_argument_root(options, language, arguments, spec, &step->image, err);
	if (r > 0)
		step->kind = STEP_PULL;
	if (r == 0)
		r = run_argument_dependencies(options, language, arguments, true, step, err);
	if (r == 0)
		r = prepare_commands(options, language, arguments, spec, err);
	language_free(language);
	return r < 0 ? -1 : 0;
}

static json_t *finish(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const json_t *sandbox = json_object_get(answer, "sandbox");
	const char *id = json_string_value(json_object_get(answer, "id")) ?: "";
	const char *root = json_string_value(json_object_get(sandbox, "root")) ?: "";
	const char *digest = json_string_value(json_object_get(sandbox, "root_digest"));
	const char *name = json_string_value(json_object_get(arguments, "language"));
	struct language *language = NULL;
	uint64_t ttl_ms = 0;
	struct error err;
	json_t *object;

	(void)options, (void)kept;
	read_ttl(arguments, &ttl_ms, &err);
	object = json_pack("{s:s, s:s, s:s, s:f, s:f, s:O, s:O}", "sandbox_id", id, "root", root,
		"workspace", "/workspace", "ends_when_idle_s", (double)ttl_ms / 1000, "ends_after_s",
		(double)SESSION_LIFE_DEFAULT_MS / 1000, "limits", json_object_get(answer, "limits"),
		"warnings", json_object_get(answer, "warnings"));
	if (digest)
		json_object_set_new(object, "root_digest", json_string(digest));
	if (name && language_load(name, &language, &err) == 0)
		json_object_set_new(object, "language", json_string(language_name(language)));
	language_free(language);
	return sandbox_result(object,
		"sandbox_id: %s\nIt has %s%s and begins in /workspace; it ends after %.0f s without a call that names it.", id,
		strcmp(root, "host") == 0 ? "the host's toolchains" : "the root of the image ",
		strcmp(root, "host") == 0 ? "" : root, (double)ttl_ms / 1000);
}

const struct tool tool_sandbox_initialize = {
	.name = "sandbox_initialize",
	.describe = describe,
	.prepare = prepare,
	.finish = finish,
	.runs_code = true,
};
