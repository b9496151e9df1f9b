/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_COMMIT_H
#define NSBOX_CLI_SESSION_COMMIT_H

/* nsbox session commit: argv[0] is the command. Returns the exit status. */
int command_commit(int argc, char **argv);

#endif
