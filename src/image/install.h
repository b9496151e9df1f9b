/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_INSTALL_H
#define NSBOX_IMAGE_INSTALL_H

/*
 * An image into the store: its layers' blobs from a source (a registry, a directory), unpacked while they come,
 * and at last its record.
 *
 * A layer goes through these states. What two processes want is made by one of them; the other waits.
 *
 *     WAITING     not begun, or another process has it
 *     COMING      the blob is written, and unpacked as far as it has come
 *     UNPACKING   the blob is whole, the unpacker is not done
 *     UNPACKED    to be settled once all layers below are DONE
 *     DONE        in the store under its chain id
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "image/blob.h"
#include "image/manifest.h"
#include "image/record.h"
#include "image/store.h"
#include "image/unpacker.h"

struct error;

enum layer_state {
	LAYER_WAITING,
	LAYER_COMING,
	LAYER_UNPACKING,
	LAYER_UNPACKED,
	LAYER_DONE,
};

struct layer {
	size_t number; /* from 0, the bottom one */
	enum layer_state state;
	const struct descriptor *descriptor;
	const char *diff_id;
	char chain_id[DIGEST_SIZE];
	struct blob blob;
	struct unpacker unpacker;
	struct unpack_result result;
	bool was_there; /* nothing had to be done */
	bool elsewhere; /* another process makes it */
	bool anew;      /* what there was of the blob was wrong, and it is fetched from its beginning */
	/* What the store has of the layer's archive: *descriptor, or for a layer that was there the same content packed otherwise. */
	struct descriptor held;
	uint64_t first; /* bytes of the blob that were there before */
	void *transfer; /* the source's own */
};

struct install;

/* Where blobs come from. */
struct source {
	/* Begins to bring layer->descriptor into layer->blob, from blob.written on. */
	int (*begin)(void *data, struct layer *layer, struct error *err);
	/*
	 * Does some work for the layers that are COMING, or waits, until one of `fds` can be read, but not
	 * much longer than `timeout_ms`. Calls install_arrived for what it wrote.
	 */
	int (*work)(void *data, struct install *install, const int *fds, size_t count,
		int timeout_ms, struct error *err);
	/* The layer is not COMING any more. */
	void (*end)(void *data, struct layer *layer);
	void *data;
	unsigned parallel_max; /* layers that are COMING at a time */
};

struct install {
	const struct store *store;
	const struct source *source;
	const char *origin; /* of the blobs, for blob_open */
	struct layer *layers;
	size_t count;
	/* Called some times a second, and when the state of a layer has changed; or NULL. */
	void (*progress)(void *data, const struct install *install);
	void *progress_data;
};

/* To be called by source->work: bytes have been written to layer->blob; `whole`: nothing more comes. */
int install_arrived(struct install *install, struct layer *layer, bool whole, struct error *err);

/*
 * Brings all layers of the image into the store and writes its record for `reference`. `manifest_digest` is the
 * manifest's. The manifest, the configuration and what else belongs to the image have been stored as blobs.
 */
int install_image(struct install *install, const struct reference *reference,
	const char *manifest_digest, const struct manifest *manifest,
	const struct image_config *config, struct error *err);

#endif
