/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SERVER_H
#define NSBOX_MCP_SERVER_H

/* The MCP server over standard input and output. */

#include <stdbool.h>
#include <stdint.h>

#include "language/root.h"
#include "mcp/network.h"
#include "session/pull.h"

struct config;
struct error;

/* What whoever starts the server allows. A model chooses the arguments of its calls, within this. */
struct mcp_options {
	uint64_t memory_default_bytes, memory_max_bytes;
	uint64_t timeout_default_ms, timeout_max_ms;
	unsigned parallel_max; /* runs at one time; further calls wait */
	unsigned sessions_max; /* sandboxes that last, of all servers of the user */
	enum image_policy image_policy; /* of calls that name no image */
	char *const *allow_images; /* patterns (fnmatch(3)) of images that a call may name; borrowed, NULL-terminated; NULL: none */
	struct pull_config pull_config; /* of registries; its file is borrowed */
	bool allow_pull; /* images that are allowed and not in the store are fetched */
	struct network_ceiling network; /* owned */
	const struct config *config; /* what else their sandboxes have; borrowed; NULL: the defaults */
};

enum { MCP_PARALLEL_LIMIT = 256, MCP_SESSIONS_DEFAULT = 32, MCP_SESSIONS_LIMIT = 10000 };

/* The documented defaults; parallel_max is twice the CPUs, at least 4. */
void mcp_options_init(struct mcp_options *options);

/*
 * Serves until the client is gone. Descriptor 1 leads to standard error afterwards. Returns the exit status of nsbox:
 * 0, or 125 with a line on standard error.
 */
int mcp_serve(const struct mcp_options *options);

#endif
