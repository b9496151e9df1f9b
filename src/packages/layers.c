/* SPDX-License-Identifier: MIT */
/*
 * Layers of packages on disk: see layers.h.
 *
 * A folder that is being made and one that is being removed have the same name, KEY.new, and the same lock: so whoever
 * wants to make it waits for both, and what a killed process has left of either is swept alike.
 */
#define _GNU_SOURCE
#include "packages/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/discard.h"
#include "image/store.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	LOCK_POLL_MS = 50,
	ABOUT_MAX = 1 << 20, /* bytes: of as many names as there may be, and as long */
	USE_NOTED_S = 60, /* uses within so long are one */
	NAME_SIZE = SHA256_HEX_SIZE + sizeof ".new",
};

/* --- the folder of all --- */

int layers_open(bool create, struct layers *ret, struct error *err)
{
	struct store store;
	int r = store_open(create, &store, err);

	if (r != 0)
		return r;
	if (create && mkdirat(store.fd, "packages", 0700) < 0 && errno != EEXIST)
		r = error_set(err, errno, "making %s/packages", store.path);
	ret->fd = r == 0 ? openat(store.fd, "packages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (r == 0 && ret->fd < 0)
		r = errno == ENOENT && !create ? 1 : error_set(err, errno, "%s/packages", store.path);
	if (r == 0 && snprintf(ret->path, PATH_MAX, "%s/packages", store.path) >= PATH_MAX) {
		close_fd(&ret->fd);
		r = error_set(err, ENAMETOOLONG, "%s", store.path);
	}
	store_close(&store);
	return r;
}

void layers_close(struct layers *layers)
{
	close_fd(&layers->fd);
}

int layers_tree_path(const char *key, char ret[PATH_MAX], struct error *err)
{
	struct store store = {.fd = -1};
	int r = store_open(false, &store, err);

	if (r < 0 || (r > 0 && store_path(store.path, err) < 0))
		return -1;
	store_close(&store);
	if (snprintf(ret, PATH_MAX, "%s/packages/%s/fs", store.path, key) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s", store.path);
	return 0;
}

/* --- locks --- */

/* Whether `name` is still what is open, and locked: who had the lock before may have renamed or removed it. */
static bool is_still(int dir, const char *name, int fd)
{
	struct stat opened, named;

	return fstat(fd, &opened) == 0 && fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Opens and locks it. -1 with errno: ENOENT where there is none (any more), EWOULDBLOCK where another has it. */
static int open_locked(int dir, const char *name, int how)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, how) < 0)
		return -1;
	if (!is_still(dir, name, fd)) {
		errno = ENOENT;
		return -1;
	}
	return move_fd(&fd);
}

/* --- making --- */

static const char *draft_name(const char *key, char buffer[NAME_SIZE])
{
	snprintf(buffer, NAME_SIZE, "%s.new", key);
	return buffer;
}

static bool is_there(const struct layers *layers, const char *key)
{
	return faccessat(layers->fd, key, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int fill_draft(const struct layers *layers, const struct layer_draft *draft, struct error *err)
{
	/* What a killed process had in it. */
	if (discard_content(draft->folder, UINT64_MAX) < 0 || mkdirat(draft->folder, "fs", 0755) < 0 ||
		mkdirat(draft->folder, "work", 0700) < 0 || mkdirat(draft->folder, "work/tmp", 0700) < 0)
		return error_set(err, errno, "making %s/%s.new", layers->path, draft->key);
	/* mkdir is subject to the umask. */
	if (fchmodat(draft->folder, "fs", 0755, 0) < 0)
		return error_set(err, errno, "making %s/%s.new/fs", layers->path, draft->key);
	return 0;
}

/* Waits a moment. Returns whether there is to be no other. */
static bool wait_ends(const struct layer_wait *wait)
{
	struct pollfd cancel = {.fd = wait->cancel_fd, .events = POLLIN};

	return poll(&cancel, 1, LOCK_POLL_MS) > 0 || (wait->is_lost && wait->is_lost(wait->whose));
}

int layer_begin(const struct layers *layers, const char *key, const struct layer_wait *wait, struct layer_draft *ret,
	struct error *err)
{
	struct layer_draft draft = LAYER_DRAFT_NONE;
	char name[NAME_SIZE];

	snprintf(draft.key, sizeof draft.key, "%s", key);
	draft_name(key, name);
	for (;;) {
		if (is_there(layers, key))
			return 1;
		if (mkdirat(layers->fd, name, 0700) < 0 && errno != EEXIST)
			return error_set(err, errno, "making %s/%s", layers->path, name);
		draft.folder = open_locked(layers->fd, name, LOCK_EX | LOCK_NB);
		if (draft.folder >= 0)
			break;
		if (errno != ENOENT && errno != EWOULDBLOCK)
			return error_set(err, errno, "locking %s/%s", layers->path, name);
		if (wait_ends(wait))
			return error_set(err, ECANCELED, "waiting for another process that installs the same");
	}
	/* It may have been committed between our look and our lock. */
	if (is_there(layers, key)) {
		layer_abandon(layers, &draft);
		return 1;
	}
	if (fill_draft(layers, &draft, err) < 0) {
		layer_abandon(layers, &draft);
		return -1;
	}
	*ret = draft;
	return 0;
}

void layer_drop_work(const struct layer_draft *draft)
{
	int work = openat(draft->folder, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (work >= 0 && discard_content(work, UINT64_MAX) == 0)
		unlinkat(draft->folder, "work", AT_REMOVEDIR);
	close_fd(&work);
}

static int write_about(int folder, const char *text)
{
	cleanup_close int fd = openat(folder, "about", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : write_whole(fd, text, strlen(text));
}

int layer_commit(const struct layers *layers, const struct layer_draft *draft, const char *about, struct error *err)
{
	char name[NAME_SIZE];

	if (write_about(draft->folder, about) < 0)
		return error_set(err, errno, "writing %s/%s.new/about", layers->path, draft->key);
	/* Who finds the name takes the content for whole, also after the power failed. */
	if (syncfs(draft->folder) < 0)
		return error_set(err, errno, "writing %s/%s.new to the disk", layers->path, draft->key);
	if (renameat(layers->fd, draft_name(draft->key, name), layers->fd, draft->key) < 0)
		return error_set(err, errno, "renaming %s/%s", layers->path, name);
	return 0;
}

void layer_close(struct layer_draft *draft)
{
	close_fd(&draft->folder);
}

void layer_abandon(const struct layers *layers, struct layer_draft *draft)
{
	char name[NAME_SIZE];

	if (draft->folder >= 0 && is_still(layers->fd, draft_name(draft->key, name), draft->folder) &&
		discard_content(draft->folder, UINT64_MAX) == 0)
		unlinkat(layers->fd, name, AT_REMOVEDIR);
	layer_close(draft);
}

/* --- removing --- */

int layer_remove(const struct layers *layers, const char *key)
{
	struct layer_draft draft = LAYER_DRAFT_NONE;
	char name[NAME_SIZE];

	snprintf(draft.key, sizeof draft.key, "%s", key);
	draft.folder = open_locked(layers->fd, key, LOCK_EX | LOCK_NB);
	if (draft.folder < 0)
		return errno == EWOULDBLOCK ? 1 : 0;
	if (renameat2(layers->fd, key, layers->fd, draft_name(key, name), RENAME_NOREPLACE) < 0) {
		layer_close(&draft);
		return 1; /* somebody begins the same one anew: then it is wanted */
	}
	layer_abandon(layers, &draft);
	return 0;
}

static bool is_key(const char *name, size_t length)
{
	return length == SHA256_HEX_SIZE - 1 && strspn(name, "0123456789abcdef") >= length;
}

static void for_names(const struct layers *layers, void (*each)(void *data, const char *name), void *data)
{
	int fd = openat(layers->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(stream)))
		each(data, entry->d_name);
	closedir(stream);
}

static void sweep_name(void *data, const char *name)
{
	const struct layers *layers = data;
	struct layer_draft draft = LAYER_DRAFT_NONE;
	size_t length = strlen(name);

	if (length < 4 || strcmp(name + length - 4, ".new") != 0 || !is_key(name, length - 4))
		return;
	snprintf(draft.key, sizeof draft.key, "%.64s", name);
	draft.folder = open_locked(layers->fd, name, LOCK_EX | LOCK_NB);
	if (draft.folder >= 0)
		layer_abandon(layers, &draft);
}

void layers_sweep(const struct layers *layers)
{
	for_names(layers, sweep_name, (void *)layers);
}

/* --- looking --- */

struct reading {
	const struct layers *layers;
	struct layer_entry *entries;
	size_t count;
};

static void read_entry(void *data, const char *name)
{
	struct reading *reading = data;
	struct layer_entry *entry;
	cleanup_close int fd = -1;
	char path[NAME_SIZE + sizeof "/about"];
	size_t length;
	json_t *object;
	struct stat st;
	char *about;

	if (!is_key(name, strlen(name)))
		return;
	snprintf(path, sizeof path, "%s/about", name);
	fd = openat(reading->layers->fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || read_fd_whole(fd, ABOUT_MAX, &about, &length) < 0)
		return;
	object = json_loads(about, 0, NULL);
	reading->entries = xrealloc(reading->entries, reading->count + 1, sizeof *reading->entries);
	entry = &reading->entries[reading->count++];
	*entry = (struct layer_entry){.about = about,
		.bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes")),
		.used_s = st.st_mtim.tv_sec};
	snprintf(entry->key, sizeof entry->key, "%.64s", name);
	json_decref(object);
}

static int by_use(const void *left, const void *right)
{
	const struct layer_entry *a = left, *b = right;

	if (a->used_s != b->used_s)
		return a->used_s < b->used_s ? -1 : 1;
	return strcmp(a->key, b->key);
}

size_t layers_read(const struct layers *layers, struct layer_entry **ret)
{
	struct reading reading = {.layers = layers};

	for_names(layers, read_entry, &reading);
	if (reading.count > 1)
		qsort(reading.entries, reading.count, sizeof *reading.entries, by_use);
	*ret = reading.entries;
	return reading.count;
}

void layers_free(struct layer_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(entries[i].about);
	free(entries);
}

/* --- using --- */

bool layer_is_tree(const char *path)
{
	size_t length = strlen(path), tail = SHA256_HEX_SIZE - 1 + strlen("/fs");
	static const char before[] = "/packages/";

	return length >= tail + strlen(before) && strcmp(path + length - 3, "/fs") == 0 &&
	       strspn(path + length - tail, "0123456789abcdef") == SHA256_HEX_SIZE - 1 &&
	       strncmp(path + length - tail - strlen(before), before, strlen(before)) == 0;
}

const char *layer_key(const char *path)
{
	return path + strlen(path) - strlen("/fs") - (SHA256_HEX_SIZE - 1);
}

/* Not each time: it is a write to the disk. */
static void note_use(int folder)
{
	struct stat st;

	if (fstatat(folder, "about", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtim.tv_sec + USE_NOTED_S > time(NULL))
		return;
	utimensat(folder, "about", (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}},
		AT_SYMLINK_NOFOLLOW);
}

int layer_hold(const char *tree, struct error *err)
{
	cleanup_free char *folder = xasprintf("%.*s", (int)(strlen(tree) - strlen("/fs")), tree);
	int lock = open_locked(AT_FDCWD, folder, LOCK_SH);

	if (lock < 0) {
		error_set(err, errno, "the installed packages in %s", folder);
		return error_hint(err, "they were removed just now: run it again");
	}
	note_use(lock);
	return lock;
}
