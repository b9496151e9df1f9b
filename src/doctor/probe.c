/* SPDX-License-Identifier: MIT */
/* Attempts at what a sandbox needs of the kernel: see probe.h. */
#define _GNU_SOURCE
#include "doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/diagnose.h"
#include "sandbox/idmap.h"
#include "sandbox/mounts.h"
#include "seccomp/profile.h"
#include "util/cleanup.h"
#include "util/file.h"

enum {
	ALL_NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
};

static int refused(struct error *err, const char *what)
{
	int errnum = errno;

	error_set(err, errnum, "%s", what);
	diagnose_namespaces(errnum, err);
	return -1;
}

/* --- in the child --- */

static int attempt_tmpfs(int *ret_tree, struct error *err)
{
	cleanup_close int tree = tree_tmpfs(1 << 20, 64, "0755", TREE_NO_DEV_SUID, err);

	if (tree < 0) {
		diagnose_namespaces(err->errnum, err);
		return -1;
	}
	if (tree_attach(tree, AT_FDCWD, "/") < 0)
		return refused(err, "mounting a tmpfs");
	*ret_tree = move_fd(&tree);
	return 0;
}

/* In the working directory, a tmpfs: lower/removed is what the next attempt removes. */
static int attempt_overlay(struct error *err)
{
	cleanup_close int fs = -1, tree = -1;

	if (mkdir("lower", 0755) < 0 || mkdir("lower/removed", 0755) < 0 || mkdir("upper", 0755) < 0 || mkdir("work", 0755) < 0 ||
		mkdir("root", 0755) < 0)
		return error_set(err, errno, "making directories on a tmpfs");
	fs = sys_fsopen("overlay");
	if (fs < 0)
		return error_set(err, errno, "overlayfs");
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", "lower", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", "upper", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", "work", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_set(err, errno, "creating an overlay on a tmpfs");
	tree = sys_fsmount(fs, TREE_NO_DEV_SUID);
	if (tree < 0 || tree_attach(tree, AT_FDCWD, "root") < 0)
		return error_set(err, errno, "mounting an overlay");
	return 0;
}

static int attempt_opaque(struct error *err)
{
	if (rmdir("root/removed") < 0)
		return error_set(err, errno, "removing a directory of the lower tree");
	if (mkdir("root/removed", 0755) < 0)
		return error_set(err, errno, "making a directory again that was removed");
	return 0;
}

static int attempt_proc(struct error *err)
{
	cleanup_close int fs = sys_fsopen("proc");
	cleanup_close int tree = -1;

	if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_set(err, errno, "creating a new proc");
	tree = sys_fsmount(fs, TREE_NO_DEV_SUID | MOUNT_ATTR_NOEXEC);
	if (tree < 0) {
		error_set(err, errno, "mounting a new proc");
		diagnose_proc(err);
		return -1;
	}
	return 0;
}

static int attempt_filter(struct error *err)
{
	const struct builtin_filter *filter = builtin_filter_find("default", true);
	struct sock_fprog program;

	if (!filter)
		return error_set(err, 0, "there is no built-in filter");
	program = (struct sock_fprog){ .len = (unsigned short)filter->length, .filter = (struct sock_filter *)filter->instructions };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
		error_set(err, errno, "loading the seccomp filter");
		return error_hint(err, "boot a kernel with CONFIG_SECCOMP_FILTER, as distributions have it");
	}
	return 0;
}

static void note(struct attempt_result *result, int status)
{
	result->made = true;
	result->ok = status == 0;
}

static void attempt_all(struct attempt_result *results)
{
	cleanup_close int tree = -1;

	note(&results[ATTEMPT_TMPFS], attempt_tmpfs(&tree, &results[ATTEMPT_TMPFS].error));
	if (results[ATTEMPT_TMPFS].ok && fchdir(tree) == 0)
		note(&results[ATTEMPT_OVERLAY], attempt_overlay(&results[ATTEMPT_OVERLAY].error));
	if (results[ATTEMPT_OVERLAY].ok)
		note(&results[ATTEMPT_OPAQUE], attempt_opaque(&results[ATTEMPT_OPAQUE].error));
	if (results[ATTEMPT_TMPFS].ok)
		note(&results[ATTEMPT_PROC], attempt_proc(&results[ATTEMPT_PROC].error));
	note(&results[ATTEMPT_FILTER], attempt_filter(&results[ATTEMPT_FILTER].error));
}

_Noreturn static void child_main(const struct idmap *idmap, int go, int report)
{
	static struct attempt_result results[ATTEMPT_MAX];
	struct attempt_result *ids = &results[ATTEMPT_NAMESPACES];
	int status;
	char byte;

	if (idmap->by_parent) {
		if (read(go, &byte, 1) != 1)
			_exit(1); /* the parent could not write the maps, and knows why */
		status = idmap_become(idmap, &ids->error);
	} else {
		status = idmap_write_own(idmap, &ids->error);
	}
	note(ids, status);
	if (status == 0)
		attempt_all(results);
	if (write_whole(report, results, sizeof results) < 0)
		_exit(1);
	_exit(0);
}

/* --- in the parent --- */

/* All of the results, or none where the child died before it could report. */
static int read_results(int fd, struct attempt_result ret[ATTEMPT_MAX])
{
	size_t have = 0, size = sizeof(struct attempt_result) * ATTEMPT_MAX;

	while (have < size) {
		ssize_t n = read(fd, (char *)ret + have, size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		have += (size_t)n;
	}
	return 0;
}

static int converse(const struct idmap *idmap, pid_t pid, int go, int report, struct attempt_result ret[ATTEMPT_MAX])
{
	struct error *err = &ret[ATTEMPT_NAMESPACES].error;

	if (idmap->by_parent) {
		if (idmap_write_for(idmap, pid, err) < 0)
			return -1;
		if (write(go, "", 1) != 1)
			return error_set(err, errno, "speaking to a process in new namespaces");
	}
	if (read_results(report, ret) < 0)
		return error_set(err, 0, "a process in new namespaces ended without a report");
	return 0;
}

void probe_kernel(const struct idmap *idmap, struct attempt_result ret[ATTEMPT_MAX])
{
	struct clone_args args = { .flags = ALL_NAMESPACES, .exit_signal = SIGCHLD };
	int go[2], report[2];
	pid_t pid;

	memset(ret, 0, sizeof *ret * ATTEMPT_MAX);
	ret[ATTEMPT_NAMESPACES].made = true;
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0) {
		error_set(&ret[ATTEMPT_NAMESPACES].error, errno, "making a pipe");
		return;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0) {
		close(go[1]);
		close(report[0]);
		child_main(idmap, go[0], report[1]);
	}
	if (pid < 0)
		refused(&ret[ATTEMPT_NAMESPACES].error, "creating the namespaces of a sandbox");
	close(go[0]);
	close(report[1]);
	if (pid > 0 && converse(idmap, pid, go[1], report[0], ret) < 0)
		ret[ATTEMPT_NAMESPACES].ok = false;
	close(go[1]);
	close(report[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The type of the file system that the descriptor is on («ext4»), from mountinfo. */
static void file_system_type(int fd, char *ret, size_t size)
{
	cleanup_fclose FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096], type[64];
	struct stat st;

	snprintf(ret, size, "its file system");
	if (!file || fstat(fd, &st) < 0)
		return;
	while (fgets(line, sizeof line, file)) {
		unsigned major_number, minor_number;
		const char *dash = strstr(line, " - ");

		if (!dash || sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2 || sscanf(dash, " - %63s", type) != 1 ||
			makedev(major_number, minor_number) != st.st_dev)
			continue;
		snprintf(ret, size, "%s", type);
		return;
	}
}

int probe_idmapped_mount(const struct idmap *idmap, const char *path, struct error *err)
{
	cleanup_close int namespace = -1, tree = -1;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	char type[64];

	tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return error_set(err, errno, "cloning the mount of %s", path);
	namespace = idmap_open_bind_namespace(idmap, false, err);
	if (namespace < 0)
		return -1;
	attr.userns_fd = (uint64_t)namespace;
	if (sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) == 0)
		return 0;
	file_system_type(tree, type, sizeof type);
	return error_set(err, errno, "%s, on which %s is, cannot be idmapped", type, path);
}
