/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_PUBLISH_H
#define NSBOX_GATE_PUBLISH_H

/*
 * Published ports: what listens in the sandbox, to be reached from the host.
 *
 * The supervisor listens on the host's loopback addresses, on no others, before there is a sandbox; so a port that is taken
 * is an error before anything runs, and who connects early waits until there is somebody to be connected to. A process
 * beside the sandbox, the publisher, has these sockets and is in the sandbox's user and network namespaces: each
 * connection that it accepts it connects there, to the port of the loopback interface, and carries bytes between the two
 * (flow.h). It is not in the sandbox's other namespaces, and the code cannot see it.
 *
 * It reads nothing of what it carries, and after its beginning it can do nothing else (confine.h). What it was made of is
 * the supervisor's memory, which it does not look at.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct helper;
struct idmap;
struct publish_spec;

enum {
	PUBLISH_CONNECTIONS_MAX = 256, /* at a time; others wait in the sockets' queues */
	PUBLISH_FINISH_MS = 2000, /* for what was said last to arrive, when the sandbox is gone: helper_finish */
	PUBLISH_CONNECT_MS = 10 * 1000, /* for what listens inside to have room for one more */
};

/* A port of the host that leads to one of the sandbox. */
struct published {
	uint16_t host_port, port;
	int listeners[2]; /* on 127.0.0.1 and ::1; -1: the host has no such address */
};

/*
 * «PORT» or «HOSTPORT:PORT», the former from 1 and the latter from 0 to 65535: 0 is any that is free. `what` names it in
 * errors.
 */
int publish_parse(const char *what, const char *text, struct publish_spec *ret, struct error *err);

/* Listens for each of `count`. Returns 0; or -1, and everything is closed again. */
int publish_listen(const struct publish_spec *specs, size_t count, struct published *ret, struct error *err);

void publish_close(struct published *published, size_t count);

/*
 * Starts the publisher for the sandbox of the process that `pidfd` is of, whose id maps, where root writes them, are
 * written. Waits until it is confined. The caller closes its own copies of the sockets.
 */
int publish_start(int pidfd, const struct idmap *idmap, const struct published *published, size_t count,
	struct helper *ret, struct error *err);

#endif
