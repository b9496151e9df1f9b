/* SPDX-License-Identifier: MIT */
/* Flows between two sockets: what goes in comes out, in both directions, and so do ends and resets. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
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

#include "gate/flow.h"

enum { SMALL = 1000, LARGE = 8 << 20, MANY = FLOW_PIPES_MAX + 8 };

/* Two ends of a connection over loopback. */
static void connection(int ret[2])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ret[0], (struct sockaddr *)&address, sizeof address), 0);
	ret[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(ret[1] >= 0);
	close(listener);
}

/* A flow whose far ends are ours. */
struct case_of {
	struct flow flow;
	int ends[2];
	int epoll;
};

static void begin(struct case_of *one)
{
	int pair[2][2];

	one->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < 2; i++) {
		struct epoll_event event = {.events = FLOW_EVENTS, .data.u32 = i};

		connection(pair[i]);
		one->ends[i] = pair[i][0];
		assert_int_equal(epoll_ctl(one->epoll, EPOLL_CTL_ADD, pair[i][1], &event), 0);
	}
	flow_init(&one->flow, pair[0][1], pair[1][1]);
}

static void end(struct flow_pipes *pipes, struct case_of *one)
{
	flow_close(pipes, &one->flow, false);
	for (int i = 0; i < 2; i++)
		if (one->ends[i] >= 0)
			close(one->ends[i]);
	close(one->epoll);
}

/* Goes on until nothing happens for `patience_ms`, or the flow is over. */
static enum flow_state run(struct flow_pipes *pipes, struct case_of *one, int patience_ms)
{
	enum flow_state state = flow_step(pipes, &one->flow);
	struct epoll_event events[4];
	int n;

	while (state == FLOW_MORE ||
		(state == FLOW_WAITS && (n = epoll_wait(one->epoll, events, 4, patience_ms)) > 0)) {
		for (int i = 0; state != FLOW_MORE && i < n; i++)
			flow_note(&one->flow, events[i].data.u32, events[i].events);
		state = flow_step(pipes, &one->flow);
	}
	return state;
}

static uint8_t *pattern(size_t size, unsigned seed)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)((i * 2654435761U + seed) >> 13);
	return data;
}

static void what_goes_in_comes_out(struct flow_pipes *pipes)
{
	struct case_of one;
	uint8_t *sent[2] = {pattern(LARGE, 1), pattern(LARGE, 2)},
		*got[2] = {malloc(LARGE), malloc(LARGE)};
	size_t out[2] = {0}, in[2] = {0};
	struct pollfd fds[2];

	begin(&one);
	while (in[0] < LARGE || in[1] < LARGE) {
		for (int i = 0; i < 2; i++) {
			ssize_t n =
				send(one.ends[i], sent[i] + out[i], LARGE - out[i], MSG_DONTWAIT);

			out[i] += n > 0 ? (size_t)n : 0;
		}
		assert_int_equal(run(pipes, &one, 0), FLOW_WAITS);
		for (int i = 0; i < 2; i++) {
			ssize_t n = recv(one.ends[i], got[i] + in[i], LARGE - in[i], MSG_DONTWAIT);

			in[i] += n > 0 ? (size_t)n : 0;
			fds[i] = (struct pollfd){.fd = one.ends[i], .events = POLLIN};
		}
		poll(fds, 2, 1);
	}
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(got[i], sent[!i], LARGE);
		assert_int_equal(one.flow.bytes[i], LARGE);
	}
	for (int i = 0; i < 2; i++) {
		free(sent[i]);
		free(got[i]);
	}
	end(pipes, &one);
}

static void bytes_arrive_whole(void **state)
{
	struct flow_pipes pipes;

	(void)state;
	flow_pipes_init(&pipes);
	what_goes_in_comes_out(&pipes);
	assert_int_equal(pipes.used, 0);
	flow_pipes_close(&pipes);
}

static void bytes_arrive_whole_without_a_pipe(void **state)
{
	struct flow_pipes pipes;

	(void)state;
	flow_pipes_init(&pipes);
	pipes.used = FLOW_PIPES_MAX;
	what_goes_in_comes_out(&pipes);
	assert_int_equal(pipes.used, FLOW_PIPES_MAX);
	flow_pipes_close(&pipes);
}

static void the_end_of_one_direction_leaves_the_other(void **state)
{
	struct flow_pipes pipes;
	struct case_of one;
	char buffer[SMALL];

	(void)state;
	flow_pipes_init(&pipes);
	begin(&one);
	assert_int_equal(send(one.ends[0], "question", 8, 0), 8);
	shutdown(one.ends[0], SHUT_WR);
	assert_int_equal(run(&pipes, &one, 50), FLOW_WAITS);
	assert_int_equal(recv(one.ends[1], buffer, sizeof buffer, 0), 8);
	assert_int_equal(recv(one.ends[1], buffer, sizeof buffer, MSG_DONTWAIT), 0);
	assert_int_equal(send(one.ends[1], "answer", 6, 0), 6);
	assert_int_equal(run(&pipes, &one, 50), FLOW_WAITS);
	assert_int_equal(recv(one.ends[0], buffer, sizeof buffer, MSG_DONTWAIT), 6);
	shutdown(one.ends[1], SHUT_WR);
	assert_int_equal(run(&pipes, &one, 50), FLOW_ENDED);
	end(&pipes, &one);
	flow_pipes_close(&pipes);
}

static void urgent_data_goes_in_its_place(void **state)
{
	struct flow_pipes pipes;
	struct case_of one;
	char buffer[SMALL];

	(void)state;
	flow_pipes_init(&pipes);
	begin(&one);
	assert_int_equal(send(one.ends[0], "!", 1, MSG_OOB), 1);
	assert_int_equal(run(&pipes, &one, 50), FLOW_WAITS);
	assert_int_equal(send(one.ends[0], "before", 6, 0), 6);
	assert_int_equal(send(one.ends[0], "?", 1, MSG_OOB), 1);
	assert_int_equal(send(one.ends[0], "after", 5, 0), 5);
	shutdown(one.ends[0], SHUT_WR);
	assert_int_equal(run(&pipes, &one, 50), FLOW_WAITS);
	assert_int_equal(recv(one.ends[1], buffer, sizeof buffer, MSG_WAITALL), 13);
	assert_memory_equal(buffer, "!before?after", 13);
	end(&pipes, &one);
	flow_pipes_close(&pipes);
}

static void urgent_data_stop_nothing(void **state)
{
	struct flow_pipes pipes;
	struct case_of one;
	char buffer[SMALL];
	ssize_t got;

	(void)state;
	flow_pipes_init(&pipes);
	for (int early = 0; early < 2; early++) {
		begin(&one);
		/* Before it is looked at, and when it is known to epoll. */
		if (!early)
			assert_int_equal(run(&pipes, &one, 20), FLOW_WAITS);
		assert_int_equal(send(one.ends[0], "a!", 2, MSG_OOB), 2);
		assert_int_equal(send(one.ends[0], "calm", 4, 0), 4);
		shutdown(one.ends[0], SHUT_WR);
		run(&pipes, &one, 50);
		/* The urgent byte itself may go or stay. */
		got = recv(one.ends[1], buffer, sizeof buffer, 0);
		assert_true(got == 5 || got == 6);
		assert_memory_equal(buffer + got - 4, "calm", 4);
		assert_int_equal(recv(one.ends[1], buffer, sizeof buffer, MSG_DONTWAIT), 0);
		end(&pipes, &one);
	}
	flow_pipes_close(&pipes);
}

static void a_reset_is_passed_on(void **state)
{
	struct flow_pipes pipes;
	char byte;

	(void)state;
	flow_pipes_init(&pipes);
	for (int gone = 0; gone < 2; gone++) {
		struct case_of one;

		begin(&one);
		assert_int_equal(send(one.ends[gone], "last", 4, 0), 4);
		assert_int_equal(run(&pipes, &one, 20), FLOW_WAITS);
		flow_reset_socket(&one.ends[gone]);
		assert_int_equal(run(&pipes, &one, 50), FLOW_BROKEN);
		flow_close(&pipes, &one.flow, true);
		/* What came before it is there. */
		for (int i = 0; i < 4; i++)
			assert_int_equal(recv(one.ends[!gone], &byte, 1, 0), 1);
		assert_int_equal(recv(one.ends[!gone], &byte, 1, 0), -1);
		assert_int_equal(errno, ECONNRESET);
		end(&pipes, &one);
	}
	assert_int_equal(pipes.used, 0);
	flow_pipes_close(&pipes);
}

/* Ends that never read: what their peers say stays where it is, and others go on when there is no pipe any more. */
static void receivers_that_do_not_read_stop_nobody(void **state)
{
	static uint8_t zeros[64 << 10];
	static struct case_of stuck[MANY];
	static const int little = 16 << 10;
	struct flow_pipes pipes;
	unsigned long taken;

	(void)state;
	flow_pipes_init(&pipes);
	for (int i = 0; i < MANY; i++) {
		begin(&stuck[i]);
		for (int j = 0; j < 2; j++) {
			setsockopt(stuck[i].ends[j], SOL_SOCKET, j == 0 ? SO_SNDBUF : SO_RCVBUF,
				&little, sizeof little);
			setsockopt(stuck[i].flow.sockets[j], SOL_SOCKET,
				j == 0 ? SO_RCVBUF : SO_SNDBUF, &little, sizeof little);
		}
		taken = 0;
		for (int idle = 0; idle < 3;) {
			ssize_t n = send(stuck[i].ends[0], zeros, sizeof zeros, MSG_DONTWAIT);

			taken += n > 0 ? (unsigned long)n : 0;
			idle = n > 0 ? 0 : idle + 1;
			assert_int_equal(run(&pipes, &stuck[i], 1), FLOW_WAITS);
		}
		assert_true(taken < 64 << 20);
		assert_true(pipes.used <= FLOW_PIPES_MAX);
	}
	assert_int_equal(pipes.used, FLOW_PIPES_MAX);
	what_goes_in_comes_out(&pipes);
	for (int i = 0; i < MANY; i++)
		end(&pipes, &stuck[i]);
	assert_int_equal(pipes.used, 0);
	flow_pipes_close(&pipes);
}

/* One that has much to say does not keep the loop for itself. */
static void a_turn_is_bounded(void **state)
{
	static uint8_t data[256 << 10];
	struct flow_pipes pipes;
	struct case_of one;

	(void)state;
	flow_pipes_init(&pipes);
	begin(&one);
	for (int i = 0; i < 400; i++) {
		uint64_t before = one.flow.bytes[0];

		send(one.ends[0], data, sizeof data, MSG_DONTWAIT);
		recv(one.ends[1], data, sizeof data, MSG_DONTWAIT);
		flow_note(&one.flow, 0, EPOLLIN);
		flow_note(&one.flow, 1, EPOLLOUT);
		flow_step(&pipes, &one.flow);
		assert_true(one.flow.bytes[0] - before <= (1 << 20) + FLOW_PIPE_SIZE);
	}
	end(&pipes, &one);
	flow_pipes_close(&pipes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_arrive_whole),
		cmocka_unit_test(bytes_arrive_whole_without_a_pipe),
		cmocka_unit_test(the_end_of_one_direction_leaves_the_other),
		cmocka_unit_test(urgent_data_goes_in_its_place),
		cmocka_unit_test(urgent_data_stop_nothing),
		cmocka_unit_test(a_reset_is_passed_on),
		cmocka_unit_test(receivers_that_do_not_read_stop_nobody),
		cmocka_unit_test(a_turn_is_bounded),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
