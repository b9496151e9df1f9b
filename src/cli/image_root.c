/* SPDX-License-Identifier: MIT */
/* `nsbox run --image`, and the images of --lang: from the store to a spec. See image_root.h. */
#define _GNU_SOURCE
#include "cli/image_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_options.h"
#include "image/program.h"
#include "image/root.h"
#include "language/language.h"
#include "language/root.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static int pull(const struct run_options *options, const char *name, struct error *err)
{
	char *argv[IMAGE_PULL_ARGV_MAX];
	int status;

	image_pull_argv(name, false, options->config_file, options->no_config, argv);
	status = image_program_run(argv, true, err);
	if (status <= 0)
		return status;
	return error_set(err, 0, "the image %s could not be pulled", name);
}

/* Fetches what is missing, and says so: that can take a while. */
static int pull_missing(
	const struct run_options *options, const struct reference *reference, struct error *err)
{
	char name[REFERENCE_MAX + 1];

	reference_format_short(reference, name);
	fprintf(stderr, "nsbox: %s is not in the store; fetching it from %s\n", name,
		reference->registry);
	return pull(options, name, err);
}

static int find_image(const struct run_options *options, struct image *ret, struct error *err)
{
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	bool fetch = options->pull != PULL_NEVER;
	int r = 1;

	if (reference_parse(options->image, &reference, err) < 0)
		return -1;
	reference_format_short(&reference, name);
	/* Of an image that is built here nothing newer can be fetched. */
	fetch = fetch && !reference_is_local(&reference);
	if (!fetch || options->pull != PULL_ALWAYS)
		r = image_open(&reference, ret, err);
	if (r == 1 && fetch) {
		if ((options->pull == PULL_ALWAYS ? pull(options, name, err)
						  : pull_missing(options, &reference, err)) < 0)
			return -1;
		r = image_open(&reference, ret, err);
	}
	return r > 0 ? image_missing(&reference, err) : r;
}

/* image-spec, config.md: Entrypoint and Cmd. What is on the command line stands for Cmd. */
static int take_command(const struct run_options *options, const struct image_record *record,
	struct exec_spec *exec, struct error *err)
{
	char **command =
		options->operands[0] || options->entrypoint ? options->operands : record->command;

	if (!options->entrypoint)
		for (char **word = record->entrypoint; word && *word; word++)
			exec_add_arg(exec, *word);
	else if (*options->entrypoint)
		exec_add_arg(exec, options->entrypoint);
	for (; command && *command; command++)
		exec_add_arg(exec, *command);
	if (exec->argv)
		return 0;
	error_set(err, 0, "no command given, and the image %s has none", options->image);
	return error_hint(err, "nsbox run --image %s COMMAND…", options->image);
}

static int take_image(struct run_options *options, const struct image *image, uint64_t timeout_ms,
	struct error *err)
{
	const struct image_record *record = &image->record;
	struct spec *spec = &options->spec;
	struct exec_spec *exec = &spec->execs[spec->execs_count];

	image_set_root(image, options->user_given, spec);
	if (!spec->stop_signal && image_stop_signal(image, &spec->stop_signal, err) < 0)
		return -1;
	spec->execs_count++;
	exec->timeout_ms = timeout_ms;
	exec->stdin_kind = STDIN_INHERIT;
	exec->phase = "run";
	exec->cwd = record->working_directory && record->working_directory[0] == '/'
			    ? xstrdup(record->working_directory)
			    : NULL;
	exec_add_env(exec, spec->root_env);
	return take_command(options, record, exec, err);
}

int image_root_prepare(struct run_options *options, uint64_t timeout_ms, struct error *err)
{
	struct image image;
	int r;

	if (find_image(options, &image, err) < 0)
		return -1;
	r = take_image(options, &image, timeout_ms, err);
	image_close(&image);
	return r < 0 ? -1 : image_hold_layers(&options->spec, err);
}

/* --pull says more of it than the configuration. */
static enum image_policy policy_of(const struct run_options *options)
{
	if (options->pull_given)
		return options->pull == PULL_NEVER ? IMAGE_POLICY_STORED : IMAGE_POLICY_PULL;
	return options->image_policy;
}

/* Takes an image that has to be fetched. */
static int fetch(const char *name, struct run_options *options, struct error *err)
{
	cleanup_free char *missing = NULL;
	struct reference reference;
	int r;

	if (reference_parse(name, &reference, err) < 0 ||
		(options->pull == PULL_ALWAYS ? pull(options, name, err)
					      : pull_missing(options, &reference, err)) < 0)
		return -1;
	r = image_choose_root(name, options->user_given, &options->spec, &missing, err);
	return r > 0 ? image_missing(&reference, err) : r;
}

/* By the policy. That nothing can be fetched is a mistake of who asks for it here and now, and for one language only. */
static int choose(const struct language *language, struct run_options *options, struct error *err)
{
	const char *remote = language_remote_image(language);
	bool told = options->pull_given && options->pull != PULL_NEVER;
	cleanup_free char *missing = NULL;
	int r;

	if (remote && told && options->pull == PULL_ALWAYS)
		return fetch(remote, options, err);
	r = language_choose_root(
		language, policy_of(options), options->user_given, &options->spec, &missing, err);
	if (r > 0)
		return fetch(missing, options, err);
	/* Images may be none of the caller's business: what is wrong with the store need not stop the host's toolchain. */
	if (r < 0 && err->hint[0]) {
		cleanup_free char *before = xstrdup(err->hint);

		return error_hint(
			err, "%s; or take the host's toolchain with --image none", before);
	}
	if (r < 0 || remote || !told ||
		(options->pull == PULL_MISSING && options->spec.root == ROOT_IMAGE))
		return r;
	error_set(err, 0, "--pull: no image of %s is known that could be fetched",
		language_title(language));
	return error_hint(err, "name one with --image");
}

int image_root_for_language(
	const struct language *language, struct run_options *options, struct error *err)
{
	struct image image;

	if (options->spec.root == ROOT_DIRECTORY || options->no_image)
		return 0;
	if (options->image) {
		if (find_image(options, &image, err) < 0)
			return -1;
		image_set_root(&image, options->user_given, &options->spec);
		image_close(&image);
	} else if (choose(language, options, err) < 0) {
		return -1;
	}
	return image_hold_layers(&options->spec, err);
}
