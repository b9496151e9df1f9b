/* SPDX-License-Identifier: MIT */
/*
 * Build tool: compiles seccomp profiles and prints them as the C tables that builtin.c is made of,
 * so that nsbox needs no JSON and no compiler to load one. Usage: profile-to-c PROFILE.json…
 */
#define _GNU_SOURCE
#include "seccomp/profile.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_program(const struct bpf_program *program, int index, bool tier2)
{
	printf("\nstatic const struct sock_filter filter_%d_tier%d[] = {\n", index, tier2 ? 2 : 1);
	for (size_t i = 0; i < program->length; i++) {
		const struct sock_filter *instruction = &program->instructions[i];

		printf("\t{0x%02x, %u, %u, 0x%08x},\n", instruction->code, instruction->jt,
			instruction->jf, instruction->k);
	}
	printf("};\n");
}

static int print_profile(const char *path, int index)
{
	for (int tier2 = 0; tier2 <= 1; tier2++) {
		struct bpf_program program;
		struct error err;

		if (profile_compile_file(path, tier2, &program, &err) < 0) {
			fprintf(stderr, "profile-to-c: %s\n", err.text);
			return -1;
		}
		print_program(&program, index, tier2);
		free(program.instructions);
	}
	return 0;
}

/* The name of a profile is that of its file, without directory and suffix. */
static void print_table_line(const char *path, int index, int tier)
{
	const char *base = basename(path);
	int length = (int)strcspn(base, ".");

	printf("\t{\"%.*s\", %s, filter_%d_tier%d, ", length, base, tier == 2 ? "true" : "false",
		index, tier);
	printf("sizeof filter_%d_tier%d / sizeof(struct sock_filter)},\n", index, tier);
}

int main(int argc, char **argv)
{
	printf("/* Made by profile-to-c from seccomp-profiles: do not edit. */\n");
	for (int i = 1; i < argc; i++)
		if (print_profile(argv[i], i) < 0)
			return 1;
	printf("\nstatic const struct builtin_filter builtin_filters[] = {\n");
	for (int i = 1; i < argc; i++) {
		print_table_line(argv[i], i, 1);
		print_table_line(argv[i], i, 2);
	}
	printf("};\n");
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
