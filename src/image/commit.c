/* SPDX-License-Identifier: MIT */
/* From a snapshot to an image: see commit.h. */
#define _GNU_SOURCE
#include "image/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "image/blob.h"
#include "image/change.h"
#include "image/instruction.h"
#include "image/pack.h"
#include "packages/layers.h"
#include "report/report.h"
#include "sandbox/mounts.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { LAYERS_MAX = SNAPSHOT_LAYERS_MAX + 2 * MANIFEST_LAYERS_MAX, TIME_SIZE = 32, SHOWN_MAX = 8 };

/* What nsbox puts there at each run (sandbox/inside.c), besides the places of packages. */
static const char *const LEFT_OUT[] = {"dev/*", "proc/*", "sys/*", "opt/nsbox", "etc/hosts", "etc/hostname",
	"etc/resolv.conf", "etc/nsbox-authorities.pem", "etc/apt/apt.conf.d/99nsbox-root-emulation", NULL};

/* What the image is made of. */
struct making {
	const struct commit *commit;
	struct spec spec;
	bool has_base;
	struct image_record base; /* of an image, whose layers are below */
	struct merge_layer layers[LAYERS_MAX];
	int locks[LAYERS_MAX];
	size_t count;
	char **left_out; /* patterns; NULL-terminated, owned */
	struct packed packed;
	unsigned missing; /* names that were left out */
};

/* --- layers --- */

/* Takes the descriptors over. */
static int add_layer(struct making *making, int tree, int lock, enum merge_role role, struct error *err)
{
	if (making->count == LAYERS_MAX) {
		close_fd(&tree);
		close_fd(&lock);
		return error_set(err, 0, "there are more than %d layers", LAYERS_MAX);
	}
	making->layers[making->count] = (struct merge_layer){.fd = tree, .role = role};
	making->locks[making->count++] = lock;
	return 0;
}

static int open_tree(const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? error_set(err, errno, "%s", path) : fd;
}

/* A layer that `hold` keeps from being removed. */
static int add_held(
	struct making *making, const char *path, int (*hold)(const char *tree, struct error *err), struct error *err)
{
	int lock = hold(path, err), tree = lock < 0 ? -1 : open_tree(path, err);

	if (tree >= 0)
		return add_layer(making, tree, lock, MERGE_WRITTEN, err);
	close_fd(&lock);
	return -1;
}

/* The layers of the snapshot, and under them those that apt has filled for the session. */
static int add_written(struct making *making, struct error *err)
{
	const struct snapshots *snapshots = making->commit->snapshots;
	cleanup_close int lock = snapshots_lock(snapshots, err);

	if (lock < 0)
		return -1;
	for (char **id = making->commit->snapshot->layers; *id; id++) {
		cleanup_free char *path = snapshot_layer_tree(snapshots, *id);

		if (add_held(making, path, snapshot_layer_hold, err) < 0)
			return -1;
	}
	for (char **layer = making->spec.root_layers; layer && *layer; layer++)
		if (layer_is_tree(*layer) && add_held(making, *layer, layer_hold, err) < 0)
			return -1;
	return 0;
}

/* --- the image below --- */

struct search {
	const char *manifest;
	struct reference *found;
};

static int compare_manifest(void *data, const struct image_record *record)
{
	struct search *search = data;

	if (strcmp(record->manifest, search->manifest) != 0)
		return 0;
	*search->found = record->reference;
	return 1;
}

/* By whatever name the store has it now. */
static int find_base(struct making *making, struct error *err)
{
	const struct spec *spec = &making->spec;
	const struct store *store = making->commit->store;
	struct reference found;
	struct search search = {spec->root_digest ?: "", &found};
	int r = store_list(store, compare_manifest, &search, err);

	if (r < 0)
		return -1;
	if (r > 0 && record_load(store, &found, &making->base, err) == 0) {
		making->has_base = true;
		return 0;
	}
	error_set(err, 0, "the image %s that the session was made of is not in the store any more, as it was then",
		spec->root_path ?: "");
	return error_hint(err, "pull or import it again: its digest was %s", search.manifest);
}

/* The topmost first, as far as they show. */
static int add_base(struct making *making, struct error *err)
{
	const struct image_record *base = &making->base;

	if (find_base(making, err) < 0)
		return -1;
	if (base->layers_count + 1 > MANIFEST_LAYERS_MAX)
		return error_set(err, 0, "the image %s has %zu layers, and can have no more", making->spec.root_path,
			base->layers_count);
	for (size_t i = base->layers_count; i-- > 0 && !base->layers[i].hidden;) {
		int lock = -1, tree = store_open_layer(making->commit->store, base->layers[i].chain_id, &lock, err);

		if (tree < 0)
			return error_hint(err, "pull or import the image again");
		if (add_layer(making, tree, lock, MERGE_BELOW, err) < 0)
			return -1;
	}
	return 0;
}

static int read_spec(const struct snapshot *snapshot, struct spec *ret, struct error *err)
{
	return spec_from_json(snapshot->spec, ret, err) < 0 ? error_context(err, "the snapshot %s", snapshot->id)
							    : 0;
}

int commit_directory(const struct store *store, const struct snapshot *snapshot, char **ret, struct error *err)
{
	size_t length = 0;
	struct spec spec;
	int r = 0;

	if (read_spec(snapshot, &spec, err) < 0)
		return -1;
	*ret = NULL;
	if (spec.root == ROOT_HOST) {
		r = error_set(err, 0, "of the host's own files no image is made");
	} else if (spec.root == ROOT_DIRECTORY) {
		*ret = realpath(spec.root_path, NULL);
		length = *ret ? strlen(*ret) : 0;
		if (!*ret)
			r = error_set(err, errno, "the root %s", spec.root_path);
		else if (length == 1 || (strncmp(store->path, *ret, length) == 0 && store->path[length] == '/'))
			r = error_set(err, 0, "the root %s has the store %s in it, of which no image is made",
				spec.root_path, store->path);
	}
	spec_free(&spec);
	return r;
}

static int add_directory(struct making *making, struct error *err)
{
	int tree = open_exact(making->spec.root_path, making->spec.root_exact, O_RDONLY | O_DIRECTORY);

	if (tree >= 0)
		return add_layer(making, tree, -1, MERGE_WHOLE, err);
	error_set(err, errno, "the root %s", making->spec.root_path);
	return refuse_exact(making->spec.root_exact, err);
}

static int add_layers(struct making *making, struct error *err)
{
	if (add_written(making, err) < 0)
		return -1;
	return making->spec.root == ROOT_IMAGE ? add_base(making, err) : add_directory(making, err);
}

/* --- the new layer --- */

/* Places of packages are «FOLDER:TARGET», where the target is not in /opt/nsbox (packages/session.h). */
static void list_left_out(struct making *making)
{
	size_t count = 0, fixed = 0;

	while (making->spec.package_places && making->spec.package_places[count])
		count++;
	making->left_out = xcalloc(count + sizeof LEFT_OUT / sizeof *LEFT_OUT, sizeof *making->left_out);
	for (; LEFT_OUT[fixed]; fixed++)
		making->left_out[fixed] = xstrdup(LEFT_OUT[fixed]);
	for (size_t i = 0; i < count; i++) {
		const char *target = strchr(making->spec.package_places[i], ':');

		if (target && target[1] == '/')
			making->left_out[fixed++] = xstrdup(target + 2);
	}
}

static void show_packing(void *data, uint64_t bytes)
{
	const struct making *making = data;

	if (making->commit->packing)
		making->commit->packing(making->commit->progress_data, bytes);
}

static void say_missing(void *data, const char *path, const char *why)
{
	struct making *making = data;
	struct error line = {0};

	if (making->missing++ >= SHOWN_MAX)
		return;
	/* Through error_set, which makes it printable. */
	error_set(&line, 0, "not in the image: %s: %s", path, why);
	error_print(&line);
}

static int pack_into(struct making *making, int fd, struct error *err)
{
	const struct pack pack = {
		.layers = making->layers,
		.count = making->count,
		.left_out = (const char *const *)making->left_out,
		/* An ordinary user's files are all of one owner, who is somebody else inside. */
		.owned = geteuid() != 0,
		.uid = making->spec.uid,
		.gid = making->spec.gid,
		.fd = fd,
		.progress = show_packing,
		.missing = say_missing,
		.data = making,
	};

	if (pack_layer(&pack, &making->packed, err) < 0)
		return -1;
	if (making->missing > SHOWN_MAX)
		fprintf(stderr, "nsbox: not in the image: %u more\n", making->missing - SHOWN_MAX);
	return 0;
}

/* Packs it into the store. Where it is there already, what was written now is not kept. */
static int store_layer(struct making *making, struct error *err)
{
	const struct store *store = making->commit->store;
	struct descriptor descriptor = {.media = MEDIA_LAYER_GZIP};
	char name[STORE_NAME_MAX];
	cleanup_close int fd = store_make_file(store, "blob", name);
	int r;

	if (fd < 0)
		return error_set(err, errno, "making a file in %s/tmp", store->path);
	r = pack_into(making, fd, err);
	if (r == 0) {
		strcpy(descriptor.digest, making->packed.layer.out_digest);
		descriptor.size = making->packed.layer.out_bytes;
		if (making->packed.entries > 0 && !blob_there(store, &descriptor))
			return blob_adopt(store, name, descriptor.digest, err);
	}
	unlinkat(store->fd, name, 0);
	return r;
}

/* --- configuration --- */

static json_t *directory_config(void)
{
	const struct platform platform = platform_native();

	return json_pack("{s:s, s:s, s:{s:[s]}, s:{s:s, s:[]}}", "architecture", platform.architecture, "os",
		platform.os, "config", "Env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"rootfs", "type", "layers", "diff_ids");
}

/* The configuration of the image below; NULL with *err. New reference. */
static json_t *load_config(const struct making *making, struct error *err)
{
	cleanup_free char *text = NULL;
	json_t *root;
	size_t length;

	if (!making->has_base)
		return directory_config();
	if (blob_read(making->commit->store, making->base.config, CONFIG_DOCUMENT_MAX, &text, &length, err) < 0) {
		error_hint(err, "pull or import the image %s again", making->spec.root_path);
		return NULL;
	}
	root = json_loadb(text, length, 0, NULL);
	if (json_is_object(root) && json_is_array(json_object_get(json_object_get(root, "rootfs"), "diff_ids")))
		return root;
	json_decref(root);
	error_set(err, 0, "the configuration of the image %s is damaged", making->spec.root_path);
	return NULL;
}

/* Where the history says less than there are layers, somebody made it shorter, or there was none. */
static void fill_history(json_t *history, size_t layers)
{
	size_t said = 0, i;
	json_t *entry;

	json_array_foreach(history, i, entry) said += !json_is_true(json_object_get(entry, "empty_layer"));
	for (; said < layers; said++)
		json_array_append_new(history, json_pack("{s:s}", "comment", "a layer of which nothing is said"));
}

static void add_history(const struct making *making, json_t *root, const char *now)
{
	const struct commit *commit = making->commit;
	json_t *history = json_object_get(root, "history"), *entry;

	if (!json_is_array(history)) {
		history = json_array();
		json_object_set_new(root, "history", history);
	}
	fill_history(history, making->base.layers_count);
	entry = json_pack("{s:s, s:s}", "created", now, "created_by", "nsbox session commit");
	if (commit->author)
		json_object_set_new(entry, "author", json_string(commit->author));
	if (commit->message)
		json_object_set_new(entry, "comment", json_string(commit->message));
	if (making->packed.entries == 0)
		json_object_set_new(entry, "empty_layer", json_true());
	json_array_append_new(history, entry);
}

static int apply_changes(const struct making *making, json_t *root, struct error *err)
{
	json_t *config = json_object_get(root, "config");
	struct instructions before = {0};

	if (!json_is_object(config)) {
		config = json_object();
		json_object_set_new(root, "config", config);
	}
	for (char *const *change = making->commit->changes; change && *change; change++)
		if (instruction_apply(*change, &before, config, err) < 0)
			return error_context(err, "--change");
	return 0;
}

static int change_config(const struct making *making, json_t *root, struct error *err)
{
	char now[TIME_SIZE];
	time_t seconds = time(NULL);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_object_set_new(root, "created", json_string(now));
	if (making->commit->author)
		json_object_set_new(root, "author", json_string(making->commit->author));
	if (making->packed.entries > 0)
		json_array_append_new(json_object_get(json_object_get(root, "rootfs"), "diff_ids"),
			json_string(making->packed.layer.in_digest));
	add_history(making, root, now);
	return apply_changes(making, root, err);
}

/* The text of the new configuration, malloc'd; NULL with *err. */
static char *make_config(const struct making *making, struct error *err)
{
	json_t *root = load_config(making, err);
	char *text = NULL;

	if (root && change_config(making, root, err) == 0) {
		text = json_dumps(root, JSON_COMPACT);
		if (!text)
			error_set(err, ENOMEM, "writing the configuration");
	}
	json_decref(root);
	return text;
}

/* --- the image --- */

/* There is nothing to be fetched: all blobs are there. */
static int begin_nothing(void *data, struct layer *layer, struct error *err)
{
	(void)data;
	(void)layer;
	error_set(err, 0, "its archive is not in the store any more");
	return error_hint(err, "pull or import the image below again");
}

static int work_on_nothing(
	void *data, struct install *install, const int *fds, size_t count, int timeout_ms, struct error *err)
{
	struct pollfd pollfds[8] = {0};

	(void)data;
	(void)install;
	for (size_t i = 0; i < count && i < 8; i++)
		pollfds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	if (poll(pollfds, count < 8 ? count : 8, timeout_ms) < 0 && errno != EINTR)
		return error_set(err, errno, "waiting");
	return 0;
}

static void end_nothing(void *data, struct layer *layer)
{
	(void)data;
	(void)layer;
}

/* The layers' archives as the store has them, be they packed otherwise than when the image below came. */
static void list_layers(const struct making *making, struct manifest *ret)
{
	const struct image_record *base = &making->base;

	ret->entries = xcalloc(base->layers_count + 1, sizeof *ret->entries);
	for (size_t i = 0; i < base->layers_count; i++) {
		ret->entries[i] = (struct descriptor){
			.media = media_of(base->layers[i].media_type), .size = base->layers[i].blob_bytes};
		strcpy(ret->entries[i].digest, base->layers[i].blob);
	}
	ret->count = base->layers_count;
	if (making->packed.entries == 0)
		return;
	ret->entries[ret->count] =
		(struct descriptor){.media = MEDIA_LAYER_GZIP, .size = making->packed.layer.out_bytes};
	strcpy(ret->entries[ret->count++].digest, making->packed.layer.out_digest);
}

static int install_made(const struct making *making, const struct reference *reference, const char *config_text,
	struct manifest *manifest, struct committed *ret, struct error *err)
{
	static const struct source nothing = {begin_nothing, work_on_nothing, end_nothing, NULL, 1};
	const struct commit *commit = making->commit;
	struct install install = {.store = commit->store,
		.source = &nothing,
		.origin = "",
		.progress = commit->progress,
		.progress_data = commit->progress_data};
	cleanup_free char *text = NULL;
	struct image_config config;
	int r;

	if (blob_store(commit->store, config_text, strlen(config_text), manifest->config.digest, err) < 0)
		return -1;
	manifest->config.size = strlen(config_text);
	text = manifest_format(manifest);
	if (!text)
		return error_set(err, ENOMEM, "writing the manifest");
	if (blob_store(commit->store, text, strlen(text), ret->digest, err) < 0 ||
		image_config_parse(config_text, strlen(config_text), "the image's configuration", &config, err) < 0)
		return -1;
	r = install_image(&install, reference, ret->digest, manifest, &config, err);
	image_config_free(&config);
	return r;
}

static int make_image(
	struct making *making, const struct reference *reference, struct committed *ret, struct error *err)
{
	struct manifest manifest = {.config = {.media = MEDIA_CONFIG}};
	cleanup_free char *config = NULL;
	int r;

	list_left_out(making);
	if (add_layers(making, err) < 0 || store_layer(making, err) < 0)
		return -1;
	if (making->packed.entries == 0 && making->base.layers_count == 0)
		return error_set(err, 0, "the root %s is empty", making->spec.root_path);
	config = make_config(making, err);
	if (!config)
		return -1;
	list_layers(making, &manifest);
	r = install_made(making, reference, config, &manifest, ret, err);
	manifest_free(&manifest);
	if (r < 0 || making->packed.entries == 0)
		return r;
	strcpy(ret->layer, making->packed.layer.out_digest);
	ret->layer_bytes = making->packed.layer.out_bytes;
	return 0;
}

int commit_image(
	const struct commit *commit, const struct reference *reference, struct committed *ret, struct error *err)
{
	struct making *making = xcalloc(1, sizeof *making);
	int r;

	making->commit = commit;
	*ret = (struct committed){0};
	r = read_spec(commit->snapshot, &making->spec, err);
	if (r == 0) {
		r = make_image(making, reference, ret, err);
		spec_free(&making->spec);
	}
	for (size_t i = 0; i < making->count; i++) {
		close_fd(&making->layers[i].fd);
		close_fd(&making->locks[i]);
	}
	if (making->has_base)
		record_free(&making->base);
	strings_free(making->left_out);
	free(making);
	return r;
}
