/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_STEP_H
#define NSBOX_MCP_STEP_H

/* One thing that a call has done by somebody else, and waits for. */

#include <jansson.h>

#include "sandbox/spec.h"
#include "session/session.h"

enum step_kind {
	STEP_NONE,
	STEP_RUN,    /* `spec` is run: the answer is the object of run_result_to_json */
	STEP_PULL,   /* `image` is fetched; then the call's step is prepared anew */
	/*
	 * `packages` are installed for the root of `spec`; then the call's step is prepared anew. Or in the session `id`: then
	 * the answer is what session/install.h says.
	 */
	STEP_INSTALL,
	STEP_CREATE, /* a session of `spec` and `options`, with `packages`, is made: the answer is as runner_create has it */
	STEP_SNAPSHOT, /* snapshots are asked for `request`: as runner_snapshot has it */
	STEP_ASK,    /* the session `id` is asked for `request`: the answer is its own (session/session.h) */
};

struct step {
	enum step_kind kind;
	struct spec spec;
	char *image; /* owned */
	char *language;   /* of the packages; owned; NULL: they are the system's */
	json_t *packages; /* their names; owned */
	struct session_options options;
	char id[SESSION_ID_SIZE];
	json_t *request; /* owned */
	uint64_t wait_ms; /* for the answer of a session, whose supervisor may have been stopped; 0: as long as it takes */
};

void step_init(struct step *step);
void step_free(struct step *step);

/* The step becomes *ret, and is STEP_NONE. */
void step_move(struct step *step, struct step *ret);

#endif
