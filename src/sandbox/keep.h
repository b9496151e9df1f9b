/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_KEEP_H
#define NSBOX_SANDBOX_KEEP_H

/* Files that a run leaves, kept for whoever may ask for them later. */

#include <stdbool.h>
#include <stddef.h>

struct run_result;
struct spec;

/*
 * Keeps the regular files that the last command's working directory has (collect.h) in result->kept_files, but for those
 * that are result->images. `tmpfs` as in collect.h; `stop` ends it early.
 */
void keep_files(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, bool (*stop)(void *data), void *data,
	struct run_result *result);

#endif
