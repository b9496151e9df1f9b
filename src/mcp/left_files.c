/* SPDX-License-Identifier: MIT */
/* Files that a run has left, in its result: see left_files.h. */
#define _GNU_SOURCE
#include "mcp/left_files.h"

#include <stdio.h>
#include <string.h>

#include "mcp/outputs.h"
#include "sandbox/result.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/utf8.h"

enum { NAME_SHOWN_BYTES = 80 };

static size_t count_of(const struct output *kept)
{
	return kept ? kept->files_count : 0;
}

void left_files_set(json_t *structured, const json_t *run, const struct output *kept)
{
	const json_t *omitted = json_object_get(run, "files_omitted");
	char uri[OUTPUT_URI_MAX];
	json_t *list;

	if (!omitted)
		return;
	list = json_array();
	for (size_t i = 0; i < count_of(kept); i++) {
		output_file_uri(kept, i, uri);
		json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "path", kept->files[i].path, "size",
						    (json_int_t)kept->files[i].bytes, "uri", uri));
	}
	json_object_set_new(structured, "files", list);
	if (json_integer_value(omitted) > 0)
		json_object_set(structured, "files_omitted", (json_t *)omitted);
}

/* A path that the code chose, on one line whatever it is; malloc'd. Of a long one the end is shown. */
static char *shown(const char *path)
{
	size_t length = strlen(path);
	size_t from = length > NAME_SHOWN_BYTES ? utf8_boundary_after(path, length, length - NAME_SHOWN_BYTES) : 0;
	char *text = xasprintf("%s%s", from ? "…" : "", path + from);

	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return text;
}

static char *add_line(char *text, char *line)
{
	char *longer = xasprintf("%s\n[%s]", text, line);

	free(text);
	free(line);
	return longer;
}

char *left_files_text(const json_t *run, const struct output *kept)
{
	json_int_t omitted = json_integer_value(json_object_get(run, "files_omitted"));
	size_t count = count_of(kept), told = count < LEFT_FILES_TOLD ? count : LEFT_FILES_TOLD;
	char *text = xstrdup(""), uri[OUTPUT_URI_MAX];

	for (size_t i = 0; i < told; i++) {
		cleanup_free char *name = shown(kept->files[i].path);

		output_file_uri(kept, i, uri);
		text = add_line(text, xasprintf("file %s, %llu bytes: %s", name, (unsigned long long)kept->files[i].bytes, uri));
	}
	if (told < count) {
		output_file_uri(kept, count - 1, uri);
		text = add_line(text, xasprintf("files more: %zu, up to %s", count - told, uri));
	}
	if (omitted > 0)
		text = add_line(text, xasprintf("files left out: %lld; at most %d, of %d MiB in all, are returned",
					      (long long)omitted, RESULT_FILES_MAX, RESULT_FILES_BYTES_MAX >> 20));
	return text;
}

void left_files_link(json_t *content, const struct output *kept)
{
	char uri[OUTPUT_URI_MAX];

	for (size_t i = 0; i < count_of(kept) && i < LEFT_FILES_TOLD; i++) {
		output_file_uri(kept, i, uri);
		json_array_append_new(content,
			json_pack("{s:s, s:s, s:s, s:s, s:I}", "type", "resource_link", "uri", uri, "name",
				kept->files[i].path, "description",
				"A file that the code left; in parts of 1 MiB with ?offset=N", "size",
				(json_int_t)kept->files[i].bytes));
	}
}
