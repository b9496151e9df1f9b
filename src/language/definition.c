/* SPDX-License-Identifier: MIT */
/*
 * Reads a language's file: see definition.h.
 *
 * Each key is taken out of the object when it has been read, so that what is left at the end is
 * unknown, and refused: a misspelt key must not be silently without effect.
 */
#define _GNU_SOURCE
#include "language/definition.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "image/reference.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	FILE_MAX = 64 << 10, /* bytes */
	NAME_MAX_LENGTH = 32,
	COMPILE_TIMEOUT_DEFAULT_MS = 30 * 1000,
	CACHE_TIMEOUT_DEFAULT_MS = 600 * 1000,
	COMPILE_TIMEOUT_MAX_MS = 3600 * 1000,
};

static const char *const distribution_keys[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DEBIAN] = "debian",
	[DISTRIBUTION_FEDORA] = "fedora",
	[DISTRIBUTION_ARCH] = "arch",
	[DISTRIBUTION_SUSE] = "suse",
	[DISTRIBUTION_ALPINE] = "alpine",
};

int definition_name_valid(const char *text)
{
	if (!islower((unsigned char)text[0]) || strlen(text) > NAME_MAX_LENGTH)
		return 0;
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+#.-")] == '\0';
}

static const char *type_name(const json_t *value)
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

static int wrong_type(const char *key, const char *expected, const json_t *value, struct error *err)
{
	return error_set(err, 0, "%s: expected %s, not %s", key, expected, type_name(value));
}

/* The first key that is left in `object` is one that nobody knows. */
static int refuse_rest(json_t *object, const char *prefix, struct error *err)
{
	void *rest = json_object_iter(object);

	if (!rest)
		return 0;
	return error_set(err, 0, "%s%s: unknown key", prefix, json_object_iter_key(rest));
}

/* Takes the string `key`, which must not be empty, out of `object`. */
static int take_string(json_t *object, const char *key, char **ret, struct error *err)
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

static int read_strings(const json_t *array, const char *key, char ***ret, struct error *err)
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
				type_name(value));
		(*ret)[i] = xstrdup(json_string_value(value));
	}
	return 0;
}

static int read_argv(const json_t *array, const char *key, char ***ret, struct error *err)
{
	if (!array)
		return error_set(err, 0, "%s: missing", key);
	if (read_strings(array, key, ret, err) < 0)
		return -1;
	if (!(*ret)[0] || !(*ret)[0][0])
		return error_set(err, 0, "%s: no program in it", key);
	return 0;
}

/* Takes {argv, timeout_ms} out of `object`; timeout_ms only where ret_timeout_ms is given. */
static int take_phase(json_t *object, const char *key, char ***ret_argv, uint64_t *ret_timeout_ms,
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
			json_integer_value(timeout) > COMPILE_TIMEOUT_MAX_MS)
			return error_set(err, 0,
				"%s.timeout_ms: expected milliseconds from 1 to %d", key,
				COMPILE_TIMEOUT_MAX_MS);
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

static int take_env(json_t *object, struct environment *ret, struct error *err)
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
				type_name(value));
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
		return error_set(err, 0, "expected an object, not %s", type_name(object));
	if (take_programs(object, need, err) < 0 ||
		read_packages(json_object_get(object, "packages"), need, err) < 0)
		return -1;
	json_object_del(object, "packages");
	return refuse_rest(object, "", err);
}

static int take_needs(json_t *object, struct toolchain *toolchain, struct error *err)
{
	json_t *needs = json_object_get(object, "needs"), *value;
	size_t i;

	if (!needs)
		return 0;
	if (!json_is_array(needs))
		return wrong_type("needs", "an array of objects", needs, err);
	toolchain->needs = xcalloc(json_array_size(needs) + 1, sizeof *toolchain->needs);
	toolchain->needs_count = json_array_size(needs);
	json_array_foreach(needs, i, value)
	{
		if (read_need(value, &toolchain->needs[i], err) < 0)
			return error_context(err, "needs[%zu]", i);
	}
	json_object_del(object, "needs");
	return 0;
}

/* Takes the keys of a toolchain, without env, out of `object`. */
static int take_toolchain(json_t *object, struct toolchain *toolchain, struct error *err)
{
	toolchain->compile_timeout_ms = COMPILE_TIMEOUT_DEFAULT_MS;
	if (json_object_get(object, "compile") &&
		take_phase(object, "compile", &toolchain->compile_argv,
			&toolchain->compile_timeout_ms, err) < 0)
		return -1;
	if (!json_object_get(object, "run"))
		return error_set(err, 0, "run: missing");
	if (take_phase(object, "run", &toolchain->run_argv, NULL, err) < 0)
		return -1;
	if (json_object_get(object, "version") &&
		read_argv(json_object_get(object, "version"), "version", &toolchain->version_argv,
			err) < 0)
		return -1;
	json_object_del(object, "version");
	toolchain->cache_timeout_ms = CACHE_TIMEOUT_DEFAULT_MS;
	if (json_object_get(object, "cache") && take_phase(object, "cache", &toolchain->cache_argv,
							&toolchain->cache_timeout_ms, err) < 0)
		return -1;
	return take_needs(object, toolchain, err);
}

static int read_toolchain(json_t *object, struct toolchain *toolchain, struct error *err)
{
	if (!json_is_object(object))
		return error_set(err, 0, "expected an object, not %s", type_name(object));
	if (take_toolchain(object, toolchain, err) < 0 ||
		take_env(object, &toolchain->env, err) < 0)
		return -1;
	return refuse_rest(object, "", err);
}

static int take_toolchains(json_t *object, struct language *language, struct error *err)
{
	json_t *array = json_object_get(object, "toolchains"), *value;
	size_t i;

	if (!array) {
		language->toolchains = xcalloc(1, sizeof *language->toolchains);
		language->toolchains_count = 1;
		return take_toolchain(object, &language->toolchains[0], err);
	}
	if (!json_is_array(array) || json_array_size(array) == 0)
		return error_set(err, 0, "toolchains: expected an array of at least one object");
	language->toolchains = xcalloc(json_array_size(array), sizeof *language->toolchains);
	language->toolchains_count = json_array_size(array);
	json_array_foreach(array, i, value)
	{
		if (read_toolchain(value, &language->toolchains[i], err) < 0)
			return error_context(err, "toolchains[%zu]", i);
	}
	json_object_del(object, "toolchains");
	return 0;
}

static int take_prepend(json_t *object, struct language *language, struct error *err)
{
	json_t *prepend = json_object_get(object, "prepend");

	if (!prepend)
		return 0;
	if (!json_is_object(prepend))
		return wrong_type("prepend", "an object", prepend, err);
	if (take_string(prepend, "text", &language->prepend_text, err) < 0 ||
		take_string(prepend, "unless", &language->prepend_unless, err) < 0 ||
		refuse_rest(prepend, "", err) < 0)
		return error_context(err, "prepend");
	json_object_del(object, "prepend");
	return 0;
}

/* A file's text: a string, or an array of lines, which is easier to read. */
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
			err, 0, "expected a string or an array of lines, not %s", type_name(value));
	*ret = xstrdup("");
	json_array_foreach(value, i, line)
	{
		cleanup_free char *before = *ret;

		*ret = NULL;
		if (!json_is_string(line))
			return error_set(
				err, 0, "[%zu]: expected a string, not %s", i, type_name(line));
		*ret = xasprintf("%s%s\n", before, json_string_value(line));
	}
	return 0;
}

static int take_files(json_t *object, struct language *language, struct error *err)
{
	json_t *files = json_object_get(object, "files");
	const json_t *value;
	const char *name;

	if (files && !json_is_object(files))
		return wrong_type("files", "an object", files, err);
	language->files = xcalloc(json_object_size(files) + 1, sizeof *language->files);
	json_object_foreach(files, name, value)
	{
		struct support_file *file = &language->files[language->files_count++];

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

/* Takes the image reference `key`, if it is there, out of `object`. */
static int take_reference(json_t *object, const char *key, char **ret, bool *ret_is_local, struct error *err)
{
	struct reference reference;

	if (!json_object_get(object, key))
		return 0;
	if (take_string(object, key, ret, err) < 0)
		return -1;
	if (reference_parse(*ret, &reference, err) < 0)
		return error_context(err, "%s", key);
	*ret_is_local = reference_is_local(&reference);
	return 0;
}

/* An image that a registry could bring must not stand in place of one that is built here, nor the other way about. */
static int take_image(json_t *object, struct language *language, struct error *err)
{
	json_t *image = json_object_get(object, "image");
	bool local_is_local = true, remote_is_local = false;
	struct reference reference;
	struct error unimportant;

	if (image && !json_is_object(image))
		return wrong_type("image", "an object", image, err);
	if (image && (take_reference(image, "local", &language->image_local, &local_is_local, err) < 0 ||
			     take_reference(image, "remote", &language->image_remote, &remote_is_local, err) < 0 ||
			     refuse_rest(image, "", err) < 0))
		return error_context(err, "image");
	if (!local_is_local)
		return error_set(err, 0,
			"image.local: \"%s\" is a registry's; expected an image of this host's, localhost/NAME",
			language->image_local);
	if (remote_is_local)
		return error_set(err, 0, "image.remote: \"%s\" is no registry's; expected HOST/NAME:TAG",
			language->image_remote);
	json_object_del(object, "image");
	language->image_local_named = language->image_local;
	if (language->image_local)
		return 0;
	/* A name of a language may have letters that one of an image has not: then it has none. */
	language->image_local = xasprintf("localhost/nsbox/%s:latest", language->name);
	if (reference_parse(language->image_local, &reference, &unimportant) < 0) {
		free(language->image_local);
		language->image_local = NULL;
	}
	return 0;
}

static int take_names(json_t *object, struct language *language, struct error *err)
{
	const json_t *aliases = json_object_get(object, "aliases");

	if (take_string(object, "name", &language->name, err) < 0 ||
		take_string(object, "title", &language->title, err) < 0 ||
		take_string(object, "extension", &language->extension, err) < 0 ||
		take_string(object, "source", &language->source, err) < 0)
		return -1;
	if (!definition_name_valid(language->name))
		return error_set(err, 0,
			"name: \"%s\": expected lower-case letters, digits and \"+#.-\", "
			"at most %d, beginning with a letter",
			language->name, NAME_MAX_LENGTH);
	if (strchr(language->source, '/') || language->source[0] == '.')
		return error_set(err, 0,
			"source: \"%s\": expected the name of a file, without folders",
			language->source);
	if (aliases && read_strings(aliases, "aliases", &language->aliases, err) < 0)
		return -1;
	for (size_t i = 0; aliases && language->aliases[i]; i++)
		if (!definition_name_valid(language->aliases[i]))
			return error_set(err, 0, "aliases[%zu]: \"%s\" cannot be a language's name",
				i, language->aliases[i]);
	json_object_del(object, "aliases");
	return 0;
}

/* Placeholders are tried while the file is read, so that the error can name the key. */
static int check_text(const char *key, const char *text, struct error *err)
{
	const struct placeholders values = {.source = "/source", .memory_bytes = 64 << 20};
	cleanup_free char *expanded = definition_expand(&values, text, err);

	return expanded ? 0 : error_context(err, "%s", key);
}

static int check_argv(const char *phase, char *const *argv, struct error *err)
{
	for (size_t i = 0; argv && argv[i]; i++) {
		char key[64];

		snprintf(key, sizeof key, "%s[%zu]", phase, i);
		if (check_text(key, argv[i], err) < 0)
			return -1;
	}
	return 0;
}

static int check_env(const struct environment *env, struct error *err)
{
	for (size_t i = 0; env->names && env->names[i]; i++) {
		char key[128];

		snprintf(key, sizeof key, "env.%s", env->names[i]);
		if (check_text(key, env->values[i], err) < 0)
			return -1;
	}
	return 0;
}

static int check_toolchain(const struct toolchain *toolchain, struct error *err)
{
	if (check_argv("compile.argv", toolchain->compile_argv, err) < 0 ||
		check_argv("run.argv", toolchain->run_argv, err) < 0 ||
		check_argv("version", toolchain->version_argv, err) < 0 ||
		check_argv("cache.argv", toolchain->cache_argv, err) < 0)
		return -1;
	return check_env(&toolchain->env, err);
}

static int check_placeholders(const struct language *language, struct error *err)
{
	const struct placeholders names_only = {.memory_bytes = 64 << 20};
	cleanup_free char *source = definition_expand(&names_only, language->source, err);

	if (!source)
		return error_context(err, "source");
	if (check_env(&language->env, err) < 0)
		return -1;
	for (size_t i = 0; i < language->toolchains_count; i++) {
		if (check_toolchain(&language->toolchains[i], err) == 0)
			continue;
		return language->toolchains_count == 1 ? -1
						       : error_context(err, "toolchains[%zu]", i);
	}
	return 0;
}

static int read_object(json_t *object, struct language *language, struct error *err)
{
	if (!json_is_object(object))
		return error_set(err, 0, "expected an object, not %s", type_name(object));
	if (take_names(object, language, err) < 0 || take_prepend(object, language, err) < 0 ||
		take_files(object, language, err) < 0 || take_image(object, language, err) < 0 ||
		take_toolchains(object, language, err) < 0 ||
		take_env(object, &language->env, err) < 0 || refuse_rest(object, "", err) < 0)
		return -1;
	return check_placeholders(language, err);
}

/* A file's name is its language's name: so a lookup by name opens one file. */
static int check_file_name(const struct language *language, const char *file, struct error *err)
{
	size_t length = strlen(language->name);

	if (strncmp(file, language->name, length) == 0 && strcmp(file + length, ".json") == 0)
		return 0;
	return error_set(err, 0, "name: \"%s\" does not fit the file's name; expected %s.json",
		language->name, language->name);
}

int definition_read(
	const char *directory, const char *file, struct language **ret, struct error *err)
{
	cleanup_free char *path = xasprintf("%s/%s", directory, file);
	/* O_NONBLOCK: a FIFO of that name must not make us wait. */
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	cleanup_free char *text = NULL;
	size_t length = 0;
	struct language *language;
	json_error_t json_error;
	json_t *object;
	int result;

	if (fd < 0)
		return error_set(err, errno, "%s", path);
	if (read_fd_whole(fd, FILE_MAX, &text, &length) < 0)
		return error_set(err, errno == ENOENT ? EIO : errno, "%s", path);
	object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_error);
	if (!object)
		return error_set(err, 0, "%s:%d: %s", path, json_error.line, json_error.text);
	language = xcalloc(1, sizeof *language);
	result = read_object(object, language, err);
	if (result == 0)
		result = check_file_name(language, file, err);
	json_decref(object);
	if (result < 0) {
		definition_free(language);
		return error_context(err, "%s", path);
	}
	*ret = language;
	return 0;
}

/* Takes a quarter, at least 64 MiB, off the limit, but leaves a heap of a quarter. */
static uint64_t heap_mib(uint64_t memory_bytes)
{
	uint64_t memory = memory_bytes >> 20, rest = memory / 4 > 64 ? memory / 4 : 64;
	uint64_t least = memory / 4 ? memory / 4 : 1;

	return memory > rest + least ? memory - rest : least;
}

/* The value of the placeholder `name`; malloc'd, or NULL for an unknown one. */
static char *placeholder_value(const struct placeholders *values, const char *name, size_t length)
{
	const char *support = values->support ?: DEFINITION_SUPPORT;

#define NAME_IS(literal) (length == sizeof literal - 1 && memcmp(name, literal, length) == 0)
	if (NAME_IS("source") && values->source)
		return xstrdup(values->source);
	if (NAME_IS("output"))
		return xasprintf("%s/" DEFINITION_PROGRAM, support);
	if (NAME_IS("workspace"))
		return xstrdup(DEFINITION_WORKSPACE);
	if (NAME_IS("support"))
		return xstrdup(support);
	if (NAME_IS("cache"))
		return xstrdup(values->cache_bound ? DEFINITION_CACHE : DEFINITION_CACHE_OWN);
	if (NAME_IS("public_type"))
		return xstrdup(values->public_type ? values->public_type : "Main");
	if (NAME_IS("main_type"))
		return xstrdup(values->main_type ? values->main_type : "Main");
	if (NAME_IS("memory_mib"))
		return xasprintf("%llu", (unsigned long long)(values->memory_bytes >> 20));
	if (NAME_IS("heap_mib"))
		return xasprintf("%llu", (unsigned long long)heap_mib(values->memory_bytes));
#undef NAME_IS
	return NULL;
}

char *definition_expand(const struct placeholders *values, const char *text, struct error *err)
{
	char *expanded = xstrdup("");

	while (*text) {
		size_t plain = strcspn(text, "{}"), skipped = plain, length;
		cleanup_free char *before = expanded, *value = NULL;

		expanded = NULL;
		if (plain == 0 && text[0] == text[1]) {
			plain = 1;
			skipped = 2;
		}
		if (plain > 0) {
			expanded = xasprintf("%s%.*s", before, (int)plain, text);
			text += skipped;
			continue;
		}
		length = strcspn(text + 1, "}");
		if (text[0] == '{' && text[1 + length] == '}')
			value = placeholder_value(values, text + 1, length);
		if (!value) {
			error_set(err, 0,
				"\"%s\": unknown placeholder; there are {source}, {output}, {workspace}, "
				"{support}, {cache}, {memory_mib}, {heap_mib}, {public_type} and {main_type}",
				text);
			return NULL;
		}
		expanded = xasprintf("%s%s", before, value);
		text += length + 2;
	}
	return expanded;
}

static void free_strings(char **strings)
{
	for (char **next = strings; next && *next; next++)
		free(*next);
	free(strings);
}

static void free_toolchain(struct toolchain *toolchain)
{
	for (size_t i = 0; i < toolchain->needs_count; i++) {
		free_strings(toolchain->needs[i].programs);
		for (int d = 0; d < DISTRIBUTION_MAX; d++)
			free(toolchain->needs[i].packages[d]);
	}
	free(toolchain->needs);
	free_strings(toolchain->compile_argv);
	free_strings(toolchain->run_argv);
	free_strings(toolchain->version_argv);
	free_strings(toolchain->cache_argv);
	free_strings(toolchain->env.names);
	free_strings(toolchain->env.values);
}

void definition_free(struct language *language)
{
	if (!language)
		return;
	free(language->name);
	free(language->title);
	free_strings(language->aliases);
	free(language->extension);
	free(language->source);
	free(language->prepend_text);
	free(language->prepend_unless);
	for (size_t i = 0; i < language->files_count; i++) {
		free(language->files[i].name);
		free(language->files[i].text);
	}
	free(language->files);
	free(language->image_local);
	free(language->image_remote);
	free_strings(language->env.names);
	free_strings(language->env.values);
	for (size_t i = 0; i < language->toolchains_count; i++)
		free_toolchain(&language->toolchains[i]);
	free(language->toolchains);
	free(language);
}
