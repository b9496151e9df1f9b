/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_RECORD_H
#define NSBOX_IMAGE_RECORD_H

/*
 * What the store knows of an image: everything that running it takes, in one file of JSON, so that a run reads
 * nothing else before the layers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/platform.h"
#include "image/reference.h"

struct error;
struct store;

struct record_layer {
	char chain_id[DIGEST_SIZE];
	char diff_id[DIGEST_SIZE];
	char blob[DIGEST_SIZE]; /* as it was pulled */
	uint64_t blob_bytes;
	char media_type[96]; /* of the blob */
	bool hidden;         /* by an opaque root above it: not mounted */
};

/* Strings and arrays are owned; NULL where the image says nothing. */
struct image_record {
	struct reference reference;
	char manifest[DIGEST_SIZE], config[DIGEST_SIZE];
	struct platform platform;
	char *created;               /* as the image says it */
	char *pulled;                /* RFC 3339, UTC */
	struct record_layer *layers; /* from the bottom up */
	size_t layers_count;

	char *user; /* as the image says it */
	uint32_t uid, gid;
	char *home;                                     /* of that user, from the image's passwd */
	char **env, **entrypoint, **command, **volumes; /* NULL-terminated */
	char *working_directory, *stop_signal;
};

/* Reads the record of an image. Returns 1 where the store has none. Free *ret with record_free. */
int record_load(const struct store *store, const struct reference *reference,
	struct image_record *ret, struct error *err);

/* The same for a file below the store, by its name there. */
int record_load_file(
	const struct store *store, const char *name, struct image_record *ret, struct error *err);

/* Writes it where record_load finds it, in place of an older one; on disk when it returns. */
int record_save(const struct store *store, const struct image_record *record, struct error *err);

void record_free(struct image_record *record);

/* The bytes of all layers' blobs. */
uint64_t record_blob_bytes(const struct image_record *record);

#endif
