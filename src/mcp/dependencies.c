/* SPDX-License-Identifier: MIT */
/* Packages that code needs: see dependencies.h. */
#define _GNU_SOURCE
#include "mcp/dependencies.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/server.h"
#include "mcp/step.h"
#include "packages/apt.h"
#include "packages/packages.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

int dependencies_read(const struct mcp_options *options, const json_t *arguments, const char *argument, json_t **ret_names,
	json_t **ret_system, struct error *err)
{
	const json_t *list = NULL, *value;
	size_t i;

	*ret_names = json_array();
	*ret_system = json_array();
	if (argument_array(arguments, argument, &list, err) < 0)
		return -1;
	json_array_foreach (list, i, value) {
		cleanup_free char *what = xasprintf("%s[%zu]", argument, i);
		const char *name = argument_text(what, value, err);

		if (!name)
			return -1;
		if (strncmp(name, DEPENDENCIES_SYSTEM, strlen(DEPENDENCIES_SYSTEM)) == 0)
			json_array_append_new(*ret_system, json_string(name + strlen(DEPENDENCIES_SYSTEM)));
		else
			json_array_append_new(*ret_names, json_string(name));
	}
	if (!options->network.none || json_array_size(list) == 0)
		return 0;
	error_set(err, 0, "%s: this server installs no packages", argument);
	return error_hint(err, "Use what comes with the language; nothing was run. Whoever starts the server can allow it with "
			       "--allow-network registries, in place of none.");
}

/* Borrowed strings in an array that is malloc'd. */
static char **names_of(const json_t *array)
{
	char **names = xcalloc(json_array_size(array) + 1, sizeof *names);
	const json_t *value;
	size_t i;

	json_array_foreach (array, i, value)
		names[i] = (char *)json_string_value(value);
	return names;
}

static int install_first(struct step *step, const struct language *language, const json_t *names)
{
	step->kind = STEP_INSTALL;
	step->language = language ? xstrdup(language_name(language)) : NULL;
	step->packages = json_incref((json_t *)names);
	return 1;
}

static int use_packages(const struct language *language, const json_t *list, bool later, struct step *step, struct error *err)
{
	cleanup_free char **names = names_of(list);
	struct packages_set set;
	int r;

	if (!names[0])
		return 0;
	if (!language)
		return error_set(err, 0, "dependencies: the packages of which language? give language, too");
	if (packages_resolve(language, &step->spec, names, &set, err) < 0)
		return error_context(err, "dependencies");
	if (later) {
		step->packages = json_incref((json_t *)list);
		r = 0;
	} else if (packages_installed(&set)) {
		r = packages_use(&set, &step->spec, err);
	} else {
		r = install_first(step, language, list);
	}
	packages_set_free(&set);
	return r;
}

static int use_system(const json_t *list, struct step *step, struct error *err)
{
	cleanup_free char **names = names_of(list);
	struct apt_set set;
	int r = 0;

	if (!names[0])
		return 0;
	if (apt_resolve(&step->spec, names, &set, err) < 0) {
		if (step->spec.root == ROOT_HOST)
			error_hint(err, "They take an image with apt: name one that this server allows in image; list_languages has those of "
					"the languages.");
		return error_context(err, "dependencies");
	}
	if (apt_installed(&set))
		apt_use(&set, &step->spec);
	else
		r = install_first(step, NULL, list);
	apt_set_free(&set);
	return r;
}

int run_argument_dependencies(const struct mcp_options *options, const struct language *language, const json_t *arguments,
	bool later, struct step *step, struct error *err)
{
	json_t *names, *system;
	int r = dependencies_read(options, arguments, "dependencies", &names, &system, err);

	if (r == 0)
		r = use_system(system, step, err);
	if (r == 0)
		r = use_packages(language, names, later, step, err);
	json_decref(names);
	json_decref(system);
	return r;
}
