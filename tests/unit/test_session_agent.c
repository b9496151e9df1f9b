/* SPDX-License-Identifier: MIT */
/*
 * What the first process of a session's sandbox may say, as code that has taken it over would say it: what makes no sense
 * is told from what does, ends nothing of others', and is never taken for more than it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/wire.h"
#include "session/supervise.h"

enum { BRIEF = offsetof(struct agent_message, error), WHOLE = sizeof(struct agent_message) };

static struct spec own;

/* A session in which commands 1 to `count` run. */
static struct session *new_session(size_t count)
{
	static struct session session;

	spec_init(&own);
	session = (struct session){.spec = &own,
		.options = {.idle_ms = 0},
		.sandbox = SANDBOX_NONE,
		.proc_fd = -1,
		.devpts_fd = -1,
		.space = SPACE_NONE,
		.tick_us = UINT64_MAX,
		.activity = 1};
	for (size_t i = 0; i < count; i++) {
		struct error err;
		struct job *job = job_take(&session, &err);

		assert_non_null(job);
		job->spec.execs_count = 1;
		exec_add_arg(&job->spec.execs[0], "true");
		job->spec.execs[0].phase = "run";
		job->result.execs_count = 1;
		job->exec = &job->result.execs[0];
		job->state = JOB_RUNNING;
		job->id = (uint32_t)i + 1;
		job->process = (uint32_t)i + 1;
		for (int stream = 0; stream < 2; stream++)
			capture_init(&job->captures[stream], 1024);
	}
	return &session;
}

static size_t running(const struct session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		count += session->jobs[i].state == JOB_RUNNING;
	return count;
}

static void end(struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		job_free(&session->jobs[i]);
	spec_free(&own);
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct session *session = new_session(2);
	static const struct {
		struct agent_message message;
		size_t length;
	} wrong[] = {
		{{.type = AGENT_ENDED, .id = 0}, BRIEF},
		{{.type = AGENT_ENDED, .id = 3}, BRIEF},                     /* none of that number runs */
		{{.type = AGENT_ENDED, .id = UINT32_MAX}, BRIEF},
		{{.type = AGENT_ENDED, .id = 1}, WHOLE},                     /* as long as another kind */
		{{.type = AGENT_ENDED, .id = 1}, BRIEF - 1},
		{{.type = AGENT_ENDED, .id = 1, .value = -1}, BRIEF},        /* no status that a process can have */
		{{.type = AGENT_ENDED, .id = 1, .value = 0x137f}, BRIEF},    /* stopped, not ended */
		{{.type = AGENT_ENDED, .id = 1, .value = 0xffff}, BRIEF},    /* goes on */
		{{.type = AGENT_ENDED, .id = 1, .value = 0x10000}, BRIEF},
		{{.type = AGENT_STARTED, .id = 1, .value = 0}, BRIEF},
		{{.type = AGENT_STARTED, .id = 1, .value = 1}, BRIEF},       /* itself */
		{{.type = AGENT_STARTED, .id = 1, .value = -5}, BRIEF},
		{{.type = AGENT_STARTED, .id = 1, .value = 5}, WHOLE},
		{{.type = AGENT_NOT_STARTED, .id = 1, .value = ENOENT}, BRIEF},
		{{.type = AGENT_NOT_STARTED, .id = 1, .value = 0}, WHOLE},
		{{.type = AGENT_EXEC_FAILED, .id = 1, .value = -ENOENT}, WHOLE},
		{{.type = AGENT_EXEC_FAILED, .id = 1, .value = 100000}, WHOLE},
		{{.type = AGENT_CREATED, .id = 1}, BRIEF},                   /* it is there already */
		{{.type = AGENT_FAILED, .id = 1, .value = 1}, WHOLE},
		{{.type = 0, .id = 1}, BRIEF},
		{{.type = UINT32_MAX, .id = 1}, BRIEF},
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (job_take_message(session, &wrong[i].message, wrong[i].length))
			fail_msg("message %zu is taken", i);
		assert_int_equal(running(session), 2);
	}
	end(session);
}

static void an_end_ends_one_command_once(void **state)
{
	struct session *session = new_session(3);
	const struct agent_message started = {.type = AGENT_STARTED, .id = 2, .value = 7},
				   ended = {.type = AGENT_ENDED, .id = 2, .value = 3 << 8};

	(void)state;
	assert_true(job_take_message(session, &started, BRIEF));
	assert_false(job_take_message(session, &started, BRIEF)); /* twice */
	assert_true(job_take_message(session, &ended, BRIEF));
	assert_int_equal(running(session), 2);
	assert_false(job_take_message(session, &ended, BRIEF));
	assert_int_equal(running(session), 2);
	end(session);
}

/* An error comes as an array that need not end. */
static void the_words_of_an_error_are_bounded(void **state)
{
	struct session *session = new_session(1);
	struct agent_message message = {.type = AGENT_EXEC_FAILED, .id = 1, .value = ENOENT};
	struct job *job = &session->jobs[0];

	(void)state;
	memset(message.error.text, 'x', sizeof message.error.text);
	memset(message.error.hint, 'y', sizeof message.error.hint);
	job->background = true; /* its result is kept */
	assert_true(job_take_message(session, &message, WHOLE));
	assert_int_equal(job->state, JOB_DONE);
	assert_true(strlen(job->result.execs[0].error.text) < ERROR_TEXT_MAX);
	assert_int_equal(job->result.execs[0].exit_code, 127);
	end(session);
}

/* Who wanted the pause still has what the next one would take. */
static void is_told_first(struct session *session, void *data, const struct error *err)
{
	const struct connection *held = &session->connections[0];

	assert_non_null(err);
	assert_true(held->held);
	assert_null(held->out);
	*(bool *)data = true;
}

static void a_pause_that_fails_is_told_before_others_go_on(void **state)
{
	struct session *session = new_session(0);
	struct agent_message failed = {.type = AGENT_PAUSED, .value = -E2BIG};
	bool told = false;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	session->sandbox.socket = ends[0];
	session->connections[0].held = true;
	session->connections[0].request = json_pack("{s:s}", "op", "none that there is");
	pause_take(session, PAUSE_SNAPSHOT, is_told_first, &told);
	assert_false(told);
	failed.id = session->pause.request;
	assert_true(pause_take_message(session, &failed, BRIEF));
	assert_true(told);
	assert_false(session->connections[0].held);
	assert_non_null(session->connections[0].out);
	free(session->connections[0].out);
	session->connections[0] = CONNECTION_NONE;
	close(ends[0]);
	close(ends[1]);
	session->sandbox.socket = -1;
	end(session);
}

static uint32_t random_number(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Whatever comes, in whatever order: each command ends at most once, and nothing else does. */
static void any_messages(void **state)
{
	uint32_t seed = 42;

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct session *session = new_session(8);
		size_t before = running(session);

		for (int i = 0; i < 100; i++) {
			struct agent_message message;
			size_t now;

			memset(&message, (int)random_number(&seed), sizeof message);
			message.type = random_number(&seed) % 9;
			message.id = random_number(&seed) % 12;
			message.value = (int32_t)(random_number(&seed) % 3 ? random_number(&seed) % 300 << 8
									   : random_number(&seed) - 1000);
			job_take_message(session, &message, random_number(&seed) % 2 ? BRIEF : WHOLE);
			now = running(session);
			assert_true(now == before || now + 1 == before);
			before = now;
		}
		end(session);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(an_end_ends_one_command_once),
		cmocka_unit_test(the_words_of_an_error_are_bounded),
		cmocka_unit_test(a_pause_that_fails_is_told_before_others_go_on),
		cmocka_unit_test(any_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
