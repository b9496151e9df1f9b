/* SPDX-License-Identifier: MIT */
/* Classic BPF of seccomp filters: see filter.h. */
#define _GNU_SOURCE
#include "sandbox/filter.h"

#include <stdlib.h>
#include <string.h>
#include <linux/seccomp.h>

#include "util/alloc.h"
#include "util/error.h"

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

/* --- one of several --- */

struct joined {
	struct sock_filter *code; /* BPF_MAXINSNS of them */
	size_t length;
	bool overflowed;
};

static bool is_return(const struct sock_filter *i)
{
	return i->code == (BPF_RET | BPF_K);
}

static bool is_lax(uint32_t verdict)
{
	return laxness(verdict) > laxness(SECCOMP_RET_ERRNO);
}

static void append(struct joined *to, struct sock_filter instruction)
{
	if (to->length == BPF_MAXINSNS)
		to->overflowed = true;
	else
		to->code[to->length++] = instruction;
}

/* `filter`, in which what is laxer than `verdict` has become that. */
static void append_bounded(struct joined *to, struct filter filter, uint32_t verdict)
{
	for (size_t at = 0; at < filter.length; at++) {
		struct sock_filter i = filter.instructions[at];

		if (is_return(&i) && laxness(i.k) > laxness(verdict))
			i.k = verdict;
		append(to, i);
	}
}

/*
 * Where `first` lets a call pass, the return becomes a jump to a copy of `rest`, one for each way of passing. A
 * jump without condition reaches as far as it must.
 */
static void join_two(struct joined *to, struct filter first, struct filter rest)
{
	append_bounded(to, first, SECCOMP_RET_ALLOW);
	for (size_t at = 0; at < first.length && !to->overflowed; at++) {
		uint32_t verdict = first.instructions[at].k;
		size_t copy = to->length;

		if (!is_return(&to->code[at]) || !is_lax(verdict))
			continue;
		append_bounded(to, rest, verdict);
		for (size_t same = at; same < first.length; same++)
			if (is_return(&to->code[same]) && to->code[same].k == verdict)
				to->code[same] = (struct sock_filter)BPF_STMT(
					BPF_JMP | BPF_JA, (uint32_t)(copy - same - 1));
	}
}

static void notify_errors(struct joined *joined)
{
	for (size_t at = 0; at < joined->length; at++) {
		struct sock_filter *i = &joined->code[at];

		/* Errno 0 is no refusal: the call is answered with success, and nothing is done. */
		if (is_return(i) && (i->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO &&
			(i->k & SECCOMP_RET_DATA) != 0)
			i->k = SECCOMP_RET_USER_NOTIF;
	}
}

int filter_join(const struct filter *filters, size_t count, struct filter *ret, struct error *err)
{
	struct joined joined = {xcalloc(BPF_MAXINSNS, sizeof *joined.code), 0, false};

	append_bounded(&joined, filters[count - 1], SECCOMP_RET_ALLOW);
	for (size_t i = count - 1; i-- > 0;) {
		struct joined both = {
			xcalloc(BPF_MAXINSNS, sizeof *both.code), 0, joined.overflowed};

		join_two(&both, filters[i], (struct filter){joined.code, joined.length});
		free(joined.code);
		joined = both;
	}
	if (joined.overflowed) {
		free(joined.code);
		return error_set(err, 0,
			"the filters together are longer than the %d instructions that the kernel takes",
			BPF_MAXINSNS);
	}
	notify_errors(&joined);
	*ret = (struct filter){joined.code, joined.length};
	return 0;
}
