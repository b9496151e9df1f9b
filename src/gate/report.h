/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_REPORT_H
#define NSBOX_GATE_REPORT_H

/*
 * What a gate let through and what it refused: a table in memory that it shares with the supervisor, which has it also when
 * the gate was killed. Places are filled once and then only counted up, so it is read while it is written.
 *
 * To the reader it is a stranger's, as the gate talks to strangers: report_read looks at each byte before it is believed.
 * What is in it are names of hosts, addresses and ports; never a path, a header or anything else that was said to them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/address.h"
#include "gate/policy.h"

struct error;

enum { REPORT_MAX = 64 /* different things; others are only counted */ };

enum report_verdict {
	REPORT_ALLOWED, /* connected */
	REPORT_BLOCKED, /* not within the rules */
	REPORT_FAILED,  /* within them, and not to be reached */
	REPORT_VERDICTS,
};

enum report_reason {
	REASON_NONE,
	/* blocked */
	REASON_NAME,    /* the name is not allowed */
	REASON_PORT,    /* it is, but not on that port */
	REASON_ADDRESS, /* an address that no allowed name was answered with */
	REASON_PRIVATE, /* the name leads to `address`, which is a place of the host's own network */
	REASON_TLS_NAME,    /* the client of `address` asks TLS for that name */
	REASON_NO_TLS_NAME, /* the client says no name in TLS */
	REASON_NO_TLS,      /* it speaks no TLS, on port 443 */
	REASON_HTTP_HOST,   /* the client of `address` asks HTTP for that host */
	REASON_NO_HTTP,     /* it makes no sense as HTTP, on port 80 */
	REASON_SILENT,      /* it says too little for too long */
	/* failed */
	REASON_NO_ANSWER,    /* no name server answered */
	REASON_NO_SUCH_NAME, /* they say that there is no such name, or that it has no address */
	REASON_CONNECT,      /* `value` is errno */
	REASON_PROXY, /* `value` is the status with which the proxy refused; 0: it made no sense */
	REASON_BUSY,  /* more lookups at a time, or in a second, than there may be */
	REASONS,
};

struct report_entry {
	uint64_t count; /* 0: a free place */
	uint8_t verdict, reason;
	uint16_t port; /* 0: it was not known yet, or is none */
	int32_t value;
	struct address address; /* what was dialled, or what a name leads to */
	char name[POLICY_NAME_MAX +
		  1]; /* as policy_normalize has it; empty: it is about the address */
};

struct report {
	struct report_entry entries[REPORT_MAX];
	uint64_t others[REPORT_VERDICTS]; /* for which there was no place */
};

/* Memory that a process forked from here on shares. NULL with *err. */
struct report *report_new(struct error *err);
void report_free(struct report *report);

/* Counts one. `entry` without its count. The gate's side: it alone writes. */
void report_add(struct report *report, const struct report_entry *entry);

/* A copy of what is there now, with what makes no sense left out. NULL: an empty one. */
void report_read(const struct report *report, struct report *ret);

/* Takes off *report what was counted before already. */
void report_subtract(struct report *report, const struct report *before);

/* Whether something was counted. */
bool report_has(const struct report *report, enum report_verdict verdict);

/* «pypi.org:443», «[2001:db8::1]:443», «pypi.org» */
enum { REPORT_HOST_MAX = POLICY_NAME_MAX + 12 };
const char *report_host(const struct report_entry *entry, char ret[REPORT_HOST_MAX]);

/* Why, as a clause that goes behind a colon, with what would allow it: one line. */
void report_why(const struct report_entry *entry, char *ret, size_t size);

/* The rule that would have allowed what was blocked. False: there is none. */
bool report_rule(const struct report_entry *entry, char ret[REPORT_HOST_MAX]);

#endif
