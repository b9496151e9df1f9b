/* SPDX-License-Identifier: MIT */
/*
 * A seccomp profile. What compiles is a program that the kernel would take and that gives a verdict on any
 * call; an error names the file.
 */
#define _GNU_SOURCE
#include <linux/audit.h>

#include "fuzz/fuzz.h"
#include "seccomp/profile.h"
#include "unit/bpf.h"
#include "util/error.h"

static void check_filter(const struct bpf_program *program)
{
	static const uint64_t arguments[] = {0, 1, UINT32_MAX, 1ull << 32, UINT64_MAX};
	struct seccomp_data call = {.arch = AUDIT_ARCH_X86_64};

	require(program->length <= BPF_MAXINSNS, "the kernel takes so many instructions");
	require(bpf_is_valid(program->instructions, program->length), "and each of them");
	for (int number = -1; number < 600; number += 7)
		for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
			call.nr = number;
			for (int argument = 0; argument < 6; argument++)
				call.args[argument] = arguments[(i + (size_t)argument) % 5];
			bpf_run(program->instructions, program->length, &call);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bpf_program program = {0};
	struct error err = {0};
	char *text = to_string(data, size);

	if (profile_compile(text, size, "FILE", size % 2, &program, &err) == 0) {
		check_filter(&program);
		free(program.instructions);
	} else {
		require(strncmp(err.text, "FILE", 4) == 0 && !strchr(err.text, '\n'),
			"an error is a line that names the file");
	}
	free(text);
	return 0;
}
