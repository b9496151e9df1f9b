/* SPDX-License-Identifier: MIT */
/*
 * Published ports: see publish.h.
 *
 * A connection is CONNECTING from when it was accepted until the one inside is there, and FLOWING then. Both sockets are
 * registered once, with edges; what is told of a connection that is over meanwhile is known by its number, which no
 * other has again soon.
 *
 * Where 127.0.0.1 refuses, ::1 is tried: programs that listen on «localhost» choose one of the two.
 */
#define _GNU_SOURCE
#include "gate/publish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gate/confine.h"
#include "gate/flow.h"
#include "sandbox/helper.h"
#include "sandbox/idmap.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum {
	BACKLOG = 256,
	ANY_PORT_TRIES = 16,
	EVENTS_MAX = 64,
	ACCEPT_PAUSE_MS = 100, /* where there are no descriptors */
	FINISH_LOOK_MS = 20,
};

#define HOW_TO_WRITE_IT "write it as PORT or HOSTPORT:PORT; both are ports of TCP"

/* --- the supervisor's side --- */

int publish_parse(const char *what, const char *text, struct publish_spec *ret, struct error *err)
{
	const char *colon = strchr(text, ':');
	char host_port[16], buffer[QUOTED_MAX];
	struct publish_spec publish;

	if (colon && (colon == text || (size_t)(colon - text) >= sizeof host_port || strchr(colon + 1, ':')))
		return error_set(err, 0, "%s: %s is not a port; write it as PORT or HOSTPORT:PORT: it is reached on the "
			"host's loopback interface and nowhere else", what, quoted(text, buffer));
	if (parse_count(what, colon ? colon + 1 : text, 1, UINT16_MAX, &publish.port, err) < 0)
		return error_hint(err, HOW_TO_WRITE_IT);
	publish.host_port = publish.port;
	if (colon) {
		snprintf(host_port, sizeof host_port, "%.*s", (int)(colon - text), text);
		if (parse_count(what, host_port, 0, UINT16_MAX, &publish.host_port, err) < 0)
			return error_hint(err, HOW_TO_WRITE_IT);
	}
	*ret = publish;
	return 0;
}

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t loopback(int family, uint16_t port, union socket_address *ret)
{
	memset(ret, 0, sizeof *ret);
	if (family == AF_INET) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET,
			.sin_port = htons(port),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		return sizeof ret->v4;
	}
	ret->v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return sizeof ret->v6;
}

/* Returns -1 with errno. */
static int listen_on(int family, uint16_t port)
{
	static const int on = 1;
	cleanup_close int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	union socket_address address;
	socklen_t length = loopback(family, port, &address);

	if (fd < 0)
		return -1;
	/* Connections of one that is gone do not hold the port; another that listens does. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(fd, &address.any, length) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return move_fd(&fd);
}

static uint16_t port_of(int fd)
{
	union socket_address address;
	socklen_t length = sizeof address;

	if (getsockname(fd, &address.any, &length) < 0)
		return 0;
	return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

static bool has_no_ipv6(void)
{
	return errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL || errno == EPROTONOSUPPORT;
}

static int cannot_listen(const struct publish_spec *spec, const char *address, struct error *err)
{
	error_set(err, errno, "publishing port %u at %s:%u of the host", spec->port, address, spec->host_port);
	if (err->errnum == EADDRINUSE)
		error_hint(err, "something listens there already; choose another: --publish HOSTPORT:%u, with 0 for any that is free",
			spec->port);
	else if (err->errnum == EACCES)
		error_hint(err, "low ports are root's (net.ipv4.ip_unprivileged_port_start); choose another: --publish HOSTPORT:%u",
			spec->port);
	return -1;
}

/* On both addresses. Of any port that is free on the first, the second may be taken: then there are others. */
static int listen_for(const struct publish_spec *spec, struct published *ret, struct error *err)
{
	for (int tries = 1;; tries++) {
		*ret = (struct published){.port = (uint16_t)spec->port, .listeners = {-1, -1}};
		ret->listeners[0] = listen_on(AF_INET, (uint16_t)spec->host_port);
		if (ret->listeners[0] < 0)
			return cannot_listen(spec, "127.0.0.1", err);
		ret->host_port = port_of(ret->listeners[0]);
		ret->listeners[1] = listen_on(AF_INET6, ret->host_port);
		if (ret->listeners[1] >= 0 || has_no_ipv6())
			return 0;
		if (spec->host_port || errno != EADDRINUSE || tries == ANY_PORT_TRIES)
			return cannot_listen(spec, "[::1]", err);
		publish_close(ret, 1);
	}
}

int publish_listen(const struct publish_spec *specs, size_t count, struct published *ret, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (listen_for(&specs[i], &ret[i], err) == 0)
			continue;
		publish_close(ret, i + 1);
		return -1;
	}
	return 0;
}

void publish_close(struct published *published, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int j = 0; j < 2; j++)
			close_fd(&published[i].listeners[j]);
}

/* --- the publisher --- */

enum connection_state { FREE, CONNECTING, FLOWING };

enum side { CLIENT, SERVER };

struct connection {
	enum connection_state state;
	uint32_t number;
	uint16_t port;
	bool second;          /* ::1 is tried */
	bool more;            /* it has something to do without an event */
	int sockets[2];       /* CONNECTING */
	uint64_t deadline_ms; /* CONNECTING */
	struct flow flow;     /* FLOWING */
};

struct listener {
	int fd;
	uint16_t port;
};

static struct publisher {
	int epoll;
	struct listener listeners[2 * SPEC_PUBLISH_MAX];
	size_t listeners_count;
	bool accepting;
	uint64_t accept_ms; /* when it is tried again */
	struct connection connections[PUBLISH_CONNECTIONS_MAX];
	size_t count, connecting, more;
	int finish;         /* readable once it is to end */
	uint64_t finish_ms; /* when it does in any case; UINT64_MAX: it is not to end */
	uint32_t number;
	struct flow_pipes pipes;
} publisher;

/* What epoll gives back: a listener, or one side of a connection. */
enum { LISTENER_BIT = 1 << 16, SIDE_BIT = 1 << 15 };
static const uint64_t FINISH_KEY = 1 << 17;

static uint64_t connection_key(const struct connection *connection, enum side side)
{
	size_t index = (size_t)(connection - publisher.connections);

	return (uint64_t)connection->number << 32 | (side == SERVER ? SIDE_BIT : 0) | index;
}

static int watch(int fd, uint32_t events, uint64_t key)
{
	struct epoll_event event = {.events = events, .data.u64 = key};

	return epoll_ctl(publisher.epoll, EPOLL_CTL_ADD, fd, &event);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void set_accepting(bool accepting)
{
	if (publisher.accepting == accepting)
		return;
	publisher.accepting = accepting;
	for (size_t i = 0; i < publisher.listeners_count; i++) {
		struct epoll_event event = {.events = accepting ? EPOLLIN : 0, .data.u64 = LISTENER_BIT | i};

		epoll_ctl(publisher.epoll, EPOLL_CTL_MOD, publisher.listeners[i].fd, &event);
	}
}

static void set_more(struct connection *connection, bool more)
{
	publisher.more += (size_t)more - (size_t)connection->more;
	connection->more = more;
}

static void end_connection(struct connection *connection, bool reset)
{
	if (connection->state == CONNECTING) {
		publisher.connecting--;
		flow_reset_socket(&connection->sockets[CLIENT]);
		close_fd(&connection->sockets[SERVER]);
	} else {
		flow_close(&publisher.pipes, &connection->flow, reset);
	}
	set_more(connection, false);
	connection->state = FREE;
	publisher.count--;
}

static void step(struct connection *connection)
{
	enum flow_state state = flow_step(&publisher.pipes, &connection->flow);

	set_more(connection, state == FLOW_MORE);
	if (state == FLOW_ENDED || state == FLOW_BROKEN)
		end_connection(connection, state == FLOW_BROKEN);
}

static void begin_flow(struct connection *connection)
{
	publisher.connecting--;
	connection->state = FLOWING;
	flow_init(&connection->flow, connection->sockets[CLIENT], connection->sockets[SERVER]);
	step(connection);
}

/* Returns whether it is on its way, or there. */
static bool begin_to_connect(struct connection *connection)
{
	int family = connection->second ? AF_INET6 : AF_INET;
	union socket_address address;
	socklen_t length = loopback(family, connection->port, &address);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	connection->sockets[SERVER] = fd;
	if (fd < 0 || (connect(fd, &address.any, length) < 0 && errno != EINPROGRESS))
		return false;
	return watch(fd, (uint32_t)FLOW_EVENTS, connection_key(connection, SERVER)) == 0;
}

/* Until one of the two addresses takes it, or none does. */
static void dial(struct connection *connection)
{
	while (!begin_to_connect(connection)) {
		close_fd(&connection->sockets[SERVER]);
		if (connection->second) {
			end_connection(connection, true);
			return;
		}
		connection->second = true;
	}
}

static void finish_connecting(struct connection *connection)
{
	int failure = 0;
	socklen_t length = sizeof failure;

	if (getsockopt(connection->sockets[SERVER], SOL_SOCKET, SO_ERROR, &failure, &length) == 0 && failure == 0 &&
		/* A port that nobody listens on, and that the kernel chose for our end: we would be connected to ourselves. */
		port_of(connection->sockets[SERVER]) != connection->port) {
		begin_flow(connection);
		return;
	}
	close_fd(&connection->sockets[SERVER]);
	if (connection->second) {
		end_connection(connection, true);
		return;
	}
	connection->second = true;
	dial(connection);
}

static struct connection *free_place(void)
{
	for (size_t i = 0; i < PUBLISH_CONNECTIONS_MAX; i++)
		if (publisher.connections[i].state == FREE)
			return &publisher.connections[i];
	return NULL;
}

static bool accept_one(const struct listener *listener)
{
	struct connection *connection = free_place();
	int fd = connection ? accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;

	if (fd < 0) {
		if (connection && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			publisher.accept_ms = now_ms() + ACCEPT_PAUSE_MS;
			set_accepting(false);
		}
		return false;
	}
	*connection = (struct connection){.state = CONNECTING,
		.number = ++publisher.number,
		.port = listener->port,
		.sockets = {fd, -1},
		.deadline_ms = now_ms() + PUBLISH_CONNECT_MS};
	publisher.count++;
	publisher.connecting++;
	if (watch(fd, (uint32_t)FLOW_EVENTS, connection_key(connection, CLIENT)) < 0)
		end_connection(connection, true);
	else
		dial(connection);
	return true;
}

static void serve_connection(uint64_t key, uint32_t events)
{
	struct connection *connection = &publisher.connections[key % SIDE_BIT];
	enum side side = key & SIDE_BIT ? SERVER : CLIENT;

	if (connection->state == FREE || connection->number != key >> 32)
		return;
	if (connection->state == FLOWING) {
		flow_note(&connection->flow, side, events);
		step(connection);
	} else if (side == SERVER && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
		finish_connecting(connection);
	} else if (side == CLIENT && events & (EPOLLERR | EPOLLHUP)) {
		end_connection(connection, true);
	}
}

static void end_overdue(uint64_t now)
{
	for (size_t i = 0; i < PUBLISH_CONNECTIONS_MAX && publisher.connecting > 0; i++) {
		struct connection *connection = &publisher.connections[i];

		if (connection->state == CONNECTING && now >= connection->deadline_ms)
			end_connection(connection, true);
	}
}

/* What the sandbox, which is gone, said last has arrived. */
static bool has_finished(uint64_t now)
{
	if (publisher.finish_ms == UINT64_MAX)
		return false;
	for (size_t i = 0; i < PUBLISH_CONNECTIONS_MAX && now < publisher.finish_ms; i++)
		if (publisher.connections[i].state == FLOWING && !publisher.connections[i].flow.ways[SERVER].shut)
			return false;
	return true;
}

static int timeout_ms(uint64_t now)
{
	if (publisher.finish_ms != UINT64_MAX)
		return publisher.more > 0 ? 0 : FINISH_LOOK_MS;
	if (publisher.more > 0)
		return 0;
	if (publisher.accept_ms > now)
		return (int)(publisher.accept_ms - now);
	return publisher.connecting > 0 ? 1000 : -1;
}

static void turn(void)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(publisher.epoll, events, EVENTS_MAX, timeout_ms(now_ms()));
	uint64_t now = now_ms();

	for (int i = 0; i < count; i++)
		if (events[i].data.u64 == FINISH_KEY) {
			publisher.finish_ms = now + PUBLISH_FINISH_MS;
			epoll_ctl(publisher.epoll, EPOLL_CTL_DEL, publisher.finish, NULL);
		} else if (!(events[i].data.u64 & LISTENER_BIT)) {
			serve_connection(events[i].data.u64, events[i].events);
		}
	for (size_t i = 0; i < PUBLISH_CONNECTIONS_MAX && publisher.more > 0; i++)
		if (publisher.connections[i].more)
			step(&publisher.connections[i]);
	for (int i = 0; i < count; i++)
		if (events[i].data.u64 & LISTENER_BIT && publisher.finish_ms == UINT64_MAX)
			accept_one(&publisher.listeners[events[i].data.u64 % LISTENER_BIT]);
	end_overdue(now);
	set_accepting(publisher.count < PUBLISH_CONNECTIONS_MAX && now >= publisher.accept_ms &&
		      publisher.finish_ms == UINT64_MAX);
	if (has_finished(now))
		_exit(0);
}

/* --- its beginning --- */

struct start {
	int pidfd, ready;
	const struct idmap *idmap;
	const struct published *published;
	size_t count;
};

/* Of what the supervisor has open, only what is its own stays. */
static int keep_sockets(const struct start *start, struct error *err)
{
	int kept[2 * SPEC_PUBLISH_MAX + 2] = {start->pidfd, start->ready};
	size_t count = 2;

	for (size_t i = 0; i < start->count; i++)
		for (int j = 0; j < 2; j++)
			if (start->published[i].listeners[j] >= 0)
				kept[count++] = start->published[i].listeners[j];
	return confine_descriptors(kept, count, err);
}

static int register_listeners(const struct start *start, struct error *err)
{
	publisher.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (publisher.epoll < 0)
		return error_set(err, errno, "epoll");
	publisher.accepting = true;
	for (size_t i = 0; i < start->count; i++)
		for (int j = 0; j < 2; j++) {
			size_t index = publisher.listeners_count;

			if (start->published[i].listeners[j] < 0)
				continue;
			publisher.listeners[index] =
				(struct listener){start->published[i].listeners[j], start->published[i].port};
			if (watch(publisher.listeners[index].fd, EPOLLIN, LISTENER_BIT | index) < 0)
				return error_set(err, errno, "epoll");
			publisher.listeners_count++;
		}
	return 0;
}

/* SIGTERM does not end it, but is an event. */
static int register_finish(struct error *err)
{
	sigset_t set;

	publisher.finish_ms = UINT64_MAX;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	publisher.finish = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return publisher.finish < 0 || watch(publisher.finish, EPOLLIN, FINISH_KEY) < 0 ? error_set(err, errno, "signalfd") : 0;
}

static int shut_in(const struct start *start, pid_t parent, struct error *err)
{
	uint16_t ports[SPEC_PUBLISH_MAX];

	for (size_t i = 0; i < start->count; i++)
		ports[i] = start->published[i].port;
	return confine(parent, ports, start->count, err);
}

static int set_up(const struct start *start, pid_t parent, struct error *err)
{
	if (keep_sockets(start, err) < 0)
		return -1;
	if (setns(start->pidfd, CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return error_set(err, errno, "joining the sandbox's network namespace");
	close(start->pidfd);
	if (start->idmap->by_parent && idmap_become(start->idmap, err) < 0)
		return -1;
	if (register_listeners(start, err) < 0 || register_finish(err) < 0)
		return -1;
	flow_pipes_init(&publisher.pipes);
	return shut_in(start, parent, err);
}

_Noreturn static void publish(const struct start *start, pid_t parent)
{
	struct error err = {0};
	int r;

	helper_become("nsbox-publish", parent);
	signal(SIGPIPE, SIG_IGN);
	r = set_up(start, parent, &err);
	(void)!write(start->ready, &err, sizeof err);
	close(start->ready);
	while (r == 0)
		turn();
	_exit(1);
}

int publish_start(int pidfd, const struct idmap *idmap, const struct published *published, size_t count,
	struct helper *ret, struct error *err)
{
	struct error failure = {0};
	pid_t parent = getpid(), child;
	int ends[2];
	ssize_t n;

	*ret = (struct helper){
		.name = "nsbox-publish", .loss = "connections to the published ports are refused", .pidfd = -1};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	child = fork();
	if (child == 0)
		publish(&(struct start){pidfd, ends[1], idmap, published, count}, parent);
	close(ends[1]);
	if (child < 0 || helper_adopt(ret, child) < 0) {
		error_set(err, errno, "starting the process that publishes ports");
		close(ends[0]);
		return -1;
	}
	n = read_full(ends[0], &failure, sizeof failure);
	close(ends[0]);
	if (n == sizeof failure && !failure.text[0])
		return 0;
	if (n != sizeof failure)
		error_set(&failure, 0, "it was killed");
	*err = failure;
	return error_context(err, "the process that publishes ports did not begin");
}
