/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_SANDBOX_H
#define NSBOX_SANDBOX_SANDBOX_H

/*
 * A whole run: create the sandbox of a spec, execute its commands one after the other, destroy it.
 */

#include "sandbox/result.h"
#include "sandbox/spec.h"

struct output;

/* What else can end a run while a command of it runs. */
struct run_watch {
	/*
	 * Looks. Returns ENDED_BY_MAX to go on, with the time of the next look (CLOCK_MONOTONIC) in *ret_next_us; else how
	 * the command ends, with the limit that it met added to *exec. `proc_fd`: the sandbox's /proc.
	 */
	enum ended_by (*look)(void *data, int proc_fd, struct exec_result *exec, uint64_t *ret_next_us);
	void *data;
};

struct run_control {
	/* Descriptor that ends the run (ENDED_CANCELLED) when it becomes readable or its peer goes away; -1: none. */
	int cancel_fd;
	/* The signals of the caller's terminal and job control are forwarded to the command. */
	bool forward_signals;
	/* Called about once a second while a command runs, with the last line of its output; or NULL. */
	void (*progress)(void *data, const char *last_line, size_t length, uint64_t elapsed_ms);
	/* Called when the sandbox is made and its first command starts: of the result, what the walls are is there. Or NULL. */
	void (*created)(void *data, const struct run_result *result);
	void *data;
	const struct run_watch *watch; /* or NULL */
	/* Where what the last command leaves in its working directory is copied to (output.h); NULL: nowhere. */
	const struct output *output;
};

/*
 * Runs `spec`. Blocks until everything of the sandbox is gone. Always fills *ret (free it with
 * run_result_free): a failure to set up is an ENDED_SETUP in it. Returns 0 when all commands of
 * the spec were started, -1 otherwise.
 *
 * The calling process must have one thread. SIGCHLD and the forwarded signals are blocked and read
 * through a signalfd during the call, and restored after it.
 */
int sandbox_run(const struct spec *spec, const struct run_control *control, struct run_result *ret);

/*
 * To be called first in main: remembers where the heap begins, so that the agent can drop every
 * byte that it inherited from its creator (see agent.c).
 */
void sandbox_early_init(int argc, char **argv, char **envp);

#endif
