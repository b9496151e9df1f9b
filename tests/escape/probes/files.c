/* SPDX-License-Identifier: MIT */
/* Files of the host, of the kernel and of devices; descriptors that lead to them; what pid 1 shows of its creator. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe.h"

enum { MEMORY_MAJOR = 1, MEMORY_MINOR = 1, DISK_MAJOR = 254 };

static enum outcome make_device(const char *what, mode_t type, dev_t device)
{
	enum outcome outcome;
	char path[64];

	snprintf(path, sizeof path, "/tmp/nsbox-probe.%d", getpid());
	outcome = refused(what, mknod(path, type | 0600, device));
	unlink(path);
	return outcome;
}

static enum outcome make_devices(int argc, char **argv)
{
	enum outcome outcome = make_device("mknod c 1 1 (memory)", S_IFCHR, makedev(MEMORY_MAJOR, MEMORY_MINOR));

	return worse(outcome, make_device("mknod b 254 0 (disk)", S_IFBLK, makedev(DISK_MAJOR, 0)));
}

static bool is_expected_in_dev(const char *name)
{
	static const char *const names[] = {".", "..", "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts",
		"shm", "fd", "stdin", "stdout", "stderr", "console", "mqueue"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static enum outcome other_devices(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	DIR *directory = opendir("/dev");
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (!is_expected_in_dev(entry->d_name)) {
			note("/dev/%s is there", entry->d_name);
			outcome = ALLOWED;
		}
	if (directory)
		closedir(directory);
	return outcome;
}

/* A file without a name, so that the control leaves none. */
static enum outcome write_to(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0) {
		note("%s: a file could be made", directory);
		close(fd);
		return ALLOWED;
	}
	note("%s: %s", directory, strerror(errno));
	return BLOCKED;
}

static enum outcome write_to_usr(int argc, char **argv)
{
	return worse(write_to("/usr"), worse(write_to("/usr/bin"), write_to("/etc/ssl/certs")));
}

static enum outcome write_sysctls(int argc, char **argv)
{
	static const char *const names[] = {"kernel/shmmax", "kernel/msgmax", "kernel/core_pattern", "kernel/ns_last_pid",
		"kernel/modprobe", "kernel/hostname", "kernel/randomize_va_space", "vm/overcommit_memory",
		"net/ipv4/ip_forward", "net/ipv4/ping_group_range", "fs/mqueue/queues_max", "user/max_user_namespaces"};
	enum outcome outcome = BLOCKED;
	char path[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "/proc/sys/%s", names[i]);
		outcome = worse(outcome, opens(path, O_WRONLY));
	}
	return worse(outcome, opens("/proc/sysrq-trigger", O_WRONLY));
}

static bool has_content(const char *path)
{
	char buffer[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);

	if (fd >= 0)
		close(fd);
	if (n > 0)
		note("%s: %zd bytes read", path, n);
	return n > 0;
}

static enum outcome read_kernel_files(int argc, char **argv)
{
	static const char *const paths[] = {"/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/kmsg",
		"/proc/kpageflags", "/proc/kpagecount", "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts",
		"/proc/config.gz", "/proc/latency_stats", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/scsi/scsi",
		"/proc/bus/pci/devices", "/proc/acpi/wakeup", "/proc/driver/rtc", "/proc/fs/ext4", "/proc/irq/0/smp_affinity"};
	enum outcome outcome = BLOCKED;

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (has_content(paths[i]))
			outcome = ALLOWED;
	return outcome;
}

static enum outcome has_entries(const char *path)
{
	enum outcome outcome = BLOCKED;
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			note("%s/%s is there", path, entry->d_name);
			outcome = ALLOWED;
		}
	if (directory)
		closedir(directory);
	return outcome;
}

static enum outcome see_sys(int argc, char **argv)
{
	return worse(has_entries("/sys"), has_entries("/sys/fs/cgroup"));
}

static enum outcome host_files(int argc, char **argv)
{
	static const char *const empty[] = {"/home", "/root", "/run", "/boot", "/opt", "/srv", "/mnt", "/media", "/var/lib",
		"/var/log", "/var/spool", "/var/cache", "/tmp", "/var/tmp", "/dev/shm", "/dev/pts/1", "/etc/ssh", "/etc/apt",
		"/etc/systemd", "/etc/ssl/private"};
	static const char *const absent[] = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/etc/machine-id",
		"/etc/crontab", "/etc/passwd-", "/run/docker.sock", "/var/run/docker.sock", "/dev/log"};
	enum outcome outcome = BLOCKED;

	for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
		outcome = worse(outcome, has_entries(empty[i]));
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		if (access(absent[i], F_OK) == 0) {
			note("%s is there", absent[i]);
			outcome = ALLOWED;
		}
	return outcome;
}

/* argv[0]: a file of the host's, by every path that may lead out. */
static enum outcome reach_file(int argc, char **argv)
{
	static const char *const ways[] = {"", "/..", "/../../../../../../../..", "/proc/self/root", "/proc/self/root/..",
		"/proc/self/cwd/../../..", "/proc/1/root", "/proc/1/cwd/../../../..", "/proc/thread-self/root/.."};
	enum outcome outcome = BLOCKED;
	char path[PATH_MAX];

	for (size_t i = 0; argc > 0 && i < sizeof ways / sizeof *ways; i++) {
		snprintf(path, sizeof path, "%s%s", ways[i], argv[0]);
		outcome = worse(outcome, opens(path, O_PATH));
	}
	return argc > 0 ? outcome : UNCLEAR;
}

static enum outcome other_descriptors(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char link[64], target[PATH_MAX];

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = '\0';
		note("descriptor %d is open: %s", fd, target);
		outcome = ALLOWED;
	}
	return outcome;
}

/* The host's directory behind a standard descriptor, up to the host's root. */
static enum outcome walk_descriptors(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char path[64];

	for (int fd = 0; fd < 3; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d/.", fd);
		outcome = worse(outcome, opens(path, O_RDONLY | O_DIRECTORY));
	}
	return outcome;
}

/* What no right is needed for but that of the descriptor itself: any error will do. */
static enum outcome failed(const char *what, long result)
{
	note("%s: %s", what, result < 0 ? strerror(errno) : "succeeded");
	return result < 0 ? BLOCKED : ALLOWED;
}

/* argv[0]: which descriptor. A regular file behind it, opened again with more rights, or emptied. */
static enum outcome reopen(int argc, char **argv)
{
	int fd = argc > 0 ? atoi(argv[0]) : 0;
	struct stat status;
	char path[64];
	enum outcome outcome = BLOCKED;

	if (fstat(fd, &status) < 0)
		return UNCLEAR;
	if (!S_ISREG(status.st_mode)) {
		note("descriptor %d is no regular file", fd);
		return BLOCKED;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	outcome = worse(outcome, opens(path, O_WRONLY));
	outcome = worse(outcome, opens(path, O_RDWR | O_APPEND));
	outcome = worse(outcome, failed("writing to it", write(fd, "escaped", 7)));
	outcome = worse(outcome, failed("truncating it", ftruncate(fd, 0)));
	outcome = worse(outcome, failed("truncating it by name", truncate(path, 0)));
	return worse(outcome, failed("changing its mode", fchmod(fd, 0777)));
}

/* argv[0] becomes standard input, by its path only; argv[1] and on are executed. */
static enum outcome exec_on_path(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[0], O_PATH) : -1;

	if (fd < 0 || dup2(fd, 0) < 0)
		return UNCLEAR;
	close(fd);
	execv(argv[1], argv + 1);
	return UNCLEAR;
}

static enum outcome cgroup_paths(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char line[PATH_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof line, file)) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		while (path && strncmp(path, "/..", 3) == 0)
			path += 3;
		if (!path || !*path || strcmp(path, "/") == 0 || strncmp(path, "/run-", 5) == 0)
			continue;
		note("a path of the host's cgroups: %s", line);
		outcome = ALLOWED;
	}
	if (file)
		fclose(file);
	return outcome;
}

static bool file_contains(const char *path, const char *text)
{
	static char buffer[1 << 16];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);

	if (fd >= 0)
		close(fd);
	return n > 0 && memmem(buffer, (size_t)n, text, strlen(text));
}

/* The second half of argv[0] is argv[1], so that the whole is not in the prober's own command line. */
static enum outcome find_canary(int argc, char **argv)
{
	static const char *const names[] = {"cmdline", "environ", "comm", "mountinfo", "status", "stack", "limits"};
	enum outcome outcome = BLOCKED;
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	char path[PATH_MAX], canary[256];

	snprintf(canary, sizeof canary, "%s%s", argc > 0 ? argv[0] : "", argc > 1 ? argv[1] : "");
	if (!*canary)
		return UNCLEAR;
	while (directory && (entry = readdir(directory)))
		for (size_t i = 0; atoi(entry->d_name) > 0 && i < sizeof names / sizeof *names; i++) {
			snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, names[i]);
			if (file_contains(path, canary)) {
				note("%s has it", path);
				outcome = ALLOWED;
			}
		}
	if (directory)
		closedir(directory);
	return outcome;
}

/* Other processes than the agent and itself. */
static enum outcome other_processes(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	DIR *directory = opendir("/proc");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		int pid = atoi(entry->d_name);

		if (pid > 1 && pid != getpid()) {
			note("process %d is there", pid);
			outcome = ALLOWED;
		}
	}
	if (directory)
		closedir(directory);
	return outcome;
}

/* Set-user-id of another user: argv[0] is the id that it must not get. */
static enum outcome effective_id(int argc, char **argv)
{
	note("uid %d, effective %d", getuid(), geteuid());
	return argc > 0 && geteuid() == (uid_t)atoi(argv[0]) ? ALLOWED : BLOCKED;
}

/* argv[0]: a directory; argv[1]: how many files are too many. They cost kernel memory, but no space. */
static enum outcome make_files(int argc, char **argv)
{
	long made, most = argc > 1 ? atol(argv[1]) : 1000000;
	char path[PATH_MAX];

	for (made = 0; made < most; made++) {
		snprintf(path, sizeof path, "%s/%ld", argc > 0 ? argv[0] : "/tmp", made);
		if (mknod(path, S_IFREG | 0600, 0) < 0) {
			note("%ld files, then: %s", made, strerror(errno));
			return errno == ENOSPC ? BLOCKED : UNCLEAR;
		}
	}
	note("%ld files", made);
	return ALLOWED;
}

/* On its own program, which is a file of the caller's that a bind shows. */
static enum outcome lease(int argc, char **argv)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? UNCLEAR : refused("F_SETLEASE", fcntl(fd, F_SETLEASE, F_RDLCK));
}

/* Whoever can speak to one of these can start what they like on the host. */
static enum outcome runtime_sockets(int argc, char **argv)
{
	static const char *const paths[] = {"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
		"/run/crio/crio.sock", "/run/podman/podman.sock", "/run/k3s/containerd/containerd.sock",
		"/run/systemd/private", "/run/dbus/system_bus_socket", "/run/user", "/tmp/.X11-unix", "/run/udev/control"};
	enum outcome outcome = BLOCKED;

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (access(paths[i], F_OK) == 0) {
			note("%s: it is there", paths[i]);
			outcome = ALLOWED;
		}
	return outcome;
}

/* The program of pid 1, and what is behind its own in the way of a descriptor: for writing. */
static enum outcome write_exe(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char path[32];

	for (int pid = 1; pid < 4; pid++) {
		snprintf(path, sizeof path, "/proc/%d/exe", pid);
		if (pid != getpid())
			outcome = worse(outcome, worse(opens(path, O_WRONLY), opens(path, O_PATH)));
	}
	return outcome;
}

const struct probe file_probes[] = {
	{"mknod", "make the nodes of the memory and of a disk", CONTROL_ROOT, make_devices},
	{"devices", "find a device in /dev", CONTROL_PLAIN, other_devices},
	{"write-usr", "write to the host's directories", CONTROL_ROOT, write_to_usr},
	{"runtime-sockets", "find the socket of a service that runs programs", CONTROL_NONE, runtime_sockets},
	{"@write-exe", "open the program of its creator for writing", CONTROL_NONE, write_exe},
	{"sysctl", "write sysctls", CONTROL_ROOT, write_sysctls},
	{"kernel-files", "read what the kernel says of the host", CONTROL_PLAIN, read_kernel_files},
	{"sys", "see /sys and the cgroups", CONTROL_PLAIN, see_sys},
	{"host-files", "find directories and files of the host", CONTROL_PLAIN, host_files},
	{"descriptors", "find an open descriptor of its creator's", CONTROL_NONE, other_descriptors},
	{"walk-descriptors", "go to a directory behind a standard descriptor", CONTROL_NONE, walk_descriptors},
	{"cgroup-paths", "see the paths of the host's cgroups", CONTROL_NONE, cgroup_paths},
	{"processes", "see a process of the host", CONTROL_PLAIN, other_processes},
	{"@reach", "open a file of the host by paths that may lead out", CONTROL_NONE, reach_file},
	{"@reopen", "open a descriptor's file again for writing", CONTROL_NONE, reopen},
	{"@exec-on-path", "execute a program on a descriptor that only names a file", CONTROL_NONE, exec_on_path},
	{"@canary", "find a word of its creator's in /proc", CONTROL_NONE, find_canary},
	{"@effective-id", "gain a user by a set-user-id file", CONTROL_NONE, effective_id},
	{"@make-files", "make more files than there is room for", CONTROL_NONE, make_files},
	{"lease", "make others wait for a file of the host that is visible", CONTROL_PLAIN, lease},
	{0},
};
