/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_ARGUMENTS_H
#define NSBOX_MCP_ARGUMENTS_H

/*
 * The arguments of a tool call → values. Errors are read by a model: they name the argument, what was
 * expected, and what came.
 *
 * Values are borrowed from the object. Absent optional ones leave *ret as it was. All return 0, or -1
 * with *err.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

/*
 * Refuses what is not in `known`, which it names; what is in `hidden` (may be NULL) is let through and not named. Both are
 * NULL-terminated.
 */
int arguments_refuse_unknown(const json_t *arguments, const char *const *known,
	const char *const *hidden, struct error *err);

/* Any string, bytes of NUL in it too. */
int argument_bytes(const json_t *arguments, const char *name, bool required, const char **ret,
	size_t *ret_length, struct error *err);

/* A string that is the same in C. */
int argument_string(const json_t *arguments, const char *name, bool required, const char **ret,
	struct error *err);

int argument_number(const json_t *arguments, const char *name, const char *expected, double *ret,
	struct error *err);

int argument_boolean(
	const json_t *arguments, const char *name, bool *ret, struct error *err);

int argument_array(
	const json_t *arguments, const char *name, const json_t **ret, struct error *err);
int argument_object(
	const json_t *arguments, const char *name, const json_t **ret, struct error *err);

/* `value`, which is the argument `name`, as a C string; NULL with *err when it is not one. */
const char *argument_text(const char *name, const json_t *value, struct error *err);

/* «NAME: expected EXPECTED, got VALUE». Returns -1. */
int argument_wrong(const char *name, const char *expected, const json_t *value, struct error *err);

#endif
