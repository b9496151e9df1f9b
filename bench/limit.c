/* SPDX-License-Identifier: MIT */
/*
 * The limit: what a sandbox costs the kernel, with next to nothing on top.
 *
 *     limit rootfs DIR[:DIR …] COMMAND [ARG …]    several are layers, the topmost first
 *     limit host COMMAND [ARG …]
 *
 * Makes what `nsbox run --rootfs DIR` and `nsbox run` make (the same seven namespaces, ids, mounts,
 * files, masks, capability sets and filter, pid 1 and a command below it) with the fewest system calls
 * that we know for it, and without what nsbox is there for: no options, no limits but those of the
 * tmpfs, no checks of the tree, no diagnosis, no agent that serves requests, no usage, no signals, no
 * standard descriptors classed. So it is a yardstick, not a sandbox to use. bench/run -v lists its
 * mounts beside nsbox's.
 *
 * As root: a range of 65536 ids and idmapped lowers. As an ordinary user: the single id.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/hostroot.h"
#include "seccomp/profile.h"

/* Of mount(2), in place of <sys/mount.h>, which cannot be included together with <linux/mount.h> before glibc 2.37. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);

enum {
	NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
	ID_FIRST = 0x6fff0000, /* just below what nsbox gives out */
	ID_COUNT = 65536,
	RESTRICTED = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
	LOWERS_MAX = 128,
	LOWER_NAME = 24,
};

static const char scratch_options[] = "size=256m,nr_inodes=65536,mode=0755";

static void check(long result, const char *what)
{
	if (result < 0)
		err(125, "%s", what);
}

/* --- mounts --- */

static void restrict_mount(const char *path, uint64_t attributes)
{
	struct mount_attr attr = { .attr_set = attributes };

	check(syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr), path);
}

static void bind_mount(const char *source, const char *target, uint64_t attributes)
{
	check(mount(source, target, NULL, MS_BIND | MS_REC, NULL), source);
	restrict_mount(target, attributes);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	check(fd, path);
	check(write(fd, text, strlen(text)), path);
	close(fd);
}

static void make_directory(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		err(125, "%s", path);
}

static void mount_proc(void)
{
	static const char *const masked[] = { "proc/acpi", "proc/asound", "proc/bus", "proc/driver", "proc/fs", "proc/irq",
		"proc/scsi", "proc/config.gz", "proc/interrupts", "proc/kallsyms", "proc/kcore", "proc/keys", "proc/key-users",
		"proc/kpagecount", "proc/latency_stats", "proc/sched_debug", "proc/sysrq-trigger", "proc/timer_list",
		"proc/timer_stats" };
	const char *empty = NULL, *null = NULL;
	struct stat st;

	check(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
	write_file("proc/sys/user/max_user_namespaces", "0");
	write_file("proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	bind_mount("proc/sys", "proc/sys", MOUNT_ATTR_RDONLY | RESTRICTED | MOUNT_ATTR_NOEXEC);
	for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
		const char *path = masked[i];

		if (lstat(path, &st) < 0 || !(st.st_mode & 077))
			continue;
		/* A bind has the attributes of what it is a bind of: only the first of each sort needs any set. */
		if (S_ISDIR(st.st_mode) && empty) {
			check(mount(empty, path, NULL, MS_BIND, NULL), path);
		} else if (S_ISDIR(st.st_mode)) {
			check(mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=0555"), path);
			empty = path;
		} else if (null) {
			check(mount(null, path, NULL, MS_BIND, NULL), path);
		} else {
			bind_mount("/dev/null", path, MOUNT_ATTR_RDONLY | RESTRICTED | MOUNT_ATTR_NOEXEC);
			null = path;
		}
	}
}

static void fill_dev(void)
{
	static const char *const devices[] = { "null", "zero", "full", "random", "urandom", "tty" };
	static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" }, { "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" }, { "pts/ptmx", "dev/ptmx" } };
	char source[32];

	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
		snprintf(source, sizeof source, "/dev/%s", devices[i]);
		write_file(source + 1, "");
		bind_mount(source, source + 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	}
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		check(symlink(links[i][0], links[i][1]), links[i][1]);
	make_directory("dev/pts", 0755);
	make_directory("dev/shm", 01777);
	check(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=64"), "devpts");
}

static void write_network_names(void)
{
	write_file("etc/hosts", "127.0.0.1\tlocalhost nsbox\n::1\tlocalhost ip6-localhost nsbox\n");
	write_file("etc/hostname", "nsbox\n");
	write_file("etc/resolv.conf", "");
}

/* The scratch tmpfs becomes the working directory. «/..» is where a lookup meets what is mounted on the root. */
static void enter_scratch(void)
{
	check(mount("tmpfs", "/", "tmpfs", MS_NOSUID | MS_NODEV, scratch_options), "tmpfs");
	check(chdir("/.."), "tmpfs");
}

/* A lower, mounted. A descriptor is root's, of a tree that has been idmapped. */
static void attach_lower(const char *dir, int lower, const char *name)
{
	make_directory(name, 0755);
	if (lower < 0)
		bind_mount(dir, name, MOUNT_ATTR_RDONLY | RESTRICTED);
	else
		check(syscall(SYS_move_mount, lower, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH), name);
}

static void make_overlay_root(char *const *dirs, const int *lowers)
{
	char options[LOWERS_MAX * LOWER_NAME + 64] = "upperdir=upper,workdir=work,userxattr,lowerdir", name[LOWER_NAME];

	enter_scratch();
	make_directory("upper", 0755);
	make_directory("work", 0755);
	make_directory("root", 0755);
	make_directory("dev", 0755);
	for (size_t i = 0; dirs[i]; i++) {
		snprintf(name, sizeof name, "l%zu", i);
		attach_lower(dirs[i], lowers[i], name);
		strcat(strcat(options, i == 0 ? "=" : ":"), name);
	}
	check(mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options), "overlay");
	check(mount("dev", "root/dev", NULL, MS_BIND, NULL), "dev");
	check(chdir("root"), "root");
	make_directory("proc", 0555);
	make_directory("tmp", 01777);
	make_directory("etc", 0755);
	write_network_names();
}

static void show(const char *path)
{
	char target[256];
	struct stat st;

	if (lstat(path, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlink(path, target, sizeof target - 1);

		check(n, path);
		target[n] = '\0';
		check(symlink(target, path + 1), path);
		return;
	}
	if (S_ISDIR(st.st_mode))
		make_directory(path + 1, 0755);
	else
		write_file(path + 1, "");
	bind_mount(path, path + 1, MOUNT_ATTR_RDONLY | RESTRICTED);
}

static void make_host_root(void)
{
	char path[256];

	enter_scratch();
	for (const char *const *name = hostroot_directories; *name; name++) {
		snprintf(path, sizeof path, "/%s", *name);
		show(path);
	}
	make_directory("etc", 0755);
	for (const char *const *name = hostroot_etc; *name; name++) {
		snprintf(path, sizeof path, "/etc/%s", *name);
		if (access(path, F_OK) < 0)
			continue;
		for (char *slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
			*slash = '\0';
			make_directory(path + 1, 0755);
			*slash = '/';
		}
		show(path);
	}
	write_file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
	write_file("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n");
	write_file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
	write_network_names();
	make_directory("proc", 0555);
	make_directory("dev", 0755);
	make_directory("var", 0755);
	make_directory("var/tmp", 01777);
	make_directory("run", 0755);
	make_directory("tmp", 01777);
}

/* --- the child --- */

static void start_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	check(fd, "socket");
	check(ioctl(fd, SIOCSIFFLAGS, &request), "lo");
	close(fd);
}

static void drop_rights(const struct builtin_filter *filter)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct sock_fprog program = { .len = (unsigned short)filter->length, .filter = (struct sock_filter *)filter->instructions };
	struct rlimit zero = { 0, 0 };

	check(setrlimit(RLIMIT_CORE, &zero), "RLIMIT_CORE");
	check(setrlimit(RLIMIT_MSGQUEUE, &zero), "RLIMIT_MSGQUEUE");
	check(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
		SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED), "securebits");
	check(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities");
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	check(syscall(SYS_capset, &header, none), "capset");
	check(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable");
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp");
}

static void take_ids(bool root, int socket, uid_t uid, gid_t gid)
{
	char text[32];

	if (!root) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		write_file("/proc/self/setgroups", "deny");
		snprintf(text, sizeof text, "0 %u 1", uid);
		write_file("/proc/self/uid_map", text);
		snprintf(text, sizeof text, "0 %u 1", gid);
		write_file("/proc/self/gid_map", text);
		return;
	}
	if (read(socket, text, 1) != 1)
		_exit(125);
	check(syscall(SYS_setgroups, 0, NULL), "setgroups");
	check(syscall(SYS_setresgid, 0, 0, 0), "setresgid");
	check(syscall(SYS_setresuid, 0, 0, 0), "setresuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void run_command(int socket, char **argv)
{
	char *env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	pid_t pid = vfork();
	int status = 125 << 8;

	if (pid == 0) {
		execve(argv[0], argv, env);
		_exit(127);
	}
	while (wait(&status) != pid && errno != ECHILD)
		;
	check(write(socket, &status, sizeof status), "reporting");
}

static void child(char *const *dirs, char **argv, int socket, const int *lowers, uid_t uid, gid_t gid)
{
	const struct builtin_filter *filter = builtin_filter_find("default", true);
	bool overlay = dirs[0];

	write_file("/proc/self/oom_score_adj", "500");
	take_ids(uid == 0, socket, uid, gid);
	umask(0);
	if (overlay)
		make_overlay_root(dirs, lowers);
	else
		make_host_root();
	make_directory("root", 0755);
	make_directory("workspace", 0755);
	mount_proc();
	fill_dev();
	start_loopback();
	check(sethostname("nsbox", 5), "sethostname");
	check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	check(umount2(".", 2 /* MNT_DETACH */), "umount");
	/* With an overlay, the scratch mount lay on top of the old root. */
	if (overlay)
		check(umount2(".", 2 /* MNT_DETACH */), "umount");
	check(chdir(overlay ? "/" : "/workspace"), "chdir");
	umask(022);
	drop_rights(filter);
	run_command(socket, argv);
	_exit(0);
}

/* --- the parent --- */

static void write_maps(pid_t pid)
{
	char path[32], text[32];

	snprintf(text, sizeof text, "0 %u %u", (unsigned)ID_FIRST, (unsigned)ID_COUNT);
	snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
	write_file(path, text);
	path[6 + strcspn(path + 6, "/") + 1] = 'g';
	write_file(path, text);
}

static void map_lowers(pid_t pid, const int *lowers)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | RESTRICTED };
	char path[32];
	int namespace;

	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	check(namespace, path);
	attr.userns_fd = (uint64_t)namespace;
	for (size_t i = 0; lowers[i] >= 0; i++)
		check(syscall(SYS_mount_setattr, lowers[i], "", AT_EMPTY_PATH, &attr, sizeof attr), "idmapping a lower");
	close(namespace);
}

static int clone_tree(const char *dir)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	check(fd, dir);
	return fd;
}

/* The directories of «DIR:DIR», which it takes apart. */
static void split(char *list, char *ret[LOWERS_MAX + 1])
{
	size_t count = 0;

	for (char *dir = strtok(list, ":"); dir; dir = strtok(NULL, ":")) {
		if (count == LOWERS_MAX)
			errx(125, "more than %d layers", LOWERS_MAX);
		ret[count++] = dir;
	}
}

int main(int argc, char **argv)
{
	bool rootfs = argc > 3 && strcmp(argv[1], "rootfs") == 0;
	char *dirs[LOWERS_MAX + 1] = { NULL };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int pidfd = -1, lowers[LOWERS_MAX + 1], sockets[2], status = 125 << 8;
	struct clone_args args = { .flags = NAMESPACES | CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD };
	pid_t pid;

	if (!rootfs && (argc < 3 || strcmp(argv[1], "host") != 0))
		errx(125, "usage: limit rootfs DIR[:DIR …] COMMAND … | limit host COMMAND …");
	if (rootfs)
		split(argv[2], dirs);
	for (size_t i = 0; i <= LOWERS_MAX; i++)
		lowers[i] = uid == 0 && dirs[i] ? clone_tree(dirs[i]) : -1;
	check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "socketpair");
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	check(pid, "clone3");
	if (pid == 0)
		child(dirs, argv + (rootfs ? 3 : 2), sockets[1], lowers, uid, gid);
	close(sockets[1]);
	if (uid == 0) {
		write_maps(pid);
		if (rootfs)
			map_lowers(pid, lowers);
		check(write(sockets[0], "", 1), "going on");
	}
	if (read(sockets[0], &status, sizeof status) != sizeof status)
		status = 125 << 8;
	waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){ 0 }, WEXITED);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
