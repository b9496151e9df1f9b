/* SPDX-License-Identifier: MIT */
/* The gate's process: its beginning, its loop, its end. See gate.h and inner.h. */
#define _GNU_SOURCE
#include "gate/gate.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gate/confine.h"
#include "gate/inner.h"
#include "sandbox/helper.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { EVENTS_MAX = 64, FINISH_MS = 2000, FINISH_LOOK_MS = 20 };

/* --- for its parts --- */

uint64_t tag_of(enum tag_kind kind, uint32_t index, uint32_t generation)
{
	return (uint64_t)kind << 56 | (uint64_t)(index & 0xffffff) << 32 | generation;
}

int gate_watch(struct gate *gate, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return epoll_ctl(gate->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool is_of_connections(const struct gate *gate, size_t i)
{
	return !gate->sockets.udp[i] && gate->sockets.ports[i] != GATE_PORT_DNS;
}

void gate_listen(struct gate *gate, bool on)
{
	for (size_t i = 0; i < gate->sockets.count; i++) {
		struct epoll_event event = {.events = on ? EPOLLIN : 0,
			.data.u64 = tag_of(TAG_LISTENER, (uint32_t)i, 0)};

		if (is_of_connections(gate, i))
			epoll_ctl(gate->epoll, EPOLL_CTL_MOD, gate->sockets.fds[i], &event);
	}
}

void gate_report(struct gate *gate, enum report_verdict verdict, enum report_reason reason,
	const char *name, const struct address *address, uint16_t port, int value)
{
	struct report_entry entry = {.verdict = (uint8_t)verdict,
		.reason = (uint8_t)reason,
		.port = port,
		.value = value,
		.address = *address};

	memcpy(entry.name, name, strlen(name) + 1);
	report_add(gate->report, &entry);
}

socklen_t gate_sockaddr(
	const struct address *address, uint32_t scope, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof *ret);
	if (address_is_v4(address)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, address->bytes + 12, 4);
		return sizeof *v4;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	v6->sin6_scope_id = scope;
	memcpy(&v6->sin6_addr, address->bytes, 16);
	return sizeof *v6;
}

void gate_resolved(struct gate *gate, const struct waiter *waiter, const char *name, uint16_t type,
	enum lookup_result result, const struct dns_addresses *addresses)
{
	if (waiter->kind == WAITER_CONNECTION)
		connections_resolved(gate, waiter, result, addresses);
	else
		nameserver_resolved(gate, waiter, name, type, result, addresses);
}

/* --- the loop --- */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void serve_listener(struct gate *gate, uint32_t index)
{
	if (is_of_connections(gate, index))
		connections_accept(gate, gate->sockets.fds[index], gate->sockets.ports[index]);
	else
		nameserver_accept(gate, gate->sockets.fds[index]);
}

/* A byte: the sandbox is gone. Else it is. */
static void hear_supervisor(struct gate *gate)
{
	char byte;

	if (recv(gate->supervisor, &byte, 1, MSG_DONTWAIT) != 1)
		_exit(0);
	gate->finish_us = gate->now_us + FINISH_MS * 1000ULL;
}

static void serve(struct gate *gate, const struct epoll_event *event)
{
	enum tag_kind kind = (enum tag_kind)(event->data.u64 >> 56);
	uint32_t index = (uint32_t)(event->data.u64 >> 32) & 0xffffff,
		 generation = (uint32_t)event->data.u64;

	switch (kind) {
	case TAG_SUPERVISOR:
		hear_supervisor(gate);
		break;
	case TAG_LISTENER:
		serve_listener(gate, index);
		break;
	case TAG_QUESTIONS:
		nameserver_receive(gate, gate->sockets.fds[index]);
		break;
	case TAG_DNS_CLIENT:
		nameserver_serve(gate, index, generation, event->events);
		break;
	case TAG_LOOKUP:
		resolver_serve(gate, index, generation, event->events);
		break;
	case TAG_DIALLER:
	case TAG_DIALLED:
		connections_serve(gate, index, generation, kind == TAG_DIALLED, event->events);
		break;
	}
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Milliseconds until the next clock, rounded up; -1: there is none. */
static int check_clocks(struct gate *gate)
{
	uint64_t next;

	gate->now_us = now_us();
	next = smaller(connections_check_clock(gate), nameserver_check_clock(gate));
	/* Last, as the others may ask for names. */
	next = smaller(next, resolver_check_clock(gate));
	if (next == UINT64_MAX)
		return -1;
	return next <= gate->now_us ? 0
				    : (int)smaller((next - gate->now_us + 999) / 1000, 60 * 1000);
}

/* What was accepted is passed on, and what was not is in the backlog, which an event tells of. */
static bool has_finished(struct gate *gate, int events)
{
	if (gate->finish_us == UINT64_MAX)
		return false;
	return gate->now_us >= gate->finish_us || (events == 0 && !connections_have_to_say(gate));
}

static int shorter(int a, int b)
{
	return a < 0 || b < a ? b : a;
}

_Noreturn static void loop(struct gate *gate)
{
	struct epoll_event events[EVENTS_MAX];

	for (;;) {
		int timeout = check_clocks(gate), n;

		if (gate->finish_us != UINT64_MAX)
			timeout = shorter(timeout, connections_have_to_say(gate) ? FINISH_LOOK_MS : 0);
		if (connections_step(gate))
			timeout = 0;
		n = epoll_wait(gate->epoll, events, EVENTS_MAX, timeout);
		gate->now_us = now_us();
		for (int i = 0; i < n; i++)
			serve(gate, &events[i]);
		if (has_finished(gate, n))
			_exit(0);
	}
}

/* --- beginning --- */

/* Those of the rules, of name servers and of the proxy. */
static int confine_to_ports(const struct gate *gate, pid_t parent, struct error *err)
{
	cleanup_free uint16_t *ports = NULL;
	size_t count = policy_ports(gate->policy, &ports);

	ports = xrealloc(ports, count + 2, sizeof *ports);
	ports[count++] = GATE_PORT_DNS;
	if (gate->settings.proxy.used)
		ports[count++] = gate->settings.proxy.port;
	return confine_leave_root(err) < 0 ? -1 : confine(parent, ports, count, err);
}

/* Keys and passwords are often in it, and nothing of it is needed any more. */
static void forget_environment(void)
{
	for (char **entry = environ; entry && *entry; entry++)
		explicit_bzero(*entry, strlen(*entry));
}

static int prepare(
	struct gate *gate, pid_t parent, int *supervisor, int *handover, struct error *err)
{
	helper_become("nsbox-gate", parent);
	signal(SIGPIPE, SIG_IGN);
	if (confine_descriptors((const int[]){*supervisor, *handover}, 2, err) < 0 ||
		settings_read(gate->policy, &gate->settings, err) < 0)
		return -1;
	forget_environment();
	gate->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (gate->epoll < 0 ||
		gate_watch(gate, *supervisor, EPOLLIN, tag_of(TAG_SUPERVISOR, 0, 0)) < 0)
		return error_set(err, errno, "making the gate's loop");
	return confine_to_ports(gate, parent, err);
}

static int watch_sockets(struct gate *gate, struct error *err)
{
	for (size_t i = 0; i < gate->sockets.count; i++)
		if (gate_watch(gate, gate->sockets.fds[i], EPOLLIN,
			    tag_of(gate->sockets.udp[i] ? TAG_QUESTIONS : TAG_LISTENER, (uint32_t)i,
				    0)) < 0)
			return error_set(err, errno, "watching the gate's sockets");
	return 0;
}

/* `supervisor` and `handover` are its only descriptors. What fails is said over the second. */
_Noreturn static void gate_main(
	const struct gate_process *process, pid_t parent, int supervisor, int handover)
{
	struct gate *gate = xcalloc(1, sizeof *gate);
	struct error err = {0};

	gate->policy = &process->policy;
	gate->supervisor = supervisor;
	gate->finish_us = UINT64_MAX;
	gate->report = process->report;
	if (prepare(gate, parent, &supervisor, &handover, &err) < 0 ||
		sockets_take_over(handover, &gate->sockets, &err) < 0 ||
		watch_sockets(gate, &err) < 0) {
		sockets_say_ready(handover, &err);
		_exit(1);
	}
	gate->now_us = now_us();
	gate->resolver.tokens = QUERIES_BURST;
	gate->resolver.tokens_us = gate->now_us;
	nameserver_init(&gate->nameserver);
	connections_init(gate);
	sockets_say_ready(handover, NULL);
	close(handover);
	loop(gate);
}

int gate_start(const char *rules, struct gate_process *ret, struct helper *helper,
	int *ret_handover, struct error *err)
{
	cleanup_close int theirs = -1, handover = -1, ours = -1;
	pid_t parent = getpid(), pid;
	int pair[2];

	*ret = GATE_NONE;
	*helper = (struct helper){.name = "the gate of --network allow=...",
		.loss = "the sandbox reaches nothing",
		.pidfd = -1};
	if (policy_add(&ret->policy, "network", rules, err) < 0 || !(ret->report = report_new(err)))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "making a socket for the gate");
	ret->socket = pair[0];
	theirs = pair[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "making a socket for the gate");
	handover = pair[0];
	ours = pair[1];
	pid = fork();
	if (pid == 0)
		gate_main(ret, parent, theirs, ours);
	if (pid < 0 || helper_adopt(helper, pid) < 0)
		return error_set(err, errno, "starting the gate");
	*ret_handover = move_fd(&handover);
	return 0;
}

void gate_finish(const struct gate_process *gate, const struct helper *helper)
{
	if (helper->pidfd >= 0 && send(gate->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		helper_wait(helper, FINISH_MS);
}

void gate_release(struct gate_process *gate)
{
	close_fd(&gate->socket);
	policy_free(&gate->policy);
	report_free(gate->report);
	*gate = GATE_NONE;
}
