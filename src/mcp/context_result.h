/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_CONTEXT_RESULT_H
#define NSBOX_MCP_CONTEXT_RESULT_H

/* What sandbox_exec answers for code that ran in a context (session/contexts.h). */

#include <jansson.h>

struct mcp_options;
struct output;

/* Bytes that are kept of each stream: values have room in the text, too. */
enum { CONTEXT_KEPT_BYTES = 12 << 10 };

/*
 * A CallToolResult: that of the output, with the values as text behind it, images as image content, SVG as embedded
 * resources, and all of it in structuredContent, within bounds. `id` is the sandbox's.
 */
json_t *context_result(const struct mcp_options *options, const char *id, const json_t *answer,
	const struct output *kept);

/* Adds what structuredContent has for such code to the properties of a schema. */
void context_result_schema(json_t *properties);

#endif
