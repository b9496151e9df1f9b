/* SPDX-License-Identifier: MIT */
/*
 * A language's file, of the name fuzz.json. What was read has all that must be there, and each of its
 * texts can be expanded, as definition_read checks placeholders; an error names the file.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "fuzz/fuzz.h"
#include "language/definition.h"
#include "language/recipe.h"
#include "util/error.h"

static void expand(const char *text)
{
	static const struct placeholders values = {.source = "/workspace/main", .memory_bytes = 512 << 20};
	struct error err = {0};
	char *expanded = definition_expand(&values, text, &err);

	require(expanded != NULL, "placeholders were checked");
	free(expanded);
}

static void expand_all(char *const *texts)
{
	for (; texts && *texts; texts++)
		expand(*texts);
}

static void check_recipe(const struct recipe *recipe)
{
	static char *const names[] = {(char *)"a@1", (char *)"left-pad==1.2.3", NULL};
	struct error err = {0};

	require(recipe->manager && recipe->text && recipe->install_argv[0], "it can be used");
	require(recipe_check_names(recipe, names, &err) == 0 || err.text[0], "what is wrong with names is said");
	for (size_t i = 0; i < recipe->binds_count; i++)
		require(recipe->binds[i].target[0] == '/' && !strstr(recipe->binds[i].from, "../"), "a bind is below {packages}");
}

static void check_toolchain(const struct toolchain *toolchain)
{
	require(toolchain->run_argv && toolchain->run_argv[0], "there is a command");
	expand_all(toolchain->compile_argv);
	expand_all(toolchain->run_argv);
	expand_all(toolchain->cache_argv);
	expand_all(toolchain->env.values);
	for (size_t i = 0; i < toolchain->needs_count; i++)
		require(toolchain->needs[i].programs[0] != NULL, "a need has a program");
	if (toolchain->packages)
		check_recipe(toolchain->packages);
}

static void check_language(const struct language *language)
{
	require(strcmp(language->name, "fuzz") == 0, "the name is the file's");
	require(language->title && language->extension && language->source, "it has what it must have");
	require(!strchr(language->source, '/'), "the source is in the working directory");
	require(language->toolchains_count > 0, "there is a toolchain");
	for (size_t i = 0; i < language->toolchains_count; i++)
		check_toolchain(&language->toolchains[i]);
	for (size_t i = 0; i < language->files_count; i++)
		require(language->files[i].text && !strchr(language->files[i].name, '/'), "a file is beside {support}");
	expand_all(language->env.values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct language *language = NULL;
	struct error err = {0};
	int fd = open("fuzz.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "the file can be written");
	close(fd);
	if (definition_read(".", "fuzz.json", &language, &err) == 0)
		check_language(language);
	else
		require(strncmp(err.text, "./fuzz.json", 11) == 0 && !strchr(err.text, '\n'),
			"an error is a line that names the file");
	definition_free(language);
	return 0;
}
