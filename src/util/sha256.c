/* SPDX-License-Identifier: MIT */
/* SHA-256: see sha256.h. Names are those of FIPS 180-4. */
#include "util/sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static uint32_t read_be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void take_block(uint32_t H[8], const uint8_t block[64])
{
	uint32_t W[64], v[8];

	for (unsigned t = 0; t < 16; t++)
		W[t] = read_be32(block + 4 * t);
	for (unsigned t = 16; t < 64; t++)
		W[t] = (rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10) + W[t - 7] +
		       (rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3) + W[t - 16];
	memcpy(v, H, sizeof v);
	for (unsigned t = 0; t < 64; t++) {
		uint32_t T1 = v[7] + (rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25)) +
			      ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[t] + W[t];
		uint32_t T2 = (rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22)) +
			      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof *v);
		v[0] = T1 + T2;
		v[4] += T1;
	}
	for (unsigned i = 0; i < 8; i++)
		H[i] += v[i];
}

void sha256_init(struct sha256 *hash)
{
	*hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
					0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	while (length > 0) {
		size_t used = hash->length % 64, part = 64 - used < length ? 64 - used : length;

		memcpy(hash->block + used, bytes, part);
		hash->length += part;
		if (used + part == 64)
			take_block(hash->state, hash->block);
		bytes += part;
		length -= part;
	}
}

void sha256_finish(struct sha256 *hash, char ret[static SHA256_HEX_SIZE])
{
	uint64_t bits = hash->length * 8;
	uint8_t length[8];

	sha256_add(hash, "\x80", 1);
	while (hash->length % 64 != 56)
		sha256_add(hash, "", 1);
	for (unsigned i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(hash, length, sizeof length);
	for (unsigned i = 0; i < 8; i++)
		snprintf(ret + 8 * i, 9, "%08x", hash->state[i]);
}
