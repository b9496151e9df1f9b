/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_DOCTOR_PROBE_H
#define NSBOX_DOCTOR_PROBE_H

/*
 * Attempts at what a sandbox needs of the kernel, one by one, in a process that then ends and takes
 * its namespaces and mounts with it. What sysctls and versions promise is often not what is so: a
 * container's filter, an LSM or a distribution's patch decides too.
 */

#include <stdbool.h>

#include "util/error.h"

struct idmap;

enum attempt {
	ATTEMPT_NAMESPACES, /* all seven, and the id maps */
	ATTEMPT_TMPFS,      /* mounting at all */
	ATTEMPT_OVERLAY,    /* overlayfs with its upper on a tmpfs */
	ATTEMPT_OPAQUE,     /* a directory of the lower removed and made again */
	ATTEMPT_PROC,       /* a new proc */
	ATTEMPT_FILTER,     /* the built-in seccomp filter */
	ATTEMPT_MAX,
};

struct attempt_result {
	bool made; /* false where an earlier one that it builds on failed */
	bool ok;
	struct error error;
};

/* Makes them all as `idmap` says. Every attempt is filled in. */
void probe_kernel(const struct idmap *idmap, struct attempt_result ret[ATTEMPT_MAX]);

/*
 * Root: whether the file system of `path` can be idmapped onto the ids of `idmap`. Returns 0, or -1
 * with *err, which names the file system.
 */
int probe_idmapped_mount(const struct idmap *idmap, const char *path, struct error *err);

#endif
