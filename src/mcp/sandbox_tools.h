/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SANDBOX_TOOLS_H
#define NSBOX_MCP_SANDBOX_TOOLS_H

/* What the tools of sandboxes that last have in common: sessions (session/session.h), by their id. */

#include <jansson.h>

struct error;
struct step;

/* Milliseconds in which a sandbox has answered, apart from how long what is asked for takes. */
enum { SANDBOX_ANSWER_MS = 120 * 1000 };

/* The argument that names the sandbox, for tables. Other servers' names of it are taken, too. */
#define SANDBOX_ID_FIELD                                                                           \
	{                                                                                          \
		"sandbox_id", "string", "The sandbox, as sandbox_initialize returned it", true     \
	}

/*
 * Makes a step of a request (taken over) to the sandbox that the arguments name. `known` are the tool's arguments, with
 * "sandbox_id", NULL-terminated. Returns 0, or -1 with *err.
 */
int sandbox_ask(const json_t *arguments, const char *const *known, json_t *request,
	struct step *step, struct error *err);

/* What names the sandbox in arguments that sandbox_ask has taken. */
const char *sandbox_id_of(const json_t *arguments);

/* Says that there is none of that id, and what to do. Returns -1. */
int sandbox_unknown(const char *id, struct error *err);

/* The path of an argument as a request has it: relative ones begin in /workspace. Malloc'd, or NULL with *err. */
char *sandbox_path(const json_t *arguments, const char *name, const char *otherwise, struct error *err);

/* The same for what a result says of it. */
const char *sandbox_path_of(const json_t *arguments, const char *name, const char *otherwise);

/* A whole number that is not negative; absent, *ret stays. */
int argument_count(const json_t *arguments, const char *name, json_int_t max, json_int_t *ret,
	struct error *err);

/* A CallToolResult with a text that is printed as printf does it, and `structured` (taken over). */
json_t *sandbox_result(json_t *structured, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
