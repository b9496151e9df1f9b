/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_DIAGNOSE_H
#define NSBOX_SANDBOX_DIAGNOSE_H

/*
 * Why the host refuses a sandbox, and the command that mends it. The failing run and `nsbox check`
 * say the same sentences.
 *
 * Nothing is tried here: causes are found by reading /proc and by looking for the files that container
 * managers leave in their containers.
 */

#include <stdbool.h>

struct error;

/* The container manager around us, as far as it makes itself known. */
enum container {
	CONTAINER_NONE, /* or one that does not */
	CONTAINER_DOCKER,
	CONTAINER_PODMAN,
	CONTAINER_KUBERNETES,
	CONTAINER_OTHER, /* systemd-nspawn, LXC … */
};

/*
 * clone3 with namespaces failed with `errnum` (ENOSPC, EPERM, EUSERS, EINVAL, ENOSYS …), or writing the
 * id maps or the first mount did (EPERM, EACCES under AppArmor's restriction). Finds out why (the
 * sysctls user.max_*_namespaces, kernel.unprivileged_userns_clone,
 * kernel.apparmor_restrict_unprivileged_userns; a seccomp filter of an outer container; a chroot; a
 * kernel without the feature) and puts cause into the text and remedy into the hint of *err, which
 * already has a text that says what was tried. Where no cause is found *err stays as it is.
 */
void diagnose_namespaces(int errnum, struct error *err);

/* Mounting a new proc was refused (EPERM): the outer container masks /proc. Sets the hint of *err. */
void diagnose_proc(struct error *err);

enum container container_around(void);

/* The sysctl in file `path` below /proc/sys, or -1 where there is none or it is no number. */
long sysctl_value(const char *path);

#endif
