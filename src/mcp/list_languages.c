/* SPDX-License-Identifier: MIT */
/*
 * The tool list_languages: which languages there are, and what those lack that cannot be used here.
 */
#define _GNU_SOURCE
#include "mcp/list_languages.h"

#include <stdbool.h>
#include <stdlib.h>

#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/tools.h"
#include "sandbox/spec.h"
#include "util/error.h"

static bool language_usable(const char *name, struct error *err)
{
	struct language *language;
	struct spec spec;
	int result;

	if (language_load(name, &language, err) < 0)
		return false;
	spec_init(&spec);
	result = language_prepare(language, "", 0, NULL, 0, &spec, err);
	spec_free(&spec);
	language_free(language);
	return result == 0;
}

static void add_language(void *data, const char *name, const struct error *broken)
{
	json_t *list = data, *entry;
	struct error err = {0};
	bool usable = !broken && language_usable(name, &err);

	entry = json_pack("{s:s, s:b}", "name", name, "usable", (int)usable);
	if (!usable)
		json_object_set_new(entry, "reason", json_string(broken ? broken->text : err.text));
	if (!usable && !broken && err.hint[0])
		json_object_set_new(entry, "remedy", json_string(err.hint));
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
		bool usable = json_is_true(json_object_get(language, "usable"));
		const char *remedy = string_of(language, "remedy");

		fprintf(out, "language %s: %s%s%s\n", string_of(language, "name"),
			usable ? "ok" : string_of(language, "reason"), *remedy ? " " : "", remedy);
	}
}

static json_t *describe(const struct mcp_options *options)
{
	return json_pack(
		"{s:s, s:s, s:s, s:{s:s, s:b}, s:{s:s, s:[s], s:{s:{s:s, s:s, s:{s:s}}}}, s:{s:b, s:b, s:b, s:b}}",
		"name", "list_languages", "title", "List languages", "description",
		"The languages that execute_code knows: which can be used on this host, and how to get what "
		"is missing for the others. Takes no arguments.",
		"inputSchema", "type", "object", "additionalProperties", 0, "outputSchema", "type",
		"object", "required", "languages", "properties", "languages", "type", "array",
		"description", "Each: name, usable; reason and remedy where it is not", "items",
		"type", "object", "annotations", "readOnlyHint", 1, "destructiveHint", 0,
		"idempotentHint", 1, "openWorldHint", 0);
}

static json_t *answer(const struct mcp_options *options, const json_t *arguments, struct error *err)
{
	static const char *const known[] = {NULL};
	json_t *languages, *result = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *out;

	if (arguments_refuse_unknown(arguments, known, err) < 0)
		return NULL;
	languages = languages_to_json();
	out = open_memstream(&text, &length);
	if (out) {
		languages_print(languages, out);
		fclose(out);
		result = tool_result(text, length, json_pack("{s:O}", "languages", languages));
	}
	free(text);
	json_decref(languages);
	return result;
}

const struct tool tool_list_languages = {
	.name = "list_languages",
	.describe = describe,
	.answer = answer,
};
