/* SPDX-License-Identifier: MIT */
/* One request: taken apart, checked, and answered; and the smaller operations. See fileops.h. */
#define _GNU_SOURCE
#include "sandbox/fileops.h"
#include "sandbox/fileops_work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/cleanup.h"

static const struct operation {
	int (*run)(struct work *work);
	uint32_t flags; /* those that it has */
	bool from, to;	/* whether it has these strings */
} operations[] = {
	[FILEOP_READ] = {fileop_read, 0, false, false},
	[FILEOP_WRITE] = {fileop_write, FILEOP_PARENTS | FILEOP_EXCLUSIVE | FILEOP_APPEND, false, false},
	[FILEOP_EDIT] = {fileop_edit, FILEOP_ALL, true, true},
	[FILEOP_LIST] = {fileop_list, FILEOP_RECURSIVE, false, false},
	[FILEOP_MOVE] = {fileop_move, FILEOP_PARENTS | FILEOP_EXCLUSIVE, false, true},
	[FILEOP_DELETE] = {fileop_delete, FILEOP_RECURSIVE, false, false},
	[FILEOP_MKDIR] = {fileop_mkdir, FILEOP_PARENTS, false, false},
	[FILEOP_STAT] = {fileop_stat, 0, false, false},
	[FILEOP_SCAN] = {fileop_scan, FILEOP_SETTLED, false, false},
};

int work_fail(struct work *work, enum fileop_stage stage, int errnum)
{
	work->answer.stage = stage;
	work->answer.errnum = (uint32_t)errnum;
	return -1;
}

int work_send(struct work *work, const void *data, size_t length)
{
	const char *next = data;

	while (length > 0) {
		ssize_t n = send(work->channel, next, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			work->lost = true;
			return -1;
		}
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

int work_send_answer(struct work *work)
{
	work->answered = true;
	return work_send(work, &work->answer, sizeof work->answer);
}

/* --- what is there --- */

int look_at(int dir, const char *name, int flags, struct statx *ret)
{
	return statx(dir, name, flags | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, ret);
}

uint64_t statx_ns(const struct statx_timestamp *time)
{
	return time->tv_sec < 0 ? 0 : (uint64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

void work_describe(struct work *work, const struct statx *stx)
{
	work->answer.type = stx->stx_mode & S_IFMT;
	work->answer.mode = stx->stx_mode & 07777;
	work->answer.size = stx->stx_size;
	work->answer.mtime_ns = statx_ns(&stx->stx_mtime);
}

int work_need_regular(struct work *work)
{
	if (work->answer.type == S_IFREG)
		return 0;
	return work_fail(work, FILEOP_NOT_REGULAR, work->answer.type == S_IFDIR ? EISDIR : EINVAL);
}

int fileop_stat(struct work *work)
{
	struct statx stx;

	if (look_at(work->base, work->path, 0, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	return 0;
}

/* --- directories --- */

int fileop_mkdir(struct work *work)
{
	bool parents = work->request.flags & FILEOP_PARENTS;
	mode_t mode = work->request.mode ? work->request.mode : 0755;
	struct place place = PLACE_NONE;
	struct statx stx;

	if (place_open(work, &place, work->path, parents) < 0)
		return -1;
	if (mkdirat(place.dir, place.name, mode) == 0) {
		/* mkdir(2) takes no more than these. */
		if (mode & ~(mode_t)01777 && fchmodat(place.dir, place.name, mode, 0) < 0) {
			work_fail(work, FILEOP_MAKING, errno);
			unlinkat(place.dir, place.name, AT_REMOVEDIR);
		}
	} else if (errno != EEXIST || !parents) {
		work_fail(work, FILEOP_MAKING, errno);
	}
	if (look_at(place.dir, place.name, 0, &stx) == 0)
		work_describe(work, &stx);
	else if (work->answer.stage == FILEOP_DONE) /* ENOENT: a link that leads nowhere has the name */
		work_fail(work, FILEOP_MAKING, errno == ENOENT ? EEXIST : errno);
	place_close(&place);
	if (work->answer.stage == FILEOP_DONE && work->answer.type != S_IFDIR)
		work_fail(work, FILEOP_MAKING, EEXIST);
	return work->answer.stage == FILEOP_DONE ? 0 : -1;
}

/* --- moving --- */

static int copy_content(struct work *work, int from, struct save *save)
{
	static char buffer[256 << 10];

	for (;;) {
		ssize_t n = read(from, buffer, sizeof buffer);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return work_fail(work, FILEOP_READING, errno);
		if (n == 0)
			return 0;
		if (save_add(work, save, buffer, (size_t)n) < 0)
			return -1;
	}
}

/* To another mount. `save` has the target's place. */
static int move_by_copy(struct work *work, const struct place *from, struct save *save)
{
	cleanup_close int fd = openat(from->dir, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct timespec times[2];
	struct statx stx;

	if (fd < 0 || look_at(fd, "", AT_EMPTY_PATH, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	if (!S_ISREG(stx.stx_mode))
		return work_fail(work, FILEOP_RENAMING, EXDEV);
	if (save_begin_at(work, save, stx.stx_mode & 01777) < 0 || copy_content(work, fd, save) < 0)
		return -1;
	times[0] = (struct timespec){stx.stx_atime.tv_sec, stx.stx_atime.tv_nsec};
	times[1] = (struct timespec){stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec};
	if (futimens(save->fd, times) < 0)
		return work_fail(work, FILEOP_WRITING, errno);
	if (save_end(work, save) < 0)
		return -1;
	if (unlinkat(from->dir, from->name, 0) < 0)
		return work_fail(work, FILEOP_REMOVING, errno);
	return 0;
}

static int move_between(struct work *work, const struct place *from, struct save *save)
{
	struct statx stx;

	if (look_at(from->dir, from->name, AT_SYMLINK_NOFOLLOW, &stx) < 0)
		return work_fail(work, FILEOP_OPENING, errno);
	work_describe(work, &stx);
	if ((from->slash || save->place.slash) && !S_ISDIR(stx.stx_mode))
		return work_fail(work, FILEOP_RENAMING, ENOTDIR);
	if (place_take(&save->place, from->dir, from->name, save->exclusive) < 0) {
		if (errno != EXDEV || !S_ISREG(stx.stx_mode))
			return work_fail(work, FILEOP_RENAMING, errno);
		return move_by_copy(work, from, save);
	}
	if (look_at(save->place.dir, save->place.name, AT_SYMLINK_NOFOLLOW, &stx) == 0)
		work_describe(work, &stx);
	return 0;
}

int fileop_move(struct work *work)
{
	static struct save save;
	static struct place from;
	int r;

	save = SAVE_NONE;
	from = PLACE_NONE;
	save.exclusive = work->request.flags & FILEOP_EXCLUSIVE;
	r = place_open(work, &from, work->path, false);
	if (r == 0)
		r = place_open(work, &save.place, work->to, work->request.flags & FILEOP_PARENTS);
	if (r == 0)
		r = move_between(work, &from, &save);
	save_close(&save);
	place_close(&from);
	return r;
}

/* --- requests --- */

static int bad(struct work *work)
{
	return work_fail(work, FILEOP_BAD_REQUEST, EINVAL);
}

/* A path of `length` bytes as a string in `buffer`. */
static int take_path(struct work *work, const char *text, size_t length, char *buffer)
{
	if (length == 0 || memchr(text, '\0', length))
		return bad(work);
	if (length >= FILEOP_PATH_MAX)
		return work_fail(work, FILEOP_OPENING, ENAMETOOLONG);
	memcpy(buffer, text, length);
	buffer[length] = '\0';
	return 0;
}

static int take_apart(struct work *work, const void *data, size_t length)
{
	static char path[FILEOP_PATH_MAX], to[FILEOP_PATH_MAX];
	const char *strings = (const char *)data + sizeof(struct fileop);
	const struct operation *operation;
	struct fileop *request = &work->request;

	if (length < sizeof *request)
		return bad(work);
	memcpy(request, data, sizeof *request);
	if (request->kind < FILEOP_READ || request->kind >= sizeof operations / sizeof *operations)
		return bad(work);
	operation = &operations[request->kind];
	if (request->flags & ~operation->flags || request->mode & ~07777U ||
		(request->from_length && !operation->from) || (request->to_length && !operation->to) ||
		(uint64_t)request->path_length + request->from_length + request->to_length != length - sizeof *request)
		return bad(work);
	work->path = path;
	work->to = to;
	work->from = strings + request->path_length;
	work->new = work->from + request->from_length;
	if (request->kind == FILEOP_MOVE && take_path(work, work->new, request->to_length, to) < 0)
		return -1;
	return take_path(work, strings, request->path_length, path);
}

int fileop_serve(const void *request, size_t length, int channel, const char *directory)
{
	struct work work = {.channel = channel, .base = -1};
	cleanup_close int base = -1;

	umask(0);
	/* So that write(2) says EFBIG or EPIPE. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (take_apart(&work, request, length) == 0) {
		base = work.base = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (base < 0 && work.path[0] != '/')
			work_fail(&work, FILEOP_OPENING, errno);
		else
			operations[work.request.kind].run(&work);
	}
	if (!work.answered && !work.lost)
		work_send_answer(&work);
	return work.lost ? -1 : 0;
}
