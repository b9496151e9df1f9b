/* SPDX-License-Identifier: MIT */
/* The arguments of a tool call: see arguments.h. */
#define _GNU_SOURCE
#include "mcp/arguments.h"

#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum { SHOWN_MAX = 60 /* bytes of a wrong value that are shown */ };

int argument_wrong(const char *name, const char *expected, const json_t *value, struct error *err)
{
	cleanup_free char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	size_t length = text ? strlen(text) : 0, shown = length;

	if (shown > SHOWN_MAX)
		shown = utf8_boundary_before(text, length, SHOWN_MAX);
	return error_set(err, 0, "%s: expected %s, got %.*s%s", name, expected, (int)shown,
		text ? text : "", shown < length ? "…" : "");
}

static bool contains(const char *const *names, const char *name)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

int arguments_refuse_unknown(
	const json_t *arguments, const char *const *known, const char *const *hidden, struct error *err)
{
	cleanup_free char *names = xstrdup("");
	const char *name;
	const json_t *value;

	json_object_foreach((json_t *)arguments, name, value)
	{
		if (contains(known, name) || (hidden && contains(hidden, name)))
			continue;
		for (const char *const *next = known; *next; next++) {
			cleanup_free char *before = names;

			names = xasprintf("%s%s%s", before, before[0] ? ", " : "", *next);
		}
		return error_set(err, 0, "unknown argument \"%.60s\"; this tool takes %s", name,
			names[0] ? names : "no arguments");
	}
	return 0;
}

static int find(const json_t *arguments, const char *name, bool required, const json_t **ret,
	const char *expected, struct error *err)
{
	*ret = json_object_get(arguments, name);
	if (!required && json_is_null(*ret))
		*ret = NULL; /* many clients say null for what is not given */
	if (*ret || !required)
		return 0;
	return error_set(err, 0, "%s: missing; expected %s", name, expected);
}

int argument_bytes(const json_t *arguments, const char *name, bool required, const char **ret,
	size_t *ret_length, struct error *err)
{
	const json_t *value;

	if (find(arguments, name, required, &value, "a string", err) < 0)
		return -1;
	if (value && !json_is_string(value))
		return argument_wrong(name, "a string", value, err);
	if (value) {
		*ret = json_string_value(value);
		*ret_length = json_string_length(value);
	}
	return 0;
}

const char *argument_text(const char *name, const json_t *value, struct error *err)
{
	if (!json_is_string(value)) {
		argument_wrong(name, "a string", value, err);
		return NULL;
	}
	if (strlen(json_string_value(value)) != json_string_length(value)) {
		argument_wrong(name, "a string without NUL characters", value, err);
		return NULL;
	}
	return json_string_value(value);
}

int argument_string(const json_t *arguments, const char *name, bool required, const char **ret,
	struct error *err)
{
	const json_t *value;
	const char *text;

	if (find(arguments, name, required, &value, "a string", err) < 0)
		return -1;
	if (!value)
		return 0;
	text = argument_text(name, value, err);
	if (!text)
		return -1;
	*ret = text;
	return 0;
}

int argument_number(const json_t *arguments, const char *name, const char *expected, double *ret,
	struct error *err)
{
	const json_t *value = json_object_get(arguments, name);

	if (value && !json_is_number(value))
		return argument_wrong(name, expected, value, err);
	if (value)
		*ret = json_number_value(value);
	return 0;
}

int argument_boolean(const json_t *arguments, const char *name, bool *ret, struct error *err)
{
	const json_t *value = json_object_get(arguments, name);

	if (value && !json_is_boolean(value))
		return argument_wrong(name, "true or false", value, err);
	if (value)
		*ret = json_is_true(value);
	return 0;
}

int argument_array(const json_t *arguments, const char *name, const json_t **ret, struct error *err)
{
	const json_t *value = json_object_get(arguments, name);

	if (value && !json_is_array(value))
		return argument_wrong(name, "an array of strings", value, err);
	if (value)
		*ret = value;
	return 0;
}

int argument_object(
	const json_t *arguments, const char *name, const json_t **ret, struct error *err)
{
	const json_t *value = json_object_get(arguments, name);

	if (value && !json_is_object(value))
		return argument_wrong(name, "an object whose values are strings", value, err);
	if (value)
		*ret = value;
	return 0;
}
