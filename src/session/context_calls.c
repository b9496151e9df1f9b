/* SPDX-License-Identifier: MIT */
/* Calls of contexts: their turn, their end, by themselves or not, and what came of them. See contexts.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "sandbox/account.h"
#include "session/contexts.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"

enum {
	INTERRUPT_AGAIN_MS = CONTEXT_OBEY_MS /
			     2, /* the first may have come before the driver had begun the cell */
	SHOWN_IN_ALL_MAX = 48 << 20, /* bytes that all calls of a session hold */
};

/* --- what a call shows --- */

static size_t bytes_shown(const struct session *session)
{
	size_t bytes = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].cell)
			bytes += session->jobs[i].cell->shown.bytes;
	return bytes;
}

void context_take_shown(struct session *session, struct context *context, const struct reply *reply)
{
	size_t held = bytes_shown(session);

	shown_add(&context->call->cell->shown, reply,
		held < SHOWN_IN_ALL_MAX ? SHOWN_IN_ALL_MAX - held : 0);
}

/* --- its beginning and end --- */

/* Whoever waits for it is told that it was not run. */
void context_refuse_call(struct job *call, const struct error *err)
{
	if (call->connection)
		answer_failure(call->connection, err);
	call->connection = NULL;
	job_free(call);
}

/* All that wait for their turn. */
void context_refuse_waiting(
	struct session *session, const struct context *context, const struct error *err)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_WAITING &&
			session->jobs[i].cell->context == context)
			context_refuse_call(&session->jobs[i], err);
}

static void end_call(struct session *session, struct job *call)
{
	job_close_call(session, call);
	if (call->cancelled)
		job_free(call);
	else
		job_finish(session, call);
}

/* The driver has said that the cell has ended. */
void context_cell_ended(struct session *session, struct context *context, enum cell_status status)
{
	struct job *call = context->call;
	struct cell *cell = call->cell;
	struct exec_result *exec = call->exec;

	job_drain(context->job);
	cell->status = status;
	exec->ended_by = ENDED_EXITED;
	exec->exit_code = status == CELL_ERROR;
	if (cell->interruption == INTERRUPTION_TIMEOUT) {
		exec->ended_by = ENDED_TIMEOUT;
		exec->exit_code = -1;
		snprintf(cell->note, sizeof cell->note,
			"the context keeps its state");
	} else if (status == CELL_INTERRUPTED) {
		exec->ended_by = ENDED_SIGNALED;
		exec->exit_code = -1;
		exec->signal = SIGINT;
		snprintf(cell->note, sizeof cell->note,
			"the context keeps its state");
	}
	end_call(session, call);
}

static void send_cell(struct session *session, struct context *context, struct cell *cell)
{
	cleanup_free char *header = NULL;
	size_t length;

	cell->number = ++context->cells;
	header = xasprintf("run %u %zu\n", cell->number, cell->length);
	length = strlen(header);
	context->out = xmalloc(length + cell->length);
	memcpy(context->out, header, length);
	memcpy(context->out + length, cell->code, cell->length);
	context->out_length = length + cell->length;
	context->out_sent = 0;
	replies_begin(&context->replies, cell->number);
	context_write_requests(session, context);
}

/* What was written since the last call is told with this one. */
static void take_before(struct context *context, struct cell *cell)
{
	for (int i = 0; i < 2; i++) {
		capture_finish(&context->before[i], &cell->before[i]);
		capture_free(&context->before[i]);
		capture_init(&context->before[i], CONTEXT_BEFORE_BYTES);
	}
}

void context_start_call(struct session *session, struct job *job)
{
	struct cell *cell = job->cell;
	struct context *context = cell->context;

	job_drain(context->job); /* what is in the pipes is from before */
	job_begin_call(session, job);
	take_before(context, cell);
	if (cell->interruption) {
		cell->status = CELL_INTERRUPTED;
		job->exec->ended_by = ENDED_SIGNALED;
		job->exec->signal = SIGINT;
		snprintf(cell->note, sizeof cell->note, "the code had not begun");
		end_call(session, job);
		return;
	}
	send_cell(session, context, cell);
}

/* Whose turn it is; NULL: nobody waits. */
static struct job *next_call(struct session *session, const struct context *context)
{
	struct job *next = NULL;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state == JOB_WAITING && job->cell->context == context &&
			(!next || job->cell->order < next->cell->order))
			next = job;
	}
	return next;
}

void cell_free(struct job *job)
{
	struct cell *cell = job->cell;

	if (!cell)
		return;
	if (cell->context && cell->context->call == job)
		cell->context->call = NULL;
	free(cell->code);
	shown_free(&cell->shown);
	for (int i = 0; i < 2; i++)
		free(cell->before[i].data);
	free(cell);
	job->cell = NULL;
}

/* --- interruption, and clocks --- */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void context_interrupt(struct session *session, struct job *call, enum interruption why)
{
	struct cell *cell = call->cell;
	struct context *context = cell->context;
	uint64_t now = session_now_us();
	struct error unimportant;

	if (why > cell->interruption)
		cell->interruption = why;
	if (call->state != JOB_CALL || !context->job)
		return;
	sandbox_signal(&session->sandbox, context->job->id, SIGINT, &unimportant);
	cell->again_us = now + INTERRUPT_AGAIN_MS * 1000;
	if (why > INTERRUPTION_ASKED && cell->give_up_us == UINT64_MAX)
		cell->give_up_us = now + CONTEXT_OBEY_MS * 1000;
}

void context_cancel_call(struct session *session, struct job *job)
{
	if (job->state == JOB_CALL)
		context_interrupt(session, job, INTERRUPTION_CANCELLED);
	else
		job_free(job);
}

static uint64_t patience_ms(const struct job *call)
{
	uint64_t timeout_ms = call->spec.execs[0].timeout_ms;

	return timeout_ms && timeout_ms < CONTEXT_PATIENCE_MS ? CONTEXT_PATIENCE_MS : timeout_ms;
}

void context_set_patience(struct job *job)
{
	job->deadline_us = patience_ms(job) ? session_now_us() + patience_ms(job) * 1000 : UINT64_MAX;
}

/* Of a driver that is not ready: refuses those that have waited long enough. Returns when to come again. */
static uint64_t check_patience(struct session *session, const struct context *context, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];
		struct error err;

		if (job->state != JOB_WAITING || job->cell->context != context)
			continue;
		if (now < job->deadline_us) {
			next = earliest(next, job->deadline_us);
			continue;
		}
		error_set(&err, 0, "the context \"%s\" was not ready in %llu s, and the code was not run", context->name,
			(unsigned long long)patience_ms(job) / 1000);
		error_hint(&err,
			"it still starts; interrupt it (context_interrupt, nsbox session context interrupt) to end that");
		context_refuse_call(job, &err);
	}
	return next;
}

static void check_call(struct session *session, struct context *context, uint64_t now)
{
	struct job *call = context->call;
	struct cell *cell = call->cell;
	struct error unimportant;

	if (now >= call->deadline_us) {
		exec_add_hit(call->exec, LIMIT_TIME, call->spec.execs[0].timeout_ms,
			(now - call->started_us) / 1000, "clock");
		call->deadline_us = UINT64_MAX;
		context_interrupt(session, call, INTERRUPTION_TIMEOUT);
	}
	if (now >= cell->again_us) {
		cell->again_us = UINT64_MAX;
		sandbox_signal(&session->sandbox, context->job->id, SIGINT, &unimportant);
	}
	if (now >= cell->give_up_us) {
		cell->give_up_us = UINT64_MAX;
		context_end_driver(session, context,
			cell->interruption == INTERRUPTION_CANCELLED ? ENDED_CANCELLED
								     : ENDED_TIMEOUT,
			"its code did not stop when it was interrupted");
	}
}

static void shift(uint64_t *clock, uint64_t by_us)
{
	*clock += *clock != UINT64_MAX ? by_us : 0;
}

void contexts_shift_clocks(struct session *session, uint64_t by_us)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_WAITING)
			shift(&session->jobs[i].deadline_us, by_us);
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &session->contexts[i];

		shift(&context->start_until_us, by_us);
		shift(&context->deaf_until_us, by_us);
		if (!context_call_runs(context))
			continue;
		context->call->started_us += by_us;
		shift(&context->call->deadline_us, by_us);
		shift(&context->call->cell->again_us, by_us);
		shift(&context->call->cell->give_up_us, by_us);
	}
}

uint64_t contexts_check_clocks(struct session *session, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	if (pause_active(session))
		return next;
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &session->contexts[i];
		struct job *call = context->call;

		if (context->state == CONTEXT_NONE || !context->job)
			continue;
		if (context->state == CONTEXT_READY && !call &&
			(call = next_call(session, context))) {
			context->call = call;
			job_start(session, call);
		}
		if (context->state == CONTEXT_STARTING) {
			if (now >= context->start_until_us)
				context_end_driver(session, context, ENDED_SIGNALED,
					"its driver was not ready in 60 s");
			next = earliest(next, context->start_until_us > now
						      ? context->start_until_us
						      : UINT64_MAX);
			next = earliest(next, check_patience(session, context, now));
		}
		if (now >= context->deaf_until_us) {
			context->deaf_until_us = UINT64_MAX;
			context_end_driver(session, context, ENDED_SIGNALED,
				"its driver has closed its pipes");
		}
		next = earliest(next, context->deaf_until_us);
		if (!context_call_runs(context))
			continue;
		check_call(session, context, now);
		call = context->call;
		next = earliest(next, earliest(call->deadline_us, earliest(call->cell->again_us,
									  call->cell->give_up_us)));
	}
	return next;
}

/* --- results --- */

/* The call during which it ended has ended as it has. */
void context_end_call(struct session *session, struct context *context, struct job *call,
	const struct job *driver)
{
	const struct exec_result *how = &driver->result.execs[driver->index];
	struct exec_result *exec = call->exec;

	call->cell->context_ended = true;
	exec->ended_by = how->ended_by;
	exec->exit_code = how->ended_by == ENDED_EXITED ? how->exit_code : -1;
	exec->signal = how->signal;
	exec->error = how->error;
	/* Of the interrupt, which an interpreter may know no other answer to. */
	if (call->cell->interruption == INTERRUPTION_TIMEOUT && how->ended_by == ENDED_SIGNALED && how->signal == SIGINT) {
		exec->ended_by = ENDED_TIMEOUT;
		exec->signal = 0;
	}
	for (size_t i = 0; i < how->hits_count; i++)
		exec_add_hit(exec, how->hits[i].limit, how->hits[i].value, how->hits[i].used,
			how->hits[i].known_from);
	snprintf(call->cell->note, sizeof call->cell->note, "the context has ended: %.*s",
		ERROR_TEXT_MAX - 32, context->how);
	exec->usage.memory_peak_bytes = how->usage.memory_peak_bytes;
	end_call(session, call);
}

/* Nobody has been killed, and what the driver has used since it began is not this call's. */
static void correct_result(const struct job *job, json_t *object)
{
	static const char killed[] = "killed: ";
	const char *message = json_string_value(json_object_get(object, "message"));
	json_t *usage = json_object_get(object, "usage");
	cleanup_free char *instead = NULL;

	if (job->cell->context_ended)
		return;
	json_object_set_new(usage, "cpu_user_ms", json_null());
	json_object_set_new(usage, "cpu_system_ms", json_null());
	if (job->cell->status == CELL_INTERRUPTED && job->exec->ended_by == ENDED_SIGNALED) {
		json_object_set_new(object, "message", json_string("interrupted"));
		return;
	}
	if (!message || strncmp(message, killed, sizeof killed - 1) != 0)
		return;
	instead = xasprintf("interrupted: %s", message + sizeof killed - 1);
	json_object_set_new(object, "message", json_string(instead));
}

/* What there is to say of the context itself; malloc'd, or NULL. */
static char *take_note(struct cell *cell)
{
	static const char anew[] = "the context was started anew after a restore: its variables are gone";

	if (!cell->context->anew)
		return cell->note[0] ? xstrdup(cell->note) : NULL;
	cell->context->anew = false;
	return xasprintf("%s%s%s", anew, cell->note[0] ? "; " : "", cell->note);
}

void context_set_result(const struct job *job, json_t *object)
{
	static const char *const statuses[] = {
		[CELL_OK] = "ok", [CELL_ERROR] = "error", [CELL_INTERRUPTED] = "interrupted"};
	static const char *const streams[] = {"stdout", "stderr"};
	struct cell *cell = job->cell;
	const struct context *context = cell->context;
	cleanup_free char *note = take_note(cell);
	bool ended = cell->context_ended || run_result_last(&job->result)->ended_by == ENDED_SETUP;
	json_t *told = json_pack("{s:s, s:s, s:I, s:s, s:s?}", "context", context->name, "language",
		context->language, "call", (json_int_t)cell->number, "status",
		ended ? "ended" : statuses[cell->status], "note", note);

	shown_to_json(&cell->shown, told);
	for (int i = 0; i < 2; i++)
		if (cell->before[i].total > 0) {
			json_t *before = json_object_get(told, "before") ?: json_object();

			captured_to_json(before, streams[i], &cell->before[i]);
			if (!json_object_get(told, "before"))
				json_object_set_new(told, "before", before);
		}
	json_object_set_new(object, "cell", told);
	correct_result(job, object);
}
