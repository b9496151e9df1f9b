/* SPDX-License-Identifier: MIT */
/* Revisions of MCP: what a request says of its own, and what results have in each. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "mcp/revision.h"

#define META "io.modelcontextprotocol/"

static void test_names(void **state)
{
	for (int revision = 0; revision < REVISION_MAX; revision++)
		assert_int_equal(revision_find(revision_name((enum revision)revision)), revision);
	assert_int_equal(revision_find(""), REVISION_MAX);
	assert_int_equal(revision_find("2025-11-2"), REVISION_MAX);
	assert_int_equal(revision_find("2025-11-250"), REVISION_MAX);
}

static const struct {
	const char *params;
	enum request_meta_result result;
	bool tasks;
} metas[] = {
	{"{}", META_ABSENT, false},
	{"{'_meta':{}}", META_ABSENT, false},
	{"{'_meta':5}", META_ABSENT, false},
	{"{'_meta':{'progressToken':1,'" META "related-task':{}}}", META_ABSENT, false},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28','" META "clientCapabilities':{}}}", META_OK,
		false},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28','" META
	 "clientCapabilities':{'extensions':{'" META "tasks':{}}}}}",
		META_OK, true},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28','" META
	 "clientCapabilities':{'extensions':{'" META "tasks':true}}}}",
		META_OK, false},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28','" META
	 "clientCapabilities':{'extensions':[]}}}",
		META_OK, false},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28'}}", META_INVALID, false},
	{"{'_meta':{'" META "protocolVersion':'2026-07-28','" META "clientCapabilities':[]}}",
		META_INVALID, false},
	{"{'_meta':{'" META "clientCapabilities':{}}}", META_INVALID, false},
	{"{'_meta':{'" META "clientInfo':{}}}", META_INVALID, false},
	{"{'_meta':{'" META "logLevel':'debug'}}", META_INVALID, false},
	{"{'_meta':{'" META "protocolVersion':20260728,'" META "clientCapabilities':{}}}",
		META_INVALID, false},
	{"{'_meta':{'" META "protocolVersion':'2025-11-25','" META "clientCapabilities':{}}}",
		META_UNSUPPORTED, false},
	{"{'_meta':{'" META "protocolVersion':'','" META "clientCapabilities':{}}}", META_UNSUPPORTED,
		false},
};

/* JSON with ' for ". */
static json_t *parse(const char *text)
{
	char copy[512];
	json_t *value;

	assert_true(strlen(text) < sizeof copy);
	strcpy(copy, text);
	for (char *quote = copy; (quote = strchr(quote, '\''));)
		*quote = '"';
	value = json_loads(copy, 0, NULL);
	assert_non_null(value);
	return value;
}

static void test_meta(void **state)
{
	for (size_t i = 0; i < sizeof metas / sizeof metas[0]; i++) {
		json_t *params = parse(metas[i].params);
		struct request_meta meta = {0};
		const char *reason = NULL;
		enum request_meta_result result = request_meta_read(params, &meta, &reason);

		if (result != metas[i].result)
			fail_msg("%s: %d", metas[i].params, result);
		assert_int_equal(meta.tasks, metas[i].tasks);
		if (result == META_OK)
			assert_int_equal(meta.revision, REVISION_2026_07_28);
		if (result == META_INVALID || result == META_UNSUPPORTED)
			assert_non_null(reason);
		json_decref(params);
	}
	assert_int_equal(request_meta_read(NULL, NULL, NULL), META_ABSENT);
}

static bool has(const json_t *object, const char *key)
{
	return json_object_get(object, key) != NULL;
}

static void test_results(void **state)
{
	static const struct {
		enum result_kind kind;
		const char *type, *scope;
	} kinds[] = {
		{RESULT_PLAIN, "complete", NULL},
		{RESULT_CACHEABLE, "complete", "public"},
		{RESULT_PRIVATE, "complete", "private"},
		{RESULT_TASK, "task", NULL},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		json_t *result = revision_fit_result(
			REVISION_2026_07_28, kinds[i].kind, json_pack("{s:{s:i}}", "_meta", "a", 1));

		assert_string_equal(
			json_string_value(json_object_get(result, "resultType")), kinds[i].type);
		assert_true(has(json_object_get(result, "_meta"), META "serverInfo"));
		assert_true(has(json_object_get(result, "_meta"), "a"));
		assert_int_equal(has(result, "ttlMs"), kinds[i].scope != NULL);
		if (kinds[i].scope)
			assert_string_equal(json_string_value(json_object_get(result, "cacheScope")),
				kinds[i].scope);
		json_decref(result);
		result = revision_fit_result(REVISION_2025_11_25, kinds[i].kind, json_object());
		assert_int_equal(json_object_size(result), 0);
		json_decref(result);
	}
	assert_null(revision_fit_result(REVISION_2026_07_28, RESULT_PLAIN, NULL));
}

static void test_tools(void **state)
{
	for (int i = 0; i < REVISION_MAX; i++) {
		enum revision revision = (enum revision)i;
		json_t *tool = json_pack("{s:s, s:s, s:{}, s:{}, s:{}}", "name", "n", "title", "t",
			"inputSchema", "outputSchema", "annotations");

		revision_fit_tool(revision, tool);
		assert_true(has(tool, "name") && has(tool, "inputSchema"));
		assert_int_equal(has(tool, "annotations"), revision >= REVISION_2025_03_26);
		assert_int_equal(has(tool, "outputSchema"), revision >= REVISION_2025_06_18);
		assert_int_equal(has(tool, "title"), revision >= REVISION_2025_06_18);
		json_decref(tool);
	}
}

static void test_tool_results(void **state)
{
	for (int i = 0; i < REVISION_MAX; i++) {
		bool all = i >= REVISION_2025_06_18;
		json_t *result = json_pack("{s:[{s:s},{s:s},{s:s},{s:s}], s:{}}", "content", "type",
			"resource_link", "type", "text", "type", "image", "type", "resource_link",
			"structuredContent");

		revision_fit_tool_result((enum revision)i, result);
		assert_int_equal(has(result, "structuredContent"), all);
		assert_int_equal(json_array_size(json_object_get(result, "content")), all ? 4 : 2);
		json_decref(result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_meta),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_tools),
		cmocka_unit_test(test_tool_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
