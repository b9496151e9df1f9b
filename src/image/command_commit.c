/* SPDX-License-Identifier: MIT */
/*
 * What `nsbox session commit` has nsbox-image do: commit [OPTION]… FD NAME[:TAG], with the options of that. The record of
 * the snapshot (snapshots.h) is read from the descriptor FD. It is no command for people, who have sessions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "image/change.h"
#include "image/commands.h"
#include "image/commit.h"
#include "image/start.h"
#include "image/wall.h"
#include "sandbox/idmap.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"
#include "util/utf8.h"

enum { PACKING_MS = 1000, REDRAW_MS = 100 };

struct options {
	uint32_t record; /* a descriptor */
	const char *name, *author, *message;
	char **changes; /* NULL-terminated; the array is owned */
	size_t changes_count;
	bool quiet, json;
};

static int take_text(const char *option, const char *text, const char **ret, struct error *err)
{
	if (!utf8_valid(text, strlen(text)))
		return error_set(err, 0, "%s is not UTF-8", option);
	*ret = text;
	return 0;
}

static void add_change(struct options *options, char *text)
{
	options->changes = xrealloc(options->changes, options->changes_count + 2, sizeof *options->changes);
	options->changes[options->changes_count++] = text;
	options->changes[options->changes_count] = NULL;
}

static int parse_options(int argc, char **argv, struct options *ret, struct error *err)
{
	static const struct option longs[] = {{"author", required_argument, NULL, 'a'},
		{"message", required_argument, NULL, 'm'}, {"change", required_argument, NULL, 'c'},
		{"quiet", no_argument, NULL, 'q'}, {"json", no_argument, NULL, 'j'}, {0}};
	int option, r = 0;

	while (r == 0 && (option = getopt_long(argc, argv, "a:m:c:q", longs, NULL)) != -1)
		switch (option) {
		case 'a':
			r = take_text("--author", optarg, &ret->author, err);
			break;
		case 'm':
			r = take_text("--message", optarg, &ret->message, err);
			break;
		case 'c':
			add_change(ret, optarg);
			break;
		case 'q':
			ret->quiet = true;
			break;
		case 'j':
			ret->json = true;
			break;
		default:
			return refuse_option(argv, "session commit", err);
		}
	if (r < 0)
		return -1;
	if (argc - optind != 2 || parse_count("the descriptor", argv[optind], 3, INT_MAX, &ret->record, err) < 0)
		return error_set(err, 0, "nsbox session commit makes images of sessions; see nsbox session commit --help");
	ret->name = argv[optind + 1];
	return 0;
}

/* --- progress --- */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void show_packing(void *data, uint64_t bytes)
{
	enum progress_style style = *(const enum progress_style *)data;
	static uint64_t shown_ms;
	char text[BYTES_TEXT_MAX];

	if (now_ms() - shown_ms < (style == PROGRESS_BARS ? REDRAW_MS : PACKING_MS))
		return;
	shown_ms = now_ms();
	if (style == PROGRESS_BARS)
		fprintf(stderr, "\r\033[Kpacking what was written: %s", bytes_text(bytes, text));
	if (style != PROGRESS_JSON)
		return;
	printf("{\"state\": \"packing\", \"bytes\": %" PRIu64 "}\n", bytes);
	fflush(stdout);
}

static void show_install(void *data, const struct install *install)
{
	static bool begun;

	/* The line of the packing goes. */
	if (!begun && *(const enum progress_style *)data == PROGRESS_BARS)
		fprintf(stderr, "\r\033[K");
	begun = true;
	progress_show(data, install);
}

/* --- rights --- */

/*
 * What was written in a sandbox may have modes that keep its owner out. Who starts processes is started before, and the
 * store is open: in the namespace its owners cannot be told.
 */
static int confine(const struct store *store, const struct snapshot *snapshot, struct error *err)
{
	cleanup_free char *directory = NULL;
	const char *readable[2] = {NULL};

	if (commit_directory(store, snapshot, &directory, err) < 0 || start_prepare(store, err) < 0 ||
		idmap_take_power(err) < 0)
		return -1;
	take_descriptors(); /* each layer has one in each directory on the way */
	readable[0] = directory;
	return wall_raise(store, readable, -1, err);
}

/* --- the command --- */

static void show_done(const struct options *options, const struct reference *reference, const struct committed *done)
{
	char name[REFERENCE_MAX + 1];

	reference_format(reference, name);
	if (!options->json)
		puts(name);
	else if (done->layer[0])
		printf("{\"image\": \"%s\", \"digest\": \"%s\", \"layer\": \"%s\", \"layer_bytes\": %" PRIu64 "}\n",
			name, done->digest, done->layer, done->layer_bytes);
	else
		printf("{\"image\": \"%s\", \"digest\": \"%s\", \"layer\": null, \"layer_bytes\": 0}\n", name,
			done->digest);
}

static int commit_locked(
	const struct commit *commit, const struct reference *reference, struct committed *ret, struct error *err)
{
	cleanup_close int lock = store_begin_adding(commit->store, err);

	return lock < 0 ? -1 : commit_image(commit, reference, ret, err);
}

static int commit_snapshot(const struct options *options, const struct store *store, const struct snapshots *snapshots,
	const struct snapshot *snapshot, struct error *err)
{
	enum progress_style style = progress_style_for(options->quiet, options->json);
	struct commit commit = {.store = store,
		.snapshots = snapshots,
		.snapshot = snapshot,
		.author = options->author,
		.message = options->message,
		.changes = options->changes,
		.packing = show_packing,
		.progress = show_install,
		.progress_data = &style};
	struct reference reference;
	struct committed done;

	if (reference_parse(options->name, &reference, err) < 0)
		return -1;
	if (reference.digest[0])
		return error_set(err, 0, "%s has a digest, which nobody knows before the image is made", options->name);
	if (confine(store, snapshot, err) < 0 || commit_locked(&commit, &reference, &done, err) < 0)
		return -1;
	show_done(options, &reference, &done);
	return 0;
}

static int read_record(int fd, struct snapshot *ret, struct error *err)
{
	json_t *object;
	int r;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	object = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	r = snapshot_from_json(object, ret, err);
	json_decref(object);
	return r;
}

static int read_and_commit(const struct options *options, const struct store *store, struct error *err)
{
	struct snapshots snapshots;
	struct snapshot snapshot;
	int r;

	if (read_record((int)options->record, &snapshot, err) < 0)
		return -1;
	r = snapshots_open(true, &snapshots, err);
	if (r == 0) {
		r = commit_snapshot(options, store, &snapshots, &snapshot, err);
		snapshots_close(&snapshots);
	}
	snapshot_free(&snapshot);
	return r;
}

int command_commit(int argc, char **argv)
{
	struct options options = {0};
	struct error err = {0};
	struct store store;
	int r = parse_options(argc, argv, &options, &err);

	if (r == 0)
		r = store_open(true, &store, &err);
	if (r == 0) {
		r = read_and_commit(&options, &store, &err);
		store_close(&store);
	}
	free(options.changes);
	return r < 0 ? failed(&err) : 0;
}
