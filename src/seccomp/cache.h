/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SECCOMP_CACHE_H
#define NSBOX_SECCOMP_CACHE_H

/*
 * Compiled profiles of users, so that a profile is compiled once:
 *
 *     $XDG_CACHE_HOME/nsbox/seccomp/DIGEST, else ~/.cache/nsbox/seccomp/DIGEST
 *
 * The digest only finds the file. What counts is in it: the text of the profile and everything that the filters
 * depend on beside it (nsbox, the architecture, the kernel's release, libseccomp's names) are compared in full. A
 * file, and a folder on the way to it from the cache's own, that is not the caller's or that others can write to
 * is not used. It may be removed at any time; several at once may write it.
 *
 * A cache that cannot be read or written is none: the profile is compiled.
 */

#include <stdbool.h>
#include <stddef.h>

#include "seccomp/profile.h"

/* Fills *plain and *tier2, which are then the caller's to free. */
bool profile_cache_find(
	const char *text, size_t length, struct bpf_program *plain, struct bpf_program *tier2);

void profile_cache_store(const char *text, size_t length, const struct bpf_program *plain,
	const struct bpf_program *tier2);

#endif
