/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_STARTER_H
#define NSBOX_UTIL_STARTER_H

/*
 * Starting programs from behind a wall. What confines itself (no_new_privs, Landlock) confines whatever it starts; so
 * before it does, it makes a small process, the starter, which starts programs for it then: those that its
 * function knows, and no others. They are the caller's children, to be waited for by it, as if it had forked them.
 *
 * The starter shares the caller's table of descriptors (CLONE_FILES): a request can name them by their numbers, any
 * number of them, and they mean the same. It shares no memory. It ends with its caller, at once.
 */

#include <stddef.h>
#include <sys/types.h>

struct error;

enum { STARTER_REQUEST_MAX = 64 << 10 };

struct starter {
	int socket, pidfd; /* of the starter; -1: there is none */
	pid_t pid;
};

#define STARTER_NONE ((struct starter){.socket = -1, .pidfd = -1})

/*
 * Makes the starter. `run` is called in each new process, with the request, which is to be looked at as a stranger's:
 * whoever has taken over the caller may have written it. It executes something, or returns, and the status is 127
 * then. To be called by the main thread, which is the one whose end the starter shares, and before there are others.
 */
int starter_open(
	void (*run)(const void *request, size_t size), struct starter *ret, struct error *err);

/* Starts a process, and returns its id. At most STARTER_REQUEST_MAX bytes. */
pid_t starter_start(
	const struct starter *starter, const void *request, size_t size, struct error *err);

/* Ends it, and waits until it has. What it started goes on. */
void starter_close(struct starter *starter);

#endif
