/* SPDX-License-Identifier: MIT */
/*
 * nsbox run: options → spec → result → exit status.
 *
 * Output. Without --json, standard output is the command's alone. nsbox itself writes to standard
 * error, each line beginning with «nsbox: »: why nothing could be run; or which limit was met; or which
 * signal ended the command (but for SIGINT and SIGPIPE, which a shell passes over too: they are
 * somebody's wish). Warnings that something is weaker than it could be are written too; but that limits
 * are not enforced by a cgroup is said only when one of those limits was asked for (--memory, --cpus,
 * --pids-limit, --cgroup): every run on a host without cgroup v2 would say the same else. With --json
 * exactly one object is printed, in which all of this is, also when options were wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/finish.h"
#include "cli/image_root.h"
#include "cli/run_options.h"
#include "cli/run_packages.h"
#include "cli/run_spec.h"
#include "config/config.h"
#include "language/language.h"
#include "language/root.h"
#include "report/report.h"
#include "sandbox/collect.h"
#include "sandbox/create.h"
#include "sandbox/output.h"
#include "sandbox/sandbox.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum { CODE_MAX = 16 << 20, SENTENCE_MAX = 2048, NETWORK_LINES_MAX = 8 };

static const char DEFAULT_PATH[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/*
 * The defaults are under what the language has set, then come the configuration's variables, and the caller's on
 * top.
 */
static void set_env(struct exec_spec *exec, const struct run_options *options)
{
	bool root = options->spec.uid == 0;

	exec_default_env(exec, "PATH", DEFAULT_PATH);
	exec_default_env(exec, "HOME", spec_home(&options->spec));
	if (options->spec.root != ROOT_IMAGE)
		exec_default_env(exec, "USER", root ? "root" : "user");
	exec_default_env(exec, "LANG", "C.UTF-8");
	if (options->spec.tty && getenv("TERM"))
		exec_default_env(exec, "TERM", getenv("TERM"));
	config_apply_to_exec(&options->config, exec);
	exec_add_env(exec, options->file_env.env);
	exec_add_env(exec, options->env.env);
}

int run_read_code(const char *file, char **ret, size_t *ret_length, struct error *err)
{
	bool from_stdin = strcmp(file, "-") == 0;
	cleanup_close int opened = from_stdin ? -1 : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int fd = from_stdin ? STDIN_FILENO : opened;
	char buffer[QUOTED_MAX];
	const char *name = from_stdin ? "standard input" : quoted(file, buffer);

	if (fd >= 0 && read_fd_whole(fd, CODE_MAX, ret, ret_length) == 0)
		return 0;
	if (errno == EFBIG)
		return error_set(err, 0, "the code in %s is larger than 16 MiB", name);
	return error_set(err, errno, "reading the code from %s", name);
}

/*
 * What else there is where the toolchain is missing: an image in the store would be taken, or another than this one.
 */
static void add_image_hint(const struct run_options *options, const struct language *language, struct error *err)
{
	if (options->spec.root == ROOT_HOST && !options->no_image &&
		(options->pull_given || options->image_policy != IMAGE_POLICY_HOST))
		language_add_image_hint(language, err);
	if (options->spec.root == ROOT_IMAGE && !err->hint[0])
		error_hint(err, "name another one with --image, or take the host's toolchain with --image none");
}

/* In a directory of the caller's, the program must not take the place of a file of theirs, nor another program's. */
static const char *source_mark(const struct run_options *options)
{
	static char mark[16];

	if (!options->workspace)
		return NULL;
	snprintf(mark, sizeof mark, "%d", (int)getpid());
	return mark;
}

/* The program's file, which the run has left in the caller's directory. */
static void remove_source(const struct run_options *options)
{
	const struct spec *spec = &options->spec;
	const char *path = spec->files_count > 0 ? spec->files[0].path : "";
	cleanup_close int directory = -1;

	if (!options->workspace || !options->language || strncmp(path, "/workspace/", 11) != 0)
		return;
	directory = open(options->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0)
		unlinkat(directory, path + 11, 0);
}

/* --lang: the language says what is executed. */
static int prepare_code(struct run_options *options, uint64_t timeout_ms, struct error *err)
{
	struct spec *spec = &options->spec;
	const char *code = options->code;
	cleanup_free char *read = NULL;
	char **arguments = options->operands;
	size_t length = code ? strlen(code) : 0;
	struct language *language;
	int status;

	if (language_load(options->language, &language, err) < 0)
		return -1;
	if (!code && run_read_code(*arguments, &read, &length, err) < 0) {
		language_free(language);
		return -1;
	}
	status = image_root_for_language(language, options, err);
	if (status == 0)
		status = run_packages_prepare_system(options, err);
	if (status == 0 && options->packages)
		status = run_packages_prepare(options, language, err);
	if (status == 0) {
		struct language_source source = {
			.code = code ? code : read, .length = length, .unique = source_mark(options)};

		status = language_prepare_source(
			language, &source, code ? arguments : arguments + 1, timeout_ms, spec, err);
		if (status < 0)
			add_image_hint(options, language, err);
	}
	language_free(language);
	if (status < 0)
		return -1;
	for (size_t i = 0; i < spec->execs_count; i++)
		spec->execs[i].stdin_kind = STDIN_NULL;
	if (code || strcmp(*arguments, "-") != 0)
		spec->execs[spec->execs_count - 1].stdin_kind = STDIN_INHERIT;
	return 0;
}

static void prepare_command(struct run_options *options, uint64_t timeout_ms)
{
	struct exec_spec *exec = &options->spec.execs[options->spec.execs_count++];

	for (char **operand = options->operands; *operand; operand++)
		exec_add_arg(exec, *operand);
	exec->timeout_ms = timeout_ms;
	exec->stdin_kind = STDIN_INHERIT;
	exec->phase = "run";
}

/* A session begins with no command, and with the toolchains of whatever comes. */
static int prepare_session(struct run_options *options, struct error *err)
{
	struct language *language = NULL;
	int r;

	if (options->session_language && language_load(options->session_language, &language, err) < 0)
		return -1;
	r = language ? image_root_for_language(language, options, err) : 0;
	if (r == 0)
		r = run_packages_prepare_system(options, err);
	if (r == 0) {
		options->spec.packages = true;
		r = language_prepare_lasting(language, &options->spec, err);
		if (r < 0)
			add_image_hint(options, language, err);
	}
	language_free(language);
	return r;
}

/*
 * Where the last command starts. With --output not in the root, which is the default of some roots, unless it is said:
 * that is refused.
 */
static int set_workdir(struct run_options *options, struct exec_spec *last, struct error *err)
{
	const char *workdir = options->workdir;

	if (!workdir && options->output && (last->cwd ? !*spec_path_below(last->cwd, "/") : options->spec.root != ROOT_HOST))
		workdir = "/workspace";
	if (workdir) {
		free(last->cwd);
		last->cwd = xstrdup(workdir);
	}
	if (options->output && collect_check(&options->spec, err) < 0)
		return error_context(err, "--output");
	return 0;
}

int run_build_spec(struct run_options *options, struct error *err)
{
	struct spec *spec = &options->spec;
	/* A session's own is none of its commands'. */
	bool terminal = !spec->session && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	uint64_t timeout_ms = run_options_settle(options, terminal);
	struct exec_spec *last;

	if (options->packages && !options->language && !spec->session)
		return error_set(err, 0, "--with: the language is missing, whose packages these are; add --lang NAME");
	if (options->language) {
		if (prepare_code(options, timeout_ms, err) < 0)
			return -1;
	} else if (options->image) {
		if (image_root_prepare(options, timeout_ms, err) < 0)
			return -1;
	} else {
		prepare_command(options, timeout_ms);
	}
	if (spec->session ? prepare_session(options, err) < 0
			  : !options->language && run_packages_prepare_system(options, err) < 0)
		return -1;
	for (size_t i = 0; i < spec->execs_count; i++)
		set_env(&spec->execs[i], options);
	last = &spec->execs[spec->execs_count - 1];
	if (set_workdir(options, last, err) < 0)
		return -1;
	return spec_load_filters(spec, err) < 0 || spec_validate(spec, err) < 0 ? -1 : 0;
}

static bool is_somebodys_wish(const struct exec_result *exec)
{
	return exec->ended_by == ENDED_CANCELLED ||
	       (exec->ended_by == ENDED_SIGNALED &&
		       (exec->signal == SIGINT || exec->signal == SIGPIPE));
}

static void print_warnings(const struct run_options *options, const struct run_result *result)
{
	for (size_t i = 0; i < result->warnings_count; i++)
		if (i + 1 != result->limits_warning || options->limits_given)
			fprintf(stderr, "nsbox: warning: %s\n", result->warnings[i]);
}

/* --explain: a line for each, of all commands. */
static void print_refused(const struct run_result *result)
{
	for (size_t i = 0; i < result->execs_count; i++) {
		const struct exec_result *exec = &result->execs[i];
		const char *phase = result->execs_count > 1 ? exec->phase : "";
		const char *colon = *phase ? ": " : "";
		char message[ERROR_TEXT_MAX];

		if (!exec->refused)
			continue;
		if (exec->refused->count == 0)
			fprintf(stderr, "nsbox: %s%sthe filter refused no system call\n", phase, colon);
		for (size_t r = 0; r < exec->refused->count; r++) {
			refusal_message(&exec->refused->list[r], message, sizeof message);
			fprintf(stderr, "nsbox: %s%srefused: %s\n", phase, colon, message);
		}
		if (exec->refused->others > 0)
			fprintf(stderr, "nsbox: %s%srefused: %" PRIu64 " calls more, of other kinds\n", phase, colon,
				exec->refused->others);
	}
}

/* What was blocked; of what failed only where the command did, as it may have found another way. */
static void print_network(const struct run_result *result, bool failed)
{
	static const enum report_verdict verdicts[] = {REPORT_BLOCKED, REPORT_FAILED};
	char sentence[SENTENCE_MAX];

	for (size_t i = 0; i < (failed ? 2 : 1); i++)
		for (size_t n = 0; network_sentence(result->network, verdicts[i], n, sentence, sizeof sentence); n++) {
			if (n == NETWORK_LINES_MAX) {
				fprintf(stderr, "nsbox: and more; --json has them all\n");
				break;
			}
			fprintf(stderr, "nsbox: %s\n", sentence);
		}
}

static void print_end(const struct run_options *options, const struct run_result *result)
{
	const struct exec_result *last = run_result_last(result);
	char sentence[SENTENCE_MAX];

	if (last->ended_by == ENDED_SETUP) {
		error_print(&last->error);
		return;
	}
	print_warnings(options, result);
	if (*result->copied.error.text)
		error_print(&result->copied.error);
	print_refused(result);
	if (is_somebodys_wish(last))
		return;
	print_network(result, run_result_exit_status(result) != 0);
	run_result_sentence(result, &options->spec, sentence, sizeof sentence);
	if (*sentence)
		fprintf(stderr, "nsbox: %s\n", sentence);
	exec_result_hint(last, &options->spec, sentence, sizeof sentence);
	if (*sentence)
		fprintf(stderr, "nsbox: %s\n", sentence);
}

/* Says how it ended, in the form that was asked for. Returns the exit status. */
static int report(const struct run_options *options, const struct run_result *result)
{
	if (!options->json)
		print_end(options, result);
	else if (cli_print_json(run_result_to_json(result, &options->spec)) != 0)
		return EXIT_NSBOX_FAILED;
	return run_result_exit_status(result);
}

/*
 * Something was wrong before there was a sandbox: the result of a run that failed in setup. Where that was an install, what
 * was written is its manager's.
 */
static int report_failure(const struct run_options *options, const struct error *err)
{
	struct run_result result = {.execs_count = 1};

	result.execs[0] = (struct exec_result){
		.phase = "run", .ended_by = ENDED_SETUP, .exit_code = -1, .error = *err};
	if (options->install.result)
		memcpy(result.execs[0].output, run_result_last(options->install.result)->output,
			sizeof result.execs[0].output);
	return report(options, &result);
}

static void say_ports(void *data, const struct run_result *result)
{
	const struct run_options *options = data;

	print_chosen_ports(&options->spec, result);
}

static int run(struct run_options *options)
{
	struct run_control control = {
		.cancel_fd = -1, .forward_signals = true, .created = say_ports, .data = options};
	struct output output = {.fd = -1};
	struct run_result result;
	struct error err;
	int status;

	if (options->output) {
		if (output_open(options->output, &output, &err) < 0)
			return report_failure(options, &err);
		control.output = &output;
	}
	sandbox_run(&options->spec, &control, &result);
	output_close(&output, run_result_last(&result)->ended_by == ENDED_SETUP);
	for (char **warning = options->install.warnings; options->json && warning && *warning; warning++)
		add_warning(&result, "%s", *warning);
	/* Otherwise a file of theirs may have been in its place. */
	if (run_result_last(&result)->ended_by != ENDED_SETUP)
		remove_source(options);
	status = report(options, &result);
	run_result_free(&result);
	return status;
}

static int print_help(void)
{
	run_options_print_help(stdout);
	return cli_finish(0);
}

int cmd_run(int argc, char **argv)
{
	struct run_options options;
	struct error err;
	int status;

	if (run_options_parse(argc, argv, &options, &err) < 0)
		status = report_failure(&options, &err);
	else if (options.help)
		status = print_help();
	else if (run_build_spec(&options, &err) < 0)
		status = report_failure(&options, &err);
	else if (options.print_spec)
		status = cli_print_json(spec_to_json(&options.spec));
	else
		status = run(&options);
	run_options_free(&options);
	return status;
}
