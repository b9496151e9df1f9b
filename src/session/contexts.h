/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_CONTEXTS_H
#define NSBOX_SESSION_CONTEXTS_H

/*
 * Contexts: interpreters that are kept between pieces of code. A context is a command of the session in the background
 * (a job, whose output is not its own) that runs a *driver*, a program in the language itself. The driver takes *cells*
 * of code, one after the other, runs them in one lasting state, and says what came of each.
 *
 *     descriptors of the driver    0    requests: a pipe
 *                                  1, 2 standard output and error of the code: pipes
 *                                  3    replies: a pipe (replies.h)
 *     requests                     run ID LENGTH\n and LENGTH bytes: the code of a cell. The end of the pipe ends the
 *                                  driver
 *     SIGINT                       ends the cell that runs, with all state kept; between cells it does nothing
 *
 * A *call* is a job as well: it waits for its turn (JOB_WAITING), then runs (JOB_CALL), and what the driver and all
 * below it write meanwhile is the call's. With the reply `end` it has ended, and what is in the pipes then belongs to
 * it. What is written while no call runs is kept, up to a bound, and comes with the next one, apart from that one's own.
 *
 * The time of a call begins when its code does. It waits for a driver to be ready as long as it may run, but for
 * CONTEXT_PATIENCE_MS at least: an interpreter that is slow to start is none that hangs. Whoever interrupts a context that
 * starts ends its driver, and all that waits for it is refused.
 *
 * A call that has to end (its time is up, its client has gone) is interrupted first. Where it does not obey within
 * CONTEXT_OBEY_MS the context is ended with all its processes. So is one whose driver speaks nonsense. A context that
 * has ended, of whatever, is no other one until it is restarted: it refuses calls, and says how it ended. But one that was
 * ended by a restore of its session, which somebody has asked for, begins anew with the next call, whose note says so.
 */

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/capture.h"
#include "sandbox/result.h"
#include "session/cells.h"
#include "session/replies.h"
#include "util/error.h"

struct connection;
struct job;
struct session;

enum {
	CONTEXTS_MAX = 16,
	CONTEXT_NAME_MAX = 64,
	CONTEXT_OBEY_MS = 2000, /* for a cell that is interrupted to end */
	CONTEXT_START_MS = 60 * 1000,
	CONTEXT_PATIENCE_MS = 10 * 1000,
	CONTEXT_BEFORE_BYTES = 16 << 10, /* kept of each stream of what is written between calls */
};

enum context_state {
	CONTEXT_NONE, /* a free place */
	CONTEXT_STARTING,
	CONTEXT_READY,
	CONTEXT_ENDING, /* by a request: see `restarts` */
	CONTEXT_ENDED,
};

struct context {
	enum context_state state;
	char name[CONTEXT_NAME_MAX + 1], language[32];
	uint32_t generation;   /* another for each driver that was started, of all in the session */
	uint64_t since_us;     /* it was started, or has ended */
	struct job *job;       /* of the driver; NULL once that has ended */
	struct job *call;      /* whose turn it is; or NULL */
	uint32_t cells;        /* that the driver was given: the last one's number */
	int requests, answers; /* our ends of the pipes, non-blocking; -1 */
	char *out;             /* owned: what is to be written to `requests` still */
	size_t out_length, out_sent;
	struct replies replies;
	uint64_t start_until_us, deaf_until_us; /* it is ended then; UINT64_MAX: never */
	bool reborn; /* it was restarted: where that fails it is one that has ended, and not one that never was */
	bool restored; /* a restore has ended it: the next call begins it anew */
	bool anew;     /* that has happened, and nobody was told yet */
	bool restarts; /* once it has ended; else, where a request ends it, it is gone then */
	struct capture before[2]; /* what was written since the last call */
	const char *fault;        /* why we ended it, where that was no limit: a literal; or NULL */
	char how[ERROR_TEXT_MAX]; /* it ended: «it …» */
};

/* Why a cell is interrupted. What comes later in this list takes the place of what comes before. */
enum interruption {
	INTERRUPTION_NONE,
	INTERRUPTION_ASKED,
	INTERRUPTION_TIMEOUT,
	INTERRUPTION_CANCELLED
};

/* What there is to a call besides a job. */
struct cell {
	struct context *context;
	uint64_t order; /* of calls: who came first has its turn first */
	char *code;     /* owned */
	size_t length;
	uint32_t number; /* 0: the driver has not got it yet */
	struct shown shown;
	enum cell_status status;
	bool context_ended; /* while it ran */
	enum interruption interruption;
	uint64_t again_us;         /* SIGINT is sent again; UINT64_MAX: never */
	uint64_t give_up_us;       /* the context is ended; UINT64_MAX: never */
	struct captured before[2]; /* owned */
	char note[ERROR_TEXT_MAX]; /* a sentence for who reads the result */
};

/* {"op": "context"}, see session.h; and whether that one changes nothing. */
bool context_only_looks(const json_t *request);
void context_request(struct session *session, struct connection *connection, const json_t *request);

/* Whether a connection that waits for a context (connection->request) has its answer now, or its time is up. */
void context_waited(struct session *session, struct connection *connection, uint64_t now);

/* Of the driver's job: its descriptors, what is done with them, and its end, whatever ended it. The last frees it. */
struct stdio;
int context_prepare_stdio(struct context *context, struct stdio *ret, struct error *err);
enum { CONTEXT_POLLFDS = 4 };
void context_fill_poll(const struct context *context, struct pollfd ret[CONTEXT_POLLFDS]);
void context_step(
	struct session *session, struct context *context, const struct pollfd fds[CONTEXT_POLLFDS]);
void context_driver_ended(struct session *session, struct job *job);

/* Bytes that the driver, or what is below it, has written. Returns -1 where there is no memory for them. */
int context_take_output(struct context *context, int stream, const void *data, size_t length);

/* Of a call's job: it begins now; its client has gone; it is freed. */
void context_start_call(struct session *session, struct job *job);
void context_cancel_call(struct session *session, struct job *job);

/* Says how long a call that waits for its turn waits for a driver to be ready. */
void context_set_patience(struct job *job);
void cell_free(struct job *job);

/* Lets calls begin whose turn it is, and looks at the clock. Returns when to come again, at the latest. */
uint64_t contexts_check_clocks(struct session *session, uint64_t now);

/* After a pause of that length. */
void contexts_shift_clocks(struct session *session, uint64_t by_us);

/* Sets "cell" in the result of a call. */
void context_set_result(const struct job *job, json_t *object);

/* --- between contexts.c, context_calls.c and context_requests.c --- */

/* Starts the driver of a context whose name and language are set. Where that fails at once, the name is empty then. */
int context_start(struct session *session, struct context *context, struct error *err);

/* Ends it with all that it has started; context_driver_ended comes then. `fault`: a literal that says why, or NULL. */
void context_end_driver(struct session *session, struct context *context, enum ended_by ended_by,
	const char *fault);

/* Starts it anew, once it has ended; where that fails the context has ended. */
void context_begin_again(struct session *session, struct context *context);

/* Before all jobs are ended for a restore, and afterwards. */
void contexts_begin_restore(struct session *session);
void contexts_end_restore(struct session *session, const char *snapshot);

/* *err says that it has ended, and how. */
void context_set_ended(const struct context *context, struct error *err);

void context_free(struct context *context);

/* As much of context->out as the pipe takes. */
void context_write_requests(struct session *session, struct context *context);

/* Whether the driver has a cell, whose call is context->call. */
bool context_call_runs(const struct context *context);

/* Of that call: it has shown something; its cell has ended; its driver has. */
void context_take_shown(
	struct session *session, struct context *context, const struct reply *reply);
void context_cell_ended(struct session *session, struct context *context, enum cell_status status);
void context_end_call(struct session *session, struct context *context, struct job *call,
	const struct job *driver);

/* Whoever waits for the call is told that it was not run; the same for all that wait for their turn. */
void context_refuse_call(struct job *call, const struct error *err);
void context_refuse_waiting(
	struct session *session, const struct context *context, const struct error *err);

/* Interrupts a call, or has it end when it would begin. */
void context_interrupt(struct session *session, struct job *call, enum interruption why);

#endif
