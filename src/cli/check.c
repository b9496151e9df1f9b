/* SPDX-License-Identifier: MIT */
/* `nsbox check`, the doctor: prints what doctor/ finds out. Exit status: 0 when nsbox can run, else 125. */
#define _GNU_SOURCE
#include "cli/check_inside.h"
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "doctor/examine.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char help[] =
	"Usage: nsbox check [--json] [--rootfs DIR]\n"
	"       nsbox check --inside [--json] [--rootfs DIR] [-- OPTION-OF-NSBOX-RUN...]\n"
	"       nsbox check --here [--json]\n"
	"Tells what works on this host, what does not, and the command that mends it; or what is possible inside of a\n"
	"sandbox, or wherever it is run.\n"
	"\n"
	"      --inside      try in a sandbox what is possible there, with the options of nsbox run after --\n"
	"      --here        try the same without making a sandbox\n"
	"      --json        print an array of {name, ok, text, remedy}, or {name, ok, text, details}\n"
	"      --rootfs DIR  examine sandboxes with the root directory DIR, not the host root\n"
	"      --help        print this help\n"
	"\n"
	"Exit status: 0 when nsbox can run here (there may be warnings), 125 when it cannot; 1 when inside something is\n"
	"possible that must not be.\n"
	"See nsbox-check(1).\n";

enum { VERDICT_WIDTH = 8, NAME_WIDTH = 17 };

static void print_findings(const struct examination *examination)
{
	static const char *const verdicts[] = {
		[VERDICT_OK] = "ok",
		[VERDICT_WARNING] = "warning",
		[VERDICT_FAILED] = "failed",
	};

	for (size_t i = 0; i < examination->count; i++) {
		const struct finding *finding = &examination->findings[i];

		printf("%-*s %-*s %s\n", VERDICT_WIDTH, verdicts[finding->verdict], NAME_WIDTH, finding->name, finding->text);
		if (finding->remedy[0])
			printf("%*s %s\n", VERDICT_WIDTH + 1 + NAME_WIDTH, "->", finding->remedy);
	}
	puts(examination_passed(examination) ? "nsbox can run here." : "nsbox cannot run here: see what failed.");
}

static int print_json(const struct examination *examination)
{
	json_t *array = examination_to_json(examination);
	int status = array ? json_dumpf(array, stdout, JSON_INDENT(2)) : -1;

	json_decref(array);
	puts("");
	return status;
}

struct options {
	bool json, inside, here;
	const char *rootfs;
	char **run_options; /* what follows */
};

static int contradiction(const struct options *options)
{
	if (options->here && (options->inside || options->rootfs))
		fprintf(stderr, "nsbox check: --here makes no sandbox: it goes without --inside and --rootfs\n");
	else if (!options->inside && *options->run_options)
		fprintf(stderr, "nsbox check: %s is more than it takes; see nsbox check --help\n", *options->run_options);
	else
		return -1;
	return EXIT_NSBOX_FAILED;
}

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, struct options *ret)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "inside", no_argument, NULL, 'i' },
		{ "here", no_argument, NULL, 'H' },
		{ "rootfs", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option;

	opterr = 0;
	optind = 0; /* getopt_long starts afresh, whatever main has read with it */
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			ret->json = true;
			break;
		case 'i':
			ret->inside = true;
			break;
		case 'H':
			ret->here = true;
			break;
		case 'r':
			ret->rootfs = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case ':':
			fprintf(stderr, "nsbox check: %s needs a value\n", argv[optind - 1]);
			return EXIT_NSBOX_FAILED;
		default:
			fprintf(stderr, "nsbox check: unknown option %s; see nsbox check --help\n", argv[optind - 1]);
			return EXIT_NSBOX_FAILED;
		}
	}
	ret->run_options = argv + optind;
	return contradiction(ret);
}

static int examine_host(const struct options *options, const char *rootfs)
{
	static struct examination examination;

	examine(rootfs, &examination);
	if (!options->json)
		print_findings(&examination);
	else if (print_json(&examination) < 0)
		return EXIT_NSBOX_FAILED;
	return examination_passed(&examination) ? EXIT_SUCCESS : EXIT_NSBOX_FAILED;
}

int cmd_check(int argc, char **argv)
{
	struct options options = { 0 };
	cleanup_free char *path = NULL;
	int status = read_options(argc, argv, &options);

	if (status >= 0)
		return status;
	if (options.rootfs) {
		path = realpath(options.rootfs, NULL);
		if (!path) {
			fprintf(stderr, "nsbox check: --rootfs %s: %m\n", options.rootfs);
			return EXIT_NSBOX_FAILED;
		}
	}
	if (options.here)
		status = check_here(options.json);
	else if (options.inside)
		status = check_inside(options.json, path, options.run_options);
	else
		status = examine_host(&options, path);
	if (fflush(stdout) != 0) {
		fprintf(stderr, "nsbox check: writing to standard output: %m\n");
		return EXIT_NSBOX_FAILED;
	}
	return status;
}
