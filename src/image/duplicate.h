/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_DUPLICATE_H
#define NSBOX_IMAGE_DUPLICATE_H

/*
 * A copy of what a sandbox has written, while that is paused: a tree of any names, modes and links, read by descriptors of
 * which none follows a link. Where the file system can share content (FICLONE) that is shared, else holes stay holes. Hard
 * links stay links; whiteouts, FIFOs, times, owners and user.* attributes are copied, sockets are not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/merge.h"

struct error;

/*
 * Copies what is in the directory `from`, and what is to be said of it itself, into the empty directory `to` on the same
 * file system, of which at least `floor_bytes` stay free. *ret_bytes: of content that was copied, not shared.
 * It fails soon where SIGTERM is pending, which the caller may have blocked for that: a mode of `from` that keeps its owner
 * out is changed while it is read, and put back.
 */
int tree_duplicate(int from, int to, uint64_t floor_bytes, uint64_t *ret_bytes, struct error *err);

/* What a merge has made. */
struct tree_merged {
	uint64_t bytes;	  /* that it takes itself: of directories, and of what had to be copied */
	uint64_t entries;
	uint64_t *shared; /* of each layer: bytes that belong to both; where files have several names there, more than that */
};

/*
 * Makes one layer of several (merge_walk_all) in the empty directory `to` on the same file system, in a time that goes with the
 * number of names and not with what is in the files: these are cloned where the file system can (FICLONE), else linked. Layers
 * are never changed, so it does not matter to any of them who else has their files; what it shows is st_nlink. Floor and
 * SIGTERM as above. `ret->shared` is the caller's, zeroed.
 */
int tree_merge(const struct merge_layer *layers, size_t count, bool open, int to, uint64_t floor_bytes,
	struct tree_merged *ret, struct error *err);

/* Whether a copy is to end, asked for every file and every few megabytes. */
struct duplicate_end {
	bool (*is_due)(void *data);
	void *data;
};

/*
 * The same of a directory that others read at the same time, on whatever file system: nothing in it is changed, so that what
 * keeps its owner out cannot be copied (EACCES). It fails with ECANCELED where its end is wanted.
 */
int tree_duplicate_shared(int from, int to, uint64_t floor_bytes, const struct duplicate_end *end, struct error *err);

#endif
