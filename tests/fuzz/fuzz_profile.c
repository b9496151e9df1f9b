/* SPDX-License-Identifier: MIT */
/*
 * A seccomp profile. It is refused with a reason of one line that begins with its name, or makes filters that the
 * kernel would take: the one for hosts without a cgroup is never laxer, foreign numbers stay out whatever the
 * profile says, both interpreters agree, and joining it with another filter changes nothing but that errors are
 * asked about.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>

#include "fuzz/fuzz.h"
#include "sandbox/filter.h"
#include "seccomp/profile.h"
#include "seccomp/syscalls.h"
#include "unit/bpf.h"
#include "util/error.h"

enum { NUMBERS = 480, X32 = 0x40000000 };

static bool compile(const char *text, size_t size, bool tier2, struct bpf_program *ret)
{
	struct error err = {0};

	if (profile_compile(text, size, "FILE", tier2, ret, &err) == 0) {
		require(bpf_is_valid(ret->instructions, ret->length), "the kernel takes it");
		return true;
	}
	require(strncmp(err.text, "FILE", 4) == 0 && !strchr(err.text, '\n'),
		"an error is a line that names the file");
	return false;
}

static int32_t laxness(uint32_t verdict)
{
	return (int32_t)(verdict & SECCOMP_RET_ACTION_FULL);
}

static void check_verdicts(struct filter plain, struct filter tier2, struct filter joined)
{
	static const uint64_t values[] = {0, 1, 0x10000000, UINT64_MAX};

	for (int number = 0; number < NUMBERS; number++)
		for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
			struct seccomp_data call = {.nr = number, .arch = seccomp_arch_host->audit_arch,
				.args = {values[i], values[i], values[i]}};
			uint32_t verdict = filter_run(plain, &call);
			bool asked = laxness(verdict) == laxness(SECCOMP_RET_ERRNO) && (verdict & SECCOMP_RET_DATA);

			require(verdict == bpf_run(plain.instructions, plain.length, &call), "the interpreters agree");
			require(laxness(filter_run(tier2, &call)) <= laxness(verdict), "tier 2 is not laxer");
			require(filter_run(joined, &call) == (asked ? SECCOMP_RET_USER_NOTIF : verdict),
				"joined with one that allows all it is the same");
			call.arch ^= 1;
			require(filter_run(plain, &call) == SECCOMP_RET_KILL_PROCESS, "another architecture is killed");
			if (seccomp_arch_host != &seccomp_arch_x86_64)
				continue;
			call.arch ^= 1;
			call.nr |= X32;
			require(filter_run(plain, &call) == (SECCOMP_RET_ERRNO | ENOSYS), "x32 is as absent");
		}
}

static void check_profile(const char *text, size_t size)
{
	struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct bpf_program plain, tier2;
	struct filter joined, both[2] = {{NULL, 0}, {&pass, 1}};
	struct error err;

	if (!compile(text, size, false, &plain))
		return;
	require(compile(text, size, true, &tier2), "what is right once is right twice");
	both[0] = (struct filter){plain.instructions, plain.length};
	require(filter_is_valid(both[0]), "the filter is valid");
	if (filter_join(both, 2, &joined, &err) == 0) {
		require(bpf_is_valid(joined.instructions, joined.length), "the kernel takes the joined filter");
		check_verdicts(both[0], (struct filter){tier2.instructions, tier2.length}, joined);
		free((void *)joined.instructions);
	}
	free(plain.instructions);
	free(tier2.instructions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = to_string(data, size);

	check_profile(text, size);
	free(text);
	return 0;
}
