/* SPDX-License-Identifier: MIT */
/*
 * nsbox-image: images in the store. `nsbox pull` and `nsbox images …` execute it; it is a program of its own since
 * what it links (libcurl and what that needs) takes longer to load than a sandbox to run.
 */
#define _GNU_SOURCE
#include "config.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/stat.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "image/commands.h"
#include "util/error.h"
#include "util/parse.h"

static const char help[] = "Usage: nsbox images COMMAND [OPTION]… [ARGUMENT]…\n"
			   "Keeps the images that nsbox run --image runs.\n"
			   "\n"
			   "  ls        list them\n"
			   "  inspect   show what is known of one, as JSON\n"
			   "  pull      fetch one from a registry (also: nsbox pull)\n"
			   "  import    take one from a directory or an archive\n"
			   "  export    write one to a directory, as an OCI image layout\n"
			   "  rm        forget some\n"
			   "  prune     remove what no image needs\n"
			   "\n"
			   "  -h, --help  print this help\n"
			   "\n"
			   "nsbox images COMMAND --help shows the options of a command.\n";

static const struct {
	const char *name;
	int (*function)(int argc, char **argv);
} commands[] = {
	{"pull", command_pull},
	{"import", command_import},
	{"export", command_export},
	{"commit", command_commit}, /* nsbox session commit starts it */
	{"ls", command_ls},
	{"inspect", command_inspect},
	{"rm", command_rm},
	{"prune", command_prune},
};

int refuse_option(char **argv, const char *command, struct error *err)
{
	char option[QUOTED_MAX];

	/* A letter may stand anywhere in its word. */
	if (optopt && optopt < 256 && argv[optind - 1][0] == '-' && argv[optind - 1][1] != '-')
		return error_set(
			err, 0, "unknown option \"-%c\"; see nsbox %s --help", optopt, command);
	return error_set(err, 0, "option %s is unknown, or lacks its argument; see nsbox %s --help",
		quoted(argv[optind - 1], option), command);
}

int failed(const struct error *err)
{
	error_print(err);
	return EXIT_FAILED;
}

static int unknown(const char *name)
{
	char buffer[QUOTED_MAX];

	fprintf(stderr, "nsbox: there is no command %s of nsbox images; there are: ",
		quoted(name, buffer));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (commands[i].function != command_commit)
			fprintf(stderr, "%s%s", i ? ", " : "", commands[i].name);
	fprintf(stderr, "; see nsbox images --help\n");
	return EXIT_FAILED;
}

/* Writing to a full disk or a closed pipe fails only when the buffer is written. */
static int flush_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	perror("nsbox: writing to standard output");
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_NOCTTY) != fd)
			return EXIT_FAILED;
	umask(077);
	opterr = 0;
	if (argc < 2) {
		fprintf(stderr, "nsbox: no command given; see nsbox images --help\n");
		return EXIT_FAILED;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		fputs(help, stdout);
		return flush_output(0);
	}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(commands[i].name, argv[1]) == 0)
			return flush_output(commands[i].function(argc - 1, argv + 1));
	return unknown(argv[1]);
}
