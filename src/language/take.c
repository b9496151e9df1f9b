/* SPDX-License-Identifier: MIT */
/* Values of a language's file: see take.h. */
#define _GNU_SOURCE
#include "language/take.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "language/definition.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { TIMEOUT_MAX_MS = 3600 * 1000 };

static const char *const distribution_keys[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DEBIAN] = "debian",
	[DISTRIBUTION_FEDORA] = "fedora",
	[DISTRIBUTION_ARCH] = "arch",
	[DISTRIBUTION_SUSE] = "suse",
	[DISTRIBUTION_ALPINE] = "alpine",
};

const char *json_type_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		break;
	}
	return "null";
}

int wrong_type(const char *key, const char *expected, const json_t *value, struct error *err)
{
	return error_set(err, 0, "%s: expected %s, not %s", key, expected, json_type_name(value));
}

int refuse_rest(json_t *object, const char *prefix, struct error *err)
{
	void *rest = json_object_iter(object);

	if (!rest)
		return 0;
	return error_set(err, 0, "%s%s: unknown key", prefix, json_object_iter_key(rest));
}

int take_string(json_t *object, const char *key, char **ret, struct error *err)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return error_set(err, 0, "%s: missing", key);
	if (!json_is_string(value))
		return wrong_type(key, "a string", value, err);
	if (json_string_length(value) == 0)
		return error_set(err, 0, "%s: an empty string", key);
	*ret = xstrdup(json_string_value(value));
	json_object_del(object, key);
	return 0;
}

int read_strings(const json_t *array, const char *key, char ***ret, struct error *err)
{
	const json_t *value;
	size_t i;

	if (!json_is_array(array))
		return wrong_type(key, "an array of strings", array, err);
	*ret = xcalloc(json_array_size(array) + 1, sizeof **ret);
	json_array_foreach(array, i, value)
	{
		if (!json_is_string(value))
			return error_set(err, 0, "%s[%zu]: expected a string, not %s", key, i,
				json_type_name(value));
		(*ret)[i] = xstrdup(json_string_value(value));
	}
	return 0;
}

int read_argv(const json_t *array, const char *key, char ***ret, struct error *err)
{
	if (!array)
		return error_set(err, 0, "%s: missing", key);
	if (read_strings(array, key, ret, err) < 0)
		return -1;
	if (!(*ret)[0] || !(*ret)[0][0])
		return error_set(err, 0, "%s: no program in it", key);
	return 0;
}

int take_phase(json_t *object, const char *key, char ***ret_argv, uint64_t *ret_timeout_ms,
	struct error *err)
{
	char name[32], prefix[32];
	json_t *phase = json_object_get(object, key);
	const json_t *timeout;

	snprintf(name, sizeof name, "%s.argv", key);
	snprintf(prefix, sizeof prefix, "%s.", key);
	if (!json_is_object(phase))
		return wrong_type(key, "an object", phase, err);
	if (read_argv(json_object_get(phase, "argv"), name, ret_argv, err) < 0)
		return -1;
	json_object_del(phase, "argv");
	timeout = ret_timeout_ms ? json_object_get(phase, "timeout_ms") : NULL;
	if (timeout) {
		if (!json_is_integer(timeout) || json_integer_value(timeout) < 1 ||
			json_integer_value(timeout) > TIMEOUT_MAX_MS)
			return error_set(err, 0,
				"%s.timeout_ms: expected milliseconds from 1 to %d", key,
				TIMEOUT_MAX_MS);
		*ret_timeout_ms = (uint64_t)json_integer_value(timeout);
		json_object_del(phase, "timeout_ms");
	}
	if (refuse_rest(phase, prefix, err) < 0)
		return -1;
	json_object_del(object, key);
	return 0;
}

static bool env_name_valid(const char *name)
{
	if (!isalpha((unsigned char)name[0]) && name[0] != '_')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

int take_env(json_t *object, struct environment *ret, struct error *err)
{
	json_t *env = json_object_get(object, "env");
	const json_t *value;
	const char *name;
	size_t count = 0;

	if (env && !json_is_object(env))
		return wrong_type("env", "an object", env, err);
	ret->names = xcalloc(json_object_size(env) + 1, sizeof *ret->names);
	ret->values = xcalloc(json_object_size(env) + 1, sizeof *ret->values);
	json_object_foreach(env, name, value)
	{
		if (!env_name_valid(name))
			return error_set(
				err, 0, "env.%s: not the name of an environment variable", name);
		if (!json_is_string(value))
			return error_set(err, 0, "env.%s: expected a string, not %s", name,
				json_type_name(value));
		ret->names[count] = xstrdup(name);
		ret->values[count++] = xstrdup(json_string_value(value));
	}
	json_object_del(object, "env");
	return 0;
}

static int read_packages(json_t *packages, struct need *need, struct error *err)
{
	if (!packages)
		return 0;
	if (!json_is_object(packages))
		return wrong_type("packages", "an object", packages, err);
	for (int i = 0; i < DISTRIBUTION_MAX; i++) {
		if (!json_object_get(packages, distribution_keys[i]))
			continue;
		if (take_string(packages, distribution_keys[i], &need->packages[i], err) < 0)
			return error_context(err, "packages");
	}
	return refuse_rest(packages, "packages.", err);
}

static int take_programs(json_t *object, struct need *need, struct error *err)
{
	const json_t *value = json_object_get(object, "program");

	if (!json_is_array(value)) {
		need->programs = xcalloc(2, sizeof *need->programs);
		if (take_string(object, "program", &need->programs[0], err) < 0)
			return -1;
	} else if (read_argv(value, "program", &need->programs, err) < 0) {
		return -1;
	}
	json_object_del(object, "program");
	for (char **program = need->programs; *program; program++)
		if (!(*program)[0] || strchr(*program, '/'))
			return error_set(err, 0,
				"program: \"%s\" is a path; expected a name to be looked up in PATH",
				*program);
	return 0;
}

static int read_need(json_t *object, struct need *need, struct error *err)
{
	if (!json_is_object(object))
		return error_set(err, 0, "expected an object, not %s", json_type_name(object));
	if (take_programs(object, need, err) < 0 ||
		read_packages(json_object_get(object, "packages"), need, err) < 0)
		return -1;
	json_object_del(object, "packages");
	return refuse_rest(object, "", err);
}

int take_needs(json_t *object, struct need **ret, size_t *ret_count, struct error *err)
{
	json_t *needs = json_object_get(object, "needs"), *value;
	size_t i;

	if (!needs)
		return 0;
	if (!json_is_array(needs))
		return wrong_type("needs", "an array of objects", needs, err);
	*ret = xcalloc(json_array_size(needs) + 1, sizeof **ret);
	*ret_count = json_array_size(needs);
	json_array_foreach(needs, i, value)
	{
		if (read_need(value, &(*ret)[i], err) < 0)
			return error_context(err, "needs[%zu]", i);
	}
	json_object_del(object, "needs");
	return 0;
}

static int read_text(const json_t *value, char **ret, struct error *err)
{
	const json_t *line;
	size_t i;

	if (json_is_string(value)) {
		*ret = xstrdup(json_string_value(value));
		return 0;
	}
	if (!json_is_array(value))
		return error_set(
			err, 0, "expected a string or an array of lines, not %s", json_type_name(value));
	*ret = xstrdup("");
	json_array_foreach(value, i, line)
	{
		cleanup_free char *before = *ret;

		*ret = NULL;
		if (!json_is_string(line))
			return error_set(
				err, 0, "[%zu]: expected a string, not %s", i, json_type_name(line));
		*ret = xasprintf("%s%s\n", before, json_string_value(line));
	}
	return 0;
}

int take_files(json_t *object, struct support_file **ret, size_t *ret_count, struct error *err)
{
	json_t *files = json_object_get(object, "files");
	const json_t *value;
	const char *name;

	if (files && !json_is_object(files))
		return wrong_type("files", "an object", files, err);
	*ret = xcalloc(json_object_size(files) + 1, sizeof **ret);
	json_object_foreach(files, name, value)
	{
		struct support_file *file = &(*ret)[(*ret_count)++];

		if (!name[0] || name[0] == '.' || strchr(name, '/'))
			return error_set(err, 0,
				"files: \"%s\": expected the name of a file, without folders",
				name);
		file->name = xstrdup(name);
		if (read_text(value, &file->text, err) < 0)
			return error_context(err, "files.%s", name);
	}
	json_object_del(object, "files");
	return 0;
}

void needs_free(struct need *needs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		strings_free(needs[i].programs);
		for (int d = 0; d < DISTRIBUTION_MAX; d++)
			free(needs[i].packages[d]);
	}
	free(needs);
}

void files_free(struct support_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(files[i].name);
		free(files[i].text);
	}
	free(files);
}

void environment_free(struct environment *env)
{
	strings_free(env->names);
	strings_free(env->values);
}
