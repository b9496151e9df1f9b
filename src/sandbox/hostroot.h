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

/*
 * Makes the places for that in the directory `places`, which is empty and ours alone, and mounts it there below the root
 * `root`: `places` itself, or an overlay of which it is the upper one, so that no name of the layers below is in the way.
 * Links are made in the root where it has nothing of that name. Called in the sandbox's mount namespace.
 */
int hostroot_make_places(int places, struct error *err);
int hostroot_show(int root, struct error *err);

/* The directories and names of /etc that are shown, NULL-terminated: for `nsbox check`, the manual and tests. */
extern const char *const hostroot_directories[];
extern const char *const hostroot_etc[];

#endif
