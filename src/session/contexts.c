/* SPDX-License-Identifier: MIT */
/* Contexts of a session, and their drivers: see contexts.h. Calls are in context_calls.c. */
#define _GNU_SOURCE
#include "session/contexts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/report.h"
#include "sandbox/account.h"
#include "session/program.h"
#include "session/supervise.h"
#include "util/cleanup.h"
#include "util/utf8.h"

enum {
	READ_CHUNK = 64 << 10,
	DEAF_MS =
		2000, /* for a driver that has closed one of its pipes to have ended, which is why most do */
};

/* --- the driver --- */

static void close_pipes(struct context *context)
{
	close_fd(&context->requests);
	close_fd(&context->answers);
	free(context->out);
	context->out = NULL;
	context->out_length = context->out_sent = 0;
	replies_free(&context->replies);
}

void context_free(struct context *context)
{
	close_pipes(context);
	for (int i = 0; i < 2; i++)
		capture_free(&context->before[i]);
	*context = (struct context){.state = CONTEXT_NONE, .requests = -1, .answers = -1};
}

static int make_pipe(int *ret_reader, int *ret_writer, struct error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe for a context");
	*ret_reader = ends[0];
	*ret_writer = ends[1];
	return 0;
}

int context_prepare_stdio(struct context *context, struct stdio *ret, struct error *err)
{
	close_fd(&ret->child[0]);
	if (make_pipe(&ret->child[0], &context->requests, err) < 0 ||
		make_pipe(&context->answers, &ret->fourth, err) < 0)
		return -1;
	if (fcntl(context->requests, F_SETFL, O_WRONLY | O_NONBLOCK) == 0 &&
		fcntl(context->answers, F_SETFL, O_RDONLY | O_NONBLOCK) == 0)
		return 0;
	error_set(err, errno, "making a pipe for a context");
	close_pipes(context); /* or what is said last would be waited for */
	return -1;
}

/* Starts the driver of a context whose name and language are set. */
int context_start(struct session *session, struct context *context, struct error *err)
{
	struct job *job = job_take(session, err);

	if (!job)
		return -1;
	job->process = ++session->next_process;
	job->background = true;
	if (program_prepare_context(session, job, context->language, err) < 0) {
		job_free(job);
		return -1;
	}
	job_inherit_env(session, &job->spec.execs[0]);
	job->context = context;
	context->job = job;
	context->state = CONTEXT_STARTING;
	context->generation = ++session->next_generation;
	context->since_us = session_now_us();
	context->start_until_us = context->since_us + CONTEXT_START_MS * 1000ULL;
	context->deaf_until_us = UINT64_MAX;
	context->cells = 0;
	context->restarts = context->restored = context->anew = false;
	context->fault = NULL;
	context->how[0] = '\0';
	replies_init(&context->replies);
	for (int i = 0; i < 2; i++) {
		capture_free(&context->before[i]);
		capture_init(&context->before[i], CONTEXT_BEFORE_BYTES);
	}
	job_start(session, job);
	return 0;
}

/* Ends it with all that it has started; context_driver_ended comes then. */
void context_end_driver(
	struct session *session, struct context *context, enum ended_by ended_by, const char *fault)
{
	struct job *job = context->job;

	if (!job || job->stopped_by_us || job->cancelled)
		return;
	context->fault = fault;
	if (job->state != JOB_RUNNING) {
		job->cancelled = true; /* it is being written: jobs.c */
		return;
	}
	if (ended_by == ENDED_SIGNALED)
		job->exec->signal = SIGKILL;
	job_end_command(session, job, ended_by);
}

bool context_call_runs(const struct context *context)
{
	return context->call && context->call->state == JOB_CALL;
}

int context_take_output(struct context *context, int stream, const void *data, size_t length)
{
	struct job *call = context->call;

	if (!context_call_runs(context))
		return capture_add(&context->before[stream], data, length);
	result_keep(&call->result, stream, call->captures[stream].total, data, length);
	return capture_add(&call->captures[stream], data, length);
}

/* --- what it reads and writes --- */

static void take_reply(struct session *session, struct context *context, const struct reply *reply)
{
	if (reply->kind == REPLY_READY) {
		if (context->state == CONTEXT_STARTING)
			context->state = CONTEXT_READY;
	} else if (!context_call_runs(context)) {
		return; /* all is being ended, and the call was before its driver */
	} else if (reply->kind == REPLY_END && context->out) {
		context->replies.fault = "it ends code that it has not read";
	} else if (reply->kind == REPLY_END) {
		context_cell_ended(session, context, reply->status);
	} else {
		context_take_shown(session, context, reply);
	}
}

/* Returns false when nothing more is there, now or ever. */
static bool read_replies(struct session *session, struct context *context)
{
	static uint8_t buffer[READ_CHUNK];
	const uint8_t *next = buffer;
	ssize_t n = read(context->answers, buffer, sizeof buffer);
	enum replies_found found = REPLIES_MORE;
	struct reply reply;
	size_t length;

	if (n < 0)
		return errno == EINTR;
	if (n == 0) {
		close_fd(&context->answers);
		context->deaf_until_us = session_now_us() + DEAF_MS * 1000;
		return false;
	}
	for (length = (size_t)n; length > 0 || found == REPLIES_ONE;) {
		found = replies_take(&context->replies, &next, &length, &reply);
		if (found == REPLIES_NONSENSE) {
			close_fd(&context->answers);
			context_end_driver(
				session, context, ENDED_SIGNALED, context->replies.fault);
			return false;
		}
		if (found == REPLIES_MORE)
			break;
		take_reply(session, context, &reply);
	}
	return true;
}

void context_write_requests(struct session *session, struct context *context)
{
	while (context->out_sent < context->out_length) {
		ssize_t n = write(context->requests, context->out + context->out_sent,
			context->out_length - context->out_sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* Else it has closed its end, and that is told by how it ends. */
			if (errno != EPIPE)
				context_end_driver(
					session, context, ENDED_SIGNALED, "the code could not be written to it");
			close_fd(&context->requests);
			context->deaf_until_us = session_now_us() + DEAF_MS * 1000;
			break;
		}
		context->out_sent += (size_t)n;
	}
	free(context->out);
	context->out = NULL;
	context->out_length = context->out_sent = 0;
}

void context_fill_poll(const struct context *context, struct pollfd ret[CONTEXT_POLLFDS])
{
	for (int i = 0; i < 2; i++)
		ret[i] = (struct pollfd){.fd = context->job->stdio.captured[i], .events = POLLIN};
	ret[2] = (struct pollfd){.fd = context->out ? context->requests : -1, .events = POLLOUT};
	/* What comes after the end of a call is done inside: after a pause. */
	ret[3] = (struct pollfd){.fd = pause_active(context->job->session) ? -1 : context->answers,
		.events = POLLIN};
}

void context_step(
	struct session *session, struct context *context, const struct pollfd fds[CONTEXT_POLLFDS])
{
	for (int i = 0; i < 2; i++)
		if (fds[i].revents)
			job_read_captured(context->job, i);
	if (fds[2].revents && context->out)
		context_write_requests(session, context);
	if (fds[3].revents && context->answers >= 0)
		read_replies(session, context);
}

/* --- its end --- */

/* Limits are the session's: which option raises one is told with the result of the call. */
static void cut_advice(char *sentence)
{
	static const char advice[] = "; raise it with --";
	char *found;

	while ((found = strstr(sentence, advice))) {
		const char *rest = found + strlen(advice);

		rest += strspn(rest, "abcdefghijklmnopqrstuvwxyz-");
		memmove(found, rest, strlen(rest) + 1);
	}
}

static void describe_end(struct context *context, const struct job *job)
{
	const struct exec_result *exec = &job->result.execs[job->index];
	char sentence[ERROR_TEXT_MAX];

	exec_result_sentence(&job->result, job->index, &job->spec, sentence, sizeof sentence);
	cut_advice(sentence);
	if (context->replies.fault)
		snprintf(context->how, sizeof context->how, "its driver speaks nonsense: %s",
			context->replies.fault);
	else if (context->fault)
		snprintf(context->how, sizeof context->how, "%s", context->fault);
	else if (exec->ended_by == ENDED_SETUP || exec->exec_errno)
		snprintf(context->how, sizeof context->how, "it %s: %.*s",
			context->replies.ready ? "was ended" : "could not be run",
			ERROR_TEXT_MAX / 2, sentence);
	else if (exec->ended_by == ENDED_EXITED)
		snprintf(context->how, sizeof context->how, "it exited with status %d%s%.*s",
			exec->exit_code, sentence[0] ? "; " : "", ERROR_TEXT_MAX / 2, sentence);
	else
		snprintf(context->how, sizeof context->how, "it was %.*s", ERROR_TEXT_MAX - 8,
			sentence);
}

void context_set_ended(const struct context *context, struct error *err)
{
	error_set(err, 0, "the context \"%s\" has ended: %.*s", context->name, ERROR_TEXT_MAX / 2,
		context->how);
	error_hint(err,
		"restart it (context_restart, nsbox session context restart): it begins anew, without what was in it");
}

/* What the driver said before it was ready, the last line of it. */
static void set_not_started(const struct context *context, struct error *err)
{
	const struct capture *errors = &context->before[1];
	size_t length;
	cleanup_free char *line = utf8_replace_invalid(
		(const char *)errors->last_line, errors->last_line_length, &length);

	error_set(err, 0, "the context \"%s\" could not be started: %.*s%s%s", context->name,
		ERROR_TEXT_MAX / 2, context->how, length ? "; it wrote: " : "", line);
}

/* Nobody has a state in it that could be missed: it is as if it had never been. */
static void forget_unborn(struct session *session, struct context *context)
{
	struct error err;

	set_not_started(context, &err);
	context_refuse_waiting(session, context, &err);
	snprintf(context->how, sizeof context->how, "%s", err.text);
}

void context_begin_again(struct session *session, struct context *context)
{
	struct error err = {0};

	context->reborn = true;
	if (context_start(session, context, &err) == 0)
		return;
	snprintf(context->how, sizeof context->how, "it could not be started: %.*s",
		ERROR_TEXT_MAX / 2, err.text);
	context->state = CONTEXT_ENDED;
	context_refuse_waiting(session, context, &err);
}

void contexts_begin_restore(struct session *session)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (session->contexts[i].job)
			session->contexts[i].restored = true;
}

/* One that had no state yet is gone, as elsewhere. */
void contexts_end_restore(struct session *session, const char *snapshot)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &session->contexts[i];

		if (context->state == CONTEXT_ENDED && context->restored)
			snprintf(context->how, sizeof context->how,
				"the session was restored to the snapshot %s; the next code begins it anew", snapshot);
	}
}

void context_driver_ended(struct session *session, struct job *job)
{
	struct context *context = job->context;
	struct job *call;
	struct error err;
	bool born;

	/* What it said last. */
	while (context->answers >= 0 && read_replies(session, context))
		;
	born = context->replies.ready;
	call = context->call;
	describe_end(context, job);
	if (call && call->state == JOB_CALL)
		context_end_call(session, context, call, job);
	if (session->ending)
		session_set_ended(session, &err);
	else
		context_set_ended(context, &err);
	call = context->call;
	if (call && (call->state == JOB_BEFORE || call->state == JOB_FILES))
		context_refuse_call(call, &err);
	close_pipes(context);
	context->job = NULL;
	context->since_us = session_now_us();
	job_forget_driver(session, job);
	if (session->ending || (context->state == CONTEXT_ENDING && !context->restarts)) {
		context_refuse_waiting(session, context, &err);
		context->state = CONTEXT_ENDED;
		context->name[0] = '\0'; /* gone once its last call has its answer */
	} else if (context->state == CONTEXT_ENDING) {
		context_begin_again(session, context);
	} else if (!born && !context->reborn) {
		forget_unborn(session, context);
		context->state = CONTEXT_ENDED;
		context->name[0] = '\0';
	} else {
		context_refuse_waiting(session, context, &err);
		context->state = CONTEXT_ENDED;
	}
}
