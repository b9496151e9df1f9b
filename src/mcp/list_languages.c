/* SPDX-License-Identifier: MIT */
/*
 * The tool list_languages: which languages there are, with their versions, and what those lack that
 * cannot be used here. A version is what the toolchain itself says, in a sandbox: a run for each
 * language that is ready, one after the other. What one has said holds while its programs are the same.
 */
#define _GNU_SOURCE
#include "mcp/list_languages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/tools.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* {identity of a toolchain: its version}, of all that were asked since the server began. */
static json_t *known_versions;

static json_t *strings_to_json(char *const *strings)
{
	json_t *array = json_array();

	for (; strings && *strings; strings++)
		json_array_append_new(array, json_string(*strings));
	return array;
}

static void set_missing(json_t *entry, const struct error *err)
{
	json_object_set_new(entry, "missing", json_string(err->text));
	if (err->hint[0])
		json_object_set_new(entry, "remedy", json_string(err->hint));
}

static json_t *language_to_json(const struct language *language)
{
	json_t *entry = json_pack("{s:s, s:s, s:o, s:s}", "name", language_name(language), "title",
		language_title(language), "aliases", strings_to_json(language_aliases(language)),
		"root", "host");
	struct language_status status;
	struct spec spec;

	spec_init(&spec);
	language_status(language, &spec, &status);
	spec_free(&spec);
	json_object_set_new(entry, "ready", json_boolean(status.ready));
	if (status.ready)
		json_object_set_new(entry, "programs", strings_to_json(status.programs));
	else
		set_missing(entry, &status.missing);
	language_status_free(&status);
	return entry;
}

static void add_language(void *data, const char *name, const struct error *broken)
{
	json_t *list = data, *entry;
	struct language *language;
	struct error err = {0};

	if (!broken && language_load(name, &language, &err) == 0) {
		json_array_append_new(list, language_to_json(language));
		language_free(language);
		return;
	}
	entry = json_pack("{s:s, s:b}", "name", name, "ready", 0);
	set_missing(entry, broken ? broken : &err);
	json_array_append_new(list, entry);
}

json_t *languages_to_json(void)
{
	json_t *list = json_array();

	language_list(add_language, list);
	return list;
}

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

void languages_print(const json_t *languages, FILE *out)
{
	json_t *language;
	size_t i;

	json_array_foreach(languages, i, language)
	{
		const char *version = string_of(language, "version");
		const char *remedy = string_of(language, "remedy");

		fprintf(out, "language %s: ", string_of(language, "name"));
		if (json_is_true(json_object_get(language, "ready")))
			fprintf(out, "ready%s%s\n", *version ? ", version " : "", version);
		else
			fprintf(out, "%s%s%s\n", string_of(language, "missing"),
				*remedy ? " " : "", remedy);
	}
}

static json_t *output_schema(void)
{
	return json_pack(
		"{s:s, s:[s], s:{s:{s:s, s:s, s:{s:s, s:[s, s], s:{"
		"s:{s:s}, s:{s:s}, s:{s:s, s:{s:s}}, s:{s:s, s:s}, s:{s:s}, s:{s:s, s:s},"
		"s:{s:s, s:{s:s}}, s:{s:s, s:s}, s:{s:s, s:s}}}}}}",
		"type", "object", "required", "languages", "properties", "languages", "type",
		"array", "description", "In alphabetical order", "items", "type", "object",
		"required", "name", "ready", "properties", "name", "type", "string", "title",
		"type", "string", "aliases", "type", "array", "items", "type", "string", "root",
		"type", "string", "description", "Where its programs are: host", "ready", "type",
		"boolean", "version", "type", "string", "description",
		"Of its toolchain, where that says one", "programs", "type", "array", "items",
		"type", "string", "missing", "type", "string", "description",
		"What it lacks; absent when it is ready", "remedy", "type", "string",
		"description", "How to get what is missing");
}

static json_t *describe(const struct mcp_options *options)
{
	return json_pack(
		"{s:s, s:s, s:s, s:{s:s, s:b}, s:o, s:{s:b, s:b, s:b, s:b}}", "name",
		"list_languages", "title", "List languages", "description",
		"The languages that execute_code knows: which are ready on this host and in which version, and "
		"how to get what is missing for the others. Takes no arguments.",
		"inputSchema", "type", "object", "additionalProperties", 0, "outputSchema",
		output_schema(), "annotations", "readOnlyHint", 1, "destructiveHint", 0,
		"idempotentHint", 1, "openWorldHint", 0);
}

/*
 * ---- One run for each version that is not known: the state is the list, the identities of the toolchains in it, and
 * the number of the language whose turn it is ----
 */

static json_t *begin(const struct mcp_options *options, const json_t *arguments, struct error *err)
{
	static const char *const known[] = {NULL};

	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0)
		return NULL;
	return json_pack("{s:o, s:{}, s:i}", "languages", languages_to_json(), "identities", "turn", -1);
}

static void note_version(json_t *state, json_t *language, const json_t *run)
{
	const json_t *identity = json_object_get(
		json_object_get(state, "identities"), string_of(language, "name"));
	cleanup_free char *output = xasprintf("%s\n%s", string_of(run, "stdout"), string_of(run, "stderr"));
	char version[64];

	language_version_of(output, strlen(output), version, sizeof version);
	if (!version[0])
		return;
	json_object_set_new(language, "version", json_string(version));
	if (!known_versions)
		known_versions = json_object();
	json_object_set_new(known_versions, json_string_value(identity), json_string(version));
}

/* Sets the version where it is known. */
static bool is_known(json_t *state, json_t *entry, const struct language *language)
{
	struct language_status status;
	json_t *version = NULL;
	struct spec spec;

	spec_init(&spec);
	language_status(language, &spec, &status);
	spec_free(&spec);
	if (status.identity) {
		json_object_set_new(json_object_get(state, "identities"),
			language_name(language), json_string(status.identity));
		version = json_object_get(known_versions, status.identity);
	}
	language_status_free(&status);
	return version && json_object_set(entry, "version", version) == 0;
}

/* Whether there is a run that tells its version. */
static bool ask_version(json_t *state, json_t *entry, struct spec *spec)
{
	struct language *language;
	struct error err = {0};
	bool possible;

	if (!json_is_true(json_object_get(entry, "ready")) ||
		language_load(string_of(entry, "name"), &language, &err) < 0)
		return false;
	possible = !is_known(state, entry, language) &&
		   language_prepare_version(language, spec, &err) == 0 &&
		   spec_validate(spec, &err) == 0;
	language_free(language);
	return possible;
}

static bool next(json_t *state, const json_t *run, struct spec *spec)
{
	const json_t *languages = json_object_get(state, "languages");
	size_t turn = (size_t)(json_integer_value(json_object_get(state, "turn")) + 1);

	if (run)
		note_version(state, json_array_get(languages, turn - 1), run);
	for (; turn < json_array_size(languages); turn++) {
		spec_free(spec);
		spec_init(spec);
		if (!ask_version(state, json_array_get(languages, turn), spec))
			continue;
		json_object_set_new(state, "turn", json_integer((json_int_t)turn));
		return true;
	}
	return false;
}

static json_t *conclude(const json_t *state)
{
	json_t *languages = json_object_get(state, "languages"), *result = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (out) {
		languages_print(languages, out);
		fclose(out);
		result = tool_result(text, length, json_pack("{s:O}", "languages", languages));
	}
	free(text);
	return result;
}

const struct tool tool_list_languages = {
	.name = "list_languages",
	.describe = describe,
	.begin = begin,
	.next = next,
	.conclude = conclude,
};
