/* SPDX-License-Identifier: MIT */
/* `nsbox mcp`: the MCP server over standard input and output, with the ceilings for what its calls may ask for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mcp/server.h"
#include "sandbox/spec.h"
#include "util/error.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox mcp [OPTIONS]\n"
	"\n"
	"Serves the Model Context Protocol on standard input and output: an MCP client starts it, and calls\n"
	"execute_code to run code in a sandbox. It ends, with everything that it runs, when the client goes.\n"
	"\n"
	"A model chooses the arguments of its calls; these options are what it can choose from:\n"
	"      --memory SIZE        memory of a call that asks for none (512m)\n"
	"      --max-memory SIZE    the most that a call may ask for (2g)\n"
	"      --timeout TIME       wall time of a call that asks for none (30s)\n"
	"      --max-timeout TIME   the most that a call may ask for (5m)\n"
	"      --max-parallel N     calls that run at one time; more wait (twice the CPUs, at least 4)\n"
	"  -h, --help               this text\n"
	"\n"
	"In a client's configuration: {\"mcpServers\": {\"nsbox\": {\"command\": \"nsbox\", \"args\": [\"mcp\"]}}}\n"
	"NSBOX_LANGUAGES_DIR names another folder of languages than the installed one.\n";

enum {
	OPTION_MEMORY = 256,
	OPTION_MAX_MEMORY,
	OPTION_TIMEOUT,
	OPTION_MAX_TIMEOUT,
	OPTION_MAX_PARALLEL
};

static const struct option long_options[] = {
	{"memory", required_argument, NULL, OPTION_MEMORY},
	{"max-memory", required_argument, NULL, OPTION_MAX_MEMORY},
	{"timeout", required_argument, NULL, OPTION_TIMEOUT},
	{"max-timeout", required_argument, NULL, OPTION_MAX_TIMEOUT},
	{"max-parallel", required_argument, NULL, OPTION_MAX_PARALLEL},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Whether the defaults were given; one that was not gives way to a lower ceiling. */
struct given {
	bool memory, timeout;
};

static int set_option(int option, const char *value, struct mcp_options *options,
	struct given *given, struct error *err)
{
	switch (option) {
	case OPTION_MEMORY:
		given->memory = true;
		return parse_size("--memory", value, &options->memory_default_bytes, err);
	case OPTION_MAX_MEMORY:
		return parse_size("--max-memory", value, &options->memory_max_bytes, err);
	case OPTION_TIMEOUT:
		given->timeout = true;
		return parse_duration_ms("--timeout", value, &options->timeout_default_ms, err);
	case OPTION_MAX_TIMEOUT:
		return parse_duration_ms("--max-timeout", value, &options->timeout_max_ms, err);
	case OPTION_MAX_PARALLEL:
		return parse_count("--max-parallel", value, 1, MCP_PARALLEL_LIMIT,
			&options->parallel_max, err);
	}
	return error_set(err, 0, "unknown option");
}

static int check(struct mcp_options *options, const struct given *given, struct error *err)
{
	if (!given->memory && options->memory_default_bytes > options->memory_max_bytes)
		options->memory_default_bytes = options->memory_max_bytes;
	if (!given->timeout && options->timeout_default_ms > options->timeout_max_ms)
		options->timeout_default_ms = options->timeout_max_ms;
	if (options->memory_default_bytes < 4 << 20)
		return error_set(err, 0, "--memory, --max-memory: at least 4m is needed");
	if (options->timeout_default_ms == 0 || options->timeout_max_ms == 0)
		return error_set(err, 0,
			"--timeout, --max-timeout: a server's calls must end some time; give a time above 0");
	if (options->memory_default_bytes > options->memory_max_bytes)
		return error_set(err, 0, "--memory is above --max-memory");
	if (options->timeout_default_ms > options->timeout_max_ms)
		return error_set(err, 0, "--timeout is above --max-timeout");
	return 0;
}

/* A descriptor that we open must not become 0, 1 or 2 because a client left those closed. */
static int open_standard_descriptors(struct error *err)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return error_set(err, 0, "/dev/null cannot be opened");
	close(fd);
	return 0;
}

static int fail(const struct error *err)
{
	error_print(err);
	fputs("nsbox: see nsbox mcp --help\n", stderr);
	return EXIT_NSBOX_FAILED;
}

int cmd_mcp(int argc, char **argv)
{
	struct mcp_options options;
	struct given given = {false, false};
	struct error err = {0};
	int option;

	mcp_options_init(&options);
	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == '?' || option == ':') {
			error_set(&err, 0, "mcp: %s: %s", argv[optind - 1],
				option == '?' ? "unknown option" : "an argument is missing");
			return fail(&err);
		}
		if (set_option(option, optarg, &options, &given, &err) < 0)
			return fail(&err);
	}
	if (optind < argc) {
		error_set(&err, 0, "mcp: unexpected argument \"%s\"", argv[optind]);
		return fail(&err);
	}
	if (check(&options, &given, &err) < 0 || open_standard_descriptors(&err) < 0)
		return fail(&err);
	if (isatty(STDIN_FILENO))
		fputs("nsbox mcp: waiting for an MCP client on standard input; Ctrl-D ends it\n",
			stderr);
	return mcp_serve(&options);
}
