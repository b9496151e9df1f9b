/* SPDX-License-Identifier: MIT */
/*
 * The commands of a session. A job has the files of a request written, one after the other, and then runs its
 * commands, one after the other, as a run of its own does (sandbox/supervisor.c), but in the session's sandbox and
 * beside other jobs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"
#include "sandbox/account.h"
#include "sandbox/wire.h"
#include "session/program.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum {
	KEPT_IN_ALL_MAX = 4 * RESULT_KEPT_BYTES_MAX, /* of all commands of a session */
	KEPT_LEAST = 1 << 20, /* of one, whatever others have */
	END_DEADLINE_MS = 10 * 1000, /* for a command that was ended to be gone */
	HANGUP_MS = 2000,            /* for one whose terminal was hung up to end by itself */
	TICK_MS = 50,
	PROGRESS_MS = 1000,
	OUTPUT_CHUNK = 64 << 10,
	ERRNO_END = 4096,
	DESCRIBED_MAX = 4096, /* bytes of a command's words that are shown and kept */
	GIVEN_MAX = 128 << 20, /* bytes that requests have brought for commands that run */
	SOURCE_MAX = 4 << 20, /* bytes of a file that are read for what its language has to know */
};

/* --- places --- */

void job_free(struct job *job)
{
	file_work_free(&job->work);
	stdio_close(&job->stdio);
	for (int i = 0; i < 2; i++)
		capture_free(&job->captures[i]);
	backlog_close(&job->kept);
	input_free(&job->input);
	for (int i = 0; i < 3; i++)
		close_fd(&job->streams[i]);
	free(job->content);
	json_decref(job->program);
	free(job->source);
	free(job->support);
	json_decref(job->terminal);
	close_fd(&job->master);
	run_result_free(&job->result);
	free(job->network);
	spec_free(&job->spec);
	changes_free(&job->changes);
	json_decref(job->snapshot);
	json_decref(job->snapshot_told);
	cell_free(job);
	*job = (struct job){.state = JOB_FREE,
		.master = -1,
		.kept = BACKLOG_NONE,
		.streams = {-1, -1, -1},
		.input = INPUT_NONE,
		.work = FILE_WORK_NONE,
		.stdio = STDIO_NONE};
}

static struct job *occupy(struct session *session, struct job *job)
{
	*job = (struct job){.session = session,
		.state = JOB_FREE,
		.work = FILE_WORK_NONE,
		.stdio = STDIO_NONE,
		.streams = {-1, -1, -1},
		.input = INPUT_NONE,
		.kept = BACKLOG_NONE,
		.deadline_us = UINT64_MAX,
		.end_deadline_us = UINT64_MAX,
		.progress_us = UINT64_MAX,
		.hangup_us = UINT64_MAX,
		.master = -1,
		.created_us = session_now_us()};
	spec_init(&job->spec);
	return job;
}

struct job *job_take_unused(struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_FREE)
			return occupy(session, &session->jobs[i]);
	return NULL;
}

struct job *job_take(struct session *session, struct error *err)
{
	struct job *job = job_take_unused(session);

	if (job)
		return job;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *other = &session->jobs[i];

		if (other->state == JOB_DONE && (!job || other->process < job->process))
			job = other;
	}
	if (!job) {
		error_set(err, 0, "the session has %d commands and pieces of work on files already",
			JOBS_MAX);
		error_hint(err, "wait for some of them, or end them");
		return NULL;
	}
	job_free(job);
	return occupy(session, job);
}

struct job *job_by_process(struct session *session, uint32_t process)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state != JOB_FREE && process > 0 &&
			session->jobs[i].process == process)
			return &session->jobs[i];
	return NULL;
}

/* --- results --- */

static void copy_walls(const struct session *session, struct run_result *result)
{
	memcpy(result->enforced_by, session->walls.enforced_by, sizeof result->enforced_by);
	result->host_uid = session->walls.host_uid;
	result->host_gid = session->walls.host_gid;
	result->id_range = session->walls.id_range;
	result->landlock_abi = session->walls.landlock_abi;
	memcpy(result->published, session->walls.published, sizeof result->published);
	result->published_count = session->walls.published_count;
	memcpy(result->cgroup, session->walls.cgroup, sizeof result->cgroup);
	memcpy(result->warnings, session->walls.warnings, sizeof result->warnings);
	result->warnings_count = session->walls.warnings_count;
	result->limits_warning = session->walls.limits_warning;
	result->kept_fds[0] = result->kept_fds[1] = -1;
}

/* Of the request's spec only what it runs counts: the sandbox is the session's. */
static void take_walls_of(const struct session *session, struct spec *spec)
{
	uint64_t output_bytes = spec->limits.output_bytes;

	spec->root = session->spec->root;
	free(spec->root_path);
	spec->root_path = session->spec->root_path ? xstrdup(session->spec->root_path) : NULL;
	spec->root_read_only = session->spec->root_read_only;
	spec->network = session->spec->network;
	free(spec->allow);
	spec->allow = session->spec->allow ? xstrdup(session->spec->allow) : NULL;
	spec->uid = session->spec->uid;
	spec->gid = session->spec->gid;
	free(spec->seccomp_name);
	spec->seccomp_name =
		session->spec->seccomp_name ? xstrdup(session->spec->seccomp_name) : NULL;
	spec->root_emulation = session->spec->root_emulation;
	spec->limits = session->spec->limits;
	spec->limits.output_bytes = output_bytes;
	spec->capture = true;
	spec->tty = false;
	spec->explain = false;
}

/* Whether it waits for a process inside that works on files. */
static bool works_on_files(const struct job *job)
{
	return job->state == JOB_FILE || job->state == JOB_SOURCE || job->state == JOB_FILES ||
	       job->state == JOB_BEFORE || job->state == JOB_AFTER || job->state == JOB_IMAGE ||
	       job->state == JOB_REMOVING;
}

static bool ended(const struct job *job)
{
	return job->state == JOB_DONE || job->state == JOB_FREE;
}

/* The words of a command as far as DESCRIBED_MAX bytes go, and «…» where that is not all of them. */
static json_t *describe_words(char *const *argv)
{
	json_t *words = json_array();
	size_t room = DESCRIBED_MAX;

	for (; argv && *argv; argv++) {
		size_t length = strlen(*argv), shown = length;
		json_t *word;

		if (length > room)
			shown = utf8_boundary_before(*argv, length, room);
		word = json_sprintf("%.*s%s", (int)shown, *argv, shown < length ? "…" : "");
		json_array_append_new(words, word ?: json_string("(not UTF-8)"));
		if (shown < length || room == shown) {
			if (shown == length && argv[1])
				json_array_append_new(words, json_string("…"));
			break;
		}
		room -= shown + 1;
	}
	return words;
}

json_t *job_describe(const struct job *job)
{
	json_t *words = describe_words(job->spec.execs[job->index].argv), *object;

	object = json_pack("{s:I, s:o, s:b, s:b, s:f}", "process", (json_int_t)job->process,
		"command", words, "background", job->background, "running", !ended(job), "age_s",
		(double)((session_now_us() - job->created_us) / 1000) / 1000);
	if (job->context)
		json_object_set_new(object, "context", json_string(job->context->name));
	if (!ended(job) && pause_active(job->session))
		json_object_set_new(object, "paused", json_true());
	if (job->state == JOB_DONE) {
		json_object_set_new(
			object, "status", json_integer(run_result_exit_status(&job->result)));
		json_object_set_new(object, "ended_by",
			json_string(ended_by_name(run_result_last(&job->result)->ended_by)));
	}
	return object;
}

/* What was made for its program; not before that has ended. */
static void remove_made(struct session *session, struct job *job)
{
	if (job->source)
		file_remove(session, job->source);
	if (job->support)
		file_remove(session, job->support);
	free(job->source);
	free(job->support);
	job->source = job->support = NULL;
}

json_t *job_result_to_json(const struct job *job)
{
	json_t *object = run_result_to_json(&job->result, &job->spec);

	if (job->changes.told)
		json_object_set(object, "changes", job->changes.told);
	if (job->snapshot_told)
		json_object_set(object, "snapshot", job->snapshot_told);
	if (job->cell)
		context_set_result(job, object);
	return object;
}

/* With the kept files of the streams that it has not whole. */
static void answer_result(struct job *job)
{
	json_t *object = job_result_to_json(job);
	size_t count = 0;
	int fds[RESULT_KEPT_MAX];

	if (job->spec.keep_output)
		count = run_result_add_kept(&job->result, object, fds);
	answer_with(job->connection, object, fds, count);
}

/* --- what a request has brought with it --- */

static size_t bytes_of_strings(char *const *strings)
{
	size_t bytes = 0;

	for (; strings && *strings; strings++)
		bytes += strlen(*strings) + 1;
	return bytes;
}

static size_t bytes_given(const struct job *job)
{
	size_t bytes = 0;

	for (size_t i = 0; i < job->spec.execs_count; i++) {
		const struct exec_spec *exec = &job->spec.execs[i];

		bytes += bytes_of_strings(exec->argv) + bytes_of_strings(exec->env) + exec->stdin_length;
	}
	for (size_t i = 0; i < job->spec.files_count; i++)
		bytes += job->spec.files[i].length;
	if (job->cell)
		bytes += job->cell->length;
	return bytes;
}

/* It is the host's memory, which no limit of the sandbox counts. */
static int check_given(const struct session *session, struct error *err)
{
	size_t bytes = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state != JOB_FREE && !ended(&session->jobs[i]))
			bytes += bytes_given(&session->jobs[i]);
	if (bytes <= GIVEN_MAX)
		return 0;
	error_set(err, 0, "the commands that run in the session hold %zu MiB of arguments, input and files, and may hold %d",
		bytes >> 20, GIVEN_MAX >> 20);
	return error_hint(err, "wait for some of them, or end them");
}

/* Of one that has ended only its description can still be asked for. */
static void forget_given(struct job *job)
{
	for (size_t i = 0; i < job->spec.execs_count; i++) {
		struct exec_spec *exec = &job->spec.execs[i];

		strings_free(exec->env);
		free(exec->stdin_data);
		exec->env = NULL;
		exec->stdin_data = NULL;
		exec->stdin_length = 0;
		if (bytes_of_strings(exec->argv) > DESCRIBED_MAX) {
			json_t *words = describe_words(exec->argv), *word;
			size_t at;

			strings_free(exec->argv);
			exec->argv = NULL;
			json_array_foreach(words, at, word)
				exec_add_arg(exec, json_string_value(word));
			json_decref(words);
		}
	}
	for (size_t i = 0; i < job->spec.files_count; i++) {
		free(job->spec.files[i].content);
		job->spec.files[i].content = NULL;
		job->spec.files[i].length = 0;
	}
	json_decref(job->program);
	job->program = NULL;
}

static void end_background(struct job *job)
{
	job->state = JOB_DONE;
	forget_given(job);
	input_free(&job->input);
}

/* Before it is told that the program has ended: a workspace may be the caller's own. Returns whether it is on the way. */
static bool remove_source(struct session *session, struct job *job)
{
	struct error unimportant;

	/* In a pause the end is told first. */
	if (!job->source || job->cancelled || session->ending || pause_active(session) ||
		file_remove_start(session, &job->work, job->source, &unimportant) < 0)
		return false;
	job->state = JOB_REMOVING;
	return true;
}

/* It is made in the next turn: what is done in this one may be with the sandbox that there is. */
static bool wait_for_snapshot(const struct session *session, struct job *job)
{
	if (!job->snapshot || job->snapshot_told || !job->connection || session->ending)
		return false;
	job->state = JOB_SNAPSHOT;
	return true;
}

static void finish_job(struct session *session, struct job *job)
{
	if (job->context) {
		context_driver_ended(session, job);
		return;
	}
	if (changes_look_after(session, job) || images_look(session, job) || remove_source(session, job) ||
		wait_for_snapshot(session, job))
		return;
	job->result.total_us = session_now_us() - job->created_us;
	session->used_us = session_now_us();
	if (job->connection)
		answer_result(job);
	job->connection = NULL;
	remove_made(session, job);
	if (job->background && !job->cancelled)
		end_background(job);
	else
		job_free(job);
}

void job_note_snapshot(struct session *session, struct job *job, json_t *told)
{
	/* Also where it fails before what is copied for it has ended. */
	if (session->copying.job == job)
		session->copying.job = NULL;
	job->snapshot_told = told;
}

bool jobs_have_snapshots(const struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_SNAPSHOT && session->jobs[i].snapshot_told)
			return true;
	return false;
}

void job_finish(struct session *session, struct job *job)
{
	finish_job(session, job);
}

void job_forget_driver(struct session *session, struct job *job)
{
	remove_made(session, job);
	job_free(job);
}

static void fail_job(struct session *session, struct job *job, const struct error *err)
{
	job->exec = &job->result.execs[job->index];
	job->result.execs_count = job->index + 1;
	job->exec->phase = job->spec.execs[job->index].phase ?: "run";
	job->exec->exit_code = -1;
	job->exec->ended_by = ENDED_SETUP;
	job->exec->error = *err;
	finish_job(session, job);
}

/* --- output --- */

/* What was read, for who asks for a part of it. All commands of a session share what there may be. */
static void keep(struct job *job, const uint8_t *data, size_t length)
{
	uint64_t others = 0, max = RESULT_KEPT_BYTES_MAX;

	if (!job->background)
		return;
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (&job->session->jobs[i] != job && job->session->jobs[i].state != JOB_FREE)
			others += backlog_bytes(&job->session->jobs[i].kept);
	if (others + max > KEPT_IN_ALL_MAX)
		max = others + KEPT_LEAST > KEPT_IN_ALL_MAX ? KEPT_LEAST : KEPT_IN_ALL_MAX - others;
	backlog_add(&job->kept, data, length, max);
}

/* Returns -1 where there is no memory for it. */
static int take_output(struct job *job, int stream, const uint8_t *data, size_t length)
{
	if (job->context)
		return context_take_output(job->context, stream, data, length);
	result_keep(&job->result, stream, job->captures[stream].total, data, length);
	if (capture_add(&job->captures[stream], data, length) < 0)
		return -1;
	keep(job, data, length);
	return 0;
}

/* Returns false when nothing more is there, now or ever. */
static bool read_captured(struct job *job, int stream)
{
	static uint8_t buffer[OUTPUT_CHUNK];
	ssize_t n = read(job->stdio.captured[stream], buffer, sizeof buffer);

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n > 0 && take_output(job, stream, buffer, (size_t)n) == 0)
		return true;
	if (n != 0) {
		add_warning(&job->result,
			"reading what the command wrote failed: %s; what came after is lost",
			strerror(n < 0 ? errno : ENOMEM));
		job->result.output_lost = true;
	}
	close_fd(&job->stdio.captured[stream]);
	return false;
}

/*
 * Every writer is dead: what they wrote is in the pipes. Other commands of the session may have opened these too
 * (/proc/PID/fd), and what they write is no part of it, or there would be no end.
 */
static void drain(struct job *job)
{
	for (int i = 0; i < 2; i++) {
		int left = 0;

		if (job->stdio.captured[i] >= 0)
			ioctl(job->stdio.captured[i], FIONREAD, &left);
		for (; left > 0 && read_captured(job, i); left -= OUTPUT_CHUNK)
			;
	}
	for (size_t i = 0; i < job->stdio.relays_count; i++)
		if (job->stdio.relays[i].number > 0)
			relay_finish(&job->stdio.relays[i]);
}

bool job_read_captured(struct job *job, int stream)
{
	return job->stdio.captured[stream] >= 0 && read_captured(job, stream);
}

void job_drain(struct job *job)
{
	drain(job);
}

/* --- commands --- */

static void start_command(struct session *session, struct job *job);

static void begin_command(struct session *session, struct job *job)
{
	uint64_t limit = job->spec.limits.output_bytes;

	job->state = JOB_RUNNING;
	job->exec = &job->result.execs[job->index];
	job->result.execs_count = job->index + 1;
	job->exec->phase = job->spec.execs[job->index].phase ?: "run";
	job->exec->exit_code = -1;
	job->stopped_by_us = false;
	job->keeper = 0;
	job->written_bytes = 0;
	job->end_deadline_us = UINT64_MAX;
	job->id = session_next_id(session);
	result_begin_keeping(&job->result, &job->spec);
	if (job->wants_progress)
		job->progress_us = session_now_us() + PROGRESS_MS * 1000;
	for (int i = 0; i < 2; i++)
		capture_init(&job->captures[i], limit ? limit : SIZE_MAX / 4);
}

/*
 * What the client gave, made so that it never has us wait: a socket, or a description of our own of a pipe or terminal,
 * which is owned then. Everything else is for the client itself to carry (streams.h).
 */
static int open_stream(int given, int number, bool *ret_socket, int *ret_own, struct error *err)
{
	static const char *const names[] = {"standard input", "standard output", "standard error"};
	socklen_t length = sizeof(int);
	int type = 0;

	*ret_own = -1;
	*ret_socket = getsockopt(given, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
	if (*ret_socket && type == SOCK_STREAM)
		return 0;
	if (!*ret_socket && stdio_is_opened_anew(given) &&
		(*ret_own = stdio_open_anew(given, number == 0 ? O_RDONLY : O_WRONLY)) >= 0)
		return 0;
	error_set(err, 0, "%s is neither a connection nor a pipe or terminal that the session can open anew", names[number]);
	return error_hint(err, "carry it through one end of a socket pair");
}

/* A pipe between the command's descriptor and the client's. */
static int carry(struct job *job, int number, struct error *err)
{
	int given = job->streams[number], own, ends[2];
	struct relay *relay = &job->stdio.relays[job->stdio.relays_count];
	bool is_socket;

	if (open_stream(given, number, &is_socket, &own, err) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		close_fd(&own);
		return error_set(err, errno, "making a pipe");
	}
	/* The other end is the command's, which may do what it wants with it. */
	if (fcntl(ends[number == 0], F_SETFL, O_NONBLOCK) < 0) {
		error_set(err, errno, "making a pipe that does not wait");
		close_fd(&own);
		close_fd(&ends[0]);
		close_fd(&ends[1]);
		return -1;
	}
	if (number == 0) {
		job->stdio.child[0] = ends[0];
		relay_init(
			relay, own >= 0 ? own : given, own >= 0, ends[1], true, RELAY_NONBLOCKING);
		relay->watched = given;
		relay->from_socket = is_socket;
	} else {
		job->stdio.child[number] = ends[1];
		relay_init(relay, ends[0], true, own >= 0 ? own : given, own >= 0,
			is_socket ? RELAY_SOCKET : RELAY_PIPE);
	}
	relay->number = number;
	job->stdio.relays_count++;
	return 0;
}

static int prepare_streams(struct job *job, struct error *err)
{
	job->stdio = STDIO_NONE;
	/* A compiler has nothing to read. */
	if (job->spec.execs[job->index].stdin_kind != STDIN_INHERIT &&
		(job->stdio.child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
		return error_set(err, errno, "opening /dev/null");
	for (int number = job->stdio.child[0] >= 0 ? 1 : 0; number < 3; number++)
		if (carry(job, number, err) < 0)
			return -1;
	return 0;
}

static int prepare_terminal(struct session *session, struct job *job, struct error *err)
{
	cleanup_close int master = -1;

	job->stdio = STDIO_NONE;
	if (job->spec.execs_count != 1)
		return error_set(err, 0, "a terminal is for one command, and this is compiled before it is run");
	if (terminal_open(session, job->terminal, &master, &job->stdio.child[0], err) < 0)
		return -1;
	for (int number = 1; number < 3; number++) {
		job->stdio.child[number] = fcntl(job->stdio.child[0], F_DUPFD_CLOEXEC, 3);
		if (job->stdio.child[number] < 0)
			return error_set(err, errno, "opening a terminal in the sandbox");
	}
	/* Here it is only held: see job_cancel. */
	job->master = move_fd(&master);
	return give_terminal(job->connection, job->master) < 0 ? error_set(err, errno, "handing over the terminal") : 0;
}

static int send_command(struct session *session, struct job *job, struct error *err)
{
	struct exec_spec *exec = &job->spec.execs[job->index];
	bool opens_input, has_data;

	space_before_command(session);
	if (job->terminal)
		return prepare_terminal(session, job, err) < 0
			       ? -1
			       : sandbox_start(&session->sandbox, job->id, exec, true, &job->stdio, err);
	if (job->streams[0] >= 0)
		return prepare_streams(job, err) < 0 ? -1
						     : sandbox_start(&session->sandbox, job->id,
							       exec, false, &job->stdio, err);

	/* There is no standard input of the caller's here. */
	if (exec->stdin_kind == STDIN_INHERIT)
		exec->stdin_kind = STDIN_NULL;
	/* What comes before the last is a compiler, which has nothing to read. */
	opens_input = job->input.reader >= 0 && job->index + 1 == job->spec.execs_count;
	has_data = opens_input && exec->stdin_kind == STDIN_DATA;
	if (opens_input)
		exec->stdin_kind = STDIN_NULL;
	if (stdio_prepare(exec, true, false, false, &job->stdio, err) < 0)
		return -1;
	if (job->context && context_prepare_stdio(job->context, &job->stdio, err) < 0)
		return -1;
	if (opens_input) {
		close_fd(&job->stdio.child[0]);
		job->stdio.child[0] =
			input_start(&job->input, exec->stdin_data, has_data ? exec->stdin_length : 0);
	}
	return sandbox_start(&session->sandbox, job->id, exec, false, &job->stdio, err);
}

static void start_command(struct session *session, struct job *job)
{
	const struct exec_spec *exec = &job->spec.execs[job->index];
	struct error err = {0};

	if (job->cell) {
		context_start_call(session, job);
		return;
	}
	changes_note_activity(session);
	begin_command(session, job);
	if (send_command(session, job, &err) < 0) {
		fail_job(session, job, &err);
		return;
	}
	stdio_close_child(&job->stdio);
	job->started_us = session_now_us();
	if (job->index == 0)
		job->result.setup_us = job->started_us - job->created_us;
	job->deadline_us =
		exec->timeout_ms ? job->started_us + exec->timeout_ms * 1000 : UINT64_MAX;
	if (session->watching && session->tick_us == UINT64_MAX)
		session->tick_us = job->started_us + TICK_MS * 1000;
}

static void start_files(struct session *session, struct job *job)
{
	struct error err = {0};

	if (job->file_index == job->changes.inputs && changes_look_before(session, job))
		return;
	if (job->file_index == job->spec.files_count) {
		start_command(session, job);
		return;
	}
	job->state = JOB_FILES;
	if (file_write_of_spec(session, job, &err) < 0)
		fail_job(session, job, &err);
}

void job_start(struct session *session, struct job *job)
{
	job->state = JOB_FILES;
	start_files(session, job);
}

static void file_written(struct session *session, struct job *job)
{
	struct error err = {0};
	int r = file_work_result(&job->work, job->spec.files[job->file_index].path, &err);

	file_work_free(&job->work);
	job->file_index++;
	if (job->cancelled)
		error_set(&err, 0, "cancelled");
	if (r < 0 || job->cancelled)
		fail_job(session, job, &err);
	else
		start_files(session, job);
}

void job_end_command(struct session *session, struct job *job, enum ended_by ended_by)
{
	struct error err = {0};

	if (job->stopped_by_us)
		return;
	job->exec->ended_by = ended_by;
	job->stopped_by_us = true;
	job->deadline_us = UINT64_MAX;
	job->end_deadline_us = session_now_us() + END_DEADLINE_MS * 1000;
	if (sandbox_end_command(&session->sandbox, job->id, &err) < 0)
		session->ending = true;
}

/* What the gate did since the job began, for whichever command: it cannot tell one from another. */
static void note_network(struct session *session, struct job *job)
{
	if (!session->sandbox.gate.report || !job->network)
		return;
	free(job->result.network);
	job->result.network = xcalloc(1, sizeof *job->result.network);
	report_read(session->sandbox.gate.report, job->result.network);
	report_subtract(job->result.network, job->network);
}

static void finish_command(
	struct session *session, struct job *job, const struct agent_message *message)
{
	struct usage *usage = &job->exec->usage;

	drain(job);
	usage->wall_us = session_now_us() - job->started_us;
	usage->cpu_user_us = message->cpu_user_us;
	usage->cpu_system_us = message->cpu_system_us;
	usage->memory_peak_bytes = message->memory_peak_bytes;
	if (!job->stopped_by_us)
		exec_note_status(job->exec, message->value, &job->spec);
	exec_note_cgroup(job->exec, &session->sandbox, job->id);
	note_network(session, job);
	sandbox_forget_command(&session->sandbox, job->id);
	exec_note_disk(job->exec, session->tmpfs_fds, session->tmpfs_count, session->spec);
	job->state = JOB_DRAINING; /* it cannot be ended any more */
	space_after_command(session, job);
	exec_take_output(job->exec, job->captures, job->spec.limits.output_bytes);
	job->deadline_us = job->end_deadline_us = UINT64_MAX;
}

void job_begin_call(struct session *session, struct job *job)
{
	uint64_t timeout_ms = job->spec.execs[0].timeout_ms;

	changes_note_activity(session);
	space_before_command(session);
	begin_command(session, job);
	job->state = JOB_CALL;
	job->started_us = session_now_us();
	job->result.setup_us = job->started_us - job->created_us;
	job->deadline_us = timeout_ms ? job->started_us + timeout_ms * 1000 : UINT64_MAX;
}

void job_close_call(struct session *session, struct job *job)
{
	job->deadline_us = job->progress_us = UINT64_MAX;
	job->exec->usage.wall_us = session_now_us() - job->started_us;
	changes_note_activity(session);
	note_network(session, job);
	exec_note_disk(job->exec, session->tmpfs_fds, session->tmpfs_count, session->spec);
	exec_take_output(job->exec, job->captures, job->spec.limits.output_bytes);
}

/* Whether something that the command wrote is still to be passed on. */
static bool output_pending(const struct job *job)
{
	for (size_t i = 0; i < job->stdio.relays_count; i++)
		if (job->stdio.relays[i].number > 0 && relay_active(&job->stdio.relays[i]))
			return true;
	return false;
}

static void close_streams(struct job *job)
{
	for (size_t i = 0; i < job->stdio.relays_count; i++)
		relay_close(&job->stdio.relays[i]);
	stdio_close(&job->stdio);
	job->stdio = STDIO_NONE;
}

/* What could not be passed on; that the client's reader went away is no loss. */
static void note_losses(struct job *job)
{
	static const char *const names[] = {"standard input", "standard output", "standard error"};

	for (size_t i = 0; i < job->stdio.relays_count; i++) {
		const struct relay *relay = &job->stdio.relays[i];

		if (relay->number == 0 || !relay->write_errno || relay->write_errno == EPIPE ||
			relay->write_errno == ECONNRESET)
			continue;
		add_warning(&job->result, "writing to %s failed: %s; what came after is lost",
			names[relay->number], strerror(relay->write_errno));
		job->result.output_lost = true;
	}
}

static void go_on(struct session *session, struct job *job);

static void command_ended(
	struct session *session, struct job *job, const struct agent_message *message)
{
	finish_command(session, job, message);
	if (output_pending(job)) {
		job->state = JOB_DRAINING;
		return;
	}
	go_on(session, job);
}

/* What comes after its command is done inside: another, or a look at files. */
static bool goes_on_inside(const struct job *job, bool more)
{
	return more || job->changes.wanted || job->spec.collect_images;
}

/* With the next command, or to the end. During a pause neither, where that is work inside: see jobs_resumed. */
static void go_on(struct session *session, struct job *job)
{
	bool more = !job->stopped_by_us && job->exec->ended_by == ENDED_EXITED &&
		    job->exec->exit_code == 0 && job->index + 1 < job->spec.execs_count;

	if (pause_active(session) && !job->cancelled && goes_on_inside(job, more))
		return;
	note_losses(job);
	close_streams(job);
	if (!more) {
		finish_job(session, job);
		return;
	}
	job->index++;
	start_command(session, job);
}

static void not_started(
	struct session *session, struct job *job, const struct agent_message *message)
{
	struct error err = {0};

	sandbox_forget_command(&session->sandbox, job->id);
	error_set(&err, 0, "%s%.*s",
		message->type == AGENT_NOT_STARTED ? "the command was not started: " : "",
		ERROR_TEXT_MAX - 1, message->error.text);
	err.errnum = message->value;
	if (message->type == AGENT_NOT_STARTED) {
		fail_job(session, job, &err);
		return;
	}
	job->exec->error = err;
	job->exec->exec_errno = message->value;
	job->exec->ended_by = ENDED_EXITED;
	job->exec->exit_code = message->value == ENOENT ? 127 : 126;
	exec_take_output(job->exec, job->captures, job->spec.limits.output_bytes);
	close_streams(job);
	finish_job(session, job);
}

static struct job *job_by_id(struct session *session, uint32_t id)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_RUNNING && session->jobs[i].id == id)
			return &session->jobs[i];
	return NULL;
}

bool job_take_message(struct session *session, const struct agent_message *message, size_t length)
{
	bool whole = length == sizeof *message,
	     brief = length == offsetof(struct agent_message, error);
	struct job *job = job_by_id(session, message->id);

	if (!job)
		return false;
	switch (message->type) {
	case AGENT_STARTED:
		if (!brief || job->keeper || message->value <= 1)
			return false;
		job->keeper = message->value;
		return true;
	case AGENT_ENDED:
		if (!brief || !wait_status_valid(message->value))
			return false;
		command_ended(session, job, message);
		return true;
	case AGENT_NOT_STARTED:
	case AGENT_EXEC_FAILED:
		if (!whole || message->value <= 0 || message->value >= ERRNO_END)
			return false;
		not_started(session, job, message);
		return true;
	}
	return false;
}

/* --- requests --- */

void job_inherit_env(const struct session *session, struct exec_spec *exec)
{
	const struct exec_spec *base = &session->spec->execs[0];

	for (char **entry = base->env; entry && *entry; entry++) {
		cleanup_free char *name = xmemdup(*entry, strcspn(*entry, "="));

		exec_default_env(exec, name, *entry + strlen(name) + 1);
	}
}

/* What the session's own spec has for a command, of which there is none: the environment and the folder. */
static void inherit(const struct session *session, struct spec *spec)
{
	const struct exec_spec *base = &session->spec->execs[0];

	for (size_t i = 0; i < spec->execs_count; i++) {
		struct exec_spec *exec = &spec->execs[i];

		if (!exec->cwd && base->cwd)
			exec->cwd = xstrdup(base->cwd);
		job_inherit_env(session, exec);
	}
}

static int settle_spec(struct session *session, struct job *job, struct error *err)
{
	for (size_t i = 0; i < job->spec.execs_count; i++)
		if (!job->spec.execs[i].timeout_ms)
			job->spec.execs[i].timeout_ms = session->options.timeout_ms;
	inherit(session, &job->spec);
	/* Before it has the session's root, which it need not be able to make. */
	if (spec_validate(&job->spec, err) < 0)
		return -1;
	take_walls_of(session, &job->spec);
	return 0;
}

/* Begins with what there is to be done first. */
static int take_request(
	struct session *session, struct job *job, const json_t *request, struct error *err)
{
	json_t *program = json_object_get(request, "program");
	const char *file;
	struct spec spec;

	if (spec_from_json(json_object_get(request, "spec"), &spec, err) < 0)
		return -1;
	spec_free(&job->spec);
	job->spec = spec;
	job->changes.wanted = json_is_true(json_object_get(request, "changes"));
	job->snapshot = json_deep_copy(json_object_get(request, "snapshot"));
	job->changes.inputs = spec.files_count;
	job->background = json_is_true(json_object_get(request, "background"));
	job->wants_progress = json_is_true(json_object_get(request, "progress"));
	if (job->background && backlog_open(&job->kept) < 0)
		return error_set(err, errno, "making a file for the output of a background process");
	if (program && program_reads_file(program, &file)) {
		job->program = json_incref(program);
		job->state = JOB_SOURCE;
		return file_read_start(session, job, file, SOURCE_MAX, err);
	}
	if (program && program_prepare(session, job, program, NULL, 0, err) < 0)
		return -1;
	job->state = JOB_FILES;
	return settle_spec(session, job, err);
}

/* What commands that ran before this one are not to be counted for it. */
static void begin_result(const struct session *session, struct job *job)
{
	copy_walls(session, &job->result);
	if (!session->sandbox.gate.report)
		return;
	job->network = xcalloc(1, sizeof *job->network);
	report_read(session->sandbox.gate.report, job->network);
}

int job_prepare_call(struct session *session, struct job *job, const json_t *request, struct error *err)
{
	struct spec spec;

	if (spec_from_json(json_object_get(request, "spec"), &spec, err) < 0)
		return -1;
	spec_free(&job->spec);
	job->spec = spec;
	if (spec.execs_count != 1 || spec.files_count > 0)
		return error_set(err, 0, "a call of a context has a spec of one command, and no files");
	job->changes.wanted = json_is_true(json_object_get(request, "changes"));
	job->snapshot = json_deep_copy(json_object_get(request, "snapshot"));
	job->wants_progress = json_is_true(json_object_get(request, "progress"));
	if (!job->spec.execs[0].timeout_ms)
		job->spec.execs[0].timeout_ms = session->options.timeout_ms;
	take_walls_of(session, &job->spec);
	begin_result(session, job);
	return check_given(session, err);
}

static void source_read(struct session *session, struct job *job)
{
	const char *path = json_string_value(json_object_get(job->program, "file"));
	struct error err = {0};
	int r = file_work_result(&job->work, path, &err);
	size_t length;
	const void *text = r == 0 ? file_text(&job->work, &length) : NULL;

	if (r == 0)
		r = program_prepare(session, job, job->program, text, length, &err);
	if (r == 0)
		r = settle_spec(session, job, &err);
	file_work_free(&job->work);
	if (job->cancelled)
		r = error_set(&err, 0, "cancelled");
	job->state = JOB_FILES;
	if (r < 0)
		fail_job(session, job, &err);
	else
		start_files(session, job);
}

/* {"op": "exec", "terminal": …} */
static int take_terminal(const struct connection *connection, struct job *job, const json_t *request, struct error *err)
{
	json_t *size = json_object_get(request, "terminal");

	if (!size)
		return 0;
	if (!json_is_object(size))
		return error_set(err, 0, "\"terminal\" has to be an object with rows and columns");
	if (job->background || connection->streams[0] >= 0)
		return error_set(err, 0, "a terminal is for a command that somebody waits for, and all that it reads and writes");
	job->terminal = json_deep_copy(size);
	return 0;
}

/* {"op": "exec", "stdin_open": true} */
static int take_input(struct job *job, const json_t *request, struct error *err)
{
	if (!json_is_true(json_object_get(request, "stdin_open")))
		return 0;
	if (!job->background)
		return error_set(err, 0, "standard input stays open for commands in the background only");
	return input_open(&job->input, err);
}

void job_exec(struct session *session, struct connection *connection, const json_t *request)
{
	struct error err = {0};
	struct job *job = job_take(session, &err);

	if (job)
		job->process = ++session->next_process;
	if (!job || take_request(session, job, request, &err) < 0 ||
		take_terminal(connection, job, request, &err) < 0 || take_input(job, request, &err) < 0 ||
		check_given(session, &err) < 0) {
		answer_failure(connection, &err);
		if (job)
			job_free(job);
		return;
	}
	begin_result(session, job);
	for (int i = 0; i < 3 && !job->background; i++)
		job->streams[i] = move_fd(&connection->streams[i]);
	if (job->background)
		answer(connection, json_pack("{s:I}", "process", (json_int_t)job->process));
	else
		job->connection = connection;
	if (job->state == JOB_FILES)
		start_files(session, job);
}

void job_cancel(struct session *session, struct job *job)
{
	job->connection = NULL;
	job->cancelled = true;
	/* The end of the terminal makes SIGCONT as well: in a pause the command ends before. */
	if (job->state == JOB_WAITING || job->state == JOB_CALL) {
		context_cancel_call(session, job);
	} else if (job->state == JOB_RUNNING && job->terminal && !pause_active(session)) {
		job->hangup_us = session_now_us() + HANGUP_MS * 1000;
		close_fd(&job->master);
	} else if (job->state == JOB_RUNNING) {
		job_end_command(session, job, ENDED_CANCELLED);
	} else if (job->state == JOB_SNAPSHOT) {
		snapshot_cancel(session, job);
		job_free(job);
	} else if (job->state == JOB_DRAINING) {
		close_streams(job);
		remove_made(session, job);
		job_free(job);
	} else if (job->state == JOB_FILES && (job->source || job->support)) {
		/* What is being written now is removed when it is there: file_written. */
		return;
	} else if (works_on_files(job)) {
		/* The worker sees its channel closed, takes back what it began, and ends. */
		remove_made(session, job);
		job_free(job);
	}
}

void jobs_fail_all(struct session *session, const struct error *err)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state == JOB_DONE)
			continue;
		if (job->state == JOB_SNAPSHOT) {
			if (!job->snapshot_told)
				job_note_snapshot(session, job,
					json_pack("{s:s, s:s}", "failed", err->text, "hint", err->hint));
			finish_job(session, job);
			continue;
		}
		if (job->state == JOB_FILE && job->connection)
			answer_failure(job->connection, err);
		else if (job->state == JOB_AFTER || job->state == JOB_IMAGE || job->state == JOB_REMOVING) {
			free(job->source);
			job->source = NULL;
			changes_give_up(&job->changes, err->text);
			job->spec.collect_images = false; /* no more of them */
			finish_job(session, job);
			continue;
		} else if (job->state == JOB_SOURCE || job->state == JOB_FILES ||
			   job->state == JOB_BEFORE || job->state == JOB_RUNNING || job->state == JOB_WAITING ||
			   job->state == JOB_CALL || job->state == JOB_DRAINING) {
			changes_give_up(&job->changes, err->text);
			job->spec.collect_images = false;
			close_streams(job);
			if (job->state == JOB_RUNNING || job->state == JOB_CALL)
				exec_take_output(
					job->exec, job->captures, job->spec.limits.output_bytes);
			fail_job(session, job, err);
			continue;
		}
		if (job->state != JOB_FREE)
			job_free(job);
	}
}

/* --- polling --- */

size_t job_fill_poll(struct job *job, struct pollfd *ret)
{
	size_t count = 0;

	/* What it began goes on with all else. */
	if (works_on_files(job) && pause_active(job->session))
		return 0;
	if (works_on_files(job)) {
		file_work_fill_poll(&job->work, ret);
		return FILE_WORK_POLLFDS;
	}
	if (job->state != JOB_RUNNING && job->state != JOB_DRAINING)
		return 0;
	if (job->context) {
		context_fill_poll(job->context, ret);
		return CONTEXT_POLLFDS;
	}
	for (int i = 0; i < 2; i++)
		ret[count++] = (struct pollfd){.fd = job->stdio.captured[i], .events = POLLIN};
	ret[count++] = input_pollfd(&job->input);
	for (size_t i = 0; i < job->stdio.relays_count; i++) {
		relay_pollfds(&job->stdio.relays[i], &ret[count]);
		count += RELAY_POLLFDS;
	}
	return count;
}

static void step_file(struct session *session, struct job *job, const struct pollfd *fds)
{
	file_work_step(session, &job->work, fds);
	if (!job->work.ended)
		return;
	if (job->state == JOB_FILES) {
		file_written(session, job);
		return;
	}
	if (job->state == JOB_SOURCE) {
		source_read(session, job);
		return;
	}
	if (job->state == JOB_BEFORE) {
		changes_looked(session, job);
		start_files(session, job);
		return;
	}
	if (job->state == JOB_AFTER) {
		changes_looked(session, job);
		finish_job(session, job);
		return;
	}
	if (job->state == JOB_IMAGE) {
		images_looked(job);
		finish_job(session, job);
		return;
	}
	if (job->state == JOB_REMOVING) {
		file_work_free(&job->work);
		free(job->source);
		job->source = NULL;
		finish_job(session, job);
		return;
	}
	session->used_us = session_now_us();
	file_answer(job);
	job_free(job);
}

void job_handle_poll(
	struct session *session, struct job *job, const struct pollfd *fds, size_t count)
{
	if (count == 0)
		return;
	if (works_on_files(job)) {
		step_file(session, job, fds);
		return;
	}
	if (job->context) {
		context_step(session, job->context, fds);
		return;
	}
	for (int i = 0; i < 2; i++)
		if (fds[i].revents && job->stdio.captured[i] >= 0)
			read_captured(job, i);
	input_step(&job->input, fds[2].revents);
	for (size_t i = 0; i < job->stdio.relays_count && 3 + (i + 1) * RELAY_POLLFDS <= count; i++)
		relay_step(&job->stdio.relays[i], &fds[3 + i * RELAY_POLLFDS]);
	if (job->state == JOB_DRAINING && !output_pending(job))
		go_on(session, job);
}

/* --- clocks, and memory where no cgroup holds it --- */

/* Whose command uses the most memory; NULL where none runs, or what one had is being given back. */
static struct job *heaviest(struct session *session)
{
	struct job *running[JOBS_MAX], *found = NULL;
	uint64_t bytes[JOBS_MAX], most = 0;
	int keepers[JOBS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state != JOB_RUNNING)
			continue;
		if (job->stopped_by_us)
			return NULL;
		keepers[count] = job->keeper;
		running[count++] = job;
	}
	watcher_resident_below(session->proc_fd, keepers, count, bytes);
	for (size_t i = 0; i < count; i++)
		if (!found || bytes[i] > most) {
			most = bytes[i];
			found = running[i];
		}
	return found;
}

static void check_memory(struct session *session)
{
	uint64_t used = 0;
	struct job *job;

	if (!watcher_tick(&session->watcher, &used))
		return;
	job = heaviest(session);
	if (!job)
		return;
	exec_add_hit(job->exec, LIMIT_MEMORY, session->spec->limits.memory_bytes, used, "watcher");
	job_end_command(session, job, ENDED_OOM);
}

static bool anything_runs(const struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_RUNNING)
			return true;
	return false;
}

static void check_deadlines(struct session *session, struct job *job, uint64_t now)
{
	if (now >= job->deadline_us && !pause_active(session)) {
		exec_add_hit(job->exec, LIMIT_TIME, job->spec.execs[job->index].timeout_ms,
			(now - job->started_us) / 1000, "clock");
		job_end_command(session, job, ENDED_TIMEOUT);
	}
	if (now >= job->hangup_us) {
		job->hangup_us = UINT64_MAX;
		job_end_command(session, job, ENDED_CANCELLED);
	}
	/* What cannot be ended alone is ended with all. */
	if (now >= job->end_deadline_us)
		session->ending = true;
}

/* As for a run of its own: the last line of what it writes. */
static void report_progress(struct job *job, uint64_t now)
{
	const struct capture *capture =
		&job->captures[job->captures[1].total > 0 && job->captures[0].total == 0];
	size_t length;
	cleanup_free char *line = utf8_replace_invalid(
		(const char *)capture->last_line, capture->last_line_length, &length);

	job->progress_us = now + PROGRESS_MS * 1000;
	if (job->connection)
		tell_progress(job->connection, json_pack("{s:s%, s:I}", "last_line", line, length,
					       "elapsed_ms", (json_int_t)((now - job->created_us) / 1000)));
}

void jobs_shift_clocks(struct session *session, uint64_t by_us)
{
	contexts_shift_clocks(session, by_us);
	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state == JOB_RUNNING) {
			job->started_us += by_us;
			job->deadline_us += job->deadline_us != UINT64_MAX ? by_us : 0;
		} else if (works_on_files(job)) {
			job->work.deadline_us += job->work.deadline_us != UINT64_MAX ? by_us : 0;
		}
	}
}

void jobs_resumed(struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_DRAINING && !output_pending(&session->jobs[i]))
			go_on(session, &session->jobs[i]);
}

uint64_t jobs_check_clocks(struct session *session)
{
	uint64_t now = session_now_us(), next = UINT64_MAX, calls;

	if (now >= session->tick_us) {
		check_memory(session);
		session->tick_us = anything_runs(session)
					   ? now + session->watcher.next_tick_ms * 1000ULL
					   : UINT64_MAX;
	}
	next = changes_check_clock(session, now);
	calls = contexts_check_clocks(session, now);
	next = calls < next ? calls : next;
	next = session->tick_us < next ? session->tick_us : next;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &session->jobs[i];

		if (job->state == JOB_RUNNING) {
			check_deadlines(session, job, now);
			if (!pause_active(session))
				next = job->deadline_us < next ? job->deadline_us : next;
			next = job->end_deadline_us < next ? job->end_deadline_us : next;
			if (now >= job->progress_us)
				report_progress(job, now);
			next = job->progress_us < next ? job->progress_us : next;
			next = job->hangup_us < next ? job->hangup_us : next;
		} else if (job->state == JOB_CALL) {
			if (now >= job->progress_us)
				report_progress(job, now);
			next = job->progress_us < next ? job->progress_us : next;
		} else if (works_on_files(job) && pause_active(session)) {
			continue;
		} else if (works_on_files(job) && now >= job->work.deadline_us) {
			step_file(session, job, NULL);
			next = now; /* for what comes of that */
		} else if (works_on_files(job)) {
			next = job->work.deadline_us < next ? job->work.deadline_us : next;
		}
	}
	return next;
}
