/* SPDX-License-Identifier: MIT */
/* Asking a session: see client.h. */
#define _GNU_SOURCE
#include "session/client.h"

#include <stdlib.h>
#include <string.h>

#include "session/frame.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

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
	if (frame_send_header(fd, &header, streams, streams ? FRAME_FDS_MAX : 0) < 0 ||
		frame_send_bytes(fd, body, header.length) < 0 ||
		frame_read_bytes(fd, &header, sizeof header) < 0 || header.length > FRAME_MAX)
		return ended(err);
	reply = xmalloc(header.length + 1UL);
	if (frame_read_bytes(fd, reply, header.length) < 0)
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
