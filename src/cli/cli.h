/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_CLI_H
#define NSBOX_CLI_CLI_H

/* The subcommands. Each takes its own argv (argv[0] is its name) and returns the exit status of nsbox. */

enum { EXIT_NSBOX_FAILED = 125 };

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_languages(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_images(int argc, char **argv);
int cmd_session(int argc, char **argv);
int cmd_mcp(int argc, char **argv);

#endif
