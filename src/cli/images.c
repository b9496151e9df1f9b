/* SPDX-License-Identifier: MIT */
/* `nsbox pull` and `nsbox images`: what nsbox-image does. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "image/program.h"
#include "util/error.h"

int cmd_pull(int argc, char **argv)
{
	struct error err;

	(void)argc;
	image_program_execute(argv, &err);
	error_print(&err);
	return EXIT_NSBOX_FAILED;
}

int cmd_images(int argc, char **argv)
{
	struct error err;

	(void)argc;
	image_program_execute(argv + 1, &err);
	error_print(&err);
	return EXIT_NSBOX_FAILED;
}
