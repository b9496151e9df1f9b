/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_PROCFS_H
#define NSBOX_SANDBOX_PROCFS_H

/*
 * /proc and /dev of a sandbox: all that it gets of the kernel's own file systems. /sys is absent.
 */

#include <stdbool.h>

#include "sandbox/spec.h"

struct error;

/*
 * Mounts a new proc on the directory `proc` of `root`, with /proc/sys read-only (uid 0 inside may write
 * some sysctls without any capability) and with masks over what tells of the host or acts on it. Before
 * that, sets in the new namespaces: no user namespaces below this one and, with a network
 * namespace of its own, ports below 1024 free for all and, where that leads nowhere else, TCP as loopback needs it.
 * Returns a descriptor of the new /proc, through which the supervisor sees the sandbox's processes.
 */
int procfs_mount(int root, enum network_kind network, struct error *err);

/*
 * Fills the directory `dev` (writable, empty or of an image) with null, zero, full, random, urandom, tty
 * of the host, a devpts instance of its own, shm (a directory) and the usual links.
 */
int devfs_fill(int dev, struct error *err);

#endif
