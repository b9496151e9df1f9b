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
#include <time.h>

#include "image/snapshots.h"
#include "image/upper.h"
#include "sandbox/capture.h"
#include "sandbox/create.h"
#include "sandbox/result.h"
#include "sandbox/spec.h"
#include "sandbox/stdio.h"
#include "sandbox/watcher.h"
#include "session/backlog.h"
#include "session/contexts.h"
#include "session/session.h"
#include "session/space.h"

struct agent_message;
struct listing;

/*
 * The layers that the root is over, and whether there is anything new above them: snapshot.c. `held`: descriptors.
 */
struct past {
	int *held;
	size_t held_count, layers_count; /* of the store's snapshots are the first layers_count */
	char parent[SESSION_ID_SIZE];	 /* the snapshot that it is over; empty: none */
	uint64_t touched_us;		 /* when something may have been written first since; 0: nothing has */
	struct timespec touched;	 /* the same as files have it */
	char packages[SESSION_ID_SIZE];	 /* the layer that is a copy of what is installed for its code; empty: none */
	int packages_held;		 /* that; -1 */
	struct upper_size packages_size; /* of the original, when it was the same */
	bool tried;			 /* an overlay can be made where the space is */
	uint64_t tmpfs_blocks[1 + SPEC_TMPFS_MAX], tmpfs_files[1 + SPEC_TMPFS_MAX]; /* free ones at the beginning */
};

/* A snapshot that is copied, by a process of its own, while the code stands still: snapshot.c. */
struct copying {
	struct connection *connection; /* that waits for it; NULL: there is none */
	struct job *job;	       /* whose commands have ended, the same */
	json_t *request;	       /* owned */
	struct snapshots snapshots;
	int lock, folder; /* of the store of snapshots; of the layer */
	char layer[SNAPSHOT_ID_SIZE];
	pid_t pid;  /* 0: the code comes to a stand still */
	int answer; /* where it says how it went; -1 */
};

/* Layers that are merged into one by a process of its own: flatten.c. */
struct flattening {
	char **trees; /* those, the topmost first; owned; NULL: none are */
	char *tree;   /* the new one; owned */
	int folder;   /* of that, held; -1 */
	pid_t pid;    /* 0: it has ended */
	int answer;   /* where it says how it went; -1 */
	bool done;    /* the new one is as good as the others */
	size_t again;	    /* layers that there are to be before another attempt */
	struct error error; /* why the last one failed; its text is empty: it did not */
};

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
	bool held;              /* the request is looked at once nothing is paused any more */
	unsigned pausing;       /* what it asked for, enum pause_wish, and has no answer yet; 0: neither */
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
	JOB_WAITING, /* a call of a context, until it is its turn; then it goes on as the others do, but that it is not */
	JOB_CALL,    /* JOB_RUNNING, but this */
	JOB_SNAPSHOT, /* a snapshot is to be made of what it has left, or is being copied */
	JOB_DONE, /* in the background, and ended: its result and output can still be asked for */
};

/* What the commands of a job have changed: changes.c. */
struct job_changes {
	bool wanted;
	size_t inputs;           /* files of the request, which are written before */
	struct listing *before; /* what there was; held */
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
	int master;       /* of it, which is the client's to use; -1 */
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
	struct report *network; /* what the gate had done before it began; owned; NULL: there is none */
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
	json_t *snapshot; /* a request for one, once its commands have ended; owned, or NULL */
	json_t *snapshot_told; /* what came of it, for the result; owned */
	size_t image_index; /* of the changed file that is looked at next: images.c */
	struct context *context; /* whose driver it is; or NULL */
	struct cell *cell;	 /* of a call of a context; owned; or NULL */
};

/* Who wants the code to stand still: it goes on when nobody does. */
enum pause_holder { PAUSE_USER = 1, PAUSE_SNAPSHOT = 2 };

enum pause_wish { WISH_PAUSE = 1, WISH_RESUME = 2 };

enum pause_state { PAUSE_NONE, PAUSE_STOPPING, PAUSE_STILL };

/* All stands still, or it did not come to that: *err. */
typedef void pause_told(struct session *session, void *data, const struct error *err);

struct pause {
	enum pause_state state;
	unsigned holders;    /* bits of enum pause_holder */
	uint64_t since_us;   /* when the clocks stopped */
	uint64_t look_us, deadline_us; /* when what is frozen is looked at next; when it is given up; UINT64_MAX */
	uint32_t request;    /* the latest of the agent; its answer is waited for while `unanswered` */
	unsigned unanswered; /* requests */
	pause_told *told;    /* for who is not the user, until it is told */
	void *data;
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
	struct past past;
	struct copying copying;
	struct flattening flattening;
	struct watcher watcher;
	bool watching;
	uint64_t tick_us;
	uint64_t created_us, used_us;
	uint32_t next_id, next_process;
	struct job jobs[JOBS_MAX];
	struct connection connections[CONNECTIONS_MAX];
	struct context contexts[CONTEXTS_MAX];
	uint32_t next_generation; /* of a context's driver */
	uint64_t next_order;	  /* of a call */
	uint64_t activity;       /* a number that changes whenever something may change files; never 0 */
	struct listing *latest; /* what there is in /workspace; NULL: that is not known */
	uint64_t latest_until_us;
	struct pause pause;
	bool ending;
	bool outlived; /* it ends since its life is over */
};

uint64_t session_now_us(void);

/* An id for the next thing that the agent is asked for. */
uint32_t session_next_id(struct session *session);

/* All descriptors from 3 on but `kept`, `count` of them: what whoever made this process had open is not for it to hold. */
void session_close_inherited(const int *kept, size_t count);

/* --- the sandbox: session.c --- */

/* The one that there is ends; what is in its space stays. */
void session_take_down(struct session *session);

/* *err says that the session has ended, and why. */
void session_set_ended(const struct session *session, struct error *err);

/* Makes one of session->spec. After a failure session_take_down is called for what there is of it. */
int session_create_sandbox(struct session *session, struct error *err);

/* --- snapshots: snapshot.c --- */

/* Holds the layers of the root, against removal. */
int past_hold(struct session *session, struct error *err);

/* The same, where they are others now; after a failure those are held that were. */
int past_hold_again(struct session *session, struct error *err);

/* What is installed for its code, as session->options say it, into the place that it has for that. */
int past_take_packages(struct session *session, struct error *err);

/* The sandbox is gone for good: layers go that nothing else needs. */
void past_end(struct session *session);

/* The sandbox has come to be. */
void past_begin(struct session *session);

/* From now on something may be written. */
void past_touch(struct session *session);

/* Takes the layers of snapshots away from the copy of the session's root. */
void past_leave_out(const struct session *session, struct spec *root);

/* {"op": "snapshot"} and {"op": "restore"}: session.h. */
void snapshot_request(struct session *session, struct connection *connection, const json_t *request);
void restore_request(struct session *session, struct connection *connection, const json_t *request);

/*
 * Makes those that jobs in the state JOB_SNAPSHOT wait for, one after the other, and ends jobs that have theirs. At the
 * beginning of a turn.
 */
void snapshots_of_jobs(struct session *session);

/* --- merging layers: flatten.c --- */

/*
 * Before a snapshot, and after one that was not copied, by who has the lock of the store's: takes what has been merged, and has
 * more merged where there are many layers. `max_bytes`: that all snapshots may take; 0: there is no limit.
 */
void flatten_before(struct session *session, const struct snapshots *snapshots, uint64_t max_bytes);
void flatten_after(struct session *session, const struct snapshots *snapshots, uint64_t max_bytes);

/* The layers of the session's root are others. */
void flatten_review(struct session *session);

/* There is no sandbox now: what was merged takes the place of what it was made of. */
void flatten_apply(struct session *session, const struct snapshots *snapshots);

/* The session's layers with what was merged in its place; *ret_count of them are the store's snapshots'. The caller's. */
char **flatten_layers(const struct session *session, size_t *ret_count);

/* Their number, with all that is below. */
size_t flatten_count(const struct session *session);

/* Whether there can be one more, else -1 with *err. */
int flatten_check(const struct session *session, struct error *err);

/* Nothing is merged any more. */
void flatten_end(struct session *session);

/* The process that copies has said how it went, or has died. */
void snapshot_copied(struct session *session);

/* Nobody waits for the one that is being copied any more (of a job's: `job`); or who does is told why it is none. */
void snapshot_cancel(struct session *session, const struct job *job);
void snapshot_end(struct session *session, const struct error *err);

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

/* Begins with what there is to be done first. */
void job_start(struct session *session, struct job *job);

/* With the answer, after what there is to be done before it. */
void job_finish(struct session *session, struct job *job);

/* Takes what its command has written: what one read gives, or what is in the pipes now. False: nothing more is there. */
bool job_read_captured(struct job *job, int stream);
void job_drain(struct job *job);

/* The session's variables, for a command: those that it has itself stay. */
void job_inherit_env(const struct session *session, struct exec_spec *exec);

/* A call of a context, as the request has it; its beginning, in JOB_CALL; and what is noted of it at its end. */
int job_prepare_call(struct session *session, struct job *job, const json_t *request, struct error *err);
void job_begin_call(struct session *session, struct job *job);
void job_close_call(struct session *session, struct job *job);

/* Of a context's driver, which has ended: frees it, and what was made for it goes. */
void job_forget_driver(struct session *session, struct job *job);

/*
 * Of one in the state JOB_SNAPSHOT: what came of that (taken over), with which its result is told in the next turn. Not
 * before: what goes on once a snapshot is made may end the job, and another one have its place.
 */
void job_note_snapshot(struct session *session, struct job *job, json_t *told);
bool jobs_have_snapshots(const struct session *session);

/* Ends its command, for a reason of ours; what the agent says of its end comes then. */
void job_end_command(struct session *session, struct job *job, enum ended_by ended_by);

/* The sandbox is gone. */
void jobs_fail_all(struct session *session, const struct error *err);

/* What they may use of time grows by this. */
void jobs_shift_clocks(struct session *session, uint64_t by_us);

/* Nothing is paused any more: what waited for that goes on. */
void jobs_resumed(struct session *session);

void job_free(struct job *job);

/* Its result as clients get it (new reference). */
json_t *job_result_to_json(const struct job *job);

/* --- pause and resume: pause.c --- */

/*
 * Nothing of the code runs from when `told` is called, at once or later, until pause_release. `holder` is not the user,
 * and holds no pause. Requests that need the sandbox wait for the end of it; where the user has paused as well, they are
 * refused, and the code goes on when both have released it.
 */
void pause_take(struct session *session, enum pause_holder holder, pause_told *told, void *data);
void pause_release(struct session *session, enum pause_holder holder);

/* Whether the clocks of commands stand, and nothing new may begin in the sandbox. */
bool pause_active(const struct session *session);

/* {"op": "pause"}, {"op": "resume"} */
void pause_request(struct session *session, struct connection *connection);
void resume_request(struct session *session, struct connection *connection);

/* Its client has gone. */
void pause_forget(struct session *session, struct connection *connection);

/* Nothing is paused, and the sandbox is another now, of which nothing was asked. */
void pause_begin_anew(struct session *session);

/* Returns when to come again, at the latest. */
uint64_t pause_check_clock(struct session *session);

/* AGENT_PAUSED, AGENT_RESUMED. False: it makes no sense. */
bool pause_take_message(struct session *session, const struct agent_message *message, size_t length);

/* Requests that were held: session.c. */
void serve_held(struct session *session);

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
