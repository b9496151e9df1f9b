/* SPDX-License-Identifier: MIT */
/* Sandboxes that last: see language.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "language/cache.h"
#include "language/language.h"
#include "language/managers.h"
#include "language/preparation.h"
#include "language/recipe.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* What every language that is there adds to the spec. */
struct lasting {
	const struct language *named;
	struct spec *spec;
	char *path; /* that they put before the usual one */
	struct exec_spec packages; /* only its env: what packages want; a newline in PATH stands for what else is in it */
};

static void add_lasting(struct lasting *lasting, const struct language *language,
	const struct choice *choice)
{
	cleanup_free char *own = preparation_path(choice, lasting->spec), *before = NULL, *cache = NULL;
	size_t length = strlen(own) - strlen(needs_path(lasting->spec));
	struct error unimportant;

	own[length] = '\0';
	if (length > 0 && !strstr(lasting->path, own)) {
		before = lasting->path;
		lasting->path = xasprintf("%s%s", before, own);
	}
	preparation_add_binds(choice, lasting->spec);
	cache = cache_find(language, choice, &unimportant);
	if (cache && !spec_find_mount(lasting->spec, DEFINITION_CACHE))
		spec_add_bind(lasting->spec, cache, DEFINITION_CACHE, true);
}

/* Whether the first directory of `list`, a PATH, is in `path`, too. */
static bool has_first(const char *path, const char *list)
{
	size_t length = strcspn(list, ":");

	for (; path; path = strchr(path, ':'), path += path != NULL)
		if (strcspn(path, ":") == length && strncmp(path, list, length) == 0)
			return true;
	return false;
}

/* What one has set stays for the next, but each can add to PATH. */
static int add_packages_env(struct lasting *lasting, const struct language *language, const struct toolchain *toolchain,
	struct error *err)
{
	struct exec_spec *exec = &lasting->packages;
	cleanup_preparation struct preparation preparation = {
		.language = language, .choice = {.toolchain = toolchain}, .spec = lasting->spec, .err = err};
	const struct environment *env;

	preparation.path = xstrdup(exec_get_env(exec, "PATH") ?: "\n");
	preparation.values.memory_bytes = lasting->spec->limits.memory_bytes;
	preparation_find_packages(&preparation);
	if (!preparation.values.packages)
		return 0;
	env = &toolchain->packages->env;
	for (size_t i = 0; env->names[i]; i++) {
		cleanup_free char *value = definition_expand(&preparation.values, env->values[i], err);

		if (!value)
			return -1;
		if (strcmp(env->names[i], "PATH") != 0)
			exec_default_env(exec, env->names[i], value);
		else if (!has_first(preparation.path, value)) /* of two languages with the same packages */
			exec_set_env(exec, "PATH", value);
	}
	return 0;
}

/* Where packages of the language will be, whatever its toolchain: see spec.package_places. */
static void add_places(const struct language *language, struct spec *spec)
{
	for (size_t i = 0; i < language->toolchains_count; i++) {
		const struct recipe *recipe = language->toolchains[i].packages;
		const char *folder = recipe ? recipe_folder(language, recipe) : NULL;

		if (!recipe)
			continue;
		list_add(&spec->package_places, xstrdup(folder));
		for (size_t n = 0; n < recipe->binds_count; n++)
			list_add(&spec->package_places,
				xasprintf("%s/%s:%s", folder, recipe->binds[n].from, recipe->binds[n].target));
	}
}

/*
 * In the host's root, others that are there are made usable. Of an image it is not looked which ones it has: the
 * variables of packages that nobody can install do no harm.
 */
static void add_other(void *data, const struct language *language, const char *name, const struct error *broken)
{
	struct lasting *lasting = data;
	struct choice choice = {0};
	struct error unimportant;

	(void)name;
	if (broken)
		return;
	add_places(language, lasting->spec);
	if (lasting->named && strcmp(language->name, lasting->named->name) == 0)
		return;
	if (lasting->spec->root != ROOT_HOST) {
		add_packages_env(lasting, language, &language->toolchains[0], &unimportant);
		return;
	}
	if (needs_choose(language, lasting->spec, &choice, &unimportant) == 0) {
		add_lasting(lasting, language, &choice);
		add_packages_env(lasting, language, choice.toolchain, &unimportant);
	}
	choice_free(&choice);
}

/* `path` is the PATH that there is without them. */
static void use_packages_env(const struct lasting *lasting, const char *path, struct exec_spec *exec)
{
	for (char **entry = lasting->packages.env; entry && *entry; entry++) {
		cleanup_free char *name = xmemdup(*entry, strcspn(*entry, "=")), *whole = NULL;
		const char *value = strchr(*entry, '=') + 1, *rest = strchr(value, '\n');

		if (strcmp(name, "PATH") != 0) {
			exec_default_env(exec, name, value);
			continue;
		}
		whole = xasprintf("%.*s%s%s", (int)strcspn(value, "\n"), value, rest ? path : "", rest ? rest + 1 : "");
		exec_set_env(exec, "PATH", whole);
	}
}

static int add_lasting_env(const struct language *language, const struct choice *choice,
	struct spec *spec, struct error *err)
{
	struct preparation preparation = {.language = language,
		.spec = spec,
		.err = err,
		.values = {.memory_bytes = spec->limits.memory_bytes,
			.cache_bound = spec_find_mount(spec, DEFINITION_CACHE),
			.source = ""}};

	if (preparation_add_env(&preparation, &language->env, &spec->execs[0]) < 0)
		return -1;
	return preparation_add_env(&preparation, &choice->toolchain->env, &spec->execs[0]);
}

static void lasting_free(struct lasting *lasting)
{
	free(lasting->path);
	strings_free(lasting->packages.env);
}

int language_prepare_lasting(const struct language *language, struct spec *spec, struct error *err)
{
	struct lasting lasting = {.named = language, .spec = spec, .path = xstrdup("")};
	struct exec_spec *exec = &spec->execs[0];
	cleanup_free char *path = NULL;
	struct choice choice = {0};
	int r = 0;

	if (language)
		r = needs_choose(language, spec, &choice, err);
	if (r == 0 && language) {
		add_lasting(&lasting, language, &choice);
		r = add_packages_env(&lasting, language, choice.toolchain, err);
	}
	if (r == 0)
		language_visit(add_other, &lasting);
	for (char **entry = spec->root_env; entry && *entry; entry++) {
		cleanup_free char *name = xmemdup(*entry, strcspn(*entry, "="));

		exec_default_env(exec, name, strchr(*entry, '=') + 1);
	}
	path = xasprintf("%s%s", lasting.path, exec_get_env(exec, "PATH") ?: needs_path(spec));
	exec_default_env(exec, "LANG", "C.UTF-8");
	exec_default_env(exec, "HOME", spec_home(spec));
	exec_set_env(exec, "PATH", path);
	if (r == 0 && language)
		r = add_lasting_env(language, &choice, spec, err);
	use_packages_env(&lasting, exec_get_env(exec, "PATH"), exec);
	lasting_free(&lasting);
	choice_free(&choice);
	return r;
}
