/* SPDX-License-Identifier: MIT */
/* Errors that a person reads: see error.h. */
#define _GNU_SOURCE
#include "util/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util/utf8.h"

enum { MESSAGE_MAX = 3 * PATH_MAX }; /* two paths, and what is said of them */

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

/*
 * Takes over a message. Of one that is too long the middle is left out: its end says what is wrong, and what makes it
 * too long is a path before that.
 */
static void take_over(char ret[ERROR_TEXT_MAX], const char *message)
{
	static const char gap[] = "…";
	size_t length = strlen(message), head = ERROR_TEXT_MAX / 2, tail;

	if (length < ERROR_TEXT_MAX) {
		memcpy(ret, message, length + 1);
		return;
	}
	tail = length - (ERROR_TEXT_MAX - head - sizeof gap);
	/* Characters are left out whole. */
	while ((message[head] & 0xc0) == 0x80)
		head--;
	while ((message[tail] & 0xc0) == 0x80)
		tail++;
	memcpy(ret, message, head);
	memcpy(ret + head, gap, sizeof gap - 1);
	memcpy(ret + head + sizeof gap - 1, message + tail, length - tail + 1);
}

int error_set(struct error *err, int errnum, const char *format, ...)
{
	char message[MESSAGE_MAX];
	va_list ap;
	size_t used;

	err->errnum = errnum;
	err->hint[0] = '\0';
	va_start(ap, format);
	vsnprintf(message, sizeof message, format, ap);
	va_end(ap);
	used = strlen(message);
	if (errnum)
		snprintf(message + used, sizeof message - used, ": %s", strerrordesc_np(errnum) ?: "unknown error");
	take_over(err->text, message);
	flatten(err->text);
	return -1;
}

int error_context(struct error *err, const char *format, ...)
{
	char message[MESSAGE_MAX];
	va_list ap;
	size_t used;

	va_start(ap, format);
	vsnprintf(message, sizeof message - ERROR_TEXT_MAX, format, ap);
	va_end(ap);
	used = strlen(message);
	snprintf(message + used, sizeof message - used, ": %s", err->text);
	take_over(err->text, message);
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
