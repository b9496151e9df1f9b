/* SPDX-License-Identifier: MIT */
/* Reads a language's file: see definition.h. */
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
#include "language/recipe.h"
#include "language/take.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	FILE_MAX = 64 << 10, /* bytes */
	NAME_MAX_LENGTH = 32,
	COMPILE_TIMEOUT_DEFAULT_MS = 30 * 1000,
	CACHE_TIMEOUT_DEFAULT_MS = 600 * 1000,
};

int definition_name_valid(const char *text)
{
	if (!islower((unsigned char)text[0]) || strlen(text) > NAME_MAX_LENGTH)
		return 0;
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+#.-")] == '\0';
}

static int take_driver(json_t *object, struct context_definition *context, struct error *err)
{
	if (take_string(object, "driver", &context->driver, err) < 0)
		return -1;
	if (strchr(context->driver, '/') || context->driver[0] == '.')
		return error_set(err, 0, "driver: \"%s\": expected the name of a file, without folders", context->driver);
	return 0;
}

/* Takes «context» out of `object`; none: *context stays as it is. */
static int take_context(json_t *object, struct context_definition *context, struct error *err)
{
	json_t *value = json_object_get(object, "context");

	if (!value)
		return 0;
	if (!json_is_object(value))
		return wrong_type("context", "an object", value, err);
	if (take_driver(value, context, err) < 0 ||
		read_argv(json_object_get(value, "run"), "run", &context->run_argv, err) < 0)
		return error_context(err, "context");
	json_object_del(value, "run");
	if (take_files(value, &context->files, &context->files_count, err) < 0 || refuse_rest(value, "", err) < 0)
		return error_context(err, "context");
	json_object_del(object, "context");
	return 0;
}

static int take_repl(json_t *object, struct repl_definition *repl, struct error *err)
{
	json_t *value = json_object_get(object, "repl");

	if (!value)
		return 0;
	if (!json_is_object(value))
		return wrong_type("repl", "an object", value, err);
	if (read_argv(json_object_get(value, "run"), "run", &repl->run_argv, err) < 0)
		return error_context(err, "repl");
	json_object_del(value, "run");
	if (take_env(value, &repl->env, err) < 0 || take_files(value, &repl->files, &repl->files_count, err) < 0 ||
		refuse_rest(value, "", err) < 0)
		return error_context(err, "repl");
	json_object_del(object, "repl");
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
	if (json_object_get(object, "packages") &&
		recipe_read(json_object_get(object, "packages"), &toolchain->packages, err) < 0)
		return -1;
	json_object_del(object, "packages");
	if (take_context(object, &toolchain->context, err) < 0)
		return -1;
	return take_needs(object, &toolchain->needs, &toolchain->needs_count, err);
}

static int read_toolchain(json_t *object, struct toolchain *toolchain, struct error *err)
{
	if (!json_is_object(object))
		return error_set(err, 0, "expected an object, not %s", json_type_name(object));
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
	return take_context(object, &language->context, err);
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

/* Here {driver} is known, too. */
static int check_context(const struct context_definition *context, struct error *err)
{
	const struct placeholders values = {.source = "/source", .memory_bytes = 64 << 20, .driver = "/driver"};

	for (size_t i = 0; context->run_argv && context->run_argv[i]; i++) {
		cleanup_free char *expanded = definition_expand(&values, context->run_argv[i], err);

		if (!expanded)
			return error_context(err, "context.run[%zu]", i);
	}
	return 0;
}

static int check_toolchain(const struct toolchain *toolchain, struct error *err)
{
	if (check_argv("compile.argv", toolchain->compile_argv, err) < 0 ||
		check_argv("run.argv", toolchain->run_argv, err) < 0 ||
		check_argv("version", toolchain->version_argv, err) < 0 ||
		check_argv("cache.argv", toolchain->cache_argv, err) < 0 ||
		check_context(&toolchain->context, err) < 0)
		return -1;
	return check_env(&toolchain->env, err);
}

static int check_placeholders(const struct language *language, struct error *err)
{
	const struct placeholders names_only = {.memory_bytes = 64 << 20};
	cleanup_free char *source = definition_expand(&names_only, language->source, err);

	if (!source)
		return error_context(err, "source");
	if (check_env(&language->env, err) < 0 || check_context(&language->context, err) < 0)
		return -1;
	if (check_argv("run", language->repl.run_argv, err) < 0 || check_env(&language->repl.env, err) < 0)
		return error_context(err, "repl");
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
		return error_set(err, 0, "expected an object, not %s", json_type_name(object));
	if (take_names(object, language, err) < 0 || take_prepend(object, language, err) < 0 ||
		take_files(object, &language->files, &language->files_count, err) < 0 ||
		take_image(object, language, err) < 0 ||
		take_repl(object, &language->repl, err) < 0 ||
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
	language->directory = xstrdup(directory);
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
	if (NAME_IS("driver") && values->driver)
		return xstrdup(values->driver);
	if (NAME_IS("packages") && values->packages)
		return xstrdup(values->packages);
	if (NAME_IS("path") && values->path)
		return xstrdup(values->path);
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
				"{support}, {cache}, {memory_mib}, {heap_mib}, {public_type} and {main_type}%s%s",
				text, values->driver ? ", {driver}" : "", values->packages ? ", {packages} and {path}" : "");
			return NULL;
		}
		expanded = xasprintf("%s%s", before, value);
		text += length + 2;
	}
	return expanded;
}

static void free_context(struct context_definition *context)
{
	free(context->driver);
	strings_free(context->run_argv);
	files_free(context->files, context->files_count);
}

static void free_toolchain(struct toolchain *toolchain)
{
	needs_free(toolchain->needs, toolchain->needs_count);
	strings_free(toolchain->compile_argv);
	strings_free(toolchain->run_argv);
	strings_free(toolchain->version_argv);
	strings_free(toolchain->cache_argv);
	environment_free(&toolchain->env);
	recipe_free(toolchain->packages);
	free_context(&toolchain->context);
}

void definition_free(struct language *language)
{
	if (!language)
		return;
	free(language->directory);
	free(language->name);
	free(language->title);
	strings_free(language->aliases);
	free(language->extension);
	free(language->source);
	free(language->prepend_text);
	free(language->prepend_unless);
	files_free(language->files, language->files_count);
	free(language->image_local);
	free(language->image_remote);
	environment_free(&language->env);
	free_context(&language->context);
	strings_free(language->repl.run_argv);
	environment_free(&language->repl.env);
	files_free(language->repl.files, language->repl.files_count);
	for (size_t i = 0; i < language->toolchains_count; i++)
		free_toolchain(&language->toolchains[i]);
	free(language->toolchains);
	free(language);
}
