/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_LANGUAGE_H
#define NSBOX_LANGUAGE_LANGUAGE_H

/*
 * Languages: languages/NAME.json says what to write, what to compile and what to run. The user's
 * ~/.config/nsbox/languages/NAME.json goes before the installed one. The format is described in definition.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct spec;

struct language; /* opaque */

/*
 * Finds a language by name or alias, in any case. An unknown one: the error lists what there is.
 * Owned by the caller: language_free.
 */
int language_load(const char *name, struct language **ret, struct error *err);

void language_free(struct language *language);

const char *language_name(const struct language *language);

/* Calls `each` for every language's name, in alphabetical order; a file that is broken is passed with its error. */
void language_list(
	void (*each)(void *data, const char *name, const struct error *broken), void *data);

/*
 * Puts `code` into *spec as the language's source file, and its compile (if it has one) and run
 * commands with `arguments` (NULL-terminated, may be NULL) as the spec's execs. The environment of
 * the execs is the language's; {memory_mib} in arguments and environment becomes the spec's memory
 * limit, so set limits first. `timeout_ms` is the run phase's. Fails where the host root lacks a
 * program that the language needs: the error names it and says how to get it.
 */
int language_prepare(const struct language *language, const void *code, size_t length,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err);

#endif
