/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_TYPENAMES_H
#define NSBOX_LANGUAGE_TYPENAMES_H

/*
 * Names in Java source that have to be known before it is compiled: a compiler wants a file to have the
 * name of the public type in it, and the run time to be told where main is.
 *
 * The text is read as tokens, without comments and literals; what is no Java gives no names, and the
 * compiler then says what is wrong with it.
 */

#include <stddef.h>

struct typenames {
	char *public_type; /* the public type at the top; NULL: there is none */
	char *main_type; /* the type at the top with a main method, with its package; NULL: there is none */
};

/* Reads `length` bytes of source. The strings of *ret are malloc'd. */
void typenames_read(const char *source, size_t length, struct typenames *ret);

void typenames_free(struct typenames *names);

#endif
