/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_PLACE_H
#define NSBOX_SESSION_PLACE_H

/*
 * Where sessions are found: a Unix socket for each, in a folder that is the caller's alone.
 *
 *     $XDG_RUNTIME_DIR/nsbox/sessions/ID      else
 *     /run/nsbox/sessions/ID                  for root
 *     /tmp/nsbox-UID/sessions/ID              for others
 *
 * The id is 128 random bits in hexadecimal. A socket that nobody listens on any more is removed by who finds it.
 */

#include <stdbool.h>
#include <stddef.h>

struct error;

enum { SESSION_ID_LENGTH = 32, SESSION_ID_SIZE = SESSION_ID_LENGTH + 1 };

/*
 * Opens the folder; makes it with `create`. Returns its descriptor, or -1; err->errnum is ENOENT where there is none.
 */
int session_place_open(bool create, struct error *err);

bool session_id_valid(const char *id);

/*
 * A new id, and a socket that listens at its place. Returns the socket. `shared`: it is a session that MCP servers may
 * use, which the permission of its owner to execute the socket says.
 */
int session_listen(int place, bool shared, char ret_id[SESSION_ID_SIZE], struct error *err);

/* The place is free again. */
void session_remove(int place, const char *id);

/*
 * Connects to a session: of `id`, or the only one that begins with it, which *ret_id becomes (may be NULL). Returns
 * the connected stream socket, blocking. An unknown one, and one that has ended, is an error that says what to do.
 */
int session_connect(const char *id, char ret_id[SESSION_ID_SIZE], struct error *err);

/* The same for a whole id, with a socket that never blocks, and for a session that is shared. */
int session_connect_shared(const char *id, struct error *err);

/* Says that there is no such session, and what to do. Returns -1. */
int session_unknown(const char *id, struct error *err);

/* The ids of all that are shared, in their order, as far as their sockets say; *ret is freed by the caller. */
int session_list_shared(char (**ret)[SESSION_ID_SIZE], size_t *ret_count, struct error *err);

/*
 * Calls `each` for each session that lives, in the order of their ids, with a connected socket that is its to close, or -1
 * where it does not take any more connections.
 */
int session_list(
	void (*each)(void *data, const char *id, int socket), void *data, struct error *err);

/* How many of these live. */
int session_count_shared(int place, size_t *ret, struct error *err);

#endif
