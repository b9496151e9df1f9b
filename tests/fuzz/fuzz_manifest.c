/* SPDX-License-Identifier: MIT */
/*
 * The documents of an image, which strangers write: what is taken keeps what manifest.h promises of it. The first byte
 * says what the rest is: a manifest or an index, a configuration, or an image's /etc/passwd with a user before it.
 */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"
#include "image/manifest.h"
#include "image/user.h"
#include "util/error.h"

static void check_error(const struct error *err)
{
	require(err->text[0] && !strchr(err->text, '\n') && !strchr(err->text, '\033'), "an error is a line");
}

static void check_manifest(const char *text, size_t length)
{
	const struct platform wanted = platform_native();
	const struct descriptor *chosen = NULL;
	struct manifest manifest = {0};
	struct error err = {0};

	if (manifest_parse(text, length, NULL, "input", &manifest, &err) < 0) {
		check_error(&err);
		return;
	}
	for (size_t i = 0; i < manifest.count; i++) {
		require(digest_valid(manifest.entries[i].digest), "each entry has a digest");
		require(manifest.is_index || media_layer_type(manifest.entries[i].media), "a layer can be unpacked");
	}
	require(manifest.count <= (manifest.is_index ? (size_t)INDEX_ENTRIES_MAX : (size_t)MANIFEST_LAYERS_MAX), "entries are few");
	require(manifest.is_index || (digest_valid(manifest.config.digest) && manifest.config.size <= CONFIG_DOCUMENT_MAX),
		"the configuration can be fetched");
	if (manifest.is_index && index_choose(&manifest, &wanted, "input", &chosen, &err) == 0)
		require(chosen >= manifest.entries && chosen < manifest.entries + manifest.count, "one of the index is chosen");
	manifest_free(&manifest);
}

static void check_configuration(const char *text, size_t length)
{
	struct image_config config = {0};
	struct error err = {0};

	if (image_config_parse(text, length, "input", &config, &err) < 0) {
		check_error(&err);
		return;
	}
	for (size_t i = 0; i < config.layers; i++)
		require(digest_valid(config.diff_ids[i]), "each layer has a diff id");
	require(config.layers <= MANIFEST_LAYERS_MAX, "layers are few");
	image_config_free(&config);
}

static void check_user(char *text)
{
	char *passwd = strchr(text, '\n');
	struct image_user user;
	struct error err = {0};

	if (passwd)
		*passwd++ = '\0';
	if (image_user_resolve(text, passwd, passwd, &user, &err) < 0)
		check_error(&err);
	else
		require(user.uid <= 65535 && user.gid <= 65535, "ids are those of a sandbox");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	uint8_t kind = take_byte(&input) % 3;
	char *text = to_string(input.data, input.left);

	if (kind == 0)
		check_manifest(text, input.left);
	else if (kind == 1)
		check_configuration(text, input.left);
	else
		check_user(text);
	free(text);
	return 0;
}
