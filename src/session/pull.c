/* SPDX-License-Identifier: MIT */
/* Fetches images for a server: see pull.h. What nsbox-image writes is a line for each layer, and its errors. */
#define _GNU_SOURCE
#include "session/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/program.h"
#include "report/report.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { PROGRESS_MS = 1000, LINE_SIZE = 1024, LAYERS_MAX = 400, ERRORS_SIZE = 4096 };

struct pulling {
	const char *name;
	const struct run_control *control;
	pid_t pid;
	int output, errors;   /* pipes of nsbox-image's */
	char line[LINE_SIZE]; /* of its output, not whole yet */
	size_t line_length;
	char said[ERRORS_SIZE]; /* the end of its standard error */
	size_t said_length;
	long long layers, done;
	uint64_t come[LAYERS_MAX]; /* bytes, of each layer */
	uint64_t begun_ms, told_ms;
	bool cancelled;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int start(struct pulling *pulling, const struct pull_config *config, struct error *err)
{
	char *argv[IMAGE_PULL_ARGV_MAX];
	cleanup_close int output = -1, errors = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	pulling->output = fds[0];
	output = fds[1];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	pulling->errors = fds[0];
	errors = fds[1];
	image_pull_argv(pulling->name, true, config->file, config->none, argv);
	pulling->pid = image_program_start(argv, output, errors, err);
	return pulling->pid < 0 ? -1 : 0;
}

static void take_line(struct pulling *pulling, const char *line, size_t length)
{
	json_t *object = json_loadb(line, length, 0, NULL);
	const json_t *come = json_object_get(object, "come");
	json_int_t layer = json_integer_value(json_object_get(object, "layer"));

	if (layer > 0 && layer <= LAYERS_MAX) {
		pulling->layers = json_integer_value(json_object_get(object, "layers"));
		pulling->done += !come;
		pulling->come[layer - 1] =
			(uint64_t)json_integer_value(come ?: json_object_get(object, "bytes"));
	}
	json_decref(object);
}

/* Returns 0 at its end. */
static ssize_t read_output(struct pulling *pulling)
{
	ssize_t n = read(pulling->output, pulling->line + pulling->line_length,
		sizeof pulling->line - pulling->line_length);
	char *newline;

	if (n <= 0)
		return n;
	pulling->line_length += (size_t)n;
	while ((newline = memchr(pulling->line, '\n', pulling->line_length))) {
		size_t length = (size_t)(newline - pulling->line) + 1;

		take_line(pulling, pulling->line, length);
		pulling->line_length -= length;
		memmove(pulling->line, newline + 1, pulling->line_length);
	}
	if (pulling->line_length == sizeof pulling->line)
		pulling->line_length = 0; /* longer than any line of a layer */
	return n;
}

/* Of more than fits the end is kept. */
static ssize_t read_errors(struct pulling *pulling)
{
	ssize_t n;

	if (pulling->said_length > sizeof pulling->said / 2) {
		size_t dropped = pulling->said_length - sizeof pulling->said / 2;

		pulling->said_length -= dropped;
		memmove(pulling->said, pulling->said + dropped, pulling->said_length);
	}
	n = read(pulling->errors, pulling->said + pulling->said_length,
		sizeof pulling->said - 1 - pulling->said_length);
	if (n > 0)
		pulling->said_length += (size_t)n;
	return n;
}

static void tell(struct pulling *pulling)
{
	uint64_t now = now_ms(), bytes = 0;
	char text[LINE_SIZE], size[64];
	int length;

	if (now - pulling->told_ms < PROGRESS_MS)
		return;
	pulling->told_ms = now;
	for (size_t i = 0; i < LAYERS_MAX; i++)
		bytes += pulling->come[i];
	format_bytes(bytes, size, sizeof size);
	if (pulling->layers > 0)
		length = snprintf(text, sizeof text,
			"fetching the image %s: %s, %lld of %lld layers are there", pulling->name,
			size, pulling->done, pulling->layers);
	else
		length = snprintf(text, sizeof text, "fetching the image %s", pulling->name);
	if (pulling->control->progress)
		pulling->control->progress(
			pulling->control->data, text, (size_t)length, now - pulling->begun_ms);
}

/* Until both pipes are at their end, which is when the program is gone. */
static void follow(struct pulling *pulling)
{
	while (pulling->output >= 0 || pulling->errors >= 0) {
		struct pollfd fds[] = {
			{.fd = pulling->output, .events = POLLIN},
			{.fd = pulling->errors, .events = POLLIN},
			{.fd = pulling->cancelled ? -1 : pulling->control->cancel_fd,
				.events = POLLIN | POLLRDHUP},
		};

		if (poll(fds, 3, PROGRESS_MS) < 0 && errno != EINTR)
			return;
		if (fds[0].revents && read_output(pulling) <= 0)
			close_fd(&pulling->output);
		if (fds[1].revents && read_errors(pulling) <= 0)
			close_fd(&pulling->errors);
		if (fds[2].revents) {
			pulling->cancelled = true;
			kill(pulling->pid, SIGTERM);
		}
		tell(pulling);
	}
}

/* The last lines that begin with «nsbox: »: an error, and perhaps a hint. */
static int take_error(struct pulling *pulling, struct error *err)
{
	static const char prefix[] = "nsbox: ";
	const char *lines[2] = {"", ""};
	char *save = NULL;

	pulling->said[pulling->said_length] = '\0';
	for (char *line = strtok_r(pulling->said, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, prefix, strlen(prefix)) != 0 ||
			strstr(line, "; trying again in "))
			continue;
		lines[*lines[0] ? 1 : 0] = line + strlen(prefix);
	}
	error_set(err, 0, "%s", *lines[0] ? lines[0] : "nsbox-image ended without a word");
	error_context(err, "fetching an image");
	return error_hint(err, "%s", lines[1]);
}

int pull_image(const char *name, const struct pull_config *config,
	const struct run_control *control, struct error *err)
{
	struct pulling pulling = {.name = name, .control = control, .output = -1, .errors = -1};
	int status = -1;

	pulling.begun_ms = pulling.told_ms = now_ms();
	if (start(&pulling, config, err) == 0) {
		follow(&pulling);
		while (waitpid(pulling.pid, &status, 0) < 0 && errno == EINTR)
			;
		if (pulling.cancelled)
			status = error_set(err, 0, "cancelled");
		else if (status != 0)
			status = take_error(&pulling, err);
	}
	close_fd(&pulling.output);
	close_fd(&pulling.errors);
	return status == 0 ? 0 : -1;
}
