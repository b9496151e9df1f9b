/* SPDX-License-Identifier: MIT */
/* Interactive interpreters of languages: see language.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "language/preparation.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

bool language_has_repl(const struct language *language)
{
	return language->repl.run_argv;
}

static void add_name(void *data, const struct language *language, const char *name, const struct error *broken)
{
	char **list = data;

	if (!broken && language_has_repl(language)) {
		cleanup_free char *before = *list;

		*list = xasprintf("%s%s%s", before, *before ? ", " : "", name);
	}
}

int language_require_repl(const struct language *language, struct error *err)
{
	cleanup_free char *names = xstrdup("");

	if (language_has_repl(language))
		return 0;
	language_visit(add_name, &names);
	error_set(err, 0, "%s has no interactive interpreter", language->title);
	return error_hint(err, "these have one: %s", names);
}

int language_prepare_repl(const struct language *language, const char *unique, struct spec *spec, struct error *err)
{
	cleanup_free char *support = language_support_directory(unique);
	cleanup_preparation struct preparation preparation = {0};
	const struct repl_definition *repl = &language->repl;

	if (language_require_repl(language, err) < 0 || preparation_begin(language, spec, &preparation, err) < 0)
		return -1;
	preparation_use_cache(&preparation);
	preparation.values.support = support;
	preparation.values.source = DEFINITION_WORKSPACE;
	for (size_t i = 0; i < repl->files_count; i++) {
		cleanup_free char *path = xasprintf("%s/%s", support, repl->files[i].name);

		spec_add_file(spec, path, repl->files[i].text, strlen(repl->files[i].text), PREPARATION_FILE_MODE);
	}
	if (preparation_add_exec(&preparation, "run", repl->run_argv, 0) < 0)
		return -1;
	return preparation_add_env(&preparation, &repl->env, &spec->execs[spec->execs_count - 1]);
}
