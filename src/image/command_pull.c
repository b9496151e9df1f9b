/* SPDX-License-Identifier: MIT */
/* `nsbox pull`: an image from a registry. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/change.h"
#include "image/commands.h"
#include "image/record.h"
#include "image/registry.h"
#include "image/start.h"
#include "image/wall.h"
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
	"      --help            print this help\n"
	"\n"
	"Credentials are those of podman login and docker login.\n";

enum { NESTING_MAX = 3 };

struct pull {
	struct registry_options registry;
	struct platform platform;
	bool json;
	enum progress_style style;
};

struct pulling {
	const struct pull *options;
	const struct store *store;
	struct reference reference;
	struct registry *registry;
	char asked[DIGEST_SIZE]; /* the digest of what the tag or digest led to */
};

static int install_manifest(struct pulling *pulling, const struct registry_document *document,
	const struct manifest *manifest, struct error *err)
{
	enum progress_style style = pulling->options->style;
	struct install install = {
		.store = pulling->store, .progress = progress_show, .progress_data = &style};
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

static int pull_one(
	const struct pull *options, const struct store *store, const char *text, struct error *err)
{
	struct pulling pulling = {.options = options, .store = store};
	cleanup_close int lock = -1;
	int r;

	if (reference_parse(text, &pulling.reference, err) < 0)
		return -1;
	if (reference_is_local(&pulling.reference))
		return reference_refuse_local(&pulling.reference, err);
	lock = store_begin_adding(store, err);
	if (lock < 0)
		return -1;
	r = registry_open(&pulling.reference, &options->registry, &pulling.registry, err);
	if (r == 0)
		r = follow(&pulling,
			pulling.reference.digest[0] ? pulling.reference.digest
						    : pulling.reference.tag,
			0, err);
	registry_close(pulling.registry);
	if (r == 0)
		say_done(&pulling);
	return r;
}

static int parse_options(int argc, char **argv, struct pull *ret, struct error *err)
{
	static const struct option longs[] = {{"platform", required_argument, NULL, 'p'},
		{"insecure", no_argument, NULL, 'i'}, {"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, 'j'}, {"stall-timeout", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'}, {0}};
	uint64_t stall_ms;
	int option;

	*ret = (struct pull){
		.platform = platform_native(), .registry = {.retries = REGISTRY_RETRIES_DEFAULT}};
	while ((option = getopt_long(argc, argv, "q", longs, NULL)) != -1)
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
		case 'h':
			return 1;
		default:
			return refuse_option(argv, "pull", err);
		}
	ret->style = progress_style_for(ret->registry.quiet, ret->json);
	return 0;
}

int command_pull(int argc, char **argv)
{
	struct error err = {0};
	struct pull options;
	struct store store;
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
	if (start_prepare(&err) < 0 || store_open(true, &store, &err) < 0 ||
		wall_raise(&store, NULL, -1, &err) < 0)
		return failed(&err);
	for (int i = optind; r == 0 && i < argc; i++)
		r = pull_one(&options, &store, argv[i], &err);
	store_close(&store);
	return r < 0 ? failed(&err) : 0;
}
