/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_TAKE_H
#define NSBOX_PACKAGES_TAKE_H

/*
 * A layer of packages as the packages of a session: a copy, which is the session's own, as if its manager had installed
 * them there.
 *
 *     FOLDER/../work/copy    the copy, until it is whole
 *     FOLDER/python/         where it is then: renamed, at once, to the place of an empty directory
 *
 * A directory that a session shows elsewhere, too (recipe.binds), stays the one that it is, since what is shown is that one;
 * what is in it is put there name by name. In any case the language has its packages only once it is marked
 * (packages/session.h): what is there without a mark a failed install has left, or a killed one of us, and goes.
 */

#include <stdint.h>

#include "image/duplicate.h"
#include "packages/install.h"

struct take {
	int storage;	    /* the directory that FOLDER is in, as «space»; locked, with an empty directory «work/tmp» */
	const char *folder; /* «python» */
	const struct recipe *recipe;
	const struct install *install; /* that this is in place of: for errors */
	uint64_t disk_bytes;	       /* what all in «storage» may take */
	struct duplicate_end end;
};

/*
 * Takes the layer with that tree (an absolute path), which the caller holds. Returns 0; 1 where it is none that can be copied
 * without changing it; -1 with *err. Without 0 FOLDER has what it had before, or nothing.
 */
int take_layer(const struct take *take, const char *tree, struct error *err);

#endif
