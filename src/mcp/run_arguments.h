/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_RUN_ARGUMENTS_H
#define NSBOX_MCP_RUN_ARGUMENTS_H

/*
 * The arguments that all tools have that run code, within what the server allows. All return 0, or -1 with *err.
 */

#include <jansson.h>
#include <stdint.h>

struct error;
struct exec_spec;
struct language;
struct mcp_options;
struct spec;

/* "timeout", in seconds. */
int run_argument_timeout(const struct mcp_options *options, const json_t *arguments,
	uint64_t *ret_ms, struct error *err);

/* "memory_limit". */
int run_argument_memory(const struct mcp_options *options, const json_t *arguments,
	uint64_t *ret_bytes, struct error *err);

/* "args": *ret is malloc'd and NULL-terminated; its strings are borrowed. */
int run_argument_args(const json_t *arguments, char ***ret, struct error *err);

/* "env" and "stdin", into *exec. */
int run_argument_env(const json_t *arguments, struct exec_spec *exec, struct error *err);
int run_argument_stdin(const json_t *arguments, struct exec_spec *exec, struct error *err);

/*
 * "image": the root of the spec, which is what the call names, else what the server's policy chooses for the language
 * (NULL: the host's). Returns 1 where an image has to be fetched first, whose name is *ret_pull (malloc'd).
 */
int run_argument_root(const struct mcp_options *options, const struct language *language,
	const json_t *arguments, struct spec *spec, char **ret_pull, struct error *err);

/* Adds to *err what there is to do where the toolchain is missing in the root that was chosen. */
void run_argument_remedy(const struct mcp_options *options, const struct language *language,
	const struct spec *spec, const json_t *arguments, struct error *err);

/* What a call may name as its image, for a description; malloc'd. */
char *run_describe_image(const struct mcp_options *options);

#endif
