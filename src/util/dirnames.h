/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_DIRNAMES_H
#define NSBOX_UTIL_DIRNAMES_H

/* The names in directories. */

#include <stddef.h>

struct dirnames {
	char **list; /* each malloc'd */
	size_t count, room;
};

/* Adds the names in an open directory, but for «.» and «..». Returns 0, or -1 with errno; what was added stays. */
int dirnames_add(struct dirnames *names, int directory);

/* In the order of strcmp, each once. */
void dirnames_sort(struct dirnames *names);

void dirnames_free(struct dirnames *names);

#endif
