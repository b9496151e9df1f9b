/* SPDX-License-Identifier: MIT */
/*
 * Times commands side by side.
 *
 *     timer [-n ROUNDS] [-w WARMUP] [-u UID:GID] NAME COMMAND [ARG …] [:: NAME COMMAND [ARG …]] …
 *
 * In each round every command runs once, from vfork to wait, beginning with another one each time, so
 * that what the machine does meanwhile meets all of them alike. Their standard descriptors are /dev/null.
 * Prints a line for each: name, median, tenth and ninetieth percentile in microseconds, and how many
 * runs did not end with status 0. Fails when one did not.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct command {
	const char *name;
	char **argv;
	uint32_t *us; /* one for each round */
	unsigned failures;
};

enum { COMMANDS_MAX = 32 };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Returns the time from vfork to wait in microseconds. */
static uint32_t run_once(struct command *command, int null)
{
	uint64_t start = now_ns();
	pid_t pid = vfork();
	int status;

	if (pid == 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execv(command->argv[0], command->argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		err(2, "running %s", command->argv[0]);
	if (status != 0)
		command->failures++;
	return (uint32_t)((now_ns() - start) / 1000);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void become(const char *ids)
{
	unsigned uid, gid;

	if (sscanf(ids, "%u:%u", &uid, &gid) != 2)
		errx(2, "-u takes UID:GID, not %s", ids);
	if (setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		err(2, "becoming %s", ids);
}

/* Splits NAME COMMAND … :: NAME COMMAND … in place. */
static unsigned split(char **argv, struct command *commands)
{
	unsigned count = 0;

	while (*argv) {
		if (count == COMMANDS_MAX || !argv[1] || strcmp(argv[1], "::") == 0)
			errx(2, "no command for %s, or too many commands", *argv);
		commands[count].name = *argv++;
		commands[count++].argv = argv;
		while (*argv && strcmp(*argv, "::") != 0)
			argv++;
		if (*argv)
			*argv++ = NULL;
	}
	return count;
}

int main(int argc, char **argv)
{
	static struct command commands[COMMANDS_MAX];
	unsigned rounds = 60, warmup = 5, count, failures = 0;
	const char *ids = NULL;
	int option, null;

	while ((option = getopt(argc, argv, "+n:w:u:")) != -1) {
		if (option == 'n')
			rounds = (unsigned)atoi(optarg);
		else if (option == 'w')
			warmup = (unsigned)atoi(optarg);
		else if (option == 'u')
			ids = optarg;
		else
			return 2;
	}
	count = split(argv + optind, commands);
	if (count == 0 || rounds == 0)
		errx(2, "usage: timer [-n ROUNDS] [-w WARMUP] [-u UID:GID] NAME COMMAND … [:: NAME COMMAND …]");
	for (unsigned i = 0; i < count; i++) {
		commands[i].us = calloc(rounds, sizeof *commands[i].us);
		if (!commands[i].us)
			err(2, "memory");
	}
	if (ids)
		become(ids);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		err(2, "/dev/null");
	for (unsigned round = 0; round < warmup + rounds; round++)
		for (unsigned i = 0; i < count; i++) {
			struct command *command = &commands[(i + round) % count];
			uint32_t us = run_once(command, null);

			if (round >= warmup)
				command->us[round - warmup] = us;
		}
	for (unsigned i = 0; i < count; i++) {
		uint32_t *us = commands[i].us;

		qsort(us, rounds, sizeof *us, by_value);
		printf("%s\t%u\t%u\t%u\t%u\n", commands[i].name, us[rounds / 2], us[rounds / 10], us[rounds * 9 / 10], commands[i].failures);
		failures += commands[i].failures;
	}
	return fflush(stdout) == 0 && failures == 0 ? 0 : 1;
}
