/* SPDX-License-Identifier: MIT */
/*
 * Work on files, as a worker does it in a sandbox: each request in a child without capabilities, without a heap and
 * under the strict profile's filter. All of it once as the caller and, where that is root, once as nobody.
 */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/seccomp.h>
#include <cmocka.h>

#include "sandbox/fileops.h"
#include "sandbox/spec.h"
#include "seccomp/load.h"
#include "util/error.h"

enum { NOBODY = 65534, SMALL_BYTES = 1 << 20, MANY = 50000, FEW = 20000, DEADLINE_S = 60, LEAVES = 1, LIVES = 0 };

/* In it `work`, where relative paths begin, and `small`, a tmpfs, where one can be mounted. */
static char top[] = "/tmp/nsbox-fileops.XXXXXX";
static bool mounted;
static struct spec spec;

/* --- the worker --- */

static void load_filter(void)
{
	struct sock_fprog program = {.len = (unsigned short)spec.filter_length, .filter = spec.filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		_exit(101);
}

/* As the agent's is: whoever allocates after this is ended by the C library. */
static void lose_heap(void)
{
#ifndef NSBOX_SANITIZED
	char *from = malloc(1), *to = sbrk(0);

	for (volatile char *next = (char *)((uintptr_t)from & ~4095UL); (char *)next < to; next++)
		*next = 0;
#endif
}

struct ask {
	enum fileop_kind kind;
	uint32_t flags, mode;
	const char *path, *from, *to;
	size_t from_length, to_length; /* 0: of the strings */
	uint64_t offset, limit;
	const char *content;
	size_t content_length;
	uint64_t file_size_limit;
};

struct asked {
	int channel;
	pid_t pid;
};

static size_t make_request(const struct ask *ask, char *buffer)
{
	const char *from = ask->from ? ask->from : "", *to = ask->to ? ask->to : "";
	struct fileop request = {
		.kind = ask->kind,
		.flags = ask->flags,
		.mode = ask->mode,
		.path_length = (uint32_t)strlen(ask->path),
		.from_length = (uint32_t)(ask->from_length ? ask->from_length : strlen(from)),
		.to_length = (uint32_t)(ask->to_length ? ask->to_length : strlen(to)),
		.offset = ask->offset,
		.limit = ask->limit,
	};
	char *next = mempcpy(buffer, &request, sizeof request);

	next = mempcpy(next, ask->path, request.path_length);
	next = mempcpy(next, from, request.from_length);
	next = mempcpy(next, to, request.to_length);
	return (size_t)(next - buffer);
}

static struct asked start_raw(const void *request, size_t length, uint64_t file_size_limit)
{
	struct asked asked;
	char directory[100];
	int sockets[2];

	snprintf(directory, sizeof directory, "%s/work", top);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	asked.channel = sockets[0];
	fflush(stdout);
	asked.pid = fork();
	if (asked.pid == 0) {
		cap_t none = cap_init();

		if (file_size_limit)
			setrlimit(RLIMIT_FSIZE, &(struct rlimit){file_size_limit, file_size_limit});
		if (dup2(sockets[1], 3) < 0 || close_range(4, ~0U, 0) < 0 || cap_set_proc(none) < 0)
			_exit(100);
		load_filter();
		lose_heap();
		alarm(DEADLINE_S);
		_exit(fileop_serve(request, length, 3, directory) < 0 ? LEAVES : LIVES);
	}
	assert_true(asked.pid > 0);
	close(sockets[1]);
	return asked;
}

static struct asked start(const struct ask *ask)
{
	static char buffer[64 << 10];

	return start_raw(buffer, make_request(ask, buffer), ask->file_size_limit);
}

static void send_content(const struct asked *asked, const char *content, size_t length)
{
	while (length > 0) {
		ssize_t n = send(asked->channel, content, length, MSG_NOSIGNAL);

		if (n < 0) {
			assert_true(errno == EPIPE || errno == ECONNRESET);
			return;
		}
		content += n;
		length -= (size_t)n;
	}
}

/* The answer, and what follows it until the channel's end, in static memory. */
static struct reply {
	struct fileop_answer answer;
	char *data;
	size_t length;
	int status; /* of the worker */
} reply;

static size_t receive(int fd, char *data, size_t size)
{
	size_t length = 0;
	ssize_t n;

	while (length < size && (n = recv(fd, data + length, size - length, 0)) > 0)
		length += (size_t)n;
	return length;
}

static void end(struct asked *asked)
{
	enum { SIZE = 24 << 20 };
	int status;

	free(reply.data);
	reply.data = malloc(SIZE);
	assert_non_null(reply.data);
	reply.length = receive(asked->channel, reply.data, SIZE);
	assert_true(reply.length < SIZE);
	close(asked->channel);
	assert_int_equal(waitpid(asked->pid, &status, 0), asked->pid);
	if (!WIFEXITED(status))
		print_error("the worker was ended by signal %d\n", WTERMSIG(status));
	assert_true(WIFEXITED(status));
	reply.status = WEXITSTATUS(status);
}

static void receive_answer(struct asked *asked)
{
	assert_int_equal(receive(asked->channel, (char *)&reply.answer, sizeof reply.answer), sizeof reply.answer);
}

static void finish(struct asked *asked)
{
	receive_answer(asked);
	end(asked);
	assert_int_equal(reply.status, LIVES);
}

static const struct fileop_answer *ask(struct ask what)
{
	struct asked asked = start(&what);
	size_t length = what.content_length;

	send_content(&asked, what.content, length || !what.content ? length : strlen(what.content));
	shutdown(asked.channel, SHUT_WR);
	finish(&asked);
	return &reply.answer;
}

#define ASK(...) ask((struct ask){__VA_ARGS__})

static void expect_failed(struct ask what, enum fileop_stage stage, int errnum)
{
	const struct fileop_answer *answer = ask(what);

	if (answer->stage != stage || answer->errnum != (uint32_t)errnum)
		print_error("%s: stage %u, errno %u (%s)\n", what.path, answer->stage, answer->errnum,
			strerror((int)answer->errnum));
	assert_int_equal(answer->stage, stage);
	assert_int_equal(answer->errnum, errnum);
	assert_int_equal(reply.length, 0);
}

#define FAILS(stage, errnum, ...) expect_failed((struct ask){__VA_ARGS__}, stage, errnum)

static void expect_done(struct ask what)
{
	expect_failed(what, FILEOP_DONE, 0);
}

#define DONE(...) expect_done((struct ask){__VA_ARGS__})

/* --- the tree, looked at from here --- */

static void make(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	close(fd);
}

/* Takes that much of the disk. */
static void fill(const char *path, off_t bytes)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0 && fallocate(fd, 0, 0, bytes) == 0);
	close(fd);
}

static void expect_content(const char *path, const char *content)
{
	char buffer[1024];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, buffer, sizeof buffer - 1);
	close(fd);
	assert_true(n >= 0);
	buffer[n] = '\0';
	assert_string_equal(buffer, content);
}

static struct stat stat_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static void expect_gone(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), -1);
	assert_int_equal(errno, ENOENT);
}

static void expect_no_temporaries(void)
{
	assert_int_equal(system("! find .. -name '.nsbox.*' | grep -q ."), 0);
}

static const char *read_all(const char *path)
{
	const struct fileop_answer *answer = ASK(FILEOP_READ, .path = path, .limit = UINT64_MAX);

	assert_int_equal(answer->stage, FILEOP_DONE);
	assert_int_equal(answer->count, reply.length);
	reply.data[reply.length] = '\0';
	return reply.data;
}

/* --- reading --- */

static void content_is_read(void **state)
{
	make("a", "0123456789");
	assert_string_equal(read_all("a"), "0123456789");
	assert_int_equal(reply.answer.size, 10);
	assert_int_equal(reply.answer.type, S_IFREG);
	assert_int_equal(reply.answer.mode, 0644);
	ASK(FILEOP_READ, .path = "a", .offset = 3, .limit = 4);
	assert_int_equal(reply.answer.count, 4);
	assert_memory_equal(reply.data, "3456", 4);
	ASK(FILEOP_READ, .path = "a", .offset = 8, .limit = 400);
	assert_int_equal(reply.answer.count, 2);
	assert_int_equal(reply.length, 2);
	ASK(FILEOP_READ, .path = "a", .offset = 10, .limit = 400);
	assert_int_equal(reply.answer.count, 0);
	ASK(FILEOP_READ, .path = "a", .offset = 1ULL << 60, .limit = 400);
	assert_int_equal(reply.answer.count, 0);
	assert_int_equal(reply.answer.size, 10);
	ASK(FILEOP_READ, .path = "a", .limit = 0);
	assert_int_equal(reply.answer.count, 0);
	assert_int_equal(reply.answer.size, 10);
	make("empty", "");
	assert_string_equal(read_all("empty"), "");
	assert_int_equal(reply.answer.size, 0);
	FAILS(FILEOP_READING, EOVERFLOW, FILEOP_READ, .path = "a", .offset = UINT64_MAX, .limit = 1);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_READ, .path = "no", .limit = 1);
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_READ, .path = "a/", .limit = 1);
	chmod("a", 0);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_READ, .path = "a", .limit = 1);
}

static void large_content_is_read(void **state)
{
	enum { LENGTH = 3000001 };
	char *data = malloc(LENGTH + 1);

	for (int i = 0; i < LENGTH; i++)
		data[i] = (char)('a' + i % 23 + i / 7919 % 3);
	data[LENGTH] = '\0';
	make("large", data);
	assert_string_equal(read_all("large"), data);
	ASK(FILEOP_READ, .path = "large", .offset = 1000, .limit = 2000000);
	assert_int_equal(reply.length, 2000000);
	assert_memory_equal(reply.data, data + 1000, 2000000);
	free(data);
}

static void files_of_proc_are_read(void **state)
{
	assert_string_equal(read_all("/proc/sys/kernel/ostype"), "Linux\n");
	assert_int_equal(reply.answer.size, 6);
	assert_non_null(strstr(read_all("/proc/self/status"), "\nVmRSS:"));
	ASK(FILEOP_READ, .path = "/proc/self/status", .limit = 5);
	assert_int_equal(reply.answer.count, 5);
	assert_memory_equal(reply.data, "Name:", 5);
	assert_true(reply.answer.size == UINT64_MAX);
	ASK(FILEOP_READ, .path = "/proc/self/status", .offset = 5, .limit = 1);
	assert_memory_equal(reply.data, "\t", 1);
}

static void only_regular_files_are_read(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(mkfifo("fifo", 0644), 0);
	assert_int_equal(symlink("fifo", "link"), 0);
	assert_int_equal(mkdir("dir", 0755), 0);
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_READ, .path = "fifo", .limit = 1);
	assert_int_equal(reply.answer.type, S_IFIFO);
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_READ, .path = "link", .limit = 1);
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_READ, .path = "socket", .limit = 1);
	assert_int_equal(reply.answer.type, S_IFSOCK);
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_READ, .path = "/dev/zero", .limit = 1);
	assert_int_equal(reply.answer.type, S_IFCHR);
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_READ, .path = "dir", .limit = 1);
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_EDIT, .path = "fifo", .from = "a", .to = "b");
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_WRITE, .path = "fifo", .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_WRITE, .path = "link", .flags = FILEOP_APPEND, .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_WRITE, .path = "/dev/null", .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_WRITE, .path = "dir", .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_WRITE, .path = "dir/", .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_WRITE, .path = "/", .content = "x");
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_WRITE, .path = "..", .content = "x");
	close(fd);
}

/* The worker itself is behind such a name. */
static void descriptors_are_no_files(void **state)
{
	FAILS(FILEOP_NOT_REGULAR, EINVAL, FILEOP_READ, .path = "/proc/self/fd/3", .limit = 1);
	assert_int_equal(reply.answer.type, S_IFSOCK);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_READ, .path = "/proc/self/fd/9", .limit = 1);
	assert_int_not_equal(ASK(FILEOP_WRITE, .path = "/proc/self/fd/3", .content = "x")->stage, FILEOP_DONE);
}

static void a_file_that_becomes_shorter_ends_the_channel(void **state)
{
	struct ask what = {FILEOP_READ, .path = "a", .limit = UINT64_MAX};
	struct asked asked;

	make("a", "");
	assert_int_equal(truncate("a", 20 << 20), 0);
	asked = start(&what);
	receive_answer(&asked);
	assert_int_equal(reply.answer.count, 20 << 20);
	assert_int_equal(truncate("a", 5 << 20), 0);
	end(&asked);
	assert_int_equal(reply.status, LEAVES);
	assert_in_range(reply.length, 5 << 20, (20 << 20) - 1);
}

static void a_reader_that_leaves_is_noticed(void **state)
{
	struct ask what = {FILEOP_READ, .path = "a", .limit = UINT64_MAX};
	struct asked asked;
	int status;

	make("a", "");
	assert_int_equal(truncate("a", 20 << 20), 0);
	asked = start(&what);
	receive_answer(&asked);
	close(asked.channel);
	assert_int_equal(waitpid(asked.pid, &status, 0), asked.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == LEAVES);
}

/* --- writing --- */

static void files_are_written(void **state)
{
	DONE(FILEOP_WRITE, .path = "new", .content = "one");
	expect_content("new", "one");
	assert_int_equal(stat_of("new").st_mode & 07777, 0644);
	assert_int_equal(reply.answer.size, 3);
	assert_int_equal(reply.answer.mode, 0644);
	assert_true(reply.answer.mtime_ns > 0);
	DONE(FILEOP_WRITE, .path = "new", .content = "");
	expect_content("new", "");
	DONE(FILEOP_WRITE, .path = "script", .mode = 0777, .content = "two");
	assert_int_equal(stat_of("script").st_mode & 07777, 0777);
	DONE(FILEOP_WRITE, .path = "script", .content = "three");
	assert_int_equal(stat_of("script").st_mode & 07777, 0777);
	DONE(FILEOP_WRITE, .path = "script", .mode = 0600, .content = "three");
	assert_int_equal(stat_of("script").st_mode & 07777, 0600);
	DONE(FILEOP_WRITE, .path = "new\nline \xff\xfe", .content = "four");
	expect_content("new\nline \xff\xfe", "four");
	DONE(FILEOP_WRITE, .path = "zeros", .content = "a\0b", .content_length = 3);
	assert_int_equal(stat_of("zeros").st_size, 3);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_WRITE, .path = "x/y/z", .content = "five");
	DONE(FILEOP_WRITE, .path = "x/y//z", .flags = FILEOP_PARENTS, .content = "five");
	expect_content("x/y/z", "five");
	assert_int_equal(stat_of("x/y").st_mode & 07777, 0755);
	FAILS(FILEOP_MAKING_PARENTS, ENOTDIR, FILEOP_WRITE, .path = "x/q/../y/z/w", .flags = FILEOP_PARENTS);
	FAILS(FILEOP_OPENING, EISDIR, FILEOP_WRITE, .path = "none/", .content = "x");
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_WRITE, .path = "new/", .content = "x");
	expect_no_temporaries();
}

static void old_files_are_replaced_whole(void **state)
{
	struct stat before, after;
	char text[4] = "";
	int fd;

	make("a", "old");
	chmod("a", 06755);
	before = stat_of("a");
	fd = open("a", O_RDONLY);
	DONE(FILEOP_WRITE, .path = "a", .content = "new");
	after = stat_of("a");
	assert_int_not_equal(before.st_ino, after.st_ino);
	assert_int_equal(after.st_mode & 07777, 0755);
	assert_int_equal(after.st_gid, before.st_gid);
	assert_int_equal(read(fd, text, 3), 3);
	assert_string_equal(text, "old");
	close(fd);
	chmod("a", 0444);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_WRITE, .path = "a", .content = "never");
	FAILS(FILEOP_OPENING, EACCES, FILEOP_EDIT, .path = "a", .from = "new", .to = "never");
	expect_content("a", "new");
}

static void new_files_are_only_new(void **state)
{
	make("old", "old");
	assert_int_equal(symlink("nowhere", "link"), 0);
	FAILS(FILEOP_OPENING, EEXIST, FILEOP_WRITE, .path = "old", .flags = FILEOP_EXCLUSIVE, .content = "x");
	FAILS(FILEOP_OPENING, EEXIST, FILEOP_WRITE, .path = "link", .flags = FILEOP_EXCLUSIVE, .content = "x");
	expect_content("old", "old");
	DONE(FILEOP_WRITE, .path = "new", .flags = FILEOP_EXCLUSIVE, .content = "x");
	expect_content("new", "x");
}

static void what_comes_into_being_meanwhile_stays(void **state)
{
	struct ask what = {FILEOP_WRITE, .path = "new", .flags = FILEOP_EXCLUSIVE};
	struct asked asked = start(&what);

	send_content(&asked, "late", 4);
	while (system("find . -name '.nsbox.*' -size +0 | grep -q .") != 0)
		usleep(1000);
	make("new", "early");
	shutdown(asked.channel, SHUT_WR);
	finish(&asked);
	assert_int_equal(reply.answer.stage, FILEOP_RENAMING);
	assert_int_equal(reply.answer.errnum, EEXIST);
	expect_content("new", "early");
	expect_no_temporaries();
}

static void content_is_appended(void **state)
{
	ino_t inode;

	DONE(FILEOP_WRITE, .path = "log", .flags = FILEOP_APPEND, .content = "one,");
	inode = stat_of("log").st_ino;
	DONE(FILEOP_WRITE, .path = "log", .flags = FILEOP_APPEND, .content = "two");
	expect_content("log", "one,two");
	assert_int_equal(reply.answer.size, 7);
	assert_int_equal(stat_of("log").st_ino, inode);
}

static void links_are_written_through(void **state)
{
	char path[200];

	assert_int_equal(mkdir("dir", 0755), 0);
	make("dir/target", "old");
	assert_int_equal(symlink("target", "dir/first"), 0);
	assert_int_equal(symlink("dir/first", "second"), 0);
	snprintf(path, sizeof path, "%s/work/second", top);
	assert_int_equal(symlink(path, "dir/third"), 0);
	DONE(FILEOP_WRITE, .path = "dir/third", .content = "new");
	expect_content("dir/target", "new");
	DONE(FILEOP_EDIT, .path = "second", .from = "new", .to = "newer");
	expect_content("dir/target", "newer");
	assert_true(S_ISLNK(stat_of("second").st_mode));
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_WRITE, .path = "second/", .content = "new");
	assert_int_equal(symlink("made/here", "dangling"), 0);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_WRITE, .path = "dangling", .content = "x");
	DONE(FILEOP_WRITE, .path = "dangling", .flags = FILEOP_PARENTS, .content = "x");
	expect_content("made/here", "x");
	assert_int_equal(symlink("loop", "loop"), 0);
	FAILS(FILEOP_OPENING, ELOOP, FILEOP_WRITE, .path = "loop", .content = "x");
	FAILS(FILEOP_OPENING, ELOOP, FILEOP_WRITE, .path = "loop/x", .flags = FILEOP_PARENTS, .content = "x");
	FAILS(FILEOP_OPENING, ELOOP, FILEOP_READ, .path = "loop", .limit = 1);
}

static void files_with_several_names_stay_one(void **state)
{
	make("a", "a long content");
	assert_int_equal(link("a", "b"), 0);
	DONE(FILEOP_WRITE, .path = "a", .content = "new");
	expect_content("b", "new");
	DONE(FILEOP_EDIT, .path = "b", .from = "n", .to = "N");
	expect_content("a", "New");
	DONE(FILEOP_WRITE, .path = "a", .content = "");
	expect_content("b", "");
	assert_int_equal(stat_of("a").st_ino, stat_of("b").st_ino);
}

static void directories_that_take_no_file_keep_theirs(void **state)
{
	assert_int_equal(mkdir("dir", 0755), 0);
	make("dir/a", "old");
	chmod("dir", 0555);
	DONE(FILEOP_WRITE, .path = "dir/a", .mode = 0640, .content = "new");
	expect_content("dir/a", "new");
	assert_int_equal(stat_of("dir/a").st_mode & 07777, 0640);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_WRITE, .path = "dir/b", .content = "new");
	FAILS(FILEOP_MAKING_PARENTS, EACCES, FILEOP_WRITE, .path = "dir/b/c", .flags = FILEOP_PARENTS);
	if (prctl(PR_GET_DUMPABLE) == 1)
		DONE(FILEOP_WRITE, .path = "/proc/self/comm", .content = "renamed");
}

static void give_up(const char *path, uint32_t flags)
{
	struct ask what = {FILEOP_WRITE, .path = path, .flags = flags};
	struct asked asked = start(&what);
	int status;

	send_content(&asked, "half of it", 10);
	close(asked.channel);
	assert_int_equal(waitpid(asked.pid, &status, 0), asked.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == LEAVES);
}

static void who_gives_up_changes_nothing(void **state)
{
	make("a", "old");
	give_up("a", 0);
	give_up("a", FILEOP_APPEND);
	expect_content("a", "old");
	give_up("b", 0);
	expect_gone("b");
	expect_no_temporaries();
}

static void an_answer_comes_before_the_content_is_through(void **state)
{
	static char content[8 << 20];

	assert_int_equal(mkdir("dir", 0755), 0);
	FAILS(FILEOP_NOT_REGULAR, EISDIR, FILEOP_WRITE, .path = "dir", .content = content,
		.content_length = sizeof content);
}

static void a_full_disk_leaves_the_old_content(void **state)
{
	static char content[2 * SMALL_BYTES + 1], text[60 << 10];

	if (!mounted)
		skip();
	memset(content, 'x', sizeof content - 1);
	make("../small/a", "old");
	FAILS(FILEOP_WRITING, ENOSPC, FILEOP_WRITE, .path = "../small/a", .content = content);
	FAILS(FILEOP_WRITING, ENOSPC, FILEOP_WRITE, .path = "../small/b", .content = content);
	FAILS(FILEOP_WRITING, ENOSPC, FILEOP_WRITE, .path = "../small/a", .flags = FILEOP_APPEND,
		.content = content);
	expect_content("../small/a", "old");
	expect_gone("../small/b");
	assert_int_equal(link("../small/a", "../small/b"), 0);
	memset(text, 'y', sizeof text - 1);
	make("../small/filler", "");
	fill("../small/filler", SMALL_BYTES - (32 << 10));
	FAILS(FILEOP_WRITING, ENOSPC, FILEOP_EDIT, .path = "../small/a", .from = "old", .to = text);
	expect_content("../small/b", "old");
	assert_int_equal(unlink("../small/filler"), 0);
	DONE(FILEOP_EDIT, .path = "../small/a", .from = "old", .to = text);
	assert_int_equal(stat_of("../small/b").st_size, sizeof text - 1);
	DONE(FILEOP_EDIT, .path = "../small/a", .from = text, .to = "old");
	expect_content("../small/b", "old");
	assert_int_equal(unlink("../small/b"), 0);
	make("large", content);
	FAILS(FILEOP_WRITING, ENOSPC, FILEOP_MOVE, .path = "large", .to = "../small/large");
	assert_int_equal(stat_of("large").st_size, sizeof content - 1);
	expect_gone("../small/large");
	expect_no_temporaries();
	DONE(FILEOP_WRITE, .path = "../small/a", .content = "new");
}

static void a_limit_on_file_sizes_is_an_error(void **state)
{
	static char content[64 << 10];

	make("a", "old");
	FAILS(FILEOP_WRITING, EFBIG, FILEOP_WRITE, .path = "a", .content = content, .content_length = sizeof content,
		.file_size_limit = 4096);
	FAILS(FILEOP_WRITING, EFBIG, FILEOP_WRITE, .path = "a", .flags = FILEOP_APPEND, .content = content,
		.content_length = sizeof content, .file_size_limit = 4096);
	expect_content("a", "old");
	expect_no_temporaries();
}

/* --- editing --- */

static void text_is_replaced(void **state)
{
	make("a", "one two three");
	DONE(FILEOP_EDIT, .path = "a", .from = "two", .to = "twenty");
	expect_content("a", "one twenty three");
	assert_int_equal(reply.answer.count, 1);
	assert_int_equal(reply.answer.size, 16);
	FAILS(FILEOP_NOT_FOUND_IN, 0, FILEOP_EDIT, .path = "a", .from = "four", .to = "x");
	FAILS(FILEOP_FOUND_TWICE, 0, FILEOP_EDIT, .path = "a", .from = "t", .to = "x");
	assert_int_equal(reply.answer.count, 3);
	expect_content("a", "one twenty three");
	DONE(FILEOP_EDIT, .path = "a", .flags = FILEOP_ALL, .from = "t", .to = "");
	assert_int_equal(reply.answer.count, 3);
	expect_content("a", "one weny hree");
	make("b", "aaaaa");
	DONE(FILEOP_EDIT, .path = "b", .flags = FILEOP_ALL, .from = "aa", .to = "b");
	expect_content("b", "bba");
	DONE(FILEOP_EDIT, .path = "b", .from = "bba", .to = "x\0y", .to_length = 3);
	assert_int_equal(stat_of("b").st_size, 3);
	DONE(FILEOP_EDIT, .path = "b", .from = "\0", .from_length = 1, .to = "-");
	expect_content("b", "x-y");
	FAILS(FILEOP_BAD_REQUEST, EINVAL, FILEOP_EDIT, .path = "b", .from = "", .to = "x");
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_EDIT, .path = "none", .from = "a", .to = "x");
	expect_no_temporaries();
}

static void edits_are_bounded(void **state)
{
	static char fifty[50001];
	char *data = malloc((1 << 20) + 1);

	make("large", "");
	assert_int_equal(truncate("large", FILEOP_EDIT_MAX + 1), 0);
	FAILS(FILEOP_TOO_LARGE, 0, FILEOP_EDIT, .path = "large", .from = "a", .to = "b");
	assert_int_equal(reply.answer.size, FILEOP_EDIT_MAX + 1);
	memset(data, 'a', 1 << 20);
	data[1 << 20] = '\0';
	make("a", data);
	memset(fifty, 'b', sizeof fifty - 1);
	FAILS(FILEOP_TOO_LARGE, 0, FILEOP_EDIT, .path = "a", .flags = FILEOP_ALL, .from = "a", .to = fifty);
	assert_true(reply.answer.size == 50000ULL << 20);
	DONE(FILEOP_EDIT, .path = "a", .flags = FILEOP_ALL, .from = "a", .to = "0123456789abcdef");
	assert_int_equal(reply.answer.count, 1 << 20);
	assert_int_equal(stat_of("a").st_size, FILEOP_EDIT_MAX);
	free(data);
}

/* --- listing --- */

static size_t at; /* in the reply */

static const struct fileop_entry *next_entry(const char **ret_name, const char **ret_target)
{
	static struct fileop_entry entry;

	assert_true(reply.length - at >= sizeof entry);
	memcpy(&entry, reply.data + at, sizeof entry);
	at += sizeof entry;
	*ret_name = *ret_target = NULL;
	if (entry.type == 0)
		return &entry;
	*ret_name = reply.data + at;
	at += entry.name_length + 1;
	assert_true(at < reply.length);
	assert_int_equal(strlen(*ret_name), entry.name_length);
	if (entry.type == S_IFLNK) {
		*ret_target = reply.data + at;
		at += entry.target_length + 1;
		assert_true(at < reply.length);
		assert_int_equal(strlen(*ret_target), entry.target_length);
	}
	return &entry;
}

static void expect_entry(const char *wanted, uint32_t type, int errnum)
{
	const char *name, *target;
	const struct fileop_entry *entry = next_entry(&name, &target);

	assert_non_null(name);
	assert_string_equal(name, wanted);
	assert_int_equal(entry->type, type);
	assert_int_equal(entry->errnum, errnum);
}

static void expect_end(uint32_t left_out, int errnum)
{
	const char *name, *target;
	const struct fileop_entry *entry = next_entry(&name, &target);

	assert_int_equal(entry->type, 0);
	assert_int_equal(entry->count, left_out);
	assert_int_equal(entry->errnum, errnum);
	assert_int_equal(at, reply.length);
}

static void list(const char *path, uint32_t flags, uint64_t limit)
{
	at = 0;
	assert_int_equal(ASK(FILEOP_LIST, .path = path, .flags = flags, .limit = limit)->stage, FILEOP_DONE);
	assert_int_equal(reply.answer.type, S_IFDIR);
}

static void make_tree(void)
{
	assert_int_equal(mkdir("t", 0755), 0);
	assert_int_equal(mkdir("t/b", 0755), 0);
	assert_int_equal(mkdir("t/b/empty", 0700), 0);
	make("t/b/z", "zz");
	make("t/a", "a");
	make("t/c\nd\xff", "");
	assert_int_equal(mkfifo("t/fifo", 0644), 0);
	assert_int_equal(symlink("b", "t/link"), 0);
	assert_int_equal(mkdir("t/shut", 0), 0);
}

static void directories_are_listed(void **state)
{
	const char *name, *target;
	struct fileop_entry entry;

	make_tree();
	list("t", 0, 100);
	entry = *next_entry(&name, &target);
	assert_string_equal(name, "a");
	assert_int_equal(entry.size, 1);
	assert_int_equal(entry.mode, 0644);
	assert_true(entry.mtime_ns / 1000000000 == (uint64_t)stat_of("t/a").st_mtim.tv_sec);
	assert_true(entry.ctime_ns > 0);
	assert_true(entry.inode == stat_of("t/a").st_ino);
	expect_entry("b", S_IFDIR, 0);
	expect_entry("c\nd\xff", S_IFREG, 0);
	expect_entry("fifo", S_IFIFO, 0);
	entry = *next_entry(&name, &target);
	assert_string_equal(name, "link");
	assert_string_equal(target, "b");
	expect_entry("shut", S_IFDIR, 0);
	expect_end(0, 0);
	list("t/link", 0, 100);
	expect_entry("empty", S_IFDIR, 0);
	expect_entry("z", S_IFREG, 0);
	expect_end(0, 0);
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_LIST, .path = "t/a", .limit = 1);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_LIST, .path = "t/shut", .limit = 1);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_LIST, .path = "no", .limit = 1);
	chmod("t/b", 0444);
	list("t/b", 0, 100);
	expect_entry("empty", S_IFDIR, EACCES);
	expect_entry("z", S_IFREG, EACCES);
	expect_end(0, 0);
}

static void trees_are_listed(void **state)
{
	make_tree();
	list("t/", FILEOP_RECURSIVE, 100);
	expect_entry("a", S_IFREG, 0);
	expect_entry("b", S_IFDIR, 0);
	expect_entry("b/empty", S_IFDIR, 0);
	expect_entry("b/z", S_IFREG, 0);
	expect_entry("c\nd\xff", S_IFREG, 0);
	expect_entry("fifo", S_IFIFO, 0);
	expect_entry("link", S_IFLNK, 0);
	expect_entry("shut", S_IFDIR, EACCES);
	expect_end(0, 0);
	list("t", FILEOP_RECURSIVE, 4);
	expect_entry("a", S_IFREG, 0);
	expect_entry("b", S_IFDIR, 0);
	expect_entry("b/empty", S_IFDIR, 0);
	expect_entry("b/z", S_IFREG, 0);
	expect_end(1, 0);
	list("t", FILEOP_RECURSIVE, 0);
	expect_end(1, 0);
	list("t/b/empty", FILEOP_RECURSIVE, 0);
	expect_end(0, 0);
}

static void mounts_are_listed_but_not_looked_into(void **state)
{
	if (!mounted)
		skip();
	make("../small/in", "");
	list("..", FILEOP_RECURSIVE, 100);
	expect_entry("small", S_IFDIR, EXDEV);
	expect_entry("work", S_IFDIR, 0);
	expect_end(0, 0);
	list("../small", FILEOP_RECURSIVE, 100);
	expect_entry("in", S_IFREG, 0);
	expect_end(0, 0);
	FAILS(FILEOP_REMOVING, EBUSY, FILEOP_DELETE, .path = "../small", .flags = FILEOP_RECURSIVE);
	expect_content("../small/in", "");
}

static void large_directories_are_listed_in_order(void **state)
{
	char name[20], wanted[20];
	int dir;

	assert_int_equal(mkdir("t", 0755), 0);
	dir = open("t", O_PATH | O_DIRECTORY);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "n%07d", (int)(i * 7919LL % MANY));
		close(openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644));
	}
	close(dir);
	list(".", FILEOP_RECURSIVE, UINT64_MAX);
	expect_entry("t", S_IFDIR, 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(wanted, sizeof wanted, "t/n%07d", i);
		expect_entry(wanted, S_IFREG, 0);
	}
	expect_end(0, 0);
	list("t", 0, 1000);
	for (int i = 0; i < 1000; i++) {
		snprintf(wanted, sizeof wanted, "n%07d", i);
		expect_entry(wanted, S_IFREG, 0);
	}
	expect_end(1, 0);
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	assert_int_equal(reply.answer.count, MANY + 1);
	expect_gone("t");
}

/* --- deep trees --- */

/* `depth` directories in each other, each with a file, from ./t downwards. */
static void make_deep(int depth, const char *name)
{
	int fd = open(".", O_PATH | O_DIRECTORY), next;

	for (int i = 0; i < depth; i++) {
		const char *own = i ? name : "t";

		assert_int_equal(mkdirat(fd, own, 0755), 0);
		next = openat(fd, own, O_PATH | O_DIRECTORY);
		close(fd);
		fd = next;
		next = openat(fd, "file", O_WRONLY | O_CREAT, 0644);
		assert_true(next >= 0);
		close(next);
	}
	close(fd);
}

static void deep_trees_are_listed_as_far_as_can_be_and_deleted(void **state)
{
	enum { DEPTH = 3000 };
	const char *name, *target;
	const struct fileop_entry *entry;

	make_deep(DEPTH, "d");
	list("t", FILEOP_RECURSIVE, UINT64_MAX);
	for (int i = 1; i < FILEOP_DEPTH_MAX; i++) {
		entry = next_entry(&name, &target);
		assert_int_equal(entry->type, S_IFDIR);
		assert_int_equal(entry->errnum, 0);
		assert_int_equal(entry->name_length, 2 * i - 1);
	}
	entry = next_entry(&name, &target);
	assert_int_equal(entry->errnum, ENAMETOOLONG);
	for (int i = 0; i < FILEOP_DEPTH_MAX; i++)
		assert_int_equal(next_entry(&name, &target)->type, S_IFREG);
	expect_end(0, 0);
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	assert_int_equal(reply.answer.count, 2 * DEPTH);
	expect_gone("t");
}

static void long_names_end_at_the_longest_path(void **state)
{
	const char *name, *target;
	const struct fileop_entry *entry;
	char long_name[251];
	int directories = 0, shut = 0;

	memset(long_name, 'l', 250);
	long_name[250] = '\0';
	make_deep(40, long_name);
	list("t", FILEOP_RECURSIVE, UINT64_MAX);
	do {
		entry = next_entry(&name, &target);
		assert_true(entry->name_length < FILEOP_PATH_MAX);
		directories += entry->type == S_IFDIR;
		shut += entry->type == S_IFDIR && entry->errnum == ENAMETOOLONG;
	} while (entry->type != 0);
	assert_int_equal(directories, 16);
	assert_int_equal(shut, 1);
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	expect_gone("t");
}

/* --- scanning --- */

enum { SCAN_MS = 10000 };

static void scan(const char *path, uint64_t limit, uint64_t ms)
{
	at = 0;
	assert_int_equal(ASK(FILEOP_SCAN, .path = path, .limit = limit, .offset = ms)->stage, FILEOP_DONE);
	assert_int_equal(reply.answer.type, S_IFDIR);
}

static void expect_directory(uint32_t count, int errnum)
{
	struct fileop_directory directory;

	assert_true(reply.length - at >= sizeof directory);
	memcpy(&directory, reply.data + at, sizeof directory);
	at += sizeof directory;
	assert_int_equal(directory.errnum, errnum);
	assert_int_equal(directory.count, count);
}

static struct fileop_node expect_node(const char *wanted, uint32_t type)
{
	struct fileop_node node;

	assert_true(reply.length - at >= sizeof node);
	memcpy(&node, reply.data + at, sizeof node);
	at += sizeof node;
	assert_true(reply.length - at >= node.name_length);
	assert_int_equal(node.name_length, strlen(wanted));
	assert_memory_equal(reply.data + at, wanted, node.name_length);
	at += node.name_length;
	assert_int_equal(node.mode & S_IFMT, type);
	return node;
}

static void expect_no_more(void)
{
	assert_int_equal(at, reply.length);
}

static void trees_are_scanned_by_levels(void **state)
{
	struct fileop_node node;
	struct stat st;

	make_tree();
	make("t/b.txt", "1");
	scan("t", 100, SCAN_MS);
	expect_directory(7, 0);
	node = expect_node("a", S_IFREG);
	st = stat_of("t/a");
	assert_true(node.inode == st.st_ino && node.size == 1 && node.mode == st.st_mode);
	assert_true(node.ctime_ns == (uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec);
	/* As paths are. */
	expect_node("b.txt", S_IFREG);
	expect_node("b/", S_IFDIR);
	expect_node("c\nd\xff", S_IFREG);
	expect_node("fifo", S_IFIFO);
	assert_int_equal(expect_node("link", S_IFLNK).size, 1);
	expect_node("shut/", S_IFDIR);
	expect_directory(2, 0);
	expect_node("empty/", S_IFDIR);
	expect_node("z", S_IFREG);
	expect_directory(0, EACCES);
	expect_directory(0, 0);
	expect_no_more();
	chmod("t/b", 0444);
	scan("t/b", 100, SCAN_MS);
	expect_directory(0, EACCES);
	expect_no_more();
}

static void what_cannot_be_scanned_is_refused(void **state)
{
	make_tree();
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_SCAN, .path = "t/link", .limit = 1);
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_SCAN, .path = "t/a", .limit = 1);
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_SCAN, .path = "t/fifo", .limit = 1);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_SCAN, .path = "no", .limit = 1);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_SCAN, .path = "t/shut", .limit = 1);
	FAILS(FILEOP_BAD_REQUEST, EINVAL, FILEOP_SCAN, .path = "t", .flags = FILEOP_RECURSIVE);
	FAILS(FILEOP_BAD_REQUEST, EINVAL, FILEOP_SCAN, .path = "t", .from = "x");
}

static void a_scan_passes_over_what_is_too_much(void **state)
{
	make_tree();
	scan("t", 6, SCAN_MS);
	expect_directory(6, 0);
	at = 0;
	scan("t", 5, SCAN_MS);
	expect_directory(0, E2BIG);
	expect_no_more();
	make("t/shut.txt", "");
	chmod("t/shut", 0755);
	make("t/shut/in", "");
	/* Two are left: not for all three that b has, but for what shut has. */
	make("t/b/y", "");
	scan("t", 9, SCAN_MS);
	expect_directory(7, 0);
	at = 0;
	scan("t/b", 3, SCAN_MS);
	expect_directory(3, 0);
	expect_node("empty/", S_IFDIR);
	expect_node("y", S_IFREG);
	expect_node("z", S_IFREG);
	expect_directory(0, 0);
	expect_no_more();
	scan("t", 9, SCAN_MS);
	at = reply.length - (2 * sizeof(struct fileop_directory) + sizeof(struct fileop_node) + 2);
	expect_directory(0, E2BIG);
	expect_directory(1, 0);
	expect_node("in", S_IFREG);
	expect_no_more();
	scan("t", 100, 0);
	expect_directory(0, ETIME);
	expect_no_more();
}

static void mounts_are_not_scanned(void **state)
{
	if (!mounted)
		skip();
	make("../small/in", "");
	assert_int_equal(mkdir("d", 0755), 0);
	scan("..", 100, SCAN_MS);
	expect_directory(2, 0);
	expect_node("small/", S_IFDIR);
	expect_node("work/", S_IFDIR);
	expect_directory(0, EXDEV);
	expect_directory(1, 0);
	expect_node("d/", S_IFDIR);
	expect_directory(0, 0);
	expect_no_more();
	/* A mount of its own is not the root's, where others cannot come to. */
	scan("../small", 100, SCAN_MS);
	assert_int_equal(reply.answer.count, 0);
	expect_directory(1, 0);
	expect_node("in", S_IFREG);
	expect_no_more();
}

static void large_trees_are_scanned(void **state)
{
	char name[40], wanted[20];
	int dir;

	assert_int_equal(mkdir("t", 0755), 0);
	dir = open("t", O_PATH | O_DIRECTORY);
	for (int i = 0; i < FILEOP_SCAN_MAX; i++) {
		snprintf(name, sizeof name, "n%07d", (int)(i * 7919LL % FILEOP_SCAN_MAX));
		close(openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644));
	}
	scan("t", UINT64_MAX, SCAN_MS);
	expect_directory(FILEOP_SCAN_MAX, 0);
	for (int i = 0; i < FILEOP_SCAN_MAX; i++) {
		snprintf(wanted, sizeof wanted, "n%07d", i);
		expect_node(wanted, S_IFREG);
	}
	expect_no_more();
	close(openat(dir, "more", O_WRONLY | O_CREAT | O_EXCL, 0644));
	close(dir);
	scan(".", UINT64_MAX, SCAN_MS);
	expect_directory(1, 0);
	expect_node("t/", S_IFDIR);
	expect_directory(0, E2BIG);
	expect_no_more();
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
}

static void deep_trees_are_scanned_as_far_as_can_be(void **state)
{
	char long_name[251], long_node[252];

	make_deep(300, "d");
	scan("t", UINT64_MAX, SCAN_MS);
	for (int i = 0; i < FILEOP_DEPTH_MAX; i++) {
		expect_directory(2, 0);
		expect_node("d/", S_IFDIR);
		expect_node("file", S_IFREG);
	}
	expect_directory(0, ENAMETOOLONG);
	expect_no_more();
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	memset(long_name, 'l', 250);
	long_name[250] = '\0';
	snprintf(long_node, sizeof long_node, "%s/", long_name);
	make_deep(40, long_name);
	scan("t", UINT64_MAX, SCAN_MS);
	for (int i = 0; i < 16; i++) {
		expect_directory(2, 0);
		expect_node("file", S_IFREG);
		expect_node(long_node, S_IFDIR);
	}
	expect_directory(0, ENAMETOOLONG);
	expect_no_more();
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
}

static void a_settled_scan_outlasts_the_time_of_files(void **state)
{
	struct fileop_node node, later;
	bool coarse, settled = true;

	assert_int_equal(mkdir("t", 0755), 0);
	/* On every kernel one whose files have the time of the last tick. */
	coarse = mount("none", "t", "ramfs", 0, "mode=777") == 0;
	for (int i = 0; i < 10; i++) {
		make("t/a", "1");
		at = 0;
		ASK(FILEOP_SCAN, .path = "t", .limit = 10, .offset = SCAN_MS, .flags = FILEOP_SETTLED);
		expect_directory(1, 0);
		node = expect_node("a", S_IFREG);
		make("t/a", "2");
		scan("t", 10, SCAN_MS);
		expect_directory(1, 0);
		later = expect_node("a", S_IFREG);
		settled &= later.ctime_ns > node.ctime_ns;
	}
	if (coarse)
		assert_int_equal(umount("t"), 0);
	assert_true(settled);
}

/* --- deleting --- */

static void names_are_deleted(void **state)
{
	make_tree();
	DONE(FILEOP_DELETE, .path = "t/a");
	expect_gone("t/a");
	assert_int_equal(reply.answer.count, 1);
	DONE(FILEOP_DELETE, .path = "t/fifo");
	FAILS(FILEOP_REMOVING, ENOTDIR, FILEOP_DELETE, .path = "t/link/");
	FAILS(FILEOP_REMOVING, ENOTDIR, FILEOP_DELETE, .path = "t/link/", .flags = FILEOP_RECURSIVE);
	DONE(FILEOP_DELETE, .path = "t/link", .flags = FILEOP_RECURSIVE);
	expect_gone("t/link");
	expect_content("t/b/z", "zz");
	DONE(FILEOP_DELETE, .path = "t/b/empty//");
	FAILS(FILEOP_REMOVING, ENOTEMPTY, FILEOP_DELETE, .path = "t/b");
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_DELETE, .path = "t/b/none");
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_DELETE, .path = "t/b/z/none");
	for (const char **path = (const char *[]){".", "t/.", "t/..", "..", "/", "//", "./", NULL}; *path; path++)
		FAILS(FILEOP_REMOVING, EINVAL, FILEOP_DELETE, .path = *path, .flags = FILEOP_RECURSIVE);
	expect_content("t/b/z", "zz");
}

static void trees_are_deleted_and_nothing_else(void **state)
{
	make_tree();
	assert_int_equal(mkdir("outside", 0755), 0);
	make("outside/a", "stays");
	assert_int_equal(symlink("../../outside", "t/b/out"), 0);
	assert_int_equal(mkdir("t/shut2", 0755), 0);
	make("t/shut2/in", "");
	assert_int_equal(mkdir("t/shut2/deeper", 0755), 0);
	make("t/shut2/deeper/in", "");
	chmod("t/shut2/deeper", 0555);
	chmod("t/shut2", 0);
	DONE(FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	assert_int_equal(reply.answer.count, 14);
	expect_gone("t");
	expect_content("outside/a", "stays");
	chmod("outside", 0555);
	FAILS(FILEOP_REMOVING, EACCES, FILEOP_DELETE, .path = "outside/a", .flags = FILEOP_RECURSIVE);
	expect_content("outside/a", "stays");
}

/* In a directory like /tmp, where others' files are not to be removed. */
static void files_of_others_stay(void **state)
{
	enum { OTHER = 12345 };

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir("t", 0755) | mkdir("t/shared", 0755) | chmod("t/shared", 01777), 0);
	make("t/shared/a", "other's");
	if (chown("t/shared", OTHER, OTHER) < 0 || chown("t/shared/a", OTHER, OTHER) < 0)
		skip();
	FAILS(FILEOP_REMOVING, EPERM, FILEOP_DELETE, .path = "t/shared/a");
	FAILS(FILEOP_REMOVING, EPERM, FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE);
	FAILS(FILEOP_OPENING, EACCES, FILEOP_WRITE, .path = "t/shared/a", .content = "ours");
	chmod("t/shared/a", 0666);
	DONE(FILEOP_WRITE, .path = "t/shared/a", .content = "ours");
	assert_int_equal(stat_of("t/shared/a").st_uid, OTHER);
	expect_content("t/shared/a", "ours");
}

static bool one_is_gone(int dir)
{
	char name[20];

	for (int i = 0; i < FEW; i += FEW / 50) {
		snprintf(name, sizeof name, "%d", i);
		if (faccessat(dir, name, F_OK, 0) < 0)
			return true;
	}
	return false;
}

/* The code moves a directory away while it is emptied: what it is in from then on is not to be emptied next. */
static void what_is_moved_out_is_not_followed(void **state)
{
	struct ask what = {FILEOP_DELETE, .path = "t", .flags = FILEOP_RECURSIVE};
	struct asked asked;
	char name[20];
	int dir;

	assert_int_equal(mkdir("outside", 0755), 0);
	make("outside/a", "stays");
	assert_int_equal(mkdir("t", 0755) | mkdir("t/in", 0755), 0);
	dir = open("t/in", O_PATH | O_DIRECTORY);
	for (int i = 0; i < FEW; i++) {
		snprintf(name, sizeof name, "%d", i);
		close(openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644));
	}
	asked = start(&what);
	while (!one_is_gone(dir))
		;
	kill(asked.pid, SIGSTOP);
	assert_int_equal(rename("t/in", "outside/in"), 0);
	kill(asked.pid, SIGCONT);
	finish(&asked);
	close(dir);
	assert_int_equal(reply.answer.stage, FILEOP_REMOVING);
	assert_int_equal(reply.answer.errnum, ESTALE);
	assert_int_equal(reply.answer.count, FEW);
	expect_content("outside/a", "stays");
	assert_int_equal(rmdir("outside/in"), 0);
}

/* --- moving --- */

static void names_are_moved(void **state)
{
	make("a", "aa");
	make("b", "b");
	assert_int_equal(mkdir("dir", 0755), 0);
	FAILS(FILEOP_RENAMING, EEXIST, FILEOP_MOVE, .path = "a", .to = "b", .flags = FILEOP_EXCLUSIVE);
	expect_content("b", "b");
	DONE(FILEOP_MOVE, .path = "a", .to = "b");
	expect_content("b", "aa");
	assert_int_equal(reply.answer.size, 2);
	expect_gone("a");
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_MOVE, .path = "a", .to = "b");
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_MOVE, .path = "b", .to = "x/y/c");
	DONE(FILEOP_MOVE, .path = "b", .to = "x/y/c", .flags = FILEOP_PARENTS | FILEOP_EXCLUSIVE);
	expect_content("x/y/c", "aa");
	FAILS(FILEOP_RENAMING, EISDIR, FILEOP_MOVE, .path = "x/y/c", .to = "dir");
	FAILS(FILEOP_RENAMING, ENOTDIR, FILEOP_MOVE, .path = "x/y/c", .to = "new/");
	FAILS(FILEOP_RENAMING, EINVAL, FILEOP_MOVE, .path = "x", .to = "x/y/x");
	FAILS(FILEOP_RENAMING, EINVAL, FILEOP_MOVE, .path = "x", .to = "x/y/x", .flags = FILEOP_EXCLUSIVE);
	DONE(FILEOP_MOVE, .path = "x/", .to = "moved/");
	expect_content("moved/y/c", "aa");
	assert_int_equal(symlink("moved", "link"), 0);
	FAILS(FILEOP_RENAMING, ENOTDIR, FILEOP_MOVE, .path = "link/", .to = "z");
	DONE(FILEOP_MOVE, .path = "link", .to = "z");
	assert_true(S_ISLNK(stat_of("z").st_mode));
	assert_int_not_equal(ASK(FILEOP_MOVE, .path = "moved", .to = "/")->stage, FILEOP_DONE);
	assert_int_not_equal(ASK(FILEOP_MOVE, .path = ".", .to = "q")->stage, FILEOP_DONE);
}

static void files_are_moved_to_another_mount(void **state)
{
	struct timespec times[2] = {{1000000000, 0}, {1234567890, 123456789}};
	struct stat st;

	if (!mounted)
		skip();
	make("a", "content");
	chmod("a", 0751);
	assert_int_equal(utimensat(AT_FDCWD, "a", times, 0), 0);
	DONE(FILEOP_MOVE, .path = "a", .to = "../small/a", .flags = FILEOP_EXCLUSIVE);
	expect_gone("a");
	expect_content("../small/a", "content");
	st = stat_of("../small/a");
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_int_equal(st.st_mtim.tv_nsec, 123456789);
	make("b", "other");
	FAILS(FILEOP_RENAMING, EEXIST, FILEOP_MOVE, .path = "b", .to = "../small/a", .flags = FILEOP_EXCLUSIVE);
	expect_content("../small/a", "content");
	DONE(FILEOP_MOVE, .path = "b", .to = "../small/a");
	expect_content("../small/a", "other");
	assert_int_equal(mkdir("dir", 0755), 0);
	FAILS(FILEOP_RENAMING, EXDEV, FILEOP_MOVE, .path = "dir", .to = "../small/dir");
	assert_int_equal(mkdir("../small/dir", 0755), 0);
	make("c", "stays");
	FAILS(FILEOP_RENAMING, EISDIR, FILEOP_MOVE, .path = "c", .to = "../small/dir");
	expect_content("c", "stays");
	expect_no_temporaries();
}

/* --- making directories, and looking --- */

static void directories_are_made(void **state)
{
	DONE(FILEOP_MKDIR, .path = "a");
	assert_int_equal(stat_of("a").st_mode & 07777, 0755);
	FAILS(FILEOP_MAKING, EEXIST, FILEOP_MKDIR, .path = "a");
	DONE(FILEOP_MKDIR, .path = "a", .mode = 0700, .flags = FILEOP_PARENTS);
	assert_int_equal(stat_of("a").st_mode & 07777, 0755);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_MKDIR, .path = "b/c/");
	DONE(FILEOP_MKDIR, .path = "b/c/d/", .mode = 01777, .flags = FILEOP_PARENTS);
	assert_int_equal(stat_of("b/c").st_mode & 07777, 0755);
	assert_int_equal(stat_of("b/c/d").st_mode & 07777, 01777);
	DONE(FILEOP_MKDIR, .path = "g", .mode = 02770);
	assert_int_equal(stat_of("g").st_mode & 07777, 02770);
	assert_int_equal(reply.answer.mode, 02770);
	make("file", "");
	FAILS(FILEOP_MAKING, EEXIST, FILEOP_MKDIR, .path = "file", .flags = FILEOP_PARENTS);
	FAILS(FILEOP_OPENING, ENOTDIR, FILEOP_MKDIR, .path = "file/x", .flags = FILEOP_PARENTS);
	assert_int_equal(symlink("nowhere", "link"), 0);
	FAILS(FILEOP_MAKING, EEXIST, FILEOP_MKDIR, .path = "link", .flags = FILEOP_PARENTS);
	DONE(FILEOP_MKDIR, .path = "/", .flags = FILEOP_PARENTS);
	DONE(FILEOP_MKDIR, .path = ".", .flags = FILEOP_PARENTS);
	FAILS(FILEOP_MAKING, EEXIST, FILEOP_MKDIR, .path = "/");
}

static void names_are_looked_at(void **state)
{
	make("a", "12345");
	assert_int_equal(symlink("a", "link"), 0);
	DONE(FILEOP_STAT, .path = "link");
	assert_int_equal(reply.answer.type, S_IFREG);
	assert_int_equal(reply.answer.size, 5);
	DONE(FILEOP_STAT, .path = "/dev/null");
	assert_int_equal(reply.answer.type, S_IFCHR);
	DONE(FILEOP_STAT, .path = ".");
	assert_int_equal(reply.answer.type, S_IFDIR);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_STAT, .path = "none");
}

/* --- requests --- */

static void expect_bad(const void *request, size_t length)
{
	struct asked asked = start_raw(request, length, 0);

	shutdown(asked.channel, SHUT_WR);
	finish(&asked);
	assert_int_equal(reply.answer.stage, FILEOP_BAD_REQUEST);
	assert_int_equal(reply.answer.errnum, EINVAL);
	assert_int_equal(reply.length, 0);
}

static void bad_requests_are_answered(void **state)
{
	struct {
		struct fileop fileop;
		char strings[8];
	} good = {{.kind = FILEOP_WRITE, .path_length = 8}, "pathpath"}, bad;
	size_t size = sizeof good;

	expect_bad(&good, 0);
	expect_bad(&good, sizeof good.fileop - 1);
	expect_bad(&good, size - 1);
	expect_bad(&good, sizeof good.fileop);
#define BAD(field, value) \
	do { \
		bad = good; \
		bad.field = value; \
		expect_bad(&bad, size); \
	} while (0)
	BAD(fileop.kind, 0);
	BAD(fileop.kind, FILEOP_SCAN + 1);
	BAD(fileop.kind, UINT32_MAX);
	BAD(fileop.flags, FILEOP_ALL);
	BAD(fileop.flags, 1U << 31);
	BAD(fileop.mode, 010000);
	BAD(fileop.path_length, 0);
	BAD(fileop.path_length, 9);
	BAD(fileop.path_length, UINT32_MAX);
	BAD(fileop.from_length, 1);
	BAD(fileop.to_length, UINT32_MAX);
	BAD(strings[7], '\0');
	BAD(strings[0], '\0');
	bad = good;
	bad.fileop.path_length = 4;
	bad.fileop.from_length = UINT32_MAX;
	bad.fileop.to_length = 5;
	expect_bad(&bad, size);
	bad.fileop.kind = FILEOP_EDIT;
	expect_bad(&bad, size);
	bad.fileop.from_length = 4;
	bad.fileop.to_length = 0;
	bad.fileop.kind = FILEOP_WRITE;
	expect_bad(&bad, size);
	bad.fileop.kind = FILEOP_MOVE;
	expect_bad(&bad, size);
	expect_gone("path");
	expect_gone("pathpath");
}

static void long_paths_are_refused_by_name(void **state)
{
	char path[FILEOP_PATH_MAX + 1];

	memset(path, '/', FILEOP_PATH_MAX);
	path[FILEOP_PATH_MAX] = '\0';
	FAILS(FILEOP_OPENING, ENAMETOOLONG, FILEOP_STAT, .path = path);
	path[FILEOP_PATH_MAX - 1] = '\0';
	DONE(FILEOP_STAT, .path = path);
	FAILS(FILEOP_REMOVING, EINVAL, FILEOP_DELETE, .path = path);
	memset(path, 'x', FILEOP_PATH_MAX - 1);
	FAILS(FILEOP_OPENING, ENAMETOOLONG, FILEOP_WRITE, .path = path);
	FAILS(FILEOP_MAKING, ENAMETOOLONG, FILEOP_MKDIR, .path = path + FILEOP_PATH_MAX - 1 - 256);
}

static void a_missing_directory_matters_to_relative_paths_only(void **state)
{
	assert_int_equal(rename("../work", "../elsewhere"), 0);
	FAILS(FILEOP_OPENING, ENOENT, FILEOP_STAT, .path = ".");
	DONE(FILEOP_STAT, .path = "/");
	assert_int_equal(rename("../elsewhere", "../work"), 0);
}

/* --- set-up --- */

static int make_work(void **state)
{
	char work[100];

	snprintf(work, sizeof work, "%s/work", top);
	return mkdir(work, 0755) < 0 || chdir(work) < 0 ? -1 : 0;
}

static int remove_work(void **state)
{
	umask(022);
	return system("chmod -R u+rwx . 2>/dev/null; cd .. && rm -rf work small/* small/.nsbox*");
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return written;
}

/* A namespace in which a tmpfs can be mounted, where that can be had. */
static bool enter_mount_namespace(void)
{
	char uids[64], gids[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	snprintf(uids, sizeof uids, "%u %u 1", uid, uid);
	snprintf(gids, sizeof gids, "%u %u 1", gid, gid);
	return write_text("/proc/self/uid_map", uids) && write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/gid_map", gids);
}

/* All of the test's files are on a tmpfs then, where 50 000 of them take no time. */
static void mount_own(uid_t uid)
{
	char small[100], options[100];

	snprintf(small, sizeof small, "%s/small", top);
	snprintf(options, sizeof options, "size=%d,mode=0755", SMALL_BYTES);
	mounted = mount("top", top, "tmpfs", 0, "size=256m,mode=0755") == 0 && mkdir(small, 0755) == 0 &&
		  mount("small", small, "tmpfs", 0, options) == 0;
	if (mounted && uid != geteuid())
		assert_int_equal(chown(small, uid, uid) | chown(top, uid, uid), 0);
}

static int run_as(uid_t uid)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_work, remove_work)
		TEST(content_is_read),
		TEST(large_content_is_read),
		TEST(files_of_proc_are_read),
		TEST(only_regular_files_are_read),
		TEST(descriptors_are_no_files),
		TEST(a_file_that_becomes_shorter_ends_the_channel),
		TEST(a_reader_that_leaves_is_noticed),
		TEST(files_are_written),
		TEST(old_files_are_replaced_whole),
		TEST(new_files_are_only_new),
		TEST(what_comes_into_being_meanwhile_stays),
		TEST(content_is_appended),
		TEST(links_are_written_through),
		TEST(files_with_several_names_stay_one),
		TEST(directories_that_take_no_file_keep_theirs),
		TEST(who_gives_up_changes_nothing),
		TEST(an_answer_comes_before_the_content_is_through),
		TEST(a_full_disk_leaves_the_old_content),
		TEST(a_limit_on_file_sizes_is_an_error),
		TEST(text_is_replaced),
		TEST(edits_are_bounded),
		TEST(directories_are_listed),
		TEST(trees_are_listed),
		TEST(mounts_are_listed_but_not_looked_into),
		TEST(large_directories_are_listed_in_order),
		TEST(deep_trees_are_listed_as_far_as_can_be_and_deleted),
		TEST(trees_are_scanned_by_levels),
		TEST(what_cannot_be_scanned_is_refused),
		TEST(a_scan_passes_over_what_is_too_much),
		TEST(mounts_are_not_scanned),
		TEST(large_trees_are_scanned),
		TEST(deep_trees_are_scanned_as_far_as_can_be),
		TEST(a_settled_scan_outlasts_the_time_of_files),
		TEST(long_names_end_at_the_longest_path),
		TEST(names_are_deleted),
		TEST(trees_are_deleted_and_nothing_else),
		TEST(files_of_others_stay),
		TEST(what_is_moved_out_is_not_followed),
		TEST(names_are_moved),
		TEST(files_are_moved_to_another_mount),
		TEST(directories_are_made),
		TEST(names_are_looked_at),
		TEST(bad_requests_are_answered),
		TEST(long_paths_are_refused_by_name),
		TEST(a_missing_directory_matters_to_relative_paths_only),
	};

	if (uid != geteuid() &&
		(setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
		return 1;
	return cmocka_run_group_tests_name(uid == NOBODY ? "fileops as nobody" : "fileops", tests, NULL, NULL);
}

/* In a child, with which the mounts go. Returns how many failed. */
static int run_apart(uid_t uid)
{
	char command[100];
	int status;
	pid_t pid;

	strcpy(top + sizeof top - 7, "XXXXXX");
	if (!mkdtemp(top))
		return 1;
	chmod(top, 0755);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (enter_mount_namespace())
			mount_own(uid);
		else if (uid != geteuid() && chown(top, uid, uid) < 0)
			_exit(1);
		status = run_as(uid);
		fflush(stdout);
		_exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	snprintf(command, sizeof command, "rm -rf %s", top);
	return (system(command) != 0) + (WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(void)
{
	struct error err = {0};
	int failed;

	spec_init(&spec);
	free(spec.seccomp_name);
	spec.seccomp_name = strdup("strict");
	if (spec_load_filters(&spec, &err) < 0) {
		fprintf(stderr, "test_fileops: %s\n", err.text);
		return 1;
	}
	failed = run_apart(geteuid());
	if (geteuid() == 0)
		failed += run_apart(NOBODY);
	spec_free(&spec);
	return failed;
}
