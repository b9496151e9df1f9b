/* SPDX-License-Identifier: MIT */
/* Pid 1 of the sandbox: see agent.h. */
#define _GNU_SOURCE
#include "config.h"
#include "sandbox/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/wire.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { PAGE = 4096, DEAD_STACK = 512 << 10, OWN_DESCRIPTORS_MAX = 1024 };

static struct agent {
	int socket;
	int sigchld;
	struct agent_limits limits;
	bool terminal;
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
	size_t length = message->type == AGENT_ENDED ? offsetof(struct agent_message, error)
						     : sizeof *message;

	/* Better no sandbox than one whose supervisor waits for what was never said. */
	if (wire_send(agent.socket, message, length, NULL, 0, 0) < 0)
		_exit(1);
}

/* --- starting a command: in a child that shares our memory until it executes --- */

struct start {
	const struct agent_exec *exec;
	struct error error;
	int errnum;     /* 0: executed */
	bool executing; /* what failed was execve */
};

static int start_failed(struct start *start, int errnum, const char *what, const char *name)
{
	start->errnum = errnum;
	return error_set(&start->error, errnum, "%s%s%s", what, name ? " " : "", name ? name : "");
}

/* The caller's own limit, where it is lower, cannot be raised and stays. */
static int set_limit(int resource, uint64_t value)
{
	struct rlimit limit;

	if (!value)
		return 0;
	if (getrlimit(resource, &limit) < 0)
		return -1;
	if (limit.rlim_max > value)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit);
}

static int set_affinity(uint32_t cpus)
{
	cpu_set_t allowed, chosen;

	if (!cpus)
		return 0;
	if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
		return -1;
	CPU_ZERO(&chosen);
	for (int cpu = 0; cpu < CPU_SETSIZE && cpus > 0; cpu++)
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_SET(cpu, &chosen);
			cpus--;
		}
	return sched_setaffinity(0, sizeof chosen, &chosen);
}

static int apply_limits(struct start *start)
{
	const struct agent_limits *limits = &agent.limits;

	if (set_limit(RLIMIT_NPROC, limits->processes) < 0 ||
		set_limit(RLIMIT_NOFILE, limits->open_files) < 0 ||
		set_limit(RLIMIT_FSIZE, limits->file_size_bytes) < 0 ||
		set_affinity(limits->cpus) < 0)
		return start_failed(start, errno, "setting resource limits", NULL);
	return 0;
}

static int take_stdio(struct start *start)
{
	for (int i = 0; i < 3; i++)
		if (dup3(start->exec->fds[i], i, 0) < 0)
			return start_failed(start, errno, "taking over standard descriptors", NULL);
	/* In the background the session is the agent's, which has the weight that is meant for both. */
	if ((agent.limits.background ? setpgid(0, 0) : setsid()) < 0)
		return start_failed(start, errno, "starting a session", NULL);
	if (agent.terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		return start_failed(start, errno, "taking the terminal", NULL);
	return 0;
}

static const char *path_of(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/* The errno of the attempts in PATH that matters most: that something was there and refused, before that nothing was. */
static int execute_in_path(const struct agent_exec *exec, char *candidate, size_t size)
{
	const char *name = exec->argv[0];
	int seen = ENOENT;

	for (const char *dir = path_of(exec->env); dir;
		dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
		int length = (int)strcspn(dir, ":");

		if (snprintf(candidate, size, "%.*s%s%s", length, dir, length ? "/" : "", name) >=
			(int)size)
			continue;
		execve(candidate, exec->argv, exec->env);
		if (errno == ENOENT && access(candidate, F_OK) == 0)
			return ENOEXEC;
		if (errno != ENOENT && errno != ENOTDIR)
			seen = errno;
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			break;
	}
	return seen;
}

static int execute(struct start *start)
{
	static char candidate[4096];
	const struct agent_exec *exec = start->exec;
	const char *name = exec->argv[0];
	int errnum;

	start->executing = true;
	if (strchr(name, '/')) {
		execve(name, exec->argv, exec->env);
		errnum = errno == ENOENT && access(name, F_OK) == 0 ? ENOEXEC : errno;
	} else {
		errnum = execute_in_path(exec, candidate, sizeof candidate);
	}
	if (errnum == ENOENT) {
		error_set(&start->error, 0, "%s: no such program inside%s", name,
			strchr(name, '/') ? "" : " in PATH");
	} else if (errnum == ENOEXEC) {
		error_set(&start->error, 0,
			"%s: cannot be executed: its interpreter or loader is missing inside, or it is not a program for this machine",
			name);
	} else {
		error_set(&start->error, errnum, "executing %s", name);
	}
	start->errnum = errnum;
	return -1;
}

/*
 * All of ours are close-on-exec; this is for the one that is not by mistake. Where the profile of a user refuses
 * close_range (Docker's had not heard of it before 20.10.10), one by one: nothing above was left by close_all_but.
 */
static void close_others(void)
{
	if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0)
		return;
	for (int fd = 3; fd < OWN_DESCRIPTORS_MAX; fd++)
		close(fd);
}

/*
 * On a stack of its own, which AddressSanitizer takes for a mistake when it sees a function there that does
 * not return.
 */
__attribute__((no_sanitize("address"))) static int command_start(void *data)
{
	struct start *start = data;
	const struct agent_exec *exec = start->exec;
	sigset_t none;

	sigemptyset(&none);
	if (exec->cgroup_procs >= 0 && write_whole(exec->cgroup_procs, "0", 1) < 0)
		start_failed(start, errno, "moving the command into its cgroup", NULL);
	else if (take_stdio(start) == 0 && apply_limits(start) == 0) {
		if (exec->cwd && chdir(exec->cwd) < 0)
			start_failed(start, errno, "entering the working directory", exec->cwd);
		else if (sigprocmask(SIG_SETMASK, &none, NULL) == 0) {
			close_others();
			execute(start);
		}
	}
	_exit(127);
}

static void start_command(const struct agent_exec *exec)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	struct start start = {.exec = exec};
	struct agent_message message = {0};
	pid_t pid;

	getrusage(RUSAGE_CHILDREN, &agent.before);
	pid = clone(command_start, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
	if (pid < 0)
		start_failed(&start, errno, "starting a process for the command", NULL);
	for (int i = 0; i < 3; i++)
		close(exec->fds[i]);
	if (exec->cgroup_procs >= 0)
		close(exec->cgroup_procs);
	if (start.errnum) {
		message.type = start.executing ? AGENT_EXEC_FAILED : AGENT_NOT_STARTED;
		message.value = start.errnum;
		message.error = start.error;
		say(&message);
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

static void serve_exec(const struct agent_request *request, const int *fds, size_t fds_count)
{
	struct agent_exec exec = {.cgroup_procs = -1, .more = request->more};
	off_t length;
	void *body;

	if (fds_count != 4 + (request->has_cgroup ? 1U : 0U))
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
	if (request->has_cgroup)
		exec.cgroup_procs = fds[4];
	start_command(&exec);
	munmap(body, (size_t)length);
}

static void serve_request(void)
{
	struct agent_request request;
	int fds[WIRE_FDS_MAX];
	size_t fds_count = WIRE_FDS_MAX;
	ssize_t n = wire_receive(agent.socket, &request, sizeof request, fds, &fds_count);

	if (n != sizeof request)
		_exit(0); /* the supervisor is gone: all of the sandbox goes with us */
	if (request.type == REQUEST_EXEC)
		serve_exec(&request, fds, fds_count);
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
	}
}

static void prepare_signals(void)
{
	sigset_t all, child;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int number = 1; number < 32; number++)
		signal(number, SIG_DFL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	agent.sigchld = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (agent.sigchld < 0)
		_exit(1);
}

/* The supervisor's own standard descriptors must not be held open by us. */
static void close_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		if (null < 0 || dup3(null, i, O_CLOEXEC) < 0)
			_exit(1);
	close(null);
}

__attribute__((noinline)) void agent_main(int socket, const struct agent_limits *limits,
	bool terminal, const struct agent_exec *first)
{
	agent.socket = socket;
	agent.limits = *limits;
	agent.terminal = terminal;
	close_stdio();
	prepare_signals();
	if (memory.arguments)
		wipe_arguments();
	if (first)
		start_command(first);
	forget((uintptr_t)__builtin_frame_address(0));
	for (;;) {
		struct pollfd fds[2] = {{.fd = agent.socket, .events = POLLIN},
			{.fd = agent.sigchld, .events = POLLIN}};

		if (ppoll(fds, 2, NULL, NULL) < 0 && errno != EINTR)
			_exit(1);
		if (fds[1].revents)
			reap();
		if (fds[0].revents)
			serve_request();
	}
}
