/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_CHECK_INSIDE_H
#define NSBOX_CLI_CHECK_INSIDE_H

/* `nsbox check --inside` and `--here`. Both print what doctor/inner.h finds, and return the exit status. */

#include <stdbool.h>

int check_here(bool json);

/* `run_options`: options of nsbox run, NULL-terminated. `rootfs` may be NULL. */
int check_inside(bool json, const char *rootfs, char **run_options);

#endif
