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
	&tool_sandbox_pause,
	&tool_sandbox_resume,
	&tool_sandbox_snapshot,
	&tool_sandbox_fork,
	&tool_sandbox_restore,
	&tool_snapshot_list,
	&tool_snapshot_delete,
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
	&tool_install_packages,
	&tool_context_interrupt,
	&tool_context_restart,
	&tool_context_list,
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

enum { SAID_MAX_BYTES = 40000 };

/* Without structuredContent, which some clients hold against the schema of a success. */
json_t *tool_failure_with(const struct error *err, const char *said, size_t length)
{
	size_t from = length > SAID_MAX_BYTES ? utf8_boundary_after(said, length, length - SAID_MAX_BYTES) : 0, valid_length;
	cleanup_free char *omitted = from > 0 ? xasprintf("[… %zu bytes left out …]\n", from) : xstrdup("");
	cleanup_free char *text = xasprintf("%s%s%s%s%s%.*s", err->text, err->hint[0] ? "\n" : "", err->hint, length ? "\n" : "",
		omitted, (int)(length - from), said ? said + from : "");
	cleanup_free char *valid = utf8_replace_invalid(text, strlen(text), &valid_length);

	return json_pack("{s:[{s:s, s:s%}], s:b}", "content", "type", "text", "text", valid, valid_length,
		"isError", 1);
}

json_t *tool_failure(const struct error *err)
{
	return tool_failure_with(err, NULL, 0);
}
