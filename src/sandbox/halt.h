/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_HALT_H
#define NSBOX_SANDBOX_HALT_H

/*
 * All processes of the sandbox but the agent, stopped and continued by the agent: a pause where no cgroup can be frozen.
 *
 * SIGSTOP goes to all until none runs, to those above first, as far as that is quickly done; SIGCONT to all that were
 * not stopped before, those below first. So a shell that waits for its jobs finds none stopped.
 *
 * Nothing that is stopped can send SIGCONT, but the kernel can for it (a timer, the end of a terminal), so halt_guard has
 * to be called again and again meanwhile: what goes on is stopped once more. A stop that the code makes in the moment
 * when the pause begins may be taken for one of ours.
 */

#include <stdint.h>

/*
 * Stops all. Returns how many processes stand still, or a negative errno: E2BIG, there are more than PROCESSES_MAX;
 * ETIMEDOUT, some run on. Then all goes on as before. Blocks for HALT_MS at most.
 */
enum { HALT_MS = 5000 };
int halt_begin(void);

/* Continues what halt_begin has stopped; else nothing. */
void halt_end(void);

/* Returns in how many milliseconds to come again; -1: nothing is halted. */
int halt_guard(void);

#endif
