/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_ALLOC_H
#define NSBOX_UTIL_ALLOC_H

/*
 * Allocation for what is built before a sandbox starts and after it has ended, and for all JSON, of which else
 * parts would be missing. When memory is short these print one line and end the process with status 125; what
 * is running goes with it.
 */

#include <stddef.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *pointer, size_t count, size_t size) __attribute__((returns_nonnull));
void *xmemdup(const void *data, size_t length)
	__attribute__((malloc, returns_nonnull)); /* a NUL is put after it */
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...)
	__attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* Releases a NULL-terminated array and the strings in it; NULL is none. */
void strings_free(char **strings);

#endif
