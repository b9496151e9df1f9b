/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_SNAPSHOTS_H
#define NSBOX_CLI_SESSION_SNAPSHOTS_H

/* nsbox session snapshot, snapshots, fork and restore: argv[0] is the command. Each returns the exit status. */
int command_snapshot(int argc, char **argv);
int command_snapshots(int argc, char **argv);
int command_fork(int argc, char **argv);
int command_restore(int argc, char **argv);

#endif
