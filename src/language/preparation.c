/* SPDX-License-Identifier: MIT */
/* What specs of languages have in common: see preparation.h. */
#define _GNU_SOURCE
#include "language/preparation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "language/cache.h"
#include "language/recipe.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

void preparation_free(struct preparation *preparation)
{
	choice_free(&preparation->choice);
	free(preparation->path);
	free(preparation->packages);
}

char *preparation_path(const struct choice *choice, const struct spec *spec)
{
	cleanup_free char *own = xstrdup("");

	for (size_t i = 0; i < choice->programs_count; i++) {
		const struct location *location = &choice->programs[i].location;
		cleanup_free char *before = NULL;

		if (!location->file || location->standard)
			continue;
		before = own;
		own = xasprintf("%s%.*s:", before,
			(int)(strrchr(location->file, '/') - location->file), location->file);
	}
	return xasprintf("%s%s", own, needs_path(spec));
}

void preparation_add_binds(const struct choice *choice, struct spec *spec)
{
	for (size_t i = 0; i < choice->programs_count; i++)
		for (char **bind = choice->programs[i].location.binds; bind && *bind; bind++)
			if (!spec_find_mount(spec, *bind))
				spec_add_bind(spec, *bind, *bind, true);
}

/* Whether the sandbox has a folder for the packages of the chosen toolchain, be there some in it or not. */
static bool has_packages(const struct preparation *preparation)
{
	const struct spec *spec = preparation->spec;

	return spec->packages || spec_find_mount(spec, preparation->packages) || spec_find_mount(spec, PACKAGES_PLACE);
}

bool preparation_has_installed(const struct preparation *preparation)
{
	const struct mount_spec *all = spec_find_mount(preparation->spec, PACKAGES_PLACE);
	cleanup_free char *mark = NULL;

	if (spec_find_mount(preparation->spec, preparation->packages))
		return true;
	if (!all || all->kind != MOUNT_BIND)
		return false;
	mark = xasprintf("%s/.%s", all->source, strrchr(preparation->packages, '/') + 1);
	return access(mark, F_OK) == 0;
}

void preparation_find_packages(struct preparation *preparation)
{
	const struct recipe *recipe = preparation->choice.toolchain->packages;

	if (!recipe)
		return;
	preparation->packages =
		xasprintf(PACKAGES_PLACE "/%s", recipe_folder(preparation->language, recipe));
	if (!has_packages(preparation))
		return;
	preparation->values.packages = preparation->packages;
	preparation->values.path = preparation->path;
}

int preparation_begin(const struct language *language, struct spec *spec, struct preparation *ret,
	struct error *err)
{
	*ret = (struct preparation){.language = language, .spec = spec, .err = err};
	if (needs_choose(language, spec, &ret->choice, err) < 0)
		return -1;
	ret->values.memory_bytes = spec->limits.memory_bytes;
	ret->path = preparation_path(&ret->choice, spec);
	preparation_add_binds(&ret->choice, spec);
	preparation_find_packages(ret);
	return 0;
}

/* The program of a command stands for the one that was found for the need that it names. */
static const char *program_of(const struct choice *choice, const char *name)
{
	for (size_t i = 0; i < choice->programs_count; i++) {
		const struct found_program *found = &choice->programs[i];

		if (strcmp(found->need->programs[0], name) == 0)
			return found->location.file && !found->location.standard
				       ? found->location.file
				       : found->name;
	}
	return name;
}

int preparation_add_argument(const struct preparation *preparation, const char *argument, struct exec_spec *exec)
{
	cleanup_free char *expanded = definition_expand(&preparation->values, argument, preparation->err);

	if (!expanded)
		return -1;
	exec_add_arg(exec, exec->argv ? expanded : program_of(&preparation->choice, expanded));
	return 0;
}

int preparation_add_arguments(
	const struct preparation *preparation, char *const *argv, struct exec_spec *exec)
{
	for (; *argv; argv++)
		if (preparation_add_argument(preparation, *argv, exec) < 0)
			return -1;
	return 0;
}

int preparation_add_env(const struct preparation *preparation, const struct environment *env,
	struct exec_spec *exec)
{
	for (size_t i = 0; env->names && env->names[i]; i++) {
		cleanup_free char *value =
			definition_expand(&preparation->values, env->values[i], preparation->err);

		if (!value)
			return -1;
		exec_set_env(exec, env->names[i], value);
	}
	return 0;
}

int preparation_add_exec(const struct preparation *preparation, const char *phase, char *const *argv,
	uint64_t timeout_ms)
{
	struct spec *spec = preparation->spec;
	struct exec_spec *exec = &spec->execs[spec->execs_count];

	memset(exec, 0, sizeof *exec);
	spec->execs_count++;
	exec->phase = phase;
	exec->cwd = xstrdup(DEFINITION_WORKSPACE);
	exec->timeout_ms = timeout_ms;
	exec_set_env(exec, "LANG", "C.UTF-8");
	exec_set_env(exec, "HOME", spec_home(spec)); /* as /etc/passwd inside says */
	exec_add_env(exec, spec->root_env);
	exec_set_env(exec, "PATH", preparation->path);
	if (preparation_add_env(preparation, &preparation->language->env, exec) < 0 ||
		preparation_add_env(preparation, &preparation->choice.toolchain->env, exec) < 0)
		return -1;
	if (preparation->values.packages &&
		preparation_add_env(preparation, &preparation->choice.toolchain->packages->env, exec) < 0)
		return -1;
	return preparation_add_arguments(preparation, argv, exec);
}

void preparation_use_cache(struct preparation *preparation)
{
	struct error reason;
	cleanup_free char *cache = NULL;

	/* A sandbox that lasts has what it was made with. */
	if (preparation->spec->session) {
		preparation->values.cache_bound =
			spec_find_mount(preparation->spec, DEFINITION_CACHE);
		return;
	}
	cache = cache_find(preparation->language, &preparation->choice, &reason);
	if (!cache)
		return;
	spec_add_bind(preparation->spec, cache, DEFINITION_CACHE, true);
	preparation->values.cache_bound = true;
}
