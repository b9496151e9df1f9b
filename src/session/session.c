/* SPDX-License-Identifier: MIT */
/* A session's supervisor: its connections, its loop, its beginning and end. See session.h. */
#define _GNU_SOURCE
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/store.h"
#include "report/report.h"
#include "sandbox/features.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"
#include "session/frame.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum {
	SETUP_DEADLINE_MS = 60 * 1000,
	READ_CHUNK = 64 << 10,
	OUTPUT_MAX = 1 << 20, /* bytes of a background process that one answer has */
	WAIT_MAX_MS = 60 * 1000,
	ACCEPT_PAUSE_MS = 100, /* where a client cannot be let in */
	DESCRIPTORS_WANTED = 4096,
	LAST_WORDS_MS = 2000, /* for clients to take their answers at the end */
};

uint64_t session_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint32_t session_next_id(struct session *session)
{
	if (++session->next_id == 0)
		session->next_id = 1;
	return session->next_id;
}

/* --- connections --- */

static void connection_free(struct connection *connection)
{
	close_fd(&connection->fd);
	free(connection->in);
	free(connection->out);
	json_decref(connection->request);
	for (int i = 0; i < 2; i++)
		close_fd(&connection->out_fds[i]);
	for (int i = 0; i < 3; i++)
		close_fd(&connection->streams[i]);
	*connection = CONNECTION_NONE;
}

static void put_frame(struct connection *connection, enum frame_type type, json_t *object)
{
	/* Numbers whole: they may be the code's. Who shows them rounds. */
	cleanup_free char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
	struct frame_header header = {.type = type};
	size_t length = body ? strlen(body) : 0;

	json_decref(object);
	if (connection->fd < 0)
		return;
	/* A client that gets nothing but the end sees that something is wrong. */
	if (!body || length > FRAME_MAX) {
		shutdown(connection->fd, SHUT_RDWR);
		return;
	}
	header.length = (uint32_t)length;
	free(connection->out);
	connection->out = xmalloc(sizeof header + length);
	memcpy(connection->out, &header, sizeof header);
	memcpy(connection->out + sizeof header, body, length);
	connection->out_length = sizeof header + length;
	connection->out_sent = 0;
	connection->wait_until_us = 0;
}

void answer(struct connection *connection, json_t *object)
{
	put_frame(connection, FRAME_RESULT, object);
}

void answer_with(struct connection *connection, json_t *object, const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		connection->out_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	answer(connection, object);
}

void tell_progress(struct connection *connection, json_t *object)
{
	cleanup_free char *body = json_dumps(object, JSON_COMPACT | REPORT_JSON_DUMP_FLAGS);
	struct frame_header header = {
		.type = FRAME_PROGRESS, .length = body ? (uint32_t)strlen(body) : 0};
	char frame[4096];
	ssize_t n;

	json_decref(object);
	if (!body || sizeof header + header.length > sizeof frame || connection->out)
		return;
	memcpy(frame, &header, sizeof header);
	memcpy(frame + sizeof header, body, header.length);
	n = send(connection->fd, frame, sizeof header + header.length, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* Half a frame: the stream cannot be gone on with. */
	if (n >= 0 && (size_t)n != sizeof header + header.length)
		shutdown(connection->fd, SHUT_RDWR);
}

void answer_failure(struct connection *connection, const struct error *err)
{
	put_frame(connection, FRAME_FAILURE,
		json_pack("{s:s, s:s}", "text", err->text, "hint", err->hint));
}

int give_terminal(struct connection *connection, int master)
{
	const struct frame_header header = {.type = FRAME_TERMINAL};

	/* It is the first that is sent, so there is room. The socket does not wait. */
	return frame_send_header(connection->fd, &header, &master, 1);
}

static struct job *job_of(struct session *session, const struct connection *connection)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state != JOB_FREE && session->jobs[i].connection == connection)
			return &session->jobs[i];
	return NULL;
}

/* --- requests about processes in the background --- */

static bool is_from_mcp(const json_t *request)
{
	return strcmp(json_string_value(json_object_get(request, "from")) ?: "", "mcp") == 0;
}

static void refuse_paused(const struct session *session, struct connection *connection, const json_t *request)
{
	struct error err = {0};

	error_set(&err, 0, "the %s is paused: nothing can begin in it", is_from_mcp(request) ? "sandbox" : "session");
	if (is_from_mcp(request))
		error_hint(&err, "sandbox_resume lets it go on");
	else
		error_hint(&err, "nsbox session resume %s lets it go on", session->id);
	answer_failure(connection, &err);
}

static struct job *named_process(struct session *session, const json_t *request, struct error *err)
{
	json_int_t number = json_integer_value(json_object_get(request, "process"));
	struct job *job = number > 0 && number <= UINT32_MAX
				  ? job_by_process(session, (uint32_t)number)
				  : NULL;

	if (job)
		return job;
	error_set(err, 0, "the %s has no process %lld", is_from_mcp(request) ? "sandbox" : "session", (long long)number);
	error_hint(err, is_from_mcp(request) ? "process_list shows those that there are"
					     : "nsbox session ps lists those that there are");
	return NULL;
}

static uint64_t offset_of(const json_t *request)
{
	json_int_t offset = json_integer_value(json_object_get(request, "offset"));

	return offset > 0 ? (uint64_t)offset : 0;
}

static uint64_t limit_of(const json_t *request)
{
	json_int_t limit = json_integer_value(json_object_get(request, "limit"));

	return limit > 0 && limit < OUTPUT_MAX ? (uint64_t)limit : OUTPUT_MAX;
}

/* What is there from an offset on; false: nothing yet, and it may come. */
static bool output_is_there(const struct job *job, uint64_t offset)
{
	return job->kept.total > offset || job->state == JOB_DONE || !job->background;
}

static void answer_output(struct connection *connection, const struct job *job, const json_t *request)
{
	uint64_t offset = offset_of(request), limit = limit_of(request);
	cleanup_free uint8_t *data = xmalloc((size_t)limit);
	ssize_t n = backlog_read(&job->kept, &offset, data, (size_t)limit);
	size_t length = n > 0 ? (size_t)n : 0;
	cleanup_free char *encoded = base64_encode(data, length);
	bool ended = job->state == JOB_DONE;
	json_t *object;

	object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:b}", "output", encoded, "total",
		(json_int_t)job->kept.total, "offset", (json_int_t)offset, "next",
		(json_int_t)(offset + length), "lost_bytes", (json_int_t)backlog_start(&job->kept), "ended",
		ended);
	if (ended)
		json_object_set_new(object, "result", job_result_to_json(job));
	answer(connection, object);
}

static void request_output(
	struct session *session, struct connection *connection, const json_t *request)
{
	struct error err = {0};
	const struct job *job = named_process(session, request, &err);
	json_int_t wait_ms = json_integer_value(json_object_get(request, "wait_ms"));

	if (!job) {
		answer_failure(connection, &err);
		return;
	}
	if (wait_ms > WAIT_MAX_MS)
		wait_ms = WAIT_MAX_MS;
	if (wait_ms <= 0 || output_is_there(job, offset_of(request))) {
		answer_output(connection, job, request);
		return;
	}
	if (!connection->request) {
		connection->wait_until_us = session_now_us() + (uint64_t)wait_ms * 1000;
		connection->request = json_deep_copy(request);
	}
}

/* Those that wait for output: is it there, or their time up? Returns when to come again. */
static uint64_t serve_waiting(struct session *session)
{
	uint64_t now = session_now_us(), next = UINT64_MAX;

	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &session->connections[i];
		struct error err = {0};
		const struct job *job;

		if (connection->fd < 0 || !connection->wait_until_us)
			continue;
		if (strcmp(json_string_value(json_object_get(connection->request, "op")) ?: "", "context") == 0) {
			context_waited(session, connection, now);
			if (connection->wait_until_us && connection->wait_until_us < next)
				next = connection->wait_until_us;
			continue;
		}
		job = named_process(session, connection->request, &err);
		if (!job)
			answer_failure(connection, &err);
		else if (now >= connection->wait_until_us ||
			 output_is_there(job, offset_of(connection->request)))
			answer_output(connection, job, connection->request);
		else if (connection->wait_until_us < next)
			next = connection->wait_until_us;
	}
	return next;
}

static void request_signal(
	struct session *session, struct connection *connection, const json_t *request)
{
	struct error err = {0};
	const struct job *job = named_process(session, request, &err);
	json_int_t number = json_integer_value(json_object_get(request, "signal"));

	if (job && number == SIGCONT && session->pause.holders & PAUSE_USER) {
		refuse_paused(session, connection, request);
		return;
	}
	if (job && (number < 1 || number >= NSIG)) {
		error_set(&err, 0, "%lld is no signal", (long long)number);
		job = NULL;
	}
	if (job && job->state != JOB_RUNNING) {
		error_set(&err, 0, "process %u has ended", job->process);
		job = NULL;
	}
	/* The command and all that it has started. */
	if (!job || (number == SIGKILL ? sandbox_end_command(&session->sandbox, job->id, &err)
				       : sandbox_signal(&session->sandbox, job->id, (int)number,
						 &err)) < 0)
		answer_failure(connection, &err);
	else
		answer(connection, json_object());
}

/* --- other requests --- */

static double seconds(uint64_t us)
{
	return (double)(us / 1000) / 1000;
}

static void request_info(struct session *session, struct connection *connection)
{
	static const char *const roots[] = {"host", "directory", "image"};
	uint64_t now = session_now_us(), life = session->options.life_ms * 1000;
	json_t *processes = json_array();

	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state != JOB_FREE && session->jobs[i].process)
			json_array_append_new(processes, job_describe(&session->jobs[i]));
	answer(connection,
		json_pack("{s:s, s:s, s:s?, s:i, s:f, s:f, s:f, s:f, s:I, s:I, s:s, s:s?, s:o, s:b, s:s, s:b, s:o}", "id",
			session->id, "root", roots[session->spec->root], "root_path",
			session->spec->root_path, "supervisor", (int)getpid(), "age_s",
			seconds(now - session->created_us), "idle_s",
			seconds(now - session->used_us), "idle_limit_s",
			(double)session->options.idle_ms / 1000, "life_left_s",
			life && life > now - session->created_us
				? seconds(life - (now - session->created_us))
				: 0.0,
			"memory_limit_bytes", (json_int_t)session->spec->limits.memory_bytes,
			"disk_limit_bytes", (json_int_t)session->spec->limits.disk_bytes,
			"storage", session->spec->storage_folder ? "disk" : "memory", "storage_note",
			session->space.in_memory[0] ? session->space.in_memory : NULL,
			"published", published_to_json(&session->walls), "shared", session->options.shared, "language", session->options.language,
			"paused", pause_active(session), "processes", processes));
}

/* What an install needs to know of the session, which goes on meanwhile. */
static void request_packages(struct connection *connection, struct session *session)
{
	const struct space *space = &session->space;
	struct error err;
	struct spec root;

	if (space->packages.folder < 0) {
		error_set(&err, 0, "nothing can be installed in this session: %s",
			space->no_packages[0] ? space->no_packages : "it was made without a place for packages");
		answer_failure(connection, &err);
		return;
	}
	spec_copy_root(session->spec, &root);
	past_leave_out(session, &root);
	answer(connection, json_pack("{s:o, s:s, s:s}", "spec", spec_to_json(&root), "folder", space->packages.path,
				   "language", session->options.language));
	spec_free(&root);
}

static int set_no_descriptors(struct error *err)
{
	error_set(err, 0, "the session has as many descriptors open as it may have");
	return error_hint(err, "end some of its commands, or try again later");
}

/* What needs nothing of the sandbox that stands still. */
static bool goes_while_paused(const char *op)
{
	static const char *const ops[] = {"output", "input", "signal", "pause", "resume", "stop"};

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (strcmp(op, ops[i]) == 0)
			return true;
	return false;
}

static void hold_or_refuse(struct session *session, struct connection *connection, const json_t *request)
{
	if (session->pause.holders == PAUSE_USER) {
		refuse_paused(session, connection, request);
		return;
	}
	connection->request = json_deep_copy(request);
	connection->held = true;
}

static void handle_request(
	struct session *session, struct connection *connection, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op")) ?: "";
	struct error err = {0};
	char buffer[QUOTED_MAX];

	if (connection->lost) {
		set_no_descriptors(&err);
		answer_failure(connection, &err);
		return;
	}
	if (is_from_mcp(request) && !session->options.shared) {
		session_unknown(session->id, &err);
		answer_failure(connection, &err);
		return;
	}
	/* Looking does not keep it alive. */
	if (strcmp(op, "info") == 0) {
		request_info(session, connection);
		return;
	}
	if (strcmp(op, "context") == 0 && context_only_looks(request)) {
		context_request(session, connection, request);
		return;
	}
	session->used_us = session_now_us();
	/* One that the user has paused is copied as it stands. */
	if (strcmp(op, "snapshot") == 0 && !(session->pause.holders & PAUSE_SNAPSHOT)) {
		snapshot_request(session, connection, request);
		return;
	}
	if (pause_active(session) && !goes_while_paused(op)) {
		hold_or_refuse(session, connection, request);
		return;
	}
	if (strcmp(op, "restore") == 0) {
		restore_request(session, connection, request);
		return;
	}
	past_touch(session);
	if (strcmp(op, "packages") == 0) {
		request_packages(connection, session);
	} else if (strcmp(op, "exec") == 0) {
		job_exec(session, connection, request);
	} else if (strcmp(op, "context") == 0) {
		context_request(session, connection, request);
	} else if (strcmp(op, "file") == 0) {
		file_request(session, connection, request);
	} else if (strcmp(op, "output") == 0) {
		request_output(session, connection, request);
	} else if (strcmp(op, "input") == 0) {
		struct job *job = named_process(session, request, &err);

		if (job)
			input_request(job, connection, request);
		else
			answer_failure(connection, &err);
	} else if (strcmp(op, "signal") == 0) {
		request_signal(session, connection, request);
	} else if (strcmp(op, "pause") == 0) {
		pause_request(session, connection);
	} else if (strcmp(op, "resume") == 0) {
		resume_request(session, connection);
	} else if (strcmp(op, "stop") == 0) {
		/* Answered once everything is gone: see end. */
		connection->wait_until_us = UINT64_MAX;
		connection->request = json_object();
		session->ending = true;
	} else {
		error_set(&err, 0, "there is no such request: %s", quoted(op, buffer));
		answer_failure(connection, &err);
	}
}

void serve_held(struct session *session)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &session->connections[i];
		json_t *request = connection->request;

		if (connection->fd < 0 || !connection->held)
			continue;
		connection->held = false;
		connection->request = NULL;
		handle_request(session, connection, request);
		json_decref(request);
	}
}

/* --- the sockets --- */

/* The code of an ordinary user's sandbox has our id, too, and can be here where a bind shows the folder of sockets. */
static bool is_in_our_namespace(pid_t pid)
{
	struct stat own, theirs;
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	return stat("/proc/self/ns/user", &own) == 0 && stat(path, &theirs) == 0 &&
	       own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino;
}

/* As an answer, to a client that is not let in. */
static void refuse_client(int fd, const struct error *err)
{
	struct connection refused = CONNECTION_NONE;

	refused.fd = fd;
	answer_failure(&refused, err);
	if (refused.out)
		(void)!send(fd, refused.out, refused.out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
	connection_free(&refused);
}

static bool no_descriptors(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE;
}

/* With a descriptor that is kept for this, or poll(2) would tell of this client again and again. */
static void refuse_for_want_of_descriptors(struct session *session)
{
	struct error err = {0};
	int fd;

	close_fd(&session->spare);
	fd = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	set_no_descriptors(&err);
	if (fd >= 0)
		refuse_client(fd, &err);
	else
		session->accept_us = session_now_us() + ACCEPT_PAUSE_MS * 1000;
	session->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_connection(struct session *session)
{
	int fd = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t length = sizeof peer;
	struct connection *free_place = NULL;
	struct error err = {0};

	if (fd < 0 && no_descriptors(errno)) {
		refuse_for_want_of_descriptors(session);
		return;
	}
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			session->accept_us = session_now_us() + ACCEPT_PAUSE_MS * 1000;
		return;
	}
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (session->connections[i].fd < 0)
			free_place = &session->connections[i];
	/* The folder lets nobody else in; root may come anyway. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
		(peer.uid != 0 && (peer.uid != geteuid() || !is_in_our_namespace(peer.pid)))) {
		close(fd);
		return;
	}
	if (!free_place) {
		error_set(&err, 0, "the session has %d clients already", CONNECTIONS_MAX);
		error_hint(&err, "try again when one of them has its answer");
		refuse_client(fd, &err);
		return;
	}
	free_place->fd = fd;
}

/* A whole frame that has come; it is taken out. NULL: not yet; *ret_broken: it is none. */
static json_t *take_frame(struct connection *connection, bool *ret_broken)
{
	struct frame_header header;
	json_t *request;

	*ret_broken = false;
	if (connection->in_length < sizeof header)
		return NULL;
	memcpy(&header, connection->in, sizeof header);
	if (header.type != FRAME_REQUEST || header.length > FRAME_MAX) {
		*ret_broken = true;
		return NULL;
	}
	if (connection->in_length - sizeof header < header.length)
		return NULL;
	request = json_loadb(connection->in + sizeof header, header.length, JSON_ALLOW_NUL, NULL);
	free(connection->in);
	connection->in = NULL;
	connection->in_length = connection->in_size = 0;
	*ret_broken = !json_is_object(request);
	if (*ret_broken) {
		json_decref(request);
		return NULL;
	}
	return request;
}

static bool make_room(struct connection *connection)
{
	size_t size = connection->in_size ? connection->in_size : READ_CHUNK;
	char *grown;

	while (size - connection->in_length < READ_CHUNK)
		size *= 2;
	if (size == connection->in_size)
		return true;
	if (size > 2UL * FRAME_MAX || !(grown = realloc(connection->in, size)))
		return false;
	connection->in = grown;
	connection->in_size = size;
	return true;
}

static void client_gone(struct session *session, struct connection *connection)
{
	struct job *job = job_of(session, connection);

	if (job)
		job_cancel(session, job);
	pause_forget(session, connection);
	if (session->copying.connection == connection)
		snapshot_cancel(session, NULL);
	connection_free(connection);
}

/* As recv(2). Descriptors can come with it, one or three together. */
static ssize_t receive(struct connection *connection)
{
	union {
		char buffer[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {
		.iov_base = connection->in + connection->in_length, .iov_len = READ_CHUNK};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		/* Not as large as the buffer, whose end is aligned: a fourth would have room there. */
		.msg_controllen = CMSG_LEN(3 * sizeof(int))};
	ssize_t n = recvmsg(connection->fd, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int fds[3];
	size_t count;

	if (n > 0 && message.msg_flags & MSG_CTRUNC)
		connection->lost = true;
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return n;
	count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	for (size_t i = 0; i < count; i++) {
		if (count != 2 && connection->streams[i] < 0)
			connection->streams[i] = fds[i];
		else
			close(fds[i]);
	}
	return n;
}

static void read_connection(struct session *session, struct connection *connection)
{
	json_t *request;
	bool broken;
	ssize_t n;

	if (!make_room(connection)) {
		client_gone(session, connection);
		return;
	}
	n = receive(connection);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_gone(session, connection);
		return;
	}
	connection->in_length += (size_t)n;
	request = take_frame(connection, &broken);
	if (broken || (request && (connection->out || job_of(session, connection) ||
					  connection->wait_until_us || connection->held || connection->pausing ||
					  session->copying.connection == connection)))
		client_gone(session, connection);
	else if (request)
		handle_request(session, connection, request);
	json_decref(request);
}

/* As send(2), of what is left of the answer. */
static ssize_t send_some(struct connection *connection)
{
	struct iovec iov = {.iov_base = connection->out + connection->out_sent,
		.iov_len = connection->out_length - connection->out_sent};
	int count = (connection->out_fds[0] >= 0) + (connection->out_fds[1] >= 0);
	union {
		char buffer[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (connection->out_sent == 0 && count > 0) {
		message.msg_control = control.buffer;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(&control.align), connection->out_fds, (size_t)count * sizeof(int));
	}
	return sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void write_connection(struct session *session, struct connection *connection)
{
	ssize_t n = send_some(connection);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		client_gone(session, connection);
		return;
	}
	connection->out_sent += (size_t)n;
	if (connection->out_sent == connection->out_length)
		connection_free(connection);
}

/* --- the sandbox --- */

static void sandbox_died(struct session *session)
{
	struct error err = {0};

	error_set(&err, 0,
		"the session's sandbox has ended: its first process was killed, by hand, by the host's out-of-memory killer, or "
		"since a command's processes could not be ended otherwise");
	error_hint(&err, "make another session");
	session->ending = true;
	jobs_fail_all(session, &err);
}

static void serve_agent(struct session *session)
{
	struct agent_message message;
	ssize_t n = wire_receive(session->sandbox.socket, &message, sizeof message, NULL, NULL);
	struct error err = {0};

	if (n == 0 || (n < 0 && errno == ECONNRESET)) {
		sandbox_died(session);
		return;
	}
	/* It is there still, to be taken when there is memory. */
	if (n < 0 && errno == ENOMEM)
		return;
	if (n >= (ssize_t)offsetof(struct agent_message, error) &&
		(message.type == AGENT_PAUSED || message.type == AGENT_RESUMED
				? pause_take_message(session, &message, (size_t)n)
				: job_take_message(session, &message, (size_t)n)))
		return;
	error_set(&err, 0,
		"the first process of the sandbox sent a message that makes no sense; the session was ended");
	jobs_fail_all(session, &err);
	session->ending = true;
}

static int wait_for_created(struct session *session, struct error *err)
{
	struct pollfd fd = {.fd = session->sandbox.socket, .events = POLLIN};
	struct agent_message message;
	int fds[WIRE_FDS_MAX];
	size_t count = WIRE_FDS_MAX;
	ssize_t n;

	if (poll(&fd, 1, SETUP_DEADLINE_MS) <= 0)
		return error_set(err, 0, "setting up the sandbox took longer than %d s",
			SETUP_DEADLINE_MS / 1000);
	n = wire_receive(session->sandbox.socket, &message, sizeof message, fds, &count);
	if (n == sizeof message && message.type == AGENT_FAILED && count == 0) {
		error_set(err, 0, "%.*s", ERROR_TEXT_MAX - 1, message.error.text);
		error_hint(err, "%.*s", ERROR_HINT_MAX - 1, message.error.hint);
		err->errnum = message.value;
		return -1;
	}
	if (n != (ssize_t)offsetof(struct agent_message, error) || message.type != AGENT_CREATED ||
		message.tmpfs_count > 1 + SPEC_TMPFS_MAX || message.has_terminal ||
		message.has_listener || message.has_devpts != 1 || count != 2 + message.tmpfs_count) {
		for (size_t i = 0; i < count; i++)
			close(fds[i]);
		return error_set(err, 0, "the sandbox ended while it was being set up");
	}
	session->proc_fd = fds[0];
	session->tmpfs_count = message.tmpfs_count;
	memcpy(session->tmpfs_fds, fds + 1, session->tmpfs_count * sizeof *fds);
	session->devpts_fd = fds[1 + session->tmpfs_count];
	return 0;
}

int session_create_sandbox(struct session *session, struct error *err)
{
	struct stdio stdio = STDIO_NONE;
	int r = 0;

	if (features_require_kernel(err) < 0 || spec_validate(session->spec, err) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if ((stdio.child[i] = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
			r = error_set(err, errno, "opening /dev/null");
	if (r == 0)
		r = sandbox_create(session->spec, &stdio, &session->sandbox, &session->walls, err);
	stdio_close(&stdio);
	if (r == 0)
		r = wait_for_created(session, err);
	session->watching = r == 0 && !session->sandbox.tier1;
	session->watcher = (struct watcher){
		.proc_fd = session->proc_fd,
		.tmpfs_fds = session->tmpfs_fds,
		.tmpfs_count = session->tmpfs_count,
		.memory_limit_bytes = session->spec->limits.memory_bytes,
		.pids_limit = session->spec->limits.pids,
	};
	if (r == 0)
		past_begin(session);
	return r;
}

/* --- the loop --- */

enum {
	POLL_LISTENER,
	POLL_AGENT,
	POLL_SIGNALS,
	POLL_CLAIM,
	POLL_HELPERS,
	POLL_LOOK = POLL_HELPERS + SANDBOX_HELPERS, /* see space_check, which comes next */
	POLL_COPY,
	POLL_CONNECTIONS,
	POLL_JOBS = POLL_CONNECTIONS + CONNECTIONS_MAX,
	POLL_MAX = POLL_JOBS + JOBS_MAX * JOB_POLLFDS,
};

static uint64_t check_times(struct session *session)
{
	uint64_t now = session_now_us(), next = UINT64_MAX;
	uint64_t idle = session->options.idle_ms * 1000, life = session->options.life_ms * 1000;
	bool busy = pause_active(session);

	for (size_t i = 0; i < JOBS_MAX; i++)
		busy |= session->jobs[i].state != JOB_FREE && session->jobs[i].connection;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		busy |= session->connections[i].fd >= 0 && session->connections[i].wait_until_us;
	if (busy)
		session->used_us = now;
	if ((idle && now >= session->used_us + idle) || (life && now >= session->created_us + life))
		session->ending = true;
	session->outlived = session->ending && life && now >= session->created_us + life;
	if (idle)
		next = session->used_us + idle;
	if (life && session->created_us + life < next)
		next = session->created_us + life;
	if (session->accept_us > now && session->accept_us < next)
		next = session->accept_us;
	return next;
}

static int timeout_until(uint64_t until_us)
{
	uint64_t now = session_now_us(), ms;

	if (until_us == UINT64_MAX)
		return -1;
	ms = until_us > now ? (until_us - now + 999) / 1000 : 0;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static nfds_t fill_poll(
	struct session *session, int signals, struct pollfd *fds, size_t *job_counts)
{
	nfds_t count = POLL_JOBS;

	fds[POLL_LISTENER] = (struct pollfd){
		.fd = session_now_us() < session->accept_us ? -1 : session->listener, .events = POLLIN};
	fds[POLL_AGENT] = (struct pollfd){.fd = session->sandbox.socket, .events = POLLIN};
	fds[POLL_SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
	fds[POLL_CLAIM] = (struct pollfd){.fd = session->claim, .events = POLLIN};
	for (int i = 0; i < SANDBOX_HELPERS; i++)
		fds[POLL_HELPERS + i] =
			(struct pollfd){.fd = session->sandbox.helpers[i].pidfd, .events = POLLIN};
	fds[POLL_LOOK] = (struct pollfd){.fd = session->space.answer, .events = POLLIN};
	fds[POLL_COPY] = (struct pollfd){.fd = session->copying.answer, .events = POLLIN};
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		fds[POLL_CONNECTIONS + i] = (struct pollfd){.fd = session->connections[i].fd,
			.events = session->connections[i].out ? POLLIN | POLLOUT : POLLIN};
	for (size_t i = 0; i < JOBS_MAX; i++) {
		job_counts[i] = job_fill_poll(&session->jobs[i], &fds[count]);
		count += job_counts[i];
	}
	return count;
}

/* Its id has been said to somebody, or that somebody is gone. */
static void serve_claim(struct session *session)
{
	char byte;

	if (read(session->claim, &byte, 1) != 1)
		session->ending = true;
	close_fd(&session->claim);
}

/* Commands that run are told of it, and those that come. */
static void miss_helper(struct session *session, struct helper *helper)
{
	char sentence[ERROR_TEXT_MAX];

	helper_tell_end(helper, sentence, sizeof sentence);
	add_warning(&session->walls, "%s", sentence);
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state != JOB_FREE && session->jobs[i].state != JOB_DONE)
			add_warning(&session->jobs[i].result, "%s", sentence);
}

static void turn(struct session *session, int signals)
{
	static struct pollfd fds[POLL_MAX];
	size_t job_counts[JOBS_MAX];
	uint64_t until, other;
	nfds_t count, at = POLL_JOBS;

	snapshots_of_jobs(session);
	until = jobs_check_clocks(session);
	other = serve_waiting(session);
	until = other < until ? other : until;
	other = pause_check_clock(session);
	until = other < until ? other : until;
	other = space_check(session);
	until = other < until ? other : until;
	other = check_times(session);
	until = other < until ? other : until;
	if (session->ending)
		return;
	if (jobs_have_snapshots(session))
		until = 0;
	count = fill_poll(session, signals, fds, job_counts);
	if (poll(fds, count, timeout_until(until)) < 0) {
		/* One that cannot look would do nothing else but to try again. */
		session->ending |= errno != EINTR && errno != ENOMEM;
		return;
	}
	/* Jobs before the agent: what a command wrote is read before its end is. */
	for (size_t i = 0; i < JOBS_MAX; i++) {
		job_handle_poll(session, &session->jobs[i], &fds[at], job_counts[i]);
		at += job_counts[i];
	}
	for (int i = 0; i < SANDBOX_HELPERS; i++)
		if (fds[POLL_HELPERS + i].revents)
			miss_helper(session, &session->sandbox.helpers[i]);
	if (fds[POLL_AGENT].revents)
		serve_agent(session);
	/* Before a client goes away and the next copy begins, which has said nothing yet. */
	if (fds[POLL_COPY].revents && session->copying.answer >= 0)
		snapshot_copied(session);
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &session->connections[i];
		short events = fds[POLL_CONNECTIONS + i].revents;

		if (connection->fd >= 0 && connection->out && events & (POLLOUT | POLLERR))
			write_connection(session, connection);
		else if (connection->fd >= 0 && events)
			read_connection(session, connection);
	}
	if (fds[POLL_LISTENER].revents)
		accept_connection(session);
	if (fds[POLL_SIGNALS].revents)
		session->ending = true;
	if (fds[POLL_CLAIM].revents)
		serve_claim(session);
}

/* --- beginning and end --- */

void session_take_down(struct session *session)
{
	struct rusage usage;

	sandbox_kill(&session->sandbox);
	sandbox_wait(&session->sandbox, &usage);
	close_fd(&session->proc_fd);
	close_fd(&session->devpts_fd);
	for (size_t i = 0; i < session->tmpfs_count; i++)
		close_fd(&session->tmpfs_fds[i]);
	sandbox_release(&session->sandbox);
	session->sandbox = SANDBOX_NONE;
	session->tmpfs_count = 0;
	session->walls = (struct run_result){0};
}

/* On disk; in memory where that cannot be, which is said in the session's description, and to who asked for a disk. */
static int create_somewhere(struct session *session, struct error *err)
{
	struct error why;

	space_choose(session);
	if (space_choose_packages(session, err) < 0)
		return -1;
	if (session_create_sandbox(session, err) == 0)
		return 0;
	if (!session->spec->storage_folder)
		return -1;
	why = *err;
	*err = (struct error){0};
	session_take_down(session);
	space_give_up(session, &why);
	return session_create_sandbox(session, err);
}

void session_set_ended(const struct session *session, struct error *err)
{
	error_set(err, 0, "%s", session->outlived ? "the session has ended: its time was up (--life)" : "the session has ended");
}

static void last_words(struct session *session)
{
	uint64_t until = session_now_us() + LAST_WORDS_MS * 1000;
	struct error err = {0};

	session_set_ended(session, &err);
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &session->connections[i];

		/* Who asked for the end, and who waited for output. */
		if (connection->fd >= 0 && connection->wait_until_us == UINT64_MAX)
			answer(connection, json_object());
		else if (connection->fd >= 0 && connection->wait_until_us)
			answer_failure(connection, &err);
		while (connection->fd >= 0 && connection->out && session_now_us() < until) {
			struct pollfd fd = {.fd = connection->fd, .events = POLLOUT};

			if (poll(&fd, 1, timeout_until(until)) > 0)
				write_connection(session, connection);
		}
		connection_free(connection);
	}
}

static void end(struct session *session)
{
	struct error err = {0};

	/* Nobody new: who connects sees that there is no such session. */
	close_fd(&session->listener);
	close_fd(&session->spare);
	session_remove(session->place, session->id);
	session_set_ended(session, &err);
	jobs_fail_all(session, &err);
	snapshot_end(session, &err);
	session_take_down(session);
	space_end(session);
	space_end_packages(session);
	past_end(session);
	last_words(session);
	/* Of those that were dying still when this one began. */
	space_sweep(session);
}

static int take_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* How it went, for who waits. An empty text is success. Of the walls only what is behind no pointer counts. */
struct ready {
	struct error error;
	struct run_result walls;
};

/* False: nobody does. */
static bool say_ready(int fd, const struct error *err, const struct run_result *walls)
{
	struct ready ready = {.error = *err, .walls = *walls};

	return write_whole(fd, &ready, sizeof ready) == 0;
}

/* What whoever made it had open is not for it to hold: a lock, or a pipe whose end others wait for. */
void session_close_inherited(const int *kept, size_t count)
{
	int last = 0;

	for (size_t i = 0; i < count; i++)
		last = kept[i] > last ? kept[i] : last;
	for (int fd = 3; fd < last; fd++) {
		bool keep = false;

		for (size_t i = 0; i < count; i++)
			keep |= kept[i] == fd;
		if (!keep)
			close(fd);
	}
	close_range((unsigned)last + 1, ~0U, 0);
}

/* What its maker had and has freed. */
static void give_back_memory(void)
{
#ifndef LACKS_malloc_trim
	malloc_trim(0);
#endif
}

/* Field by field: places of jobs that are never used are memory that is never touched. */
static struct session *begin(const struct spec *spec, const struct session_options *options, int place,
	int listener, const char *id)
{
	static struct session session;

	session.own = *spec;
	session.spec = &session.own;
	session.options = *options;
	session.space = SPACE_NONE;
	session.place = place;
	session.listener = listener;
	session.spare = -1;
	session.sandbox = SANDBOX_NONE;
	session.proc_fd = session.devpts_fd = -1;
	session.tick_us = UINT64_MAX;
	session.past.packages_held = -1;
	session.copying = (struct copying){.snapshots = SNAPSHOTS_NONE, .lock = -1, .folder = -1, .answer = -1};
	session.flattening = (struct flattening){.folder = -1, .answer = -1};
	session.pause.look_us = session.pause.deadline_us = UINT64_MAX;
	session.activity = 1;
	session.created_us = session.used_us = session_now_us();
	strcpy(session.id, id);
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		session.connections[i] = CONNECTION_NONE;
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		session.contexts[i].requests = session.contexts[i].answers = -1;
	return &session;
}

/* poll(2) takes no more than the process may have open. */
static int check_descriptors(struct error *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return error_set(err, errno, "asking for the limit of open files");
	if (limit.rlim_max >= POLL_MAX)
		return 0;
	error_set(err, 0, "a session needs %d open files, and the limit is %llu", POLL_MAX,
		(unsigned long long)limit.rlim_max);
	return error_hint(err, "raise it: ulimit -Hn %d", POLL_MAX);
}

/* Of this process alone: the sandbox has what the caller had. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
	setrlimit(RLIMIT_NOFILE, &limit);
}

_Noreturn static void session_main(const struct spec *spec, const struct session_options *options,
	int place, int listener, const char *id, int ready)
{
	struct session *session;
	struct error err = {0};
	int signals, null;

	session_close_inherited((int[]){place, listener, ready}, 3);
	give_back_memory();
	null = open("/dev/null", O_RDWR);
	prctl(PR_SET_NAME, "nsbox-session");
	setsid();
	signals = take_signals();
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	if (null > 2)
		close(null);
	session = begin(spec, options, place, listener, id);
	if (check_descriptors(&err) < 0 || past_hold(session, &err) < 0 || chdir("/") < 0 || create_somewhere(session, &err) < 0) {
		session_take_down(session);
		space_end(session);
		space_end_packages(session);
		session_remove(place, id);
		say_ready(ready, &err, &session->walls);
		_exit(1);
	}
	raise_descriptors();
	session->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* Without somebody who knows its id it would be there for nothing until its time is up. */
	session->ending = !say_ready(ready, &err, &session->walls);
	session->claim = ready;
	space_sweep(session);
	while (!session->ending)
		turn(session, signals);
	end(session);
	_exit(0);
}

/* Reads what say_ready says. */
static int wait_until_ready(int fd, struct run_result *ret_walls, struct error *err)
{
	struct ready said;

	if (read_full(fd, &said, sizeof said) != sizeof said)
		return error_set(
			err, 0, "the session's supervisor was killed while it was being made");
	*ret_walls = said.walls;
	if (!said.error.text[0])
		return 0;
	*err = said.error;
	return -1;
}

/* A place with its socket. Where there may be so many only, nobody makes one between counting and making. */
static int take_place(int place, const struct session_options *options, char ret_id[SESSION_ID_SIZE],
	struct error *err)
{
	size_t count;
	int listener = -1;

	if (!options->shared_max)
		return session_listen(place, options->shared, ret_id, err);
	if (flock(place, LOCK_EX) < 0)
		return error_set(err, errno, "locking the folder of sessions");
	if (session_count_shared(place, &count, err) < 0) {
		listener = -1;
	} else if (count >= options->shared_max) {
		error_set(err, 0, "there are %zu sandboxes that last already, as many as are allowed", count);
		error_hint(err, "stop some of them");
	} else {
		listener = session_listen(place, options->shared, ret_id, err);
	}
	flock(place, LOCK_UN);
	return listener;
}

int session_create(const struct spec *spec, const struct session_options *options, struct session_made *ret,
	struct error *err)
{
	cleanup_close int place = session_place_open(true, err), listener = -1;
	int ends[2], r;
	pid_t pid;

	*ret = (struct session_made){.claim = -1};
	if (place < 0 || (listener = take_place(place, options, ret->id, err)) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "making a socket");
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		session_main(spec, options, place, listener, ret->id, ends[1]);
	}
	close(ends[1]);
	r = pid < 0 ? error_set(err, errno, "starting the session's supervisor")
		    : wait_until_ready(ends[0], &ret->walls, err);
	if (r == 0) {
		ret->claim = ends[0];
		return 0;
	}
	close(ends[0]);
	session_remove(place, ret->id);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return -1;
}

void session_claim(struct session_made *made)
{
	(void)!write(made->claim, "", 1); /* to one that has ended meanwhile it says nothing */
	close_fd(&made->claim);
}

json_t *session_made_to_json(const struct session_made *made, const struct spec *spec)
{
	struct run_result walls = made->walls;
	json_t *object;

	walls.execs_count = 1;
	walls.execs[0] = (struct exec_result){.ended_by = ENDED_EXITED};
	object = run_result_walls_to_json(&walls, spec);

	json_object_set_new(object, "id", json_string(made->id));
	return object;
}
