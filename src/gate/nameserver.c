/* SPDX-License-Identifier: MIT */
/*
 * The name server that a sandbox sees, at whatever address it asks. Answers are made here, of addresses only; nothing of a
 * name server's message goes in, and of a question nothing but an allowed name goes out. So there is no tunnel in it but
 * the names themselves, below a wildcard.
 *
 *   a name that no rule allows     NXDOMAIN at once: with REFUSED or silence, resolvers try again for seconds
 *   other types than A and AAAA    nothing is there
 *   what hosts(5) of the host has  that
 *   behind a proxy                 a place of 198.18.0.0/15, one for each name
 *   else                           what the host's name servers say, without what is private and no rule has, and without
 *                                  what the host has no route to: a client would take it for reachable, as it reaches us
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/inner.h"
#include "util/cleanup.h"

enum { ANSWER_TTL = 60 /* seconds, of what is our own */, QUESTIONS_MAX = 32 /* in a turn */ };

void nameserver_init(struct nameserver *nameserver)
{
	for (size_t i = 0; i < DNS_CLIENTS_MAX; i++)
		nameserver->clients[i].fd = -1;
}

/* --- answers over UDP --- */

/* From the address that was asked, or a client that is connected does not take it. */
static void send_udp(const struct waiter *waiter, const void *answer, size_t length)
{
	union {
		char buffer[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr align;
	} control = {.buffer = {0}};
	struct sockaddr_storage peer = waiter->peer;
	struct iovec iov = {.iov_base = (void *)answer, .iov_len = length};
	bool v6 = peer.ss_family == AF_INET6;
	struct msghdr message = {.msg_name = &peer,
		.msg_namelen = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen =
			v6 ? CMSG_SPACE(sizeof waiter->to6) : CMSG_SPACE(sizeof waiter->to4)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	header->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
	header->cmsg_len = v6 ? CMSG_LEN(sizeof waiter->to6) : CMSG_LEN(sizeof waiter->to4);
	memcpy(CMSG_DATA(header), v6 ? (const void *)&waiter->to6 : (const void *)&waiter->to4,
		v6 ? sizeof waiter->to6 : sizeof waiter->to4);
	/* Whom it does not reach asks again. */
	(void)!sendmsg(waiter->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- answers over TCP --- */

static struct dns_client *client_of(struct gate *gate, const struct waiter *waiter)
{
	struct dns_client *client = &gate->nameserver.clients[waiter->index];

	return client->fd >= 0 && client->generation == waiter->generation ? client : NULL;
}

static void close_client(struct dns_client *client)
{
	close_fd(&client->fd);
	client->in_length = client->out_length = client->out_sent = 0;
	client->asked = false;
}

static void flush_client(struct gate *gate, struct dns_client *client)
{
	ssize_t n = send(client->fd, client->out + client->out_sent,
		client->out_length - client->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_client(client);
		return;
	}
	client->out_sent += n > 0 ? (size_t)n : 0;
	if (client->out_sent < client->out_length)
		return;
	client->out_length = client->out_sent = 0;
	client->due_us = gate->now_us + DNS_CLIENT_MS * 1000ULL;
}

static void send_tcp(
	struct gate *gate, const struct waiter *waiter, const void *answer, size_t length)
{
	struct dns_client *client = client_of(gate, waiter);

	if (!client || client->out_length > 0)
		return;
	client->asked = false;
	client->out[0] = (uint8_t)(length >> 8);
	client->out[1] = (uint8_t)length;
	memcpy(client->out + 2, answer, length);
	client->out_length = length + 2;
	flush_client(gate, client);
}

static void answer(struct gate *gate, const struct waiter *waiter, enum dns_code code,
	const struct dns_addresses *addresses)
{
	uint8_t message[DNS_ANSWER_MAX];
	size_t max = waiter->kind == WAITER_UDP ? waiter->question.udp_max : sizeof message;
	size_t length = dns_write_answer(&waiter->question, addresses, code, message, max);

	if (waiter->kind == WAITER_UDP)
		send_udp(waiter, message, length);
	else
		send_tcp(gate, waiter, message, length);
}

/* --- what there is to answer --- */

static bool is_of_type(const struct address *address, uint16_t type)
{
	return address_is_v4(address) == (type == DNS_A);
}

/* Whether the host has a route there. Nothing is sent. */
static bool has_route(const struct address *address)
{
	struct sockaddr_storage to;
	socklen_t length = gate_sockaddr(address, 0, 9, &to);
	cleanup_close int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && (connect(fd, (struct sockaddr *)&to, length) == 0 ||
				  (errno != ENETUNREACH && errno != EHOSTUNREACH &&
					  errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT));
}

/*
 * The addresses of a name that may be known, each noted as one that was answered. A loopback address would be the
 * sandbox's own there.
 */
static void answer_with(struct gate *gate, const struct waiter *waiter, const char *name,
	const struct dns_addresses *found)
{
	struct dns_addresses kept = {.ttl = found->ttl < ANSWER_TTL ? found->ttl : ANSWER_TTL};
	size_t unreachable = 0;

	for (size_t i = 0; i < found->count; i++) {
		const struct address *address = &found->list[i];

		if (address_is_loopback(address) ||
			(address_is_private(address) &&
				!policy_has_address(gate->policy, address))) {
			gate_report(gate, REPORT_BLOCKED, REASON_PRIVATE, name, address, 0, 0);
			continue;
		}
		if (!has_route(address)) {
			unreachable++;
			continue;
		}
		names_add(&gate->names, name, address);
		kept.list[kept.count++] = *address;
	}
	/* Many hosts have no IPv6, and nobody misses it there. */
	if (kept.count == 0 && unreachable > 0 && waiter->question.type == DNS_A)
		gate_report(
			gate, REPORT_FAILED, REASON_CONNECT, name, &found->list[0], 0, ENETUNREACH);
	answer(gate, waiter, DNS_NO_ERROR, &kept);
}

static void answer_place(
	struct gate *gate, const struct waiter *waiter, const char *name, enum name_way way)
{
	struct dns_addresses place = {.ttl = ANSWER_TTL};

	if (waiter->question.type == DNS_A)
		place.list[place.count++] = names_place(&gate->names, name, way);
	answer(gate, waiter, DNS_NO_ERROR, &place);
}

/* Whether hosts(5) of the host has the name; then nobody else is asked. */
static bool answer_from_hosts(struct gate *gate, const struct waiter *waiter, const char *name)
{
	struct dns_addresses found = {.ttl = ANSWER_TTL};
	bool has = false;

	for (size_t i = 0; i < gate->settings.hosts_count; i++) {
		const struct host_line *line = &gate->settings.hosts[i];

		if (strcmp(line->name, name) != 0)
			continue;
		has = true;
		if (is_of_type(&line->address, waiter->question.type) &&
			found.count < DNS_ADDRESSES_MAX)
			found.list[found.count++] = line->address;
	}
	if (has)
		answer_with(gate, waiter, name, &found);
	return has;
}

/* What it asked meanwhile is at hand, and no event will tell of it. */
static void read_client(struct gate *gate, struct dns_client *client);

static void go_on(struct gate *gate, const struct waiter *waiter)
{
	struct dns_client *client = waiter->kind == WAITER_TCP ? client_of(gate, waiter) : NULL;

	if (client && !client->reading)
		read_client(gate, client);
}

/* Programs such as apt ask for _SERVICE._PROTOCOL.HOST first, and go on with HOST, as they would with any rule: records of
   services are answered for no name. */
static bool is_service_of_allowed(const struct policy *policy, const char *name)
{
	const char *host = name, *dot;

	while (*host == '_' && (dot = strchr(host, '.')))
		host = dot + 1;
	return host != name && policy_allows_name(policy, host);
}

/* Programs ask for names of addresses to show them, and a name of the machine itself leads nowhere else. */
static bool is_of_interest(const struct policy *policy, const char *name)
{
	size_t length = strlen(name);

	return strcmp(name, "localhost") != 0 && (length < 5 || strcmp(name + length - 5, ".arpa") != 0) &&
		!is_service_of_allowed(policy, name);
}

static void serve_question(struct gate *gate, const struct waiter *waiter)
{
	const struct dns_question *question = &waiter->question;
	const char *name = question->name;
	static const struct address none;

	if (!policy_allows_name(gate->policy, name)) {
		if (is_of_interest(gate->policy, name))
			gate_report(gate, REPORT_BLOCKED, REASON_NAME, name, &none, 0, 0);
		answer(gate, waiter, DNS_NO_NAME, NULL);
	} else if (question->type != DNS_A && question->type != DNS_AAAA) {
		answer(gate, waiter, DNS_NO_ERROR, NULL);
	} else if (strcmp(name, POLICY_HOST_NAME) == 0) {
		answer_place(gate, waiter, name, NAME_HOST);
	} else if (settings_wants_proxy(&gate->settings, name, NULL)) {
		answer_place(gate, waiter, name, NAME_PROXY);
	} else if (!answer_from_hosts(gate, waiter, name)) {
		resolver_ask(gate, name, question->type, waiter);
	}
}

void nameserver_resolved(struct gate *gate, const struct waiter *waiter, const char *name,
	uint16_t type, enum lookup_result result, const struct dns_addresses *addresses)
{
	static const struct address none;

	switch (result) {
	case LOOKUP_FOUND:
		answer_with(gate, waiter, name, addresses);
		break;
	case LOOKUP_NO_SUCH_NAME:
		if (addresses->code == DNS_NO_NAME)
			gate_report(gate, REPORT_FAILED, REASON_NO_SUCH_NAME, name, &none, 0, 0);
		answer(gate, waiter, addresses->code, NULL);
		break;
	case LOOKUP_NO_ANSWER:
		gate_report(gate, REPORT_FAILED, REASON_NO_ANSWER, name, &none, 0, 0);
		answer(gate, waiter, DNS_SERVER_FAILURE, NULL);
		break;
	case LOOKUP_BUSY:
		gate_report(gate, REPORT_FAILED, REASON_BUSY, name, &none, 0, 0);
		answer(gate, waiter, DNS_SERVER_FAILURE, NULL);
		break;
	}
	go_on(gate, waiter);
}

static void serve_message(
	struct gate *gate, struct waiter *waiter, const void *message, size_t length)
{
	enum dns_code code = DNS_FORMAT_ERROR;

	switch (dns_read_question(message, length, &waiter->question, &code)) {
	case DNS_OK:
		serve_question(gate, waiter);
		break;
	case DNS_WRONG:
		answer(gate, waiter, code, NULL);
		break;
	case DNS_IGNORE:
		break;
	}
}

/* --- questions --- */

static bool receive_question(
	int socket, struct waiter *waiter, void *message, size_t size, size_t *ret_length)
{
	union {
		char buffer[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			    CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = message, .iov_len = size};
	struct msghdr header = {.msg_name = &waiter->peer,
		.msg_namelen = sizeof waiter->peer,
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof control.buffer};
	ssize_t n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;
	waiter->kind = WAITER_UDP;
	waiter->socket = socket;
	for (struct cmsghdr *next = CMSG_FIRSTHDR(&header); next;
		next = CMSG_NXTHDR(&header, next)) {
		if (next->cmsg_level == IPPROTO_IPV6 && next->cmsg_type == IPV6_PKTINFO)
			memcpy(&waiter->to6, CMSG_DATA(next), sizeof waiter->to6);
		if (next->cmsg_level == IPPROTO_IP && next->cmsg_type == IP_PKTINFO) {
			memcpy(&waiter->to4, CMSG_DATA(next), sizeof waiter->to4);
			waiter->to4.ipi_spec_dst = waiter->to4.ipi_addr;
		}
	}
	*ret_length = (size_t)n;
	return true;
}

void nameserver_receive(struct gate *gate, int socket)
{
	uint8_t message[DNS_CLIENT_QUESTION_MAX];
	size_t length;

	for (int i = 0; i < QUESTIONS_MAX; i++) {
		struct waiter waiter = {.kind = WAITER_UDP};

		if (!receive_question(socket, &waiter, message, sizeof message, &length))
			return;
		serve_message(gate, &waiter, message, length);
	}
}

/* The place that is free, or that of who has waited for itself longest. */
static struct dns_client *take_place(struct nameserver *nameserver)
{
	struct dns_client *oldest = &nameserver->clients[0];

	for (size_t i = 0; i < DNS_CLIENTS_MAX; i++) {
		if (nameserver->clients[i].fd < 0)
			return &nameserver->clients[i];
		if (nameserver->clients[i].due_us < oldest->due_us)
			oldest = &nameserver->clients[i];
	}
	close_client(oldest);
	return oldest;
}

void nameserver_accept(struct gate *gate, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct dns_client *client;

	if (fd < 0)
		return;
	client = take_place(&gate->nameserver);
	client->fd = fd;
	client->generation = ++gate->nameserver.generation;
	client->due_us = gate->now_us + DNS_CLIENT_MS * 1000ULL;
	client->in_length = client->out_length = client->out_sent = 0;
	client->asked = false;
	if (gate_watch(gate, fd, FLOW_EVENTS,
		    tag_of(TAG_DNS_CLIENT, (uint32_t)(client - gate->nameserver.clients),
			    client->generation)) < 0)
		close_client(client);
}

/* One question at a time: the next is looked at when the first has its answer. */
static void read_client(struct gate *gate, struct dns_client *client)
{
	struct waiter waiter = {.kind = WAITER_TCP,
		.index = (uint32_t)(client - gate->nameserver.clients),
		.generation = client->generation};

	client->reading = true;
	while (client->fd >= 0 && !client->asked && client->out_length == 0) {
		size_t wanted = client->in_length < 2
					? 2
					: 2 + ((size_t)client->in[0] << 8 | client->in[1]);
		ssize_t n;

		if (wanted > sizeof client->in || (client->in_length >= 2 && wanted == 2)) {
			close_client(client);
			break;
		}
		if (client->in_length == wanted) {
			client->in_length = 0;
			client->asked = true;
			serve_message(gate, &waiter, client->in + 2, wanted - 2);
			continue;
		}
		n = recv(client->fd, client->in + client->in_length, wanted - client->in_length,
			MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			close_client(client);
			break;
		}
		client->in_length += (size_t)n;
	}
	client->reading = false;
}

void nameserver_serve(struct gate *gate, uint32_t index, uint32_t generation, uint32_t events)
{
	struct dns_client *client = &gate->nameserver.clients[index];

	if (client->fd < 0 || client->generation != generation)
		return;
	if (client->out_length > 0)
		flush_client(gate, client);
	if (client->fd >= 0)
		read_client(gate, client);
}

uint64_t nameserver_check_clock(struct gate *gate)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < DNS_CLIENTS_MAX; i++) {
		struct dns_client *client = &gate->nameserver.clients[i];

		if (client->fd >= 0 && client->due_us <= gate->now_us)
			close_client(client);
		if (client->fd >= 0 && client->due_us < next)
			next = client->due_us;
	}
	return next;
}
