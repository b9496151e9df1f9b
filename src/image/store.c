/* SPDX-License-Identifier: MIT */
/* The store's places, and its layers for those who run them. What changes it is in nsbox-image. */
#define _GNU_SOURCE
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/trust.h"

int store_path(char ret[PATH_MAX], struct error *err)
{
	const char *own = getenv("NSBOX_STORE"), *data = getenv("XDG_DATA_HOME"),
		   *home = getenv("HOME");
	int n;

	/* The base directory specification: what is not absolute does not count. */
	if (own && *own)
		n = snprintf(ret, PATH_MAX, "%s", own);
	else if (data && *data == '/')
		n = snprintf(ret, PATH_MAX, "%s/nsbox", data);
	else if (home && *home == '/')
		n = snprintf(ret, PATH_MAX, "%s/.local/share/nsbox", home);
	else
		return error_set(err, 0,
			"there is no place for images: neither NSBOX_STORE, XDG_DATA_HOME nor HOME is set");
	if (n >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "the store");
	if (*ret != '/')
		return error_set(err, 0, "NSBOX_STORE is not an absolute path: %s", ret);
	return 0;
}

bool store_is_there(void)
{
	const char *own = getenv("NSBOX_STORE");
	char path[PATH_MAX];
	struct error unimportant;

	if (store_path(path, &unimportant) < 0)
		return own && *own; /* which is wrong: store_open says how */
	return access(path, F_OK) == 0 || !(errno == ENOENT || errno == ENOTDIR || (errno == EACCES && !(own && *own)));
}

static int make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int r;

		*slash = '\0';
		r = mkdir(path, 0755);
		*slash = '/';
		if (r < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

/* Not to be looked into by others: an image may have files that only their owners could read. */
static int make_store(char *path, struct error *err)
{
	static const char *const names[] = {"blobs", "blobs/sha256", "layers", "images", "tmp"};
	cleanup_close int fd = -1;

	if (make_parents(path) < 0 || (mkdir(path, 0700) < 0 && errno != EEXIST))
		return error_set(err, errno, "making the store %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "the store %s", path);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (mkdirat(fd, names[i], 0700) < 0 && errno != EEXIST)
			return error_set(err, errno, "making the store %s", path);
	return move_fd(&fd);
}

int store_open(bool create, struct store *ret, struct error *err)
{
	cleanup_free char *real = NULL;
	struct store store = {.fd = -1};
	char path[PATH_MAX];
	struct stat st;

	if (store_path(path, err) < 0)
		return -1;
	/* What others can write would be run as an image that they have not been asked for. */
	if (path_check_future(path, &real, err) < 0) {
		error_context(err, "the store %s", path);
		return error_hint(err, "set NSBOX_STORE or XDG_DATA_HOME to a folder of your own");
	}
	if (snprintf(store.path, PATH_MAX, "%s", real) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "the store");
	store.fd = open(store.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store.fd < 0 && errno != ENOENT)
		return error_set(err, errno, "the store %s", store.path);
	if (store.fd < 0 && !create)
		return 1;
	if (create) {
		close_fd(&store.fd);
		store.fd = make_store(store.path, err);
		if (store.fd < 0)
			return -1;
	}
	/* Itself it must not be like /tmp either, where everybody may add something. */
	if (fstat(store.fd, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0) ||
		(st.st_mode & (S_IWGRP | S_IWOTH))) {
		close(store.fd);
		error_set(err, 0, "the store %s can be changed by others than you", store.path);
		return error_hint(err, "set NSBOX_STORE or XDG_DATA_HOME to a folder of your own");
	}
	*ret = store;
	return 0;
}

void store_close(struct store *store)
{
	close_fd(&store->fd);
}

static const char *hex_of(const char *digest)
{
	return digest + sizeof "sha256:" - 1;
}

const char *store_blob_name(const char *digest, char buffer[STORE_NAME_MAX])
{
	snprintf(buffer, STORE_NAME_MAX, "blobs/sha256/%.64s", hex_of(digest));
	return buffer;
}

const char *store_layer_name(const char *chain_id, char buffer[STORE_NAME_MAX])
{
	snprintf(buffer, STORE_NAME_MAX, "layers/%.64s", hex_of(chain_id));
	return buffer;
}

int store_make_file(const struct store *store, const char *prefix, char ret[STORE_NAME_MAX])
{
	char path[PATH_MAX + STORE_NAME_MAX];
	struct stat st;

	for (;;) {
		cleanup_close int fd = -1;

		snprintf(path, sizeof path, "%s/tmp/%s-XXXXXX", store->path, prefix);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
			return -1;
		/* Who tidied up may have been faster. */
		if (st.st_nlink == 0)
			continue;
		snprintf(ret, STORE_NAME_MAX, "tmp/%s", strrchr(path, '/') + 1);
		return move_fd(&fd);
	}
}

const char *store_image_name(const struct reference *reference, char buffer[STORE_IMAGE_NAME_MAX])
{
	/* A digest says all; the tag beside it is for people. */
	if (reference->digest[0])
		snprintf(buffer, STORE_IMAGE_NAME_MAX, "images/%s/%s@%s", reference->registry,
			reference->repository, reference->digest);
	else
		snprintf(buffer, STORE_IMAGE_NAME_MAX, "images/%s/%s:%s", reference->registry,
			reference->repository, reference->tag);
	return buffer;
}

/* Opens the layer's directory and locks it, shared. `dir` and `name` as in openat; `shown` and `store` are for errors. */
static int lock_layer(int dir, const char *name, const char *shown, const char *store, struct error *err)
{
	cleanup_close int lock = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat locked, named;

	if (lock < 0)
		return error_set(err, errno, "layer %.19s of the store %s", shown, store);
	if (flock(lock, LOCK_SH) < 0)
		return error_set(err, errno, "locking layer %.19s of the store %s", shown, store);
	/* Removal takes the name away first, under its own lock. */
	if (fstat(lock, &locked) < 0 || fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
		locked.st_ino != named.st_ino || locked.st_dev != named.st_dev)
		return error_set(err, ENOENT, "layer %.19s of the store %s was removed just now", shown, store);
	return move_fd(&lock);
}

static int open_tree_of(int lock, const char *shown, const char *store, struct error *err)
{
	int tree = openat(lock, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return tree < 0 ? error_set(err, errno, "layer %.19s of the store %s", shown, store) : tree;
}

int store_open_layer(
	const struct store *store, const char *chain_id, int *ret_lock, struct error *err)
{
	char name[STORE_NAME_MAX];
	cleanup_close int lock = lock_layer(store->fd, store_layer_name(chain_id, name), chain_id, store->path, err);
	int tree = lock < 0 ? -1 : open_tree_of(lock, chain_id, store->path, err);

	if (tree >= 0)
		*ret_lock = move_fd(&lock);
	return tree;
}

int store_hold_layer(const char *tree, struct error *err)
{
	cleanup_free char *layer = xasprintf("%.*s", (int)(strrchr(tree, '/') - tree), tree);
	cleanup_free char *store = NULL;
	const char *name = strrchr(layer, '/') + 1;
	char shown[DIGEST_SIZE];
	cleanup_close int lock = -1;
	struct stat st;

	store = xasprintf("%.*s", (int)(name - layer - (ptrdiff_t)(sizeof "/layers/" - 1)), layer);
	snprintf(shown, sizeof shown, "sha256:%.64s", name);
	lock = lock_layer(AT_FDCWD, layer, shown, store, err);
	if (lock < 0)
		return -1;
	if (fstatat(lock, "fs", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "layer %.19s of the store %s", shown, store);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR, "layer %.19s of the store %s", shown, store);
	return move_fd(&lock);
}
