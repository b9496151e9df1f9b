/* SPDX-License-Identifier: MIT */
/* From a layer of packages to a session: see take.h. */
#define _GNU_SOURCE
#include "packages/take.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/discard.h"
#include "image/storage.h"
#include "language/recipe.h"
#include "packages/growth.h"
#include "sandbox/account.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/dirnames.h"
#include "util/error.h"

static const int DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/* --- the copy --- */

/* What an install would have been ended for. Returns 1 where nobody can say. */
static int check_size(const struct take *take, struct growth *growth, struct error *err)
{
	struct exec_result exec = {.phase = "run"};

	if (growth_end(growth, &exec))
		return install_refuse_size(take->install, &exec, err);
	return growth->whole ? 0 : 1;
}

/* Whether it is the tree itself that cannot be copied: closed to its owner, too deep, or with attributes that we cannot set. */
static bool is_no_source(const struct error *err)
{
	return err->errnum == 0 || err->errnum == EACCES || err->errnum == ENAMETOOLONG || err->errnum == EOPNOTSUPP;
}

static int copy_tree(const struct take *take, int tree, int copy, struct error *err)
{
	struct growth growth;

	if (growth_begin(take->storage, take->disk_bytes, &growth, err) < 0)
		return -1;
	if (tree_duplicate_shared(tree, copy, growth.floor_bytes, &take->end, err) == 0)
		return check_size(take, &growth, err);
	if (is_no_source(err))
		return 1;
	error_context(err, "copying the packages from the store");
	if (err->errnum == ENOSPC || err->errnum == EDQUOT)
		error_hint(err, "free some space, or set NSBOX_STORE or XDG_DATA_HOME to a folder on another disk");
	return -1;
}

/* --- the place --- */

/* What is below the folder, as an install can have left it: no link of it is followed. */
static int remove_entry(int dir, const char *name)
{
	cleanup_close int fd = -1;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	/* A directory may be closed to its owner. */
	if (errno != EISDIR || fchmodat(dir, name, 0700, 0) < 0)
		return -1;
	fd = openat(dir, name, DIRECTORY);
	return fd >= 0 && discard_content(fd, UINT64_MAX) == 0 ? unlinkat(dir, name, AT_REMOVEDIR) : -1;
}

/* Opens `name` of a directory at `path` where that is shown elsewhere, or leads to what is; else -1. */
static int open_part(const struct take *take, int dir, const char *path, const char *name)
{
	cleanup_free char *whole = xasprintf("%s%s", path, name);
	size_t length = strlen(whole);

	for (size_t i = 0; i < take->recipe->binds_count; i++) {
		const char *part = take->recipe->binds[i].from;

		if (strncmp(part, whole, length) == 0 && (part[length] == '/' || part[length] == '\0'))
			return openat(dir, name, DIRECTORY);
	}
	return -1;
}

static int clear(const struct take *take, int dir, const char *path);

static int clear_entry(const struct take *take, int dir, const char *path, const char *name)
{
	cleanup_close int part = open_part(take, dir, path, name);
	cleanup_free char *below = xasprintf("%s%s/", path, name);

	return part < 0 ? remove_entry(dir, name) : clear(take, part, below);
}

/*
 * Nothing stays but the directories that are shown elsewhere, as a session begins with them. `path` is where `dir` is, with a
 * slash at its end, or empty.
 */
static int clear(const struct take *take, int dir, const char *path)
{
	struct dirnames names = {0};
	int r = fchmod(dir, 0755) < 0 ? -1 : dirnames_add(&names, dir);

	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = clear_entry(take, dir, path, names.list[i]);
	dirnames_free(&names);
	return r;
}

/* A directory that gets another parent has to be one that its owner can write to, whatever its mode is otherwise. */
static int move_entry(int from, const char *name, int to, const char *as)
{
	struct stat st;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode) || (st.st_mode & 0700) == 0700)
		return renameat(from, name, to, as);
	if (fchmodat(from, name, 0700, 0) < 0)
		return -1;
	r = renameat(from, name, to, as);
	return r == 0 ? fchmodat(to, as, st.st_mode & 07777, 0) : -1;
}

static int move_content(const struct take *take, int from, int to, const char *path);

static int move_one(const struct take *take, int from, int to, const char *path, const char *name)
{
	cleanup_close int part = open_part(take, to, path, name), source = part < 0 ? -1 : openat(from, name, DIRECTORY);
	cleanup_free char *below = xasprintf("%s%s/", path, name);

	return source < 0 ? move_entry(from, name, to, name) : move_content(take, source, part, below);
}

static int move_content(const struct take *take, int from, int to, const char *path)
{
	struct dirnames names = {0};
	/* Its own mode, of which nothing stays, may forbid that something is taken away. */
	int r = fchmod(from, 0700) < 0 ? -1 : dirnames_add(&names, from);

	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = move_one(take, from, to, path, names.list[i]);
	dirnames_free(&names);
	return r;
}

static int put(const struct take *take, int work, int copy, struct error *err)
{
	cleanup_close int space = openat(take->storage, "space", DIRECTORY), place = openat(space, take->folder, DIRECTORY);
	int r;

	if (place < 0 || clear(take, place, "") < 0)
		return error_set(err, errno, "emptying the place of packages in the session");
	r = take->recipe->binds_count > 0 ? move_content(take, copy, place, "")
					  : move_entry(work, "copy", space, take->folder);
	if (r == 0)
		return 0;
	error_set(err, errno, "putting packages into the session");
	clear(take, place, "");
	return -1;
}

/* --- all of it --- */

int take_layer(const struct take *take, const char *tree, struct error *err)
{
	cleanup_close int from = open(tree, DIRECTORY), work = openat(take->storage, "work", DIRECTORY), copy = -1;
	int r;

	if (from < 0)
		return error_set(err, errno, "the installed packages in %s", tree);
	if (work < 0 || mkdirat(work, "copy", 0700) < 0)
		return error_set(err, errno, "making a copy of the packages");
	copy = openat(work, "copy", DIRECTORY);
	if (copy < 0)
		return error_set(err, errno, "making a copy of the packages");
	r = copy_tree(take, from, copy, err);
	if (r == 0)
		return put(take, work, copy, err);
	/* An install in its place is not to find it. */
	if (discard_content(copy, UINT64_MAX) == 0)
		unlinkat(work, "copy", AT_REMOVEDIR);
	return r;
}
