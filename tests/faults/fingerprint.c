/* SPDX-License-Identifier: MIT */
/*
 * Prints what keeps it in, as seen from inside: two sandboxes of the same options print the same. What differs
 * from one run to the next (numbers of inodes, of mounts, of the host's ids) is left out.
 *
 *	fingerprint NAMESPACE...
 *
 * The arguments are the host's namespaces, as readlink(2) gives those in /proc/self/ns. Lines that begin with
 * «sysctl» are of what a kernel may not have or refuse.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static void print_namespaces(char **host)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[32], link[64];
		ssize_t n;
		const char *whose = "own";

		snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
		n = readlink(path, link, sizeof link - 1);
		link[n < 0 ? 0 : n] = '\0';
		for (char **one = host; *one; one++)
			if (strcmp(*one, link) == 0)
				whose = "THE HOST'S";
		printf("namespace %s: %s\n", names[i], n < 0 ? strerror(errno) : whose);
	}
}

/* The lines of a file of proc that begin with one of `prefixes`, or all. */
static void print_lines(const char *path, const char *const *prefixes)
{
	FILE *file = fopen(path, "re");
	char line[1024];

	if (!file)
		printf("%s: %s\n", path, strerror(errno));
	while (file && fgets(line, sizeof line, file)) {
		bool wanted = !prefixes;

		for (const char *const *prefix = prefixes; prefix && *prefix; prefix++)
			wanted |= strncmp(line, *prefix, strlen(*prefix)) == 0;
		if (wanted)
			fputs(line, stdout);
	}
	if (file)
		fclose(file);
}

static void print_status(void)
{
	static const char *const prefixes[] = {"Uid", "Gid", "Groups", "NSpid", "NSsid", "Cap",
		"NoNewPrivs", "Seccomp", "SigBlk", "SigIgn", "Threads", "Umask", NULL};

	print_lines("/proc/self/status", prefixes);
	print_lines("/proc/self/limits", NULL);
}

/* Without numbers of ids and of devices. */
static void print_mounts(void)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];

	while (file && fgets(line, sizeof line, file)) {
		int skip = 0;

		sscanf(line, "%*d %*d %*s %n", &skip);
		for (char *word = strtok(line + skip, " ,\n"); word; word = strtok(NULL, " ,\n"))
			if (strncmp(word, "uid=", 4) != 0 && strncmp(word, "gid=", 4) != 0)
				printf("%s ", word);
		putchar('\n');
	}
	if (file)
		fclose(file);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_directory(const char *path, bool links)
{
	DIR *dir = opendir(path);
	char *names[512];
	size_t count = 0;
	struct dirent *entry;

	if (!dir)
		printf("%s: %s\n", path, strerror(errno));
	while (dir && (entry = readdir(dir)) && count < 512)
		if (entry->d_name[0] != '.' && !(links && atoi(entry->d_name) == dirfd(dir)))
			names[count++] = strdup(entry->d_name);
	qsort(names, count, sizeof *names, by_text);
	for (size_t i = 0; i < count; i++) {
		char link[256] = "";
		struct stat st = {0};

		if (readlinkat(dirfd(dir), names[i], link, sizeof link - 1) > 0)
			link[strcspn(link, "[")] = '\0';
		fstatat(dirfd(dir), names[i], &st, AT_SYMLINK_NOFOLLOW);
		printf("%s/%s %o %s\n", path, names[i], links ? 0 : (unsigned)st.st_mode, link);
	}
	if (dir)
		closedir(dir);
}

static void print_network(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	printf("lo: %s %x\n", ioctl(fd, SIOCGIFFLAGS, &request) < 0 ? strerror(errno) : "flags",
		(unsigned)request.ifr_flags);
	close(fd);
	print_lines("/proc/net/dev", (const char *const[]){"    lo", "  eth", NULL});
}

static void print_refusals(void)
{
	static const char *const writes[] = {
		"/usr/new", "/new", "/proc/sys/kernel/hostname", "/workspace/new"};
	static const char *const reads[] = {
		"/proc/1/environ", "/proc/1/mem", "/proc/1/root", "/proc/kcore"};

	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		int fd = open(writes[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		printf("write %s: %s\n", writes[i], fd < 0 ? strerror(errno) : "allowed");
		if (fd >= 0)
			close(fd);
	}
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
		int fd = open(reads[i], O_RDONLY | O_CLOEXEC);
		char byte;

		printf("read %s: %s\n", reads[i],
			fd < 0                   ? strerror(errno)
			: read(fd, &byte, 1) > 0 ? "allowed"
						 : "nothing");
		if (fd >= 0)
			close(fd);
	}
	printf("unshare: %s\n", unshare(CLONE_NEWUSER) < 0 ? strerror(errno) : "allowed");
	/* Landlock says EACCES, before the kernel looks at capabilities and says EPERM. */
	printf("mknod: %s\n",
		mknod("/tmp/null", S_IFCHR | 0600, makedev(1, 3)) < 0 ? strerror(errno) : "allowed");
	printf("mount: %s\n",
		syscall(SYS_mount, "", "", "", 0, NULL) < 0 ? strerror(errno) : "allowed");
}

static void print_sysctl(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
		text[strcspn(text, "\n")] = '\0';
	printf("sysctl %s: %s\n", path, text);
	close(fd);
}

int main(int argc, char **argv)
{
	struct statvfs fs = {0};
	char text[256] = "";

	print_namespaces(argv + 1);
	print_status();
	print_mounts();
	print_directory("/", false);
	print_directory("/dev", false);
	print_directory("/etc", false);
	print_directory("/proc/self/fd", true);
	print_network();
	print_refusals();
	print_sysctl("/proc/sys/user/max_user_namespaces");
	print_sysctl("/proc/sys/kernel/sem");
	print_sysctl("/proc/sys/kernel/msgmni");
	print_sysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start");
	statvfs("/tmp", &fs);
	printf("/tmp: %lu blocks, %lu files\n", (unsigned long)fs.f_blocks,
		(unsigned long)fs.f_files);
	gethostname(text, sizeof text - 1);
	printf("host name: %s\n", text);
	printf("directory: %s\n", getcwd(text, sizeof text) ?: "none");
	for (char **variable = environ; *variable; variable++)
		printf("environment: %s\n", *variable);
	return 0;
}
