/* SPDX-License-Identifier: MIT */
/* /proc and /dev of a sandbox: see procfs.h. */
#define _GNU_SOURCE
#include "sandbox/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox/diagnose.h"
#include "sandbox/mounts.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

/* What is masked where it is there and open to others; directories are covered by an empty one, files by /dev/null. */
static const char *const masked[] = {
	"acpi",
	"asound",
	"bus",
	"driver",
	"fs",
	"irq",
	"scsi",
	"config.gz",
	"interrupts",
	"kallsyms",
	"kcore",
	"keys",
	"key-users",
	"kpagecount",
	"latency_stats",
	"sched_debug",
	"sysrq-trigger",
	"timer_list",
	"timer_stats",
	NULL,
};

/*
 * Sysctls of the new namespaces. The absence or refusal of one weakens nothing that the filter and the dropped
 * capabilities do not hold too, so a kernel without one of them is no error.
 */
static int set_namespace_sysctls(int proc, enum network_kind network, struct error *err)
{
	static const struct {
		const char *name, *value;
		unsigned networks; /* in which it is the sandbox's own; 0: always */
	} sysctls[] = {
		{"user/max_user_namespaces", "0", 0},
		/* System V semaphores and messages are kernel memory that no one counts without a cgroup. */
		{"kernel/sem", "250 32000 100 128", 0},
		{"kernel/msgmni", "128", 0},
		{"net/ipv4/ip_unprivileged_port_start", "0", 1U << NETWORK_NONE | 1U << NETWORK_ALLOW | 1U << NETWORK_PASTA},
		/*
		 * All connections there are over the loopback interface, which loses nothing: what the host may have in its
		 * place, BBR's timers above all, takes close to half of what it carries.
		 */
		{"net/ipv4/tcp_congestion_control", "reno", 1U << NETWORK_NONE | 1U << NETWORK_ALLOW},
	};
	char path[64];

	for (size_t i = 0; i < sizeof sysctls / sizeof *sysctls; i++) {
		if (sysctls[i].networks && !(sysctls[i].networks & 1U << network))
			continue;
		snprintf(path, sizeof path, "sys/%s", sysctls[i].name);
		if (write_small_file(proc, path, sysctls[i].value) == 0 || errno == ENOENT ||
			errno == EACCES || errno == EPERM || errno == EROFS)
			continue;
		return error_set(err, errno, "writing %s to /proc/%s", sysctls[i].value, path);
	}
	return 0;
}

static int new_proc(struct error *err)
{
	cleanup_close int fs = sys_fsopen("proc");
	int tree;

	if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_set(err, errno, "creating a new proc");
	tree = sys_fsmount(fs, TREE_NO_DEV_SUID | MOUNT_ATTR_NOEXEC);
	if (tree < 0) {
		error_set(err, errno, "mounting a new proc on /proc");
		diagnose_proc(err);
		return -1;
	}
	return tree;
}

static int bind_over(
	int dir, const char *name, int source_dir, const char *source, struct error *err)
{
	cleanup_close int tree = tree_clone(
		source_dir, source, false, TREE_READ_ONLY | TREE_NO_DEV_SUID | MOUNT_ATTR_NOEXEC);

	if (tree < 0 || tree_attach(tree, dir, name) < 0)
		return error_set(err, errno, "masking /proc/%s", name);
	return 0;
}

static int mask(int proc, struct error *err)
{
	cleanup_close int empty = -1;
	struct stat st;

	for (const char *const *name = masked; *name; name++) {
		if (fstatat(proc, *name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return error_set(err, errno, "looking at /proc/%s", *name);
		}
		if (!(st.st_mode & 077))
			continue;
		if (!S_ISDIR(st.st_mode)) {
			if (bind_over(proc, *name, AT_FDCWD, "/dev/null", err) < 0)
				return -1;
			continue;
		}
		/* One empty file system serves all directories, each through a clone of its own. */
		if (empty >= 0) {
			if (bind_over(proc, *name, empty, "", err) < 0)
				return -1;
			continue;
		}
		empty = tree_tmpfs(4096, 2, "0555",
			TREE_READ_ONLY | TREE_NO_DEV_SUID | MOUNT_ATTR_NOEXEC, err);
		if (empty < 0)
			return -1;
		if (tree_attach(empty, proc, *name) < 0)
			return error_set(err, errno, "masking /proc/%s", *name);
	}
	return 0;
}

int procfs_mount(int root, enum network_kind network, struct error *err)
{
	cleanup_close int proc = new_proc(err);

	if (proc < 0)
		return -1;
	if (tree_attach(proc, root, "proc") < 0)
		return error_set(err, errno, "mounting a new proc on /proc");
	if (set_namespace_sysctls(proc, network, err) < 0 ||
		bind_over(proc, "sys", proc, "sys", err) < 0 || mask(proc, err) < 0)
		return -1;
	return move_fd(&proc);
}

static int bind_device(
	int dev, const char *name, unsigned major_number, unsigned minor_number, struct error *err)
{
	cleanup_close int tree = -1;
	char source[32];
	struct stat st;

	snprintf(source, sizeof source, "/dev/%s", name);
	tree = tree_clone(AT_FDCWD, source, false, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (tree < 0 || fstat(tree, &st) < 0)
		return error_set(err, errno, "cloning the mount of %s", source);
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(major_number, minor_number))
		return error_set(err, 0, "%s is not the character device %u:%u", source,
			major_number, minor_number);
	if (mknodat(dev, name, S_IFREG | 0644, 0) < 0 && errno != EEXIST)
		return error_set(err, errno, "making /dev/%s inside", name);
	if (tree_attach(tree, dev, name) < 0)
		return error_set(err, errno, "mounting /dev/%s", name);
	return 0;
}

/*
 * The instance is the sandbox's own, so neither the host's terminals nor another sandbox's are in it.
 * gid= is left out: the group tty need not be mapped, and a name space with one id refuses it.
 */
static int mount_devpts(int dev, struct error *err)
{
	cleanup_close int fs = sys_fsopen("devpts");
	cleanup_close int tree = -1;

	if (fs < 0 || sys_fsconfig(fs, FSCONFIG_SET_FLAG, "newinstance", NULL, 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0666", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0620", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_STRING, "max", "64", 0) < 0 ||
		sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_set(err, errno, "creating a devpts");
	tree = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (tree < 0 || tree_attach(tree, dev, "pts") < 0)
		return error_set(err, errno, "mounting a devpts on /dev/pts");
	return 0;
}

int devfs_fill(int dev, struct error *err)
{
	static const struct {
		const char *name;
		unsigned major_number, minor_number;
	} devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8},
		{"urandom", 1, 9}, {"tty", 5, 0}};
	static const struct {
		const char *name, *target;
	} links[] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};

	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
		if (bind_device(dev, devices[i].name, devices[i].major_number,
			    devices[i].minor_number, err) < 0)
			return -1;
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (symlinkat(links[i].target, dev, links[i].name) < 0 && errno != EEXIST)
			return error_set(err, errno, "making the link /dev/%s", links[i].name);
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ||
		fchmodat(dev, "shm", 01777, 0) < 0)
		return error_set(err, errno, "making /dev/pts and /dev/shm");
	return mount_devpts(dev, err);
}
