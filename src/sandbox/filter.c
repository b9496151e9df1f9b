/* SPDX-License-Identifier: MIT */
/* Classic BPF of seccomp filters: see filter.h. */
#define _GNU_SOURCE
#include "sandbox/filter.h"

#include <stdlib.h>
#include <string.h>
#include <linux/seccomp.h>

static bool instruction_is_valid(struct filter filter, size_t at)
{
	const struct sock_filter *i = &filter.instructions[at];
	size_t left = filter.length - at - 1; /* instructions after this one */

	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return i->k % sizeof(uint32_t) == 0 && i->k < sizeof(struct seccomp_data);
	case BPF_ALU | BPF_AND | BPF_K:
	case BPF_RET | BPF_K:
		return true;
	case BPF_JMP | BPF_JA:
		return i->k < left;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
		return i->jt < left && i->jf < left;
	default:
		return false;
	}
}

bool filter_is_valid(struct filter filter)
{
	if (filter.length == 0 || filter.length > BPF_MAXINSNS ||
		filter.instructions[filter.length - 1].code != (BPF_RET | BPF_K))
		return false;
	for (size_t at = 0; at < filter.length; at++)
		if (!instruction_is_valid(filter, at))
			return false;
	return true;
}

static bool jumps(const struct sock_filter *i, uint32_t a)
{
	switch (BPF_OP(i->code)) {
	case BPF_JEQ:
		return a == i->k;
	case BPF_JGT:
		return a > i->k;
	case BPF_JGE:
		return a >= i->k;
	default:
		return (a & i->k) != 0;
	}
}

uint32_t filter_run(struct filter filter, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t at = 0; at < filter.length; at++) {
		const struct sock_filter *i = &filter.instructions[at];

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
			memcpy(&a, (const char *)data + i->k, sizeof a);
			break;
		case BPF_ALU:
			a &= i->k;
			break;
		case BPF_JMP:
			if (BPF_OP(i->code) == BPF_JA)
				at += i->k;
			else
				at += jumps(i, a) ? i->jt : i->jf;
			break;
		default:
			return i->k;
		}
	}
	abort(); /* not valid */
}

/* The kernel's order: as signed numbers, the smaller action is the stricter. */
static int32_t laxness(uint32_t verdict)
{
	return (int32_t)(verdict & SECCOMP_RET_ACTION_FULL);
}

uint32_t filter_run_all(const struct filter *filters, size_t count, const struct seccomp_data *data)
{
	uint32_t strictest = SECCOMP_RET_ALLOW;

	for (size_t i = count; i-- > 0;) {
		uint32_t verdict = filter_run(filters[i], data);

		if (laxness(verdict) < laxness(strictest))
			strictest = verdict;
	}
	return strictest;
}
