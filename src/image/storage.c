/* SPDX-License-Identifier: MIT */
/* The folders of sessions in the store: see storage.h. */
#define _GNU_SOURCE
#include "image/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "image/discard.h"
#include "image/store.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { TRIES = 8, FLOOR_PART = 20 /* a twentieth */, FLOOR_MAX = 1 << 30 };

/* --- the disk --- */

uint64_t storage_free_bytes(int fd)
{
	struct statfs status;

	/* What is kept for root is not ours to fill, also where we are root. */
	return fstatfs(fd, &status) < 0 ? UINT64_MAX : (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
}

uint64_t storage_free_files(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) < 0 ? 0 : status.f_ffree;
}

uint64_t storage_floor_bytes(int fd)
{
	struct statfs status;
	uint64_t floor;

	if (fstatfs(fd, &status) < 0)
		return 0;
	floor = (uint64_t)status.f_blocks * (uint64_t)status.f_bsize / FLOOR_PART;
	return floor < FLOOR_MAX ? floor : FLOOR_MAX;
}

bool storage_files_low(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 && status.f_ffree < status.f_files / FLOOR_PART;
}

bool storage_tells_late(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 && status.f_type == BTRFS_SUPER_MAGIC;
}

static int check_disk(int fd, const char *path, bool on_disk, struct error *err)
{
	struct statfs status;

	if (fstatfs(fd, &status) < 0)
		return error_set(err, errno, "%s", path);
	if (on_disk && (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC))
		return error_set(err, 0, "%s is in memory itself", path);
	if (storage_free_bytes(fd) <= storage_floor_bytes(fd))
		return error_set(err, 0, "the disk of %s has less free than has to stay free for others", path);
	return 0;
}

/* --- making --- */

/* Locked, and still what the name is of: who sweeps may have had the lock before us. Returns -1 with EAGAIN then. */
static int open_locked(int sessions, const char *name)
{
	cleanup_close int fd = openat(sessions, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat locked, named;

	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &locked) < 0 ||
		fstatat(sessions, name, &named, AT_SYMLINK_NOFOLLOW) < 0 || locked.st_ino != named.st_ino ||
		locked.st_dev != named.st_dev) {
		errno = EAGAIN;
		return -1;
	}
	return move_fd(&fd);
}

static int make_space(struct storage *storage, struct error *err)
{
	if (mkdirat(storage->folder, "space", 0755) < 0)
		return error_set(err, errno, "making %s", storage->path);
	storage->space = openat(storage->folder, "space", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* mkdir is subject to the umask, and a folder's default list of access rights is inherited. */
	if (storage->space < 0 || fchmod(storage->space, 0755) < 0)
		return error_set(err, errno, "making %s", storage->path);
	return 0;
}

static int make_folder(struct storage *storage, struct error *err)
{
	for (int i = 0; i < TRIES && storage->folder < 0; i++) {
		if (mkdirat(storage->sessions, storage->name, 0700) < 0 && errno != EEXIST)
			break;
		storage->folder = open_locked(storage->sessions, storage->name);
		if (storage->folder < 0 && errno != EAGAIN && errno != ENOENT)
			break;
	}
	if (storage->folder < 0)
		return error_set(err, errno, "making %s", storage->path);
	return make_space(storage, err);
}

static int open_sessions(const struct store *store, struct error *err)
{
	int fd;

	if (mkdirat(store->fd, "sessions", 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "making %s/sessions", store->path);
	fd = openat(store->fd, "sessions", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_set(err, errno, "%s/sessions", store->path) : fd;
}

int storage_make(const char *name, bool on_disk, struct storage *ret, struct error *err)
{
	struct storage storage = STORAGE_NONE;
	struct store store;
	int r;

	if (store_open(true, &store, err) < 0)
		return -1;
	snprintf(storage.name, sizeof storage.name, "%s", name);
	r = check_disk(store.fd, store.path, on_disk, err);
	if (r == 0 && snprintf(storage.path, PATH_MAX, "%s/sessions/%s/space", store.path, name) >= PATH_MAX)
		r = error_set(err, ENAMETOOLONG, "%s", store.path);
	if (r == 0)
		r = storage.sessions = open_sessions(&store, err);
	store_close(&store);
	if (r >= 0 && make_folder(&storage, err) == 0) {
		*ret = storage;
		return 0;
	}
	if (storage.folder >= 0)
		storage_remove(&storage, UINT64_MAX);
	storage_close(&storage);
	return -1;
}

/* --- beginning anew --- */

/* Into `old`, by a name that nothing there has. There may be no space any more. */
static int move_space(const struct storage *storage, int old)
{
	char name[16];

	/* The code may have changed its mode, and it gets another parent. */
	if (fchmodat(storage->folder, "space", 0700, 0) < 0 && errno != ENOENT)
		return -1;
	for (unsigned i = 0;; i++) {
		snprintf(name, sizeof name, "%u", i);
		if (renameat2(storage->folder, "space", old, name, RENAME_NOREPLACE) == 0 || errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			return -1;
	}
}

int storage_renew(struct storage *storage, uint64_t budget_us, int *ret_old, struct error *err)
{
	*ret_old = -1;
	close_fd(&storage->space);
	/* What an earlier one has left there is removed with it. */
	if (mkdirat(storage->folder, "old", 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "making %s", storage->path);
	*ret_old = openat(storage->folder, "old", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret_old < 0)
		return error_set(err, errno, "%s", storage->path);
	if (move_space(storage, *ret_old) < 0)
		return error_set(err, errno, "emptying %s", storage->path);
	if (discard_content(*ret_old, budget_us) == 0)
		close_fd(ret_old);
	return make_space(storage, err);
}

void storage_remove_old(const struct storage *storage, int old)
{
	if (discard_content(old, UINT64_MAX) == 0)
		unlinkat(storage->folder, "old", AT_REMOVEDIR);
}

/* --- removing --- */

int storage_remove(const struct storage *storage, uint64_t budget_us)
{
	int r = discard_content(storage->folder, budget_us);

	if (r == 0 && unlinkat(storage->sessions, storage->name, AT_REMOVEDIR) < 0)
		r = -1;
	return r;
}

void storage_close(struct storage *storage)
{
	close_fd(&storage->space);
	close_fd(&storage->folder);
	close_fd(&storage->sessions);
}

int storage_open_all(void)
{
	struct error unimportant;
	struct store store;
	int fd;

	if (!store_is_there() || store_open(false, &store, &unimportant) != 0)
		return -1;
	fd = openat(store.fd, "sessions", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	store_close(&store);
	return fd;
}

/* Calls `each` for the folders that nobody has locked, with the lock, until it returns false. */
static void for_dead(int sessions, bool (*each)(void *data, int sessions, const char *name, int fd), void *data)
{
	int fd = openat(sessions, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	bool more = true;

	if (!stream) {
		close_fd(&fd);
		return;
	}
	while (more && (entry = readdir(stream))) {
		cleanup_close int folder = -1;

		if (entry->d_name[0] == '.')
			continue;
		folder = open_locked(sessions, entry->d_name);
		if (folder >= 0)
			more = each(data, sessions, entry->d_name, folder);
	}
	closedir(stream);
}

static bool note_dead(void *data, int sessions, const char *name, int fd)
{
	*(bool *)data = true;
	return false;
}

bool storage_has_dead(int sessions)
{
	bool found = false;

	for_dead(sessions, note_dead, &found);
	return found;
}

/* Each session counts once: ID.packages is of the same as ID. */
static bool remove_dead(void *data, int sessions, const char *name, int fd)
{
	if (discard_content(fd, UINT64_MAX) == 0 && unlinkat(sessions, name, AT_REMOVEDIR) == 0)
		*(unsigned *)data += !strchr(name, '.');
	return true;
}

unsigned storage_sweep(int sessions)
{
	unsigned count = 0;

	for_dead(sessions, remove_dead, &count);
	return count;
}
