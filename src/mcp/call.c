/* SPDX-License-Identifier: MIT */
/* Tool calls in flight: see call.h. */
#define _GNU_SOURCE
#include "mcp/call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/alloc.h"

void call_list_init(struct call_list *list)
{
	memset(list, 0, sizeof *list);
	list->end = &list->first;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct call *call_list_add(struct call_list *list, const json_t *id, const json_t *progress_token,
	const struct tool *tool, struct step *step, size_t step_bytes)
{
	struct call *call = xcalloc(1, sizeof *call);

	call->id = json_deep_copy(id);
	call->progress_token = progress_token ? json_deep_copy(progress_token) : NULL;
	call->tool = tool;
	call->came_ms = now_ms();
	step_move(step, &call->step);
	call->step_bytes = step_bytes;
	call->io = RUNNER_IO_NONE;
	*list->end = call;
	list->end = &call->next;
	list->count++;
	list->queued_bytes += step_bytes;
	return call;
}

struct call *call_list_find(const struct call_list *list, const json_t *id)
{
	for (struct call *call = list->first; call; call = call->next)
		if (!call->silent && json_equal(call->id, id))
			return call;
	return NULL;
}

/* Whether as much is asked of the call's sandbox already as it takes at a time. */
static bool has_to_wait(const struct call_list *list, const struct call *call)
{
	size_t asked = 0;

	if (call->step.kind != STEP_ASK || call->tool->at_once)
		return false;
	for (const struct call *other = list->first; other; other = other->next)
		asked += other->running && strcmp(other->step.id, call->step.id) == 0;
	return asked >= CALLS_OF_SANDBOX_MAX;
}

struct call *call_list_queued(const struct call_list *list, bool light)
{
	for (struct call *call = list->first; call; call = call->next)
		if (!call->running && !(light && call->tool->runs_code) && !has_to_wait(list, call))
			return call;
	return NULL;
}

static void drop_step(struct call_list *list, struct call *call)
{
	struct step rest = {.kind = call->step.kind};

	memcpy(rest.id, call->step.id, sizeof rest.id);
	step_free(&call->step);
	call->step = rest;
	list->queued_bytes -= call->step_bytes;
	call->step_bytes = 0;
}

void call_list_started(struct call_list *list, struct call *call, const struct runner_io *io)
{
	call->running = true;
	call->io = *io;
	list->running++;
	list->running_code += call->tool->runs_code;
	drop_step(list, call);
}

void call_list_requeue(struct call_list *list, struct call *call, struct step *step)
{
	runner_io_close(&call->io);
	call->io = RUNNER_IO_NONE;
	list->running -= call->running;
	list->running_code -= call->running && call->tool->runs_code;
	call->running = false;
	step_move(step, &call->step);
}

void call_list_remove(struct call_list *list, struct call *call)
{
	struct call **link = &list->first;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
	if (list->end == &call->next)
		list->end = link;
	list->count--;
	list->running -= call->running;
	list->running_code -= call->running && call->tool->runs_code;
	drop_step(list, call);
	runner_io_close(&call->io);
	json_decref(call->id);
	json_decref(call->progress_token);
	json_decref(call->state);
	json_decref(call->arguments);
	free(call);
}
