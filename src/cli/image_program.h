/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_IMAGE_PROGRAM_H
#define NSBOX_CLI_IMAGE_PROGRAM_H

/* nsbox-image, the program that fetches and keeps images. */

struct error;

/* Becomes nsbox-image; argv[0] is the name of its command. Returns only when that fails. */
int image_program_execute(char **argv, struct error *err);

/*
 * Runs it and waits. Its standard output is ours, or our standard error with `output_to_stderr`. Returns its exit
 * status, 128 + N for signal N, or -1.
 */
int image_program_run(char **argv, int output_to_stderr, struct error *err);

#endif
