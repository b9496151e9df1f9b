/* SPDX-License-Identifier: MIT */
/* Messages between supervisor and agent: see wire.h. */
#define _GNU_SOURCE
#include "sandbox/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
};

/* Whether there is room for a message. */
static bool wait_for_room(int socket)
{
	struct pollfd fd = {.fd = socket, .events = POLLOUT};
	int n;

	do
		n = poll(&fd, 1, WIRE_SEND_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int wire_send(int socket, const void *message, size_t length, const int *fds, size_t fds_count,
	int nowait)
{
	struct iovec iov = {.iov_base = (void *)message, .iov_len = length};
	union control control;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fds_count > 0) {
		memset(&control, 0, sizeof control);
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * fds_count);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * fds_count);
		memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * fds_count);
	}
	do
		n = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || (errno == EAGAIN && !nowait && wait_for_room(socket))));
	return n < 0 ? -1 : 0;
}

static size_t take_fds(struct msghdr *header, int *fds, size_t room)
{
	size_t count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
			if (count < room)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

ssize_t wire_receive(int socket, void *message, size_t size, int *fds, size_t *fds_count)
{
	struct iovec iov = {.iov_base = message, .iov_len = size};
	union control control;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t room = fds_count ? *fds_count : 0;
	ssize_t n;

	if (room > 0) {
		header.msg_control = &control;
		header.msg_controllen =
			CMSG_SPACE(sizeof(int) * (room > WIRE_FDS_MAX ? WIRE_FDS_MAX : room));
	}
	if (fds_count)
		*fds_count = 0;
	do
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && room > 0)
		*fds_count = take_fds(&header, fds, n > 0 ? room : 0);
	if (n >= 0 && (header.msg_flags & MSG_TRUNC)) {
		errno = EMSGSIZE;
		return -1;
	}
	return n;
}
