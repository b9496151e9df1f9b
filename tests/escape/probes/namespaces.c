/* SPDX-License-Identifier: MIT */
/* Namespaces: none can be made, and none be entered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static const struct {
	const char *name;
	unsigned long flag;
} kinds[] = {
	{"mnt", CLONE_NEWNS},
	{"uts", CLONE_NEWUTS},
	{"ipc", CLONE_NEWIPC},
	{"net", CLONE_NEWNET},
	{"pid", CLONE_NEWPID},
	{"cgroup", CLONE_NEWCGROUP},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Ends the new process, if there is one. */
static enum outcome made_process(const char *what, long pid)
{
	enum outcome outcome;

	if (pid == 0)
		_exit(0);
	outcome = refused(what, pid);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
	return outcome;
}

static enum outcome clone_newuser(int argc, char **argv)
{
	return made_process("clone(CLONE_NEWUSER)", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

static enum outcome clone_high_bits(int argc, char **argv)
{
	return made_process("clone(CLONE_NEWUSER and bit 40)",
		syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD | 1UL << 40, 0, 0, 0, 0));
}

static enum outcome clone3_newuser(int argc, char **argv)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};

	return made_process("clone3(CLONE_NEWUSER)", syscall(SYS_clone3, &args, sizeof args));
}

static enum outcome unshare_newuser(int argc, char **argv)
{
	return refused("unshare(CLONE_NEWUSER)", syscall(SYS_unshare, CLONE_NEWUSER));
}

static enum outcome unshare_others(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;

	for (int i = 0; i < KINDS; i++)
		outcome = worse(outcome, refused(kinds[i].name, syscall(SYS_unshare, kinds[i].flag)));
	return outcome;
}

/* By clone, each alone: the user namespace is not the only one that must not be made. */
static enum outcome clone_others(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;

	for (int i = 0; i < KINDS; i++)
		outcome = worse(outcome,
			made_process(kinds[i].name, syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0)));
	return outcome;
}

/* All namespaces of pid 1 at once, through a descriptor of the process. */
static enum outcome setns_process(int argc, char **argv)
{
	int fd = (int)syscall(SYS_pidfd_open, target_pid(argc, argv), 0);

	if (fd < 0)
		return refused("pidfd_open", fd);
	return refused("setns on a process", syscall(SYS_setns, fd, CLONE_NEWUTS | CLONE_NEWIPC));
}

static enum outcome setns_own(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char path[64];

	for (int i = 0; i < KINDS; i++) {
		int fd;

		snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		outcome = worse(outcome, refused(path, syscall(SYS_setns, fd, kinds[i].flag)));
		close(fd);
	}
	return outcome;
}

static enum outcome open_target_namespaces(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char path[64];

	for (int i = 0; i < KINDS; i++) {
		snprintf(path, sizeof path, "/proc/%d/ns/%s", target_pid(argc, argv), kinds[i].name);
		outcome = worse(outcome, opens(path, O_RDONLY));
	}
	return outcome;
}

/* From the sandbox's user namespace up to the host's. */
static enum outcome parent_namespace(int argc, char **argv)
{
	int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	int parent;

	if (fd < 0) {
		note("/proc/self/ns/user: %s", strerror(errno));
		return BLOCKED;
	}
	parent = ioctl(fd, NS_GET_PARENT);
	return refused("NS_GET_PARENT of the user namespace", parent);
}

static enum outcome write_uid_map(int argc, char **argv)
{
	int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);

	if (fd < 0) {
		note("/proc/self/uid_map: %s", strerror(errno));
		return BLOCKED;
	}
	return refused("writing «0 0 1» into uid_map", write(fd, "0 0 1\n", 6));
}

static enum outcome set_hostname(int argc, char **argv)
{
	return refused("sethostname", sethostname("escaped", 7));
}

const struct probe namespace_probes[] = {
	{"clone-newuser", "clone a process in a user namespace of its own", CONTROL_PLAIN, clone_newuser},
	{"clone-high-bits", "the same with a bit above the 32 that clone looks at", CONTROL_PLAIN, clone_high_bits},
	{"clone3-newuser", "the same with clone3, whose flags no filter sees", CONTROL_PLAIN, clone3_newuser},
	{"unshare-newuser", "unshare the user namespace", CONTROL_PLAIN, unshare_newuser},
	{"unshare-others", "unshare any other namespace", CONTROL_ADMIN, unshare_others},
	{"clone-others", "clone a process in any other new namespace", CONTROL_ADMIN, clone_others},
	{"setns-process", "enter the namespaces of pid 1", CONTROL_ADMIN, setns_process},
	{"setns-own", "setns to its own namespaces", CONTROL_ADMIN, setns_own},
	{"open-namespaces", "open the namespaces of pid 1", CONTROL_TARGET, open_target_namespaces},
	{"parent-namespace", "ask for the parent of its user namespace", CONTROL_NONE, parent_namespace},
	{"uid-map", "write the map of its user namespace", CONTROL_NONE, write_uid_map},
	{"hostname", "set the name of the host", CONTROL_ADMIN, set_hostname},
	{0},
};
