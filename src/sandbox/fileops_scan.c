/* SPDX-License-Identifier: MIT */
/*
 * Looking at a whole tree, for what changes in it: see fileops.h.
 *
 * Directories wait in a queue, and are opened by their paths when it is their turn, so few descriptors are needed. A
 * path can lead elsewhere by then, through a link too; but only the directory that was seen before is looked into.
 */
#define _GNU_SOURCE
#include "sandbox/fileops_work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"

enum {
	NAME_SIZE_MAX = 256, /* with a NUL, or with the slash of a directory */
	LOOKS_AT_ONCE = 64,  /* before the clock is looked at */
	SETTLE_NS = 500000,
	SETTLES_MAX = 40, /* then the clock has been set back */
};

/* One of the queue. */
struct directory {
	uint64_t inode;
	uint32_t parent; /* its place in the queue */
	uint32_t name;   /* offset in `queue_names`; with a slash, and a NUL */
	uint32_t depth;
	int errnum; /* why it will not be looked into */
};

/* Mapped: what is not used takes no memory. */
static struct scan {
	/* Of one directory: `order` has the numbers of those that are still there, sorted. */
	struct fileop_node nodes[FILEOP_SCAN_MAX];
	uint32_t names_at[FILEOP_SCAN_MAX], order[FILEOP_SCAN_MAX];
	char names[FILEOP_SCAN_MAX * (NAME_SIZE_MAX + 1)];
	bool mounted[FILEOP_SCAN_MAX]; /* something is, on this directory */
	uint32_t count, ordered, used;
	struct directory queue[1 + FILEOP_SCAN_MAX];
	char queue_names[FILEOP_SCAN_MAX * (NAME_SIZE_MAX + 1)];
	uint32_t queued, queue_used;
	uint64_t left; /* nodes that may still be told of */
	uint64_t mount, deadline_ns;
	uint64_t newest_ns; /* time of change of what is not a directory */
	int root;
	char out[64 << 10];
	size_t out_length;
} * scan;

/* --- time --- */

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool late(void)
{
	return now_ns(CLOCK_MONOTONIC) >= scan->deadline_ns;
}

/* Until files get other times than those that were seen. */
static void settle(void)
{
	const struct timespec pause = {.tv_nsec = SETTLE_NS};

	for (int i = 0; i < SETTLES_MAX && now_ns(CLOCK_REALTIME_COARSE) <= scan->newest_ns; i++)
		nanosleep(&pause, NULL);
}

/* --- one directory: functions return 0, or errno --- */

static const char *name_of(uint32_t node)
{
	return scan->names + scan->names_at[node];
}

static int add_name(const char *name)
{
	size_t size = strlen(name) + 1;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (scan->count >= scan->left)
		return E2BIG;
	if (size > NAME_SIZE_MAX) /* some FUSE server's */
		return ENAMETOOLONG;
	scan->names_at[scan->count++] = scan->used;
	memcpy(scan->names + scan->used, name, size);
	scan->used += (uint32_t)size + 1; /* for a slash */
	return 0;
}

static int read_names(int fd)
{
	static _Alignas(struct dirent64) char buffer[32 << 10];

	scan->count = scan->used = 0;
	for (;;) {
		ssize_t length = getdents64(fd, (void *)buffer, sizeof buffer);

		if (length <= 0) /* ENOENT: it has just been removed */
			return length < 0 && errno != ENOENT ? errno : 0;
		for (ssize_t at = 0; at < length;) {
			const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
			int errnum = add_name(entry->d_name);

			if (errnum)
				return errnum;
			at += entry->d_reclen;
		}
		if (late())
			return ETIME;
	}
}

static int look_at_node(int fd, uint32_t number)
{
	struct fileop_node *node = &scan->nodes[number];
	char *name = scan->names + scan->names_at[number];
	struct statx stx;

	if (look_at(fd, name, AT_SYMLINK_NOFOLLOW, &stx) < 0)
		return errno == ENOENT ? 0 : errno;
	*node = (struct fileop_node){.inode = stx.stx_ino,
		.size = stx.stx_size,
		.ctime_ns = statx_ns(&stx.stx_ctime),
		.mode = stx.stx_mode,
		.name_length = (uint32_t)strlen(name)};
	if (S_ISDIR(stx.stx_mode)) {
		name[node->name_length++] = '/';
		name[node->name_length] = '\0';
		scan->mounted[number] = stx.stx_mnt_id != scan->mount;
	} else if (node->ctime_ns > scan->newest_ns) {
		scan->newest_ns = node->ctime_ns;
	}
	scan->order[scan->ordered++] = number;
	return 0;
}

static int look_at_nodes(int fd)
{
	scan->ordered = 0;
	for (uint32_t i = 0; i < scan->count; i++) {
		int errnum = look_at_node(fd, i);

		if (errnum)
			return errnum;
		if (i % LOOKS_AT_ONCE == LOOKS_AT_ONCE - 1 && late())
			return ETIME;
	}
	return 0;
}

static bool is_before(uint32_t one, uint32_t other)
{
	return strcmp(name_of(one), name_of(other)) < 0;
}

static void sift_down(uint32_t from, uint32_t count)
{
	uint32_t *order = scan->order;

	for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
		uint32_t moved = order[from];

		if (child + 1 < count && is_before(order[child], order[child + 1]))
			child++;
		if (!is_before(moved, order[child]))
			return;
		order[from] = order[child];
		order[child] = moved;
	}
}

/* qsort(3) of some C libraries uses malloc. */
static void sort(void)
{
	for (uint32_t i = scan->ordered / 2; i-- > 0;)
		sift_down(i, scan->ordered);
	for (uint32_t i = scan->ordered; i-- > 1;) {
		uint32_t last = scan->order[0];

		scan->order[0] = scan->order[i];
		scan->order[i] = last;
		sift_down(0, i);
	}
}

/* --- the queue --- */

static void enqueue(uint32_t parent, uint32_t node)
{
	struct directory *directory = &scan->queue[scan->queued++];
	uint32_t size = scan->nodes[node].name_length + 1;

	*directory = (struct directory){.inode = scan->nodes[node].inode,
		.parent = parent,
		.name = scan->queue_used,
		.depth = scan->queue[parent].depth + 1,
		.errnum = scan->mounted[node] ? EXDEV : 0};
	if (directory->depth == FILEOP_DEPTH_MAX)
		directory->errnum = ENAMETOOLONG;
	memcpy(scan->queue_names + scan->queue_used, name_of(node), size);
	scan->queue_used += size;
}

/* The path of a directory other than the first, without a slash at its end. NULL: those of what is in it are too long. */
static const char *path_of(uint32_t number)
{
	static char path[FILEOP_PATH_MAX];
	char *at = path + sizeof path - NAME_SIZE_MAX - 2;

	*at = '\0';
	for (; number > 0; number = scan->queue[number].parent) {
		const char *name = scan->queue_names + scan->queue[number].name;
		size_t length = strlen(name) - (*at == '\0');

		if (length > (size_t)(at - path))
			return NULL;
		at -= length;
		memcpy(at, name, length);
	}
	return at;
}

static int open_directory(int dir, const char *path)
{
	return openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* -1 with errno. */
static int open_queued(uint32_t number)
{
	const char *path = path_of(number);
	cleanup_close int fd = -1;
	struct statx stx;

	errno = ENAMETOOLONG;
	fd = path ? open_directory(scan->root, path) : -1;
	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, &stx) < 0)
		return -1;
	errno = ESTALE;
	return stx.stx_ino == scan->queue[number].inode && stx.stx_mnt_id == scan->mount ? move_fd(&fd) : -1;
}

/* --- all of it --- */

/* Nothing that is put at once is larger than this. */
enum { RECORD_MAX = sizeof(struct fileop_node) + NAME_SIZE_MAX };

static int put(struct work *work, const void *data, size_t length)
{
	int r = 0;

	if (scan->out_length + RECORD_MAX > sizeof scan->out) {
		r = work_send(work, scan->out, scan->out_length);
		scan->out_length = 0;
	}
	memcpy(scan->out + scan->out_length, data, length);
	scan->out_length += length;
	return r;
}

/* Returns 0, or errno. */
static int look_into(uint32_t number)
{
	cleanup_close int fd = -1;
	int errnum = scan->queue[number].errnum;

	if (!errnum && late())
		errnum = ETIME;
	if (errnum)
		return errnum;
	if (number > 0 && (fd = open_queued(number)) < 0)
		return errno;
	errnum = read_names(number > 0 ? fd : scan->root);
	return errnum ? errnum : look_at_nodes(number > 0 ? fd : scan->root);
}

static int scan_directory(struct work *work, uint32_t number)
{
	int errnum = look_into(number), r;
	struct fileop_directory directory = {.errnum = (uint32_t)errnum};

	if (errnum)
		scan->ordered = 0;
	if (errnum == ENOENT) /* it has just been removed */
		directory.errnum = 0;
	sort();
	directory.count = scan->ordered;
	scan->left -= scan->ordered;
	r = put(work, &directory, sizeof directory);
	for (uint32_t i = 0; i < directory.count && r == 0; i++) {
		uint32_t node = scan->order[i];

		r = put(work, &scan->nodes[node], sizeof scan->nodes[node]);
		if (r == 0)
			r = put(work, name_of(node), scan->nodes[node].name_length);
		if (S_ISDIR(scan->nodes[node].mode))
			enqueue(number, node);
	}
	return r;
}

static int scan_all(struct work *work)
{
	int r = work_send_answer(work);

	for (uint32_t i = 0; i < scan->queued && r == 0; i++)
		r = scan_directory(work, i);
	if (r == 0)
		r = work_send(work, scan->out, scan->out_length);
	if (r == 0 && work->request.flags & FILEOP_SETTLED)
		settle();
	return r;
}

static int scan_from(struct work *work, int root)
{
	struct statx stx, top;
	uint64_t ms = work->request.offset;

	if (look_at(root, "", AT_EMPTY_PATH, &stx) < 0 || look_at(work->base, "/", 0, &top) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	work->answer.count = stx.stx_mnt_id == top.stx_mnt_id;
	scan->root = root;
	scan->mount = stx.stx_mnt_id;
	scan->queued = 1;
	scan->left = work->request.limit < FILEOP_SCAN_MAX ? work->request.limit : FILEOP_SCAN_MAX;
	scan->deadline_ns = ms < UINT32_MAX ? now_ns(CLOCK_MONOTONIC) + ms * 1000000 : UINT64_MAX;
	return scan_all(work);
}

int fileop_scan(struct work *work)
{
	cleanup_close int root = open_directory(work->base, work->path);
	int r;

	if (root < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	scan = mmap(NULL, sizeof *scan, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (scan == MAP_FAILED)
		return work_fail(work, FILEOP_LISTING, errno);
	r = scan_from(work, root);
	munmap(scan, sizeof *scan);
	return r;
}
