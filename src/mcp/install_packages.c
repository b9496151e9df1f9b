/* SPDX-License-Identifier: MIT */
/* The tool install_packages: packages of a language for a sandbox that lasts. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/dependencies.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum { OUTPUT_MAX_BYTES = 10000 };

static json_t *describe(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD,
		{"packages", "string[]",
			"As the language's package manager names them, with or without a version: requests==2.32.3, lodash@4, "
			"org.example:lib:1.2",
			true},
		{"language", "string", "Whose packages they are; the sandbox's own language if not given", false}, {0}};
	static const struct schema_field output[] = {
		{"sandbox_id", "string", "The sandbox", true},
		{"packages", "string[]", "What was asked for, and is installed", true},
		{"output", "string", "What the package manager wrote; of much the end; empty where nothing had to be fetched", true},
		{0}};
	json_t *tool = schema_tool("install_packages", "Install packages in a sandbox",
		"Installs packages of a language with its own package manager, for what runs in the sandbox and comes to run in it. "
		"It happens in a sandbox of its own, which reaches the registries of the language and nothing else, and sees "
		"nothing of this one, whose code gets no network by it. The first packages of a language in a sandbox are kept: the "
		"next sandbox with the same ones gets a copy. Where it fails, isError has what the package manager says. "
		"Packages of the system (apt:NAME) are named in dependencies of sandbox_initialize.",
		schema_object(input, true), schema_object(output, false), 0);

	json_object_set_new(json_object_get(tool, "annotations"), "openWorldHint", json_boolean(!options->network.none));
	return tool;
}

static int check_names(const struct mcp_options *options, const json_t *arguments, json_t **ret, struct error *err)
{
	json_t *system;
	int r = dependencies_read(options, arguments, "packages", ret, &system, err);

	if (r == 0 && json_array_size(system) > 0) {
		error_set(err, 0, "packages: " DEPENDENCIES_SYSTEM "%s: a sandbox that is there keeps the system that it has",
			json_string_value(json_array_get(system, 0)));
		r = error_hint(err, "Make another one, with dependencies of sandbox_initialize.");
	} else if (r == 0 && json_array_size(*ret) == 0) {
		r = error_set(err, 0, "packages: missing; expected an array of at least one name");
	}
	json_decref(system);
	return r;
}

static int prepare(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "packages", "language", NULL};
	struct language *language = NULL;
	const char *name = NULL;

	if (sandbox_ask(arguments, known, json_object(), step, err) < 0 ||
		argument_string(arguments, "language", false, &name, err) < 0 ||
		check_names(options, arguments, &step->packages, err) < 0)
		return -1;
	if (name && language_load(name, &language, err) < 0)
		return error_context(err, "language");
	step->kind = STEP_INSTALL;
	step->language = language ? xstrdup(language_name(language)) : NULL;
	language_free(language);
	return 0;
}

static json_t *finish(const struct mcp_options *options, const json_t *arguments, const json_t *answer, const struct output *kept)
{
	const json_t *output = json_object_get(answer, "output"), *packages = json_object_get(arguments, "packages");
	const char *text = json_string_value(output) ?: "";
	bool from_store = json_is_true(json_object_get(answer, "from_store"));
	size_t length = strlen(text), from = 0;

	(void)options, (void)kept;
	if (length > OUTPUT_MAX_BYTES)
		from = utf8_boundary_after(text, length, length - OUTPUT_MAX_BYTES);
	return sandbox_result(json_pack("{s:s, s:O, s:s}", "sandbox_id", sandbox_id_of(arguments), "packages", packages, "output",
				      text + from),
		"%s%s[%zu installed%s]", text + from, length > 0 && text[length - 1] != '\n' ? "\n" : "", json_array_size(packages),
		from_store ? ": nothing had to be fetched" : "");
}

const struct tool tool_install_packages = {
	.name = "install_packages",
	.describe = describe,
	.prepare = prepare,
	.finish = finish,
	.runs_code = true,
};
