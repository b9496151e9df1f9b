/* SPDX-License-Identifier: MIT */
/* A process that starts others: see starter.h. */
#define _GNU_SOURCE
#include "util/starter.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"

/* What fork(2) is made of, with other flags. Neither child calls what takes locks of the C library. */
static pid_t clone_process(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Its children have its parent: they are the caller's. */
static pid_t start(void (*run)(const void *, size_t), const void *request, size_t size)
{
	pid_t pid = clone_process(CLONE_PARENT);

	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	run(request, size);
	_exit(127);
}

_Noreturn static void serve(int socket, void (*run)(const void *, size_t), pid_t parent)
{
	static _Alignas(max_align_t) char request[STARTER_REQUEST_MAX];

	prctl(PR_SET_NAME, "starter", 0, 0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	for (;;) {
		ssize_t n = recv(socket, request, sizeof request, 0);
		pid_t answer;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		answer = start(run, request, (size_t)n);
		if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
			_exit(1);
	}
}

int starter_open(
	void (*run)(const void *request, size_t size), struct starter *ret, struct error *err)
{
	const int room = STARTER_REQUEST_MAX * 2;
	pid_t parent = getpid();
	int ends[2];

	*ret = STARTER_NONE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "making a socket");
	/* More than net.core.wmem_max is cut to that, which is more than enough. */
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	ret->pid = clone_process(CLONE_FILES);
	if (ret->pid == 0)
		serve(ends[1], run, parent);
	ret->socket = ends[0];
	if (ret->pid > 0)
		ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	/* ends[1] stays: the table is the starter's as well. */
	if (ret->pid > 0 && ret->pidfd >= 0)
		return 0;
	error_set(err, errno, "starting a process");
	close(ends[1]);
	starter_close(ret);
	return -1;
}

static int gone(struct error *err)
{
	return error_set(err, 0, "the process that starts programs for this one is gone");
}

pid_t starter_start(
	const struct starter *starter, const void *request, size_t size, struct error *err)
{
	struct pollfd fds[] = {{.fd = starter->socket, .events = POLLIN},
		{.fd = starter->pidfd, .events = POLLIN}};
	pid_t answer;
	ssize_t n;

	if (starter->pid <= 0)
		return gone(err);
	do
		n = send(starter->socket, request, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_set(err, errno, "asking for a program to be started");
	/* No end of file tells of its end, as its end of the socket is open in the common table. */
	do
		n = poll(fds, 2, -1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_set(err, errno, "waiting");
	if (!(fds[0].revents & POLLIN))
		return gone(err);
	do
		n = recv(starter->socket, &answer, sizeof answer, 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof answer)
		return gone(err);
	return answer > 0 ? answer : error_set(err, -answer, "starting a program");
}

void starter_close(struct starter *starter)
{
	if (starter->pid > 0) {
		kill(starter->pid, SIGKILL);
		while (waitpid(starter->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_fd(&starter->socket);
	close_fd(&starter->pidfd);
	*starter = STARTER_NONE;
}
