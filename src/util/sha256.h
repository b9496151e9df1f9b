/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_SHA256_H
#define NSBOX_UTIL_SHA256_H

/* SHA-256 (FIPS 180-4) of what is short: names of things by what they are. (What is long, nsbox-image has libcrypto for.) */

#include <stddef.h>
#include <stdint.h>

enum { SHA256_HEX_SIZE = 65 };

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes so far */
	uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);

/* The digest as 64 lower-case digits and a NUL. *hash is used up. */
void sha256_finish(struct sha256 *hash, char ret[static SHA256_HEX_SIZE]);

#endif
