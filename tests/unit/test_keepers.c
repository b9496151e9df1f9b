/* SPDX-License-Identifier: MIT */
/*
 * The commands of a session: a real sandbox, with several at a time. What is asked is whether each command's
 * processes, and only those, end with it, whatever they have done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/create.h"
#include "sandbox/keepers.h"
#include "sandbox/result.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"
#include "seccomp/load.h"
#include "util/error.h"

enum { PIDS = 40, WAIT_MS = 20000, TEXT_MAX = 1 << 16 };

static struct spec spec;
static struct sandbox sandbox;
static struct run_result result;
static struct error err;
static int proc_fd; /* the sandbox's own /proc */

static void show_error(void)
{
	if (err.text[0])
		print_message("%s\n", err.text);
}

static struct agent_message receive(void)
{
	struct agent_message message = {0};
	struct pollfd fd = {.fd = sandbox.socket, .events = POLLIN};

	do {
		assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
		assert_true(wire_receive(sandbox.socket, &message, sizeof message, NULL, NULL) > 0);
	} while (message.type == AGENT_STARTED);
	return message;
}

static int make_session(uint32_t pids)
{
	struct stdio stdio = STDIO_NONE;
	struct agent_message message;
	int fds[WIRE_FDS_MAX];
	size_t count = WIRE_FDS_MAX;

	spec_init(&spec);
	spec.session = true;
	spec.limits.pids = pids;
	spec.seccomp_name = spec.seccomp_name ?: strdup("default");
	for (int i = 0; i < 3; i++)
		stdio.child[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	err.text[0] = '\0';
	if (spec_load_filters(&spec, &err) < 0 || spec_validate(&spec, &err) < 0 ||
		sandbox_create(&spec, &stdio, &sandbox, &result, &err) < 0) {
		show_error();
		return -1;
	}
	stdio_close(&stdio);
	assert_true(wire_receive(sandbox.socket, &message, sizeof message, fds, &count) > 0);
	if (message.type != AGENT_CREATED) {
		print_message("%s\n", message.error.text);
		return -1;
	}
	proc_fd = fds[0];
	for (size_t i = 1; i < count; i++)
		close(fds[i]);
	return 0;
}

static int set_up(void **state)
{
	return make_session(PIDS);
}

static int set_up_for_many(void **state)
{
	return make_session(4 * KEEPERS_MAX);
}

static int tear_down(void **state)
{
	struct rusage usage;

	sandbox_kill(&sandbox);
	sandbox_wait(&sandbox, &usage);
	sandbox_release(&sandbox);
	close(proc_fd);
	run_result_free(&result);
	memset(&result, 0, sizeof result);
	spec_free(&spec);
	return 0;
}

/* Starts «sh -c SCRIPT»; what it writes comes from the descriptor that is returned. */
static int start(uint32_t id, const char *script)
{
	struct stdio stdio = STDIO_NONE;
	struct exec_spec exec = {0};
	int ends[2];

	exec_add_arg(&exec, "/bin/sh");
	exec_add_arg(&exec, "-c");
	exec_add_arg(&exec, script);
	exec_set_env(&exec, "PATH", "/usr/bin:/bin");
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	stdio.child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	stdio.child[1] = ends[1];
	stdio.child[2] = dup(ends[1]);
	if (sandbox_start(&sandbox, id, &exec, false, &stdio, &err) < 0) {
		show_error();
		fail();
	}
	stdio_close_child(&stdio);
	for (char **next = exec.argv; *next; next++)
		free(*next);
	free(exec.argv);
	for (char **next = exec.env; *next; next++)
		free(*next);
	free(exec.env);
	return ends[0];
}

static const char *read_all(int fd)
{
	static char text[TEXT_MAX];
	size_t length = 0;
	ssize_t n;

	while ((n = read(fd, text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(fd);
	return text;
}

static void read_line(int fd, char *line, size_t size)
{
	size_t length = 0;

	while (length < size - 1 && read(fd, line + length, 1) == 1 && line[length] != '\n')
		length++;
	line[length] = '\0';
}

static int ended_with(uint32_t id)
{
	struct agent_message message = receive();

	if (message.type != AGENT_ENDED)
		print_message("%s\n", message.error.text);
	assert_int_equal(message.type, AGENT_ENDED);
	assert_int_equal(message.id, id);
	sandbox_forget_command(&sandbox, id);
	return message.value;
}

/* Processes inside: the agent, keepers and what they keep. */
static int count_processes(void)
{
	char path[64], line[256];
	int count = 0;
	FILE *pipe;

	snprintf(path, sizeof path, "ls -d /proc/self/fd/%d/[0-9]* 2>/dev/null", proc_fd);
	/* Without a helper's open descriptor there would be nothing to list: it inherits ours. */
	fcntl(proc_fd, F_SETFD, 0);
	pipe = popen(path, "r");
	while (fgets(line, sizeof line, pipe))
		count++;
	pclose(pipe);
	fcntl(proc_fd, F_SETFD, FD_CLOEXEC);
	return count;
}

static void expect_processes(int count)
{
	for (int tries = 0; tries < 2000 && count_processes() != count; tries++)
		usleep(10000);
	assert_int_equal(count_processes(), count);
}

static void several_at_a_time(void **state)
{
	int slow = start(1, "trap 'echo slow; exit 4' USR1; echo up; while :; do sleep 0.05; done"), fast;
	char line[16];

	read_line(slow, line, sizeof line);
	fast = start(2, "echo fast; exit 3");
	assert_int_equal(WEXITSTATUS(ended_with(2)), 3);
	assert_string_equal(read_all(fast), "fast\n");
	assert_int_equal(sandbox_signal(&sandbox, 1, SIGUSR1, &err), 0);
	assert_int_equal(WEXITSTATUS(ended_with(1)), 4);
	assert_non_null(strstr(read_all(slow), "slow\n"));
	expect_processes(1);
}

static void what_it_leaves_ends_with_it(void **state)
{
	int other = start(1, "exec sleep 1000"), fd;

	/* In the background, in a session of its own, with its parent gone, and with all signals ignored. */
	fd = start(2,
		"trap '' TERM HUP INT; sleep 1001 & setsid sleep 1002 & (setsid sh -c 'sleep 1003 & sleep 1004 & exit' &) ; "
		"sleep 0.2; echo done");
	assert_int_equal(ended_with(2), 0);
	assert_string_equal(read_all(fd), "done\n");
	/* The agent, the first command and its keeper. */
	expect_processes(3);
	assert_int_equal(sandbox_end_command(&sandbox, 1, &err), 0);
	assert_int_equal(WTERMSIG(ended_with(1)), SIGKILL);
	read_all(other);
	expect_processes(1);
}

/* Its first thread ends before the others, as it may: proc(5) has it as a zombie then. */
static void one_that_seems_dead_is_ended(void **state)
{
	char script[512];
	int fd;

	snprintf(script, sizeof script,
		"(setsid perl -Mthreads -e 'threads->create(sub { sleep 1000 }); syscall(%d, 0)' >/dev/null 2>&1 &); "
		"while ! grep -qs Z.*zombie /proc/[1-9]*/status; do sleep 0.1; done; echo done",
		SYS_exit);
	fd = start(1, script);
	assert_int_equal(ended_with(1), 0);
	assert_string_equal(read_all(fd), "done\n");
	expect_processes(1);
}

/* One that is meant to be there until expect_still_here. */
static int start_other(uint32_t id)
{
	int fd = start(id, "echo up; exec sleep 1000");
	char line[16];

	read_line(fd, line, sizeof line);
	return fd;
}

/* It ends by the signal that it gets here, and of nothing else. */
static void expect_still_here(uint32_t id, int fd)
{
	assert_int_equal(sandbox_signal(&sandbox, id, SIGTERM, &err), 0);
	assert_int_equal(WTERMSIG(ended_with(id)), SIGTERM);
	assert_string_equal(read_all(fd), "");
}

static void one_is_ended_and_the_others_go_on(void **state)
{
	int first = start(1, "echo up; (setsid sleep 1000 &); sleep 1000"), second = start_other(2);
	char line[16];

	read_line(first, line, sizeof line);
	assert_int_equal(sandbox_end_command(&sandbox, 1, &err), 0);
	assert_int_equal(WTERMSIG(ended_with(1)), SIGKILL);
	assert_string_equal(read_all(first), "");
	expect_still_here(2, second);
	expect_processes(1);
}

static void a_fork_bomb_is_ended(void **state)
{
	int other = start_other(2), bomb = start(1, "echo up; exec perl -e 'while (1) { fork }'");
	char line[16];

	read_line(bomb, line, sizeof line);
	usleep(500000);
	assert_int_equal(sandbox_end_command(&sandbox, 1, &err), 0);
	assert_int_equal(WTERMSIG(ended_with(1)), SIGKILL);
	close(bomb);
	expect_still_here(2, other);
	expect_processes(1);
}

/* The keeper is the parent of the shell. */
static void the_keeper_is_killed_by_the_code(void **state)
{
	int other = start_other(2), fd = start(1, "sleep 1000 & kill -9 $PPID; sleep 1000");

	assert_int_equal(WTERMSIG(ended_with(1)), SIGKILL);
	assert_string_equal(read_all(fd), "");
	expect_still_here(2, other);
	expect_processes(1);
}

static void the_keeper_is_stopped_by_the_code(void **state)
{
	int fd = start(1, "kill -STOP $PPID; echo stopped; exit");
	char line[16];

	/* Not to the end: it may be stopped before it has closed its own of these descriptors. */
	read_line(fd, line, sizeof line);
	assert_string_equal(line, "stopped");
	assert_int_equal(sandbox_end_command(&sandbox, 1, &err), 0);
	assert_int_equal(WTERMSIG(ended_with(1)), SIGKILL);
	assert_string_equal(read_all(fd), "");
	expect_processes(1);
}

static void keepers_cannot_be_looked_into(void **state)
{
	int fd = start(1,
		"cat /proc/$PPID/environ; cat /proc/$PPID/maps; ls /proc/$PPID/fd; cat /proc/$PPID/mem; :");
	const char *text;

	assert_int_equal(ended_with(1), 0);
	text = read_all(fd);
	for (int i = 0; i < 4; i++) {
		text = strstr(text, "Permission denied");
		assert_non_null(text);
		text++;
	}
}

static void signals_reach_their_command_only(void **state)
{
	int first = start(1, "trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.05; done"),
	    second = start(2, "trap 'exit 8' USR1; trap 'exit 0' USR2; echo up; while :; do sleep 0.05; done");
	char line[16];

	read_line(first, line, sizeof line);
	read_line(second, line, sizeof line);
	assert_int_equal(sandbox_signal(&sandbox, 1, SIGUSR1, &err), 0);
	assert_int_equal(WEXITSTATUS(ended_with(1)), 9);
	assert_non_null(strstr(read_all(first), "got\n"));
	assert_int_equal(sandbox_signal(&sandbox, 2, SIGUSR2, &err), 0);
	assert_int_equal(ended_with(2), 0);
	read_all(second);
	/* To one that is not there. */
	assert_int_equal(sandbox_signal(&sandbox, 77, SIGKILL, &err), 0);
	assert_int_equal(sandbox_end_command(&sandbox, 77, &err), 0);
	read_all(start(3, "exit 0"));
	assert_int_equal(ended_with(3), 0);
}

/* However little of the command there is by then. */
static void signals_that_come_early_are_not_lost(void **state)
{
	for (uint32_t id = 1; id <= 200; id++) {
		int fd = start(id, "exec sleep 1000");

		if (id % 4)
			usleep(id * 10);
		assert_int_equal(sandbox_signal(&sandbox, id, SIGTERM, &err), 0);
		assert_int_equal(WTERMSIG(ended_with(id)), SIGTERM);
		close(fd);
	}
}

static void the_limit_of_processes_is_the_codes(void **state)
{
	int other = start(1, "exec sleep 1000"), fd;
	const char *text;

	fd = start(2, "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); echo $i; done");
	(void)ended_with(2);
	text = read_all(fd);
	/* Beside two shells: 38 more, with the other command's. */
	assert_non_null(strstr(text, "\n36\n"));
	assert_null(strstr(text, "\n40\n"));
	assert_int_equal(sandbox_end_command(&sandbox, 1, &err), 0);
	(void)ended_with(1);
	read_all(other);
	expect_processes(1);
}

static void what_cannot_be_executed(void **state)
{
	struct stdio stdio = STDIO_NONE;
	struct exec_spec exec = {.argv = (char *[]){(char *)"nothing-of-this-name", NULL}};
	struct agent_message message;

	for (int i = 0; i < 3; i++)
		stdio.child[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(sandbox_start(&sandbox, 5, &exec, false, &stdio, &err), 0);
	stdio_close_child(&stdio);
	message = receive();
	assert_int_equal(message.type, AGENT_EXEC_FAILED);
	assert_int_equal(message.id, 5);
	assert_int_equal(message.value, ENOENT);
	assert_string_equal(
		message.error.text, "nothing-of-this-name: no such program inside in PATH");
	expect_processes(1);
}

static void there_is_room_for_so_many(void **state)
{
	int fds[KEEPERS_MAX + 1];
	struct agent_message message;

	for (int i = 0; i <= KEEPERS_MAX; i++)
		fds[i] = start((uint32_t)i + 1, "echo $$; sleep 1000");
	message = receive();
	assert_int_equal(message.id, KEEPERS_MAX + 1);
	assert_int_equal(message.type, AGENT_NOT_STARTED);
	for (int i = 0; i <= KEEPERS_MAX; i++)
		close(fds[i]);
}

static void a_thousand_leave_nothing(void **state)
{
	for (uint32_t id = 1; id <= 1000; id++) {
		int fd = start(id, "exit 0");

		assert_int_equal(ended_with(id), 0);
		read_all(fd);
	}
	expect_processes(1);
}

int main(int argc, char **argv, char **envp)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(several_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_it_leaves_ends_with_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_seems_dead_is_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_is_ended_and_the_others_go_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_fork_bomb_is_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_keeper_is_killed_by_the_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_keeper_is_stopped_by_the_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(keepers_cannot_be_looked_into, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			signals_reach_their_command_only, set_up, tear_down),
		cmocka_unit_test_setup_teardown(signals_that_come_early_are_not_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_limit_of_processes_is_the_codes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be_executed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			there_is_room_for_so_many, set_up_for_many, tear_down),
		cmocka_unit_test_setup_teardown(a_thousand_leave_nothing, set_up, tear_down),
	};

	sandbox_early_init(argc, argv, envp);
	return cmocka_run_group_tests_name("keepers", tests, NULL, NULL);
}
