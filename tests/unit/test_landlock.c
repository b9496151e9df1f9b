/* SPDX-License-Identifier: MIT */
/*
 * The second wall, by itself: a child puts it around itself with descriptors in its hand that lead outside,
 * which no sandbox ever has, and tries them. Each thing is tried without the wall first.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/landlock.h"
#include "util/error.h"

/* A folder with `outside` and `inside` in it. */
static char top[] = "/tmp/nsbox-landlock.XXXXXX";
static int outside, inside;
static int abi;

static void make_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0 && write(fd, "text", 4) == 4);
	close(fd);
}

static int make_directory(int dir, const char *name)
{
	assert_true(mkdirat(dir, name, 0755) == 0 || errno == EEXIST);
	return openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
	int fd;

	assert_non_null(mkdtemp(top));
	fd = open(top, O_PATH | O_DIRECTORY);
	outside = make_directory(fd, "outside");
	inside = make_directory(fd, "inside");
	make_file(outside, "secret");
	make_file(inside, "own");
	close(make_directory(inside, "a"));
	close(make_directory(inside, "b"));
	close(fd);
	return landlock_abi(&abi, &(struct error){0});
}

static int tear_down(void **state)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command);
}

/* Makes `attempt` in a child that is confined to `inside` (or not at all). Returns 0, or errno of its failure. */
static int in_child(bool confined, enum landlock_use use, int again, int (*attempt)(void *), void *data)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct landlock wall = LANDLOCK_INIT;
		struct error err;

		if (confined && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
					landlock_begin(abi, LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, &wall, &err) < 0 ||
					landlock_allow(&wall, inside, use, &err) < 0 ||
					(again >= 0 && landlock_allow_again(&wall, again, &err) < 0) ||
					landlock_enforce(&wall, &err) < 0))
			_exit(255);
		_exit(attempt(data) < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 255);
	return WEXITSTATUS(status);
}

static void needs_abi(int wanted)
{
	if (abi < wanted)
		skip();
}

/* Refused with the wall, and not without. */
static void refused(int (*attempt)(void *), void *data, int errnum)
{
	assert_int_equal(in_child(false, LANDLOCK_CHANGE, -1, attempt, data), 0);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, attempt, data), errnum);
}

static int read_outside(void *data)
{
	return openat(outside, "secret", O_RDONLY);
}

static int write_outside(void *data)
{
	return openat(outside, "secret", O_WRONLY);
}

static int make_outside(void *data)
{
	return openat(outside, "new", O_WRONLY | O_CREAT, 0644);
}

static int list_outside(void *data)
{
	return openat(outside, ".", O_RDONLY | O_DIRECTORY);
}

static int remove_outside(void *data)
{
	return unlinkat(outside, "new", 0);
}

static int execute_outside(void *data)
{
	static char *const nothing[] = {NULL};

	syscall(SYS_execveat, outside, "program", nothing, nothing, 0);
	/* Refused it must be as EACCES; where it is read, it is no program. */
	return errno == ENOEXEC ? 0 : -1;
}

static int walk_up(void *data)
{
	return openat(outside, "../../../../../../etc/passwd", O_RDONLY);
}

static int link_out(void *data)
{
	return linkat(inside, "own", outside, "linked", 0);
}

static void a_directory_that_leaked_opens_nothing(void **state)
{
	needs_abi(LANDLOCK_ABI_MIN);
	make_file(outside, "program");
	assert_return_code(fchmodat(outside, "program", 0755, 0), errno);
	refused(read_outside, NULL, EACCES);
	refused(write_outside, NULL, EACCES);
	refused(make_outside, NULL, EACCES);
	refused(list_outside, NULL, EACCES);
	refused(walk_up, NULL, EACCES);
	refused(execute_outside, NULL, EACCES);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, link_out, NULL), EACCES);
	assert_int_equal(in_child(false, LANDLOCK_CHANGE, -1, link_out, NULL), 0);
	make_file(outside, "new");
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, remove_outside, NULL), EACCES);
	assert_int_equal(in_child(false, LANDLOCK_CHANGE, -1, remove_outside, NULL), 0);
}

static int use_inside(void *data)
{
	int fd = openat(inside, "a/new", O_RDWR | O_CREAT, 0644);

	return fd < 0 || write(fd, "text", 4) != 4 || ftruncate(fd, 2) < 0 || renameat(inside, "a/new", inside, "b/new") < 0 ||
			       linkat(inside, "b/new", inside, "a/linked", 0) < 0 || unlinkat(inside, "a/linked", 0) < 0 ||
			       mkfifoat(inside, "a/fifo", 0600) < 0 || symlinkat("x", inside, "a/link") < 0 ||
			       unlinkat(inside, "a/fifo", 0) < 0 || unlinkat(inside, "a/link", 0) < 0 ||
			       unlinkat(inside, "b/new", 0) < 0
		       ? -1
		       : 0;
}

static void inside_everything_goes_on(void **state)
{
	needs_abi(LANDLOCK_ABI_MIN);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, use_inside, NULL), 0);
}

static int make_device(void *data)
{
	/* The second wall is asked before the capability that it needs. */
	return mknodat(inside, "device", S_IFCHR, makedev(1, 3));
}

static void no_device_is_made(void **state)
{
	needs_abi(LANDLOCK_ABI_MIN);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, make_device, NULL), EACCES);
	assert_int_equal(in_child(true, LANDLOCK_DEVICES, -1, make_device, NULL), EACCES);
}

static int read_inside(void *data)
{
	return openat(inside, "own", O_RDONLY);
}

static int write_inside(void *data)
{
	return openat(inside, "own", O_WRONLY);
}

static void what_may_be_read_may_not_be_written(void **state)
{
	needs_abi(LANDLOCK_ABI_MIN);
	assert_int_equal(in_child(true, LANDLOCK_READ, -1, read_inside, NULL), 0);
	assert_int_equal(in_child(true, LANDLOCK_READ, -1, write_inside, NULL), EACCES);
	assert_int_equal(in_child(true, LANDLOCK_READ, -1, use_inside, NULL), EACCES);
}

static int open_again(void *data)
{
	char path[40];

	snprintf(path, sizeof path, "/proc/self/fd/%d", ((int *)data)[0]);
	return open(path, ((int *)data)[1]);
}

static void what_is_open_can_be_opened_again_for_the_same(void **state)
{
	int fd = openat(outside, "secret", O_RDONLY | O_CLOEXEC), pipes[2];

	needs_abi(LANDLOCK_ABI_MIN);
	/* /proc itself is outside: but looking up a name in it opens nothing. */
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, open_again, (int[]){fd, O_RDONLY}), EACCES);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, fd, open_again, (int[]){fd, O_RDONLY}), 0);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, fd, open_again, (int[]){fd, O_WRONLY}), EACCES);
	assert_return_code(pipe(pipes), errno);
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, pipes[0], open_again, (int[]){pipes[0], O_RDONLY | O_NONBLOCK}), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static int connect_to(void *data)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", top);
	return connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(top)));
}

static void an_abstract_socket_outside_is_not_reached(void **state)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	needs_abi(6);
	snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", top);
	assert_return_code(bind(fd, (struct sockaddr *)&address,
				   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(top))),
		errno);
	assert_return_code(listen(fd, 5), errno);
	refused(connect_to, NULL, EPERM);
	close(fd);
}

static int signal_parent(void *data)
{
	return kill(getppid(), 0);
}

static void a_process_outside_gets_no_signal(void **state)
{
	needs_abi(6);
	refused(signal_parent, NULL, EPERM);
}

static int ask_terminal(void *data)
{
	return ioctl(*(int *)data, 0x5401 /* TCGETS */, (char[64]){0});
}

static void what_was_open_before_stays_usable(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	needs_abi(5);
	if (master < 0)
		skip();
	/* What was open before stays as it was. */
	assert_int_equal(in_child(true, LANDLOCK_CHANGE, -1, ask_terminal, &master), 0);
	close(master);
}

static void the_kernel_is_asked_for_its_version(void **state)
{
	assert_true(abi == 0 || (abi >= LANDLOCK_ABI_MIN && abi == landlock_kernel_abi()));
	if (abi == 0 && landlock_kernel_abi() == 0)
		assert_true(errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_is_asked_for_its_version),
		cmocka_unit_test(a_directory_that_leaked_opens_nothing),
		cmocka_unit_test(inside_everything_goes_on),
		cmocka_unit_test(no_device_is_made),
		cmocka_unit_test(what_may_be_read_may_not_be_written),
		cmocka_unit_test(what_is_open_can_be_opened_again_for_the_same),
		cmocka_unit_test(an_abstract_socket_outside_is_not_reached),
		cmocka_unit_test(a_process_outside_gets_no_signal),
		cmocka_unit_test(what_was_open_before_stays_usable),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
