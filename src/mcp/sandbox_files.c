/* SPDX-License-Identifier: MIT */
/*
 * The tools of files: write_file, read_file, list_files, edit_file, move_file, delete_file, make_directory. All work is
 * done inside of the sandbox, by a process with its rights (sandbox/fileops.h).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcp/arguments.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/tools.h"
#include "sandbox/collect.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum {
	READ_DEFAULT = 40000,  /* bytes of a text that are returned */
	READ_MAX = 1 << 20,    /* bytes of one call: a byte takes up to six in JSON, and it is there twice */
	LIST_DEFAULT = 1000,   /* entries */
	LIST_MAX = 10000,
	LIST_SHOWN_MAX = 1000, /* in the text */
};

#define PATH_FIELD(what)                                                                           \
	{                                                                                          \
		"path", "string", what "; relative ones begin in /workspace", true                 \
	}

/* A request about the path of the arguments; NULL with *err. */
static int ask_file(const json_t *arguments, const char *const *known, const char *kind,
	const char *otherwise, struct step *step, struct error *err)
{
	json_t *request = json_pack("{s:s, s:s}", "op", "file", "kind", kind);
	cleanup_free char *path = NULL;

	if (sandbox_ask(arguments, known, request, step, err) < 0)
		return -1;
	path = sandbox_path(arguments, "path", otherwise, err);
	if (!path)
		return -1;
	json_object_set_new(request, "path", json_string(path));
	return 0;
}

static int set_boolean(const json_t *arguments, const char *name, bool otherwise, const char *key,
	struct step *step, struct error *err)
{
	bool value = otherwise;

	if (argument_boolean(arguments, name, &value, err) < 0)
		return -1;
	json_object_set_new(step->request, key, json_boolean(value));
	return 0;
}

/* «0644», «755», or 420 as a number. Absent, there is none. */
static int set_mode(const json_t *arguments, struct step *step, struct error *err)
{
	const json_t *value = json_object_get(arguments, "mode");
	const char *text = json_string_value(value);
	json_int_t mode;
	char *end = NULL;

	if (!value || json_is_null(value))
		return 0;
	mode = text ? strtol(text, &end, 8) : json_integer_value(value);
	if (!(text ? *text >= '0' && *text <= '7' && !*end : json_is_integer(value)) || mode < 0 ||
		mode > 07777)
		return argument_wrong("mode", "permissions in octal, such as \"0755\"", value, err);
	json_object_set_new(step->request, "mode", json_integer(mode));
	return 0;
}

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

/* ---- write_file ---- */

static json_t *describe_write(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PATH_FIELD("The file"),
		{"content", "string", "What is to be in it", true},
		{"encoding", "string", "utf-8 (the text as it is), or base64 for other bytes; utf-8 if not given", false},
		{"mode", "string", "Its permissions in octal, such as \"0755\"; 0644 for a new file if not given", false},
		{"append", "boolean", "Add to the end of what is there: for files larger than a message", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "The file", true},
		{"size", "integer", "Its bytes now", true}, {0}};
	json_t *schema = schema_object(input, true);

	(void)options;
	json_object_set_new(json_object_get(json_object_get(schema, "properties"), "encoding"), "enum",
		json_pack("[s, s]", "utf-8", "base64"));
	return schema_tool("write_file", "Write a file",
		"Writes a file in a sandbox, in place of what is there, and makes the directories that it needs. It is there "
		"whole, or as it was before. At most about 15 MB a call; append adds more.",
		schema, schema_object(output, false), HINT_DESTRUCTIVE | HINT_IDEMPOTENT);
}

/* Returns 1 for base64, 0 for text. Absent, *ret_given is false. */
static int read_encoding(const json_t *arguments, bool *ret_given, struct error *err)
{
	const char *encoding = NULL;

	if (argument_string(arguments, "encoding", false, &encoding, err) < 0)
		return -1;
	*ret_given = encoding;
	if (!encoding || strcasecmp(encoding, "utf-8") == 0 || strcasecmp(encoding, "utf8") == 0)
		return 0;
	if (strcasecmp(encoding, "base64") == 0)
		return 1;
	return argument_wrong("encoding", "\"utf-8\" or \"base64\"",
		json_object_get(arguments, "encoding"), err);
}

static int prepare_write(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {
		"sandbox_id", "path", "content", "encoding", "mode", "append", NULL};
	json_t *content = json_object_get(arguments, "content");
	const char *text = NULL;
	void *decoded = NULL;
	size_t length;
	bool given;
	int base64;

	(void)options;
	if (ask_file(arguments, known, "write", NULL, step, err) < 0 ||
		argument_bytes(arguments, "content", true, &text, &length, err) < 0 ||
		(base64 = read_encoding(arguments, &given, err)) < 0 ||
		set_mode(arguments, step, err) < 0 ||
		set_boolean(arguments, "append", false, "append", step, err) < 0)
		return -1;
	if (base64 && base64_decode(text, length, &decoded, &length) < 0)
		return error_set(err, 0, "content: it is not base64, as encoding says");
	free(decoded);
	json_object_set(step->request, "content", content);
	if (base64)
		json_object_set_new(step->request, "content", json_pack("{s:O}", "base64", content));
	json_object_set_new(step->request, "parents", json_true());
	return 0;
}

static json_t *finish_write(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *path = sandbox_path_of(arguments, "path", "");
	json_int_t size = json_integer_value(json_object_get(answer, "size"));

	(void)options, (void)kept;
	return sandbox_result(json_pack("{s:s, s:I}", "path", path, "size", size),
		"%s has %lld bytes now.", path, (long long)size);
}

const struct tool tool_write_file = {
	.name = "write_file",
	.describe = describe_write,
	.prepare = prepare_write,
	.finish = finish_write,
};

/* ---- read_file ---- */

static json_t *describe_read(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PATH_FIELD("The file"),
		{"encoding", "string",
			"utf-8 for text, base64 for any bytes; if not given, text where it is text, an image where it is a PNG, JPEG, "
			"GIF or WebP file, else base64",
			false},
		{"offset", "integer", "The byte to begin with; 0 if not given", false},
		{"limit", "integer", "Bytes to return at most, up to 1048576; 40000 if not given", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "The file", true},
		{"size", "integer", "Bytes of the whole file", true},
		{"encoding", "string", "Of content: utf-8 or base64", true},
		{"content", "string", "What was read; absent where it was returned as an image", false},
		{"next_offset", "integer", "Where the next call goes on; absent at the end of the file", false},
		{"mode", "string", "Its permissions in octal", true}, {0}};
	json_t *schema = schema_object(input, true);

	(void)options;
	json_object_set_new(json_object_get(json_object_get(schema, "properties"), "encoding"), "enum",
		json_pack("[s, s]", "utf-8", "base64"));
	return schema_tool("read_file", "Read a file",
		"Reads a file in a sandbox, or a part of it: text as text, an image as an image, and anything else in base64.", schema, schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_read(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {
		"sandbox_id", "path", "encoding", "offset", "limit", NULL};
	json_int_t offset = 0, limit = 0;
	bool given;

	(void)options;
	if (ask_file(arguments, known, "read", NULL, step, err) < 0 ||
		argument_count(arguments, "offset", INT64_MAX / 2, &offset, err) < 0 ||
		argument_count(arguments, "limit", READ_MAX, &limit, err) < 0 ||
		read_encoding(arguments, &given, err) < 0)
		return -1;
	json_object_set_new(step->request, "offset", json_integer(offset));
	/* What it is decides how much of it is shown. */
	json_object_set_new(step->request, "limit", json_integer(limit > 0 ? limit : READ_MAX));
	return 0;
}

/* What of a file is returned, and how. */
struct part {
	const uint8_t *data;
	size_t length; /* that came */
	size_t shown;
	json_int_t offset, size;
	bool limited; /* the call said how much */
};

/* Text ends with a whole character. Returns false where it is not text. */
static bool take_text(struct part *part)
{
	size_t length = part->length;

	if (!part->limited && length > READ_DEFAULT)
		length = READ_DEFAULT;
	if (length < part->length || part->offset + (json_int_t)length < part->size)
		length = utf8_whole(part->data, length);
	part->shown = length;
	return utf8_valid(part->data, length);
}

static json_t *read_result(const json_t *arguments, const json_t *answer, const struct part *part,
	const char *encoding)
{
	json_int_t next = part->offset + (json_int_t)part->shown;
	char mode[16];
	json_t *object;

	snprintf(mode, sizeof mode, "%04llo",
		(unsigned long long)json_integer_value(json_object_get(answer, "mode")));
	object = json_pack("{s:s, s:I, s:s, s:s}", "path", sandbox_path_of(arguments, "path", ""),
		"size", part->size, "encoding", encoding, "mode", mode);
	if (next < part->size)
		json_object_set_new(object, "next_offset", json_integer(next));
	return object;
}

static json_t *read_text(const json_t *arguments, const json_t *answer, const struct part *part)
{
	json_t *object = read_result(arguments, answer, part, "utf-8"), *result;
	json_int_t next = part->offset + (json_int_t)part->shown;
	char note[128];

	json_object_set_new(
		object, "content", json_stringn((const char *)part->data, part->shown));
	result = tool_result((const char *)part->data, part->shown, object);
	if (next < part->size) {
		snprintf(note, sizeof note, "[bytes %lld to %lld of %lld; go on with offset %lld]",
			(long long)part->offset, (long long)next, (long long)part->size, (long long)next);
		json_array_append_new(json_object_get(result, "content"),
			json_pack("{s:s, s:s}", "type", "text", "text", note));
	}
	return result;
}

static json_t *read_bytes(const json_t *arguments, const json_t *answer, struct part *part)
{
	cleanup_free char *encoded = NULL;
	json_t *object, *result;

	part->shown = !part->limited && part->length > READ_DEFAULT ? READ_DEFAULT : part->length;
	encoded = base64_encode(part->data, part->shown);
	object = read_result(arguments, answer, part, "base64");
	json_object_set_new(object, "content", json_string(encoded));
	result = sandbox_result(object, "%s", encoded);
	json_array_append_new(json_object_get(result, "content"),
		json_pack("{s:s, s:s}", "type", "text", "text", "[base64]"));
	return result;
}

static json_t *read_image(const json_t *arguments, const json_t *answer, struct part *part, const char *type)
{
	cleanup_free char *encoded = base64_encode(part->data, part->length);
	json_t *object, *result;

	part->shown = part->length;
	object = read_result(arguments, answer, part, "base64");
	result = sandbox_result(object, "[%s, %lld bytes]", type, (long long)part->size);
	json_array_append_new(json_object_get(result, "content"),
		json_pack("{s:s, s:s, s:s}", "type", "image", "data", encoded, "mimeType", type));
	return result;
}

static json_t *finish_read(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *encoded = string_of(answer, "content"), *type;
	cleanup_free void *data = NULL;
	struct part part = {.size = json_integer_value(json_object_get(answer, "size"))};
	struct error err = {0};
	json_t *result;
	bool given;
	int base64 = read_encoding(arguments, &given, &err);

	(void)options, (void)kept;
	if (base64_decode(encoded, strlen(encoded), &data, &part.length) < 0)
		part.length = 0;
	part.data = data ?: (void *)"";
	part.offset = json_integer_value(json_object_get(arguments, "offset"));
	part.limited = json_integer_value(json_object_get(arguments, "limit")) > 0;
	type = image_type(part.data, part.length);
	if (base64 > 0)
		return read_bytes(arguments, answer, &part);
	if (!given && type && part.offset == 0 && (json_int_t)part.length == part.size)
		return read_image(arguments, answer, &part, type);
	if (take_text(&part) && !memchr(part.data, '\0', part.shown))
		return read_text(arguments, answer, &part);
	if (!given)
		return read_bytes(arguments, answer, &part);
	error_set(&err, 0, "%s is not text in UTF-8 there", sandbox_path_of(arguments, "path", ""));
	error_hint(&err, "Read it with encoding \"base64\".");
	result = tool_failure(&err);
	return result;
}

const struct tool tool_read_file = {
	.name = "read_file",
	.describe = describe_read,
	.prepare = prepare_read,
	.finish = finish_read,
};

/* ---- list_files ---- */

static json_t *describe_list(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD,
		{"path", "string", "The directory; /workspace if not given", false},
		{"recursive", "boolean", "With all directories below", false},
		{"limit", "integer", "Entries to return at most, up to 10000; 1000 if not given", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "The directory", true},
		{"entries", "object[]",
			"Each: name (below the directory), type (file, directory, link, FIFO, socket, device), size in bytes, mode in "
			"octal, modified (UTC), of links target, and error where a directory could not be looked into; a name that is "
			"not UTF-8 has U+FFFD in it, and name_base64",
			true},
		{"truncated", "boolean", "Whether there are more", true}, {0}};

	(void)options;
	return schema_tool("list_files", "List files", "Lists a directory in a sandbox, with type, size, permissions and time of what is in it, in no order that matters.",
		schema_object(input, true), schema_object(output, false),
		HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_list(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "path", "recursive", "limit", NULL};
	json_int_t limit = LIST_DEFAULT;

	(void)options;
	if (ask_file(arguments, known, "list", "/workspace", step, err) < 0 ||
		set_boolean(arguments, "recursive", false, "recursive", step, err) < 0 ||
		argument_count(arguments, "limit", LIST_MAX, &limit, err) < 0)
		return -1;
	json_object_set_new(step->request, "limit", json_integer(limit > 0 ? limit : 1));
	return 0;
}

/* A name or a target, which may be {"base64"}: as text, and its bytes in `key`_base64. */
static void set_name(json_t *entry, const char *key, const json_t *value)
{
	const json_t *encoded = json_object_get(value, "base64");
	cleanup_free char *text = NULL;
	void *bytes = NULL;
	char with[32];
	size_t length;

	if (json_is_string(value)) {
		json_object_set(entry, key, (json_t *)value);
		return;
	}
	if (!json_is_string(encoded) ||
		base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes, &length) < 0)
		return;
	text = utf8_replace_invalid(bytes, length, &length);
	free(bytes);
	snprintf(with, sizeof with, "%s_base64", key);
	json_object_set_new(entry, key, json_string(text));
	json_object_set(entry, with, (json_t *)encoded);
}

static json_t *file_entry(const json_t *from)
{
	time_t modified = (time_t)(json_integer_value(json_object_get(from, "mtime_ns")) / 1000000000);
	json_t *entry = json_object();
	struct tm parts;
	char text[40];

	set_name(entry, "name", json_object_get(from, "name"));
	json_object_set(entry, "type", json_object_get(from, "type"));
	json_object_set(entry, "size", json_object_get(from, "size"));
	snprintf(text, sizeof text, "%04llo",
		(unsigned long long)json_integer_value(json_object_get(from, "mode")));
	json_object_set_new(entry, "mode", json_string(text));
	if (gmtime_r(&modified, &parts) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0)
		json_object_set_new(entry, "modified", json_string(text));
	if (json_object_get(from, "target"))
		set_name(entry, "target", json_object_get(from, "target"));
	if (json_object_get(from, "error"))
		json_object_set(entry, "error", json_object_get(from, "error"));
	return entry;
}

/* A name on one line, whatever it is. */
static void print_name(FILE *out, const char *name)
{
	for (; *name; name++)
		fputc((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, out);
}

static void print_entry(FILE *out, const json_t *entry)
{
	const char *type = string_of(entry, "type");

	print_name(out, string_of(entry, "name"));
	if (strcmp(type, "directory") == 0) {
		fputc('/', out);
		if (*string_of(entry, "error"))
			fprintf(out, "  (%s)", string_of(entry, "error"));
	} else if (strcmp(type, "link") == 0) {
		fputs(" -> ", out);
		print_name(out, string_of(entry, "target"));
	} else if (strcmp(type, "file") == 0) {
		fprintf(out, "  %lld", (long long)json_integer_value(json_object_get(entry, "size")));
	} else {
		fprintf(out, "  (%s)", type);
	}
	fputc('\n', out);
}

static json_t *finish_list(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	bool more = json_is_true(json_object_get(answer, "left_out"));
	const char *path = sandbox_path_of(arguments, "path", "/workspace");
	json_t *entries = json_array(), *from, *result;
	char *text = NULL;
	size_t i, length = 0;
	FILE *out = open_memstream(&text, &length);

	(void)options, (void)kept;
	json_array_foreach(json_object_get(answer, "entries"), i, from) {
		json_t *entry = file_entry(from);

		if (out && i < LIST_SHOWN_MAX)
			print_entry(out, entry);
		json_array_append_new(entries, entry);
	}
	if (out && (more || i > LIST_SHOWN_MAX))
		fprintf(out, "[%s; the first %zu are in structuredContent]\n",
			more ? "there are more" : "not all are shown", i);
	if (out)
		fclose(out);
	result = sandbox_result(json_pack("{s:s, s:o, s:b}", "path", path, "entries", entries,
					"truncated", more),
		"%s", length > 0 ? text : "[empty]");
	free(text);
	return result;
}

const struct tool tool_list_files = {
	.name = "list_files",
	.describe = describe_list,
	.prepare = prepare_list,
	.finish = finish_list,
};

/* ---- edit_file ---- */

static json_t *describe_edit(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PATH_FIELD("The file"),
		{"old_text", "string", "What is to be replaced, exactly as it is there; it must be there once", true},
		{"new_text", "string", "What it becomes", true},
		{"replace_all", "boolean", "Replace it wherever it is", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "The file", true},
		{"replaced", "integer", "How often it was replaced", true},
		{"size", "integer", "Bytes of the file now", true}, {0}};

	(void)options;
	return schema_tool("edit_file", "Edit a file",
		"Replaces a text in a file in a sandbox. Where it is not there, or more than once without replace_all, nothing "
		"is changed.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_edit(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {
		"sandbox_id", "path", "old_text", "new_text", "replace_all", NULL};
	const char *unused;
	size_t length = 0, unused_length;

	(void)options;
	if (ask_file(arguments, known, "edit", NULL, step, err) < 0 ||
		argument_bytes(arguments, "old_text", true, &unused, &length, err) < 0 ||
		argument_bytes(arguments, "new_text", true, &unused, &unused_length, err) < 0 ||
		set_boolean(arguments, "replace_all", false, "all", step, err) < 0)
		return -1;
	if (length == 0)
		return error_set(err, 0, "old_text: expected a text that is not empty");
	json_object_set(step->request, "from", json_object_get(arguments, "old_text"));
	json_object_set(step->request, "to", json_object_get(arguments, "new_text"));
	return 0;
}

static json_t *finish_edit(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *path = sandbox_path_of(arguments, "path", "");
	json_int_t replaced = json_integer_value(json_object_get(answer, "replaced"));

	(void)options, (void)kept;
	return sandbox_result(json_pack("{s:s, s:I, s:O}", "path", path, "replaced", replaced, "size",
				      json_object_get(answer, "size")),
		"Replaced %lld time%s in %s.", (long long)replaced, replaced == 1 ? "" : "s", path);
}

const struct tool tool_edit_file = {
	.name = "edit_file",
	.describe = describe_edit,
	.prepare = prepare_edit,
	.finish = finish_edit,
};

/* ---- move_file ---- */

static json_t *describe_move(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD,
		PATH_FIELD("The file or directory"),
		{"destination", "string", "Its new path; the directories that it needs are made", true},
		{"overwrite", "boolean", "In place of a file that is there; otherwise that is an error", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "Where it was", true},
		{"destination", "string", "Where it is", true}, {0}};

	(void)options;
	return schema_tool("move_file", "Move or rename a file", "Moves or renames a file or a directory in a sandbox. What is there already stays, unless overwrite is given.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_move(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "path", "destination", "overwrite", NULL};
	cleanup_free char *destination = NULL;
	bool overwrite = false;

	(void)options;
	if (ask_file(arguments, known, "move", NULL, step, err) < 0 ||
		argument_boolean(arguments, "overwrite", &overwrite, err) < 0 ||
		!(destination = sandbox_path(arguments, "destination", NULL, err)))
		return -1;
	json_object_set_new(step->request, "to", json_string(destination));
	json_object_set_new(step->request, "parents", json_true());
	json_object_set_new(step->request, "exclusive", json_boolean(!overwrite));
	return 0;
}

static json_t *finish_move(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *path = sandbox_path_of(arguments, "path", "");
	const char *destination = sandbox_path_of(arguments, "destination", "");

	(void)options, (void)answer, (void)kept;
	return sandbox_result(json_pack("{s:s, s:s}", "path", path, "destination", destination),
		"%s is %s now.", path, destination);
}

const struct tool tool_move_file = {
	.name = "move_file",
	.describe = describe_move,
	.prepare = prepare_move,
	.finish = finish_move,
};

/* ---- delete_file ---- */

static json_t *describe_delete(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD,
		PATH_FIELD("The file or directory"),
		{"recursive", "boolean", "A directory with all that is in it", false}, {0}};
	static const struct schema_field output[] = {{"path", "string", "What was removed", true},
		{"removed", "integer", "Files and directories that were removed", true}, {0}};

	(void)options;
	return schema_tool("delete_file", "Delete a file",
		"Removes a file or a directory in a sandbox; a directory that is not empty only with recursive, and then with all in it.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_delete(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "path", "recursive", NULL};

	(void)options;
	if (ask_file(arguments, known, "delete", NULL, step, err) < 0)
		return -1;
	return set_boolean(arguments, "recursive", false, "recursive", step, err);
}

static json_t *finish_delete(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *path = sandbox_path_of(arguments, "path", "");
	json_int_t removed = json_integer_value(json_object_get(answer, "removed"));

	(void)options, (void)kept;
	return sandbox_result(json_pack("{s:s, s:I}", "path", path, "removed", removed),
		"%s was removed (%lld in all).", path, (long long)removed);
}

const struct tool tool_delete_file = {
	.name = "delete_file",
	.describe = describe_delete,
	.prepare = prepare_delete,
	.finish = finish_delete,
};

/* ---- make_directory ---- */

static json_t *describe_directory(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, PATH_FIELD("The directory"),
		{"mode", "string", "Its permissions in octal; 0755 if not given", false}, {0}};
	static const struct schema_field output[] = {
		{"path", "string", "The directory", true}, {0}};

	(void)options;
	return schema_tool("make_directory", "Make a directory",
		"Makes a directory in a sandbox, with those above it that are missing. One that is there already is no error.",
		schema_object(input, true), schema_object(output, false), HINT_IDEMPOTENT);
}

static int prepare_directory(const struct mcp_options *options, const json_t *arguments,
	struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "path", "mode", NULL};

	(void)options;
	if (ask_file(arguments, known, "mkdir", NULL, step, err) < 0 ||
		set_mode(arguments, step, err) < 0)
		return -1;
	json_object_set_new(step->request, "parents", json_true());
	return 0;
}

static json_t *finish_directory(const struct mcp_options *options, const json_t *arguments,
	const json_t *answer, const struct output *kept)
{
	const char *path = sandbox_path_of(arguments, "path", "");

	(void)options, (void)answer, (void)kept;
	return sandbox_result(json_pack("{s:s}", "path", path), "%s is there.", path);
}

const struct tool tool_make_directory = {
	.name = "make_directory",
	.describe = describe_directory,
	.prepare = prepare_directory,
	.finish = finish_directory,
};
