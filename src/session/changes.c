/* SPDX-License-Identifier: MIT */
/*
 * Which files a command of a session creates, modifies and deletes below /workspace: two looks at them, by the process
 * inside that works on files (FILEOP_SCAN), one before it runs and one after, and the difference (listing.h).
 *
 * The first look is spared where the last one, after another command, still holds: when nothing has been written and
 * nothing has run since, and the files are the sandbox's own, which nobody outside can change. What could have written
 * is counted as *activity*. The files that a request brings with it are there before the first look. The source of a
 * program, which the supervisor makes, is not, and is removed before the second; those of other programs are left out.
 *
 * A file that is changed twice in a moment, with a look between, may have the same time and size after both (FILEOP_SETTLED);
 * so a command starts a moment later than what was changed last.
 *
 * A look that fails never fails the command: what is told says then why it is incomplete.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sandbox/fileops.h"
#include "session/listing.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/error.h"

static const char workspace[] = "/workspace";

enum {
	LOOK_MS = 200,           /* for the process inside */
	LOOK_DEADLINE_MS = 1000, /* until it is ended: something has held it up */
	ANSWER_MAX = FILEOP_SCAN_MAX * (sizeof(struct fileop_node) + sizeof(struct fileop_directory) + 256) +
		     sizeof(struct fileop_directory),
	KEPT_SMALL = 64 << 10, /* bytes of a listing that an idle session may keep */
	KEPT_MS = 60 * 1000,   /* a larger one is kept for so long */
	HELD_MAX = 32 << 20,   /* bytes of all that the commands of a session hold */
};

void changes_note_activity(struct session *session)
{
	session->activity++;
	listing_release(&session->latest);
}

uint64_t changes_check_clock(struct session *session, uint64_t now)
{
	if (!session->latest || listing_bytes(session->latest) <= KEPT_SMALL)
		return UINT64_MAX;
	if (now < session->latest_until_us)
		return session->latest_until_us;
	listing_release(&session->latest);
	return UINT64_MAX;
}

void changes_free(struct job_changes *changes)
{
	listing_release(&changes->before);
	json_decref(changes->told);
	strings_free(changes->sources);
	*changes = (struct job_changes){.wanted = false};
}

void changes_give_up(struct job_changes *changes, const char *why)
{
	if (!changes->wanted || changes->told)
		return;
	listing_release(&changes->before);
	changes->told = listing_no_changes(why);
}

/* --- looking --- */

/* Whether no other job can change a file now. */
static bool is_quiet(const struct session *session, const struct job *job)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		const struct job *other = &session->jobs[i];

		if (other != job &&
			(other->state == JOB_FILE || other->state == JOB_FILES || other->state == JOB_RUNNING))
			return false;
	}
	return true;
}

/* The name in /workspace itself of what a job has made there. NULL: nothing. */
static const char *source_of(const struct job *job)
{
	size_t length = sizeof workspace - 1;

	if (!job->source || strncmp(job->source, workspace, length) != 0 || job->source[length] != '/')
		return NULL;
	return strchr(job->source + length + 1, '/') ? NULL : job->source + length + 1;
}

/* Those that there are now, in `changes->sources`. */
static void note_sources(const struct session *session, struct job_changes *changes)
{
	size_t count = 0;

	strings_free(changes->sources);
	changes->sources = xcalloc(JOBS_MAX + 1, sizeof *changes->sources);
	for (size_t i = 0; i < JOBS_MAX; i++) {
		const char *name = source_of(&session->jobs[i]);

		if (name)
			changes->sources[count++] = xstrdup(name);
	}
}

static void leave_out_sources(const struct job_changes *changes, struct listing *seen)
{
	for (char **name = changes->sources; name && *name; name++)
		listing_leave_out(seen, *name);
}

/* Returns whether it is on the way. */
static bool look(struct session *session, struct job *job, enum job_state state)
{
	struct {
		struct fileop op;
		char path[sizeof workspace - 1];
	} request = {.op = {.kind = FILEOP_SCAN,
			     .limit = FILEOP_SCAN_MAX,
			     .offset = LOOK_MS,
			     .path_length = sizeof workspace - 1}};
	size_t length = offsetof(typeof(request), path) + sizeof request.path;
	struct error err;

	if (state == JOB_BEFORE)
		request.op.flags = FILEOP_SETTLED;
	memcpy(request.path, workspace, sizeof request.path);
	note_sources(session, &job->changes);
	job->changes.activity = is_quiet(session, job) ? session->activity : ACTIVITY_UNKNOWN;
	if (file_work_start(session, &job->work, &request, length, NULL, 0, ANSWER_MAX, &err) < 0) {
		changes_give_up(&job->changes, err.text);
		return false;
	}
	job->work.deadline_us = session_now_us() + LOOK_DEADLINE_MS * 1000;
	job->state = state;
	return true;
}

static int refused(const struct fileop_answer *answer, struct error *err)
{
	if (answer->errnum == ENOTDIR || answer->errnum == ELOOP)
		return error_set(err, 0, "%s is no directory", workspace);
	return error_set(err, answer->errnum < 4096 ? (int)answer->errnum : EIO, "looking into %s", workspace);
}

/* What was seen, or NULL with *err. *ret_own: only what is in the sandbox can change it. */
static struct listing *take_seen(const struct file_work *work, bool *ret_own, struct error *err)
{
	struct fileop_answer answer;
	struct listing *seen;

	if (work->overdue) {
		error_set(err, 0, "looking into %s took longer than %d ms, and was ended", workspace, LOOK_DEADLINE_MS);
		return NULL;
	}
	if (work->answer_length < sizeof answer) {
		error_set(err, 0, "the process inside that looks into %s could not be made, or was killed", workspace);
		return NULL;
	}
	memcpy(&answer, work->answer, sizeof answer);
	*ret_own = answer.count == 1;
	if (answer.stage == FILEOP_OPENING && answer.errnum == ENOENT)
		return listing_empty();
	if (answer.stage != FILEOP_DONE) {
		refused(&answer, err);
		return NULL;
	}
	seen = listing_parse(work->answer + sizeof answer, work->answer_length - sizeof answer);
	if (!seen)
		error_set(err, 0, "what the process inside told of %s is not whole", workspace);
	return seen;
}

/* --- before and after --- */

static size_t bytes_held(const struct session *session)
{
	size_t bytes = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].changes.before)
			bytes += listing_bytes(session->jobs[i].changes.before);
	return bytes;
}

static void keep_before(struct session *session, struct job *job, struct listing **seen)
{
	if (bytes_held(session) + listing_bytes(*seen) > HELD_MAX)
		changes_give_up(&job->changes, "too many commands run at the same time, for so many files");
	else
		job->changes.before = listing_hold(*seen);
}

static void keep_latest(struct session *session, const struct job *job, struct listing **seen)
{
	if (job->changes.activity != session->activity)
		return;
	listing_release(&session->latest);
	session->latest = listing_hold(*seen);
	session->latest_until_us = session_now_us() + KEPT_MS * 1000;
}

/* Whether what is changed from now on gets another time. */
static bool is_settled(const struct listing *listing)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec > listing_newest(listing);
}

bool changes_look_before(struct session *session, struct job *job)
{
	struct job_changes *changes = &job->changes;

	if (!changes->wanted || changes->before || changes->told)
		return false;
	if (session->latest && is_settled(session->latest)) {
		changes->before = listing_hold(session->latest);
		return false;
	}
	return look(session, job, JOB_BEFORE);
}

static bool remove_source(struct session *session, struct job *job)
{
	struct error err;

	if (file_remove_start(session, &job->work, job->source, &err) < 0) {
		changes_give_up(&job->changes, err.text);
		return false;
	}
	job->work.deadline_us = session_now_us() + LOOK_DEADLINE_MS * 1000;
	job->state = JOB_AFTER;
	return true;
}

bool changes_look_after(struct session *session, struct job *job)
{
	struct job_changes *changes = &job->changes;

	if (!changes->wanted || changes->told || job->cancelled)
		return false;
	if (!changes->before) { /* it came to no command */
		changes_give_up(changes, NULL);
		return false;
	}
	if (source_of(job))
		return remove_source(session, job);
	return look(session, job, JOB_AFTER);
}

void changes_looked(struct session *session, struct job *job)
{
	struct job_changes *changes = &job->changes;
	struct error err;
	bool own = false;
	struct listing *seen;

	if (job->state == JOB_AFTER && source_of(job)) { /* it has been removed, or cannot be */
		file_work_free(&job->work);
		free(job->source);
		job->source = NULL;
		return;
	}
	seen = take_seen(&job->work, &own, &err);
	file_work_free(&job->work);
	if (!seen) {
		changes_give_up(changes, err.text);
		return;
	}
	leave_out_sources(changes, seen);
	note_sources(session, changes);
	leave_out_sources(changes, seen);
	if (job->state == JOB_BEFORE) {
		keep_before(session, job, &seen);
	} else {
		changes->told = listing_compare(changes->before, seen, workspace);
		listing_release(&changes->before);
		if (own)
			keep_latest(session, job, &seen);
	}
	listing_release(&seen);
}
