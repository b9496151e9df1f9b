/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SECCOMP_SYSCALLS_H
#define NSBOX_SECCOMP_SYSCALLS_H

/* The architectures that a filter can be made for, and the numbers of their system calls. */

#include <stdbool.h>
#include <stdint.h>

struct seccomp_arch {
	const char *name;     /* as `includes.arches` of a profile names it: "amd64", "arm64" */
	uint32_t audit_arch;  /* AUDIT_ARCH_*: what the kernel reports, and libseccomp's token */
	uint32_t foreign_bit; /* numbers from here up are another ABI's (x32); 0: there is none */
};

extern const struct seccomp_arch seccomp_arch_x86_64;
extern const struct seccomp_arch seccomp_arch_aarch64;

/* The architecture that nsbox was built for. */
extern const struct seccomp_arch *const seccomp_arch_host;

enum {
	SYSCALL_ABSENT = -1,  /* a known name that this architecture does not have */
	SYSCALL_UNKNOWN = -2, /* a name that no architecture is known to have */
};

/* The number of a system call, SYSCALL_ABSENT or SYSCALL_UNKNOWN. */
int syscall_number(const struct seccomp_arch *arch, const char *name);

enum { SYSCALL_NAME_MAX = 64 };

/* The name of a number; «system call 12345» where it has none. */
void syscall_name(const struct seccomp_arch *arch, int number, char ret[static SYSCALL_NAME_MAX]);

#endif
