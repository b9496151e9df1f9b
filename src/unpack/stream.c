/* SPDX-License-Identifier: MIT */
/* Decompressing and hashing a blob while it arrives: see stream.h. */
#define _GNU_SOURCE
#include "unpack/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zstd.h>
#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

#include "unpack/wire.h"
#include "util/alloc.h"
#include "util/error.h"

enum { BUFFERS = 8, BUFFER_SIZE = 256 << 10, INPUT_SIZE = 128 << 10, ZSTD_WINDOW_LOG_MAX = 27 };

struct buffer {
	unsigned char *data;
	size_t length;
};

struct stream {
	int blob, control;
	enum compression compression;
	struct stream_limits limits;

	/* Of the decompressing thread alone. */
	uint64_t position, available; /* bytes of the blob: read so far, there to be read */
	bool complete;                /* `available` is all */
	unsigned char *input;
	uint64_t out;

	/* Shared: numbers of buffers that have been filled, hashed and read so far. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct buffer buffers[BUFFERS];
	uint64_t filled, hashed, taken;
	bool ended, failed;
	struct error error;

	bool holds; /* the caller has buffer `taken` in use */
	pthread_t decompressor, hasher;
	unsigned char digest[EVP_MAX_MD_SIZE];
	bool hash_failed;
};

/* --- the ring --- */

/* A buffer to fill, or NULL when nobody reads any more. */
static struct buffer *next_free(struct stream *stream)
{
	uint64_t done;

	pthread_mutex_lock(&stream->lock);
	for (;;) {
		done = stream->hashed < stream->taken ? stream->hashed : stream->taken;
		if (stream->filled - done < BUFFERS)
			break;
		pthread_cond_wait(&stream->changed, &stream->lock);
	}
	pthread_mutex_unlock(&stream->lock);
	return &stream->buffers[stream->filled % BUFFERS];
}

static void advance(struct stream *stream, uint64_t *counter)
{
	pthread_mutex_lock(&stream->lock);
	++*counter;
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
}

static void end(struct stream *stream, const struct error *err)
{
	pthread_mutex_lock(&stream->lock);
	stream->ended = true;
	if (err) {
		stream->failed = true;
		stream->error = *err;
	}
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
}

/* Waits for buffer `number`. NULL: there is none, as everything has come. */
static struct buffer *wait_for(struct stream *stream, uint64_t number)
{
	bool there;

	pthread_mutex_lock(&stream->lock);
	while (stream->filled <= number && !stream->ended)
		pthread_cond_wait(&stream->changed, &stream->lock);
	there = stream->filled > number;
	pthread_mutex_unlock(&stream->lock);
	return there ? &stream->buffers[number % BUFFERS] : NULL;
}

/* --- the blob --- */

static int wait_for_more(struct stream *stream, struct error *err)
{
	struct blob_progress progress;
	ssize_t n;

	do
		n = recv(stream->control, &progress, sizeof progress, 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof progress)
		return error_set(err, n < 0 ? errno : 0, "nobody writes the blob any more");
	stream->available = progress.size;
	stream->complete = progress.final;
	return 0;
}

/* Fills `input`; returns the number of bytes, 0 at the end. */
static ssize_t read_blob(struct stream *stream, struct error *err)
{
	size_t wanted = INPUT_SIZE;
	ssize_t n;

	while (stream->position == stream->available && !stream->complete)
		if (wait_for_more(stream, err) < 0)
			return -1;
	if (wanted > stream->available - stream->position)
		wanted = stream->available - stream->position;
	if (wanted == 0)
		return 0;
	do
		n = pread(stream->blob, stream->input, wanted, (off_t)stream->position);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return error_set(err, n < 0 ? errno : 0,
			n < 0 ? "reading the blob" : "the blob was cut short while it was read");
	stream->position += (uint64_t)n;
	return n;
}

/* Hands a filled buffer on, unless too much has come out by now. */
static int hand_on(struct stream *stream, struct buffer *buffer, struct error *err)
{
	const struct stream_limits *limits = &stream->limits;

	stream->out += buffer->length;
	if (stream->out > limits->bytes_max)
		return error_set(
			err, 0, "the archive is larger than %" PRIu64 " bytes", limits->bytes_max);
	if (stream->out > limits->ratio_above && stream->out / limits->ratio_max > stream->position)
		return error_set(err, 0,
			"the archive grows to more than %" PRIu64
			" times its compressed size: a decompression bomb",
			limits->ratio_max);
	advance(stream, &stream->filled);
	return 0;
}

static int copy_plain(struct stream *stream, struct error *err)
{
	ssize_t n;

	while ((n = read_blob(stream, err)) > 0) {
		struct buffer *buffer = next_free(stream);

		memcpy(buffer->data, stream->input, (size_t)n);
		buffer->length = (size_t)n;
		if (hand_on(stream, buffer, err) < 0)
			return -1;
	}
	return (int)n;
}

/*
 * Several gzip members one after the other are one stream (RFC 1952, 2.2). What follows the last one and does not
 * begin as a member does is padding, as gzip(1) has it.
 */
static bool begins_member(const unsigned char *input, size_t length)
{
	return length >= 1 && input[0] == 0x1f && (length == 1 || input[1] == 0x8b);
}

#ifdef HAVE_ISAL

static int gunzip_failed(int r, struct error *err)
{
	return error_set(err, 0, "the compressed data is damaged (%s)",
		r == ISAL_INCORRECT_CHECKSUM   ? "wrong checksum"
		: r == ISAL_INVALID_WRAPPER    ? "not a gzip header"
		: r == ISAL_UNSUPPORTED_METHOD ? "an unknown method"
					       : "no deflate stream");
}

static int gunzip(struct stream *stream, struct error *err)
{
	struct inflate_state *state = xcalloc(1, sizeof *state);
	bool inside = false /* a member */, full = false;
	ssize_t n = 0;
	int r;

	isal_inflate_init(state);
	for (;;) {
		struct buffer *buffer;

		/* A full buffer may have left something that needs no more input. */
		if (state->avail_in == 0 && !(inside && full)) {
			n = read_blob(stream, err);
			if (n <= 0)
				break;
			state->next_in = stream->input;
			state->avail_in = (uint32_t)n;
		}
		if (!inside) {
			if (!begins_member(state->next_in, state->avail_in) && stream->out > 0) {
				state->avail_in = 0;
				continue;
			}
			isal_inflate_reset(state);
			state->crc_flag = ISAL_GZIP;
			inside = true;
		}
		buffer = next_free(stream);
		state->next_out = buffer->data;
		state->avail_out = BUFFER_SIZE;
		do {
			r = isal_inflate(state);
			if (r != ISAL_DECOMP_OK) {
				free(state);
				return gunzip_failed(r, err);
			}
			inside = state->block_state != ISAL_BLOCK_FINISH;
			if (!inside || state->avail_out == 0 || state->avail_in > 0)
				continue;
			n = read_blob(stream, err);
			if (n <= 0)
				break;
			state->next_in = stream->input;
			state->avail_in = (uint32_t)n;
		} while (inside && state->avail_out > 0);
		buffer->length = BUFFER_SIZE - state->avail_out;
		full = state->avail_out == 0;
		if (n < 0 || (buffer->length > 0 && hand_on(stream, buffer, err) < 0)) {
			n = -1;
			break;
		}
	}
	free(state);
	if (n == 0 && inside)
		return error_set(err, 0, "the compressed data is cut short");
	return (int)n;
}

#else

static int gunzip(struct stream *stream, struct error *err)
{
	z_stream state = {0};
	bool inside = false, full = false;
	ssize_t n = 0;
	int r;

	if (inflateInit2(&state, 15 + 16) != Z_OK)
		return error_set(err, ENOMEM, "decompressing");
	for (;;) {
		struct buffer *buffer;

		/* A full buffer may have left something that needs no more input. */
		if (state.avail_in == 0 && !(inside && full)) {
			n = read_blob(stream, err);
			if (n <= 0)
				break;
			state.next_in = stream->input;
			state.avail_in = (uInt)n;
		}
		if (!inside) {
			if (!begins_member(state.next_in, state.avail_in) && stream->out > 0) {
				state.avail_in = 0;
				continue;
			}
			inflateReset(&state);
			inside = true;
		}
		buffer = next_free(stream);
		state.next_out = buffer->data;
		state.avail_out = BUFFER_SIZE;
		do {
			r = inflate(&state, Z_NO_FLUSH);
			if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) {
				error_set(err, 0, "the compressed data is damaged (%s)",
					state.msg ? state.msg : "zlib");
				inflateEnd(&state);
				return -1;
			}
			inside = r != Z_STREAM_END;
			if (!inside || state.avail_out == 0 || state.avail_in > 0)
				continue;
			n = read_blob(stream, err);
			if (n <= 0)
				break;
			state.next_in = stream->input;
			state.avail_in = (uInt)n;
		} while (inside && state.avail_out > 0);
		buffer->length = BUFFER_SIZE - state.avail_out;
		full = state.avail_out == 0;
		if (n < 0 || (buffer->length > 0 && hand_on(stream, buffer, err) < 0)) {
			n = -1;
			break;
		}
	}
	inflateEnd(&state);
	if (n == 0 && inside)
		return error_set(err, 0, "the compressed data is cut short");
	return (int)n;
}

#endif

static int unzstd(struct stream *stream, struct error *err)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t left = 0; /* what zstd says: 0 at the end of a frame */
	ssize_t n = -1;

	if (!context || ZSTD_isError(ZSTD_DCtx_setParameter(
				context, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX))) {
		error_set(err, ENOMEM, "decompressing");
		goto out;
	}
	while ((n = read_blob(stream, err)) > 0) {
		ZSTD_inBuffer input = {stream->input, (size_t)n, 0};
		bool full = true;

		while (input.pos < input.size || full) {
			struct buffer *buffer = next_free(stream);
			ZSTD_outBuffer output = {buffer->data, BUFFER_SIZE, 0};

			left = ZSTD_decompressStream(context, &output, &input);
			if (ZSTD_isError(left)) {
				error_set(err, 0, "the compressed data is damaged (%s)",
					ZSTD_getErrorName(left));
				n = -1;
				goto out;
			}
			full = output.pos == output.size;
			buffer->length = output.pos;
			if (output.pos > 0 && hand_on(stream, buffer, err) < 0) {
				n = -1;
				goto out;
			}
		}
	}
	if (n == 0 && left != 0)
		n = error_set(err, 0, "the compressed data is cut short");
out:
	ZSTD_freeDCtx(context);
	return (int)n;
}

/* --- threads --- */

static void *decompress(void *data)
{
	struct stream *stream = data;
	struct error err = {0};
	int r;

	switch (stream->compression) {
	case COMPRESSION_GZIP:
		r = gunzip(stream, &err);
		break;
	case COMPRESSION_ZSTD:
		r = unzstd(stream, &err);
		break;
	default:
		r = copy_plain(stream, &err);
	}
	end(stream, r < 0 ? &err : NULL);
	return NULL;
}

static void *hash(void *data)
{
	struct stream *stream = data;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	struct buffer *buffer;

	stream->hash_failed = !context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL);
	for (uint64_t number = 0; (buffer = wait_for(stream, number)); number++) {
		if (!stream->hash_failed)
			stream->hash_failed =
				!EVP_DigestUpdate(context, buffer->data, buffer->length);
		advance(stream, &stream->hashed);
	}
	if (!stream->hash_failed)
		stream->hash_failed = !EVP_DigestFinal_ex(context, stream->digest, NULL);
	EVP_MD_CTX_free(context);
	return NULL;
}

int stream_start(int blob, int control, enum compression compression,
	const struct stream_limits *limits, struct stream **ret, struct error *err)
{
	struct stream *stream = xcalloc(1, sizeof *stream);
	int r;

	stream->blob = blob;
	stream->control = control;
	stream->compression = compression;
	stream->limits = *limits;
	stream->input = xcalloc(1, INPUT_SIZE);
	for (size_t i = 0; i < BUFFERS; i++)
		stream->buffers[i].data = xcalloc(1, BUFFER_SIZE);
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->changed, NULL);
	r = pthread_create(&stream->decompressor, NULL, decompress, stream);
	if (r == 0)
		r = pthread_create(&stream->hasher, NULL, hash, stream);
	if (r != 0)
		return error_set(err, r, "starting a thread");
	*ret = stream;
	return 0;
}

ssize_t stream_read(struct stream *stream, const void **ret, struct error *err)
{
	struct buffer *buffer;

	if (stream->holds)
		advance(stream, &stream->taken);
	buffer = wait_for(stream, stream->taken);
	stream->holds = buffer != NULL;
	if (buffer) {
		*ret = buffer->data;
		return (ssize_t)buffer->length;
	}
	if (!stream->failed)
		return 0;
	*err = stream->error;
	return -1;
}

int stream_finish(
	struct stream *stream, char ret_hex[static 65], uint64_t *ret_bytes, struct error *err)
{
	const void *data;
	ssize_t n;

	while ((n = stream_read(stream, &data, err)) > 0)
		;
	if (n < 0)
		return -1;
	pthread_join(stream->decompressor, NULL);
	pthread_join(stream->hasher, NULL);
	if (stream->hash_failed)
		return error_set(err, 0, "computing the digest failed");
	for (size_t i = 0; i < 32; i++)
		sprintf(ret_hex + 2 * i, "%02x", stream->digest[i]);
	*ret_bytes = stream->out;
	return 0;
}
