/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_WIRE_H
#define NSBOX_UNPACK_WIRE_H

/*
 * What nsbox-image and nsbox-unpack say to each other, on a SOCK_SEQPACKET socket, descriptor 1 of nsbox-unpack.
 *
 * Descriptor 0 is the blob, 3 the directory to unpack into, 4 a file that takes the notes: what only the
 * layers below can answer. A note is a record of two strings, each with its NUL:
 *
 *     «d» PATH           a directory that the archive has something in without naming it: its
 *                        attributes are those of the layers below
 *     «l» PATH, TARGET   a hard link to something that the archive does not have
 */

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

enum {
	UNPACK_BLOB = 0,
	UNPACK_CONTROL = 1,
	UNPACK_DIRECTORY = 3,
	UNPACK_NOTES = 4,
};

/* To nsbox-unpack, whenever the blob has grown. */
struct blob_progress {
	uint64_t size;  /* bytes that can be read now */
	uint32_t final; /* whether these are all */
};

/* From nsbox-unpack, once, at its end. */
struct unpack_result {
	uint32_t failed;
	uint32_t notes;         /* their number */
	uint32_t opaque;        /* the root of the layer is: nothing below it shows */
	struct error error;     /* with `failed`; foreign bytes in it: make it printable */
	char digest[72];        /* the diff id, «sha256:…» */
	uint64_t archive_bytes; /* of the uncompressed archive */
	uint64_t entries;       /* in it */
	uint64_t file_bytes;    /* of the files in it */
	uint64_t xattrs_left_out;
	uint64_t devices_left_out; /* made as empty files */
};

#endif
