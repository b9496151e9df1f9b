/* SPDX-License-Identifier: MIT */
/* Sending to another side that takes its messages late, or never: nobody is made to wait for it without end. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/create.h"
#include "sandbox/spec.h"
#include "sandbox/wire.h"
#include "util/error.h"

enum { LATE_MS = 200 };

static struct pair {
	int ours, theirs;
} pair;

static int make_full_pair(void **state)
{
	struct agent_request request = {.type = REQUEST_SIGNAL};
	int sockets[2], sent = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	pair = (struct pair){sockets[0], sockets[1]};
	while (wire_send(pair.ours, &request, sizeof request, NULL, 0, 1) == 0)
		sent++;
	return errno == EAGAIN && sent > 1 ? 0 : -1;
}

static int close_pair(void **state)
{
	close(pair.ours);
	close(pair.theirs);
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void who_never_reads_is_not_waited_for(void **state)
{
	struct agent_request request = {.type = REQUEST_SIGNAL};
	int64_t start = now_ms();

	assert_int_equal(wire_send(pair.ours, &request, sizeof request, NULL, 0, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_in_range(now_ms() - start, WIRE_SEND_MS - 10, WIRE_SEND_MS + 20000);
}

static void who_reads_late_is(void **state)
{
	struct agent_request request = {.type = REQUEST_SIGNAL};

	/* On a busy machine it may read too late: of several tries one has to do. */
	for (int tries = 1;; tries++) {
		int64_t start = now_ms();
		pid_t reader = fork();
		int sent;

		if (reader == 0) {
			usleep(LATE_MS * 1000);
			while (recv(pair.theirs, &request, sizeof request, MSG_DONTWAIT) > 0)
				;
			_exit(0);
		}
		sent = wire_send(pair.ours, &request, sizeof request, NULL, 0, 0);
		assert_in_range(now_ms() - start, LATE_MS - 10, WIRE_SEND_MS + 20000);
		assert_int_equal(waitpid(reader, NULL, 0), reader);
		if (sent == 0)
			break;
		assert_int_equal(errno, EAGAIN);
		assert_in_range(tries, 1, 4);
		close_pair(state);
		assert_int_equal(make_full_pair(state), 0);
	}
}

static void another_command_for_who_never_reads_is_an_error(void **state)
{
	struct sandbox sandbox = SANDBOX_NONE;
	struct stdio stdio = STDIO_NONE;
	struct error err = {0};
	struct spec spec;
	int64_t start = now_ms();

	spec_init(&spec);
	exec_add_arg(&spec.execs[0], "true");
	sandbox.spec = &spec;
	sandbox.socket = pair.ours;
	for (int i = 0; i < 3; i++)
		stdio.child[i] = dup(2);
	assert_int_equal(sandbox_exec(&sandbox, &spec.execs[0], false, &stdio, &err), -1);
	assert_int_equal(err.errnum, EAGAIN);
	assert_in_range(now_ms() - start, 0, WIRE_SEND_MS + 20000);
	stdio_close(&stdio);
	spec.execs_count = 1;
	spec_free(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_never_reads_is_not_waited_for, make_full_pair, close_pair),
		cmocka_unit_test_setup_teardown(who_reads_late_is, make_full_pair, close_pair),
		cmocka_unit_test_setup_teardown(
			another_command_for_who_never_reads_is_an_error, make_full_pair, close_pair),
	};

	/* Before there was an end to it, it was waited for without one. */
	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
