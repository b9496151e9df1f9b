/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_WIRE_H
#define NSBOX_SANDBOX_WIRE_H

/*
 * What supervisor and agent say to each other over a SOCK_SEQPACKET socketpair: one message is one
 * struct, and descriptors with it.
 *
 * Upwards, descriptors come with AGENT_CREATED only, which is sent before foreign code runs. After that
 * the supervisor offers no room for any, and takes what the agent says as hostile: a message of a wrong
 * length or type, out of turn, or with numbers that cannot be, ends the sandbox. Text of it is shown
 * as a part of a sentence of the supervisor's, without control characters, and advice of it is not.
 *
 *     before AGENT_CREATED    AGENT_CREATED, AGENT_FAILED
 *     after it                AGENT_NOT_STARTED, AGENT_EXEC_FAILED or AGENT_ENDED, once for each command;
 *                             in a session AGENT_STARTED before that, and AGENT_PAUSED and AGENT_RESUMED, which
 *                             answer the requests of these names, in their order
 *
 * The commands of a run come one after the other and have no id. Those of a session (REQUEST_START) run at the same
 * time; each has one, which the supervisor chooses.
 */

#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

enum { WIRE_FDS_MAX = 21, WIRE_SEND_MS = 2000 };

enum agent_message_type {
	AGENT_CREATED =
		1, /* with descriptors: /proc, one for each tmpfs, then the directory of the devpts, the terminal's master and the filter's listener where there are such */
	AGENT_FAILED,      /* setting up failed: value is errno or 0, error says what */
	AGENT_NOT_STARTED, /* what comes before the execution of a command failed: the same */
	AGENT_EXEC_FAILED, /* the command could not be executed: value is errno, error says what was tried */
	AGENT_ENDED, /* the command ended: value is its wait status */
	AGENT_STARTED, /* a session's: value is the process id of its keeper, inside */
	AGENT_PAUSED, /* a session's: value is how many processes stand still; or -errno, and all go on (halt.h) */
	AGENT_RESUMED, /* a session's: all go on */
};

struct agent_message {
	uint32_t type;
	int32_t value;
	uint32_t id;           /* of the session's command, or of the request that this answers; else 0 */
	uint32_t tmpfs_count;  /* AGENT_CREATED */
	uint32_t has_devpts;   /* AGENT_CREATED: of a session, whose commands may get terminals */
	uint32_t has_terminal; /* AGENT_CREATED */
	uint32_t has_listener; /* AGENT_CREATED */
	uint64_t
		cpu_user_us; /* AGENT_ENDED: of all processes that ended since the command started */
	uint64_t cpu_system_us;
	uint64_t memory_peak_bytes; /* AGENT_ENDED: of the greatest single process */
	struct error error;         /* with AGENT_FAILED, AGENT_NOT_STARTED and AGENT_EXEC_FAILED; else not sent */
};

enum agent_request_type {
	REQUEST_GO = 1, /* root: the maps are written */
	REQUEST_NETWORK, /* spec_has_helpers: they have joined it; with descriptors: PASTA_ENDS, where pasta makes the network */
	REQUEST_EXEC, /* with descriptors: the body (a memfd), 0, 1, 2 and, where has_cgroup, its cgroup.procs */
	REQUEST_SIGNAL, /* to the command's process group: value is the signal */
	/* In a session: */
	REQUEST_START, /* as REQUEST_EXEC, for a command with an id; where has_fourth, with a descriptor more */
	REQUEST_END,   /* ends a command and all that it has started; it is told of as any end */
	REQUEST_FILE,  /* with descriptors: the request (a memfd, see fileops.h), a stream socket for the answer */
	REQUEST_PAUSE,  /* stops all processes but the agent: AGENT_PAUSED. Again while they are, it stops what is new */
	REQUEST_RESUME, /* all go on that REQUEST_PAUSE has stopped: AGENT_RESUMED */
};

struct agent_request {
	uint32_t type;
	int32_t value;
	uint32_t id; /* in a session */
	uint32_t has_cgroup;
	uint32_t terminal; /* REQUEST_START: the descriptors are one, which becomes the controlling terminal */
	uint32_t has_fourth; /* REQUEST_START: with one descriptor more behind 2, which becomes 3 */
	uint64_t file_size_bytes; /* REQUEST_START: what the command writes can be so large; 0: as for all */
	uint32_t
		more; /* another exec follows: end what this one leaves behind before saying that it ended */
};

/*
 * Sends one message; without waiting with `nowait`, else for WIRE_SEND_MS at most, as the other side may
 * be one that takes nothing. Returns 0, or -1 with errno (EAGAIN: no room).
 */
int wire_send(int socket, const void *message, size_t length, const int *fds, size_t fds_count,
	int nowait);

/*
 * Receives one message of at most `size` bytes. *fds_count is the room in `fds` and becomes the number
 * received; with no room, descriptors that were sent are dropped by the kernel. Returns the length, 0 at
 * EOF or for an empty message, which none of ours is and which brings no descriptors, -1 with errno
 * (EMSGSIZE when the message was longer).
 */
ssize_t wire_receive(int socket, void *message, size_t size, int *fds, size_t *fds_count);

#endif
