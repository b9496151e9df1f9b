/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_SOCKETS_H
#define NSBOX_GATE_SOCKETS_H

/*
 * The sandbox's end of a gate: its network namespace takes every address for its own, and sockets that listen there on the
 * ports of the rules are handed to the gate. A socket stays in the namespace where it was made; so the gate, which is in
 * the host's, accepts what the code says to any address, and getsockname(2) tells which it dialled.
 *
 * Code without capabilities can change none of that: no route, no address, no port that is taken. What has no socket is
 * refused by the kernel at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/policy.h"

struct error;

enum {
	GATE_PORT_DNS = 53,
	/* Of each port for TCP, with one more and one for UDP, twice where there is no IPv6. */
	GATE_SOCKETS_MAX = 2 * POLICY_RULES_MAX + 4,
};

struct gate_sockets {
	int fds[GATE_SOCKETS_MAX];
	uint16_t ports[GATE_SOCKETS_MAX];
	bool udp[GATE_SOCKETS_MAX];
	size_t count;
};

/*
 * In the sandbox, with all capabilities over its new network namespace and loopback up: makes the routes and the sockets,
 * hands these over and keeps none, and waits until the gate says that it is ready. `socket` is the other end of what the
 * gate got; it is not closed. Returns 0, or -1 with *err, also with what the gate says has failed there.
 */
int sockets_hand_over(int socket, const struct policy *policy, struct error *err);

/* In the gate: waits for them. */
int sockets_take_over(int socket, struct gate_sockets *ret, struct error *err);

/* In the gate: says that it is ready, or with an error that it is not. */
void sockets_say_ready(int socket, const struct error *failure);

#endif
