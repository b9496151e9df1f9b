/* SPDX-License-Identifier: MIT */
/*
 * `nsbox check --inside` and `--here`: see check_inside.h.
 *
 * For --inside this program is bound into a sandbox of the options that are given, and run there as
 * `nsbox check --here --json`. What it prints is foreign bytes for us like that of any command.
 */
#define _GNU_SOURCE
#include "cli/check_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_options.h"
#include "doctor/inner.h"
#include "sandbox/result.h"
#include "sandbox/sandbox.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* Where this program is in the sandbox. */
#define OWN_FILE "/run/nsbox-check"

enum { EXIT_POSSIBLE = 1, VERDICT_WIDTH = 8, NAME_WIDTH = 17 };

static const char *string_of(const json_t *finding, const char *key)
{
	return json_string_value(json_object_get(finding, key)) ?: "";
}

static void print_table(const json_t *report)
{
	size_t i, failed = 0;
	json_t *finding;

	json_array_foreach(report, i, finding) {
		const json_t *ok = json_object_get(finding, "ok");

		failed += json_is_false(ok);
		printf("%-*s %-*s %s\n", VERDICT_WIDTH, json_is_true(ok) ? "ok" : json_is_false(ok) ? "failed" : "-",
			NAME_WIDTH, string_of(finding, "name"), string_of(finding, "text"));
	}
	if (failed == 0)
		puts("Nothing was found possible that must not be in a sandbox.");
	else
		printf("%zu of these must not be so in a sandbox: see what failed.\n", failed);
}

static int print_report(const json_t *report, bool json)
{
	if (!json) {
		print_table(report);
	} else {
		if (json_dumpf(report, stdout, JSON_INDENT(2)) < 0)
			return EXIT_NSBOX_FAILED;
		puts("");
	}
	return inner_passed(report) ? EXIT_SUCCESS : EXIT_POSSIBLE;
}

int check_here(bool json)
{
	json_t *report = inner_examine(OWN_FILE);
	int status = print_report(report, json);

	json_decref(report);
	return status;
}

/* --- in a sandbox --- */

/* What nsbox run would have been given. The strings are the caller's still. */
static char **make_arguments(const char *rootfs, char **run_options)
{
	static char *const command[] = {"--", OWN_FILE, "check", "--here", "--json"};
	size_t count = 0, at = 0;
	char **argv;

	while (run_options[count])
		count++;
	argv = xcalloc(count + 4 + sizeof command / sizeof *command, sizeof *argv);
	argv[at++] = "run";
	if (rootfs) {
		argv[at++] = "--rootfs";
		argv[at++] = (char *)(uintptr_t)rootfs;
	}
	for (size_t i = 0; i < count; i++)
		argv[at++] = run_options[i];
	for (size_t i = 0; i < sizeof command / sizeof *command; i++)
		argv[at++] = command[i];
	return argv;
}

static int bind_ourselves(struct spec *spec, struct error *err)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

	if (length < 0)
		return error_set(err, errno, "finding the file of this program");
	path[length] = '\0';
	if (access(path, R_OK) < 0)
		return error_set(err, errno, "the file of this program, %s", path);
	spec_add_bind(spec, path, OWN_FILE, true);
	return 0;
}

static int make_spec(struct run_options *options, struct error *err)
{
	struct spec *spec = &options->spec;
	struct exec_spec *exec = &spec->execs[0];

	if (options->language || strcmp(options->operands[0], OWN_FILE) != 0)
		return error_set(err, 0, "--inside takes options of nsbox run after --, and no command or language");
	for (char **operand = options->operands; *operand; operand++)
		exec_add_arg(exec, *operand);
	exec->phase = "run";
	exec->stdin_kind = STDIN_NULL;
	exec->timeout_ms = options->timeout_given ? options->timeout_ms : SPEC_TIMEOUT_DEFAULT_MS;
	exec_set_env(exec, "HOME", spec->uid == 0 ? "/root" : "/home/user");
	spec->execs_count = 1;
	spec->capture = true;
	spec->tty = false;
	if (bind_ourselves(spec, err) < 0)
		return -1;
	return spec_load_filters(spec, err) < 0 || spec_validate(spec, err) < 0 ? -1 : 0;
}

/* The report of what ran, or NULL and why there is none. */
static json_t *read_report(const struct run_result *result, struct error *err)
{
	const struct exec_result *exec = run_result_last(result);
	const struct captured *output = &exec->output[0];
	json_t *report = NULL;

	if (exec->ended_by == ENDED_SETUP || exec->exec_errno) {
		*err = exec->error;
		return NULL;
	}
	if (exec->ended_by == ENDED_EXITED && output->head_length == output->total)
		report = json_loadb((const char *)output->data, output->head_length, 0, NULL);
	if (json_is_array(report))
		return report;
	json_decref(report);
	error_set(err, 0, "the report from inside did not come: it ended as %s, status %d: %.*s",
		ended_by_name(exec->ended_by), run_result_exit_status(result),
		exec->output[1].head_length < 200 ? (int)exec->output[1].head_length : 200,
		exec->output[1].data ? (const char *)exec->output[1].data : "");
	return NULL;
}

static json_t *run_inside(struct run_options *options, struct error *err)
{
	static const struct run_control control = {.cancel_fd = -1, .forward_signals = true};
	struct run_result result;
	json_t *report;

	sandbox_run(&options->spec, &control, &result);
	report = read_report(&result, err);
	run_result_free(&result);
	return report;
}

int check_inside(bool json, const char *rootfs, char **run_options)
{
	cleanup_free char **argv = make_arguments(rootfs, run_options);
	struct run_options options;
	struct error err = {0};
	json_t *report = NULL;
	int argc = 0, status = EXIT_NSBOX_FAILED;

	while (argv[argc])
		argc++;
	if (run_options_parse(argc, argv, &options, &err) == 0 && make_spec(&options, &err) == 0)
		report = run_inside(&options, &err);
	if (report) {
		inner_compare_namespaces(report, options.spec.network == NETWORK_HOST);
		status = print_report(report, json);
	} else {
		error_print(&err);
	}
	json_decref(report);
	run_options_free(&options);
	return status;
}
