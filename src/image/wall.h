/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_WALL_H
#define NSBOX_IMAGE_WALL_H

/*
 * What nsbox-image may touch, by Landlock where the kernel has it. It reads what strangers have written: headers,
 * certificates and manifests of any registry, indexes in somebody's archive. (Archives themselves are read by
 * nsbox-unpack, which is confined more.) Behind the wall it can change the store and nothing else, read the
 * system's libraries and configuration, and what the caller has about registries, and execute nothing. (The commands
 * that read the store's own records only need none.)
 */

struct error;
struct store;

/*
 * Raises it around this process, for good. `readable`, or NULL: more files or directories to be read, with what is
 * below them, and a NULL at the end; where one is missing the caller will say so. `changeable`: a directory that
 * may be changed, or -1.
 */
int wall_raise(const struct store *store, const char *const *readable, int changeable, struct error *err);

#endif
