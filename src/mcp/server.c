/* SPDX-License-Identifier: MIT */
/*
 * The MCP server: one thread, one poll loop, nothing in it blocks.
 *
 * What is answered is in methods.c. Messages are lines on standard input and output. A tool
 * call is a run or a session that the spawner starts, or a question to a session (session/runner.h); ping, tools/list
 * and cancellation are answered meanwhile, and calls are answered as they finish. Beyond parallel_max calls that run
 * code wait, in the order of their coming.
 *
 * Memory is bounded from both sides: nothing is read from a client that lets too much of our output
 * or too many of its calls pile up. While that is so its pings and cancellations wait as well; if it
 * goes away it is noticed. Nor are results taken from the supervisors or runs started then: what has
 * ended waits in its supervisor.
 *
 * The server ends, and with it every run, when the client closes our input or stops to exist (its pidfd
 * becomes readable: a client's other children may hold our input open), when output fails, or on
 * SIGTERM, SIGINT or SIGHUP. A signal on the parent's death is not used: it comes when the *thread* ends that
 * started us. A run that was cancelled counts until everything of it is gone, so that a client that
 * cancels quickly cannot have more than parallel_max at a time.
 */
#define _GNU_SOURCE
#include "config.h"
#include "mcp/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mcp/jsonrpc.h"
#include "mcp/sandbox_resources.h"
#include "mcp/sandbox_tools.h"
#include "mcp/serve.h"
#include "mcp/tools.h"
#include "sandbox/landlock.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	LINE_MAX_BYTES = 16 << 20,
	OUTPUT_PENDING_MAX = 8 << 20,   /* bytes: nothing more is read above */
	PROGRESS_PENDING_MAX = 1 << 20, /* bytes: no progress is told above */
	QUEUED_BYTES_MAX = 64 << 20,
	CALLS_MAX = 4096,
	CALLS_RUNNING_MAX = MCP_PARALLEL_LIMIT + 64, /* those that run no code among them */
	LINES_PER_TURN = 64, /* then it is seen to what else has come */
	LISTED_MS = 3000,    /* for a session to describe itself to who lists all */
	CANCELLED_MS = 15000, /* for a session to end what was cancelled: longer than one takes that can do anything */
	FETCHED_MAX = 3, /* an image, packages of the system, of a language */
	END_MS = 800,        /* from the client's end to ours, at most */
	STATUS_FAILED = 125,
};

void mcp_options_init(struct mcp_options *options)
{
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 2;

	*options = (struct mcp_options){
		.memory_default_bytes = SPEC_MEMORY_DEFAULT,
		.memory_max_bytes = 2ULL << 30,
		.timeout_default_ms = SPEC_TIMEOUT_DEFAULT_MS,
		.timeout_max_ms = 300 * 1000,
		.sessions_max = MCP_SESSIONS_DEFAULT,
		.parallel_max = count < 2 ? 4 : (unsigned)count * 2,
	};
	if (options->parallel_max > MCP_PARALLEL_LIMIT)
		options->parallel_max = MCP_PARALLEL_LIMIT;
}

static void client_is_gone(struct server *server)
{
	server->client_gone = true;
	server->ending = true;
}

/* A client that goes away is no failure; an answer that could not be written for another reason is one. */
static void write_failed(struct server *server)
{
	if (errno != EPIPE && errno != ECONNRESET && !server->client_gone) {
		fprintf(stderr, "nsbox mcp: writing to the client: %s\n", strerror(errno));
		server->status = STATUS_FAILED;
	}
	client_is_gone(server);
}

/* Takes over `line`, which may be NULL for want of memory. */
static void send_line(struct server *server, char *line, size_t length)
{
	if (!line || writer_add(&server->writer, line, length) < 0) {
		fprintf(stderr, "nsbox mcp: out of memory\n");
		server->status = STATUS_FAILED;
		server->ending = true;
	} else if (writer_flush(&server->writer) < 0) {
		write_failed(server);
	}
	free(line);
}

void send_result(struct server *server, const json_t *id, enum revision revision,
	enum result_kind kind, json_t *result)
{
	size_t length = 0;
	char *line = jsonrpc_result(id, revision_fit_result(revision, kind, result), &length);

	send_line(server, line, length);
}

/* An error whose request could not be told has the id null in JSON-RPC, and since 2025-11-25 in MCP none. */
void send_error(struct server *server, const json_t *id, int code, const char *reason, json_t *data)
{
	const json_t *shown = id || server->revision >= REVISION_2025_11_25 ? id : json_null();
	size_t length = 0;
	char *line = jsonrpc_error(shown, code, reason, data, &length);

	send_line(server, line, length);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int resource_not_found(enum revision revision)
{
	return revision >= REVISION_2026_07_28 ? JSONRPC_INVALID_PARAMS : -32002;
}

/* The answer to a request that is no call of a tool. `result` is taken over. */
static void answer_other(struct server *server, struct call *call, json_t *result)
{
	const json_t *text = json_array_get(json_object_get(result, "content"), 0);
	bool resource = call->tool->answers == ANSWERS_RESOURCE;

	if (!json_is_true(json_object_get(result, "isError"))) {
		send_result(server, call->id, call->revision, resource ? RESULT_PRIVATE : RESULT_PLAIN, result);
		return;
	}
	if (resource)
		send_error(server, call->id, resource_not_found(call->revision),
			json_string_value(json_object_get(text, "text")) ?: "it failed",
			json_deep_copy(call->arguments));
	else /* nothing is there that could be named */
		send_result(server, call->id, call->revision, RESULT_PLAIN, completion_result(json_array()));
	json_decref(result);
}

/* A call's last message, or the result of the task that it became. */
static void answer_call(struct server *server, struct call *call, json_t *result)
{
	if (result && call->tool->answers == ANSWERS_TOOL)
		revision_fit_tool_result(call->revision, result);
	if (call->task) {
		if (call->task->status == TASK_WORKING)
			task_complete(&server->tasks, call->task,
				revision_fit_result(call->revision, RESULT_PLAIN, result));
		else
			json_decref(result);
		call->task = NULL;
	} else if (call->silent) {
		json_decref(result);
	} else if (call->tool->answers != ANSWERS_TOOL) {
		answer_other(server, call, result);
	} else {
		send_result(server, call->id, call->revision, RESULT_PLAIN, result);
	}
	call->silent = true;
}

void cancel_call(struct server *server, struct call *call)
{
	call->silent = true;
	if (call->running && call->step.kind == STEP_ASK)
		call->until_ms = now_ms() + CANCELLED_MS;
	if (call->running)
		runner_cancel(&call->io);
	else
		call_list_remove(&server->calls, call);
}

/* Of notifications only this one concerns us. One for an id that is not in flight came too late. */
static void handle_notification(struct server *server, const struct jsonrpc_message *message)
{
	struct call *call;

	if (strcmp(message->method, "notifications/cancelled") != 0)
		return;
	call = call_list_find(&server->calls, json_object_get(message->params, "requestId"));
	if (call)
		cancel_call(server, call);
}

static bool is_blank(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!strchr(" \t\r", line[i]) || !line[i])
			return false;
	return true;
}

static void handle_batch(struct server *server, const json_t *batch, size_t length);

/* `length` bytes is what the message takes. It is freed. */
static void handle_message(struct server *server, struct jsonrpc_message *message, size_t length)
{
	switch (message->kind) {
	case JSONRPC_REQUEST:
		handle_request(server, message, length);
		break;
	case JSONRPC_NOTIFICATION:
		handle_notification(server, message);
		break;
	case JSONRPC_RESPONSE:
		break;
	case JSONRPC_BATCH:
		handle_batch(server, message->root, length);
		break;
	case JSONRPC_INVALID:
		send_error(server, message->id, message->code, message->reason, NULL);
		break;
	}
	jsonrpc_message_free(message);
}

/* Batches came with 2025-03-26 and went after it. Each message is answered by a message of its own. */
static void handle_batch(struct server *server, const json_t *batch, size_t length)
{
	struct jsonrpc_message message;
	json_t *element;
	size_t i;

	if (server->revision != REVISION_2025_03_26) {
		send_error(server, NULL, JSONRPC_INVALID_REQUEST,
			"expected one object a line: this revision has no batches", NULL);
		return;
	}
	json_array_foreach (batch, i, element) {
		jsonrpc_take_apart(element, &message);
		handle_message(server, &message, length / json_array_size(batch));
	}
}

static void handle_line(struct server *server, const char *line, size_t length)
{
	struct jsonrpc_message message;

	if (is_blank(line, length))
		return;
	jsonrpc_parse(line, length, &message);
	handle_message(server, &message, length);
}

static bool output_has_room(const struct server *server)
{
	return writer_pending(&server->writer) < OUTPUT_PENDING_MAX;
}

static bool accepting(const struct server *server)
{
	return output_has_room(server) && server->calls.queued_bytes < QUEUED_BYTES_MAX &&
	       server->calls.count < CALLS_MAX;
}

static void input_ended(struct server *server)
{
	int errnum = server->reader.errnum;

	if (errnum && errnum != ECONNRESET) {
		fprintf(stderr, "nsbox mcp: reading from the client: %s\n", strerror(errnum));
		server->status = STATUS_FAILED;
	}
	server->ending = true;
}

/* Handles some of what was read, as far as there is room for what comes of it. */
static void handle_lines(struct server *server)
{
	for (unsigned count = 0; count < LINES_PER_TURN && !server->ending && accepting(server);
		count++) {
		const char *line;
		size_t length;

		switch (reader_next(&server->reader, &line, &length)) {
		case READER_LINE:
			handle_line(server, line, length);
			continue;
		case READER_TOO_LONG:
			send_error(server, NULL, JSONRPC_PARSE_ERROR,
				"a message is longer than 16 MiB", NULL);
			continue;
		case READER_END:
			input_ended(server);
			return;
		case READER_AGAIN:
			server->drained = true;
			return;
		}
	}
}

/* Calls that take long become tasks where the client knows these. */
static void make_tasks(struct server *server)
{
	uint64_t now = now_ms();

	for (struct call *call = server->calls.first; call; call = call->next) {
		if (!call->may_become_task || call->silent || now < call->came_ms + TASK_AFTER_MS)
			continue;
		call->may_become_task = false;
		call->task = tasks_add(&server->tasks);
		if (!call->task)
			continue;
		call->silent = true;
		send_result(server, call->id, call->revision, RESULT_TASK,
			task_to_json(call->task, false));
	}
}

/* Milliseconds until a call becomes a task, or is waited for no longer; -1: none will. */
static int next_time_ms(const struct server *server)
{
	uint64_t now = now_ms(), next = UINT64_MAX;

	for (const struct call *call = server->calls.first; call; call = call->next) {
		if (call->may_become_task && !call->silent && call->came_ms + TASK_AFTER_MS < next)
			next = call->came_ms + TASK_AFTER_MS;
		if (call->running && call->until_ms && call->until_ms < next)
			next = call->until_ms;
	}
	if (next == UINT64_MAX)
		return -1;
	return next > now ? (int)(next - now) : 0;
}

/* About once a second. Progress must grow from one message to the next; it is in seconds. */
static void tell_progress(struct server *server, struct call *call, const json_t *progress)
{
	double seconds = call->progress_base +
			 (double)json_integer_value(json_object_get(progress, "elapsed_ms")) / 1000;
	json_t *last_line = json_object_get(progress, "last_line"), *params;
	size_t length = 0;
	char *line;

	if (call->task && json_is_string(last_line))
		task_set_last_line(call->task, json_string_value(last_line));
	if (call->silent || !call->progress_token || !json_is_string(last_line) ||
		seconds <= call->progress || writer_pending(&server->writer) > PROGRESS_PENDING_MAX)
		return;
	call->progress = seconds;
	params = json_pack("{s:O, s:f}", "progressToken", call->progress_token, "progress", seconds);
	if (call->revision >= REVISION_2025_03_26)
		json_object_set(params, "message", last_line);
	line = jsonrpc_notification("notifications/progress", params, &length);
	send_line(server, line, length);
}

/* Whether somebody waits for what comes of the call. */
static bool is_wanted(const struct call *call)
{
	return call->task ? call->task->status == TASK_WORKING : !call->silent;
}

static json_t *result_of(struct server *server, struct call *call, const json_t *answer)
{
	if (call->state)
		return call->tool->conclude(call->state);
	return call->tool->finish(server->options, call->arguments, answer,
		outputs_add(&server->outputs, call->io.kept_fds, json_object_get(answer, "files")));
}

/* A step of a tool of several is over; `answer` is NULL where it failed. Returns whether there is another. */
static bool begin_next_step(struct server *server, struct call *call, const json_t *answer)
{
	struct step step;
	bool another;

	if (!call->state || !is_wanted(call))
		return false;
	step_init(&step);
	another = call->tool->next(call->state, answer, &step);
	if (another)
		call_list_requeue(&server->calls, call, &step);
	step_free(&step);
	return another;
}

/*
 * The image is there now, or the packages. Returns whether the step that waited for them is queued; else *err says why
 * not. A call may need one after the other.
 */
static bool begin_after_fetching(struct server *server, struct call *call, struct error *err)
{
	struct step step;
	int r;

	if (!is_wanted(call))
		return false;
	step_init(&step);
	r = prepare_step(server, call->tool, call->arguments, &step, err);
	if (r == 0 && step.kind == STEP_PULL && ++call->fetched > FETCHED_MAX)
		r = error_set(err, 0, "the image %s was fetched, and removed again at once", step.image);
	if (r == 0 && step.kind == STEP_INSTALL && ++call->fetched > FETCHED_MAX)
		r = error_set(err, 0, "the packages were installed, and removed again at once");
	if (r == 0) {
		call->progress_base = call->progress;
		call_list_requeue(&server->calls, call, &step);
	}
	step_free(&step);
	return r == 0;
}

/* Sessions speak to people, who have options. */
static void speak_to_model(struct error *err)
{
	static const struct {
		const char *theirs, *ours;
	} advice[] = {
		{"--disk", "Delete what is not needed; whoever runs the server can allow more (limits.disk in nsbox.conf)."},
		{"stop some of them", "sandbox_list shows them, sandbox_stop ends one."},
		{"(recursive)", "With recursive true, all that is in it is removed, too."},
		{"ask for all to be replaced", "Give more of what is around it, or replace_all true."},
		{"session snapshots", "snapshot_list shows those that there are, snapshot_delete removes one."},
		{"session fork", "sandbox_fork makes a sandbox of it instead."},
		{"session commit", "Go back to an earlier one (sandbox_restore), or begin with a new sandbox."},
		{"--storage disk", "Whoever runs the server can give it a disk (NSBOX_STORE)."},
		{"name the language", "Give language; list_languages shows which there are."},
		{"name it with --lang", "Give language; list_languages shows which there are."},
	};

	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
		if (strstr(err->hint, advice[i].theirs)) {
			error_hint(err, "%s", advice[i].ours);
			return;
		}
	if (err->errnum == 0 && strstr(err->text, "moving ") == err->text && strstr(err->text, "File exists"))
		error_hint(err, "Its destination is there; with overwrite true it is replaced.");
}

/* The call has had its last step. */
static void finish_call(
	struct server *server, struct call *call, const json_t *answer, struct error *err)
{
	json_t *result = NULL;
	bool wanted = is_wanted(call);

	if (!answer && (call->step.kind == STEP_ASK || call->step.kind == STEP_CREATE || call->step.kind == STEP_SNAPSHOT))
		speak_to_model(err);
	if (wanted)
		result = answer || call->state ? result_of(server, call, answer) : tool_failure(err);
	/* A session that nobody claims ends: before the client knows of it, or killed in between we would take it away. */
	if (wanted && answer && (call->step.kind == STEP_CREATE || call->step.kind == STEP_SNAPSHOT))
		runner_claim(&call->io);
	answer_call(server, call, result);
	call_list_remove(&server->calls, call);
}

/* An install has failed: the manager's own words are what helps. */
static void fail_call(struct server *server, struct call *call, const json_t *answer)
{
	const json_t *failed = json_object_get(answer, "failed"), *output = json_object_get(answer, "output");
	struct error err;

	error_set(&err, 0, "%s", json_string_value(json_object_get(failed, "text")) ?: "");
	error_hint(&err, "%s", json_string_value(json_object_get(failed, "hint")) ?: "");
	if (json_is_true(json_object_get(failed, "unknown")))
		sandbox_unknown(call->step.id, &err);
	answer_call(server, call,
		is_wanted(call) ? tool_failure_with(&err, json_string_value(output), json_string_length(output)) : NULL);
	call_list_remove(&server->calls, call);
}

/* Sessions whose supervisor was stopped, say, are not to hold up what has nothing to do with them. */
static void give_up_waiting(struct server *server)
{
	uint64_t now = now_ms();
	struct call *next;
	struct error err;

	for (struct call *call = server->calls.first; call; call = next) {
		next = call->next;
		if (!call->running || !call->until_ms || now < call->until_ms)
			continue;
		error_set(&err, 0, "the sandbox does not answer");
		error_hint(&err, "Its supervisor may have been stopped: whoever runs the host can end it with nsbox session stop, or kill.");
		if (!begin_next_step(server, call, NULL))
			finish_call(server, call, NULL, &err);
	}
}

static int start_step(struct server *server, struct step *step, struct runner_io *ret, struct error *err)
{
	switch (step->kind) {
	case STEP_PULL:
		return runner_pull(&server->runner, step->image, &server->options->pull_config, ret, err);
	case STEP_INSTALL:
		return runner_install(&server->runner, step->id[0] ? NULL : &step->spec, step->id, step->language, step->packages,
			&server->options->pull_config, ret, err);
	case STEP_CREATE:
		return runner_create(&server->runner, &step->spec, &step->options, step->packages,
			&server->options->pull_config, ret, err);
	case STEP_SNAPSHOT:
		return runner_snapshot(&server->runner, step->request, ret, err);
	case STEP_ASK:
		if (runner_ask(step->id, step->request, ret, err) == 0)
			return 0;
		return err->errnum == ENOENT ? sandbox_unknown(step->id, err) : -1;
	default:
		return runner_submit(&server->runner, &step->spec, ret, err);
	}
}

/* The next that may begin: work on files and the like does not wait for code that runs. */
static struct call *next_call(const struct server *server)
{
	if (server->calls.running >= CALLS_RUNNING_MAX)
		return NULL;
	return call_list_queued(
		&server->calls, server->calls.running_code >= server->options->parallel_max);
}

static void start_calls(struct server *server)
{
	while (!server->ending && output_has_room(server)) {
		struct call *call = next_call(server);
		struct runner_io io;
		uint64_t wait_ms;
		struct error err = {0};

		if (!call)
			return;
		wait_ms = call->state && call->step.kind == STEP_ASK ? LISTED_MS : call->step.wait_ms;
		if (start_step(server, &call->step, &io, &err) == 0) {
			call_list_started(&server->calls, call, &io);
			call->until_ms = wait_ms ? now_ms() + wait_ms : 0;
			continue;
		}
		if (!begin_next_step(server, call, NULL))
			finish_call(server, call, NULL, &err);
	}
}

static void read_call(struct server *server, struct call *call)
{
	struct error err = {0};
	json_t *message = NULL;

	for (;;) {
		switch (runner_read(&call->io, &message, &err)) {
		case RUNNER_AGAIN:
			return;
		case RUNNER_PROGRESS:
			tell_progress(server, call, message);
			json_decref(message);
			continue;
		case RUNNER_FAILED:
			message = NULL;
			break;
		case RUNNER_RESULT:
			break;
		}
		if (json_is_object(json_object_get(message, "failed"))) {
			fail_call(server, call, message);
		} else if (call->step.kind == STEP_PULL || (call->step.kind == STEP_INSTALL && !call->step.id[0])) {
			if (!message || !begin_after_fetching(server, call, &err))
				finish_call(server, call, NULL, &err);
		} else if (!begin_next_step(server, call, message)) {
			finish_call(server, call, message, &err);
		}
		json_decref(message);
		return;
	}
}

static void handle_call(struct server *server, struct call *call, short events)
{
	struct error err;

	/* When the spec cannot be sent the supervisor is gone, or has said why it will not have it. */
	if (events & POLLOUT && call->io.out && runner_flush(&call->io, &err) < 0)
		events |= POLLIN;
	if (events & (POLLIN | POLLHUP | POLLERR))
		read_call(server, call);
}

/* Without its spawner the server can do nothing. Runs in flight have lost nothing but their future. */
static void spawner_died(struct server *server)
{
	struct error err;

	error_set(&err, 0, "the server's spawner process died, so this call was ended");
	error_hint(&err, "The server ends now; start it again.");
	fprintf(stderr, "nsbox mcp: the spawner died\n");
	for (struct call *call = server->calls.first; call; call = call->next)
		if (!call->silent)
			answer_call(server, call, tool_failure(&err));
	server->status = STATUS_FAILED;
	server->ending = true;
}

enum {
	POLL_SIGNAL,
	POLL_PARENT,
	POLL_INPUT,
	POLL_OUTPUT,
	POLL_SPAWNER,
	POLL_WARMINGS,
	POLL_CALLS = POLL_WARMINGS + WARMINGS_MAX,
};

struct poll_set {
	struct pollfd fds[POLL_CALLS + CALLS_RUNNING_MAX];
	struct call *calls[CALLS_RUNNING_MAX];
	nfds_t count;
};

static void fill_poll_set(const struct server *server, struct poll_set *set)
{
	bool read_more = !server->ending && server->drained && accepting(server);

	set->fds[POLL_SIGNAL] = (struct pollfd){.fd = server->signal_fd, .events = POLLIN};
	set->fds[POLL_PARENT] = (struct pollfd){.fd = server->parent_fd, .events = POLLIN};
	/* With no events at all, errors and hang-ups are still told. */
	set->fds[POLL_INPUT] =
		(struct pollfd){.fd = server->reader.fd, .events = read_more ? POLLIN : 0};
	set->fds[POLL_OUTPUT] = (struct pollfd){.fd = server->client_gone ? -1 : server->writer.fd,
		.events = writer_pending(&server->writer) ? POLLOUT : 0};
	set->fds[POLL_SPAWNER] = (struct pollfd){.fd = server->runner.fd, .events = POLLIN};
	warmings_fill_poll(&server->warmings, &set->fds[POLL_WARMINGS]);
	set->count = POLL_CALLS;
	for (struct call *call = server->calls.first; call; call = call->next) {
		bool waits = !call->silent && !output_has_room(server);

		if (!call->running)
			continue;
		set->calls[set->count - POLL_CALLS] = call;
		set->fds[set->count++] = (struct pollfd){.fd = waits ? -1 : call->io.fd,
			.events = POLLIN | (call->io.out ? POLLOUT : 0)};
	}
	if (server->ending) {
		set->fds[POLL_PARENT].fd = set->fds[POLL_INPUT].fd = -1;
		set->fds[POLL_SIGNAL].fd = set->fds[POLL_SPAWNER].fd = -1;
	}
}

static void handle_client(struct server *server, const struct poll_set *set)
{
	short input = set->fds[POLL_INPUT].revents, output = set->fds[POLL_OUTPUT].revents;

	if (output & POLLOUT && writer_flush(&server->writer) < 0)
		write_failed(server);
	if (output & (POLLERR | POLLHUP | POLLNVAL))
		client_is_gone(server);
	/* When it has hung up, what it wrote before is read first, unless there is no room for it. */
	if (input && accepting(server) && server->drained) {
		reader_fill(&server->reader);
		server->drained = false;
	} else if (input & (POLLERR | POLLHUP | POLLNVAL) && !accepting(server)) {
		server->ending = true;
	}
}

/* Waits once, at most `timeout_ms` (-1: as long as it takes), and handles what there is. */
static void turn(struct server *server, int timeout_ms)
{
	bool lines_left = !server->ending && !server->drained && accepting(server);
	struct poll_set set;

	fill_poll_set(server, &set);
	if (poll(set.fds, set.count, lines_left ? 0 : timeout_ms) < 0)
		return;
	for (nfds_t i = POLL_CALLS; i < set.count; i++)
		if (set.fds[i].revents)
			handle_call(server, set.calls[i - POLL_CALLS], set.fds[i].revents);
	warmings_handle(&server->warmings, &set.fds[POLL_WARMINGS]);
	if (set.fds[POLL_SPAWNER].revents)
		spawner_died(server);
	if (set.fds[POLL_SIGNAL].revents || set.fds[POLL_PARENT].revents)
		server->ending = true;
	give_up_waiting(server);
	handle_client(server, &set);
	handle_lines(server);
	start_calls(server);
}

/* Ends every run, and gives the client what is written already. */
static void end(struct server *server)
{
	uint64_t deadline = now_ms() + END_MS, now;
	struct call *next;

	warmings_end(&server->warmings);
	for (struct call *call = server->calls.first; call; call = next) {
		next = call->next;
		cancel_call(server, call);
	}
	while ((now = now_ms()) < deadline &&
		(server->calls.count > 0 ||
			(!server->client_gone && writer_pending(&server->writer) > 0)))
		turn(server, (int)(deadline - now));
	while (server->calls.first)
		call_list_remove(&server->calls, server->calls.first);
	now = now_ms();
	if (runner_stop(&server->runner, now < deadline ? (unsigned)(deadline - now) : 0) < 0)
		fprintf(stderr, "nsbox mcp: some sandboxes are still being taken down\n");
}

/* Nothing but the server itself must be able to write to the client: not a library's message, not a mistake of ours. */
static int take_output(struct error *err)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd < 0)
		return error_set(err, errno, "standard output");
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		close(fd);
		return error_set(err, errno, "turning standard output to standard error");
	}
	return fd;
}

static int take_signals(struct error *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? error_set(err, errno, "signalfd") : fd;
}

/*
 * The server reads what clients send, and output of sandboxes, and has nothing to do but to look at files: runs, and
 * whatever else makes mounts, changes files or executes something, are the spawner's, which is outside of this. So
 * Landlock, where the kernel has it, lets it read and nothing else.
 */
static int confine(struct error *err)
{
	cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct landlock wall = LANDLOCK_INIT;
	int r;

	if (root < 0)
		return error_set(err, errno, "opening /");
	r = landlock_begin_own(LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, &wall, err);
	if (r <= 0)
		return r;
	if (landlock_allow(&wall, root, LANDLOCK_LOOK, err) == 0)
		return landlock_enforce(&wall, err);
	close(wall.ruleset);
	return -1;
}

/* Whoever started us; -1 where it is outside of our pid namespace. *ret_gone: it does not exist any more. */
static int watch_parent(bool *ret_gone)
{
	pid_t parent = getppid();
	int fd = parent > 0 ? (int)syscall(SYS_pidfd_open, parent, 0) : -1;

	*ret_gone = getppid() != parent || (fd < 0 && errno == ESRCH && parent > 0);
	return fd;
}

int mcp_serve(const struct mcp_options *options)
{
	struct server *server = xcalloc(1, sizeof *server);
	struct error err;
	int output = -1, status;

	server->options = options;
	server->signal_fd = -1;
	server->drained = true;
	server->revision = REVISION_LEGACY_NEWEST;
	call_list_init(&server->calls);
	outputs_init(&server->outputs);
	warmings_init(&server->warmings);
	server->parent_fd = watch_parent(&server->ending);
	if (runner_start(&server->runner, &err) < 0 || (output = take_output(&err)) < 0 ||
		(server->signal_fd = take_signals(&err)) < 0 || confine(&err) < 0) {
		error_print(&err);
		return STATUS_FAILED;
	}
	reader_init(&server->reader, STDIN_FILENO, LINE_MAX_BYTES);
	writer_init(&server->writer, output);
	while (!server->ending) {
		turn(server, next_time_ms(server));
		make_tasks(server);
	}
	end(server);
	status = server->status;
	outputs_free(&server->outputs);
	tasks_free(&server->tasks);
	reader_free(&server->reader);
	writer_free(&server->writer);
	json_decref(server->tools);
	close(output);
	close_fd(&server->signal_fd);
	close_fd(&server->parent_fd);
	free(server);
	return status;
}
