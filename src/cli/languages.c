/* SPDX-License-Identifier: MIT */
/*
 * `nsbox languages`: which languages there are, which can run, and what the others lack. Versions are
 * asked of the toolchains themselves, each in a sandbox. With --warm, fills the caches of compilers
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

#include "language/language.h"
#include "sandbox/sandbox.h"
#include "seccomp/load.h"
#include "session/warm.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char help[] =
	"Usage: nsbox languages [--json] [--rootfs DIR] [NAME]…\n"
	"       nsbox languages --warm [NAME]…\n"
	"Lists the languages of nsbox run --lang: version and program, or what is missing and how to get it.\n"
	"\n"
	"      --json        print an array of objects\n"
	"      --rootfs DIR  as they are in the root directory DIR, not on this host\n"
	"      --warm        compile, once, what every program of a language needs (Go's standard library)\n"
	"  -h, --help        print this help\n"
	"\n"
	"See nsbox-languages(5) for how to add a language.\n";

enum { VERSION_SIZE = 64, NAME_WIDTH = 12, VERSION_WIDTH = 14 };

struct options {
	bool json, warm;
	char *rootfs; /* owned, canonical; NULL: the host root */
	char **names; /* of argv, NULL-terminated; none: all */
	json_t *list; /* --json */
	bool failed;
};

/* --- sandboxes for a toolchain's own commands --- */

static void make_spec(const struct options *options, struct spec *spec)
{
	spec_init(spec);
	if (!options->rootfs)
		return;
	spec->root = ROOT_DIRECTORY;
	spec->root_path = xstrdup(options->rootfs);
}

static void ask_version(
	const struct options *options, const struct language *language, char *ret, size_t size)
{
	const struct run_control control = {.cancel_fd = -1};
	struct run_result result = {0};
	struct error err = {0};
	struct spec spec;

	ret[0] = '\0';
	make_spec(options, &spec);
	if (language_prepare_version(language, &spec, &err) == 0 && spec_load_filters(&spec, &err) == 0 &&
		sandbox_run(&spec, &control, &result) == 0) {
		cleanup_free char *output = warm_output_of(run_result_last(&result));

		language_version_of(output, strlen(output), ret, size);
	}
	run_result_free(&result);
	spec_free(&spec);
}

/* --- one language --- */

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

static void print_ready(const char *name, const char *version, const struct language_status *status)
{
	printf("%-*s %-*s", NAME_WIDTH, name, VERSION_WIDTH, version[0] ? version : "ready");
	for (char **program = status->programs; *program; program++)
		printf("%s%s", program == status->programs ? " " : ", ", *program);
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

static json_t *language_to_json(const struct options *options, const struct language *language,
	const struct language_status *status, const char *version)
{
	json_t *object = json_pack("{s:s, s:s, s:o, s:b, s:s}", "name", language_name(language),
		"title", language_title(language), "aliases",
		strings_to_json(language_aliases(language)), "ready", status->ready, "root",
		options->rootfs ? options->rootfs : "host");

	if (status->ready) {
		json_object_set_new(
			object, "version", version[0] ? json_string(version) : json_null());
		json_object_set_new(object, "programs", strings_to_json(status->programs));
		json_object_set_new(object, "binds", strings_to_json(status->binds));
	} else {
		add_error(object, &status->missing);
	}
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

static void show_language(struct options *options, const struct language *language)
{
	struct language_status status;
	char version[VERSION_SIZE] = "";
	struct spec spec;

	make_spec(options, &spec);
	language_status(language, &spec, &status);
	spec_free(&spec);
	if (status.ready)
		ask_version(options, language, version, sizeof version);
	if (options->json)
		json_array_append_new(
			options->list, language_to_json(options, language, &status, version));
	else if (status.ready)
		print_ready(language_name(language), version, &status);
	else
		print_missing(language_name(language), "missing", &status.missing);
	if (options->names[0] && !status.ready)
		options->failed = true;
	language_status_free(&status);
}

/* --- --warm --- */

static bool is_ready(const struct options *options, const struct language *language)
{
	struct language_status status;
	struct spec spec;
	bool ready;

	make_spec(options, &spec);
	language_status(language, &spec, &status);
	spec_free(&spec);
	ready = status.ready;
	language_status_free(&status);
	return ready;
}

static void warm(struct options *options, const struct language *language)
{
	const struct run_control control = {.cancel_fd = -1, .forward_signals = true};
	cleanup_free char *path = NULL, *output = NULL;
	struct error err = {0};
	int result = warm_language(language, NULL, false, &control, &path, &output, &err);

	if (result > 0)
		printf("%s: %s\n", language_name(language), path);
	/* Where no language was named, those that are not there are none to warm. */
	if (result >= 0 || (!options->names[0] && !is_ready(options, language)))
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

int cmd_languages(int argc, char **argv)
{
	struct options options = {0};
	int status = read_options(argc, argv, &options);

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
