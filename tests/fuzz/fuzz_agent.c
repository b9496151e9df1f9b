/* SPDX-License-Identifier: MIT */
/*
 * The agent's end: requests, with the body of an exec and any number of descriptors. It is the agent itself,
 * with what would start, signal or end a process replaced. A command that it would start must have
 * arguments, environment and directory that lie in the body whole; and what agent_pack_exec packs must come
 * out as it went in.
 *
 * Input: a byte of flags, a byte that counts descriptors, then the request's fields, and the rest is the body:
 * strings to be packed, one a line, or its bytes as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "fuzz/fuzz.h"

enum { FLAG_RAW = 1, FLAG_NO_PROCESS = 2, FLAG_RUNNING = 4, FLAG_SESSION = 8, STRINGS_MAX = 16, COMMAND = 4711 };

static jmp_buf ended;
static const char *body;
static size_t body_length;
static char *const *wanted; /* arguments, NULL, environment, NULL: what was packed; or NULL */
static bool no_process, ran;

static _Noreturn void fake_exit(int status)
{
	longjmp(ended, 1);
}

static int fake_kill(pid_t pid, int number)
{
	require(pid == -COMMAND, "a signal goes to the command");
	return 0;
}

static void *fake_mmap(void *at, size_t length, int protection, int how, int fd, off_t offset)
{
	void *mapped = mmap(at, length, protection, how, fd, offset);

	if (mapped != MAP_FAILED) {
		body = mapped;
		body_length = length;
	}
	return mapped;
}

#define _exit fake_exit
#define kill fake_kill
#define mmap fake_mmap
#define command_start fake_command_start
#define keepers_start fake_keepers_start
#define keepers_serve_file fake_keepers_serve_file
#define keepers_signal fake_keepers_signal
#define keepers_end fake_keepers_end
#include "sandbox/agent.c"
#undef _exit
#undef kill
#undef mmap

static bool in_body(const char *text)
{
	return text > body && text < body + body_length && memchr(text, '\0', (size_t)(body + body_length - text));
}

static void check_strings(char *const *strings)
{
	for (; *strings; strings++) {
		require(in_body(*strings), "a string is in the body, whole");
		require(!wanted || strcmp(*strings, *wanted++) == 0, "and the one that was packed");
	}
	require(!wanted || !*wanted++, "none is left out");
}

static void take_exec(const struct agent_exec *exec)
{
	ran = true;
	require(exec->argv[0] != NULL, "there is a command");
	check_strings(exec->argv);
	check_strings(exec->env);
	require(!exec->cwd || in_body(exec->cwd), "the directory is in the body");
	for (int i = 0; i < 3; i++)
		close(exec->fds[i]);
	if (exec->fourth >= 0)
		close(exec->fourth);
	if (exec->cgroup_procs >= 0)
		close(exec->cgroup_procs);
}

pid_t fake_command_start(
	const struct agent_exec *exec, const struct agent_limits *limits, struct command_failure *ret)
{
	take_exec(exec);
	*ret = (struct command_failure){.errnum = no_process ? EAGAIN : 0};
	return no_process ? -1 : COMMAND;
}

pid_t fake_keepers_start(uint32_t id, const struct agent_exec *exec, const struct agent_limits *limits)
{
	require(limits->session, "only a session has several commands");
	take_exec(exec);
	return no_process ? 0 : COMMAND;
}

bool fake_keepers_serve_file(
	uint32_t id, const void *request, size_t length, int channel, const char *directory)
{
	require(request == (const void *)body && length == body_length, "the request is the body");
	require(fcntl(channel, F_GETFD) >= 0, "the channel is open");
	ran = true;
	return !no_process;
}

void fake_keepers_signal(uint32_t id, int number)
{
}

void fake_keepers_end(uint32_t id)
{
}

/* The lines of `text`: the first half arguments, the rest environment. Returns the body's descriptor. */
static int pack(char *text, char **strings)
{
	char *rest = text, *lines[STRINGS_MAX];
	size_t count = 0, arguments, at = 0;

	while (rest && count < STRINGS_MAX)
		lines[count++] = strsep(&rest, "\n");
	arguments = (count + 1) / 2;
	for (size_t i = 0; i < count; i++) {
		if (i == arguments)
			strings[at++] = NULL;
		strings[at++] = lines[i];
	}
	strings[at] = NULL;
	if (count == arguments)
		strings[++at] = NULL;
	return agent_pack_exec(strings, strings + arguments + 1, "/workspace");
}

static void send_request(struct input *input, int socket, int packed)
{
	struct agent_request request = {.type = REQUEST_EXEC};
	int fds[WIRE_FDS_MAX] = {packed};
	uint8_t count = take_byte(input) % WIRE_FDS_MAX, type = take_byte(input);

	request.type = type < 200 ? REQUEST_EXEC : type - 200;
	request.has_cgroup = take_byte(input);
	request.more = take_byte(input);
	take_bytes(input, &request.value, take_byte(input) % 5);
	request.id = (uint32_t)request.value;
	request.terminal = request.more & 2;
	request.has_fourth = request.more & 4;
	for (int i = 1; i < count; i++)
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	wire_send(socket, &request, sizeof request - (type == 255), fds, count, 1);
	for (int i = 1; i < count; i++)
		close(fds[i]);
}

/* What the exit of the process does in earnest. */
static void clean_up(int descriptor, int *sockets)
{
	close(sockets[0]);
	close(sockets[1]);
	close_range((unsigned)descriptor, ~0U, 0);
	if (body)
		munmap((void *)(uintptr_t)body, body_length);
	body = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size}, head;
	char *strings[STRINGS_MAX + 2], *text;
	uint8_t flags = take_byte(&input);
	int sockets[2], packed, descriptor = next_descriptor();
	static bool exits;

	head = input;
	take_bytes(&input, &(uint8_t[9]){0}, 9);
	text = to_string(input.data, input.left);
	packed = flags & FLAG_RAW ? to_file(input.data, input.left) : pack(text, strings);
	wanted = flags & FLAG_RAW ? NULL : strings;
	no_process = flags & FLAG_NO_PROCESS;
	ran = false;
	require(packed >= 0, "an exec can be packed");
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "a socket can be made");
	agent = (struct agent){.socket = sockets[1], .sigchld = -1, .limits.session = flags & FLAG_SESSION, .command = flags & FLAG_RUNNING ? COMMAND : 0};
	send_request(&head, sockets[0], packed);
	exits = setjmp(ended);
	if (!exits) {
		serve_request();
		/* The body is unmapped and every descriptor given back; the command, if any, has them. */
		body = NULL;
		close(packed);
		close(sockets[0]);
		close(sockets[1]);
		require(next_descriptor() == descriptor || !ran, "no descriptor is left open");
	}
	clean_up(descriptor, sockets);
	free(text);
	return 0;
}
