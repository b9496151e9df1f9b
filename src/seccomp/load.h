/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SECCOMP_LOAD_H
#define NSBOX_SECCOMP_LOAD_H

/*
 * The filters of a sandbox, by the name in its spec: a built-in profile, none («unconfined»), or a user's own
 * file. A user's profile replaces the default and may allow more than that; what no sandbox can do without is
 * refused by the essential filter (seccomp-profiles/essential.json), which then goes with it.
 */

#include <stdbool.h>

struct error;
struct spec;

/* The names that a user can give in place of a file, as a sentence lists them. */
#define SECCOMP_NAMES "default, strict, debug, unconfined"

/* Whether it is one of them. */
bool seccomp_is_name(const char *name);

/*
 * What a user gave as «NAME|FILE» to `what`: the name, or the absolute path of the file, malloc'd. NULL with *err:
 * it is neither.
 */
char *seccomp_resolve(const char *what, const char *argument, struct error *err);

/*
 * Sets the filters of *spec from its seccomp_name. Errors in a user's profile name the file and the line.
 * A profile that refuses what nsbox itself needs to start a command is an error that names the call.
 */
int spec_load_filters(struct spec *spec, struct error *err);

#endif
