/* SPDX-License-Identifier: MIT */
/*
 * The gate whole, but for the Internet: its sockets are pairs of AF_UNIX whose other ends are the input's, which plays
 * the code inside, the name servers and the hosts; its clock is the input's as well. Whatever they say: it connects to no
 * address but those of the rules and those that a name server answered for an allowed name, to none that is private, on
 * 443 and 80 for an allowed name only; what it carries comes out as it went in; it comes to rest; and with its clients
 * all of theirs has gone.
 *
 * Input: whether there is a proxy; then steps, each of a byte that says what happens, and what that needs.
 *
 * link: -Wl,--wrap=socket,--wrap=connect,--wrap=accept4,--wrap=getsockname,--wrap=getpeername,--wrap=setsockopt
 * link: -Wl,--wrap=sendmsg,--wrap=getrandom,--wrap=clock_gettime
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "gate/gate.c" /* for its loop */
#include "gate/hello.h"
#include "gate/request.h"

enum {
	CLIENTS_MAX = 12,
	ENDS_MAX = 4096, /* descriptors */
	SAID_MAX = 1 << 13,
	PEERS_MAX = 32,
	STEPS_MAX = 2000 /* turns of the loop, until it must have come to rest */
};

/* Listening sockets: after those of the rules' ports. */
enum { TCP_QUESTIONS = 4, LISTENERS, UDP_QUESTIONS = LISTENERS };

static const char rules[] =
	"a.example.org,*.b.example.org,c.example.org:2222,c.example.org:8080,"
	"10.1.0.0/16:443,[fd00::1]:2222,1.1.1.1:443";
static const char *const names[] = {"a.example.org", "x.b.example.org", "c.example.org",
	"example.org", "evil.example.net", "A.EXAMPLE.ORG"};
static const uint16_t ports[] = {443, 80, 2222, 8080};
static const char *const addresses[] = {"93.184.216.34", "93.184.216.66", "2606:2800::34",
	"10.1.2.3", "10.2.0.1", "127.0.0.1", "::1", "169.254.169.254", "fd00::1", "fd00::2",
	"1.1.1.1", "64:ff9b::7f00:1", "198.18.0.1", "0.0.0.0", "::", "2002:a00:1::1"};
static const char name_server[] = "93.184.216.53", proxy[] = "93.184.216.88";

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What one end said, and how much of it the other has heard. */
struct speech {
	uint8_t said[SAID_MAX];
	size_t length, heard;
};

/* A connection of the code's, with its other end where it has one. */
struct peer {
	int gate_fd, far; /* the gate's descriptor; ours, -1: closed */
	struct address dialled;
	uint16_t port;
	int server_gate_fd, server_far; /* -1 */
	struct speech client, server;
};

/* By the gate's descriptors. */
static struct end {
	int far; /* 0: none */
	int type;
	uint16_t port; /* that was connected to */
} ends[ENDS_MAX];

static struct gate *gate;
static struct peer *peers[PEERS_MAX];
static size_t peers_count;
static int pending[LISTENERS][PEERS_MAX]; /* that wait to be accepted, by listening socket */
static size_t pending_count[LISTENERS];
static uint64_t clock_us;
static int connect_errno;
static uint8_t answered[SAID_MAX]; /* all that name servers said */
static size_t answered_length;

/* --- the system calls --- */

int __real_socket(int domain, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_clock_gettime(clockid_t which, struct timespec *ret);

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags);
int __wrap_clock_gettime(clockid_t which, struct timespec *ret);

/* *ret_far is nonblocking, too. */
static int pair_of(int type, int *ret_far)
{
	int pair[2];

	require(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0 &&
			pair[1] < ENDS_MAX,
		"there are sockets");
	*ret_far = pair[1];
	return pair[0];
}

int __wrap_socket(int domain, int type, int protocol)
{
	int fd, far;

	if (domain != AF_INET && domain != AF_INET6)
		return __real_socket(domain, type, protocol);
	type &= ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	fd = pair_of(type, &far);
	ends[fd] = (struct end){.far = far, .type = type};
	return fd;
}

static struct address address_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return address_of_v4(
			(const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr);
	return address_of_v6((const uint8_t *)&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool is_text(const struct address *address, const char *text)
{
	struct address other;

	return address_parse(text, &other) && address_equal(address, &other);
}

static bool was_answered(const struct address *address)
{
	size_t skipped = address_is_v4(address) ? 12 : 0;

	return memmem(answered, answered_length, address->bytes + skipped, 16 - skipped);
}

/* Whether what the client of a connection said is for a name of the rules. */
static bool says_allowed_name(const struct peer *peer)
{
	char name[POLICY_NAME_MAX + 1];
	struct request_host host;

	if (peer->port == 443)
		return hello_read(peer->client.said, peer->client.length, name) == HELLO_NAME &&
		       policy_allows_name(gate->policy, name);
	return request_read(peer->client.said, peer->client.length, &host) == REQUEST_NAME &&
	       policy_allows_name(gate->policy, host.name);
}

static struct peer *peer_of_server(int fd)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		for (size_t j = 0; gate->connections.places[i].server == fd && j < peers_count; j++)
			if (peers[j]->gate_fd == gate->connections.places[i].client)
				return peers[j];
	return NULL;
}

static void check_connect(int fd, const struct address *address, uint16_t port)
{
	struct peer *peer = peer_of_server(fd);
	bool by_rule;

	require(peer != NULL, "a connection is for somebody");
	peer->server_gate_fd = fd;
	peer->server_far = ends[fd].far;
	peer->server.length = peer->server.heard = 0; /* of an address that was tried before */
	if (gate->settings.proxy.used && is_text(address, proxy) && port == 3128)
		return;
	by_rule = policy_allows_address(gate->policy, address, port);
	require(port == peer->port, "a connection is to the port that was dialled");
	require(by_rule || !address_is_private(address), "no private address is connected to");
	require(by_rule || was_answered(address), "an address was answered, or is of a rule");
	require(by_rule || (port != 443 && port != 80) || says_allowed_name(peer),
		"the client said an allowed name");
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	struct address to = address_of(address);
	uint16_t port = ntohs(((const struct sockaddr_in *)address)->sin_port);

	(void)length;
	require(fd < ENDS_MAX && ends[fd].far, "it is a socket of the gate's");
	ends[fd].port = port;
	if (port == 53)
		require(is_text(&to, name_server), "names are asked of the name server");
	else if (ends[fd].type == SOCK_STREAM)
		check_connect(fd, &to, port);
	errno = connect_errno;
	return connect_errno ? -1 : 0;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	uint64_t one;

	(void)address, (void)length, (void)flags;
	for (size_t i = 0; i < gate->sockets.count; i++)
		if (gate->sockets.fds[i] == fd && read(fd, &one, sizeof one) == sizeof one) {
			int client = pending[i][0];

			memmove(pending[i], pending[i] + 1,
				--pending_count[i] * sizeof pending[i][0]);
			return client;
		}
	errno = EAGAIN;
	return -1;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	for (size_t i = 0; i < peers_count; i++)
		if (peers[i]->gate_fd == fd) {
			memset(v6, 0, sizeof *v6);
			v6->sin6_family = AF_INET6;
			memcpy(&v6->sin6_addr, peers[i]->dialled.bytes, 16);
			*length = sizeof *v6;
			return 0;
		}
	errno = ENOTCONN;
	return -1;
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
	(void)fd, (void)address, (void)length;
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	return level == SOL_SOCKET && name != SO_LINGER
		       ? __real_setsockopt(fd, level, name, value, length)
		       : 0;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct msghdr bare = {.msg_iov = message->msg_iov, .msg_iovlen = message->msg_iovlen};

	return __real_sendmsg(fd, &bare, flags);
}

ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags)
{
	(void)flags;
	memset(buffer, 0x5a, size);
	return (ssize_t)size;
}

int __wrap_clock_gettime(clockid_t which, struct timespec *ret)
{
	if (which != CLOCK_MONOTONIC || !gate)
		return __real_clock_gettime(which, ret);
	*ret = (struct timespec){(time_t)(clock_us / 1000000), (long)(clock_us % 1000000) * 1000};
	return 0;
}

/* --- the loop --- */

static void hear(int far, struct speech *speech)
{
	uint8_t buffer[4096];
	ssize_t n;

	while (far >= 0 && (n = recv(far, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
		require(speech->heard + (size_t)n <= speech->length &&
				memcmp(buffer, speech->said + speech->heard, (size_t)n) == 0,
			"what comes out is what went in");
		speech->heard += (size_t)n;
	}
}

static void turn(void)
{
	struct epoll_event events[EVENTS_MAX];

	for (int i = 0;; i++) {
		int timeout = check_clocks(gate), n;
		bool more = connections_step(gate);

		n = epoll_wait(gate->epoll, events, EVENTS_MAX, 0);
		for (int j = 0; j < n; j++)
			serve(gate, &events[j]);
		if (n == 0 && !more && timeout != 0)
			return;
		require(i < STEPS_MAX, "it comes to rest");
		for (size_t j = 0; !gate->settings.proxy.used && j < peers_count; j++) {
			hear(peers[j]->server_far, &peers[j]->client);
			hear(peers[j]->far, &peers[j]->server);
		}
	}
}

/* --- what happens --- */

static struct peer *pick(struct input *input)
{
	size_t which = take_byte(input);

	return peers_count ? peers[which % peers_count] : NULL;
}

static void wait_at(size_t listener, int fd)
{
	pending[listener][pending_count[listener]++] = fd;
	require(eventfd_write(gate->sockets.fds[listener], 1) == 0, "a client waits");
}

static void dial(struct input *input)
{
	const char *address = addresses[take_byte(input) % COUNT(addresses)];
	size_t port = take_byte(input) % COUNT(ports);
	struct peer *peer;

	if (peers_count == PEERS_MAX || pending_count[port] == PEERS_MAX)
		return;
	peer = calloc(1, sizeof *peer);
	require(peer && address_parse(address, &peer->dialled), "there is memory");
	peer->gate_fd = pair_of(SOCK_STREAM, &peer->far);
	peer->server_gate_fd = peer->server_far = -1;
	peer->port = ports[port];
	/* The descriptor of one that has ended. */
	for (size_t i = 0; i < peers_count; i++)
		if (peers[i]->gate_fd == peer->gate_fd)
			peers[i]->gate_fd = -1;
	peers[peers_count++] = peer;
	wait_at(port, peer->gate_fd);
}

static void say(int far, struct speech *speech, const void *data, size_t length)
{
	ssize_t n;

	if (far < 0 || length > SAID_MAX - speech->length)
		return;
	n = send(far, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		memcpy(speech->said + speech->length, data, (size_t)n);
	speech->length += n > 0 ? (size_t)n : 0;
}

static size_t put16(uint8_t *to, size_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
	return 2;
}

/* A ClientHello with that name, in one record. */
static size_t write_hello(const char *name, uint8_t *ret)
{
	size_t length = strlen(name), at = 0;

	at += put16(ret, 0x1603);
	ret[at++] = 1;
	at += put16(ret + at, 4 + 2 + 32 + 1 + 4 + 2 + 2 + 9 + length);
	at += put16(ret + at, 0x0100);
	at += put16(ret + at, 2 + 32 + 1 + 4 + 2 + 2 + 9 + length);
	at += put16(ret + at, 0x0303);
	memset(ret + at, 7, 32);
	at += 32;
	ret[at++] = 0;
	at += put16(ret + at, 2);
	at += put16(ret + at, 0x1301);
	at += put16(ret + at, 0x0100);
	at += put16(ret + at, 9 + length);
	at += put16(ret + at, 0);
	at += put16(ret + at, 5 + length);
	at += put16(ret + at, 3 + length);
	ret[at++] = 0;
	at += put16(ret + at, length);
	memcpy(ret + at, name, length);
	return at + length;
}

static size_t write_question(const char *name, uint16_t type, uint8_t *ret)
{
	struct dns_question question;

	dns_ask(name, type, &question);
	return dns_write_question(&question, 0x1234, ret);
}

static void client_says(struct input *input, uint8_t how)
{
	struct peer *peer = pick(input);
	const char *name = names[take_byte(input) % COUNT(names)];
	uint8_t data[512];
	size_t length;

	if (!peer)
		return;
	if (how == 0)
		length = take_bytes(input, data, take_byte(input));
	else if (how == 1)
		length = write_hello(name, data);
	else
		length = (size_t)snprintf(
			(char *)data, sizeof data, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", name);
	say(peer->far, &peer->client, data, length);
}

static void server_says(struct input *input)
{
	struct peer *peer = pick(input);
	uint8_t data[256];
	size_t length = take_bytes(input, data, take_byte(input));

	if (peer)
		say(peer->server_far, &peer->server, data, length);
}

static void end_one(struct input *input, bool server, bool whole)
{
	struct peer *peer = pick(input);
	int *far = peer ? server ? &peer->server_far : &peer->far : NULL;

	if (!far || *far < 0)
		return;
	shutdown(*far, SHUT_WR);
	if (whole)
		close_fd(far);
}

/* A question over UDP; with `raw`, whatever. The answer is not read: it was looked at where it is written. */
static void ask(struct input *input, int far, bool tcp, bool raw)
{
	static const uint16_t types[] = {1, 28, 16, 65};
	uint8_t data[2 + DNS_UDP_MAX], drain[4096];
	const char *name = names[take_byte(input) % COUNT(names)];
	uint16_t type = types[take_byte(input) % COUNT(types)];
	size_t length = raw ? take_bytes(input, data + 2, take_byte(input))
			    : write_question(name, type, data + 2);

	put16(data, length);
	(void)!send(
		far, tcp ? data : data + 2, length + (tcp ? 2 : 0), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (recv(far, drain, sizeof drain, MSG_DONTWAIT) > 0)
		;
}

/* What a name server says to one of the questions that are on their way. */
static void answer_lookup(struct input *input)
{
	size_t skipped = take_byte(input) % 4;
	uint8_t how = take_byte(input) % 4;
	struct dns_addresses list = {.count = 1, .ttl = take_byte(input)};
	uint8_t data[2 + DNS_ANSWER_MAX];
	struct dns_question question;
	size_t length;

	require(address_parse(addresses[take_byte(input) % COUNT(addresses)], &list.list[0]),
		"it is an address");
	for (size_t i = 0; i < LOOKUPS_MAX; i++) {
		const struct lookup *lookup = &gate->resolver.lookups[i];

		if (!lookup->used || lookup->fd < 0 || skipped-- > 0)
			continue;
		question = lookup->question;
		question.id = lookup->id;
		if (how == 0)
			length = take_bytes(input, data + 2, take_byte(input));
		else
			length = dns_write_answer(&question, how == 1 ? &list : NULL,
				how == 2 ? DNS_NO_NAME : DNS_NO_ERROR, data + 2, DNS_ANSWER_MAX);
		if (how == 3)
			data[2 + 2] |= 2; /* truncated */
		put16(data, length);
		if (length > sizeof answered - answered_length)
			return;
		memcpy(answered + answered_length, data + 2, length);
		answered_length += length;
		(void)!send(ends[lookup->fd].far, lookup->tcp ? data : data + 2,
			length + (lookup->tcp ? 2 : 0), MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
}

/* --- one input --- */

static int questions_far, dns_clients[CLIENTS_MAX];
static size_t dns_clients_count;

/* Opens a connection for questions, or asks, or says anything, or closes one. */
static void talk_dns(struct input *input)
{
	uint8_t how = take_byte(input);
	size_t which = take_byte(input);
	int *far = dns_clients_count ? &dns_clients[which % dns_clients_count] : NULL;

	if (how % 4 == 0 && dns_clients_count < CLIENTS_MAX)
		wait_at(TCP_QUESTIONS, pair_of(SOCK_STREAM, &dns_clients[dns_clients_count++]));
	else if (how % 4 < 3 && far && *far >= 0)
		ask(input, *far, true, how % 4 == 2);
	else if (far)
		close_fd(far);
}

static void begin_gate(struct policy *policy, bool with_proxy)
{
	static struct report report;
	struct error err;
	int far;

	gate = calloc(1, sizeof *gate);
	require(gate && policy_add(policy, "allow", rules, &err) == 0, "the rules are right");
	memset(&report, 0, sizeof report);
	clock_us = 1000000;
	connect_errno = 0;
	answered_length = peers_count = dns_clients_count = 0;
	memset(pending_count, 0, sizeof pending_count);
	gate->policy = policy;
	gate->report = &report;
	gate->settings.servers_count = 1;
	require(address_parse(name_server, &gate->settings.servers[0].address), "it is an address");
	if (with_proxy) {
		gate->settings.proxy.used = true;
		gate->settings.proxy.port = 3128;
		require(address_parse(proxy, &gate->settings.proxy.address), "it is an address");
	}
	gate->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < COUNT(ports); i++) {
		gate->sockets.fds[i] = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
		gate->sockets.ports[i] = ports[i];
	}
	gate->sockets.fds[TCP_QUESTIONS] = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	gate->sockets.ports[TCP_QUESTIONS] = GATE_PORT_DNS;
	gate->sockets.fds[UDP_QUESTIONS] = pair_of(SOCK_DGRAM, &far);
	gate->sockets.ports[UDP_QUESTIONS] = GATE_PORT_DNS;
	gate->sockets.udp[UDP_QUESTIONS] = true;
	gate->sockets.count = UDP_QUESTIONS + 1;
	questions_far = far;
	require(watch_sockets(gate, &err) == 0, "its sockets are watched");
	gate->now_us = clock_us;
	gate->resolver.tokens = QUERIES_BURST;
	gate->resolver.tokens_us = gate->now_us;
	nameserver_init(&gate->nameserver);
	connections_init(gate);
}

static void pass(uint64_t us)
{
	clock_us += us;
	turn();
}

static void end_gate(struct policy *policy)
{
	for (size_t i = 0; i < peers_count; i++) {
		close_fd(&peers[i]->far);
		close_fd(&peers[i]->server_far);
	}
	turn();
	for (int i = 0; i < 8; i++)
		pass(60 * 1000000ULL);
	require(gate->connections.used == 0, "no connection is left without its client");
	require(gate->connections.pipes.used == 0, "nor a pipe");
	for (size_t i = 0; i < LOOKUPS_MAX; i++)
		require(!gate->resolver.lookups[i].used && !gate->resolver.lookups[i].buffer,
			"nor a lookup");
	for (size_t i = 0; i < peers_count; i++)
		free(peers[i]);
	policy_free(policy);
	free(gate);
	gate = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct policy policy = {.count = 0};
	int first = next_descriptor();

	signal(SIGPIPE, SIG_IGN); /* as the gate has it */
	begin_gate(&policy, take_byte(&input) & 1);
	while (input.left > 0) {
		uint8_t step = take_byte(&input);

		switch (step % 14) {
		case 0:
			dial(&input);
			break;
		case 1:
		case 2:
		case 3:
			client_says(&input, step % 14 - 1);
			break;
		case 4:
			server_says(&input);
			break;
		case 5:
			end_one(&input, false, step & 0x80);
			break;
		case 6:
			end_one(&input, true, step & 0x80);
			break;
		case 7:
		case 8:
			ask(&input, questions_far, false, step % 14 == 8);
			break;
		case 9:
		case 10:
			answer_lookup(&input);
			break;
		case 11:
			clock_us += take_byte(&input) * 100000ULL;
			break;
		case 12:
			talk_dns(&input);
			break;
		default:
			connect_errno = step & 0x80 ? EINPROGRESS : step & 0x40 ? ECONNREFUSED : 0;
		}
		turn();
	}
	end_gate(&policy);
	require(close_range((unsigned)first, ~0U, 0) == 0, "descriptors are closed");
	memset(ends, 0, sizeof ends);
	return 0;
}
