/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_HOSTROOT_H
#define NSBOX_SANDBOX_HOSTROOT_H

/*
 * The `host` root: what of the host's own tree a sandbox sees.
 *
 * /usr, /bin, /sbin and /lib* as they are, read-only, and a short list of /etc; nothing of /home, /root,
 * /var, /run, /opt or /srv, nor /etc/shadow. Nothing is idmapped, so everything is read as a stranger
 * reads it: what only root may read on the host stays closed, also when root calls.
 */

struct error;

/* Fills the attached tmpfs `root` (a descriptor of its root directory). Called in the sandbox's mount namespace. */
int hostroot_fill(int root, struct error *err);

/* The directories and names of /etc that are shown, NULL-terminated: for `nsbox check`, the manual and tests. */
extern const char *const hostroot_directories[];
extern const char *const hostroot_etc[];

#endif
