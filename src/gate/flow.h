/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_FLOW_H
#define NSBOX_GATE_FLOW_H

/*
 * A flow: two connected stream sockets, and the bytes that go from each to the other, as if there was one connection.
 *
 * Bytes move by splice(2) through a pipe. A pipe is with a direction only as long as there are bytes in it, which is when
 * the receiver is slower than the sender; what the sender has more to say then stays in its socket, and TCP tells it to
 * wait. The pipes come from a pool of at most FLOW_PIPES_MAX; a direction that gets none is copied through a buffer that
 * all share, and takes no byte off its socket before the other socket has it. So nothing is allocated for a flow, and
 * hostile ends that never read can neither fill memory nor stop others.
 *
 * A byte of urgent data (MSG_OOB) becomes one like all others, in its place.
 *
 * The end of a stream is passed on as one (shutdown(2) of that direction, the other goes on), a reset as a reset.
 *
 * The caller has the event loop. Both sockets are O_NONBLOCK and registered with FLOW_EVENTS: edges, once for life.
 *
 *     epoll says something of one socket     flow_note(&flow, side, events), then flow_step(&pipes, &flow)
 *     flow_step returned FLOW_MORE           call it again, after other flows had their turn; no event will come
 *     FLOW_ENDED, FLOW_BROKEN                flow_close(&pipes, &flow, ended or reset)
 *
 * SIGPIPE must be ignored. Allocates no memory; system calls besides those of the loop: splice, pipe2, recvfrom, sendto,
 * shutdown, setsockopt, fcntl, close.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

enum {
	FLOW_PIPES_MAX = 32,
	FLOW_PIPE_SIZE = 256 << 10, /* bytes that are asked for; what the kernel gives is enough */
	FLOW_COPY_SIZE = 64 << 10,  /* bytes of the shared buffer */
	FLOW_EVENTS = (int)(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI) | (int)EPOLLET,
};

/* For all flows of a process. */
struct flow_pipes {
	int spare[FLOW_PIPES_MAX][2]; /* empty ones */
	unsigned spares, used;        /* used: with a direction */
	uint8_t buffer[FLOW_COPY_SIZE];
};

struct flow_way {
	int pipe[2]; /* -1: none */
	size_t held; /* bytes in it */
	bool ended;  /* the sender has said all */
	bool shut;   /* and the receiver was told */
	bool deaf;   /* the receiver takes no more */
	bool urgent; /* there were urgent data, at which splice(2) stands still: it is copied from then on */
	bool waits;  /* set by the caller: nothing goes this way until it is cleared */
};

struct flow {
	int sockets[2];                /* owned; -1: closed */
	bool readable[2], writable[2]; /* as far as is known: see flow_note */
	struct flow_way ways[2];       /* 0: what sockets[0] says to sockets[1] */
	uint64_t bytes[2];             /* that each said and that were passed on */
};

enum flow_state {
	FLOW_WAITS,  /* for an event */
	FLOW_MORE,   /* it has had its turn, and has more to do */
	FLOW_ENDED,  /* both have said all, and were told so */
	FLOW_BROKEN, /* one is gone: the other is to be reset */
};

void flow_pipes_init(struct flow_pipes *pipes);
void flow_pipes_close(struct flow_pipes *pipes);

/* Begins a flow of two connected sockets, which it owns from now on. To be followed by flow_step, as bytes may be there. */
void flow_init(struct flow *flow, int one, int other);

/* `events` of epoll, for sockets[side]. */
void flow_note(struct flow *flow, unsigned side, uint32_t events);

enum flow_state flow_step(struct flow_pipes *pipes, struct flow *flow);

/* Closes both sockets; with `reset`, so that both ends see a reset. Not yet begun, or closed before, is no error. */
void flow_close(struct flow_pipes *pipes, struct flow *flow, bool reset);

/* Closes a connected socket, which becomes -1, so that its peer sees a reset. */
void flow_reset_socket(int *socket);

#endif
