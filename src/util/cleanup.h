/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_CLEANUP_H
#define NSBOX_UTIL_CLEANUP_H

/*
 * Scope-bound release of memory and descriptors. A variable declared `cleanup_close int fd = -1;` is
 * closed when it goes out of scope, unless it was handed over with `move_fd(&fd)`.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_function(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close_function(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose_function(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define cleanup_free __attribute__((cleanup(cleanup_free_function)))
#define cleanup_close __attribute__((cleanup(cleanup_close_function)))
#define cleanup_fclose __attribute__((cleanup(cleanup_fclose_function)))

/* Hands the descriptor over to the caller of this function; *fd becomes -1. */
static inline int move_fd(int *fd)
{
	int moved = *fd;

	*fd = -1;
	return moved;
}

/* Closes *fd where it is open, and makes it -1. */
static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
