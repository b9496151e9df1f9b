/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_ROOT_H
#define NSBOX_LANGUAGE_ROOT_H

/*
 * Which root the code of a language runs in: the host's, with the host's toolchain, or an image.
 *
 * An image that is in the store and cannot run the language is an error, and nothing else is taken in its place: who
 * put it there would not see that it is not used.
 */

#include <stdbool.h>

struct error;
struct language;
struct spec;

enum image_policy {
	IMAGE_POLICY_STORED, /* the language's image where the store has it, else the host */
	IMAGE_POLICY_HOST,   /* the host, always */
	IMAGE_POLICY_PULL, /* the language's image, which is fetched where the store has none; the host where none is known */
};

#define IMAGE_POLICY_NAMES "\"stored\", \"host\" or \"pull\""

/* «stored», «host», «pull». Returns 0, or -1 with *err, in which `what` names the value. */
int image_policy_parse(
	const char *what, const char *text, enum image_policy *ret, struct error *err);

const char *image_policy_name(enum image_policy policy);

/*
 * Chooses by the policy, and makes an image the root of *spec where it is one (spec_init has made it the host's); with
 * `keep_user` *spec keeps its user. Of the language's images the local one goes before the remote one.
 *
 * Returns 0; 1 where an image is to be fetched first, whose short name is *ret_missing (malloc'd); -1 with *err.
 */
int language_choose_root(const struct language *language, enum image_policy policy, bool keep_user,
	struct spec *spec, char **ret_missing, struct error *err);

/* Whether `image`, a reference, is one of the language's. */
bool language_has_image(const struct language *language, const char *image);

/* Whether it is one of some language's. Reads all languages' files. */
bool languages_have_image(const char *image);

/* How to get an image of the language: a sentence without an end, malloc'd; NULL where none is known. */
char *language_image_remedy(const struct language *language);

/* Adds that, as another way, to the hint of an error of a language that the host has no toolchain for. */
void language_add_image_hint(const struct language *language, struct error *err);

#endif
