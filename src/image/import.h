/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_IMPORT_H
#define NSBOX_IMAGE_IMPORT_H

/*
 * Images from files: an OCI image layout (image-spec, image-layout.md) as a directory or in an archive, what
 * `docker save` writes, or the archive of a root file system.
 */

#include "image/install.h"
#include "image/platform.h"
#include "image/store.h"

struct error;

struct import {
	const struct store *store;
	const char *path; /* a directory or a file; «-»: standard input */
	const char *name; /* what the image is to be called; NULL: what the archive calls it */
	struct platform platform;
	void (*progress)(void *data, const struct install *install);
	void *progress_data;
};

/* *ret: what the image is called now. */
int import_image(const struct import *import, struct reference *ret, struct error *err);

#endif
