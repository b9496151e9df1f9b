/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_COLLECT_H
#define NSBOX_SANDBOX_COLLECT_H

/*
 * What a run leaves in its working directory, read by the supervisor.
 *
 * It happens when every process of the sandbox is dead, so nothing changes under it, and only on the
 * sandbox's own tmpfs: names are resolved beneath it, without links and without crossing into another
 * mount, and only regular files are opened. So what the code left there, however named or linked, can
 * neither lead to a file of the host nor make the supervisor wait.
 */

struct run_result;
struct spec;

/*
 * Appends to result->images the PNG, JPEG, GIF and WebP files of the last command's working directory
 * that the spec did not put there, in the order of their names: at most RESULT_IMAGES_MAX of them,
 * RESULT_IMAGE_BYTES_MAX bytes each and RESULT_IMAGES_BYTES_MAX in all; result->images_left_out counts the others. `scratch` is a descriptor
 * of the tmpfs that holds everything that the sandbox can write.
 */
void collect_images(const struct spec *spec, int scratch, struct run_result *result);

/* The MIME type of an image that begins with these bytes, or NULL: by its magic number, not by its name. */
const char *image_type(const void *data, unsigned long length);

#endif
