/* SPDX-License-Identifier: MIT */
/*
 * `nsbox languages`: which languages there are, which can run, and what the others lack: in the root that nsbox run --lang
 * takes for them first, which is the host's or an image's, then in the other. Versions are asked of the toolchains
 * themselves, each in a sandbox. With --warm, fills the caches of compilers
 * (see language/cache.h). Exit status: 0, also where languages are not ready; 125 where a language that
 * was named is not, or a cache could not be filled.
 */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "image/root.h"
#include "language/language.h"
#include "language/root.h"
#include "sandbox/sandbox.h"
#include "seccomp/load.h"
#include "session/warm.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char help[] =
	"Usage: nsbox languages [--json] [--rootfs DIR] [NAME]…\n"
	"       nsbox languages --warm [NAME]…\n"
	"Lists the languages of nsbox run --lang: version and program, or what is missing and how to get it; first in\n"
	"the root that is taken, which is an image where the store has one, then in the other.\n"
	"\n"
	"      --json        print an array of objects\n"
	"      --rootfs DIR  as they are in the root directory DIR, not on this host\n"
	"      --config FILE what no option says is as in this file, not as in nsbox.conf(5)\n"
	"      --no-config   no file is read\n"
	"      --warm        compile, once, what every program of a language needs (Go's standard library)\n"
	"  -h, --help        print this help\n"
	"\n"
	"See nsbox-languages(5) for how to add a language.\n";

enum { VERSION_SIZE = 64, NAME_WIDTH = 12, VERSION_WIDTH = 14 };

struct options {
	bool json, warm, no_config;
	const char *config_file; /* of argv */
	enum image_policy policy;
	char *rootfs; /* owned, canonical; NULL: the host root */
	char **names; /* of argv, NULL-terminated; none: all */
	json_t *list; /* --json */
	bool failed;
};

/* --- sandboxes for a toolchain's own commands --- */

/* The root of a spec that options name; --rootfs, or the host's. */
static void make_spec(const struct options *options, struct spec *spec)
{
	spec_init(spec);
	if (!options->rootfs)
		return;
	spec->root = ROOT_DIRECTORY;
	spec->root_path = xstrdup(options->rootfs);
}

static void ask_version(const struct language *language, struct spec *spec, char *ret, size_t size)
{
	const struct run_control control = {.cancel_fd = -1};
	struct run_result result = {0};
	struct error err = {0};

	ret[0] = '\0';
	if (language_prepare_version(language, spec, &err) == 0 &&
		image_hold_layers(spec, &err) == 0 && spec_load_filters(spec, &err) == 0 &&
		sandbox_run(spec, &control, &result) == 0) {
		cleanup_free char *output = warm_output_of(run_result_last(&result));

		language_version_of(output, strlen(output), ret, size);
	}
	run_result_free(&result);
}

/* --- one language, in one root --- */

struct standing {
	struct spec spec; /* its root */
	struct language_status status;
	char version[VERSION_SIZE];
};

static const char *root_name(const struct spec *spec)
{
	return spec->root == ROOT_HOST ? "host" : spec->root_path;
}

/* Finishes *ret, whose spec has its root. */
static void examine(const struct language *language, struct standing *ret)
{
	language_status(language, &ret->spec, &ret->status);
	if (!ret->status.ready && ret->spec.root == ROOT_IMAGE)
		error_hint(&ret->status.missing,
			"Remove it: nsbox images rm %s; or run with the host's toolchain: --image none",
			ret->spec.root_path);
	if (ret->status.ready)
		ask_version(language, &ret->spec, ret->version, sizeof ret->version);
}

static void standing_free(struct standing *standing)
{
	spec_free(&standing->spec);
	language_status_free(&standing->status);
}

/* The language's image that the store has. Returns false where it has none. */
static bool find_image(
	struct options *options, const struct language *language, struct standing *ret)
{
	cleanup_free char *missing = NULL;
	struct error err;
	int r;

	*ret = (struct standing){0};
	spec_init(&ret->spec);
	r = language_choose_root(language, IMAGE_POLICY_STORED, false, &ret->spec, &missing, &err);
	if (r == 0 && ret->spec.root == ROOT_IMAGE) {
		examine(language, ret);
		return true;
	}
	spec_free(&ret->spec);
	if (r < 0) {
		error_print(&err);
		options->failed = true;
	}
	return false;
}

/* --- what is printed of it --- */

static json_t *strings_to_json(char *const *strings)
{
	json_t *array = json_array();

	for (; strings && *strings; strings++)
		json_array_append_new(array, json_string(*strings));
	return array;
}

static void print_missing(const char *name, const char *what, const struct error *err)
{
	printf("%-*s %-*s %s\n", NAME_WIDTH, name, VERSION_WIDTH, what, err->text);
	if (err->hint[0])
		printf("%*s %s\n", NAME_WIDTH + 1 + VERSION_WIDTH, "->", err->hint);
}

/* `said`: that the programs are the host's is said, since others are spoken of, too. */
static void print_standing(const char *name, const struct standing *standing, bool said)
{
	const struct language_status *status = &standing->status;

	if (!status->ready) {
		print_missing(name, "missing", &status->missing);
		return;
	}
	printf("%-*s %-*s ", NAME_WIDTH, name, VERSION_WIDTH,
		standing->version[0] ? standing->version : "ready");
	if (standing->spec.root == ROOT_IMAGE)
		printf("image %s: ", standing->spec.root_path);
	else if (said)
		printf("host: ");
	for (char **program = status->programs; *program; program++)
		printf("%s%s", program == status->programs ? "" : ", ", *program);
	for (char **bind = status->binds; *bind; bind++)
		printf("%s%s", bind == status->binds ? " (binds " : ", ", *bind);
	puts(status->binds[0] ? ")" : "");
}

static void add_error(json_t *object, const struct error *err)
{
	json_object_set_new(object, "error", json_string(err->text));
	if (err->hint[0])
		json_object_set_new(object, "hint", json_string(err->hint));
}

/* Adds how the language stands in that root. */
static void add_standing(json_t *object, const struct standing *standing)
{
	const struct language_status *status = &standing->status;

	json_object_set_new(object, "ready", json_boolean(status->ready));
	if (standing->spec.root == ROOT_IMAGE)
		json_object_set_new(object, "digest", json_string(standing->spec.root_digest));
	if (!status->ready) {
		add_error(object, &status->missing);
		return;
	}
	json_object_set_new(object, "version",
		standing->version[0] ? json_string(standing->version) : json_null());
	json_object_set_new(object, "programs", strings_to_json(status->programs));
	json_object_set_new(object, "binds", strings_to_json(status->binds));
}

static json_t *image_to_json(const struct language *language, const struct standing *image)
{
	cleanup_free char *remedy = image ? NULL : language_image_remedy(language);
	json_t *object = json_pack("{s:b, s:s?, s:s?}", "stored", image != NULL, "local",
		language_local_image(language), "remote", language_remote_image(language));

	if (image) {
		json_object_set_new(object, "name", json_string(root_name(&image->spec)));
		add_standing(object, image);
	} else {
		json_object_set_new(object, "ready", json_false());
		if (remedy)
			json_object_set_new(object, "hint", json_string(remedy));
	}
	return object;
}

static json_t *language_to_json(const struct language *language, const struct standing *used)
{
	json_t *object = json_pack("{s:s, s:s, s:o, s:b, s:s}", "name", language_name(language), "title",
		language_title(language), "aliases", strings_to_json(language_aliases(language)), "contexts",
		language_has_contexts(language), "root", root_name(&used->spec));

	add_standing(object, used);
	return object;
}

static void show_broken(struct options *options, const char *name, const struct error *broken)
{
	json_t *object;

	if (!options->json) {
		print_missing(name, "broken", broken);
		return;
	}
	object = json_pack("{s:s, s:b}", "name", name, "ready", 0);
	add_error(object, broken);
	json_array_append_new(options->list, object);
}

/* `used` is what nsbox run --lang takes, `image` the one in the store (NULL: none), `host` NULL with --rootfs. */
static void show(struct options *options, const struct language *language,
	const struct standing *used, const struct standing *host, const struct standing *image)
{
	cleanup_free char *remedy = language_image_remedy(language);

	if (options->json) {
		json_t *object = language_to_json(language, used);

		if (host) {
			json_t *of_host = json_object();

			add_standing(of_host, host);
			json_object_set_new(object, "host", of_host);
			json_object_set_new(object, "image", image_to_json(language, image));
		}
		json_array_append_new(options->list, object);
		return;
	}
	print_standing(language_name(language), used, image != NULL);
	if (image)
		print_standing("", used == image ? host : image, true);
	else if (host && remedy)
		printf("%*s %sin an image: %s\n", NAME_WIDTH + 1 + VERSION_WIDTH, "->",
			used->status.ready ? "" : "Or have it ", remedy);
}

static void show_language(struct options *options, const struct language *language)
{
	struct standing first = {0}, image;
	bool has_image = !options->rootfs && find_image(options, language, &image);
	const struct standing *used;

	make_spec(options, &first.spec);
	examine(language, &first);
	used = has_image && options->policy != IMAGE_POLICY_HOST ? &image : &first;
	show(options, language, used, options->rootfs ? NULL : &first, has_image ? &image : NULL);
	if (options->names[0] && !used->status.ready)
		options->failed = true;
	standing_free(&first);
	if (has_image)
		standing_free(&image);
}

/* --- --warm --- */

static bool is_ready(
	const struct options *options, const struct language *language, const char *image)
{
	cleanup_free char *missing = NULL;
	struct language_status status;
	struct error unimportant;
	struct spec spec;
	bool ready;

	make_spec(options, &spec);
	if (image)
		image_choose_root(image, false, &spec, &missing, &unimportant);
	language_status(language, &spec, &status);
	spec_free(&spec);
	ready = status.ready;
	language_status_free(&status);
	return ready;
}

/* The image whose toolchain is taken, malloc'd; NULL: the host's. */
static char *image_to_warm(
	const struct options *options, const struct language *language, struct error *err)
{
	enum image_policy policy =
		options->policy == IMAGE_POLICY_HOST ? IMAGE_POLICY_HOST : IMAGE_POLICY_STORED;
	cleanup_free char *missing = NULL;
	struct spec spec;
	char *image = NULL;

	spec_init(&spec);
	if (language_choose_root(language, policy, false, &spec, &missing, err) == 0 &&
		spec.root == ROOT_IMAGE)
		image = xstrdup(spec.root_path);
	spec_free(&spec);
	return image;
}

static void warm(struct options *options, const struct language *language)
{
	const struct run_control control = {.cancel_fd = -1, .forward_signals = true};
	cleanup_free char *path = NULL, *output = NULL, *image = NULL;
	struct error err = {0};
	int result = -1;

	image = image_to_warm(options, language, &err);
	if (!err.text[0])
		result = warm_language(language, image, false, &control, &path, &output, &err);
	if (result > 0)
		printf("%s: %s\n", language_name(language), path);
	/* Where no language was named, those that are not there are none to warm. */
	if (result >= 0 || (!options->names[0] && !is_ready(options, language, image)))
		return;
	if (output && output[0])
		fprintf(stderr, "%s\n", output);
	error_print(&err);
	options->failed = true;
}

/* --- all of them --- */

static void visit(void *data, const char *name, const struct error *broken)
{
	struct options *options = data;
	struct language *language;
	struct error err = {0};

	if (broken || language_load(name, &language, &err) < 0) {
		if (!options->warm)
			show_broken(options, name, broken ? broken : &err);
		return;
	}
	if (options->warm)
		warm(options, language);
	else
		show_language(options, language);
	language_free(language);
}

static void visit_named(struct options *options)
{
	for (char **name = options->names; *name; name++) {
		struct language *language;
		struct error err = {0};

		if (language_load(*name, &language, &err) < 0) {
			error_print(&err);
			options->failed = true;
			continue;
		}
		if (options->warm)
			warm(options, language);
		else
			show_language(options, language);
		language_free(language);
	}
}

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, struct options *ret)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"rootfs", required_argument, NULL, 'r'},
		{"config", required_argument, NULL, 'c'},
		{"no-config", no_argument, NULL, 'n'},
		{"warm", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	opterr = 0;
	optind = 0; /* getopt_long starts afresh, whatever main has read with it */
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			ret->json = true;
			break;
		case 'w':
			ret->warm = true;
			break;
		case 'c':
			ret->config_file = optarg;
			break;
		case 'n':
			ret->no_config = true;
			break;
		case 'r':
			free(ret->rootfs);
			ret->rootfs = realpath(optarg, NULL);
			if (ret->rootfs)
				break;
			fprintf(stderr, "nsbox languages: --rootfs %s: %m\n", optarg);
			return EXIT_NSBOX_FAILED;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case ':':
			fprintf(stderr, "nsbox languages: %s needs a value\n", argv[optind - 1]);
			return EXIT_NSBOX_FAILED;
		default:
			fprintf(stderr,
				"nsbox languages: unknown option %s; see nsbox languages --help\n",
				argv[optind - 1]);
			return EXIT_NSBOX_FAILED;
		}
	}
	ret->names = argv + optind;
	if (!ret->warm || (!ret->json && !ret->rootfs))
		return -1;
	fprintf(stderr, "nsbox languages: --warm goes with neither --json nor --rootfs\n");
	return EXIT_NSBOX_FAILED;
}

/* Which root is taken is the configuration's to say. Returns as read_options. */
static int read_config(struct options *options)
{
	struct config config;
	struct error err;
	int status = 0;

	if (options->no_config && options->config_file)
		status = error_set(&err, 0, "--config and --no-config contradict each other");
	config_init(&config);
	if (status == 0 && !options->no_config)
		status = config_load(options->config_file, &config, &err);
	options->policy = config.image_policy;
	config_free(&config);
	if (status == 0)
		return -1;
	error_print(&err);
	return EXIT_NSBOX_FAILED;
}

int cmd_languages(int argc, char **argv)
{
	struct options options = {0};
	int status = read_options(argc, argv, &options);

	if (status < 0)
		status = read_config(&options);

	if (status < 0) {
		options.list = json_array();
		if (options.names[0])
			visit_named(&options);
		else
			language_list(visit, &options);
		if (options.json) {
			json_dumpf(options.list, stdout, JSON_INDENT(2));
			puts("");
		}
		json_decref(options.list);
		status = options.failed ? EXIT_NSBOX_FAILED : EXIT_SUCCESS;
	}
	free(options.rootfs);
	if (fflush(stdout) == 0)
		return status;
	fprintf(stderr, "nsbox languages: writing to standard output: %m\n");
	return EXIT_NSBOX_FAILED;
}
