/* SPDX-License-Identifier: MIT */
/*
 * What execute_code costs over MCP, beside the bare interpreters.
 *
 *     mcp [-n ROUNDS] [-a] NSBOX [OPTION of nsbox mcp …]
 *
 * Starts `NSBOX mcp` and speaks plain JSON-RPC with it. In each round every case is timed once: the
 * interpreter bare, execute_code in its language, /bin/true bare and `NSBOX run /bin/true`. Prints median, 95th
 * and 99th percentile in milliseconds, and what execute_code adds to the bare interpreter. With -a fails
 * when that is more than `NSBOX run` adds to /bin/true, and a millisecond.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARMUP = 5 };

struct server {
	FILE *in;  /* what we write */
	FILE *out; /* what it answers */
	pid_t pid;
	int next_id;
};

struct timed {
	const char *name;
	char *argv[5];        /* a bare command, or */
	const char *language; /* execute_code with */
	const char *code;
	uint32_t *us;
};

enum { BARE_TRUE, RUN_TRUE, BARE_BASH, MCP_BASH, BARE_PYTHON, MCP_PYTHON, TIMED };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- the server --- */

static void start_server(char **argv, struct server *ret)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		err(2, "pipe");
	ret->pid = fork();
	if (ret->pid < 0)
		err(2, "fork");
	if (ret->pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execv(argv[0], argv);
		err(127, "%s", argv[0]);
	}
	close(to[0]);
	close(from[1]);
	ret->in = fdopen(to[1], "w");
	ret->out = fdopen(from[0], "r");
	if (!ret->in || !ret->out)
		err(2, "fdopen");
}

/* Reads up to the answer to `id` (notifications come in between) and returns it; valid until the next call. */
static const char *read_answer(struct server *server, int id)
{
	static char *line;
	static size_t size;
	char wanted[32], last[40];

	snprintf(wanted, sizeof wanted, "\"id\":%d,", id);
	snprintf(last, sizeof last, "\"id\":%d}", id);
	while (getline(&line, &size, server->out) > 0) {
		char *to = line;

		for (const char *from = line; *from; from++) /* blanks between tokens are the server's affair */
			if (*from != ' ')
				*to++ = *from;
		*to = '\0';
		if (strstr(line, wanted) || strstr(line, last))
			return line;
	}
	errx(2, "nsbox mcp ended without an answer");
}

static void initialize(struct server *server)
{
	fputs("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
	      "\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n", server->in);
	fflush(server->in);
	if (!strstr(read_answer(server, 0), "\"result\""))
		errx(2, "nsbox mcp refuses initialize");
	fputs("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n", server->in);
	fflush(server->in);
	server->next_id = 1;
}

static void execute_code(struct server *server, const char *language, const char *code)
{
	const char *answer;
	int id = server->next_id++;

	fprintf(server->in, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_code\","
			    "\"arguments\":{\"language\":\"%s\",\"code\":\"%s\"}}}\n", id, language, code);
	fflush(server->in);
	answer = read_answer(server, id);
	if (!strstr(answer, "\"result\"") || strstr(answer, "\"isError\":true"))
		errx(2, "execute_code in %s failed: %.400s", language, answer);
}

/* --- measuring --- */

static void run_command(char **argv, int null)
{
	pid_t pid = vfork();
	int status;

	if (pid == 0) {
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		errx(2, "%s failed", argv[0]);
}

static uint32_t measure(struct server *server, const struct timed *timed, int null)
{
	uint64_t start = now_ns();

	if (timed->language)
		execute_code(server, timed->language, timed->code);
	else
		run_command((char **)timed->argv, null);
	return (uint32_t)((now_ns() - start) / 1000);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double percentile_ms(const struct timed *timed, unsigned rounds, unsigned percent)
{
	return timed->us[(rounds - 1) * percent / 100] / 1000.0;
}

static bool report(const struct timed *timed, unsigned rounds)
{
	double overhead = percentile_ms(&timed[RUN_TRUE], rounds, 50) - percentile_ms(&timed[BARE_TRUE], rounds, 50);
	bool good = true;

	printf("%u rounds, milliseconds\n%-24s %8s %8s %8s %8s\n", rounds, "", "p50", "p95", "p99", "adds");
	for (int i = 0; i < TIMED; i++) {
		double added = percentile_ms(&timed[i], rounds, 50) - percentile_ms(&timed[i & ~1], rounds, 50);

		printf("%-24s %8.2f %8.2f %8.2f", timed[i].name, percentile_ms(&timed[i], rounds, 50), percentile_ms(&timed[i], rounds, 95),
			percentile_ms(&timed[i], rounds, 99));
		if (i & 1)
			printf(" %8.2f", added);
		puts("");
		if (timed[i].language && added > overhead + 1) {
			printf("FAILED: execute_code in %s adds more than nsbox run does and a millisecond\n", timed[i].language);
			good = false;
		}
	}
	return good;
}

int main(int argc, char **argv)
{
	unsigned rounds = 100;
	bool must_be_good = false, good;
	struct server server = { 0 };
	int option, null;

	while ((option = getopt(argc, argv, "+n:a")) != -1) {
		if (option == 'n')
			rounds = (unsigned)atoi(optarg);
		else if (option == 'a')
			must_be_good = true;
		else
			return 2;
	}
	if (!argv[optind] || rounds == 0)
		errx(2, "usage: mcp [-n ROUNDS] [-a] NSBOX [OPTION of nsbox mcp …]");
	struct timed timed[TIMED] = {
		[BARE_TRUE] = { .name = "true", .argv = { "/bin/true" } },
		[RUN_TRUE] = { .name = "nsbox run true", .argv = { argv[optind], "run", "/bin/true" } },
		[BARE_BASH] = { .name = "bash -c :", .argv = { "/bin/bash", "-c", ":" } },
		[MCP_BASH] = { .name = "execute_code bash", .language = "bash", .code = ":" },
		[BARE_PYTHON] = { .name = "python3 -c pass", .argv = { "/usr/bin/python3", "-c", "pass" } },
		[MCP_PYTHON] = { .name = "execute_code python", .language = "python", .code = "pass" },
	};
	char **server_argv = calloc((size_t)(argc - optind) + 2, sizeof *server_argv);

	if (!server_argv)
		err(2, "starting");
	server_argv[0] = argv[optind];
	server_argv[1] = "mcp";
	memcpy(&server_argv[2], &argv[optind + 1], sizeof *argv * (size_t)(argc - optind)); /* with its NULL */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < TIMED; i++) {
		timed[i].us = calloc(rounds, sizeof *timed[i].us);
		if (!timed[i].us || null < 0)
			err(2, "starting");
	}
	start_server(server_argv, &server);
	initialize(&server);
	for (unsigned round = 0; round < WARMUP + rounds; round++)
		for (unsigned i = 0; i < TIMED; i++) {
			struct timed *next = &timed[(i + round) % TIMED];
			uint32_t us = measure(&server, next, null);

			if (round >= WARMUP)
				next->us[round - WARMUP] = us;
		}
	fclose(server.in);
	waitpid(server.pid, NULL, 0);
	for (int i = 0; i < TIMED; i++)
		qsort(timed[i].us, rounds, sizeof *timed[i].us, by_value);
	good = report(timed, rounds);
	return good || !must_be_good ? 0 : 1;
}
