/* SPDX-License-Identifier: MIT */
/*
 * Lookups at the host's name servers. Each question goes out from a socket of its own, connected, with a random id, so
 * that an answer which nobody was asked for has both to guess. A server that says nothing, or that it cannot, makes way
 * for the next; what was truncated is asked for over TCP.
 *
 * States of a lookup: fd < 0, it waits for a token of the bucket or for its next server; else one question is on its way,
 * over UDP or TCP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/inner.h"
#include "util/cleanup.h"

enum {
	PORT_DNS = 53,
	LOOKUP_BUFFER = 2 + DNS_MESSAGE_MAX,
	SECOND_US = 1000 * 1000,
	NEGATIVE_TTL = 10,
	MESSAGES_MAX = 16 /* that are read before others have their turn */
};

/* --- what was found --- */

static const struct cached *find_cached(const struct gate *gate, const char *name, uint16_t type)
{
	const struct cached *cache = gate->resolver.cache;

	for (size_t i = 0; i < CACHE_MAX; i++)
		if (cache[i].expires_us > gate->now_us && cache[i].type == type &&
			strcmp(cache[i].name, name) == 0)
			return &cache[i];
	return NULL;
}

static void remember(struct gate *gate, const struct dns_question *question,
	enum lookup_result result, const struct dns_addresses *addresses)
{
	struct cached *place = &gate->resolver.cache[gate->resolver.next_cached];
	uint32_t ttl = result != LOOKUP_FOUND ? NEGATIVE_TTL : addresses->ttl;

	if (ttl == 0)
		return;
	if (ttl > CACHE_TTL_MAX)
		ttl = CACHE_TTL_MAX;
	gate->resolver.next_cached = (gate->resolver.next_cached + 1) % CACHE_MAX;
	place->expires_us = gate->now_us + (uint64_t)ttl * SECOND_US;
	place->type = question->type;
	memcpy(place->name, question->name, sizeof place->name);
	place->result = result;
	place->addresses = *addresses;
}

/* --- lookups --- */

static void free_lookup(struct lookup *lookup)
{
	close_fd(&lookup->fd);
	free(lookup->buffer);
	lookup->buffer = NULL;
	lookup->used = false;
	lookup->generation++;
}

/* Tells all that wait for it. A lookup is free before anybody is told, as who is told may ask for more. */
static void finish(struct gate *gate, struct lookup *lookup, enum lookup_result result,
	const struct dns_addresses *addresses)
{
	const struct dns_question question = lookup->question;
	uint32_t index = (uint32_t)(lookup - gate->resolver.lookups);
	bool told[WAITERS_MAX] = {false};

	free_lookup(lookup);
	for (size_t i = 0; i < WAITERS_MAX; i++)
		told[i] = gate->resolver.waiters[i].kind != WAITER_NONE &&
			  gate->resolver.waiters[i].lookup == index;
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		struct waiter waiter = gate->resolver.waiters[i];

		if (!told[i])
			continue;
		gate->resolver.waiters[i].kind = WAITER_NONE;
		gate_resolved(gate, &waiter, question.name, question.type, result, addresses);
	}
}

static bool take_token(struct gate *gate)
{
	struct resolver *resolver = &gate->resolver;

	resolver->tokens +=
		(double)(gate->now_us - resolver->tokens_us) * QUERIES_PER_SECOND / SECOND_US;
	resolver->tokens_us = gate->now_us;
	if (resolver->tokens > QUERIES_BURST)
		resolver->tokens = QUERIES_BURST;
	if (resolver->tokens < 1)
		return false;
	resolver->tokens -= 1;
	return true;
}

static const struct name_server *server_of(const struct gate *gate, const struct lookup *lookup)
{
	return &gate->settings.servers[lookup->attempt % gate->settings.servers_count];
}

static void next_server(struct gate *gate, struct lookup *lookup);

/* Opens a socket to the server, and says the question over UDP. */
static bool send_question(struct gate *gate, struct lookup *lookup)
{
	const struct name_server *server = server_of(gate, lookup);
	struct sockaddr_storage address;
	socklen_t length = gate_sockaddr(&server->address, server->scope, PORT_DNS, &address);
	uint32_t index = (uint32_t)(lookup - gate->resolver.lookups);
	uint8_t question[DNS_UDP_MAX];

	if (getrandom(&lookup->id, sizeof lookup->id, 0) != sizeof lookup->id)
		return false;
	lookup->fd = socket(address.ss_family,
		(lookup->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	lookup->due_us = gate->now_us + SERVER_MS * 1000ULL;
	if (lookup->fd < 0 ||
		(connect(lookup->fd, (struct sockaddr *)&address, length) < 0 &&
			errno != EINPROGRESS) ||
		gate_watch(gate, lookup->fd, lookup->tcp ? EPOLLIN | EPOLLOUT : EPOLLIN,
			tag_of(TAG_LOOKUP, index, lookup->generation)) < 0)
		return false;
	if (!lookup->tcp) {
		size_t size = dns_write_question(&lookup->question, lookup->id, question);

		return send(lookup->fd, question, size, MSG_NOSIGNAL) == (ssize_t)size;
	}
	lookup->sent = lookup->received = 0;
	return true;
}

/* With a token, else later. */
static void try_to_send(struct gate *gate, struct lookup *lookup)
{
	if (!take_token(gate)) {
		lookup->due_us = gate->now_us + SECOND_US / QUERIES_PER_SECOND;
		return;
	}
	if (!send_question(gate, lookup))
		next_server(gate, lookup);
}

static void next_server(struct gate *gate, struct lookup *lookup)
{
	static const struct dns_addresses none;

	close_fd(&lookup->fd);
	/* An event of the one that was closed is of another generation. */
	lookup->generation++;
	lookup->tcp = false;
	if (++lookup->attempt == ROUNDS * gate->settings.servers_count) {
		finish(gate, lookup, LOOKUP_NO_ANSWER, &none);
		return;
	}
	lookup->due_us = gate->now_us;
}

static void ask_over_tcp(struct gate *gate, struct lookup *lookup)
{
	close_fd(&lookup->fd);
	lookup->generation++;
	if (!lookup->buffer)
		lookup->buffer = malloc(LOOKUP_BUFFER);
	lookup->tcp = true;
	if (!lookup->buffer || !send_question(gate, lookup))
		next_server(gate, lookup);
}

/* Whether it was an answer to the question. */
static bool take_answer(
	struct gate *gate, struct lookup *lookup, const void *message, size_t length)
{
	struct dns_addresses addresses;
	enum lookup_result result;

	if (!dns_read_answer(message, length, &lookup->question, lookup->id, &addresses))
		return false;
	if (addresses.truncated && !lookup->tcp) {
		ask_over_tcp(gate, lookup);
		return true;
	}
	if (addresses.code != DNS_NO_ERROR && addresses.code != DNS_NO_NAME) {
		next_server(gate, lookup);
		return true;
	}
	result = addresses.count > 0 ? LOOKUP_FOUND : LOOKUP_NO_SUCH_NAME;
	remember(gate, &lookup->question, result, &addresses);
	finish(gate, lookup, result, &addresses);
	return true;
}

static void receive_udp(struct gate *gate, struct lookup *lookup)
{
	static uint8_t message[DNS_MESSAGE_MAX];
	ssize_t n;

	/* What is no answer to it is as if it had not come. */
	for (int i = 0; i < MESSAGES_MAX; i++) {
		n = recv(lookup->fd, message, sizeof message, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			next_server(gate, lookup);
			return;
		}
		if (take_answer(gate, lookup, message, (size_t)n))
			return;
	}
}

/* False: the server is no use. */
static bool send_tcp(struct lookup *lookup)
{
	uint8_t frame[2 + DNS_UDP_MAX];
	size_t size = dns_write_question(&lookup->question, lookup->id, frame + 2);
	ssize_t n;

	frame[0] = (uint8_t)(size >> 8);
	frame[1] = (uint8_t)size;
	if (lookup->sent == size + 2)
		return true;
	n = send(lookup->fd, frame + lookup->sent, size + 2 - lookup->sent,
		MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == EINPROGRESS;
	lookup->sent += (size_t)n;
	return true;
}

static void serve_tcp(struct gate *gate, struct lookup *lookup, uint32_t events)
{
	size_t wanted;
	ssize_t n;

	if (events & EPOLLOUT && !(events & (EPOLLERR | EPOLLHUP))) {
		struct epoll_event event = {.events = EPOLLIN,
			.data.u64 = tag_of(TAG_LOOKUP, (uint32_t)(lookup - gate->resolver.lookups),
				lookup->generation)};

		if (!send_tcp(lookup) ||
			epoll_ctl(gate->epoll, EPOLL_CTL_MOD, lookup->fd, &event) < 0) {
			next_server(gate, lookup);
			return;
		}
	}
	if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		return;
	n = recv(lookup->fd, lookup->buffer + lookup->received, LOOKUP_BUFFER - lookup->received,
		MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		next_server(gate, lookup);
		return;
	}
	lookup->received += (size_t)n;
	wanted =
		lookup->received < 2 ? 2 : 2 + ((size_t)lookup->buffer[0] << 8 | lookup->buffer[1]);
	if (lookup->received >= wanted && wanted > 2 &&
		!take_answer(gate, lookup, lookup->buffer + 2, wanted - 2))
		next_server(gate, lookup);
}

void resolver_serve(struct gate *gate, uint32_t index, uint32_t generation, uint32_t events)
{
	struct lookup *lookup = &gate->resolver.lookups[index];

	if (!lookup->used || lookup->generation != generation || lookup->fd < 0)
		return;
	if (lookup->tcp)
		serve_tcp(gate, lookup, events);
	else
		receive_udp(gate, lookup);
}

static struct lookup *find_lookup(struct resolver *resolver, const char *name, uint16_t type)
{
	struct lookup *free_place = NULL;

	for (size_t i = 0; i < LOOKUPS_MAX; i++) {
		struct lookup *lookup = &resolver->lookups[i];

		if (!lookup->used)
			free_place = lookup;
		else if (lookup->question.type == type && strcmp(lookup->question.name, name) == 0)
			return lookup;
	}
	return free_place;
}

static struct waiter *find_waiter(struct resolver *resolver)
{
	for (size_t i = 0; i < WAITERS_MAX; i++)
		if (resolver->waiters[i].kind == WAITER_NONE)
			return &resolver->waiters[i];
	return NULL;
}

void resolver_ask(struct gate *gate, const char *name, uint16_t type, const struct waiter *waiter)
{
	static const struct dns_addresses none;
	const struct cached *cached = find_cached(gate, name, type);
	struct lookup *lookup = find_lookup(&gate->resolver, name, type);
	struct waiter *place = find_waiter(&gate->resolver);

	if (cached) {
		gate_resolved(gate, waiter, name, type, cached->result, &cached->addresses);
		return;
	}
	if (!lookup || !place) {
		gate_resolved(gate, waiter, name, type, LOOKUP_BUSY, &none);
		return;
	}
	*place = *waiter;
	place->lookup = (uint32_t)(lookup - gate->resolver.lookups);
	if (lookup->used)
		return;
	lookup->used = true;
	lookup->tcp = false;
	lookup->fd = -1;
	lookup->attempt = 0;
	dns_ask(name, type, &lookup->question);
	try_to_send(gate, lookup);
}

uint64_t resolver_check_clock(struct gate *gate)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < LOOKUPS_MAX; i++) {
		struct lookup *lookup = &gate->resolver.lookups[i];

		/* Each that is due goes on with its next server, and each attempt takes a token: this ends. */
		while (lookup->used && lookup->due_us <= gate->now_us) {
			if (lookup->fd >= 0)
				next_server(gate, lookup);
			else
				try_to_send(gate, lookup);
		}
		if (lookup->used && lookup->due_us < next)
			next = lookup->due_us;
	}
	return next;
}
