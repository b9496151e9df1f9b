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
 *     {"op": "snapshot", "name": TEXT, "max_bytes": of all snapshots (0: no limit), "fork": bool}
 *                         → {"snapshot": image/snapshots.h, "how": "frozen"|"copied", "copied_bytes": B}
 *                         With "fork" it is for a session that is to be made now, and nothing is recorded (fork.h).
 *     {"op": "restore", "snapshot": its id or name}
 *                         → {"snapshot_id", "name", "ended_commands", "ended_contexts": how many had been running}
 *     {"op": "packages"}  → {"spec": its root, as SPEC, "folder": PATH, "language": of code that names none, or ""}:
 *                         what packages_install_into needs (packages/session.h)
 *     {"op": "stop"}      → {} once everything is gone
 *     {"op": "pause"}     → {"paused": true, "by": "cgroup"|"signals"} once all stands still, with "already": true where
 *                         that was so; until "resume" what would begin something in the sandbox is refused
 *     {"op": "resume"}    → {"paused": false, …} once all goes on (pause.c)
 *     {"op": "exec", "spec": SPEC}    of SPEC only files, execs, limits.output_bytes and explain count
 *                         → the object of run_result_to_json
 *                         With three descriptors that come with the frame (SCM_RIGHTS) these are the commands'
 *                         standard ones: what they write is passed on to them, and not in the result. They are
 *                         connected sockets, or pipes without a name and terminals that the supervisor can open anew:
 *                         see streams.h.
 *     the same with "program": {…}, see program.h: the spec's one command has its arguments, and what else there is
 *                         to a command
 *     the same with "changes": true: the result has "changes" too, what is different in /workspace (listing.h)
 *     the same with "snapshot": {as that request has it}: a snapshot is made when it has ended, and the result has "snapshot",
 *                         as its answer is, or {"failed", "hint"}; "context" takes it, too
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
 *     {"op": "context", "action": …}: interpreters that are kept between pieces of code, see contexts.h
 *         "run", "context": NAME, "code": TEXT, "spec": SPEC, and "changes", "progress" as with "exec": of the SPEC's one
 *                         command only its time limit counts. The context is made where there is none of that name, in
 *                         "language": L or the session's own → what "exec" returns, and in it
 *                         "cell": {"context", "language", "call": its number, "status": "ok"|"error"|"interrupted"|"ended"
 *                         (with the context), "values" and "error" (cells.h), "before": what was written since the last
 *                         call, "note": a sentence or null}
 *         "interrupt", "context": NAME → {"interrupted": whether there was something, "obeyed": whether it has ended, "state"}
 *         "restart", "context": NAME → as an entry of the list, once it is ready
 *         "end", "context": NAME → {} once it is gone
 *         "list"          → {"contexts": [{"name", "language", "state": "starting"|"idle"|"busy"|"interrupted"|"restarting"|
 *                         "ending"|"ended", "calls", "waiting": calls, "since_s", "process", "ended": how}]}
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
	char parent[SESSION_ID_SIZE]; /* the snapshot that it is made of; empty: none */
	char packages[SESSION_ID_SIZE]; /* the layer of what is installed for its code (image/snapshots.h); empty: none */
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
