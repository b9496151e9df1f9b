/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_PROCESSES_H
#define NSBOX_SANDBOX_PROCESSES_H

/*
 * The processes of the sandbox, as its own /proc shows them to the agent. Neither malloc nor stdio: the agent has none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROCESSES_MAX = 8192 /* that are looked at; more than any limit that makes sense lets be */ };

struct process {
	pid_t pid, parent;
	char state;    /* of its first thread, as proc(5) has it */
	bool unexecuted; /* forked, and has not executed anything yet */
	int threads;
	/* for whoever looks: */
	bool kept, looked;
	int depth;
};

struct processes {
	struct process list[PROCESSES_MAX]; /* all but pid 1 and those that have ended, by ascending pid */
	size_t count;
	bool more; /* there are others */
};

/* Lists them anew. */
void processes_list(struct processes *processes);

/* NULL: it is not in the list. */
struct process *processes_find(struct processes *processes, pid_t pid);

/* The states of all threads of a process, at most `room`, from proc(5); their number, 0 where it has ended meanwhile. */
size_t processes_thread_states(pid_t pid, char *ret_states, size_t room);

#endif
