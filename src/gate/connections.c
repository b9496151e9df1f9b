/* SPDX-License-Identifier: MIT */
/*
 * Connections of the sandbox. The gate has taken each already when it looks at it, so that a refusal is a reset.
 *
 *     accepted ── dialled: loopback, or an address of no allowed name and no rule ──► reset
 *        │
 *        ├── port 443, 80 ──► HELLO: the name in TLS, the host in HTTP ── not allowed, or none ──► reset
 *        │                       │
 *        ├── other ports ────────┤        (there the first bytes are looked at while the server may speak already)
 *        ▼                       ▼
 *     RESOLVING (the proxy's name) ──► CONNECTING ──► PROXY (its answer to CONNECT) ──► FLOWING ──► closed or reset
 *
 * What is dialled is what is connected to; a name is never looked up again. Where that cannot be reached, another address
 * that the same name was answered with is: the client asked for the name, and cannot choose, since it is connected already.
 *
 * What a client says is looked at where it lies (MSG_PEEK), so nothing of it is kept here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/hello.h"
#include "gate/inner.h"
#include "gate/request.h"
#include "util/alloc.h"
#include "util/cleanup.h"

enum {
	PORT_HTTP = 80,
	PORT_HTTPS = 443,
	TLS_HANDSHAKE = 22,
	/*
	 * Bytes of each direction, of the connection inside, which has no distance to bridge. What the kernel chooses, some
	 * megabytes, is more than fits in a cache, and with 256 connections more than a gate may hold.
	 */
	CLIENT_BUFFER = 256 << 10,
	ACCEPTS_MAX = 32, /* in a turn */
	ACCEPT_PAUSE_MS = 100,
	DESCRIPTORS =
		96, /* that are not for connections: pipes come on top as long as there are some */
	ALTERNATIVE_MS = 5000 /* for an address, where there is another */
};

void connections_init(struct gate *gate)
{
	struct connections *connections = &gate->connections;
	struct rlimit limit = {.rlim_cur = DESCRIPTORS + 2};
	size_t listening = gate->sockets.count;

	getrlimit(RLIMIT_NOFILE, &limit);
	connections->max = limit.rlim_cur > DESCRIPTORS + listening
				   ? (limit.rlim_cur - DESCRIPTORS - listening) / 2
				   : 1;
	if (connections->max > CONNECTIONS_MAX)
		connections->max = CONNECTIONS_MAX;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		connections->places[i].client = connections->places[i].server = -1;
	flow_pipes_init(&connections->pipes);
}

/* --- the end --- */

static void accept_again(struct gate *gate)
{
	if (!gate->connections.full)
		return;
	gate->connections.full = false;
	gate_listen(gate, true);
}

static void stop_accepting(struct gate *gate, uint64_t until_us)
{
	gate->connections.full = true;
	gate->connections.accept_us = until_us;
	gate_listen(gate, false);
}

static void release(struct gate *gate, struct connection *connection)
{
	free(connection->head);
	connection->head = NULL;
	connection->state = CONNECTION_FREE;
	connection->queued = false;
	connection->generation++;
	gate->connections.used--;
	accept_again(gate);
}

static void reset(struct gate *gate, struct connection *connection)
{
	if (connection->state == CONNECTION_FLOWING) {
		flow_close(&gate->connections.pipes, &connection->flow, true);
		/* They were the flow's. */
		connection->client = connection->server = -1;
	}
	flow_reset_socket(&connection->client);
	close_fd(&connection->server);
	release(gate, connection);
}

static void note(struct gate *gate, const struct connection *connection,
	enum report_verdict verdict, enum report_reason reason, const char *name, int value)
{
	static const struct address none;
	bool about_address = !*name || reason == REASON_PRIVATE || reason == REASON_TLS_NAME ||
			     reason == REASON_HTTP_HOST;

	gate_report(gate, verdict, reason, name, about_address ? &connection->dialled : &none,
		connection->port, value);
}

static void refuse(struct gate *gate, struct connection *connection, enum report_reason reason,
	const char *name)
{
	note(gate, connection, REPORT_BLOCKED, reason, name, 0);
	reset(gate, connection);
}

static void fail(
	struct gate *gate, struct connection *connection, enum report_reason reason, int value)
{
	note(gate, connection, REPORT_FAILED, reason, connection->name, value);
	reset(gate, connection);
}

/* --- what is allowed --- */

/*
 * Whether an allowed name led to the dialled address, on that port; `name` NULL: any. *ret is the record. The records of
 * an address are few, those of what many names lead to as many as these.
 */
static bool find_name(const struct gate *gate, const struct connection *connection,
	const char *name, const struct name_record **ret)
{
	for (const struct name_record *record = NULL;
		(record = names_next(&gate->names, &connection->dialled, record));) {
		if (name && strcmp(record->name, name) != 0)
			continue;
		*ret = record;
		if (policy_allows(
			    gate->policy, record->name, &connection->dialled, connection->port))
			return true;
	}
	return false;
}

/*
 * A name in what the client says. It must be one that may be reached on that port; where a rule has the address itself,
 * whatever is there may be.
 */
static bool takes_name(const struct gate *gate, struct connection *connection, const char *name)
{
	const struct name_record *record;

	if (find_name(gate, connection, name, &record)) {
		memcpy(connection->name, record->name, sizeof connection->name);
		connection->way = record->way;
		return true;
	}
	/* Another name of the same server: of a connection that is used for several, as HTTP/2 does. */
	if (connection->way == NAME_DIRECT && !connection->by_address &&
		policy_allows(gate->policy, name, &connection->dialled, connection->port)) {
		snprintf(connection->name, sizeof connection->name, "%s", name);
		return true;
	}
	return connection->by_address;
}

/* --- flows --- */

static void step(struct gate *gate, struct connection *connection)
{
	enum flow_state state = flow_step(&gate->connections.pipes, &connection->flow);

	connection->queued = state == FLOW_MORE;
	if (state == FLOW_ENDED) {
		flow_close(&gate->connections.pipes, &connection->flow, false);
		connection->client = connection->server = -1;
		release(gate, connection);
	} else if (state == FLOW_BROKEN) {
		reset(gate, connection);
	}
}

static void serve_looking(struct gate *gate, struct connection *connection);

static void begin_flow(struct gate *gate, struct connection *connection)
{
	static const int on = 1;
	uint32_t generation = connection->generation;

	note(gate, connection, REPORT_ALLOWED, REASON_NONE, connection->name, 0);
	/* Whoever is gone without a word is found out some time. */
	setsockopt(connection->server, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	free(connection->head);
	connection->head = NULL;
	connection->state = CONNECTION_FLOWING;
	connection->due_us = UINT64_MAX;
	flow_init(&connection->flow, connection->client, connection->server);
	connection->flow.ways[0].waits = connection->looking;
	if (connection->looking)
		serve_looking(gate, connection);
	if (connection->generation == generation)
		step(gate, connection);
}

bool connections_step(struct gate *gate)
{
	bool more = false;

	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &gate->connections.places[i];

		if (connection->queued)
			step(gate, connection);
		more |= connection->queued;
	}
	return more;
}

bool connections_have_to_say(const struct gate *gate)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		const struct connection *connection = &gate->connections.places[i];

		if (connection->state != CONNECTION_FREE &&
			(connection->state != CONNECTION_FLOWING || !connection->flow.ways[0].shut))
			return true;
	}
	return false;
}

/* --- connecting --- */

static void connect_next(struct gate *gate, struct connection *connection, int errnum);

static uint16_t port_of_server(const struct gate *gate, const struct connection *connection)
{
	return connection->proxied ? gate->settings.proxy.port : connection->port;
}

static void connect_now(struct gate *gate, struct connection *connection)
{
	const struct address *address = &connection->candidates[connection->candidate];
	bool last = connection->candidate + 1 == connection->candidates_count;
	struct sockaddr_storage to;
	socklen_t length = gate_sockaddr(address, 0, port_of_server(gate, connection), &to);
	uint32_t index = (uint32_t)(connection - gate->connections.places);

	connection->state = CONNECTION_CONNECTING;
	connection->due_us = gate->now_us + (last ? CONNECT_MS : ALTERNATIVE_MS) * 1000ULL;
	connection->server = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connection->server < 0 ||
		(connect(connection->server, (struct sockaddr *)&to, length) < 0 &&
			errno != EINPROGRESS) ||
		gate_watch(gate, connection->server, (uint32_t)FLOW_EVENTS,
			tag_of(TAG_DIALLED, index, connection->generation)) < 0)
		connect_next(gate, connection, errno);
}

static void connect_next(struct gate *gate, struct connection *connection, int errnum)
{
	close_fd(&connection->server);
	/* One that answers is there, also when it answers with a reset. */
	if (errnum != ECONNRESET && ++connection->candidate < connection->candidates_count)
		connect_now(gate, connection);
	else
		fail(gate, connection, REASON_CONNECT, errnum);
}

static void add_candidate(struct connection *connection, const struct address *address)
{
	for (size_t i = 0; i < connection->candidates_count; i++)
		if (address_equal(&connection->candidates[i], address))
			return;
	if (connection->candidates_count < CANDIDATES_MAX)
		connection->candidates[connection->candidates_count++] = *address;
}

/* The dialled address, and others of the same name. */
static void find_candidates(const struct gate *gate, struct connection *connection)
{
	static const uint8_t own4[4] = {127, 0, 0, 1}, own6[16] = {[15] = 1};

	if (connection->way == NAME_HOST) {
		connection->candidates[0] = address_of_v4(own4);
		connection->candidates[1] = address_of_v6(own6);
		connection->candidates_count = 2;
		return;
	}
	add_candidate(connection, &connection->dialled);
	for (size_t i = 0; i < NAMES_MAX && *connection->name; i++) {
		const struct name_record *record = &gate->names.records[i];

		if (record->way == NAME_DIRECT && strcmp(record->name, connection->name) == 0 &&
			policy_allows(
				gate->policy, record->name, &record->address, connection->port))
			add_candidate(connection, &record->address);
	}
}

/* Once it is known whom it is for. */
static void reach(struct gate *gate, struct connection *connection)
{
	const struct proxy *proxy = &gate->settings.proxy;
	struct waiter waiter = {.kind = WAITER_CONNECTION,
		.index = (uint32_t)(connection - gate->connections.places),
		.generation = connection->generation};

	connection->candidates_count = connection->candidate = 0;
	connection->proxied =
		connection->way == NAME_PROXY ||
		(connection->way == NAME_DIRECT && !*connection->name &&
			settings_wants_proxy(&gate->settings, "", &connection->dialled));
	if (!connection->proxied) {
		find_candidates(gate, connection);
		connect_now(gate, connection);
		return;
	}
	if (!*proxy->name) {
		add_candidate(connection, &proxy->address);
		connect_now(gate, connection);
		return;
	}
	for (size_t i = 0; i < gate->settings.hosts_count; i++)
		if (strcmp(gate->settings.hosts[i].name, proxy->name) == 0)
			add_candidate(connection, &gate->settings.hosts[i].address);
	if (connection->candidates_count > 0) {
		connect_now(gate, connection);
		return;
	}
	connection->state = CONNECTION_RESOLVING;
	connection->due_us = gate->now_us + PROXY_MS * 1000ULL;
	resolver_ask(gate, proxy->name, DNS_A, &waiter);
}

void connections_resolved(struct gate *gate, const struct waiter *waiter, enum lookup_result result,
	const struct dns_addresses *addresses)
{
	struct connection *connection = &gate->connections.places[waiter->index];

	if (connection->state != CONNECTION_RESOLVING ||
		connection->generation != waiter->generation)
		return;
	if (result != LOOKUP_FOUND) {
		fail(gate, connection, REASON_PROXY, 0);
		return;
	}
	for (size_t i = 0; i < addresses->count; i++)
		add_candidate(connection, &addresses->list[i]);
	connect_now(gate, connection);
}

/* --- the host's proxy --- */

static void say_to_proxy(struct gate *gate, struct connection *connection)
{
	ssize_t n = 0;

	while (connection->head_sent < connection->head_length &&
		(n = send(connection->server, connection->head + connection->head_sent,
			 connection->head_length - connection->head_sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		connection->head_sent += (size_t)n;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		fail(gate, connection, REASON_CONNECT, errno);
}

static void begin_proxy(struct gate *gate, struct connection *connection)
{
	const char *credentials = gate->settings.proxy.credentials;
	char text[ADDRESS_TEXT_MAX], host[REPORT_HOST_MAX];
	bool v6 = !*connection->name && !address_is_v4(&connection->dialled);

	snprintf(host, sizeof host, "%s%s%s:%u", v6 ? "[" : "",
		*connection->name ? connection->name : address_format(&connection->dialled, text),
		v6 ? "]" : "", connection->port);
	connection->head = (uint8_t *)xasprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n",
		host, host, credentials ? "Proxy-Authorization: Basic " : "", credentials ?: "",
		credentials ? "\r\n" : "");
	connection->head_length = strlen((const char *)connection->head);
	connection->head_sent = 0;
	connection->state = CONNECTION_PROXY;
	connection->due_us = gate->now_us + PROXY_MS * 1000ULL;
	say_to_proxy(gate, connection);
}

/* The head of its answer is taken off the socket, and not a byte more. */
static void serve_proxy(struct gate *gate, struct connection *connection, uint32_t events)
{
	static char head[PROXY_HEAD_MAX + 1];
	ssize_t n;
	const char *end;
	int status = 0;

	say_to_proxy(gate, connection);
	if (connection->state != CONNECTION_PROXY)
		return;
	n = recv(connection->server, head, PROXY_HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fail(gate, connection, REASON_PROXY, 0);
		return;
	}
	head[n] = '\0';
	end = memmem(head, (size_t)n, "\r\n\r\n", 4);
	if (!end && n < PROXY_HEAD_MAX && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		return;
	if (!end || sscanf(head, "HTTP/1.%*1[01] %3d", &status) != 1 || status < 200 ||
		status > 299) {
		fail(gate, connection, REASON_PROXY, status > 0 ? status : 0);
		return;
	}
	n = end + 4 - head;
	if (recv(connection->server, NULL, (size_t)n, MSG_TRUNC | MSG_DONTWAIT) != n)
		fail(gate, connection, REASON_PROXY, 0);
	else
		begin_flow(gate, connection);
}

static struct address address_of(const struct sockaddr_storage *from)
{
	if (from->ss_family == AF_INET)
		return address_of_v4((const uint8_t *)&((const struct sockaddr_in *)from)->sin_addr);
	return address_of_v6((const uint8_t *)&((const struct sockaddr_in6 *)from)->sin6_addr);
}

/*
 * To the host itself, whose loopback interface loses nothing: the timers of BBR, which a host may have for far places, take close
 * to half of what that carries.
 */
static void tune_for_host(int server, const struct sockaddr_storage *peer)
{
	static const char reno[] = "reno";
	struct address there = address_of(peer), here;
	struct sockaddr_storage own;
	socklen_t length = sizeof own;

	if (getsockname(server, (struct sockaddr *)&own, &length) < 0)
		return;
	here = address_of(&own);
	if (address_equal(&here, &there))
		setsockopt(server, IPPROTO_TCP, TCP_CONGESTION, reno, strlen(reno));
}

static void serve_connecting(struct gate *gate, struct connection *connection, uint32_t events)
{
	int errnum = 0;
	socklen_t length = sizeof errnum;
	struct sockaddr_storage peer;

	if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		return;
	getsockopt(connection->server, SOL_SOCKET, SO_ERROR, &errnum, &length);
	length = sizeof peer;
	if (errnum) {
		connect_next(gate, connection, errnum);
		return;
	}
	if (getpeername(connection->server, (struct sockaddr *)&peer, &length) < 0)
		return; /* the event was that of the address before */
	tune_for_host(connection->server, &peer);
	if (connection->proxied)
		begin_proxy(gate, connection);
	else
		begin_flow(gate, connection);
}

/* --- what the client says first --- */

enum look { LOOK_MORE, LOOK_ALLOWED, LOOK_REFUSED /* it is reset */ };

static enum look look_at_tls(
	struct gate *gate, struct connection *connection, const void *data, size_t length)
{
	char name[POLICY_NAME_MAX + 1];

	switch (hello_read(data, length, name)) {
	case HELLO_MORE:
		return LOOK_MORE;
	case HELLO_NAME:
		if (takes_name(gate, connection, name))
			return LOOK_ALLOWED;
		refuse(gate, connection, REASON_TLS_NAME, name);
		return LOOK_REFUSED;
	case HELLO_NO_NAME:
		/* On other ports many have none: there the address has to do. */
		if (connection->by_address || connection->port != PORT_HTTPS)
			return LOOK_ALLOWED;
		refuse(gate, connection, REASON_NO_TLS_NAME, "");
		return LOOK_REFUSED;
	default:
		refuse(gate, connection, REASON_NO_TLS, connection->name);
		return LOOK_REFUSED;
	}
}

static enum look look_at_http(
	struct gate *gate, struct connection *connection, const void *data, size_t length)
{
	struct request_host host;
	enum request_result result = request_read(data, length, &host);
	bool same_port = host.port == 0 || host.port == connection->port;

	switch (result) {
	case REQUEST_MORE:
		return LOOK_MORE;
	case REQUEST_NAME:
		if (same_port && takes_name(gate, connection, host.name))
			return LOOK_ALLOWED;
		refuse(gate, connection, REASON_HTTP_HOST, host.name);
		return LOOK_REFUSED;
	case REQUEST_ADDRESS:
		if (same_port &&
			(connection->by_address || policy_allows_address(gate->policy,
							   &host.address, connection->port)))
			return LOOK_ALLOWED;
		gate_report(gate, REPORT_BLOCKED, REASON_ADDRESS, "", &host.address,
			connection->port, 0);
		reset(gate, connection);
		return LOOK_REFUSED;
	default:
		refuse(gate, connection, REASON_NO_HTTP, connection->name);
		return LOOK_REFUSED;
	}
}

static bool has_version(const char *line, size_t length)
{
	static const char http[] = "HTTP/";

	for (size_t at = 0; at + strlen(http) <= length; at++)
		if (strncasecmp(line + at, http, strlen(http)) == 0)
			return true;
	return false;
}

/*
 * Whether it begins as a request of HTTP/1 does, also after the blanks that servers forgive: with a method, which may be any
 * word in capital letters, and a line that has a version in it. Other protocols have such words too (RTSP, NATS, Redis), and
 * their lines come whole. 1: yes; 0: it is too early to tell; -1: no.
 */
static int begins_as_http(const char *data, size_t length)
{
	/* How HTTP/2 begins, which has its names elsewhere. */
	static const char preface[] = "PRI * HTTP/2.0\r\n";
	static const char blanks[] = " \t\r\n\v\f", letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
	size_t at = 0, method;
	const char *end;

	if (length >= strlen(preface) && memcmp(data, preface, strlen(preface)) == 0)
		return -1;
	while (at < length && data[at] && strchr(blanks, data[at]))
		at++;
	method = at;
	while (at < length && data[at] && strchr(letters, data[at]))
		at++;
	if (at == length)
		return length < REQUEST_MAX ? 0 : -1;
	if (at == method || !data[at] || !strchr(blanks, data[at]))
		return -1;
	end = memchr(data + at, '\n', length - at);
	if (has_version(data + at, end ? (size_t)(end - data) - at : length - at))
		return 1;
	return end || length >= REQUEST_MAX ? -1 : 0;
}

static enum look look_at_other(
	struct gate *gate, struct connection *connection, const char *data, size_t length)
{
	int http;

	if (data[0] == TLS_HANDSHAKE && (length < 2 || data[1] == 3))
		return look_at_tls(gate, connection, data, length);
	http = begins_as_http(data, length);
	if (http > 0)
		return look_at_http(gate, connection, data, length);
	return http == 0 && !connection->ended ? LOOK_MORE : LOOK_ALLOWED;
}

static enum look look_at(struct gate *gate, struct connection *connection, const char *data, size_t length)
{
	if (connection->port == PORT_HTTPS)
		return look_at_tls(gate, connection, data, length);
	if (connection->port == PORT_HTTP)
		return look_at_http(gate, connection, data, length);
	return look_at_other(gate, connection, data, length);
}

/* Looks at what the client has said so far. */
static enum look look(struct gate *gate, struct connection *connection)
{
	static char data[HELLO_MAX + 1];
	enum look result;
	ssize_t n = recv(connection->client, data, sizeof data, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return LOOK_MORE;
	if (n <= 0) {
		/* It has said nothing and never will. Where the server speaks first it may still listen. */
		if (n == 0 && connection->state == CONNECTION_FLOWING)
			return LOOK_ALLOWED;
		reset(gate, connection);
		return LOOK_REFUSED;
	}
	result = look_at(gate, connection, data, (size_t)n);
	if (result != LOOK_MORE || !connection->ended)
		return result;
	refuse(gate, connection, connection->port == PORT_HTTP ? REASON_NO_HTTP : REASON_NO_TLS, connection->name);
	return LOOK_REFUSED;
}

static void serve_hello(struct gate *gate, struct connection *connection)
{
	if (look(gate, connection) != LOOK_ALLOWED)
		return;
	connection->looking = false;
	reach(gate, connection);
}

/* The flow is there, and what the client says waits in it. */
static void serve_looking(struct gate *gate, struct connection *connection)
{
	enum look result = look(gate, connection);
	char byte;

	/* The time that it has begins with its first byte. */
	if (result == LOOK_MORE && connection->due_us == UINT64_MAX &&
		recv(connection->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		connection->due_us = gate->now_us + HELLO_MS * 1000ULL;
	if (result != LOOK_ALLOWED)
		return;
	connection->looking = false;
	connection->due_us = UINT64_MAX;
	connection->flow.ways[0].waits = false;
}

/* --- beginning --- */

/* What was dialled. */
static bool read_dialled(struct connection *connection)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;

	if (getsockname(connection->client, (struct sockaddr *)&address, &length) < 0)
		return false;
	connection->dialled = address_of(&address);
	return !address_is_loopback(&connection->dialled);
}

/* Whom it is for, as far as the address tells. False: it is refused. */
static bool judge(struct gate *gate, struct connection *connection)
{
	const struct name_record *record = NULL;

	connection->by_address =
		policy_allows_address(gate->policy, &connection->dialled, connection->port);
	if (find_name(gate, connection, NULL, &record)) {
		memcpy(connection->name, record->name, sizeof connection->name);
		connection->way = record->way;
		return true;
	}
	if (connection->by_address)
		return true;
	if (!record)
		refuse(gate, connection, REASON_ADDRESS, "");
	else if (address_is_private(&connection->dialled))
		refuse(gate, connection, REASON_PRIVATE, record->name);
	else
		refuse(gate, connection, REASON_PORT, record->name);
	return false;
}

static void begin(struct gate *gate, struct connection *connection, int client, uint16_t port)
{
	static const int buffer = CLIENT_BUFFER, on = 1;
	uint32_t index = (uint32_t)(connection - gate->connections.places);
	uint32_t generation = connection->generation;

	*connection = (struct connection){.state = CONNECTION_HELLO,
		.generation = generation,
		.client = client,
		.server = -1,
		.port = port,
		.looking = true,
		.due_us = gate->now_us + HELLO_MS * 1000ULL};
	gate->connections.used++;
	setsockopt(client, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
	setsockopt(client, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	/* Urgent data are passed on where they were said (flow.c), so there they are to be looked at. */
	setsockopt(client, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
	if (!read_dialled(connection) || gate_watch(gate, client, (uint32_t)FLOW_EVENTS,
						 tag_of(TAG_DIALLER, index, generation)) < 0) {
		reset(gate, connection);
		return;
	}
	if (!judge(gate, connection))
		return;
	if (port == PORT_HTTPS || port == PORT_HTTP)
		serve_hello(gate, connection);
	else
		reach(gate, connection);
}

static struct connection *free_place(struct connections *connections)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (connections->places[i].state == CONNECTION_FREE)
			return &connections->places[i];
	return NULL;
}

void connections_accept(struct gate *gate, int listener, uint16_t port)
{
	for (int i = 0; i < ACCEPTS_MAX && gate->connections.used < gate->connections.max; i++) {
		int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			return;
		if (client < 0) {
			/* No descriptor, or no memory. */
			stop_accepting(gate, gate->now_us + ACCEPT_PAUSE_MS * 1000ULL);
			return;
		}
		begin(gate, free_place(&gate->connections), client, port);
	}
	if (gate->connections.used == gate->connections.max)
		stop_accepting(gate, UINT64_MAX);
}

/* --- events --- */

void connections_serve(
	struct gate *gate, uint32_t index, uint32_t generation, unsigned side, uint32_t events)
{
	struct connection *connection = &gate->connections.places[index];

	if (connection->state == CONNECTION_FREE || connection->generation != generation)
		return;
	connection->ended |= side == 0 && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	if (connection->state == CONNECTION_FLOWING) {
		flow_note(&connection->flow, side, events);
		if (connection->looking && side == 0)
			serve_looking(gate, connection);
		if (connection->state == CONNECTION_FLOWING && connection->generation == generation)
			step(gate, connection);
	} else if (side == 0) {
		if (connection->state == CONNECTION_HELLO)
			serve_hello(gate, connection);
		else if (events & (EPOLLERR | EPOLLHUP))
			reset(gate,
				connection); /* it has gone before there was anybody to talk to */
	} else if (connection->state == CONNECTION_CONNECTING) {
		serve_connecting(gate, connection, events);
	} else if (connection->state == CONNECTION_PROXY) {
		serve_proxy(gate, connection, events);
	}
}

static void overdue(struct gate *gate, struct connection *connection)
{
	switch (connection->state) {
	case CONNECTION_HELLO:
	case CONNECTION_FLOWING:
		refuse(gate, connection, REASON_SILENT, connection->name);
		break;
	case CONNECTION_CONNECTING:
		connect_next(gate, connection, ETIMEDOUT);
		break;
	default:
		fail(gate, connection, REASON_PROXY, 0);
	}
}

uint64_t connections_check_clock(struct gate *gate)
{
	uint64_t next = UINT64_MAX;

	if (gate->connections.full && gate->connections.accept_us <= gate->now_us)
		accept_again(gate);
	if (gate->connections.full)
		next = gate->connections.accept_us;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &gate->connections.places[i];

		if (connection->state != CONNECTION_FREE && connection->due_us <= gate->now_us)
			overdue(gate, connection);
		if (connection->state != CONNECTION_FREE && connection->due_us < next)
			next = connection->due_us;
	}
	return next;
}
