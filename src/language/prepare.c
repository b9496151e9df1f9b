/* SPDX-License-Identifier: MIT */
/* Code in a language, and what is asked of a toolchain: see language.h. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "language/cache.h"
#include "language/language.h"
#include "language/managers.h"
#include "language/preparation.h"
#include "language/recipe.h"
#include "language/typenames.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { VERSION_TIMEOUT_MS = 20 * 1000 };

/* --- code --- */

static void add_source(
	const struct preparation *preparation, const char *path, const void *code, size_t length)
{
	const struct language *language = preparation->language;
	size_t prepended = language->prepend_text ? strlen(language->prepend_text) : 0;
	cleanup_free char *text = NULL;

	if (prepended == 0 ||
		memmem(code, length, language->prepend_unless, strlen(language->prepend_unless))) {
		spec_add_file(preparation->spec, path, code, length, PREPARATION_FILE_MODE);
		return;
	}
	text = xrealloc(NULL, prepended + length + 1, 1);
	memcpy(text, language->prepend_text, prepended);
	memcpy(text + prepended, code, length);
	spec_add_file(preparation->spec, path, text, prepended + length, PREPARATION_FILE_MODE);
}

/* The directory comes into being with the file that says which source it belongs to. */
static void add_support(const struct preparation *preparation, const char *source, bool compiled)
{
	const struct language *language = preparation->language;
	const char *directory = preparation->values.support;

	if (compiled) {
		cleanup_free char *path = xasprintf("%s/source", directory);

		spec_add_file(preparation->spec, path, source, strlen(source), PREPARATION_FILE_MODE);
	}
	for (size_t i = 0; i < language->files_count; i++) {
		const struct support_file *file = &language->files[i];
		cleanup_free char *path = xasprintf("%s/%s", directory, file->name);

		spec_add_file(preparation->spec, path, file->text, strlen(file->text), PREPARATION_FILE_MODE);
	}
}

char *language_support_directory(const char *unique)
{
	return unique ? xasprintf(DEFINITION_SUPPORT "/%s", unique) : xstrdup(DEFINITION_SUPPORT);
}

/* Its own name is the usual one, unless that may be somebody else's. */
static char *name_source(const struct preparation *preparation, const char *unique)
{
	const struct language *language = preparation->language;
	cleanup_free char *name =
		definition_expand(&preparation->values, language->source, preparation->err);

	if (!name)
		return NULL;
	if (!unique)
		return xasprintf(DEFINITION_WORKSPACE "/%s", name);
	/* A name that the text prescribes is kept, beside the workspace; others are beside its modules. */
	return strchr(language->source, '{')
		       ? xasprintf("%s/source.d/%s", preparation->values.support, name)
		       : xasprintf(DEFINITION_WORKSPACE "/exec_%s.%s", unique, language->extension);
}

/* The commands of the chosen toolchain: those of its packages go before its own where there are some. */
static struct toolchain toolchain_with_packages(const struct preparation *preparation)
{
	struct toolchain toolchain = *preparation->choice.toolchain;
	const struct recipe *recipe = toolchain.packages;

	if (!preparation->values.packages || !preparation_has_installed(preparation))
		return toolchain;
	if (recipe->compile_argv)
		toolchain.compile_argv = recipe->compile_argv;
	if (recipe->compile_timeout_ms)
		toolchain.compile_timeout_ms = recipe->compile_timeout_ms;
	if (recipe->run_argv)
		toolchain.run_argv = recipe->run_argv;
	return toolchain;
}

static int add_phases(struct preparation *preparation, const struct language_source *source,
	uint64_t timeout_ms)
{
	struct toolchain toolchain = toolchain_with_packages(preparation);
	cleanup_free char *path = source->file ? xstrdup(source->file)
					       : name_source(preparation, source->unique);
	struct spec *spec = preparation->spec;

	if (!path)
		return -1;
	preparation->values.source = path;
	if (!source->file)
		add_source(preparation, path, source->code, source->length);
	add_support(preparation, path, toolchain.compile_argv);
	if (toolchain.compile_argv) {
		if (preparation_add_exec(preparation, "compile", toolchain.compile_argv,
			    toolchain.compile_timeout_ms) < 0)
			return -1;
		spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	}
	return preparation_add_exec(preparation, "run", toolchain.run_argv, timeout_ms);
}

int language_prepare_source(const struct language *language, const struct language_source *source,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err)
{
	cleanup_free char *support = language_support_directory(source->unique);
	cleanup_preparation struct preparation preparation = {0};
	struct typenames names;
	int result;

	if (preparation_begin(language, spec, &preparation, err) < 0)
		return -1;
	preparation_use_cache(&preparation);
	typenames_read(source->code, source->length, &names);
	preparation.values.support = support;
	preparation.values.public_type = names.public_type;
	preparation.values.main_type = names.main_type ? names.main_type : names.public_type;
	result = add_phases(&preparation, source, timeout_ms);
	typenames_free(&names);
	if (result < 0)
		return -1;
	for (; arguments && *arguments; arguments++)
		/* as they are: braces in them are the caller's */
		exec_add_arg(&spec->execs[spec->execs_count - 1], *arguments);
	return 0;
}

int language_prepare(const struct language *language, const void *code, size_t length,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err)
{
	const struct language_source source = {.code = code, .length = length};

	return language_prepare_source(language, &source, arguments, timeout_ms, spec, err);
}

static bool mentions_type(char *const *argv)
{
	for (; argv && *argv; argv++)
		if (strstr(*argv, "{public_type}") || strstr(*argv, "{main_type}"))
			return true;
	return false;
}

bool language_reads_source(const struct language *language)
{
	for (size_t i = 0; i < language->toolchains_count; i++)
		if (mentions_type(language->toolchains[i].compile_argv) ||
			mentions_type(language->toolchains[i].run_argv))
			return true;
	return false;
}

/* --- status and version --- */

/* How a version is asked for, and which files answer. */
static char *identity_of(const struct choice *choice)
{
	char *identity = xasprintf("%s\n", choice->image_digest ?: "");

	for (char **word = choice->toolchain->version_argv; word && *word; word++) {
		cleanup_free char *before = identity;

		identity = xasprintf("%s%s\n", before, *word);
	}
	for (size_t i = 0; i < choice->programs_count; i++) {
		const char *file = choice->programs[i].location.file;
		cleanup_free char *before = NULL;
		struct stat status;

		if (!file || stat(file, &status) < 0)
			continue;
		before = identity;
		identity = xasprintf("%s%s %llx %llx %llx.%lx\n", before, file,
			(unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
			(unsigned long long)status.st_mtim.tv_sec,
			(unsigned long)status.st_mtim.tv_nsec);
	}
	return identity;
}

void language_status(
	const struct language *language, const struct spec *spec, struct language_status *ret)
{
	struct choice choice = {0};

	*ret = (struct language_status){0};
	ret->ready = needs_choose(language, spec, &choice, &ret->missing) == 0;
	ret->programs = xcalloc(1, sizeof *ret->programs);
	ret->binds = xcalloc(1, sizeof *ret->binds);
	for (size_t i = 0; i < choice.programs_count; i++) {
		const struct found_program *found = &choice.programs[i];

		list_add(&ret->programs,
			xstrdup(found->location.file ? found->location.file
				: found->inside	     ? found->inside
						     : found->name));
		for (char **bind = found->location.binds; bind && *bind; bind++)
			list_add(&ret->binds, xstrdup(*bind));
	}
	ret->identity = ret->ready ? identity_of(&choice) : NULL;
	choice_free(&choice);
}

void language_status_free(struct language_status *status)
{
	for (char **next = status->programs; next && *next; next++)
		free(*next);
	for (char **next = status->binds; next && *next; next++)
		free(*next);
	free(status->programs);
	free(status->binds);
	free(status->identity);
}

int language_prepare_version(const struct language *language, struct spec *spec, struct error *err)
{
	cleanup_preparation struct preparation preparation = {0};

	if (preparation_begin(language, spec, &preparation, err) < 0)
		return -1;
	if (!preparation.choice.toolchain->version_argv)
		return error_set(err, 0, "%s: its file does not say how to ask for a version",
			language->title);
	preparation.values.source = "";
	if (preparation_add_exec(&preparation, "run", preparation.choice.toolchain->version_argv,
		    VERSION_TIMEOUT_MS) < 0)
		return -1;
	spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	spec->capture = true;
	return 0;
}

/* A digit that no word is before, as in «v20.1» and «Python 3.11», not in «lua5». */
static bool version_begins(const char *output, size_t i)
{
	if (!isdigit((unsigned char)output[i]))
		return false;
	if (i > 0 && output[i - 1] == 'v')
		i--;
	return i == 0 || !(isalnum((unsigned char)output[i - 1]) || strchr(".-_", output[i - 1]));
}

void language_version_of(const char *output, size_t length, char *ret, size_t size)
{
	ret[0] = '\0';
	for (size_t i = 0; i < length; i++) {
		size_t end = i, dots = 0;

		if (output[i] != 'g' || i + 2 >= length || output[i + 1] != 'o' ||
			!isdigit((unsigned char)output[i + 2])) {
			if (!version_begins(output, i))
				continue;
		} else {
			end = i += 2; /* «go1.26» */
		}
		/* «12.2.0-14+deb12u1»: what a distribution adds is left out, «1.95.0-nightly» is whole. */
		for (; end < length && (isalnum((unsigned char)output[end]) || output[end] == '.' ||
					       (output[end] == '-' && end + 1 < length &&
						       isalpha((unsigned char)output[end + 1])));
			end++)
			dots += output[end] == '.';
		if (dots == 0 || end - i >= size)
			continue;
		memcpy(ret, output + i, end - i);
		ret[end - i] = '\0';
		return;
	}
}
