/* SPDX-License-Identifier: MIT */
/*
 * Pid 1 of a sandbox has the same user as the code, and holds what the sandbox is made of: the code must
 * not read, trace, stop or cripple it. The controls do the same to a process of the driver's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static enum outcome trace(int argc, char **argv)
{
	pid_t pid = target_pid(argc, argv);
	enum outcome outcome = refused("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, pid, NULL, NULL));

	if (outcome == ALLOWED)
		return ALLOWED;
	return refused("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
}

/* At an address where nothing is: EFAULT says that the memory could be reached. */
static enum outcome vm_read(int argc, char **argv)
{
	char byte;
	struct iovec mine = {&byte, 1}, its = {(void *)16, 1};

	return refused("process_vm_readv", process_vm_readv(target_pid(argc, argv), &mine, 1, &its, 1, 0));
}

static enum outcome vm_write(int argc, char **argv)
{
	char byte = 0;
	struct iovec mine = {&byte, 1}, its = {(void *)16, 1};

	return refused("process_vm_writev", process_vm_writev(target_pid(argc, argv), &mine, 1, &its, 1, 0));
}

static enum outcome open_of_target(int argc, char **argv, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", target_pid(argc, argv), name);
	return opens(path, flags);
}

static enum outcome open_memory(int argc, char **argv)
{
	return worse(open_of_target(argc, argv, "mem", O_RDONLY), open_of_target(argc, argv, "mem", O_RDWR));
}

/* Their open succeeds where the reading is refused. */
static enum outcome read_of_target(int argc, char **argv, const char *name)
{
	char path[64], buffer[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/%s", target_pid(argc, argv), name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
	if (n <= 0) {
		note("%s: %s", path, n < 0 ? strerror(errno) : "empty");
		return BLOCKED;
	}
	note("%s: %zd bytes read", path, n);
	return ALLOWED;
}

static enum outcome read_environ(int argc, char **argv)
{
	return read_of_target(argc, argv, "environ");
}

static enum outcome read_maps(int argc, char **argv)
{
	return worse(read_of_target(argc, argv, "maps"), read_of_target(argc, argv, "auxv"));
}

static enum outcome open_links(int argc, char **argv)
{
	static const char *const names[] = {"root", "cwd", "exe"};
	enum outcome outcome = BLOCKED;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		outcome = worse(outcome, open_of_target(argc, argv, names[i], O_RDONLY));
	return outcome;
}

static enum outcome list_descriptors(int argc, char **argv)
{
	enum outcome outcome = open_of_target(argc, argv, "fd", O_RDONLY | O_DIRECTORY);
	char name[16];

	for (int fd = 0; fd < 16; fd++) {
		snprintf(name, sizeof name, "fd/%d", fd);
		outcome = worse(outcome, open_of_target(argc, argv, name, O_RDONLY));
	}
	return outcome;
}

static enum outcome take_descriptor(int argc, char **argv)
{
	long pidfd = syscall(SYS_pidfd_open, target_pid(argc, argv), 0);

	if (pidfd < 0)
		return refused("pidfd_open", pidfd);
	return refused("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

static enum outcome compare(int argc, char **argv)
{
	return refused("kcmp", syscall(SYS_kcmp, getpid(), target_pid(argc, argv), KCMP_VM, 0, 0));
}

static enum outcome limit_target(int argc, char **argv)
{
	struct rlimit none = {0, 0};

	return refused("prlimit(RLIMIT_NOFILE, 0)", prlimit(target_pid(argc, argv), RLIMIT_NOFILE, &none, NULL));
}

static enum outcome set_affinity(int argc, char **argv)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof all);
	return refused("sched_setaffinity", sched_setaffinity(target_pid(argc, argv), sizeof all, &all));
}

static enum outcome set_scheduler(int argc, char **argv)
{
	struct sched_param param = {0};
	pid_t pid = target_pid(argc, argv);
	enum outcome outcome = refused("SCHED_IDLE", sched_setscheduler(pid, SCHED_IDLE, &param));

	return worse(outcome, refused("setpriority(19)", setpriority(PRIO_PROCESS, (id_t)pid, 19)));
}

/* The kernel takes the signal and drops it: what counts is that pid 1, and so the sandbox, goes on. */
static enum outcome kill_init(int argc, char **argv)
{
	static const int signals[] = {SIGKILL, SIGSTOP, SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGTSTP, SIGUSR1, SIGCHLD};
	const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		kill(1, signals[i]);
	nanosleep(&pause, NULL);
	if (kill(1, 0) < 0) {
		note("pid 1 is gone: %s", strerror(errno));
		return ALLOWED;
	}
	note("pid 1 is there after every signal");
	return BLOCKED;
}

static enum outcome kill_target(int argc, char **argv)
{
	return refused("kill", kill(target_pid(argc, argv), SIGKILL));
}

/* Signals every process that it can: the driver looks whether one of its own is gone. */
static enum outcome kill_all(int argc, char **argv)
{
	int result = kill(-1, SIGKILL);

	note("kill(-1, SIGKILL): %s", result < 0 ? strerror(errno) : "sent");
	return BLOCKED;
}

/* A process group of the host's is reached by kill(0), whatever the pid namespace: the driver looks, as above. */
static enum outcome kill_group(int argc, char **argv)
{
	signal(SIGTERM, SIG_IGN);
	note("group %d, session %d", getpgrp(), getsid(0));
	note("kill(0, SIGTERM): %s", kill(0, SIGTERM) < 0 ? strerror(errno) : "sent");
	return BLOCKED;
}

static enum outcome foreign_group(int argc, char **argv)
{
	note("group %d, session %d", getpgrp(), getsid(0));
	return getpgrp() == 0 || getsid(0) == 0 ? ALLOWED : BLOCKED;
}

static enum outcome raise_capabilities(int argc, char **argv)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{.effective = 1U << CAP_SYS_ADMIN, .permitted = 1U << CAP_SYS_ADMIN}};

	return refused("capset(CAP_SYS_ADMIN)", syscall(SYS_capset, &header, data));
}

static enum outcome raise_limits(int argc, char **argv)
{
	struct rlimit limit = {100, 100};

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		note("lowering it: %s", strerror(errno));
		return UNCLEAR;
	}
	limit.rlim_max++;
	return refused("raising it by one", setrlimit(RLIMIT_NOFILE, &limit));
}

#ifdef __x86_64__
/* The child stops at the entry of a harmless call; the tracer makes another one of it. */
static enum outcome exchange_call(pid_t child)
{
	struct user_regs_struct registers;

	waitpid(child, NULL, 0);
	ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	waitpid(child, NULL, 0);
	if (ptrace(PTRACE_GETREGS, child, NULL, &registers) < 0)
		return refused("PTRACE_GETREGS", -1);
	registers.orig_rax = SYS_unshare;
	registers.rdi = CLONE_NEWUSER;
	ptrace(PTRACE_SETREGS, child, NULL, &registers);
	ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	waitpid(child, NULL, 0);
	ptrace(PTRACE_GETREGS, child, NULL, &registers);
	errno = -(int)registers.rax;
	return refused("unshare by way of a tracer", (long)registers.rax < 0 ? -1 : 0);
}

static enum outcome trace_around_filter(int argc, char **argv)
{
	enum outcome outcome;
	pid_t child = fork();

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(0);
		raise(SIGSTOP);
		for (;;)
			syscall(SYS_getppid);
	}
	outcome = exchange_call(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return outcome;
}
#endif

const struct probe process_probes[] = {
	{"trace-init", "trace pid 1", CONTROL_TARGET, trace},
	{"vm-read-init", "read the memory of pid 1", CONTROL_TARGET, vm_read},
	{"vm-write-init", "write the memory of pid 1", CONTROL_TARGET, vm_write},
	{"mem-init", "open /proc/1/mem", CONTROL_TARGET, open_memory},
	{"environ-init", "read /proc/1/environ", CONTROL_TARGET, read_environ},
	{"maps-init", "read /proc/1/maps and auxv", CONTROL_TARGET, read_maps},
	{"links-init", "open /proc/1/root, cwd, exe", CONTROL_TARGET, open_links},
	{"fd-init", "open the descriptors of pid 1", CONTROL_TARGET, list_descriptors},
	{"getfd-init", "take a descriptor from pid 1", CONTROL_TARGET, take_descriptor},
	{"kcmp-init", "compare itself with pid 1", CONTROL_TARGET, compare},
	{"prlimit-init", "set a limit of pid 1", CONTROL_TARGET, limit_target},
	{"affinity-init", "set the affinity of pid 1", CONTROL_TARGET, set_affinity},
	{"scheduler-init", "set the scheduling of pid 1", CONTROL_TARGET, set_scheduler},
	{"kill-init", "kill or stop pid 1", CONTROL_NONE, kill_init},
	{"@kill-all", "signal every process", CONTROL_NONE, kill_all},
	{"@kill-group", "signal its own process group", CONTROL_NONE, kill_group},
	{"@kill", "signal a process", CONTROL_TARGET, kill_target},
	{"own-group", "be in a process group or session of the host's", CONTROL_NONE, foreign_group},
	{"capset", "give itself a capability", CONTROL_ADMIN, raise_capabilities},
	{"raise-limits", "raise a hard limit", CONTROL_ROOT, raise_limits},
#ifdef __x86_64__
	{"trace-around-filter", "change a system call after the filter has seen it", CONTROL_PLAIN, trace_around_filter},
#endif
	{0},
};
