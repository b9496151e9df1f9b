/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_FUZZ_FUZZ_H
#define NSBOX_TESTS_FUZZ_FUZZ_H

/* What the fuzz targets share: an input that is taken from piece by piece, and requirements. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "not so: %s\n", what);
	abort();
}

struct input {
	const uint8_t *data;
	size_t left;
};

/* The next byte, or 0 at the end. */
static inline uint8_t take_byte(struct input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->data++;
}

/* Up to `size` bytes of what is left. Returns how many. */
static inline size_t take_bytes(struct input *input, void *to, size_t size)
{
	size_t length = size < input->left ? size : input->left;

	if (length > 0)
		memcpy(to, input->data, length);
	input->data += length;
	input->left -= length;
	return length;
}

/* A copy as a string, exactly as large as it must be, for a sanitizer to see what reads past it. */
static inline char *to_string(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	require(text != NULL, "there is memory");
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* An unlinked file with that content; its descriptor is the caller's. */
static inline int to_file(const void *data, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	require(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size), "a file can be written");
	return fd;
}

/* The number of the next descriptor: the same before and after what leaks none. */
static inline int next_descriptor(void)
{
	int fd = dup(2);

	close(fd);
	return fd;
}

#endif
