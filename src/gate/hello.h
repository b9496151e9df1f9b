/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_HELLO_H
#define NSBOX_GATE_HELLO_H

/* The name that a client of TLS asks for: server_name (RFC 6066) in its ClientHello (RFC 8446 and before). */

#include <stddef.h>

#include "gate/policy.h"

enum { HELLO_MAX = 64 << 10 /* bytes, of records and all */ };

enum hello_result {
	HELLO_MORE,    /* what came is the beginning of one */
	HELLO_NAME,    /* *ret is the name, as policy_normalize has it */
	HELLO_NO_NAME, /* a ClientHello without one */
	HELLO_INVALID, /* none, or more than HELLO_MAX bytes, or it makes no sense */
};

/* Of all that came so far. A ClientHello may be in any number of records, and these in any number of pieces. Pure. */
enum hello_result hello_read(const void *data, size_t length, char ret[POLICY_NAME_MAX + 1]);

#endif
