/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_FEATURES_H
#define NSBOX_SANDBOX_FEATURES_H

/*
 * Which kernel each feature needs, and what happens below it. One table; `nsbox check` prints it.
 */

#include <stdbool.h>

struct error;

struct feature {
	const char *name;
	int major, minor;  /* the first kernel that has it */
	bool required;     /* nsbox does not run without */
	const char *below; /* what nsbox does on an older kernel: a sentence */
};

extern const struct feature features[];
extern const unsigned features_count;

/* The running kernel's version from uname; 0.0 where it cannot be parsed. */
void kernel_version(int *ret_major, int *ret_minor);

/* One clear error where the kernel is older than nsbox supports (5.14). */
int features_require_kernel(struct error *err);

#endif
