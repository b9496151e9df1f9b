/* SPDX-License-Identifier: MIT */
/* Arguments of tools that run code: see run_arguments.h. */
#define _GNU_SOURCE
#include "mcp/run_arguments.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/root.h"
#include "language/language.h"
#include "language/root.h"
#include "mcp/arguments.h"
#include "mcp/server.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

/* What a call may name as its image; malloc'd. */
char *run_describe_image(const struct mcp_options *options)
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

int run_argument_timeout(const struct mcp_options *options, const json_t *arguments,
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

int run_argument_memory(const struct mcp_options *options, const json_t *arguments,
	uint64_t *ret_bytes, struct error *err)
{
	const char *text = NULL;
	char given[64], max[64];

	*ret_bytes = options->memory_default_bytes;
	if (json_is_number(json_object_get(arguments, "memory_limit")))
		return argument_wrong("memory_limit", "a size in a string, such as \"512m\" or \"1g\"",
			json_object_get(arguments, "memory_limit"), err);
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

int run_argument_args(const json_t *arguments, char ***ret, struct error *err)
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

int run_argument_env(const json_t *arguments, struct exec_spec *exec, struct error *err)
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

int run_argument_stdin(const json_t *arguments, struct exec_spec *exec, struct error *err)
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
	return (language && language_has_image(language, whole)) || languages_have_image(whole);
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
int run_argument_root(const struct mcp_options *options, const struct language *language,
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
	  : language ? language_choose_root(language, policy, false, spec, &missing, err)
		     : 0;
	if (r > 0)
		r = missing_image(options, missing, err);
	if (r > 0) {
		*ret_pull = missing;
		missing = NULL;
	}
	return r;
}

/* What there is to do where the toolchain is missing in what was chosen. */
void run_argument_remedy(const struct mcp_options *options, const struct language *language, const struct spec *spec,
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
