/* SPDX-License-Identifier: MIT */
/* How packages are installed: see recipe.h. */
#define _GNU_SOURCE
#include "language/recipe.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/policy.h"
#include "language/take.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"
#include "util/utf8.h"

enum { INSTALL_TIMEOUT_DEFAULT_MS = 600 * 1000 };

/* --- reading --- */

static int take_manager(json_t *object, struct recipe *recipe, struct error *err)
{
	if (take_string(object, "manager", &recipe->manager, err) < 0)
		return -1;
	if (!json_object_get(object, "folder"))
		return 0;
	if (take_string(object, "folder", &recipe->folder, err) < 0)
		return -1;
	return definition_name_valid(recipe->folder)
		       ? 0
		       : error_set(err, 0, "folder: \"%s\" cannot be a language's name", recipe->folder);
}

static int take_hosts(json_t *object, struct recipe *recipe, struct error *err)
{
	const json_t *hosts = json_object_get(object, "hosts");
	struct policy policy = {0};
	int r = 0;

	if (!hosts)
		return error_set(err, 0, "hosts: missing");
	if (read_strings(hosts, "hosts", &recipe->hosts, err) < 0)
		return -1;
	for (char **host = recipe->hosts; *host && r == 0; host++)
		r = policy_add(&policy, "hosts", *host, err);
	policy_free(&policy);
	json_object_del(object, "hosts");
	return r;
}

static int compile_pattern(const struct recipe *recipe, regex_t *ret, struct error *err)
{
	cleanup_free char *whole = xasprintf("^(%s)$", recipe->pattern);
	int r = regcomp(ret, whole, REG_EXTENDED | REG_NOSUB);
	char why[128];

	if (r == 0)
		return 0;
	regerror(r, ret, why, sizeof why);
	return error_set(err, 0, "names.pattern: %s", why);
}

static int take_names(json_t *object, struct recipe *recipe, struct error *err)
{
	json_t *names = json_object_get(object, "names");
	regex_t pattern;

	if (!names)
		return error_set(err, 0, "names: missing");
	if (!json_is_object(names))
		return wrong_type("names", "an object", names, err);
	if (take_string(names, "pattern", &recipe->pattern, err) < 0 ||
		take_string(names, "example", &recipe->example, err) < 0)
		return error_context(err, "names");
	if (refuse_rest(names, "names.", err) < 0)
		return -1;
	/* A few of them, one in the other, are gigabytes to regcomp(3). */
	if (strchr(recipe->pattern, '{'))
		return error_set(err, 0, "names.pattern: there are no bounds ({…}) in it");
	if (compile_pattern(recipe, &pattern, err) < 0)
		return -1;
	regfree(&pattern);
	json_object_del(object, "names");
	return 0;
}

static int take_install(json_t *object, struct recipe *recipe, struct error *err)
{
	json_t *install = json_object_get(object, "install");
	size_t lists = 0;

	if (!install)
		return error_set(err, 0, "install: missing");
	if (!json_is_object(install))
		return wrong_type("install", "an object", install, err);
	if (take_env(install, &recipe->install_env, err) < 0)
		return error_context(err, "install");
	recipe->install_timeout_ms = INSTALL_TIMEOUT_DEFAULT_MS;
	if (take_phase(object, "install", &recipe->install_argv, &recipe->install_timeout_ms, err) < 0)
		return -1;
	for (char **argument = recipe->install_argv; *argument; argument++)
		lists += strcmp(*argument, "{names}") == 0;
	if (lists != 1 || strcmp(recipe->install_argv[0], "{names}") == 0)
		return error_set(err, 0, "install.argv: one of its arguments, and no more, has to be \"{names}\"");
	return 0;
}

static int take_commands(json_t *object, struct recipe *recipe, struct error *err)
{
	if (json_object_get(object, "compile") &&
		take_phase(object, "compile", &recipe->compile_argv, &recipe->compile_timeout_ms, err) < 0)
		return -1;
	if (json_object_get(object, "run") && take_phase(object, "run", &recipe->run_argv, NULL, err) < 0)
		return -1;
	return 0;
}

/* A path without empty, «.» and «..» parts. */
static bool is_plain(const char *path)
{
	for (;;) {
		size_t length = strcspn(path, "/");

		if (length == 0 || (length == 1 && path[0] == '.') || (length == 2 && memcmp(path, "..", 2) == 0))
			return false;
		if (!path[length])
			return true;
		path += length + 1;
	}
}

static int take_binds(json_t *object, struct recipe *recipe, struct error *err)
{
	json_t *binds = json_object_get(object, "binds"), *value;
	const char *from;

	if (binds && !json_is_object(binds))
		return wrong_type("binds", "an object", binds, err);
	recipe->binds = xcalloc(json_object_size(binds) + 1, sizeof *recipe->binds);
	json_object_foreach(binds, from, value)
	{
		struct recipe_bind *bind = &recipe->binds[recipe->binds_count++];
		const char *target = json_string_value(value);

		if (!is_plain(from))
			return error_set(err, 0, "binds: \"%s\" is no path below {packages}", from);
		if (!target || target[0] != '/' || !is_plain(target + 1))
			return error_set(err, 0, "binds.%s: expected an absolute path inside", from);
		bind->from = xstrdup(from);
		bind->target = xstrdup(target);
	}
	json_object_del(object, "binds");
	return 0;
}

static int check_text(const char *key, const char *text, struct error *err)
{
	const struct placeholders values = {.source = "/source", .memory_bytes = 64 << 20, .packages = "/", .path = "/"};
	cleanup_free char *expanded = definition_expand(&values, text, err);

	return expanded ? 0 : error_context(err, "%s", key);
}

static int check_argv(const char *key, char *const *argv, struct error *err)
{
	for (; argv && *argv; argv++)
		if (strcmp(*argv, "{names}") != 0 && check_text(key, *argv, err) < 0)
			return -1;
	return 0;
}

static int check_env(const char *key, const struct environment *env, struct error *err)
{
	for (size_t i = 0; env->names[i]; i++)
		if (check_text(env->names[i], env->values[i], err) < 0)
			return error_context(err, "%s", key);
	return 0;
}

static int read_object(json_t *object, struct recipe *recipe, struct error *err)
{
	recipe->text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	if (take_manager(object, recipe, err) < 0 || take_hosts(object, recipe, err) < 0 ||
		take_needs(object, &recipe->needs, &recipe->needs_count, err) < 0 ||
		take_names(object, recipe, err) < 0 || take_install(object, recipe, err) < 0 ||
		take_files(object, &recipe->files, &recipe->files_count, err) < 0 ||
		take_env(object, &recipe->env, err) < 0 || take_commands(object, recipe, err) < 0 ||
		take_binds(object, recipe, err) < 0 || refuse_rest(object, "", err) < 0)
		return -1;
	if (check_argv("install.argv", recipe->install_argv, err) < 0 ||
		check_argv("compile.argv", recipe->compile_argv, err) < 0 ||
		check_argv("run.argv", recipe->run_argv, err) < 0)
		return -1;
	return check_env("install.env", &recipe->install_env, err) < 0 ? -1 : check_env("env", &recipe->env, err);
}

int recipe_read(json_t *object, struct recipe **ret, struct error *err)
{
	struct recipe *recipe;

	if (!json_is_object(object))
		return wrong_type("packages", "an object", object, err);
	recipe = xcalloc(1, sizeof *recipe);
	if (read_object(object, recipe, err) < 0) {
		recipe_free(recipe);
		return error_context(err, "packages");
	}
	*ret = recipe;
	return 0;
}

void recipe_free(struct recipe *recipe)
{
	if (!recipe)
		return;
	free(recipe->text);
	free(recipe->manager);
	free(recipe->folder);
	strings_free(recipe->hosts);
	needs_free(recipe->needs, recipe->needs_count);
	free(recipe->pattern);
	free(recipe->example);
	strings_free(recipe->install_argv);
	environment_free(&recipe->install_env);
	files_free(recipe->files, recipe->files_count);
	environment_free(&recipe->env);
	strings_free(recipe->compile_argv);
	strings_free(recipe->run_argv);
	for (size_t i = 0; i < recipe->binds_count; i++) {
		free(recipe->binds[i].from);
		free(recipe->binds[i].target);
	}
	free(recipe->binds);
	free(recipe);
}

const char *recipe_folder(const struct language *language, const struct recipe *recipe)
{
	return recipe->folder ?: language->name;
}

/* --- names --- */

/* What no manager takes for a name, whatever the pattern of its recipe lets through. NULL: nothing is wrong. */
static const char *wrong_with(const char *name)
{
	if (!*name)
		return "is empty";
	if (strlen(name) > PACKAGES_NAME_MAX)
		return "is too long";
	if (!utf8_valid(name, strlen(name)))
		return "is not UTF-8";
	for (const char *byte = name; *byte; byte++)
		if ((unsigned char)*byte <= ' ' || *byte == 0x7f)
			return "has a space or a control character in it";
	if (*name == '-')
		return "begins with a -, as options do";
	if (strstr(name, "://"))
		return "is a URL: packages come from the registry, by their names";
	if (strchr("/.~", *name))
		return "is a path: packages come from the registry, by their names";
	return NULL;
}

int recipe_check_names(const struct recipe *recipe, char *const *names, struct error *err)
{
	char buffer[QUOTED_MAX];
	regex_t pattern;
	size_t count = 0;

	for (; names[count]; count++) {
		const char *wrong = wrong_with(names[count]);

		if (wrong)
			return error_set(err, 0, "the package %s %s", quoted(names[count], buffer), wrong);
	}
	if (count == 0 || count > PACKAGES_NAMES_MAX)
		return error_set(err, 0, "expected from 1 to %d packages, not %zu", PACKAGES_NAMES_MAX, count);
	if (compile_pattern(recipe, &pattern, err) < 0)
		return -1;
	while (*names && regexec(&pattern, *names, 0, NULL, 0) == 0)
		names++;
	regfree(&pattern);
	if (!*names)
		return 0;
	error_set(err, 0, "%s cannot be a package of %s", quoted(*names, buffer), recipe->manager);
	return error_hint(err, "write it as %s", recipe->example);
}
