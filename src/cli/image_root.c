/* SPDX-License-Identifier: MIT */
/* `nsbox run --image`: from the record of an image to a spec. See image_root.h. */
#define _GNU_SOURCE
#include "cli/image_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/image_program.h"
#include "cli/run_options.h"
#include "image/record.h"
#include "image/store.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static int pull(const struct run_options *options, const char *name, struct error *err)
{
	char *argv[6] = {(char *)"pull"};
	size_t count = 1;
	int status;

	if (options->no_config)
		argv[count++] = (char *)"--no-config";
	if (options->config_file) {
		argv[count++] = (char *)"--config";
		argv[count++] = (char *)options->config_file;
	}
	argv[count++] = (char *)"--";
	argv[count++] = (char *)name;
	status = image_program_run(argv, true, err);

	if (status <= 0)
		return status;
	return error_set(err, 0, "the image %s could not be pulled", name);
}

/* Returns 1 where the store has no such image. */
static int load(const struct reference *reference, struct store *store, struct image_record *ret,
	struct error *err)
{
	int r = store_open(false, store, err);

	if (r == 0)
		r = record_load(store, reference, ret, err);
	if (r != 0)
		store_close(store);
	return r;
}

static int find_image(const struct run_options *options, struct store *store,
	struct image_record *ret, struct error *err)
{
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	int r = 1;

	if (reference_parse(options->image, &reference, err) < 0)
		return -1;
	reference_format_short(&reference, name);
	store->fd = -1;
	if (options->pull != PULL_ALWAYS)
		r = load(&reference, store, ret, err);
	if (r == 1 && reference_is_local(&reference))
		return reference_refuse_local(&reference, err);
	if (r == 1 && options->pull != PULL_NEVER) {
		if (options->pull == PULL_MISSING)
			fprintf(stderr, "nsbox: %s is not in the store; fetching it from %s\n",
				name, reference.registry);
		if (pull(options, name, err) < 0)
			return -1;
		r = load(&reference, store, ret, err);
	}
	if (r <= 0)
		return r;
	error_set(err, 0, "there is no image %s in the store", name);
	return error_hint(err, "fetch it with: nsbox pull %s", name);
}

/* The topmost first, as overlayfs has them. The locks are kept by the process. */
static int take_layers(const struct store *store, const struct image_record *record,
	struct spec *spec, struct error *err)
{
	size_t count = 0;

	spec->root_layers = xcalloc(record->layers_count + 1, sizeof *spec->root_layers);
	for (size_t i = record->layers_count; i-- > 0;) {
		char name[STORE_NAME_MAX];
		int lock, tree;

		if (record->layers[i].hidden)
			break;
		tree = store_open_layer(store, record->layers[i].chain_id, &lock, err);
		if (tree < 0)
			return error_hint(err, "pull or import the image again");
		close_fd(&tree);
		spec->root_layers[count++] = xasprintf("%s/%s/fs", store->path,
			store_layer_name(record->layers[i].chain_id, name));
	}
	return 0;
}

/* Places that a program of the image expects to be there. */
static void take_directories(const struct image_record *record, struct spec *spec)
{
	if (record->working_directory && record->working_directory[0] == '/')
		spec_add_directory(spec, record->working_directory);
	for (char **volume = record->volumes; volume && *volume; volume++)
		if (**volume == '/')
			spec_add_directory(spec, *volume);
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

static void take_env(const struct image_record *record, struct exec_spec *exec)
{
	for (char **entry = record->env; entry && *entry; entry++) {
		char *equals = strchr(*entry, '=');
		cleanup_free char *name = NULL;

		if (!equals || equals == *entry)
			continue;
		name = xmemdup(*entry, (size_t)(equals - *entry));
		exec_set_env(exec, name, equals + 1);
	}
}

static int take_record(struct run_options *options, const struct store *store,
	const struct image_record *record, uint64_t timeout_ms, struct error *err)
{
	struct spec *spec = &options->spec;
	struct exec_spec *exec = &spec->execs[spec->execs_count];
	char name[REFERENCE_MAX + 1];

	spec->root = ROOT_IMAGE;
	free(spec->root_path);
	spec->root_path = xstrdup(reference_format(&record->reference, name));
	if (take_layers(store, record, spec, err) < 0)
		return -1;
	if (!options->user_given) {
		spec->uid = record->uid;
		spec->gid = record->gid;
		spec->home = record->home && record->home[0] == '/' ? xstrdup(record->home) : NULL;
	}
	take_directories(record, spec);
	spec->execs_count++;
	exec->timeout_ms = timeout_ms;
	exec->stdin_kind = STDIN_INHERIT;
	exec->phase = "run";
	exec->cwd = record->working_directory && record->working_directory[0] == '/'
			    ? xstrdup(record->working_directory)
			    : NULL;
	take_env(record, exec);
	return take_command(options, record, exec, err);
}

int image_root_prepare(struct run_options *options, uint64_t timeout_ms, struct error *err)
{
	struct image_record record;
	struct store store;
	int r;

	if (find_image(options, &store, &record, err) < 0)
		return -1;
	r = take_record(options, &store, &record, timeout_ms, err);
	record_free(&record);
	store_close(&store);
	return r;
}
