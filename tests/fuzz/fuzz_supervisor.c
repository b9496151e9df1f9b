/* SPDX-License-Identifier: MIT */
/*
 * A hostile agent: what a supervisor does with whatever the first process of its sandbox sends, and with the
 * output of a command. sandbox_run is the real one; the sandbox is a socket on which the input's messages lie,
 * and then nobody.
 *
 * Input: a byte of flags, the output of the command with its length before it, then messages: type, length,
 * number of descriptors, counts, value, and text.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "report/report.h"
#include "sandbox/create.h"
#include "sandbox/result.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"
#include "util/error.h"

enum { FLAG_CAPTURE = 1, FLAG_TWO = 2, FLAG_TTY = 4, FLAG_EXEC_FAILS = 8, FLAG_IMAGES = 16 };

static struct input input;
static uint8_t flags;
static bool released;

static void send_message(int socket)
{
	static const size_t lengths[] = {sizeof(struct agent_message), offsetof(struct agent_message, error)};
	struct {
		struct agent_message message;
		char more[2000];
	} sent = {0};
	uint8_t kind = take_byte(&input), length = take_byte(&input), count = take_byte(&input) % WIRE_FDS_MAX;
	int fds[WIRE_FDS_MAX];

	sent.message.type = kind % 8;
	sent.message.tmpfs_count = take_byte(&input);
	sent.message.has_terminal = take_byte(&input);
	take_bytes(&input, &sent.message.value, sizeof sent.message.value);
	/* Without an end, where the input is that long. */
	memset(sent.message.error.hint, kind & 8 ? 'x' : 0, sizeof sent.message.error.hint);
	take_bytes(&input, sent.message.error.text, kind & 8 ? sizeof sent.message.error.text : kind);
	take_bytes(&input, &sent.message.cpu_user_us, length % 25);
	for (int i = 0; i < count; i++)
		fds[i] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	wire_send(socket, &sent, length < 250 ? lengths[length % 2] : (size_t)(length - 250) * 300, fds, count, 1);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void write_output(struct stdio *stdio)
{
	char output[256];
	size_t length = take_bytes(&input, output, take_byte(&input));

	for (int i = 1; i < 3 && flags & FLAG_CAPTURE; i++)
		(void)!write(stdio->child[i], output, length);
}

int sandbox_create(const struct spec *spec, struct stdio *stdio, struct sandbox *ret, struct run_result *result,
	struct error *err)
{
	int sockets[2];

	*ret = SANDBOX_NONE;
	ret->spec = spec;
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "a socket can be made");
	ret->socket = sockets[0];
	write_output(stdio);
	while (input.left > 0)
		send_message(sockets[1]);
	close(sockets[1]);
	return 0;
}

int sandbox_exec(struct sandbox *sandbox, const struct exec_spec *exec, bool more, struct stdio *stdio,
	struct error *err)
{
	return flags & FLAG_EXEC_FAILS ? error_set(err, ENOMEM, "sending the command to the sandbox") : 0;
}

void sandbox_kill(struct sandbox *sandbox)
{
}

void sandbox_wait(struct sandbox *sandbox, struct rusage *ret_usage)
{
	memset(ret_usage, 0, sizeof *ret_usage);
}

void sandbox_release(struct sandbox *sandbox)
{
	close(sandbox->socket);
	released = true;
}

void add_warning(struct run_result *result, const char *format, ...)
{
}

static void make_spec(struct spec *spec)
{
	spec_init(spec);
	spec->capture = flags & FLAG_CAPTURE;
	spec->tty = flags & FLAG_TTY && !spec->capture;
	spec->collect_images = flags & FLAG_IMAGES;
	spec->execs_count = flags & FLAG_TWO ? 2 : 1;
	spec->limits.output_bytes = SPEC_OUTPUT_MIN;
	for (size_t i = 0; i < spec->execs_count; i++) {
		exec_add_arg(&spec->execs[i], "true");
		spec->execs[i].stdin_kind = STDIN_NULL;
		spec->execs[i].timeout_ms = 5000;
	}
}

static void check_result(const struct run_result *result, const struct spec *spec)
{
	char sentence[1024];
	json_t *object = run_result_to_json(result, spec);
	int status = run_result_exit_status(result);

	require(object != NULL, "a result can be shown");
	json_decref(object);
	require(status >= 0 && status < 256, "there is an exit status");
	run_result_sentence(result, spec, sentence, sizeof sentence);
	require(memchr(sentence, '\0', sizeof sentence) != NULL, "a sentence ends");
	require(result->execs_count >= 1 && result->execs_count <= spec->execs_count, "commands are counted");
	for (size_t i = 0; i < result->execs_count; i++)
		require(result->execs[i].ended_by < ENDED_BY_MAX && result->execs[i].hits_count <= LIMIT_MAX,
			"an end is one of those that there are");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct run_control control = {.cancel_fd = -1};
	struct run_result result;
	struct spec spec;
	int descriptor = next_descriptor();

	input = (struct input){data, size};
	flags = take_byte(&input);
	released = false;
	make_spec(&spec);
	sandbox_run(&spec, &control, &result);
	require(released, "the sandbox is given back");
	check_result(&result, &spec);
	run_result_free(&result);
	spec_free(&spec);
	require(next_descriptor() == descriptor, "no descriptor is left open");
	return 0;
}
