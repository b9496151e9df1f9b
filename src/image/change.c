/* SPDX-License-Identifier: MIT */
/* Adding to the store, and taking away from it: see change.h. */
#define _GNU_SOURCE
#include "image/change.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "image/record.h"
#include "image/remove.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { NAME_DEPTH_MAX = 64, BOOT_ID_SIZE = 64 };

/* qsort(3) and bsearch(3) take no NULL, also for nothing. */
static void sort(void *array, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	if (count > 1)
		qsort(array, count, size, compare);
}

/* --- directories --- */

/* Calls `each` with the names in a directory below the store. */
static int for_names(const struct store *store, const char *directory,
	int (*each)(void *data, const char *directory, const char *name, struct error *err),
	void *data, struct error *err)
{
	int fd = openat(store->fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
	    r = 0;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&fd);
		return error_set(err, errno, "reading %s/%s", store->path, directory);
	}
	while (r == 0 && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = each(data, directory, entry->d_name, err);
	closedir(stream);
	return r;
}

/* --- all images --- */

struct names {
	const struct store *store;
	char **names; /* below the store */
	size_t count, room;
	unsigned depth;
};

static int collect_name(void *data, const char *directory, const char *name, struct error *err)
{
	struct names *names = data;
	cleanup_free char *path = xasprintf("%s/%s", directory, name);
	struct stat st;
	int r;

	if (fstatat(names->store->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* removed meanwhile */
	if (S_ISDIR(st.st_mode)) {
		if (names->depth == NAME_DEPTH_MAX)
			return 0;
		names->depth++;
		r = for_names(names->store, path, collect_name, names, err);
		names->depth--;
		return r;
	}
	if (names->count == names->room) {
		names->room = names->room ? 2 * names->room : 16;
		names->names = xrealloc(names->names, names->room, sizeof *names->names);
	}
	names->names[names->count++] = path;
	path = NULL;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int store_list(const struct store *store,
	int (*each)(void *data, const struct image_record *record), void *data, struct error *err)
{
	struct names names = {.store = store};
	int r = for_names(store, "images", collect_name, &names, err);

	sort(names.names, names.count, sizeof *names.names, compare_names);
	for (size_t i = 0; i < names.count; i++) {
		struct image_record record;
		struct error damage;
		int found = r == 0 ? record_load_file(store, names.names[i], &record, &damage) : 1;

		if (found < 0)
			error_print(&damage);
		if (found == 0) {
			r = each(data, &record);
			record_free(&record);
		}
		free(names.names[i]);
	}
	free(names.names);
	return r;
}

int store_remove_image(
	const struct store *store, const struct reference *reference, struct error *err)
{
	char name[STORE_IMAGE_NAME_MAX];
	char *slash;

	store_image_name(reference, name);
	if (unlinkat(store->fd, name, 0) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 1
			       : error_set(err, errno, "removing %s/%s", store->path, name);
	/* Directories that have become empty, but for «images» itself. */
	while ((slash = strrchr(name, '/')) && strchr(name, '/') != slash) {
		*slash = '\0';
		if (unlinkat(store->fd, name, AT_REMOVEDIR) < 0)
			break;
	}
	return 0;
}

/* --- what images refer to --- */

struct set {
	char (*digests)[DIGEST_HEX_LENGTH + 1];
	size_t count, room;
};

static void set_add(struct set *set, const char *digest)
{
	if (set->count == set->room) {
		set->room = set->room ? 2 * set->room : 64;
		set->digests = xrealloc(set->digests, set->room, sizeof *set->digests);
	}
	strcpy(set->digests[set->count++], digest + sizeof "sha256:" - 1);
}

static int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, DIGEST_HEX_LENGTH);
}

static bool set_has(const struct set *set, const char *hex)
{
	return set->count > 0 && strlen(hex) == DIGEST_HEX_LENGTH &&
	       bsearch(hex, set->digests, set->count, sizeof *set->digests, compare_digests);
}

struct pruning {
	const struct store *store;
	struct set layers, blobs;
	struct pruned *pruned;
};

static int add_references(void *data, const struct image_record *record)
{
	struct pruning *pruning = data;

	set_add(&pruning->blobs, record->manifest);
	set_add(&pruning->blobs, record->config);
	for (size_t i = 0; i < record->layers_count; i++) {
		set_add(&pruning->layers, record->layers[i].chain_id);
		set_add(&pruning->blobs, record->layers[i].blob);
	}
	return 0;
}

/* --- removal --- */

static uint64_t bytes_below(int dir, const char *name, unsigned depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	if (!stream) {
		close_fd(&fd);
		return 0;
	}
	while (depth < 1024 && (entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		bytes += S_ISDIR(st.st_mode) ? bytes_below(fd, entry->d_name, depth + 1)
					     : (uint64_t)st.st_blocks * 512;
	}
	closedir(stream);
	return bytes;
}

/* The name first, so that nobody finds half a layer; a layer that a run has locked stays. */
static int prune_layer(void *data, const char *directory, const char *name, struct error *err)
{
	struct pruning *pruning = data;
	const struct store *store = pruning->store;
	cleanup_free char *path = xasprintf("%s/%s", directory, name), *doomed = NULL;
	cleanup_close int fd = -1;

	if (set_has(&pruning->layers, name))
		return 0;
	fd = openat(store->fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		pruning->pruned->in_use++;
		return 0;
	}
	doomed = xasprintf("tmp/gone-%d-%.32s", (int)getpid(), name);
	pruning->pruned->bytes += bytes_below(store->fd, path, 0);
	if (renameat(store->fd, path, store->fd, doomed) < 0)
		return error_set(err, errno, "removing %s/%s", store->path, path);
	pruning->pruned->layers++;
	return remove_tree(store->fd, doomed, err);
}

static int prune_blob(void *data, const char *directory, const char *name, struct error *err)
{
	struct pruning *pruning = data;
	cleanup_free char *path = xasprintf("%s/%s", directory, name);
	struct stat st;

	if (set_has(&pruning->blobs, name))
		return 0;
	if (fstatat(pruning->store->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		pruning->pruned->bytes += (uint64_t)st.st_blocks * 512;
	if (unlinkat(pruning->store->fd, path, 0) < 0)
		return error_set(err, errno, "removing %s/%s", pruning->store->path, path);
	pruning->pruned->blobs++;
	return 0;
}

static int prune_temporary(void *data, const char *directory, const char *name, struct error *err)
{
	struct pruning *pruning = data;
	cleanup_free char *path = xasprintf("%s/%s", directory, name);

	return remove_tree(pruning->store->fd, path, err);
}

/* With the exclusive lock held. */
static int prune(const struct store *store, struct pruned *ret, struct error *err)
{
	struct pruning pruning = {.store = store, .pruned = ret};
	int r = store_list(store, add_references, &pruning, err);

	sort(pruning.layers.digests, pruning.layers.count, sizeof *pruning.layers.digests,
		compare_digests);
	sort(pruning.blobs.digests, pruning.blobs.count, sizeof *pruning.blobs.digests,
		compare_digests);
	if (r == 0)
		r = for_names(store, "layers", prune_layer, &pruning, err);
	if (r == 0)
		r = for_names(store, "blobs/sha256", prune_blob, &pruning, err);
	if (r == 0)
		r = for_names(store, "tmp", prune_temporary, &pruning, err);
	free(pruning.layers.digests);
	free(pruning.blobs.digests);
	return r;
}

/* The process that holds a lock on the file, in proc_locks(5); 0 where that cannot be seen. */
static int holder_of(int fd)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], kind[16];
	unsigned major, minor;
	unsigned long inode;
	struct stat st;
	int pid = 0, found = 0;

	if (locks && fstat(fd, &st) == 0)
		while (!found && fgets(line, sizeof line, locks))
			if (sscanf(line, "%*d: %15s %*s %*s %d %x:%x:%lu", kind, &pid, &major,
				    &minor, &inode) == 5 &&
				strcmp(kind, "FLOCK") == 0 && inode == st.st_ino &&
				makedev(major, minor) == st.st_dev)
				found = pid > 0 && pid != getpid() ? pid : 0;
	if (locks)
		fclose(locks);
	return found;
}

/* Waiting can take as long as somebody's pull does: it is not to look like hanging. */
static void say_waiting(const struct store *store, int fd, int kind)
{
	const char *whom = kind == LOCK_EX ? "adds something to the store" : "tidies the store";
	int pid = holder_of(fd);

	if (pid > 0)
		fprintf(stderr, "nsbox: waiting for process %d, which %s %s\n", pid, whom,
			store->path);
	else
		fprintf(stderr, "nsbox: waiting for another process, which %s %s\n", whom,
			store->path);
}

static int open_lock(const struct store *store, int kind, struct error *err)
{
	cleanup_close int fd =
		openat(store->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return error_set(err, errno, "opening %s/lock", store->path);
	r = flock(fd, kind | LOCK_NB);
	if (r < 0 && errno == EWOULDBLOCK)
		say_waiting(store, fd, kind);
	while (r < 0 && (errno == EINTR || errno == EWOULDBLOCK))
		r = flock(fd, kind);
	if (r < 0)
		return error_set(err, errno, "locking %s/lock", store->path);
	return move_fd(&fd);
}

int store_prune(const struct store *store, struct pruned *ret, struct error *err)
{
	cleanup_close int lock = open_lock(store, LOCK_EX, err);

	*ret = (struct pruned){0};
	return lock < 0 ? -1 : prune(store, ret, err);
}

/* --- adding --- */

/* A part of a blob that the store has whole by now, from elsewhere. */
static bool is_needless_part(const struct store *store, const char *name)
{
	char blob[sizeof "blobs/sha256/" + DIGEST_HEX_LENGTH];
	size_t length = strlen(name);

	if (length < DIGEST_HEX_LENGTH + sizeof ".part" - 1 ||
		strcmp(name + length - (sizeof ".part" - 1), ".part") != 0)
		return false;
	snprintf(blob, sizeof blob, "blobs/sha256/%.64s", name);
	return faccessat(store->fd, blob, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What an ended process was making; one that lives has it locked. Other parts of blobs are gone on with. */
static int sweep_temporary(void *data, const char *directory, const char *name, struct error *err)
{
	const struct store *store = data;
	cleanup_free char *path = xasprintf("%s/%s", directory, name);
	cleanup_close int fd = -1;
	struct error ignored;

	(void)err;
	if (strncmp(name, "layer-", 6) != 0 && strncmp(name, "gone-", 5) != 0 &&
		strncmp(name, "record-", 7) != 0 && strncmp(name, "blob-", 5) != 0 && !is_needless_part(store, name))
		return 0;
	fd = openat(store->fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		remove_tree(store->fd, path, &ignored);
	return 0;
}

int store_sweep(const struct store *store, struct error *err)
{
	return for_names(store, "tmp", sweep_temporary, (void *)store, err);
}

/*
 * Names may be on disk without their contents when the machine loses its power; only what a record names was
 * written out before. So what was added since the machine was started is known to be whole, and nothing else.
 */
static int distrust_older(const struct store *store, struct error *err)
{
	char now[BOOT_ID_SIZE] = "", then[BOOT_ID_SIZE] = "";
	struct pruned pruned = {0};
	cleanup_close int lock = -1, fd = -1;

	(void)read_small_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", now, sizeof now);
	(void)read_small_file(store->fd, "boot", then, sizeof then);
	if (strcmp(now, then) == 0)
		return 0;
	lock = open_lock(store, LOCK_EX, err);
	if (lock < 0 || prune(store, &pruned, err) < 0)
		return -1;
	fd = openat(store->fd, "boot", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_whole(fd, now, strlen(now)) < 0)
		return error_set(err, errno, "writing %s/boot", store->path);
	return 0;
}

int store_begin_adding(const struct store *store, struct error *err)
{
	cleanup_close int lock = -1;

	if (distrust_older(store, err) < 0)
		return -1;
	lock = open_lock(store, LOCK_SH, err);
	if (lock < 0 || store_sweep(store, err) < 0)
		return -1;
	return move_fd(&lock);
}
