/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_TERMINAL_H
#define NSBOX_SANDBOX_TERMINAL_H

/*
 * The caller's terminal on one side, the sandbox's own on the other.
 *
 * The sandbox never has the caller's terminal: what is typed is carried, raw, to the master of a
 * terminal that the sandbox made, and what comes from it to the caller's standard output. Line editing,
 * signals from keys and window size then are the inner terminal's. The caller's settings are restored on
 * every way out, also when nsbox is ended by a signal that it handles.
 */

#include <stdbool.h>
#include <termios.h>

#include "sandbox/relay.h"

struct terminal {
	int master; /* owned; -1: none */
	int input;  /* the caller's descriptor 0 */
	int output; /* the caller's terminal opened anew without blocking, or its descriptor 1 */
	bool owns_output;
	bool raw; /* `saved` is to be restored */
	struct termios saved;
	struct relay relays[2]; /* in, out */
};

#define TERMINAL_NONE ((struct terminal){.master = -1, .input = -1, .output = -1})

/* Takes over `master`, makes the caller's terminal raw where descriptor 0 is one, and sets up the relays. */
void terminal_start(struct terminal *terminal, int master);

/*
 * Types the end of input again, where the caller's has ended: a program that changes the terminal's settings throws away
 * what was typed before. To be called every TERMINAL_END_MS then, which terminal_input_ended tells.
 */
enum { TERMINAL_END_MS = 500 };
bool terminal_input_ended(const struct terminal *terminal);
void terminal_type_end(const struct terminal *terminal);

/* Gives the inner terminal the size of the caller's. */
void terminal_resize(const struct terminal *terminal);

/* For a stop and its end (SIGTSTP, SIGCONT): the caller's own settings, and raw again. */
void terminal_suspend(struct terminal *terminal);
void terminal_resume(struct terminal *terminal);

/* Restores the caller's settings and closes everything. */
void terminal_end(struct terminal *terminal);

/*
 * A terminal of the caller's that the command gets as it is, with --no-tty. The command can change how it
 * works, and may be killed before it has changed that back.
 */
struct terminal_modes {
	int fd; /* -1: no standard descriptor is a terminal */
	struct termios noted;
};

void terminal_note_modes(struct terminal_modes *ret);

/*
 * Sets the terminal as it was, and lets it show what it was told not to. Not where we are in the
 * background; and its modes not where standard output is a pipe: a shell or a pager may have set them
 * since, for itself.
 */
void terminal_restore_modes(const struct terminal_modes *modes);

#endif
