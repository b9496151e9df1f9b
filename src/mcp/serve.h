/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SERVE_H
#define NSBOX_MCP_SERVE_H

/* The server's state, shared by its loop (server.c) and its methods (methods.c). */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "mcp/call.h"
#include "mcp/outputs.h"
#include "mcp/reader.h"
#include "mcp/revision.h"
#include "mcp/tasks.h"
#include "mcp/warming.h"
#include "mcp/writer.h"
#include "session/runner.h"

struct jsonrpc_message;
struct mcp_options;

struct server {
	const struct mcp_options *options;
	struct runner runner;
	struct reader reader;
	struct writer writer;
	struct call_list calls;
	struct outputs outputs;
	struct tasks tasks;
	struct warmings warmings;
	json_t *tools;          /* tools/list, once it was asked for: it stays the same */
	enum revision revision; /* of the connection: what initialize agreed on */
	bool initialized;       /* by a request; before it the newest of its era is spoken */
	bool stateless;         /* some request was of the stateless era */
	int signal_fd;
	int parent_fd; /* a pidfd, or -1 */
	bool drained;  /* the reader has no whole line left */
	bool ending;
	bool client_gone; /* nothing can be written any more */
	int status;
};

/* `result` is taken over and fitted to the revision. */
void send_result(struct server *server, const json_t *id, enum revision revision,
	enum result_kind kind, json_t *result);

/* `data` (taken over) may be NULL, and `id`, where what came has none that could be read. */
void send_error(
	struct server *server, const json_t *id, int code, const char *reason, json_t *data);

/* The code of the error of JSON-RPC that there is no such resource. */
int resource_not_found(enum revision revision);

/* Ends a call: of what it still had to say nothing is sent. */
void cancel_call(struct server *server, struct call *call);

/*
 * The step of a tool's arguments, as the server is configured: what tool.prepare returns, with the spec's walls checked.
 * Where the compiler's cache is missing, it begins to be filled. *step is initialized, and freed by the caller.
 */
int prepare_step(struct server *server, const struct tool *tool, const json_t *arguments,
	struct step *step, struct error *err);

/* Answers a request, or queues it as a call. `length` is that of its line. */
void handle_request(struct server *server, const struct jsonrpc_message *message, size_t length);

#endif
