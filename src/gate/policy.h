/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_POLICY_H
#define NSBOX_GATE_POLICY_H

/*
 * Which hosts code may reach: «HOST», «HOST:PORT», «*.HOST», «ADDRESS», «ADDRESS/BITS», «[ADDRESS]:PORT»,
 * «[ADDRESS]/BITS:PORT», with commas between. Without a port it is 443 and 80. A star stands for one or more labels at the beginning of a name, and for
 * nothing else.
 *
 * A name is compared as DNS does it: letters in any case, a dot at the end makes no difference. A place of the host's own
 * network (address_is_private) is reached only where a rule has its address, whatever name leads there: the owner of a
 * name decides where it leads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/address.h"

struct error;

enum { POLICY_NAME_MAX = 253, POLICY_RULES_MAX = 256 };

struct policy_rule {
	char name[POLICY_NAME_MAX +
		  1];  /* in small letters, without a dot at its end; empty: an address */
	bool wildcard; /* of what is below the name, not of the name itself */
	struct address address;
	unsigned bits;     /* of the address that count, of 128 */
	uint16_t ports[2]; /* the second is 0 where there is one */
};

struct policy {
	struct policy_rule *rules; /* owned */
	size_t count;
};

/* The name, inside, of what listens on the host's own loopback interface. A rule has to name it itself. */
#define POLICY_HOST_NAME "host.nsbox.internal"

/* Adds the rules of `text`. `what` names it in errors. Returns 0, or -1 with *err. */
int policy_add(struct policy *policy, const char *what, const char *text, struct error *err);

void policy_free(struct policy *policy);

/*
 * A name of DNS or of a client → its form in rules, in `ret`. False: it is no name of a host (RFC 1123, and the underscore
 * that many have).
 */
bool policy_normalize(const char *name, size_t length, char ret[POLICY_NAME_MAX + 1]);

/* Of a name in that form: whether something of it may be reached, on any port. */
bool policy_allows_name(const struct policy *policy, const char *name);

/* Whether the name may be reached on that port, at an address that is not private or that a rule has. */
bool policy_allows(const struct policy *policy, const char *name, const struct address *address,
	uint16_t port);

/* Whether an address may be reached on that port whatever its name: a rule has it. */
bool policy_allows_address(
	const struct policy *policy, const struct address *address, uint16_t port);

/* Whether a rule has the address, whatever the port. */
bool policy_has_address(const struct policy *policy, const struct address *address);

/*
 * Whether all that `asked` allows is allowed by `ceiling` too. Else *ret_rule and *ret_port are the first that is not.
 */
bool policy_covers(const struct policy *ceiling, const struct policy *asked, size_t *ret_rule, uint16_t *ret_port);

/* Every port of the rules once, in ascending order; *ret is freed by the caller. Returns their number. */
size_t policy_ports(const struct policy *policy, uint16_t **ret);

#endif
