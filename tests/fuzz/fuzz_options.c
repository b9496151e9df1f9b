/* SPDX-License-Identifier: MIT */
/*
 * The options of `nsbox run`: each line of the input is an argument. What was taken can be made a spec of;
 * what was refused has a reason, in one line.
 */
#define _GNU_SOURCE
#include "cli/run_options.h"
#include "fuzz/fuzz.h"
#include "report/report.h"
#include "util/error.h"

enum { ARGUMENTS_MAX = 64 };

static void check_options(struct run_options *options)
{
	json_t *object;

	run_options_settle(options, true);
	object = spec_to_json(&options->spec);
	require(object != NULL, "the spec can be shown");
	json_decref(object);
	require(options->help || options->operands, "what follows the options is known");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char program[] = "run";
	char *text = to_string(data, size), *argv[ARGUMENTS_MAX + 2] = {program}, *rest = text;
	struct run_options options;
	struct error err = {0};
	int argc = 1;

	/* Names of files are looked up: not those of devices and of processes, which may wait or be without end. */
	if (!strstr(text, "dev") && !strstr(text, "proc")) {
		while (rest && argc <= ARGUMENTS_MAX)
			argv[argc++] = strsep(&rest, "\n");
		if (run_options_parse(argc, argv, &options, &err) == 0)
			check_options(&options);
		else
			require(err.text[0] && !strchr(err.text, '\n'), "there is a reason of one line");
		run_options_free(&options);
	}
	free(text);
	return 0;
}
