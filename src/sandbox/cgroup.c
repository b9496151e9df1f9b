/* SPDX-License-Identifier: MIT */
/*
 * Tier 1 of the limits: see cgroup.h.
 *
 * Choosing a base only looks; prepare_base then changes what has to be changed, so that `nsbox check`
 * can ask the same question without leaving a trace.
 *
 * The limits stand on nsbox-PID-N, where what the agent and all runs take comes together. pids.max
 * stands on each run too: kernels before 6.11 count a refused fork where the process is, newer ones
 * where the limit is, and this way both are the run.
 *
 * A sandbox's directory is locked (flock) by its supervisor for as long as that lives. Whoever gets the
 * lock of a directory may remove it: its owner is dead. Between mkdir and flock a new directory can be
 * taken for a dead one; so its maker looks, once it has the lock, whether the directory is still there,
 * and otherwise makes another. From then on nobody else gets the lock.
 */
#define _GNU_SOURCE
#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/file.h"

#define MOUNT "/sys/fs/cgroup"
#define HYBRID_MOUNT MOUNT "/unified"
#define ROOT_BASE_NAME "nsbox"

enum {
	PATH_SIZE = sizeof((struct cgroup *)0)->path,
	NAME_SIZE = 64,
	NAME_TRIES = 1000, /* of N in nsbox-PID-N */
	BASE_TRIES = 8, /* the base may be removed between two steps by one that has just ended */
	EMPTY_WAIT_MS = 2000,
	SWEEP_WAIT_MS = 500,
	DIRECTORY_MODE = 0700, /* so that no other user can hold the locks */
	PERIOD_US = 100 * 1000,
	PERIOD_MAX_US = 1000 * 1000,
	QUOTA_MIN_US = 1000,
};

static const char sandbox_prefix[] = "nsbox-";
static const char supervisor_prefix[] = "supervisor-";

struct base {
	char path[PATH_SIZE];
	bool move_self; /* it is our own and we are its only process */
	bool create;    /* it is MOUNT/nsbox, which may not exist yet */
};

/* Sets the reason. Always returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(
	char why[ERROR_TEXT_MAX], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, ERROR_TEXT_MAX, format, ap);
	va_end(ap);
	return false;
}

/* Whether `word` is one of the words of `list`, which are separated by spaces. */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
			return true;
	return false;
}

static bool file_has_word(int dir_fd, const char *file, const char *word)
{
	char text[512];

	return read_small_file(dir_fd, file, text, sizeof text) >= 0 && has_word(text, word);
}

static bool is_cgroup2(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

static int open_directory(int dir_fd, const char *path)
{
	return openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Where cgroup v2 is mounted. Returns a descriptor of it, or -1 with the reason in `why`. */
static int open_mount(const char **ret_mount, char why[ERROR_TEXT_MAX])
{
	static const char *const mounts[] = {MOUNT, HYBRID_MOUNT};

	for (int i = 0; i < 2; i++) {
		cleanup_close int fd = open_directory(AT_FDCWD, mounts[i]);

		if (fd < 0 || !is_cgroup2(fd))
			continue;
		*ret_mount = mounts[i];
		return move_fd(&fd);
	}
	refuse(why, "cgroup v2 is not mounted on " MOUNT);
	return -1;
}

/* The cgroup of this process in the v2 hierarchy, as it sees itself («/user.slice/…»). */
static int own_cgroup(char ret[PATH_SIZE])
{
	char text[8192], *line = text, *next;

	if (read_small_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
		return -1;
	for (; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < PATH_SIZE)
			return snprintf(ret, PATH_SIZE, "%s", line + 3) > 0 ? 0 : -1;
	}
	return -1;
}

/* MOUNT + PATH, without a slash at its end. */
static int join_mount(const char *mount, const char *path, char ret[PATH_SIZE])
{
	int length = snprintf(ret, PATH_SIZE, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);

	return length < PATH_SIZE ? 0 : -1;
}

static const char *missing_controller(int dir_fd)
{
	static const char *const needed[] = {"memory", "pids"};

	for (int i = 0; i < 2; i++)
		if (!file_has_word(dir_fd, "cgroup.controllers", needed[i]))
			return needed[i];
	return NULL;
}

/* Whether this process is the only one in the cgroup. */
static bool is_sole_process(int dir_fd)
{
	char text[64], own[32];

	snprintf(own, sizeof own, "%d", getpid());
	return read_small_file(dir_fd, "cgroup.procs", text, sizeof text) > 0 &&
	       strcmp(text, own) == 0;
}

static bool has_processes(int dir_fd)
{
	char text[64];
	ssize_t length = read_small_file(dir_fd, "cgroup.procs", text, sizeof text);

	return length > 0 || (length < 0 && errno == EFBIG);
}

static bool is_writable(int dir_fd, const char *path)
{
	return faccessat(dir_fd, path, W_OK, AT_EACCESS) == 0;
}

/* Only the root of the whole hierarchy has no cgroup.type. It alone may have processes and controllers below. */
static bool is_hierarchy_root(int dir_fd)
{
	return faccessat(dir_fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

/* Whether children with the memory and pids controllers can be made in the directory `path`. */
static bool can_delegate(int dir_fd, const char *path, bool sole, char why[ERROR_TEXT_MAX])
{
	const char *missing = missing_controller(dir_fd);
	bool enabled = file_has_word(dir_fd, "cgroup.subtree_control", "memory") &&
		       file_has_word(dir_fd, "cgroup.subtree_control", "pids");

	if (missing)
		return refuse(why, "the cgroup %s is without the %s controller", path, missing);
	if (!is_writable(dir_fd, "."))
		return refuse(why, "the cgroup %s is not writable for uid %u", path, geteuid());
	if (!enabled && !is_writable(dir_fd, "cgroup.subtree_control"))
		return refuse(why,
			"the cgroup %s does not pass the memory and pids controllers on, and its"
			" cgroup.subtree_control is not writable for uid %u",
			path, geteuid());
	if (!enabled && !sole && !is_hierarchy_root(dir_fd) && has_processes(dir_fd))
		return refuse(why,
			"the cgroup %s has processes in it, so that the kernel enables no"
			" controllers for its children",
			path);
	return true;
}

/*
 * To clone a process into another cgroup, or move it, the kernel wants cgroup.procs of the nearest
 * common ancestor to be writable. (Where we cannot see our own place the kernel will say.)
 */
static bool can_reach(const char *mount, const char *path, char why[ERROR_TEXT_MAX])
{
	char own[PATH_SIZE], ancestor[PATH_SIZE + sizeof "/cgroup.procs"];
	size_t mount_length = strlen(mount), common = 0;
	const char *below = path + mount_length;

	if (strncmp(path, mount, mount_length) != 0 || own_cgroup(own) < 0 ||
		strncmp(own, "/..", 3) == 0)
		return true;
	for (size_t i = 0;; i++) {
		bool own_ends = own[i] == '\0' || own[i] == '/',
		     below_ends = below[i] == '\0' || below[i] == '/';

		if (own_ends && below_ends)
			common = i;
		if (own[i] != below[i] || own[i] == '\0')
			break;
	}
	snprintf(ancestor, sizeof ancestor, "%s%.*s/cgroup.procs", mount, (int)common, own);
	if (is_writable(AT_FDCWD, ancestor))
		return true;
	return refuse(why,
		"no process can be moved from %s%s, where this one is, into %s, since %s is not"
		" writable for uid %u",
		mount, own, path, ancestor, geteuid());
}

/* A cgroup that the user names. */
static bool choose_named(const char *named, struct base *ret, char why[ERROR_TEXT_MAX])
{
	cleanup_close int fd = -1, own_fd = -1;
	const char *mount = MOUNT;
	char own[PATH_SIZE], own_path[PATH_SIZE];
	struct stat own_status, status;
	char resolved[PATH_MAX];
	cleanup_close int mount_fd = open_mount(&mount, why);

	if (!realpath(named, resolved) || (fd = open_directory(AT_FDCWD, resolved)) < 0)
		return refuse(
			why, "the cgroup %s cannot be opened: %s", named, strerrordesc_np(errno));
	if (snprintf(ret->path, PATH_SIZE, "%s", resolved) >= PATH_SIZE - NAME_SIZE)
		return refuse(why, "the path of the cgroup %.100s… is longer than %d bytes", named,
			PATH_SIZE - NAME_SIZE);
	if (!is_cgroup2(fd))
		return refuse(why, "%s is not a directory of a cgroup v2 hierarchy", named);
	if (mount_fd >= 0 && own_cgroup(own) == 0 && join_mount(mount, own, own_path) == 0 &&
		(own_fd = open_directory(AT_FDCWD, own_path)) >= 0 &&
		fstat(own_fd, &own_status) == 0 && fstat(fd, &status) == 0 &&
		own_status.st_dev == status.st_dev && own_status.st_ino == status.st_ino)
		ret->move_self = !is_hierarchy_root(fd) && is_sole_process(fd);
	return can_delegate(fd, ret->path, ret->move_self, why) && can_reach(mount, ret->path, why);
}

/* Our own cgroup, where we are alone in it: a container's entry point, `systemd-run --scope -p Delegate=yes nsbox …`. */
static bool choose_own(const char *mount, struct base *ret, char why[ERROR_TEXT_MAX])
{
	char own[PATH_SIZE];
	cleanup_close int fd = -1;

	if (own_cgroup(own) < 0 || strstr(own, "/..") || join_mount(mount, own, ret->path) < 0 ||
		strlen(ret->path) >= PATH_SIZE - NAME_SIZE ||
		(fd = open_directory(AT_FDCWD, ret->path)) < 0)
		return refuse(why, "the cgroup of this process cannot be found below %s", mount);
	ret->move_self = true;
	if (!can_delegate(fd, ret->path, /* sole= */ true, why))
		return false;
	if (!is_writable(fd, "cgroup.procs"))
		return refuse(
			why, "%s/cgroup.procs is not writable for uid %u", ret->path, geteuid());
	if (is_hierarchy_root(fd) || !is_sole_process(fd))
		return refuse(
			why, "the cgroup %s has other processes than this one in it", ret->path);
	return true;
}

/* MOUNT/nsbox, for root, where no systemd says that the hierarchy is its own. */
static bool choose_root(int mount_fd, const char *mount, struct base *ret, char why[ERROR_TEXT_MAX])
{
	if (access("/run/systemd/system", F_OK) == 0)
		return false; /* the reason that our own cgroup will not do is the one that can be mended */
	snprintf(ret->path, sizeof ret->path, "%s/" ROOT_BASE_NAME, mount);
	ret->create = true;
	return can_delegate(mount_fd, mount, /* sole= */ false, why);
}

static bool choose_base(const char *named, struct base *ret, char why[ERROR_TEXT_MAX])
{
	const char *mount = NULL, *missing;
	cleanup_close int mount_fd = -1;

	*ret = (struct base){.create = false};
	if (named)
		return choose_named(named, ret, why);
	mount_fd = open_mount(&mount, why);
	if (mount_fd < 0)
		return false;
	missing = missing_controller(mount_fd);
	if (missing)
		return refuse(why, "cgroup v2 is mounted on %s without the %s controller%s", mount,
			missing,
			strcmp(mount, HYBRID_MOUNT) == 0 ? ", which this host uses in cgroup v1"
							 : "");
	if (choose_own(mount, ret, why))
		return true;
	if (geteuid() != 0)
		return false;
	*ret = (struct base){.create = false};
	return choose_root(mount_fd, mount, ret, why);
}

static int set_remedy(struct error *err)
{
	return error_hint(err,
		"Start nsbox as «systemd-run --user --scope -p Delegate=yes nsbox …» (root: without"
		" --user), or name with --cgroup a cgroup v2 directory that is yours, has the memory and pids"
		" controllers and no processes in it.");
}

int cgroup_probe(const char *named, char ret_base[256], char why[ERROR_TEXT_MAX])
{
	struct base base;

	if (!choose_base(named, &base, why))
		return 0;
	snprintf(ret_base, PATH_SIZE, "%s", base.path);
	return 1;
}

/* Writes `text` into a file of a cgroup. */
static int set_file(
	int dir_fd, const char *dir_path, const char *file, const char *text, struct error *err)
{
	if (write_small_file(dir_fd, file, text) == 0)
		return 0;
	return error_set(err, errno, "writing %s to %s/%s", text, dir_path, file);
}

static int enable_controllers(int dir_fd, const char *path, struct error *err)
{
	if (!file_has_word(dir_fd, "cgroup.subtree_control", "memory") ||
		!file_has_word(dir_fd, "cgroup.subtree_control", "pids"))
		if (set_file(dir_fd, path, "cgroup.subtree_control", "+memory +pids", err) < 0) {
			if (err->errnum == EBUSY)
				error_context(err,
					"the cgroup has processes in it, so that no controllers can be"
					" enabled for its children");
			return -1;
		}
	/* Without the cpu controller everything else works. Who needs it looks whether it is there. */
	if (!file_has_word(dir_fd, "cgroup.subtree_control", "cpu"))
		(void)write_small_file(dir_fd, "cgroup.subtree_control", "+cpu");
	return 0;
}

/* Moves this process to BASE/supervisor-PID. */
static int move_self(int base_fd, const char *path, struct error *err)
{
	char name[NAME_SIZE], file[NAME_SIZE + sizeof "/cgroup.procs"];

	snprintf(name, sizeof name, "%s%d", supervisor_prefix, getpid());
	if (mkdirat(base_fd, name, DIRECTORY_MODE) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the cgroup %s/%s", path, name);
	snprintf(file, sizeof file, "%s/cgroup.procs", name);
	if (set_file(base_fd, path, file, "0", err) < 0) {
		unlinkat(base_fd, name, AT_REMOVEDIR);
		return -1;
	}
	return 0;
}

/*
 * Undoes move_self. The controllers go first: the kernel lets no process into a cgroup that has them
 * enabled for its children. When that is refused (another sandbox lives there) we stay where we are.
 */
static void move_self_back(int base_fd)
{
	static const char *const controllers[] = {"-cpu", "-pids", "-memory"};
	char name[NAME_SIZE];

	for (int i = 0; i < 3; i++)
		(void)write_small_file(base_fd, "cgroup.subtree_control", controllers[i]);
	if (write_small_file(base_fd, "cgroup.procs", "0") < 0)
		return;
	snprintf(name, sizeof name, "%s%d", supervisor_prefix, getpid());
	unlinkat(base_fd, name, AT_REMOVEDIR);
}

/* Removes MOUNT/nsbox where nobody else uses it: a directory with children is busy. */
static void remove_root_base(const char *sandbox_path)
{
	static const char *const mounts[] = {MOUNT, HYBRID_MOUNT};
	char base[PATH_SIZE];

	for (int i = 0; i < 2; i++) {
		int length = snprintf(base, sizeof base, "%s/" ROOT_BASE_NAME, mounts[i]);

		if (strncmp(sandbox_path, base, (size_t)length) == 0 && sandbox_path[length] == '/')
			rmdir(base);
	}
}

/* Opens MOUNT/nsbox, making it first where it is not there. */
static int open_root_base(const char *path, struct error *err)
{
	char mount[PATH_SIZE];
	cleanup_close int mount_fd = -1;
	int fd;

	snprintf(mount, sizeof mount, "%.*s", (int)(strlen(path) - strlen("/" ROOT_BASE_NAME)),
		path);
	mount_fd = open_directory(AT_FDCWD, mount);
	if (mount_fd < 0)
		return error_set(err, errno, "opening the cgroup %s", mount);
	if (enable_controllers(mount_fd, mount, err) < 0)
		return -1;
	if (mkdirat(mount_fd, ROOT_BASE_NAME, DIRECTORY_MODE) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the cgroup %s", path);
	fd = open_directory(mount_fd, ROOT_BASE_NAME);
	return fd < 0 ? error_set(err, errno, "opening the cgroup %s", path) : fd;
}

/* Makes the base ready for children with controllers. Returns a descriptor of it, or -1 with *err. */
static int prepare_base(const struct base *base, bool *ret_moved_self, struct error *err)
{
	cleanup_close int fd = base->create ? open_root_base(base->path, err)
					    : open_directory(AT_FDCWD, base->path);

	*ret_moved_self = false;
	if (fd < 0)
		return base->create ? -1
				    : error_set(err, errno, "opening the cgroup %s", base->path);
	if (base->move_self) {
		if (move_self(fd, base->path, err) < 0)
			return -1;
		*ret_moved_self = true;
	}
	if (enable_controllers(fd, base->path, err) < 0) {
		if (*ret_moved_self)
			move_self_back(fd);
		*ret_moved_self = false;
		return -1;
	}
	return move_fd(&fd);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The number after `key` in a file of lines «KEY N»; 0 where it is not there. */
static uint64_t read_key(int dir_fd, const char *file, const char *key)
{
	char text[4096];
	size_t length = strlen(key);

	if (read_small_file(dir_fd, file, text, sizeof text) < 0)
		return 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ' ')
			return strtoull(line + length + 1, NULL, 10);
	}
	return 0;
}

static uint64_t read_number(int dir_fd, const char *file)
{
	char text[64];

	return read_small_file(dir_fd, file, text, sizeof text) < 0 ? 0 : strtoull(text, NULL, 10);
}

/* Waits until no process is in the cgroup or below it. cgroup.events wakes a poller when that changes. */
static void wait_until_empty(int dir_fd, int timeout_ms)
{
	cleanup_close int events_fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	uint64_t deadline_ms = now_ms() + (uint64_t)timeout_ms;
	struct pollfd poll_fd = {.fd = events_fd, .events = POLLPRI};

	while (events_fd >= 0) {
		char text[256];
		uint64_t now = now_ms();
		ssize_t length = pread(events_fd, text, sizeof text - 1, 0);

		if (length <= 0 || now >= deadline_ms)
			return;
		text[length] = '\0';
		if (strstr(text, "populated 0"))
			return;
		poll(&poll_fd, 1, (int)(deadline_ms - now));
	}
}

/*
 * Removes the children of a sandbox's cgroup, and it. Only one level: nothing inside a sandbox can
 * make cgroups. Returns 0, or -1 with errno.
 */
static int remove_tree(int base_fd, const char *name, int dir_fd)
{
	cleanup_close int list_fd = open_directory(dir_fd, ".");
	DIR *directory = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *entry;

	if (directory) {
		list_fd = -1; /* the stream's now */
		while ((entry = readdir(directory)))
			if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
				unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
		closedir(directory);
	}
	return unlinkat(base_fd, name, AT_REMOVEDIR);
}

static void kill_and_remove(int base_fd, const char *name, int dir_fd, int timeout_ms)
{
	if (remove_tree(base_fd, name, dir_fd) == 0 || errno != EBUSY)
		return;
	(void)write_small_file(dir_fd, "cgroup.kill", "1");
	wait_until_empty(dir_fd, timeout_ms);
	(void)remove_tree(base_fd, name, dir_fd);
}

/* Removes one cgroup of the base where its supervisor is dead. */
static void sweep_one(int base_fd, const char *name)
{
	cleanup_close int fd = open_directory(base_fd, name);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		kill_and_remove(base_fd, name, fd, SWEEP_WAIT_MS);
}

/* Removes what dead supervisors left in the base. What cannot be removed is left to the next one. */
static void sweep(int base_fd)
{
	cleanup_close int list_fd = open_directory(base_fd, ".");
	DIR *directory = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *entry;
	char own[NAME_SIZE];

	if (!directory)
		return;
	list_fd = -1; /* the stream's now */
	snprintf(own, sizeof own, "%s%d", supervisor_prefix, getpid());
	while ((entry = readdir(directory))) {
		if (entry->d_type != DT_DIR)
			continue;
		if (strncmp(entry->d_name, sandbox_prefix, strlen(sandbox_prefix)) == 0)
			sweep_one(base_fd, entry->d_name);
		else if (strncmp(entry->d_name, supervisor_prefix, strlen(supervisor_prefix)) ==
				 0 &&
			 strcmp(entry->d_name, own) != 0)
			unlinkat(base_fd, entry->d_name,
				AT_REMOVEDIR); /* refused while somebody is in it */
	}
	closedir(directory);
}

/* Whether `name` in the base is still the directory that `fd` is. */
static bool is_still_there(int base_fd, const char *name, int fd)
{
	struct stat by_name, by_fd;

	return fstatat(base_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino;
}

/* Makes nsbox-PID-N and locks it. Returns its descriptor, or -1 with errno. */
static int make_locked(int base_fd, char ret_name[NAME_SIZE])
{
	static unsigned next_number = 1;

	for (int i = 0; i < NAME_TRIES; i++) {
		cleanup_close int fd = -1;

		/* The number is taken already where a supervisor of another pid namespace shares the base. */
		snprintf(ret_name, NAME_SIZE, "%s%d-%u", sandbox_prefix, getpid(), next_number++);
		if (mkdirat(base_fd, ret_name, DIRECTORY_MODE) < 0) {
			if (errno == EEXIST)
				continue;
			return -1;
		}
		fd = open_directory(base_fd, ret_name);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
			is_still_there(base_fd, ret_name, fd))
			return move_fd(&fd);
		if (fd < 0 && errno != ENOENT && errno != ENODEV)
			return -1;
	}
	errno = EEXIST;
	return -1;
}

static int set_number(
	const struct cgroup *cgroup, const char *file, uint64_t number, struct error *err)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	return set_file(cgroup->fd, cgroup->path, file, text, err);
}

/* «QUOTA PERIOD»: the kernel wants a quota of at least 1 ms and a period of at most 1 s. */
static int set_cpu_limit(const struct cgroup *cgroup, uint32_t cpu_millis, struct error *err)
{
	uint64_t period_us = PERIOD_US, quota_us = (uint64_t)cpu_millis * PERIOD_US / 1000;
	char text[64];

	if (quota_us < QUOTA_MIN_US) {
		period_us = PERIOD_MAX_US;
		quota_us = (uint64_t)cpu_millis * PERIOD_MAX_US / 1000;
	}
	snprintf(text, sizeof text, "%llu %llu", (unsigned long long)quota_us,
		(unsigned long long)period_us);
	return set_file(cgroup->fd, cgroup->path, "cpu.max", text, err);
}

static int set_limits(struct cgroup *cgroup, const struct spec *spec, struct error *err)
{
	const struct limits *limits = &spec->limits;

	if (set_number(cgroup, "memory.max", limits->memory_bytes, err) < 0)
		return -1;
	/* A kernel without swap accounting does not have the file. */
	if (write_small_file(cgroup->fd, "memory.swap.max", "0") < 0 && errno != ENOENT)
		return error_set(err, errno, "writing 0 to %s/memory.swap.max", cgroup->path);
	/* The agent is not one of the processes that were asked for. */
	if (limits->pids && set_number(cgroup, "pids.max", (uint64_t)limits->pids + 1, err) < 0)
		return -1;
	if (!limits->cpu_millis)
		return 0;
	if (cgroup->cpu)
		return set_cpu_limit(cgroup, limits->cpu_millis, err);
	if (spec->require_cgroup) {
		error_set(err, 0,
			"the CPU limit cannot be enforced: %s is without the cpu controller",
			cgroup->path);
		return error_hint(err,
			"For systemd: put «Delegate=cpu memory pids» into a drop-in of user@.service;"
			" else enable cpu in cgroup.subtree_control of the cgroups above.");
	}
	return 0;
}

static int fill(struct cgroup *cgroup, const struct spec *spec, struct error *err)
{
	cgroup->memory = cgroup->pids = true;
	cgroup->cpu = file_has_word(cgroup->fd, "cgroup.controllers", "cpu");
	if (set_limits(cgroup, spec, err) < 0 ||
		enable_controllers(cgroup->fd, cgroup->path, err) < 0)
		return -1;
	if (mkdirat(cgroup->fd, "agent", DIRECTORY_MODE) < 0)
		return error_set(err, errno, "making the cgroup %s/agent", cgroup->path);
	cgroup->agent_fd = open_directory(cgroup->fd, "agent");
	if (cgroup->agent_fd < 0)
		return error_set(err, errno, "opening the cgroup %s/agent", cgroup->path);
	return 0;
}

/* Makes the sandbox's cgroup in the base. On failure nothing of it is left. */
static int make_sandbox(
	const struct base *base, const struct spec *spec, struct cgroup *ret, struct error *err)
{
	struct cgroup cgroup = CGROUP_NONE;
	char name[NAME_SIZE];

	for (int i = 0;; i++) {
		cleanup_close int base_fd = prepare_base(base, &cgroup.moved_self, err);

		if (base_fd >= 0) {
			sweep(base_fd);
			cgroup.fd = make_locked(base_fd, name);
			if (cgroup.fd >= 0)
				break;
			error_set(err, errno, "making a cgroup in %s", base->path);
			if (cgroup.moved_self)
				move_self_back(base_fd);
		}
		/* MOUNT/nsbox is removed by whoever leaves it empty. */
		if (!base->create || (err->errnum != ENOENT && err->errnum != ENODEV) ||
			i == BASE_TRIES)
			return -1;
	}
	/* It fits: a base's path is at most PATH_SIZE - NAME_SIZE long. */
	if (snprintf(cgroup.path, sizeof cgroup.path, "%s/%s", base->path, name) < 0 ||
		fill(&cgroup, spec, err) < 0) {
		cgroup_destroy(&cgroup);
		return -1;
	}
	*ret = cgroup;
	return 0;
}

int cgroup_create(
	const struct spec *spec, struct cgroup *ret, char why[ERROR_TEXT_MAX], struct error *err)
{
	struct base base;

	if (!choose_base(spec->cgroup, &base, why)) {
		if (!spec->cgroup && !spec->require_cgroup)
			return 0;
		error_set(err, 0, "no usable cgroup: %s", why);
		return set_remedy(err);
	}
	if (make_sandbox(&base, spec, ret, err) == 0)
		return 1;
	if (!spec->cgroup && !spec->require_cgroup) {
		snprintf(why, ERROR_TEXT_MAX, "%s", err->text);
		return 0;
	}
	error_context(err, "no usable cgroup");
	return err->hint[0] ? -1 : set_remedy(err);
}

static void run_name(unsigned number, char ret[NAME_SIZE])
{
	snprintf(ret, NAME_SIZE, "run-%u", number);
}

int cgroup_create_run(struct cgroup *cgroup, unsigned number, int *ret_procs_fd, struct error *err)
{
	char name[NAME_SIZE], path[PATH_SIZE + NAME_SIZE], pids_max[32];
	cleanup_close int run_fd = -1;
	int procs_fd;

	run_name(number, name);
	snprintf(path, sizeof path, "%s/%s", cgroup->path, name);
	if (mkdirat(cgroup->fd, name, DIRECTORY_MODE) < 0)
		return error_set(err, errno, "making the cgroup %s", path);
	run_fd = open_directory(cgroup->fd, name);
	if (run_fd < 0)
		return error_set(err, errno, "opening the cgroup %s", path);
	if (set_file(run_fd, path, "memory.oom.group", "1", err) < 0)
		return -1;
	/* One less than the sandbox's, in which the agent counts. */
	if (read_small_file(cgroup->fd, "pids.max", pids_max, sizeof pids_max) > 0 &&
		strcmp(pids_max, "max") != 0) {
		snprintf(pids_max, sizeof pids_max, "%llu", strtoull(pids_max, NULL, 10) - 1);
		if (set_file(run_fd, path, "pids.max", pids_max, err) < 0)
			return -1;
	}
	procs_fd = openat(run_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (procs_fd < 0)
		return error_set(err, errno, "opening %s/cgroup.procs", path);
	cgroup->throttled_before = read_key(cgroup->fd, "cpu.stat", "nr_throttled");
	*ret_procs_fd = procs_fd;
	return 0;
}

static void add_hit(struct exec_result *result, enum limit_kind limit, uint64_t value,
	uint64_t used, const char *known_from)
{
	if (result->hits_count < LIMIT_MAX)
		result->hits[result->hits_count++] = (struct limit_hit){
			.limit = limit, .value = value, .used = used, .known_from = known_from};
}

static void read_memory(const struct cgroup *cgroup, int run_fd, const struct spec *spec,
	struct exec_result *result, bool *ret_oom)
{
	uint64_t limit = spec->limits.memory_bytes, used;

	result->usage.memory_peak_bytes = read_number(run_fd, "memory.peak");
	*ret_oom = read_key(run_fd, "memory.events", "oom_kill") > 0;
	/* The victim's cgroup counts every kill; ours counts «oom» only where its own limit was the cause. */
	if (!*ret_oom || read_key(cgroup->fd, "memory.events", "oom") == 0)
		return;
	used = read_number(cgroup->fd, "memory.peak");
	add_hit(result, LIMIT_MEMORY, limit, used ? used : limit, "memory.events");
}

static void read_pids(const struct cgroup *cgroup, int run_fd, const struct spec *spec,
	struct exec_result *result)
{
	uint32_t limit = spec->limits.pids;

	result->usage.pids_peak = (uint32_t)read_number(run_fd, "pids.peak");
	if (limit && (read_key(run_fd, "pids.events", "max") > 0 ||
			     read_key(cgroup->fd, "pids.events.local", "max") > 0))
		add_hit(result, LIMIT_PIDS, limit, limit, "pids.events");
}

static void read_cpu(const struct cgroup *cgroup, int run_fd, const struct spec *spec,
	struct exec_result *result)
{
	struct usage *usage = &result->usage;
	uint64_t used_us, limit = spec->limits.cpu_millis;

	usage->cpu_user_us = read_key(run_fd, "cpu.stat", "user_usec");
	usage->cpu_system_us = read_key(run_fd, "cpu.stat", "system_usec");
	used_us = usage->cpu_user_us + usage->cpu_system_us;
	if (limit && read_key(cgroup->fd, "cpu.stat", "nr_throttled") > cgroup->throttled_before)
		add_hit(result, LIMIT_CPU, limit,
			usage->wall_us ? used_us * 1000 / usage->wall_us : limit, "cpu.stat");
}

void cgroup_read_run(const struct cgroup *cgroup, unsigned number, const struct spec *spec,
	struct exec_result *result, bool *ret_oom)
{
	char name[NAME_SIZE];
	cleanup_close int run_fd = -1;

	*ret_oom = false;
	run_name(number, name);
	run_fd = open_directory(cgroup->fd, name);
	if (run_fd < 0)
		return;
	read_memory(cgroup, run_fd, spec, result, ret_oom);
	read_pids(cgroup, run_fd, spec, result);
	read_cpu(cgroup, run_fd, spec, result);
}

void cgroup_kill_run(const struct cgroup *cgroup, unsigned number)
{
	char name[NAME_SIZE], file[NAME_SIZE + sizeof "/cgroup.kill"];

	run_name(number, name);
	snprintf(file, sizeof file, "%s/cgroup.kill", name);
	(void)write_small_file(cgroup->fd, file, "1");
}

void cgroup_kill(const struct cgroup *cgroup)
{
	(void)write_small_file(cgroup->fd, "cgroup.kill", "1");
}

void cgroup_destroy(struct cgroup *cgroup)
{
	if (cgroup->fd >= 0) {
		cleanup_close int base_fd = open_directory(cgroup->fd, "..");

		kill_and_remove(base_fd, strrchr(cgroup->path, '/') + 1, cgroup->fd, EMPTY_WAIT_MS);
		if (cgroup->moved_self)
			move_self_back(base_fd);
		remove_root_base(cgroup->path);
	}
	close_fd(&cgroup->agent_fd);
	close_fd(&cgroup->fd);
	*cgroup = CGROUP_NONE;
}
