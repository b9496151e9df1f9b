/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_REQUEST_H
#define NSBOX_GATE_REQUEST_H

/* The host that a client of HTTP/1 asks for in its first request (RFC 9112). */

#include <stddef.h>
#include <stdint.h>

#include "gate/policy.h"

enum { REQUEST_MAX = 64 << 10 /* bytes of its head */ };

enum request_result {
	REQUEST_MORE,    /* what came is the beginning of a head */
	REQUEST_NAME,    /* *ret_name is the host, as policy_normalize has it */
	REQUEST_ADDRESS, /* the host is an address: *ret_address */
	REQUEST_INVALID, /* no request of HTTP/1, one for a proxy to tunnel, one without a host, or with two different */
};

struct request_host {
	char name[POLICY_NAME_MAX + 1];
	struct address address;
	uint16_t port; /* that the client names; 0: none */
};

/* Of all that came so far. Strict: lines end with CR and LF, and a header has no line of its own to go on. Pure. */
enum request_result request_read(const void *data, size_t length, struct request_host *ret);

#endif
