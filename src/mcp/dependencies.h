/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_DEPENDENCIES_H
#define NSBOX_MCP_DEPENDENCIES_H

/* Packages that code needs: the argument "dependencies", and "packages" of install_packages. */

#include <jansson.h>
#include <stdbool.h>

struct error;
struct language;
struct mcp_options;
struct step;

#define DEPENDENCIES_DESCRIPTION                                                                                              \
	"Packages that are installed first, by the language's own manager, as it names them with or without a version: "     \
	"requests==2.32.3, lodash@4, org.example:lib:1.2; \"apt:NAME\" is one of the system, in an image with apt. They are kept " \
	"for the next call; the time of the install does not count, and the program itself reaches nothing by it"

/* What a package of the system is called: «apt:NAME». */
#define DEPENDENCIES_SYSTEM "apt:"

/*
 * The names in the array `argument` (absent: none): those of a language's packages and those of the system's, whose prefix
 * is cut off (new references). Fails where it is no array of names, or the server installs nothing.
 */
int dependencies_read(const struct mcp_options *options, const json_t *arguments, const char *argument, json_t **ret_names,
	json_t **ret_system, struct error *err);

/*
 * "dependencies" of code in `language` (NULL: in none) in the root of step->spec: what is installed is added to that. What
 * is not becomes the step, STEP_INSTALL, the system's first: then 1 is returned. With `later` a language's packages
 * are only checked, and noted in the step for after it. Else returns 0, or -1 with *err.
 */
int run_argument_dependencies(const struct mcp_options *options, const struct language *language, const json_t *arguments,
	bool later, struct step *step, struct error *err);

#endif
