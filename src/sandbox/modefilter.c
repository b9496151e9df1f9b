/* SPDX-License-Identifier: MIT */
/* No set-user-ID files in a directory of the host: see modefilter.h. */
#define _GNU_SOURCE
#include "sandbox/modefilter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6, on every architecture */
#endif

enum { X32_BIT = 0x40000000, PROGRAM_MAX = 96, NONE = -1 };

#if defined __x86_64__
enum { NATIVE = AUDIT_ARCH_X86_64 };
#elif defined __aarch64__
enum { NATIVE = AUDIT_ARCH_AARCH64 };
#endif

/* A call, and which of its arguments is the mode; with `flags`, the mode counts only where these make a file. */
static const struct call {
	long number;
	int flags, mode;
} calls[] = {
#ifdef SYS_chmod
	{SYS_chmod, NONE, 1},
	{SYS_creat, NONE, 1},
	{SYS_mknod, NONE, 1},
	{SYS_open, 1, 2},
#endif
	{SYS_fchmod, NONE, 1},
	{SYS_fchmodat, NONE, 2},
	{SYS_fchmodat2, NONE, 2},
	{SYS_mknodat, NONE, 2},
	{SYS_openat, 2, 3},
};

struct program {
	struct sock_filter instructions[PROGRAM_MAX];
	unsigned short length;
};

static void add(struct program *program, unsigned short code, unsigned value, unsigned char if_true,
	unsigned char if_false)
{
	program->instructions[program->length++] =
		(struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = value};
}

static void answer(struct program *program, unsigned value)
{
	add(program, BPF_RET | BPF_K, value, 0, 0);
}

/* The low half of an argument: a mode and flags are ints, and the kernel looks at no more. */
static void load_argument(struct program *program, int argument)
{
	add(program, BPF_LD | BPF_W | BPF_ABS,
		(unsigned)(offsetof(struct seccomp_data, args) + 8 * (size_t)argument), 0, 0);
}

/* Falls through to the next call when the number is another. */
static void add_call(struct program *program, const struct call *call)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call->number, 0,
		call->flags == NONE ? 4 : 6);
	if (call->flags != NONE) {
		load_argument(program, call->flags);
		add(program, BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0,
			3);
	}
	load_argument(program, call->mode);
	add(program, BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1);
	answer(program, SECCOMP_RET_ERRNO | EPERM);
	answer(program, SECCOMP_RET_ALLOW);
}

struct filter modefilter(void)
{
	static struct program program;

	program.length = 0;
	/* Calls of another kind of program have other numbers. */
	add(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	add(&program, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)NATIVE, 1, 0);
	answer(&program, SECCOMP_RET_ERRNO | ENOSYS);
	add(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	add(&program, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	answer(&program, SECCOMP_RET_ERRNO | ENOSYS);
	add(&program, BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1);
	answer(&program, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		add_call(&program, &calls[i]);
	answer(&program, SECCOMP_RET_ALLOW);
	return (struct filter){program.instructions, program.length};
}
