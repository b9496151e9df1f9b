/* SPDX-License-Identifier: MIT */
/* Errors that a person reads: see error.h. */
#define _GNU_SOURCE
#include "util/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util/utf8.h"

/* C0, DEL, and C1, which some terminals obey as they obey escapes. */
static bool is_control(const uint8_t *character, size_t length)
{
	if (length == 1)
		return *character < 0x20 || *character == 0x7f;
	return length == 2 && character[0] == 0xc2 && character[1] < 0xa0;
}

/* A message is one line of text whatever a path or an argument in it contained. */
static void flatten(char *text)
{
	size_t length = strlen(text), bad;

	for (size_t at = 0, n; at < length; at += n) {
		n = utf8_next(text + at, length - at, &bad);
		if (n > 0 && !is_control((const uint8_t *)text + at, n))
			continue;
		n = n > 0 ? n : bad;
		memset(text + at, '?', n);
	}
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
