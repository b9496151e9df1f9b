/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_TAKE_H
#define NSBOX_LANGUAGE_TAKE_H

/*
 * Values of a language's file.
 *
 * What is taken is no longer in the object afterwards, so that what is left at the end is unknown, and refused: a
 * misspelt key must not be silently without effect. All return 0, or -1 with *err, which begins with the key. What they
 * allocate is the caller's also then.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct environment;
struct error;
struct need;
struct support_file;

/* «a string», «an object» … */
const char *json_type_name(const json_t *value);

/* Says that the value of `key` is not what was expected. Returns -1. */
int wrong_type(const char *key, const char *expected, const json_t *value, struct error *err);

/* The first key that is left in `object` is one that nobody knows. `prefix` is before it in the error. */
int refuse_rest(json_t *object, const char *prefix, struct error *err);

/* A string that must be there, and not be empty. */
int take_string(json_t *object, const char *key, char **ret, struct error *err);

/* An array of strings; an argv has at least its program. NULL-terminated. */
int read_strings(const json_t *array, const char *key, char ***ret, struct error *err);
int read_argv(const json_t *array, const char *key, char ***ret, struct error *err);

/* {argv, timeout_ms}; timeout_ms only where ret_timeout_ms is given, which is left alone where there is none. */
int take_phase(json_t *object, const char *key, char ***ret_argv, uint64_t *ret_timeout_ms, struct error *err);

/* «env»; none is an empty one. */
int take_env(json_t *object, struct environment *ret, struct error *err);

/* «needs»; none: *ret stays as it is. */
int take_needs(json_t *object, struct need **ret, size_t *ret_count, struct error *err);

/* «files»: names, and texts that are a string or an array of lines, which is easier to read. */
int take_files(json_t *object, struct support_file **ret, size_t *ret_count, struct error *err);

/* Releases what these have read; NULL is none. */
void needs_free(struct need *needs, size_t count);
void files_free(struct support_file *files, size_t count);
void environment_free(struct environment *env);

#endif
