/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail: linked into an nsbox of its own with ld's --wrap, for the allocations of our own code and
 * of the libraries that are linked statically. Which one fails is said in alloc.h.
 */
#define _GNU_SOURCE
#include "alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

static struct alloc_plan *plan;

static __attribute__((constructor)) void open_plan(void)
{
	const char *path = getenv(ALLOC_PLAN_VARIABLE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (plan == MAP_FAILED)
		plan = NULL;
	close(fd);
}

static bool fails(void)
{
	if (!plan || __atomic_add_fetch(&plan->made, 1, __ATOMIC_RELAXED) != plan->fail)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails() ? NULL : __real_strndup(text, length);
}
