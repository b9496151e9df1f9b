/* SPDX-License-Identifier: MIT */
/* The table of tools, and what their results have in common: see tools.h. */
#define _GNU_SOURCE
#include "mcp/tools.h"

#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

static const struct tool *const tools[] = {
	&tool_execute_code,
	&tool_list_languages,
	&tool_test_sandbox,
	&tool_sandbox_initialize,
	&tool_sandbox_exec,
	&tool_sandbox_stop,
	&tool_sandbox_list,
	&tool_write_file,
	&tool_read_file,
	&tool_list_files,
	&tool_edit_file,
	&tool_move_file,
	&tool_delete_file,
	&tool_make_directory,
	&tool_process_output,
	&tool_process_input,
	&tool_process_signal,
	&tool_process_list,
};

const struct tool *tool_find(const char *name)
{
	/* Its name in servers that this one takes the place of. Not listed. */
	if (strcmp(name, "test_docker") == 0)
		return &tool_test_sandbox;
	for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
		if (strcmp(tools[i]->name, name) == 0)
			return tools[i];
	return NULL;
}

json_t *tools_list(const struct mcp_options *options)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
		json_array_append_new(list, tools[i]->describe(options));
	return json_pack("{s:o}", "tools", list);
}

json_t *tool_result(const char *text, size_t length, json_t *structured)
{
	return json_pack("{s:[{s:s, s:s%}], s:o, s:b}", "content", "type", "text", "text", text,
		length, "structuredContent", structured, "isError", 0);
}

/* Without structuredContent, which some clients hold against the schema of a success. */
json_t *tool_failure(const struct error *err)
{
	cleanup_free char *text =
		err->hint[0] ? xasprintf("%s\n%s", err->text, err->hint) : xstrdup(err->text);
	size_t length;
	cleanup_free char *valid = utf8_replace_invalid(text, strlen(text), &length);

	return json_pack("{s:[{s:s, s:s%}], s:b}", "content", "type", "text", "text", valid, length,
		"isError", 1);
}
