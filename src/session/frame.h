/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_FRAME_H
#define NSBOX_SESSION_FRAME_H

/* How messages are framed between a server and its supervisors, and between a session and its clients. */

#include <stddef.h>
#include <stdint.h>

enum { FRAME_MAX = 64 << 20 /* bytes of a message's body */ };

enum frame_type {
	FRAME_SPEC = 1, /* server → supervisor: the object of spec_to_json */
	/*
	 * server → supervisor: {"language": string, "image": string or null}, the cache of whose toolchain is to be
	 * filled
	 */
	FRAME_WARM,
	/*
	 * server → supervisor: {"image": string, "config": string or null, "no_config": boolean}: the image is to
	 * be fetched
	 */
	FRAME_PULL,
	FRAME_INSTALL, /* server → supervisor: see install.h */
	FRAME_CREATE, /* server → supervisor: see runner_create */
	FRAME_SNAPSHOT, /* server → supervisor: see runner_snapshot */
	/* From here on also between a session and its clients, which may be another nsbox: the numbers stay. */
	FRAME_PROGRESS = 16, /* supervisor → server */
	FRAME_RESULT,
	FRAME_REQUEST, /* client → session (session.h) */
	FRAME_FAILURE, /* {"text": string, "hint": string}: there was no run */
	FRAME_TERMINAL, /* session → client: no body, and with it a descriptor (session.h) */
};

/* Before each message's body, which is JSON. Both sides are one program: native byte order. */
struct frame_header {
	uint32_t type;
	uint32_t length;
};

enum { FRAME_FDS_MAX = 3 };

/* On a blocking stream socket. All return 0, or -1 where the other side is gone. */
int frame_send_header(int socket, const struct frame_header *header, const int *fds, size_t count);
int frame_send_bytes(int socket, const void *data, size_t length);
int frame_read_bytes(int socket, void *data, size_t length);

/* Reads a header. *ret_fd becomes the descriptor that came with it, the caller's to close, or -1. */
int frame_read_header(int socket, struct frame_header *ret, int *ret_fd);

#endif
