/* SPDX-License-Identifier: MIT */
/* The names in directories: see dirnames.h. */
#define _GNU_SOURCE
#include "util/dirnames.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"

int dirnames_add(struct dirnames *names, int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&fd);
		return -1;
	}
	while (errno = 0, (entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (names->count == names->room) {
			names->room = names->room ? 2 * names->room : 32;
			names->list = xrealloc(names->list, names->room, sizeof *names->list);
		}
		names->list[names->count++] = xstrdup(entry->d_name);
	}
	r = errno ? -1 : 0;
	closedir(stream);
	return r;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void dirnames_sort(struct dirnames *names)
{
	size_t kept = 0;

	/* qsort(3) takes no NULL, also for nothing. */
	if (names->count > 1)
		qsort(names->list, names->count, sizeof *names->list, compare);
	for (size_t i = 0; i < names->count; i++)
		if (kept > 0 && strcmp(names->list[kept - 1], names->list[i]) == 0)
			free(names->list[i]);
		else
			names->list[kept++] = names->list[i];
	names->count = kept;
}

void dirnames_free(struct dirnames *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct dirnames){0};
}
