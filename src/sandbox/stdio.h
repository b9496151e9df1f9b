/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_STDIO_H
#define NSBOX_SANDBOX_STDIO_H

/*
 * The standard descriptors of a command.
 *
 * Inherited blindly they are a way out: through /proc/self/fd a directory can be walked up to the host's
 * root, a file opened for reading can be opened again for writing, and a log opened for appending can be
 * truncated. So each of the caller's is classed first:
 *
 *     pipe without a name, for reading; /dev/null     passed on
 *     pipe without a name, for writing                its bytes carried through a pipe
 *     terminal                                        opened anew through a read-only clone of its mount
 *     connected stream socket, FIFO                   its bytes carried through a pipe
 *     regular file, for reading                       opened anew through a read-only clone of its mount,
 *                                                     or, where it has no name, copied through a pipe
 *     regular file, for writing                       written by the supervisor from a pipe
 *     anything else                                   refused
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/relay.h"

struct error;
struct exec_spec;

struct stdio {
	int child[3]; /* what becomes 0, 1, 2 of the command; owned until stdio_close_child */
	int fourth;   /* what becomes 3, a pipe: likewise; -1: there is none. Only sandbox_start gives it on */
	bool reopen
		[3]; /* child[i] is a file or terminal that the child opens anew in its own mount namespace */
	int captured
		[2]; /* our ends of the pipes of standard output and error, non-blocking; or -1 */
	struct relay relays[3];
	size_t relays_count;
	bool lent; /* the caller's pipe at 0 is the sandbox's group's to read until stdio_close */
	gid_t lender_gid;
	mode_t lender_mode;
};

#define STDIO_NONE ((struct stdio){.child = {-1, -1, -1}, .fourth = -1, .captured = {-1, -1}})

/*
 * Makes the descriptors for one command. `capture`: output goes into pipes of ours. `terminal`: the
 * command gets a terminal that the child makes, so only standard input of kind STDIN_INHERIT is left
 * to be relayed by terminal.c and nothing is made here. `first`: the command is the sandbox's first, which
 * alone can have files opened anew by the child on its way (for others they are copied through a pipe).
 */
int stdio_prepare(const struct exec_spec *exec, bool capture, bool terminal, bool first,
	struct stdio *ret, struct error *err);

/*
 * Root: /dev/stdin and its kin open a pipe anew, and a pipe belongs to who made it. The sandbox's id becomes
 * the owner of the command's; the caller's own, at 0, its group may read until stdio_close. Groups from `first_lent`
 * on are other sandboxes', which give back themselves.
 */
void stdio_give_pipes(struct stdio *stdio, uid_t uid, gid_t gid, gid_t first_lent);

/*
 * Whether `fd` is something that a description of our own makes sure of: a pipe without a name, a terminal, or a device
 * of the kernel's own memory. To open others could itself mean to wait.
 */
bool stdio_is_opened_anew(int fd);

/* A description of our own of the same pipe or terminal, so that waiting for it never blocks us; or -1. */
int stdio_open_anew(int fd, int mode);

/* Closes the command's ends in the supervisor, once the command has them. */
void stdio_close_child(struct stdio *stdio);

/* Closes everything. */
void stdio_close(struct stdio *stdio);

#endif
