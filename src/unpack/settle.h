/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_SETTLE_H
#define NSBOX_UNPACK_SETTLE_H

/*
 * What an unpacked layer left to the layers below it (the notes of unpack/wire.h), once these are there.
 *
 *   A directory that the layer has something in without naming it takes the attributes of the one below; where a
 *   symbolic link to a directory is below, what is in it moves to where the link leads.
 *
 *   A hard link to a file of a layer below becomes a copy of it, as overlayfs makes one when such a link is written to.
 */

#include <stdbool.h>
#include <stddef.h>

struct error;

/*
 * `layer` and `lower` are descriptors of directories: the layer's, and all below it merged. `notes` are `length` bytes.
 * `owners`: owners are kept.
 */
int settle(int layer, int lower, const char *notes, size_t length, bool owners, struct error *err);

#endif
