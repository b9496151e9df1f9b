/* SPDX-License-Identifier: MIT */
/*
 * Work on files of a session: a request's JSON becomes a struct fileop, which a process inside does, and what comes
 * back on the channel becomes JSON. Nothing here opens a file.
 *
 *     {"op": "file", "kind": KIND, "path": P, …}
 *         "read"    offset, limit (bytes)     → {"size", "mode", "content": BASE64}
 *         "write"   content (BASE64), mode, parents, exclusive, append  → {"size"}
 *         Both with "stream": true, and with a descriptor that comes with the frame, one end of a Unix stream socket
 *         pair: the content, of any length, comes from it, up to where the other end is shut down (SHUT_WR), or goes
 *         to it, of which "count" says how much.
 *         "edit"    from, to (BASE64), all    → {"replaced", "size"}
 *         "list"    limit, recursive          → {"entries": [{"name", "type", "size", "mode", "mtime_ns",
 *         "target", "error": why it was not looked into}], "left_out": bool}
 *         "move"    to, parents, exclusive    → {}
 *         "delete"  recursive                 → {"removed"}
 *         "mkdir"   mode, parents             → {}
 *         "stat"                              → {"type", "size", "mode", "mtime_ns"}
 *
 * Names and content need not be UTF-8: "path" and "to" of a move may be {"base64": …} too, and come so.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"
#include "sandbox/fileops.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum {
	READ_MAX = 8 << 20, /* bytes of one request */
	LIST_MAX = 10000,   /* entries of one request */
	LIST_BYTES_MAX = LIST_MAX * (sizeof(struct fileop_entry) + 512),
	CHUNK = 64 << 10,
};

/* --- the channel --- */

static int start(struct session *session, struct file_work *work, const void *request, size_t length,
	struct error *err)
{
	const struct fileop *op = request;
	int ends[2];

	if (op->kind != FILEOP_READ && op->kind != FILEOP_LIST && op->kind != FILEOP_STAT && op->kind != FILEOP_SCAN)
		changes_note_activity(session);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "making a socket");
	work->id = session_next_id(session);
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
		sandbox_file(&session->sandbox, work->id, request, length, ends[1], err) < 0) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[1]);
	work->channel = ends[0];
	work->deadline_us = session_now_us() + FILE_DEADLINE_MS * 1000;
	return 0;
}

/* Without asking whether there is space. */
static int start_anyway(struct session *session, struct file_work *work, const void *request,
	size_t length, const void *content, size_t content_length, size_t answer_max,
	struct error *err)
{
	*work = FILE_WORK_NONE;
	if (start(session, work, request, length, err) < 0)
		return -1;
	work->content = content;
	work->content_length = content_length;
	work->answer_max = sizeof(struct fileop_answer) + answer_max;
	if (content_length == 0)
		shutdown(work->channel, SHUT_WR);
	return 0;
}

int file_work_start(struct session *session, struct file_work *work, const void *request,
	size_t length, const void *content, size_t content_length, size_t answer_max,
	struct error *err)
{
	*work = FILE_WORK_NONE;
	if (space_take(session, content_length, err) < 0)
		return -1;
	return start_anyway(session, work, request, length, content, content_length, answer_max, err);
}

int file_work_start_stream(struct session *session, struct file_work *work, const void *request, size_t length,
	int *stream, struct error *err)
{
	int domain = 0, type = 0;
	socklen_t domain_size = sizeof domain, type_size = sizeof type;

	*work = FILE_WORK_NONE;
	/* Anything else could have us wait. */
	if (getsockopt(*stream, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) < 0 ||
		getsockopt(*stream, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0 || domain != AF_UNIX ||
		type != SOCK_STREAM)
		return error_set(err, 0, "content is carried by one end of a Unix stream socket pair, and by nothing else");
	if (start(session, work, request, length, err) < 0)
		return -1;
	work->answer_max = sizeof(struct fileop_answer);
	work->stream = move_fd(stream);
	work->into = ((const struct fileop *)request)->kind == FILEOP_WRITE;
	if (!work->into)
		shutdown(work->channel, SHUT_WR);
	return 0;
}

static void send_content(struct file_work *work)
{
	while (work->content_length > 0) {
		ssize_t n = send(work->channel, work->content, work->content_length,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		work->deadline_us = session_now_us() + FILE_DEADLINE_MS * 1000;
		/* Who does not take it has answered why. */
		work->content += n > 0 ? n : 0;
		work->content_length = n > 0 ? work->content_length - (size_t)n : 0;
	}
	shutdown(work->channel, SHUT_WR);
}

static bool make_room(struct file_work *work)
{
	size_t size = work->answer_size ? work->answer_size : CHUNK;
	uint8_t *grown;

	while (size - work->answer_length < CHUNK)
		size *= 2;
	if (size == work->answer_size)
		return true;
	grown = realloc(work->answer, size);
	if (!grown)
		return false;
	work->answer = grown;
	work->answer_size = size;
	return true;
}

static void read_answer(struct file_work *work)
{
	while (!work->ended) {
		ssize_t n;

		/* More than was asked for is nothing that ours would send. */
		if (work->answer_length > work->answer_max || !make_room(work)) {
			work->ended = true;
			return;
		}
		n = recv(work->channel, work->answer + work->answer_length, CHUNK, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			work->ended = true;
		else
			work->answer_length += (size_t)n;
		work->deadline_us = session_now_us() + FILE_DEADLINE_MS * 1000;
	}
}

void file_work_fill_poll(const struct file_work *work, struct pollfd ret[FILE_WORK_POLLFDS])
{
	if (work->stream >= 0) {
		file_stream_fill_poll(work, ret);
		return;
	}
	ret[0] = (struct pollfd){
		.fd = work->channel, .events = POLLIN | (work->content_length > 0 ? POLLOUT : 0)};
	ret[1] = (struct pollfd){.fd = -1};
}

void file_work_step(struct session *session, struct file_work *work, const struct pollfd *fds)
{
	short events = fds ? fds[0].revents : 0;

	if (work->stream >= 0)
		file_stream_step(session, work, fds);
	else if (events & POLLOUT && work->content_length > 0)
		send_content(work);
	if (events & (POLLIN | POLLHUP | POLLERR) && (work->stream < 0 || work->into) && !work->ended)
		read_answer(work);
	if (!work->ended && session_now_us() >= work->deadline_us) {
		struct error ignored;

		/* Closed, the channel tells the worker to take back what it began; one that is stuck does not hear that. */
		close_fd(&work->channel);
		sandbox_end_command(&session->sandbox, work->id, &ignored);
		work->overdue = work->ended = true;
	}
}

void file_work_free(struct file_work *work)
{
	close_fd(&work->channel);
	free(work->answer);
	file_stream_free(work);
	*work = FILE_WORK_NONE;
}

/* --- what it says --- */

static const char *type_name(uint32_t type)
{
	switch (type & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	case S_IFIFO:
		return "FIFO";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
	case S_IFBLK:
		return "device";
	}
	return "unknown";
}

static bool take_header(const struct file_work *work, struct fileop_answer *ret)
{
	if (work->answer_length < sizeof *ret || work->answer_length > work->answer_max)
		return false;
	memcpy(ret, work->answer, sizeof *ret);
	return true;
}

static int failed(const struct fileop_answer *answer, const char *path, struct error *err)
{
	int errnum = answer->errnum < 4096 ? (int)answer->errnum : EIO;
	char buffer[QUOTED_MAX];

	path = quoted(path, buffer);
	switch (answer->stage) {
	case FILEOP_OPENING:
		return error_set(err, errnum, "opening %s", path);
	case FILEOP_NOT_REGULAR:
		return error_set(err, 0, "%s is a %s, which has no content to be read or written",
			path, type_name(answer->type));
	case FILEOP_READING:
		return error_set(err, errnum, "reading %s", path);
	case FILEOP_WRITING:
		return error_set(err, errnum, "writing %s", path);
	case FILEOP_MAKING_PARENTS:
		return error_set(err, errnum, "making the directories of %s", path);
	case FILEOP_MAKING:
		return error_set(err, errnum, "making %s", path);
	case FILEOP_RENAMING:
		return error_set(err, errnum, "moving %s", path);
	case FILEOP_REMOVING:
		error_set(err, errnum, "removing %s", path);
		return errnum == ENOTEMPTY ? error_hint(err, "ask for all that is in it to be removed, too (recursive)")
					   : -1;
	case FILEOP_LISTING:
		return error_set(err, errnum, "listing %s", path);
	case FILEOP_TOO_LARGE:
		return error_set(err, 0, "%s is too large to be edited: more than %d MiB", path,
			FILEOP_EDIT_MAX >> 20);
	case FILEOP_NOT_FOUND_IN:
		return error_set(err, 0, "%s does not have the text that is to be replaced", path);
	case FILEOP_FOUND_TWICE:
		error_set(err, 0,
			"%s has the text that is to be replaced more than once (%llu times)", path,
			(unsigned long long)answer->count);
		return error_hint(
			err, "give more of what is around it, or ask for all to be replaced");
	}
	return error_set(err, 0, "%s: the work on it was refused inside", path);
}

int file_work_result(const struct file_work *work, const char *path, struct error *err)
{
	struct fileop_answer answer;
	char buffer[QUOTED_MAX];

	if (work->overdue)
		return error_set(err, 0, "%s: the work on it made no progress for %d s and was ended",
			quoted(path, buffer), FILE_DEADLINE_MS / 1000);
	if (work->failure) {
		*err = *work->failure;
		return error_context(err, "%s", quoted(path, buffer));
	}
	if (!take_header(work, &answer))
		return error_set(err, 0,
			"%s: the process inside that works on it could not be made, or was killed",
			quoted(path, buffer));
	return answer.stage == FILEOP_DONE ? 0 : failed(&answer, path, err);
}

/* --- requests --- */

static const struct {
	const char *name;
	enum fileop_kind kind;
	uint32_t flags; /* that it takes */
} kinds[] = {
	{"read", FILEOP_READ, 0},
	{"write", FILEOP_WRITE, FILEOP_PARENTS | FILEOP_EXCLUSIVE | FILEOP_APPEND},
	{"edit", FILEOP_EDIT, FILEOP_ALL},
	{"list", FILEOP_LIST, FILEOP_RECURSIVE},
	{"move", FILEOP_MOVE, FILEOP_PARENTS | FILEOP_EXCLUSIVE},
	{"delete", FILEOP_DELETE, FILEOP_RECURSIVE},
	{"mkdir", FILEOP_MKDIR, FILEOP_PARENTS},
	{"stat", FILEOP_STAT, 0},
};

static const struct {
	const char *name;
	uint32_t flag;
} flags[] = {
	{"parents", FILEOP_PARENTS},
	{"exclusive", FILEOP_EXCLUSIVE},
	{"append", FILEOP_APPEND},
	{"recursive", FILEOP_RECURSIVE},
	{"all", FILEOP_ALL},
};

/* A string, or {"base64": …}. Returns malloc'd bytes, or NULL where it is neither. */
static char *take_bytes(const json_t *value, size_t *ret_length)
{
	const json_t *encoded = json_object_get(value, "base64");
	void *bytes;

	if (json_is_string(value)) {
		*ret_length = json_string_length(value);
		return xmemdup(json_string_value(value), *ret_length);
	}
	if (!json_is_string(encoded) ||
		base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes,
			ret_length) < 0)
		return NULL;
	return bytes;
}

static uint64_t number(const json_t *request, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(request, key);

	return json_is_integer(value) && json_integer_value(value) >= 0
		       ? (uint64_t)json_integer_value(value)
		       : otherwise;
}

/* The request for the process inside: malloc'd. */
static void *pack(const struct fileop *op, const char *path, const char *from, const char *to,
	size_t *ret_length)
{
	size_t length = sizeof *op + op->path_length + op->from_length + op->to_length;
	char *packed = xmalloc(length), *next = packed;

	memcpy(next, op, sizeof *op);
	next += sizeof *op;
	memcpy(next, path, op->path_length);
	next += op->path_length;
	if (op->from_length)
		memcpy(next, from, op->from_length);
	next += op->from_length;
	if (op->to_length)
		memcpy(next, to, op->to_length);
	*ret_length = length;
	return packed;
}

/* `stream`: a descriptor for the content, taken over; NULL: that is in request and answer. */
static int start_request(struct session *session, struct job *job, const json_t *request,
	struct fileop *op, int *stream, struct error *err)
{
	size_t path_length = 0, from_length = 0, to_length = 0, content_length = 0, length;
	cleanup_free char *path = take_bytes(json_object_get(request, "path"), &path_length);
	cleanup_free char *from = NULL, *to = NULL;
	cleanup_free void *packed = NULL;
	size_t answer_max = 0;

	if (!path || path_length == 0 || path_length >= FILEOP_PATH_MAX ||
		memchr(path, '\0', path_length))
		return error_set(err, 0, "a path has to have between 1 and %d bytes, and no NUL",
			FILEOP_PATH_MAX - 1);
	if (op->kind == FILEOP_EDIT &&
		!(from = take_bytes(json_object_get(request, "from"), &from_length)))
		return error_set(err, 0, "what is to be replaced was not given");
	if ((op->kind == FILEOP_EDIT || op->kind == FILEOP_MOVE) &&
		!(to = take_bytes(json_object_get(request, "to"), &to_length)))
		return error_set(err, 0,
			op->kind == FILEOP_EDIT ? "what it is to be replaced by was not given"
						: "where it is to be moved to was not given");
	if (op->kind == FILEOP_WRITE && !stream &&
		!(job->content = (uint8_t *)take_bytes(
			  json_object_get(request, "content"), &content_length)))
		return error_set(err, 0, "no content was given, or what was is not base64");
	op->mode = (uint32_t)number(request, "mode", 0) & 07777;
	op->offset = number(request, "offset", 0);
	op->limit = number(request, "limit", op->kind == FILEOP_LIST ? LIST_MAX : READ_MAX);
	if (op->kind == FILEOP_LIST) {
		op->limit = op->limit > LIST_MAX ? LIST_MAX : op->limit;
		answer_max = LIST_BYTES_MAX;
	} else if (op->kind == FILEOP_READ) {
		op->limit = stream ? UINT64_MAX : op->limit > READ_MAX ? READ_MAX : op->limit;
		answer_max = op->limit;
	} else {
		op->offset = op->limit = 0;
	}
	op->path_length = (uint32_t)path_length;
	op->from_length = (uint32_t)from_length;
	op->to_length = (uint32_t)to_length;
	if (op->kind == FILEOP_EDIT && space_take(session, to_length, err) < 0)
		return -1;
	packed = pack(op, path, from, to, &length);
	if (stream && *stream < 0)
		return error_set(err, 0, "the descriptor did not come that the content goes by");
	if (stream)
		return file_work_start_stream(session, &job->work, packed, length, stream, err);
	return file_work_start(
		session, &job->work, packed, length, job->content, content_length, answer_max, err);
}

static int find_kind(const json_t *request, struct fileop *ret, struct error *err)
{
	const char *name = json_string_value(json_object_get(request, "kind")) ?: "";
	char buffer[QUOTED_MAX];

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kinds[i].name, name) != 0)
			continue;
		*ret = (struct fileop){.kind = kinds[i].kind};
		for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
			if (kinds[i].flags & flags[j].flag &&
				json_is_true(json_object_get(request, flags[j].name)))
				ret->flags |= flags[j].flag;
		return 0;
	}
	return error_set(err, 0, "there is no such work on files: %s", quoted(name, buffer));
}

void file_request(struct session *session, struct connection *connection, const json_t *request)
{
	struct fileop op;
	struct error err = {0};
	struct job *job = job_take(session, &err);
	bool streams;

	if (!job || find_kind(request, &op, &err) < 0) {
		answer_failure(connection, &err);
		if (job)
			job_free(job);
		return;
	}
	job->state = JOB_FILE;
	job->kind = op.kind;
	job->connection = connection;
	/* For messages: what is shown of a path need not be all of its bytes. */
	job->spec.root_path = xstrdup(json_string_value(json_object_get(request, "path"))
					      ?: "(a path that is not UTF-8)");
	streams = json_is_true(json_object_get(request, "stream")) && (op.kind == FILEOP_READ || op.kind == FILEOP_WRITE);
	if (start_request(session, job, request, &op, streams ? &connection->streams[0] : NULL, &err) < 0) {
		answer_failure(connection, &err);
		job_free(job);
	}
}

/* --- answers --- */

static json_t *entry_to_json(const struct fileop_entry *entry, const char *name, const char *target)
{
	json_t *object =
		json_pack("{s:o, s:s, s:I, s:i, s:I}", "name", bytes_to_json(name, entry->name_length),
			"type", type_name(entry->type), "size", (json_int_t)entry->size, "mode",
			(int)(entry->mode & 07777), "mtime_ns", (json_int_t)entry->mtime_ns);

	if (target)
		json_object_set_new(object, "target", bytes_to_json(target, entry->target_length));
	/* Another file system is left out on purpose. */
	if (entry->errnum && entry->errnum < 4096 && entry->errnum != EXDEV)
		json_object_set_new(object, "error", json_string(strerror((int)entry->errnum)));
	return object;
}

/* Each length is checked against what came. */
static json_t *entries_to_json(const uint8_t *data, size_t length)
{
	json_t *entries = json_array();
	bool left_out = true, too_deep = false;

	while (length >= sizeof(struct fileop_entry)) {
		struct fileop_entry entry;
		size_t strings;

		memcpy(&entry, data, sizeof entry);
		data += sizeof entry;
		length -= sizeof entry;
		if (entry.type == 0) {
			left_out = entry.count != 0 || entry.errnum != 0 || too_deep;
			break;
		}
		too_deep |= entry.errnum == ENAMETOOLONG;
		if (entry.name_length > FILEOP_PATH_MAX * 256U ||
			entry.target_length > FILEOP_PATH_MAX)
			break;
		strings = entry.name_length + 1U +
			  (S_ISLNK(entry.type) ? entry.target_length + 1U : 0U);
		if (strings > length)
			break;
		json_array_append_new(entries,
			entry_to_json(&entry, (const char *)data,
				S_ISLNK(entry.type) ? (const char *)data + entry.name_length + 1
						    : NULL));
		data += strings;
		length -= strings;
	}
	return json_pack("{s:o, s:b}", "entries", entries, "left_out", left_out);
}

static json_t *content_to_json(
	const struct fileop_answer *answer, const uint8_t *data, size_t length)
{
	cleanup_free char *encoded = base64_encode(data, length);

	return json_pack("{s:I, s:i, s:s}", "size", (json_int_t)answer->size, "mode",
		(int)(answer->mode & 07777), "content", encoded);
}

void file_answer(struct job *job)
{
	const uint8_t *data = job->work.answer + sizeof(struct fileop_answer);
	size_t length = job->work.answer_length - sizeof(struct fileop_answer);
	struct fileop_answer header;
	struct error err = {0};

	if (!job->connection)
		return;
	if (file_work_result(&job->work, job->spec.root_path, &err) < 0) {
		answer_failure(job->connection, &err);
		return;
	}
	take_header(&job->work, &header);
	switch (job->kind) {
	case FILEOP_READ:
		if (job->work.stream >= 0) {
			answer(job->connection,
				json_pack("{s:I, s:i, s:I}", "size", (json_int_t)header.size, "mode",
					(int)(header.mode & 07777), "count", (json_int_t)job->work.streamed));
			return;
		}
		answer(job->connection, content_to_json(&header, data, length));
		return;
	case FILEOP_LIST:
		answer(job->connection, entries_to_json(data, length));
		return;
	case FILEOP_EDIT:
		answer(job->connection,
			json_pack("{s:I, s:I}", "replaced", (json_int_t)header.count, "size",
				(json_int_t)header.size));
		return;
	case FILEOP_DELETE:
		answer(job->connection, json_pack("{s:I}", "removed", (json_int_t)header.count));
		return;
	case FILEOP_WRITE:
	case FILEOP_STAT:
		answer(job->connection,
			json_pack("{s:s, s:I, s:i, s:I}", "type", type_name(header.type), "size",
				(json_int_t)header.size, "mode", (int)(header.mode & 07777),
				"mtime_ns", (json_int_t)header.mtime_ns));
		return;
	default:
		answer(job->connection, json_object());
	}
}

int file_write_of_spec(struct session *session, struct job *job, struct error *err)
{
	const struct file_spec *file = &job->spec.files[job->file_index];
	struct fileop op = {.kind = FILEOP_WRITE,
		.flags = FILEOP_PARENTS,
		.mode = file->mode,
		.path_length = (uint32_t)strlen(file->path)};
	size_t length;
	cleanup_free void *packed = pack(&op, file->path, NULL, NULL, &length);

	/* A program that deletes what is too much has to be there; it is removed with what was made for it. */
	if ((job->source || job->support) && file->length <= SPACE_FULL_FILE)
		return start_anyway(
			session, &job->work, packed, length, file->content, file->length, 0, err);
	return file_work_start(
		session, &job->work, packed, length, file->content, file->length, 0, err);
}

int file_read_start(struct session *session, struct job *job, const char *path, uint64_t limit,
	struct error *err)
{
	struct fileop op = {
		.kind = FILEOP_READ, .limit = limit, .path_length = (uint32_t)strlen(path)};
	size_t length;
	cleanup_free void *packed = pack(&op, path, NULL, NULL, &length);

	return file_work_start(session, &job->work, packed, length, NULL, 0, limit, err);
}

const void *file_text(const struct file_work *work, size_t *ret_length)
{
	*ret_length = work->answer_length - sizeof(struct fileop_answer);
	return work->answer + sizeof(struct fileop_answer);
}

int file_remove_start(struct session *session, struct file_work *work, const char *path, struct error *err)
{
	struct fileop op = {.kind = FILEOP_DELETE,
		.flags = FILEOP_RECURSIVE,
		.path_length = (uint32_t)strlen(path)};
	size_t length;
	cleanup_free void *packed = pack(&op, path, NULL, NULL, &length);

	return file_work_start(session, work, packed, length, NULL, 0, 0, err);
}

void file_remove(struct session *session, const char *path)
{
	struct error unimportant;
	struct job *job = job_take_unused(session);

	if (!job)
		return;
	job->kind = FILEOP_DELETE;
	if (file_remove_start(session, &job->work, path, &unimportant) < 0) {
		job_free(job);
		return;
	}
	job->state = JOB_FILE;
	/* What commands have changed does not count it until it is gone. */
	job->source = xstrdup(path);
}
