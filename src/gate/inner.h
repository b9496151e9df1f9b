/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_INNER_H
#define NSBOX_GATE_INNER_H

/*
 * The gate's process, inside: one thread, one loop over epoll (gate.c). Its parts know each other by this header.
 *
 *   resolver.c      asks the host's name servers, and remembers for a while
 *   nameserver.c    answers the sandbox's questions, as the rules have it
 *   connections.c   connections of the sandbox: who they are for, whether that is allowed, and their flows
 *
 * All memory is here, in arrays of fixed size; what there is no room for waits or is refused. Whatever comes from a socket
 * is a stranger's: the sandbox's code, name servers, and the hosts that it reaches.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/dns.h"
#include "gate/flow.h"
#include "gate/names.h"
#include "gate/policy.h"
#include "gate/report.h"
#include "gate/settings.h"
#include "gate/sockets.h"

struct gate;

/* What an event is about: in epoll's data. */
enum tag_kind {
	TAG_SUPERVISOR,
	TAG_LISTENER,
	TAG_QUESTIONS,  /* UDP 53 */
	TAG_DNS_CLIENT, /* over TCP */
	TAG_LOOKUP,
	TAG_DIALLER, /* a connection's side in the sandbox */
	TAG_DIALLED, /* and its other */
};

/* `generation`: of the place, so that an event that is late does not concern who came after. */
uint64_t tag_of(enum tag_kind kind, uint32_t index, uint32_t generation);
int gate_watch(struct gate *gate, int fd, uint32_t events, uint64_t tag);

/* --- lookups: resolver.c --- */

enum {
	LOOKUPS_MAX = 64,
	WAITERS_MAX = 128,
	CACHE_MAX = 256,
	CACHE_TTL_MAX = 60, /* seconds */
	QUERIES_PER_SECOND = 20,
	QUERIES_BURST = 40,
	SERVER_MS = 2000, /* for one answer */
	ROUNDS = 2,       /* over all servers */
};

enum lookup_result { LOOKUP_FOUND, LOOKUP_NO_SUCH_NAME, LOOKUP_NO_ANSWER, LOOKUP_BUSY };

enum waiter_kind { WAITER_NONE, WAITER_UDP, WAITER_TCP, WAITER_CONNECTION };

/* Who is told of the result. */
struct waiter {
	enum waiter_kind kind;
	uint32_t lookup;            /* its index */
	uint32_t index, generation; /* of the TCP client, or of the connection */
	int socket;                 /* UDP: where the question came from and to */
	struct sockaddr_storage peer;
	struct in6_pktinfo to6;
	struct in_pktinfo to4;
	struct dns_question question; /* not for connections */
};

struct lookup {
	bool used, tcp;
	uint32_t generation;
	int fd; /* -1: it waits for its turn */
	uint16_t id;
	unsigned attempt; /* from 0: which server in which round */
	uint64_t due_us;
	struct dns_question question;
	uint8_t *buffer; /* over TCP: owned, of LOOKUP_BUFFER bytes */
	size_t sent, received;
};

struct cached {
	uint64_t expires_us;
	uint16_t type;
	char name[POLICY_NAME_MAX + 1];
	enum lookup_result result;
	struct dns_addresses addresses;
};

struct resolver {
	struct lookup lookups[LOOKUPS_MAX];
	struct waiter waiters[WAITERS_MAX];
	struct cached cache[CACHE_MAX];
	size_t next_cached;
	double tokens;
	uint64_t tokens_us;
};

/*
 * Looks up the addresses of a name, DNS_A or DNS_AAAA. `waiter` (copied) is told with gate_resolved, maybe before this
 * returns.
 */
void resolver_ask(struct gate *gate, const char *name, uint16_t type, const struct waiter *waiter);

void resolver_serve(struct gate *gate, uint32_t index, uint32_t generation, uint32_t events);

/* Returns when to come again, at the latest. */
uint64_t resolver_check_clock(struct gate *gate);

/* Tells `waiter`: nameserver.c or connections.c. `addresses` only where they were found. */
void gate_resolved(struct gate *gate, const struct waiter *waiter, const char *name, uint16_t type,
	enum lookup_result result, const struct dns_addresses *addresses);

/* --- questions: nameserver.c --- */

/* An answer of ours has at most DNS_ADDRESSES_MAX addresses. */
enum { DNS_ANSWER_MAX = 4096 };

enum { DNS_CLIENTS_MAX = 16, DNS_CLIENT_MS = 10 * 1000, DNS_CLIENT_QUESTION_MAX = 600 };

struct dns_client {
	int fd; /* -1: a free place */
	uint32_t generation;
	uint64_t due_us;
	uint8_t in[2 + DNS_CLIENT_QUESTION_MAX];
	size_t in_length;
	uint8_t out[2 + DNS_ANSWER_MAX];
	size_t out_length, out_sent;
	bool asked;   /* it waits for an answer */
	bool reading; /* its questions are being looked at */
};

struct nameserver {
	struct dns_client clients[DNS_CLIENTS_MAX];
	uint32_t generation;
};

void nameserver_init(struct nameserver *nameserver);
void nameserver_receive(struct gate *gate, int socket);
void nameserver_accept(struct gate *gate, int listener);
void nameserver_serve(struct gate *gate, uint32_t index, uint32_t generation, uint32_t events);
uint64_t nameserver_check_clock(struct gate *gate);
void nameserver_resolved(struct gate *gate, const struct waiter *waiter, const char *name,
	uint16_t type, enum lookup_result result, const struct dns_addresses *addresses);

/* --- connections: connections.c --- */

enum {
	CONNECTIONS_MAX = 256,
	HELLO_MS = 10 * 1000,   /* for what says whom it is for */
	CONNECT_MS = 30 * 1000, /* for one address */
	PROXY_MS = 30 * 1000,
	PROXY_HEAD_MAX = 16 << 10,
	CANDIDATES_MAX = 8,
};

enum connection_state {
	CONNECTION_FREE,
	CONNECTION_HELLO,     /* what the client says first is waited for */
	CONNECTION_RESOLVING, /* the proxy's name is looked up */
	CONNECTION_CONNECTING,
	CONNECTION_PROXY, /* the proxy's answer is waited for */
	CONNECTION_FLOWING,
};

struct connection {
	enum connection_state state;
	uint32_t generation;
	int client, server; /* owned, until the flow has them; -1 */
	struct address dialled;
	uint16_t port;
	bool by_address;                /* a rule has the address itself */
	char name[POLICY_NAME_MAX + 1]; /* whom it is for; empty: the address */
	enum name_way way;
	bool proxied;
	struct address candidates[CANDIDATES_MAX]; /* to connect to, the first first */
	size_t candidates_count, candidate;
	uint8_t *head; /* owned: what is said to the proxy */
	size_t head_length, head_sent;
	uint64_t due_us; /* UINT64_MAX: never */
	bool ended;	 /* the client says no more */
	bool looking;    /* what the client says first is still to be looked at */
	bool queued;     /* its flow has more to do */
	struct flow flow;
};

struct connections {
	struct connection places[CONNECTIONS_MAX];
	size_t max, used;
	uint32_t generation;
	bool full;          /* the listening sockets are not looked at */
	uint64_t accept_us; /* until then, or a connection ends */
	struct flow_pipes pipes;
};

void connections_init(struct gate *gate);
void connections_accept(struct gate *gate, int listener, uint16_t port);
void connections_serve(
	struct gate *gate, uint32_t index, uint32_t generation, unsigned side, uint32_t events);
uint64_t connections_check_clock(struct gate *gate);
/* Gives flows that have more to do their turn. Returns whether there are such still. */
bool connections_step(struct gate *gate);
/* Whether there is something that clients have said and that was not passed on. */
bool connections_have_to_say(const struct gate *gate);
void connections_resolved(struct gate *gate, const struct waiter *waiter, enum lookup_result result,
	const struct dns_addresses *addresses);

/* --- all of it --- */

struct gate {
	const struct policy *policy;
	struct settings settings;
	struct names names;
	struct report *report;
	struct resolver resolver;
	struct nameserver nameserver;
	struct connections connections;
	struct gate_sockets sockets;
	int epoll, supervisor;
	uint64_t now_us;
	uint64_t finish_us; /* the sandbox is gone, and that is the end at the latest; UINT64_MAX: it is there */
};

/* Lets the listening sockets be looked at, or not. */
void gate_listen(struct gate *gate, bool on);

void gate_report(struct gate *gate, enum report_verdict verdict, enum report_reason reason,
	const char *name, const struct address *address, uint16_t port, int value);

/* «address:port» → what connect(2) takes. Returns its length. */
socklen_t gate_sockaddr(
	const struct address *address, uint32_t scope, uint16_t port, struct sockaddr_storage *ret);

#endif
