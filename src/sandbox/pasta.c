/* SPDX-License-Identifier: MIT */
/* pasta(1) as a sandbox's network: see pasta.h. */
#define _GNU_SOURCE
#include "sandbox/pasta.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/confine.h"
#include "sandbox/helper.h"
#include "sandbox/idmap.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

#define TUN "/dev/net/tun"

enum { WORDS_MAX = 16 << 10, DEADLINE_MS = 20 * 1000 };

static const char install[] = "install the package passt: apt-get install passt, dnf install passt, pacman -S passt, "
			      "zypper install passt, apk add passt";

/* --- finding it --- */

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int pasta_find(char ret_path[static PASTA_PROGRAM_MAX], struct error *err)
{
	const char *path = getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin";

	/* A relative one would be whatever lies in the working directory. */
	for (const char *end; *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, ':');
		if (*path == '/' &&
			(size_t)snprintf(ret_path, PASTA_PROGRAM_MAX, "%.*s/pasta", (int)(end - path), path) <
				PASTA_PROGRAM_MAX &&
			is_program(ret_path))
			return 0;
	}
	error_set(err, 0, "the network pasta needs the program pasta, and no directory of PATH has it");
	return error_hint(err, "%s", install);
}

/* --- becoming it --- */

/* What the forked process has. */
struct start {
	const char *program;
	const struct idmap *idmap;
	int user_namespace, network_namespace;
	int begin, ready, words;
	bool forwards; /* PASTA_RESOLVER to the host's name server */
};

/*
 * A pasta that forwards puts its own address for names into each answer of the host's first name server: a client that had asked
 * that one at its own address would not take it.
 */
static bool has_to_forward(void)
{
	char theirs[4096], ours[4096];

	return read_small_file(AT_FDCWD, "/etc/resolv.conf", theirs, sizeof theirs) > 0 &&
	       pasta_resolver(theirs, ours, sizeof ours) && strstr(ours, "nameserver " PASTA_RESOLVER "\n");
}

/* To where the child reads it as pasta's own words. */
_Noreturn static void give_up(int words, const char *what)
{
	dprintf(words, "%s: %s\n", what, strerror(errno));
	_exit(1);
}

/* Who joins a user namespace has all of them there. So has what it executes, whichever id it has. */
static int make_capabilities_ambient(void)
{
	cap_t caps = cap_get_proc();
	int r = caps ? 0 : -1;

	for (cap_value_t cap = 0; r == 0 && CAP_IS_SUPPORTED(cap); cap++)
		r = cap_set_flag(caps, CAP_INHERITABLE, 1, &cap, CAP_SET);
	if (r == 0)
		r = cap_set_proc(caps);
	for (cap_value_t cap = 0; r == 0 && CAP_IS_SUPPORTED(cap); cap++)
		r = cap_set_ambient(cap, CAP_SET);
	cap_free(caps);
	return r;
}

/* It is the host's, and the sandbox's user has to open it. */
static void require_tun(int words)
{
	cleanup_close int fd = open(TUN, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		give_up(words, TUN);
}

/* Should: have left the caller's user namespace, and root's id. Mustn't: keep any descriptor of the supervisor's. */
_Noreturn static void become_pasta(const struct start *start, pid_t parent)
{
	static char *const environment[] = {NULL};
	char *const argv[] = {"pasta", "--foreground", "--quiet", "--config-net", "--ns-ifname", "eth0", "--no-map-gw",
		"--no-dhcp", "--no-dhcpv6", "--no-ra", "-t", "none", "-u", "none", "-T", "none", "-U", "none",
		"--no-netns-quit", "--pid", "/proc/self/fd/1", "--netns", "/proc/self/fd/0",
		start->forwards ? "--dns-forward" : NULL, PASTA_RESOLVER, NULL};
	const int kept[] = {start->network_namespace, start->ready, start->words, start->begin, start->user_namespace};
	struct error err = {0};
	char byte;

	helper_become("pasta", parent);
	/* Else, the agent's socket and what the caller waits for the end of would live as long as this does. */
	if (confine_descriptors(kept, sizeof kept / sizeof *kept, &err) < 0)
		give_up(start->words, "leaving descriptors");
	for (int fd = 0; fd < 3; fd++)
		if (dup2(kept[fd], fd) < 0)
			give_up(start->words, "standard descriptors");
	if (read(start->begin, &byte, 1) != 1)
		_exit(1); /* the child failed, and knows why */
	if (setns(start->user_namespace, CLONE_NEWUSER) < 0)
		give_up(STDERR_FILENO, "joining the sandbox's user namespace");
	if (start->idmap->by_parent && idmap_become(start->idmap, &err) < 0) {
		dprintf(STDERR_FILENO, "%s\n", err.text);
		_exit(1);
	}
	require_tun(STDERR_FILENO);
	if (make_capabilities_ambient() < 0)
		give_up(STDERR_FILENO, "keeping the capabilities over the sandbox's network");
	helper_die_with(parent);
	execve(start->program, argv, environment);
	give_up(STDERR_FILENO, start->program);
}

/* --- the supervisor's side --- */

static int open_namespace(pid_t pid, const char *name, struct error *err)
{
	char path[48];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? error_set(err, errno, "opening %s", path) : fd;
}

static void close_pipes(int pipes[PASTA_ENDS][2])
{
	for (int i = 0; i < PASTA_ENDS; i++)
		for (int end = 0; end < 2; end++)
			close_fd(&pipes[i][end]);
}

/* pasta opens `ready` by name, so it has to be its own. */
static int make_pipes(const struct idmap *idmap, int pipes[PASTA_ENDS][2], struct error *err)
{
	for (int i = 0; i < PASTA_ENDS; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			return error_set(err, errno, "making a pipe");
	if (fchown(pipes[PASTA_READY][1], idmap->host_uid, idmap->host_gid) < 0 ||
		fcntl(pipes[PASTA_WORDS][1], F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "preparing a pipe");
	return 0;
}

int pasta_start(pid_t pid, const struct idmap *idmap, struct helper *ret, int ret_ends[static PASTA_ENDS],
	struct error *err)
{
	cleanup_close int user_namespace = open_namespace(pid, "user", err);
	cleanup_close int network_namespace = user_namespace < 0 ? -1 : open_namespace(pid, "net", err);
	int pipes[PASTA_ENDS][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
	char program[PASTA_PROGRAM_MAX];
	pid_t parent = getpid(), child;
	int r;

	*ret = (struct helper){.name = "pasta", .loss = "there is no network but its loopback interface", .pidfd = -1};
	if (network_namespace < 0 || pasta_find(program, err) < 0)
		return -1;
	r = make_pipes(idmap, pipes, err);
	child = r < 0 ? -1 : fork();
	if (child == 0)
		become_pasta(&(struct start){program, idmap, user_namespace, network_namespace, pipes[PASTA_BEGIN][0],
				     pipes[PASTA_READY][1], pipes[PASTA_WORDS][1], has_to_forward()},
			parent);
	if (r == 0 && (child < 0 || helper_adopt(ret, child) < 0))
		r = error_set(err, errno, "starting pasta");
	if (r == 0) {
		ret_ends[PASTA_READY] = move_fd(&pipes[PASTA_READY][0]);
		ret_ends[PASTA_WORDS] = move_fd(&pipes[PASTA_WORDS][0]);
		ret_ends[PASTA_BEGIN] = move_fd(&pipes[PASTA_BEGIN][1]);
	}
	close_pipes(pipes);
	return r;
}

/* --- its words --- */

/* An older one complains of each line that no syslog takes; both of a build for other processors that is not there. */
static bool is_noise(const char *line)
{
	return !*line || strncmp(line, "Failed to send ", 15) == 0 || strncmp(line, "Can't run AVX2 build", 20) == 0;
}

static void last_line(char *text, char *ret, size_t size)
{
	char *rest = text;

	*ret = '\0';
	for (char *line; (line = strsep(&rest, "\n"));) {
		/* Its own name and the time, which newer ones put before. */
		char *said = strncmp(line, "pasta: ", 7) == 0 ? line + 7 : line;

		if (!is_noise(said))
			snprintf(ret, size, "%s", said);
		if (strstr(said, "unrecognized option"))
			return;
	}
}

static void read_last_line(int words, char *ret, size_t size)
{
	char text[WORDS_MAX];
	ssize_t n = read(words, text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	last_line(text, ret, size);
}

/* --- the child's side --- */

void pasta_begin(int ends[static PASTA_ENDS])
{
	/* One that is gone already is found out by pasta_wait. */
	(void)!write(ends[PASTA_BEGIN], "", 1);
	close_fd(&ends[PASTA_BEGIN]);
}

static void advise(const char *line, struct error *err)
{
	if (strstr(line, "unrecognized option"))
		error_hint(err, "this pasta is too old: one of 2023 or later is needed (the package passt)");
	else if (strstr(line, TUN) && strstr(line, strerror(EACCES)))
		error_hint(err, "the device has to be open to everybody, as udev makes it: chmod 0666 " TUN);
	else if (strstr(line, TUN))
		error_hint(err, "modprobe tun; in a container, the device has to be given to that: --device " TUN);
}

/* Else ping(8) needs a raw socket, which no sandbox has. Where /proc/sys cannot be written there is no ping. */
static void allow_echo_requests(unsigned gid)
{
	char range[32];

	snprintf(range, sizeof range, "%u %u", gid, gid);
	(void)write_small_file(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", range);
}

/* Returns 1 when the network is there, 0 when pasta has ended, -1 when it does not get on. */
static int wait_until_ready(int ready)
{
	struct pollfd fd = {.fd = ready, .events = POLLIN};
	char byte;
	int n;

	do
		n = poll(&fd, 1, DEADLINE_MS);
	while (n < 0 && errno == EINTR);
	return n <= 0 ? -1 : read(ready, &byte, 1) == 1;
}

int pasta_wait(int ends[static PASTA_ENDS], unsigned gid, struct error *err)
{
	int ready = wait_until_ready(ends[PASTA_READY]);
	char line[256] = "";

	if (ready == 0)
		read_last_line(ends[PASTA_WORDS], line, sizeof line);
	for (int i = 0; i < PASTA_ENDS; i++)
		close_fd(&ends[i]);
	if (ready > 0) {
		allow_echo_requests(gid);
		return 0;
	}
	if (ready < 0)
		return error_set(err, 0, "pasta did not set up the sandbox's network within %d s", DEADLINE_MS / 1000);
	error_set(err, 0, "pasta did not set up the sandbox's network: %s", *line ? line : "it was killed, or said nothing");
	advise(line, err);
	return -1;
}

/* --- resolv.conf --- */

static bool is_loopback(const char *address, bool *ret_v4)
{
	struct in_addr v4;
	struct in6_addr v6;

	*ret_v4 = inet_pton(AF_INET, address, &v4) == 1;
	if (*ret_v4)
		return ntohl(v4.s_addr) >> 24 == 127 || v4.s_addr == INADDR_ANY;
	return inet_pton(AF_INET6, address, &v6) == 1 && (IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6));
}

bool pasta_resolver(const char *text, char *ret, size_t size)
{
	size_t used = 0;
	bool any = false, seen_v4 = false;

	*ret = '\0';
	while (*text && used + 1 < size) {
		int length = (int)strcspn(text, "\n"), written;
		char address[64];
		bool v4 = false;

		if (sscanf(text, "nameserver%*[ \t]%63[^ \t\n]", address) != 1) {
			written = snprintf(ret + used, size - used, "%.*s\n", length, text);
		} else if (!is_loopback(address, &v4)) {
			written = snprintf(ret + used, size - used, "nameserver %s\n", address);
			any = true;
		} else if (v4 && !seen_v4) {
			written = snprintf(ret + used, size - used, "nameserver " PASTA_RESOLVER "\n");
			any = true;
		} else {
			written = 0;
		}
		seen_v4 |= v4;
		used += (size_t)written < size - used ? (size_t)written : size - used - 1;
		text += length + (text[length] == '\n');
	}
	return any;
}
