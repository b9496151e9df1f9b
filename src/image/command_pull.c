/* SPDX-License-Identifier: MIT */
/* `nsbox pull`: an image from a registry. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "image/change.h"
#include "image/commands.h"
#include "image/record.h"
#include "image/registry.h"
#include "image/start.h"
#include "image/wall.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox pull [OPTION]… NAME[:TAG][@DIGEST]…\n"
	"Fetches images from registries, checks them and unpacks them for nsbox run --image.\n"
	"\n"
	"      --platform OS/ARCH[/VARIANT]  of an image for several (default: this machine's)\n"
	"      --insecure        plain HTTP, or a certificate that nobody vouches for\n"
	"  -q, --quiet           print the digest of the image and nothing else\n"
	"      --json            print an object for each layer, and one for the image\n"
	"      --stall-timeout DURATION  give up on a connection that brings less than 1 KiB a second (default 30s)\n"
	"      --config FILE     mirrors and what else is said of registries are as in this file, not as in nsbox.conf(5)\n"
	"      --no-config       no file is read\n"
	"  -h, --help            print this help\n"
	"\n"
	"Credentials are those of podman login and docker login.\n";

enum { NESTING_MAX = 3, MIRROR_RETRIES = 1 };

struct pull {
	struct registry_options registry;
	const char *config_file;
	bool no_config;
	struct config config;
	struct platform platform;
	bool json;
	enum progress_style style;
};

struct pulling {
	const struct pull *options;
	const struct store *store;
	struct reference reference;
	const struct reference
		*place; /* the image at who is asked: the registry itself, or a mirror */
	struct registry *registry;
	char asked[DIGEST_SIZE]; /* the digest of what the tag or digest led to */
};

static int install_manifest(struct pulling *pulling, const struct registry_document *document,
	const struct manifest *manifest, struct error *err)
{
	enum progress_style style = pulling->options->style;
	struct install install = {.store = pulling->store,
		.origin = pulling->place->registry,
		.progress = progress_show,
		.progress_data = &style};
	struct registry_document config_document = {0};
	struct image_config config;
	struct source source;
	char digest[DIGEST_SIZE];
	int r;

	if (registry_blob(pulling->registry, &manifest->config, CONFIG_DOCUMENT_MAX,
		    &config_document, err) < 0)
		return -1;
	r = image_config_parse(config_document.text, config_document.length,
		"the image's configuration", &config, err);
	if (r == 0) {
		registry_source(pulling->registry, &source);
		install.source = &source;
		r = blob_store(
			pulling->store, config_document.text, config_document.length, digest, err);
		if (r == 0)
			r = blob_store(
				pulling->store, document->text, document->length, digest, err);
		if (r == 0)
			r = install_image(
				&install, &pulling->reference, digest, manifest, &config, err);
		image_config_free(&config);
	}
	free(config_document.text);
	return r;
}

/* From what a tag leads to, through indexes, to a manifest. */
static int follow(
	struct pulling *pulling, const char *tag_or_digest, unsigned nesting, struct error *err)
{
	const struct descriptor *chosen;
	struct registry_document document;
	struct manifest manifest = {0};
	char name[REFERENCE_MAX + 1];
	int r;

	reference_format_short(&pulling->reference, name);
	if (registry_manifest(pulling->registry, tag_or_digest, &document, err) < 0)
		return -1;
	if (nesting == 0)
		strcpy(pulling->asked, document.digest);
	r = manifest_parse(document.text, document.length,
		document.content_type[0] ? document.content_type : NULL, name, &manifest, err);
	if (r == 0 && manifest.is_index) {
		if (nesting == NESTING_MAX)
			r = error_set(err, 0, "%s: indexes in indexes, more than %d deep", name,
				NESTING_MAX);
		else if ((r = index_choose(
				  &manifest, &pulling->options->platform, name, &chosen, err)) == 0)
			r = follow(pulling, chosen->digest, nesting + 1, err);
	} else if (r == 0) {
		r = install_manifest(pulling, &document, &manifest, err);
	}
	free(document.text);
	manifest_free(&manifest);
	return r;
}

static void say_done(const struct pulling *pulling)
{
	char name[REFERENCE_MAX + 1];

	reference_format(&pulling->reference, name);
	if (pulling->options->json)
		printf("{\"image\": \"%s\", \"digest\": \"%s\"}\n", name, pulling->asked);
	else if (pulling->options->registry.quiet)
		puts(pulling->asked);
	else
		printf("%s\n%s\n", name, pulling->asked);
}

static int pull_from(struct pulling *pulling, const struct reference *place,
	const struct registry_options *options, struct error *err)
{
	int r = registry_open(place, options, &pulling->registry, err);

	pulling->place = place;
	if (r == 0)
		r = follow(pulling, place->digest[0] ? place->digest : place->tag, 0, err);
	registry_close(pulling->registry);
	pulling->registry = NULL;
	return r;
}

/* What the configuration says about a host goes under the options. */
static void configure(const struct pull *pull, const char *host, struct registry_options *options)
{
	const struct config_registry *registry =
		config_registries_find(&pull->config.registries, host);

	if (!registry)
		return;
	options->insecure = options->insecure || registry->insecure;
	options->ca = registry->ca;
}

/*
 * Asks the mirrors of the image's registry, one after the other. Returns 1 when none could be used, which has been
 * said. What one has brought is there for the next, and checked like everything; what is wrong on this machine would
 * be so with the next one, too.
 */
static int pull_from_mirrors(struct pulling *pulling, struct error *err)
{
	const struct pull *pull = pulling->options;
	const char *host = pulling->reference.registry;
	const struct config_registry *registry =
		config_registries_find(&pull->config.registries, host);

	for (char **url = registry ? registry->mirrors : NULL; url && *url; url++) {
		struct registry_options options = pull->registry;
		struct mirror mirror;

		if (mirror_find(*url, &pulling->reference, &mirror, err) == 0) {
			options.insecure = false;
			configure(pull, mirror.reference.registry, &options);
			options.transport = mirror.plain ? TRANSPORT_PLAIN : TRANSPORT_TLS;
			options.one_of_some = true;
			options.retries = MIRROR_RETRIES;
			if (pull_from(pulling, &mirror.reference, &options, err) == 0)
				return 0;
			if (err->errnum)
				return -1;
		}
		fprintf(stderr, "nsbox: the mirror %.200s of %s cannot be used: %s\n", *url, host,
			err->text);
	}
	return 1;
}

static int pull_one(
	const struct pull *options, const struct store *store, const char *text, struct error *err)
{
	struct pulling pulling = {.options = options, .store = store};
	struct registry_options own = options->registry;
	cleanup_close int lock = -1;
	int r;

	if (reference_parse(text, &pulling.reference, err) < 0)
		return -1;
	if (reference_is_local(&pulling.reference))
		return reference_refuse_local(&pulling.reference, err);
	lock = store_begin_adding(store, err);
	if (lock < 0)
		return -1;
	r = pull_from_mirrors(&pulling, err);
	if (r > 0) {
		*err = (struct error){0};
		configure(options, pulling.reference.registry, &own);
		r = pull_from(&pulling, &pulling.reference, &own, err);
	}
	/* A mirror that could not be used may have left something. */
	if (r == 0)
		r = store_sweep(store, err);
	if (r == 0)
		say_done(&pulling);
	return r;
}

static int parse_options(int argc, char **argv, struct pull *ret, struct error *err)
{
	static const struct option longs[] = {{"platform", required_argument, NULL, 'p'},
		{"insecure", no_argument, NULL, 'i'}, {"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, 'j'}, {"stall-timeout", required_argument, NULL, 's'},
		{"config", required_argument, NULL, 'c'}, {"no-config", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'}, {0}};
	uint64_t stall_ms;
	int option;

	*ret = (struct pull){
		.platform = platform_native(), .registry = {.retries = REGISTRY_RETRIES_DEFAULT}};
	while ((option = getopt_long(argc, argv, "qh", longs, NULL)) != -1)
		switch (option) {
		case 'p':
			if (platform_parse(optarg, &ret->platform, err) < 0)
				return -1;
			break;
		case 'i':
			ret->registry.insecure = true;
			break;
		case 'q':
			ret->registry.quiet = true;
			break;
		case 'j':
			ret->json = ret->registry.quiet = true;
			break;
		case 's':
			if (parse_duration_ms("--stall-timeout", optarg, &stall_ms, err) < 0)
				return -1;
			ret->registry.stall_s = stall_ms ? (long)((stall_ms + 999) / 1000) : 0;
			break;
		case 'c':
			ret->config_file = optarg;
			break;
		case 'n':
			ret->no_config = true;
			break;
		case 'h':
			return 1;
		default:
			return refuse_option(argv, "pull", err);
		}
	if (ret->config_file && ret->no_config)
		return error_set(err, 0, "--config and --no-config contradict each other");
	ret->style = progress_style_for(ret->registry.quiet, ret->json);
	return 0;
}

/* Files of certificates that the configuration names, with a NULL at the end. Free the list, not what is in it. */
static const char **ca_files(const struct config_registries *registries)
{
	const char **files = xcalloc(registries->count + 1, sizeof *files);
	size_t count = 0;

	for (size_t i = 0; i < registries->count; i++)
		if (registries->hosts[i].ca)
			files[count++] = registries->hosts[i].ca;
	return files;
}

/* Everything that comes before the first byte from outside. */
static int prepare(struct pull *options, struct store *store, struct error *err)
{
	const char **files;
	int r;

	config_init(&options->config);
	if (!options->no_config && config_load(options->config_file, &options->config, err) < 0)
		return -1;
	if (store_open(true, store, err) < 0 || start_prepare(store, err) < 0)
		return -1;
	files = ca_files(&options->config.registries);
	r = wall_raise(store, files, -1, err);
	free(files);
	return r;
}

int command_pull(int argc, char **argv)
{
	struct error err = {0};
	struct pull options;
	struct store store = {.fd = -1};
	int r = parse_options(argc, argv, &options, &err);

	if (r > 0) {
		fputs(help, stdout);
		return 0;
	}
	if (r < 0)
		return failed(&err);
	if (optind == argc) {
		error_set(&err, 0, "nsbox pull: which image?");
		error_hint(&err, "for example: nsbox pull python:3.13-slim");
		return failed(&err);
	}
	r = prepare(&options, &store, &err);
	for (int i = optind; r == 0 && i < argc; i++)
		r = pull_one(&options, &store, argv[i], &err);
	store_close(&store);
	config_free(&options.config);
	return r < 0 ? failed(&err) : 0;
}
