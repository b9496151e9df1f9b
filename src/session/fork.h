/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_FORK_H
#define NSBOX_SESSION_FORK_H

/*
 * A new session of a snapshot, or of a session that lives, with what that has written: over the same layers, with a space of
 * its own. Nothing is copied.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/snapshots.h"
#include "sandbox/spec.h"
#include "session/session.h"

struct error;

struct fork {
	struct snapshots snapshots;
	int lock; /* until the new session holds its layers */
	struct snapshot snapshot;
	struct spec spec; /* for session_create, but for its filters */
	struct session_options options;
	bool copied; /* of a session: it was busy, and so many bytes were copied */
	uint64_t copied_bytes;
};

/* The spec of a session over that snapshot. */
int fork_read_spec(const struct snapshots *snapshots, const struct snapshot *snapshot, struct spec *ret, struct error *err);

/*
 * `of`: the name or id of a snapshot, or the id of a session, as either is written on the command line. `from_mcp`: what
 * MCP servers may not use does not exist. `max_bytes`: of all snapshots (0: no limit), where the session has to be frozen for
 * this. Then whoever called changes *ret's spec and options as wanted, and makes the session.
 */
int fork_begin(const char *of, bool from_mcp, uint64_t max_bytes, struct fork *ret, struct error *err);
/* Makes it of *fork as it is then; session_create says more. */
int fork_make(struct fork *fork, struct session_made *ret, struct error *err);
void fork_end(struct fork *fork);

/* What is of use to people of a snapshot: id, name, session, parent, created_s, root, root_path, bytes, layers, shared. */
json_t *snapshot_describe(const struct snapshot *snapshot);

/* Removes the one with that name or id, and what nobody needs then. *ret_id: its id. */
int snapshot_delete(const struct snapshots *snapshots, const char *text, bool shared_only, char ret_id[SNAPSHOT_ID_SIZE],
	struct error *err);

#endif
