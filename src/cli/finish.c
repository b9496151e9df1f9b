/* SPDX-License-Identifier: MIT */
/* The ends of commands: see finish.h. */
#define _GNU_SOURCE
#include "cli/finish.h"

#include <stdio.h>

#include "cli/cli.h"
#include "report/report.h"
#include "util/error.h"

int cli_fail(const struct error *err)
{
	error_print(err);
	return EXIT_NSBOX_FAILED;
}

/* Writing to a full disk or a closed pipe fails only when the buffer is written. */
int cli_finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	perror("nsbox: writing to standard output");
	return EXIT_NSBOX_FAILED;
}

int cli_print_text(const char *text)
{
	fputs(text, stdout);
	return cli_finish(0);
}

int cli_print_json(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | REPORT_JSON_DUMP_FLAGS);
	json_decref(value);
	putchar('\n');
	return cli_finish(0);
}
