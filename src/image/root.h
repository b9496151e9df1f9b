/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_ROOT_H
#define NSBOX_IMAGE_ROOT_H

/* An image of the store as the root of a spec. */

#include <stdbool.h>

#include "image/record.h"
#include "image/reference.h"
#include "image/store.h"

struct error;
struct spec;

struct image {
	struct store store;
	struct image_record record;
};

/* Looks in the store. Returns 0 with *ret, closed with image_close; 1 where it has no such image. */
int image_open(const struct reference *reference, struct image *ret, struct error *err);

void image_close(struct image *image);

/* Says in *err that the image is not in the store, and how it gets there. Returns -1. */
int image_missing(const struct reference *reference, struct error *err);

/*
 * Makes the image the root of *spec: its layers, name and digest, the directories that its programs expect, its
 * environment, and, but for `keep_user`, its user with group and home.
 */
void image_set_root(const struct image *image, bool keep_user, struct spec *spec);

/* All of that for the name of an image. Returns 1 where it is not in the store, with its short name in *ret_missing, malloc'd. */
int image_choose_root(const char *image, bool keep_user, struct spec *spec, char **ret_missing,
	struct error *err);

/* The signal that its author wants it stopped with, 0: none is named. */
int image_stop_signal(const struct image *image, uint32_t *ret, struct error *err);

/*
 * Locks the layers of the spec's root, if it is an image, against removal, as long as the process lives. Fails where one
 * is not there any more.
 */
int image_hold_layers(const struct spec *spec, struct error *err);

#endif
