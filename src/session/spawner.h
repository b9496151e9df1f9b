/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_SPAWNER_H
#define NSBOX_SESSION_SPAWNER_H

/* The other side of runner.h: the spawner, its supervisors, and how messages are framed. */

#include <stdint.h>
#include <sys/types.h>

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
	FRAME_PROGRESS, /* supervisor → server */
	FRAME_RESULT,
	FRAME_REQUEST, /* client → session (session.h) */
	FRAME_FAILURE, /* {"text": string, "hint": string}: there was no run */
};

/* Before each message's body, which is JSON. Both sides are one program: native byte order. */
struct frame_header {
	uint32_t type;
	uint32_t length;
};

/* The spawner: serves `control` until the server is gone, then waits for its supervisors. */
_Noreturn void spawner_main(int control, pid_t server);

#endif
