/* SPDX-License-Identifier: MIT */
/* Schemas: see schema.h. */
#define _GNU_SOURCE
#include "mcp/schema.h"

#include <string.h>

static json_t *property_of(const struct schema_field *field)
{
	size_t length = strcspn(field->type, "[{");
	json_t *items, *property;

	if (!field->type[length])
		return json_pack("{s:s, s:s}", "type", field->type, "description", field->description);
	items = json_pack("{s:s%}", "type", field->type, length);
	property = json_pack("{s:s, s:s}", "type", field->type[length] == '[' ? "array" : "object",
		"description", field->description);
	json_object_set_new(
		property, field->type[length] == '[' ? "items" : "additionalProperties", items);
	return property;
}

json_t *schema_object(const struct schema_field *fields, bool closed)
{
	json_t *properties = json_object(), *required = json_array(), *schema;

	for (; fields->name; fields++) {
		json_object_set_new(properties, fields->name, property_of(fields));
		if (fields->required)
			json_array_append_new(required, json_string(fields->name));
	}
	schema = json_pack("{s:s, s:o, s:o}", "type", "object", "required", required, "properties",
		properties);
	if (closed)
		json_object_set_new(schema, "additionalProperties", json_false());
	return schema;
}

json_t *schema_tool(const char *name, const char *title, const char *description, json_t *input,
	json_t *output, unsigned hints)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}", "name", name, "title",
		title, "description", description, "inputSchema", input, "outputSchema", output,
		"annotations", "readOnlyHint", !!(hints & HINT_READ_ONLY), "destructiveHint",
		!!(hints & HINT_DESTRUCTIVE), "idempotentHint", !!(hints & HINT_IDEMPOTENT),
		"openWorldHint", 0);
}
