/* SPDX-License-Identifier: MIT */
/* `nsbox images ls` and `nsbox images inspect`: what is in the store. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/change.h"
#include "image/commands.h"
#include "image/record.h"
#include "packages/packages.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char ls_help[] =
	"Usage: nsbox images ls [OPTION]…\n"
	"Lists the images: name, platform, size of what was pulled, when that was, digest of the manifest.\n"
	"\n"
	"  -q, --quiet     print the names and nothing else\n"
	"      --json      print an array of objects\n"
	"      --packages  list installed packages instead: size, how long they were not used, root, manager and names\n"
	"  -h, --help      print this help\n";

static const char inspect_help[] =
	"Usage: nsbox images inspect [OPTION]… NAME[:TAG]\n"
	"Prints what is known of an image, as JSON: its layers, and what its author says about running it.\n"
	"\n"
	"  -h, --help   print this help\n";

struct listing {
	bool quiet, json, packages, any;
	json_t *list;
};

static json_t *to_json(const struct image_record *record)
{
	char name[REFERENCE_MAX + 1], platform[PLATFORM_TEXT_MAX];

	return json_pack("{s:s, s:s, s:s, s:I, s:i, s:s*}", "image",
		reference_format(&record->reference, name), "platform",
		platform_format(&record->platform, platform), "digest", record->manifest, "bytes",
		(json_int_t)record_blob_bytes(record), "layers", (int)record->layers_count,
		"pulled", record->pulled);
}

static int show(void *data, const struct image_record *record)
{
	struct listing *listing = data;
	char name[REFERENCE_MAX + 1], platform[PLATFORM_TEXT_MAX], size[BYTES_TEXT_MAX];

	if (listing->json) {
		json_array_append_new(listing->list, to_json(record));
		return 0;
	}
	reference_format_short(&record->reference, name);
	if (listing->quiet) {
		puts(name);
		return 0;
	}
	if (!listing->any)
		printf("%-40s %-15s %9s  %-20s %s\n", "IMAGE", "PLATFORM", "SIZE", "PULLED",
			"DIGEST");
	listing->any = true;
	printf("%-40s %-15s %9s  %-20s %.19s\n", name, platform_format(&record->platform, platform),
		bytes_text(record_blob_bytes(record), size), record->pulled ? record->pulled : "",
		record->manifest);
	return 0;
}

static int parse_options(int argc, char **argv, struct listing *ret, struct error *err)
{
	static const struct option longs[] = {{"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, 'j'}, {"packages", no_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {0}};
	int option;

	while ((option = getopt_long(argc, argv, "qh", longs, NULL)) != -1)
		switch (option) {
		case 'q':
			ret->quiet = true;
			break;
		case 'j':
			ret->json = true;
			break;
		case 'p':
			ret->packages = true;
			break;
		case 'h':
			return 1;
		default:
			return refuse_option(argv, "images ls", err);
		}
	return 0;
}

/* «requests, six» */
static void print_names(const json_t *names)
{
	const json_t *name;
	size_t i;

	json_array_foreach(names, i, name)
		printf("%s%s", i ? ", " : "", json_string_value(name) ?: "");
	putchar('\n');
}

/* «3d», «5h», «12m» */
static const char *age_text(uint64_t seconds, char buffer[32])
{
	uint64_t minutes = seconds / 60;

	if (minutes >= 48 * 60)
		snprintf(buffer, 32, "%" PRIu64 "d", minutes / (24 * 60));
	else if (minutes >= 2 * 60)
		snprintf(buffer, 32, "%" PRIu64 "h", minutes / 60);
	else
		snprintf(buffer, 32, "%" PRIu64 "m", minutes);
	return buffer;
}

static void show_packages(void *data, const char *key, const char *about, uint64_t unused_s)
{
	json_t *object = json_loads(about, 0, NULL);
	const char *manager = json_string_value(json_object_get(object, "manager"));
	const char *root = json_string_value(json_object_get(object, "root"));
	struct listing *listing = data;
	char size[BYTES_TEXT_MAX], age[32];

	if (listing->json && json_is_object(object)) {
		json_object_set_new(object, "key", json_string(key));
		json_object_set_new(object, "unused_s", json_integer((json_int_t)unused_s));
		json_array_append(listing->list, object);
	} else if (listing->quiet) {
		puts(key);
	} else if (!listing->json) {
		if (!listing->any)
			printf("%-10s %9s %7s  %-30s %s\n", "MANAGER", "SIZE", "UNUSED", "ROOT", "PACKAGES");
		listing->any = true;
		printf("%-10s %9s %7s  %-30s ", manager ?: "",
			bytes_text((unsigned long long)json_integer_value(json_object_get(object, "bytes")), size),
			age_text(unused_s, age), root ?: "");
		print_names(json_object_get(object, "packages"));
	}
	json_decref(object);
}

static int list_images(struct listing *listing, struct error *err)
{
	struct store store;
	int r = store_open(false, &store, err);

	/* A store that is not there yet has no images. */
	if (r == 0) {
		r = store_list(&store, show, listing, err);
		store_close(&store);
	}
	return r;
}

int command_ls(int argc, char **argv)
{
	struct listing listing = {0};
	struct error err = {0};
	int r = parse_options(argc, argv, &listing, &err);

	if (r > 0) {
		fputs(ls_help, stdout);
		return 0;
	}
	if (r == 0 && optind < argc)
		r = error_set(
			&err, 0, "nsbox images ls takes no arguments; see nsbox images ls --help");
	if (r < 0)
		return failed(&err);
	listing.list = listing.json ? json_array() : NULL;
	r = listing.packages ? packages_list(show_packages, &listing, &err) : list_images(&listing, &err);
	if (listing.json && r >= 0) {
		json_dumpf(listing.list, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(listing.list);
	}
	return r < 0 ? failed(&err) : 0;
}

/* Shows the file itself: the record is what there is to know. */
static int inspect(const char *text, struct error *err)
{
	char name[REFERENCE_MAX + 1], file[STORE_IMAGE_NAME_MAX];
	cleanup_close int fd = -1;
	struct reference reference;
	struct image_record record;
	struct store store;
	json_t *root;
	int r;

	if (reference_parse(text, &reference, err) < 0)
		return -1;
	r = store_open(false, &store, err);
	if (r == 0)
		r = record_load(&store, &reference, &record, err);
	if (r > 0) {
		error_set(err, 0, "there is no image %s in the store",
			reference_format_short(&reference, name));
		return error_hint(err,
			"nsbox images ls lists those that there are; nsbox pull %s fetches it", name);
	}
	if (r < 0)
		return -1;
	record_free(&record);
	fd = openat(store.fd, store_image_name(&reference, file), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	store_close(&store);
	root = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
	if (!root)
		return error_set(err, errno, "reading the record of %s", text);
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
	return 0;
}

int command_inspect(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct error err = {0};
	int option = getopt_long(argc, argv, "h", longs, NULL), r;

	if (option == 'h') {
		fputs(inspect_help, stdout);
		return 0;
	}
	if (option != -1)
		r = refuse_option(argv, "images inspect", &err);
	else if (argc - optind != 1)
		r = error_set(&err, 0,
			"nsbox images inspect takes one name; see nsbox images inspect --help");
	else
		r = inspect(argv[optind], &err);
	return r < 0 ? failed(&err) : 0;
}
