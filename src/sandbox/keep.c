/* SPDX-License-Identifier: MIT */
/* What a run leaves, kept for later: see keep.h. */
#define _GNU_SOURCE
#include "sandbox/keep.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/collect.h"
#include "sandbox/result.h"
#include "util/alloc.h"
#include "util/file.h"

struct keeping {
	struct run_result *result;
	bool (*stop)(void *data);
	void *stop_data;
};

static bool is_stopped(void *data)
{
	struct keeping *keeping = data;

	return keeping->stop(keeping->stop_data);
}

static bool is_full(void *data)
{
	return ((struct keeping *)data)->result->kept_files.count == RESULT_FILES_MAX;
}

static bool is_image(const struct run_result *result, const char *path)
{
	for (size_t i = 0; i < result->images_count; i++)
		if (strcmp(result->images[i].name, path) == 0)
			return true;
	return false;
}

/* One that does not fit, or whose disk is full, is left out; a smaller one may follow. */
static int keep_file(void *data, const char *path, const char *name, int from, const struct stat *st)
{
	struct keeping *keeping = data;
	struct result_files *files = &keeping->result->kept_files;
	uint64_t size = (uint64_t)st->st_size;

	if (is_image(keeping->result, path))
		return 0;
	if (files->fd <= 0)
		files->fd = open_unnamed();
	if (files->fd <= 0 || size > RESULT_FILES_BYTES_MAX - files->bytes ||
		collect_copy(from, files->fd, (off_t)files->bytes, st->st_size, is_stopped, keeping) < 0) {
		files->left_out++;
		return 0;
	}
	files->list[files->count++] =
		(struct result_file){.path = xstrdup(path), .offset = files->bytes, .size = size};
	files->bytes += size;
	return 0;
}

static void note_left_out(void *data, const char *path, const char *why, bool content)
{
	struct keeping *keeping = data;

	if (content && !is_image(keeping->result, path))
		keeping->result->kept_files.left_out++;
}

void keep_files(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, bool (*stop)(void *data), void *data,
	struct run_result *result)
{
	struct keeping keeping = {.result = result, .stop = stop, .stop_data = data};
	const struct collector collector = {
		.data = &keeping,
		.file = keep_file,
		.left_out = note_left_out,
		.full = is_full,
		.stop = is_stopped,
	};

	collect_files(spec, tmpfs, tmpfs_count, &collector);
}
