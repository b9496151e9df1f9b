/* SPDX-License-Identifier: MIT */
/* Asking a session: see client.h. */
#define _GNU_SOURCE
#include "session/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "session/frame.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static int ended(struct error *err)
{
	if (errno == EAGAIN) {
		error_set(err, 0, "the session does not answer: its supervisor is stopped, or the host very busy");
		err->errnum = ETIMEDOUT;
		return error_hint(err, "its supervisor is a process nsbox-session; without it, all of the session ends");
	}
	error_set(err, 0, "the session ended before it answered");
	return error_hint(err, "nsbox session ls lists those that there are");
}

int session_set_deadline(int socket, unsigned seconds, struct error *err)
{
	const struct timeval time = {.tv_sec = seconds};

	if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0)
		return 0;
	return error_set(err, errno, "setting a deadline for the session's answer");
}

int session_send(int socket, json_t *request, const int *fds, size_t fds_count, struct error *err)
{
	cleanup_free char *body = json_dumps(request, JSON_COMPACT);
	struct frame_header header = {
		.type = FRAME_REQUEST, .length = body ? (uint32_t)strlen(body) : 0};

	json_decref(request);
	if (!body || header.length > FRAME_MAX)
		return error_set(err, 0, "what the session is asked for is larger than %d MiB",
			FRAME_MAX >> 20);
	if (frame_send_header(socket, &header, fds, fds_count) == 0 && frame_send_bytes(socket, body, header.length) == 0)
		return 0;
	/* One that does not listen may have said why: then that is there to be received. Else nobody would ever answer. */
	if (errno == EPIPE || errno == ECONNRESET)
		return 0;
	return error_set(err, errno, "asking the session");
}

json_t *session_receive(int socket, const struct frame_header *begun, struct error *err)
{
	struct frame_header header;
	cleanup_free char *reply = NULL;
	json_t *object;

	errno = 0; /* at the end of the stream it stays so */
	if (begun)
		header = *begun;
	else if (frame_read_bytes(socket, &header, sizeof header) < 0)
		return ended(err), NULL;
	if (header.length > FRAME_MAX)
		return ended(err), NULL;
	reply = xmalloc(header.length + 1UL);
	if (frame_read_bytes(socket, reply, header.length) < 0)
		return ended(err), NULL;
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

json_t *session_request(int socket, json_t *request, const int *streams, struct error *err)
{
	cleanup_close int fd = socket;

	return session_send(fd, request, streams, streams ? FRAME_FDS_MAX : 0, err) < 0 ? NULL : session_receive(fd, NULL, err);
}
