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

/*
 * What there is more of code that ran in a context: text before what it wrote and behind it, in which NULs may be, and a
 * sentence; empty where there is nothing. Exit codes of such code say nothing that these do not say better.
 */
struct execute_code_context {
	const char *before, *after;
	size_t before_length, after_length;
	const char *note;
};

/* What a limit's advice is about. */
enum execute_code_kind {
	EXECUTE_CODE_ONCE,    /* a sandbox of the call's own, whose limits are arguments of it */
	EXECUTE_CODE_LASTING, /* one of sandbox_initialize, which has set all but the time */
};

/* As the next, for a call of a context. */
json_t *execute_code_finish_in_context(const struct mcp_options *options, const json_t *run, const struct output *kept,
	const struct execute_code_context *context);

/* `run` is the object of run_result_to_json; otherwise as struct tool. */
json_t *execute_code_finish(const struct mcp_options *options, enum execute_code_kind kind, const json_t *run,
	const struct output *kept);

#endif
