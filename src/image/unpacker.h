/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_UNPACKER_H
#define NSBOX_IMAGE_UNPACKER_H

/*
 * nsbox-unpack seen from nsbox-image: a process for each layer, which reads the blob while it is still being
 * written. (Foreign archives are read by it alone; it holds no credentials and can reach nothing else.)
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/manifest.h"
#include "unpack/wire.h"

struct error;
struct store;

enum {
	UNPACK_ENTRIES_MAX = 1000000, /* of one layer */
	UNPACK_RATIO_MAX = 100,       /* of uncompressed to compressed bytes, above 256 MiB */
};
#define UNPACK_BYTES_MAX (UINT64_C(256) << 30) /* of one uncompressed layer */

struct unpacker {
	pid_t pid; /* 0: none */
	int control;
	int notes;
	int lock; /* on the directory that it makes */
	char name
		[64]; /* of that directory below the store: «tmp/layer-…»; the tree is in «fs» there */
};

#define UNPACKER_NONE ((struct unpacker){.control = -1, .notes = -1, .lock = -1})

/*
 * Starts unpacking `blob` (a descriptor, which stays the caller's) of the type `media` into a new directory in the
 * store's tmp. `lowest`: there is no layer below.
 */
int unpacker_start(const struct store *store, int blob, enum media media, bool lowest,
	struct unpacker *ret, struct error *err);

/* Says that the blob has `size` bytes now, and whether these are all. */
void unpacker_progress(const struct unpacker *unpacker, uint64_t size, bool final);

/*
 * Waits for its end. Fails with the unpacker's error. The directory stays, and is the caller's to use or discard.
 */
int unpacker_finish(struct unpacker *unpacker, struct unpack_result *ret, struct error *err);

/*
 * Lets the layers below (descriptors of their trees, the topmost first) answer the notes.
 */
int unpacker_settle(const struct store *store, struct unpacker *unpacker, const int *lowers,
	size_t count, struct error *err);

/* Ends the process, where it still is, and removes the directory, where it has not been renamed. */
void unpacker_discard(const struct store *store, struct unpacker *unpacker);

#endif
