/* SPDX-License-Identifier: MIT */
/*
 * System call numbers. libseccomp has the table for calls up to its own release; what came later is
 * listed here, so that a filter does not depend on how old the library is. Since Linux 5.1 a new
 * call has the same number on every architecture.
 */
#define _GNU_SOURCE
#include "seccomp/syscalls.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <linux/audit.h>
#include <seccomp.h>

#include "util/cleanup.h"

/* __X32_SYSCALL_BIT: the kernel takes such a number from any 64-bit process. */
const struct seccomp_arch seccomp_arch_x86_64 = {"amd64", AUDIT_ARCH_X86_64, 0x40000000};
const struct seccomp_arch seccomp_arch_aarch64 = {"arm64", AUDIT_ARCH_AARCH64, 0};

#if defined(__x86_64__) && !defined(__ILP32__)
const struct seccomp_arch *const seccomp_arch_host = &seccomp_arch_x86_64;
#elif defined(__aarch64__) && defined(__AARCH64EL__)
const struct seccomp_arch *const seccomp_arch_host = &seccomp_arch_aarch64;
#else
#error "nsbox supports x86-64 and aarch64"
#endif

struct recent_call {
	const char *name;
	int number;
	bool x86_64_only;
};

/* Through Linux 6.18, from set_mempolicy_home_node (5.17) on: what libseccomp 2.5 may not know. */
static const struct recent_call recent_calls[] = {
	{"uretprobe", 335, true},
	{"uprobe", 336, true},
	{"memfd_secret", 447, false},
	{"process_mrelease", 448, false},
	{"futex_waitv", 449, false},
	{"set_mempolicy_home_node", 450, false},
	{"cachestat", 451, false},
	{"fchmodat2", 452, false},
	{"map_shadow_stack", 453, false},
	{"futex_wake", 454, false},
	{"futex_wait", 455, false},
	{"futex_requeue", 456, false},
	{"statmount", 457, false},
	{"listmount", 458, false},
	{"lsm_get_self_attr", 459, false},
	{"lsm_set_self_attr", 460, false},
	{"lsm_list_modules", 461, false},
	{"mseal", 462, false},
	{"setxattrat", 463, false},
	{"getxattrat", 464, false},
	{"listxattrat", 465, false},
	{"removexattrat", 466, false},
	{"open_tree_attr", 467, false},
	{"file_getattr", 468, false},
	{"file_setattr", 469, false},
};

int syscall_number(const struct seccomp_arch *arch, const char *name)
{
	int number = seccomp_syscall_resolve_name_arch(arch->audit_arch, name);

	if (number >= 0)
		return number;
	for (size_t i = 0; i < sizeof recent_calls / sizeof *recent_calls; i++) {
		const struct recent_call *call = &recent_calls[i];

		if (strcmp(call->name, name) != 0)
			continue;
		if (call->x86_64_only && arch != &seccomp_arch_x86_64)
			return SYSCALL_ABSENT;
		return call->number;
	}
	/* Other negative numbers are the library's names for calls of other architectures. */
	return number == __NR_SCMP_ERROR ? SYSCALL_UNKNOWN : SYSCALL_ABSENT;
}

static const char *recent_name(const struct seccomp_arch *arch, int number)
{
	for (size_t i = 0; i < sizeof recent_calls / sizeof *recent_calls; i++)
		if (recent_calls[i].number == number &&
			(!recent_calls[i].x86_64_only || arch == &seccomp_arch_x86_64))
			return recent_calls[i].name;
	return NULL;
}

void syscall_name(const struct seccomp_arch *arch, int number, char ret[static SYSCALL_NAME_MAX])
{
	cleanup_free char *known = seccomp_syscall_resolve_num_arch(arch->audit_arch, number);
	const char *name = known ? known : recent_name(arch, number);

	if (name)
		snprintf(ret, SYSCALL_NAME_MAX, "%s", name);
	else
		snprintf(ret, SYSCALL_NAME_MAX, "system call %d", number);
}
