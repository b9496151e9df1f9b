/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_UTF8_H
#define NSBOX_UTIL_UTF8_H

/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks at the beginning of `data`, which is not empty. Returns the length of the character there, or
 * 0 when it is not one: *ret_bad (may be NULL) is then how many bytes to leave out, the longest
 * beginning of a character that is there, at least 1.
 */
size_t utf8_next(const void *data, size_t length, size_t *ret_bad);

/* Whether all of it is valid UTF-8. NUL is a character like any other. */
bool utf8_valid(const void *data, size_t length);

/*
 * A copy in which each invalid sequence is U+FFFD. Malloc'd; a NUL is put after its *ret_length bytes.
 */
char *utf8_replace_invalid(const void *data, size_t length, size_t *ret_length);

/*
 * The greatest position ≤ `position` and the least ≥ `position` at which `data` can be cut without
 * cutting a character in two. Where the bytes around are not UTF-8, `position` itself.
 */
size_t utf8_boundary_before(const void *data, size_t length, size_t position);
size_t utf8_boundary_after(const void *data, size_t length, size_t position);

/*
 * How much of a text that goes on behind `length` can be taken now: all but the beginning of a character at its end.
 * Where there is nothing but that, all of it.
 */
size_t utf8_whole(const void *data, size_t length);

#endif
