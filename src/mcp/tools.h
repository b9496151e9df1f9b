/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_TOOLS_H
#define NSBOX_MCP_TOOLS_H

/*
 * The tools. A call is one run: `prepare` makes a spec of the arguments, `finish` makes the tool's result
 * of the run's. Or it is several: `begin`, `next`, `conclude`. All are pure but for reading languages'
 * files and looking for programs; the server does the rest.
 */

#include <jansson.h>
#include <stdbool.h>

struct error;
struct mcp_options;
struct output;
struct spec;

struct tool {
	const char *name;
	/* The tool as tools/list shows it (new reference), with the server's limits in its words. */
	json_t *(*describe)(const struct mcp_options *options);
	/*
	 * For a tool of any number of runs, in place of the two below. `begin` makes a state of the arguments, or
	 * returns NULL with *err. `next` notes in it what the last run gave (NULL: there was none, or it failed), and
	 * says whether there is another one: *spec, which is initialized, and freed by the caller. `conclude` makes a
	 * CallToolResult of the state (new reference), or returns NULL without memory.
	 */
	json_t *(*begin)(
		const struct mcp_options *options, const json_t *arguments, struct error *err);
	bool (*next)(json_t *state, const json_t *run, struct spec *spec);
	json_t *(*conclude)(const json_t *state);
	/*
	 * *spec is initialized, and freed by the caller. `arguments` is an object. -1: *err says which argument is wrong,
	 * what was expected and what came, or why there can be no run. 1: an image has to be fetched first, whose name is
	 * *ret_pull (malloc'd); then this is to be called again with another *spec.
	 */
	int (*prepare)(const struct mcp_options *options, const json_t *arguments,
		struct spec *spec, char **ret_pull, struct error *err);
	/*
	 * `run` is the object of run_result_to_json, `kept` what was kept of its output beyond that, or NULL. Returns a
	 * CallToolResult (new reference), or NULL without memory.
	 */
	json_t *(*finish)(
		const struct mcp_options *options, const json_t *run, const struct output *kept);
	/*
	 * Of arguments and a *spec that `prepare` has taken and made: the language the cache of whose compiler, in the root of
	 * that spec, is not there yet (mcp/warming.h), malloc'd, or NULL. Optional.
	 */
	char *(*cold_language)(const json_t *arguments, const struct spec *spec);
};

extern const struct tool tool_execute_code, tool_list_languages, tool_test_sandbox;

/* The tool of that name, or NULL. */
const struct tool *tool_find(const char *name);

/* The result of tools/list: always the same order (new reference). */
json_t *tools_list(const struct mcp_options *options);

/* A CallToolResult with one text (`length` bytes of UTF-8) and the object `structured`, which is taken over. */
json_t *tool_result(const char *text, size_t length, json_t *structured);

/* A CallToolResult that says that there was no run, and what to do. */
json_t *tool_failure(const struct error *err);

#endif
