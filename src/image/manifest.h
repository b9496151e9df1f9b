/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_MANIFEST_H
#define NSBOX_IMAGE_MANIFEST_H

/*
 * The JSON documents of an image: index, manifest and configuration (OCI image-spec 1.1), and Docker's of the same
 * shape («schema 2»). They come from strangers: everything is checked and bounded here, and what follows can rely
 * on it. Pure functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/platform.h"
#include "image/reference.h"

struct error;

enum {
	DOCUMENT_MAX =
		4
		<< 20, /* bytes of an index or a manifest; what registries have to accept (distribution-spec) */
	CONFIG_DOCUMENT_MAX = 8 << 20, /* bytes of a configuration, which has the history in it */
	MANIFEST_LAYERS_MAX = 400,     /* overlayfs takes 500 */
	INDEX_ENTRIES_MAX = 1024,
};

enum media {
	MEDIA_UNKNOWN, /* artifacts, attestations: never run */
	MEDIA_INDEX,
	MEDIA_MANIFEST,
	MEDIA_CONFIG,
	MEDIA_LAYER, /* an uncompressed tar archive */
	MEDIA_LAYER_GZIP,
	MEDIA_LAYER_ZSTD,
};

struct descriptor {
	enum media media;
	char digest[DIGEST_SIZE];
	uint64_t size;            /* bytes */
	bool has_platform;        /* of an entry of an index */
	struct platform platform; /* empty strings without */
	char name[REFERENCE_MAX +
		  1]; /* org.opencontainers.image.ref.name of an OCI layout's index; or empty */
};

/* An index or a manifest. */
struct manifest {
	bool is_index;
	struct descriptor config; /* of a manifest */
	struct descriptor *
		entries; /* owned: an index's manifests, or a manifest's layers from the bottom up */
	size_t count;
};

/* What an image's author says about running it. Strings and arrays are owned and NULL where nothing is said. */
struct image_config {
	struct platform platform;
	char *created;
	char *user;
	char **env, **entrypoint, **command, **volumes; /* NULL-terminated */
	char *working_directory;
	char *stop_signal;
	char (*diff_ids)[DIGEST_SIZE]; /* digests of the uncompressed layers, from the bottom up */
	size_t layers;
};

/* The value of `mediaType` or of Content-Type (parameters after «;» do not count). */
enum media media_of(const char *type);

/* OCI's name for a layer's type; never NULL for a layer. */
const char *media_layer_type(enum media media);

/*
 * Parses an index or a manifest. `content_type` is what the registry called it, or NULL; where the document has a
 * mediaType of its own, the two must agree. `origin` names the document in errors.
 */
int manifest_parse(const char *json, size_t length, const char *content_type, const char *origin,
	struct manifest *ret, struct error *err);

void manifest_free(struct manifest *manifest);

/* The text of an image's manifest, malloc'd. */
char *manifest_format(const struct manifest *manifest);

/* The entry of an index that runs best on `wanted`. An error lists what there is instead. */
int index_choose(const struct manifest *index, const struct platform *wanted, const char *origin,
	const struct descriptor **ret, struct error *err);

/* Parses the configuration of an image. */
int image_config_parse(const char *json, size_t length, const char *origin,
	struct image_config *ret, struct error *err);

void image_config_free(struct image_config *config);

#endif
