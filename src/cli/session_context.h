/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_CONTEXT_H
#define NSBOX_CLI_SESSION_CONTEXT_H

/* What came of code in a context (session/contexts.h), for people. */

#include <jansson.h>
#include <stdbool.h>

/*
 * Of the result of a call: what it wrote, on standard output and error, then its values as text on standard output, and
 * the traceback of its error on standard error. What is no text is named, with the file that it was saved in, or that it
 * can be saved: `saving` says whether that was asked for (session_results.h).
 */
void session_context_print(const json_t *result, bool saving);

/* A line on standard error where the result has something to say of the context itself. */
void session_context_print_note(const json_t *result);

/* The list of contexts, as a table. */
void session_context_print_list(const json_t *contexts);

#endif
