/* SPDX-License-Identifier: MIT */
/* `nsbox check`, the doctor: prints what doctor/ finds out. Exit status: 0 when nsbox can run, else 125. */
#define _GNU_SOURCE
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
	"Tells what works on this host, what does not, and the command that mends it.\n"
	"\n"
	"      --json        print an array of {name, ok, text, remedy}\n"
	"      --rootfs DIR  examine sandboxes with the root directory DIR, not the host root\n"
	"      --help        print this help\n"
	"\n"
	"Exit status: 0 when nsbox can run here (there may be warnings), 125 when it cannot.\n"
	"See nsbox-check(1).\n";

enum { VERDICT_WIDTH = 8, NAME_WIDTH = 17 };

static void print_findings(const struct examination *examination)
{
	static const char *const verdicts[] = { [VERDICT_OK] = "ok", [VERDICT_WARNING] = "warning", [VERDICT_FAILED] = "failed" };

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

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, bool *ret_json, const char **ret_rootfs)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
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
			*ret_json = true;
			break;
		case 'r':
			*ret_rootfs = optarg;
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
	if (argv[optind]) {
		fprintf(stderr, "nsbox check: %s is more than it takes; see nsbox check --help\n", argv[optind]);
		return EXIT_NSBOX_FAILED;
	}
	return -1;
}

int cmd_check(int argc, char **argv)
{
	static struct examination examination;
	cleanup_free char *path = NULL;
	const char *rootfs = NULL;
	bool json = false;
	int status = read_options(argc, argv, &json, &rootfs);

	if (status >= 0)
		return status;
	if (rootfs) {
		path = realpath(rootfs, NULL);
		if (!path) {
			fprintf(stderr, "nsbox check: --rootfs %s: %m\n", rootfs);
			return EXIT_NSBOX_FAILED;
		}
	}
	examine(path, &examination);
	if (!json)
		print_findings(&examination);
	else if (print_json(&examination) < 0)
		return EXIT_NSBOX_FAILED;
	if (fflush(stdout) != 0) {
		fprintf(stderr, "nsbox check: writing to standard output: %m\n");
		return EXIT_NSBOX_FAILED;
	}
	return examination_passed(&examination) ? EXIT_SUCCESS : EXIT_NSBOX_FAILED;
}
