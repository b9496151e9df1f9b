/* SPDX-License-Identifier: MIT */
/*
 * A spec as JSON and back: see report.h. One table a struct says which key is which field; writing
 * and reading both walk it, so that they cannot differ.
 *
 * Strings that are not UTF-8, and content with a NUL in it, are written as {"base64": "…"}.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum field_type {
	FIELD_BOOL,
	FIELD_U32,
	FIELD_U64,
	FIELD_CHOICE,  /* an enum: `names` in its order */
	FIELD_LITERAL, /* const char *: one of `names`, or null */
	FIELD_STRING,  /* char *, or null */
	FIELD_STRINGS, /* char **, NULL-terminated, or null */
	FIELD_BYTES,   /* void * with a size_t at `count`, or null */
	FIELD_OBJECT,  /* a struct in place: `fields` */
	FIELD_LIST,    /* pointer to `size`-byte structs, with a size_t at `count` */
	FIELD_ARRAY,   /* the same in place, at most `max` */
};

struct field {
	const char *key; /* NULL ends a table */
	enum field_type type;
	size_t offset;
	const char *const *names;
	const struct field *fields;
	size_t count; /* offset of the number of bytes or elements */
	size_t size;
	size_t max;
};

static const char *const root_names[] = {"host", "directory", "image", NULL};
static const char *const network_names[] = {"none", "host", "pasta", "allow", NULL};
static const char *const storage_names[] = {"default", "memory", "disk", NULL};
static const char *const mount_names[] = {"bind", "tmpfs", NULL};
static const char *const stdin_names[] = {"inherit", "null", "data", NULL};
static const char *const phase_names[] = {"compile", "run", NULL};

#define AT(structure, member) .offset = offsetof(struct structure, member)

static const struct field mount_fields[] = {
	{"kind", FIELD_CHOICE, AT(mount_spec, kind), .names = mount_names},
	{"source", FIELD_STRING, AT(mount_spec, source)},
	{"target", FIELD_STRING, AT(mount_spec, target)},
	{"read_only", FIELD_BOOL, AT(mount_spec, read_only)},
	{"exact", FIELD_BOOL, AT(mount_spec, exact)},
	{"size_bytes", FIELD_U64, AT(mount_spec, size_bytes)},
	{.key = NULL},
};

static const struct field publish_fields[] = {
	{"host_port", FIELD_U32, AT(publish_spec, host_port)},
	{"port", FIELD_U32, AT(publish_spec, port)},
	{.key = NULL},
};

static const struct field file_fields[] = {
	{"path", FIELD_STRING, AT(file_spec, path)},
	{"content", FIELD_BYTES, AT(file_spec, content),
		.count = offsetof(struct file_spec, length)},
	{"mode", FIELD_U32, AT(file_spec, mode)},
	{.key = NULL},
};

static const struct field limits_fields[] = {
	{"memory_bytes", FIELD_U64, AT(limits, memory_bytes)},
	{"disk_bytes", FIELD_U64, AT(limits, disk_bytes)},
	{"disk_inodes", FIELD_U64, AT(limits, disk_inodes)},
	{"pids", FIELD_U32, AT(limits, pids)},
	{"cpu_millis", FIELD_U32, AT(limits, cpu_millis)},
	{"open_files", FIELD_U32, AT(limits, open_files)},
	{"file_size_bytes", FIELD_U64, AT(limits, file_size_bytes)},
	{"output_bytes", FIELD_U64, AT(limits, output_bytes)},
	{.key = NULL},
};

static const struct field exec_fields[] = {
	{"phase", FIELD_LITERAL, AT(exec_spec, phase), .names = phase_names},
	{"argv", FIELD_STRINGS, AT(exec_spec, argv)},
	{"env", FIELD_STRINGS, AT(exec_spec, env)},
	{"cwd", FIELD_STRING, AT(exec_spec, cwd)},
	{"timeout_ms", FIELD_U64, AT(exec_spec, timeout_ms)},
	{"stdin", FIELD_CHOICE, AT(exec_spec, stdin_kind), .names = stdin_names},
	{"stdin_data", FIELD_BYTES, AT(exec_spec, stdin_data),
		.count = offsetof(struct exec_spec, stdin_length)},
	{.key = NULL},
};

static const struct field spec_fields[] = {
	{"root", FIELD_CHOICE, AT(spec, root), .names = root_names},
	{"root_path", FIELD_STRING, AT(spec, root_path)},
	{"root_exact", FIELD_BOOL, AT(spec, root_exact)},
	{"root_layers", FIELD_STRINGS, AT(spec, root_layers)},
	{"root_digest", FIELD_STRING, AT(spec, root_digest)},
	{"root_env", FIELD_STRINGS, AT(spec, root_env)},
	{"root_read_only", FIELD_BOOL, AT(spec, root_read_only)},
	{"resumed", FIELD_BOOL, AT(spec, resumed)},
	{"keeps_resolver", FIELD_BOOL, AT(spec, keeps_resolver)},
	{"network", FIELD_CHOICE, AT(spec, network), .names = network_names},
	{"allow", FIELD_STRING, AT(spec, allow)},
	{"publish", FIELD_ARRAY, AT(spec, publish), .fields = publish_fields,
		.count = offsetof(struct spec, publish_count), .size = sizeof(struct publish_spec),
		.max = SPEC_PUBLISH_MAX},
	{"hostname", FIELD_STRING, AT(spec, hostname)},
	{"uid", FIELD_U32, AT(spec, uid)},
	{"gid", FIELD_U32, AT(spec, gid)},
	{"home", FIELD_STRING, AT(spec, home)},
	{"directories", FIELD_STRINGS, AT(spec, directories)},
	{"mounts", FIELD_LIST, AT(spec, mounts), .fields = mount_fields,
		.count = offsetof(struct spec, mounts_count), .size = sizeof(struct mount_spec)},
	{"files", FIELD_LIST, AT(spec, files), .fields = file_fields,
		.count = offsetof(struct spec, files_count), .size = sizeof(struct file_spec)},
	{"limits", FIELD_OBJECT, AT(spec, limits), .fields = limits_fields},
	{"storage", FIELD_CHOICE, AT(spec, storage), .names = storage_names},
	{"cgroup", FIELD_STRING, AT(spec, cgroup)},
	{"require_cgroup", FIELD_BOOL, AT(spec, require_cgroup)},
	{"seccomp", FIELD_STRING, AT(spec, seccomp_name)},
	{"root_emulation", FIELD_BOOL, AT(spec, root_emulation)},
	{"stop_signal", FIELD_U32, AT(spec, stop_signal)},
	{"explain", FIELD_BOOL, AT(spec, explain)},
	{"capture", FIELD_BOOL, AT(spec, capture)},
	{"collect_images", FIELD_BOOL, AT(spec, collect_images)},
	{"collect_files", FIELD_BOOL, AT(spec, collect_files)},
	{"keep_output", FIELD_BOOL, AT(spec, keep_output)},
	{"package_places", FIELD_STRINGS, AT(spec, package_places)},
	{"packages", FIELD_BOOL, AT(spec, packages)},
	{"background", FIELD_BOOL, AT(spec, background)},
	{"tty", FIELD_BOOL, AT(spec, tty)},
	{"execs", FIELD_ARRAY, AT(spec, execs), .fields = exec_fields,
		.count = offsetof(struct spec, execs_count), .size = sizeof(struct exec_spec),
		.max = SPEC_EXECS_MAX},
	{.key = NULL},
};

_Static_assert(sizeof(enum root_kind) == sizeof(uint32_t), "FIELD_CHOICE reads enums as uint32_t");

json_t *bytes_to_json(const void *data, size_t length)
{
	cleanup_free char *encoded = NULL;

	if (!data)
		return json_null();
	if (!memchr(data, '\0', length) && utf8_valid(data, length))
		return json_stringn_nocheck(data, length);
	encoded = base64_encode(data, length);
	return json_pack("{s:s}", "base64", encoded);
}

static json_t *strings_to_json(char *const *strings)
{
	json_t *array;

	if (!strings)
		return json_null();
	array = json_array();
	for (; *strings; strings++)
		json_array_append_new(array, bytes_to_json(*strings, strlen(*strings)));
	return array;
}

static json_t *fields_to_json(const struct field *fields, const char *base);

static json_t *list_to_json(const struct field *field, const char *elements, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			array, fields_to_json(field->fields, elements + i * field->size));
	return array;
}

static json_t *field_to_json(const struct field *field, const char *base)
{
	const void *at = base + field->offset;
	const size_t *count = (const void *)(base + field->count);

	switch (field->type) {
	case FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case FIELD_U32:
		return json_integer(*(const uint32_t *)at);
	case FIELD_U64:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case FIELD_CHOICE:
		return json_string(field->names[*(const uint32_t *)at]);
	case FIELD_LITERAL:
		return *(const char *const *)at ? json_string(*(const char *const *)at)
						: json_null();
	case FIELD_STRING:
		return bytes_to_json(
			*(char *const *)at, *(char *const *)at ? strlen(*(char *const *)at) : 0);
	case FIELD_STRINGS:
		return strings_to_json(*(char **const *)at);
	case FIELD_BYTES:
		return bytes_to_json(*(void *const *)at, *count);
	case FIELD_OBJECT:
		return fields_to_json(field->fields, at);
	case FIELD_LIST:
		return list_to_json(field, *(char *const *)at, *count);
	case FIELD_ARRAY:
		return list_to_json(field, at, *count);
	}
	return json_null();
}

static json_t *fields_to_json(const struct field *fields, const char *base)
{
	json_t *object = json_object();

	for (; fields->key; fields++)
		json_object_set_new(object, fields->key, field_to_json(fields, base));
	return object;
}

json_t *spec_to_json(const struct spec *spec)
{
	return fields_to_json(spec_fields, (const char *)spec);
}

/* A string or {"base64": …} → malloc'd bytes with a NUL after them. */
static int bytes_from_json(const json_t *value, void **ret, size_t *ret_length, struct error *err)
{
	const json_t *encoded = json_object_get(value, "base64");

	if (json_is_string(value)) {
		*ret_length = json_string_length(value);
		*ret = xmemdup(json_string_value(value), *ret_length);
		return 0;
	}
	if (!json_is_string(encoded) || json_object_size(value) != 1)
		return error_set(err, 0, "a string or {\"base64\": \"…\"} is expected");
	if (base64_decode(
		    json_string_value(encoded), json_string_length(encoded), ret, ret_length) < 0)
		return error_set(err, 0, "this is not base64");
	return 0;
}

/* The same for a C string: it cannot have a NUL in it. */
static int string_from_json(const json_t *value, char **ret, struct error *err)
{
	void *data;
	size_t length;

	if (bytes_from_json(value, &data, &length, err) < 0)
		return -1;
	if (strlen(data) != length) {
		free(data);
		return error_set(err, 0, "there is a NUL in it");
	}
	*ret = data;
	return 0;
}

/* *ret grows as it is read, and is terminated at every moment: the owner frees it also after a failure. */
static int strings_from_json(const json_t *value, char ***ret, struct error *err)
{
	size_t count = json_array_size(value);

	if (json_is_null(value))
		return 0;
	if (!json_is_array(value))
		return error_set(err, 0, "a list of strings is expected");
	*ret = xcalloc(count + 1, sizeof **ret);
	for (size_t i = 0; i < count; i++)
		if (string_from_json(json_array_get(value, i), *ret + i, err) < 0)
			return error_context(err, "[%zu]", i);
	return 0;
}

static int integer_from_json(const json_t *value, uint64_t max, uint64_t *ret, struct error *err)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		(uint64_t)json_integer_value(value) > max)
		return error_set(err, 0, "a whole number from 0 to %" PRIu64 " is expected", max);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

static int name_from_json(
	const json_t *value, const char *const *names, size_t *ret, struct error *err)
{
	for (size_t i = 0; json_is_string(value) && names[i]; i++)
		if (strcmp(json_string_value(value), names[i]) == 0) {
			*ret = i;
			return 0;
		}
	return error_set(
		err, 0, "\"%s\", or another name that is defined here, is expected", names[0]);
}

static int fields_from_json(
	const struct field *fields, const json_t *object, char *base, struct error *err);

/* The count is set before the elements are read: they are zero, which spec_free can release. */
static int list_from_json(const struct field *field, const json_t *value, char *elements,
	size_t *count, struct error *err)
{
	*count = json_array_size(value);
	for (size_t i = 0; i < *count; i++)
		if (fields_from_json(field->fields, json_array_get(value, i),
			    elements + i * field->size, err) < 0)
			return error_context(err, "[%zu]", i);
	return 0;
}

static int new_list_from_json(
	const struct field *field, const json_t *value, char *base, struct error *err)
{
	char **elements = (void *)(base + field->offset);
	size_t *count = (void *)(base + field->count);

	if (!json_is_array(value))
		return error_set(err, 0, "a list is expected");
	if (field->type == FIELD_ARRAY) {
		if (json_array_size(value) > field->max)
			return error_set(err, 0, "at most %zu are possible", field->max);
		return list_from_json(field, value, base + field->offset, count, err);
	}
	if (json_array_size(value) == 0)
		return 0;
	*elements = xcalloc(json_array_size(value), field->size);
	return list_from_json(field, value, *elements, count, err);
}

static int text_from_json(
	const struct field *field, const json_t *value, char *base, struct error *err)
{
	char **text = (void *)(base + field->offset);
	char *read = NULL;

	if (!json_is_null(value) && string_from_json(value, &read, err) < 0)
		return -1;
	free(*text);
	*text = read;
	return 0;
}

static int number_from_json(
	const struct field *field, const json_t *value, char *base, struct error *err)
{
	bool wide = field->type == FIELD_U64;
	uint64_t number = 0;

	if (integer_from_json(value, wide ? INT64_MAX : UINT32_MAX, &number, err) < 0)
		return -1;
	if (wide)
		*(uint64_t *)(void *)(base + field->offset) = number;
	else
		*(uint32_t *)(void *)(base + field->offset) = (uint32_t)number;
	return 0;
}

static int choice_from_json(
	const struct field *field, const json_t *value, char *base, struct error *err)
{
	size_t index = 0;

	if (field->type == FIELD_LITERAL && json_is_null(value)) {
		*(const char **)(void *)(base + field->offset) = NULL;
		return 0;
	}
	if (name_from_json(value, field->names, &index, err) < 0)
		return -1;
	if (field->type == FIELD_LITERAL)
		*(const char **)(void *)(base + field->offset) = field->names[index];
	else
		*(uint32_t *)(void *)(base + field->offset) = (uint32_t)index;
	return 0;
}

static int field_from_json(
	const struct field *field, const json_t *value, char *base, struct error *err)
{
	void *at = base + field->offset;

	switch (field->type) {
	case FIELD_BOOL:
		if (!json_is_boolean(value))
			return error_set(err, 0, "true or false is expected");
		*(bool *)at = json_is_true(value);
		return 0;
	case FIELD_U32:
	case FIELD_U64:
		return number_from_json(field, value, base, err);
	case FIELD_CHOICE:
	case FIELD_LITERAL:
		return choice_from_json(field, value, base, err);
	case FIELD_STRING:
		return text_from_json(field, value, base, err);
	case FIELD_STRINGS:
		return strings_from_json(value, at, err);
	case FIELD_BYTES:
		if (json_is_null(value))
			return 0;
		return bytes_from_json(value, at, (void *)(base + field->count), err);
	case FIELD_OBJECT:
		return fields_from_json(field->fields, value, at, err);
	case FIELD_LIST:
	case FIELD_ARRAY:
		return new_list_from_json(field, value, base, err);
	}
	return 0;
}

static const struct field *find_field(const struct field *fields, const char *key)
{
	for (; fields->key; fields++)
		if (strcmp(fields->key, key) == 0)
			return fields;
	return NULL;
}

static int fields_from_json(
	const struct field *fields, const json_t *object, char *base, struct error *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return error_set(err, 0, "an object is expected");
	json_object_foreach((json_t *)object, key, value)
	{
		const struct field *field = find_field(fields, key);

		if (!field)
			return error_set(err, 0, "%s: there is no such key", key);
		if (field_from_json(field, value, base, err) < 0)
			return error_context(err, "%s", key);
	}
	return 0;
}

int spec_from_json(const json_t *object, struct spec *ret, struct error *err)
{
	struct spec spec;

	spec_init(&spec);
	if (fields_from_json(spec_fields, object, (char *)&spec, err) < 0) {
		spec_free(&spec);
		return error_context(err, "spec");
	}
	*ret = spec;
	return 0;
}
