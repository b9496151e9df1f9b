/* SPDX-License-Identifier: MIT */
/* What sessions can go back to: see session_snapshots.h. The session's supervisor makes snapshots and restores them. */
#define _GNU_SOURCE
#include "cli/session_snapshots.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/finish.h"
#include "config/config.h"
#include "gate/publish.h"
#include "image/snapshots.h"
#include "language/language.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "seccomp/load.h"
#include "session/client.h"
#include "session/fork.h"
#include "session/session.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

static const char snapshot_help[] =
	"Usage: nsbox session snapshot [OPTION]… ID\n"
	"Keeps what a session has written, and prints the id of that. The session goes on. Where commands run in it they stand\n"
	"still while it is copied; else nothing is copied.\n"
	"\n"
	"      --name NAME  a name for it, which no other has\n"
	"      --json       print an object that describes it\n"
	"      --help       print this help\n"
	"\n"
	"What is bound into the session is no part of it, nor is what is in memory: processes, /dev/shm, --tmpfs.\n";

static const char snapshots_help[] =
	"Usage: nsbox session snapshots [OPTION]…\n"
	"       nsbox session snapshots rm SNAPSHOT…\n"
	"Lists snapshots of sessions, the oldest first, or removes some. What live sessions have of one that is removed stays\n"
	"with them.\n"
	"\n"
	"  -q, --quiet  ids only\n"
	"      --json   print an array of objects\n"
	"      --help   print this help\n";

static const char fork_help[] =
	"Usage: nsbox session fork [OPTION]… ID|SNAPSHOT\n"
	"Makes a session of another one, or of a snapshot, with all files of it, and prints its id. Nothing is copied, unless\n"
	"commands run in the session. Options are those of the first one, where none is given here; of published ports there\n"
	"are none.\n"
	"\n"
	"      --network NETWORK   none, allow=HOST[:PORT],..., pasta or host\n"
	"  -p, --publish [HOSTPORT:]PORT  a TCP port of the session on the host's loopback interface\n"
	"  -m, --memory SIZE       memory of all that runs in it\n"
	"      --disk SIZE         what it may write\n"
	"      --cpus N            processor time at once\n"
	"      --pids-limit N      processes and threads\n"
	"      --lang LANGUAGE     the language of code that names none\n"
	"      --mcp               let MCP servers of yours use it, too\n"
	"      --idle DURATION     end it when nothing was asked of it for so long\n"
	"      --life DURATION     end it after so long anyway\n"
	"      --help              print this help\n";

static const char restore_help[] =
	"Usage: nsbox session restore [OPTION]… ID SNAPSHOT\n"
	"Brings the files of a session back to what they were in a snapshot of it, or of another with the same root. What runs\n"
	"in it is ended.\n"
	"\n"
	"      --json  print an object that says what was ended\n"
	"      --help  print this help\n";

enum {
	SWEEP_MS = 1000,
	OPTION_HELP = 256,
	OPTION_JSON,
	OPTION_NAME,
	OPTION_NETWORK,
	OPTION_DISK,
	OPTION_CPUS,
	OPTION_PIDS,
	OPTION_LANG,
	OPTION_MCP,
	OPTION_IDLE,
	OPTION_LIFE,
};

/* --- common --- */

static int refuse_option(int option, char **argv, struct error *err)
{
	char buffer[QUOTED_MAX], letter[3] = {'-', (char)optopt, '\0'};
	const char *written = quoted(optopt > 0 && optopt < 256 ? letter : argv[optind - 1], buffer);

	if (option == ':')
		return error_set(err, 0, "option %s needs an argument; see nsbox session %s --help", written, argv[0]);
	return error_set(err, 0, "unknown option %s; see nsbox session %s --help", written, argv[0]);
}

static json_t *ask(const char *id, json_t *request, struct error *err)
{
	int fd = session_connect(id, NULL, err);

	if (fd >= 0)
		return session_request(fd, request, NULL, err);
	json_decref(request);
	return NULL;
}

/* What all snapshots may take, in bytes. */
static int read_max_bytes(uint64_t *ret, struct error *err)
{
	struct config config;
	int r = config_load(NULL, &config, err);

	*ret = config_snapshots_bytes(&config);
	config_free(&config);
	return r;
}

/* --- snapshot --- */

static int make_snapshot(const char *id, const char *name, bool json, struct error *err)
{
	struct snapshot snapshot;
	uint64_t max_bytes;
	json_t *answer, *object;

	if (read_max_bytes(&max_bytes, err) < 0)
		return -1;
	answer = ask(id,
		json_pack("{s:s, s:s?, s:I}", "op", "snapshot", "name", name, "max_bytes", (json_int_t)max_bytes), err);
	if (!answer)
		return -1;
	if (snapshot_from_json(json_object_get(answer, "snapshot"), &snapshot, err) < 0) {
		json_decref(answer);
		return -1;
	}
	object = snapshot_describe(&snapshot);
	json_object_set(object, "how", json_object_get(answer, "how"));
	json_object_set(object, "copied_bytes", json_object_get(answer, "copied_bytes"));
	json_decref(answer);
	snapshot_free(&snapshot);
	if (json)
		return cli_print_json(object);
	puts(json_string_value(json_object_get(object, "id")));
	json_decref(object);
	return cli_finish(0);
}

int command_snapshot(int argc, char **argv)
{
	static const struct option longs[] = {{"name", required_argument, NULL, OPTION_NAME},
		{"json", no_argument, NULL, OPTION_JSON}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	const char *name = NULL;
	char buffer[QUOTED_MAX];
	struct error err = {0};
	bool json = false;
	int option, r;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_NAME:
			name = optarg;
			break;
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(snapshot_help);
		default:
			refuse_option(option, argv, &err);
			return cli_fail(&err);
		}
	if (argc - optind == 2 && !name)
		r = error_set(&err, 0, "nsbox session snapshot takes the id of a session only; a name is given as --name %s",
			quoted(argv[optind + 1], buffer));
	else if (argc - optind != 1)
		r = error_set(&err, 0, "nsbox session snapshot takes the id of a session; see nsbox session snapshot --help");
	else if (name && !*name)
		r = error_set(&err, 0, "--name: the name is empty");
	else
		r = make_snapshot(argv[optind], name, json, &err);
	return r < 0 ? cli_fail(&err) : r;
}

/* --- snapshots --- */

static void format_age(int64_t created_s, char *ret, size_t size)
{
	long long age = (long long)time(NULL) - created_s;

	if (age < 0)
		age = 0;
	if (age < 120)
		snprintf(ret, size, "%llds", age);
	else if (age < 120 * 60)
		snprintf(ret, size, "%lldm", age / 60);
	else if (age < 48 * 3600)
		snprintf(ret, size, "%lldh", age / 3600);
	else
		snprintf(ret, size, "%lldd", age / 86400);
}

static void print_one(const struct snapshot *snapshot)
{
	const char *path = json_string_value(json_object_get(snapshot->spec, "root_path"));
	char age[24], size[32];

	format_age(snapshot->created_s, age, sizeof age);
	format_bytes(snapshot->bytes, size, sizeof size);
	printf("%-32s  %-20s  %-12.12s  %5s  %10s  %s\n", snapshot->id, snapshot->name[0] ? snapshot->name : "-",
		snapshot->session, age, size, path ?: "host");
}

static int list_snapshots(bool quiet, bool json, struct error *err)
{
	json_t *array = json ? json_array() : NULL;
	struct snapshot *list = NULL;
	struct snapshots snapshots;
	size_t count = 0;
	int r = snapshots_open(false, &snapshots, err);

	if (r == 0) {
		r = snapshots_read(&snapshots, &list, &count, err);
		snapshots_close(&snapshots);
	}
	if (r < 0) {
		json_decref(array);
		return -1;
	}
	if (!json && !quiet && count > 0)
		printf("%-32s  %-20s  %-12s  %5s  %10s  %s\n", "ID", "NAME", "SESSION", "AGE", "SIZE", "ROOT");
	for (size_t i = 0; i < count; i++)
		if (json)
			json_array_append_new(array, snapshot_describe(&list[i]));
		else if (quiet)
			puts(list[i].id);
		else
			print_one(&list[i]);
	snapshots_free(list, count);
	return json ? cli_print_json(array) : cli_finish(0);
}

static int remove_snapshots(char **names)
{
	char id[SNAPSHOT_ID_SIZE];
	struct snapshots snapshots;
	struct error err = {0};
	int status = 0;

	if (snapshots_open(true, &snapshots, &err) < 0)
		return cli_fail(&err);
	for (; *names; names++) {
		err = (struct error){0};
		if (snapshot_delete(&snapshots, *names, false, id, &err) < 0)
			status = cli_fail(&err);
	}
	snapshots_sweep(&snapshots, SWEEP_MS);
	snapshots_close(&snapshots);
	return status;
}

int command_snapshots(int argc, char **argv)
{
	static const struct option longs[] = {{"quiet", no_argument, NULL, 'q'}, {"json", no_argument, NULL, OPTION_JSON},
		{"help", no_argument, NULL, OPTION_HELP}, {0}};
	bool quiet = false, json = false;
	struct error err = {0};
	int option, r;

	while ((option = getopt_long(argc, argv, ":qh", longs, NULL)) != -1)
		switch (option) {
		case 'q':
			quiet = true;
			break;
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(snapshots_help);
		default:
			refuse_option(option, argv, &err);
			return cli_fail(&err);
		}
	if (optind < argc && strcmp(argv[optind], "rm") == 0 && argc - optind > 1)
		return remove_snapshots(argv + optind + 1);
	if (optind < argc)
		r = error_set(&err, 0,
			"nsbox session snapshots takes nothing, or rm and snapshots; see nsbox session snapshots --help");
	else
		r = list_snapshots(quiet, json, &err);
	return r < 0 ? cli_fail(&err) : r;
}

/* --- fork --- */

/* Of argv; NULL: as the first one has it. */
struct fork_options {
	const char *network, *memory, *disk, *cpus, *pids, *language, *idle, *life;
	struct publish_spec publish[SPEC_PUBLISH_MAX];
	size_t publish_count;
	bool shared;
};

static int add_publish(struct fork_options *options, const char *text, struct error *err)
{
	if (options->publish_count == SPEC_PUBLISH_MAX)
		return error_set(err, 0, "--publish: at most %d ports can be published", SPEC_PUBLISH_MAX);
	if (publish_parse("--publish", text, &options->publish[options->publish_count], err) < 0)
		return -1;
	options->publish_count++;
	return 0;
}

static int parse_fork(int argc, char **argv, struct fork_options *ret, struct error *err)
{
	static const struct option longs[] = {{"network", required_argument, NULL, OPTION_NETWORK},
		{"publish", required_argument, NULL, 'p'}, {"memory", required_argument, NULL, 'm'},
		{"disk", required_argument, NULL, OPTION_DISK}, {"cpus", required_argument, NULL, OPTION_CPUS},
		{"pids-limit", required_argument, NULL, OPTION_PIDS}, {"lang", required_argument, NULL, OPTION_LANG},
		{"mcp", no_argument, NULL, OPTION_MCP}, {"idle", required_argument, NULL, OPTION_IDLE},
		{"life", required_argument, NULL, OPTION_LIFE}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	int option, r = 0;

	*ret = (struct fork_options){.network = NULL};
	while (r == 0 && (option = getopt_long(argc, argv, ":hp:m:", longs, NULL)) != -1)
		switch (option) {
		case OPTION_NETWORK:
			ret->network = optarg;
			break;
		case 'p':
			r = add_publish(ret, optarg, err);
			break;
		case 'm':
			ret->memory = optarg;
			break;
		case OPTION_DISK:
			ret->disk = optarg;
			break;
		case OPTION_CPUS:
			ret->cpus = optarg;
			break;
		case OPTION_PIDS:
			ret->pids = optarg;
			break;
		case OPTION_LANG:
			ret->language = optarg;
			break;
		case OPTION_MCP:
			ret->shared = true;
			break;
		case OPTION_IDLE:
			ret->idle = optarg;
			break;
		case OPTION_LIFE:
			ret->life = optarg;
			break;
		case 'h':
		case OPTION_HELP:
			return 1;
		default:
			r = refuse_option(option, argv, err);
		}
	if (r == 0 && argc - optind != 1)
		r = error_set(err, 0,
			"nsbox session fork takes the id of a session or a snapshot; see nsbox session fork --help");
	return r;
}

static int apply_limits(const struct fork_options *options, struct limits *limits, struct error *err)
{
	if (options->memory &&
		parse_size_between("--memory", options->memory, SPEC_MEMORY_MIN, INT64_MAX, &limits->memory_bytes, err) < 0)
		return -1;
	if (options->disk &&
		parse_size_between("--disk", options->disk, SPEC_DISK_MIN, INT64_MAX, &limits->disk_bytes, err) < 0)
		return -1;
	if (options->cpus && parse_cpus("--cpus", options->cpus, &limits->cpu_millis, err) < 0)
		return -1;
	return options->pids ? parse_count("--pids-limit", options->pids, 1, SPEC_PIDS_MAX, &limits->pids, err) : 0;
}

static int apply_language(const char *name, struct session_options *ret, struct error *err)
{
	struct language *language;

	if (!name)
		return 0;
	if (language_load(name, &language, err) < 0)
		return -1;
	snprintf(ret->language, sizeof ret->language, "%s", language_name(language));
	language_free(language);
	return 0;
}

static int apply(const struct fork_options *options, struct fork *fork, struct error *err)
{
	if (options->network && spec_set_network(&fork->spec, "--network", options->network, err) < 0)
		return -1;
	memcpy(fork->spec.publish, options->publish, sizeof options->publish);
	fork->spec.publish_count = options->publish_count;
	if (options->idle && parse_duration_ms("--idle", options->idle, &fork->options.idle_ms, err) < 0)
		return -1;
	if (options->life && parse_duration_ms("--life", options->life, &fork->options.life_ms, err) < 0)
		return -1;
	fork->options.shared |= options->shared;
	if (apply_limits(options, &fork->spec.limits, err) < 0)
		return -1;
	return apply_language(options->language, &fork->options, err);
}

/* As nsbox session new has it: the id once somebody can read it. */
static int print_made(const struct fork *fork, struct session_made *made)
{
	int status;

	for (size_t i = 0; i < made->walls.warnings_count; i++)
		if (i + 1 != made->walls.limits_warning)
			fprintf(stderr, "nsbox: warning: %s\n", made->walls.warnings[i]);
	print_chosen_ports(&fork->spec, &made->walls);
	puts(made->id);
	status = cli_finish(0);
	if (status == 0)
		session_claim(made);
	return status;
}

static int make_fork(const char *of, const struct fork_options *options, struct error *err)
{
	struct session_made made;
	uint64_t max_bytes;
	struct fork fork;
	int r;

	if (read_max_bytes(&max_bytes, err) < 0 || fork_begin(of, false, max_bytes, &fork, err) < 0)
		return -1;
	r = apply(options, &fork, err);
	if (r == 0)
		r = fork_make(&fork, &made, err);
	if (r == 0)
		r = print_made(&fork, &made);
	fork_end(&fork);
	return r;
}

int command_fork(int argc, char **argv)
{
	struct fork_options options;
	struct error err = {0};
	int r = parse_fork(argc, argv, &options, &err);

	if (r > 0)
		return cli_print_text(fork_help);
	if (r == 0)
		r = make_fork(argv[optind], &options, &err);
	return r < 0 ? cli_fail(&err) : r;
}

/* --- restore --- */

static void say_ended(const json_t *answer, const char *key, const char *what)
{
	json_int_t count = json_integer_value(json_object_get(answer, key));

	if (count > 0)
		fprintf(stderr, "nsbox: ended %lld %s%s of the session%s\n", (long long)count, what, count == 1 ? "" : "s",
			strcmp(what, "context") == 0 ? ", which the next code begins anew, without variables" : "");
}

static int restore(const char *id, const char *snapshot, bool json, struct error *err)
{
	json_t *answer = ask(id, json_pack("{s:s, s:s}", "op", "restore", "snapshot", snapshot), err);

	if (!answer)
		return -1;
	if (json)
		return cli_print_json(answer);
	say_ended(answer, "ended_commands", "command");
	say_ended(answer, "ended_contexts", "context");
	json_decref(answer);
	return 0;
}

int command_restore(int argc, char **argv)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, OPTION_JSON}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	struct error err = {0};
	bool json = false;
	int option, r;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(restore_help);
		default:
			refuse_option(option, argv, &err);
			return cli_fail(&err);
		}
	if (argc - optind != 2)
		r = error_set(&err, 0,
			"nsbox session restore takes the id of a session, and a snapshot; see nsbox session restore --help");
	else
		r = restore(argv[optind], argv[optind + 1], json, &err);
	return r < 0 ? cli_fail(&err) : r;
}
