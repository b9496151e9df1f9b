/* SPDX-License-Identifier: MIT */
/* Frames: see frame.h. */
#define _GNU_SOURCE
#include "session/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "util/cleanup.h"
#include "util/file.h"

int frame_send_bytes(int fd, const void *data, size_t length)
{
	const char *next = data;

	while (length > 0) {
		ssize_t n = send(fd, next, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

/* The header of a frame, and with it descriptors. */
int frame_send_header(int socket, const struct frame_header *header, const int *fds, size_t count)
{
	union {
		char buffer[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {.iov_base = (void *)header, .iov_len = sizeof *header};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (count > 0) {
		message.msg_control = control.buffer;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, count * sizeof(int));
	}
	do
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof *header ? 0 : -1;
}

int frame_read_header(int socket, struct frame_header *ret, int *ret_fd)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof *ret};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *header;
	ssize_t n;

	*ret_fd = -1;
	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	while (n < 0 && errno == EINTR);
	header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof *ret_fd);
	if (n == sizeof *ret)
		return 0;
	close_fd(ret_fd);
	return -1;
}

int frame_read_bytes(int fd, void *data, size_t length)
{
	return read_full(fd, data, length) == (ssize_t)length ? 0 : -1;
}
