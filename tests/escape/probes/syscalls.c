/* SPDX-License-Identifier: MIT */
/* System calls that open large parts of the kernel, and other ways to make one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { KEYCTL_GET_KEYRING_ID = 0, KEY_SPEC_PROCESS_KEYRING = -2, TOO_MANY_SEGMENTS = 1 << 20 };

static enum outcome key_control(int argc, char **argv)
{
	return refused("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1));
}

static enum outcome key_add(int argc, char **argv)
{
	return refused("add_key", syscall(SYS_add_key, "user", "nsbox-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static enum outcome key_request(int argc, char **argv)
{
	return refused("request_key", syscall(SYS_request_key, "user", "nsbox-no-such-key", NULL, 0));
}

static enum outcome bpf_map(int argc, char **argv)
{
	union bpf_attr attributes = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	return refused("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

static enum outcome perf_open(int argc, char **argv)
{
	struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attributes,
		.config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1, .exclude_hv = 1};

	return refused("perf_event_open", syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

static enum outcome user_fault(int argc, char **argv)
{
	return refused("userfaultfd", syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
}

static enum outcome uring_setup(int argc, char **argv)
{
	struct io_uring_params parameters = {0};

	return refused("io_uring_setup", syscall(SYS_io_uring_setup, 1, &parameters));
}

static enum outcome kexec(int argc, char **argv)
{
	return refused("kexec_load", syscall(SYS_kexec_load, 0, TOO_MANY_SEGMENTS, NULL, 0));
}

static enum outcome load_module(int argc, char **argv)
{
	enum outcome outcome = refused("init_module", syscall(SYS_init_module, NULL, 0, ""));

	return worse(outcome, refused("finit_module", syscall(SYS_finit_module, -1, "", 0)));
}

static enum outcome remove_module(int argc, char **argv)
{
	return refused("delete_module", syscall(SYS_delete_module, "nsbox_no_such_module", O_NONBLOCK));
}

static enum outcome open_by_handle(int argc, char **argv)
{
	_Alignas(struct file_handle) char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	struct file_handle *handle = (struct file_handle *)space;
	int mount_id, root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(space, 0, sizeof space);
	handle->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, "/usr", handle, &mount_id, 0) < 0) {
		/* Inode 2 is the root of every ext4. */
		static const unsigned char ext4_root[8] = {2};

		handle->handle_bytes = 8;
		handle->handle_type = 1;
		memcpy(handle->f_handle, ext4_root, sizeof ext4_root);
	}
	return refused("open_by_handle_at", open_by_handle_at(root, handle, O_RDONLY));
}

static enum outcome kernel_log(int argc, char **argv)
{
	char buffer[64];

	return refused("syslog", klogctl(3 /* SYSLOG_ACTION_READ_ALL */, buffer, sizeof buffer));
}

static enum outcome account(int argc, char **argv)
{
	return refused("acct", syscall(SYS_acct, "/nonexistent/accounting"));
}

static enum outcome swap_on(int argc, char **argv)
{
	return refused("swapon", syscall(SYS_swapon, "/nonexistent/swap", 0));
}

/* Wrong magic numbers: EINVAL, once the caller was found to have the right. */
static enum outcome reboot_host(int argc, char **argv)
{
	return refused("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
}

static enum outcome watch_files(int argc, char **argv)
{
	return refused("fanotify_init", syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY));
}

#ifdef __x86_64__
static enum outcome port_access(int argc, char **argv)
{
	enum outcome outcome = refused("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));

	return worse(outcome, refused("iopl", syscall(SYS_iopl, 3)));
}

/* In a process of its own, since a filter may kill for it. Returns what the call did, or BLOCKED where it died. */
static enum outcome in_child(enum outcome (*call)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(call());
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return UNCLEAR;
	if (WIFSIGNALED(status)) {
		note("ended by %s", strsignal(WTERMSIG(status)));
		return BLOCKED;
	}
	return WEXITSTATUS(status);
}

static enum outcome call_x32(void)
{
	return refused("getpid as an x32 call", syscall(0x40000000 | SYS_getpid));
}

static enum outcome x32(int argc, char **argv)
{
	return in_child(call_x32);
}

static enum outcome call_int80(void)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory", "r8", "r9", "r10", "r11");
	errno = result < 0 ? (int)-result : 0;
	return refused("getpid by int 0x80", result < 0 ? -1 : result);
}

static enum outcome int80(int argc, char **argv)
{
	return in_child(call_int80);
}
#endif

/* Pages of a process in a pipe, which it goes on to change. */
static enum outcome splice_pages(int argc, char **argv)
{
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	int ends[2];

	if (pipe(ends) < 0)
		return UNCLEAR;
	return refused("vmsplice", syscall(SYS_vmsplice, ends[1], &iov, 1, 0));
}

static enum outcome advise_process(int argc, char **argv)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)&splice_pages, .iov_len = 1};
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	iov.iov_base = (void *)((uintptr_t)iov.iov_base & ~(uintptr_t)4095);
	iov.iov_len = 4096;
	return refused("process_madvise", syscall(SYS_process_madvise, fd, &iov, 1, 20 /* MADV_COLD */, 0));
}

/* Of no device, so that nothing is asked of one: it is ENOTBLK, ENODEV or ENOENT that says it was looked at. */
static enum outcome disk_quota(int argc, char **argv)
{
	return refused("quotactl", syscall(SYS_quotactl, 0x80000700L /* Q_GETQUOTA */, "/dev/null", 0, NULL));
}

/* Without random addresses, and with data that can be executed. */
static enum outcome change_personality(int argc, char **argv)
{
	enum outcome outcome = refused("ADDR_NO_RANDOMIZE", syscall(SYS_personality, 0x0040000UL));

	outcome = worse(outcome, refused("READ_IMPLIES_EXEC", syscall(SYS_personality, 0x0400000UL)));
	return worse(outcome, refused("a bit above the 32", syscall(SYS_personality, 1UL << 40 | 0x0040000UL)));
}

/* A time that is none is refused with EINVAL only by a kernel that was let look at it. */
static enum outcome set_clock(int argc, char **argv)
{
	long time[2] = {0, -1};
	enum outcome outcome = refused("settimeofday", syscall(SYS_settimeofday, time, NULL));

	return worse(outcome, refused("clock_settime", syscall(SYS_clock_settime, 0, time)));
}

static enum outcome move_memory(int argc, char **argv)
{
	return worse(refused("move_pages", syscall(SYS_move_pages, 0, 0UL, NULL, NULL, NULL, 0)),
		refused("migrate_pages", syscall(SYS_migrate_pages, 0, 0UL, NULL, NULL)));
}

static enum outcome file_handle(int argc, char **argv)
{
	int handle[40] = {32}, mount;

	return refused("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", handle, &mount, 0));
}

#ifdef __x86_64__
static enum outcome segments(int argc, char **argv)
{
	char table[16] = {0};

	return refused("modify_ldt", syscall(SYS_modify_ldt, 0, table, sizeof table));
}
#endif

const struct probe syscall_probes[] = {
	{"keyctl", "ask for a keyring", CONTROL_PLAIN, key_control},
	{"add-key", "add a key", CONTROL_PLAIN, key_add},
	{"request-key", "ask for a key", CONTROL_PLAIN, key_request},
	{"bpf", "make a BPF map", CONTROL_ROOT, bpf_map},
	{"perf-event", "open a performance counter", CONTROL_PLAIN, perf_open},
	{"userfaultfd", "handle page faults itself", CONTROL_PLAIN, user_fault},
	{"io-uring", "set up an io_uring", CONTROL_PLAIN, uring_setup},
	{"kexec", "load another kernel", CONTROL_ROOT, kexec},
	{"init-module", "load a kernel module", CONTROL_ROOT, load_module},
	{"delete-module", "remove a kernel module", CONTROL_ROOT, remove_module},
	{"open-by-handle", "open a file by its handle, past every path", CONTROL_ROOT, open_by_handle},
	{"kernel-log", "read the kernel's log", CONTROL_ROOT, kernel_log},
	{"acct", "turn on process accounting", CONTROL_ROOT, account},
	{"swapon", "turn on swapping", CONTROL_ROOT, swap_on},
	{"reboot", "reboot", CONTROL_ADMIN, reboot_host},
	{"vmsplice", "lend its memory to a pipe", CONTROL_PLAIN, splice_pages},
	{"process-madvise", "advise on the memory of a process", CONTROL_PLAIN, advise_process},
	{"quotactl", "ask for quotas of a disk", CONTROL_PLAIN, disk_quota},
	{"personality", "make addresses predictable", CONTROL_PLAIN, change_personality},
	{"clock", "set the clock", CONTROL_PLAIN, set_clock},
	{"move-pages", "move memory between nodes", CONTROL_PLAIN, move_memory},
	{"file-handle", "make the handle of a file", CONTROL_PLAIN, file_handle},
	{"fanotify", "watch a whole file system", CONTROL_PLAIN, watch_files},
#ifdef __x86_64__
	{"ioperm", "reach the ports of devices", CONTROL_ROOT, port_access},
	{"modify-ldt", "read its table of segments", CONTROL_PLAIN, segments},
	{"x32", "make a system call of the x32 table", CONTROL_PLAIN, x32},
	{"int80", "make a system call of the 32-bit table", CONTROL_PLAIN, int80},
#endif
	{0},
};
