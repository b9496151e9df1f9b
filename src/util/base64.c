/* SPDX-License-Identifier: MIT */
/* Base64: see base64.h. */
#define _GNU_SOURCE
#include "util/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t length)
{
	const uint8_t *in = data;
	char *text = xcalloc((length + 2) / 3 * 4 + 1, 1);
	char *out = text;

	for (size_t at = 0; at < length; at += 3) {
		size_t left = length - at;
		uint32_t group = (uint32_t)in[at] << 16;

		if (left > 1)
			group |= (uint32_t)in[at + 1] << 8;
		if (left > 2)
			group |= in[at + 2];
		*out++ = alphabet[group >> 18];
		*out++ = alphabet[group >> 12 & 63];
		*out++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
		*out++ = left > 2 ? alphabet[group & 63] : '=';
	}
	return text;
}

/* The six bits that a character stands for; -1 for none. */
static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes four characters, `used` of which are not padding. Returns 0, or -1. */
static int decode_group(const char *text, int used, uint8_t out[3])
{
	uint32_t group = 0;

	for (int i = 0; i < used; i++) {
		int value = value_of(text[i]);

		if (value < 0)
			return -1;
		group |= (uint32_t)value << (18 - 6 * i);
	}
	if ((used == 2 && group & 0xffff) || (used == 3 && group & 0xff))
		return -1;
	out[0] = (uint8_t)(group >> 16);
	out[1] = (uint8_t)(group >> 8);
	out[2] = (uint8_t)group;
	return 0;
}

int base64_decode(const char *text, size_t length, void **ret, size_t *ret_length)
{
	int padding = 0;
	uint8_t *out;

	if (length % 4)
		return -1;
	while (length && padding < 2 && text[length - 1 - (size_t)padding] == '=')
		padding++;
	out = xcalloc(length / 4 * 3 + 1, 1);
	for (size_t at = 0; at < length; at += 4) {
		int used = at + 4 == length ? 4 - padding : 4;

		if (decode_group(text + at, used, out + at / 4 * 3) < 0) {
			free(out);
			return -1;
		}
	}
	*ret_length = length / 4 * 3 - (size_t)padding;
	out[*ret_length] = '\0';
	*ret = out;
	return 0;
}
