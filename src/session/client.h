/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_CLIENT_H
#define NSBOX_SESSION_CLIENT_H

/* A client of a session: one request on a connected socket (place.h). The requests are in session.h. */

#include <jansson.h>

struct error;

/*
 * Sends `request` (taken over), with three descriptors where `streams` is not NULL, and waits for the answer.
 * Closes `socket`. Returns a new reference, or NULL with *err: what the session says, or that it ended meanwhile.
 */
json_t *session_request(int socket, json_t *request, const int *streams, struct error *err);

#endif
