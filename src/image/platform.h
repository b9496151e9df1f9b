/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_PLATFORM_H
#define NSBOX_IMAGE_PLATFORM_H

/* Platforms of images: OS/ARCHITECTURE[/VARIANT] in Go's names, as the OCI image index has them. */

#include <stdbool.h>

struct error;

struct platform {
	char os[16];           /* «linux» */
	char architecture[16]; /* «amd64», «arm64» */
	char variant[16];      /* «v8»; empty: none */
};

/* This machine's. */
struct platform platform_native(void);

/* Parses «linux/arm64», «linux/arm64/v8», or «arm64» alone for linux. */
int platform_parse(const char *text, struct platform *ret, struct error *err);

/*
 * How well `offered` runs where `wanted` is asked for: 0 not at all, and the more the better. Without a
 * variant arm64 means v8 and amd64 means v1; amd64 runs lesser variants, too.
 */
int platform_match(const struct platform *wanted, const struct platform *offered);

enum { PLATFORM_TEXT_MAX = 52 };

/* «linux/arm64/v8» */
const char *platform_format(const struct platform *platform, char buffer[PLATFORM_TEXT_MAX]);

#endif
