/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_KEEPERS_H
#define NSBOX_SANDBOX_KEEPERS_H

/*
 * The commands of a session, any number at a time, seen from the agent.
 *
 * Each command has a *keeper*, a child of the agent that is the parent of the command and, as its subreaper, of
 * whatever the command leaves behind. So it is known of each process which command it belongs to, however often it
 * has forked: those below a keeper are its command's, and what is a child of the agent's and no keeper has lost its
 * keeper. When a command ends, is ended, or its keeper is killed by the code, all that it has started ends with it,
 * and nothing else.
 *
 * Work on files is done by a child as well (fileops.h), which needs no keeper.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct agent_exec;
struct agent_limits;
struct agent_message;
struct rusage;

enum { KEEPERS_MAX = 64 /* commands and work on files at a time */ };

/* Once, before the first. Returns 0, or -1 with errno. */
int keepers_init(void);

/*
 * Starts a command; its end, or why it was not started, comes from keepers_reaped. Returns the process id of its
 * keeper; 0: there is no room for another.
 */
pid_t keepers_start(uint32_t id, const struct agent_exec *exec, const struct agent_limits *limits);

/* Does work on files: see fileop_serve. */
bool keepers_serve_file(
	uint32_t id, const void *request, size_t length, int channel, const char *directory);

/* To the process group of a command that runs; else nothing. */
void keepers_signal(uint32_t id, int number);

/* Ends a command with all that it has started, or work on files. */
void keepers_end(uint32_t id);

/*
 * To be told of each child that has ended. Returns 1 with what is to be said of it, 0 when there is nothing to be
 * said, and -1 when processes of a command could not be ended, though they were killed again and again.
 */
int keepers_reaped(pid_t pid, int status, struct agent_message *ret);

#endif
