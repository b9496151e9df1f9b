/* SPDX-License-Identifier: MIT */
/*
 * The server's side of runs: see runner.h. The other side is spawner.c.
 */
#define _GNU_SOURCE
#include "session/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/report.h"
#include "sandbox/spec.h"
#include "session/pull.h"
#include "session/session.h"
#include "session/spawner.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { READ_SIZE = 64 << 10 /* bytes */ };

int runner_start(struct runner *ret, struct error *err)
{
	int fds[2];
	pid_t server = getpid(), pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, errno, "making the spawner's socket");
	pid = fork();
	if (pid < 0) {
		error_set(err, errno, "forking the spawner");
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	if (pid == 0)
		spawner_main(fds[1], server);
	close(fds[1]);
	*ret = (struct runner){.fd = fds[0], .pid = pid};
	return 0;
}

int runner_stop(struct runner *runner, unsigned wait_ms)
{
	cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, runner->pid, 0);
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
	int result = -1;

	close_fd(&runner->fd);
	if (pidfd >= 0 && poll(&poll_fd, 1, (int)wait_ms) > 0 &&
		waitpid(runner->pid, NULL, WNOHANG) == runner->pid)
		result = 0;
	runner->pid = -1;
	return result;
}

/* One byte, since a descriptor needs something to travel with. */
static int send_descriptor(int socket, int fd)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof control.buffer,
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -1;
}

/* Takes over the reference. What the supervisor is asked for, as a message in io->out. */
static int pack(enum frame_type type, json_t *object, struct runner_io *io, struct error *err)
{
	struct frame_header header = {.type = type};
	size_t length = object ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;

	if (length > 0 && length <= FRAME_MAX)
		io->out = malloc(sizeof header + length);
	if (io->out) {
		header.length = (uint32_t)length;
		memcpy(io->out, &header, sizeof header);
		json_dumpb(object, io->out + sizeof header, length, JSON_COMPACT);
		io->out_length = sizeof header + length;
	}
	json_decref(object);
	if (io->out)
		return 0;
	if (length > FRAME_MAX)
		return error_set(
			err, 0, "the run's code and files are larger than %d MiB", FRAME_MAX >> 20);
	return error_set(err, ENOMEM, "sending the run's spec");
}

/* Takes over the reference. */
static int submit(struct runner *runner, enum frame_type type, json_t *object,
	struct runner_io *ret, struct error *err)
{
	struct runner_io io = RUNNER_IO_NONE;
	cleanup_close int far = -1;
	int fds[2];

	if (pack(type, object, &io, err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		error_set(err, errno, "making the run's socket");
		runner_io_close(&io);
		return -1;
	}
	io.fd = fds[0];
	far = fds[1];
	if (fcntl(io.fd, F_SETFL, O_NONBLOCK) < 0 || send_descriptor(runner->fd, far) < 0) {
		error_set(err, errno, "asking the spawner for a run");
		runner_io_close(&io);
		return -1;
	}
	if (runner_flush(&io, err) < 0) {
		runner_io_close(&io);
		return -1;
	}
	*ret = io;
	return 0;
}

int runner_submit(
	struct runner *runner, const struct spec *spec, struct runner_io *ret, struct error *err)
{
	return submit(runner, FRAME_SPEC, spec_to_json(spec), ret, err);
}

int runner_warm(
	struct runner *runner, const char *language, const char *image, struct runner_io *ret, struct error *err)
{
	return submit(runner, FRAME_WARM, json_pack("{s:s, s:s?}", "language", language, "image", image), ret, err);
}

int runner_pull(struct runner *runner, const char *image, const struct pull_config *config, struct runner_io *ret,
	struct error *err)
{
	return submit(runner, FRAME_PULL,
		json_pack("{s:s, s:s?, s:b}", "image", image, "config", config->file, "no_config", config->none), ret, err);
}

int runner_install(struct runner *runner, const struct spec *spec, const char *id, const char *language, const json_t *names,
	const struct pull_config *config, struct runner_io *ret, struct error *err)
{
	json_t *request = json_pack("{s:s?, s:O, s:s?, s:b}", "language", language, "packages", names, "config", config->file,
		"no_config", config->none);

	if (spec)
		json_object_set_new(request, "spec", spec_to_json(spec));
	else
		json_object_set_new(request, "session", json_string(id));
	return submit(runner, FRAME_INSTALL, request, ret, err);
}

int runner_create(struct runner *runner, const struct spec *spec, const struct session_options *options, const json_t *names,
	const struct pull_config *config, struct runner_io *ret, struct error *err)
{
	return submit(runner, FRAME_CREATE,
		json_pack("{s:o, s:I, s:I, s:I, s:s, s:i, s:O?, s:s?, s:b}", "spec", spec_to_json(spec), "idle_ms",
			(json_int_t)options->idle_ms, "life_ms", (json_int_t)options->life_ms,
			"timeout_ms", (json_int_t)options->timeout_ms, "language", options->language,
			"shared_max", (int)options->shared_max, "packages", names, "config", config->file,
			"no_config", config->none),
		ret, err);
}

int runner_snapshot(struct runner *runner, const json_t *request, struct runner_io *ret, struct error *err)
{
	return submit(runner, FRAME_SNAPSHOT, json_deep_copy(request), ret, err);
}

void runner_claim(struct runner_io *io)
{
	/* To a creator that is gone it says nothing, and the session has ended. */
	send(io->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int runner_ask(const char *id, json_t *request, struct runner_io *ret, struct error *err)
{
	struct runner_io io = RUNNER_IO_NONE;

	io.asks = true;
	if (pack(FRAME_REQUEST, json_incref(request), &io, err) < 0)
		return -1;
	io.fd = session_connect_shared(id, err);
	if (io.fd < 0 || runner_flush(&io, err) < 0) {
		runner_io_close(&io);
		return -1;
	}
	*ret = io;
	return 0;
}

int runner_flush(struct runner_io *io, struct error *err)
{
	while (io->out_sent < io->out_length) {
		ssize_t n = send(io->fd, io->out + io->out_sent, io->out_length - io->out_sent,
			MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0)
			return error_set(err, errno, "sending the run's spec");
		io->out_sent += (size_t)n;
	}
	free(io->out);
	io->out = NULL;
	io->out_length = io->out_sent = 0;
	return 0;
}

static bool have_message(const struct runner_io *io, struct frame_header *ret)
{
	if (io->in_length < sizeof *ret)
		return false;
	memcpy(ret, io->in, sizeof *ret);
	return ret->length > FRAME_MAX || io->in_length - sizeof *ret >= ret->length;
}

/* The descriptors belong to what «kept» names: standard output, standard error, files; in this order. */
static void take_kept(struct runner_io *io, const json_t *result)
{
	const json_t *kept = json_object_get(result, "kept");
	int next = 0;

	for (int i = 0; i < RUNNER_KEPT_MAX; i++)
		if (json_is_true(json_array_get(kept, (size_t)i)))
			io->kept_fds[i] = move_fd(&io->received[next++]);
}

/* The first message of io->in, which is whole, taken out of it. */
static enum runner_message take_message(
	struct runner_io *io, const struct frame_header *header, json_t **ret, struct error *err)
{
	size_t whole = sizeof *header + header->length;
	json_t *object;

	if (header->length > FRAME_MAX) {
		error_set(err, 0, "the run's supervisor sent a message above %d MiB",
			FRAME_MAX >> 20);
		return RUNNER_FAILED;
	}
	object = json_loadb(io->in + sizeof *header, header->length, JSON_ALLOW_NUL, NULL);
	memmove(io->in, io->in + whole, io->in_length - whole);
	io->in_length -= whole;
	if (json_is_object(object) &&
		(header->type == FRAME_RESULT || header->type == FRAME_PROGRESS)) {
		if (header->type == FRAME_RESULT)
			take_kept(io, object);
		*ret = object;
		return header->type == FRAME_RESULT ? RUNNER_RESULT : RUNNER_PROGRESS;
	}
	error_set(err, 0, "the run's supervisor sent nonsense");
	if (header->type == FRAME_FAILURE && json_is_string(json_object_get(object, "text"))) {
		error_set(err, 0, "%s", json_string_value(json_object_get(object, "text")));
		error_hint(err, "%s", json_string_value(json_object_get(object, "hint")) ?: "");
	}
	json_decref(object);
	return RUNNER_FAILED;
}

/* Makes room for READ_SIZE bytes more. */
static int grow(struct runner_io *io)
{
	size_t size = io->in_size ? io->in_size : READ_SIZE;
	char *grown;

	while (size - io->in_length < READ_SIZE)
		size *= 2;
	if (size == io->in_size)
		return 0;
	grown = realloc(io->in, size);
	if (!grown)
		return -1;
	io->in = grown;
	io->in_size = size;
	return 0;
}

/* Like recv(2). Descriptors come with the result. */
static ssize_t receive(struct runner_io *io)
{
	union {
		char buffer[CMSG_SPACE(RUNNER_KEPT_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = io->in + io->in_length, .iov_len = READ_SIZE};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		/* Without padding, in which one more would fit. */
		.msg_controllen = CMSG_LEN(RUNNER_KEPT_MAX * sizeof(int)),
	};
	ssize_t n = recvmsg(io->fd, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	/* At most as many: the kernel closes what there is no room for. */
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(io->received, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	return n;
}

static enum runner_message run_ended(int errnum, struct error *err)
{
	error_set(err, errnum, "the run's supervisor ended without a result");
	return RUNNER_FAILED;
}

static enum runner_message session_ended(struct error *err)
{
	error_set(err, 0, "the sandbox ended before it answered");
	error_hint(err, "sandbox_list shows those that there are; sandbox_initialize makes a new one.");
	return RUNNER_FAILED;
}

enum runner_message runner_read(struct runner_io *io, json_t **ret, struct error *err)
{
	struct frame_header header;

	for (;;) {
		ssize_t n;

		if (have_message(io, &header))
			return take_message(io, &header, ret, err);
		if (grow(io) < 0) {
			error_set(err, ENOMEM, "reading the run's result");
			return RUNNER_FAILED;
		}
		n = receive(io);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return RUNNER_AGAIN;
		if (n <= 0) {
			return io->asks ? session_ended(err) : run_ended(n < 0 ? errno : 0, err);
		}
		io->in_length += (size_t)n;
	}
}

void runner_cancel(struct runner_io *io)
{
	shutdown(io->fd, SHUT_WR);
}

void runner_io_close(struct runner_io *io)
{
	close_fd(&io->fd);
	free(io->out);
	free(io->in);
	for (int i = 0; i < RUNNER_KEPT_MAX; i++) {
		close_fd(&io->received[i]);
		close_fd(&io->kept_fds[i]);
	}
	*io = RUNNER_IO_NONE;
}
