/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_PACK_H
#define NSBOX_IMAGE_PACK_H

/*
 * From layers in the form of overlayfs to one layer of an image (image-spec, layer.md): what unpacks to the same, over
 * the same layers below. Whiteouts, opaque directories, links, holes and times are kept, of attributes user.* and
 * security.capability. Sockets and devices are not, which a layer does not have or a sandbox cannot make.
 *
 * The same layers have the same bytes: names are in order, and there is nothing in it that they do not have.
 */

#include <stddef.h>
#include <stdint.h>

#include "image/merge.h"
#include "image/squeeze.h"

struct error;

struct pack {
	const struct merge_layer *layers; /* merge.h */
	size_t count;
	const char *const *left_out;
	bool owned;        /* all belongs to uid:gid, whoever has it here */
	uint32_t uid, gid; /* else owners are as they are here, and nobody (65534) those that no sandbox has */
	int fd;            /* what the layer is written to, gzip */
	/* Called after every so often with the bytes that were packed so far; or NULL. */
	void (*progress)(void *data, uint64_t bytes);
	/* What cannot be in a layer and is left out. */
	void (*missing)(void *data, const char *path, const char *why);
	void *data;
};

struct packed {
	struct squeezed layer; /* its diff id is in_digest */
	uint64_t entries;      /* 0: there is no difference */
};

int pack_layer(const struct pack *pack, struct packed *ret, struct error *err);

#endif
