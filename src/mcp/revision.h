/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_REVISION_H
#define NSBOX_MCP_REVISION_H

/*
 * The revisions of the protocol that are spoken, and what differs between them on the wire.
 *
 * Two eras in one process. Up to 2025-11-25 a connection is opened by `initialize`, and its revision
 * holds for all that follows. Since 2026-07-28 there is no such state: each request carries its revision
 * and the client's capabilities in params._meta, and results say what they are (resultType, and for what
 * may be cached ttlMs and cacheScope). Results are built as the newest revision has them, and fitted to
 * the request's revision when they are sent.
 */

#include <jansson.h>
#include <stdbool.h>

enum revision {
	REVISION_2024_11_05,
	REVISION_2025_03_26, /* adds annotations, progress messages, batches (gone again after it) */
	REVISION_2025_06_18, /* adds structuredContent, outputSchema, title, resource links */
	REVISION_2025_11_25,
	REVISION_2026_07_28, /* stateless */
	REVISION_MAX,
};

#define REVISION_LEGACY_NEWEST REVISION_2025_11_25

const char *revision_name(enum revision revision);

/* Returns REVISION_MAX for a name that is none of ours. */
enum revision revision_find(const char *name);

/* What of the client's own words a request of 2026-07-28 carries. */
struct request_meta {
	enum revision revision;
	bool tasks; /* the client takes part in the tasks extension */
};

enum request_meta_result {
	META_ABSENT,      /* nothing of 2026-07-28 in it: the request is of a connection that is initialized */
	META_OK,          /* *ret is set */
	META_INVALID,     /* *ret_reason says what is missing */
	META_UNSUPPORTED, /* a revision that is not spoken without initialize; *ret_reason is its name */
};

enum request_meta_result request_meta_read(
	const json_t *params, struct request_meta *ret, const char **ret_reason);

/* What a result is, for the fields that 2026-07-28 adds. */
enum result_kind {
	RESULT_PLAIN,
	RESULT_CACHEABLE, /* the same for everybody until the server is changed: tools, templates, discover */
	RESULT_PRIVATE,   /* cacheable in its form, but of this moment: resources */
	RESULT_TASK,      /* a task in place of a result */
};

/* Fits `result` (taken over) to the revision. Returns the reference. */
json_t *revision_fit_result(enum revision revision, enum result_kind kind, json_t *result);

/* Fits a tool of tools/list, in place. */
void revision_fit_tool(enum revision revision, json_t *tool);

/* Fits a CallToolResult, in place: what an older client does not know of its content. */
void revision_fit_tool_result(enum revision revision, json_t *result);

/* Implementation (name, title, version) as the revision has it (new reference). */
json_t *revision_server_info(enum revision revision);

#endif
