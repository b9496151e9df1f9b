/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_APT_H
#define NSBOX_PACKAGES_APT_H

/*
 * Packages of the system that a root is: Debian's, by the apt of the root itself, as «apt:NAME» beside the packages of
 * languages.
 *
 * They are installed as packages.h has it, in a sandbox of their own with the same root. There apt is root, and root
 * emulation lets it believe so; it may reach the hosts of the root's own sources (sources.h); and what it writes is on disk.
 * Of that a layer is made (image/upper.h), which is laid over the root of whoever wants these packages, read-only as the root
 * itself. Lists of packages, archives and logs do not stay. All files of it belong to root inside.
 *
 * KEY is the SHA-256 of the root, of how packages are installed, and of their names, sorted. What the sources have at the
 * time is not in it: a set is installed once, and again when its layer was removed.
 */

#include <limits.h>
#include <stdbool.h>

#include "packages/packages.h"
#include "util/sha256.h"

struct error;
struct run_control;
struct spec;

/* A set of packages for one root. */
struct apt_set {
	char **names; /* sorted, each once; owned */
	char key[SHA256_HEX_SIZE];
	char tree[PATH_MAX]; /* STORE/packages/KEY/fs, there or not */
};

/*
 * Whether apt can be given the name: NAME[:ARCHITECTURE][=VERSION], as Debian's policy manual has them (5.6.7, 5.6.8,
 * 5.6.12), and nothing that it would take for an option, a pattern, a file or a removal.
 */
int apt_check_name(const char *name, struct error *err);

/*
 * Checks `names` (NULL-terminated) and finds out where the set is, or is to be, for the root of `spec`. Fails where a name is
 * none, the root is the host's or has no apt, or no place is set for the store. *ret is freed with apt_set_free.
 */
int apt_resolve(const struct spec *spec, char *const *names, struct apt_set *ret, struct error *err);
void apt_set_free(struct apt_set *set);

bool apt_installed(const struct apt_set *set);

/* As packages_install. */
int apt_install(const struct apt_set *set, const struct spec *spec, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err);

/*
 * Lays the set, which is installed, over the root of *spec: before languages look for their toolchains there, and
 * packages of languages are resolved, for which it is another root.
 */
void apt_use(const struct apt_set *set, struct spec *spec);

#endif
