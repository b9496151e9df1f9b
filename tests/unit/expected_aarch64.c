/* SPDX-License-Identifier: MIT */
/*
 * What the default filter must say on aarch64: expected_calls.h with that architecture's numbers,
 * which are the generic ones, so that every machine can check them.
 */
#include "expected_calls.h"

#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>

static const struct expected_call calls[] = {
	EXPECTED_COMMON(EXPECTED_LINE) EXPECTED_RECENT(EXPECTED_RECENT_LINE)};

const struct expected_call *expected_calls_aarch64(size_t *ret_count)
{
	*ret_count = sizeof calls / sizeof *calls;
	return calls;
}
