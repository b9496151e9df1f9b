/* SPDX-License-Identifier: MIT */
/* Reading, writing and editing the content of files: see fileops.h. */
#define _GNU_SOURCE
#include "sandbox/fileops_work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/cleanup.h"

/*
 * Some files of /proc/sys want memory of the kernel for as much as a reader has room for, and more than this it has
 * not.
 */
enum { PIECE = 256 << 10 };

static char buffer[FILEOP_READ_WHOLE];

/* --- reading --- */

/*
 * Opens a regular file for reading, and describes it. It is looked at first, since to open a FIFO lets its writer go
 * on, and afterwards, since it may be another one then. Returns a descriptor, or -1.
 */
static int open_regular(struct work *work)
{
	cleanup_close int fd = -1;
	struct statx stx;

	if (look_at(work->base, work->path, 0, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	if (work_need_regular(work) < 0)
		return -1;
	fd = openat(work->base, work->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	return work_need_regular(work) < 0 ? -1 : move_fd(&fd);
}

/* Reads up to `size` bytes from `offset` on. Returns how many there are, fewer at the end only; -1 with errno. */
static ssize_t read_at(int fd, char *to, size_t size, uint64_t offset)
{
	size_t length = 0;

	while (length < size) {
		size_t piece = size - length < PIECE ? size - length : PIECE;
		ssize_t n = pread(fd, to + length, piece, (off_t)(offset + length));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

static void *map_memory(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/*
 * A file that says it is empty: it is, or is one of /proc, which are as long as what can be read. Whether there is
 * more is seen by reading on.
 */
static int read_unknown(struct work *work, int fd)
{
	uint64_t offset = work->request.offset, limit = work->request.limit;
	size_t wanted = limit < FILEOP_UNKNOWN_MAX ? (size_t)limit : FILEOP_UNKNOWN_MAX;
	char *memory = map_memory(wanted + 1);
	ssize_t n;
	int r;

	if (memory == MAP_FAILED)
		return work_fail(work, FILEOP_READING, errno);
	n = read_at(fd, memory, wanted + 1, offset);
	if (n < 0) {
		r = work_fail(work, FILEOP_READING, errno);
	} else {
		bool more = (size_t)n > wanted;

		work->answer.count = more ? wanted : (size_t)n;
		work->answer.size = more ? UINT64_MAX : n > 0 ? offset + (uint64_t)n : 0;
		r = work_send_answer(work) < 0 ? -1 : work_send(work, memory, work->answer.count);
	}
	munmap(memory, wanted + 1);
	return r;
}

/* What is behind the first piece, which `done` bytes were sent of. */
static int read_on(struct work *work, int fd, uint64_t done)
{
	while (done < work->answer.count) {
		uint64_t left = work->answer.count - done;
		size_t wanted = left < sizeof buffer ? (size_t)left : sizeof buffer;
		ssize_t n = read_at(fd, buffer, wanted, work->request.offset + done);

		if (n > 0 && work_send(work, buffer, (size_t)n) < 0)
			return -1;
		if (n < 0 || (size_t)n < wanted) {
			work->lost = true;
			return -1;
		}
		done += (uint64_t)n;
	}
	return 0;
}

int fileop_read(struct work *work)
{
	uint64_t offset = work->request.offset, wanted;
	cleanup_close int fd = open_regular(work);
	size_t first;
	ssize_t n;

	if (fd < 0)
		return -1;
	if (offset > INT64_MAX - FILEOP_UNKNOWN_MAX - 1)
		return work_fail(work, FILEOP_READING, EOVERFLOW);
	if (work->answer.size == 0)
		return read_unknown(work, fd);
	wanted = offset < work->answer.size ? work->answer.size - offset : 0;
	if (wanted > work->request.limit)
		wanted = work->request.limit;
	first = wanted < sizeof buffer ? (size_t)wanted : sizeof buffer;
	n = read_at(fd, buffer, first, offset);
	if (n < 0)
		return work_fail(work, FILEOP_READING, errno);
	if ((size_t)n < first) { /* it is shorter than it said, or is by now */
		wanted = (size_t)n;
		work->answer.size = offset + wanted;
	}
	work->answer.count = wanted;
	if (work_send_answer(work) < 0 || work_send(work, buffer, (size_t)n) < 0)
		return -1;
	return read_on(work, fd, (uint64_t)n);
}

/* --- a file in the making --- */

static int make_temporary(struct save *save)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char random[8];

	for (;;) {
		char *next = stpcpy(save->name, ".nsbox.");

		if (getrandom(random, sizeof random, 0) != sizeof random)
			return -1;
		for (size_t i = 0; i < sizeof random; i++) {
			*next++ = digits[random[i] >> 4];
			*next++ = digits[random[i] & 15];
		}
		*next = '\0';
		save->fd = openat(save->place.dir, save->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (save->fd >= 0)
			return 0;
		save->name[0] = '\0';
		if (errno != EEXIST)
			return -1;
	}
}

static void drop_temporary(struct save *save)
{
	unlinkat(save->place.dir, save->name, 0);
	close_fd(&save->fd);
	save->name[0] = '\0';
}

int save_begin_at(struct work *work, struct save *save, mode_t mode)
{
	save->mode = mode;
	return make_temporary(save) < 0 ? work_fail(work, FILEOP_WRITING, errno) : 0;
}

static int open_in_place(struct work *work, struct save *save)
{
	struct statx stx;

	save->in_place = true;
	save->fd = openat(save->place.dir, save->place.name,
		O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (save->append ? O_APPEND : 0));
	if (save->fd < 0 || look_at(save->fd, "", AT_EMPTY_PATH, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	save->old_size = stx.stx_size;
	if (work_need_regular(work) < 0)
		return -1;
	if (work->request.mode && fchmod(save->fd, work->request.mode) < 0)
		return work_fail(work, FILEOP_WRITING, errno);
	return 0;
}

/* Whether a new file can take the place of the old one without anybody being the poorer: see fileops.h. */
static bool replaceable(const struct save *save, const struct statx *old)
{
	struct statx dir;

	return !save->append && old->stx_nlink == 1 && old->stx_uid == geteuid() &&
	       look_at(save->place.dir, "", AT_EMPTY_PATH, &dir) == 0 && dir.stx_mnt_id == old->stx_mnt_id;
}

/* Returns false where the old one has to be written in place. Otherwise there is a new file, or a failure. */
static bool make_replacement(struct work *work, struct save *save, const struct statx *old)
{
	struct statx new;

	if (!replaceable(save, old))
		return false;
	save->mode = work->request.mode ? work->request.mode : old->stx_mode & 01777;
	if (make_temporary(save) < 0) {
		/*
		 * Directories that take no new files. For want of anything else, it would fail in place too, and too
		 * late.
		 */
		if (errno == EACCES || errno == EPERM || errno == EROFS || errno == ENOENT)
			return false;
		work_fail(work, FILEOP_WRITING, errno);
	} else if (look_at(save->fd, "", AT_EMPTY_PATH, &new) < 0 ||
		   (new.stx_gid != old->stx_gid && fchown(save->fd, (uid_t)-1, old->stx_gid) < 0)) {
		drop_temporary(save);
		return false;
	}
	return true;
}

static int begin_old(struct work *work, struct save *save, const struct statx *old)
{
	work_describe(work, old);
	if (save->exclusive)
		return work_fail(work, FILEOP_OPENING, EEXIST);
	if (work_need_regular(work) < 0)
		return -1;
	if (faccessat(save->place.dir, save->place.name, W_OK, 0) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	if (!make_replacement(work, save, old))
		return open_in_place(work, save);
	return save->fd < 0 ? -1 : 0;
}

int save_begin(struct work *work, struct save *save)
{
	uint32_t flags = work->request.flags;
	bool parents = flags & FILEOP_PARENTS;
	struct statx old;

	save->exclusive = flags & FILEOP_EXCLUSIVE;
	save->append = flags & FILEOP_APPEND;
	if (place_open(work, &save->place, work->path, parents) < 0)
		return -1;
	if (!save->exclusive && place_follow(work, &save->place, parents) < 0)
		return -1;
	if (look_at(save->place.dir, save->place.name, AT_SYMLINK_NOFOLLOW, &old) == 0) {
		if (save->place.slash && !S_ISDIR(old.stx_mode))
			return work_fail(work, FILEOP_OPENING, ENOTDIR);
		return begin_old(work, save, &old);
	}
	if (errno != ENOENT)
		return work_fail(work, FILEOP_OPENING, errno);
	if (save->place.slash)
		return work_fail(work, FILEOP_OPENING, EISDIR);
	save->mode = work->request.mode ? work->request.mode : 0644;
	if (make_temporary(save) < 0)
		return work_fail(work, errno == ENOSPC || errno == EDQUOT ? FILEOP_WRITING : FILEOP_OPENING, errno);
	return 0;
}

/* Once there is something to write, or it is sure that there is nothing. */
static int cut(struct work *work, struct save *save)
{
	if (!save->in_place || save->append || save->cut)
		return 0;
	if (ftruncate(save->fd, 0) < 0)
		return work_fail(work, FILEOP_WRITING, errno);
	save->cut = true;
	return 0;
}

int save_reserve(struct work *work, struct save *save, uint64_t size)
{
	if (!save->in_place || size == 0)
		return 0;
	if (fallocate(save->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) < 0)
		return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : work_fail(work, FILEOP_WRITING, errno);
	save->cut = save->reserved = true;
	return 0;
}

int save_add(struct work *work, struct save *save, const void *data, size_t length)
{
	const char *next = data;

	if (cut(work, save) < 0)
		return -1;
	while (length > 0) {
		ssize_t n = write(save->fd, next, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return work_fail(work, FILEOP_WRITING, errno);
		next += n;
		length -= (size_t)n;
		save->written += (uint64_t)n;
	}
	return 0;
}

int save_end(struct work *work, struct save *save)
{
	struct statx stx;

	if (cut(work, save) < 0)
		return -1;
	if (save->reserved && ftruncate(save->fd, (off_t)save->written) < 0)
		return work_fail(work, FILEOP_WRITING, errno);
	if (!save->in_place) {
		if (fchmod(save->fd, save->mode) < 0)
			return work_fail(work, FILEOP_WRITING, errno);
		if (place_take(&save->place, save->place.dir, save->name, save->exclusive) < 0)
			return work_fail(work, FILEOP_RENAMING, errno);
		save->name[0] = '\0';
	}
	save->written = 0;
	if (look_at(save->fd, "", AT_EMPTY_PATH, &stx) < 0)
		return work_fail(work, FILEOP_WRITING, errno);
	work_describe(work, &stx);
	return 0;
}

/* What was appended, unless somebody else has written to the file too. */
static void take_back(struct save *save)
{
	struct statx stx;

	if (look_at(save->fd, "", AT_EMPTY_PATH, &stx) == 0 && stx.stx_size == save->old_size + save->written)
		(void)!ftruncate(save->fd, (off_t)save->old_size);
}

void save_close(struct save *save)
{
	if (save->name[0])
		drop_temporary(save);
	else if (save->fd >= 0 && save->append && save->written > 0)
		take_back(save);
	close_fd(&save->fd);
	place_close(&save->place);
}

/* --- writing --- */

/* At the end of what came: whether the other side waits for an answer, or has closed the channel and given up. */
static bool given_up(int channel)
{
	struct pollfd poll_fd = {.fd = channel, .events = POLLIN};

	return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLHUP | POLLERR);
}

static int receive(struct work *work, struct save *save)
{
	for (;;) {
		ssize_t n = recv(work->channel, buffer, sizeof buffer, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || (n == 0 && given_up(work->channel))) {
			work->lost = true;
			return -1;
		}
		if (n == 0)
			return 0;
		if (save_add(work, save, buffer, (size_t)n) < 0)
			return -1;
	}
}

int fileop_write(struct work *work)
{
	static struct save save;
	int r;

	save = SAVE_NONE;
	r = save_begin(work, &save);
	if (r == 0)
		r = receive(work, &save);
	if (r == 0)
		r = save_end(work, &save);
	save_close(&save);
	return r;
}

/* --- editing --- */

/* The whole file, in memory of FILEOP_EDIT_MAX + 1 bytes that is the caller's. Returns its length, or -1. */
static ssize_t read_to_edit(struct work *work, char *memory)
{
	cleanup_close int fd = open_regular(work);
	ssize_t n;

	if (fd < 0)
		return -1;
	if (work->answer.size > FILEOP_EDIT_MAX)
		return work_fail(work, FILEOP_TOO_LARGE, 0);
	n = read_at(fd, memory, FILEOP_EDIT_MAX + 1, 0);
	if (n < 0)
		return work_fail(work, FILEOP_READING, errno);
	if (n > FILEOP_EDIT_MAX) { /* it says less than it has, or grew */
		work->answer.size = (uint64_t)n;
		return work_fail(work, FILEOP_TOO_LARGE, 0);
	}
	return n;
}

static uint64_t count_in(const char *text, size_t length, const char *what, size_t what_length)
{
	const char *end = text + length, *next = text;
	uint64_t count = 0;

	while ((next = memmem(next, (size_t)(end - next), what, what_length))) {
		count++;
		next += what_length;
	}
	return count;
}

/* `text` with each `from` become `new`, written to `to`, which has room. */
static void replace_all(const struct work *work, const char *text, size_t length, char *to)
{
	size_t from_length = work->request.from_length, new_length = work->request.to_length;
	const char *end = text + length, *next;

	while ((next = memmem(text, (size_t)(end - text), work->from, from_length))) {
		to = mempcpy(to, text, (size_t)(next - text));
		to = mempcpy(to, work->new, new_length);
		text = next + from_length;
	}
	memcpy(to, text, (size_t)(end - text));
}

static int save_edited(struct work *work, const char *text, size_t length)
{
	static struct save save;
	int r;

	save = SAVE_NONE;
	r = save_begin(work, &save);
	if (r == 0)
		r = save_reserve(work, &save, length);
	if (r == 0)
		r = save_add(work, &save, text, length);
	if (r == 0)
		r = save_end(work, &save);
	save_close(&save);
	return r;
}

/* `memory` has FILEOP_EDIT_MAX + 1 bytes for the text, and as many for what becomes of it. */
static int edit(struct work *work, char *memory)
{
	char *edited = memory + FILEOP_EDIT_MAX + 1;
	uint64_t count, size;
	ssize_t length = read_to_edit(work, memory);

	if (length < 0)
		return -1;
	count = count_in(memory, (size_t)length, work->from, work->request.from_length);
	if (count == 0)
		return work_fail(work, FILEOP_NOT_FOUND_IN, 0);
	if (count > 1 && !(work->request.flags & FILEOP_ALL)) {
		work->answer.count = count;
		return work_fail(work, FILEOP_FOUND_TWICE, 0);
	}
	/* Below 2^49: the counts and lengths are below 2^25. */
	size = (uint64_t)length - count * work->request.from_length + count * work->request.to_length;
	if (size > FILEOP_EDIT_MAX) {
		work->answer.size = size;
		return work_fail(work, FILEOP_TOO_LARGE, 0);
	}
	replace_all(work, memory, (size_t)length, edited);
	if (save_edited(work, edited, (size_t)size) < 0)
		return -1;
	work->answer.count = count;
	return 0;
}

int fileop_edit(struct work *work)
{
	size_t size = 2 * ((size_t)FILEOP_EDIT_MAX + 1);
	char *memory;
	int r;

	if (work->request.from_length == 0 || work->request.from_length > FILEOP_EDIT_MAX ||
		work->request.to_length > FILEOP_EDIT_MAX)
		return work_fail(work, FILEOP_BAD_REQUEST, EINVAL);
	memory = map_memory(size);
	if (memory == MAP_FAILED)
		return work_fail(work, FILEOP_READING, errno);
	r = edit(work, memory);
	munmap(memory, size);
	return r;
}
