/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_PULL_H
#define NSBOX_SESSION_PULL_H

/* Fetches an image for a server, by nsbox-image, in a process that nothing else waits for. */

#include <stdbool.h>

#include "sandbox/sandbox.h"

struct error;

/* Where nsbox-image takes the configuration of registries from: as nsbox itself, by --config and --no-config. */
struct pull_config {
	const char *file; /* NULL: the system's and the user's */
	bool none;
};

/*
 * Fetches the image `name` into the store. control->progress is called about once a second with what there is to say
 * of the layers; control->cancel_fd ends it. Returns 0, or -1 with *err, which is in the words of nsbox-image.
 */
int pull_image(const char *name, const struct pull_config *config,
	const struct run_control *control, struct error *err);

#endif
