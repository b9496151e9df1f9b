/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_INSTALL_H
#define NSBOX_PACKAGES_INSTALL_H

/* What the installs of all managers have in common: a place, a sandbox with limits, and what becomes of it. */

#include <stdbool.h>

#include "packages/packages.h"

struct install {
	const char *manager;  /* as people call it */
	const char *language; /* for «about»; or NULL */
	char *const *names;
	const char *key; /* of a layer */
	/*
	 * Puts the command into *spec, which has the root, the walls and the limits; `folder` is what it fills, on the
	 * host, `work` is for what does not stay, with a directory «tmp» in it.
	 */
	int (*prepare)(void *data, const char *folder, const char *work, struct spec *spec, struct error *err);
	/*
	 * Makes what is kept of what there is when the manager has succeeded; or NULL. `place` is a descriptor of the
	 * directory that «folder» and «work» are in.
	 */
	int (*settle)(void *data, int place, struct error *err);
	void *data;
	/* Whether nobody wants it any more, asked from time to time; or NULL. */
	bool (*is_lost)(const void *whose);
	const void *whose;
	char *const *warnings; /* for the report; or NULL */
};

/* Where one install works: on the host. */
struct install_place {
	int fd; /* the directory that the others are in, of which the size is watched */
	const char *folder, *work; /* absolute paths */
};

/*
 * Runs the manager in the root of *root. Returns 0 where it has succeeded within its limits, with what the place takes
 * in *ret_bytes; -1 with *err, which is one line about the names. `work` is empty then. *report is filled in any case.
 */
int install_run(const struct install *install, const struct install_place *place, const struct spec *root,
	const struct packages_options *options, const struct run_control *control, struct packages_report *report,
	uint64_t *ret_bytes, struct error *err);

/* The error where what a folder takes is too much, as the hit of *exec has it (growth.h), and no manager has filled it. Returns -1. */
int install_refuse_size(const struct install *install, struct exec_result *exec, struct error *err);

/* Installs a layer, as packages_install does. */
int install_layer(const struct install *install, const struct spec *root, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err);

/*
 * The packages of a language, as the data of an install: with its recipe, the network that this wants, and the
 * settings.
 */
struct install_language {
	const struct language *language;
	const struct recipe *recipe;
	const struct host_settings *settings;
	char *const *names;
};

/* Its `prepare`: `data` is a struct install_language. */
int install_prepare_language(
	void *data, const char *folder, const char *work, struct spec *spec, struct error *err);

/*
 * What both ways of packages have in common. *ret is an install of *wanted, which is filled in from the set; both are
 * borrowed.
 */
void install_of_set(const struct packages_set *set, struct install_language *wanted, struct install *ret);

/* As packages_resolve, also where no place is set for the store: ret->tree is empty then. */
int install_find_set(const struct language *language, const struct spec *spec, char *const *names, struct packages_set *ret,
	struct error *err);

/* As packages_install, until is_lost(whose). */
int install_set(const struct packages_set *set, const struct spec *root, const struct packages_options *options,
	const struct run_control *control, bool (*is_lost)(const void *whose), const void *whose, struct packages_report *ret,
	struct error *err);

/* NULL-terminated names, sorted and each once; owned by the caller. */
char **install_sort_names(char *const *names);

/*
 * Whether the parts of `tree`, as an install has left it, that the recipe has shown elsewhere are directories: there may be
 * links in their places.
 */
int install_check_parts(int tree, const struct recipe *recipe, struct error *err);

#endif
