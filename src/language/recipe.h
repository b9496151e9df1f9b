/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_RECIPE_H
#define NSBOX_LANGUAGE_RECIPE_H

/*
 * How a toolchain's packages are installed, and how code then finds them: «packages» in a language's file, which
 * nsbox-languages(5) describes; in short:
 *
 *     manager  what people call the package manager («pip»); known ones have the host's settings carried over
 *     folder   the name of {packages}, by default the language's: languages that use each other's packages share one
 *     hosts    [rules of the network gate (gate/policy.h)] that an install may reach
 *     needs    as a toolchain's: programs that an install needs besides    optional
 *     names    {pattern, example}: what a package may be called, an extended regular expression for the whole of it
 *     install  {argv, timeout_ms: 600000, env}; «{names}» becomes an argument for each package
 *     files    {name: text or [lines]}, beside {support} of the install    optional
 *     env      {NAME: value}, of the code's commands                       optional
 *     compile, run    {argv: [...]} in place of the toolchain's            optional
 *     binds    {what is below {packages}: where it is shown, too}          optional
 *
 * {packages} is the folder of the language's packages: an install can write it, code cannot. {path} is the PATH that
 * there is without «packages».
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "language/definition.h"

struct error;
struct language;

/* All packages are below this, inside: those of a language in a folder of its name. */
#define PACKAGES_PLACE "/opt/nsbox/packages"
/* What an install has as its home and for temporary files; nothing of it stays. */
#define PACKAGES_WORK "/opt/nsbox/install"

enum { PACKAGES_NAMES_MAX = 256, PACKAGES_NAME_MAX = 256 /* bytes */ };

struct recipe_bind {
	char *from;   /* relative to {packages} */
	char *target; /* absolute */
};

struct recipe {
	char *text; /* the whole of it, in one form: another recipe has another text */
	char *manager;
	char *folder; /* NULL: the language's name */
	char **hosts;
	struct need *needs;
	size_t needs_count;
	char *pattern;
	char *example; /* for errors: «requests or requests==2.32.3» */
	char **install_argv;
	uint64_t install_timeout_ms;
	struct environment install_env;
	struct support_file *files;
	size_t files_count;
	struct environment env;
	char **compile_argv, **run_argv; /* NULL: the toolchain's */
	uint64_t compile_timeout_ms;     /* 0: the toolchain's */
	struct recipe_bind *binds;
	size_t binds_count;
};

/* Reads and checks the value of «packages». On failure *err begins with the key. */
int recipe_read(json_t *object, struct recipe **ret, struct error *err);

void recipe_free(struct recipe *recipe);

/* The name of the folder with the packages of such a toolchain of the language, below PACKAGES_PLACE. */
const char *recipe_folder(const struct language *language, const struct recipe *recipe);

/*
 * Whether the manager can be given these names (NULL-terminated, at least one): nothing that it would take for an option,
 * a path, a URL or another source than its registry. *err says which is not, and how one is written.
 */
int recipe_check_names(const struct recipe *recipe, char *const *names, struct error *err);

#endif
