/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_DIAGNOSE_H
#define NSBOX_SANDBOX_DIAGNOSE_H

/*
 * Why the host refuses a sandbox, and the command that mends it. The failing run and `nsbox check`
 * say the same sentences.
 */

#include <stdbool.h>

struct error;

/*
 * clone3 with namespaces failed with `errnum` (ENOSPC, EPERM, EUSERS, EINVAL, ENOSYS …), or writing the
 * id maps or the first mount did (EPERM, EACCES under AppArmor's restriction). Finds out why (the
 * sysctls user.max_*_namespaces, kernel.unprivileged_userns_clone,
 * kernel.apparmor_restrict_unprivileged_userns; a seccomp filter of an outer container; a kernel
 * without the feature) and puts cause into the text and remedy into the hint of *err, which already
 * has a text that says what was tried.
 */
void diagnose_namespaces(int errnum, struct error *err);

/* Mounting a new proc was refused (EPERM): the outer container masks /proc. Sets the hint of *err. */
void diagnose_proc(struct error *err);

#endif
