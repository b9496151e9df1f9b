/* SPDX-License-Identifier: MIT */
/*
 * Pause and resume. Nothing of the code runs meanwhile, and nothing new begins in the sandbox; what it has is kept.
 * Where there is a cgroup the kernel holds it (cgroup.freeze of the commands' leaves), else the agent (sandbox/halt.h).
 *
 * States: PAUSE_NONE; PAUSE_STOPPING from when somebody wants a pause, in which what runs still comes to a stand;
 * PAUSE_STILL from then until nobody wants it. The clocks of commands, of work on files and of idleness stand in the
 * last two. Commands can be ended in all of them, and die of the limits and with the session.
 *
 * What a job would do inside next, once a command has ended or a file is written, waits for the end of the pause.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "sandbox/halt.h"
#include "sandbox/wire.h"
#include "session/supervise.h"
#include "util/error.h"

enum {
	LOOK_MS = 2, /* at what is being frozen */
	FREEZE_MS = 5000,
	AGENT_MS = HALT_MS + 15 * 1000, /* it may be at the end of a command, for which it has ten seconds */
};

bool pause_active(const struct session *session)
{
	return session->pause.state != PAUSE_NONE;
}

/* --- who waits --- */

static json_t *describe(const struct session *session)
{
	return json_pack("{s:b, s:s}", "paused", session->pause.holders & PAUSE_USER, "by",
		session->sandbox.cgroup.path[0] ? "cgroup" : "signals");
}

/* Those that wait for `wish`: *err, or that it has come. */
static void answer_waiting(struct session *session, enum pause_wish wish, const struct error *err)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &session->connections[i];

		if (connection->fd < 0 || connection->pausing != wish)
			continue;
		connection->pausing = 0;
		if (err)
			answer_failure(connection, err);
		else
			answer(connection, describe(session));
	}
}

static void tell_holder(struct session *session, const struct error *err)
{
	pause_told *told = session->pause.told;

	session->pause.told = NULL;
	if (told)
		told(session, session->pause.data, err);
}

/* --- its states --- */

static void go_on(struct session *session)
{
	struct pause *pause = &session->pause;
	struct error err = {0};
	int r;

	jobs_shift_clocks(session, session_now_us() - pause->since_us);
	session->used_us = session_now_us();
	pause->state = PAUSE_NONE;
	pause->look_us = pause->deadline_us = UINT64_MAX;
	pause->request = session_next_id(session);
	r = sandbox_resume(&session->sandbox, pause->request, &err);
	/* What is short of memory may be so for a moment, and what cannot go on is of no use. */
	if (r < 0)
		r = sandbox_resume(&session->sandbox, pause->request, &err);
	if (r < 0) {
		error_context(&err, "the session ends, as what runs in it cannot be let go on");
		answer_waiting(session, WISH_RESUME, &err);
		session->ending = true;
		return;
	}
	pause->unanswered += (unsigned)r;
	if (r > 0)
		pause->deadline_us = session_now_us() + AGENT_MS * 1000;
	else
		answer_waiting(session, WISH_RESUME, NULL);
	jobs_resumed(session);
	serve_held(session);
}

static void fail(struct session *session, const struct error *err)
{
	session->pause.holders = 0;
	answer_waiting(session, WISH_PAUSE, err);
	/* First, as another that wants the same may have been held. */
	tell_holder(session, err);
	go_on(session);
}

static void still(struct session *session)
{
	session->pause.state = PAUSE_STILL;
	session->pause.look_us = session->pause.deadline_us = UINT64_MAX;
	answer_waiting(session, WISH_PAUSE, NULL);
	tell_holder(session, NULL);
}

static void stop(struct session *session)
{
	struct pause *pause = &session->pause;
	struct error err = {0};
	int r;

	pause->state = PAUSE_STOPPING;
	pause->since_us = session_now_us();
	pause->request = session_next_id(session);
	r = sandbox_pause(&session->sandbox, pause->request, &err);
	if (r < 0) {
		fail(session, &err);
		return;
	}
	pause->unanswered += (unsigned)r;
	pause->look_us = r == 0 ? pause->since_us : UINT64_MAX;
	pause->deadline_us = pause->since_us + (r == 0 ? FREEZE_MS : AGENT_MS) * 1000ULL;
}

static void take(struct session *session, enum pause_holder holder)
{
	session->pause.holders |= holder;
	if (session->pause.state == PAUSE_NONE)
		stop(session);
	else if (session->pause.state == PAUSE_STILL)
		still(session);
}

void pause_take(struct session *session, enum pause_holder holder, pause_told *told, void *data)
{
	session->pause.told = told;
	session->pause.data = data;
	take(session, holder);
}

void pause_release(struct session *session, enum pause_holder holder)
{
	bool held = session->pause.holders & holder;

	session->pause.holders &= ~(unsigned)holder;
	if (holder != PAUSE_USER)
		session->pause.told = NULL;
	if (held && !session->pause.holders)
		go_on(session);
	else if (held)
		serve_held(session); /* or it would be held until the user resumes */
}

/* --- what comes of it --- */

static void overdue(struct session *session)
{
	struct error err = {0};

	if (session->pause.state == PAUSE_NONE) {
		error_set(&err, 0, "the first process of the sandbox does not answer");
		session->pause.deadline_us = UINT64_MAX;
		answer_waiting(session, WISH_RESUME, &err);
		return;
	}
	error_set(&err, 0, "not paused: some processes of the session did not come to a stand, and all go on");
	error_hint(&err, "one may wait for a disk that does not answer; try again later, or end it");
	fail(session, &err);
}

uint64_t pause_check_clock(struct session *session)
{
	struct pause *pause = &session->pause;
	uint64_t now = session_now_us();

	if (pause->state == PAUSE_STOPPING && now >= pause->look_us) {
		if (cgroup_runs_frozen(&session->sandbox.cgroup))
			still(session);
		else
			pause->look_us = now + LOOK_MS * 1000;
	}
	if (now >= pause->deadline_us)
		overdue(session);
	return pause->look_us < pause->deadline_us ? pause->look_us : pause->deadline_us;
}

static void not_paused(struct session *session, int errnum)
{
	struct error err = {0};

	if (errnum == E2BIG)
		error_set(&err, 0, "not paused: the session has more processes than can be looked at");
	else
		error_set(&err, errnum, "not paused: some processes of the session could not be stopped, and all go on");
	error_hint(&err, "try again later, or end some of its commands");
	fail(session, &err);
}

bool pause_take_message(struct session *session, const struct agent_message *message, size_t length)
{
	struct pause *pause = &session->pause;
	bool paused = message->type == AGENT_PAUSED;

	if (length != offsetof(struct agent_message, error) || !pause->unanswered)
		return false;
	pause->unanswered--;
	/* One that a later request has overtaken. */
	if (message->id != pause->request)
		return pause->unanswered > 0;
	if (pause->unanswered || paused != pause_active(session))
		return false;
	if (!paused) {
		pause->deadline_us = UINT64_MAX;
		answer_waiting(session, WISH_RESUME, NULL);
	} else if (pause->state != PAUSE_STOPPING) {
		return false;
	} else if (message->value < 0) {
		not_paused(session, -message->value);
	} else {
		still(session);
	}
	return true;
}

/* --- requests --- */

void pause_request(struct session *session, struct connection *connection)
{
	if (session->pause.holders & PAUSE_USER && session->pause.state == PAUSE_STILL) {
		json_t *object = describe(session);

		json_object_set_new(object, "already", json_true());
		answer(connection, object);
		return;
	}
	connection->pausing = WISH_PAUSE;
	take(session, PAUSE_USER);
	serve_held(session);
}

void resume_request(struct session *session, struct connection *connection)
{
	if (!(session->pause.holders & PAUSE_USER)) {
		answer(connection, json_pack("{s:b, s:b}", "paused", 0, "already", 1));
		return;
	}
	connection->pausing = WISH_RESUME;
	pause_release(session, PAUSE_USER);
	/* It goes on when a snapshot is made, in a moment. */
	if (session->pause.holders)
		answer_waiting(session, WISH_RESUME, NULL);
}

void pause_begin_anew(struct session *session)
{
	struct pause *pause = &session->pause;

	answer_waiting(session, WISH_RESUME, NULL);
	pause->unanswered = 0;
	pause->look_us = pause->deadline_us = UINT64_MAX;
}

void pause_forget(struct session *session, struct connection *connection)
{
	bool wanted = false;

	if (connection->pausing != WISH_PAUSE)
		return;
	connection->pausing = 0;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		wanted |= session->connections[i].fd >= 0 && session->connections[i].pausing == WISH_PAUSE;
	if (!wanted)
		pause_release(session, PAUSE_USER);
}
