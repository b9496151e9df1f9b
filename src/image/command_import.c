/* SPDX-License-Identifier: MIT */
/* `nsbox images import`: an image from a directory or an archive. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "image/change.h"
#include "image/commands.h"
#include "image/import.h"
#include "image/start.h"
#include "image/wall.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char help[] =
	"Usage: nsbox images import [OPTION]… PATH [NAME[:TAG]]\n"
	"Takes an image from PATH: an OCI image layout (a directory, or an archive of one), what docker save or podman save\n"
	"wrote, or the tar archive of a root file system; - is standard input. NAME may be left out where PATH says it.\n"
	"\n"
	"      --platform OS/ARCH[/VARIANT]  of an image for several (default: this machine's)\n"
	"  -q, --quiet           print the name of the image and nothing else\n"
	"      --json            print an object for each layer, and one for the image\n"
	"  -h, --help            print this help\n";

static int parse_options(int argc, char **argv, struct import *ret, bool *ret_quiet, bool *ret_json,
	struct error *err)
{
	static const struct option longs[] = {{"platform", required_argument, NULL, 'p'},
		{"quiet", no_argument, NULL, 'q'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int option;

	while ((option = getopt_long(argc, argv, "qh", longs, NULL)) != -1)
		switch (option) {
		case 'p':
			if (platform_parse(optarg, &ret->platform, err) < 0)
				return -1;
			break;
		case 'q':
			*ret_quiet = true;
			break;
		case 'j':
			*ret_json = true;
			break;
		case 'h':
			return 1;
		default:
			return refuse_option(argv, "images import", err);
		}
	if (argc - optind < 1 || argc - optind > 2)
		return error_set(err, 0,
			"nsbox images import takes a path and a name; see nsbox images import --help");
	ret->path = argv[optind];
	ret->name = argv[optind + 1];
	return 0;
}

static int import_locked(struct import *import, struct reference *ret, struct error *err)
{
	cleanup_close int lock = -1;

	/* A wrong name is said before anything is read. */
	if (import->name && reference_parse(import->name, ret, err) < 0)
		return -1;
	lock = store_begin_adding(import->store, err);
	return lock < 0 ? -1 : import_image(import, ret, err);
}

int command_import(int argc, char **argv)
{
	struct import import = {.platform = platform_native(), .progress = progress_show};
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	struct image_record record;
	enum progress_style style;
	struct error err = {0};
	struct store store;
	const char *readable[2] = {NULL};
	bool quiet = false, json = false;
	int r = parse_options(argc, argv, &import, &quiet, &json, &err);

	if (r > 0) {
		fputs(help, stdout);
		return 0;
	}
	readable[0] = import.path;
	if (r < 0 || store_open(true, &store, &err) < 0 || start_prepare(&store, &err) < 0 ||
		wall_raise(&store, strcmp(import.path, "-") == 0 ? NULL : readable, -1, &err) < 0)
		return failed(&err);
	style = progress_style_for(quiet, json);
	import.progress_data = &style;
	import.store = &store;
	r = import_locked(&import, &reference, &err);
	if (r == 0)
		r = record_load(&store, &reference, &record, &err);
	store_close(&store);
	if (r > 0)
		error_set(&err, 0, "the image was removed again meanwhile");
	if (r != 0)
		return failed(&err);
	reference_format(&reference, name);
	if (json)
		printf("{\"image\": \"%s\", \"digest\": \"%s\"}\n", name, record.manifest);
	else
		puts(name);
	record_free(&record);
	return 0;
}
