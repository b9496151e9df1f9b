/* SPDX-License-Identifier: MIT */
/* An overlay, tried: see trial.h. */
#define _GNU_SOURCE
#include "session/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/discard.h"
#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

/* As whoever the sandbox is made by: its own id and no other. */
static int keep_ids(uid_t uid, gid_t gid)
{
	char users[32], groups[32];

	snprintf(users, sizeof users, "%u %u 1", uid, uid);
	snprintf(groups, sizeof groups, "%u %u 1", gid, gid);
	return write_small_file(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
			       write_small_file(AT_FDCWD, "/proc/self/uid_map", users) < 0 ||
			       write_small_file(AT_FDCWD, "/proc/self/gid_map", groups) < 0
		       ? -1
		       : 0;
}

/* Mounts in namespaces of our own, which nobody else gets to see. */
static int leave(struct error *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) < 0 || (uid != 0 && keep_ids(uid, gid) < 0))
		return error_set(err, errno, "making namespaces");
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ? error_set(err, errno, "setting the propagation of mounts") : 0;
}

static int map_ids(int tree, pid_t inside, struct error *err)
{
	cleanup_close int user_namespace = -1;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	char path[40];

	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)inside);
	user_namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (user_namespace < 0)
		return error_set(err, errno, "opening %s", path);
	attr.userns_fd = (uint64_t)user_namespace;
	return sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) < 0 ? error_set(err, errno, "mapping the ids of a layer") : 0;
}

static int attempt(const char *path, pid_t inside, bool idmapped, struct error *err)
{
	static const char *const names[] = {"l", "l/0", "upper", "work", "root"};
	static const struct overlay_upper upper = {"upper", "work", true};
	cleanup_close int place = -1, layer = -1, overlay = -1;

	if (leave(err) < 0)
		return -1;
	/* By its path: a descriptor from before is of a mount of the other namespace. */
	place = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (place < 0)
		return error_set(err, errno, "opening %s", path);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (mkdirat(place, names[i], 0700) < 0)
			return error_set(err, errno, "making directories");
	if (idmapped) {
		layer = sys_open_tree(place, "l/0", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (layer < 0 || map_ids(layer, inside, err) < 0)
			return layer < 0 ? error_set(err, errno, "cloning a layer") : -1;
		if (tree_attach(layer, place, "l/0") < 0)
			return error_set(err, errno, "mounting a layer");
	}
	overlay = tree_overlay(place, 1, &upper, err);
	return overlay < 0 ? -1 : 0;
}

static int try_in(const char *path, pid_t inside, bool idmapped, struct error *err)
{
	struct error said = {0};
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	pid = fork();
	if (pid == 0) {
		attempt(path, inside, idmapped, &said);
		(void)!write_whole(ends[1], &said, sizeof said);
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0 || read_full(ends[0], &said, sizeof said) != sizeof said)
		error_set(&said, pid < 0 ? errno : 0, "a process that tries it");
	close(ends[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!said.text[0])
		return 0;
	*err = said;
	return -1;
}

int trial_overlay(int folder, const char *path, pid_t inside, bool idmapped, struct error *err)
{
	cleanup_free char *try = xasprintf("%s/try", path);
	cleanup_close int place = -1;
	int r;

	if (mkdirat(folder, "try", 0700) < 0)
		return error_set(err, errno, "making %s", try);
	r = try_in(try, inside, idmapped, err);
	place = openat(folder, "try", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (place >= 0)
		discard_content(place, UINT64_MAX);
	unlinkat(folder, "try", AT_REMOVEDIR);
	return r;
}
