/* SPDX-License-Identifier: MIT */
/* Programs that are started from behind a wall, and that wall of nsbox-image. */
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/start.h"
#include "image/store.h"
#include "image/wall.h"
#include "sandbox/landlock.h"
#include "util/error.h"
#include "util/starter.h"

enum { DESCRIPTORS_MANY = 600 };

struct request {
	enum { EXIT, NO_NEW_PRIVS, WRITE_TO, LAST_OF_MANY, WAIT } what;
	int number;
	int fds[DESCRIPTORS_MANY];
};

static void run(const void *data, size_t size)
{
	const struct request *request = data;

	switch (request->what) {
	case EXIT:
		_exit(request->number);
	case NO_NEW_PRIVS:
		_exit(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	case WRITE_TO:
		_exit(write(request->number, "here", 4) == 4 ? 0 : 1);
	case LAST_OF_MANY:
		_exit(write(request->fds[DESCRIPTORS_MANY - 1], "here", 4) == 4 ? 0 : 1);
	case WAIT:
		pause();
	}
}

static struct starter starter;
static struct error err;

static int set_up(void **state)
{
	return starter_open(run, &starter, &err);
}

static int tear_down(void **state)
{
	starter_close(&starter);
	return 0;
}

static int status_of(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int start(struct request request)
{
	return status_of(starter_start(&starter, &request, sizeof request, &err));
}

static void test_it_is_a_child_of_ours(void **state)
{
	for (int i = 0; i < 50; i++)
		assert_int_equal(start((struct request){.what = EXIT, .number = i}), i);
}

static void test_descriptors_of_later(void **state)
{
	struct request request = {.what = WRITE_TO};
	char text[5] = "";
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	request.number = ends[1];
	assert_int_equal(start(request), 0);
	assert_int_equal(read(ends[0], text, 4), 4);
	assert_string_equal(text, "here");
	request.what = LAST_OF_MANY;
	request.fds[DESCRIPTORS_MANY - 1] = ends[1];
	assert_int_equal(start(request), 0);
	assert_int_equal(read(ends[0], text, 4), 4);
	/* Nobody else holds the other end. */
	close(ends[1]);
	assert_int_equal(read(ends[0], text, 4), 0);
	close(ends[0]);
}

static void test_it_stays_outside(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct request request = {.what = NO_NEW_PRIVS};
		struct starter own;

		if (starter_open(run, &own, &err) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			waitpid(starter_start(&own, &request, sizeof request, &err), &status, 0) < 0)
			_exit(9);
		_exit(WEXITSTATUS(status));
	}
	assert_int_equal(status_of(pid), 0);
}

static void test_too_long(void **state)
{
	static char request[STARTER_REQUEST_MAX * 8];

	/* Cut, or refused: never waited for without end. */
	pid_t pid = starter_start(&starter, request, sizeof request, &err);

	if (pid > 0)
		waitpid(pid, NULL, 0);
	assert_int_equal(start((struct request){.what = EXIT, .number = 3}), 3);
}

static void test_killed(void **state)
{
	const struct request request = {.what = EXIT};

	assert_int_equal(kill(starter.pid, SIGKILL), 0);
	assert_int_equal(poll(&(struct pollfd){.fd = starter.pidfd, .events = POLLIN}, 1, 10000), 1);
	assert_int_equal(starter_start(&starter, &request, sizeof request, &err), -1);
	assert_string_equal(err.text, "the process that starts programs for this one is gone");
}

static void test_it_ends_with_its_caller(void **state)
{
	pid_t pids[2], pid;
	struct pollfd end = {.events = POLLIN};
	int ends[2];

	/* A pipe that the starter holds, through the common table, tells of its end. */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct starter own;

		close(ends[0]);
		if (starter_open(run, &own, &err) < 0)
			_exit(9);
		pids[0] = own.pid;
		if (write(ends[1], pids, sizeof *pids) != sizeof *pids)
			_exit(9);
		raise(SIGKILL);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], pids, sizeof *pids), sizeof *pids);
	end.fd = ends[0];
	assert_int_equal(poll(&end, 1, 10000), 1);
	assert_int_equal(read(ends[0], pids, sizeof *pids), 0);
	close(ends[0]);
	waitpid(pid, NULL, 0);
}

static void test_unknown_requests(void **state)
{
	static char garbage[STARTER_REQUEST_MAX];
	static const size_t sizes[] = {1, 15, 16, 17, 100, 4000, sizeof garbage};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int fill = 0; fill < 256; fill += 85) {
			pid_t pid;

			memset(garbage, fill, sizeof garbage);
			pid = starter_start(&starter, garbage, sizes[i], &err);
			if (pid > 0) {
				kill(pid, SIGKILL);
				waitpid(pid, NULL, 0);
			}
		}
	assert_int_equal(start((struct request){.what = EXIT, .number = 5}), 5);
}

/* --- the wall of nsbox-image --- */

static char top[] = "/tmp/nsbox-wall.XXXXXX";
static const char pattern[] = "XXXXXX";

static void path_in_top(char *path, const char *name)
{
	sprintf(path, "%s/%s", top, name);
}

static int make_places(void **state)
{
	static const char *const names[] = {"store", "home", "home/.docker", "home/.config",
		"home/.config/containers", "home/.ssh", "archive", "bin"};
	char path[100];

	strcpy(strrchr(top, '.') + 1, pattern);
	if (!mkdtemp(top))
		return -1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		int fd;

		path_in_top(path, names[i]);
		if (mkdir(path, 0700) < 0)
			return -1;
		strcat(path, "/config.json");
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		close(fd);
	}
	return 0;
}

static int remove_places(void **state)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command);
}

enum { READABLE = 1, WRITABLE = 2 };

/* What can be done with a file below `top`. */
static int access_to(const char *name)
{
	char path[100];
	int fd, access = 0;

	path_in_top(path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	access |= fd >= 0 ? READABLE : 0;
	close(fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	access |= fd >= 0 ? WRITABLE : 0;
	close(fd);
	return access;
}

static const struct {
	const char *name;
	int access;
} expected[] = {
	{"store/config.json", READABLE | WRITABLE},
	{"home/config.json", 0},
	{"home/.ssh/config.json", 0},
	{"home/.docker/config.json", READABLE},
	{"home/.config/config.json", 0},
	{"home/.config/containers/config.json", READABLE},
	{"archive/config.json", READABLE},
	{"bin/config.json", 0},
};

/* Returns where it failed, as a number from 1 on; 0: nowhere. */
static int behind_the_wall(bool raised)
{
	struct store store = {.fd = -1};
	char path[100], archive[100];
	const char *const readable[] = {archive, NULL};

	path_in_top(path, "home");
	setenv("HOME", path, 1);
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("DOCKER_CONFIG");
	path_in_top(archive, "archive");
	path_in_top(store.path, "store");
	store.fd = open(store.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (start_prepare(&store, &err) < 0 || (raised && wall_raise(&store, readable, -1, &err) < 0))
		return 100;
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		if (access_to(expected[i].name) !=
			(raised ? expected[i].access : READABLE | WRITABLE))
			return (int)i + 1;
	/* It executes nothing itself; the status tells that it was executed. */
	execl("/bin/sh", "sh", "-c", "exit 50", (char *)NULL);
	return errno == EACCES ? 0 : 101;
}

static void test_wall(void **state)
{
	int abi;

	assert_int_equal(landlock_abi(&abi, &err), 0);
	if (abi == 0)
		skip();
	for (int raised = 0; raised < 2; raised++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(behind_the_wall(raised));
		assert_int_equal(status_of(pid), raised ? 0 : 50);
	}
}

/* A helper is anybody's program: it runs outside of the wall. */
static void test_helper_is_outside(void **state)
{
	char path[100], line[200];
	struct store store = {.fd = -1};
	FILE *script;
	pid_t pid;

	path_in_top(path, "bin/docker-credential-test");
	script = fopen(path, "w");
	assert_non_null(script);
	fprintf(script, "#!/bin/sh\nread server\n: >%s/home/.ssh/$server\nexit 7\n", top);
	fclose(script);
	assert_int_equal(chmod(path, 0700), 0);
	pid = fork();
	if (pid == 0) {
		int ends[2];

		snprintf(line, sizeof line, "%s/bin:%s", top, getenv("PATH"));
		setenv("PATH", line, 1);
		path_in_top(store.path, "store");
		store.fd = open(store.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (start_prepare(&store, &err) < 0 || wall_raise(&store, NULL, -1, &err) < 0 ||
			pipe2(ends, O_CLOEXEC) < 0 || write(ends[1], "reg.example\n", 12) != 12)
			_exit(100);
		_exit(status_of(start_credential_helper("test", ends[0], ends[1], &err)));
	}
	assert_int_equal(status_of(pid), 7);
	path_in_top(path, "home/.ssh/reg.example");
	assert_int_equal(access(path, F_OK), 0);
}

/* Of a request to unpack into a directory below `top`: 127, as there is no nsbox-unpack here; or START_REFUSED. */
static int unpack_into(const char *name, const char *lower)
{
	char path[100];
	char *words[] = {(char *)"nsbox-unpack", NULL};
	int own[START_UNPACK_OWN], below;
	struct store store = {.fd = -1};
	struct stat st;

	path_in_top(store.path, "store");
	store.fd = open(store.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (start_prepare(&store, &err) < 0 || wall_raise(&store, NULL, -1, &err) < 0)
		return 100;
	/* Landlock does not keep from opening with O_PATH. */
	path_in_top(path, name);
	own[0] = own[1] = own[3] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	own[2] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	path_in_top(path, lower);
	below = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (own[2] < 0 || below < 0 || fstat(own[2], &st) < 0)
		return 101;
	/* The number that was the store's. */
	if (dup3(own[2], store.fd, O_CLOEXEC) < 0)
		return 102;
	return status_of(start_unpack(words, own, &below, 1, &err));
}

static void test_unpacks_in_the_store_only(void **state)
{
	static const struct {
		const char *name, *lower;
		int status;
	} cases[] = {
		{"store/layer", "store/layer", 127},
		{"store", "store/layer", START_REFUSED},
		{"home", "store/layer", START_REFUSED},
		{"home/.ssh", "store/layer", START_REFUSED},
		{"store/layer", "home/.ssh", START_REFUSED},
		{"store/link", "store/layer", START_REFUSED},
	};
	char path[100];

	path_in_top(path, "store/layer");
	assert_int_equal(mkdir(path, 0700), 0);
	path_in_top(path, "store/link");
	assert_int_equal(symlink("../home/.ssh", path), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(unpack_into(cases[i].name, cases[i].lower));
		assert_int_equal(status_of(pid), cases[i].status);
	}
}

static void test_helper_names(void **state)
{
	assert_true(helper_name_valid("secretservice"));
	assert_true(helper_name_valid("ecr-login"));
	assert_false(helper_name_valid(""));
	assert_false(helper_name_valid("../x"));
	assert_false(helper_name_valid("a/b"));
	assert_false(helper_name_valid(".hidden"));
	assert_false(helper_name_valid("a b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_is_a_child_of_ours, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_descriptors_of_later, set_up, tear_down),
		cmocka_unit_test(test_it_stays_outside),
		cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
		cmocka_unit_test(test_it_ends_with_its_caller),
		cmocka_unit_test_setup_teardown(test_unknown_requests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wall, make_places, remove_places),
		cmocka_unit_test_setup_teardown(test_helper_is_outside, make_places, remove_places),
		cmocka_unit_test_setup_teardown(test_unpacks_in_the_store_only, make_places, remove_places),
		cmocka_unit_test(test_helper_names),
	};

	return cmocka_run_group_tests_name("starter", tests, NULL, NULL);
}
