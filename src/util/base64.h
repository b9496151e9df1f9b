/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_BASE64_H
#define NSBOX_UTIL_BASE64_H

/* Base64 of RFC 4648, section 4: the standard alphabet, with padding, without line breaks. */

#include <stddef.h>

/* Malloc'd, NUL-terminated. */
char *base64_encode(const void *data, size_t length);

/*
 * The reverse, strict: nothing but the alphabet, padding where it belongs, unused bits zero, so that
 * each string of bytes has one encoding. Returns 0, or -1 when it is not base64. *ret is malloc'd; a NUL
 * is put after its *ret_length bytes.
 */
int base64_decode(const char *text, size_t length, void **ret, size_t *ret_length);

#endif
