/* SPDX-License-Identifier: MIT */
/* What the default filter must say on x86-64: expected_calls.h with this architecture's numbers. */
#include "expected_calls.h"

#ifdef __x86_64__
#include <asm/unistd.h>

/* clang-format off */
static const struct expected_call calls[] = {
	EXPECTED_COMMON(EXPECTED_LINE)
	EXPECTED_X86_64(EXPECTED_LINE)
	EXPECTED_RECENT(EXPECTED_RECENT_LINE)
	{335, EXPECT_ALLOW, "uretprobe"},
	{336, EXPECT_ALLOW, "uprobe"},
};
/* clang-format on */

const struct expected_call *expected_calls_x86_64(size_t *ret_count)
{
	*ret_count = sizeof calls / sizeof *calls;
	return calls;
}
#else
const struct expected_call *expected_calls_x86_64(size_t *ret_count)
{
	*ret_count = 0;
	return NULL;
}
#endif
