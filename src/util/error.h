/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_ERROR_H
#define NSBOX_UTIL_ERROR_H

/*
 * Errors that a person reads.
 *
 * An error is made where it happens, with errno and the object concerned («mounting proc on /proc:
 * Operation not permitted»), and is given context on the way up. `hint` is the remedy: a whole
 * sentence, with the command to type where there is one; it may be empty.
 *
 * A function that can fail takes a `struct error *` as its last argument and returns -1 (or NULL)
 * when it has set it. Nothing is allocated: an error can be sent over a socket as it is.
 */

enum { ERROR_TEXT_MAX = 512, ERROR_HINT_MAX = 512 };

struct error {
	int errnum;                /* 0 where no system call failed */
	char text[ERROR_TEXT_MAX]; /* one line of UTF-8 without control characters */
	char hint[ERROR_HINT_MAX]; /* one line or empty */
};

/* Sets *err; appends «: strerror(errnum)» when errnum is not 0. Always returns -1. */
int error_set(struct error *err, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4), nonnull(1)));

/* Puts «FORMAT: » before the text that *err has. Always returns -1. */
int error_context(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3), nonnull(1)));

/* Sets the hint of *err. Always returns -1. */
int error_hint(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3), nonnull(1)));

/* Prints «nsbox: TEXT» and, where there is one, «nsbox: HINT» to standard error. */
void error_print(const struct error *err);

/* The name of an errno value («ENOENT»); never NULL. */
const char *error_name(int errnum);

#endif
