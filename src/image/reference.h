/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_REFERENCE_H
#define NSBOX_IMAGE_REFERENCE_H

/*
 * Image references as Docker reads them: [HOST[:PORT]/]NAME[:TAG][@DIGEST].
 *
 * The first component is a registry's host where it has a dot or a colon or is «localhost»; else the registry is
 * docker.io, and a name there without a slash is in «library/». Without tag and digest the tag is «latest». The
 * grammar of names, tags and digests is that of the OCI distribution and image specifications.
 */

#include <stdbool.h>
#include <stddef.h>

struct error;

enum {
	REFERENCE_MAX = 767,      /* bytes of a whole reference */
	REFERENCE_NAME_MAX = 255, /* of HOST/NAME, as Docker has it */
	REFERENCE_TAG_MAX = 128,
	DIGEST_HEX_LENGTH = 64,   /* of SHA-256 */
	DIGEST_SIZE = 7 + 64 + 1, /* «sha256:», the digits, a NUL */
};

struct reference {
	char registry[REFERENCE_NAME_MAX + 1];   /* «docker.io», «localhost:5000» */
	char repository[REFERENCE_NAME_MAX + 1]; /* «library/python» */
	char tag[REFERENCE_TAG_MAX + 1];         /* empty where there is a digest only */
	char digest[DIGEST_SIZE];                /* «sha256:…», or empty */
};

/* Parses `text`. The error names what is wrong with it. */
int reference_parse(const char *text, struct reference *ret, struct error *err);

/* The whole reference with nothing left out: «docker.io/library/python:3.13». Returns `buffer`. */
const char *reference_format(const struct reference *reference, char buffer[REFERENCE_MAX + 1]);

/* As short as it can be said to mean the same: «python:3.13». Returns `buffer`. */
const char *reference_format_short(
	const struct reference *reference, char buffer[REFERENCE_MAX + 1]);

/*
 * Whether it is of an image that was made on this machine: its registry is «localhost» without a port, as in what
 * rootfs-scripts build and `podman build` makes. No registry is asked for such a one, so that a name that is missing
 * here never becomes somebody else's image.
 */
bool reference_is_local(const struct reference *reference);

/* Says so of such a reference that is to be fetched. Returns -1. */
int reference_refuse_local(const struct reference *reference, struct error *err);

/* Whether `text` is «sha256:» and 64 digits of lower-case hexadecimal. */
bool digest_valid(const char *text);

#endif
