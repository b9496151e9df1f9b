/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_NAMES_H
#define NSBOX_GATE_NAMES_H

/*
 * Which names the gate answered an address for. What is dialled later is an address; this says what it was meant to be.
 * Bounded: the oldest is forgotten first, and has to be asked for again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/address.h"
#include "gate/policy.h"

enum { NAMES_MAX = 1024 };

/* How a name is reached. All but the first have an address that is no place: of 198.18.0.0/15, one for each name. */
enum name_way {
	NAME_DIRECT, /* at the address itself */
	NAME_PROXY,  /* by its name, through the host's proxy */
	NAME_HOST,   /* on the loopback of the host */
};

struct name_record {
	struct address address;
	char name[POLICY_NAME_MAX + 1]; /* empty: a free place */
	enum name_way way;
	uint64_t stamp; /* greater: later */
};

struct names {
	struct name_record records[NAMES_MAX];
	uint64_t stamp;
	uint32_t places; /* that were given out */
};

/* It was answered. */
void names_add(struct names *names, const char *name, const struct address *address);

/* The address of a name that is not reached at one of its own: the same as before, or a new one. */
struct address names_place(struct names *names, const char *name, enum name_way way);

/* The records of an address one after the other: NULL to begin with; NULL: there are no more. */
const struct name_record *names_next(
	const struct names *names, const struct address *address, const struct name_record *after);

#endif
