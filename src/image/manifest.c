/* SPDX-License-Identifier: MIT */
/* The JSON documents of an image, checked and taken apart. */
#define _GNU_SOURCE
#include "image/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"

static const struct {
	const char *type;
	enum media media;
} media_types[] = {
	{"application/vnd.oci.image.index.v1+json", MEDIA_INDEX},
	{"application/vnd.docker.distribution.manifest.list.v2+json", MEDIA_INDEX},
	{"application/vnd.oci.image.manifest.v1+json", MEDIA_MANIFEST},
	{"application/vnd.docker.distribution.manifest.v2+json", MEDIA_MANIFEST},
	{"application/vnd.oci.image.config.v1+json", MEDIA_CONFIG},
	{"application/vnd.docker.container.image.v1+json", MEDIA_CONFIG},
	{"application/vnd.oci.image.layer.v1.tar", MEDIA_LAYER},
	{"application/vnd.oci.image.layer.v1.tar+gzip", MEDIA_LAYER_GZIP},
	{"application/vnd.oci.image.layer.v1.tar+zstd", MEDIA_LAYER_ZSTD},
	{"application/vnd.docker.image.rootfs.diff.tar", MEDIA_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar.gzip", MEDIA_LAYER_GZIP},
	{"application/vnd.docker.image.rootfs.diff.tar.zstd", MEDIA_LAYER_ZSTD},
	/* Layers that were not to be pushed; they are pulled like others. */
	{"application/vnd.oci.image.layer.nondistributable.v1.tar", MEDIA_LAYER},
	{"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", MEDIA_LAYER_GZIP},
	{"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", MEDIA_LAYER_ZSTD},
	{"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", MEDIA_LAYER_GZIP},
};

enum media media_of(const char *type)
{
	size_t length = strcspn(type, "; \t");

	for (size_t i = 0; i < sizeof media_types / sizeof *media_types; i++)
		if (strlen(media_types[i].type) == length &&
			strncasecmp(media_types[i].type, type, length) == 0)
			return media_types[i].media;
	return MEDIA_UNKNOWN;
}

const char *media_layer_type(enum media media)
{
	return media == MEDIA_LAYER_GZIP   ? "application/vnd.oci.image.layer.v1.tar+gzip"
	       : media == MEDIA_LAYER_ZSTD ? "application/vnd.oci.image.layer.v1.tar+zstd"
					   : "application/vnd.oci.image.layer.v1.tar";
}

static bool is_schema_1(const char *type)
{
	return type && strstr(type, "docker.distribution.manifest.v1+");
}

static json_t *load(const char *json, size_t length, const char *origin, struct error *err)
{
	json_error_t error;
	json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		error_set(err, 0, "%s is not JSON: line %d: %s", origin, error.line, error.text);
	else if (!json_is_object(root))
		error_set(err, 0, "%s is not a JSON object", origin);
	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

/* --- index and manifest --- */

static void copy_platform_part(const json_t *object, const char *key, char part[static 16])
{
	const char *text = json_string_value(json_object_get(object, key));

	/* What is longer is no platform that we know of, and matches none. */
	snprintf(part, 16, "%s", text && strlen(text) < 16 ? text : text ? "?" : "");
}

static struct platform platform_of(const json_t *object)
{
	struct platform platform;

	copy_platform_part(object, "os", platform.os);
	copy_platform_part(object, "architecture", platform.architecture);
	copy_platform_part(object, "variant", platform.variant);
	return platform;
}

static int parse_descriptor(const json_t *object, const char *what, const char *origin,
	struct descriptor *ret, struct error *err)
{
	const char *digest = json_string_value(json_object_get(object, "digest"));
	const char *type = json_string_value(json_object_get(object, "mediaType"));
	const json_t *size = json_object_get(object, "size"),
		     *platform = json_object_get(object, "platform");
	const char *name = json_string_value(json_object_get(
		json_object_get(object, "annotations"), "org.opencontainers.image.ref.name"));

	*ret = (struct descriptor){.media = type ? media_of(type) : MEDIA_UNKNOWN};
	if (!digest || !digest_valid(digest))
		return error_set(err, 0, "%s: %s has %s", origin, what,
			digest ? "a digest that is not sha256: and 64 digits of lower-case hexadecimal"
			       : "no digest");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return error_set(
			err, 0, "%s: %s has no size that is a number of bytes", origin, what);
	strcpy(ret->digest, digest);
	ret->size = (uint64_t)json_integer_value(size);
	ret->has_platform = json_is_object(platform);
	if (ret->has_platform)
		ret->platform = platform_of(platform);
	if (name && strlen(name) <= REFERENCE_MAX)
		strcpy(ret->name, name);
	return 0;
}

static bool is_layer(enum media media)
{
	return media == MEDIA_LAYER || media == MEDIA_LAYER_GZIP || media == MEDIA_LAYER_ZSTD;
}

static int parse_entries(const json_t *array, const char *what, size_t max, const char *origin,
	struct manifest *ret, struct error *err)
{
	size_t count = json_array_size(array);
	char name[32];

	if (!json_is_array(array))
		return error_set(err, 0, "%s has no list of %ss", origin, what);
	if (count > max)
		return error_set(err, 0, "%s has %zu %ss; nsbox takes at most %zu", origin, count,
			what, max);
	ret->entries = xcalloc(count + 1, sizeof *ret->entries);
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof name, "%s %zu", what, i + 1);
		if (parse_descriptor(
			    json_array_get(array, i), name, origin, &ret->entries[i], err) < 0)
			return -1;
		ret->count++;
	}
	return 0;
}

static int parse_manifest(
	const json_t *root, const char *origin, struct manifest *ret, struct error *err)
{
	const char *type;

	if (parse_descriptor(json_object_get(root, "config"), "the configuration", origin,
		    &ret->config, err) < 0)
		return -1;
	if (ret->config.media != MEDIA_CONFIG) {
		type = json_string_value(
			json_object_get(json_object_get(root, "config"), "mediaType"));
		return error_set(err, 0,
			"%s is no image that can be run: its configuration is of the type %.100s",
			origin, type ? type : "(none)");
	}
	if (ret->config.size > CONFIG_DOCUMENT_MAX)
		return error_set(err, 0,
			"%s: the configuration has %" PRIu64 " bytes; nsbox takes at most %d",
			origin, ret->config.size, CONFIG_DOCUMENT_MAX);
	if (parse_entries(json_object_get(root, "layers"), "layer", MANIFEST_LAYERS_MAX, origin,
		    ret, err) < 0)
		return -1;
	for (size_t i = 0; i < ret->count; i++)
		if (!is_layer(ret->entries[i].media)) {
			type = json_string_value(json_object_get(
				json_array_get(json_object_get(root, "layers"), i), "mediaType"));
			return error_set(err, 0,
				"%s: layer %zu is of the type %.100s; nsbox reads tar archives, plain or "
				"compressed by gzip or zstd",
				origin, i + 1, type ? type : "(none)");
		}
	return 0;
}

static int parse_document(const json_t *root, const char *content_type, const char *origin,
	struct manifest *ret, struct error *err)
{
	const json_t *version = json_object_get(root, "schemaVersion");
	const char *own_type = json_string_value(json_object_get(root, "mediaType"));
	enum media media = own_type ? media_of(own_type) : MEDIA_UNKNOWN;
	enum media said = content_type ? media_of(content_type) : MEDIA_UNKNOWN;

	if (json_integer_value(version) == 1 || is_schema_1(content_type) ||
		is_schema_1(own_type)) {
		error_set(err, 0,
			"%s is in Docker's old format (schema 1), which names no checksums of its layers",
			origin);
		return error_hint(err,
			"push the image anew with a present tool, or copy it with: "
			"skopeo copy --format oci docker://… oci:DIR, then nsbox images import DIR");
	}
	if (json_integer_value(version) != 2)
		return error_set(err, 0, "%s has no schemaVersion 2", origin);
	/* One reader must not see an index where another sees a manifest (image-spec, CVE-2021-41190). */
	if (json_object_get(root, "manifests") &&
		(json_object_get(root, "layers") || json_object_get(root, "config")))
		return error_set(err, 0, "%s claims to be both an index and a manifest", origin);
	if (own_type && said != MEDIA_UNKNOWN && media != said)
		return error_set(err, 0, "%s is of the type %.100s and was sent as %.100s", origin,
			own_type, content_type);
	if (!own_type)
		media = said != MEDIA_UNKNOWN                ? said
			: json_object_get(root, "manifests") ? MEDIA_INDEX
							     : MEDIA_MANIFEST;
	if (media == MEDIA_INDEX) {
		ret->is_index = true;
		return parse_entries(json_object_get(root, "manifests"), "manifest",
			INDEX_ENTRIES_MAX, origin, ret, err);
	}
	if (media == MEDIA_MANIFEST)
		return parse_manifest(root, origin, ret, err);
	return error_set(err, 0,
		"%s is of the type %.100s, which is neither an index nor a manifest", origin,
		own_type);
}

int manifest_parse(const char *json, size_t length, const char *content_type, const char *origin,
	struct manifest *ret, struct error *err)
{
	struct manifest manifest = {0};
	json_t *root;
	int r;

	if (length > DOCUMENT_MAX)
		return error_set(err, 0, "%s has %zu bytes; nsbox takes at most %d", origin, length,
			DOCUMENT_MAX);
	root = load(json, length, origin, err);
	if (!root)
		return -1;
	r = parse_document(root, content_type, origin, &manifest, err);
	json_decref(root);
	if (r < 0)
		manifest_free(&manifest);
	else
		*ret = manifest;
	return r;
}

void manifest_free(struct manifest *manifest)
{
	free(manifest->entries);
	*manifest = (struct manifest){0};
}

static json_t *describe(const char *type, const struct descriptor *descriptor)
{
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", descriptor->digest, "size",
		(json_int_t)descriptor->size);
}

char *manifest_format(const struct manifest *manifest)
{
	json_t *layers = json_array(), *root;
	char *text;

	for (size_t i = 0; i < manifest->count; i++)
		json_array_append_new(layers,
			describe(media_layer_type(manifest->entries[i].media), &manifest->entries[i]));
	root = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.manifest.v1+json", "config",
		describe("application/vnd.oci.image.config.v1+json", &manifest->config), "layers", layers);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

/* What an index offers, for a message; attestations say «unknown/unknown». */
static void list_platforms(const struct manifest *index, char *text, size_t size)
{
	char name[PLATFORM_TEXT_MAX];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < index->count && used < size; i++) {
		if (!index->entries[i].has_platform ||
			strcmp(index->entries[i].platform.os, "unknown") == 0)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
			platform_format(&index->entries[i].platform, name));
	}
}

int index_choose(const struct manifest *index, const struct platform *wanted, const char *origin,
	const struct descriptor **ret, struct error *err)
{
	const struct descriptor *best = NULL;
	char text[PLATFORM_TEXT_MAX], offered[300];
	int best_match = 0;

	for (size_t i = 0; i < index->count; i++) {
		const struct descriptor *entry = &index->entries[i];
		int match = entry->has_platform ? platform_match(wanted, &entry->platform) : 0;

		if (entry->media != MEDIA_MANIFEST && entry->media != MEDIA_INDEX)
			continue;
		/* An index without platforms, as OCI layouts have it, with one image in it. */
		if (!entry->has_platform && index->count == 1)
			match = 1;
		if (match > best_match) {
			best = entry;
			best_match = match;
		}
	}
	if (best) {
		*ret = best;
		return 0;
	}
	list_platforms(index, offered, sizeof offered);
	error_set(err, 0, "%s has no image for %s", origin, platform_format(wanted, text));
	if (!offered[0])
		return error_hint(err, "it says of none of its images which platform they are for");
	return error_hint(err, "it has: %s", offered);
}

/* --- configuration --- */

static int copy_string(
	const json_t *object, const char *key, const char *origin, char **ret, struct error *err)
{
	const json_t *value = json_object_get(object, key);

	if (!value || json_is_null(value) ||
		(json_is_string(value) && json_string_length(value) == 0))
		return 0;
	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return error_set(err, 0, "%s: \"%s\" is not a string", origin, key);
	*ret = xstrdup(json_string_value(value));
	return 0;
}

static int copy_strings(
	const json_t *object, const char *key, const char *origin, char ***ret, struct error *err)
{
	const json_t *array = json_object_get(object, key), *value;
	size_t i;

	if (!array || json_is_null(array))
		return 0;
	if (!json_is_array(array))
		return error_set(err, 0, "%s: \"%s\" is not a list of strings", origin, key);
	*ret = xcalloc(json_array_size(array) + 1, sizeof **ret);
	json_array_foreach(array, i, value)
	{
		if (!json_is_string(value) ||
			strlen(json_string_value(value)) != json_string_length(value))
			return error_set(
				err, 0, "%s: \"%s\" is not a list of strings", origin, key);
		(*ret)[i] = xstrdup(json_string_value(value));
	}
	return 0;
}

/* Volumes are the keys of an object. */
static int copy_keys(
	const json_t *object, const char *key, const char *origin, char ***ret, struct error *err)
{
	json_t *set = json_object_get(object, key), *value;
	const char *name;
	size_t i = 0;

	if (!set || json_is_null(set))
		return 0;
	if (!json_is_object(set))
		return error_set(err, 0, "%s: \"%s\" is not an object", origin, key);
	*ret = xcalloc(json_object_size(set) + 1, sizeof **ret);
	json_object_foreach(set, name, value)(*ret)[i++] = xstrdup(name);
	return 0;
}

static int parse_diff_ids(
	const json_t *rootfs, const char *origin, struct image_config *ret, struct error *err)
{
	const json_t *array = json_object_get(rootfs, "diff_ids"), *value;
	size_t i;

	if (!json_is_array(array))
		return error_set(err, 0, "%s has no rootfs.diff_ids", origin);
	if (json_array_size(array) > MANIFEST_LAYERS_MAX)
		return error_set(err, 0, "%s has %zu layers; nsbox takes at most %d", origin,
			json_array_size(array), MANIFEST_LAYERS_MAX);
	ret->diff_ids = xcalloc(json_array_size(array) + 1, sizeof *ret->diff_ids);
	json_array_foreach(array, i, value)
	{
		if (!json_is_string(value) || !digest_valid(json_string_value(value)))
			return error_set(err, 0,
				"%s: diff id %zu is not sha256: and 64 digits of lower-case hexadecimal",
				origin, i + 1);
		strcpy(ret->diff_ids[i], json_string_value(value));
	}
	ret->layers = json_array_size(array);
	return 0;
}

static int parse_config(
	const json_t *root, const char *origin, struct image_config *ret, struct error *err)
{
	const json_t *config = json_object_get(root, "config");

	ret->platform = platform_of(root);
	if (config && !json_is_null(config) && !json_is_object(config))
		return error_set(err, 0, "%s: \"config\" is not an object", origin);
	if (parse_diff_ids(json_object_get(root, "rootfs"), origin, ret, err) < 0 ||
		copy_string(root, "created", origin, &ret->created, err) < 0 ||
		copy_string(config, "User", origin, &ret->user, err) < 0 ||
		copy_string(config, "WorkingDir", origin, &ret->working_directory, err) < 0 ||
		copy_string(config, "StopSignal", origin, &ret->stop_signal, err) < 0 ||
		copy_strings(config, "Env", origin, &ret->env, err) < 0 ||
		copy_strings(config, "Entrypoint", origin, &ret->entrypoint, err) < 0 ||
		copy_strings(config, "Cmd", origin, &ret->command, err) < 0 ||
		copy_keys(config, "Volumes", origin, &ret->volumes, err) < 0)
		return -1;
	return 0;
}

int image_config_parse(const char *json, size_t length, const char *origin,
	struct image_config *ret, struct error *err)
{
	struct image_config config = {0};
	json_t *root = load(json, length, origin, err);
	int r;

	if (!root)
		return -1;
	r = parse_config(root, origin, &config, err);
	json_decref(root);
	if (r < 0)
		image_config_free(&config);
	else
		*ret = config;
	return r;
}

void image_config_free(struct image_config *config)
{
	strings_free(config->env);
	strings_free(config->entrypoint);
	strings_free(config->command);
	strings_free(config->volumes);
	free(config->created);
	free(config->user);
	free(config->working_directory);
	free(config->stop_signal);
	free(config->diff_ids);
	*config = (struct image_config){0};
}
