/* SPDX-License-Identifier: MIT */
/* Filters by name. The built-in ones were compiled when nsbox was built; profile_to_c.c prints the table. */
#define _GNU_SOURCE
#include "seccomp/profile.h"

#include <string.h>

#include "seccomp/builtin-filters.h"

const struct builtin_filter *builtin_filter_find(const char *name, bool tier2)
{
	for (size_t i = 0; i < sizeof builtin_filters / sizeof *builtin_filters; i++)
		if (builtin_filters[i].tier2 == tier2 && strcmp(builtin_filters[i].name, name) == 0)
			return &builtin_filters[i];
	return NULL;
}
