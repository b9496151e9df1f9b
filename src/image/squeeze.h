/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_SQUEEZE_H
#define NSBOX_IMAGE_SQUEEZE_H

/*
 * What is written, compressed by gzip into a file, with the digests of both on the way: the other end of
 * unpack/stream.h. The same bytes in have the same bytes out, whatever parts they come in: there is no time in them,
 * and no name.
 *
 * What compresses too well is stored in part, so that the result has no more than SQUEEZE_RATIO_MAX times its size in
 * it: nobody takes it for something that was made to fill a disk.
 */

#include <stddef.h>
#include <stdint.h>

#include "image/reference.h"

struct error;
struct squeeze;

enum { SQUEEZE_RATIO_MAX = 90 };

struct squeezed {
	char in_digest[DIGEST_SIZE], out_digest[DIGEST_SIZE];
	uint64_t in_bytes, out_bytes;
};

/* `fd`, which stays the caller's, is written to. NULL with *err. */
struct squeeze *squeeze_new(int fd, struct error *err);

int squeeze_write(struct squeeze *squeeze, const void *data, size_t length, struct error *err);

/* How much has been written to it so far: bytes. */
uint64_t squeeze_taken(const struct squeeze *squeeze);

int squeeze_finish(struct squeeze *squeeze, struct squeezed *ret, struct error *err);

void squeeze_free(struct squeeze *squeeze);

#endif
