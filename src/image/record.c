/* SPDX-License-Identifier: MIT */
/* Records of images, read and written: see record.h. */
#define _GNU_SOURCE
#include "image/record.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/store.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { RECORD_MAX = 8 << 20 /* bytes */, RECORD_LAYERS_MAX = 400 };

/* --- reading --- */

static bool copy_digest(const json_t *object, const char *key, char ret[DIGEST_SIZE])
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || !digest_valid(text))
		return false;
	strcpy(ret, text);
	return true;
}

static char *copy_string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? xstrdup(text) : NULL;
}

static char **copy_strings(const json_t *object, const char *key)
{
	const json_t *array = json_object_get(object, key), *value;
	char **strings;
	size_t i;

	if (!json_is_array(array))
		return NULL;
	strings = xcalloc(json_array_size(array) + 1, sizeof *strings);
	json_array_foreach(array, i, value) strings[i] = xstrdup(json_string_value(value) ?: "");
	return strings;
}

static bool read_layer(const json_t *object, struct record_layer *ret)
{
	const char *type = json_string_value(json_object_get(object, "media_type"));

	if (!copy_digest(object, "chain_id", ret->chain_id) ||
		!copy_digest(object, "diff_id", ret->diff_id) ||
		!copy_digest(object, "blob", ret->blob))
		return false;
	ret->blob_bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"));
	ret->hidden = json_is_true(json_object_get(object, "hidden"));
	snprintf(ret->media_type, sizeof ret->media_type, "%s", type ? type : "");
	return true;
}

static bool read_layers(const json_t *array, struct image_record *ret)
{
	const json_t *value;
	size_t i;

	if (!json_is_array(array) || json_array_size(array) > RECORD_LAYERS_MAX)
		return false;
	ret->layers = xcalloc(json_array_size(array) + 1, sizeof *ret->layers);
	json_array_foreach(array, i, value) if (!read_layer(value, &ret->layers[i])) return false;
	ret->layers_count = json_array_size(array);
	return true;
}

static bool read_record(const json_t *root, struct image_record *ret)
{
	const char *reference = json_string_value(json_object_get(root, "reference"));
	const char *platform = json_string_value(json_object_get(root, "platform"));
	struct error ignored;

	if (!reference || reference_parse(reference, &ret->reference, &ignored) < 0 || !platform ||
		platform_parse(platform, &ret->platform, &ignored) < 0 ||
		!copy_digest(root, "manifest", ret->manifest) ||
		!copy_digest(root, "config", ret->config) ||
		!read_layers(json_object_get(root, "layers"), ret))
		return false;
	ret->created = copy_string(root, "created");
	ret->pulled = copy_string(root, "pulled");
	ret->user = copy_string(root, "user");
	ret->uid = (uint32_t)json_integer_value(json_object_get(root, "uid"));
	ret->gid = (uint32_t)json_integer_value(json_object_get(root, "gid"));
	ret->home = copy_string(root, "home");
	ret->env = copy_strings(root, "env");
	ret->entrypoint = copy_strings(root, "entrypoint");
	ret->command = copy_strings(root, "command");
	ret->volumes = copy_strings(root, "volumes");
	ret->working_directory = copy_string(root, "working_directory");
	ret->stop_signal = copy_string(root, "stop_signal");
	return true;
}

int record_load_file(
	const struct store *store, const char *name, struct image_record *ret, struct error *err)
{
	cleanup_close int fd = openat(store->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free char *text = NULL;
	struct image_record record = {0};
	size_t length;
	json_t *root;
	bool good;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (fd < 0 || read_fd_whole(fd, RECORD_MAX, &text, &length) < 0)
		return error_set(err, errno, "reading %s/%s", store->path, name);
	root = json_loadb(text, length, 0, NULL);
	good = root && read_record(root, &record);
	json_decref(root);
	if (!good) {
		record_free(&record);
		error_set(err, 0, "%s/%s is damaged", store->path, name);
		return error_hint(err, "pull or import the image again");
	}
	*ret = record;
	return 0;
}

int record_load(const struct store *store, const struct reference *reference,
	struct image_record *ret, struct error *err)
{
	char name[STORE_IMAGE_NAME_MAX];

	return record_load_file(store, store_image_name(reference, name), ret, err);
}

/* --- writing --- */

static void put_string(json_t *object, const char *key, const char *text)
{
	if (text)
		json_object_set_new(object, key, json_string_nocheck(text));
}

static void put_strings(json_t *object, const char *key, char *const *strings)
{
	json_t *array;

	if (!strings)
		return;
	array = json_array();
	for (; *strings; strings++)
		json_array_append_new(array, json_string_nocheck(*strings));
	json_object_set_new(object, key, array);
}

static json_t *write_layers(const struct image_record *record)
{
	json_t *array = json_array();

	for (size_t i = 0; i < record->layers_count; i++) {
		const struct record_layer *layer = &record->layers[i];
		json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s}", "chain_id", layer->chain_id,
			"diff_id", layer->diff_id, "blob", layer->blob, "bytes",
			(json_int_t)layer->blob_bytes, "media_type", layer->media_type);

		if (layer->hidden)
			json_object_set_new(object, "hidden", json_true());
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *write_record(const struct image_record *record)
{
	char reference[REFERENCE_MAX + 1], platform[PLATFORM_TEXT_MAX];
	json_t *root = json_pack("{s:s, s:s, s:s, s:s}", "reference",
		reference_format(&record->reference, reference), "platform",
		platform_format(&record->platform, platform), "manifest", record->manifest,
		"config", record->config);

	put_string(root, "created", record->created);
	put_string(root, "pulled", record->pulled);
	json_object_set_new(root, "layers", write_layers(record));
	put_string(root, "user", record->user);
	json_object_set_new(root, "uid", json_integer(record->uid));
	json_object_set_new(root, "gid", json_integer(record->gid));
	put_string(root, "home", record->home);
	put_strings(root, "env", record->env);
	put_strings(root, "entrypoint", record->entrypoint);
	put_strings(root, "command", record->command);
	put_strings(root, "volumes", record->volumes);
	put_string(root, "working_directory", record->working_directory);
	put_string(root, "stop_signal", record->stop_signal);
	return root;
}

/* Makes the directories above `name`. */
static int make_parents(const struct store *store, const char *name)
{
	char path[STORE_IMAGE_NAME_MAX];

	snprintf(path, sizeof path, "%s", name);
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(store->fd, path, 0700) < 0 && errno != EEXIST)
			return -1;
		*slash = '/';
	}
	return 0;
}

int record_save(const struct store *store, const struct image_record *record, struct error *err)
{
	char name[STORE_IMAGE_NAME_MAX], new[STORE_NAME_MAX];
	json_t *root = write_record(record);
	cleanup_free char *text = json_dumps(root, JSON_COMPACT);
	cleanup_close int fd = -1;

	json_decref(root);
	if (!text)
		return error_set(err, 0, "the image's configuration has text that is not UTF-8");
	store_image_name(&record->reference, name);
	fd = store_make_file(store, "record", new);
	if (fd < 0)
		return error_set(err, errno, "making a file in %s/tmp", store->path);
	if (write_whole(fd, text, strlen(text)) < 0 || write_whole(fd, "\n", 1) < 0 ||
		fsync(fd) < 0) {
		error_set(err, errno, "writing %s/%s", store->path, new);
		unlinkat(store->fd, new, 0);
		return -1;
	}
	/* `rm` may take an empty directory away between the two. */
	for (int try = 0; try < 10; try++) {
		if (make_parents(store, name) < 0 && errno != ENOENT)
			break;
		if (renameat(store->fd, new, store->fd, name) == 0)
			return 0;
		if (errno != ENOENT)
			break;
	}
	error_set(err, errno, "writing %s/%s", store->path, name);
	unlinkat(store->fd, new, 0);
	return -1;
}

void record_free(struct image_record *record)
{
	strings_free(record->env);
	strings_free(record->entrypoint);
	strings_free(record->command);
	strings_free(record->volumes);
	free(record->created);
	free(record->pulled);
	free(record->layers);
	free(record->user);
	free(record->home);
	free(record->working_directory);
	free(record->stop_signal);
	*record = (struct image_record){0};
}

uint64_t record_blob_bytes(const struct image_record *record)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < record->layers_count; i++)
		bytes += record->layers[i].blob_bytes;
	return bytes;
}
