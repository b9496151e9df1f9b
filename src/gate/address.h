/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_ADDRESS_H
#define NSBOX_GATE_ADDRESS_H

/* Addresses of the Internet protocols, and which of them are places of the host, its network or nobody. */

#include <stdbool.h>
#include <stdint.h>

/* An IPv6 address; an IPv4 one is ::ffff:a.b.c.d, whichever way it came. */
struct address {
	uint8_t bytes[16];
};

struct address address_of_v4(const uint8_t bytes[4]);
struct address address_of_v6(const uint8_t bytes[16]);

bool address_is_v4(const struct address *address);
bool address_equal(const struct address *one, const struct address *other);

/*
 * Whether it is one that the gate must not connect to for a public name: unspecified, loopback, private (RFC 1918),
 * shared (RFC 6598), link-local with the metadata services of clouds, unique-local, multicast, broadcast; an IPv4 address
 * also inside of what translates or carries it (RFC 6052, 2765, 3056, 4380, 4291). No other range: what is set aside for
 * documentation and benchmarks is in use on networks where it leads to what is meant to be reached.
 */
bool address_is_private(const struct address *address);

/* Whether it is one of the machine itself: loopback, or unspecified, which is taken for it. */
bool address_is_loopback(const struct address *address);

/* As inet_ntop(3) writes it, an IPv4 one in its own form. */
enum { ADDRESS_TEXT_MAX = 46 };
const char *address_format(const struct address *address, char ret[ADDRESS_TEXT_MAX]);

/* The reverse, with or without brackets around an IPv6 one. False: it is none. */
bool address_parse(const char *text, struct address *ret);

#endif
