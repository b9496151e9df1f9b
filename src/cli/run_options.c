/* SPDX-License-Identifier: MIT */
/*
 * The options of `nsbox run`: see run_options.h. Each option has a line in the table and a function
 * that takes its argument. An option that is given twice has its last value, but for those that add
 * something (--env, --bind …).
 *
 * The configuration goes under the options, but an option says where it is read from: so argv is gone
 * through twice.
 */
#define _GNU_SOURCE
#include "cli/run_options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run_packages.h"
#include "gate/publish.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum { ENV_FILE_MAX = 1 << 20 /* bytes */ };

typedef int apply_function(
	struct run_options *options, const char *what, const char *argument, struct error *err);

struct run_option {
	const char *group; /* a heading of --help; NULL: that of the option before */
	int letter;	   /* 0: none */
	const char *name;
	const char *argument;  /* what it is called in --help; NULL: it takes none */
	apply_function *apply; /* NULL: `flag` is set */
	const char *help;
	bool is_limit; /* how well it holds depends on the host: see limits_given */
	size_t flag;   /* offset of a bool in struct run_options */
};

/* A path of the host, absolute and without links, so that it means the same from wherever it is opened. */
static char *resolve_path(const char *what, const char *path, struct error *err)
{
	char buffer[QUOTED_MAX];
	char *resolved = realpath(path, NULL);

	if (!resolved)
		error_set(err, errno, "%s: %s", what, quoted(path, buffer));
	return resolved;
}

static void replace(char **text, char *with)
{
	free(*text);
	*text = with;
}

static int apply_lang(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->language = argument;
	return 0;
}

static int apply_code(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->code = argument;
	return 0;
}

static int apply_with(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return run_packages_parse(options, what, argument, err);
}

/* NAME alone takes the caller's value, and nothing where the caller has none, as in Docker. */
static int add_env(struct exec_spec *to, const char *what, const char *text, struct error *err)
{
	cleanup_free char *name = NULL;
	const char *value;

	if (parse_assignment(what, text, &name, &value, err) < 0)
		return -1;
	if (!value)
		value = getenv(name);
	if (value)
		exec_set_env(to, name, value);
	return 0;
}

static int apply_env(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return add_env(&options->env, what, argument, err);
}

/* Lines of NAME=VALUE or NAME, taken as they are; empty ones and those that begin with # are skipped. */
static int add_env_lines(struct exec_spec *to, char *text, const char *file, struct error *err)
{
	unsigned number = 1;

	for (char *line; (line = strsep(&text, "\n")) != NULL; number++) {
		char where[QUOTED_MAX + 32], buffer[QUOTED_MAX];
		size_t length = strlen(line);

		if (length && line[length - 1] == '\r')
			line[length - 1] = '\0';
		line += strspn(line, " \t");
		if (*line == '\0' || *line == '#')
			continue;
		snprintf(where, sizeof where, "%s, line %u", quoted(file, buffer), number);
		if (add_env(to, where, line, err) < 0)
			return -1;
	}
	return 0;
}

static int apply_env_file(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	cleanup_close int fd = open(argument, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	cleanup_free char *text = NULL;
	char buffer[QUOTED_MAX];
	size_t length;

	if (fd < 0 || read_fd_whole(fd, ENV_FILE_MAX, &text, &length) < 0)
		return error_set(err, errno, "%s: %s", what, quoted(argument, buffer));
	if (strlen(text) != length)
		return error_set(err, 0, "%s: %s has a NUL in it", what, quoted(argument, buffer));
	if (add_env_lines(&options->file_env, text, argument, err) < 0)
		return error_context(err, "%s", what);
	return 0;
}

static int apply_workdir(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	char buffer[QUOTED_MAX];

	if (argument[0] != '/')
		return error_set(err, 0, "%s: %s is not an absolute path inside the sandbox", what,
			quoted(argument, buffer));
	replace(&options->workdir, xstrdup(argument));
	return 0;
}

static int apply_user(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->user_given = true;
	return parse_ids(what, argument, SPEC_ID_MAX, &options->spec.uid, &options->spec.gid, err);
}

static int apply_hostname(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	replace(&options->spec.hostname, xstrdup(argument));
	return 0;
}

static int apply_memory(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_size(what, argument, &options->spec.limits.memory_bytes, err);
}

static int apply_cpus(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_cpus(what, argument, &options->spec.limits.cpu_millis, err);
}

static int apply_pids_limit(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_count(what, argument, 1, SPEC_PIDS_MAX, &options->spec.limits.pids, err);
}

static int apply_timeout(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->timeout_given = true;
	return parse_duration_ms(what, argument, &options->timeout_ms, err);
}

static int apply_disk(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_size(what, argument, &options->spec.limits.disk_bytes, err);
}

static int apply_file_size(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_size_or_none(what, argument, &options->spec.limits.file_size_bytes, err);
}

static int apply_open_files(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_count(what, argument, SPEC_OPEN_FILES_MIN, SPEC_OPEN_FILES_MAX,
		&options->spec.limits.open_files, err);
}

static int apply_output_limit(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->output_limit_given = true;
	return parse_size_between(what, argument, SPEC_OUTPUT_MIN, SPEC_OUTPUT_MAX,
		&options->spec.limits.output_bytes, err);
}

static int apply_rootfs(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	char buffer[QUOTED_MAX];
	struct stat status;
	char *path = resolve_path(what, argument, err);

	if (!path)
		return -1;
	replace(&options->spec.root_path, path);
	options->spec.root = ROOT_DIRECTORY;
	options->spec.root_exact = true;
	if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
		return error_set(err, ENOTDIR, "%s: %s", what, quoted(argument, buffer));
	return 0;
}

/* The image is looked for later: see image_root.h. «none» is a word here: docker.io/library/none names an image. */
static int apply_image(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->no_image = strcmp(argument, "none") == 0;
	options->image = options->no_image ? NULL : argument;
	return 0;
}

static int apply_pull(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	static const char *const names[] = {"missing", "always", "never"};
	char buffer[QUOTED_MAX];

	options->pull_given = true;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(argument, names[i]) == 0) {
			options->pull = (unsigned)i;
			return 0;
		}
	return error_set(err, 0, "%s: %s is none of missing, always and never", what, quoted(argument, buffer));
}

static int apply_stop_signal(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return parse_signal(what, argument, &options->spec.stop_signal, err);
}

static int apply_entrypoint(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->entrypoint = argument;
	return 0;
}

static int add_bind(struct run_options *options, const char *what, const char *argument,
	bool read_only, struct error *err)
{
	cleanup_free char *source = NULL, *target = NULL, *resolved = NULL;
	bool asked_read_only = read_only;

	if (parse_bind(what, argument, &source, &target, &asked_read_only, err) < 0)
		return -1;
	if (read_only && !asked_read_only)
		return error_set(err, 0, "%s: \":rw\" contradicts it; use --bind", what);
	resolved = resolve_path(what, source, err);
	if (!resolved)
		return -1;
	spec_add_exact_bind(&options->spec, resolved, target, asked_read_only);
	return 0;
}

static int apply_bind(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return add_bind(options, what, argument, false, err);
}

static int apply_ro_bind(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return add_bind(options, what, argument, true, err);
}

static int apply_tmpfs(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	cleanup_free char *target = NULL;
	uint64_t bytes;

	if (parse_tmpfs(what, argument, &target, &bytes, err) < 0)
		return -1;
	spec_add_tmpfs(&options->spec, target, bytes);
	return 0;
}

/* The mount itself is made when all options are known: see add_workspace. */
static int apply_workspace(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	char buffer[QUOTED_MAX];
	struct stat status;

	if (options->workspace)
		return error_set(err, 0, "%s: given twice; there is one working directory", what);
	options->workspace = resolve_path(what, argument, err);
	if (!options->workspace)
		return -1;
	if (stat(options->workspace, &status) < 0)
		return error_set(err, errno, "%s: %s", what, quoted(argument, buffer));
	if (!S_ISDIR(status.st_mode))
		return error_set(err, ENOTDIR, "%s: %s", what, quoted(argument, buffer));
	if (strcmp(options->workspace, "/") == 0)
		return error_set(err, 0, "%s: %s is the host's root; name a directory in it", what,
			quoted(argument, buffer));
	if (status.st_uid == geteuid())
		return 0;
	error_set(err, 0, "%s: %s is not the caller's, but user %u's: the command could not work there as its owner",
		what, quoted(argument, buffer), (unsigned)status.st_uid);
	return error_hint(err, "to show it all the same: --bind DIR:/workspace");
}

static int apply_output(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->output = argument;
	return 0;
}

static int apply_network(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	return spec_set_network(&options->spec, what, argument, err);
}

static int apply_publish(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	struct spec *spec = &options->spec;

	if (spec->publish_count == SPEC_PUBLISH_MAX)
		return error_set(err, 0, "%s: at most %d ports can be published", what, SPEC_PUBLISH_MAX);
	if (publish_parse(what, argument, &spec->publish[spec->publish_count], err) < 0)
		return -1;
	spec->publish_count++;
	return 0;
}

static int apply_seccomp(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	char *name = seccomp_resolve(what, argument, err);

	if (!name)
		return -1;
	replace(&options->spec.seccomp_name, name);
	return 0;
}

static int apply_cgroup(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	char *path = resolve_path(what, argument, err);

	if (!path)
		return -1;
	replace(&options->spec.cgroup, path);
	return 0;
}

static int apply_config(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->config_file = argument;
	return 0;
}

static int apply_json(
	struct run_options *options, const char *what, const char *argument, struct error *err)
{
	options->json = true;
	options->spec.capture = true;
	return 0;
}

#define FLAG(member) offsetof(struct run_options, member)

/* clang-format off */
static const struct run_option table[] = {
	{"Code in a language", 0, "lang", "NAME", apply_lang,
		"run FILE, standard input (-) or CODE in this language", false, 0},
	{NULL, 'c', "code", "CODE", apply_code,
		"the code itself, with --lang; operands are its arguments", false, 0},
	{NULL, 0, "with", "PACKAGE[,PACKAGE]", apply_with,
		"packages of the language, or apt:NAME of the root, installed before", false, 0},

	{"Environment of the command", 'e', "env", "NAME[=VALUE]", apply_env,
		"set a variable; NAME alone takes the caller's value", false, 0},
	{NULL, 0, "env-file", "FILE", apply_env_file,
		"set the variables of a file, one a line; --env goes on top", false, 0},
	{NULL, 'w', "workdir", "DIR", apply_workdir,
		"start in this directory (/workspace; / with --rootfs; the image's)", false, 0},
	{NULL, 'u', "user", "UID[:GID]", apply_user,
		"who it is inside the sandbox (0:0)", false, 0},
	{NULL, 0, "hostname", "NAME", apply_hostname,
		"the name of the host inside (nsbox)", false, 0},

	{"Limits", 'm', "memory", "SIZE", apply_memory,
		"memory of the whole sandbox, files on tmpfs included (512m)", true, 0},
	{NULL, 0, "cpus", "NUMBER", apply_cpus,
		"CPU time, in CPUs: 0.5, 2 (none)", true, 0},
	{NULL, 0, "pids-limit", "NUMBER", apply_pids_limit,
		"processes and threads at one time (256)", true, 0},
	{NULL, 0, "timeout", "TIME", apply_timeout,
		"wall time: 10, 1.5s, 500ms, 2m, none (30s; none on a terminal)", false, 0},
	{NULL, 0, "disk", "SIZE", apply_disk,
		"writable space: all files that it makes (256m)", false, 0},
	{NULL, 0, "file-size", "SIZE", apply_file_size,
		"size of each file that it writes (none)", false, 0},
	{NULL, 0, "open-files", "NUMBER", apply_open_files,
		"open files of each process (1024)", false, 0},
	{NULL, 0, "output-limit", "SIZE", apply_output_limit,
		"with --json: what is kept of each output stream (1m)", false, 0},

	{"Files", 0, "rootfs", "DIR", apply_rootfs,
		"this directory as the root, which stays unchanged (the host's /usr)", false, 0},
	{NULL, 0, "image", "NAME|none", apply_image,
		"an image as the root, with its command, user and environment", false, 0},
	{NULL, 0, "pull", "missing|always|never", apply_pull,
		"when to fetch the image, or that of --lang, from its registry", false, 0},
	{NULL, 0, "entrypoint", "PROGRAM", apply_entrypoint,
		"instead of the image's own; empty: none", false, 0},
	{NULL, 0, "stop-signal", "SIGNAL", apply_stop_signal,
		"what a SIGTERM becomes for the command (SIGTERM; the image's)", false, 0},
	{NULL, 0, "read-only", NULL, NULL,
		"no writing to the root", false, FLAG(spec.root_read_only)},
	{NULL, 0, "bind", "SRC:DST[:ro]", apply_bind,
		"the host's SRC at DST inside, writable", false, 0},
	{NULL, 0, "ro-bind", "SRC:DST", apply_ro_bind,
		"the same, read-only", false, 0},
	{NULL, 0, "tmpfs", "DST[:SIZE]", apply_tmpfs,
		"an empty tmpfs at DST", false, 0},
	{NULL, 0, "workspace", "DIR", apply_workspace,
		"the host's DIR as /workspace, writable, where the command starts", false, 0},
	{NULL, 0, "output", "DIR", apply_output,
		"copy what it leaves in its working directory to DIR, new or empty", false, 0},

	{"Isolation", 0, "network", "none|allow=|pasta|host", apply_network,
		"none, allow=HOST[:PORT],... alone, pasta's, host's (none)", false, 0},
	{NULL, 0, "publish", "[HOSTPORT:]PORT", apply_publish,
		"the host's loopback port HOSTPORT leads to PORT inside (the same)", false, 0},
	{NULL, 0, "seccomp", "NAME|FILE", apply_seccomp,
		"filter: default, strict, debug, unconfined or a file (default)", false, 0},
	{NULL, 0, "root-emulation", NULL, NULL,
		"let package managers believe that they change owners", false, FLAG(spec.root_emulation)},
	{NULL, 0, "explain", NULL, NULL,
		"name the system calls that the filter refused", false, FLAG(spec.explain)},
	{NULL, 0, "cgroup", "DIR", apply_cgroup,
		"make the sandbox's cgroup below this cgroup v2 directory", true, 0},
	{NULL, 0, "require-cgroup", NULL, NULL,
		"refuse to run where the limits cannot be a cgroup's", false, FLAG(spec.require_cgroup)},

	{"Configuration", 0, "config", "FILE", apply_config,
		"what no option says is as in this file, not as in nsbox.conf(5)", false, 0},
	{NULL, 0, "no-config", NULL, NULL,
		"no file is read", false, FLAG(no_config)},

	{"Terminal and output", 't', "tty", NULL, NULL,
		"give the command a terminal (when it is started from one)", false, FLAG(tty)},
	{NULL, 'T', "no-tty", NULL, NULL,
		"give it none", false, FLAG(no_tty)},
	{NULL, 0, "json", NULL, apply_json,
		"print the result as a JSON object instead of the output", false, 0},
	{NULL, 0, "print-spec", NULL, NULL,
		"print what would be run as JSON, and do not run it", false, FLAG(print_spec)},
	{NULL, 'h', "help", NULL, NULL,
		"show this", false, FLAG(help)},
};
/* clang-format on */

enum { OPTIONS_COUNT = sizeof table / sizeof *table, LONG_FIRST = 256 };

/* What getopt needs, made from the table. */
struct getopt_input {
	char letters[2 + 2 * OPTIONS_COUNT + 1];
	struct option names[OPTIONS_COUNT + 1];
};

static void make_getopt_input(struct getopt_input *ret)
{
	char *letter = ret->letters;

	*letter++ = '+'; /* options end at the first operand: the rest is the command's */
	*letter++ = ':'; /* a missing argument is told from an unknown option */
	for (int i = 0; i < OPTIONS_COUNT; i++) {
		bool takes = table[i].argument;

		ret->names[i] = (struct option){table[i].name,
			takes ? required_argument : no_argument, NULL, LONG_FIRST + i};
		if (!table[i].letter)
			continue;
		*letter++ = (char)table[i].letter;
		if (takes)
			*letter++ = ':';
	}
	*letter = '\0';
	ret->names[OPTIONS_COUNT] = (struct option){NULL, 0, NULL, 0};
}

/* The option that getopt's value stands for, or NULL. */
static const struct run_option *find_option(int value)
{
	if (value >= LONG_FIRST && value < LONG_FIRST + OPTIONS_COUNT)
		return &table[value - LONG_FIRST];
	for (int i = 0; value && i < OPTIONS_COUNT; i++)
		if (table[i].letter == value)
			return &table[i];
	return NULL;
}

/* How many letters must be changed, added or left out to make `b` of `a` (Levenshtein). */
static unsigned distance(const char *a, size_t a_length, const char *b)
{
	enum { NAME_MAX_LENGTH = 32 };
	unsigned row[NAME_MAX_LENGTH + 1];
	size_t b_length = strlen(b);

	if (a_length > NAME_MAX_LENGTH || b_length > NAME_MAX_LENGTH)
		return UINT_MAX;
	for (unsigned j = 0; j <= b_length; j++)
		row[j] = j;
	for (size_t i = 0; i < a_length; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < b_length; j++) {
			unsigned best = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (diagonal + 1 < best)
				best = diagonal + 1;
			row[j + 1] = best;
		}
	}
	return row[b_length];
}

/* The name that was most likely meant; NULL when none is near: at most a third of its letters may be wrong. */
static const char *closest_option(const char *name, size_t length)
{
	const char *closest = NULL;
	unsigned least = UINT_MAX;

	for (int i = 0; i < OPTIONS_COUNT; i++) {
		unsigned changes = distance(name, length, table[i].name);

		if (changes < least && changes <= (strlen(table[i].name) + 2) / 3) {
			least = changes;
			closest = table[i].name;
		}
	}
	return closest;
}

/* Names that begin with what was written, as «--timeout, --tmpfs, --tty». Returns how many. */
static int options_with_prefix(const char *prefix, size_t length, char *ret, size_t size)
{
	int count = 0;

	*ret = '\0';
	for (int i = 0; i < OPTIONS_COUNT; i++) {
		size_t used = strlen(ret);

		if (strncmp(table[i].name, prefix, length) == 0)
			snprintf(ret + used, size - used, "%s--%s", count++ ? ", " : "",
				table[i].name);
	}
	return count;
}

static int unknown_long_option(const char *argument, struct error *err)
{
	size_t length = strcspn(argument, "=");
	cleanup_free char *written = xmemdup(argument, length);
	const char *closest = closest_option(argument + 2, length - 2);
	char candidates[256], buffer[QUOTED_MAX];

	if (length > 2 &&
		options_with_prefix(argument + 2, length - 2, candidates, sizeof candidates) > 1)
		return error_set(
			err, 0, "option %s is ambiguous: %s", quoted(written, buffer), candidates);
	if (closest)
		return error_set(err, 0, "unknown option %s; did you mean --%s?",
			quoted(written, buffer), closest);
	return error_set(
		err, 0, "unknown option %s; see nsbox run --help", quoted(written, buffer));
}

/* What getopt refused. `value` is what it returned; its word on it is replaced by ours. */
static int refuse_option(int value, char **argv, struct error *err)
{
	const struct run_option *option = find_option(optopt);

	if (value == ':')
		return error_set(err, 0, "option --%s needs an argument: --%s %s", option->name,
			option->name, option->argument);
	if (optopt >= LONG_FIRST)
		return error_set(err, 0, "option --%s takes no argument", option->name);
	if (optopt)
		return error_set(err, 0, "unknown option \"-%c\"; see nsbox run --help", optopt);
	return unknown_long_option(argv[optind - 1], err);
}

static bool is_early(const struct run_option *option)
{
	return !option->apply || option->apply == apply_config || option->apply == apply_json;
}

/* `early`: only flags, --config and --json, which a second time may follow. Stops at --help. */
static int apply_options(
	int argc, char **argv, bool early, struct run_options *options, struct error *err)
{
	struct getopt_input input;

	make_getopt_input(&input);
	opterr = 0;
	optind = 0; /* GNU: from the start, with the «+» looked at again */
	for (;;) {
		int value = getopt_long(argc, argv, input.letters, input.names, NULL);
		const struct run_option *option;
		char what[64];

		if (value == -1)
			break;
		if (value == '?' || value == ':')
			return refuse_option(value, argv, err);
		option = find_option(value);
		if (early && !is_early(option))
			continue;
		options->limits_given |= option->is_limit;
		snprintf(what, sizeof what, "--%s", option->name);
		if (!option->apply)
			*(bool *)((char *)options + option->flag) = true;
		else if (option->apply(options, what, optarg, err) < 0)
			return -1;
		if (options->help)
			return 0;
	}
	options->operands = argv + optind;
	return 0;
}

static bool code_from_stdin(const struct run_options *options)
{
	return options->language && !options->code && options->operands[0] &&
	       strcmp(options->operands[0], "-") == 0;
}

static int check_image(const struct run_options *options, struct error *err)
{
	if (options->entrypoint && options->language)
		return error_set(err, 0, "--entrypoint is for the command of an image, and --lang has one of its own");
	if (!options->image && options->entrypoint)
		return error_set(err, 0, "--entrypoint is for --image NAME, which is missing");
	if (!options->image && options->pull_given && (!options->language || options->no_image))
		return error_set(err, 0, "--pull is for --image NAME or --lang, %s",
			options->no_image ? "and contradicts --image none" : "which is missing");
	if ((options->image || options->pull_given) && options->spec.root == ROOT_DIRECTORY)
		return error_set(err, 0, "--%s and --rootfs contradict each other", options->image ? "image" : "pull");
	return 0;
}

static int check_code(const struct run_options *options, struct error *err)
{
	if (options->code && !options->language)
		return error_set(err, 0, "--code: the language is missing; add --lang NAME");
	if (options->code || options->operands[0])
		return 0;
	if (options->language)
		return error_set(err, 0,
			"--lang: no code given; name a file, - for standard input, or use -c CODE");
	if (options->image)
		return 0; /* which may have a command of its own */
	return error_set(err, 0, "no command given; see nsbox run --help");
}

/* A time limit of the configuration is one that was given; the command's environment is set later. */
static int apply_configuration(struct run_options *options, struct error *err)
{
	const struct config *config = &options->config;

	if (options->no_config && options->config_file)
		return error_set(err, 0, "--config and --no-config contradict each other");
	if (options->no_config)
		return 0;
	if (config_load(options->config_file, &options->config, err) < 0)
		return -1;
	config_apply_to_spec(config, &options->spec);
	options->timeout_given = config->given[CONFIG_LIMITS_TIMEOUT];
	options->timeout_ms = config->timeout_ms;
	options->image_policy = config->image_policy;
	options->limits_given |= config->given[CONFIG_CGROUP];
	return 0;
}

/* Whether a path inside is /workspace, however it is written. */
static bool is_workspace(const char *path)
{
	unsigned names = 0;

	while (*path) {
		size_t length = strcspn(path, "/");

		if (length > 0 && !(length == 1 && *path == '.') &&
			(names++ > 0 || length != strlen("workspace") || strncmp(path, "workspace", length) != 0))
			return false;
		path += length + strspn(path + length, "/");
	}
	return names == 1;
}

/* The first of the mounts, so that those below /workspace are not covered by it. */
static int add_workspace(struct run_options *options, struct error *err)
{
	struct spec *spec = &options->spec;
	struct mount_spec workspace;

	if (!options->workspace)
		return 0;
	if (options->output)
		return error_set(err, 0,
			"--workspace and --output contradict each other: what is left in the workspace is on the host already");
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (is_workspace(spec->mounts[i].target))
			return error_set(err, 0, "--workspace and --%s at /workspace contradict each other",
				spec->mounts[i].kind == MOUNT_TMPFS   ? "tmpfs"
				: spec->mounts[i].read_only ? "ro-bind"
							    : "bind");
	spec_add_exact_bind(spec, options->workspace, "/workspace", false);
	workspace = spec->mounts[spec->mounts_count - 1];
	memmove(spec->mounts + 1, spec->mounts, (spec->mounts_count - 1) * sizeof *spec->mounts);
	spec->mounts[0] = workspace;
	if (!options->workdir)
		options->workdir = xstrdup("/workspace");
	return 0;
}

static int check_output(const struct run_options *options, struct error *err)
{
	if (options->tty && options->no_tty)
		return error_set(err, 0, "--tty and --no-tty contradict each other");
	if (options->tty && options->json)
		return error_set(err, 0,
			"--tty and --json contradict each other: output on a terminal is not kept");
	if (options->tty && code_from_stdin(options))
		return error_set(err, 0,
			"--tty and code from standard input contradict each other: nothing is left to type");
	if (options->spec.explain && strcmp(options->spec.seccomp_name, "unconfined") == 0)
		return error_set(err, 0,
			"--explain and --seccomp unconfined contradict each other: there is no filter that refuses");
	if (options->spec.explain && options->spec.root_emulation)
		return error_set(err, 0,
			"--explain and --root-emulation contradict each other: what is emulated would be named as refused");
	if (options->output_limit_given && !options->json)
		return error_set(err, 0,
			"--output-limit: without --json output is passed on and not kept; add --json");
	return 0;
}

static void options_init(struct run_options *options)
{
	memset(options, 0, sizeof *options);
	spec_init(&options->spec);
	config_init(&options->config);
}

int run_options_parse(int argc, char **argv, struct run_options *ret, struct error *err)
{
	options_init(ret);
	if (apply_options(argc, argv, true, ret, err) < 0)
		return -1;
	if (ret->help)
		return 0;
	if (apply_configuration(ret, err) < 0 || apply_options(argc, argv, false, ret, err) < 0)
		return -1;
	if (check_image(ret, err) < 0 || check_code(ret, err) < 0 || check_output(ret, err) < 0)
		return -1;
	return add_workspace(ret, err);
}

uint64_t run_options_settle(struct run_options *options, bool terminal)
{
	bool wanted = terminal && !options->no_tty && !options->json && !code_from_stdin(options);

	options->spec.tty = options->tty || wanted;
	if (options->timeout_given)
		return options->timeout_ms;
	return options->spec.tty ? 0 : SPEC_TIMEOUT_DEFAULT_MS;
}

static void free_env(struct exec_spec *exec)
{
	for (char **entry = exec->env; entry && *entry; entry++)
		free(*entry);
	free(exec->env);
}

void run_options_free(struct run_options *options)
{
	spec_free(&options->spec);
	config_free(&options->config);
	free(options->workdir);
	free(options->workspace);
	strings_free(options->packages);
	strings_free(options->system_packages);
	packages_report_free(&options->install);
	free_env(&options->file_env);
	free_env(&options->env);
}

void run_options_print_help(FILE *file)
{
	fputs("Usage: nsbox run [OPTION]… [--] COMMAND [ARGUMENT]…\n"
	      "       nsbox run [OPTION]… --lang NAME FILE|- [ARGUMENT]…\n"
	      "       nsbox run [OPTION]… --lang NAME -c CODE [ARGUMENT]…\n"
	      "Runs a command, or code, in a sandbox of its own. Defaults are in brackets.\n",
		file);
	for (int i = 0; i < OPTIONS_COUNT; i++) {
		char left[64];

		if (table[i].group)
			fprintf(file, "\n%s:\n", table[i].group);
		snprintf(left, sizeof left, "%c%c%c --%s%s%s", table[i].letter ? '-' : ' ',
			table[i].letter ? table[i].letter : ' ', table[i].letter ? ',' : ' ',
			table[i].name, table[i].argument ? " " : "",
			table[i].argument ? table[i].argument : "");
		fprintf(file, "  %-24s %s\n", left, table[i].help);
	}
	fputs("\nExit status: the command's own; 124 when its time was up; 125 when nsbox failed; 126 when\n"
	      "the command cannot be executed; 127 when it is not found; 128+N when signal N ended it; 137\n"
	      "when it exceeded its memory. nsbox-run(1) has the details.\n",
		file);
}
