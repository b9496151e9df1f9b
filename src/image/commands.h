/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_COMMANDS_H
#define NSBOX_IMAGE_COMMANDS_H

/* The commands of nsbox-image. Each takes its own argv (argv[0] is its name) and returns the exit status. */

#include <stdbool.h>

struct error;
struct install;

enum { EXIT_FAILED = 125 };

int command_pull(int argc, char **argv);
int command_import(int argc, char **argv);
int command_export(int argc, char **argv);
int command_commit(int argc, char **argv);
int command_ls(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_rm(int argc, char **argv);
int command_prune(int argc, char **argv);

/* An option that getopt_long has refused: an error that says which, and whose --help to see. Returns -1. */
int refuse_option(char **argv, const char *command, struct error *err);

/* Prints the error; returns EXIT_FAILED. */
int failed(const struct error *err);

/* How an installation is shown. */
enum progress_style {
	PROGRESS_NONE,
	PROGRESS_LINES, /* a line when a layer is done */
	PROGRESS_BARS,  /* on a terminal: a line a layer, redrawn */
	PROGRESS_JSON,  /* an object a line, on standard output */
};

/* Bars on a terminal, else lines; on standard error. */
enum progress_style progress_style_for(bool quiet, bool json);

/* For struct install's progress; `data` points to the style. */
void progress_show(void *data, const struct install *install);

/* «12.3 MiB» */
enum { BYTES_TEXT_MAX = 16 };
const char *bytes_text(unsigned long long bytes, char buffer[BYTES_TEXT_MAX]);

#endif
