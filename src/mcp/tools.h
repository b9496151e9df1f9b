/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_TOOLS_H
#define NSBOX_MCP_TOOLS_H

/*
 * The tools. A call is one step: `prepare` makes it of the arguments, `finish` makes the tool's result of what came of
 * it. Or it is several: `begin`, `next`, `conclude`. All are pure but for reading languages' files, images' and the
 * places of sandboxes that last, and looking for programs; the server does the rest.
 */

#include <jansson.h>
#include <stdbool.h>

#include "mcp/step.h"

struct error;
struct mcp_options;
struct output;

/* What the results of its `finish` are. One that is a failure is an error of JSON-RPC where it is no CallToolResult. */
enum tool_answers { ANSWERS_TOOL, ANSWERS_RESOURCE, ANSWERS_COMPLETION };

struct tool {
	const char *name;
	/* The tool as tools/list shows it (new reference), with the server's limits in its words. */
	json_t *(*describe)(const struct mcp_options *options);
	/*
	 * For a tool of any number of steps, in place of the two below. `begin` makes a state of the arguments, or
	 * returns NULL with *err. `next` notes in it what the last step gave (NULL: there was none, or it failed), and
	 * says whether there is another one, in *step. `conclude` makes a CallToolResult of the state (new reference), or
	 * returns NULL without memory.
	 */
	json_t *(*begin)(
		const struct mcp_options *options, const json_t *arguments, struct error *err);
	bool (*next)(json_t *state, const json_t *answer, struct step *step);
	json_t *(*conclude)(const json_t *state);
	/*
	 * `arguments` is an object; *step is STEP_NONE, with what the configuration says of runs in its spec. Returns 0 with
	 * *step; or -1: *err says which argument is wrong, what was expected and what came, or why it cannot be. After a
	 * STEP_PULL or STEP_INSTALL this is called again.
	 */
	int (*prepare)(const struct mcp_options *options, const json_t *arguments,
		struct step *step, struct error *err);
	/*
	 * `answer` is the object of the step: see step.h. `kept` is what was kept of a run's output beyond that, or NULL.
	 * Returns a CallToolResult (new reference), or NULL without memory.
	 */
	json_t *(*finish)(const struct mcp_options *options, const json_t *arguments,
		const json_t *answer, const struct output *kept);
	/*
	 * Of arguments and a spec that `prepare` has taken and made: the language the cache of whose compiler, in the root of
	 * that spec, is not there yet (mcp/warming.h), malloc'd, or NULL. Optional.
	 */
	char *(*cold_language)(const json_t *arguments, const struct spec *spec);
	enum tool_answers answers;
	bool at_once;	/* does not wait for what its sandbox has been asked for before */
	bool runs_code; /* its steps take their turn: at most parallel_max at one time */
};

extern const struct tool tool_execute_code, tool_list_languages, tool_test_sandbox;
extern const struct tool tool_sandbox_initialize, tool_sandbox_exec, tool_sandbox_stop, tool_sandbox_list,
	tool_install_packages;
extern const struct tool tool_sandbox_pause, tool_sandbox_resume;
extern const struct tool tool_sandbox_snapshot, tool_sandbox_fork, tool_sandbox_restore, tool_snapshot_list,
	tool_snapshot_delete;
extern const struct tool tool_write_file, tool_read_file, tool_list_files, tool_edit_file, tool_move_file,
	tool_delete_file, tool_make_directory;
extern const struct tool tool_context_interrupt, tool_context_restart, tool_context_list;
extern const struct tool tool_process_output, tool_process_input, tool_process_signal, tool_process_list;

/* The tool of that name, or NULL. */
const struct tool *tool_find(const char *name);

/* The result of tools/list: always the same order (new reference). */
json_t *tools_list(const struct mcp_options *options);

/* A CallToolResult with one text (`length` bytes of UTF-8) and the object `structured`, which is taken over. */
json_t *tool_result(const char *text, size_t length, json_t *structured);

/* A CallToolResult that says that there was no run, and what to do. */
json_t *tool_failure(const struct error *err);

/* The same, and behind it what another program said of it (UTF-8), of which a long beginning is left out. */
json_t *tool_failure_with(const struct error *err, const char *said, size_t length);

#endif
