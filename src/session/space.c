/* SPDX-License-Identifier: MIT */
/* The writable space of a session on disk: see space.h. */
#define _GNU_SOURCE
#include "session/space.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/snapshots.h"
#include "packages/session.h"
#include "report/report.h"
#include "sandbox/account.h"
#include "sandbox/diskuse.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/file.h"

enum {
	TICK_MIN_MS = 10,
	TICK_MAX_MS = 80,
	DISK_BYTES_PER_MS = 4 << 20, /* that the fastest disk takes */
	COST_FACTOR = 4,	/* looking takes at most a fifth of the time */
	MATTERS_BYTES = 1 << 20, /* what can be written more before it is looked again */
	MATTERS_FILES = 1024,
	FULL_SLACK_BYTES = 1 << 20, /* how much a command may add where nothing is left: names, small files */
	FULL_SLACK_FILES = 256,
	LATEST_MS = 2000, /* what others free on the disk must not hide for longer what is written here */
	LATEST_FACTOR = 20,
	LOOK_MAX_MS = 10 * 1000,
	WAIT_MS = 1000, /* for a look that somebody waits for */
	RENEW_MS = 20, /* while the session waits */
	SWEEP_MS = 1000, /* for a lock */
	REMOVE_MS = 5000, /* before the end of the session is told */
};

static uint64_t limit_of(const struct session *session)
{
	return session->spec->limits.disk_bytes;
}

static bool on_disk(const struct session *session)
{
	return session->space.storage.folder >= 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* --- beginning and end --- */

void space_choose(struct session *session)
{
	struct space *space = &session->space;
	struct error err = {0};

	if (session->spec->storage == STORAGE_MEMORY)
		return;
	if (storage_make(session->id, true, &space->storage, &err) < 0) {
		space->storage = STORAGE_NONE;
		space_give_up(session, &err);
		return;
	}
	session->own.storage_folder = space->storage.path;
	session->own.limits.disk_floor_bytes = storage_floor_bytes(space->storage.folder);
	space->free_bytes = space->first_free_bytes = storage_free_bytes(space->storage.folder);
	space->free_files = storage_free_files(space->storage.folder);
	space->late = storage_tells_late(space->storage.folder);
}

void space_give_up(struct session *session, const struct error *why)
{
	snprintf(session->space.in_memory, sizeof session->space.in_memory, "%s", why->text);
	space_end(session);
	session->own.storage_folder = NULL;
	session->own.limits.disk_floor_bytes = 0;
	if (session->spec->storage == STORAGE_DISK)
		add_warning(&session->walls, "the writable space is in memory, not on disk: %s", why->text);
}

/* A process that belongs to nobody, with nothing but `kept`. Returns whether this is it. */
static bool become_another(int *kept, size_t count)
{
	pid_t pid = fork();

	if (pid != 0) {
		if (pid > 0)
			waitpid(pid, NULL, 0);
		return false;
	}
	/* Before the session goes on: it may let go of what is locked by it, and look whether others still have it. */
	session_close_inherited(kept, count);
	if (fork() != 0)
		_exit(0);
	return true;
}

/*
 * The lock on the folder is held by whoever has the descriptor, so nobody else removes it at the same time. What takes long
 * another process goes on with.
 */
static void remove_folder(struct storage *storage)
{
	close_fd(&storage->space);
	if (storage_remove(storage, REMOVE_MS * 1000) == 1 &&
		become_another((int[]){storage->sessions, storage->folder}, 2)) {
		storage_remove(storage, UINT64_MAX);
		_exit(0);
	}
	storage_close(storage);
}

static void end_look(struct space *space)
{
	if (space->looker > 0) {
		kill(space->looker, SIGKILL);
		waitpid(space->looker, NULL, 0);
		space->looker = 0;
	}
	close_fd(&space->answer);
}

int space_renew(struct session *session, struct error *err)
{
	struct space *space = &session->space;
	struct storage *storage = &space->storage;
	int old, r;

	end_look(space);
	r = storage_renew(storage, RENEW_MS * 1000, &old, err);
	if (old >= 0 && become_another((int[]){storage->folder, old}, 2)) {
		storage_remove_old(storage, old);
		_exit(0);
	}
	close_fd(&old);
	space->first_free_bytes = space->free_bytes = storage_free_bytes(storage->folder);
	space->free_files = storage_free_files(storage->folder);
	space->used_bytes = space->entries = space->given_bytes = 0;
	space->full = space->disk_low = space->settling = false;
	space->looked_us = space->cost_us = 0;
	space->tick_us = UINT64_MAX;
	return r;
}

void space_end(struct session *session)
{
	struct space *space = &session->space;

	end_look(space);
	if (on_disk(session))
		remove_folder(&space->storage);
}

int space_choose_packages(struct session *session, struct error *err)
{
	struct space *space = &session->space;
	char name[sizeof space->packages.name];
	struct error why;
	bool made;

	space->packages = STORAGE_NONE;
	if (!session->spec->packages)
		return 0;
	snprintf(name, sizeof name, "%s.packages", session->id);
	made = storage_make(name, false, &space->packages, &why) == 0;
	if (made && past_take_packages(session, err) < 0)
		return -1;
	if (made && session_packages_add(&space->packages, &session->own, &why) == 0)
		return 0;
	snprintf(space->no_packages, sizeof space->no_packages, "%s", why.text);
	space_end_packages(session);
	return 0;
}

void space_end_packages(struct session *session)
{
	session->own.packages = false;
	if (session->space.packages.folder >= 0)
		remove_folder(&session->space.packages);
}

/* What they held alone of snapshots. */
static void sweep_snapshots(void)
{
	struct error unimportant;
	struct snapshots snapshots;

	if (snapshots_open(false, &snapshots, &unimportant) != 0)
		return;
	snapshots_sweep(&snapshots, 0);
	snapshots_close(&snapshots);
}

void space_sweep(const struct session *session)
{
	cleanup_close int sessions = on_disk(session) ? dup(session->space.storage.sessions) : storage_open_all();

	if (sessions < 0 || !storage_has_dead(sessions) || !become_another(&sessions, 1))
		return;
	storage_sweep(sessions);
	sweep_snapshots();
	_exit(0);
}

void space_sweep_snapshots(const struct snapshots *snapshots)
{
	if (!become_another((int[]){snapshots->fd}, 1))
		return;
	snapshots_sweep(snapshots, SWEEP_MS);
	_exit(0);
}

/* --- looks --- */

static void start_look(struct session *session)
{
	struct space *space = &session->space;
	pid_t pid;

	if (space->looker > 0)
		return;
	space->started_free_bytes = storage_free_bytes(space->storage.folder);
	space->started_free_files = storage_free_files(space->storage.folder);
	space->started_us = session_now_us();
	space->given_bytes = 0;
	pid = disk_use_start(space->storage.space, session->proc_fd, limits_disk_inodes(&session->spec->limits) * 2,
		LOOK_MAX_MS * 1000ULL, &space->answer);
	space->looker = pid > 0 ? pid : 0;
}

/* Whether one has ended; its answer is the use then. */
static bool finish_look(struct session *session)
{
	struct space *space = &session->space;
	struct disk_use use = {0};
	bool said;

	said = read_full(space->answer, &use, sizeof use) == sizeof use;
	close_fd(&space->answer);
	waitpid(space->looker, NULL, 0);
	space->looker = 0;
	space->looked_us = session_now_us();
	space->cost_us = space->looked_us - space->started_us;
	/* What could not be seen is taken to be all that the disk has less since. */
	if (!said || !use.whole) {
		uint64_t gone = less(space->first_free_bytes, space->started_free_bytes);

		use.bytes = use.bytes > gone ? use.bytes : gone;
	}
	space->free_bytes = space->started_free_bytes;
	space->free_files = space->started_free_files;
	space->used_bytes = use.bytes;
	space->entries = use.entries;
	space->disk_low = storage_free_bytes(space->storage.folder) < session->spec->limits.disk_floor_bytes;
	return true;
}

static bool answer_is_there(const struct space *space, int timeout_ms)
{
	struct pollfd fd = {.fd = space->answer, .events = POLLIN};

	return space->looker > 0 && poll(&fd, 1, timeout_ms) > 0;
}

/* --- who is to be ended --- */

static bool is_over(const struct session *session)
{
	const struct space *space = &session->space;

	return space->used_bytes >= limit_of(session) || space->entries > limits_disk_inodes(&session->spec->limits);
}

static void add_hit(const struct session *session, struct exec_result *exec)
{
	const struct space *space = &session->space;
	uint64_t inodes = limits_disk_inodes(&session->spec->limits);

	if (space->used_bytes >= limit_of(session))
		exec_add_hit(exec, LIMIT_DISK, limit_of(session), space->used_bytes, "watcher");
	else if (space->entries > inodes)
		exec_add_hit(exec, LIMIT_INODES, inodes, space->entries, "watcher");
	else if (space->disk_low)
		exec_add_hit(exec, LIMIT_HOST_DISK, session->spec->limits.disk_floor_bytes,
			storage_free_bytes(space->storage.folder), "statfs");
}

/* The commands that run, and what each has written to disks. Returns their number. */
static size_t list_writers(struct session *session, struct job *running[JOBS_MAX], uint64_t bytes[JOBS_MAX])
{
	int keepers[JOBS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state != JOB_RUNNING)
			continue;
		keepers[count] = job->keeper;
		running[count++] = job;
	}
	watcher_written_below(session->proc_fd, keepers, count, bytes);
	return count;
}

static uint64_t written_since(struct session *session)
{
	struct job *running[JOBS_MAX];
	uint64_t bytes[JOBS_MAX], sum = 0;
	size_t count = list_writers(session, running, bytes);

	for (size_t i = 0; i < count; i++)
		sum += less(bytes[i], running[i]->written_bytes);
	return sum;
}

/* The command that wrote most to disks since it was asked last; where none did, that which began last if `any`. */
static struct job *heaviest_writer(struct session *session, bool any)
{
	struct job *running[JOBS_MAX], *found = NULL;
	uint64_t bytes[JOBS_MAX], most = 0;
	size_t count = list_writers(session, running, bytes);

	for (size_t i = 0; i < count; i++) {
		uint64_t wrote = less(bytes[i], running[i]->written_bytes);

		running[i]->written_bytes = bytes[i];
		if (wrote > most) {
			most = wrote;
			found = running[i];
		}
	}
	for (size_t i = 0; i < count && any && most == 0; i++)
		if (!found || running[i]->started_us > found->started_us)
			found = running[i];
	return found;
}

static bool being_ended(const struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_RUNNING && session->jobs[i].stopped_by_us)
			return true;
	return false;
}

static void end_writer(struct session *session, bool any)
{
	struct job *job = heaviest_writer(session, any);

	if (!job)
		return;
	add_hit(session, job->exec);
	job_end_command(session, job, ENDED_DISK);
	session->space.settling = true;
}

/* After each look. `before`: what was used at the last one. */
static void judge(struct session *session, uint64_t before)
{
	struct space *space = &session->space;
	bool was_full = space->full;

	space->full = is_over(session) || space->disk_low;
	if (!space->full) {
		space->settling = false;
		/* Who writes from now on is told from who has written. */
		heaviest_writer(session, false);
		return;
	}
	/* What one leaves that is being ended is not what the next one has added. */
	if (being_ended(session)) {
		space->settling = true;
		return;
	}
	if (space->settling || space->used_bytes < space->least_bytes || space->entries < space->least_entries) {
		space->least_bytes = space->used_bytes;
		space->least_entries = space->entries;
		space->settling = false;
		heaviest_writer(session, false);
		return;
	}
	if (!was_full) {
		space->least_bytes = space->used_bytes;
		space->least_entries = space->entries;
		if (is_over(session) || space->used_bytes > before + FULL_SLACK_BYTES)
			end_writer(session, false);
		return;
	}
	if (space->used_bytes > space->least_bytes + FULL_SLACK_BYTES || space->entries > space->least_entries + FULL_SLACK_FILES)
		end_writer(session, true);
}

/* --- when to look --- */

/* Half of what is left, but not less than what is worth a look. */
static uint64_t that_matters(uint64_t limit, uint64_t used, uint64_t least)
{
	uint64_t half = less(limit, used) / 2;

	return half > least ? half : least;
}

static bool wants_look(struct session *session, uint64_t now)
{
	const struct space *space = &session->space;
	uint64_t free_bytes = storage_free_bytes(space->storage.folder);
	uint64_t gone = less(space->free_bytes, free_bytes) + space->given_bytes;
	uint64_t matters = that_matters(limit_of(session), space->used_bytes, MATTERS_BYTES);
	uint64_t files_gone = less(space->free_files, storage_free_files(space->storage.folder));
	uint64_t latest_us = space->cost_us * LATEST_FACTOR;

	if (now < space->looked_us + space->cost_us * COST_FACTOR)
		return false;
	if (latest_us < LATEST_MS * 1000)
		latest_us = LATEST_MS * 1000;
	if (gone >= matters || space->settling || (space->late && written_since(session) >= matters))
		return true;
	if (files_gone >= that_matters(limits_disk_inodes(&session->spec->limits), space->entries, MATTERS_FILES))
		return true;
	if (!space->disk_low && free_bytes < session->spec->limits.disk_floor_bytes)
		return true;
	return free_bytes != space->free_bytes && now >= space->looked_us + latest_us;
}

static bool anything_writes(const struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_RUNNING)
			return true;
	return false;
}

static void take_answer(struct session *session, int timeout_ms)
{
	uint64_t before = session->space.used_bytes;

	if (answer_is_there(&session->space, timeout_ms) && finish_look(session))
		judge(session, before);
}

/* So soon that what is left cannot have been filled meanwhile. */
static unsigned next_tick_ms(const struct session *session)
{
	const struct space *space = &session->space;
	uint64_t free_bytes = storage_free_bytes(space->storage.folder);
	uint64_t left = less(limit_of(session), space->used_bytes + less(space->free_bytes, free_bytes));
	uint64_t host_left = less(free_bytes, session->spec->limits.disk_floor_bytes);
	uint64_t ms = (left < host_left ? left : host_left) / DISK_BYTES_PER_MS;

	if (space->looker > 0 || ms < TICK_MIN_MS)
		return TICK_MIN_MS;
	return ms < TICK_MAX_MS ? (unsigned)ms : TICK_MAX_MS;
}

uint64_t space_check(struct session *session)
{
	struct space *space = &session->space;
	uint64_t now = session_now_us();

	if (!on_disk(session))
		return UINT64_MAX;
	take_answer(session, 0);
	if (!anything_writes(session)) {
		space->tick_us = UINT64_MAX;
		return space->looker > 0 ? now + TICK_MIN_MS * 1000 : UINT64_MAX;
	}
	if (space->tick_us == UINT64_MAX || now >= space->tick_us) {
		if (!space->looker && wants_look(session, now))
			start_look(session);
		space->tick_us = now + next_tick_ms(session) * 1000ULL;
	}
	return space->tick_us;
}

/* --- for who needs to know now --- */

static void look_now(struct session *session)
{
	take_answer(session, WAIT_MS); /* of an older one */
	start_look(session);
	take_answer(session, WAIT_MS);
}

static bool has_changed(const struct session *session)
{
	const struct space *space = &session->space;

	return space->late || space->given_bytes > 0 || storage_free_bytes(space->storage.folder) != space->free_bytes;
}

void space_before_command(struct session *session)
{
	struct space *space = &session->space;

	session->sandbox.file_size_bytes = 0;
	if (!on_disk(session))
		return;
	if (space->full && !being_ended(session))
		look_now(session);
	if (space->full)
		session->sandbox.file_size_bytes = SPACE_FULL_FILE;
}

void space_after_command(struct session *session, struct job *job)
{
	struct space *space = &session->space;
	struct exec_result *exec = job->exec;

	if (!on_disk(session))
		return;
	/* Where it takes no time, or it may have filled it and gone. */
	if (space->full || (has_changed(session) && (space->cost_us < TICK_MIN_MS * 1000 ||
							   wants_look(session, UINT64_MAX / 2))))
		look_now(session);
	exec->usage.disk_used_bytes += space->used_bytes;
	if (space->full)
		add_hit(session, exec);
	if (exec->signal == SIGXFSZ && session->spec->limits.file_size_bytes == 0)
		exec_add_hit(exec, LIMIT_DISK, limit_of(session), space->used_bytes, "SIGXFSZ");
}

int space_take(struct session *session, uint64_t length, struct error *err)
{
	struct space *space = &session->space;
	char limit[64];

	if (!on_disk(session) || length == 0)
		return 0;
	if (space->full || space->used_bytes + space->given_bytes + length > limit_of(session))
		look_now(session);
	space->given_bytes += length;
	if (!space->full && space->used_bytes + space->given_bytes <= limit_of(session))
		return 0;
	space->given_bytes -= length;
	if (space->disk_low) {
		error_set(err, ENOSPC, "the host's disk has less free than is left for others");
		return error_hint(err, "free some there, or choose another with NSBOX_STORE");
	}
	format_bytes(limit_of(session), limit, sizeof limit);
	error_set(err, ENOSPC, "the writable space of %s is full", limit);
	return error_hint(err, "delete something, or make the session with more (--disk)");
}
