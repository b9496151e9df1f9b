/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SECCOMP_CODEGEN_H
#define NSBOX_SECCOMP_CODEGEN_H

/*
 * Rules → classic BPF.
 *
 * A rule gives a verdict on one system call when all its conditions hold. Of several rules of a
 * call that hold, the strictest verdict wins, as the kernel has it between several filters; of
 * equally strict ones the first. Where none holds, the default verdict. So a rule that is added can
 * only ever refuse more, wherever in a profile it stands, unless the call was not spoken of before.
 */

#include <stddef.h>
#include <stdint.h>

struct error;
struct bpf_program;
struct seccomp_arch;

enum { SECCOMP_ARGUMENTS = 6 };

enum comparison {
	COMPARE_EQ,
	COMPARE_NE,
	COMPARE_LT,
	COMPARE_LE,
	COMPARE_GT,
	COMPARE_GE,
	COMPARE_MASKED_EQ, /* (argument & mask) == value */
};

/* On one argument, as an unsigned 64-bit number. */
struct condition {
	unsigned index; /* of the argument, below SECCOMP_ARGUMENTS */
	enum comparison comparison;
	uint64_t value;
	uint64_t mask; /* of COMPARE_MASKED_EQ */
};

struct rule {
	unsigned number;  /* of the system call */
	uint32_t verdict; /* SECCOMP_RET_* with its data */
	size_t order;	  /* set by ruleset_add */
	size_t condition_count;
	struct condition conditions[SECCOMP_ARGUMENTS];
};

struct ruleset {
	const struct seccomp_arch *arch;
	uint32_t default_verdict;
	struct rule *rules; /* owned: ruleset_free() */
	size_t count, capacity;
};

/* Appends a copy of *rule. */
void ruleset_add(struct ruleset *set, const struct rule *rule);
void ruleset_free(struct ruleset *set);

/*
 * Makes the filter; sorts the rules of *set. Calls of another architecture kill the process; those
 * of another ABI of this architecture (x32) fail with ENOSYS whatever the default. Fails when the
 * filter is longer than the kernel takes. ret->instructions is the caller's: free().
 */
int codegen(struct ruleset *set, struct bpf_program *ret, struct error *err);

#endif
