/* SPDX-License-Identifier: MIT */
/* The options of `nsbox run`: what they set, and the one line for each that is wrong. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_options.h"
#include "util/error.h"

enum { ARGS_MAX = 32 };

/* Parses «run --no-config ARG…»; the list ends with NULL. */
static int parse(struct run_options *options, struct error *err, ...)
{
	static char *argv[ARGS_MAX + 1];
	int argc = 0;
	va_list ap;

	va_start(ap, err);
	argv[argc++] = "run";
	argv[argc++] = "--no-config"; /* the host's and the user's files are not under test */
	while ((argv[argc] = va_arg(ap, char *)) != NULL)
		assert_true(++argc < ARGS_MAX);
	va_end(ap);
	memset(err, 0, sizeof *err);
	return run_options_parse(argc, argv, options, err);
}

#define ACCEPTED(options, ...)                                                                     \
	do {                                                                                       \
		struct error err;                                                                  \
		if (parse(options, &err, __VA_ARGS__, NULL) < 0)                                   \
			fail_msg("refused: %s", err.text);                                         \
	} while (0)

#define REFUSED(message, ...)                                                                      \
	do {                                                                                       \
		struct run_options refused;                                                        \
		struct error err;                                                                  \
		assert_int_equal(parse(&refused, &err, __VA_ARGS__, NULL), -1);                    \
		assert_string_equal(err.text, message);                                            \
		run_options_free(&refused);                                                        \
	} while (0)

static void defaults(void **state)
{
	struct run_options options;

	ACCEPTED(&options, "true");
	assert_string_equal(options.operands[0], "true");
	assert_int_equal(options.spec.root, ROOT_HOST);
	assert_int_equal(options.spec.network, NETWORK_NONE);
	assert_int_equal(options.spec.limits.memory_bytes, SPEC_MEMORY_DEFAULT);
	assert_int_equal(options.spec.limits.pids, SPEC_PIDS_DEFAULT);
	assert_string_equal(options.spec.seccomp_name, "default");
	assert_false(options.json);
	assert_false(options.spec.capture);
	assert_false(options.limits_given);
	run_options_free(&options);
}

static void every_option(void **state)
{
	struct run_options options;

	ACCEPTED(&options, "-m", "128m", "--cpus=0.5", "--pids-limit", "10", "--disk", "1m",
		"--file-size", "64k", "--open-files", "64", "-u", "1000:100", "-w", "/tmp",
		"--hostname", "h", "--network", "host", "--read-only", "--require-cgroup", "true");
	assert_int_equal(options.spec.limits.memory_bytes, 128 << 20);
	assert_int_equal(options.spec.limits.cpu_millis, 500);
	assert_int_equal(options.spec.limits.pids, 10);
	assert_int_equal(options.spec.limits.disk_bytes, 1 << 20);
	assert_int_equal(options.spec.limits.file_size_bytes, 64 << 10);
	assert_int_equal(options.spec.limits.open_files, 64);
	assert_int_equal(options.spec.uid, 1000);
	assert_int_equal(options.spec.gid, 100);
	assert_string_equal(options.workdir, "/tmp");
	assert_string_equal(options.spec.hostname, "h");
	assert_int_equal(options.spec.network, NETWORK_HOST);
	assert_true(options.spec.root_read_only);
	assert_true(options.spec.require_cgroup);
	assert_true(options.limits_given);
	run_options_free(&options);

	ACCEPTED(&options, "--json", "--output-limit", "2m", "--rootfs", "/usr/..", "--bind",
		"/tmp:/t", "--bind", "/usr/..:/u:ro", "--ro-bind", "/:/r", "--tmpfs", "/s:1m",
		"--seccomp", "unconfined", "--cgroup", "/", "true");
	assert_true(options.json);
	assert_true(options.spec.capture);
	assert_int_equal(options.spec.limits.output_bytes, 2 << 20);
	assert_int_equal(options.spec.root, ROOT_DIRECTORY);
	assert_string_equal(options.spec.root_path, "/");
	assert_int_equal(options.spec.mounts_count, 4);
	assert_false(options.spec.mounts[0].read_only);
	assert_string_equal(options.spec.mounts[1].source, "/");
	assert_true(options.spec.mounts[1].read_only);
	assert_true(options.spec.mounts[2].read_only);
	assert_int_equal(options.spec.mounts[3].kind, MOUNT_TMPFS);
	assert_int_equal(options.spec.mounts[3].size_bytes, 1 << 20);
	assert_string_equal(options.spec.seccomp_name, "unconfined");
	assert_string_equal(options.spec.cgroup, "/");
	run_options_free(&options);
}

static void options_end_at_the_command(void **state)
{
	struct run_options options;

	ACCEPTED(&options, "-m", "1g", "ls", "-m", "--json");
	assert_string_equal(options.operands[0], "ls");
	assert_string_equal(options.operands[1], "-m");
	assert_string_equal(options.operands[2], "--json");
	assert_null(options.operands[3]);
	assert_false(options.json);
	run_options_free(&options);

	ACCEPTED(&options, "--", "--json");
	assert_string_equal(options.operands[0], "--json");
	run_options_free(&options);
}

static void relative_paths_of_the_host_become_absolute(void **state)
{
	struct run_options options;
	char *here = getcwd(NULL, 0);

	ACCEPTED(&options, "--bind", ".:/x", "true");
	assert_string_equal(options.spec.mounts[0].source, here);
	run_options_free(&options);
	free(here);
}

static void environment(void **state)
{
	struct run_options options;
	char file[] = "/tmp/nsbox-env-XXXXXX";
	int fd = mkstemp(file);
	static const char text[] = "# comment\n\n  A=file\r\nB=x y=\"z\"\nNSBOX_TEST_SET\n"
				   "NSBOX_TEST_UNSET\nLAST=1";

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	setenv("NSBOX_TEST_SET", "from here", 1);
	unsetenv("NSBOX_TEST_UNSET");
	ACCEPTED(&options, "-e", "A=option", "--env-file", file, "-e", "NSBOX_TEST_SET", "-e",
		"NSBOX_TEST_UNSET", "--env=A=last", "true");
	assert_string_equal(options.file_env.env[0], "A=file");
	assert_string_equal(options.file_env.env[1], "B=x y=\"z\"");
	assert_string_equal(options.file_env.env[2], "NSBOX_TEST_SET=from here");
	assert_string_equal(options.file_env.env[3], "LAST=1");
	assert_null(options.file_env.env[4]);
	assert_string_equal(options.env.env[0], "A=last");
	assert_string_equal(options.env.env[1], "NSBOX_TEST_SET=from here");
	assert_null(options.env.env[2]);
	run_options_free(&options);
	close(fd);
	unlink(file);
}

static void wrong_env_file_line_is_named(void **state)
{
	char file[] = "/tmp/nsbox-env-XXXXXX", expected[256];
	int fd = mkstemp(file);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "A=1\n=2\n", 7), 7);
	snprintf(expected, sizeof expected,
		"--env-file: \"%s\", line 2: \"=2\" has no name; write NAME=VALUE", file);
	REFUSED(expected, "--env-file", file, "true");
	close(fd);
	unlink(file);
}

static void code(void **state)
{
	struct run_options options;

	ACCEPTED(&options, "--lang", "python", "-c", "print(1)", "a", "-b");
	assert_string_equal(options.language, "python");
	assert_string_equal(options.code, "print(1)");
	assert_string_equal(options.operands[0], "a");
	assert_string_equal(options.operands[1], "-b");
	run_options_free(&options);

	ACCEPTED(&options, "--lang", "python", "-", "a");
	assert_null(options.code);
	assert_string_equal(options.operands[0], "-");
	run_options_free(&options);
}

static void unknown_options(void **state)
{
	REFUSED("unknown option \"--memroy\"; did you mean --memory?", "--memroy", "1g", "true");
	REFUSED("unknown option \"--memroy\"; did you mean --memory?", "--memroy=1g", "true");
	REFUSED("unknown option \"--robind\"; did you mean --ro-bind?", "--robind", "true");
	REFUSED("unknown option \"--podman\"; see nsbox run --help", "--podman", "x", "true");
	REFUSED("unknown option \"-x\"; see nsbox run --help", "-x", "true");
	REFUSED("unknown option \"-x\"; see nsbox run --help", "-Tx", "true");
	REFUSED("option \"--t\" is ambiguous: --timeout, --tmpfs, --tty", "--t", "true");
}

static void missing_and_needless_arguments(void **state)
{
	REFUSED("option --memory needs an argument: --memory SIZE", "-m");
	REFUSED("option --memory needs an argument: --memory SIZE", "--memory");
	REFUSED("option --json takes no argument", "--json=1", "true");
	REFUSED("no command given; see nsbox run --help", "-m", "1g");
	REFUSED("no command given; see nsbox run --help", NULL);
	REFUSED("--lang: no code given; name a file, - for standard input, or use -c CODE",
		"--lang", "python");
}

static void wrong_values(void **state)
{
	REFUSED("--memory: \"12 parsecs\" is not a size; write it as 512m or 1g", "-m",
		"12 parsecs", "true");
	REFUSED("--timeout: \"soon\" is not a duration; write it as 30s, 500ms, 2m or 1h, or none",
		"--timeout", "soon", "true");
	REFUSED("--pids-limit: \"0\" is out of range; it goes from 1 to 4194304", "--pids-limit",
		"0", "true");
	REFUSED("--network: \"bridge\" is not a network; write none, allow=HOST[:PORT],..., pasta or host", "--network", "bridge",
		"true");
	REFUSED("--bind: \"/nonexistent\": No such file or directory", "--bind", "/nonexistent:/x",
		"true");
	REFUSED("--rootfs: \"/dev/null\": Not a directory", "--rootfs", "/dev/null", "true");
	REFUSED("--ro-bind: \":rw\" contradicts it; use --bind", "--ro-bind", "/:/x:rw", "true");
	REFUSED("--workdir: \"x\" is not an absolute path inside the sandbox", "-w", "x", "true");
	REFUSED("--output-limit: \"1g\" is out of range; it goes from 1k to 256m", "--json",
		"--output-limit", "1g", "true");
	REFUSED("--seccomp: \"/nonexistent\": No such file or directory", "--seccomp",
		"/nonexistent", "true");
}

static void contradictions(void **state)
{
	REFUSED("--tty and --no-tty contradict each other", "-t", "-T", "true");
	REFUSED("--tty and --json contradict each other: output on a terminal is not kept", "-t",
		"--json", "true");
	REFUSED("--code: the language is missing; add --lang NAME", "-c", "x");
	REFUSED("--output-limit: without --json output is passed on and not kept; add --json",
		"--output-limit", "1m", "true");
	REFUSED("--tty and code from standard input contradict each other: nothing is left to type",
		"-t", "--lang", "python", "-");
}

static void json_is_known_also_when_something_is_wrong(void **state)
{
	struct run_options options;
	struct error err;

	assert_int_equal(parse(&options, &err, "--json", "--bogus", "true", NULL), -1);
	assert_true(options.json);
	run_options_free(&options);
	assert_int_equal(parse(&options, &err, "--bogus", "--json", "true", NULL), -1);
	assert_false(options.json);
	run_options_free(&options);
}

/* arguments → on a terminal, not on one: tty and time limit */
static void terminal_and_time(void **state)
{
	const struct {
		const char *first, *second;
		bool terminal, tty;
		uint64_t timeout_ms;
	} cases[] = {
		{"--", "true", true, true, 0},
		{"--", "true", false, false, 30000},
		{"-T", "true", true, false, 30000},
		{"-t", "true", false, true, 0},
		{"--json", "true", true, false, 30000},
		{"--timeout=5", "true", true, true, 5000},
		{"--timeout=5", "true", false, false, 5000},
		{"--timeout=0", "true", false, false, 0},
		{"--lang=python", "-", true, false, 30000},
		{"--lang=python", "x.py", true, true, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct run_options options;

		ACCEPTED(&options, cases[i].first, cases[i].second);
		assert_int_equal(
			run_options_settle(&options, cases[i].terminal), cases[i].timeout_ms);
		assert_int_equal(options.spec.tty, cases[i].tty);
		run_options_free(&options);
	}
}

static void help_names_every_option_within_the_width_of_a_page(void **state)
{
	const char *const names[] = {"--lang", "--code", "--env", "--env-file", "--workdir",
		"--user", "--hostname", "--memory", "--cpus", "--pids-limit", "--timeout", "--disk",
		"--file-size", "--open-files", "--output-limit", "--rootfs", "--read-only",
		"--bind", "--ro-bind", "--tmpfs", "--network", "--seccomp", "--cgroup",
		"--require-cgroup", "--config", "--no-config", "--tty", "--no-tty", "--json", "--print-spec", "--help"};
	struct run_options options;
	char *text = NULL;
	size_t size;
	FILE *file;

	ACCEPTED(&options, "--help");
	assert_true(options.help);
	run_options_free(&options);
	file = open_memstream(&text, &size);
	run_options_print_help(file);
	fclose(file);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_non_null(strstr(text, names[i]));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 100);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_option),
		cmocka_unit_test(options_end_at_the_command),
		cmocka_unit_test(relative_paths_of_the_host_become_absolute),
		cmocka_unit_test(environment),
		cmocka_unit_test(wrong_env_file_line_is_named),
		cmocka_unit_test(code),
		cmocka_unit_test(unknown_options),
		cmocka_unit_test(missing_and_needless_arguments),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(contradictions),
		cmocka_unit_test(json_is_known_also_when_something_is_wrong),
		cmocka_unit_test(terminal_and_time),
		cmocka_unit_test(help_names_every_option_within_the_width_of_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
