/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_SUPERVISE_H
#define NSBOX_SESSION_SUPERVISE_H

/*
 * The supervisor of a session, inside: connections, jobs (commands) and work on files, driven by one poll loop
 * (session.c). What the sandbox says is taken as hostile here as it is by the supervisor of a run: all that comes
 * of it are bytes of bounded length, numbers that are checked, and the time that it takes.
 */

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/capture.h"
#include "sandbox/create.h"
#include "sandbox/result.h"
#include "sandbox/spec.h"
#include "sandbox/stdio.h"
#include "sandbox/watcher.h"
#include "session/backlog.h"
#include "session/session.h"
#include "session/space.h"

struct agent_message;
struct snapshot;

enum { JOBS_MAX = 48, CONNECTIONS_MAX = 96, FILE_DEADLINE_MS = 60 * 1000 };

/* A client, which has one request. */
struct connection {
	int fd; /* -1: a free place */
	char *in;
	size_t in_length, in_size;
	char *out; /* the answer, once there is one */
	size_t out_length, out_sent;
	int out_fds[2]; /* descriptors that go with its first byte; -1 */
	int streams
		[3]; /* descriptors that came with the request: the command's standard ones; -1 */
	bool lost; /* such came, and could not be taken */
	uint64_t wait_until_us; /* for the output of a process; 0: it does not wait */
	json_t *request;        /* while it waits */
};

#define CONNECTION_NONE                                                                            \
	((struct connection){.fd = -1, .out_fds = {-1, -1}, .streams = {-1, -1, -1}})

/* One piece of work on files. */
struct file_work {
	uint32_t id;
	int channel;            /* -1: none */
	const uint8_t *content; /* borrowed: what is still to be sent */
	size_t content_length;
	uint8_t *answer; /* owned */
	size_t answer_length, answer_size, answer_max;
	bool ended, overdue;
	uint64_t deadline_us; /* from when the worker inside last took or gave something; UINT64_MAX: it waits for us */
	/* content that is carried between the worker and a socket of the client's: files_stream.c */
	int stream; /* -1: none */
	bool into;  /* the sandbox; else out of it */
	bool stream_ended;
	uint8_t *piece; /* owned: what is on its way are `piece_length` bytes from `piece_start` on */
	size_t piece_start, piece_length;
	uint64_t streamed; /* bytes that the client got */
	struct error *failure; /* owned: what ended it that the worker does not know of; or NULL */
};

#define FILE_WORK_NONE ((struct file_work){.channel = -1, .stream = -1})

enum input_end { INPUT_NEVER /* it was not open */, INPUT_CLOSED /* by a client */, INPUT_READER_GONE };

/* Standard input of a command in the background. */
struct input {
	int writer;   /* our end, non-blocking; -1: see `end` */
	int reader;   /* until the command has it; then -1 */
	uint8_t *data; /* owned: what the pipe has not taken are `length` bytes from `start` on */
	size_t start, length;
	bool close; /* once all is written */
	enum input_end end;
};

#define INPUT_NONE ((struct input){.writer = -1, .reader = -1})

enum job_state {
	JOB_FREE,
	JOB_FILE,    /* a client's work on files */
	JOB_SOURCE,  /* the text of the program is read */
	JOB_FILES,   /* the files of a spec are written */
	JOB_BEFORE,  /* what there is in /workspace is looked at, to know what its commands change */
	JOB_RUNNING, /* one of its commands */
	JOB_DRAINING, /* that has ended, and what it wrote is still to be passed on to the client's streams */
	JOB_AFTER,    /* its commands have ended, and what there is in /workspace is looked at again */
	JOB_IMAGE, /* an image that it made is read */
	JOB_REMOVING, /* its source is removed */
	JOB_DONE, /* in the background, and ended: its result and output can still be asked for */
};

/* What the commands of a job have changed: changes.c. */
struct job_changes {
	bool wanted;
	size_t inputs;           /* files of the request, which are written before */
	struct snapshot *before; /* what there was; held */
	uint64_t activity;       /* the session's when it was looked at last, or: others were active then */
	char **sources;          /* of programs, which were there when the look began: names, NULL-terminated; or NULL */
	json_t *told;            /* for the result */
};

enum { ACTIVITY_UNKNOWN = 0 };

struct job {
	const struct session *session;
	enum job_state state;
	uint32_t process;              /* the number that clients know it by */
	struct connection *connection; /* that waits for it; NULL: nobody does */
	bool background, cancelled, wants_progress;
	json_t *terminal; /* of what size the command is to get one; NULL: none */
	/* work on files, also of a spec */
	struct file_work work;
	uint32_t kind;    /* FILEOP_… of JOB_FILE */
	uint8_t *content; /* JOB_FILE: owned */
	size_t file_index;
	/* commands */
	json_t *program; /* while its text is read; else NULL */
	char *source, *support; /* what was made for it and is to be removed: a file, a directory; or NULL */
	struct spec spec;
	size_t index; /* of the command */
	uint32_t id;  /* that the agent knows it by */
	struct run_result result;
	struct exec_result *exec;
	struct stdio stdio;
	struct capture captures[2];
	int streams
		[3]; /* the client's, where it gave some: what the command reads and writes is carried */
	struct input input; /* background, with "stdin_open" */
	struct backlog kept; /* background: its output, both streams as they came */
	bool stopped_by_us;
	int keeper; /* the process id inside of its keeper, as the agent says: a hint, for whom memory is used */
	uint64_t written_bytes; /* to disks, when it was looked last: see space.c */
	uint64_t created_us, started_us, deadline_us, end_deadline_us;
	uint64_t progress_us; /* when the client is told of it next; UINT64_MAX: never */
	uint64_t hangup_us; /* then it is ended, whose terminal was hung up; UINT64_MAX */
	struct job_changes changes;
	size_t image_index; /* of the changed file that is looked at next: images.c */
};

struct session {
	const struct spec *spec; /* `own`: */
	struct spec own; /* what it was made of, which owns all but the struct itself, and where its space is */
	struct session_options options;
	char id[SESSION_ID_SIZE];
	int place, listener;
	int spare; /* a descriptor to be given up for a client that is refused where there are no more; -1 */
	uint64_t accept_us; /* when clients are let in again */
	int claim; /* until somebody has said that its id is known; then -1 */
	struct sandbox sandbox;
	struct run_result
		walls; /* what creating the sandbox has noted: who enforces what, ids, warnings */
	int proc_fd;
	int devpts_fd;
	int tmpfs_fds[1 + SPEC_TMPFS_MAX];
	size_t tmpfs_count;
	struct space space;
	struct watcher watcher;
	bool watching;
	uint64_t tick_us;
	uint64_t created_us, used_us;
	uint32_t next_id, next_process;
	struct job jobs[JOBS_MAX];
	struct connection connections[CONNECTIONS_MAX];
	uint64_t activity;       /* a number that changes whenever something may change files; never 0 */
	struct snapshot *latest; /* what there is in /workspace; NULL: that is not known */
	uint64_t latest_until_us;
	bool ending;
	bool outlived; /* it ends since its life is over */
};

uint64_t session_now_us(void);

/* An id for the next thing that the agent is asked for. */
uint32_t session_next_id(struct session *session);

/* All descriptors from 3 on but `kept`, `count` of them: what whoever made this process had open is not for it to hold. */
void session_close_inherited(const int *kept, size_t count);

/* --- connections: session.c --- */

/* Answers a request and frees the place once that is sent. `object` is taken over. */
void answer(struct connection *connection, json_t *object);
/* With copies of at most two descriptors. */
void answer_with(struct connection *connection, json_t *object, const int *fds, size_t count);
/* A frame before the answer, or nothing where the client does not take it now. `object` is taken over. */
void tell_progress(struct connection *connection, json_t *object);
void answer_failure(struct connection *connection, const struct error *err);

/* Hands over the master of a terminal, before the answer. Returns 0, or -1 where the client takes nothing. */
int give_terminal(struct connection *connection, int master);

/* --- standard input that stays open: input.c --- */

int input_open(struct input *input, struct error *err);
void input_free(struct input *input);

/* The command's end, which is the caller's now; it reads `data` before all else. */
int input_start(struct input *input, const void *data, size_t length);

/* Takes all of it, to be written when the command reads, or fails and takes nothing. `close`: no more comes after it. */
int input_add(struct job *job, const void *data, size_t length, bool close, struct error *err);

struct pollfd input_pollfd(const struct input *input);
void input_step(struct input *input, short events);

/* {"op": "input"} */
void input_request(struct job *job, struct connection *connection, const json_t *request);

/* --- terminals: terminals.c --- */

/*
 * Opens a terminal inside: its master, and the other end, which is the command's; both are the caller's to close.
 * `size`: {"rows": R, "columns": C}.
 */
int terminal_open(
	const struct session *session, const json_t *size, int *ret_master, int *ret_peer, struct error *err);

/* --- jobs: jobs.c --- */

/* A free place, or NULL with *err. What ended longest ago in the background makes room. */
struct job *job_take(struct session *session, struct error *err);

/* The same without making room: NULL where no place is free. */
struct job *job_take_unused(struct session *session);

/* {"op": "exec"}: takes over nothing. Answers, at once or later. */
void job_exec(struct session *session, struct connection *connection, const json_t *request);

/* The client that waits has gone. */
void job_cancel(struct session *session, struct job *job);

struct job *job_by_process(struct session *session, uint32_t process);
json_t *job_describe(const struct job *job);

/* At most JOB_POLLFDS descriptors; returns how many were filled. */
enum { JOB_POLLFDS = 3 + 3 * RELAY_POLLFDS /* work on files, or: captured output, input, relays */ };
size_t job_fill_poll(struct job *job, struct pollfd *ret);
void job_handle_poll(
	struct session *session, struct job *job, const struct pollfd *fds, size_t count);

/* False: it makes no sense. */
bool job_take_message(struct session *session, const struct agent_message *message, size_t length);

/* Deadlines, and the memory limit where no cgroup holds it. Returns when to come again, at the latest. */
uint64_t jobs_check_clocks(struct session *session);

/* Ends its command, for a reason of ours; what the agent says of its end comes then. */
void job_end_command(struct session *session, struct job *job, enum ended_by ended_by);

/* The sandbox is gone. */
void jobs_fail_all(struct session *session, const struct error *err);

void job_free(struct job *job);

/* Its result as clients get it (new reference). */
json_t *job_result_to_json(const struct job *job);

/* --- images that commands make: images.c --- */

/*
 * Whether another image is read now: the job then is in the state JOB_IMAGE until that has ended, and images_looked is to
 * be called. After what has changed is known.
 */
bool images_look(struct session *session, struct job *job);
void images_looked(struct job *job);

/* --- what commands change: changes.c --- */

/*
 * Before anything but the request's own files, and after the last command, until they return false. True: the job has
 * another state, JOB_BEFORE or JOB_AFTER, until its work has ended: then changes_looked is to be called.
 */
bool changes_look_before(struct session *session, struct job *job);
bool changes_look_after(struct session *session, struct job *job);
void changes_looked(struct session *session, struct job *job);

/* Nothing can be told any more, for a reason, or as nothing was changed (NULL). */
void changes_give_up(struct job_changes *changes, const char *why);

/* From now on files may be others than they were. */
void changes_note_activity(struct session *session);

/* Returns when to come again, at the latest. */
uint64_t changes_check_clock(struct session *session, uint64_t now);

void changes_free(struct job_changes *changes);

/* --- work on files: files.c --- */

int file_work_start(struct session *session, struct file_work *work, const void *request,
	size_t length, const void *content, size_t content_length, size_t answer_max,
	struct error *err);
/* The same with the content of a FILEOP_WRITE from `stream`, or that of a FILEOP_READ to it; takes it over. */
int file_work_start_stream(struct session *session, struct file_work *work, const void *request, size_t length,
	int *stream, struct error *err);

enum { FILE_WORK_POLLFDS = 2 };
void file_work_fill_poll(const struct file_work *work, struct pollfd ret[FILE_WORK_POLLFDS]);
void file_work_step(struct session *session, struct file_work *work, const struct pollfd *fds);

/* One that streams: its part of the two above. */
void file_stream_fill_poll(const struct file_work *work, struct pollfd ret[FILE_WORK_POLLFDS]);
void file_stream_step(struct session *session, struct file_work *work, const struct pollfd *fds);
void file_stream_free(struct file_work *work);
/* Once it has ended: 0, or -1 with what failed as a sentence about `path`. */
int file_work_result(const struct file_work *work, const char *path, struct error *err);
void file_work_free(struct file_work *work);

/* {"op": "file"} */
void file_request(struct session *session, struct connection *connection, const json_t *request);
void file_answer(struct job *job);
/* Starts writing file `index` of job->spec. */
int file_write_of_spec(struct session *session, struct job *job, struct error *err);
/* Starts reading the first `limit` bytes of a file; file_text gives them, borrowed. */
int file_read_start(struct session *session, struct job *job, const char *path, uint64_t limit, struct error *err);
const void *file_text(const struct file_work *work, size_t *ret_length);
/* Starts removing a file, or a directory with all in it. */
int file_remove_start(struct session *session, struct file_work *work, const char *path, struct error *err);
/* The same, and says nothing of how that went. */
void file_remove(struct session *session, const char *path);

#endif
