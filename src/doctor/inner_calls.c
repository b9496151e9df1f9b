/* SPDX-License-Identifier: MIT */
/*
 * System calls and families of sockets: see inner.h.
 *
 * Each call is made in a child, with arguments that no call acts on: -1 is no open descriptor, no address, no
 * process and no known flags. The child writes what came of it into memory that we share; a call that ends it
 * or that does not come back is seen by that, and the next child goes on after it. So an answer other than EPERM,
 * ENOSYS or SIGSYS says that the kernel looked at the arguments: the call is allowed, in general if not with every
 * argument.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/inner.h"
#include "seccomp/syscalls.h"
#include "util/cleanup.h"

enum { CALLS = 512, WAIT_MS = 1000 };

enum outcome { UNTRIED, TRYING, ALLOWED, REFUSED_EPERM, REFUSED_ENOSYS, REFUSED_SIGSYS };

static const char *const outcome_names[] = {
	[UNTRIED] = "untried",
	[ALLOWED] = "allowed",
	[REFUSED_EPERM] = "EPERM",
	[REFUSED_ENOSYS] = "ENOSYS",
	[REFUSED_SIGSYS] = "SIGSYS",
};

/* Those that end or split the one who makes them, wait, or are felt by the whole machine. */
static const char *const untried[] = {"exit", "exit_group", "fork", "vfork", "clone", "clone3", "pause", "rt_sigreturn",
	"rt_sigsuspend", "sync", "restart_syscall", NULL};

/* Those that no code in a sandbox may be answered by, whatever its arguments. */
static const char *const forbidden[] = {"acct", "add_key", "bpf", "clock_settime", "delete_module", "finit_module",
	"fsconfig", "fsmount", "fsopen", "fspick", "init_module", "io_uring_enter", "io_uring_register",
	"io_uring_setup", "ioperm", "iopl", "kexec_file_load", "kexec_load", "keyctl", "mount", "mount_setattr",
	"move_mount", "name_to_handle_at", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl",
	"quotactl_fd", "reboot", "request_key", "setns", "settimeofday", "swapoff", "swapon", "syslog", "umount2",
	"userfaultfd", "vhangup", NULL};

static bool is_in(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

/* With what a call answers ENOSYS for itself, or makes something of. */
static long make_call(int number)
{
	static int word;

	switch (number) {
	case SYS_futex:
		return syscall(SYS_futex, &word, FUTEX_WAKE, 0, NULL, NULL, 0);
	case SYS_msgget:
		return syscall(SYS_msgget, -1, 0);
	case SYS_personality:
		return syscall(SYS_personality, 0xffffffffUL);
#ifdef SYS_modify_ldt
	case SYS_modify_ldt:
		return syscall(SYS_modify_ldt, 0, NULL, 0UL);
#endif
	default:
		return syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
	}
}

static _Noreturn void try_calls(volatile uint8_t *outcomes, int from)
{
	/* Neither a signal to the group nor a hangup of the terminal meets anybody else. */
	setsid();
	for (int number = from; number < CALLS; number++) {
		long result;

		if (outcomes[number] != UNTRIED)
			continue;
		outcomes[number] = TRYING;
		errno = 0;
		result = make_call(number);
		outcomes[number] = result >= 0	       ? ALLOWED
				   : errno == EPERM    ? REFUSED_EPERM
				   : errno == ENOSYS   ? REFUSED_ENOSYS
						       : ALLOWED;
	}
	_exit(0);
}

/* Waits for the child, which is killed where a call does not come back. Returns the signal that ended it, or 0. */
static int wait_for(pid_t pid, int alive)
{
	struct pollfd end = {.fd = alive, .events = POLLIN};
	int status = 0;

	if (poll(&end, 1, WAIT_MS) == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* One child's way through the calls from `from` on. Returns where the next begins, or -1 when all are tried. */
static int try_from(volatile uint8_t *outcomes, int from)
{
	int ends[2], signal_number, at;
	pid_t pid;

	if (pipe(ends) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		try_calls(outcomes, from);
	close(ends[1]);
	signal_number = pid < 0 ? 0 : wait_for(pid, ends[0]);
	close(ends[0]);
	for (at = from; at < CALLS && outcomes[at] != TRYING; at++)
		;
	if (pid < 0 || at == CALLS)
		return -1;
	outcomes[at] = signal_number == SIGSYS ? REFUSED_SIGSYS : ALLOWED;
	return at + 1;
}

static void add_name(json_t *lists, uint8_t outcome, const char *name)
{
	json_t *list = json_object_get(lists, outcome_names[outcome]);

	if (!list)
		json_object_set_new(lists, outcome_names[outcome], list = json_array());
	json_array_append_new(list, json_string(name));
}

static size_t count_of(const json_t *lists, enum outcome outcome)
{
	return json_array_size(json_object_get(lists, outcome_names[outcome]));
}

static void report_calls(json_t *report, volatile uint8_t *outcomes)
{
	json_t *lists = json_object(), *wrong = json_array();
	char name[SYSCALL_NAME_MAX], text[INNER_LIST_MAX];

	for (int number = 0; number < CALLS; number++) {
		syscall_name(seccomp_arch_host, number, name);
		/* Numbers that nobody knows a call for. */
		if (strchr(name, ' ') && outcomes[number] == REFUSED_ENOSYS)
			continue;
		add_name(lists, is_in(untried, name) ? UNTRIED : outcomes[number], name);
		if (is_in(forbidden, name) && outcomes[number] == ALLOWED)
			json_array_append_new(wrong, json_string(name));
	}
	inner_add(report, "system calls", json_array_size(wrong) ? INNER_FAILED : INNER_OK,
		json_pack("{s:O, s:O}", "answers", lists, "forbidden", wrong),
		"%zu allowed, %zu refused (%zu EPERM, %zu ENOSYS, %zu SIGSYS)%s%s", count_of(lists, ALLOWED),
		count_of(lists, REFUSED_EPERM) + count_of(lists, REFUSED_ENOSYS) + count_of(lists, REFUSED_SIGSYS),
		count_of(lists, REFUSED_EPERM), count_of(lists, REFUSED_ENOSYS), count_of(lists, REFUSED_SIGSYS),
		json_array_size(wrong) ? "; allowed, and must not be: " : "",
		json_array_size(wrong) ? inner_list(wrong, text) : "");
	json_decref(lists);
	json_decref(wrong);
}

static void examine_calls(json_t *report)
{
	volatile uint8_t *outcomes =
		mmap(NULL, CALLS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char name[SYSCALL_NAME_MAX];
	int from = 0;

	if (outcomes == MAP_FAILED) {
		inner_add(report, "system calls", INNER_INFORMATION, NULL, "not tried: %s", strerror(errno));
		return;
	}
	for (int number = 0; number < CALLS; number++) {
		syscall_name(seccomp_arch_host, number, name);
		if (is_in(untried, name))
			outcomes[number] = ALLOWED;
	}
	while (from >= 0 && from < CALLS)
		from = try_from(outcomes, from);
	report_calls(report, outcomes);
	munmap((void *)(uintptr_t)outcomes, CALLS);
}

/* --- sockets --- */

static const struct {
	const char *name;
	int family, type, protocol;
	bool usual; /* what programs need and what reaches nothing by itself */
} sockets[] = {
	{"unix", AF_UNIX, SOCK_STREAM, 0, true},
	{"inet", AF_INET, SOCK_STREAM, 0, true},
	{"inet6", AF_INET6, SOCK_STREAM, 0, true},
	{"netlink route", AF_NETLINK, SOCK_RAW, 0, true},
	{"inet raw", AF_INET, SOCK_RAW, 1, false},
	{"inet6 raw", AF_INET6, SOCK_RAW, 58, false},
	{"packet", AF_PACKET, SOCK_RAW, 0, false},
	{"alg", AF_ALG, SOCK_SEQPACKET, 0, false},
	{"vsock", AF_VSOCK, SOCK_STREAM, 0, false},
	{"key", AF_KEY, SOCK_RAW, 2, false},
	{"tipc", AF_TIPC, SOCK_SEQPACKET, 0, false},
	{"bluetooth", AF_BLUETOOTH, SOCK_RAW, 1, false},
	{"can", AF_CAN, SOCK_RAW, 1, false},
	{"xdp", AF_XDP, SOCK_RAW, 0, false},
	{"qipcrtr", AF_QIPCRTR, SOCK_DGRAM, 0, false},
	{"rds", AF_RDS, SOCK_SEQPACKET, 0, false},
	{"smc", AF_SMC, SOCK_STREAM, 0, false},
	{"netlink netfilter", AF_NETLINK, SOCK_RAW, 12, false},
	{"netlink audit", AF_NETLINK, SOCK_RAW, 9, false},
	{"netlink xfrm", AF_NETLINK, SOCK_RAW, 6, false},
	{"netlink uevent", AF_NETLINK, SOCK_RAW, 15, false},
	{"netlink generic", AF_NETLINK, SOCK_RAW, 16, false},
};

static void examine_sockets(json_t *report)
{
	json_t *allowed = json_array(), *wrong = json_array();
	char text[INNER_LIST_MAX], more[INNER_LIST_MAX];

	for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++) {
		cleanup_close int fd = socket(sockets[i].family, sockets[i].type | SOCK_CLOEXEC, sockets[i].protocol);

		if (fd < 0)
			continue;
		json_array_append_new(allowed, json_string(sockets[i].name));
		if (!sockets[i].usual)
			json_array_append_new(wrong, json_string(sockets[i].name));
	}
	inner_add(report, "sockets", json_array_size(wrong) ? INNER_FAILED : INNER_OK,
		json_pack("{s:O, s:O}", "allowed", allowed, "forbidden", wrong), "of the kinds: %s%s%s",
		inner_list(allowed, text), json_array_size(wrong) ? "; must not be: " : "",
		json_array_size(wrong) ? inner_list(wrong, more) : "");
	json_decref(allowed);
	json_decref(wrong);
}

void inner_examine_calls(json_t *report)
{
	examine_calls(report);
	examine_sockets(report);
}
