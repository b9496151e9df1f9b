/* SPDX-License-Identifier: MIT */
/* Tasks: their life, their JSON, and whose place is taken when there are too many. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "mcp/tasks.h"

static struct tasks tasks;

static int setup(void **state)
{
	memset(&tasks, 0, sizeof tasks);
	return 0;
}

static int teardown(void **state)
{
	tasks_free(&tasks);
	return 0;
}

static json_t *get(const struct task *task)
{
	return task_to_json(task, 1);
}

static const char *string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void test_life(void **state)
{
	struct task *task = tasks_add(&tasks);
	json_t *object;

	assert_non_null(task);
	assert_ptr_equal(tasks_find(&tasks, task->id), task);
	task_set_last_line(task, "half done");
	object = get(task);
	assert_string_equal(string(object, "status"), "working");
	assert_string_equal(string(object, "statusMessage"), "half done");
	assert_null(json_object_get(object, "result"));
	json_decref(object);

	task_complete(&tasks, task, json_pack("{s:i}", "a", 1));
	object = get(task);
	assert_string_equal(string(object, "status"), "completed");
	assert_null(json_object_get(object, "statusMessage"));
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(object, "result"), "a")), 1);
	json_decref(object);
	object = task_to_json(task, 0);
	assert_null(json_object_get(object, "result"));
	json_decref(object);

	task_cancel(task); /* too late */
	assert_int_equal(task->status, TASK_COMPLETED);
}

static void test_cancelled(void **state)
{
	struct task *task = tasks_add(&tasks);
	json_t *object;

	task_cancel(task);
	object = get(task);
	assert_string_equal(string(object, "status"), "cancelled");
	assert_null(json_object_get(object, "result"));
	json_decref(object);
}

/* An hour after it began a task that ended is gone; one that works stays. */
static void test_time_over(void **state)
{
	struct task *task = tasks_add(&tasks);
	char id[TASK_ID_LENGTH + 1];

	strcpy(id, task->id);
	task->created_ms -= TASK_TTL_MS + 1;
	assert_ptr_equal(tasks_find(&tasks, id), task);
	task_complete(&tasks, task, json_object());
	assert_null(tasks_find(&tasks, id));
	assert_null(tasks_find(&tasks, id));
	assert_null(tasks_find(&tasks, ""));
}

static void test_places(void **state)
{
	struct task *first = tasks_add(&tasks), *second = tasks_add(&tasks);
	char id[TASK_ID_LENGTH + 1];

	for (int i = 2; i < TASKS_MAX; i++)
		assert_non_null(tasks_add(&tasks));
	assert_null(tasks_add(&tasks)); /* all of them work */
	task_complete(&tasks, second, json_object());
	task_cancel(first);
	first->created_ms = second->created_ms + 1;
	strcpy(id, second->id);
	assert_ptr_equal(tasks_add(&tasks), second); /* the older one that ended */
	assert_null(tasks_find(&tasks, id));
	assert_int_equal(second->status, TASK_WORKING);
	assert_null(second->result);
	assert_int_equal(second->result_bytes, 0);
	assert_ptr_equal(tasks_add(&tasks), first);
	assert_null(tasks_add(&tasks));
}

/* Results are bounded in bytes: the oldest go, never the new one, never a task that works. */
static void test_bytes(void **state)
{
	enum { COUNT = 6, BYTES = TASK_RESULTS_BYTES_MAX / 4 };
	struct task *works = tasks_add(&tasks), *ended[COUNT];
	char ids[COUNT][TASK_ID_LENGTH + 1];
	static char data[BYTES + 1];

	memset(data, 'x', BYTES);
	for (int i = 0; i < COUNT; i++) {
		ended[i] = tasks_add(&tasks);
		ended[i]->created_ms += i;
		strcpy(ids[i], ended[i]->id);
		task_complete(&tasks, ended[i], json_pack("{s:s}", "text", data));
		assert_ptr_equal(tasks_find(&tasks, ids[i]), ended[i]);
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(tasks_find(&tasks, ids[i]) != NULL, i >= COUNT - 3);
	assert_ptr_equal(tasks_find(&tasks, works->id), works);
}

static void test_last_line(void **state)
{
	struct task *task = tasks_add(&tasks);
	char line[600];
	json_t *object;

	memset(line, 'x', sizeof line);
	for (size_t i = 1; i + 2 < sizeof line; i += 2)
		memcpy(line + i, "\xc3\xa9", 2);
	line[sizeof line - 1] = '\0';
	task_set_last_line(task, line);
	object = get(task);
	/* It would not be there if a character had been cut. */
	assert_non_null(string(object, "statusMessage"));
	assert_true(strlen(string(object, "statusMessage")) > 250);
	json_decref(object);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_life),
		TEST(test_cancelled),
		TEST(test_time_over),
		TEST(test_places),
		TEST(test_bytes),
		TEST(test_last_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
