/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_FEATURES_H
#define NSBOX_SANDBOX_FEATURES_H

/*
 * Which kernel each feature needs, and what happens below it. One table; `nsbox check` prints it.
 *
 * Versions are those of kernel.org. A distribution's kernel may have a feature earlier, so nothing
 * but the floor is decided by them: the code tries a feature and does what `below` says where the
 * kernel refuses it.
 */

#include <stdbool.h>

struct error;

enum { KERNEL_FLOOR_MAJOR = 5, KERNEL_FLOOR_MINOR = 14 };

struct feature {
	const char *name;
	int major, minor;  /* the first kernel that has it */
	bool required;     /* nsbox does not run without */
	bool probed;       /* `nsbox check` finds out by trying, whatever the version is */
	bool root_only;    /* of use to root alone */
	const char *below; /* what nsbox does on an older kernel: a sentence */
};

extern const struct feature features[]; /* sorted by version */
extern const unsigned features_count;

/* Whether kernel `major`.`minor` has the feature. */
bool feature_is_in(const struct feature *feature, int major, int minor);

/* The version in a release string like «6.1.0-18-amd64»; 0.0 where it cannot be parsed. */
void kernel_version_parse(const char *release, int *ret_major, int *ret_minor);

/* The running kernel's version from uname; 0.0 where it cannot be parsed. */
void kernel_version(int *ret_major, int *ret_minor);

/* One clear error where kernel `major`.`minor` is older than nsbox supports. A version of 0.0 passes. */
int features_require_version(int major, int minor, struct error *err);

/* The same for the running kernel. */
int features_require_kernel(struct error *err);

#endif
