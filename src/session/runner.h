/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_RUNNER_H
#define NSBOX_SESSION_RUNNER_H

/*
 * Runs for a server: the spawner and its supervisors.
 *
 * A server must not clone sandboxes from its own address space: the agent would be a copy of every
 * client's data, and clone3 grows with the memory touched. So it forks a *spawner* before it reads
 * its first byte. For each run the spawner forks a *supervisor*, a process that lives as long as the
 * run, reads the spec from the server, calls sandbox_run and writes the result. The spawner itself
 * only passes descriptors on and never sees what a client sent. What the agent of a sandbox says is
 * parsed in that supervisor, never in the server.
 *
 *     server ──(one byte + descriptor)──► spawner ──fork──► supervisor ──clone3──► agent ► command
 *        └──────────── socketpair: spec ▼, progress ▲, result ▲ ─────────┘
 *
 * The server closes its end of a run's socket to cancel the run; it also closes when the server
 * dies, however it dies.
 */

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct spec;

struct runner {
	int fd;    /* to the spawner; readable or closed when the spawner died */
	pid_t pid; /* the spawner */
};

/* Forks the spawner. To be called before anything foreign is read and while the process has one thread. */
int runner_start(struct runner *ret, struct error *err);

/* Closes the connection: the spawner ends, runs in flight go on until their own sockets close. */
void runner_stop(struct runner *runner);

/*
 * Starts a run of `spec`. The filter of the spec is not transferred: the supervisor looks it up by
 * spec->seccomp_name. *ret_fd is a stream socket (non-blocking): give it to runner_read when it is
 * readable; close it to cancel the run. `pending` holds what is still to be written: when it is not
 * empty after the call, call runner_flush when the socket is writable.
 */
struct runner_io {
	int fd;
	char *out; /* what is still to be sent */
	size_t out_length, out_sent;
	char *in; /* what has come of a message that is not whole yet */
	size_t in_length, in_size;
};

int runner_submit(struct runner *runner, const struct spec *spec, struct runner_io *ret, struct error *err);

/* Sends what the socket takes. Returns 1 when more is to be sent, 0 when all is sent, -1 on failure. */
int runner_flush(struct runner_io *io, struct error *err);

enum runner_message {
	RUNNER_AGAIN,    /* nothing whole yet */
	RUNNER_PROGRESS, /* *ret: {"last_line": string, "elapsed_ms": integer} */
	RUNNER_RESULT,   /* *ret: the object of run_result_to_json; the run is over, everything of it is gone */
	RUNNER_FAILED,   /* the supervisor went away or spoke nonsense: *err says which */
};

/* Reads without blocking. *ret is a new reference. */
enum runner_message runner_read(struct runner_io *io, json_t **ret, struct error *err);

/* Closes the socket (which cancels a run that has not ended) and frees the buffers. */
void runner_io_close(struct runner_io *io);

#endif
