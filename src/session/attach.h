/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_ATTACH_H
#define NSBOX_SESSION_ATTACH_H

/*
 * A client's own terminal and that of a session's command.
 *
 * The session hands over the master of the command's terminal, and from then on nothing that is typed or shown goes
 * through its supervisor: a client that stalls holds up nobody but its command, and when it dies its supervisor, which
 * holds the master as well, lets go of it, which hangs the command up.
 */

#include <jansson.h>

struct error;

/* The size of the caller's terminal, for a request's "terminal": a new object. */
json_t *session_terminal_size(void);

/*
 * As session_request, for a request that has "terminal": until the command has ended, descriptors 0 and 1 are its
 * terminal. The caller's terminal, where 0 is one, is raw meanwhile and has its own settings again on return. A signal
 * that ends this process ends it from here, with the terminal restored.
 */
json_t *session_attach(int socket, json_t *request, struct error *err);

#endif
