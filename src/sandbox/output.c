/* SPDX-License-Identifier: MIT */
/* Copies what a run leaves into a directory of the caller's: see output.h. */
#define _GNU_SOURCE
#include "sandbox/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/collect.h"
#include "sandbox/create.h"
#include "sandbox/result.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { PART_DIGITS = 16, PART_MAX = 8 + PART_DIGITS };

struct copying {
	int directories[COLLECT_DEPTH_MAX + 1]; /* on the way to the current one; the first is the caller's */
	unsigned depth;
	char part[PART_MAX]; /* what a file is called in the first of them while it is written */
	uint64_t room;	     /* bytes that may still come */
	bool (*stop)(void *data);
	void *stop_data;
	bool stopped;
	const struct spec *spec;
	struct run_result *result;
};

/* --- the caller's directory --- */

static int is_empty(int directory, struct error *err, const char *path)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	char buffer[QUOTED_MAX];
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		error_set(err, errno, "--output: %s", quoted(path, buffer));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (r == 0 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = error_set(err, 0, "--output: %s is not empty; name a new directory, or empty this one",
				quoted(path, buffer));
	closedir(dir);
	return r;
}

int output_open(const char *path, struct output *ret, struct error *err)
{
	bool made = mkdir(path, 0777) == 0;
	struct output output = {.fd = -1, .made = made, .path = path};
	char buffer[QUOTED_MAX];

	if (!made && errno != EEXIST)
		return error_set(err, errno, "--output: making %s", quoted(path, buffer));
	output.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (output.fd < 0 || faccessat(output.fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		error_set(err, errno, "--output: %s", quoted(path, buffer));
	else if (is_empty(output.fd, err, path) == 0) {
		*ret = output;
		return 0;
	}
	output_close(&output, true);
	return -1;
}

void output_close(struct output *output, bool unused)
{
	close_fd(&output->fd);
	if (unused && output->made)
		rmdir(output->path);
}

/* --- what is left out, and what fails --- */

static void note_left_out(void *data, const char *path, const char *why, bool content)
{
	struct result_copied *copied = &((struct copying *)data)->result->copied;

	if (copied->left_out_count < RESULT_LEFT_OUT_MAX)
		copied->left_out[copied->left_out_count] =
			(struct result_left_out){.path = xstrdup(path), .why = xstrdup(why)};
	copied->left_out_count++;
}

static int fail(struct copying *copying, int errnum, const char *what, const char *path)
{
	char buffer[QUOTED_MAX];

	return error_set(&copying->result->copied.error, errnum, "--output: %s %s", what, quoted(path, buffer));
}

/*
 * What a file system says of one name or one file. It cannot have them (vfat has neither links nor all names), and
 * others it can.
 */
static bool is_of_one(int errnum)
{
	return errnum == EINVAL || errnum == EILSEQ || errnum == ENAMETOOLONG || errnum == EEXIST || errnum == EFBIG ||
	       errnum == EPERM || errnum == EOPNOTSUPP;
}

static int fail_or_leave_out(struct copying *copying, const char *what, const char *path)
{
	if (!is_of_one(errno))
		return fail(copying, errno, what, path);
	note_left_out(copying, path, strerror(errno), true);
	return 0;
}

/* --- making --- */

static int current(const struct copying *copying)
{
	return copying->directories[copying->depth];
}

static int open_new(int directory, const char *name, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long fd;

	do
		fd = syscall(SYS_openat2, directory, name, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN);
	return (int)fd;
}

static int make_directory(void *data, const char *path, const char *name, unsigned mode)
{
	struct copying *copying = data;
	int fd;

	if (mkdirat(current(copying), name, mode | 0700) < 0)
		return fail_or_leave_out(copying, "making the directory", path) < 0 ? -1 : 1;
	fd = open_new(current(copying), name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fail(copying, errno, "opening the directory", path);
	copying->directories[++copying->depth] = fd;
	copying->result->copied.directories++;
	return 0;
}

static int leave_directory(void *data)
{
	struct copying *copying = data;

	close_fd(&copying->directories[copying->depth--]);
	return 0;
}

static int make_link(void *data, const char *path, const char *name, const char *target)
{
	struct copying *copying = data;

	if (symlinkat(target, current(copying), name) < 0)
		return fail_or_leave_out(copying, "making the link", path);
	copying->result->copied.links++;
	return 0;
}

static bool is_stopped(void *data)
{
	struct copying *copying = data;

	if (!copying->stopped && copying->stop(copying->stop_data)) {
		copying->stopped = true;
		error_set(&copying->result->copied.error, 0,
			"--output: a signal came before all was copied; the rest is missing");
	}
	return copying->stopped;
}

/* NFS and some file systems in user space know no RENAME_NOREPLACE: a hard link replaces nothing either. */
static int give_name(struct copying *copying, const char *name)
{
	int top = copying->directories[0];

	if (renameat2(top, copying->part, current(copying), name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL || linkat(top, copying->part, current(copying), name, 0) < 0)
		return -1;
	return unlinkat(top, copying->part, 0);
}

static int make_file(void *data, const char *path, const char *name, int from, const struct stat *st)
{
	struct copying *copying = data;
	struct result_copied *copied = &copying->result->copied;
	cleanup_close int to = -1;

	if ((uint64_t)st->st_size > copying->room) {
		note_left_out(copying, path, "more than --disk allows for all", true);
		return 0;
	}
	to = open_new(copying->directories[0], copying->part, O_WRONLY | O_CREAT | O_EXCL, (st->st_mode & 0777) | 0400);
	if (to < 0)
		return fail(copying, errno, "making the file", path);
	if (collect_copy(from, to, 0, st->st_size, is_stopped, copying) < 0 || give_name(copying, name) < 0) {
		int r = copying->stopped ? -1 : fail_or_leave_out(copying, "writing", path);

		unlinkat(copying->directories[0], copying->part, 0);
		return r;
	}
	copying->room -= (uint64_t)st->st_size;
	copied->files++;
	copied->bytes += (uint64_t)st->st_size;
	return 0;
}

/* --- all of it --- */

static int name_part(struct copying *copying)
{
	unsigned char random[PART_DIGITS / 2];
	size_t used = (size_t)snprintf(copying->part, sizeof copying->part, ".nsbox-");

	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return error_set(&copying->result->copied.error, errno, "--output: asking for random bytes");
	for (size_t i = 0; i < sizeof random; i++)
		used += (size_t)snprintf(copying->part + used, sizeof copying->part - used, "%02x", random[i]);
	return 0;
}

static void warn_of_left_out(struct run_result *result)
{
	const struct result_copied *copied = &result->copied;
	char text[ERROR_TEXT_MAX] = "", one[QUOTED_MAX + 128], buffer[QUOTED_MAX];
	size_t used = 0, named = 0;
	struct error line;

	for (; named < copied->left_out_count && named < RESULT_LEFT_OUT_MAX; named++) {
		int length = snprintf(one, sizeof one, "%s%s (%s)", named ? ", " : "",
			quoted(copied->left_out[named].path, buffer), copied->left_out[named].why);

		/* Room is kept for the number of the others. */
		if (used + (size_t)length + 128 > sizeof text)
			break;
		memcpy(text + used, one, (size_t)length + 1);
		used += (size_t)length;
	}
	if (named < copied->left_out_count)
		snprintf(text + used, sizeof text - used, ", and %zu more", copied->left_out_count - named);
	if (copied->left_out_count == 0)
		return;
	/* As an error's text, in which nothing stays that a terminal would obey. */
	error_set(&line, 0, "--output: left out %s", text);
	add_warning(result, "%s", line.text);
}

void output_copy(const struct output *output, const struct spec *spec, const int *tmpfs, size_t tmpfs_count,
	bool (*stop)(void *data), void *data, struct run_result *result)
{
	struct copying copying = {
		.directories = {output->fd},
		.room = spec->limits.disk_bytes,
		.stop = stop,
		.stop_data = data,
		.spec = spec,
		.result = result,
	};
	const struct collector collector = {
		.data = &copying,
		.directory = make_directory,
		.leave = leave_directory,
		.file = make_file,
		.link = make_link,
		.left_out = note_left_out,
		.stop = is_stopped,
	};

	/* The code may have had it in a bind. */
	if (is_empty(output->fd, &result->copied.error, output->path) < 0 || name_part(&copying) < 0)
		return;
	collect_files(spec, tmpfs, tmpfs_count, &collector);
	while (copying.depth > 0)
		leave_directory(&copying);
	warn_of_left_out(result);
}
