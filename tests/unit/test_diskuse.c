/* SPDX-License-Identifier: MIT */
/* How much of a disk a folder takes, however its directories lie in each other. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/discard.h"
#include "sandbox/diskuse.h"
#include "util/file.h"

#define SECONDS(n) ((n)*UINT64_C(1000000))

enum { MANY = UINT16_MAX, DEEP = 3000, SIZE = 1 << 20 };

static char folder[] = "/tmp/nsbox-test-diskuse-XXXXXX";
static int space, proc_fd;

static int make_space(void **state)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	space = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* No processes are to be looked at. */
	proc_fd = open("/proc/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return space < 0 || proc_fd < 0 ? -1 : 0;
}

static int remove_space(void **state)
{
	int r = discard_content(space, SECONDS(60));

	close(space);
	close(proc_fd);
	return r < 0 ? -1 : rmdir(folder);
}

static struct disk_use use_of_space(uint64_t entries_max, uint64_t budget_us)
{
	struct disk_use use;
	int answer, status;
	pid_t pid = disk_use_start(space, proc_fd, entries_max, budget_us, &answer);

	assert_true(pid > 0);
	assert_int_equal(read_full(answer, &use, sizeof use), sizeof use);
	close(answer);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return use;
}

static void write_file(int dir, const char *name)
{
	static const char content[SIZE] = {1};
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write_whole(fd, content, sizeof content), 0);
	fsync(fd); /* its blocks are there then */
	close(fd);
}

/* `depth` directories in each other, with as much in every one as `each` writes. Returns the last. */
static int go_down(int depth, void (*each)(int dir, int at))
{
	int dir = dup(space);

	for (int i = 0; i < depth; i++) {
		int below;

		assert_int_equal(mkdirat(dir, "d", 0755), 0);
		below = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(below >= 0);
		if (each)
			each(dir, i);
		close(dir);
		dir = below;
	}
	return dir;
}

static void assert_bytes(const struct disk_use *use, unsigned files, unsigned directories)
{
	assert_true(use->bytes >= (uint64_t)files * SIZE);
	assert_true(use->bytes <= (uint64_t)files * (SIZE + 8192) + directories * UINT64_C(16384));
}

static void test_deep(void **state)
{
	int bottom = go_down(DEEP, NULL);
	struct disk_use use;

	write_file(bottom, "file");
	close(bottom);
	use = use_of_space(MANY, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, DEEP + 1);
	assert_bytes(&use, 1, DEEP);
}

static void some(int dir, int at)
{
	char name[32];

	/* Before and after the one that leads on, in whatever order they come. */
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "other%d", i);
		assert_int_equal(mkdirat(dir, name, 0755), 0);
	}
	if (at % 100 == 0)
		write_file(dir, "file");
}

static void test_all_of_each(void **state)
{
	struct disk_use use;

	close(go_down(500, some));
	use = use_of_space(MANY, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, 500 * 21 + 5);
	assert_bytes(&use, 5, 500 * 21);
}

/* What is open already can be gone down from all the same. */
static void close_to_owner(int dir, int at)
{
	if (at % 50 == 49)
		assert_int_equal(fchmod(dir, 0), 0);
}

static void test_closed_to_their_owner(void **state)
{
	int bottom = go_down(200, close_to_owner);
	struct disk_use use;

	write_file(bottom, "file");
	close(bottom);
	use = use_of_space(MANY, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, 201);
	assert_bytes(&use, 1, 200);
}

static void test_names_only(void **state)
{
	struct disk_use use;

	close(go_down(1, NULL));
	assert_int_equal(mkdirat(space, "d/below", 0755), 0);
	write_file(space, "d/below/file");
	assert_int_equal(fchmodat(space, "d", 0400, 0), 0);
	use = use_of_space(MANY, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, 3);
	assert_bytes(&use, 1, 2);
}

/* A look while everything moves ends, and does not crash; what is said to be whole has all that never moved. */
static void test_moved_meanwhile(void **state)
{
	int bottom = go_down(300, NULL);
	pid_t mover;

	write_file(space, "file");
	close(bottom);
	assert_int_equal(mkdirat(space, "other", 0755), 0);
	mover = fork();
	if (mover == 0) {
		static char deep[2 * 150];

		for (int i = 0; i < 149; i++)
			memcpy(deep + 2 * i, "d/", 2);
		deep[2 * 149 - 1] = 0;
		for (;;) {
			renameat(space, deep, space, "other/moved");
			renameat(space, "other/moved", space, deep);
		}
	}
	for (int i = 0; i < 50; i++) {
		struct disk_use use = use_of_space(MANY, SECONDS(60));

		assert_bytes(&use, 1, 700);
		assert_true(!use.whole || use.entries >= 100);
	}
	kill(mover, SIGKILL);
	waitpid(mover, NULL, 0);
}

static void test_names_of_one_file(void **state)
{
	struct disk_use use;

	write_file(space, "one");
	for (int i = 0; i < 9; i++) {
		char name[16];

		snprintf(name, sizeof name, "name%d", i);
		assert_int_equal(linkat(space, "one", space, name, 0), 0);
	}
	use = use_of_space(MANY, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, 10);
	assert_bytes(&use, 1, 0);
}

static void test_more_than_were_to_be(void **state)
{
	struct disk_use use;

	close(go_down(500, NULL));
	use = use_of_space(200, SECONDS(60));
	assert_true(use.whole);
	assert_int_equal(use.entries, 201);
}

static void test_no_time(void **state)
{
	struct disk_use use;

	close(go_down(500, NULL));
	use = use_of_space(MANY, 0);
	assert_false(use.whole);
}

static void test_few_descriptors(void **state)
{
	struct rlimit old, few = {100, 100};
	struct disk_use use;
	pid_t pid;
	int status;

	close(go_down(DEEP, NULL));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	pid = fork(); /* the limit that root may raise again, and others not */
	if (pid == 0) {
		if (setrlimit(RLIMIT_NOFILE, &few) < 0)
			_exit(1);
		use = use_of_space(MANY, SECONDS(60));
		_exit(use.whole && use.entries == DEEP ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_space, remove_space)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_deep),
		CASE(test_all_of_each),
		CASE(test_closed_to_their_owner),
		CASE(test_names_only),
		CASE(test_moved_meanwhile),
		CASE(test_names_of_one_file),
		CASE(test_more_than_were_to_be),
		CASE(test_no_time),
		CASE(test_few_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
