/* SPDX-License-Identifier: MIT */
/* Pid 1 of the sandbox: see agent.h. */
#define _GNU_SOURCE
#include "config.h"
#include "sandbox/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/command.h"
#include "sandbox/halt.h"
#include "sandbox/keepers.h"
#include "sandbox/wire.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { PAGE = 4096, DEAD_STACK = 512 << 10 };

static struct agent {
	int socket;
	int sigchld;
	struct agent_limits limits;
	const char *directory;
	pid_t command; /* 0: none runs */
	bool more;
	struct rusage before;
} agent;

/* Of the process that became the agent; set once at its start. */
static struct {
	char *arguments, *arguments_end; /* argument and environment strings */
	char *heap; /* the first allocation of ours: the later ones lie above it */
} memory;

void agent_remember_process_memory(int argc, char **argv, char **envp)
{
	memory.heap = xcalloc(1, 1);
	if (argc < 1)
		return;
	memory.arguments = argv[0];
	memory.arguments_end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
	for (char **next = envp; *next; next++)
		if (*next + strlen(*next) + 1 > memory.arguments_end)
			memory.arguments_end = *next + strlen(*next) + 1;
}

#ifndef NSBOX_SANITIZED
static uintptr_t page_up(uintptr_t address)
{
	return (address + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
}

static void drop_pages(uintptr_t from, uintptr_t to)
{
	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Volatile, or the compiler sees that nobody reads what is written. */
static void zero(uintptr_t from, uintptr_t to)
{
	for (volatile char *next = (volatile char *)from; (uintptr_t)next < to; next++)
		*next = 0;
}

/* The part of the dead stack that is too near to the living one to be dropped in pages. */
static __attribute__((noinline)) void zero_below(void)
{
	volatile char dead[2 * PAGE];

	zero((uintptr_t)dead, (uintptr_t)dead + sizeof dead);
}

/*
 * Gives back what the clone brought with it. `frame` is the frame of a function that never returns:
 * everything above it is dead, and so is everything well below.
 */
static void forget(uintptr_t frame)
{
	uintptr_t heap = (uintptr_t)memory.heap;

	if (heap) {
		zero(heap, page_up(heap));
		drop_pages(page_up(heap), (uintptr_t)sbrk(0));
	}
	zero(frame, page_up(frame));
	/* Past the strings lies at most the program's name, in the last page of the stack. */
	drop_pages(page_up(frame), page_up((uintptr_t)memory.arguments_end) + PAGE);
	zero_below();
	drop_pages(page_up(frame) - DEAD_STACK, page_up(frame) - 3 * PAGE);
}
#else
/* The sanitizers' allocator and shadow must stay. */
static void forget(uintptr_t frame)
{
}
#endif

/* /proc/1/cmdline is open to the command, so this goes before it is started. Nobody reads these any more. */
static void wipe_arguments(void)
{
	memset(memory.arguments, 0, (size_t)(memory.arguments_end - memory.arguments));
}

static void say(const struct agent_message *message)
{
	bool brief = message->type != AGENT_NOT_STARTED && message->type != AGENT_EXEC_FAILED;
	size_t length = brief ? offsetof(struct agent_message, error) : sizeof *message;

	/* Better no sandbox than one whose supervisor waits for what was never said. */
	if (wire_send(agent.socket, message, length, NULL, 0, 0) < 0)
		_exit(1);
}

/* --- the commands of a run: one at a time --- */

static void say_failure(uint32_t id, const struct command_failure *failure)
{
	struct agent_message message = {
		.type = failure->executing ? AGENT_EXEC_FAILED : AGENT_NOT_STARTED,
		.value = failure->errnum,
		.id = id,
		.error = failure->error};

	say(&message);
}

static void start_command(const struct agent_exec *exec)
{
	static struct command_failure failure;
	pid_t pid;

	getrusage(RUSAGE_CHILDREN, &agent.before);
	pid = command_start(exec, &agent.limits, &failure);
	if (pid < 0) {
		say_failure(0, &failure);
		return;
	}
	agent.command = pid;
	agent.more = exec->more;
}

/* --- requests for later commands --- */

struct packed {
	uint64_t argc, envc, cwd; /* cwd: offset of its string or 0 */
	uint64_t strings[];       /* offsets: argc and a 0, envc and a 0 */
};

static size_t count(char *const *strings, size_t *bytes)
{
	size_t n = 0;

	for (; strings && strings[n]; n++)
		*bytes += strlen(strings[n]) + 1;
	return n;
}

static void pack_strings(struct packed *packed, size_t *slot, char *const *strings, char **next)
{
	for (; strings && *strings; strings++) {
		packed->strings[(*slot)++] = (uint64_t)(*next - (char *)packed);
		*next = stpcpy(*next, *strings) + 1;
	}
	packed->strings[(*slot)++] = 0;
}

int agent_pack_exec(char *const *argv, char *const *env, const char *cwd)
{
	cleanup_close int fd = memfd_create("exec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t bytes = cwd ? strlen(cwd) + 1 : 0;
	size_t argc = count(argv, &bytes), envc = count(env, &bytes), slot = 0;
	size_t table = sizeof(struct packed) + (argc + envc + 2) * sizeof(uint64_t);
	cleanup_free struct packed *packed = calloc(1, table + bytes);
	char *next;

	if (fd < 0 || !packed)
		return -1;
	next = (char *)packed + table;
	packed->argc = argc;
	packed->envc = envc;
	pack_strings(packed, &slot, argv, &next);
	pack_strings(packed, &slot, env, &next);
	if (cwd) {
		packed->cwd = (uint64_t)(next - (char *)packed);
		strcpy(next, cwd);
	}
	if (write_whole(fd, packed, table + bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return -1;
	return move_fd(&fd);
}

/* Whether each of `count` offsets is that of a string in the body, and a 0 comes after them. */
static bool offsets_valid(const struct packed *packed, size_t length, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		if (packed->strings[i] < sizeof *packed || packed->strings[i] >= length)
			return false;
	return packed->strings[first + count] == 0;
}

/* Whether this is what agent_pack_exec makes: every string begins and ends inside of it. */
static bool packed_valid(const struct packed *packed, size_t length)
{
	size_t slots;

	if (length <= sizeof *packed || ((const char *)packed)[length - 1] != '\0')
		return false;
	slots = (length - sizeof *packed) / sizeof packed->strings[0];
	return packed->argc > 0 && packed->argc < slots && packed->envc < slots &&
	       packed->argc + packed->envc + 2 <= slots && packed->cwd < length &&
	       offsets_valid(packed, length, 0, packed->argc) &&
	       offsets_valid(packed, length, packed->argc + 1, packed->envc);
}

/* Turns the offsets of a private mapping into pointers, in place. */
static void unpack(struct packed *packed, struct agent_exec *exec)
{
	size_t slots = packed->argc + packed->envc + 2;

	for (size_t i = 0; i < slots; i++)
		if (packed->strings[i])
			packed->strings[i] += (uint64_t)(uintptr_t)packed;
	exec->argv = (char **)(uintptr_t)packed->strings;
	exec->env = (char **)(uintptr_t)&packed->strings[packed->argc + 1];
	exec->cwd = packed->cwd ? (char *)packed + packed->cwd : NULL;
}

/* A session's command that cannot even be kept. */
static void start_kept(uint32_t id, const struct agent_exec *exec)
{
	static struct command_failure failure;

	pid_t keeper = keepers_start(id, exec, &agent.limits);

	if (keeper > 0) {
		say(&(struct agent_message){.type = AGENT_STARTED, .id = id, .value = keeper});
		return;
	}
	failure.errnum = EAGAIN;
	error_set(&failure.error, 0, "%d commands are running already, or no process can be made",
		KEEPERS_MAX);
	say_failure(id, &failure);
}

static void serve_exec(const struct agent_request *request, const int *fds, size_t fds_count)
{
	struct agent_exec exec = {
		.fourth = -1,
		.cgroup_procs = -1,
		.file_size_bytes = request->file_size_bytes,
		.more = request->more,
		.terminal = request->terminal};
	off_t length;
	void *body;

	if (fds_count != 4 + (request->has_fourth ? 1U : 0U) + (request->has_cgroup ? 1U : 0U))
		_exit(1);
	length = lseek(fds[0], 0, SEEK_END);
	body = length > 0
		       ? mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[0], 0)
		       : MAP_FAILED;
	if (body == MAP_FAILED || !packed_valid(body, (size_t)length))
		_exit(1);
	close(fds[0]);
	unpack(body, &exec);
	memcpy(exec.fds, fds + 1, sizeof exec.fds);
	if (request->has_fourth)
		exec.fourth = fds[4];
	if (request->has_cgroup)
		exec.cgroup_procs = fds[fds_count - 1];
	if (request->type == REQUEST_START)
		start_kept(request->id, &exec);
	else
		start_command(&exec);
	munmap(body, (size_t)length);
}

/* The end of the channel tells who asked that it could not be done. */
static void serve_file(const struct agent_request *request, const int *fds, size_t fds_count)
{
	off_t length;
	void *body;

	if (fds_count != 2)
		_exit(1);
	length = lseek(fds[0], 0, SEEK_END);
	body = length > 0 ? mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fds[0], 0)
			  : MAP_FAILED;
	close(fds[0]);
	if (body == MAP_FAILED)
		_exit(1);
	keepers_serve_file(request->id, body, (size_t)length, fds[1], agent.directory);
	munmap(body, (size_t)length);
	close(fds[1]);
}

static void serve_pause(const struct agent_request *request)
{
	struct agent_message message = {.id = request->id, .type = AGENT_RESUMED};

	if (request->type == REQUEST_PAUSE) {
		message.type = AGENT_PAUSED;
		message.value = halt_begin();
	} else {
		halt_end();
	}
	say(&message);
}

static void serve_request(void)
{
	struct agent_request request;
	int fds[WIRE_FDS_MAX];
	size_t fds_count = WIRE_FDS_MAX;
	ssize_t n = wire_receive(agent.socket, &request, sizeof request, fds, &fds_count);

	if (n != sizeof request)
		_exit(0); /* the supervisor is gone: all of the sandbox goes with us */
	if (request.type == REQUEST_EXEC || (request.type == REQUEST_START && agent.limits.session))
		serve_exec(&request, fds, fds_count);
	else if (request.type == REQUEST_FILE && agent.limits.session)
		serve_file(&request, fds, fds_count);
	else if ((request.type == REQUEST_PAUSE || request.type == REQUEST_RESUME) && agent.limits.session)
		serve_pause(&request);
	else if (request.type == REQUEST_END)
		keepers_end(request.id);
	else if (request.type == REQUEST_SIGNAL && agent.limits.session)
		keepers_signal(request.id, request.value);
	else if (request.type == REQUEST_SIGNAL && agent.command > 0)
		kill(-agent.command, request.value);
}

/* --- ends --- */

static uint64_t microseconds(const struct timeval *now, const struct timeval *then)
{
	return (uint64_t)((now->tv_sec - then->tv_sec) * 1000000 + now->tv_usec - then->tv_usec);
}

static void end_stragglers(void)
{
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

/* `usage`: of the command and of those that it waited for. */
static void command_ended(int status, const struct rusage *usage)
{
	struct agent_message message = {.type = AGENT_ENDED, .value = status};
	struct rusage now;

	agent.command = 0;
	if (agent.more)
		end_stragglers();
	getrusage(RUSAGE_CHILDREN, &now);
	message.cpu_user_us = microseconds(&now.ru_utime, &agent.before.ru_utime);
	message.cpu_system_us = microseconds(&now.ru_stime, &agent.before.ru_stime);
	message.memory_peak_bytes = (uint64_t)usage->ru_maxrss * 1024;
	say(&message);
	if (!agent.more)
		_exit(0);
}

/*
 * A command that asks to be traced (PTRACE_TRACEME), where its filter allows that, has us for its tracer, and would
 * stop at each signal for somebody who never lets it go on. It gets its signals as if nobody traced it; SIGTRAP is
 * the one that an execve makes of its own.
 */
static void let_go(pid_t pid, int signal)
{
	ptrace(PTRACE_DETACH, pid, NULL, signal == SIGTRAP ? 0L : (long)signal);
}

static void kept_ended(pid_t pid, int status)
{
	static struct agent_message message;
	int r = keepers_reaped(pid, status, &message);

	/* What cannot be ended by itself is ended with all. */
	if (r < 0)
		_exit(1);
	if (r > 0)
		say(&message);
}

static void reap(void)
{
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	pid_t pid;

	if (read(agent.sigchld, &info, sizeof info) < 0 && errno != EAGAIN)
		_exit(1);
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0 || (pid < 0 && errno == EINTR)) {
		if (pid < 0)
			continue;
		if (WIFSTOPPED(status))
			let_go(pid, WSTOPSIG(status));
		else if (pid == agent.command)
			command_ended(status, &usage);
		else if (agent.limits.session)
			kept_ended(pid, status);
	}
}

static int prepare_signals(void)
{
	sigset_t all, child;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int number = 1; number < 32; number++)
		signal(number, SIG_DFL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	agent.sigchld = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return agent.sigchld < 0 ? -1 : 0;
}

/* The supervisor's own standard descriptors must not be held open by us. */
static int close_stdio(void)
{
	cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		if (null < 0 || dup3(null, i, O_CLOEXEC) < 0)
			return -1;
	return 0;
}

int agent_prepare(const struct agent_limits *limits)
{
	if (close_stdio() < 0 || prepare_signals() < 0)
		return -1;
	return limits->session ? keepers_init() : 0;
}

__attribute__((noinline)) void agent_main(int socket, const struct agent_limits *limits,
	const char *directory, const struct agent_exec *first)
{
	agent.socket = socket;
	agent.limits = *limits;
	agent.directory = directory;
	if (memory.arguments)
		wipe_arguments();
	if (first)
		start_command(first);
	forget((uintptr_t)__builtin_frame_address(0));
	for (;;) {
		struct pollfd fds[2] = {{.fd = agent.socket, .events = POLLIN},
			{.fd = agent.sigchld, .events = POLLIN}};
		int ms = halt_guard();
		const struct timespec until = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

		/* What is short of memory may be so for a moment, and without this process the sandbox is gone. */
		if (ppoll(fds, 2, ms < 0 ? NULL : &until, NULL) < 0 && errno != EINTR && errno != ENOMEM)
			_exit(1);
		if (fds[1].revents)
			reap();
		if (fds[0].revents)
			serve_request();
	}
}
