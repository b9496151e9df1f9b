/* SPDX-License-Identifier: MIT */
/* The commands of a session, and what is theirs: see keepers.h. Runs in the agent, without malloc and stdio. */
#define _GNU_SOURCE
#include "sandbox/keepers.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/agent.h"
#include "sandbox/command.h"
#include "sandbox/fileops.h"
#include "sandbox/processes.h"
#include "sandbox/wire.h"
#include "util/cleanup.h"

enum {
	FIRST_DESCRIPTOR = 3,
	DESCRIPTORS_MAX =
		256, /* that an agent has, more than ever are: FILES of it come and go with requests */
	END_S = 10, /* for processes to be dead that were killed: one may wait for a disk first */
	PASSES_AT_ONCE = 5, /* before there is a pause of PAUSE_NS between two */
	PAUSE_NS = 1000000,
};

/* What a keeper tells of its command, in memory that it shares with the agent. The code cannot reach it. */
struct report {
	struct command_contact contact;
	bool ended; /* and `status` and `usage` are the command's */
	int status;
	struct rusage usage; /* of all that ended below the keeper */
	uint64_t memory_peak_bytes;
	struct command_failure failure;
};

struct keeper {
	uint32_t id;
	pid_t pid; /* 0: a free place */
	bool file; /* does work on files, and keeps nothing */
};

static struct keeper keepers[KEEPERS_MAX];
static struct report *reports;

int keepers_init(void)
{
	reports = mmap(NULL, KEEPERS_MAX * sizeof *reports, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return reports == MAP_FAILED ? -1 : 0;
}

/* Without what fork(3) does for malloc and stdio. */
static pid_t fork_plain(void)
{
	return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
}

static struct keeper *find(uint32_t id)
{
	for (size_t i = 0; i < KEEPERS_MAX; i++)
		if (keepers[i].pid > 0 && keepers[i].id == id)
			return &keepers[i];
	return NULL;
}

static struct keeper *find_free(void)
{
	for (size_t i = 0; i < KEEPERS_MAX; i++)
		if (keepers[i].pid == 0)
			return &keepers[i];
	return NULL;
}

static uint32_t count_keepers(void)
{
	uint32_t count = 0;

	for (size_t i = 0; i < KEEPERS_MAX; i++)
		count += keepers[i].pid > 0;
	return count;
}

/* --- the keeper itself --- */

/* A command that asked to be traced has us for its tracer: see agent.c. */
static void let_go(pid_t pid, int status)
{
	int number = WSTOPSIG(status);

	ptrace(PTRACE_DETACH, pid, NULL, number == SIGTRAP ? 0L : (long)number);
}

/* The descriptors of the agent's are not for it: the supervisor must see the end of the agent, and of nobody else. */
static void close_but(const struct agent_exec *exec)
{
	for (int fd = FIRST_DESCRIPTOR; fd < DESCRIPTORS_MAX; fd++)
		if (fd != exec->fds[0] && fd != exec->fds[1] && fd != exec->fds[2] && fd != exec->fourth &&
			fd != exec->cgroup_procs)
			close(fd);
}

_Noreturn static void keep(
	const struct agent_exec *exec, const struct agent_limits *limits, struct report *report)
{
	struct agent_exec own = *exec;
	struct rusage usage;
	pid_t command, pid;
	int status;

	close_but(exec);
	own.contact = &report->contact;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		report->failure.errnum = errno;
		error_set(&report->failure.error, errno, "becoming the keeper of a command");
		_exit(0);
	}
	command = command_start(&own, limits, &report->failure);
	if (command < 0)
		_exit(0);
	while ((pid = wait4(-1, &status, 0, &usage)) > 0 || errno == EINTR) {
		if (pid <= 0)
			continue;
		if (WIFSTOPPED(status)) {
			let_go(pid, status);
		} else if (pid == command) {
			report->status = status;
			report->memory_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
			break;
		}
	}
	getrusage(RUSAGE_CHILDREN, &report->usage);
	report->ended = true;
	_exit(0);
}

/* --- what the agent does --- */

pid_t keepers_start(uint32_t id, const struct agent_exec *exec, const struct agent_limits *limits)
{
	struct keeper *keeper = find_free();
	struct agent_limits own = *limits;
	struct report *report;

	if (!keeper)
		return 0;
	report = &reports[keeper - keepers];
	memset(report, 0, sizeof *report);
	/* The limit counts them too. */
	if (own.processes)
		own.processes += count_keepers() + 1;
	if (exec->file_size_bytes && (!own.file_size_bytes || exec->file_size_bytes < own.file_size_bytes))
		own.file_size_bytes = exec->file_size_bytes;
	keeper->pid = fork_plain();
	if (keeper->pid == 0)
		keep(exec, &own, report);
	for (int i = 0; i < 3; i++)
		close(exec->fds[i]);
	if (exec->fourth >= 0)
		close(exec->fourth);
	if (exec->cgroup_procs >= 0)
		close(exec->cgroup_procs);
	if (keeper->pid < 0) {
		keeper->pid = 0;
		return 0;
	}
	keeper->id = id;
	keeper->file = false;
	return keeper->pid;
}

bool keepers_serve_file(
	uint32_t id, const void *request, size_t length, int channel, const char *directory)
{
	struct keeper *keeper = find_free();

	if (!keeper)
		return false;
	keeper->pid = fork_plain();
	if (keeper->pid == 0) {
		struct agent_exec exec = {.fds = {channel, channel, channel}, .fourth = -1, .cgroup_procs = -1};

		close_but(&exec);
		_exit(fileop_serve(request, length, channel, directory) < 0);
	}
	if (keeper->pid < 0) {
		keeper->pid = 0;
		return false;
	}
	keeper->id = id;
	keeper->file = true;
	return true;
}

void keepers_signal(uint32_t id, int number)
{
	struct keeper *keeper = find(id);

	if (keeper && !keeper->file)
		command_signal(&reports[keeper - keepers].contact, number);
}

void keepers_end(uint32_t id)
{
	struct keeper *keeper = find(id);

	if (keeper)
		kill(keeper->pid, SIGKILL);
}

/* --- processes without a keeper --- */

static struct processes processes;

static bool is_keeper(pid_t pid)
{
	for (size_t i = 0; i < KEEPERS_MAX; i++)
		if (keepers[i].pid == pid)
			return true;
	return false;
}

/* Whether a keeper that lives is on the way up. Parents that ended meanwhile cannot be told, and are none. */
static bool is_kept(struct process *process)
{
	struct process *at = process;
	bool kept = false;

	for (size_t steps = 0; at && steps <= processes.count; steps++) {
		if (is_keeper(at->pid) || (at->looked && at->kept)) {
			kept = true;
			break;
		}
		if (at->parent <= 1 || at->looked)
			break;
		at = processes_find(&processes, at->parent);
	}
	process->looked = true;
	process->kept = kept;
	return kept;
}

/* Returns how many there were. */
static size_t kill_unkept(void)
{
	size_t count = 0;

	processes_list(&processes);
	for (size_t i = 0; i < processes.count; i++)
		if (!is_kept(&processes.list[i])) {
			kill(processes.list[i].pid, SIGKILL);
			count++;
		}
	return count;
}

/* Those that are children of ours have to be waited for. Another keeper that ends meanwhile is left to be told of. */
static void reap_unkept(void)
{
	for (size_t i = 0; i < processes.count; i++)
		if (!processes.list[i].kept)
			waitpid(processes.list[i].pid, NULL, WNOHANG);
}

static int end_unkept(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct timespec now, begun;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (int pass = 0;; pass++) {
		if (kill_unkept() == 0)
			return 0;
		reap_unkept();
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - begun.tv_sec > END_S)
			return -1;
		if (pass >= PASSES_AT_ONCE)
			nanosleep(&pause, NULL);
	}
}

/* --- ends --- */

static uint64_t microseconds(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

static void describe_end(const struct report *report, int status, struct agent_message *ret)
{
	ret->type = AGENT_ENDED;
	/* A keeper that was killed, by the code or by keepers_end, has nothing to tell. */
	ret->value = report->ended ? report->status : WIFSIGNALED(status) ? status : SIGKILL;
	ret->cpu_user_us = microseconds(&report->usage.ru_utime);
	ret->cpu_system_us = microseconds(&report->usage.ru_stime);
	ret->memory_peak_bytes = report->memory_peak_bytes;
}

int keepers_reaped(pid_t pid, int status, struct agent_message *ret)
{
	struct keeper *keeper = NULL;
	const struct report *report;

	for (size_t i = 0; i < KEEPERS_MAX; i++)
		if (keepers[i].pid == pid)
			keeper = &keepers[i];
	if (!keeper)
		return 0;
	report = &reports[keeper - keepers];
	keeper->pid = 0;
	if (keeper->file)
		return 0;
	if (end_unkept() < 0)
		return -1;
	memset(ret, 0, sizeof *ret);
	ret->id = keeper->id;
	if (report->failure.errnum) {
		ret->type = report->failure.executing ? AGENT_EXEC_FAILED : AGENT_NOT_STARTED;
		ret->value = report->failure.errnum;
		ret->error = report->failure.error;
	} else {
		describe_end(report, status, ret);
	}
	return 1;
}
