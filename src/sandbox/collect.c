/* SPDX-License-Identifier: MIT */
/* What a run leaves in its working directory: see collect.h. */
#define _GNU_SOURCE
#include "sandbox/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "sandbox/result.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"

enum { MAGIC_BYTES = 12, ENTRIES_MAX = 10000 };

const char *image_type(const void *data, unsigned long length)
{
	static const struct {
		const char *magic;
		size_t length;
		const char *type;
	} types[] = {
		{"\x89PNG\r\n\x1a\n", 8, "image/png"},
		{"\xff\xd8\xff", 3, "image/jpeg"},
		{"GIF87a", 6, "image/gif"},
		{"GIF89a", 6, "image/gif"},
	};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (length >= types[i].length && memcmp(data, types[i].magic, types[i].length) == 0)
			return types[i].type;
	if (length >= 12 && memcmp(data, "RIFF", 4) == 0 &&
		memcmp((const char *)data + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}

static const char *working_directory(const struct spec *spec)
{
	const char *cwd = spec->execs[spec->execs_count - 1].cwd;

	return cwd ? cwd : spec->root == ROOT_HOST ? "/workspace" : "/";
}

static int open_beneath(int dirfd, const char *path, int flags)
{
	while (*path == '/')
		path++;
	return open_in_root(
		dirfd, *path ? path : ".", flags, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static bool is_input(const struct spec *spec, const char *directory, const char *name)
{
	size_t length = strlen(directory);

	for (size_t i = 0; i < spec->files_count; i++) {
		const char *path = spec->files[i].path;

		if (strncmp(path, directory, length) == 0 &&
			strcmp(path + length + strspn(path + length, "/"), name) == 0)
			return true;
	}
	return false;
}

/* Reads an image whole. Returns false where it is none, or too large (then *ret_too_large). */
static bool read_image(
	int directory, const char *name, struct result_image *ret, bool *ret_too_large)
{
	cleanup_close int fd = open_beneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	uint8_t magic[MAGIC_BYTES];
	struct stat st;
	ssize_t n;

	*ret_too_large = false;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	n = pread(fd, magic, sizeof magic, 0);
	ret->type = n > 0 ? image_type(magic, (unsigned long)n) : NULL;
	if (!ret->type)
		return false;
	if (st.st_size > RESULT_IMAGE_BYTES_MAX) {
		*ret_too_large = true;
		return false;
	}
	ret->length = (size_t)st.st_size;
	ret->data = malloc(ret->length);
	ret->name = strdup(name);
	if (ret->data && ret->name && pread(fd, ret->data, ret->length, 0) == st.st_size)
		return true;
	free(ret->data);
	free(ret->name);
	return false;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted; at most ENTRIES_MAX. Returns their number; the caller frees all. */
static size_t list(int directory, char ***ret)
{
	int fd = open_beneath(directory, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	size_t count = 0;
	struct dirent *entry;

	*ret = calloc(ENTRIES_MAX, sizeof **ret);
	if (!dir && fd >= 0)
		close(fd);
	while (dir && *ret && count < ENTRIES_MAX && (entry = readdir(dir))) {
		if (entry->d_type != DT_REG)
			continue;
		(*ret)[count] = strdup(entry->d_name);
		if (!(*ret)[count])
			break;
		count++;
	}
	if (dir)
		closedir(dir);
	if (count > 0)
		qsort(*ret, count, sizeof **ret, compare_names);
	return count;
}

static void take_image(int directory, const char *name, struct run_result *result)
{
	struct result_image image;
	size_t total;
	bool too_large;

	if (!read_image(directory, name, &image, &too_large)) {
		result->images_left_out += too_large;
		return;
	}
	total = image.length;
	for (size_t i = 0; i < result->images_count; i++)
		total += result->images[i].length;
	if (result->images_count < RESULT_IMAGES_MAX && total <= RESULT_IMAGES_BYTES_MAX) {
		result->images[result->images_count++] = image;
		return;
	}
	free(image.data);
	free(image.name);
	result->images_left_out++;
}

void collect_images(const struct spec *spec, int scratch, struct run_result *result)
{
	const char *cwd = working_directory(spec);
	cleanup_close int top = open_beneath(
		scratch, spec->root == ROOT_HOST ? "." : "upper", O_PATH | O_DIRECTORY);
	cleanup_close int directory = top < 0 ? -1 : open_beneath(top, cwd, O_PATH | O_DIRECTORY);
	char **names = NULL;
	size_t count = directory < 0 ? 0 : list(directory, &names);

	for (size_t i = 0; i < count; i++) {
		if (!is_input(spec, cwd, names[i]))
			take_image(directory, names[i], result);
		free(names[i]);
	}
	free(names);
}
