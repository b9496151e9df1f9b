/* SPDX-License-Identifier: MIT */
/* `nsbox images rm` and `nsbox images prune`: taking away from the store. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "image/change.h"
#include "image/commands.h"
#include "image/record.h"
#include "image/snapshots.h"
#include "image/storage.h"
#include "packages/packages.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char rm_help[] =
	"Usage: nsbox images rm NAME[:TAG]…\n"
	"Forgets images, and removes what no other image needs. Sandboxes that run keep what they use.\n"
	"\n"
	"  -h, --help   print this help\n";

static const char prune_help[] =
	"Usage: nsbox images prune [OPTION]…\n"
	"Removes what no image needs: layers, blobs, what was begun and not finished, the files of sessions that died; and\n"
	"installed packages that no sandbox has.\n"
	"\n"
	"      --all    forget all images first\n"
	"  -h, --help   print this help\n";

static int parse_options(int argc, char **argv, bool *ret_all, struct error *err)
{
	static const struct option longs[] = {
		{"all", no_argument, NULL, 'a'}, {"help", no_argument, NULL, 'h'}, {0}};
	int option;

	while ((option = getopt_long(argc, argv, "h", ret_all ? longs : longs + 1, NULL)) != -1)
		switch (option) {
		case 'a':
			/* Not by an abbreviation: it forgets everything. */
			if (strcmp(argv[optind - 1], "--all") != 0)
				return refuse_option(argv, "images prune", err);
			*ret_all = true;
			break;
		case 'h':
			return 1;
		default:
			return refuse_option(
				argv, argv[0][0] == 'r' ? "images rm" : "images prune", err);
		}
	return 0;
}

static int remove_one(const struct store *store, const char *text, struct error *err)
{
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	int r;

	if (reference_parse(text, &reference, err) < 0)
		return -1;
	r = store_remove_image(store, &reference, err);
	if (r <= 0)
		return r;
	error_set(err, 0, "there is no image %s in the store",
		reference_format_short(&reference, name));
	return error_hint(err, "nsbox images ls lists those that there are");
}

static void say_in_use(unsigned count, const char *one, const char *several)
{
	if (count)
		printf("%u %s in use by sandboxes that run, and %s until the next prune\n", count,
			count == 1 ? one : several, count == 1 ? "stays" : "stay");
}

static void say_pruned(const struct pruned *pruned)
{
	char size[BYTES_TEXT_MAX];

	printf("removed %u layer%s and %u blob%s: %s\n", pruned->layers,
		pruned->layers == 1 ? "" : "s", pruned->blobs, pruned->blobs == 1 ? "" : "s",
		bytes_text(pruned->bytes, size));
	say_in_use(pruned->in_use, "layer is", "layers are");
}

int command_rm(int argc, char **argv)
{
	struct pruned pruned;
	struct error err = {0};
	struct store store;
	int r = parse_options(argc, argv, NULL, &err);

	if (r > 0) {
		fputs(rm_help, stdout);
		return 0;
	}
	if (r == 0 && optind == argc)
		r = error_set(&err, 0, "nsbox images rm: which image? See nsbox images rm --help");
	if (r < 0 || (r = store_open(true, &store, &err)) < 0)
		return failed(&err);
	for (int i = optind; r == 0 && i < argc; i++)
		r = remove_one(&store, argv[i], &err);
	if (r == 0)
		r = store_prune(&store, &pruned, &err);
	store_close(&store);
	if (r < 0)
		return failed(&err);
	say_pruned(&pruned);
	return 0;
}

static int forget(void *data, const struct image_record *record)
{
	struct error err = {0};

	return store_remove_image(data, &record->reference, &err) < 0 ? failed(&err) : 0;
}

/* Those that live have theirs locked. */
static void sweep_sessions(void)
{
	int sessions = storage_open_all();
	unsigned count = sessions < 0 ? 0 : storage_sweep(sessions);

	close_fd(&sessions);
	if (count)
		printf("removed the files of %u session%s that %s not live any more\n", count, count == 1 ? "" : "s",
			count == 1 ? "does" : "do");
}

/* Of snapshots that were removed, or not finished, what no session is over. */
static void sweep_snapshots(void)
{
	struct error unimportant;
	struct snapshots snapshots;
	unsigned count;

	if (snapshots_open(false, &snapshots, &unimportant) != 0)
		return;
	count = snapshots_sweep(&snapshots, 0);
	snapshots_close(&snapshots);
	if (count)
		printf("removed %u layer%s that no snapshot and no session needs\n", count, count == 1 ? "" : "s");
}

static int prune_packages(void)
{
	struct packages_pruned pruned;
	char size[BYTES_TEXT_MAX];
	struct error err = {0};

	if (packages_prune(&pruned, &err) < 0)
		return failed(&err);
	if (pruned.layers)
		printf("removed %u set%s of installed packages: %s\n", pruned.layers, pruned.layers == 1 ? "" : "s",
			bytes_text(pruned.bytes, size));
	say_in_use(pruned.in_use, "set of packages is", "sets of packages are");
	return 0;
}

int command_prune(int argc, char **argv)
{
	struct pruned pruned;
	struct error err = {0};
	struct store store;
	bool all = false;
	int r = parse_options(argc, argv, &all, &err);

	if (r > 0) {
		fputs(prune_help, stdout);
		return 0;
	}
	if (r == 0 && optind < argc)
		r = error_set(&err, 0,
			"nsbox images prune takes no arguments; nsbox images rm removes images by name");
	if (r < 0 || (r = store_open(true, &store, &err)) < 0)
		return failed(&err);
	if (all)
		r = store_list(&store, forget, &store, &err);
	if (r == 0)
		r = store_prune(&store, &pruned, &err);
	store_close(&store);
	if (r != 0)
		return r < 0 ? failed(&err) : r;
	say_pruned(&pruned);
	sweep_sessions();
	sweep_snapshots();
	return prune_packages();
}
