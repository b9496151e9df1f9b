/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_COMMAND_H
#define NSBOX_SANDBOX_COMMAND_H

/* Starting a command inside the sandbox, in a child that shares the starter's memory until it executes. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct agent_exec;
struct agent_limits;

struct command_failure {
	int errnum;     /* 0: executed */
	bool executing; /* what failed was execve */
	struct error error;
};

/*
 * Where others than its starter reach a command, in memory that they share with it: its process id, from when it has a
 * process group of its own. That is before it executes, and before the starter knows; signals that were asked for even
 * earlier are kept for it.
 */
struct command_contact {
	_Atomic pid_t pid;	   /* 0: not yet */
	_Atomic uint64_t signals; /* bit N - 1: N is to be sent */
};

/* To the process group of the command, at once or when there is one. */
void command_signal(struct command_contact *contact, int number);

/*
 * Returns the process id of the command once it is executed, or -1 with *ret. Where it failed after the process was
 * made, that is left to be reaped. Closes the descriptors of `exec`. Uses neither malloc nor stdio.
 */
pid_t command_start(const struct agent_exec *exec, const struct agent_limits *limits,
	struct command_failure *ret);

#endif
