/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_TASKS_H
#define NSBOX_MCP_TASKS_H

/*
 * Tasks: the extension io.modelcontextprotocol/tasks of 2026-07-28. A call of a client that takes part in
 * it and that has not ended after TASK_AFTER_MS is answered with a task; the client polls for the result
 * with tasks/get. Tasks live as long as the server, at most TASK_TTL_MS, and the last TASKS_MAX of them,
 * or fewer where their results would take more than TASK_RESULTS_BYTES_MAX.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TASK_AFTER_MS = 10 * 1000,
	TASK_TTL_MS = 60 * 60 * 1000,
	TASK_POLL_MS = 1000,
	TASKS_MAX = 256,
	TASK_RESULTS_BYTES_MAX = 32 << 20,
	TASK_ID_LENGTH = 32,
};

enum task_status { TASK_WORKING, TASK_COMPLETED, TASK_CANCELLED };

struct task {
	char id[TASK_ID_LENGTH + 1]; /* empty: the place is free */
	enum task_status status;
	int64_t created_ms, updated_ms; /* CLOCK_REALTIME */
	char last_line[256];            /* of the output, while it works */
	json_t *result;                 /* TASK_COMPLETED: a CallToolResult */
	size_t result_bytes;            /* as JSON */
};

struct tasks {
	struct task entries[TASKS_MAX];
};

/*
 * A new task that works. NULL when every place is taken by a task that works, or there are no random bits:
 * then the call stays a call. The place of the oldest task that ended is taken where none is free.
 */
struct task *tasks_add(struct tasks *tasks);

/* The task of that id whose time is not over, or NULL. */
struct task *tasks_find(struct tasks *tasks, const char *id);

/* The task has a result (taken over). Older tasks that ended may be forgotten for it. */
void task_complete(struct tasks *tasks, struct task *task, json_t *result);

/* What the task's program wrote last, as it is shown while the task works. Cut where it is long. */
void task_set_last_line(struct task *task, const char *line);

void task_cancel(struct task *task);

/* CreateTaskResult, and with `detailed` what tasks/get returns (new reference). */
json_t *task_to_json(const struct task *task, int detailed);

void tasks_free(struct tasks *tasks);

#endif
