/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SECCOMP_PROFILE_H
#define NSBOX_SECCOMP_PROFILE_H

/*
 * Seccomp profiles: the JSON format that Docker and Podman read → classic BPF for the native
 * architecture. The built-in profiles are compiled when nsbox is built and embedded in it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <linux/filter.h>

struct error;
struct seccomp_arch;

struct bpf_program {
	struct sock_filter *instructions; /* owned: free() */
	size_t length;			  /* instructions */
};

struct builtin_filter {
	const char *name; /* "default", "strict", "debug", "essential", "root-emulation", "gate-filter" */
	bool tier2;	  /* memfd_create, memfd_secret and shmget answer ENOSYS */
	const struct sock_filter *instructions;
	size_t length;
};

/* The built-in filter of that name, or NULL. */
const struct builtin_filter *builtin_filter_find(const char *name, bool tier2);

/*
 * Compiles the profile in `json` (`length` bytes; `origin` names it in errors: «FILE:LINE: …»).
 * `tier2` adds ENOSYS for memfd_create, memfd_secret and shmget. Capabilities that `includes` and
 * `excludes` speak of count as absent.
 */
int profile_compile(const char *json, size_t length, const char *origin, bool tier2,
	struct bpf_program *ret, struct error *err);

/* The same for an architecture that need not be this one (seccomp/syscalls.h). */
int profile_compile_for(const struct seccomp_arch *arch, const char *json, size_t length,
	const char *origin, bool tier2, struct bpf_program *ret, struct error *err);

/* Reads a file, of 4 MiB at most. *ret is malloc'd. */
int profile_read(const char *path, char **ret, size_t *ret_length, struct error *err);

/* Reads and compiles a profile from a file. */
int profile_compile_file(const char *path, bool tier2, struct bpf_program *ret, struct error *err);

#endif
