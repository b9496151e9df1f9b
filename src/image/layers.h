/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_LAYERS_H
#define NSBOX_IMAGE_LAYERS_H

/*
 * What overlayfs would show of an image's layers, without mounting them: the topmost layer that has a name decides,
 * whiteouts and opaque directories hide what is below (as the unpacker makes them: a character device 0/0, or an empty
 * file with the attribute user.overlay.whiteout; the attribute user.overlay.opaque), and links lead to places of the
 * image.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the absolute `path` leads to a file that may be executed. `layers` are absolute paths of trees, the topmost
 * first, NULL-terminated.
 */
bool layers_have_program(char *const *layers, const char *path);

/* The names in the directory that `path` leads to, as far as it can be read, sorted; NULL-terminated, the caller's. */
char **layers_list_names(char *const *layers, const char *path);

/*
 * What the regular file that `path` leads to has in it, at most `max` bytes: malloc'd, with a NUL after its *ret_length
 * bytes. NULL with errno where there is none (ENOENT), or it cannot be read.
 */
char *layers_read_file(char *const *layers, const char *path, size_t max, size_t *ret_length);

#endif
