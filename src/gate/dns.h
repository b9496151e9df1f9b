/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_DNS_H
#define NSBOX_GATE_DNS_H

/*
 * Messages of DNS (RFC 1035, with EDNS of RFC 6891), as far as a gate needs them: what a client asks for, the question for
 * a server, the addresses in its answer, and the answer for the client, which is made anew. Nothing that came is passed
 * on. All functions are pure, and read no byte behind `length`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/address.h"
#include "gate/policy.h"

enum {
	DNS_UDP_MAX =
		512, /* bytes of an answer, where the client does not say that it takes more */
	DNS_EDNS_MAX = 1232, /* that we send then */
	DNS_MESSAGE_MAX = 65535,
	DNS_ADDRESSES_MAX = 32, /* that are taken of an answer */
	DNS_CHAIN_MAX = 16,     /* CNAMEs that are followed */
};

/* RFC 1035 and 3596. Others are passed through as numbers. */
enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_AAAA = 28, DNS_HTTPS = 65 };

enum dns_code {
	DNS_NO_ERROR = 0,
	DNS_FORMAT_ERROR = 1,
	DNS_SERVER_FAILURE = 2,
	DNS_NO_NAME = 3,
	DNS_NOT_IMPLEMENTED = 4,
	DNS_REFUSED = 5
};

struct dns_question {
	uint16_t id;
	char name[POLICY_NAME_MAX + 1]; /* as policy_normalize has it */
	uint8_t wire[255 + 4]; /* the same as it came, in the client's letters, with type and class */
	size_t wire_length;
	uint16_t type;
	uint16_t udp_max; /* bytes of an answer that the client takes over UDP */
	bool recursion;   /* it was desired, which is said again */
};

enum dns_result {
	DNS_OK,
	DNS_IGNORE, /* no question, or too short to be answered at all */
	DNS_WRONG,  /* to be answered with *ret_code, of the question as far as it was read */
};

/* Reads what a client sent. */
enum dns_result dns_read_question(
	const void *message, size_t length, struct dns_question *ret, enum dns_code *ret_code);

/* A question of our own, for a name as policy_normalize has it. */
void dns_ask(const char *name, uint16_t type, struct dns_question *ret);

/* The question for a server, with an id of its own, in `ret` of at least DNS_UDP_MAX bytes. Returns its length. */
size_t dns_write_question(const struct dns_question *question, uint16_t id, uint8_t *ret);

struct dns_addresses {
	struct address list[DNS_ADDRESSES_MAX];
	size_t count;
	uint32_t ttl; /* seconds: the least on the way */
	enum dns_code code;
	bool truncated; /* there is more, over TCP */
};

/*
 * The addresses (of A or AAAA, as the question has it) in a server's answer to it. False: it is none, or it makes no sense:
 * another id, another question, a pointer that leads nowhere, a chain of names that is too long or does not end.
 */
bool dns_read_answer(const void *message, size_t length, const struct dns_question *question,
	uint16_t id, struct dns_addresses *ret);

/*
 * The answer for the client: these addresses (may be NULL) under the name that it asked for, or a code. Over UDP at most
 * `max` bytes: what has no room is left out, and the answer says that it is truncated. Returns its length.
 */
size_t dns_write_answer(const struct dns_question *question, const struct dns_addresses *addresses,
	enum dns_code code, uint8_t *ret, size_t max);

#endif
