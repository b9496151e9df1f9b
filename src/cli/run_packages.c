/* SPDX-License-Identifier: MIT */
/* `nsbox run --with`: see run_packages.h. */
#define _GNU_SOURCE
#include "cli/run_packages.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/installing.h"
#include "cli/run_options.h"
#include "language/language.h"
#include "packages/apt.h"
#include "packages/layers.h"
#include "packages/packages.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	TRIES = 3, /* where what was installed is removed before it can be held */
};

/* What the names of the system's packages begin with: no language has such names. */
static const char SYSTEM[] = "apt:";

/* --- names --- */

/* A comma separates names where another can begin, and not in «requests>=2,<3» and «name[one,two]». */
static size_t name_length(const char *text)
{
	unsigned brackets = 0;
	size_t i;

	for (i = 0; text[i]; i++) {
		brackets += text[i] == '[';
		brackets -= text[i] == ']' && brackets > 0;
		if (text[i] == ',' && brackets == 0 &&
			(!text[i + 1] || isalnum((unsigned char)text[i + 1]) || strchr("_@,", text[i + 1])))
			break;
	}
	return i;
}

static void add_name(char ***names, const char *name, size_t length)
{
	size_t count = 0;

	while (*names && (*names)[count])
		count++;
	*names = xrealloc(*names, count + 2, sizeof **names);
	(*names)[count] = xmemdup(name, length);
	(*names)[count + 1] = NULL;
}

int run_packages_parse(struct run_options *options, const char *what, const char *argument, struct error *err)
{
	for (;;) {
		size_t length = name_length(argument);

		if (length == 0)
			return error_set(err, 0, "%s: a name is empty", what);
		if (strncmp(argument, SYSTEM, strlen(SYSTEM)) == 0)
			add_name(&options->system_packages, argument + strlen(SYSTEM), length - strlen(SYSTEM));
		else
			add_name(&options->packages, argument, length);
		if (!argument[length])
			return 0;
		argument += length + 1;
	}
}

/* --- the install --- */

/* One of the two sets. */
struct wanted {
	const struct run_options *options;
	const struct packages_set *set;
	const struct apt_set *system;
};

static int install_one(void *data, const struct run_control *control, struct packages_report *ret, struct error *err)
{
	const struct wanted *wanted = data;
	const struct run_options *options = wanted->options;
	struct packages_options limits;

	packages_options_init(&limits, options->no_config ? NULL : &options->config);
	return wanted->system ? apt_install(wanted->system, &options->spec, &limits, control, ret, err)
			      : packages_install(wanted->set, &options->spec, &limits, control, ret, err);
}

static int install(struct run_options *options, const struct wanted *what, struct error *err)
{
	struct wanted wanted = *what;
	const struct installing installing = {
		.whose = wanted.system ? "the system" : language_name(wanted.set->language),
		.quiet = options->json,
		.install = install_one,
		.data = &wanted,
	};

	if (options->print_spec)
		return error_set(err, 0,
			"--print-spec: the packages of --with are not installed, and nothing is now; run it without once");
	wanted.options = options;
	packages_report_free(&options->install);
	return installing_run(&installing, &options->install, err);
}

int run_packages_prepare_system(struct run_options *options, struct error *err)
{
	struct spec *spec = &options->spec;
	struct apt_set set;
	int r;

	if (!options->system_packages)
		return 0;
	if (apt_resolve(spec, options->system_packages, &set, err) < 0)
		return error_context(err, "--with");
	for (unsigned tries = TRIES;; tries--) {
		r = apt_installed(&set) ? 0 : install(options, &(struct wanted){.system = &set}, err);
		if (r == 0)
			r = layer_hold(set.tree, err) < 0 ? -1 : 0;
		if (r == 0 || err->errnum != ENOENT || apt_installed(&set) || tries == 1)
			break;
	}
	if (r == 0)
		apt_use(&set, spec);
	apt_set_free(&set);
	return r;
}

int run_packages_prepare(struct run_options *options, const struct language *language, struct error *err)
{
	struct spec *spec = &options->spec;
	size_t mounts = spec->mounts_count;
	struct packages_set set;
	int r;

	if (packages_resolve(language, spec, options->packages, &set, err) < 0)
		return error_context(err, "--with");
	for (unsigned tries = TRIES;; tries--) {
		r = packages_installed(&set) ? 0 : install(options, &(struct wanted){.set = &set}, err);
		if (r == 0 && spec->mounts_count == mounts)
			r = packages_use(&set, spec, err);
		if (r == 0)
			r = packages_hold(spec, err);
		if (r == 0 || err->errnum != ENOENT || packages_installed(&set) || tries == 1)
			break;
	}
	packages_set_free(&set);
	return r;
}
