/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_JSONRPC_H
#define NSBOX_MCP_JSONRPC_H

/* JSON-RPC 2.0 as MCP uses it: one message a line, ids are strings or integers, batches in one revision only. */

#include <jansson.h>
#include <stddef.h>

enum {
	JSONRPC_PARSE_ERROR = -32700,
	JSONRPC_INVALID_REQUEST = -32600,
	JSONRPC_METHOD_NOT_FOUND = -32601,
	JSONRPC_INVALID_PARAMS = -32602,
	JSONRPC_INTERNAL_ERROR = -32603,
};

enum jsonrpc_kind {
	JSONRPC_REQUEST,
	JSONRPC_NOTIFICATION,
	JSONRPC_RESPONSE, /* an answer to something that we never asked: to be ignored */
	JSONRPC_BATCH,    /* root is an array of at least one; of 2025-03-26 only */
	JSONRPC_INVALID,  /* to be answered with `code` and `reason` */
};

struct jsonrpc_message {
	enum jsonrpc_kind kind;
	json_t *root; /* owns all of it */
	const json_t
		*id; /* of a request; of an invalid message where it could be read, else NULL */
	const char *method;   /* of requests and notifications */
	const json_t *params; /* an object, or NULL */
	int code;
	char reason[256];
};

/* Parses one message. Always sets *ret; free it with jsonrpc_message_free. */
void jsonrpc_parse(const char *text, size_t length, struct jsonrpc_message *ret);

/* The same for a value that is parsed: an element of a batch. It is referenced, not taken over. */
void jsonrpc_take_apart(json_t *value, struct jsonrpc_message *ret);

void jsonrpc_message_free(struct jsonrpc_message *message);

/*
 * Messages to be sent, as one line with its newline, malloc'd; NULL when memory is short. `result`, `params` and
 * `data` (which may be NULL) are taken over. An error's `id` NULL: it has none. Its reason may quote what came, cut
 * anywhere: what is not UTF-8 in it is replaced.
 */
char *jsonrpc_result(const json_t *id, json_t *result, size_t *ret_length);
char *jsonrpc_notification(const char *method, json_t *params, size_t *ret_length);
char *jsonrpc_error(
	const json_t *id, int code, const char *reason, json_t *data, size_t *ret_length);

#endif
