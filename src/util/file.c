/* SPDX-License-Identifier: MIT */
/* Whole files, and whole writes: see file.h. */
#define _GNU_SOURCE
#include "util/file.h"

#include <stdio.h>
#include <limits.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/cleanup.h"

ssize_t read_full(int fd, void *buffer, size_t size)
{
	size_t length = 0;

	while (length < size) {
		ssize_t n = read(fd, (char *)buffer + length, size - length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

ssize_t read_small_file(int dirfd, const char *path, char *buffer, size_t size)
{
	cleanup_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : read_full(fd, buffer, size);

	if (length < 0)
		return -1;
	if ((size_t)length == size) {
		errno = EFBIG;
		return -1;
	}
	if (length > 0 && buffer[length - 1] == '\n')
		length--;
	buffer[length] = '\0';
	return length;
}

int write_small_file(int dirfd, const char *path, const char *text)
{
	cleanup_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t length = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -1;
	do
		n = write(fd, text, length);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && (size_t)n != length) {
		errno = EIO;
		return -1;
	}
	return n < 0 ? -1 : 0;
}

int read_fd_whole(int fd, size_t max, char **ret, size_t *ret_length)
{
	size_t length = 0, size = 4096;
	char *data = malloc(size);

	if (!data)
		return -1;
	for (;;) {
		ssize_t n = read(fd, data + length, size - length - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		length += (size_t)n;
		if (length > max) {
			errno = EFBIG;
			break;
		}
		if (n == 0) {
			data[length] = '\0';
			*ret = data;
			*ret_length = length;
			return 0;
		}
		if (length == size - 1) {
			char *grown = realloc(data, size * 2);

			if (!grown)
				break;
			data = grown;
			size *= 2;
		}
	}
	free(data);
	return -1;
}

int write_whole(int fd, const void *data, size_t length)
{
	const char *next = data;

	while (length > 0) {
		ssize_t n = write(fd, next, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

int open_unnamed(void)
{
	const char *named = getenv("TMPDIR"), *directory = named && *named ? named : "/tmp";
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char path[PATH_MAX];

	/* Some file systems have none without a name. */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	if (snprintf(path, sizeof path, "%s/nsbox-XXXXXX", directory) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

void take_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}
