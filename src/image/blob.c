/* SPDX-License-Identifier: MIT */
/* Blobs on their way into the store: see blob.h. */
#define _GNU_SOURCE
#include "image/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/store.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { CHUNK = 256 << 10 };

void digest_format(const unsigned char hash[static 32], char ret[DIGEST_SIZE])
{
	char *end = ret + sprintf(ret, "sha256:");

	for (size_t i = 0; i < 32; i++)
		end += sprintf(end, "%02x", hash[i]);
}

void digest_of(const void *data, size_t length, char ret[DIGEST_SIZE])
{
	unsigned char hash[EVP_MAX_MD_SIZE];

	EVP_Digest(data, length, hash, NULL, EVP_sha256(), NULL);
	digest_format(hash, ret);
}

/* «tmp/HEX-ORIGIN.part»: of the origin's name, which may have a colon or be long, some digits of its digest. */
static const char *part_name(const struct blob *blob, char buffer[STORE_NAME_MAX])
{
	const size_t prefix = sizeof "sha256:" - 1;
	char origin[DIGEST_SIZE];

	digest_of(blob->origin, strlen(blob->origin), origin);
	snprintf(buffer, STORE_NAME_MAX, "tmp/%.64s-%.12s.part", blob->descriptor.digest + prefix,
		origin + prefix);
	return buffer;
}

static int start_hash(struct blob *blob, struct error *err)
{
	if (!blob->hash)
		blob->hash = EVP_MD_CTX_new();
	if (!blob->hash || !EVP_DigestInit_ex(blob->hash, EVP_sha256(), NULL))
		return error_set(err, ENOMEM, "computing a digest");
	blob->written = 0;
	return 0;
}

/* Hashes what is in the file already. */
static int take_up(struct blob *blob, struct error *err)
{
	static char chunk[CHUNK];
	ssize_t n;

	if (start_hash(blob, err) < 0)
		return -1;
	while ((n = pread(blob->fd, chunk, sizeof chunk, (off_t)blob->written)) > 0) {
		EVP_DigestUpdate(blob->hash, chunk, (size_t)n);
		blob->written += (uint64_t)n;
	}
	if (n < 0)
		return error_set(
			err, errno, "reading what there is of %.19s", blob->descriptor.digest);
	return blob->written > blob->descriptor.size ? blob_restart(blob, err) : 0;
}

/* A blob that has its name is whole. */
static int open_whole(const struct store *store, const struct descriptor *descriptor)
{
	char name[STORE_NAME_MAX];
	struct stat st;
	int fd = openat(store->fd, store_blob_name(descriptor->digest, name),
		O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != descriptor->size)) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	return fd;
}

bool blob_there(const struct store *store, const struct descriptor *descriptor)
{
	cleanup_close int fd = open_whole(store, descriptor);

	return fd >= 0;
}

enum blob_state blob_open(const struct store *store, const struct descriptor *descriptor,
	const char *origin, struct blob *ret, struct error *err)
{
	struct blob blob = {
		.fd = open_whole(store, descriptor), .descriptor = *descriptor, .origin = origin};
	struct stat locked, named;
	char part[STORE_NAME_MAX];

	if (blob.fd >= 0) {
		blob.written = descriptor->size;
		*ret = blob;
		return BLOB_THERE;
	}
	if (errno != ENOENT)
		return error_set(err, errno, "opening %.19s in the store", descriptor->digest);
	part_name(&blob, part);
	blob.fd = openat(store->fd, part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (blob.fd < 0)
		return error_set(err, errno, "writing %s/%s", store->path, part);
	if (flock(blob.fd, LOCK_EX | LOCK_NB) < 0) {
		close(blob.fd);
		return errno == EWOULDBLOCK
			       ? BLOB_BUSY
			       : error_set(err, errno, "locking %s/%s", store->path, part);
	}
	/* Whoever had the lock before may have finished it, or thrown it away. */
	if (fstat(blob.fd, &locked) < 0 ||
		fstatat(store->fd, part, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
		locked.st_ino != named.st_ino) {
		close(blob.fd);
		return BLOB_BUSY;
	}
	if (take_up(&blob, err) < 0) {
		blob_close(store, &blob);
		return BLOB_FAILED;
	}
	*ret = blob;
	return BLOB_OPEN;
}

int blob_write(struct blob *blob, const void *data, size_t length, struct error *err)
{
	if (length > blob->descriptor.size - blob->written) {
		blob_restart(blob, err);
		return error_set(err, 0,
			"%.19s is larger than the %" PRIu64 " bytes that its manifest says",
			blob->descriptor.digest, blob->descriptor.size);
	}
	if (lseek(blob->fd, (off_t)blob->written, SEEK_SET) < 0 ||
		write_whole(blob->fd, data, length) < 0)
		return error_set(
			err, errno, "writing %.19s into the store", blob->descriptor.digest);
	EVP_DigestUpdate(blob->hash, data, length);
	blob->written += length;
	return 0;
}

int blob_restart(struct blob *blob, struct error *err)
{
	if (ftruncate(blob->fd, 0) < 0)
		return error_set(
			err, errno, "emptying what there is of %.19s", blob->descriptor.digest);
	return start_hash(blob, err);
}

int blob_finish(const struct store *store, struct blob *blob, struct error *err)
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	char digest[DIGEST_SIZE], part[STORE_NAME_MAX], name[STORE_NAME_MAX];

	part_name(blob, part);
	if (blob->written < blob->descriptor.size) {
		unlinkat(store->fd, part, 0);
		return error_set(err, 0, "%.19s has %" PRIu64 " bytes; its manifest says %" PRIu64,
			blob->descriptor.digest, blob->written, blob->descriptor.size);
	}
	EVP_DigestFinal_ex(blob->hash, hash, NULL);
	digest_format(hash, digest);
	if (strcmp(digest, blob->descriptor.digest) != 0) {
		unlinkat(store->fd, part, 0);
		error_set(err, 0,
			"what came for %.19s… has the digest %.19s…: it was damaged or changed on the way",
			blob->descriptor.digest, digest);
		return error_hint(err,
			"it has been thrown away; try again, and if it happens again tell whoever runs the registry");
	}
	if (renameat(store->fd, part, store->fd, store_blob_name(digest, name)) < 0)
		return error_set(err, errno, "moving %.19s to its place in the store", digest);
	return 0;
}

void blob_close(const struct store *store, struct blob *blob)
{
	struct stat open, named;
	char part[STORE_NAME_MAX];

	/* Nothing has come that could be gone on with. The lock is still held. */
	if (blob->hash && fstat(blob->fd, &open) == 0 && open.st_size == 0 &&
		fstatat(store->fd, part_name(blob, part), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		named.st_ino == open.st_ino)
		unlinkat(store->fd, part, 0);
	close_fd(&blob->fd);
	EVP_MD_CTX_free(blob->hash);
	blob->hash = NULL;
}

int blob_read(const struct store *store, const char *digest, size_t max, char **ret, size_t *ret_length,
	struct error *err)
{
	char name[STORE_NAME_MAX], own[DIGEST_SIZE];
	cleanup_close int fd =
		openat(store->fd, store_blob_name(digest, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char *text;

	if (fd < 0 || read_fd_whole(fd, max, &text, ret_length) < 0)
		return error_set(err, errno, "%s/%s", store->path, name);
	digest_of(text, *ret_length, own);
	if (strcmp(own, digest) != 0) {
		free(text);
		return error_set(err, 0, "%.19s in the store %s is damaged", digest, store->path);
	}
	*ret = text;
	return 0;
}

int blob_adopt(const struct store *store, const char *name, const char *digest, struct error *err)
{
	char place[STORE_NAME_MAX];

	if (renameat(store->fd, name, store->fd, store_blob_name(digest, place)) < 0)
		return error_set(err, errno, "moving %.19s to its place in the store", digest);
	return 0;
}

int blob_store(const struct store *store, const void *data, size_t length, char ret[DIGEST_SIZE],
	struct error *err)
{
	struct descriptor descriptor = {.size = length};
	struct blob blob;
	int r;

	digest_of(data, length, descriptor.digest);
	strcpy(ret, descriptor.digest);
	/* Another process that writes the same few bytes is done in a moment. */
	for (int try = 0;; try++) {
		enum blob_state state = blob_open(store, &descriptor, "", &blob, err);

		if (state == BLOB_FAILED)
			return -1;
		if (state == BLOB_OPEN)
			break;
		if (state == BLOB_THERE) {
			blob_close(store, &blob);
			return 0;
		}
		if (try == 500)
			return error_set(
				err, EBUSY, "another process writes %.19s", descriptor.digest);
		usleep(10000);
	}
	r = blob_restart(&blob, err);
	if (r == 0)
		r = blob_write(&blob, data, length, err);
	if (r == 0)
		r = blob_finish(store, &blob, err);
	blob_close(store, &blob);
	return r;
}
