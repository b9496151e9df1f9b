/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_STREAM_H
#define NSBOX_UNPACK_STREAM_H

/*
 * A blob that is still being downloaded → the bytes of the archive in it, and their digest.
 *
 * Three threads share a ring of buffers: one reads the blob and decompresses it, one computes the SHA-256 of what comes
 * out (the layer's diff id), and the caller unpacks it. Each goes as fast as the slowest of them.
 *
 * What the blob may grow into is bounded: by `bytes_max`, and by its own size, since a small blob that becomes
 * very large is made to fill a disk.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct stream;

enum compression {
	COMPRESSION_NONE,
	COMPRESSION_GZIP,
	COMPRESSION_ZSTD,
};

struct stream_limits {
	uint64_t bytes_max;   /* that come out */
	uint64_t ratio_max;   /* of what comes out to what goes in … */
	uint64_t ratio_above; /* … as soon as more bytes than these have come out */
};

/*
 * Starts the threads. `blob` is a regular file that is read with pread(2). `control` is a socket on which the one who
 * writes it says how far that is (struct blob_progress in wire.h). Both stay the caller's.
 */
int stream_start(int blob, int control, enum compression compression,
	const struct stream_limits *limits, struct stream **ret, struct error *err);

/*
 * The next bytes of the archive, valid until the next call. Returns their number, 0 at the end, -1 with *err.
 */
ssize_t stream_read(struct stream *stream, const void **ret, struct error *err);

/* Reads what is left and gives the SHA-256 of all, in hexadecimal, and the number of bytes. */
int stream_finish(
	struct stream *stream, char ret_hex[static 65], uint64_t *ret_bytes, struct error *err);

#endif
