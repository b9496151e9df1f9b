/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_FINISH_H
#define NSBOX_CLI_FINISH_H

/* How commands end that only ask and tell: each returns the exit status of nsbox. */

#include <jansson.h>

struct error;

/* Says on standard error what has failed. Returns EXIT_NSBOX_FAILED. */
int cli_fail(const struct error *err);

/* Returns `status` once standard output has all that was printed; else says why not, and returns EXIT_NSBOX_FAILED. */
int cli_finish(int status);

/* Prints it, for standard output alone. The value is taken over. */
int cli_print_text(const char *text);
int cli_print_json(json_t *value);

#endif
