/* SPDX-License-Identifier: MIT */
/*
 * Listing directories: see fileops.h.
 *
 * The names of a directory are read whole, sorted and gone through; a directory among them is pushed on a stack and is
 * gone through first. Names and their order lie on a stack too, in one mapping: those of a directory above those of
 * the one that it is in. So memory is bounded, and nothing is recursive.
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

enum { NAME_SIZE_MAX = 256 };

struct level {
	int fd;
	uint32_t bottom;	/* of its part of the memory */
	uint32_t *order;	/* `count` offsets of names: a byte of type and the string */
	uint32_t count, next;
	size_t prefix;		/* bytes of the path that its names stand behind */
};

static struct listing {
	char *memory; /* FILEOP_NAMES_MAX bytes */
	uint32_t used;
	struct level levels[FILEOP_DEPTH_MAX];
	unsigned depth;
	uint64_t left; /* entries that may be sent */
	uint64_t mount;
	bool left_out;
	int errnum;
	char path[FILEOP_PATH_MAX];
	char out[64 << 10];
	size_t out_length;
} listing;

/* --- records --- */

static int flush(struct work *work)
{
	size_t length = listing.out_length;

	listing.out_length = 0;
	return work_send(work, listing.out, length);
}

static void put(const void *data, size_t length)
{
	memcpy(listing.out + listing.out_length, data, length);
	listing.out_length += length;
}

static int send_entry(struct work *work, const struct fileop_entry *entry, const char *name, const char *target)
{
	/* Each of the strings is below FILEOP_PATH_MAX. */
	if (listing.out_length + sizeof *entry + 2 * FILEOP_PATH_MAX > sizeof listing.out && flush(work) < 0)
		return -1;
	put(entry, sizeof *entry);
	if (entry->type == 0)
		return 0;
	put(name, entry->name_length + 1);
	if (entry->type == S_IFLNK)
		put(target, entry->target_length + 1);
	return 0;
}

/* --- the names of a directory --- */

static const char *name_at(uint32_t offset)
{
	return listing.memory + offset + 1;
}

static void sift_down(uint32_t *order, size_t from, size_t count)
{
	for (size_t child; (child = 2 * from + 1) < count; from = child) {
		uint32_t moved = order[from];

		if (child + 1 < count && strcmp(name_at(order[child]), name_at(order[child + 1])) < 0)
			child++;
		if (strcmp(name_at(moved), name_at(order[child])) >= 0)
			return;
		order[from] = order[child];
		order[child] = moved;
	}
}

/* qsort(3) of some C libraries uses malloc. */
static void heapsort(uint32_t *order, size_t count)
{
	for (size_t i = count / 2; i-- > 0;)
		sift_down(order, i, count);
	for (size_t i = count; i-- > 1;) {
		uint32_t largest = order[0];

		order[0] = order[i];
		order[i] = largest;
		sift_down(order, 0, i);
	}
}

/* Returns false where there is no room, for the name and its place in the order. */
static bool add_name(struct level *level, const struct dirent64 *entry)
{
	size_t size = strlen(entry->d_name) + 2;

	if (listing.used + size + (level->count + 2) * sizeof *level->order > FILEOP_NAMES_MAX)
		return false;
	listing.memory[listing.used] = (char)entry->d_type;
	memcpy(listing.memory + listing.used + 1, entry->d_name, size - 1);
	listing.used += (uint32_t)size;
	level->count++;
	return true;
}

static void order_names(struct level *level)
{
	uint32_t name = level->bottom, align = sizeof *level->order - 1;

	level->order = (uint32_t *)(void *)(listing.memory + ((listing.used + align) & ~align));
	for (uint32_t i = 0; i < level->count; i++) {
		level->order[i] = name;
		name += (uint32_t)strlen(name_at(name)) + 2;
	}
	heapsort(level->order, level->count);
	listing.used = (uint32_t)((char *)(level->order + level->count) - listing.memory);
}

static void left_out(int errnum)
{
	listing.left_out = true;
	if (!listing.errnum)
		listing.errnum = errnum;
}

static bool is_listed(const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	if (strlen(name) < NAME_SIZE_MAX)
		return true;
	left_out(ENAMETOOLONG); /* some FUSE server's */
	return false;
}

static void read_names(struct level *level)
{
	static _Alignas(struct dirent64) char buffer[32 << 10];
	bool room = true;

	while (room) {
		ssize_t length = getdents64(level->fd, (void *)buffer, sizeof buffer);

		if (length < 0 && errno != ENOENT) /* ENOENT: it has just been removed */
			left_out(errno);
		if (length <= 0)
			break;
		for (ssize_t at = 0; at < length && room;) {
			const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);

			at += entry->d_reclen;
			if (is_listed(entry->d_name))
				room = add_name(level, entry);
		}
	}
	if (!room)
		left_out(0);
	order_names(level);
}

/* --- going through them --- */

/* Takes `fd`. */
static void push(int fd, size_t prefix)
{
	struct level *level = &listing.levels[listing.depth++];

	*level = (struct level){.fd = fd, .bottom = listing.used, .prefix = prefix};
	read_names(level);
}

static void pop(void)
{
	struct level *level = &listing.levels[--listing.depth];

	close(level->fd);
	listing.used = level->bottom;
}

static int open_directory(int dir, const char *name, int flags)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
}

/* Opens a directory to look into it, unless it is one not to be looked into: then -1 with errno. */
static int open_child(int dir, const char *name, size_t path_length, const struct statx *stx)
{
	cleanup_close int fd = -1;
	struct statx opened;

	errno = EXDEV;
	if (stx->stx_mnt_id != listing.mount)
		return -1;
	errno = ENAMETOOLONG;
	if (listing.depth == FILEOP_DEPTH_MAX || path_length + 1 + NAME_SIZE_MAX > FILEOP_PATH_MAX)
		return -1;
	fd = open_directory(dir, name, O_NOFOLLOW);
	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, &opened) < 0)
		return -1;
	errno = EXDEV;
	return opened.stx_mnt_id == listing.mount ? move_fd(&fd) : -1;
}

static void fill(struct fileop_entry *entry, const struct statx *stx)
{
	entry->type = stx->stx_mode & S_IFMT;
	entry->mode = stx->stx_mode & 07777;
	entry->size = stx->stx_size;
	entry->mtime_ns = statx_ns(&stx->stx_mtime);
	entry->ctime_ns = statx_ns(&stx->stx_ctime);
	entry->inode = stx->stx_ino;
}

static uint32_t type_of(unsigned char type)
{
	return type == DT_UNKNOWN ? FILEOP_TYPE_UNKNOWN : DTTOIF(type);
}

/* The next name of the directory on top. */
static int list_next(struct work *work)
{
	static char target[FILEOP_PATH_MAX];
	struct level *level = &listing.levels[listing.depth - 1];
	uint32_t offset = level->order[level->next++];
	const char *name = name_at(offset);
	struct fileop_entry entry = {.type = type_of((unsigned char)listing.memory[offset])};
	size_t path_length = (size_t)(stpcpy(listing.path + level->prefix, name) - listing.path);
	struct statx stx;
	int child = -1;

	entry.name_length = (uint32_t)path_length;
	if (look_at(level->fd, name, AT_SYMLINK_NOFOLLOW, &stx) == 0)
		fill(&entry, &stx);
	else if (errno == ENOENT)
		return 0;
	else
		entry.errnum = (uint32_t)errno;
	if (entry.type == S_IFLNK) {
		ssize_t n = readlinkat(level->fd, name, target, sizeof target - 1);

		entry.target_length = n > 0 ? (uint32_t)n : 0;
		target[entry.target_length] = '\0';
	}
	if (entry.type == S_IFDIR && !entry.errnum && work->request.flags & FILEOP_RECURSIVE) {
		child = open_child(level->fd, name, path_length, &stx);
		if (child < 0)
			entry.errnum = (uint32_t)errno;
	}
	listing.left--;
	if (child >= 0) {
		listing.path[path_length] = '/';
		push(child, path_length + 1);
		listing.path[path_length] = '\0';
	}
	return send_entry(work, &entry, listing.path, target);
}

static int list_all(struct work *work)
{
	struct fileop_entry last = {0};
	int r = work_send_answer(work);

	while (r == 0 && listing.depth > 0) {
		const struct level *level = &listing.levels[listing.depth - 1];

		if (level->next == level->count) {
			pop();
		} else if (listing.left == 0) {
			left_out(0);
			break;
		} else {
			if (level->prefix > 0)
				listing.path[level->prefix - 1] = '/';
			r = list_next(work);
		}
	}
	while (listing.depth > 0)
		pop();
	last.count = listing.left_out;
	last.errnum = (uint32_t)listing.errnum;
	if (r == 0)
		r = send_entry(work, &last, NULL, NULL);
	return r == 0 ? flush(work) : r;
}

int fileop_list(struct work *work)
{
	cleanup_close int fd = -1;
	struct statx stx;
	int r;

	if (look_at(work->base, work->path, 0, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	fd = open_directory(work->base, work->path, 0);
	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	listing.used = 0;
	listing.depth = 0;
	listing.left = work->request.limit;
	listing.mount = stx.stx_mnt_id;
	listing.left_out = false;
	listing.errnum = 0;
	listing.out_length = 0;
	listing.memory = mmap(NULL, FILEOP_NAMES_MAX, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (listing.memory == MAP_FAILED)
		return work_fail(work, FILEOP_LISTING, errno);
	push(move_fd(&fd), 0);
	r = list_all(work);
	munmap(listing.memory, FILEOP_NAMES_MAX);
	return r;
}
