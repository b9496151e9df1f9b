/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_JSONLINE_H
#define NSBOX_UTIL_JSONLINE_H

/* Where in a JSON text a value is: what is parsed of it no longer knows. For messages to who wrote it. */

#include <stddef.h>

/* One step into a value: to the member `key` of an object, or, where that is NULL, to an element of an array. */
struct json_step {
	const char *key;
	size_t index;
};

/*
 * The line, from 1, on which the value that the steps lead to begins (of a member: its key), in a text that is
 * JSON. Where there is no such value, that of the last one on the way that is there.
 */
unsigned json_line_of(const char *text, size_t length, const struct json_step *steps, size_t count);

#endif
