/* SPDX-License-Identifier: MIT */
/* Errors that a person reads: see error.h. */
#define _GNU_SOURCE
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line whatever a path or an argument in it contained. */
static void flatten(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

int error_set(struct error *err, int errnum, const char *format, ...)
{
	va_list ap;

	err->errnum = errnum;
	err->hint[0] = '\0';
	va_start(ap, format);
	vsnprintf(err->text, sizeof err->text, format, ap);
	va_end(ap);
	if (errnum) {
		size_t used = strlen(err->text);

		snprintf(err->text + used, sizeof err->text - used, ": %s",
			strerrordesc_np(errnum) ?: "unknown error");
	}
	flatten(err->text);
	return -1;
}

int error_context(struct error *err, const char *format, ...)
{
	char old[ERROR_TEXT_MAX];
	va_list ap;
	size_t used;

	memcpy(old, err->text, sizeof old);
	va_start(ap, format);
	vsnprintf(err->text, sizeof err->text, format, ap);
	va_end(ap);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof err->text - used, ": %s", old);
	flatten(err->text);
	return -1;
}

int error_hint(struct error *err, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(err->hint, sizeof err->hint, format, ap);
	va_end(ap);
	flatten(err->hint);
	return -1;
}

void error_print(const struct error *err)
{
	fprintf(stderr, "nsbox: %s\n", err->text);
	if (err->hint[0])
		fprintf(stderr, "nsbox: %s\n", err->hint);
}

const char *error_name(int errnum)
{
	return strerrorname_np(errnum) ?: "unknown";
}
