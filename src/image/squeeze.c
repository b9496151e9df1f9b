/* SPDX-License-Identifier: MIT */
/* Compressing and hashing: see squeeze.h. */
#define _GNU_SOURCE
#include "image/squeeze.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "image/blob.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/file.h"

enum {
	IN_SIZE = 256 << 10,
	OUT_SIZE = 256 << 10,
	WINDOW_GZIP = 15 + 16,   /* of deflateInit2: the largest, in gzip's format */
	MEMORY_LEVEL = 8,        /* zlib's default */
	LEVEL = 4,               /* twice as fast as zlib's default, for a twentieth more */
	RATIO_ABOVE = 128 << 20, /* bytes in; half of where nsbox-unpack begins to look */
};

struct squeeze {
	int fd;
	z_stream z;
	bool begun, stored;
	EVP_MD_CTX *in_hash, *out_hash;
	uint64_t in_bytes, out_bytes;
	size_t waiting; /* bytes in `in`, which is compressed when it is full: chunks are the same for the same content
			 */
	unsigned char in[IN_SIZE], out[OUT_SIZE];
};

struct squeeze *squeeze_new(int fd, struct error *err)
{
	struct squeeze *squeeze = xcalloc(1, sizeof *squeeze);

	squeeze->fd = fd;
	squeeze->in_hash = EVP_MD_CTX_new();
	squeeze->out_hash = EVP_MD_CTX_new();
	squeeze->begun =
		deflateInit2(&squeeze->z, LEVEL, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
	if (squeeze->begun && squeeze->in_hash && squeeze->out_hash &&
		EVP_DigestInit_ex(squeeze->in_hash, EVP_sha256(), NULL) &&
		EVP_DigestInit_ex(squeeze->out_hash, EVP_sha256(), NULL))
		return squeeze;
	squeeze_free(squeeze);
	error_set(err, ENOMEM, "compressing");
	return NULL;
}

static void empty_out(struct squeeze *squeeze)
{
	squeeze->z.next_out = squeeze->out;
	squeeze->z.avail_out = sizeof squeeze->out;
}

static int put_out(struct squeeze *squeeze, struct error *err)
{
	size_t length = sizeof squeeze->out - squeeze->z.avail_out;

	if (write_whole(squeeze->fd, squeeze->out, length) < 0)
		return error_set(err, errno, "writing the layer into the store");
	EVP_DigestUpdate(squeeze->out_hash, squeeze->out, length);
	squeeze->out_bytes += length;
	return 0;
}

static int compress_waiting(struct squeeze *squeeze, int flush, struct error *err)
{
	int r;

	squeeze->z.next_in = squeeze->in;
	squeeze->z.avail_in = (unsigned)squeeze->waiting;
	squeeze->waiting = 0;
	do {
		empty_out(squeeze);
		r = deflate(&squeeze->z, flush);
		if (r == Z_STREAM_ERROR)
			return error_set(err, 0, "compressing failed");
		if (put_out(squeeze, err) < 0)
			return -1;
	} while (flush == Z_FINISH ? r != Z_STREAM_END : squeeze->z.avail_out == 0);
	return 0;
}

/* Changes how the next chunk is compressed; what zlib still has of those before it gives out as they were to be. */
static int choose_level(struct squeeze *squeeze, struct error *err)
{
	bool stored = squeeze->in_bytes > RATIO_ABOVE && squeeze->in_bytes / SQUEEZE_RATIO_MAX > squeeze->out_bytes;
	int r;

	if (stored == squeeze->stored)
		return 0;
	squeeze->stored = stored;
	squeeze->z.avail_in = 0;
	do {
		empty_out(squeeze);
		r = deflateParams(&squeeze->z, stored ? Z_NO_COMPRESSION : LEVEL, Z_DEFAULT_STRATEGY);
		if (r == Z_STREAM_ERROR)
			return error_set(err, 0, "compressing failed");
		if (put_out(squeeze, err) < 0)
			return -1;
	} while (r == Z_BUF_ERROR);
	return 0;
}

int squeeze_write(struct squeeze *squeeze, const void *data, size_t length, struct error *err)
{
	EVP_DigestUpdate(squeeze->in_hash, data, length);
	while (length > 0) {
		size_t room = sizeof squeeze->in - squeeze->waiting, part = length < room ? length : room;

		memcpy(squeeze->in + squeeze->waiting, data, part);
		squeeze->waiting += part;
		squeeze->in_bytes += part;
		data = (const char *)data + part;
		length -= part;
		if (squeeze->waiting == sizeof squeeze->in &&
			(choose_level(squeeze, err) < 0 || compress_waiting(squeeze, Z_NO_FLUSH, err) < 0))
			return -1;
	}
	return 0;
}

uint64_t squeeze_taken(const struct squeeze *squeeze)
{
	return squeeze->in_bytes;
}

static void finish_hash(EVP_MD_CTX *hash, char ret[DIGEST_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	EVP_DigestFinal_ex(hash, digest, NULL);
	digest_format(digest, ret);
}

int squeeze_finish(struct squeeze *squeeze, struct squeezed *ret, struct error *err)
{
	if (compress_waiting(squeeze, Z_FINISH, err) < 0)
		return -1;
	*ret = (struct squeezed){.in_bytes = squeeze->in_bytes, .out_bytes = squeeze->out_bytes};
	finish_hash(squeeze->in_hash, ret->in_digest);
	finish_hash(squeeze->out_hash, ret->out_digest);
	return 0;
}

void squeeze_free(struct squeeze *squeeze)
{
	if (!squeeze)
		return;
	if (squeeze->begun)
		deflateEnd(&squeeze->z);
	EVP_MD_CTX_free(squeeze->in_hash);
	EVP_MD_CTX_free(squeeze->out_hash);
	free(squeeze);
}
