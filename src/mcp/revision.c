/* SPDX-License-Identifier: MIT */
/* Revisions of the protocol: see revision.h. */
#define _GNU_SOURCE
#include "config.h"
#include "mcp/revision.h"

#include <string.h>

#define META_PREFIX "io.modelcontextprotocol/"

enum { CACHE_MS = 60 * 60 * 1000 };

static const char *const names[REVISION_MAX] = {
	[REVISION_2024_11_05] = "2024-11-05",
	[REVISION_2025_03_26] = "2025-03-26",
	[REVISION_2025_06_18] = "2025-06-18",
	[REVISION_2025_11_25] = "2025-11-25",
	[REVISION_2026_07_28] = "2026-07-28",
};

const char *revision_name(enum revision revision)
{
	return names[revision];
}

enum revision revision_find(const char *name)
{
	int revision = 0;

	while (revision < REVISION_MAX && strcmp(names[revision], name) != 0)
		revision++;
	return (enum revision)revision;
}

enum request_meta_result request_meta_read(
	const json_t *params, struct request_meta *ret, const char **ret_reason)
{
	const json_t *meta = json_object_get(params, "_meta");
	const json_t *version = json_object_get(meta, META_PREFIX "protocolVersion");
	const json_t *capabilities = json_object_get(meta, META_PREFIX "clientCapabilities");

	if (!version && !capabilities && !json_object_get(meta, META_PREFIX "clientInfo") &&
		!json_object_get(meta, META_PREFIX "logLevel"))
		return META_ABSENT;
	if (!json_is_string(version)) {
		*ret_reason = "params._meta: " META_PREFIX "protocolVersion: expected a string";
		return META_INVALID;
	}
	if (revision_find(json_string_value(version)) != REVISION_2026_07_28) {
		*ret_reason = json_string_value(version);
		return META_UNSUPPORTED;
	}
	if (!json_is_object(capabilities)) {
		*ret_reason = "params._meta: " META_PREFIX "clientCapabilities: expected an object";
		return META_INVALID;
	}
	ret->revision = REVISION_2026_07_28;
	ret->tasks = json_is_object(
		json_object_get(json_object_get(capabilities, "extensions"), META_PREFIX "tasks"));
	return META_OK;
}

json_t *revision_server_info(enum revision revision)
{
	json_t *info = json_pack("{s:s, s:s}", "name", "nsbox", "version", PACKAGE_VERSION);

	if (revision >= REVISION_2025_06_18)
		json_object_set_new(info, "title", json_string("nsbox: a sandbox for code"));
	return info;
}

json_t *revision_fit_result(enum revision revision, enum result_kind kind, json_t *result)
{
	json_t *meta;

	if (!result || revision < REVISION_2026_07_28)
		return result;
	json_object_set_new(
		result, "resultType", json_string(kind == RESULT_TASK ? "task" : "complete"));
	meta = json_object_get(result, "_meta");
	if (!meta) {
		meta = json_object();
		json_object_set_new(result, "_meta", meta);
	}
	json_object_set_new(meta, META_PREFIX "serverInfo", revision_server_info(revision));
	if (kind == RESULT_CACHEABLE || kind == RESULT_PRIVATE) {
		json_object_set_new(result, "ttlMs", json_integer(kind == RESULT_PRIVATE ? 0 : CACHE_MS));
		json_object_set_new(result, "cacheScope",
			json_string(kind == RESULT_PRIVATE ? "private" : "public"));
	}
	return result;
}

void revision_fit_tool(enum revision revision, json_t *tool)
{
	if (revision < REVISION_2025_03_26)
		json_object_del(tool, "annotations");
	if (revision < REVISION_2025_06_18) {
		json_object_del(tool, "outputSchema");
		json_object_del(tool, "title");
	}
}

void revision_fit_tool_result(enum revision revision, json_t *result)
{
	json_t *content = json_object_get(result, "content");

	if (revision >= REVISION_2025_06_18)
		return;
	json_object_del(result, "structuredContent");
	/* A link to a resource was added later; its address is in the text too. */
	for (size_t i = json_array_size(content); i-- > 0;) {
		const json_t *type = json_object_get(json_array_get(content, i), "type");

		if (strcmp(json_string_value(type), "resource_link") == 0)
			json_array_remove(content, i);
	}
}
