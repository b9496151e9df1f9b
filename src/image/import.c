/* SPDX-License-Identifier: MIT */
/* Images from directories and archives: see import.h. */
#define _GNU_SOURCE
#include "image/import.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	COPY_CHUNK = 1 << 20,
	PARALLEL_MAX = 2,
	NESTING_MAX = 3,
	NAMES_TEXT_MAX = 4 * REFERENCE_MAX
};

/* A directory that blobs are read from; nothing outside of it, whatever links it has. */
struct layout {
	int fd;
	const char *path; /* for messages */
};

static int open_in_layout(const struct layout *layout, const char *name)
{
	return open_in_root(layout->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
}

static char *read_in_layout(const struct layout *layout, const char *name, size_t max,
	size_t *ret_length, struct error *err)
{
	cleanup_close int fd = open_in_layout(layout, name);
	char *text;

	if (fd < 0 || read_fd_whole(fd, max, &text, ret_length) < 0) {
		error_set(err, errno, "%s/%s", layout->path, name);
		return NULL;
	}
	return text;
}

/* --- the source: blobs that are files --- */

struct file_source {
	const struct layout *layout;
	/* The file of a blob: by its digest, or by its number where names are the archive's own. */
	char **files; /* of layers; NULL: blobs/sha256/HEX */
};

static int begin_file(void *data, struct layer *layer, struct error *err)
{
	const struct file_source *source = data;
	char name[STORE_NAME_MAX];
	int *fd = xcalloc(1, sizeof *fd);

	*fd = open_in_layout(
		source->layout, source->files ? source->files[layer->number]
					      : store_blob_name(layer->descriptor->digest, name));
	layer->transfer = fd;
	if (*fd < 0 || lseek(*fd, (off_t)layer->blob.written, SEEK_SET) < 0)
		return error_set(err, errno, "%s: the file of its blob", source->layout->path);
	return 0;
}

static void end_file(void *data, struct layer *layer)
{
	int *fd = layer->transfer;

	if (fd)
		close_fd(fd);
	free(fd);
	layer->transfer = NULL;
}

static int copy_some(struct install *install, struct layer *layer, struct error *err)
{
	static char chunk[COPY_CHUNK];
	ssize_t n = read(*(int *)layer->transfer, chunk, sizeof chunk);

	if (n < 0)
		return error_set(err, errno, "reading a blob");
	if (n > 0 && blob_write(&layer->blob, chunk, (size_t)n, err) < 0)
		return -1;
	return install_arrived(install, layer, n == 0, err);
}

static int work_on_files(void *data, struct install *install, const int *fds, size_t count,
	int timeout_ms, struct error *err)
{
	struct pollfd pollfds[8] = {0};
	bool copied = false;

	for (size_t i = 0; i < install->count; i++)
		if (install->layers[i].state == LAYER_COMING) {
			if (copy_some(install, &install->layers[i], err) < 0)
				return -1;
			copied = true;
		}
	for (size_t i = 0; i < count && i < 8; i++)
		pollfds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	if (poll(pollfds, count, copied ? 0 : timeout_ms) < 0 && errno != EINTR)
		return error_set(err, errno, "waiting");
	return 0;
}

/* --- files of which nobody says what they are --- */

static const struct {
	const char *bytes;
	size_t length;
	enum media media;    /* MEDIA_UNKNOWN: cannot be read */
	const char *program; /* that makes it readable */
} magics[] = {
	{"\x1f\x8b", 2, MEDIA_LAYER_GZIP, NULL},
	{"\x28\xb5\x2f\xfd", 4, MEDIA_LAYER_ZSTD, NULL},
	{"\xfd"
	 "7zXZ",
		5, MEDIA_UNKNOWN, "xz -d"},
	{"BZh", 3, MEDIA_UNKNOWN, "bzip2 -d"},
	{"PK\x03\x04", 4, MEDIA_UNKNOWN, "unzip"},
	{"hsqs", 4, MEDIA_UNKNOWN, "sqfs2tar"},
};

static int recognize(const unsigned char *data, size_t length, enum media *ret, struct error *err)
{
	*ret = MEDIA_LAYER;
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
		if (length < magics[i].length ||
			memcmp(data, magics[i].bytes, magics[i].length) != 0)
			continue;
		*ret = magics[i].media;
		if (*ret != MEDIA_UNKNOWN)
			return 0;
		error_set(err, 0, "it is not a tar archive, plain or compressed by gzip or zstd");
		return error_hint(err, "make one of it first, with: %s", magics[i].program);
	}
	return 0;
}

/* Digest, size and type of a file, which is read from its beginning. */
static int describe_file(int fd, struct descriptor *ret, struct error *err)
{
	static unsigned char chunk[COPY_CHUNK];
	unsigned char hash[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	ssize_t n = 0;
	int r = 0;

	*ret = (struct descriptor){.media = MEDIA_LAYER};
	if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		r = error_set(err, ENOMEM, "computing a digest");
	while (r == 0 && (n = pread(fd, chunk, sizeof chunk, (off_t)ret->size)) > 0) {
		if (ret->size == 0)
			r = recognize(chunk, (size_t)n, &ret->media, err);
		EVP_DigestUpdate(context, chunk, (size_t)n);
		ret->size += (uint64_t)n;
	}
	if (r == 0 && n < 0)
		r = error_set(err, errno, "reading");
	if (r == 0) {
		EVP_DigestFinal_ex(context, hash, NULL);
		digest_format(hash, ret->digest);
	}
	EVP_MD_CTX_free(context);
	return r;
}

/* --- documents --- */

/* A document of the layout by its descriptor, checked against it and put into the store. */
static char *take_document(const struct import *import, const struct layout *layout,
	const struct descriptor *descriptor, size_t max, size_t *ret_length, struct error *err)
{
	char name[STORE_NAME_MAX], digest[DIGEST_SIZE];
	char *text;

	if (descriptor->size > max) {
		error_set(err, EFBIG, "%s: %.19s", layout->path, descriptor->digest);
		return NULL;
	}
	text = read_in_layout(
		layout, store_blob_name(descriptor->digest, name), max, ret_length, err);
	if (!text)
		return NULL;
	if (blob_store(import->store, text, *ret_length, digest, err) == 0) {
		if (*ret_length == descriptor->size && strcmp(digest, descriptor->digest) == 0)
			return text;
		error_set(err, 0, "%s/%s is damaged: its content is not what its digest says",
			layout->path, name);
	}
	free(text);
	return NULL;
}

static int install_from(const struct import *import, const struct layout *layout, char **files,
	const struct reference *reference, const char *manifest_digest,
	const struct manifest *manifest, const char *config_text, size_t config_length,
	struct error *err)
{
	struct file_source files_source = {.layout = layout, .files = files};
	const struct source source = {
		begin_file, work_on_files, end_file, &files_source, PARALLEL_MAX};
	struct install install = {.store = import->store,
		.origin = import->path,
		.source = &source,
		.progress = import->progress,
		.progress_data = import->progress_data};
	struct image_config config;
	int r;

	if (image_config_parse(
		    config_text, config_length, "the image's configuration", &config, err) < 0)
		return -1;
	r = install_image(&install, reference, manifest_digest, manifest, &config, err);
	image_config_free(&config);
	return r;
}

/* --- OCI layouts --- */

static int install_manifest(const struct import *import, const struct layout *layout,
	const struct descriptor *descriptor, const struct reference *reference, unsigned nesting,
	struct error *err);

static int install_document(const struct import *import, const struct layout *layout,
	const struct descriptor *descriptor, const struct manifest *manifest,
	const struct reference *reference, unsigned nesting, struct error *err)
{
	cleanup_free char *config = NULL;
	const struct descriptor *chosen;
	size_t length;

	if (manifest->is_index) {
		if (nesting == NESTING_MAX)
			return error_set(err, 0, "%s: indexes in indexes, more than %d deep",
				layout->path, NESTING_MAX);
		if (index_choose(manifest, &import->platform, layout->path, &chosen, err) < 0)
			return -1;
		return install_manifest(import, layout, chosen, reference, nesting + 1, err);
	}
	config =
		take_document(import, layout, &manifest->config, CONFIG_DOCUMENT_MAX, &length, err);
	if (!config)
		return -1;
	return install_from(
		import, layout, NULL, reference, descriptor->digest, manifest, config, length, err);
}

static int install_manifest(const struct import *import, const struct layout *layout,
	const struct descriptor *descriptor, const struct reference *reference, unsigned nesting,
	struct error *err)
{
	cleanup_free char *text = NULL;
	struct manifest manifest;
	size_t length;
	int r;

	text = take_document(import, layout, descriptor, DOCUMENT_MAX, &length, err);
	if (!text || manifest_parse(text, length, NULL, layout->path, &manifest, err) < 0)
		return -1;
	r = install_document(import, layout, descriptor, &manifest, reference, nesting, err);
	manifest_free(&manifest);
	return r;
}

static void add_name(char names[NAMES_TEXT_MAX], const char *name)
{
	size_t used = strlen(names);

	if (used + strlen(name) + 16 >= NAMES_TEXT_MAX)
		return;
	snprintf(names + used, NAMES_TEXT_MAX - used, "%s%s", used ? ", " : "",
		*name ? name : "(no name)");
}

static int no_name(const struct import *import, struct error *err)
{
	error_set(err, 0, "%s does not say what the image is called", import->path);
	return error_hint(err, "name it: nsbox images import %s NAME[:TAG]", import->path);
}

/* The name that was asked for, or else the archive's own, where that is a whole one. */
static int choose_name(
	const struct import *import, const char *own, struct reference *ret, struct error *err)
{
	if (import->name)
		return reference_parse(import->name, ret, err);
	/* «3.13» alone is a tag, of nobody knows what. */
	if (!own || !*own || (!strchr(own, ':') && !strchr(own, '/')))
		return no_name(import, err);
	return reference_parse(own, ret, err);
}

/*
 * Of several images in a layout, the one that is called as was asked for; all entries of one name are the
 * platforms of one image.
 */
static int select_entry(const struct import *import, const struct manifest *index,
	const struct descriptor **ret, struct error *err)
{
	char names[NAMES_TEXT_MAX] = "";
	const struct descriptor *named = NULL;
	size_t images = 0;

	for (size_t i = 0; i < index->count; i++) {
		const struct descriptor *entry = &index->entries[i];

		if (entry->media != MEDIA_MANIFEST && entry->media != MEDIA_INDEX)
			continue;
		images++;
		add_name(names, entry->name);
		*ret = entry;
		if (import->name && strcmp(entry->name, import->name) == 0)
			named = entry;
	}
	if (named)
		*ret = named;
	if (images == 0)
		return error_set(err, 0, "%s has no image in it", import->path);
	if (images == 1 || named)
		return 0;
	/* One image for several platforms, listed without an index of its own. */
	if (index_choose(index, &import->platform, import->path, ret, err) == 0)
		return 0;
	error_set(err, 0, "%s has several images", import->path);
	return error_hint(err, "name one of them: %s", names);
}

static int import_layout(const struct import *import, const struct layout *layout,
	struct reference *ret, struct error *err)
{
	const struct descriptor *entry = NULL;
	cleanup_free char *text = NULL;
	struct manifest index;
	size_t length;
	int r;

	text = read_in_layout(layout, "index.json", DOCUMENT_MAX, &length, err);
	if (!text || manifest_parse(text, length, "application/vnd.oci.image.index.v1+json",
			     layout->path, &index, err) < 0)
		return -1;
	r = select_entry(import, &index, &entry, err);
	if (r == 0)
		r = choose_name(import, entry->name, ret, err);
	if (r == 0)
		r = install_manifest(import, layout, entry, ret, 0, err);
	manifest_free(&index);
	return r;
}

/* --- docker save --- */

static int describe_layer(
	const struct layout *layout, const char *name, struct descriptor *ret, struct error *err)
{
	cleanup_close int fd = open_in_layout(layout, name);

	if (fd < 0)
		return error_set(err, errno, "%s/%s", layout->path, name);
	return describe_file(fd, ret, err) < 0 ? error_context(err, "%s/%s", layout->path, name)
					       : 0;
}

/* Writes a manifest for what had none. Fills digests of *manifest's own. */
static int store_manifest(const struct import *import, const struct manifest *manifest,
	char ret_digest[DIGEST_SIZE], struct error *err)
{
	cleanup_free char *text = manifest_format(manifest);

	return text ? blob_store(import->store, text, strlen(text), ret_digest, err)
		    : error_set(err, ENOMEM, "writing a manifest");
}

static int install_saved(const struct import *import, const struct layout *layout,
	const json_t *image, const struct reference *reference, struct error *err)
{
	const char *config_name = json_string_value(json_object_get(image, "Config"));
	const json_t *layers = json_object_get(image, "Layers"), *value;
	struct manifest manifest = {.config = {.media = MEDIA_CONFIG}};
	cleanup_free char **files = NULL;
	cleanup_free char *config = NULL;
	char digest[DIGEST_SIZE];
	size_t i, length = 0;
	int r = 0;

	if (!config_name || !json_is_array(layers) || json_array_size(layers) > MANIFEST_LAYERS_MAX)
		return error_set(err, 0, "manifest.json is not as docker save writes it");
	config = read_in_layout(layout, config_name, CONFIG_DOCUMENT_MAX, &length, err);
	if (!config || blob_store(import->store, config, length, manifest.config.digest, err) < 0)
		return -1;
	manifest.config.size = length;
	manifest.entries = xcalloc(json_array_size(layers) + 1, sizeof *manifest.entries);
	files = xcalloc(json_array_size(layers) + 1, sizeof *files);
	json_array_foreach(layers, i, value)
	{
		files[i] = (char *)json_string_value(value);
		if (!files[i])
			r = error_set(err, 0, "manifest.json is not as docker save writes it");
		if (r == 0)
			r = describe_layer(layout, files[i], &manifest.entries[i], err);
		if (r < 0)
			break;
		manifest.count++;
	}
	if (r == 0)
		r = store_manifest(import, &manifest, digest, err);
	if (r == 0)
		r = install_from(
			import, layout, files, reference, digest, &manifest, config, length, err);
	manifest_free(&manifest);
	return r;
}

static int select_saved(const struct import *import, const json_t *list, const json_t **ret,
	const char **ret_name, struct error *err)
{
	char names[NAMES_TEXT_MAX] = "";
	const json_t *image, *tag;
	size_t i, j;

	json_array_foreach(list, i, image)
		json_array_foreach(json_object_get(image, "RepoTags"), j, tag)
	{
		const char *name = json_string_value(tag);

		if (!name)
			continue;
		add_name(names, name);
		*ret = image;
		*ret_name = name;
		if (import->name && strcmp(name, import->name) == 0)
			return 0;
	}
	if (json_array_size(list) == 1) {
		*ret = json_array_get(list, 0);
		return 0;
	}
	error_set(err, 0, "%s has several images", import->path);
	return error_hint(err, "name one of them: %s", names);
}

static int import_saved(const struct import *import, const struct layout *layout,
	struct reference *ret, struct error *err)
{
	cleanup_free char *text = NULL;
	const json_t *image = NULL;
	const char *own = NULL;
	json_t *list;
	size_t length;
	int r;

	text = read_in_layout(layout, "manifest.json", DOCUMENT_MAX, &length, err);
	if (!text)
		return -1;
	list = json_loadb(text, length, 0, NULL);
	if (!json_is_array(list) || json_array_size(list) == 0)
		r = error_set(err, 0, "manifest.json is not as docker save writes it");
	else
		r = select_saved(import, list, &image, &own, err);
	if (r == 0)
		r = choose_name(import, own, ret, err);
	if (r == 0)
		r = install_saved(import, layout, image, ret, err);
	json_decref(list);
	return r;
}

/* --- the root of a file system --- */

static json_t *root_config(const struct import *import, const char *diff_id)
{
	return json_pack("{s:s, s:s, s:{s:[s]}, s:{s:s, s:[s]}}", "architecture",
		import->platform.architecture, "os", import->platform.os, "config", "Env",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "rootfs",
		"type", "layers", "diff_ids", diff_id);
}

/* An archive that is itself the one layer of an image; `blob` is its descriptor, its tree has been unpacked already. */
static int install_root(const struct import *import, const struct descriptor *blob,
	const struct unpack_result *unpacked, struct unpacker *unpacker,
	const struct reference *reference, struct error *err)
{
	struct descriptor layer = *blob;
	struct manifest manifest = {
		.config = {.media = MEDIA_CONFIG}, .entries = &layer, .count = 1};
	json_t *root = root_config(import, unpacked->digest);
	cleanup_free char *config = json_dumps(root, JSON_COMPACT);
	const struct layout nothing = {.fd = -1, .path = import->path};
	char digest[DIGEST_SIZE], name[STORE_NAME_MAX];

	json_decref(root);
	if (!config ||
		blob_store(import->store, config, strlen(config), manifest.config.digest, err) < 0)
		return -1;
	manifest.config.size = strlen(config);
	/* Without a layer below it its chain id is its diff id. */
	if (renameat(import->store->fd, unpacker->name, import->store->fd,
		    store_layer_name(unpacked->digest, name)) == 0)
		unpacker->name[0] = '\0';
	else if (errno != EEXIST && errno != ENOTEMPTY)
		return error_set(err, errno, "moving the layer to its place in the store");
	close_fd(&unpacker->lock); /* who reads the layer now waits for it */
	if (store_manifest(import, &manifest, digest, err) < 0)
		return -1;
	return install_from(
		import, &nothing, NULL, reference, digest, &manifest, config, strlen(config), err);
}

/* --- archives --- */

static int copy_into_store(
	const struct import *import, int fd, const struct descriptor *descriptor, struct error *err)
{
	static char chunk[COPY_CHUNK];
	struct blob blob;
	enum blob_state state;
	ssize_t n;
	int r = 0;

	while ((state = blob_open(import->store, descriptor, import->path, &blob, err)) == BLOB_BUSY)
		usleep(50000);
	if (state == BLOB_FAILED)
		return -1;
	while (r == 0 && state == BLOB_OPEN &&
		(n = pread(fd, chunk, sizeof chunk, (off_t)blob.written)) != 0)
		r = n < 0 ? error_set(err, errno, "reading")
			  : blob_write(&blob, chunk, (size_t)n, err);
	if (r == 0 && state == BLOB_OPEN)
		r = blob_finish(import->store, &blob, err);
	blob_close(import->store, &blob);
	return r;
}

/* What came out of the archive says what it was. */
static int import_unpacked(const struct import *import, int fd, const struct descriptor *blob,
	const struct unpack_result *result, struct unpacker *unpacker, struct reference *ret,
	struct error *err)
{
	struct layout layout = {.path = import->path};
	cleanup_close int tree =
		openat(unpacker->lock, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	layout.fd = tree;
	if (tree < 0)
		return error_set(err, errno, "opening what was unpacked");
	if (faccessat(tree, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return import_layout(import, &layout, ret, err);
	if (faccessat(tree, "manifest.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return import_saved(import, &layout, ret, err);
	if (!import->name)
		return no_name(import, err);
	if (result->entries == 0)
		return error_set(err, 0, "it is empty");
	if (reference_parse(import->name, ret, err) < 0 ||
		copy_into_store(import, fd, blob, err) < 0)
		return -1;
	return install_root(import, blob, result, unpacker, ret, err);
}

static int import_archive(
	const struct import *import, int fd, struct reference *ret, struct error *err)
{
	struct unpacker unpacker = UNPACKER_NONE;
	struct unpack_result result;
	struct descriptor blob;
	int r;

	if (describe_file(fd, &blob, err) < 0 ||
		unpacker_start(import->store, fd, blob.media, true, &unpacker, err) < 0)
		return -1;
	unpacker_progress(&unpacker, blob.size, true);
	r = unpacker_finish(&unpacker, &result, err);
	if (r == 0)
		r = import_unpacked(import, fd, &blob, &result, &unpacker, ret, err);
	unpacker_discard(import->store, &unpacker);
	return r;
}

/* What cannot be read twice is written down first. */
static int spool(const struct import *import, int from, struct error *err)
{
	static char chunk[COPY_CHUNK];
	cleanup_close int to =
		openat(import->store->fd, "tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	ssize_t n;

	if (to < 0)
		return error_set(err, errno, "making a file in %s/tmp", import->store->path);
	while ((n = read(from, chunk, sizeof chunk)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || write_whole(to, chunk, (size_t)n) < 0)
			return error_set(
				err, errno, n < 0 ? "reading" : "writing it into the store");
	}
	return move_fd(&to);
}

static int import_open(
	const struct import *import, int fd, struct reference *ret, struct error *err)
{
	const struct layout layout = {.fd = fd, .path = import->path};
	cleanup_close int spooled = -1;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "looking at it");
	if (S_ISREG(st.st_mode))
		return import_archive(import, fd, ret, err);
	if (!S_ISDIR(st.st_mode)) {
		spooled = spool(import, fd, err);
		return spooled < 0 ? -1 : import_archive(import, spooled, ret, err);
	}
	if (faccessat(fd, "oci-layout", F_OK, 0) == 0)
		return import_layout(import, &layout, ret, err);
	if (faccessat(fd, "manifest.json", F_OK, 0) == 0)
		return import_saved(import, &layout, ret, err);
	error_set(err, 0,
		"it is neither an OCI image layout (no file oci-layout) nor what docker save writes (no manifest.json)");
	return error_hint(err,
		"the root of a file system is imported as an archive: tar -C DIR -c . | nsbox images import - NAME");
}

int import_image(const struct import *import, struct reference *ret, struct error *err)
{
	cleanup_close int fd = -1;

	if (strcmp(import->path, "-") == 0)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(import->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return error_set(err, errno, "%s", import->path);
	return import_open(import, fd, ret, err) < 0
		       ? error_context(err, "importing %s", import->path)
		       : 0;
}
