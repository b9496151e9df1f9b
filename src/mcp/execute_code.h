/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_EXECUTE_CODE_H
#define NSBOX_MCP_EXECUTE_CODE_H

#include <jansson.h>

struct mcp_options;
struct output;

/*
 * Bytes that are kept of each stream: so the text of a result stays below 50 000 characters, and the whole
 * message far below what clients accept, whatever was written.
 */
enum { EXECUTE_CODE_KEPT_BYTES = 20 << 10 };

/* The schema of what it returns (new reference). */
json_t *execute_code_output_schema(void);

/* `run` is the object of run_result_to_json; otherwise as struct tool. */
json_t *execute_code_finish(
	const struct mcp_options *options, const json_t *run, const struct output *kept);

#endif
