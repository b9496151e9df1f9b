/* SPDX-License-Identifier: MIT */
/*
 * Deleting, of trees of any depth: see fileops.h.
 *
 * One directory is open at a time. What can be removed in it is, and into the first directory that is not empty the
 * way goes down; from one where nothing is left it goes up through «..», if that is the directory that it came from:
 * the code may move directories meanwhile, and what it moved one into is not ours to empty. Then the parent is read
 * anew, and has the empty one first or removes it as it comes by.
 */
#define _GNU_SOURCE
#include "sandbox/fileops_work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/cleanup.h"

enum { LEVELS_MAX = 1 << 20, NAME_SIZE_MAX = 256 };

struct identity {
	uint64_t inode, mount;
};

struct removal {
	int fd; /* the directory that is being emptied */
	struct identity own;
	struct identity *above; /* of the directories that it is in, up to the one that was asked for */
	size_t depth;
	uint64_t count;
};

/* -1 with errno. */
static int open_directory(int dir, const char *name, struct statx *ret)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, ret) < 0)
		return -1;
	return move_fd(&fd);
}

/* To empty it: its own mode may keep its owner out. */
static int open_to_empty(int dir, const char *name, struct statx *ret)
{
	cleanup_close int fd = open_directory(dir, name, ret);

	/* A link that has just taken its place leads to what the code could change itself. */
	if (fd < 0 && errno == EACCES && fchmodat(dir, name, 0700, 0) == 0)
		fd = open_directory(dir, name, ret);
	if (fd < 0)
		return -1;
	if ((ret->stx_mode & 0700) != 0700 && ret->stx_uid == geteuid() && fchmod(fd, 0700) < 0)
		return -1;
	return move_fd(&fd);
}

static struct identity identify(const struct statx *stx)
{
	return (struct identity){stx->stx_ino, stx->stx_mnt_id};
}

/* Returns 0 where it is gone, 1 where it is a directory with something in it; -1 with errno. */
static int remove_name(struct removal *removal, const char *name)
{
	int r = unlinkat(removal->fd, name, 0);

	if (r < 0 && errno == EISDIR) {
		r = unlinkat(removal->fd, name, AT_REMOVEDIR);
		if (r < 0 && (errno == ENOTEMPTY || errno == EEXIST))
			return 1;
	}
	if (r < 0)
		return errno == ENOENT ? 0 : -1;
	removal->count++;
	return 0;
}

/*
 * Removes what can be removed. Returns 0 at the end, 1 with the name (NAME_SIZE_MAX bytes) of a directory that has
 * something in it; -1 with errno.
 */
static int remove_names(struct removal *removal, char *ret_name)
{
	/* Small, as a directory is read anew after each that was not empty. */
	static _Alignas(struct dirent64) char buffer[4096];

	for (;;) {
		ssize_t length = getdents64(removal->fd, (void *)buffer, sizeof buffer);

		if (length <= 0)
			return length < 0 && errno != ENOENT ? -1 : 0;
		for (ssize_t at = 0; at < length;) {
			const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
			int r;

			at += entry->d_reclen;
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			r = remove_name(removal, entry->d_name);
			if (r > 0 && stpncpy(ret_name, entry->d_name, NAME_SIZE_MAX) == ret_name + NAME_SIZE_MAX) {
				errno = ENAMETOOLONG;
				return -1;
			}
			if (r != 0)
				return r;
		}
	}
}

/* Returns 0, or -1 with errno. */
static int go_down(struct removal *removal, const char *name)
{
	struct statx stx;
	int fd = open_to_empty(removal->fd, name, &stx);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (stx.stx_mnt_id != removal->own.mount || removal->depth == LEVELS_MAX) {
		close(fd);
		errno = removal->depth == LEVELS_MAX ? ELOOP : EBUSY;
		return -1;
	}
	removal->above[removal->depth++] = removal->own;
	removal->own = identify(&stx);
	close(removal->fd);
	removal->fd = fd;
	return 0;
}

static int go_up(struct removal *removal)
{
	struct identity wanted = removal->above[--removal->depth];
	struct statx stx;
	int fd = open_directory(removal->fd, "..", &stx);

	if (fd < 0)
		return -1;
	close(removal->fd);
	removal->fd = fd;
	removal->own = identify(&stx);
	if (removal->own.inode == wanted.inode && removal->own.mount == wanted.mount)
		return 0;
	errno = ESTALE; /* moved meanwhile */
	return -1;
}

/* Returns 0, or -1 with errno. */
static int empty_tree(struct removal *removal)
{
	static char name[NAME_SIZE_MAX];

	for (;;) {
		int r = remove_names(removal, name);

		if (r == 0 && removal->depth == 0)
			return 0;
		if (r == 0)
			r = go_up(removal);
		else if (r > 0)
			r = go_down(removal, name);
		if (r < 0)
			return -1;
	}
}

/* Returns 0, or -1 with errno; in both cases with the number of names that are gone. */
static int remove_tree(const struct place *place, uint64_t *ret_count)
{
	size_t size = LEVELS_MAX * sizeof(struct identity);
	struct removal removal = {.fd = -1};
	struct statx stx = {0};
	int r, errnum;

	removal.above = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (removal.above == MAP_FAILED)
		return -1;
	removal.fd = open_to_empty(place->dir, place->name, &stx);
	removal.own = identify(&stx);
	r = removal.fd < 0 ? -1 : empty_tree(&removal);
	errnum = errno;
	close_fd(&removal.fd);
	munmap(removal.above, size);
	errno = errnum;
	if (r == 0 && unlinkat(place->dir, place->name, AT_REMOVEDIR) == 0)
		removal.count++;
	else
		r = -1;
	*ret_count = removal.count;
	return r;
}

static int delete_at(struct work *work, const struct place *place)
{
	struct statx stx;

	if (strcmp(place->name, ".") == 0 || strcmp(place->name, "..") == 0)
		return work_fail(work, FILEOP_REMOVING, EINVAL);
	if (look_at(place->dir, place->name, AT_SYMLINK_NOFOLLOW, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	if (place->slash && !S_ISDIR(stx.stx_mode))
		return work_fail(work, FILEOP_REMOVING, ENOTDIR);
	if (unlinkat(place->dir, place->name, S_ISDIR(stx.stx_mode) ? AT_REMOVEDIR : 0) == 0) {
		work->answer.count = 1;
		return 0;
	}
	/* Of a directory that something is mounted on, rmdir(2) says EBUSY, whatever is in it. */
	if ((errno != ENOTEMPTY && errno != EEXIST) || !(work->request.flags & FILEOP_RECURSIVE))
		return work_fail(work, FILEOP_REMOVING, errno == EEXIST ? ENOTEMPTY : errno);
	if (remove_tree(place, &work->answer.count) < 0)
		return work_fail(work, FILEOP_REMOVING, errno);
	return 0;
}

int fileop_delete(struct work *work)
{
	static struct place place;
	int r;

	place = PLACE_NONE;
	r = place_open(work, &place, work->path, false);
	if (r == 0)
		r = delete_at(work, &place);
	place_close(&place);
	return r;
}
