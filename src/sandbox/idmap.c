/* SPDX-License-Identifier: MIT */
/* Who the sandbox is on the host: see idmap.h. */
#define _GNU_SOURCE
#include "sandbox/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/diagnose.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	CONTAINER_IDS_MIN = 2000, /* a map with fewer ids has none to spare */
	NOBODY = 65534
};

static const char slots_dir[] = "/run/nsbox";
static const char slots_path[] = "/run/nsbox/ids";

static int open_slots(struct error *err)
{
	struct stat st;
	int fd;

	if (mkdir(slots_dir, 0755) < 0 && errno != EEXIST)
		return error_set(
			err, errno, "making %s, where ids for sandboxes are reserved", slots_dir);
	fd = open(slots_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(
			err, errno, "opening %s, where ids for sandboxes are reserved", slots_path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0) {
		close(fd);
		return error_set(err, 0, "%s is not a regular file of root's", slots_path);
	}
	return fd;
}

/* Locks one of `count` slots that is free; the search begins at a place that differs from process to process. */
static int take_slot(int fd, unsigned count, struct error *err)
{
	unsigned start = (unsigned)getpid() * 61;

	for (unsigned i = 0; i < count; i++) {
		unsigned slot = (start + i) % count;
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return (int)slot;
		if (errno != EAGAIN && errno != EACCES)
			return error_set(err, errno, "locking ids in %s", slots_path);
	}
	return error_set(err, 0,
		"all ids for sandboxes are taken: %u run already, which is as many as can", count);
}

/* What one of the maps of this user namespace has. */
struct ids {
	bool slots;           /* the ids of all slots */
	uint32_t first, last; /* the greatest ids that are there in one piece */
};

static void read_ids(const char *path, struct ids *ret)
{
	char text[4096];

	*ret = (struct ids){0};
	if (read_small_file(AT_FDCWD, path, text, sizeof text) < 0) {
		ret->slots = true; /* writing the map will tell */
		return;
	}
	for (char *line = text; line; line = strchr(line, '\n')) {
		unsigned long inside, outside, length;

		line += *line == '\n';
		if (sscanf(line, "%lu %lu %lu", &inside, &outside, &length) != 3 || length == 0)
			continue;
		ret->slots |= inside <= IDMAP_SLOT_FIRST &&
			      inside + length >=
				      IDMAP_SLOT_FIRST + (uint64_t)IDMAP_SLOTS * IDMAP_SLOT_SIZE;
		if (inside + length - 1 >= ret->last)
			*ret = (struct ids){
				ret->slots, (uint32_t)inside, (uint32_t)(inside + length - 1)};
	}
}

/*
 * A container's own map: the greatest ids are the least likely to be somebody's, nobody's aside. *ret_top is
 * the greatest of those that sandboxes can have. Returns how many there are.
 */
static uint32_t spare_ids(const struct ids *ids, uint32_t *ret_top)
{
	uint32_t wanted = ids->last < 8192 ? 500 : IDMAP_SLOTS;
	uint32_t top = ids->last;

	if (top < CONTAINER_IDS_MIN)
		return 0;
	if (top >= NOBODY && top < NOBODY + wanted)
		top = NOBODY - 1;
	*ret_top = top;
	if (top < ids->first)
		return 0;
	return top - ids->first < wanted ? top - ids->first : wanted;
}

/* The single id of slot N: no other sandbox has the slot, and so none has the id. */
static int choose_single(int fd, const struct ids *uids, const struct ids *gids,
	struct idmap *idmap, char *ret_note, size_t note_size, struct error *err)
{
	uint32_t uid_top = 0, gid_top = 0;
	uint32_t uid_count = spare_ids(uids, &uid_top), gid_count = spare_ids(gids, &gid_top);
	uint32_t last = uids->last < gids->last ? uids->last : gids->last;
	int slot;

	if (uid_count == 0 || gid_count == 0)
		return error_set(err, 0,
			"only ids up to %u exist in this user namespace: none is free for a sandbox",
			last);
	slot = take_slot(fd, uid_count < gid_count ? uid_count : gid_count, err);
	if (slot < 0)
		return -1;
	idmap->range = false;
	idmap->host_uid = uid_top - (uint32_t)slot;
	idmap->host_gid = gid_top - (uint32_t)slot;
	snprintf(ret_note, note_size,
		"ids above %u do not exist in this user namespace, so the sandbox has the single id %u",
		last, idmap->host_uid);
	return 0;
}

static int choose_for_root(const struct spec *spec, bool single, struct idmap *idmap,
	char *ret_note, size_t note_size, struct error *err)
{
	cleanup_close int fd = open_slots(err);
	struct ids uids, gids;
	int slot;

	if (fd < 0)
		return -1;
	idmap->by_parent = true;
	read_ids("/proc/self/uid_map", &uids);
	read_ids("/proc/self/gid_map", &gids);
	if (!uids.slots || !gids.slots) {
		if (choose_single(fd, &uids, &gids, idmap, ret_note, note_size, err) < 0)
			return -1;
		idmap->slot_fd = move_fd(&fd);
		return 0;
	}
	slot = take_slot(fd, IDMAP_SLOTS, err);
	if (slot < 0)
		return -1;
	idmap->first = IDMAP_SLOT_FIRST + (uint32_t)slot * IDMAP_SLOT_SIZE;
	idmap->range = !single;
	idmap->host_uid = idmap->first + (idmap->range ? spec->uid : 0);
	idmap->host_gid = idmap->first + (idmap->range ? spec->gid : 0);
	idmap->slot_fd = move_fd(&fd);
	return 0;
}

/*
 * Root of a user namespace with one id, or next to none (unshare -r, a sandbox): there is no other id to
 * be, and this uid 0 is an ordinary user outside.
 */
static bool is_root_of_nothing(void)
{
	char text[256];
	unsigned long inside, outside, length;

	return read_small_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) > 0 &&
	       sscanf(text, "%lu %lu %lu", &inside, &outside, &length) == 3 &&
	       !strchr(text, '\n') && outside != 0 && length < CONTAINER_IDS_MIN;
}

int idmap_choose(const struct spec *spec, bool single, struct idmap *ret, char *ret_note,
	size_t note_size, struct error *err)
{
	*ret = (struct idmap){.uid = spec->uid, .gid = spec->gid, .slot_fd = -1};
	if (geteuid() == 0 && !is_root_of_nothing())
		return choose_for_root(spec, single, ret, ret_note, note_size, err);
	ret->host_uid = geteuid();
	ret->host_gid = getegid();
	return 0;
}

static int write_map(int dirfd, const char *path, const char *text, struct error *err)
{
	if (write_small_file(dirfd, path, text) == 0)
		return 0;
	error_set(err, errno, "writing the id map (%s)", path);
	diagnose_namespaces(err->errnum, err);
	return -1;
}

int idmap_write_own(const struct idmap *idmap, struct error *err)
{
	char text[64];

	/* Required before gid_map where the writer has no CAP_SETGID outside (user_namespaces(7)). */
	if (write_map(AT_FDCWD, "/proc/self/setgroups", "deny", err) < 0)
		return -1;
	snprintf(text, sizeof text, "%u %u 1\n", idmap->uid, idmap->host_uid);
	if (write_map(AT_FDCWD, "/proc/self/uid_map", text, err) < 0)
		return -1;
	snprintf(text, sizeof text, "%u %u 1\n", idmap->gid, idmap->host_gid);
	return write_map(AT_FDCWD, "/proc/self/gid_map", text, err);
}

int idmap_take_power(struct error *err)
{
	const struct idmap own = {.uid = geteuid(), .gid = getegid(), .host_uid = geteuid(), .host_gid = getegid()};

	if (geteuid() == 0)
		return 0;
	if (unshare(CLONE_NEWUSER) == 0)
		return idmap_write_own(&own, err);
	error_set(err, errno, "making a user namespace");
	diagnose_namespaces(err->errnum, err);
	return -1;
}

static void map_text(
	const struct idmap *idmap, uint32_t inside, uint32_t outside, char *text, size_t size)
{
	if (idmap->range)
		snprintf(text, size, "0 %u %u\n", idmap->first, IDMAP_SLOT_SIZE);
	else
		snprintf(text, size, "%u %u 1\n", inside, outside);
}

int idmap_write_for(const struct idmap *idmap, pid_t pid, struct error *err)
{
	cleanup_close int dir = -1;
	char path[32], text[64];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_set(err, errno, "opening %s to write the id maps", path);
	map_text(idmap, idmap->uid, idmap->host_uid, text, sizeof text);
	if (write_map(dir, "uid_map", text, err) < 0)
		return -1;
	map_text(idmap, idmap->gid, idmap->host_gid, text, sizeof text);
	return write_map(dir, "gid_map", text, err);
}

int idmap_become(const struct idmap *idmap, struct error *err)
{
	/* The groups first: without this root's groups stay, and what they may read can be read. */
	if (syscall(SYS_setgroups, 0, NULL) < 0)
		return error_set(err, errno, "dropping the groups of root");
	if (syscall(SYS_setresgid, idmap->gid, idmap->gid, idmap->gid) < 0)
		return error_set(err, errno, "becoming group %u inside", idmap->gid);
	if (syscall(SYS_setresuid, idmap->uid, idmap->uid, idmap->uid) < 0)
		return error_set(err, errno, "becoming user %u inside", idmap->uid);
	return 0;
}

/* Exchanges id 0 and `id` in a map onto the slot, so that the files of host id 0 are those of `id` inside. */
static void swapped_map_text(const struct idmap *idmap, uint32_t id, char *text, size_t size)
{
	size_t used = 0;

	used += (size_t)snprintf(text + used, size - used, "0 %u 1\n", idmap->first + id);
	if (id > 1)
		used += (size_t)snprintf(
			text + used, size - used, "1 %u %u\n", idmap->first + 1, id - 1);
	used += (size_t)snprintf(text + used, size - used, "%u %u 1\n", id, idmap->first);
	if (id < IDMAP_SLOT_SIZE - 1)
		snprintf(text + used, size - used, "%u %u %u\n", id + 1, idmap->first + id + 1,
			IDMAP_SLOT_SIZE - 1 - id);
}

/* A process in a new user namespace that waits to be killed: it carries the namespace until we hold it by descriptor. */
static pid_t clone_namespace_holder(void)
{
	pid_t maker = getpid();
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid != 0)
		return pid;
	/* Nothing of ours is kept open by it, and it goes with us. */
	syscall(SYS_close_range, 0U, ~0U, 0U);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != maker)
		_exit(1);
	for (;;)
		pause();
}

static int write_bind_maps(const struct idmap *idmap, bool callers_only, pid_t pid, struct error *err)
{
	const struct {
		const char *file;
		uint32_t id, host_id;
	} maps[] = {
		{"uid_map", idmap->uid, idmap->host_uid}, {"gid_map", idmap->gid, idmap->host_gid}};
	char path[48], text[160];

	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, maps[i].file);
		if (!idmap->range)
			snprintf(text, sizeof text, "0 %u 1\n", maps[i].host_id);
		else if (callers_only)
			snprintf(text, sizeof text, "0 %u 1\n", idmap->first + maps[i].id);
		else if (maps[i].id == 0)
			snprintf(text, sizeof text, "0 %u %u\n", idmap->first, IDMAP_SLOT_SIZE);
		else
			swapped_map_text(idmap, maps[i].id, text, sizeof text);
		if (write_map(AT_FDCWD, path, text, err) < 0)
			return -1;
	}
	return 0;
}

int idmap_open_bind_namespace(const struct idmap *idmap, bool callers_only, struct error *err)
{
	pid_t pid = clone_namespace_holder();
	char path[48];
	int fd = -1;

	if (pid < 0)
		return error_set(err, errno, "making a user namespace for bind mounts");
	if (write_bind_maps(idmap, callers_only, pid, err) == 0) {
		snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			error_set(err, errno, "opening %s", path);
	}
	if (kill(pid, SIGKILL) == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return fd;
}

void idmap_release(struct idmap *idmap)
{
	close_fd(&idmap->slot_fd);
}
