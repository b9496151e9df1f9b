/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_LIST_LANGUAGES_H
#define NSBOX_MCP_LIST_LANGUAGES_H

#include <jansson.h>
#include <stdio.h>

struct mcp_options;

/*
 * Every language as {name, title, aliases, root, ready}, with {programs} where it is ready, else {missing} and where
 * it is known {remedy}: that is of the root that execute_code takes. The same of the host and of the image in the store
 * are {host} and {image}. One whose file is broken has {name, ready, missing} (new reference). Reads files of
 * languages and the store, and looks for programs; runs nothing.
 */
json_t *languages_to_json(const struct mcp_options *options);

/* A line for each of them. */
void languages_print(const json_t *languages, FILE *out);

#endif
