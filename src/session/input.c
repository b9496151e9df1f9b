/* SPDX-License-Identifier: MIT */
/*
 * Standard input of commands in the background that stays open: a pipe, and what it has not taken yet, up to
 * INPUT_MAX. What is written to it goes there whole or is refused; nobody ever waits for the command to read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/supervise.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { INPUT_MAX = 1 << 20 /* bytes */ };

void input_free(struct input *input)
{
	close_fd(&input->reader);
	close_fd(&input->writer);
	free(input->data);
	*input = INPUT_NONE;
}

int input_open(struct input *input, struct error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe for the command");
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0) {
		error_set(err, errno, "making a pipe for the command that does not wait");
		close_fd(&ends[0]);
		close_fd(&ends[1]);
		return -1;
	}
	*input = (struct input){.reader = ends[0], .writer = ends[1]};
	return 0;
}

/* No more can be written; `reason` is why. */
static void end(struct input *input, enum input_end reason)
{
	input_free(input);
	input->end = reason;
}

static void write_on(struct input *input)
{
	if (input->reader >= 0)
		return;
	while (input->writer >= 0 && input->length > 0) {
		ssize_t n = write(input->writer, input->data + input->start, input->length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			end(input, INPUT_READER_GONE);
			return;
		}
		input->start += (size_t)n;
		input->length -= (size_t)n;
	}
	if (input->writer < 0)
		return;
	free(input->data);
	input->data = NULL;
	input->start = 0;
	if (input->close)
		end(input, INPUT_CLOSED);
}

/* What is kept becomes `before`, what was kept, and `after`. */
static void put_around(
	struct input *input, const void *before, size_t before_length, const void *after, size_t after_length)
{
	uint8_t *joined = xmalloc(before_length + input->length + after_length + 1), *next = joined;

	if (before_length > 0)
		next = mempcpy(next, before, before_length);
	if (input->length > 0)
		next = mempcpy(next, input->data + input->start, input->length);
	if (after_length > 0)
		memcpy(next, after, after_length);
	free(input->data);
	input->data = joined;
	input->start = 0;
	input->length += before_length + after_length;
}

int input_start(struct input *input, const void *data, size_t length)
{
	int reader = move_fd(&input->reader);

	put_around(input, data, length, NULL, 0);
	write_on(input);
	return reader;
}

static int refuse(const struct job *job, struct error *err)
{
	switch (job->input.end) {
	case INPUT_READER_GONE:
		return error_set(err, 0, "process %u has closed its standard input", job->process);
	case INPUT_CLOSED:
		return error_set(err, 0, "the standard input of process %u was closed", job->process);
	case INPUT_NEVER:
		break;
	}
	error_set(err, 0, "the standard input of process %u is not open", job->process);
	return error_hint(err, "it stays open for commands in the background that are started so: nsbox session exec -d -i");
}

int input_add(struct job *job, const void *data, size_t length, bool close, struct error *err)
{
	struct input *input = &job->input;

	if (job->state == JOB_DONE)
		return error_set(err, 0, "process %u has ended", job->process);
	if (input->writer < 0 || input->close)
		return refuse(job, err);
	if (length > INPUT_MAX)
		return error_set(err, 0, "at most %d MiB can be written at a time", INPUT_MAX >> 20);
	if (input->length + length > INPUT_MAX) {
		error_set(err, 0, "process %u has %zu bytes of its standard input still to read, and no more than %d MiB are kept",
			job->process, input->length, INPUT_MAX >> 20);
		return error_hint(err, "write again when it has read some of that");
	}
	if (length > 0)
		put_around(input, NULL, 0, data, length);
	input->close = close;
	write_on(input);
	return input->writer < 0 && input->end == INPUT_READER_GONE ? refuse(job, err) : 0;
}

struct pollfd input_pollfd(const struct input *input)
{
	/* Without anything to write its end is still to be seen. */
	return (struct pollfd){.fd = input->writer, .events = input->length > 0 ? POLLOUT : 0};
}

void input_step(struct input *input, short events)
{
	if (events & POLLERR)
		end(input, INPUT_READER_GONE);
	else if (events & POLLOUT)
		write_on(input);
}

void input_request(struct job *job, struct connection *connection, const json_t *request)
{
	const json_t *value = json_object_get(request, "data");
	struct error err = {0};
	void *data = NULL;
	size_t length = 0;
	int r = 0;

	if (value && (!json_is_string(value) ||
			     base64_decode(json_string_value(value), json_string_length(value), &data, &length) < 0))
		r = error_set(&err, 0, "the input is not base64");
	if (r == 0)
		r = input_add(job, data, length, json_is_true(json_object_get(request, "close")), &err);
	free(data);
	if (r < 0)
		answer_failure(connection, &err);
	else
		answer(connection, json_pack("{s:I}", "pending", (json_int_t)job->input.length));
}
