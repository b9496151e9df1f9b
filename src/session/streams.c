/* SPDX-License-Identifier: MIT */
/* The standard descriptors of a client: see streams.h. */
#define _GNU_SOURCE
#include "session/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/stdio.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { PIECE = 64 << 10, CARRIER_FD = 3 };

/* --- carriers --- */

_Noreturn static void carry(int number, int socket, pid_t parent)
{
	static char piece[PIECE];
	int from = number == 0 ? 0 : CARRIER_FD, to = number == 0 ? CARRIER_FD : number;
	ssize_t n;

	/* The connection and the others' sockets must end with who has them. */
	if (socket != CARRIER_FD && dup2(socket, CARRIER_FD) < 0)
		_exit(errno);
	syscall(SYS_close_range, CARRIER_FD + 1U, ~0U, 0U);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	while ((n = read(from, piece, sizeof piece)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || write_whole(to, piece, (size_t)n) < 0)
			_exit(errno == EPIPE ? 0 : errno);
	}
	_exit(0);
}

static int start_carrier(int number, struct session_streams *streams, struct error *err)
{
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "making a socket");
	streams->fds[number] = ends[1];
	streams->carriers[number] = fork();
	if (streams->carriers[number] == 0)
		carry(number, ends[0], parent);
	close(ends[0]);
	if (streams->carriers[number] > 0)
		return 0;
	streams->carriers[number] = 0;
	return error_set(err, errno, "starting a process for standard input or output");
}

/* --- what can be given as it is --- */

/* Root can open what the session's user cannot. */
static bool is_anothers_session(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	return geteuid() == 0 && (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.uid != 0);
}

static bool can_be_given(int socket, int number)
{
	cleanup_close int own = -1;
	socklen_t length = sizeof(int);
	int type = 0;

	if (getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &length) == 0)
		return type == SOCK_STREAM;
	if (is_anothers_session(socket) || !stdio_is_opened_anew(number))
		return false;
	own = stdio_open_anew(number, number == 0 ? O_RDONLY : O_WRONLY);
	return own >= 0;
}

int session_streams_open(int socket, struct session_streams *ret, struct error *err)
{
	int errnums[3];

	*ret = SESSION_STREAMS_NONE;
	for (int number = 0; number < 3; number++) {
		int r;

		if (can_be_given(socket, number)) {
			ret->fds[number] = fcntl(number, F_DUPFD_CLOEXEC, 3);
			r = ret->fds[number] < 0 ? error_set(err, errno, "duplicating descriptor %d", number) : 0;
		} else {
			r = start_carrier(number, ret, err);
		}
		if (r < 0) {
			session_streams_sent(ret);
			session_streams_finish(ret, errnums);
			return -1;
		}
	}
	return 0;
}

void session_streams_sent(struct session_streams *streams)
{
	for (int i = 0; i < 3; i++)
		close_fd(&streams->fds[i]);
}

void session_streams_finish(struct session_streams *streams, int ret_errnums[3])
{
	for (int i = 0; i < 3; i++) {
		int status = 0;

		ret_errnums[i] = 0;
		if (streams->carriers[i] == 0)
			continue;
		/* It waits for what nobody wants any more. */
		if (i == 0)
			kill(streams->carriers[i], SIGKILL);
		while (waitpid(streams->carriers[i], &status, 0) < 0 && errno == EINTR)
			;
		if (i > 0)
			ret_errnums[i] = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
		streams->carriers[i] = 0;
	}
}
