/* SPDX-License-Identifier: MIT */
/* Packages of a language: see language.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "language/language.h"
#include "language/preparation.h"
#include "language/recipe.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* An install has no packages yet; otherwise what is prepared is as for code. */
static int prepare_packages(
	const struct language *language, struct spec *spec, struct preparation *ret, struct error *err)
{
	const struct recipe *recipe;

	*ret = (struct preparation){.language = language, .spec = spec, .err = err};
	if (needs_choose_packages(language, spec, &ret->choice, err) < 0)
		return -1;
	recipe = ret->choice.toolchain->packages;
	ret->packages = xasprintf(PACKAGES_PLACE "/%s", recipe_folder(language, recipe));
	ret->path = preparation_path(&ret->choice, spec);
	ret->values = (struct placeholders){.source = "", .memory_bytes = spec->limits.memory_bytes,
		.packages = ret->packages, .path = ret->path};
	return 0;
}

/* Adds which file of the root's a program is: also where that is not the host's. Of an image the digest says everything. */
static int add_identity(
	const struct found_program *found, const struct spec *spec, int root, char **identity, struct error *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	const char *file = found->location.file ?: found->inside ?: found->name;
	cleanup_close int fd = -1;
	cleanup_free char *before = NULL;
	struct stat st = {0};

	if (spec->root == ROOT_DIRECTORY && found->inside) {
		fd = (int)syscall(SYS_openat2, root, found->inside, &how, sizeof how);
		if (fd < 0 || fstat(fd, &st) < 0)
			return error_set(err, errno, "looking at %s in the root %s", file, spec->root_path);
	}
	if (spec->root == ROOT_HOST && found->location.file && stat(file, &st) < 0)
		return error_set(err, errno, "looking at %s", file);
	before = *identity;
	*identity = xasprintf("%s%s %llx %llx %lld.%09ld\n", before, file, (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return 0;
}

int language_find_packages(
	const struct language *language, const struct spec *spec, struct language_packages *ret, struct error *err)
{
	cleanup_free char *root_name = NULL;
	struct choice choice = {0};
	cleanup_close int root = -1;
	struct stat st = {0};
	int r = 0;

	if (needs_choose_packages(language, spec, &choice, err) < 0)
		return -1;
	if (spec->root == ROOT_DIRECTORY) {
		root = open(spec->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root < 0 || fstat(root, &st) < 0) {
			choice_free(&choice);
			return error_set(err, errno, "root directory %s", spec->root_path);
		}
	}
	*ret = (struct language_packages){.recipe = choice.toolchain->packages};
	ret->folder = recipe_folder(language, ret->recipe);
	ret->identity = xasprintf("%s %s %s %llx %llx\n", language->name,
		spec->root == ROOT_IMAGE ? spec->root_digest ?: "" : spec->root_path ?: "",
		spec->root_layers ? spec->root_layers[0] : "", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	for (size_t i = 0; r == 0 && i < choice.programs_count; i++)
		r = add_identity(&choice.programs[i], spec, root, &ret->identity, err);
	choice_free(&choice);
	if (r < 0)
		language_packages_free(ret);
	return r;
}

void language_packages_free(struct language_packages *packages)
{
	free(packages->identity);
	*packages = (struct language_packages){0};
}

static int add_install(struct preparation *preparation, char *const *names)
{
	const struct recipe *recipe = preparation->choice.toolchain->packages;
	struct spec *spec = preparation->spec;
	struct exec_spec *exec = &spec->execs[spec->execs_count++];

	memset(exec, 0, sizeof *exec);
	exec->phase = "run";
	exec->cwd = xstrdup(PACKAGES_WORK);
	exec->timeout_ms = recipe->install_timeout_ms;
	exec->stdin_kind = STDIN_NULL;
	exec_set_env(exec, "LANG", "C.UTF-8");
	exec_add_env(exec, spec->root_env);
	exec_set_env(exec, "HOME", PACKAGES_WORK);
	exec_set_env(exec, "TMPDIR", PACKAGES_WORK "/tmp");
	exec_set_env(exec, "PATH", preparation->path);
	if (preparation_add_env(preparation, &preparation->language->env, exec) < 0 ||
		preparation_add_env(preparation, &preparation->choice.toolchain->env, exec) < 0 ||
		preparation_add_env(preparation, &recipe->install_env, exec) < 0)
		return -1;
	for (char **argument = recipe->install_argv; *argument; argument++) {
		if (strcmp(*argument, "{names}") == 0)
			for (char *const *name = names; *name; name++)
				exec_add_arg(exec, *name);
		else if (preparation_add_argument(preparation, *argument, exec) < 0)
			return -1;
	}
	return 0;
}

int language_prepare_install(const struct language *language, char *const *names, const char *folder, const char *work,
	struct spec *spec, struct error *err)
{
	cleanup_preparation struct preparation preparation = {0};
	const struct recipe *recipe;

	if (prepare_packages(language, spec, &preparation, err) < 0)
		return -1;
	recipe = preparation.choice.toolchain->packages;
	preparation_add_binds(&preparation.choice, spec);
	spec_add_bind(spec, folder, preparation.packages, false);
	spec_add_bind(spec, work, PACKAGES_WORK, false);
	preparation_use_cache(&preparation);
	for (size_t i = 0; i < recipe->files_count; i++) {
		cleanup_free char *path = xasprintf(DEFINITION_SUPPORT "/%s", recipe->files[i].name);

		spec_add_file(spec, path, recipe->files[i].text, strlen(recipe->files[i].text), PREPARATION_FILE_MODE);
	}
	spec->capture = true;
	return add_install(&preparation, names);
}
