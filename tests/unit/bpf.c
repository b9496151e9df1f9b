/* SPDX-License-Identifier: MIT */
/* Classic BPF for tests: see bpf.h. Instructions that no filter of ours needs are invalid. */
#define _GNU_SOURCE
#include "bpf.h"

#include <stdlib.h>
#include <string.h>

static bool instruction_is_valid(const struct sock_filter *code, size_t length, size_t at)
{
	const struct sock_filter *i = &code[at];
	size_t left = length - at - 1; /* instructions after this one */

	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return i->k % 4 == 0 && i->k < sizeof(struct seccomp_data);
	case BPF_ALU | BPF_AND | BPF_K:
	case BPF_RET | BPF_K:
		return true;
	case BPF_JMP | BPF_JA:
		return i->k < left;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
		return i->jt < left && i->jf < left;
	default:
		return false;
	}
}

bool bpf_is_valid(const struct sock_filter *code, size_t length)
{
	if (length == 0 || length > BPF_MAXINSNS || code[length - 1].code != (BPF_RET | BPF_K))
		return false;
	for (size_t at = 0; at < length; at++)
		if (!instruction_is_valid(code, length, at))
			return false;
	return true;
}

uint32_t bpf_run(const struct sock_filter *code, size_t length, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < length; pc++) {
		const struct sock_filter *i = &code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + i->k, sizeof a);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			abort();
		}
	}
	abort();
}
