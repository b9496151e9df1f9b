/* SPDX-License-Identifier: MIT */
/* Allocation that does not return without memory: see alloc.h. */
#define _GNU_SOURCE
#include "util/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *check(void *pointer)
{
	static const char text[] = "nsbox: out of memory\n";

	if (pointer)
		return pointer;
	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(125);
	_exit(125);
}

void *xmalloc(size_t size)
{
	return check(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return check(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *pointer, size_t count, size_t size)
{
	return check(reallocarray(pointer, count ? count : 1, size));
}

void *xmemdup(const void *data, size_t length)
{
	char *copy = check(length == SIZE_MAX ? NULL : malloc(length + 1));

	if (length)
		memcpy(copy, data, length);
	copy[length] = '\0';
	return copy;
}

char *xstrdup(const char *text)
{
	return check(strdup(text));
}

char *xasprintf(const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return check(n < 0 ? NULL : text);
}

void strings_free(char **strings)
{
	for (char **string = strings; string && *string; string++)
		free(*string);
	free(strings);
}
