/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_CALL_H
#define NSBOX_MCP_CALL_H

/* The tool calls that are in flight: queued, running, or cancelled and ending. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/revision.h"
#include "mcp/step.h"
#include "mcp/tools.h"
#include "session/runner.h"

struct call {
	struct call *next;
	json_t *id;
	json_t *progress_token; /* or NULL */
	double progress;        /* the last that was sent */
	const struct tool *tool;
	enum revision revision; /* of the request */
	json_t *state;        /* of a tool of several steps, else NULL */
	json_t *arguments;    /* an object */
	double progress_base; /* seconds that came before what runs now */
	unsigned fetched; /* steps for what has to be there first */
	bool may_become_task;
	struct task *task; /* what it became, while that works; else NULL */
	uint64_t came_ms;  /* CLOCK_MONOTONIC */
	uint64_t until_ms; /* the same; the session that is asked is waited for until then; 0: as long as it takes */
	bool running;
	bool silent;         /* answered or cancelled: nothing more is sent for its id */
	struct step step; /* its kind and id stay when it runs; the rest is there while it is queued */
	size_t step_bytes;   /* what it takes, about */
	struct runner_io io; /* while it is running */
};

/* In the order of their coming. */
struct call_list {
	struct call *first, **end;
	size_t count, running, queued_bytes;
	size_t running_code; /* of those that run, whose tool runs code */
};

void call_list_init(struct call_list *list);

/* Appends a queued call. Takes over the step's content and copies the rest. Returns it. */
struct call *call_list_add(struct call_list *list, const json_t *id, const json_t *progress_token,
	const struct tool *tool, struct step *step, size_t step_bytes);

/* The call of that id that is to be answered still, or NULL. */
struct call *call_list_find(const struct call_list *list, const json_t *id);

/* Of one sandbox so many run; the next ones wait. */
enum { CALLS_OF_SANDBOX_MAX = 32 };

/* The first that waits and can begin, or NULL; with `light` of those whose tool runs no code. */
struct call *call_list_queued(const struct call_list *list, bool light);

/* The call runs: what its step was made of is no longer needed. */
void call_list_started(struct call_list *list, struct call *call, const struct runner_io *io);

/* The step of the call is over, and `step` (its content is taken over) is its next. It is queued, at its old place. */
void call_list_requeue(struct call_list *list, struct call *call, struct step *step);

/* Takes it out and frees it. A run of it is cancelled. */
void call_list_remove(struct call_list *list, struct call *call);

#endif
