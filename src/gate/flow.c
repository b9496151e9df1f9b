/* SPDX-License-Identifier: MIT */
/* Flows: see flow.h. */
#define _GNU_SOURCE
#include "gate/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/cleanup.h"

enum {
	SPARES_MAX = 2, /* empty pipes that are kept */
	TURN = 1 << 20, /* bytes of a direction before others have theirs */
	PIPE_ENDS = 2
};

/* --- pipes --- */

void flow_pipes_init(struct flow_pipes *pipes)
{
	pipes->spares = 0;
	pipes->used = 0;
}

void flow_pipes_close(struct flow_pipes *pipes)
{
	while (pipes->spares > 0) {
		pipes->spares--;
		for (int i = 0; i < PIPE_ENDS; i++)
			close(pipes->spare[pipes->spares][i]);
	}
}

/* False: there is none to be had. */
static bool take_pipe(struct flow_pipes *pipes, int ret[PIPE_ENDS])
{
	if (pipes->used == FLOW_PIPES_MAX)
		return false;
	if (pipes->spares > 0) {
		pipes->spares--;
		ret[0] = pipes->spare[pipes->spares][0];
		ret[1] = pipes->spare[pipes->spares][1];
	} else if (pipe2(ret, O_CLOEXEC | O_NONBLOCK) < 0) {
		ret[0] = ret[1] = -1;
		return false;
	} else {
		/* Refused where the user has many large pipes; a smaller one works as well, only more often. */
		fcntl(ret[1], F_SETPIPE_SZ, FLOW_PIPE_SIZE);
	}
	pipes->used++;
	return true;
}

static void give_pipe(struct flow_pipes *pipes, struct flow_way *way)
{
	if (way->pipe[0] < 0)
		return;
	pipes->used--;
	if (way->held == 0 && pipes->spares < SPARES_MAX) {
		pipes->spare[pipes->spares][0] = way->pipe[0];
		pipes->spare[pipes->spares][1] = way->pipe[1];
		pipes->spares++;
		way->pipe[0] = way->pipe[1] = -1;
	}
	for (int i = 0; i < PIPE_ENDS; i++)
		close_fd(&way->pipe[i]);
	way->held = 0;
}

/* --- one direction --- */

enum outcome { MOVED, BLOCKED, SAID_ALL, GONE };

static bool is_blocked(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* From the pipe to the receiver. */
static enum outcome pour(struct flow *flow, unsigned from)
{
	struct flow_way *way = &flow->ways[from];
	ssize_t n = splice(way->pipe[0], NULL, flow->sockets[!from], NULL, way->held,
		SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0 && is_blocked()) {
		flow->writable[!from] = false;
		return BLOCKED;
	}
	if (n <= 0)
		return GONE;
	way->held -= (size_t)n;
	flow->bytes[from] += (uint64_t)n;
	return MOVED;
}

/* From the sender into the pipe, which is empty. */
static enum outcome draw(struct flow *flow, unsigned from)
{
	struct flow_way *way = &flow->ways[from];
	char byte;
	ssize_t n = splice(flow->sockets[from], NULL, way->pipe[1], NULL, FLOW_PIPE_SIZE,
		SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0 && is_blocked()) {
		flow->readable[from] = false;
		return BLOCKED;
	}
	/* The end, or urgent data (RFC 6093), which nobody has use for: what comes behind them is copied. */
	if (n == 0 && recv(flow->sockets[from], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
		way->urgent = true;
		return MOVED;
	}
	if (n <= 0)
		return n == 0 ? SAID_ALL : GONE;
	way->held = (size_t)n;
	return MOVED;
}

/* Without a pipe: what is sent on is taken off the sender's socket afterwards. */
static enum outcome copy(struct flow_pipes *pipes, struct flow *flow, unsigned from)
{
	ssize_t n = recv(flow->sockets[from], pipes->buffer, sizeof pipes->buffer,
			MSG_PEEK | MSG_DONTWAIT),
		sent;

	if (n < 0 && is_blocked()) {
		flow->readable[from] = false;
		return BLOCKED;
	}
	if (n <= 0)
		return n == 0 ? SAID_ALL : GONE;
	sent = send(flow->sockets[!from], pipes->buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && is_blocked()) {
		flow->writable[!from] = false;
		return BLOCKED;
	}
	if (sent <= 0 ||
		recv(flow->sockets[from], NULL, (size_t)sent, MSG_TRUNC | MSG_DONTWAIT) != sent)
		return GONE;
	flow->bytes[from] += (uint64_t)sent;
	return MOVED;
}

/* splice(2) ends before urgent data, and then finds nothing, or the end of the stream. */
static bool is_at_urgent(int socket)
{
	char byte;

	return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static enum outcome carry(struct flow_pipes *pipes, struct flow *flow, unsigned from)
{
	struct flow_way *way = &flow->ways[from];
	enum outcome outcome;

	if (way->held > 0)
		return flow->writable[!from] ? pour(flow, from) : BLOCKED;
	if (!flow->readable[from])
		return BLOCKED;
	if (way->urgent || (way->pipe[0] < 0 && !take_pipe(pipes, way->pipe)))
		return flow->writable[!from] ? copy(pipes, flow, from) : BLOCKED;
	outcome = draw(flow, from);
	if ((outcome == BLOCKED || outcome == SAID_ALL) && is_at_urgent(flow->sockets[from])) {
		flow->readable[from] = true;
		return flow->writable[!from] ? copy(pipes, flow, from) : BLOCKED;
	}
	return outcome;
}

/* As far as it goes, or for a turn. Returns whether it has more to do. */
static bool step_way(struct flow_pipes *pipes, struct flow *flow, unsigned from)
{
	struct flow_way *way = &flow->ways[from];
	uint64_t turn = flow->bytes[from] + TURN;
	enum outcome outcome = MOVED;

	while (!way->ended && !way->deaf && !way->waits && outcome == MOVED &&
		flow->bytes[from] < turn)
		outcome = carry(pipes, flow, from);
	way->ended |= outcome == SAID_ALL;
	way->deaf |= outcome == GONE;
	if (way->held == 0 || way->deaf)
		give_pipe(pipes, way);
	if (way->ended && !way->shut) {
		way->shut = true;
		way->deaf |= shutdown(flow->sockets[!from], SHUT_WR) < 0;
	}
	return outcome == MOVED && !way->ended && !way->deaf && !way->waits;
}

/* --- both --- */

void flow_init(struct flow *flow, int one, int other)
{
	static const int on = 1;

	*flow = (struct flow){.sockets = {one, other},
		.readable = {true, true},
		.writable = {true, true},
		.ways = {{.pipe = {-1, -1}}, {.pipe = {-1, -1}}}};
	/* Whoever wrote the bytes has waited for more already, or does not want to. */
	for (int i = 0; i < 2; i++) {
		setsockopt(flow->sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(flow->sockets[i], SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
	}
}

void flow_note(struct flow *flow, unsigned side, uint32_t events)
{
	if (events & EPOLLPRI)
		flow->ways[side].urgent = true;
	if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		flow->readable[side] = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		flow->writable[side] = true;
}

enum flow_state flow_step(struct flow_pipes *pipes, struct flow *flow)
{
	bool more = step_way(pipes, flow, 0);

	/* Also where the first found an end gone: what that has said before goes on its way. */
	more |= step_way(pipes, flow, 1);
	if (flow->ways[0].deaf || flow->ways[1].deaf)
		return FLOW_BROKEN;
	if (flow->ways[0].shut && flow->ways[1].shut)
		return FLOW_ENDED;
	return more ? FLOW_MORE : FLOW_WAITS;
}

void flow_reset_socket(int *socket)
{
	static const struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (*socket >= 0)
		setsockopt(*socket, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close_fd(socket);
}

void flow_close(struct flow_pipes *pipes, struct flow *flow, bool reset)
{
	for (int i = 0; i < 2; i++) {
		give_pipe(pipes, &flow->ways[i]);
		if (reset)
			flow_reset_socket(&flow->sockets[i]);
		else
			close_fd(&flow->sockets[i]);
	}
}
