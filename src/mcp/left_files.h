/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_LEFT_FILES_H
#define NSBOX_MCP_LEFT_FILES_H

/*
 * What a result says of the files that a run has left in its working directory. Each is a resource (outputs.h); the
 * first LEFT_FILES_TOLD are named in the text too, with links: more would fill a model's context with names.
 */

#include <jansson.h>

struct output;

enum { LEFT_FILES_TOLD = 20 };

/*
 * `files` and `files_omitted` of structuredContent, where they were asked for (spec.collect_files). `kept` may be NULL.
 */
void left_files_set(json_t *structured, const json_t *run, const struct output *kept);

/* Lines for the text, each in brackets and with a newline before it; malloc'd, empty where there is nothing to say. */
char *left_files_text(const json_t *run, const struct output *kept);

/* Appends resource links to `content`. */
void left_files_link(json_t *content, const struct output *kept);

#endif
