/* SPDX-License-Identifier: MIT */
/*
 * Tier 1 of the limits: see cgroup.h.
 *
 * The limits stand on each run and, with room for the agent, on nsbox-PID-N, where what the agent and
 * all runs take comes together. So the OOM killer finds its victim among the processes of the run that
 * is over the limit, and never takes the agent for it (which may well be larger than a program that
 * only fills files on tmpfs). And a refused fork is counted at the run by every kernel: before 6.11
 * where the process is, from then on where the limit is.
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
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/cgroup_base.h"
#include "util/cleanup.h"
#include "util/file.h"

enum {
	NAME_TRIES = 1000, /* of N in nsbox-PID-N */
	BASE_TRIES = 8, /* the base may be removed between two steps by one that has just ended */
	EMPTY_WAIT_MS = 2000,
	SWEEP_WAIT_MS = 500,
	AGENT_MEMORY = 4 << 20, /* bytes, of its own and of the kernel on its behalf */
	AGENT_PROCESSES = 1,
	BACKGROUND_WEIGHT = 10, /* the usual one is 100 */
	PERIOD_US = 100 * 1000,
	PERIOD_MAX_US = 1000 * 1000,
	QUOTA_MIN_US = 1000,
};

static const char sandbox_prefix[] = "nsbox-";

static int set_remedy(struct error *err)
{
	if (access("/run/systemd/system", F_OK) != 0)
		return error_hint(err,
			"«nsbox check» says what would give it one; or name with --cgroup a cgroup v2 directory that is"
			" yours, has the memory and pids controllers and no processes in it.");
	return error_hint(err,
		"Start nsbox as «systemd-run --user --scope -p Delegate=yes nsbox …» (root: without"
		" --user), or name with --cgroup a cgroup v2 directory that is yours, has the memory and pids"
		" controllers and no processes in it.");
}

int cgroup_probe(const char *named, char ret_base[256], char why[ERROR_TEXT_MAX])
{
	struct cgroup_base base;

	if (!cgroup_base_choose(named, &base, why))
		return 0;
	snprintf(ret_base, CGROUP_PATH_SIZE, "%s", base.path);
	return 1;
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
	cleanup_close int list_fd = cgroup_open(dir_fd, ".");
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
	cleanup_close int fd = cgroup_open(base_fd, name);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		kill_and_remove(base_fd, name, fd, SWEEP_WAIT_MS);
}

/*
 * Removes what dead supervisors left in the base. What cannot be removed is left to the next one. (Each
 * sandbox that lives costs 1.3 µs here.)
 */
static void sweep(int base_fd)
{
	cleanup_close int list_fd = cgroup_open(base_fd, ".");
	DIR *directory = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *entry;
	char own[CGROUP_NAME_SIZE];

	if (!directory)
		return;
	list_fd = -1; /* the stream's now */
	snprintf(own, sizeof own, CGROUP_SUPERVISOR_PREFIX "%d", getpid());
	while ((entry = readdir(directory))) {
		if (entry->d_type != DT_DIR)
			continue;
		if (strncmp(entry->d_name, sandbox_prefix, strlen(sandbox_prefix)) == 0)
			sweep_one(base_fd, entry->d_name);
		else if (strncmp(entry->d_name, CGROUP_SUPERVISOR_PREFIX,
				 strlen(CGROUP_SUPERVISOR_PREFIX)) == 0 &&
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
static int make_locked(int base_fd, char ret_name[CGROUP_NAME_SIZE])
{
	static unsigned next_number = 1;

	for (int i = 0; i < NAME_TRIES; i++) {
		cleanup_close int fd = -1;

		/* The number is taken already where a supervisor of another pid namespace shares the base. */
		snprintf(ret_name, CGROUP_NAME_SIZE, "%s%d-%u", sandbox_prefix, getpid(),
			next_number++);
		if (mkdirat(base_fd, ret_name, CGROUP_DIRECTORY_MODE) < 0) {
			if (errno == EEXIST)
				continue;
			return -1;
		}
		fd = cgroup_open(base_fd, ret_name);
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
	int dir_fd, const char *dir_path, const char *file, uint64_t number, struct error *err)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	return cgroup_set_file(dir_fd, dir_path, file, text, err);
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
	return cgroup_set_file(cgroup->fd, cgroup->path, "cpu.max", text, err);
}

static int set_limits(struct cgroup *cgroup, const struct spec *spec, struct error *err)
{
	const struct limits *limits = &spec->limits;

	cgroup->memory_max = limits->memory_bytes;
	cgroup->pids_max = limits->pids;
	if (set_number(cgroup->fd, cgroup->path, "memory.max", limits->memory_bytes + AGENT_MEMORY,
		    err) < 0)
		return -1;
	/* A kernel without swap accounting does not have the file. */
	if (write_small_file(cgroup->fd, "memory.swap.max", "0") < 0 && errno != ENOENT)
		return error_set(err, errno, "writing 0 to %s/memory.swap.max", cgroup->path);
	if (limits->pids && set_number(cgroup->fd, cgroup->path, "pids.max",
				    (uint64_t)limits->pids + AGENT_PROCESSES, err) < 0)
		return -1;
	if (spec->background && cgroup->cpu &&
		set_number(cgroup->fd, cgroup->path, "cpu.weight", BACKGROUND_WEIGHT, err) < 0)
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
	cgroup->cpu = cgroup_has_word(cgroup->fd, "cgroup.controllers", "cpu");
	if (set_limits(cgroup, spec, err) < 0 ||
		cgroup_enable_controllers(cgroup->fd, cgroup->path, err) < 0)
		return -1;
	if (mkdirat(cgroup->fd, "agent", CGROUP_DIRECTORY_MODE) < 0)
		return error_set(err, errno, "making the cgroup %s/agent", cgroup->path);
	cgroup->agent_fd = cgroup_open(cgroup->fd, "agent");
	if (cgroup->agent_fd < 0)
		return error_set(err, errno, "opening the cgroup %s/agent", cgroup->path);
	return 0;
}

/* Makes the sandbox's cgroup in the base. On failure nothing of it is left. */
static int make_sandbox(const struct cgroup_base *base, const struct spec *spec, struct cgroup *ret,
	struct error *err)
{
	struct cgroup cgroup = CGROUP_NONE;
	char name[CGROUP_NAME_SIZE];

	for (int i = 0;; i++) {
		cleanup_close int base_fd = cgroup_base_prepare(base, &cgroup.moved_self, err);

		if (base_fd >= 0) {
			sweep(base_fd);
			cgroup.fd = make_locked(base_fd, name);
			if (cgroup.fd >= 0)
				break;
			error_set(err, errno, "making a cgroup in %s", base->path);
			if (cgroup.moved_self)
				cgroup_base_move_back(base_fd);
		}
		/* MOUNT/nsbox is removed by whoever leaves it empty. */
		if (!base->create || (err->errnum != ENOENT && err->errnum != ENODEV) ||
			i == BASE_TRIES)
			return -1;
	}
	/* It fits: a base's path is at most CGROUP_PATH_SIZE - CGROUP_NAME_SIZE long. */
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
	struct cgroup_base base;

	if (!cgroup_base_choose(spec->cgroup, &base, why)) {
		if (cgroup_base_shortage())
			return error_set(err, cgroup_base_shortage(), "looking for a cgroup for the sandbox");
		if (!spec->cgroup && !spec->require_cgroup)
			return 0;
		error_set(err, 0, "no usable cgroup: %s", why);
		return set_remedy(err);
	}
	if (make_sandbox(&base, spec, ret, err) == 0)
		return 1;
	/* A host that has one, and a process that is short of something: no reason for weaker limits. */
	if (cgroup_is_shortage(err->errnum))
		return error_context(err, "making a cgroup for the sandbox");
	if (!spec->cgroup && !spec->require_cgroup) {
		snprintf(why, ERROR_TEXT_MAX, "%s", err->text);
		return 0;
	}
	error_context(err, "no usable cgroup");
	return err->hint[0] ? -1 : set_remedy(err);
}

static void run_name(unsigned number, char ret[CGROUP_NAME_SIZE])
{
	snprintf(ret, CGROUP_NAME_SIZE, "run-%u", number);
}

int cgroup_create_run(struct cgroup *cgroup, unsigned number, int *ret_procs_fd, struct error *err)
{
	char name[CGROUP_NAME_SIZE], path[CGROUP_PATH_SIZE + CGROUP_NAME_SIZE];
	cleanup_close int run_fd = -1;
	int procs_fd;

	run_name(number, name);
	snprintf(path, sizeof path, "%s/%s", cgroup->path, name);
	if (mkdirat(cgroup->fd, name, CGROUP_DIRECTORY_MODE) < 0)
		return error_set(err, errno, "making the cgroup %s", path);
	run_fd = cgroup_open(cgroup->fd, name);
	if (run_fd < 0)
		return error_set(err, errno, "opening the cgroup %s", path);
	if (cgroup_set_file(run_fd, path, "memory.oom.group", "1", err) < 0 ||
		set_number(run_fd, path, "memory.max", cgroup->memory_max, err) < 0 ||
		(cgroup->pids_max &&
			set_number(run_fd, path, "pids.max", cgroup->pids_max, err) < 0))
		return -1;
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

/*
 * A run that is over its limit with file pages alone (a cache) is only slowed down, and nobody need know.
 * One whose own pages of programs and files are dropped and read again and again is slowed down so much
 * that it may meet its time limit in place of the OOM killer; then the reason is worth telling.
 */
static bool was_thrashing(int run_fd, uint64_t limit)
{
	uint64_t read_again = read_key(run_fd, "memory.stat", "workingset_refault_file");

	return read_key(run_fd, "memory.events", "max") > 0 &&
	       read_again * (uint64_t)sysconf(_SC_PAGESIZE) > limit / 2;
}

static void read_memory(const struct cgroup *cgroup, int run_fd, const struct spec *spec,
	struct exec_result *result, bool *ret_oom)
{
	uint64_t limit = spec->limits.memory_bytes, peak = read_number(run_fd, "memory.peak");

	result->usage.memory_peak_bytes = peak;
	/* Where the agent was killed everything is over. */
	*ret_oom = read_key(run_fd, "memory.events", "oom_kill") > 0 ||
		   read_key(cgroup->agent_fd, "memory.events", "oom_kill") > 0;
	/* The victim's cgroup counts every kill; «oom» is counted only where the limit was the cause, and above. */
	if (*ret_oom && read_key(cgroup->fd, "memory.events", "oom") > 0)
		add_hit(result, LIMIT_MEMORY, limit, peak ? peak : limit, "memory.events");
	else if (was_thrashing(run_fd, limit))
		add_hit(result, LIMIT_MEMORY, limit, peak ? peak : limit, "memory.stat");
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
	char name[CGROUP_NAME_SIZE];
	cleanup_close int run_fd = -1;

	*ret_oom = false;
	run_name(number, name);
	run_fd = cgroup_open(cgroup->fd, name);
	if (run_fd < 0)
		return;
	read_memory(cgroup, run_fd, spec, result, ret_oom);
	read_pids(cgroup, run_fd, spec, result);
	read_cpu(cgroup, run_fd, spec, result);
}

void cgroup_kill_run(const struct cgroup *cgroup, unsigned number)
{
	char name[CGROUP_NAME_SIZE], file[CGROUP_NAME_SIZE + sizeof "/cgroup.kill"];

	run_name(number, name);
	snprintf(file, sizeof file, "%s/cgroup.kill", name);
	(void)write_small_file(cgroup->fd, file, "1");
}

/* Calls `do_run` for the directory of each run-N until it returns false. False: that, or they cannot be listed. */
static bool each_run(const struct cgroup *cgroup, bool (*do_run)(int run_fd, void *data), void *data)
{
	cleanup_close int list_fd = cgroup_open(cgroup->fd, ".");
	DIR *directory = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *entry;
	bool going = true;
	int errnum = 0;

	if (!directory)
		return false;
	list_fd = -1; /* the stream's now */
	while (going && (entry = readdir(directory))) {
		cleanup_close int run_fd = strncmp(entry->d_name, "run-", 4) == 0
						   ? cgroup_open(cgroup->fd, entry->d_name)
						   : -1;

		going = run_fd < 0 || do_run(run_fd, data);
		errnum = errno;
	}
	closedir(directory);
	errno = going ? 0 : errnum;
	return going;
}

static bool freeze_run(int run_fd, void *data)
{
	return write_small_file(run_fd, "cgroup.freeze", *(const bool *)data ? "1" : "0") == 0 || errno == ENODEV;
}

static bool run_is_frozen(int run_fd, void *data)
{
	return read_key(run_fd, "cgroup.events", "frozen") == 1;
}

int cgroup_freeze_runs(const struct cgroup *cgroup, bool freeze, struct error *err)
{
	return each_run(cgroup, freeze_run, &freeze)
		       ? 0
		       : error_set(err, errno, "writing cgroup.freeze below %s", cgroup->path);
}

bool cgroup_runs_frozen(const struct cgroup *cgroup)
{
	return each_run(cgroup, run_is_frozen, NULL);
}

void cgroup_kill(const struct cgroup *cgroup)
{
	(void)write_small_file(cgroup->fd, "cgroup.kill", "1");
}

void cgroup_remove_run(const struct cgroup *cgroup, unsigned number)
{
	char name[CGROUP_NAME_SIZE];

	run_name(number, name);
	(void)unlinkat(cgroup->fd, name, AT_REMOVEDIR);
}

void cgroup_destroy(struct cgroup *cgroup)
{
	if (cgroup->fd >= 0) {
		cleanup_close int base_fd = cgroup_open(cgroup->fd, "..");

		kill_and_remove(base_fd, strrchr(cgroup->path, '/') + 1, cgroup->fd, EMPTY_WAIT_MS);
		if (cgroup->moved_self)
			cgroup_base_move_back(base_fd);
		cgroup_base_remove(cgroup->path);
	}
	close_fd(&cgroup->agent_fd);
	close_fd(&cgroup->fd);
	*cgroup = CGROUP_NONE;
}
