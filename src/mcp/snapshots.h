/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SNAPSHOTS_H
#define NSBOX_MCP_SNAPSHOTS_H

/* Snapshots that sandbox_exec makes when what it was given has ended. */

#include <jansson.h>

struct mcp_options;

/* "snapshot" of the request to the session (session/session.h; new reference). */
json_t *snapshot_wanted(const struct mcp_options *options);

/* What came of it, into the result of the call. */
void snapshot_add_result(json_t *result, const json_t *answer);

#endif
