/* SPDX-License-Identifier: MIT */
/*
 * An image of what a session has written: see session_commit.h. nsbox-image makes it of a snapshot. That is one that
 * there is, or what the session has at the moment, which nobody else comes to know of (fork.h).
 */
#define _GNU_SOURCE
#include "cli/session_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/finish.h"
#include "config/config.h"
#include "image/instruction.h"
#include "image/program.h"
#include "image/reference.h"
#include "image/snapshots.h"
#include "sandbox/mounts.h"
#include "sandbox/spec.h"
#include "session/client.h"
#include "session/fork.h"
#include "session/place.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/dirnames.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox session commit [OPTION]… ID|SNAPSHOT NAME[:TAG]\n"
	"Makes an image of what a session has, or had in a snapshot, and prints its name: for nsbox run --image, and for other\n"
	"tools by nsbox images export. It has the layers of the session's image, and one with what was written over them.\n"
	"\n"
	"  -c, --change INSTRUCTION  change how it is run, as a Dockerfile does: CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, USER,\n"
	"                            VOLUME or WORKDIR, and what follows; may be given more than once\n"
	"  -a, --author TEXT         who has made it\n"
	"  -m, --message TEXT        what for\n"
	"  -q, --quiet               show no progress\n"
	"      --json                print objects that show the progress, and one for the image\n"
	"      --help                print this help\n"
	"\n"
	"What is bound into the session is no part of it, nor is what nsbox itself puts there: names of the network, /dev,\n"
	"/proc, and the packages that were installed by it for the session's code. Those of apt are.\n";

enum { OPTION_HELP = 256, OPTION_JSON };

struct commit_options {
	char **words; /* for nsbox-image: its command, and options; the array is owned, with room for more */
	size_t count;
};

/* --- what is to become an image --- */

static int refuse_host(struct error *err)
{
	error_set(err, 0, "the session has the host's own files as its root, of which no image is made");
	return error_hint(
		err, "make a session of an image: nsbox session new --image NAME, or of a directory: --rootfs DIR");
}

/* Before anything is made for it. What is no session may be a snapshot. */
static int check_session(const char *of, struct error *err)
{
	struct error no_session;
	int fd = session_connect(of, NULL, &no_session);
	json_t *session = fd < 0 ? NULL : session_request(fd, json_pack("{s:s}", "op", "packages"), NULL, &no_session);
	const char *root = json_string_value(json_object_get(json_object_get(session, "spec"), "root"));
	int r = root && strcmp(root, "host") == 0 ? refuse_host(err) : 0;

	json_decref(session);
	return r;
}

/* They stay as long as this process does, and others can tidy up meanwhile. */
static int hold_layers(struct fork *fork, struct error *err)
{
	for (char **id = fork->snapshot.layers; *id; id++) {
		cleanup_free char *tree = snapshot_layer_tree(&fork->snapshots, *id);

		if (snapshot_layer_hold(tree, err) < 0)
			return -1;
	}
	close_fd(&fork->lock);
	return 0;
}

/* Whether that is a place that sessions have without anybody having installed something. */
static bool is_place(const struct spec *spec, const char *path)
{
	size_t length = strlen(path);

	for (char **place = spec->package_places; place && *place; place++)
		if (strncmp(*place, path, length) == 0 && strchr(":", (*place)[length]))
			return true;
	return false;
}

static bool has_packages_in(const struct spec *spec, int tree, const char *place)
{
	struct dirnames names = {0};
	cleanup_close int fd = open_in_root(tree, place, O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	bool found = false;

	if (fd >= 0)
		dirnames_add(&names, fd);
	for (size_t i = 0; i < names.count && !found; i++) {
		cleanup_free char *path = xasprintf("%s/%s", place, names.list[i]);

		found = !is_place(spec, path);
	}
	dirnames_free(&names);
	return found;
}

static bool has_packages(const struct fork *fork)
{
	cleanup_free char *path =
		fork->snapshot.packages ? snapshot_layer_tree(&fork->snapshots, fork->snapshot.packages) : NULL;
	cleanup_close int tree = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

	for (char **place = fork->spec.package_places; tree >= 0 && place && *place; place++) {
		cleanup_free char *folder = xasprintf("%.*s", (int)strcspn(*place, ":"), *place);

		if (has_packages_in(&fork->spec, tree, folder))
			return true;
	}
	return false;
}

/* The record in a file that nsbox-image inherits. */
static int write_record(const struct snapshot *snapshot, struct error *err)
{
	json_t *object = snapshot_to_json(snapshot);
	cleanup_free char *text = json_dumps(object, JSON_COMPACT);
	cleanup_close int fd = memfd_create("snapshot", 0);

	json_decref(object);
	if (!text || fd < 0 || write_whole(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return error_set(err, errno, "writing down the snapshot");
	return move_fd(&fd);
}

static int commit_fork(struct fork *fork, const char *name, struct commit_options *options, struct error *err)
{
	char number[16];
	cleanup_close int record = -1;

	if (fork->spec.root == ROOT_HOST)
		return refuse_host(err);
	if (hold_layers(fork, err) < 0)
		return -1;
	record = write_record(&fork->snapshot, err);
	if (record < 0)
		return -1;
	if (has_packages(fork))
		fprintf(stderr, "nsbox: not in the image: the packages that were installed for the session's code, in "
				"/opt/nsbox\n");
	snprintf(number, sizeof number, "%d", record);
	options->words[options->count++] = (char *)"--";
	options->words[options->count++] = number;
	options->words[options->count++] = (char *)name;
	options->words[options->count] = NULL;
	return image_program_run(options->words, 0, err);
}

/* Returns the exit status of nsbox-image, or -1. */
static int commit(const char *of, const char *name, struct commit_options *options, struct error *err)
{
	struct reference reference;
	struct config config;
	struct fork fork;
	uint64_t max_bytes;
	int r;

	if (reference_parse(name, &reference, err) < 0)
		return -1;
	if (reference.digest[0])
		return error_set(err, 0, "%s has a digest, which nobody knows before the image is made", name);
	if (check_session(of, err) < 0)
		return -1;
	r = config_load(NULL, &config, err);
	max_bytes = config_snapshots_bytes(&config);
	config_free(&config);
	if (r < 0 || fork_begin(of, false, max_bytes, &fork, err) < 0)
		return -1;
	r = commit_fork(&fork, name, options, err);
	fork_end(&fork);
	return r;
}

/* --- the command --- */

static void add_option(struct commit_options *options, const char *name, char *value)
{
	options->words[options->count++] = (char *)name;
	if (value)
		options->words[options->count++] = value;
}

static int add_change(struct commit_options *options, char *text, struct error *err)
{
	add_option(options, "--change", text);
	return instruction_check(text, err) < 0 ? error_context(err, "--change") : 0;
}

/* `option` is what getopt_long returned for something that it does not know. */
static int refuse_option(int option, char **argv, struct error *err)
{
	char buffer[QUOTED_MAX], letter[3] = {'-', (char)optopt, '\0'};
	const char *written = quoted(optopt > 0 && optopt < 256 ? letter : argv[optind - 1], buffer);

	if (option == ':')
		return error_set(err, 0, "option %s needs an argument; see nsbox session commit --help", written);
	return error_set(err, 0, "unknown option %s; see nsbox session commit --help", written);
}

/* Returns 1 for --help. */
static int parse_options(int argc, char **argv, struct commit_options *ret, struct error *err)
{
	static const struct option longs[] = {{"author", required_argument, NULL, 'a'},
		{"change", required_argument, NULL, 'c'}, {"message", required_argument, NULL, 'm'},
		{"quiet", no_argument, NULL, 'q'}, {"json", no_argument, NULL, OPTION_JSON},
		{"help", no_argument, NULL, OPTION_HELP}, {0}};
	int option, r = 0;

	while (r == 0 && (option = getopt_long(argc, argv, ":a:c:m:qh", longs, NULL)) != -1)
		switch (option) {
		case 'a':
			add_option(ret, "--author", optarg);
			break;
		case 'c':
			r = add_change(ret, optarg, err);
			break;
		case 'm':
			add_option(ret, "--message", optarg);
			break;
		case 'q':
			add_option(ret, "--quiet", NULL);
			break;
		case OPTION_JSON:
			add_option(ret, "--json", NULL);
			break;
		case 'h':
		case OPTION_HELP:
			return 1;
		default:
			return refuse_option(option, argv, err);
		}
	if (r == 0 && argc - optind != 2)
		return error_set(err, 0,
			"nsbox session commit takes a session or a snapshot, and a name; see nsbox session commit --help");
	return r;
}

int command_commit(int argc, char **argv)
{
	cleanup_free char **words = xcalloc(2 * (size_t)argc + 8, sizeof *words);
	struct commit_options options = {.words = words};
	struct error err = {0};
	int r;

	add_option(&options, "commit", NULL);
	r = parse_options(argc, argv, &options, &err);
	if (r > 0)
		return cli_print_text(help);
	if (r == 0)
		r = commit(argv[optind], argv[optind + 1], &options, &err);
	return r < 0 ? cli_fail(&err) : r;
}
