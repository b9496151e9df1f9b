/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_LAYER_H
#define NSBOX_UNPACK_LAYER_H

/* A layer's archive → its directory. */

#include <stdbool.h>
#include <stdint.h>

struct error;
struct stream;
struct tree;
struct unpack_result;

struct layer_limits {
	uint64_t entries_max;
	uint64_t file_bytes_max; /* of all files together, with their holes */
};

struct layer_options {
	bool lowest; /* there is no layer below */
	bool owners; /* the tree sets owners; attributes of the kernel's security modules can be set */
	struct layer_limits limits;
};

/*
 * Reads the archive in `stream` to its end and puts its entries into `tree`. Fills the numbers of *result.
 */
int layer_unpack(struct stream *stream, struct tree *tree, const struct layer_options *options,
	struct unpack_result *result, struct error *err);

/*
 * The path of an entry without «./», leading slashes, double slashes and «.»: into `ret` (PATH_MAX bytes), empty for
 * the root. «..» is an error, since it can only be there to lead out of the layer.
 */
int layer_clean_path(const char *path, char *ret, struct error *err);

#endif
