/* SPDX-License-Identifier: MIT */
/*
 * The tool list_languages: which languages there are, with their versions, and what those lack that
 * cannot be used here: on the host, in an image of the store, and so in the one of both that execute_code takes. A version
 * is what the toolchain itself says, in a sandbox: a run for each toolchain that is ready, one after the other. What one
 * has said holds while its programs, or its image, are the same.
 */
#define _GNU_SOURCE
#include "mcp/list_languages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "image/root.h"
#include "language/language.h"
#include "language/root.h"
#include "mcp/arguments.h"
#include "mcp/server.h"
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

/* How the language stands in the root of `spec`. */
static json_t *standing_to_json(const struct language *language, const struct spec *spec)
{
	struct language_status status;
	json_t *object;

	language_status(language, spec, &status);
	object = json_pack("{s:b}", "ready", status.ready);
	if (status.ready)
		json_object_set_new(object, "programs", strings_to_json(status.programs));
	else
		set_missing(object, &status.missing);
	language_status_free(&status);
	return object;
}

/* The image in the store, or that there is none and how to get one. */
static json_t *image_to_json(const struct language *language)
{
	cleanup_free char *missing = NULL, *remedy = language_image_remedy(language);
	struct error err = {0};
	struct spec spec;
	json_t *object;

	spec_init(&spec);
	if (language_choose_root(language, IMAGE_POLICY_STORED, false, &spec, &missing, &err) < 0) {
		object = json_pack("{s:b}", "ready", 0);
		set_missing(object, &err);
	} else if (spec.root == ROOT_IMAGE) {
		object = standing_to_json(language, &spec);
		json_object_set_new(object, "name", json_string(spec.root_path));
		json_object_set_new(object, "digest", json_string(spec.root_digest));
	} else {
		object = json_pack("{s:b, s:s, s:s*}", "ready", 0, "missing",
			"no image of it is in the store", "remedy", remedy);
	}
	spec_free(&spec);
	return object;
}

/* What execute_code takes: at the top of the entry, too. */
static const char *used_part(const json_t *entry)
{
	const char *root = json_string_value(json_object_get(entry, "root"));

	return root && strcmp(root, "host") == 0 ? "host" : "image";
}

static json_t *language_to_json(const struct mcp_options *options, const struct language *language)
{
	json_t *entry = json_pack("{s:s, s:s, s:o}", "name", language_name(language), "title",
		language_title(language), "aliases", strings_to_json(language_aliases(language)));
	json_t *image = image_to_json(language), *name = json_object_get(image, "name"), *host;
	bool takes_image = name && options->image_policy != IMAGE_POLICY_HOST;
	struct spec spec;

	spec_init(&spec);
	host = standing_to_json(language, &spec);
	spec_free(&spec);
	json_object_update(entry, takes_image ? image : host);
	json_object_set_new(entry, "name", json_string(language_name(language)));
	json_object_set_new(entry, "contexts", json_boolean(language_has_contexts(language)));
	json_object_set_new(entry, "root", takes_image ? json_incref(name) : json_string("host"));
	json_object_set_new(entry, "host", host);
	json_object_set_new(entry, "image", image);
	return entry;
}

struct listing {
	const struct mcp_options *options;
	json_t *list;
};

static void add_language(void *data, const char *name, const struct error *broken)
{
	struct listing *listing = data;
	struct language *language;
	struct error err = {0};
	json_t *entry;

	if (!broken && language_load(name, &language, &err) == 0) {
		json_array_append_new(listing->list, language_to_json(listing->options, language));
		language_free(language);
		return;
	}
	entry = json_pack("{s:s, s:b}", "name", name, "ready", 0);
	set_missing(entry, broken ? broken : &err);
	json_array_append_new(listing->list, entry);
}

json_t *languages_to_json(const struct mcp_options *options)
{
	struct listing listing = {.options = options, .list = json_array()};

	language_list(add_language, &listing);
	return listing.list;
}

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

static void print_ready(const json_t *language, FILE *out)
{
	const char *version = string_of(language, "version"), *root = string_of(language, "root");
	const json_t *image = json_object_get(language, "image");

	fprintf(out, "ready%s%s", *version ? ", version " : "", version);
	if (strcmp(root, "host") != 0)
		fprintf(out, ", in the image %s", root);
	else if (*string_of(image, "name"))
		fprintf(out, ", on the host; the image %s is there, too", string_of(image, "name"));
	else
		fprintf(out, ", on the host");
	fputs(json_is_true(json_object_get(language, "contexts")) ? "; it has contexts\n" : "\n", out);
}

void languages_print(const json_t *languages, FILE *out)
{
	json_t *language;
	size_t i;

	json_array_foreach(languages, i, language)
	{
		const char *remedy = string_of(language, "remedy");
		const char *image = string_of(json_object_get(language, "image"), "remedy");

		fprintf(out, "language %s: ", string_of(language, "name"));
		if (json_is_true(json_object_get(language, "ready"))) {
			print_ready(language, out);
			continue;
		}
		fprintf(out, "%s%s%s", string_of(language, "missing"), *remedy ? " " : "", remedy);
		fprintf(out, "%s%s\n", *image ? " Or have it in an image: " : "", image);
	}
}

static json_t *property(const char *type, const char *description)
{
	return json_pack("{s:s, s:s}", "type", type, "description", description);
}

static json_t *strings_property(const char *description)
{
	json_t *object = property("array", description);

	json_object_set_new(object, "items", json_pack("{s:s}", "type", "string"));
	return object;
}

static json_t *output_schema(void)
{
	json_t *properties = json_object();

	json_object_set_new(
		properties, "name", property("string", "What execute_code takes as language"));
	json_object_set_new(properties, "title", property("string", "What people call it"));
	json_object_set_new(properties, "aliases", strings_property("Other names"));
	json_object_set_new(properties, "root",
		property("string", "Where execute_code runs it: host, or the name of an image"));
	json_object_set_new(properties, "ready", property("boolean", "Whether it can run there"));
	json_object_set_new(properties, "version",
		property("string", "Of its toolchain there, where that says one"));
	json_object_set_new(properties, "programs", strings_property("Of its toolchain there"));
	json_object_set_new(properties, "digest", property("string", "Of the image's manifest"));
	json_object_set_new(properties, "missing",
		property("string", "What it lacks there; absent when it is ready"));
	json_object_set_new(properties, "remedy", property("string", "How to get what is missing"));
	json_object_set_new(properties, "contexts",
		property("boolean", "Whether sandbox_exec keeps an interpreter of it between calls (context)"));
	json_object_set_new(properties, "host",
		property("object",
			"With the host's toolchain: ready, version, programs, missing, remedy"));
	json_object_set_new(properties, "image",
		property("object",
			"In the image that is in the store: name, digest, ready, version, programs, missing, remedy"));
	return json_pack("{s:s, s:[s], s:{s:{s:s, s:s, s:{s:s, s:[s, s], s:o}}}}", "type", "object",
		"required", "languages", "properties", "languages", "type", "array", "description",
		"In alphabetical order", "items", "type", "object", "required", "name", "ready",
		"properties", properties);
}

static json_t *describe(const struct mcp_options *options)
{
	return json_pack("{s:s, s:s, s:s, s:{s:s, s:b}, s:o, s:{s:b, s:b, s:b, s:b}}", "name",
		"list_languages", "title", "List languages", "description",
		"The languages that execute_code knows: which are ready, in which version, with the host's toolchain or in "
		"which image, which have contexts (sandbox_exec), and how to get what is missing for the others. Takes no arguments.",
		"inputSchema", "type", "object", "additionalProperties", 0, "outputSchema",
		output_schema(), "annotations", "readOnlyHint", 1, "destructiveHint", 0,
		"idempotentHint", 1, "openWorldHint", 0);
}

/*
 * ---- One run for each version that is not known: the state is the list, the identities of the toolchains in it, and
 * the turn: the number of the language twice, and one more where it is the image's turn and not the host's ----
 */

static const char *const parts[] = {"host", "image"};

static json_t *begin(const struct mcp_options *options, const json_t *arguments, struct error *err)
{
	static const char *const known[] = {NULL};

	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0)
		return NULL;
	return json_pack("{s:o, s:{}, s:i}", "languages", languages_to_json(options), "identities",
		"turn", -1);
}

static json_t *part_of_turn(const json_t *state, size_t turn, json_t **ret_entry)
{
	*ret_entry = json_array_get(json_object_get(state, "languages"), turn / 2);
	return json_object_get(*ret_entry, parts[turn % 2]);
}

static void set_version(json_t *entry, size_t turn, json_t *version)
{
	json_object_set(json_object_get(entry, parts[turn % 2]), "version", version);
	if (strcmp(used_part(entry), parts[turn % 2]) == 0)
		json_object_set(entry, "version", version);
}

static void identity_key(const json_t *entry, size_t turn, char *ret, size_t size)
{
	snprintf(ret, size, "%s %s", string_of(entry, "name"), parts[turn % 2]);
}

static void note_version(json_t *state, size_t turn, const json_t *run)
{
	cleanup_free char *output =
		xasprintf("%s\n%s", string_of(run, "stdout"), string_of(run, "stderr"));
	char version[64], key[64];
	const json_t *identity;
	json_t *entry, *text;

	part_of_turn(state, turn, &entry);
	identity_key(entry, turn, key, sizeof key);
	identity = json_object_get(json_object_get(state, "identities"), key);
	language_version_of(output, strlen(output), version, sizeof version);
	if (!version[0])
		return;
	text = json_string(version);
	set_version(entry, turn, text);
	if (!known_versions)
		known_versions = json_object();
	json_object_set_new(known_versions, json_string_value(identity), text);
}

/* Sets the version where it is known. */
static bool is_known(json_t *state, json_t *entry, size_t turn, const struct language *language,
	const struct spec *spec)
{
	struct language_status status;
	json_t *version = NULL;
	char key[64];

	language_status(language, spec, &status);
	identity_key(entry, turn, key, sizeof key);
	if (status.identity) {
		json_object_set_new(
			json_object_get(state, "identities"), key, json_string(status.identity));
		version = json_object_get(known_versions, status.identity);
	}
	language_status_free(&status);
	if (version)
		set_version(entry, turn, version);
	return version;
}

/* Whether there is a run that tells the version of this turn's toolchain. */
static bool ask_version(json_t *state, size_t turn, struct spec *spec)
{
	json_t *entry, *part = part_of_turn(state, turn, &entry);
	const char *image = json_string_value(json_object_get(part, "name"));
	cleanup_free char *missing = NULL;
	struct language *language;
	struct error err = {0};
	bool possible;

	if (!json_is_true(json_object_get(part, "ready")) ||
		language_load(string_of(entry, "name"), &language, &err) < 0)
		return false;
	possible = (!image || image_choose_root(image, false, spec, &missing, &err) == 0) &&
		   !is_known(state, entry, turn, language, spec) &&
		   language_prepare_version(language, spec, &err) == 0 &&
		   spec_validate(spec, &err) == 0;
	language_free(language);
	return possible;
}

static bool next(json_t *state, const json_t *run, struct step *step)
{
	struct spec *spec = &step->spec;
	size_t count = 2 * json_array_size(json_object_get(state, "languages"));
	size_t turn = (size_t)(json_integer_value(json_object_get(state, "turn")) + 1);

	if (run)
		note_version(state, turn - 1, run);
	for (; turn < count; turn++) {
		spec_free(spec);
		spec_init(spec);
		if (!ask_version(state, turn, spec))
			continue;
		json_object_set_new(state, "turn", json_integer((json_int_t)turn));
		step->kind = STEP_RUN;
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
	.runs_code = true,
};
