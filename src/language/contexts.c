/* SPDX-License-Identifier: MIT */
/* Interpreters that are kept: see language.h. How their drivers are spoken to is in session/contexts.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "language/preparation.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { DRIVER_MAX = 1 << 20 /* bytes */ };

static const struct context_definition *context_of(
	const struct language *language, const struct toolchain *toolchain)
{
	return toolchain->context.driver ? &toolchain->context : &language->context;
}

bool language_has_contexts(const struct language *language)
{
	for (size_t i = 0; i < language->toolchains_count; i++)
		if (context_of(language, &language->toolchains[i])->driver)
			return true;
	return false;
}

/* The driver, from the folder beside the language's file; malloc'd. */
static char *read_driver(
	const struct language *language, const char *name, size_t *ret_length, struct error *err)
{
	cleanup_free char *path = xasprintf("%s/contexts/%s", language->directory, name);
	/* O_NONBLOCK: a FIFO of that name must not make us wait. */
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text;

	if (fd < 0 || read_fd_whole(fd, DRIVER_MAX, &text, ret_length) < 0) {
		error_set(err, errno, "the driver of contexts of %s: %s", language->title, path);
		return NULL;
	}
	return text;
}

static void add_files(
	const struct preparation *preparation, const struct support_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		cleanup_free char *path =
			xasprintf("%s/%s", preparation->values.support, files[i].name);

		spec_add_file(preparation->spec, path, files[i].text, strlen(files[i].text),
			PREPARATION_FILE_MODE);
	}
}

int language_prepare_context(
	const struct language *language, const char *unique, struct spec *spec, struct error *err)
{
	cleanup_free char *support = language_support_directory(unique), *driver = NULL,
			  *text = NULL;
	cleanup_preparation struct preparation preparation = {0};
	const struct context_definition *context;
	size_t length;

	if (preparation_begin(language, spec, &preparation, err) < 0)
		return -1;
	context = context_of(language, preparation.choice.toolchain);
	if (!context->driver) {
		error_set(err, 0, "%s has no contexts%s", language->title,
			language_has_contexts(language) ? " with the toolchain that is there" : "");
		return error_hint(err, "run its code without a context, or use another language");
	}
	text = read_driver(language, context->driver, &length, err);
	if (!text)
		return -1;
	driver = xasprintf("%s/%s", support, context->driver);
	preparation_use_cache(&preparation);
	preparation.values.support = support;
	preparation.values.driver = driver;
	preparation.values.source = driver;
	add_files(&preparation, language->files, language->files_count);
	add_files(&preparation, context->files, context->files_count);
	spec_add_file(spec, driver, text, length, PREPARATION_FILE_MODE);
	return preparation_add_exec(&preparation, "run", context->run_argv, 0);
}
