/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_SESSION_H
#define NSBOX_SESSION_SESSION_H

/*
 * A session: a sandbox that lasts, and the process that supervises it.
 *
 * That process belongs to nobody: it outlives whoever made it, and is reached through a socket (place.h) by any
 * nsbox of the same user. It ends when it is told to, when nothing was asked of it for the idle time, at the end of
 * its life, or when its sandbox dies; and the sandbox ends with it, whatever ends it.
 *
 * A client connects for each request, writes one frame (spawner.h: a header and JSON) of the type FRAME_REQUEST,
 * and reads one, FRAME_RESULT or FRAME_FAILURE. Closing the connection before cancels what was asked for.
 *
 * With "from": "mcp" a session that is not shared with servers does not exist.
 *
 *     {"op": "info"}      → {"id", "root", "created_s", "idle_s", "idle_limit_s", "life_left_s", "processes": […]}
 *     {"op": "stop"}      → {} once everything is gone
 *     {"op": "exec", "spec": SPEC}    of SPEC only files, execs, limits.output_bytes and explain count
 *                         → the object of run_result_to_json
 *                         With three descriptors that come with the frame (SCM_RIGHTS) these are the commands'
 *                         standard ones: what they write is passed on to them, and not in the result. They are
 *                         connected sockets, or pipes without a name and terminals that the supervisor can open anew:
 *                         see streams.h.
 *     the same with "program": {…}, see program.h: the spec's one command has its arguments, and what else there is
 *                         to a command
 *     the same with "changes": true: the result has "changes" too, what is different in /workspace (snapshot.h)
 *     the same with "background": true → {"process": N} at once; with "stdin_open": true as well, its standard input
 *                         is a pipe that "input" writes to, after what the spec has for it
 *     the same with "terminal": {"rows": R, "columns": C}
 *                         A frame FRAME_TERMINAL comes first, with a descriptor: the master of the terminal that the
 *                         command has for its three. Nothing of it is in the result. Closed before the end, the
 *                         connection leaves the command two seconds for SIGHUP, which the master's end makes.
 *     {"op": "output", "process": N, "offset": B, "limit": L, "wait_ms": T}
 *                         → {"output": BASE64, "total": B, "offset": B, "next": B, "lost_bytes": B, "ended": bool, and how, as "exec" says it}
 *     {"op": "signal", "process": N, "signal": S}
 *     {"op": "input", "process": N, "data": BASE64, "close": bool}
 *                         → {"pending": B}: bytes that it has not read yet, of which no more than 1 MiB are kept
 *     {"op": "file", "kind": "read"|"write"|…, "path", …}  see files.h
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/result.h"
#include "session/place.h"

struct spec;

struct session_options {
	uint64_t idle_ms;    /* without a request it ends after that; 0: never */
	uint64_t life_ms;    /* it ends after that anyway; 0: never */
	uint64_t timeout_ms; /* of commands that have none of their own; 0: none */
	char language[32];   /* of code that names none; empty: none */
	bool shared;         /* MCP servers of the same user may use it, too */
	unsigned shared_max; /* where there are so many of these it is refused; 0: no limit */
};

enum {
	SESSION_IDLE_DEFAULT_MS = 60 * 60 * 1000,
	SESSION_LIFE_DEFAULT_MS = 24 * 60 * 60 * 1000,
};

/* A session that has come into being. */
struct session_made {
	char id[SESSION_ID_SIZE];
	int claim;
	/* Where the sandbox is weaker than asked or usual: sentences, as in struct run_result. */
	struct run_result walls;
};

/*
 * Makes a session of `spec` (spec->session must be set, and its filters loaded), by a process of its own that has
 * nothing of the caller's but descriptors that the spec's image needs. Returns 0 with *ret once it can be used.
 * The caller must have one thread.
 */
int session_create(const struct spec *spec, const struct session_options *options, struct session_made *ret,
	struct error *err);

/* Once the id is where somebody can read it. Closed without this, as by the end of this process, the session ends. */
void session_claim(struct session_made *made);

/* As runner_create has it (new reference). */
json_t *session_made_to_json(const struct session_made *made, const struct spec *spec);

#endif
