/* SPDX-License-Identifier: MIT */
/* `nsbox images export`: an image out of the store, as an OCI image layout that other tools read. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/blob.h"
#include "image/commands.h"
#include "image/manifest.h"
#include "image/record.h"
#include "image/store.h"
#include "image/wall.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox images export NAME[:TAG] DIR\n"
	"Writes an image to the directory DIR, which is made, as an OCI image layout (image-layout.md): skopeo, umoci,\n"
	"podman and nsbox images import read it. tar -C DIR -cf FILE.tar . makes an archive of that.\n"
	"\n"
	"  -h, --help   print this help\n";

enum { COPY_CHUNK = 1 << 20 };

static int copy_blob(const struct store *store, int to, const char *digest, uint64_t *ret_size,
	struct error *err)
{
	static char chunk[COPY_CHUNK];
	char name[STORE_NAME_MAX];
	cleanup_close int in = -1, out = -1;
	ssize_t n;

	store_blob_name(digest, name);
	in = openat(store->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0) {
		error_set(err, errno, "%s/%s", store->path, name);
		return errno == ENOENT ? error_hint(err, "pull or import the image again") : -1;
	}
	out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	*ret_size = 0;
	while (out >= 0 && (n = read(in, chunk, sizeof chunk)) > 0) {
		if (write_whole(out, chunk, (size_t)n) < 0)
			return error_set(err, errno, "writing %s", name);
		*ret_size += (uint64_t)n;
	}
	return out < 0 || n < 0 ? error_set(err, errno, "writing %s", name) : 0;
}

static int write_text(int dir, const char *name, const char *text, struct error *err)
{
	cleanup_close int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0 || write_whole(fd, text, strlen(text)) < 0)
		return error_set(err, errno, "writing %s", name);
	return 0;
}

/* --- layers that are packed otherwise than the manifest has them --- */

/*
 * Layers are known by their content: one that was there was not fetched again, and the store has the archive that it
 * came in. Returns the number of the first such layer, from 1; 0: there is none.
 */
static size_t find_other_blob(const struct image_record *record, const struct manifest *manifest)
{
	for (size_t i = 0; i < record->layers_count && i < manifest->count; i++)
		if (strcmp(record->layers[i].blob, manifest->entries[i].digest) != 0)
			return i + 1;
	return 0;
}

static json_t *describe(const char *type, const char *digest, uint64_t size)
{
	return json_pack(
		"{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

/* A manifest of what there is, with the annotations of the image's own. */
static char *manifest_of_record(
	const struct image_record *record, const char *own, uint64_t config_size)
{
	json_t *layers = json_array(), *root = json_loads(own, 0, NULL), *manifest;
	json_t *annotations = json_object_get(root, "annotations");
	char *text;

	for (size_t i = 0; i < record->layers_count; i++)
		json_array_append_new(
			layers, describe(record->layers[i].media_type, record->layers[i].blob,
					record->layers[i].blob_bytes));
	manifest = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.manifest.v1+json", "config",
		describe("application/vnd.oci.image.config.v1+json", record->config, config_size),
		"layers", layers);
	if (annotations)
		json_object_set(manifest, "annotations", annotations);
	text = json_dumps(manifest, JSON_COMPACT);
	json_decref(manifest);
	json_decref(root);
	return text;
}

/* Writes the manifest, as it came where that is possible; else record->manifest becomes another. */
static int export_manifest(const struct store *store, struct image_record *record, int dir,
	uint64_t config_size, uint64_t *ret_size, struct error *err)
{
	char name[STORE_NAME_MAX], digest[DIGEST_SIZE];
	cleanup_free char *own = NULL, *text = NULL;
	struct manifest manifest = {0};
	size_t length, other;

	cleanup_close int fd = openat(store->fd, store_blob_name(record->manifest, name),
		O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || read_fd_whole(fd, DOCUMENT_MAX, &own, &length) < 0)
		return error_set(err, errno, "%s/%s", store->path, name);
	if (manifest_parse(own, length, NULL, "its manifest", &manifest, err) < 0)
		return -1;
	other = find_other_blob(record, &manifest);
	manifest_free(&manifest);
	if (other == 0)
		return copy_blob(store, dir, record->manifest, ret_size, err);
	text = manifest_of_record(record, own, config_size);
	if (!text)
		return error_set(err, ENOMEM, "writing a manifest");
	*ret_size = strlen(text);
	digest_of(text, *ret_size, digest);
	fprintf(stderr,
		"nsbox: layer %zu came with another image, packed otherwise, and is exported so: "
		"the manifest is %s, and not %s\n",
		other, digest, record->manifest);
	strcpy(record->manifest, digest);
	return write_text(dir, store_blob_name(digest, name), text, err);
}

static int write_index(
	int dir, const struct image_record *record, uint64_t manifest_size, struct error *err)
{
	char name[REFERENCE_MAX + 1];
	cleanup_free char *text = NULL;
	json_t *platform = json_pack("{s:s, s:s}", "architecture", record->platform.architecture,
		"os", record->platform.os);
	json_t *index;

	if (record->platform.variant[0])
		json_object_set_new(platform, "variant", json_string(record->platform.variant));
	index = json_pack("{s:i, s:s, s:[{s:s, s:s, s:I, s:o, s:{s:s}}]}", "schemaVersion", 2,
		"mediaType", "application/vnd.oci.image.index.v1+json", "manifests", "mediaType",
		"application/vnd.oci.image.manifest.v1+json", "digest", record->manifest, "size",
		(json_int_t)manifest_size, "platform", platform, "annotations",
		"org.opencontainers.image.ref.name", reference_format(&record->reference, name));
	text = json_dumps(index, JSON_INDENT(2));
	json_decref(index);
	return text ? write_text(dir, "index.json", text, err)
		    : error_set(err, ENOMEM, "writing index.json");
}

static int export_to(
	const struct store *store, struct image_record *record, int dir, struct error *err)
{
	uint64_t size, config_size, manifest_size;

	if (mkdirat(dir, "blobs", 0755) < 0 || mkdirat(dir, "blobs/sha256", 0755) < 0)
		return error_set(err, errno, "making its directories");
	if (copy_blob(store, dir, record->config, &config_size, err) < 0 ||
		export_manifest(store, record, dir, config_size, &manifest_size, err) < 0)
		return -1;
	for (size_t i = 0; i < record->layers_count; i++)
		if (copy_blob(store, dir, record->layers[i].blob, &size, err) < 0)
			return -1;
	if (write_text(dir, "oci-layout", "{\"imageLayoutVersion\": \"1.0.0\"}\n", err) < 0)
		return -1;
	return write_index(dir, record, manifest_size, err);
}

static int export_image(const char *name, const char *path, struct error *err)
{
	char text[REFERENCE_MAX + 1];
	struct reference reference;
	struct image_record record;
	struct store store;
	cleanup_close int dir = -1;
	int r;

	if (reference_parse(name, &reference, err) < 0 || store_open(true, &store, err) < 0)
		return -1;
	r = record_load(&store, &reference, &record, err);
	if (r > 0) {
		error_set(err, 0, "there is no image %s in the store",
			reference_format_short(&reference, text));
		error_hint(err,
			"nsbox images ls lists those that there are; nsbox pull %s fetches it",
			text);
	}
	if (r != 0)
		return -1;
	/* What is there already is not written over. */
	if (mkdir(path, 0755) < 0 && (errno != EEXIST || rmdir(path) < 0 || mkdir(path, 0755) < 0))
		r = error_set(err, errno, "making the directory %s", path);
	dir = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = dir < 0 ? error_set(err, errno, "%s", path)
			    : wall_raise(&store, NULL, dir, err);
	if (r == 0)
		r = export_to(&store, &record, dir, err);
	record_free(&record);
	store_close(&store);
	return r < 0 ? error_context(err, "exporting %s", name) : 0;
}

/* Whoever gives such a name wants a file, and would find a directory. */
static bool is_for_archive(const char *path)
{
	static const char *const ends[] = {".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2"};
	size_t length = strlen(path);

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (length >= strlen(ends[i]) && strcmp(path + length - strlen(ends[i]), ends[i]) == 0)
			return true;
	return strcmp(path, "-") == 0;
}

static int refuse_archive(const char *path, struct error *err)
{
	char buffer[QUOTED_MAX];

	return error_set(err, 0,
		"nsbox images export makes a directory, and no archive as %s: name a directory, and make one of that with tar -C DIR -cf FILE.tar .",
		quoted(path, buffer));
}

int command_export(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct error err = {0};
	int option;

	while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		refuse_option(argv, "images export", &err);
		return failed(&err);
	}
	umask(022);
	if (argc - optind != 2)
		error_set(&err, 0,
			"nsbox images export takes a name and a directory; see nsbox images export --help");
	else if (is_for_archive(argv[optind + 1]))
		refuse_archive(argv[optind + 1], &err);
	else if (export_image(argv[optind], argv[optind + 1], &err) == 0)
		return 0;
	return failed(&err);
}
