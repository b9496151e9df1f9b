/* SPDX-License-Identifier: MIT */
/* Files of sandboxes as resources: see sandbox_resources.h. */
#define _GNU_SOURCE
#include "mcp/sandbox_resources.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/outputs.h"
#include "mcp/sandbox_tools.h"
#include "mcp/tools.h"
#include "sandbox/collect.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { PART_MAX = 1 << 20, LIST_MAX = 10000, VALUES_MAX = 100 };

static const char prefix[] = "nsbox://sandbox/";
static const char template[] = "nsbox://sandbox/{sandbox_id}/{+path}{?offset}";

/* ---- URIs ---- */

bool sandbox_resource_is(const char *uri)
{
	return strncmp(uri, prefix, sizeof prefix - 1) == 0;
}

/* What RFC 3986 lets stand in a path. */
static bool stands_for_itself(unsigned char byte)
{
	return isalnum(byte) || (byte && strchr("-._~!$&'()*+,;=:@/", byte));
}

char *sandbox_resource_uri(const char *id, const char *path)
{
	cleanup_free char *encoded = xcalloc(3 * strlen(path) + 1, 1);
	char *end = encoded;

	for (const char *next = *path == '/' ? path + 1 : path; *next; next++)
		if (stands_for_itself((unsigned char)*next))
			*end++ = *next;
		else
			end += sprintf(end, "%%%02X", (unsigned char)*next);
	return xasprintf("%s%s/%s%s", prefix, id, *path == '/' ? "" : "workspace/", encoded);
}

static int digit_of(char character)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = character ? strchr(digits, tolower((unsigned char)character)) : NULL;

	return found ? (int)(found - digits) : -1;
}

/* `length` bytes with %XX; malloc'd, with a slash before. NULL: they make no path. */
static char *decode_path(const char *text, size_t length)
{
	char *path = xcalloc(length + 2, 1), *end = path;

	*end++ = '/';
	for (size_t i = 0; i < length; i++) {
		int high = text[i] == '%' && i + 2 < length ? digit_of(text[i + 1]) : -1;
		int low = high >= 0 ? digit_of(text[i + 2]) : -1;

		if (text[i] != '%') {
			*end++ = text[i];
			continue;
		}
		if (low < 0 || (high == 0 && low == 0)) {
			free(path);
			return NULL;
		}
		*end++ = (char)(high * 16 + low);
		i += 2;
	}
	return path;
}

static int malformed(const char *uri, struct error *err)
{
	return error_set(err, 0, "no such resource: %.120s; expected %s", uri, template);
}

static int read_offset(const char *query, const char *uri, json_int_t *ret, struct error *err)
{
	char *end;

	*ret = 0;
	if (!*query)
		return 0;
	if (strncmp(query, "?offset=", 8) != 0 || !isdigit((unsigned char)query[8]))
		return malformed(uri, err);
	errno = 0;
	*ret = strtoll(query + 8, &end, 10);
	return errno || *end ? malformed(uri, err) : 0;
}

int sandbox_resource_prepare(const char *uri, struct step *step, struct error *err)
{
	const char *id = uri + sizeof prefix - 1, *path = strchr(id, '/');
	size_t length = path ? strcspn(path + 1, "?") : 0;
	cleanup_free char *decoded = path ? decode_path(path + 1, length) : NULL;
	json_int_t offset;
	bool directory;

	if (!decoded || path - id != SESSION_ID_LENGTH || read_offset(path + 1 + length, uri, &offset, err) < 0)
		return malformed(uri, err);
	snprintf(step->id, sizeof step->id, "%.*s", SESSION_ID_LENGTH, id);
	if (!session_id_valid(step->id))
		return malformed(uri, err);
	directory = decoded[strlen(decoded) - 1] == '/';
	step->kind = STEP_ASK;
	step->request = json_pack("{s:s, s:s, s:s, s:s}", "op", "file", "from", "mcp", "kind",
		directory ? "list" : "read", "path", decoded);
	if (!step->request)
		return malformed(uri, err); /* no UTF-8 */
	json_object_set_new(step->request, "limit", json_integer(directory ? LIST_MAX : PART_MAX));
	json_object_set_new(step->request, "offset", json_integer(offset));
	return 0;
}

/* ---- Lists of resources and templates ---- */

void sandbox_resources_add(json_t *resources)
{
	char (*ids)[SESSION_ID_SIZE];
	struct error unimportant;
	size_t count;

	if (session_list_shared(&ids, &count, &unimportant) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		cleanup_free char *uri = sandbox_resource_uri(ids[i], "/workspace/");

		json_array_append_new(resources,
			json_pack("{s:s, s:s, s:s, s:s}", "uri", uri, "name", "workspace", "description",
				"The files of a sandbox that lasts", "mimeType", "application/json"));
	}
	free(ids);
}

void sandbox_resources_add_template(json_t *templates)
{
	json_array_append_new(templates,
		json_pack("{s:s, s:s, s:s}", "uriTemplate", template, "name", "sandbox file", "description",
			"A file of a sandbox that lasts, from the byte `offset` on, at most 1 MiB at a time; with a slash at its "
			"end a directory, as a list in JSON. `path` is absolute inside, without its first slash."));
}

/* ---- Reading ---- */

static json_t *read_directory(const char *uri, const json_t *answer)
{
	cleanup_free char *text = json_dumps(json_object_get(answer, "entries"), JSON_INDENT(1));

	return json_pack("[{s:s, s:s, s:s}]", "uri", uri, "mimeType", "application/json", "text", text ?: "[]");
}

static json_t *read_part(const char *uri, const json_t *answer)
{
	const char *encoded = json_string_value(json_object_get(answer, "content")) ?: "";
	json_int_t size = json_integer_value(json_object_get(answer, "size")), offset = 0;
	const char *query = strchr(uri, '?') ?: "", *type;
	cleanup_free void *data = NULL;
	size_t length = 0, used = 0;
	struct error unimportant;
	json_t *part;

	read_offset(query, uri, &offset, &unimportant);
	if (base64_decode(encoded, strlen(encoded), &data, &length) < 0)
		length = 0;
	part = outputs_part(uri, data ?: (void *)"", length, offset + (json_int_t)length >= size, &used);
	type = offset == 0 ? image_type(data ?: (void *)"", length) : NULL;
	if (part && type)
		json_object_set_new(part, "mimeType", json_string(type));
	if (part && offset + (json_int_t)used < size)
		json_object_set_new(part, "_meta",
			json_pack("{s:o, s:I}", "nsbox/next",
				json_sprintf("%.*s?offset=%lld", (int)(strlen(uri) - strlen(query)), uri,
					(long long)(offset + (json_int_t)used)),
				"nsbox/bytes", size));
	return json_pack("[o]", part);
}

static json_t *finish_resource(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *uri = json_string_value(json_object_get(arguments, "uri")) ?: "";

	(void)options, (void)kept;
	return json_pack("{s:o}", "contents",
		json_object_get(answer, "entries") ? read_directory(uri, answer) : read_part(uri, answer));
}

const struct tool sandbox_resource = {
	.name = "resources/read",
	.finish = finish_resource,
	.answers = ANSWERS_RESOURCE,
};

/* ---- Completion ---- */

json_t *completion_result(json_t *values)
{
	size_t total = json_array_size(values);

	while (json_array_size(values) > VALUES_MAX)
		json_array_remove(values, VALUES_MAX);
	return json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total",
		(json_int_t)total, "hasMore", total > VALUES_MAX);
}

static json_t *complete_id(const char *value)
{
	json_t *values = json_array();
	char (*ids)[SESSION_ID_SIZE];
	struct error unimportant;
	size_t count;

	if (session_list_shared(&ids, &count, &unimportant) < 0)
		return completion_result(values);
	for (size_t i = 0; i < count; i++)
		if (strncmp(ids[i], value, strlen(value)) == 0)
			json_array_append_new(values, json_string(ids[i]));
	free(ids);
	return completion_result(values);
}

/* The directory of a path that is being written, with a slash at its end; malloc'd. */
static char *directory_of(const char *value)
{
	const char *slash = strrchr(value, '/');

	return slash ? xasprintf("/%.*s", (int)(slash + 1 - value), value) : xstrdup("/");
}

int sandbox_complete(const char *argument, const char *value, const json_t *context, json_t **ret,
	struct step *step)
{
	const char *id = json_string_value(json_object_get(context, "sandbox_id")) ?: "";
	cleanup_free char *directory = directory_of(value);

	if (strcmp(argument, "sandbox_id") == 0) {
		*ret = complete_id(value);
		return 0;
	}
	if (strcmp(argument, "path") != 0 && strcmp(argument, "offset") != 0)
		return -1;
	if (strcmp(argument, "offset") == 0 || !session_id_valid(id)) {
		*ret = completion_result(json_array());
		return 0;
	}
	strcpy(step->id, id);
	step->kind = STEP_ASK;
	step->request = json_pack("{s:s, s:s, s:s, s:s, s:i}", "op", "file", "from", "mcp", "kind",
		"list", "path", directory, "limit", LIST_MAX);
	return step->request ? 1 : -1;
}

static int compare_values(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static json_t *finish_completion(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *value = json_string_value(json_object_get(arguments, "value")) ?: "";
	const json_t *entries = json_object_get(answer, "entries"), *entry;
	cleanup_free char *directory = directory_of(value);
	cleanup_free char **found = xcalloc(json_array_size(entries) + 1, sizeof *found);
	json_t *values = json_array();
	size_t i, count = 0;

	(void)options, (void)kept;
	json_array_foreach(entries, i, entry) {
		const char *name = json_string_value(json_object_get(entry, "name"));
		const char *type = json_string_value(json_object_get(entry, "type")) ?: "";

		if (name)
			found[count++] = xasprintf("%s%s%s", directory + 1, name,
				strcmp(type, "directory") == 0 ? "/" : "");
	}
	qsort(found, count, sizeof *found, compare_values);
	for (i = 0; i < count; i++) {
		if (strncmp(found[i], value, strlen(value)) == 0)
			json_array_append_new(values, json_string(found[i]));
		free(found[i]);
	}
	return completion_result(values);
}

const struct tool sandbox_completion = {
	.name = "completion/complete",
	.finish = finish_completion,
	.answers = ANSWERS_COMPLETION,
};
