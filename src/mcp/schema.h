/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_SCHEMA_H
#define NSBOX_MCP_SCHEMA_H

/* JSON schemas of tools' arguments and results, from tables. */

#include <jansson.h>
#include <stdbool.h>

struct schema_field {
	const char *name; /* NULL ends a table */
	const char *type; /* of JSON schema; «string[]» and «object[]» are arrays, «string{}» an object of strings */
	const char *description;
	bool required;
};

/* The schema of an object with these fields; with `closed` it has no others (new reference). */
json_t *schema_object(const struct schema_field *fields, bool closed);

/* What a client may think of a tool. */
enum schema_hint { HINT_READ_ONLY = 1, HINT_DESTRUCTIVE = 2, HINT_IDEMPOTENT = 4 };

/* A tool as tools/list shows it; the schemas are taken over (new reference). */
json_t *schema_tool(const char *name, const char *title, const char *description, json_t *input,
	json_t *output, unsigned hints);

#endif
