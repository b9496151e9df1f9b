/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_COLLECT_H
#define NSBOX_SANDBOX_COLLECT_H

/*
 * What a run leaves in its working directory, read by the supervisor.
 *
 * It happens when every process of the sandbox is dead, so that it can be done whatever ended them, and only on the
 * sandbox's own tmpfs, by a descriptor from before foreign code ran: names are resolved beneath it, without links and
 * without crossing into another mount, and only regular files are opened, without waiting. So what the code left
 * there, however named or linked, can neither lead to a file of the host nor make the supervisor wait. A process of
 * another sandbox, which was sent a descriptor through a socket in a directory that both had bound, can still change
 * it meanwhile: each is looked at once, by the descriptor that is then read.
 *
 * In a root of its own (a directory's, an image's) what is there is the upper layer: what was made and changed, without
 * what the root had before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct stat;
struct run_result;
struct spec;

/*
 * Appends to result->images the PNG, JPEG, GIF and WebP files of the last command's working directory
 * that the spec did not put there, in the order of their names: at most RESULT_IMAGES_MAX of them,
 * RESULT_IMAGE_BYTES_MAX bytes each and RESULT_IMAGES_BYTES_MAX in all; result->images_left_out counts the others. `tmpfs`
 * are descriptors of every tmpfs that the sandbox can write: first the one that is its writable space, then those of
 * spec->mounts in their order.
 */
void collect_images(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, struct run_result *result);

enum {
	COLLECT_DEPTH_MAX = 128, /* directories in each other */
	COLLECT_PATH_MAX = 4096, /* with the NUL */
};

/*
 * Who is shown what is there. Directories come before what is in them, the names of each in the order of strcmp; the
 * functions return -1 to end it. `path` is relative to the working directory, `name` its last part: one to 255 bytes
 * without slashes, neither «.» nor «..».
 */
struct collector {
	void *data;
	/* 1: passes over what is in it, and it is not left. Or NULL. */
	int (*directory)(void *data, const char *path, const char *name, unsigned mode);
	int (*leave)(void *data); /* the directory last entered; or NULL */
	/* A regular file, open for reading from its beginning; `st` is of fstat(2). */
	int (*file)(void *data, const char *path, const char *name, int fd, const struct stat *st);
	/* A symbolic link that leads nowhere but to names in the working directory; or NULL: they are passed over. */
	int (*link)(void *data, const char *path, const char *name, const char *target);
	/*
	 * Everything else, with the reason as words; `content`: what is missing by it may be content, as of a file that
	 * cannot be read. The working directory itself is «.».
	 */
	void (*left_out)(void *data, const char *path, const char *why, bool content);
	bool (*full)(void *data); /* no file is wanted any more: they are left out, and not opened; or NULL */
	bool (*stop)(void *data); /* asked before each name; or NULL */
};

/*
 * Shows all that the last command's working directory has, but for files of the spec that are as they were and for what
 * other mounts of the spec have there. Returns 0, or -1 where the collector ended it.
 */
int collect_files(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, const struct collector *collector);

/*
 * Copies `size` bytes of a file that the collector was shown to `to`, from the offset `at` on, which becomes that much
 * longer by it; holes become holes. Returns 0, or -1 with errno, which is ECANCELED where `stop` (may be NULL) says so.
 */
int collect_copy(int from, int to, off_t at, off_t size, bool (*stop)(void *data), void *data);

/*
 * Whether what is left in the last command's working directory can be found afterwards: not where that is a directory
 * of the host, or the root, or where the names that lead there are links. To be asked before the run.
 */
int collect_check(const struct spec *spec, struct error *err);

/* The MIME type of an image that begins with these bytes, or NULL: by its magic number, not by its name. */
const char *image_type(const void *data, unsigned long length);

#endif
