/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_NEEDS_H
#define NSBOX_LANGUAGE_NEEDS_H

/* Which of a language's toolchains is there in the root of a spec, and where its programs are. */

#include "language/locate.h"

struct error;
struct language;
struct spec;
struct toolchain;

struct found_program {
	char *name;               /* which of the need's programs it is */
	struct location location; /* file is NULL where the root is not the host's */
};

struct choice {
	const struct toolchain *toolchain;
	struct found_program
		*programs; /* one for each need, or NULL where a mount hides what is there */
};

/*
 * Chooses the first toolchain whose needs are met. Returns 0 with *ret, released by choice_free, or -1
 * with *err naming what is missing and the hint saying how to get it.
 */
int needs_choose(const struct language *language, const struct spec *spec, struct choice *ret,
	struct error *err);

void choice_free(struct choice *choice);

#endif
