/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_STREAMS_H
#define NSBOX_SESSION_STREAMS_H

/*
 * A client's standard descriptors, for a session's command.
 *
 * The supervisor waits for nobody, so it takes only what it can read and write without waiting: sockets, and pipes
 * without a name and terminals that it can open anew. What is something else (a file, a FIFO, a pipe of another user's) is
 * carried on the client's side, by a process for each, to or from a socket that the session gets instead.
 */

#include <sys/types.h>

struct error;

struct session_streams {
	int fds[3];	   /* for the request; owned */
	pid_t carriers[3]; /* 0: none */
};

#define SESSION_STREAMS_NONE ((struct session_streams){.fds = {-1, -1, -1}})

/* For a request on `socket`, a connection to the session. Returns 0, or -1 with *err. */
int session_streams_open(int socket, struct session_streams *ret, struct error *err);

/* Once they are sent: what is carried ends when the session has closed its own. */
void session_streams_sent(struct session_streams *streams);

/*
 * Waits until what came was passed on. ret_errnums: why that failed for 1 and 2; 0: it did not, or nobody read it any
 * more.
 */
void session_streams_finish(struct session_streams *streams, int ret_errnums[3]);

#endif
