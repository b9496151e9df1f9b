/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_STORE_H
#define NSBOX_IMAGE_STORE_H

/*
 * The store: where images are kept. nsbox-store(7) describes it for people.
 *
 *     blobs/sha256/HEX         manifests, configurations and compressed layers, each named by its SHA-256
 *     layers/HEX/fs            an unpacked layer, named by its chain id (image-spec, config.md): the digest of its
 *                              own diff id and those of all below it, which decide what it looks like
 *     layers/HEX/opaque        there when nothing of the layers below shows through
 *     images/HOST/NAME:TAG     one image (record.h); NAME@sha256:… for one that was asked for by digest
 *     sessions/ID/             the writable space of a session that lives (storage.h)
 *     snapshots/               what sessions can go back to (snapshots.h)
 *     tmp/                     what is being made; each entry is locked by the process that makes it
 *     lock                     shared by whoever adds, exclusive for whoever removes
 *
 * Everything is made in tmp and renamed to where it belongs, so that what has its name is whole. A run holds a shared
 * lock (flock(2)) on each of its layers, which removal respects.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "image/reference.h"

struct error;

struct store {
	int fd;              /* its directory */
	char path[PATH_MAX]; /* absolute */
};

/*
 * The folder: $NSBOX_STORE, else $XDG_DATA_HOME/nsbox, else ~/.local/share/nsbox. Returns -1 where none is set.
 */
int store_path(char ret[PATH_MAX], struct error *err);

/*
 * Whether there is anything that could be a store. There is none where no place is set, nothing is there, or the place is
 * in a home that the caller may not even enter, which then is somebody else's (HOME as setpriv leaves it).
 */
bool store_is_there(void);

/*
 * Opens the store. With `create` it is made where it is missing; else a missing one is 1. *ret is closed with
 * store_close.
 */
int store_open(bool create, struct store *ret, struct error *err);

void store_close(struct store *store);

/* The name of a digest's file below the store («blobs/sha256/HEX»), or of a layer («layers/HEX»). Return `buffer`. */
enum { STORE_NAME_MAX = 96 };
const char *store_blob_name(const char *digest, char buffer[STORE_NAME_MAX]);
const char *store_layer_name(const char *chain_id, char buffer[STORE_NAME_MAX]);

/*
 * Makes an empty file «tmp/PREFIX-XXXXXX», locked, so that nobody takes it for one that was left (change.c knows the
 * prefixes). Its name below the store is put into `ret`. Returns the descriptor, or -1 with errno.
 */
int store_make_file(const struct store *store, const char *prefix, char ret[STORE_NAME_MAX]);

/* The name of an image's record below the store. Returns `buffer`. */
enum { STORE_IMAGE_NAME_MAX = 2 * REFERENCE_MAX };
const char *store_image_name(const struct reference *reference, char buffer[STORE_IMAGE_NAME_MAX]);

/*
 * Opens the tree of a layer and locks the layer, shared; the lock is *ret_lock's. Returns the tree's descriptor; -1
 * with ENOENT in err->errnum where there is no such layer.
 */
int store_open_layer(
	const struct store *store, const char *chain_id, int *ret_lock, struct error *err);

/*
 * The lock alone, of the layer whose tree is at the path `tree`, as specs have it («STORE/layers/HEX/fs»): a descriptor,
 * or -1 where the layer is not there any more.
 */
int store_hold_layer(const char *tree, struct error *err);

#endif
