/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_FLATTEN_H
#define NSBOX_IMAGE_FLATTEN_H

/*
 * Which layers of a pile are to be merged into one, so that it stays low however many are laid on it.
 *
 * A name is looked for in each layer from the top, so that each costs time (about a microsecond, where a name is in none),
 * and overlayfs has a bound. What a merge costs goes with the names in the layers. So layers of about the same size are
 * merged, as they are by an LSM tree: what is merged is at least half as big as all that it is merged with, and a name is
 * merged as many times as the logarithm of what lies above it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FLATTEN_FROM = 32,  /* layers: fewer are left as they are */
	FLATTEN_LEAST = 8,  /* that are merged at a time, */
	FLATTEN_RATIO = 2,  /* of which none is more times as big as all above it together, if there are so many */
};

struct flatten_range {
	size_t first, count;
};

/* `entries`: how many names each layer has, the topmost first. Returns whether there is anything to be done. */
bool flatten_choose(const uint64_t *entries, size_t count, struct flatten_range *ret);

#endif
