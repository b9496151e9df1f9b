/* SPDX-License-Identifier: MIT */
/*
 * watcher.h, on processes in a pid namespace with a /proc of its own, as in a sandbox. Each scenario
 * runs as pid 2 there, says when it is ready, and stays.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/watcher.h"
#include "util/file.h"

#define MIB ((uint64_t)1 << 20)

/* Shared by the test and the processes of its scene. */
static struct board {
	pid_t pid_1; /* as the host sees it */
	int proc_fd, tmpfs_fd; /* in pid 1 */
	atomic_int ready, failed_stage;
} *board;

struct scene {
	pid_t outer; /* parent of pid 1; everything dies with it */
	int proc_fd, tmpfs_fd;
};

__attribute__((noreturn)) static void give_up(int stage)
{
	board->failed_stage = stage;
	_exit(1);
}

__attribute__((noreturn)) static void stay(void)
{
	board->ready++;
	for (;;)
		pause();
}

static void enter_namespaces(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char text[32];

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) < 0)
		give_up(1);
	write_small_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	snprintf(text, sizeof text, "0 %u 1", gid);
	if (write_small_file(AT_FDCWD, "/proc/self/gid_map", text) < 0)
		give_up(2);
	snprintf(text, sizeof text, "0 %u 1", uid);
	if (write_small_file(AT_FDCWD, "/proc/self/uid_map", text) < 0)
		give_up(3);
}

/* Pid 1: a /proc and, on /tmp, a tmpfs of its own; then the scenario as pid 2. */
static void be_pid_1(void (*scenario)(void))
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount("proc", "/proc", "proc", 0, NULL) < 0)
		give_up(4);
	if (mount("tmpfs", "/tmp", "tmpfs", 0, "size=300m") < 0)
		give_up(5);
	board->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
	board->tmpfs_fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	if (fork() == 0) {
		scenario();
		stay();
	}
	for (;;)
		if (wait(NULL) < 0)
			pause();
}

/* Opens the directory that pid 1 has open as `fd`. */
static int borrow(int fd)
{
	char path[64];
	int borrowed;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", board->pid_1, fd);
	borrowed = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(borrowed >= 0);
	return borrowed;
}

/* Starts a scenario and waits until `ready` of its processes stay. */
static struct scene begin(void (*scenario)(void), int ready)
{
	struct scene scene;
	pid_t inner;

	memset(board, 0, sizeof *board);
	fflush(NULL);
	scene.outer = fork();
	if (scene.outer == 0) {
		enter_namespaces();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		inner = fork();
		if (inner == 0)
			be_pid_1(scenario);
		board->pid_1 = inner;
		wait(NULL);
		_exit(0);
	}
	for (int i = 0; i < 3000 && board->ready < ready && !board->failed_stage; i++)
		usleep(10000);
	if (board->failed_stage) {
		waitpid(scene.outer, NULL, 0);
		print_message("no namespaces to test in: stage %d\n", board->failed_stage);
		skip();
	}
	assert_int_equal(board->ready, ready);
	usleep(20000); /* until the last of them sleeps */
	scene.proc_fd = borrow(board->proc_fd);
	scene.tmpfs_fd = borrow(board->tmpfs_fd);
	return scene;
}

static void end(struct scene *scene)
{
	kill(scene->outer, SIGKILL);
	waitpid(scene->outer, NULL, 0);
	close(scene->proc_fd);
	close(scene->tmpfs_fd);
}

static struct watcher watch(const struct scene *scene, uint64_t limit)
{
	return (struct watcher){
		.proc_fd = scene->proc_fd, .tmpfs_fds = &scene->tmpfs_fd, .tmpfs_count = 1, .memory_limit_bytes = limit
	};
}

static char *take(uint64_t bytes, int flags)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		give_up(10);
	for (uint64_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
	return memory;
}

static void *sleep_in_thread(void *data)
{
	stay();
	return data;
}

static void three_processes_and_two_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		if (fork() == 0)
			stay();
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, sleep_in_thread, NULL) != 0)
			give_up(11);
}

static void processes_and_threads_are_counted_without_pid_1(void **state)
{
	struct scene scene = begin(three_processes_and_two_threads, 5);
	struct watcher watcher = watch(&scene, 1000 * MIB);
	uint64_t used = 0;

	watcher.pids_limit = 6;
	assert_false(watcher_tick(&watcher, &used));
	assert_int_equal(watcher.pids_peak, 5);
	assert_false(watcher.pids_hit);
	watcher.pids_limit = 5;
	assert_false(watcher_tick(&watcher, &used));
	assert_true(watcher.pids_hit);
	end(&scene);
}

static void misleading_name(void)
{
	prctl(PR_SET_NAME, ") R 1\n 7 7 (");
	take(30 * MIB, MAP_PRIVATE);
}

static void a_misleading_name_misleads_nobody(void **state)
{
	struct scene scene = begin(misleading_name, 1);
	struct watcher watcher = watch(&scene, 20 * MIB);
	uint64_t used = 0;

	assert_true(watcher_tick(&watcher, &used));
	assert_in_range(used, 30 * MIB, 34 * MIB);
	assert_int_equal(watcher.pids_peak, 1);
	end(&scene);
}

/* Eight processes that share 100 MiB and have 10 MiB each: 180 MiB, which RSS counts as 880. */
static void eight_that_share(void)
{
	take(100 * MIB, MAP_PRIVATE);
	for (int i = 0; i < 7; i++)
		if (fork() == 0) {
			take(10 * MIB, MAP_PRIVATE);
			stay();
		}
	take(10 * MIB, MAP_PRIVATE);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A look that was done before time was up for exactness, of a watcher that has not looked before. The test is skipped where a
   processor that is emulated, say, is too slow. */
static bool look_exactly(struct scene *scene, uint64_t limit, uint64_t *ret_used, uint64_t *ret_peak)
{
	for (int i = 0; i < 40; i++) {
		struct watcher watcher = watch(scene, limit);
		uint64_t begun = now_us();
		bool over = watcher_tick(&watcher, ret_used);

		*ret_peak = watcher.memory_peak_bytes;
		if (now_us() - begun < 150 * 1000)
			return over;
	}
	end(scene);
	print_message("a look takes too long here to be exact\n");
	skip();
	return false;
}

static void shared_pages_count_once(void **state)
{
	struct scene scene = begin(eight_that_share, 8);
	uint64_t used = 0, peak;

	for (int i = 0; i < 20; i++) {
		assert_false(look_exactly(&scene, 200 * MIB, &used, &peak));
		assert_in_range(peak, 178 * MIB, 190 * MIB);
	}
	assert_true(look_exactly(&scene, 170 * MIB, &used, &peak));
	assert_in_range(used, 178 * MIB, 190 * MIB);
	end(&scene);
}

static void four_with_shared_anonymous_memory(void)
{
	take(60 * MIB, MAP_SHARED);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			stay();
}

static void shared_anonymous_memory_counts(void **state)
{
	struct scene scene = begin(four_with_shared_anonymous_memory, 4);
	struct watcher watcher = watch(&scene, 50 * MIB);
	uint64_t used = 0;

	assert_true(watcher_tick(&watcher, &used));
	assert_in_range(used, 59 * MIB, 65 * MIB);
	end(&scene);
}

static void mapped_tmpfs_file(void)
{
	int fd = open("/tmp/file", O_RDWR | O_CREAT, 0600);
	char *memory;

	if (fd < 0 || ftruncate(fd, 60 * MIB) < 0)
		give_up(12);
	memory = mmap(NULL, 60 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		give_up(13);
	for (uint64_t at = 0; at < 60 * MIB; at += 4096)
		memory[at] = 1;
}

static void files_on_tmpfs_count_once_when_they_are_mapped(void **state)
{
	struct scene scene = begin(mapped_tmpfs_file, 1);
	struct watcher generous = watch(&scene, 70 * MIB), strict = watch(&scene, 50 * MIB);
	uint64_t used = 0, size;

	assert_int_equal(tmpfs_used(scene.tmpfs_fd, &size), 60 * MIB);
	assert_int_equal(size, 300 * MIB);
	assert_false(watcher_tick(&generous, &used));
	assert_true(watcher_tick(&strict, &used));
	assert_in_range(used, 60 * MIB, 65 * MIB);
	end(&scene);
}

static void unmapped_tmpfs_file(void)
{
	static char block[MIB];
	int fd = open("/tmp/file", O_RDWR | O_CREAT, 0600);

	for (int i = 0; i < 60; i++)
		if (write(fd, block, sizeof block) != sizeof block)
			give_up(14);
}

static void files_on_tmpfs_count(void **state)
{
	struct scene scene = begin(unmapped_tmpfs_file, 1);
	struct watcher watcher = watch(&scene, 50 * MIB);
	uint64_t used = 0, limit;

	assert_true(watcher_tick(&watcher, &used));
	assert_in_range(used, 60 * MIB, 64 * MIB);
	assert_in_range(tmpfs_inodes_used(scene.tmpfs_fd, &limit), 1, 3);
	assert_true(limit > 3);
	end(&scene);
}

static int disk_file = -1; /* 60 MiB, not on a tmpfs */

static void mapped_disk_file(void)
{
	const char *memory = mmap(NULL, 60 * MIB, PROT_READ, MAP_PRIVATE, disk_file, 0);
	volatile char sum = 0;

	if (memory == MAP_FAILED)
		give_up(15);
	for (uint64_t at = 0; at < 60 * MIB; at += 4096)
		sum = (char)(sum + memory[at]);
}

static void pages_of_files_on_disk_do_not_count(void **state)
{
	char name[] = "watcher-test.XXXXXX";
	struct statfs status;
	struct watcher watcher;
	struct scene scene;
	uint64_t used = 0;

	disk_file = mkstemp(name);
	assert_true(disk_file >= 0);
	unlink(name);
	assert_int_equal(fstatfs(disk_file, &status), 0);
	if (status.f_type == TMPFS_MAGIC || status.f_type == OVERLAYFS_SUPER_MAGIC) {
		close(disk_file);
		print_message("the working directory is not on a disk\n");
		skip();
	}
	assert_int_equal(ftruncate(disk_file, 60 * MIB), 0);
	scene = begin(mapped_disk_file, 1);
	watcher = watch(&scene, 40 * MIB);
	assert_false(watcher_tick(&watcher, &used));
	assert_true(watcher.memory_peak_bytes < 10 * MIB);
	close(disk_file);
	end(&scene);
}

static void parent_of_vforked_child(void)
{
	take(60 * MIB, MAP_PRIVATE);
	if (vfork() == 0) {
		board->ready++;
		for (;;)
			pause();
	}
}

/* Its memory is its parent's until it executes: that must not end a run. Staying so is no way around the limit. */
static void a_vforked_child_counts_only_if_it_stays(void **state)
{
	struct scene scene = begin(parent_of_vforked_child, 1);
	struct watcher watcher = watch(&scene, 100 * MIB);
	uint64_t used = 0;
	int ticks = 1;

	while (ticks < 100 && !watcher_tick(&watcher, &used))
		ticks++;
	assert_in_range(ticks, 5, 30);
	assert_true(used > 100 * MIB);

	watcher = watch(&scene, 50 * MIB); /* the parent alone is over this one */
	assert_true(watcher_tick(&watcher, &used));
	assert_in_range(used, 60 * MIB, 64 * MIB);
	end(&scene);
}

static void nothing(void)
{
}

static void thirty_mib(void)
{
	take(30 * MIB, MAP_PRIVATE);
}

static void it_looks_more_often_above_half_of_the_limit(void **state)
{
	struct scene scene = begin(thirty_mib, 1);
	struct watcher far = watch(&scene, 100 * MIB), near = watch(&scene, 50 * MIB);
	uint64_t used = 0;

	/* More where looking itself takes long, as it may once or twice on a busy machine. */
	for (int i = 0; i == 0 || (i < 50 && far.next_tick_ms > 50); i++)
		assert_false(watcher_tick(&far, &used));
	assert_int_equal(far.next_tick_ms, 50);
	for (int i = 0; i == 0 || (i < 50 && near.next_tick_ms > 49); i++)
		assert_false(watcher_tick(&near, &used));
	assert_in_range(near.next_tick_ms, 10, 49);
	assert_in_range(near.memory_peak_bytes, 30 * MIB, 40 * MIB);
	end(&scene);
}

/* Processes that come and go as fast as they can. */
static void churn(void)
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			board->ready++;
			for (;;) {
				pid_t pid = fork();

				if (pid == 0)
					_exit(0);
				waitpid(pid, NULL, 0);
			}
		}
}

static void processes_may_vanish_at_any_time(void **state)
{
	struct scene scene = begin(churn, 9);
	struct watcher watcher = watch(&scene, MIB); /* so that each look takes the exact sum too */
	uint64_t used = 0;

	for (int i = 0; i < 300; i++) {
		watcher_tick(&watcher, &used);
		assert_in_range(watcher.pids_peak, 9, 17);
	}
	end(&scene);
}

static void a_dead_sandbox_uses_nothing(void **state)
{
	struct scene scene = begin(nothing, 1);
	struct watcher watcher = watch(&scene, MIB);
	uint64_t used = 0;

	kill(board->pid_1, SIGKILL);
	waitpid(scene.outer, NULL, 0);
	assert_false(watcher_tick(&watcher, &used));
	assert_int_equal(watcher.pids_peak, 0);
	assert_int_equal(watcher.memory_peak_bytes, 0);
	close(scene.proc_fd);
	close(scene.tmpfs_fd);
}

/* A made-up /proc, for what the kernel does not let a test bring about as root. */
static void what_cannot_be_read_exactly_counts_with_its_rss(void **state)
{
	char root[] = "watcher-test.XXXXXX", command[256];
	struct watcher watcher = { .memory_limit_bytes = 10 * MIB };
	uint64_t used = 0;

	assert_non_null(mkdtemp(root));
	snprintf(command, sizeof command, "cd %s && mkdir 1 20 self && echo '20 (sh) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 20 0 3"
		" 0 1 99999999 %d 0' >20/stat && cp 20/stat 1/stat && echo broken >20/smaps_rollup", root,
		(int)(11 * MIB / (uint64_t)sysconf(_SC_PAGESIZE)));
	assert_int_equal(system(command), 0);
	watcher.proc_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(watcher_tick(&watcher, &used));
	assert_int_equal(used, 11 * MIB);
	assert_int_equal(watcher.pids_peak, 3);

	snprintf(command, sizeof command, "cd %s && printf 'Pss: 99999 kB\\nPss_Anon: 4096 kB\\nPss_File: 8192 kB\\n"
		"Pss_Shmem: 2048 kB\\n' >20/smaps_rollup", root);
	assert_int_equal(system(command), 0);
	watcher.memory_peak_bytes = 0;
	assert_false(watcher_tick(&watcher, &used));
	assert_int_equal(watcher.memory_peak_bytes, 6 * MIB);
	close(watcher.proc_fd);
	snprintf(command, sizeof command, "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static int make_board(void **state)
{
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return board == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_and_threads_are_counted_without_pid_1),
		cmocka_unit_test(a_misleading_name_misleads_nobody),
		cmocka_unit_test(shared_pages_count_once),
		cmocka_unit_test(shared_anonymous_memory_counts),
		cmocka_unit_test(files_on_tmpfs_count_once_when_they_are_mapped),
		cmocka_unit_test(files_on_tmpfs_count),
		cmocka_unit_test(pages_of_files_on_disk_do_not_count),
		cmocka_unit_test(a_vforked_child_counts_only_if_it_stays),
		cmocka_unit_test(it_looks_more_often_above_half_of_the_limit),
		cmocka_unit_test(processes_may_vanish_at_any_time),
		cmocka_unit_test(a_dead_sandbox_uses_nothing),
		cmocka_unit_test(what_cannot_be_read_exactly_counts_with_its_rss),
	};

	return cmocka_run_group_tests(tests, make_board, NULL);
}
