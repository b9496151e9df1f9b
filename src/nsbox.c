/* SPDX-License-Identifier: MIT */
/*
 * nsbox: the table of subcommands, and nothing else. What they do is in cli/.
 *
 * Nothing here or in what runs before a sandbox is created may be slow: a run is shorter than the start
 * of many programs.
 */
#define _GNU_SOURCE
#include "config.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "sandbox/sandbox.h"
#include "util/alloc.h"
#include "util/parse.h"

static int cmd_help(int argc, char **argv);

struct command {
	const char *name;
	int (*function)(int argc, char **argv);
	const char *description;
};

static const struct command commands[] = {
	{"run", cmd_run, "run a command, or code in a language, in a sandbox"},
	{"check", cmd_check, "say what works on this host, what does not, and how to mend it"},
	{"languages", cmd_languages, "list the languages of nsbox run --lang, and what they lack"},
	{"pull", cmd_pull, "fetch an image from a registry, for nsbox run --image"},
	{"images", cmd_images, "list, import, export and remove images"},
	{"session", cmd_session, "sandboxes that last: run commands in them, copy files in and out"},
	{"mcp", cmd_mcp, "serve execute_code to an MCP client on standard input and output"},
	{"help", cmd_help, "show this, or the help of a command"},
};

enum { COMMANDS_COUNT = sizeof commands / sizeof *commands };

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMANDS_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	char buffer[QUOTED_MAX];

	fprintf(stderr, "nsbox: there is no command %s; there are: ", quoted(name, buffer));
	for (int i = 0; i < COMMANDS_COUNT; i++)
		fprintf(stderr, "%s%s", i ? ", " : "", commands[i].name);
	fprintf(stderr, "; see nsbox --help\n");
	return EXIT_NSBOX_FAILED;
}

/* Writing to a full disk or a closed pipe fails only when the buffer is written. */
static int flush_output(void)
{
	if (fflush(stdout) == 0)
		return 0;
	perror("nsbox: writing to standard output");
	return EXIT_NSBOX_FAILED;
}

static int print_usage(void)
{
	printf("Usage: nsbox COMMAND [OPTION]… [ARGUMENT]…\n"
	       "Runs code that nobody has to trust, on any Linux host, without root or a daemon.\n\n"
	       "Commands:\n");
	for (int i = 0; i < COMMANDS_COUNT; i++)
		printf("  %-9s %s\n", commands[i].name, commands[i].description);
	printf("\nOptions:\n"
	       "  -h, --help     show this\n"
	       "  -V, --version  show the version\n\n"
	       "nsbox COMMAND --help shows the options of a command.\n");
	return flush_output();
}

static int cmd_help(int argc, char **argv)
{
	const struct command *command;
	char help[] = "--help";
	char *arguments[] = {NULL, help, NULL};

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
		return print_usage();
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	arguments[0] = argv[1];
	return command->function(2, arguments);
}

static int print_version(void)
{
	puts("nsbox " PACKAGE_VERSION);
	return flush_output();
}

/*
 * Descriptors that the caller closed are opened on /dev/null: else the next file that is opened would be
 * standard output.
 */
static int open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_NOCTTY) != fd) {
			perror("nsbox: opening /dev/null in place of a closed standard descriptor");
			return -1;
		}
	return 0;
}

int main(int argc, char **argv)
{
	const struct command *command;

	sandbox_early_init(argc, argv, environ);
	json_set_alloc_funcs(xmalloc, free);
	if (open_standard_descriptors() < 0)
		return EXIT_NSBOX_FAILED;
	if (argc < 2) {
		fprintf(stderr, "nsbox: no command given; see nsbox --help\n");
		return EXIT_NSBOX_FAILED;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_usage();
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return print_version();
	command = find_command(argv[1]);
	return command ? command->function(argc - 1, argv + 1) : unknown_command(argv[1]);
}
