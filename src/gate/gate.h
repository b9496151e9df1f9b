/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_GATE_H
#define NSBOX_GATE_GATE_H

/*
 * Named egress: the process that a sandbox of --network allow=… reaches the hosts of its rules through, and nothing else.
 *
 * The supervisor forks it before the sandbox. It stays in the host's network namespace, reads the host's name servers, hosts
 * and proxy, and shuts itself in: no capability, no file, no process, no socket but those of the Internet. Only then it
 * gets from the sandbox the sockets that listen there (sockets.h), which it has before any foreign code runs. From
 * then on it speaks with strangers on both sides, and nobody else: to the supervisor it has a table of what it did
 * (report.h), and it ends when the supervisor does, or says so.
 *
 * If it is killed, all connections of the sandbox are gone, and there is no other way out.
 */

#include "gate/policy.h"
#include "gate/report.h"

struct error;
struct helper;

/* The supervisor's side, beside the process (sandbox/helper.h). */
struct gate_process {
	int socket; /* whose closing ends it, and a byte in it lets it finish; -1 */
	struct policy policy;
	struct report *report; /* stays when it has ended; NULL: there is none */
};

#define GATE_NONE ((struct gate_process){.socket = -1})

/*
 * Starts the gate for these rules. *ret_handover is the end of the sandbox (sockets_hand_over), the caller's to close; it is
 * close-on-exec, as all are. Returns 0, or -1 with *err; *helper is to be ended and *ret released in both cases.
 */
int gate_start(const char *rules, struct gate_process *ret, struct helper *helper,
	int *ret_handover, struct error *err);

/*
 * All that could say something to it is gone: waits until what was said has been passed on, as a kernel does for a process
 * that has ended, for at most two seconds. To be followed by helper_end.
 */
void gate_finish(const struct gate_process *gate, const struct helper *helper);

/* Gives back what is left of it when it has ended. */
void gate_release(struct gate_process *gate);

#endif
