/* SPDX-License-Identifier: MIT */
/* Asking a session: see client.h. */
#define _GNU_SOURCE
#include "session/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session/spawner.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static int send_rest(int socket, const char *next, size_t length)
{
	while (length > 0) {
		ssize_t n = send(socket, next, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

static int send_header(int socket, const struct frame_header *header, const int *streams)
{
	union {
		char buffer[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {.iov_base = (void *)header, .iov_len = sizeof *header};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (streams) {
		message.msg_control = control.buffer;
		message.msg_controllen = sizeof control.buffer;
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(3 * sizeof(int));
		memcpy(CMSG_DATA(&control.align), streams, 3 * sizeof(int));
	}
	do
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof *header ? 0 : -1;
}

static int receive(int socket, void *data, size_t length)
{
	char *next = data;

	while (length > 0) {
		ssize_t n = recv(socket, next, length, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

static json_t *ended(struct error *err)
{
	error_set(err, 0, "the session ended before it answered");
	error_hint(err, "nsbox session ls lists those that there are");
	return NULL;
}

json_t *session_request(int socket, json_t *request, const int *streams, struct error *err)
{
	cleanup_close int fd = socket;
	cleanup_free char *body = json_dumps(request, JSON_COMPACT), *reply = NULL;
	struct frame_header header = {
		.type = FRAME_REQUEST, .length = body ? (uint32_t)strlen(body) : 0};
	json_t *object;

	json_decref(request);
	if (!body || header.length > FRAME_MAX) {
		error_set(err, 0, "what the session is asked for is larger than %d MiB",
			FRAME_MAX >> 20);
		return NULL;
	}
	if (send_header(fd, &header, streams) < 0 || send_rest(fd, body, header.length) < 0 ||
		receive(fd, &header, sizeof header) < 0 || header.length > FRAME_MAX)
		return ended(err);
	reply = xmalloc(header.length + 1UL);
	if (receive(fd, reply, header.length) < 0)
		return ended(err);
	object = json_loadb(reply, header.length, JSON_ALLOW_NUL, NULL);
	if (json_is_object(object) && header.type == FRAME_RESULT)
		return object;
	error_set(err, 0, "%s",
		json_string_value(json_object_get(object, "text"))
			?: "the session's answer makes no sense");
	error_hint(err, "%s", json_string_value(json_object_get(object, "hint")) ?: "");
	json_decref(object);
	return NULL;
}
