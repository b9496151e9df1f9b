/* SPDX-License-Identifier: MIT */
/*
 * The spawner and its supervisors: see runner.h.
 *
 * Should: hold nothing but the control socket, /dev/null as 0 and 1, and the server's standard error.
 * Mustn't: read a byte that came from a client (supervisors do), hold the server's input or output,
 * or keep a run's socket, which would keep that run from seeing the server's end.
 *
 * The spawner has a session of its own, so that what a terminal or a client sends to the server's
 * process group (SIGINT, SIGHUP, SIGKILL) does not strike the supervisors: they see the server go, and
 * clean up.
 */
#define _GNU_SOURCE
#include "session/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate/policy.h"
#include "image/root.h"
#include "language/language.h"
#include "packages/packages.h"
#include "report/report.h"
#include "sandbox/sandbox.h"
#include "sandbox/spec.h"
#include "seccomp/load.h"
#include "session/fork.h"
#include "session/install.h"
#include "session/pull.h"
#include "session/runner.h"
#include "session/session.h"
#include "session/warm.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"
#include "util/utf8.h"

enum { CONTROL_FD = 3, SWEEP_MS = 1000 };

_Static_assert((int)RUNNER_KEPT_MAX == (int)RESULT_KEPT_MAX, "the server takes what a result has");

/* Takes over the reference. Waits until the server has read it, or is gone. */
static int send_frame(int fd, enum frame_type type, json_t *object, const int *fds, size_t count)
{
	cleanup_free char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
	struct frame_header header = {.type = type, .length = body ? (uint32_t)strlen(body) : 0};

	json_decref(object);
	if (!body || frame_send_header(fd, &header, fds, count) < 0)
		return -1;
	return frame_send_bytes(fd, body, header.length);
}

/* The result, and with it what was kept beside it. */
static void send_result(int fd, const struct run_result *result, const struct spec *spec)
{
	json_t *object = run_result_to_json(result, spec);
	int fds[RESULT_KEPT_MAX];
	size_t count = run_result_add_kept(result, object, fds);

	send_frame(fd, FRAME_RESULT, object, fds, count);
}

static void send_failure(int fd, const struct error *err)
{
	send_frame(
		fd, FRAME_FAILURE, json_pack("{s:s, s:s}", "text", err->text, "hint", err->hint), NULL, 0);
}

/*
 * Sends a whole small frame or nothing: a server that is behind in its reading must not hold up the
 * watch over the run.
 */
static void report_progress(void *data, const char *last_line, size_t length, uint64_t elapsed_ms)
{
	const int *fd = data;
	size_t line_length;
	cleanup_free char *line = utf8_replace_invalid(last_line, length, &line_length);
	json_t *object = json_pack("{s:s%, s:I}", "last_line", line, line_length, "elapsed_ms",
		(json_int_t)elapsed_ms);
	cleanup_free char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
	char frame[4096];
	struct frame_header header = {
		.type = FRAME_PROGRESS, .length = body ? (uint32_t)strlen(body) : 0};
	ssize_t n;

	json_decref(object);
	if (!body || sizeof header + header.length > sizeof frame)
		return;
	memcpy(frame, &header, sizeof header);
	memcpy(frame + sizeof header, body, header.length);
	n = send(*fd, frame, sizeof header + header.length, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0 && (size_t)n != sizeof header + header.length)
		shutdown(*fd,
			SHUT_RDWR); /* half a frame: the stream cannot be gone on with; the run ends */
}

/* Reads what is to be done. The server may be gone before it is whole: then there is nobody to tell. */
static json_t *read_request(int fd, enum frame_type *ret_type)
{
	struct frame_header header;
	cleanup_free char *body = NULL;
	json_t *object;

	if (frame_read_bytes(fd, &header, sizeof header) < 0 ||
		(header.type != FRAME_SPEC && header.type != FRAME_WARM && header.type != FRAME_PULL &&
			header.type != FRAME_INSTALL && header.type != FRAME_CREATE && header.type != FRAME_SNAPSHOT) ||
		header.length > FRAME_MAX)
		_exit(1);
	*ret_type = header.type;
	body = xcalloc(header.length, 1);
	if (frame_read_bytes(fd, body, header.length) < 0)
		_exit(1);
	object = json_loadb(body, header.length, JSON_ALLOW_NUL, NULL);
	if (!object)
		_exit(1);
	return object;
}

static int prepare_spec(const json_t *object, struct spec *spec, struct error *err)
{
	if (spec_from_json(object, spec, err) < 0)
		return -1;
	spec->capture = true;
	return spec_load_filters(spec, err);
}

_Noreturn static void run_spec(int fd, const json_t *object)
{
	struct run_control control = {.cancel_fd = fd, .progress = report_progress, .data = &fd};
	struct run_result result = {0};
	struct error err = {0};
	struct spec spec;

	if (prepare_spec(object, &spec, &err) < 0) {
		send_failure(fd, &err);
		_exit(1);
	}
	if (image_hold_layers(&spec, &err) < 0 || packages_hold(&spec, &err) < 0) {
		send_failure(fd, &err);
		_exit(1);
	}
	sandbox_run(&spec, &control, &result);
	send_result(fd, &result, &spec);
	_exit(0);
}

_Noreturn static void run_warming(int fd, const json_t *object)
{
	const char *name = json_string_value(json_object_get(object, "language")),
		   *image = json_string_value(json_object_get(object, "image"));
	struct run_control control = {.cancel_fd = fd};
	struct language *language;
	struct error err = {0};
	char *path, *output;

	if (language_load(name ?: "", &language, &err) < 0 ||
		warm_language(language, image, true, &control, &path, &output, &err) < 0) {
		send_failure(fd, &err);
		_exit(1);
	}
	send_frame(fd, FRAME_RESULT, json_object(), NULL, 0);
	_exit(0);
}

_Noreturn static void run_pull(int fd, const json_t *object)
{
	const char *image = json_string_value(json_object_get(object, "image"));
	const struct pull_config config = {
		.file = json_string_value(json_object_get(object, "config")),
		.none = json_is_true(json_object_get(object, "no_config")),
	};
	struct run_control control = {.cancel_fd = fd, .progress = report_progress, .data = &fd};
	struct error err = {0};

	if (pull_image(image ?: "", &config, &control, &err) < 0) {
		send_failure(fd, &err);
		_exit(1);
	}
	send_frame(fd, FRAME_RESULT, json_object(), NULL, 0);
	_exit(0);
}

_Noreturn static void run_install(int fd, const json_t *object)
{
	struct run_control control = {.cancel_fd = fd, .progress = report_progress, .data = &fd};

	send_frame(fd, FRAME_RESULT, install_for_server(object, &control), NULL, 0);
	_exit(0);
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* Where that fails nobody claims the session, and it ends. */
static void install_in_new(int fd, const char *id, const json_t *creation)
{
	struct run_control control = {.cancel_fd = fd, .progress = report_progress, .data = &fd};
	json_t *request = json_copy((json_t *)creation), *answer;

	json_object_set_new(request, "session", json_string(id));
	answer = install_for_server(request, &control);
	json_decref(request);
	if (json_object_get(answer, "failed")) {
		send_frame(fd, FRAME_RESULT, answer, NULL, 0);
		_exit(1);
	}
	json_decref(answer);
}

/* Makes a session, and stays until the server has said that its client knows of it, or is gone. */
_Noreturn static void run_creation(int fd, const json_t *object)
{
	struct session_options options = {
		.idle_ms = number_of(object, "idle_ms"),
		.life_ms = number_of(object, "life_ms"),
		.timeout_ms = number_of(object, "timeout_ms"),
		.shared = true,
		.shared_max = (unsigned)number_of(object, "shared_max"),
	};
	const char *language = json_string_value(json_object_get(object, "language"));
	struct session_made made;
	struct error err = {0};
	struct spec spec;
	char byte;

	snprintf(options.language, sizeof options.language, "%s", language ?: "");
	if (prepare_spec(json_object_get(object, "spec"), &spec, &err) == 0)
		spec.session = true;
	if (err.text[0] || image_hold_layers(&spec, &err) < 0 || packages_hold(&spec, &err) < 0 ||
		session_create(&spec, &options, &made, &err) < 0) {
		send_failure(fd, &err);
		_exit(1);
	}
	if (json_array_size(json_object_get(object, "packages")) > 0)
		install_in_new(fd, made.id, object);
	send_frame(fd, FRAME_RESULT, session_made_to_json(&made, &spec), NULL, 0);
	if (read(fd, &byte, 1) == 1)
		session_claim(&made);
	_exit(0);
}

/* --- snapshots --- */

/* Whether rules, or the network that a sandbox has, are within what the server lets new ones have. */
static bool network_is_allowed(const json_t *ceiling, const struct spec *spec, struct error *err)
{
	const char *hosts = json_string_value(json_object_get(ceiling, "hosts"));
	struct policy allowed = {.count = 0}, asked = {.count = 0};
	uint16_t port;
	size_t rule;
	bool covered;

	switch (spec->network) {
	case NETWORK_HOST:
		return json_is_true(json_object_get(ceiling, "host"));
	case NETWORK_PASTA:
		return json_is_true(json_object_get(ceiling, "pasta"));
	case NETWORK_ALLOW:
		covered = hosts && policy_add(&allowed, "network", hosts, err) == 0 &&
			  policy_add(&asked, "network", spec->allow, err) == 0 &&
			  policy_covers(&allowed, &asked, &rule, &port);
		policy_free(&allowed);
		policy_free(&asked);
		return covered;
	default:
		return true;
	}
}

/*
 * A person's sandbox may have what the server's own may not. Whoever lets servers use that one has not said that they may
 * make others like it, also when it has ended.
 */
static int check_ceiling(const json_t *request, const struct spec *spec, struct error *err)
{
	uint64_t max = number_of(request, "memory_max");
	char given[64], allowed[64];

	if (!network_is_allowed(json_object_get(request, "network_ceiling"), spec, err)) {
		cleanup_free char *network = spec_network_text(spec);

		error_set(err, 0, "network: it has \"%s\", which this server does not allow for another sandbox", network);
		return error_hint(err, "Give network \"none\"; or whoever starts the server allows it with --allow-network.");
	}
	if (spec->limits.memory_bytes > max) {
		format_bytes(spec->limits.memory_bytes, given, sizeof given);
		format_bytes(max, allowed, sizeof allowed);
		error_set(err, 0, "memory_limit: it has %s, above the %s that this server allows", given, allowed);
		return error_hint(err, "Give memory_limit; or whoever starts the server raises that with --max-memory.");
	}
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (spec->mounts[i].kind == MOUNT_BIND && !spec->mounts[i].read_only) {
			error_set(err, 0, "it can write to %s of the host, which a sandbox that a server makes cannot",
				spec->mounts[i].source);
			return error_hint(err, "Its owner can fork it: nsbox session fork --mcp.");
		}
	return 0;
}

static int change_fork(const json_t *request, struct fork *fork, struct error *err)
{
	const char *network = json_string_value(json_object_get(request, "network"));

	if (network && spec_set_network(&fork->spec, "network", network, err) < 0)
		return -1;
	if (number_of(request, "memory_bytes"))
		fork->spec.limits.memory_bytes = number_of(request, "memory_bytes");
	if (number_of(request, "idle_ms"))
		fork->options.idle_ms = number_of(request, "idle_ms");
	if (number_of(request, "timeout_ms"))
		fork->options.timeout_ms = number_of(request, "timeout_ms");
	fork->options.shared = true;
	fork->options.shared_max = (unsigned)number_of(request, "shared_max");
	return check_ceiling(request, &fork->spec, err);
}

static json_t *describe_fork(const struct fork *fork, const struct session_made *made)
{
	json_t *object = session_made_to_json(made, &fork->spec);

	json_object_set_new(object, "how", json_string(fork->copied ? "copied" : "frozen"));
	json_object_set_new(object, "copied_bytes", json_integer((json_int_t)fork->copied_bytes));
	json_object_set_new(object, "language", json_string(fork->options.language));
	json_object_set_new(object, "idle_ms", json_integer((json_int_t)fork->options.idle_ms));
	return object;
}

/* As run_creation. */
static int make_fork(int fd, const json_t *request, struct error *err)
{
	const char *of = json_string_value(json_object_get(request, "of")) ?: "";
	struct session_made made;
	struct fork fork;
	char byte;

	if (fork_begin(of, true, number_of(request, "max_bytes"), &fork, err) < 0 || change_fork(request, &fork, err) < 0 ||
		fork_make(&fork, &made, err) < 0)
		return -1;
	/* It holds its layers now: nobody is to wait for us to sweep others. */
	close_fd(&fork.lock);
	send_frame(fd, FRAME_RESULT, describe_fork(&fork, &made), NULL, 0);
	if (read(fd, &byte, 1) == 1)
		session_claim(&made);
	return 0;
}

static int list_snapshots(json_t **ret, struct error *err)
{
	json_t *list = json_array();
	struct snapshots snapshots;
	struct snapshot *read = NULL;
	size_t count = 0;
	int r = snapshots_open(false, &snapshots, err);

	if (r == 0) {
		r = snapshots_read(&snapshots, &read, &count, err);
		snapshots_close(&snapshots);
	}
	for (size_t i = 0; i < count; i++)
		if (read[i].shared)
			json_array_append_new(list, snapshot_describe(&read[i]));
	*ret = json_pack("{s:o}", "snapshots", list);
	return r < 0 ? -1 : 0;
}

static int delete_snapshot(const json_t *request, json_t **ret, struct error *err)
{
	const char *text = json_string_value(json_object_get(request, "snapshot")) ?: "";
	char id[SNAPSHOT_ID_SIZE];
	struct snapshots snapshots;
	int r;

	if (snapshots_open(true, &snapshots, err) < 0)
		return -1;
	r = snapshot_delete(&snapshots, text, true, id, err);
	if (r == 0) {
		snapshots_sweep(&snapshots, SWEEP_MS);
		*ret = json_pack("{s:s}", "id", id);
	}
	snapshots_close(&snapshots);
	return r;
}

_Noreturn static void run_snapshot(int fd, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op")) ?: "";
	struct error err = {0};
	json_t *answer = NULL;
	int r = strcmp(op, "fork") == 0   ? make_fork(fd, request, &err)
		: strcmp(op, "list") == 0 ? list_snapshots(&answer, &err)
					  : delete_snapshot(request, &answer, &err);

	if (r < 0)
		send_failure(fd, &err);
	else if (answer)
		send_frame(fd, FRAME_RESULT, answer, NULL, 0);
	_exit(r < 0);
}

_Noreturn static void supervisor_main(int fd)
{
	enum frame_type type;
	json_t *object;

	prctl(PR_SET_NAME, "nsbox-run");
	signal(SIGCHLD, SIG_DFL);
	object = read_request(fd, &type);
	if (type == FRAME_WARM)
		run_warming(fd, object);
	if (type == FRAME_PULL)
		run_pull(fd, object);
	if (type == FRAME_INSTALL)
		run_install(fd, object);
	if (type == FRAME_CREATE)
		run_creation(fd, object);
	if (type == FRAME_SNAPSHOT)
		run_snapshot(fd, object);
	run_spec(fd, object);
}

/* A descriptor that came with the one byte; -1 when the server is gone. */
static int receive_descriptor(int socket)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof control.buffer,
	};
	struct cmsghdr *header;
	ssize_t n;
	int fd;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof fd);
	return fd;
}

/* Dispositions that the server or its client set are not for the sandboxes. */
static void reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	/* Children are reaped by the kernel; wait() still waits for the last. */
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void keep_only(int control)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(1);
	if (control != CONTROL_FD && dup3(control, CONTROL_FD, O_CLOEXEC) < 0)
		_exit(1);
	if (close_range(CONTROL_FD + 1, ~0U, 0) < 0)
		_exit(1);
}

_Noreturn void spawner_main(int control, pid_t server)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != server)
		_exit(0);
	prctl(PR_SET_NAME, "nsbox-spawner");
	setsid();
	reset_signals();
	keep_only(control);
	while ((fd = receive_descriptor(CONTROL_FD)) >= 0) {
		pid_t pid = fork();

		if (pid == 0) {
			close(CONTROL_FD);
			supervisor_main(fd);
		}
		if (pid < 0) {
			struct error err;

			error_set(&err, errno, "forking a run's supervisor");
			send_failure(fd, &err);
		}
		close(fd);
	}
	while (wait(NULL) >= 0 || errno == EINTR)
		;
	_exit(0);
}
