/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_MERGE_H
#define NSBOX_IMAGE_MERGE_H

/*
 * Layers over each other, as overlayfs would show them, as what they change of the layers below: the difference that
 * one layer has to be to look like all of them.
 *
 * What is in them was made by strangers. It is read by descriptors, of which none follows a link, and nothing is
 * changed. Directories whose mode keeps their owner out take the capability CAP_DAC_OVERRIDE.
 */

#include <stddef.h>

#include "image/upper.h"

struct error;

enum merge_role {
	MERGE_WRITTEN, /* by sandboxes: without what is left out */
	MERGE_WHOLE,   /* all of it */
	MERGE_BELOW,   /* compared with: shown is what of it is not there any more, and nothing else */
};

/* An open directory with a tree in the form of overlayfs: whiteouts are devices or marked files (layers.h). */
struct merge_layer {
	int fd;
	enum merge_role role;
};

/*
 * Shows the difference. `layers`: the topmost first, those that are MERGE_BELOW last. `left_out`: as in
 * upper_become_layer, for layers of the role MERGE_WRITTEN.
 *
 * A directory comes before what is in it, names of a directory in the order of strcmp. It is shown where it is new, or
 * opaque, or something is shown in it, or its mode, owner, or attributes are others than below (or may be); the time
 * alone is no difference, and the root itself is not shown. `visitor->leave` is not called, and `entry` must not
 * return 1. A whiteout is shown where there is something below. What is on another file system is not looked into.
 */
int merge_walk(const struct merge_layer *layers, size_t count, const char *const *left_out,
	const struct upper_visitor *visitor, struct error *err);

/*
 * Shows what one layer has to be that takes the place of all of them, down to the first that is MERGE_BELOW: every directory,
 * as its time counts too, which is left (`visitor->leave`) after what is in it. `open`: what is below may become more than
 * what is in `layers`: then also what hides nothing there is shown, but for whiteouts in directories that are not there.
 */
int merge_walk_all(const struct merge_layer *layers, size_t count, bool open, const struct upper_visitor *visitor,
	struct error *err);

#endif
