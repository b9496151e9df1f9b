/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_CONFINE_H
#define NSBOX_UNPACK_CONFINE_H

/*
 * What stands between a hostile archive and the host: the process that reads it has the layer's directory as its
 * root and nothing else; no network; of all capabilities those over the files there, in a user namespace; and
 * the few system calls that unpacking needs. Landlock, where there is some, is a second wall.
 *
 *   confine_to_directory   Should: reach nothing but the directory and the descriptors 0 to 4.
 *                          May still: start threads.
 *   confine_system_calls   Mustn't, from here on: make a process, a socket, a device, or a mount. Holds for all threads.
 */

#include <stdbool.h>

struct error;

/*
 * `directory` (a descriptor, which is closed) becomes the root and the current directory. `owners`: the caller is root, and files can
 * be given to the ids 0 to 65535, which are the host's; else all that is made is the caller's own. `lowers` are
 * directories, the topmost first, that are seen together, read-only, at /lower; the directory itself is then at
 * /layer. Without `lowers` the directory is the root.
 */
int confine_to_directory(
	int directory, const int *lowers, unsigned lowers_count, bool owners, struct error *err);

int confine_system_calls(struct error *err);

#endif
