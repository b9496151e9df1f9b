/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_NEEDS_H
#define NSBOX_LANGUAGE_NEEDS_H

/* Which of a language's toolchains is there in the root of a spec, and where its programs are. */

#include <stdbool.h>
#include <stddef.h>

#include "language/locate.h"

struct error;
struct language;
struct need;
struct spec;
struct toolchain;

struct found_program {
	const struct need *need;
	char *name;               /* which of the need's programs it is */
	struct location location; /* file is NULL where the root is not the host's */
	char *inside;             /* then, where it is there */
};

struct choice {
	const char *image_digest; /* of the spec, where its root is an image; else NULL */
	const char *layer;	  /* what was installed over that image: the path of its tree; NULL: nothing was */
	bool own_image;           /* which the language's file names */
	const struct toolchain *toolchain;
	struct found_program *programs; /* one for each need; none where a mount hides what is there */
	size_t programs_count;
};

/*
 * Chooses the first toolchain whose needs are met. Returns 0 with *ret, released by choice_free, or -1
 * with *err naming what is missing and, but for an image, the hint saying how to get it.
 */
int needs_choose(const struct language *language, const struct spec *spec, struct choice *ret,
	struct error *err);

/*
 * The same, and in the choice what installing packages needs besides. Fails, too, where the toolchain has no packages,
 * and where a mount hides what is there.
 */
int needs_choose_packages(const struct language *language, const struct spec *spec, struct choice *ret,
	struct error *err);

void choice_free(struct choice *choice);

/*
 * The PATH in the root of `spec` before a language adds to it: an image may have one of its own. Owned by the spec, or
 * constant.
 */
const char *needs_path(const struct spec *spec);

#endif
