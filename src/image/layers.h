/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_LAYERS_H
#define NSBOX_IMAGE_LAYERS_H

/*
 * What overlayfs would show of an image's layers, without mounting them: the topmost layer that has a name decides,
 * whiteouts and opaque directories hide what is below (as the unpacker makes them: a character device 0/0, the
 * attribute user.overlay.opaque), and links lead to places of the image.
 */

#include <stdbool.h>

/*
 * Whether the absolute `path` leads to a file that may be executed. `layers` are absolute paths of trees, the topmost
 * first, NULL-terminated.
 */
bool layers_have_program(char *const *layers, const char *path);

#endif
