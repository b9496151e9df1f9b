/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_INSTALLING_H
#define NSBOX_CLI_INSTALLING_H

/* An install of packages that somebody waits for at the command line. */

#include <stdbool.h>

#include "packages/packages.h"

struct error;

struct installing {
	const char *whose; /* «python»: what is said is that packages of it are being installed */
	bool quiet;	   /* what a manager wrote that has failed is not passed on to standard error */
	int (*install)(void *data, const struct run_control *control, struct packages_report *ret, struct error *err);
	void *data;
};

/*
 * Calls `install` with a control that says on standard error what goes on where that takes long, and that a signal which
 * ends programs ends, and then this process. Returns what it returns; *ret is filled as by it, and is empty before.
 */
int installing_run(const struct installing *installing, struct packages_report *ret, struct error *err);

#endif
