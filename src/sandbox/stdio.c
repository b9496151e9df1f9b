/* SPDX-License-Identifier: MIT */
/* The standard descriptors of a command: see stdio.h. */
#define _GNU_SOURCE
#include "sandbox/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { MEMORY_DEVICES = 1 /* their major number: null, zero, full and their kin */ };

static const char *const names[3] = {"standard input", "standard output", "standard error"};

/* One end is ours and never waits: the command can open the pipe too, and be before us. */
static int make_pipe(int ends[2], int our_end, struct error *err)
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe for the command");
	if (fcntl(ends[our_end], F_SETFL, O_NONBLOCK) == 0)
		return 0;
	error_set(err, errno, "making a pipe for the command");
	close_fd(&ends[0]);
	close_fd(&ends[1]);
	return -1;
}

/* A duplicate above 2, so that nothing in the child overwrites it when it puts descriptors into place. */
static int duplicate(int fd, struct error *err)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return error_set(err, errno, "duplicating descriptor %d", fd);
	return copy;
}

static int open_null(int mode, struct error *err)
{
	int fd = open("/dev/null", mode | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "opening /dev/null");
	return fd;
}

bool stdio_is_opened_anew(int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if (S_ISFIFO(st.st_mode))
		return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
	return S_ISCHR(st.st_mode) && (major(st.st_rdev) == MEMORY_DEVICES || isatty(fd));
}

int stdio_open_anew(int fd, int mode)
{
	char link[32];

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	return open(link, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static struct relay *add_relay(struct stdio *stdio)
{
	return &stdio->relays[stdio->relays_count++];
}

/* Whether the name that the kernel knows for `fd` leads to it still, and we may open it: the child can then open it anew. */
static bool has_name(int fd, int access_mode)
{
	char link[32], path[PATH_MAX];
	struct stat by_fd, by_name;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n <= 0 || path[0] != '/')
		return false;
	path[n] = '\0';
	return fstat(fd, &by_fd) == 0 && lstat(path, &by_name) == 0 &&
	       by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino &&
	       faccessat(AT_FDCWD, path, access_mode, AT_EACCESS) == 0;
}

/* Root does it here: its child may not even search the directories that lead to the file. */
static int reopen_as_root(int fd, int mode, uint64_t attributes)
{
	cleanup_close int tree =
		sys_open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	char link[32];

	if (tree < 0 || tree_restrict(tree, attributes) < 0)
		return -1;
	snprintf(link, sizeof link, "/proc/self/fd/%d", tree);
	return open(link, mode | O_CLOEXEC | O_NOCTTY);
}

static int reopen_file_as_root(int fd)
{
	cleanup_close int file = reopen_as_root(fd, O_RDONLY, TREE_READ_ONLY | TREE_NO_DEV_SUID);

	if (file < 0 || lseek(file, lseek(fd, 0, SEEK_CUR), SEEK_SET) < 0)
		return -1;
	return move_fd(&file);
}

/*
 * The supervisor reads standard input and the command gets a pipe. `own`: a description of its own to read
 * by. It is the caller's that is polled, as a FIFO tells a new reader of no end that came before.
 */
static int copy_in(struct stdio *stdio, int own, struct error *err)
{
	struct relay *relay;
	int ends[2];

	if (make_pipe(ends, 1, err) < 0)
		return -1;
	stdio->child[0] = ends[0];
	relay = add_relay(stdio);
	relay_init(relay, own >= 0 ? own : 0, own >= 0, ends[1], true, RELAY_NONBLOCKING);
	relay->watched = 0;
	return 0;
}

static int refuse(int index, const char *what, struct error *err)
{
	error_set(err, 0, "%s is %s, through which the command could reach the host", names[index],
		what);
	return error_hint(err, index == 0 ? "redirect it from a file, a pipe or /dev/null"
					  : "redirect it to a file, a pipe or /dev/null");
}

/* Standard error on the file of standard output, as after «> log 2>&1»: one pipe keeps their order. */
static bool same_file(int a, int b)
{
	struct stat first, second;

	return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino && fcntl(a, F_GETFL) == fcntl(b, F_GETFL) &&
	       lseek(a, 0, SEEK_CUR) == lseek(b, 0, SEEK_CUR);
}

static bool same_object(int a, int b)
{
	struct stat first, second;

	return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/* The supervisor writes to `index`, or to a description of its own of that, what the command writes into a pipe. */
static int copy_out(struct stdio *stdio, int index, bool joined, struct error *err)
{
	enum relay_target target = relay_target_of(index);
	int own = target == RELAY_PIPE && !joined ? stdio_open_anew(index, O_WRONLY) : -1;
	int ends[2];

	if (joined) {
		for (size_t i = 0; i < stdio->relays_count; i++)
			stdio->relays[i].has_errors |= stdio->relays[i].number == 1;
		stdio->child[index] = duplicate(stdio->child[1], err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	if (make_pipe(ends, 0, err) < 0)
		return -1;
	stdio->child[index] = ends[1];
	relay_init(add_relay(stdio), ends[0], true, own >= 0 ? own : index, own >= 0, target);
	stdio->relays[stdio->relays_count - 1].number = index;
	stdio->relays[stdio->relays_count - 1].has_errors = index == 2;
	return 0;
}

/*
 * A socket is never passed on. The command could connect it anew, in the host's network, send with it to
 * whom it likes, or take descriptors that wait in it. Its bytes are carried instead.
 */
static int give_socket(struct stdio *stdio, int index, struct error *err)
{
	int domain = -1, type = -1, listening = 1;
	socklen_t size = sizeof domain;

	if (getsockopt(index, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
		getsockopt(index, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
		getsockopt(index, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0)
		return error_set(err, errno, "looking at %s", names[index]);
	if (type != SOCK_STREAM || listening ||
		(domain != AF_UNIX && domain != AF_INET && domain != AF_INET6))
		return refuse(index, "a socket that is no connection", err);
	if (index > 0)
		return copy_out(stdio, index, index == 2 && same_object(1, 2), err);
	if (copy_in(stdio, -1, err) < 0)
		return -1;
	stdio->relays[stdio->relays_count - 1].from_socket = true;
	return 0;
}

/* What a file of /proc shows is decided when it is opened, by who opens it. */
static bool is_on_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int give_file_for_reading(
	struct stdio *stdio, int index, int mode, bool first, struct error *err)
{
	if (mode == O_WRONLY) {
		/* A read of it would fail, and so it does. */
		stdio->child[index] = open_null(O_WRONLY, err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	if (!is_on_proc(index) && geteuid() == 0) {
		stdio->child[index] = reopen_file_as_root(index);
		if (stdio->child[index] >= 0)
			return 0;
	} else if (first && !is_on_proc(index) && has_name(index, R_OK)) {
		stdio->reopen[index] = true;
		stdio->child[index] = duplicate(index, err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	if (index > 0) {
		/* Opened for reading only: a write to it would fail anyway. */
		stdio->child[index] = open_null(O_RDONLY, err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	return copy_in(stdio, -1, err);
}

/*
 * A terminal stays one, opened anew through a read-only mount: its owner, who the command is too, could
 * otherwise let others write to it (fchmod), and change the flags that its description has for everybody.
 * One that cannot be opened is passed on where it belongs to somebody else; else its bytes are carried.
 */
static int give_terminal(struct stdio *stdio, int index, int mode, const struct stat *st,
	bool first, struct error *err)
{
	int access_mode = mode == O_RDONLY ? R_OK : mode == O_WRONLY ? W_OK : R_OK | W_OK;
	int number;

	if (ioctl(index, TIOCGPTN, &number) == 0)
		return refuse(index, "the side of a terminal that rules it", err);
	if (geteuid() == 0)
		stdio->child[index] =
			reopen_as_root(index, mode, TREE_READ_ONLY | MOUNT_ATTR_NOSUID);
	else
		stdio->reopen[index] = first && has_name(index, access_mode);
	if (stdio->child[index] >= 0)
		return 0;
	if (!stdio->reopen[index] && st->st_uid == geteuid())
		return index > 0 ? copy_out(stdio, index, index == 2 && same_object(1, 2), err)
				 : copy_in(stdio, stdio_open_anew(0, O_RDONLY), err);
	stdio->child[index] = duplicate(index, err);
	return stdio->child[index] < 0 ? -1 : 0;
}

static bool is_harmless_device(const struct stat *st)
{
	/* null, zero, full, random, urandom: the kernel's own memory devices that everybody has */
	static const unsigned minors[] = {3, 5, 7, 8, 9};

	if (major(st->st_rdev) != 1)
		return false;
	for (size_t i = 0; i < sizeof minors / sizeof *minors; i++)
		if (minor(st->st_rdev) == minors[i])
			return true;
	return false;
}

/* A FIFO is a file of the host: its mode, say, could be changed through the descriptor. */
static bool is_nameless_pipe(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

void stdio_give_pipes(struct stdio *stdio, uid_t uid, gid_t gid, gid_t first_lent)
{
	struct stat st;

	for (int i = 0; i < 3; i++) {
		if (stdio->child[i] < 0 || !is_nameless_pipe(stdio->child[i]))
			continue;
		if (i == 0 && !stdio->lent && same_object(0, stdio->child[0]) &&
			fstat(0, &st) == 0 && st.st_gid < first_lent) {
			stdio->lent = true;
			stdio->lender_gid = st.st_gid;
			stdio->lender_mode = st.st_mode & 07777;
		}
		/* The caller's own to read only: its owner could write what the caller's next program reads. */
		if (i == 0 && stdio->lent)
			(void)!(fchown(stdio->child[i], (uid_t)-1, gid) || fchmod(stdio->child[i], 0640));
		else
			(void)!fchown(stdio->child[i], uid, gid);
	}
	if (stdio->fourth >= 0)
		(void)!fchown(stdio->fourth, uid, gid);
}

/*
 * Output pipes are carried: through /dev/stdout the command could open the other end, and read what others have written to
 * the caller's own. Standard input is not read ahead of the command (what it leaves belongs to who comes next); root's
 * is lent to the sandbox's id: stdio_give_pipes.
 */
static int give_pipe(struct stdio *stdio, int index, struct error *err)
{
	char link[32];

	if (is_nameless_pipe(index) && index == 0) {
		/* By a description of its own: whether reads and writes wait is the description's, and the caller's stays. */
		snprintf(link, sizeof link, "/proc/self/fd/%d", index);
		stdio->child[index] = open(link, (index == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
		if (stdio->child[index] < 0)
			stdio->child[index] = duplicate(index, err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	return index > 0 ? copy_out(stdio, index, index == 2 && same_object(1, 2), err)
			 : copy_in(stdio, stdio_open_anew(0, O_RDONLY), err);
}

static int inherit(struct stdio *stdio, int index, bool first, struct error *err)
{
	struct stat st;
	int flags = fcntl(index, F_GETFL);

	if (flags < 0 || fstat(index, &st) < 0) {
		if (errno != EBADF)
			return error_set(err, errno, "looking at standard descriptor %d", index);
		stdio->child[index] = open_null(O_RDWR, err);
		return stdio->child[index] < 0 ? -1 : 0;
	}
	if (flags & O_PATH)
		return refuse(index, "open as a path only (O_PATH)", err);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		if (index == 0 || (flags & O_ACCMODE) == O_RDONLY)
			return give_file_for_reading(stdio, index, flags & O_ACCMODE, first, err);
		return copy_out(stdio, index, index == 2 && same_file(1, 2), err);
	case S_IFCHR:
		if (isatty(index))
			return give_terminal(stdio, index, flags & O_ACCMODE, &st, first, err);
		if (!is_harmless_device(&st))
			return refuse(index, "a device", err);
		break;
	case S_IFIFO:
		return give_pipe(stdio, index, err);
	case S_IFSOCK:
		return give_socket(stdio, index, err);
	case S_IFDIR:
		return refuse(index, "a directory", err);
	case S_IFBLK:
		return refuse(index, "a block device", err);
	default:
		return refuse(index, "of an unknown kind", err);
	}
	stdio->child[index] = duplicate(index, err);
	return stdio->child[index] < 0 ? -1 : 0;
}

static int prepare_stdin(
	const struct exec_spec *exec, struct stdio *stdio, bool first, struct error *err)
{
	int ends[2];

	switch (exec->stdin_kind) {
	case STDIN_INHERIT:
		return inherit(stdio, 0, first, err);
	case STDIN_NULL:
		stdio->child[0] = open_null(O_RDWR, err);
		return stdio->child[0] < 0 ? -1 : 0;
	case STDIN_DATA:
		break;
	}
	if (make_pipe(ends, 1, err) < 0)
		return -1;
	stdio->child[0] = ends[0];
	relay_init_data(add_relay(stdio), exec->stdin_data, exec->stdin_length, ends[1]);
	return 0;
}

static int prepare_capture(struct stdio *stdio, struct error *err)
{
	for (int i = 0; i < 2; i++) {
		int ends[2];

		if (make_pipe(ends, 0, err) < 0)
			return -1;
		stdio->captured[i] = ends[0];
		stdio->child[1 + i] = ends[1];
	}
	return 0;
}

int stdio_prepare(const struct exec_spec *exec, bool capture, bool terminal, bool first,
	struct stdio *ret, struct error *err)
{
	*ret = STDIO_NONE;
	if (terminal)
		return 0;
	if (prepare_stdin(exec, ret, first, err) < 0)
		return -1;
	if (capture)
		return prepare_capture(ret, err);
	if (inherit(ret, 1, first, err) < 0)
		return -1;
	return inherit(ret, 2, first, err);
}

void stdio_close_child(struct stdio *stdio)
{
	for (int i = 0; i < 3; i++)
		close_fd(&stdio->child[i]);
	close_fd(&stdio->fourth);
}

void stdio_close(struct stdio *stdio)
{
	stdio_close_child(stdio);
	if (stdio->lent)
		(void)!(fchown(0, (uid_t)-1, stdio->lender_gid) || fchmod(0, stdio->lender_mode));
	stdio->lent = false;
	for (int i = 0; i < 2; i++)
		close_fd(&stdio->captured[i]);
	for (size_t i = 0; i < stdio->relays_count; i++)
		relay_close(&stdio->relays[i]);
}
