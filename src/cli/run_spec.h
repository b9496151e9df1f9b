/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_RUN_SPEC_H
#define NSBOX_CLI_RUN_SPEC_H

struct error;
struct run_options;

/*
 * What options (run_options_parse) ask for, into options->spec, ready to be run: the image, the commands with their
 * environment, the filters. Pulls and compiles where that is wanted.
 */
int run_build_spec(struct run_options *options, struct error *err);

#endif
