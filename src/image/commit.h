/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_COMMIT_H
#define NSBOX_IMAGE_COMMIT_H

/*
 * A snapshot of a session as an image: the layers of the image that the session was made of, and one with all that the
 * session had written over it and what was installed by apt for it (pack.h). A session that was made of a directory has
 * no layers below: all of it is one.
 *
 * What nsbox itself puts into a root is not the session's, and stays out: names of the network, what is in /dev, /proc,
 * and /sys, and /opt/nsbox.
 */

#include "image/install.h"
#include "image/snapshots.h"
#include "image/store.h"

struct error;

struct commit {
	const struct store *store;
	const struct snapshots *snapshots;
	const struct snapshot *snapshot;
	const char *author, *message; /* or NULL */
	char *const *changes;         /* instructions (instruction.h); NULL-terminated */
	/* Called while the layer is packed, after every so many bytes, and while the image is installed; or NULL. */
	void (*packing)(void *data, uint64_t bytes);
	void (*progress)(void *data, const struct install *install);
	void *progress_data;
};

struct committed {
	char digest[DIGEST_SIZE]; /* of the manifest */
	char layer[DIGEST_SIZE];  /* of the new layer's archive; empty: nothing was written */
	uint64_t layer_bytes;     /* of that */
};

/*
 * The directory that the image is made of, besides the store: the snapshot's, or NULL. Fails where it has a root of
 * which no image can be made. To be asked before the wall is raised.
 */
int commit_directory(const struct store *store, const struct snapshot *snapshot, char **ret, struct error *err);

/* Makes the image and calls it *reference. By who adds to the store (change.h). */
int commit_image(
	const struct commit *commit, const struct reference *reference, struct committed *ret, struct error *err);

#endif
