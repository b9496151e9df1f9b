/* SPDX-License-Identifier: MIT */
/* Filters by name. The built-in ones were compiled when nsbox was built; profile_to_c.c prints the table. */
#define _GNU_SOURCE
#include "seccomp/profile.h"

#include <string.h>

#include "seccomp/builtin-filters.h"
#include "util/alloc.h"
#include "util/error.h"

const struct builtin_filter *builtin_filter_find(const char *name, bool tier2)
{
	for (size_t i = 0; i < sizeof builtin_filters / sizeof *builtin_filters; i++)
		if (builtin_filters[i].tier2 == tier2 && strcmp(builtin_filters[i].name, name) == 0)
			return &builtin_filters[i];
	return NULL;
}

int filter_load(const char *name, bool tier2, struct bpf_program *ret, struct error *err)
{
	const struct builtin_filter *filter = builtin_filter_find(name, tier2);

	if (strcmp(name, "unconfined") == 0) {
		*ret = (struct bpf_program){NULL, 0};
		return 0;
	}
	if (!filter && !strchr(name, '/'))
		return error_set(err, 0, "there is no built-in seccomp profile \"%s\"", name);
	if (!filter)
		return profile_compile_file(name, tier2, ret, err);
	ret->instructions =
		xmemdup(filter->instructions, filter->length * sizeof *filter->instructions);
	ret->length = filter->length;
	return 0;
}
