/* SPDX-License-Identifier: MIT */
/* What is asked of contexts: {"op": "context"}, see session.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "session/contexts.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/parse.h"

enum {
	RESTART_WAIT_MS = CONTEXT_START_MS + 15 * 1000,
	CODE_MAX = 16 << 20, /* bytes of a cell */
};

/* --- names --- */

static struct context *find(struct session *session, const char *name)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (session->contexts[i].state != CONTEXT_NONE &&
			strcmp(session->contexts[i].name, name) == 0)
			return &session->contexts[i];
	return NULL;
}

static struct context *find_generation(struct session *session, json_int_t generation)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (session->contexts[i].state != CONTEXT_NONE &&
			session->contexts[i].generation == generation)
			return &session->contexts[i];
	return NULL;
}

static bool name_valid(const char *name)
{
	size_t length =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return length >= 1 && length <= CONTEXT_NAME_MAX && !name[length];
}

static const char *name_of(const json_t *request, struct error *err)
{
	const char *name = json_string_value(json_object_get(request, "context"));
	char buffer[QUOTED_MAX];

	if (name && name_valid(name))
		return name;
	error_set(err, 0,
		"%s cannot be the name of a context: expected 1 to %d letters, digits and _ . -",
		quoted(name ?: "", buffer), CONTEXT_NAME_MAX);
	return NULL;
}

static bool is_from_mcp(const json_t *request)
{
	return strcmp(json_string_value(json_object_get(request, "from")) ?: "", "mcp") == 0;
}

static int unknown(const char *name, const json_t *request, struct error *err)
{
	error_set(err, 0, "there is no context \"%s\" in this %s", name, is_from_mcp(request) ? "sandbox" : "session");
	return error_hint(err, "%s lists those that there are",
		is_from_mcp(request) ? "context_list" : "nsbox session context ls");
}

/* --- the list --- */

static const char *state_name(const struct context *context)
{
	switch (context->state) {
	case CONTEXT_STARTING:
		return "starting";
	case CONTEXT_READY:
		if (context_call_runs(context))
			return context->call->cell->interruption ? "interrupted" : "busy";
		return "idle";
	case CONTEXT_ENDING:
		return context->restarts ? "restarting" : "ending";
	case CONTEXT_NONE:
	case CONTEXT_ENDED:
		break;
	}
	return "ended";
}

static json_int_t count_waiting(const struct session *session, const struct context *context)
{
	json_int_t count = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		count += session->jobs[i].state == JOB_WAITING &&
			 session->jobs[i].cell->context == context;
	return count;
}

static json_t *describe(const struct session *session, const struct context *context)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "name", context->name,
		"language", context->language, "state", state_name(context), "calls",
		(json_int_t)context->cells, "waiting", count_waiting(session, context), "since_s",
		(double)((session_now_us() - context->since_us) / 1000) / 1000);

	if (context->job)
		json_object_set_new(object, "process", json_integer(context->job->process));
	if (context->state == CONTEXT_ENDED)
		json_object_set_new(object, "ended", json_string(context->how));
	return object;
}

static void request_list(struct session *session, struct connection *connection)
{
	json_t *list = json_array();

	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (session->contexts[i].name[0])
			json_array_append_new(list, describe(session, &session->contexts[i]));
	answer(connection, json_pack("{s:o}", "contexts", list));
}

/* --- code --- */

/* The name of the language that is asked for, or the session's; NULL with *err. Malloc'd. */
static char *choose_language(
	const struct session *session, const json_t *request, struct error *err)
{
	const char *name = json_string_value(json_object_get(request, "language"));
	struct language *language;
	char *chosen;

	if (!name && session->options.language[0])
		name = session->options.language;
	if (!name) {
		error_set(err, 0, "which language is the code in?");
		error_hint(err, "name it with --lang");
		return NULL;
	}
	if (language_load(name, &language, err) < 0)
		return NULL;
	chosen = xstrdup(language_name(language));
	language_free(language);
	return chosen;
}

static struct context *take_place(struct session *session, struct error *err)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &session->contexts[i];

		if (context->state != CONTEXT_NONE && (context->name[0] || context->call))
			continue;
		context_free(context);
		return context;
	}
	error_set(err, 0, "the session has %d contexts already", CONTEXTS_MAX);
	error_hint(err, "end some of them, or use one that is there");
	return NULL;
}

static struct context *make_context(
	struct session *session, const char *name, const json_t *request, struct error *err)
{
	cleanup_free char *language = choose_language(session, request, err);
	struct context *context = language ? take_place(session, err) : NULL;

	if (!context)
		return NULL;
	snprintf(context->name, sizeof context->name, "%s", name);
	snprintf(context->language, sizeof context->language, "%s", language);
	if (context_start(session, context, err) < 0) {
		context_free(context);
		return NULL;
	}
	/* It may have failed at once. */
	if (context->name[0])
		return context;
	error_set(err, 0, "%s", context->how);
	return NULL;
}

/* One that is there, and is to be asked in a language, is of that language. */
static int check_language(const struct session *session, const struct context *context,
	const json_t *request, struct error *err)
{
	cleanup_free char *language = NULL;

	if (!json_object_get(request, "language"))
		return 0;
	language = choose_language(session, request, err);
	if (!language || strcmp(language, context->language) == 0)
		return language ? 0 : -1;
	error_set(err, 0, "the context \"%s\" is one of %s, not of %s", context->name,
		context->language, language);
	return error_hint(err, "give the other language a context of another name");
}

/* One that a restore has ended. Its variables are gone, and whoever uses it next is told so, once. */
static struct context *begin_restored(struct session *session, struct context *context, struct error *err)
{
	context->reborn = true;
	if (context_start(session, context, err) < 0)
		return NULL;
	context->anew = true;
	if (context->state != CONTEXT_ENDED)
		return context;
	context_set_ended(context, err);
	return NULL;
}

/* The context of a call: it is made where there is none. NULL with *err. */
static struct context *context_for_call(
	struct session *session, const json_t *request, struct error *err)
{
	const char *name = name_of(request, err);
	struct context *context = name ? find(session, name) : NULL;

	if (!name)
		return NULL;
	if (!context)
		return make_context(session, name, request, err);
	if (check_language(session, context, request, err) < 0)
		return NULL;
	if (context->state == CONTEXT_ENDED && context->restored)
		return begin_restored(session, context, err);
	if (context->state == CONTEXT_ENDED) {
		context_set_ended(context, err);
		if (is_from_mcp(request))
			error_hint(err, "context_restart begins it anew, without what was in it");
		else
			error_hint(err, "nsbox session context restart %s %s begins it anew, without what was in it", session->id,
				context->name);
		return NULL;
	}
	if (context->state == CONTEXT_ENDING && !context->restarts) {
		error_set(err, 0, "the context \"%s\" is being ended", context->name);
		return NULL;
	}
	return context;
}

static int take_code(const json_t *request, struct cell *cell, struct error *err)
{
	const json_t *code = json_object_get(request, "code");

	if (!json_is_string(code))
		return error_set(err, 0, "a call of a context has \"code\"");
	cell->length = json_string_length(code);
	if (cell->length > CODE_MAX)
		return error_set(err, 0, "the code is larger than %d MiB", CODE_MAX >> 20);
	cell->code = xmemdup(json_string_value(code), cell->length);
	return 0;
}

static int take_call(
	struct session *session, struct job *job, const json_t *request, struct error *err)
{
	struct cell *cell = xcalloc(1, sizeof *cell);

	job->cell = cell;
	job->state = JOB_WAITING;
	cell->order = ++session->next_order;
	cell->again_us = cell->give_up_us = UINT64_MAX;
	if (take_code(request, cell, err) < 0 || job_prepare_call(session, job, request, err) < 0)
		return -1;
	cell->context = context_for_call(session, request, err);
	return cell->context ? 0 : -1;
}

static void request_run(
	struct session *session, struct connection *connection, const json_t *request)
{
	struct error err = {0};
	struct job *job = job_take(session, &err);

	if (!job || take_call(session, job, request, &err) < 0) {
		answer_failure(connection, &err);
		if (job)
			job_free(job);
		return;
	}
	job->connection = connection;
	context_set_patience(job);
}

/* --- interruption, and ends --- */

/* Until context_waited has an answer. */
static void wait_for(struct connection *connection, const struct context *context,
	const json_t *request, unsigned wait_ms)
{
	connection->request = json_deep_copy(request);
	json_object_set_new(connection->request, "generation", json_integer(context->generation));
	json_object_set_new(connection->request, "call", json_integer(context->cells));
	connection->wait_until_us = session_now_us() + wait_ms * 1000ULL;
}

static void request_interrupt(struct session *session, struct connection *connection,
	struct context *context, const json_t *request)
{
	struct job *call = context->call;
	bool begins = call && (call->state == JOB_BEFORE || call->state == JOB_FILES);

	if (context->state == CONTEXT_STARTING) {
		context_end_driver(session, context, ENDED_CANCELLED, "its start was interrupted");
		wait_for(connection, context, request, RESTART_WAIT_MS);
		json_object_set_new(connection->request, "starts", json_true());
		return;
	}
	if (!begins && !context_call_runs(context)) {
		answer(connection,
			json_pack("{s:b, s:s}", "interrupted", 0, "state", state_name(context)));
		return;
	}
	context_interrupt(session, call, INTERRUPTION_ASKED);
	wait_for(connection, context, request, CONTEXT_OBEY_MS);
}

/* The call that runs ends with the driver; those that wait are told. */
static void begin_end(struct session *session, struct context *context, bool restarts)
{
	struct error err;

	error_set(&err, 0, "the context \"%s\" was %s before this code was run", context->name,
		restarts ? "restarted" : "ended");
	context_refuse_waiting(session, context, &err);
	context->restarts = restarts;
	if (context->state != CONTEXT_ENDED) {
		context->state = CONTEXT_ENDING;
		context_end_driver(session, context, ENDED_CANCELLED,
			restarts ? "a restart was asked for" : "its end was asked for");
	} else if (restarts) {
		context_begin_again(session, context);
	} else {
		context->name[0] = '\0';
	}
}

static void request_end(struct session *session, struct connection *connection,
	struct context *context, const json_t *request, bool restarts)
{
	wait_for(connection, context, request, RESTART_WAIT_MS);
	begin_end(session, context, restarts);
}

bool context_only_looks(const json_t *request)
{
	return strcmp(json_string_value(json_object_get(request, "action")) ?: "", "list") == 0;
}

void context_request(struct session *session, struct connection *connection, const json_t *request)
{
	const char *action = json_string_value(json_object_get(request, "action")) ?: "", *name;
	struct error err = {0};
	struct context *context;

	if (strcmp(action, "list") == 0) {
		request_list(session, connection);
		return;
	}
	if (strcmp(action, "run") == 0) {
		request_run(session, connection, request);
		return;
	}
	name = name_of(request, &err);
	context = name ? find(session, name) : NULL;
	if (name && !context)
		unknown(name, request, &err);
	if (!context)
		answer_failure(connection, &err);
	else if (strcmp(action, "interrupt") == 0)
		request_interrupt(session, connection, context, request);
	else if (strcmp(action, "restart") == 0 || strcmp(action, "end") == 0)
		request_end(session, connection, context, request, action[0] == 'r');
	else {
		error_set(&err, 0, "there is no such request to a context");
		answer_failure(connection, &err);
	}
}

static void interrupt_waited(
	struct connection *connection, const struct context *context, bool overdue)
{
	json_int_t call = json_integer_value(json_object_get(connection->request, "call"));
	bool starts = json_is_true(json_object_get(connection->request, "starts"));
	bool runs = context && context->call && context->call->cell->interruption &&
		    context->cells <= call + 1 &&
		    (context->call->state == JOB_CALL || context->call->state == JOB_BEFORE);

	json_t *object;

	if (starts)
		runs = context && context->job;
	if (runs && !overdue)
		return;
	object = json_pack("{s:b, s:b, s:s}", "interrupted", 1, "obeyed", !runs, "state",
		context ? state_name(context) : "ended");
	if (starts)
		json_object_set_new(object, "was_starting", json_true());
	answer(connection, object);
}

static void restart_waited(
	struct session *session, struct connection *connection, const struct context *context)
{
	struct error err = {0};

	if (!context || (context->state == CONTEXT_ENDED)) {
		error_set(&err, 0, "%s", context ? context->how : "the context has ended again");
		answer_failure(connection, &err);
	} else {
		answer(connection, describe(session, context));
	}
}

/* --- answers --- */

void context_waited(struct session *session, struct connection *connection, uint64_t now)
{
	const char *action = json_string_value(json_object_get(connection->request, "action"));
	const char *name = json_string_value(json_object_get(connection->request, "context"));
	struct context *old = find_generation(
		session, json_integer_value(json_object_get(connection->request, "generation")));
	struct context *context = find(session, name);
	bool overdue = now >= connection->wait_until_us;

	if (strcmp(action, "interrupt") == 0)
		interrupt_waited(connection, old, overdue);
	else if (strcmp(action, "end") == 0 && (!old || !old->name[0] || overdue))
		answer(connection, json_pack("{s:s}", "ended", name));
	else if (strcmp(action, "restart") == 0 &&
		 (!context || context->state == CONTEXT_READY || context->state == CONTEXT_ENDED ||
			 overdue))
		restart_waited(session, connection, context);
}
