/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_OUTPUT_H
#define NSBOX_SANDBOX_OUTPUT_H

/*
 * What a run leaves in its working directory, copied into a directory of the caller's.
 *
 * Regular files, directories and symbolic links that stay in it, under the names that the code gave them: everything is
 * made anew, by the caller, below that directory, and nothing that is there is opened, replaced or followed. A file is
 * written under a name of its own (.nsbox-HEX) and gets its final one when it is whole. Of a mode its permission bits
 * are taken, under the caller's umask; owners can always read their files, and enter and change their directories.
 * Extended attributes, times and owners are not kept; holes are where the file system has them.
 *
 * All files together have at most spec->limits.disk_bytes by their own word, holes and each hard link counted.
 */

#include <stdbool.h>
#include <stddef.h>

struct error;
struct run_result;
struct spec;

struct output {
	int fd;	   /* the directory */
	bool made; /* by output_open */
	const char *path;
};

/*
 * Opens the directory `path`, which has to be empty, or makes it. Refuses one that the caller cannot write to. `path` must
 * stay as long as *ret does.
 */
int output_open(const char *path, struct output *ret, struct error *err);

/*
 * Copies what the last command's working directory has (collect.h) and notes it in result->copied. Ends early where
 * `stop` says so. What cannot be copied by its kind or name is left out, and named in a warning; what fails otherwise
 * is in result->copied.error, and the rest is missing. `tmpfs` as in collect.h.
 */
void output_copy(const struct output *output, const struct spec *spec, const int *tmpfs, size_t tmpfs_count,
	bool (*stop)(void *data), void *data, struct run_result *result);

/* Closes it; `unused`: and removes it where output_open has made it. */
void output_close(struct output *output, bool unused);

#endif
