/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SANDBOX_RESOURCES_H
#define NSBOX_MCP_SANDBOX_RESOURCES_H

/*
 * Files of sandboxes that last as resources: nsbox://sandbox/ID/PATH, where PATH is absolute inside, without its first
 * slash and with %XX for what a URI cannot have. One with a slash at its end is a directory, and read as a list. From the
 * byte N on: ?offset=N; one reading returns at most 1 MiB.
 */

#include <jansson.h>
#include <stdbool.h>

#include "mcp/step.h"

struct error;
struct tool;

bool sandbox_resource_is(const char *uri);

/* The URI of a path inside, absolute or below /workspace; malloc'd. */
char *sandbox_resource_uri(const char *id, const char *path);

/* Adds the workspaces of all that live to a list of resources, and the template to one of templates. */
void sandbox_resources_add(json_t *resources);
void sandbox_resources_add_template(json_t *templates);

/* The step that reads one; `arguments` of its tool are {"uri"}. Returns 0, or -1 with *err. */
int sandbox_resource_prepare(const char *uri, struct step *step, struct error *err);
extern const struct tool sandbox_resource; /* its results are those of resources/read */

/*
 * The values of `argument` that begin with `value`, for the template of these resources. Returns 0 with *ret, the result
 * of completion/complete (new reference); 1 with a step, after which the tool's `finish` has it (`arguments` are
 * {"value"}); -1 where there is no such argument.
 */
int sandbox_complete(const char *argument, const char *value, const json_t *context, json_t **ret,
	struct step *step);
extern const struct tool sandbox_completion;

/* The result of completion/complete for at most 100 of the strings (new reference). */
json_t *completion_result(json_t *values);

#endif
