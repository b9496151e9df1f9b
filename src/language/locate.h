/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_LOCATE_H
#define NSBOX_LANGUAGE_LOCATE_H

/*
 * Where a program is that a sandbox with the `host` root can execute.
 *
 * The caller's PATH decides, as in the caller's shell, and after it the PATH inside. What is found in a
 * home or in /opt counts where managers.h knows the directory that it needs; shims are followed to the
 * program that they would start. Nothing is executed.
 */

#include <stdbool.h>

struct error;

/* Where programs are looked for, inside: the PATH of every language that does not set its own. */
#define LANGUAGE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct location {
	char *file;    /* absolute, outside and inside alike */
	bool standard; /* its name, looked up in LANGUAGE_PATH inside, is this file */
	char **binds; /* directories that it needs bound where they are; NULL-terminated, or NULL */
};

/*
 * Returns 1 with *ret, which location_free releases; 0 where there is none, with err->text empty or
 * saying of the first that was found and cannot be used why not.
 */
int locate_program(const char *name, struct location *ret, struct error *err);

void location_free(struct location *location);

/* The first dir/program of the list `path` that `found` says yes to, malloc'd; or NULL. */
char *search_path(const char *path, const char *program,
	bool (*found)(const void *data, const char *file), const void *data);

#endif
