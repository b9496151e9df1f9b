/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_CHANGE_H
#define NSBOX_IMAGE_CHANGE_H

/* Changing the store: who may at the same time, what others have left half done, and what nothing refers to any more. */

#include <stdint.h>

#include "image/reference.h"
#include "image/store.h"

struct error;
struct image_record;

/*
 * Before something is added; any number of processes may. Removes what ended processes have left in tmp and, first
 * of all after the machine was started, what nothing refers to: it may not have reached the disk. Returns a lock to be
 * closed when all is done.
 */
int store_begin_adding(const struct store *store, struct error *err);

/* Removes from tmp what ended processes have left there and nobody can go on with. */
int store_sweep(const struct store *store, struct error *err);

struct pruned {
	unsigned layers, blobs, in_use; /* numbers; layers of live sandboxes stay */
	uint64_t bytes;                 /* of blobs, and of files in layers */
};

/*
 * Removes every layer, blob and temporary file that no image refers to. Waits for those who add.
 */
int store_prune(const struct store *store, struct pruned *ret, struct error *err);

/* Forgets an image. Returns 1 where there is none. Its layers go with store_prune. */
int store_remove_image(
	const struct store *store, const struct reference *reference, struct error *err);

/*
 * Calls `each` for all images, sorted by name. What is damaged is named on standard error and left out. Returns what
 * `each` returned, where that was not 0, and stops then.
 */
int store_list(const struct store *store,
	int (*each)(void *data, const struct image_record *record), void *data, struct error *err);

#endif
