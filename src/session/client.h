/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_CLIENT_H
#define NSBOX_SESSION_CLIENT_H

/* A client of a session: one request on a connected socket (place.h). The requests are in session.h. */

#include <jansson.h>
#include <stddef.h>

struct error;

/*
 * Sends `request` (taken over), with three descriptors where `streams` is not NULL, and waits for the answer.
 * Closes `socket`. Returns a new reference, or NULL with *err: what the session says, or that it ended meanwhile.
 */
json_t *session_request(int socket, json_t *request, const int *streams, struct error *err);

/*
 * The two halves of it, which leave `socket` open; the first with as many descriptors as the request takes. The second's
 * answer may have begun: `header`, else NULL.
 */
int session_send(int socket, json_t *request, const int *fds, size_t fds_count, struct error *err);
struct frame_header;
json_t *session_receive(int socket, const struct frame_header *header, struct error *err);

/* From now on an answer that does not come in that time is a failure, with ETIMEDOUT in *err. */
int session_set_deadline(int socket, unsigned seconds, struct error *err);

#endif
