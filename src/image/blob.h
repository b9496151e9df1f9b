/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_BLOB_H
#define NSBOX_IMAGE_BLOB_H

/*
 * Blobs coming into the store: into a file in tmp, hashed on the way, and renamed once the digest is right. What a
 * broken transfer has left there is hashed again and gone on with. Whoever writes a blob holds a lock on it, so that
 * one process fetches what several want.
 *
 * Where it comes from is part of the file's name: what a slow server or a lying one sends is in nobody's way who
 * has the same blob from elsewhere.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/manifest.h"

struct error;
struct store;

struct blob {
	int fd; /* readable and writable; holds the lock; -1: none */
	struct descriptor descriptor;
	const char *origin; /* of those who say so; as it was given to blob_open */
	uint64_t written;
	void *hash; /* EVP_MD_CTX */
};

enum blob_state {
	BLOB_FAILED = -1,
	BLOB_OPEN,  /* to be written from blob->written on */
	BLOB_THERE, /* whole, and open for reading; nothing to be written */
	BLOB_BUSY,  /* another process writes it; ask again */
};

/*
 * Opens the blob of `descriptor` for writing, or finds out why not. `origin`, which has to last as long as the blob:
 * who it comes from, a registry's host; empty where nobody else's bytes can come in between. Close it with blob_close.
 */
enum blob_state blob_open(const struct store *store, const struct descriptor *descriptor,
	const char *origin, struct blob *ret, struct error *err);

/* Whether the store has the blob whole. */
bool blob_there(const struct store *store, const struct descriptor *descriptor);

/* Appends. More than the descriptor says is an error, and all of it is thrown away. */
int blob_write(struct blob *blob, const void *data, size_t length, struct error *err);

/* Starts again from nothing: the one who sends cannot go on in the middle. */
int blob_restart(struct blob *blob, struct error *err);

/*
 * Checks size and digest and gives the blob its name. It stays open and locked. What is wrong is thrown away.
 */
int blob_finish(const struct store *store, struct blob *blob, struct error *err);

/* What has come stays in tmp for the next time. */
void blob_close(const struct store *store, struct blob *blob);

/*
 * A whole document: reads the blob `digest` from the store, checked against that, into *ret (malloc'd, with a NUL).
 * One that is not there is ENOENT in err->errnum.
 */
int blob_read(const struct store *store, const char *digest, size_t max, char **ret, size_t *ret_length,
	struct error *err);

/* Writes a document into the store. Its digest is put into *ret. */
int blob_store(const struct store *store, const void *data, size_t length, char ret[DIGEST_SIZE],
	struct error *err);

/* Makes a file of tmp (store_make_file) the blob `digest`, which the caller has computed of all that is in it. */
int blob_adopt(const struct store *store, const char *name, const char *digest, struct error *err);

/* «sha256:…» of a hash's 32 bytes, and of `length` bytes of data. */
void digest_format(const unsigned char hash[static 32], char ret[DIGEST_SIZE]);
void digest_of(const void *data, size_t length, char ret[DIGEST_SIZE]);

#endif
