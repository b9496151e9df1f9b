/* SPDX-License-Identifier: MIT */
/*
 * Content of any length, carried between the process that works on a file inside and a socket of the client's, with no
 * more than PIECE bytes in hand. Neither side is waited for: one that does not go on stops the other, and the worker's
 * deadline runs only while it is the worker that does not go on.
 *
 * As on the worker's channel, the client ends the content of a file that is written by shutdown(2) SHUT_WR. One that
 * closes its socket instead, as when it dies, has given up: the worker is told so in the same way, and leaves what was
 * there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/fileops.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	PIECE = 256 << 10,
	PIECES_AT_ONCE = 16, /* before others have their turn */
};

void file_stream_free(struct file_work *work)
{
	close_fd(&work->stream);
	free(work->piece);
	free(work->failure);
	work->piece = NULL;
	work->failure = NULL;
}

static void give_up(struct file_work *work, const struct error *err)
{
	if (err && !work->failure)
		work->failure = xmemdup(err, sizeof *err);
	close_fd(&work->channel);
	work->ended = true;
}

static void has_moved(struct file_work *work)
{
	work->deadline_us = session_now_us() + FILE_DEADLINE_MS * 1000;
}

/* As recv(2) into the piece, which is empty; 0 at the end, -1 for later. */
static ssize_t receive(struct file_work *work, int from)
{
	ssize_t n;

	work->piece = work->piece ?: xmalloc(PIECE);
	do
		n = recv(from, work->piece, PIECE, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return -1;
	work->piece_start = 0;
	work->piece_length = n > 0 ? (size_t)n : 0;
	return n > 0 ? n : 0;
}

/* Returns 1 where something was sent, 0 for later, -1 where nobody takes it. */
static int send_piece(struct file_work *work, int to)
{
	ssize_t n;

	do
		n = send(to, work->piece + work->piece_start, work->piece_length, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	work->piece_start += (size_t)n;
	work->piece_length -= (size_t)n;
	return 1;
}

/* --- into the sandbox --- */

/* At the end of what came: the client waits for the answer, or has closed its socket. */
static bool client_has_given_up(const struct file_work *work)
{
	struct pollfd fd = {.fd = work->stream, .events = POLLIN};

	return poll(&fd, 1, 0) > 0 && fd.revents & (POLLHUP | POLLERR);
}

/* Returns false where there is nothing to go on with now. */
static bool take_from_client(struct session *session, struct file_work *work)
{
	ssize_t n = receive(work, work->stream);
	struct error err = {0};

	if (n < 0)
		return false;
	if (n == 0 && client_has_given_up(work)) {
		error_set(&err, 0, "the client has gone");
		give_up(work, &err);
		return false;
	}
	if (n == 0) {
		work->stream_ended = true;
		shutdown(work->channel, SHUT_WR);
		has_moved(work);
		return false;
	}
	if (space_take(session, (uint64_t)n, &err) < 0) {
		give_up(work, &err);
		return false;
	}
	has_moved(work);
	return true;
}

static void carry_in(struct session *session, struct file_work *work)
{
	for (int i = 0; i < PIECES_AT_ONCE && !work->ended && !work->stream_ended; i++) {
		int sent;

		if (work->piece_length == 0 && !take_from_client(session, work))
			return;
		sent = send_piece(work, work->channel);
		if (sent == 0)
			return;
		if (sent > 0) {
			has_moved(work);
			continue;
		}
		/* The worker has answered why. */
		work->piece_length = 0;
		work->stream_ended = true;
	}
}

/* --- out of it --- */

static bool take_header(struct file_work *work)
{
	ssize_t n;

	work->answer = work->answer ?: xmalloc(sizeof(struct fileop_answer));
	work->answer_size = sizeof(struct fileop_answer);
	do
		n = recv(work->channel, work->answer + work->answer_length,
			sizeof(struct fileop_answer) - work->answer_length, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		work->ended = true;
	else
		work->answer_length += (size_t)n;
	has_moved(work);
	return work->answer_length == sizeof(struct fileop_answer);
}

static uint64_t left_to_stream(const struct file_work *work)
{
	struct fileop_answer answer;

	memcpy(&answer, work->answer, sizeof answer);
	return answer.stage == FILEOP_DONE && answer.count > work->streamed ? answer.count - work->streamed : 0;
}

/* More than the answer says is nothing that ours would send. */
static void take_from_worker(struct file_work *work)
{
	uint64_t left = left_to_stream(work);
	struct error err = {0};
	ssize_t n = receive(work, work->channel);

	if (n < 0)
		return;
	has_moved(work);
	if (work->piece_length > left)
		work->piece_length = (size_t)left;
	if (n > 0 && left > 0)
		return;
	work->ended = true;
	if (left == 0)
		return;
	error_set(&err, 0, "it became shorter while it was read");
	give_up(work, &err);
}

static void carry_out(struct file_work *work)
{
	struct error err = {0};

	if (work->answer_length < sizeof(struct fileop_answer) && !take_header(work))
		return;
	for (int i = 0; i < PIECES_AT_ONCE && !work->ended; i++) {
		size_t before;
		int sent;

		if (work->piece_length == 0)
			take_from_worker(work);
		if (work->piece_length == 0)
			return;
		before = work->piece_length;
		sent = send_piece(work, work->stream);
		if (sent == 0)
			return;
		if (sent < 0) {
			error_set(&err, 0, "the client has gone");
			give_up(work, &err);
			return;
		}
		work->streamed += before - work->piece_length;
		has_moved(work);
	}
}

/* --- polling --- */

/* Whether it is the client that does not go on. */
static bool waits_for_client(const struct file_work *work)
{
	return work->into ? work->piece_length == 0 && !work->stream_ended : work->piece_length > 0;
}

void file_stream_fill_poll(const struct file_work *work, struct pollfd ret[FILE_WORK_POLLFDS])
{
	bool client = waits_for_client(work);
	short wanted = 0;

	if (work->into)
		wanted = POLLIN | (work->piece_length > 0 ? POLLOUT : 0);
	else if (!client)
		wanted = POLLIN;
	/* Where nothing is wanted of one, its end is not to be told again and again. */
	ret[0] = (struct pollfd){.fd = wanted ? work->channel : -1, .events = wanted};
	ret[1] = (struct pollfd){.fd = client ? work->stream : -1, .events = work->into ? POLLIN : POLLOUT};
}

void file_stream_step(struct session *session, struct file_work *work, const struct pollfd *fds)
{
	bool moves = fds && (fds[0].revents || fds[1].revents);

	if (moves && work->into)
		carry_in(session, work);
	else if (moves)
		carry_out(work);
	if (waits_for_client(work))
		work->deadline_us = UINT64_MAX;
	else if (work->deadline_us == UINT64_MAX)
		has_moved(work);
}
