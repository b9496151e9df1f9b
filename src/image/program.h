/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_PROGRAM_H
#define NSBOX_IMAGE_PROGRAM_H

/* nsbox-image, the program that fetches and keeps images. */

#include <stdbool.h>
#include <sys/types.h>

struct error;

/* Becomes nsbox-image; argv[0] is the name of its command. Returns only when that fails. */
int image_program_execute(char **argv, struct error *err);

/*
 * The arguments of a pull of `image`, with the configuration file that was named, or none with `no_config`. Borrowed, and
 * terminated by NULL.
 */
enum { IMAGE_PULL_ARGV_MAX = 8 };
void image_pull_argv(const char *image, bool json, const char *config_file, bool no_config,
	char *ret[IMAGE_PULL_ARGV_MAX]);

/*
 * Starts it with these descriptors as its standard output and error. It ends (SIGTERM) when the thread that has called
 * this ends. Returns its process id, or -1.
 */
pid_t image_program_start(char **argv, int output, int errors, struct error *err);

/*
 * Runs it and waits. Its standard output is ours, or our standard error with `output_to_stderr`. Returns its exit
 * status, or -1, also where a signal ended it.
 */
int image_program_run(char **argv, int output_to_stderr, struct error *err);

#endif
