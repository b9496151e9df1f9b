/* SPDX-License-Identifier: MIT */
/* Starting a command inside the sandbox: see command.h. */
#define _GNU_SOURCE
#include "sandbox/command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/agent.h"
#include "util/error.h"
#include "util/file.h"

enum { OWN_DESCRIPTORS_MAX = 1024, FOURTH = 3 };

struct start {
	const struct agent_exec *exec;
	const struct agent_limits *limits;
	struct command_failure *failure;
};

static int start_failed(struct start *start, int errnum, const char *what, const char *name)
{
	start->failure->errnum = errnum;
	return error_set(
		&start->failure->error, errnum, "%s%s%s", what, name ? " " : "", name ? name : "");
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
	const struct agent_limits *limits = start->limits;

	if (set_limit(RLIMIT_NPROC, limits->processes) < 0 ||
		set_limit(RLIMIT_NOFILE, limits->open_files) < 0 ||
		set_limit(RLIMIT_FSIZE, limits->file_size_bytes) < 0 ||
		set_affinity(limits->cpus) < 0)
		return start_failed(start, errno, "setting resource limits", NULL);
	return 0;
}

/* It may be in its place already. */
static int take_fourth(int fd)
{
	if (fd < 0)
		return 0;
	return fd == FOURTH ? fcntl(fd, F_SETFD, 0) : dup3(fd, FOURTH, 0);
}

static int take_stdio(struct start *start)
{
	for (int i = 0; i < 3; i++)
		if (dup3(start->exec->fds[i], i, 0) < 0)
			return start_failed(start, errno, "taking over standard descriptors", NULL);
	if (take_fourth(start->exec->fourth) < 0)
		return start_failed(start, errno, "taking over a fourth descriptor", NULL);
	/* In the background the session is the agent's, which has the weight that is meant for both. */
	if ((start->limits->background ? setpgid(0, 0) : setsid()) < 0)
		return start_failed(start, errno, "starting a session", NULL);
	if (start->exec->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		return start_failed(start, errno, "taking the terminal", NULL);
	return 0;
}

/*
 * Both sides first say what they have and then look for the other's, and who takes a signal out sends it: so it is sent
 * once. Ours waits, blocked, until just before the execution.
 */
static void send_asked(struct command_contact *contact)
{
	for (int number = 1; number < NSIG; number++) {
		uint64_t bit = UINT64_C(1) << (number - 1);

		if (atomic_fetch_and(&contact->signals, ~bit) & bit)
			kill(-contact->pid, number);
	}
}

void command_signal(struct command_contact *contact, int number)
{
	if (number < 1 || number >= NSIG)
		return;
	atomic_fetch_or(&contact->signals, UINT64_C(1) << (number - 1));
	if (contact->pid > 0)
		send_asked(contact);
}

static void make_contact(struct command_contact *contact)
{
	if (!contact)
		return;
	contact->pid = getpid();
	send_asked(contact);
}

static const char *path_of(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/*
 * The errno of the attempts in PATH that matters most: that something was there and refused, before that nothing was.
 */
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

	start->failure->executing = true;
	if (strchr(name, '/')) {
		execve(name, exec->argv, exec->env);
		errnum = errno == ENOENT && access(name, F_OK) == 0 ? ENOEXEC : errno;
	} else {
		errnum = execute_in_path(exec, candidate, sizeof candidate);
	}
	if (errnum == ENOENT) {
		error_set(&start->failure->error, 0, "%s: no such program inside%s", name,
			strchr(name, '/') ? "" : " in PATH");
	} else if (errnum == ENOEXEC) {
		error_set(&start->failure->error, 0,
			"%s: cannot be executed: its interpreter or loader is missing inside, or it is not a program for this machine",
			name);
	} else {
		error_set(&start->failure->error, errnum, "executing %s", name);
	}
	start->failure->errnum = errnum;
	return -1;
}

/*
 * All of ours are close-on-exec; this is for the one that is not by mistake. Where the profile of a user refuses
 * close_range (Docker's had not heard of it before 20.10.10), one by one: nothing above was left by close_all_but.
 */
static void close_others(const struct agent_exec *exec)
{
	int first = exec->fourth >= 0 ? FOURTH + 1 : FOURTH;

	if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0)
		return;
	for (int fd = first; fd < OWN_DESCRIPTORS_MAX; fd++)
		close(fd);
}

/*
 * On a stack of its own, which AddressSanitizer takes for a mistake when it sees a function there that does
 * not return.
 */
__attribute__((no_sanitize("address"))) static int run_start(void *data)
{
	struct start *start = data;
	const struct agent_exec *exec = start->exec;
	sigset_t none;

	sigemptyset(&none);
	if (exec->cgroup_procs >= 0 && write_whole(exec->cgroup_procs, "0", 1) < 0)
		start_failed(start, errno, "moving the command into its cgroup", NULL);
	else if (take_stdio(start) == 0 && apply_limits(start) == 0) {
		make_contact(exec->contact);
		if (exec->cwd && chdir(exec->cwd) < 0)
			start_failed(start, errno, "entering the working directory", exec->cwd);
		else if (sigprocmask(SIG_SETMASK, &none, NULL) == 0) {
			close_others(exec);
			execute(start);
		}
	}
	_exit(127);
}

pid_t command_start(const struct agent_exec *exec, const struct agent_limits *limits,
	struct command_failure *ret)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	struct start start = {.exec = exec, .limits = limits, .failure = ret};
	pid_t pid;

	ret->errnum = 0;
	ret->executing = false;
	pid = clone(run_start, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
	if (pid < 0)
		start_failed(&start, errno, "starting a process for the command", NULL);
	for (int i = 0; i < 3; i++)
		close(exec->fds[i]);
	if (exec->fourth >= 0)
		close(exec->fourth);
	if (exec->cgroup_procs >= 0)
		close(exec->cgroup_procs);
	return ret->errnum ? -1 : pid;
}
