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
 * A run ends when the server's end of its socket is shut or closed, and so also when the server dies,
 * however it dies. A supervisor does not die with the spawner: it would leave what only it can clean up.
 */

#include <jansson.h>
#include <stdbool.h>
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

/*
 * Closes the connection and waits at most `wait_ms` for the spawner, which ends once the last of its
 * supervisors has. Runs in flight end when their own sockets are closed: do that first. Returns 0 when
 * everything is gone, -1 when the time was up.
 */
int runner_stop(struct runner *runner, unsigned wait_ms);

enum { RUNNER_KEPT_MAX = 3 }; /* RESULT_KEPT_MAX */

/* The server's end of one run. */
struct runner_io {
	int fd;    /* stream socket, non-blocking */
	char *out; /* what is still to be sent */
	size_t out_length, out_sent;
	char *in; /* what has come of a message that is not whole yet */
	size_t in_length, in_size;
	int received[RUNNER_KEPT_MAX]; /* descriptors that came, in their order */
	/*
	 * With RUNNER_RESULT: run_result.kept_fds where some output was left out of the result, and the descriptor of
	 * run_result.kept_files where there are some; else -1.
	 */
	int kept_fds[RUNNER_KEPT_MAX];
	bool asks; /* a session, and not a run */
};

#define RUNNER_IO_NONE                                                                             \
	((struct runner_io){.fd = -1, .received = {-1, -1, -1}, .kept_fds = {-1, -1, -1}})

/*
 * Starts a run of `spec`, with its output captured. The filter of the spec is not transferred: the supervisor looks
 * it up by spec->seccomp_name. Where io->out is not NULL afterwards, call runner_flush when io->fd is writable; call
 * runner_read when it is readable.
 */
int runner_submit(
	struct runner *runner, const struct spec *spec, struct runner_io *ret, struct error *err);

/*
 * The same for filling the cache of a language's compiler, if need be (session/warm.h), in an image or on the host (NULL):
 * nobody waits for that, so it has the least priority. The object of its RUNNER_RESULT is empty.
 */
int runner_warm(struct runner *runner, const char *language, const char *image, struct runner_io *ret,
	struct error *err);

/* The same for fetching an image (session/pull.h). The object of its RUNNER_RESULT is empty, too. */
struct pull_config;
int runner_pull(struct runner *runner, const char *image, const struct pull_config *config, struct runner_io *ret,
	struct error *err);

/*
 * The same for installing packages (session/install.h), of the system where `language` is NULL, for the root of a spec; or
 * where that is NULL in the session `id`. The object of its RUNNER_RESULT says what the package manager wrote, and whether it
 * failed.
 */
int runner_install(struct runner *runner, const struct spec *spec, const char *id, const char *language, const json_t *names,
	const struct pull_config *config, struct runner_io *ret, struct error *err);

/*
 * The same for making a session (session/session.h) of a spec and options. The object of its RUNNER_RESULT is {"id":
 * string, "warnings": [string], "sandbox": …, "limits": …}, the last two as run_result_to_json has them. The session ends
 * unless runner_claim is called then, before the socket is closed. `names` (NULL: none) of packages of the options' language are
 * installed in it before; where that fails, the object says so as that of an install does, and there is no session.
 */
struct session_options;
int runner_create(struct runner *runner, const struct spec *spec, const struct session_options *options, const json_t *names,
	const struct pull_config *config, struct runner_io *ret, struct error *err);
void runner_claim(struct runner_io *io);

/*
 * The same for snapshots that servers may use (image/snapshots.h). `request` is one of
 *
 *     {"op": "fork", "of": the id of a session or a snapshot, or its name, "max_bytes", "shared_max", and what is to be other
 *     than there: "idle_ms", "timeout_ms", "memory_bytes", "network"}
 *                     → as runner_create has it, with "how", "copied_bytes", "language"; runner_claim, too
 *     {"op": "list"}  → {"snapshots": [{"id", "name", "session", "parent", "created_s", "root", "root_path", "bytes"}]}
 *     {"op": "delete", "snapshot": its name or id}  → {"id"}
 */
int runner_snapshot(struct runner *runner, const json_t *request, struct runner_io *ret, struct error *err);

/* The same for a question to the session `id`, by a socket of its own: session.h has the requests. */
int runner_ask(const char *id, json_t *request, struct runner_io *ret, struct error *err);

/* Sends what the socket takes. Returns 1 when more is to be sent, 0 when all is sent, -1 on failure. */
int runner_flush(struct runner_io *io, struct error *err);

enum runner_message {
	RUNNER_AGAIN,    /* nothing whole yet */
	RUNNER_PROGRESS, /* *ret: {"last_line": string, "elapsed_ms": integer} */
	RUNNER_RESULT, /* *ret: the object of run_result_to_json; the run is over, everything of it is gone */
	RUNNER_FAILED, /* the supervisor went away, spoke nonsense, or could not begin: *err says which */
};

/* Reads without blocking. *ret is a new reference, set for PROGRESS and RESULT. */
enum runner_message runner_read(struct runner_io *io, json_t **ret, struct error *err);

/*
 * Ends the run at once, and leaves the socket open for reading: RUNNER_RESULT or RUNNER_FAILED then says
 * that everything of it is gone.
 */
void runner_cancel(struct runner_io *io);

/* Closes the socket (which cancels a run that has not ended) and frees the buffers. */
void runner_io_close(struct runner_io *io);

#endif
