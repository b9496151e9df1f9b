/* SPDX-License-Identifier: MIT */
/* Tasks: see tasks.h. */
#define _GNU_SOURCE
#include "mcp/tasks.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mcp/outputs.h"
#include "util/utf8.h"

static int64_t wall_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void clear(struct task *task)
{
	json_decref(task->result);
	memset(task, 0, sizeof *task);
}

/* The one that ended and is the oldest; `except` does not count. NULL: none. */
static struct task *find_oldest(struct tasks *tasks, const struct task *except)
{
	struct task *oldest = NULL;

	for (size_t i = 0; i < TASKS_MAX; i++) {
		struct task *task = &tasks->entries[i];

		if (task->id[0] && task->status != TASK_WORKING && task != except &&
			(!oldest || task->created_ms < oldest->created_ms))
			oldest = task;
	}
	return oldest;
}

static struct task *find_place(struct tasks *tasks)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (!tasks->entries[i].id[0])
			return &tasks->entries[i];
	return find_oldest(tasks, NULL);
}

static size_t results_bytes(const struct tasks *tasks)
{
	size_t sum = 0;

	for (size_t i = 0; i < TASKS_MAX; i++)
		sum += tasks->entries[i].result_bytes;
	return sum;
}

struct task *tasks_add(struct tasks *tasks)
{
	struct task *task = find_place(tasks);

	if (!task)
		return NULL;
	clear(task);
	if (random_id(task->id, TASK_ID_LENGTH) < 0) {
		clear(task);
		return NULL;
	}
	task->created_ms = task->updated_ms = wall_clock_ms();
	return task;
}

struct task *tasks_find(struct tasks *tasks, const char *id)
{
	int64_t now = wall_clock_ms();

	for (size_t i = 0; i < TASKS_MAX; i++) {
		struct task *task = &tasks->entries[i];

		if (!task->id[0] || strcmp(task->id, id) != 0)
			continue;
		if (task->status == TASK_WORKING || now - task->created_ms < TASK_TTL_MS)
			return task;
		clear(task);
	}
	return NULL;
}

void task_complete(struct tasks *tasks, struct task *task, json_t *result)
{
	struct task *oldest;

	task->status = TASK_COMPLETED;
	task->result = result;
	task->result_bytes = json_dumpb(result, NULL, 0, JSON_COMPACT);
	task->updated_ms = wall_clock_ms();
	while (results_bytes(tasks) > TASK_RESULTS_BYTES_MAX && (oldest = find_oldest(tasks, task)))
		clear(oldest);
}

void task_set_last_line(struct task *task, const char *line)
{
	size_t length = strlen(line);

	if (length >= sizeof task->last_line)
		length = utf8_boundary_before(line, length, sizeof task->last_line - 1);
	memcpy(task->last_line, line, length);
	task->last_line[length] = '\0';
	task->updated_ms = wall_clock_ms();
}

void task_cancel(struct task *task)
{
	if (task->status != TASK_WORKING)
		return;
	task->status = TASK_CANCELLED;
	task->updated_ms = wall_clock_ms();
}

static json_t *timestamp(int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm parts;
	char text[64];
	size_t length;

	gmtime_r(&seconds, &parts);
	length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + length, sizeof text - length, ".%03dZ", (int)(ms % 1000));
	return json_string(text);
}

json_t *task_to_json(const struct task *task, int detailed)
{
	static const char *const names[] = {"working", "completed", "cancelled"};
	json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:i, s:i}", "taskId", task->id, "status",
		names[task->status], "createdAt", timestamp(task->created_ms), "lastUpdatedAt",
		timestamp(task->updated_ms), "ttlMs", TASK_TTL_MS, "pollIntervalMs", TASK_POLL_MS);

	if (task->status == TASK_WORKING && task->last_line[0])
		json_object_set_new(object, "statusMessage", json_string(task->last_line));
	if (detailed && task->status == TASK_COMPLETED)
		json_object_set(object, "result", task->result);
	return object;
}

void tasks_free(struct tasks *tasks)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		clear(&tasks->entries[i]);
}
