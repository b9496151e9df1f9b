/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_NETWORK_H
#define NSBOX_MCP_NETWORK_H

/*
 * What calls may reach: whoever starts the server says it (--allow-network), and a call chooses within that. Without it
 * the package managers of installs reach their registries, and code reaches nothing.
 */

#include <jansson.h>
#include <stdbool.h>

#include "gate/policy.h"

struct error;
struct mcp_options;
struct spec;

struct network_ceiling {
	bool given;        /* somebody has said it */
	bool none;         /* no install reaches anything, either */
	bool host, pasta;  /* a call may have the host's network, a whole network of its own */
	struct policy hosts; /* that a call may name */
	char *hosts_text;    /* the same as they were written, or NULL */
};

/*
 * Adds what one --allow-network says: «none», «registries», «host», «pasta», or rules of policy.h. `what` names it in
 * errors. Returns 0, or -1 with *err.
 */
int network_ceiling_add(struct network_ceiling *ceiling, const char *what, const char *text, struct error *err);

void network_ceiling_free(struct network_ceiling *ceiling);

/* The argument "network" into *spec. Returns 0, or -1 with *err where it is beyond the ceiling or no network. */
int run_argument_network(const struct mcp_options *options, const json_t *arguments, struct spec *spec, struct error *err);

/* Whether a call can have any network. */
bool network_ceiling_allows_any(const struct network_ceiling *ceiling);

/* What the argument can be, for a description; malloc'd. */
char *run_describe_network(const struct mcp_options *options);

#endif
