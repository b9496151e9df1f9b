/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_RUN_SPEC_H
#define NSBOX_CLI_RUN_SPEC_H

#include <stddef.h>

struct error;
struct run_options;

/*
 * What options (run_options_parse) ask for, into options->spec, ready to be run: the image, the commands with their
 * environment, the filters. Pulls and compiles where that is wanted.
 */
int run_build_spec(struct run_options *options, struct error *err);

/* Reads code from a file, or from standard input («-»), which is then used up. *ret is malloc'd, of at most 16 MiB. */
int run_read_code(const char *file, char **ret, size_t *ret_length, struct error *err);

#endif
