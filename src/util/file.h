/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_FILE_H
#define NSBOX_UTIL_FILE_H

/* Whole files, and whole writes. All descriptors are opened O_CLOEXEC. */

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads a small file (of /proc, /sys or configuration) into `buffer`, cuts the trailing newline and
 * terminates it. Returns the length, or -1 with errno; EFBIG when it does not fit. dirfd as in openat.
 */
ssize_t read_small_file(int dirfd, const char *path, char *buffer, size_t size);

/* Writes `text` to an existing file in one write. Returns 0, or -1 with errno. */
int write_small_file(int dirfd, const char *path, const char *text);

/*
 * Reads until there are `size` bytes, or the end, going on after EINTR and short reads. Returns how many there are, or -1
 * with errno.
 */
ssize_t read_full(int fd, void *buffer, size_t size);

/* Reads until EOF. *ret is malloc'd and has a NUL after its *ret_length bytes. Fails with EFBIG above `max`. */
int read_fd_whole(int fd, size_t max, char **ret, size_t *ret_length);

/* Writes everything, going on after EINTR and short writes. Returns 0, or -1 with errno. */
int write_whole(int fd, const void *data, size_t length);

/*
 * A file for reading and writing that no directory has, so that nothing is left of it whatever happens: in $TMPDIR, or
 * /tmp. -1 with errno.
 */
int open_unnamed(void);

/* Raises the limit of files that this process may have open as far as it may; where it cannot be raised it stays. */
void take_descriptors(void);

#endif
