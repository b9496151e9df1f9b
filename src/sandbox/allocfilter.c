/* SPDX-License-Identifier: MIT */
/* No space taken in advance: see allocfilter.h. */
#define _GNU_SOURCE
#include "sandbox/allocfilter.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

/*
 * The low half of the second argument is the mode: the kernel looks at no more. Calls of another kind of program, which
 * have other numbers, are refused by every profile.
 */
struct filter allocfilter(void)
{
	static const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return (struct filter){program, sizeof program / sizeof *program};
}
