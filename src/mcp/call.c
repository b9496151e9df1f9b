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
	const struct tool *tool, struct spec *spec, size_t spec_bytes)
{
	struct call *call = xcalloc(1, sizeof *call);

	call->id = json_deep_copy(id);
	call->progress_token = progress_token ? json_deep_copy(progress_token) : NULL;
	call->tool = tool;
	call->came_ms = now_ms();
	call->spec = *spec;
	call->spec_bytes = spec_bytes;
	call->io = RUNNER_IO_NONE;
	memset(spec, 0, sizeof *spec);
	*list->end = call;
	list->end = &call->next;
	list->count++;
	list->queued_bytes += spec_bytes;
	return call;
}

struct call *call_list_find(const struct call_list *list, const json_t *id)
{
	for (struct call *call = list->first; call; call = call->next)
		if (!call->silent && json_equal(call->id, id))
			return call;
	return NULL;
}

struct call *call_list_queued(const struct call_list *list)
{
	for (struct call *call = list->first; call; call = call->next)
		if (!call->running)
			return call;
	return NULL;
}

static void drop_spec(struct call_list *list, struct call *call)
{
	spec_free(&call->spec);
	memset(&call->spec, 0, sizeof call->spec);
	list->queued_bytes -= call->spec_bytes;
	call->spec_bytes = 0;
}

void call_list_started(struct call_list *list, struct call *call, const struct runner_io *io)
{
	call->running = true;
	call->io = *io;
	list->running++;
	drop_spec(list, call);
}

void call_list_requeue(struct call_list *list, struct call *call, struct spec *spec)
{
	runner_io_close(&call->io);
	call->io = RUNNER_IO_NONE;
	call->running = false;
	list->running--;
	call->spec = *spec;
	memset(spec, 0, sizeof *spec);
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
	drop_spec(list, call);
	runner_io_close(&call->io);
	json_decref(call->id);
	json_decref(call->progress_token);
	json_decref(call->state);
	json_decref(call->arguments);
	free(call->pull);
	free(call);
}
