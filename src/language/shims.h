/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_SHIMS_H
#define NSBOX_LANGUAGE_SHIMS_H

/*
 * Shims: small programs that version managers put into PATH, which choose the real one when they are
 * started. Their choice is found out here by reading the files that they read; none is executed.
 */

struct error;

/*
 * Returns 1 with *ret, malloc'd, the program that the shim `file` would start; 0 where `file` is no
 * shim; -1 with *err, a reason, where it is one whose choice cannot be told.
 */
int shim_resolve(const char *file, char **ret, struct error *err);

#endif
