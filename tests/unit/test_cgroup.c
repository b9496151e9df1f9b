/* SPDX-License-Identifier: MIT */
/*
 * cgroup.h. On a host without a usable cgroup v2 hierarchy only the refusals are tested; tests/vm runs
 * the rest, as root and as a user who has a cgroup of their own (named by NSBOX_CGROUP).
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/cgroup.h"
#include "util/cleanup.h"
#include "util/file.h"

static char base[256], why_not[ERROR_TEXT_MAX];
static bool usable;

/* A spec for the usable cgroup; the test is skipped where there is none. */
static struct spec make_spec(void)
{
	struct spec spec;

	if (!usable) {
		print_message("no usable cgroup: %s\n", why_not);
		skip();
	}
	spec_init(&spec);
	if (getenv("NSBOX_CGROUP"))
		spec.cgroup = strdup(getenv("NSBOX_CGROUP"));
	return spec;
}

static struct cgroup make(const struct spec *spec)
{
	struct cgroup cgroup = CGROUP_NONE;
	char why[ERROR_TEXT_MAX] = "";
	struct error err = { 0 };
	int made = cgroup_create(spec, &cgroup, why, &err);

	if (made != 1)
		fail_msg("%d: %s%s", made, why, err.text);
	return cgroup;
}

static int make_run(struct cgroup *cgroup, unsigned number)
{
	struct error err = { 0 };
	int fd;

	if (cgroup_create_run(cgroup, number, &fd, &err) < 0)
		fail_msg("%s", err.text);
	return fd;
}

static bool file_is(int dir_fd, const char *file, const char *expected)
{
	char text[256] = "";

	read_small_file(dir_fd, file, text, sizeof text);
	if (strcmp(text, expected) != 0)
		print_error("%s is «%s», not «%s»\n", file, text, expected);
	return strcmp(text, expected) == 0;
}

/* How many sandboxes are in the base. */
static int count_sandboxes(void)
{
	DIR *directory = opendir(base);
	const struct dirent *entry;
	int count = 0;

	while (directory && (entry = readdir(directory)))
		count += strncmp(entry->d_name, "nsbox-", 6) == 0;
	if (directory)
		closedir(directory);
	return count;
}

/* A child in agent/, as the launcher clones one. */
static pid_t clone_agent(const struct cgroup *cgroup)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)cgroup->agent_fd
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

	if (pid < 0)
		fail_msg("clone3 into %s/agent: %s", cgroup->path, strerror(errno));
	return pid;
}

/* The agent runs `command` in the run's cgroup, and ends with its wait status in 8 bits: signal + 128, or exit code. */
static int run_in(const struct cgroup *cgroup, int procs_fd, void (*command)(void))
{
	pid_t agent = clone_agent(cgroup);
	int status;

	if (agent == 0) {
		pid_t child = fork();

		if (child == 0) {
			if (write(procs_fd, "0", 1) != 1)
				_exit(99);
			command();
			_exit(0);
		}
		waitpid(child, &status, 0);
		_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	}
	assert_int_equal(waitpid(agent, &status, 0), agent);
	assert_true(WIFEXITED(status)); /* the agent outlives what happens to the command */
	return WEXITSTATUS(status);
}

static void take_memory(size_t mib)
{
	char *memory = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(98);
	for (size_t at = 0; at < mib << 20; at += 4096)
		memory[at] = 1;
}

static void do_nothing(void)
{
}

static void take_200_mib(void)
{
	take_memory(200);
}

static void take_20_mib(void)
{
	take_memory(20);
}

/* Eight processes that take 20 MiB each: together too much, alone not. */
static void eight_take_20_mib(void)
{
	int done[2];
	char byte;

	if (pipe(done) < 0)
		_exit(98);
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			take_memory(20);
			(void)!write(done[1], "x", 1);
			pause();
		}
	for (int i = 0; i < 8; i++)
		(void)!read(done[0], &byte, 1);
}

/* Memory that is in no process's size: to choose a victim by size would be to choose the agent as well. */
static void fill_a_memfd(void)
{
	static char block[1 << 20];
	int fd = memfd_create("filled", 0);

	for (int i = 0; i < 200; i++)
		(void)!write(fd, block, sizeof block);
}

static void fork_until_refused(void)
{
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			_exit(errno == EAGAIN ? i : 97);
	}
	_exit(96);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* For a second, and until it has had 50 ms of it. */
static void be_busy(void)
{
	uint64_t start_ms = now_ms();

	while (now_ms() - start_ms < 1000 || clock() < CLOCKS_PER_SEC / 20)
		;
}

static const struct limit_hit *find_hit(const struct exec_result *result, enum limit_kind limit)
{
	for (size_t i = 0; i < result->hits_count; i++)
		if (result->hits[i].limit == limit)
			return &result->hits[i];
	return NULL;
}

static void a_named_directory_must_be_a_cgroup(void **state)
{
	static const struct {
		const char *name, *words;
	} cases[] = {
		{ "/nonexistent/cgroup", "No such file" },
		{ "/tmp", "not a directory of a cgroup v2 hierarchy" },
		{ "/proc/self/status", "Not a directory" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cgroup cgroup = CGROUP_NONE;
		char why[ERROR_TEXT_MAX], ret[256];
		struct error err = { 0 };
		struct spec spec;

		spec_init(&spec);
		spec.cgroup = strdup(cases[i].name);
		assert_int_equal(cgroup_probe(cases[i].name, ret, why), 0);
		assert_non_null(strstr(why, cases[i].words));
		assert_int_equal(cgroup_create(&spec, &cgroup, why, &err), -1);
		assert_non_null(strstr(err.text, cases[i].name));
		assert_non_null(strstr(err.text, cases[i].words));
		assert_non_null(strstr(err.hint, "--cgroup"));
		assert_int_equal(cgroup.fd, -1);
		spec_free(&spec);
	}
}

static void without_a_usable_cgroup_the_reason_is_told(void **state)
{
	struct cgroup cgroup = CGROUP_NONE;
	char why[ERROR_TEXT_MAX] = "", probe_why[ERROR_TEXT_MAX] = "", ret[256];
	struct error err = { 0 };
	struct spec spec;

	if (cgroup_probe(NULL, ret, probe_why))
		skip();
	spec_init(&spec);
	assert_int_equal(cgroup_create(&spec, &cgroup, why, &err), 0);
	assert_true(strlen(why) > 20);
	assert_string_equal(why, probe_why);
	assert_string_equal(err.text, "");
	assert_int_equal(cgroup.fd, -1);
	assert_int_equal(cgroup.agent_fd, -1);
	cgroup_destroy(&cgroup);

	spec.require_cgroup = true;
	assert_int_equal(cgroup_create(&spec, &cgroup, why, &err), -1);
	assert_non_null(strstr(err.text, why));
	assert_non_null(strstr(err.hint, "--cgroup"));
	spec_free(&spec);
}

static void the_limits_are_set_and_everything_is_removed(void **state)
{
	struct spec spec = make_spec();
	struct cgroup cgroup;
	struct stat status;
	char path[256];
	int fd;

	spec.limits.memory_bytes = 64 << 20;
	spec.limits.pids = 20;
	spec.limits.cpu_millis = 500;
	cgroup = make(&spec);
	assert_int_equal(strncmp(cgroup.path, base, strlen(base)), 0);
	assert_true(cgroup.memory && cgroup.pids && cgroup.cpu);
	assert_true(file_is(cgroup.fd, "memory.max", "71303168")); /* 4 MiB for the agent */
	assert_true(file_is(cgroup.fd, "memory.swap.max", "0"));
	assert_true(file_is(cgroup.fd, "pids.max", "21"));
	assert_true(file_is(cgroup.fd, "cpu.max", "50000 100000"));
	fd = make_run(&cgroup, 1);
	assert_true(file_is(cgroup.fd, "run-1/memory.oom.group", "1"));
	assert_true(file_is(cgroup.fd, "run-1/memory.max", "67108864"));
	assert_true(file_is(cgroup.fd, "run-1/pids.max", "20"));
	close(fd);
	snprintf(path, sizeof path, "%s", cgroup.path);
	cgroup_destroy(&cgroup);
	assert_int_equal(cgroup.fd, -1);
	assert_int_equal(stat(path, &status), -1);
	assert_int_equal(count_sandboxes(), 0);
	spec_free(&spec);
}

static void small_cpu_limits_are_accepted(void **state)
{
	struct spec spec = make_spec();
	struct cgroup cgroup;

	spec.limits.cpu_millis = 1;
	cgroup = make(&spec);
	assert_true(file_is(cgroup.fd, "cpu.max", "1000 1000000"));
	cgroup_destroy(&cgroup);
	spec_free(&spec);
}

static void expect_oom(void (*command)(void))
{
	struct spec spec = make_spec();
	struct exec_result result = { 0 };
	const struct limit_hit *hit;
	struct cgroup cgroup;
	bool oom;
	int fd;

	spec.limits.memory_bytes = 64 << 20;
	cgroup = make(&spec);
	fd = make_run(&cgroup, 1);
	assert_int_equal(run_in(&cgroup, fd, command), 128 + SIGKILL);
	cgroup_read_run(&cgroup, 1, &spec, &result, &oom);
	assert_true(oom);
	hit = find_hit(&result, LIMIT_MEMORY);
	assert_non_null(hit);
	assert_int_equal(hit->value, 64 << 20);
	assert_true(hit->used > 60 << 20);
	assert_string_equal(hit->known_from, "memory.events");
	assert_int_equal(result.hits_count, 1);
	assert_true(result.usage.memory_peak_bytes == 0 || result.usage.memory_peak_bytes > 60 << 20);
	close(fd);
	cgroup_destroy(&cgroup);
	spec_free(&spec);
}

static void the_oom_killer_takes_the_run_and_not_the_agent(void **state)
{
	expect_oom(take_200_mib);
}

static void the_oom_killer_takes_all_of_the_run(void **state)
{
	expect_oom(eight_take_20_mib);
}

static void memory_of_no_process_does_not_cost_the_agent_its_life(void **state)
{
	expect_oom(fill_a_memfd);
}

static void a_run_within_its_limits_hits_none(void **state)
{
	struct spec spec = make_spec();
	struct exec_result result = { 0 };
	struct cgroup cgroup;
	bool oom;
	int fd;

	spec.limits.memory_bytes = 64 << 20;
	spec.limits.pids = 5;
	cgroup = make(&spec);
	fd = make_run(&cgroup, 1);
	assert_int_equal(run_in(&cgroup, fd, take_20_mib), 0);
	cgroup_read_run(&cgroup, 1, &spec, &result, &oom);
	assert_false(oom);
	assert_int_equal(result.hits_count, 0);
	assert_true(result.usage.memory_peak_bytes == 0 || result.usage.memory_peak_bytes > 20 << 20);
	assert_true(result.usage.memory_peak_bytes < 40 << 20);
	assert_true(result.usage.cpu_user_us + result.usage.cpu_system_us > 0);
	close(fd);
	cgroup_destroy(&cgroup);
	spec_free(&spec);
}

static void forks_are_refused_at_the_limit_of_pids(void **state)
{
	struct spec spec = make_spec();
	struct exec_result result = { 0 };
	struct cgroup cgroup;
	bool oom;
	int fd;

	spec.limits.pids = 10;
	cgroup = make(&spec);
	fd = make_run(&cgroup, 1);
	assert_int_equal(run_in(&cgroup, fd, fork_until_refused), 9); /* and the command itself */
	cgroup_read_run(&cgroup, 1, &spec, &result, &oom);
	assert_non_null(find_hit(&result, LIMIT_PIDS));
	assert_int_equal(find_hit(&result, LIMIT_PIDS)->value, 10);
	assert_true(result.usage.pids_peak == 0 || result.usage.pids_peak == 10);
	close(fd);

	/* What one run met is not held against the next. */
	cgroup_kill_run(&cgroup, 1);
	fd = make_run(&cgroup, 2);
	result = (struct exec_result){ 0 };
	assert_int_equal(run_in(&cgroup, fd, take_20_mib), 0);
	cgroup_read_run(&cgroup, 2, &spec, &result, &oom);
	assert_int_equal(result.hits_count, 0);
	close(fd);
	cgroup_destroy(&cgroup);
	spec_free(&spec);
}

static void cpu_time_is_limited(void **state)
{
	struct spec spec = make_spec();
	struct exec_result result = { 0 };
	const struct limit_hit *hit;
	struct cgroup cgroup;
	uint64_t start_ms;
	bool oom;
	int fd;

	spec.limits.cpu_millis = 250; /* less than a machine that is busy otherwise gives it */
	cgroup = make(&spec);
	fd = make_run(&cgroup, 1);
	start_ms = now_ms();
	assert_int_equal(run_in(&cgroup, fd, be_busy), 0);
	result.usage.wall_us = (now_ms() - start_ms) * 1000;
	cgroup_read_run(&cgroup, 1, &spec, &result, &oom);
	hit = find_hit(&result, LIMIT_CPU);
	assert_non_null(hit);
	assert_int_equal(hit->value, 250);
	assert_in_range(hit->used, 1, 600);
	assert_in_range(result.usage.cpu_user_us + result.usage.cpu_system_us, 20000, 800000);
	close(fd);

	/* What one run met is not held against the next. (Where the processor is emulated, a process may need more
	   than a period's share to start and end; one of several must do without.) */
	for (unsigned number = 2; number < 60; number++) {
		fd = make_run(&cgroup, number);
		result = (struct exec_result){ 0 };
		usleep(200000);
		assert_int_equal(run_in(&cgroup, fd, do_nothing), 0);
		cgroup_read_run(&cgroup, number, &spec, &result, &oom);
		cgroup_kill_run(&cgroup, number);
		close(fd);
		if (!find_hit(&result, LIMIT_CPU))
			break;
	}
	assert_null(find_hit(&result, LIMIT_CPU));
	cgroup_destroy(&cgroup);
	spec_free(&spec);
}

/* Whether the process is gone, or a zombie, within 20 s. */
static bool dies(pid_t pid)
{
	char path[64], text[512];

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	for (int i = 0; i < 2000; i++) {
		const char *state = NULL;

		if (read_small_file(AT_FDCWD, path, text, sizeof text) >= 0)
			state = strrchr(text, ')');
		if (!state || state[2] == 'Z' || state[2] == 'X')
			return true;
		usleep(10000);
	}
	return false;
}

/* Returns when it is there. */
static pid_t sleep_in(const struct cgroup *cgroup, int procs_fd)
{
	int there[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(there, O_CLOEXEC), 0);
	pid = clone_agent(cgroup);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((procs_fd >= 0 && write(procs_fd, "0", 1) != 1) || write(there[1], "", 1) != 1)
			_exit(99);
		for (;;)
			pause();
	}
	close(there[1]);
	assert_int_equal(read(there[0], &byte, 1), 1);
	close(there[0]);
	return pid;
}

static void kill_run_kills_one_run_only(void **state)
{
	struct spec spec = make_spec();
	struct cgroup cgroup;
	pid_t agent, first, second;
	int first_fd, second_fd;

	cgroup = make(&spec);
	first_fd = make_run(&cgroup, 1);
	second_fd = make_run(&cgroup, 2);
	agent = sleep_in(&cgroup, -1);
	first = sleep_in(&cgroup, first_fd);
	second = sleep_in(&cgroup, second_fd);
	cgroup_kill_run(&cgroup, 1);
	assert_true(dies(first));
	assert_int_equal(kill(second, 0), 0);
	assert_int_equal(waitpid(second, NULL, WNOHANG), 0);
	assert_int_equal(waitpid(agent, NULL, WNOHANG), 0);
	close(first_fd);
	close(second_fd);
	cgroup_destroy(&cgroup); /* with two of them still in it */
	assert_true(dies(second));
	assert_true(dies(agent));
	assert_int_equal(count_sandboxes(), 0);
	while (wait(NULL) > 0)
		;
	spec_free(&spec);
}

static void what_a_dead_supervisor_left_is_swept(void **state)
{
	struct spec spec = make_spec();
	struct cgroup cgroup;
	pid_t supervisor, orphan;
	int report[2], held[2];
	char byte;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	supervisor = fork();
	if (supervisor == 0) {
		struct cgroup theirs;
		int procs_fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody who holds its output open */
		theirs = make(&spec);
		procs_fd = make_run(&theirs, 1);

		/* The descriptors go with close-on-exec or close_range in earnest; here the child closes them. */
		orphan = clone_agent(&theirs);
		if (orphan == 0) {
			(void)!write(procs_fd, "0", 1);
			close_range(3, ~0U, 0);
			alarm(60);
			for (;;)
				pause();
		}
		close(held[1]);
		(void)!write(report[1], &orphan, sizeof orphan);
		for (;;)
			pause();
	}
	close(held[1]);
	assert_int_equal(read(report[0], &orphan, sizeof orphan), sizeof orphan);
	assert_int_equal(read(held[0], &byte, 1), 0); /* until the orphan holds nothing of it */
	assert_int_equal(count_sandboxes(), 1);

	/* While it lives, nobody touches what it has. */
	cgroup = make(&spec);
	assert_int_equal(count_sandboxes(), 2);
	cgroup_destroy(&cgroup);
	assert_int_equal(count_sandboxes(), 1);

	kill(supervisor, SIGKILL);
	waitpid(supervisor, NULL, 0);
	cgroup = make(&spec);
	assert_int_equal(count_sandboxes(), 1);
	assert_true(dies(orphan));
	cgroup_destroy(&cgroup);
	assert_int_equal(count_sandboxes(), 0);
	close(held[0]);
	close(report[0]);
	close(report[1]);
	spec_free(&spec);
}

static void many_at_once_do_not_disturb_each_other(void **state)
{
	enum { PROCESSES = 8, ROUNDS = 25 };
	struct spec spec = make_spec();
	int failed = 0;

	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			for (int round = 0; round < ROUNDS; round++) {
				struct cgroup cgroup = CGROUP_NONE;
				char why[ERROR_TEXT_MAX] = "";
				struct error err = { 0 };
				int procs_fd;

				if (cgroup_create(&spec, &cgroup, why, &err) != 1 ||
					cgroup_create_run(&cgroup, 1, &procs_fd, &err) < 0) {
					print_error("%s%s\n", why, err.text);
					_exit(1);
				}
				close(procs_fd);
				if (!file_is(cgroup.fd, "run-1/memory.oom.group", "1"))
					_exit(1);
				cgroup_destroy(&cgroup);
			}
			_exit(0);
		}
	for (int i = 0, status; i < PROCESSES; i++) {
		wait(&status);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
	assert_int_equal(count_sandboxes(), 0);
	spec_free(&spec);
}

static int probe(void **state)
{
	usable = cgroup_probe(getenv("NSBOX_CGROUP"), base, why_not);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_named_directory_must_be_a_cgroup),
		cmocka_unit_test(without_a_usable_cgroup_the_reason_is_told),
		cmocka_unit_test(the_limits_are_set_and_everything_is_removed),
		cmocka_unit_test(small_cpu_limits_are_accepted),
		cmocka_unit_test(the_oom_killer_takes_the_run_and_not_the_agent),
		cmocka_unit_test(the_oom_killer_takes_all_of_the_run),
		cmocka_unit_test(memory_of_no_process_does_not_cost_the_agent_its_life),
		cmocka_unit_test(a_run_within_its_limits_hits_none),
		cmocka_unit_test(forks_are_refused_at_the_limit_of_pids),
		cmocka_unit_test(cpu_time_is_limited),
		cmocka_unit_test(kill_run_kills_one_run_only),
		cmocka_unit_test(what_a_dead_supervisor_left_is_swept),
		cmocka_unit_test(many_at_once_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, probe, NULL);
}
