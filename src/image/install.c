/* SPDX-License-Identifier: MIT */
/* An image into the store, layer by layer: see install.h. */
#define _GNU_SOURCE
#include "image/install.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/change.h"
#include "image/remove.h"
#include "image/user.h"
#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	UNPACKERS_MAX = 4,    /* more compete for the disk and the processors */
	WORK_MS = 200,        /* between looks at layers that another process makes */
	PASSWD_MAX = 4 << 20, /* bytes */
};

static int layer_error(const struct layer *layer, struct error *err)
{
	return error_context(
		err, "layer %zu (%.19s)", layer->number + 1, layer->descriptor->digest);
}

/* --- what a layer is called --- */

/* image-spec, config.md, «Layer ChainID». */
static void chain_ids(struct layer *layers, size_t count)
{
	char text[2 * DIGEST_SIZE];

	for (size_t i = 0; i < count; i++) {
		if (i == 0) {
			strcpy(layers[i].chain_id, layers[i].diff_id);
			continue;
		}
		snprintf(text, sizeof text, "%s %s", layers[i - 1].chain_id, layers[i].diff_id);
		digest_of(text, strlen(text), layers[i].chain_id);
	}
}

static bool is_in_store(const struct store *store, const struct layer *layer)
{
	char name[STORE_NAME_MAX];
	struct stat st;

	return fstatat(store->fd, store_layer_name(layer->chain_id, name), &st,
		       AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- one layer --- */

static bool are_below_done(const struct install *install, const struct layer *layer)
{
	for (size_t i = 0; i < layer->number; i++)
		if (install->layers[i].state != LAYER_DONE)
			return false;
	return true;
}

static void release(const struct install *install, struct layer *layer)
{
	unpacker_discard(install->store, &layer->unpacker);
	blob_close(install->store, &layer->blob);
}

struct search {
	const struct store *store;
	const char *chain_id;
	struct descriptor *found;
};

static int look_for_held(void *data, const struct image_record *record)
{
	struct search *search = data;

	for (size_t i = 0; i < record->layers_count; i++) {
		const struct record_layer *layer = &record->layers[i];
		struct descriptor held = {
			.media = media_of(layer->media_type), .size = layer->blob_bytes};

		strcpy(held.digest, layer->blob);
		if (strcmp(layer->chain_id, search->chain_id) != 0 ||
			!blob_there(search->store, &held))
			continue;
		*search->found = held;
		return 1;
	}
	return 0;
}

/*
 * Whether the store has all that there is to a layer: its tree, and the archive, be it packed otherwise, as it came
 * with another image. (While we add, nobody removes.)
 */
static bool is_complete(const struct install *install, struct layer *layer)
{
	struct search search = {install->store, layer->chain_id, &layer->held};
	struct error ignored;

	layer->held = *layer->descriptor;
	return is_in_store(install->store, layer) &&
	       (blob_there(install->store, layer->descriptor) ||
		       store_list(install->store, look_for_held, &search, &ignored) > 0);
}

/* Returns 1 when the layer's blob is another process's. */
static int begin_layer(struct install *install, struct layer *layer, struct error *err)
{
	struct unpacker *unpacker = &layer->unpacker;
	enum blob_state state;

	if (is_complete(install, layer)) {
		layer->state = LAYER_DONE;
		layer->was_there = !layer->elsewhere;
		return 0;
	}
	state = blob_open(install->store, layer->descriptor, install->origin, &layer->blob, err);
	if (state == BLOB_FAILED)
		return -1;
	if (state == BLOB_BUSY) {
		layer->elsewhere = true;
		return 1;
	}
	layer->elsewhere = false;
	layer->held = *layer->descriptor;
	layer->first = layer->blob.written;
	if (unpacker_start(install->store, layer->blob.fd, layer->descriptor->media,
		    layer->number == 0, unpacker, err) < 0)
		return -1;
	unpacker_progress(unpacker, layer->blob.written, state == BLOB_THERE);
	layer->state = state == BLOB_THERE ? LAYER_UNPACKING : LAYER_COMING;
	return state == BLOB_THERE ? 0 : install->source->begin(install->source->data, layer, err);
}

/*
 * What is wrong may be what an earlier transfer had left of the blob, which this one went on with. Then it is begun
 * anew, once; else the error stays. (A layer that is COMING is not any more.)
 */
static int begin_anew(struct install *install, struct layer *layer, struct error *err)
{
	if (layer->first == 0 || layer->anew || err->errnum)
		return -1;
	fprintf(stderr,
		"nsbox: layer %zu (%.19s): what was there of it is wrong; fetching it from its beginning\n",
		layer->number + 1, layer->descriptor->digest);
	*err = (struct error){0};
	release(install, layer);
	layer->anew = true;
	layer->state = LAYER_WAITING;
	return 0;
}

int install_arrived(struct install *install, struct layer *layer, bool whole, struct error *err)
{
	if (!whole) {
		unpacker_progress(&layer->unpacker, layer->blob.written, false);
		return 0;
	}
	install->source->end(install->source->data, layer);
	layer->state = LAYER_UNPACKING;
	if (blob_finish(install->store, &layer->blob, err) < 0)
		return begin_anew(install, layer, err) < 0 ? layer_error(layer, err) : 0;
	unpacker_progress(&layer->unpacker, layer->blob.written, true);
	return 0;
}

static int finish_unpacking(struct install *install, struct layer *layer, struct error *err)
{
	if (unpacker_finish(&layer->unpacker, &layer->result, err) < 0) {
		/* Nobody knows yet whether what has come is right: it is not to be gone on with. */
		struct error ignored;

		if (layer->state != LAYER_COMING)
			return -1;
		blob_restart(&layer->blob, &ignored);
		install->source->end(install->source->data, layer);
		layer->state = LAYER_UNPACKING;
		return begin_anew(install, layer, err);
	}
	if (layer->state == LAYER_COMING)
		return error_set(err, 0, "nsbox-unpack ended before the blob had come");
	if (strcmp(layer->result.digest, layer->diff_id) != 0)
		return error_set(err, 0,
			"its content has the digest %.19s…, and the image's configuration says %.19s…",
			layer->result.digest, layer->diff_id);
	layer->state = LAYER_UNPACKED;
	return 0;
}

/* Trees of the layers below, the topmost first; an empty directory where there are none. */
static int settle_layer(const struct install *install, struct layer *layer, struct error *err)
{
	int lowers[MANIFEST_LAYERS_MAX], locks[MANIFEST_LAYERS_MAX], r = 0;
	size_t count = 0;

	for (size_t i = layer->number; r == 0 && i-- > 0;) {
		lowers[count] = store_open_layer(
			install->store, install->layers[i].chain_id, &locks[count], err);
		if (lowers[count] < 0)
			r = -1;
		else if (fcntl(locks[count++], F_GETFD) < 0 ||
			 faccessat(locks[count - 1], "opaque", F_OK, 0) == 0)
			break;
	}
	if (r == 0 && count == 0) {
		if (mkdirat(layer->unpacker.lock, "nothing", 0755) < 0)
			r = error_set(err, errno, "making a directory in the store");
		locks[0] = -1;
		lowers[0] =
			openat(layer->unpacker.lock, "nothing", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		count = 1;
	}
	if (r == 0)
		r = unpacker_settle(install->store, &layer->unpacker, lowers, count, err);
	unlinkat(layer->unpacker.lock, "nothing", AT_REMOVEDIR);
	for (size_t i = 0; i < count; i++) {
		close_fd(&lowers[i]);
		close_fd(&locks[i]);
	}
	return r;
}

/* Makes the name of the layer's final place; another process may have been first. */
static int give_name(const struct install *install, struct layer *layer, struct error *err)
{
	const struct store *store = install->store;
	char name[STORE_NAME_MAX];

	if (layer->result.opaque) {
		cleanup_close int fd = openat(
			layer->unpacker.lock, "opaque", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0)
			return error_set(err, errno, "marking the layer as opaque");
	}
	store_layer_name(layer->chain_id, name);
	if (renameat(store->fd, layer->unpacker.name, store->fd, name) == 0)
		layer->unpacker.name[0] = '\0';
	else if (errno != EEXIST && errno != ENOTEMPTY)
		return error_set(err, errno, "moving the layer to its place in the store");
	return 0;
}

static int finish_layer(struct install *install, struct layer *layer, struct error *err)
{
	if (layer->result.notes > 0 && settle_layer(install, layer, err) < 0)
		return -1;
	if (give_name(install, layer, err) < 0)
		return -1;
	release(install, layer);
	layer->state = LAYER_DONE;
	return 0;
}

/* --- all layers --- */

static unsigned count_in(const struct install *install, enum layer_state from, enum layer_state to)
{
	unsigned count = 0;

	for (size_t i = 0; i < install->count; i++)
		count += install->layers[i].state >= from && install->layers[i].state <= to;
	return count;
}

static int begin_some(struct install *install, struct error *err)
{
	for (size_t i = 0; i < install->count; i++) {
		struct layer *layer = &install->layers[i];

		if (layer->state != LAYER_WAITING)
			continue;
		if (count_in(install, LAYER_COMING, LAYER_COMING) >=
				install->source->parallel_max ||
			count_in(install, LAYER_COMING, LAYER_UNPACKING) >= UNPACKERS_MAX)
			return 0;
		if (begin_layer(install, layer, err) < 0)
			return layer_error(layer, err);
	}
	return 0;
}

/* What nsbox-unpack is done with. (With an error it may be before the blob has come.) */
static int look_at_unpackers(struct install *install, struct error *err)
{
	for (size_t i = 0; i < install->count; i++) {
		struct layer *layer = &install->layers[i];
		struct pollfd pollfd = {.fd = layer->unpacker.control, .events = POLLIN};

		if ((layer->state == LAYER_COMING || layer->state == LAYER_UNPACKING) &&
			poll(&pollfd, 1, 0) > 0 && finish_unpacking(install, layer, err) < 0)
			return layer_error(layer, err);
		if (layer->state == LAYER_UNPACKED &&
			(layer->result.notes == 0 || are_below_done(install, layer)) &&
			finish_layer(install, layer, err) < 0)
			return layer_error(layer, err);
	}
	return 0;
}

static int work(struct install *install, struct error *err)
{
	int fds[UNPACKERS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < install->count; i++) {
		const struct layer *layer = &install->layers[i];

		if ((layer->state == LAYER_COMING || layer->state == LAYER_UNPACKING) &&
			count < UNPACKERS_MAX)
			fds[count++] = layer->unpacker.control;
	}
	return install->source->work(install->source->data, install, fds, count, WORK_MS, err);
}

static int install_layers(struct install *install, struct error *err)
{
	while (count_in(install, LAYER_DONE, LAYER_DONE) < install->count) {
		if (begin_some(install, err) < 0 || look_at_unpackers(install, err) < 0)
			return -1;
		if (install->progress)
			install->progress(install->progress_data, install);
		if (count_in(install, LAYER_DONE, LAYER_DONE) < install->count &&
			work(install, err) < 0)
			return -1;
	}
	if (install->progress)
		install->progress(install->progress_data, install);
	return 0;
}

static void discard_layers(struct install *install)
{
	for (size_t i = 0; i < install->count; i++) {
		struct layer *layer = &install->layers[i];

		if (layer->state == LAYER_COMING)
			install->source->end(install->source->data, layer);
		release(install, layer);
	}
	free(install->layers);
	install->layers = NULL;
	install->count = 0;
}

/* --- the record --- */

/* Whether the layer says that nothing below it has this name: a whiteout, or an opaque directory above. */
static bool hides(int tree, const char *path)
{
	char part[PATH_MAX], value;
	struct stat st;

	for (size_t length = strcspn(path, "/");; length += 1 + strcspn(path + length + 1, "/")) {
		cleanup_close int fd = -1;

		snprintf(part, sizeof part, "%.*s", (int)length, path);
		fd = open_in_root(tree, part, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
		if (fd < 0 || fstat(fd, &st) < 0)
			return false;
		if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
			return true;
		if (!path[length])
			return false;
		/* A file, or a whiteout that is one. */
		if (S_ISREG(st.st_mode))
			return true;
		close_fd(&fd);
		fd = open_in_root(
			tree, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
		if (fd >= 0 && fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 &&
			value == 'y' && faccessat(tree, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return true;
	}
}

/* A file of the image: from the topmost layer that has it. NULL: there is none. */
static char *read_file_of_image(const struct install *install, const char *path)
{
	for (size_t i = install->count; i-- > 0;) {
		cleanup_close int lock = -1, tree = -1, fd = -1;
		struct error ignored;
		struct stat st;
		size_t length;
		char *text;

		tree = store_open_layer(
			install->store, install->layers[i].chain_id, &lock, &ignored);
		if (tree < 0)
			return NULL;
		fd = open_in_root(tree, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return read_fd_whole(fd, PASSWD_MAX, &text, &length) == 0 ? text : NULL;
		if (hides(tree, path) || faccessat(lock, "opaque", F_OK, 0) == 0)
			return NULL;
	}
	return NULL;
}

static char *now_text(void)
{
	char text[32];
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return xstrdup(text);
}

static void mark_hidden(const struct install *install, struct image_record *record)
{
	bool hidden = false;

	for (size_t i = install->count; i-- > 0;) {
		char name[STORE_NAME_MAX], marker[STORE_NAME_MAX + 8];

		record->layers[i].hidden = hidden;
		snprintf(marker, sizeof marker, "%s/opaque",
			store_layer_name(record->layers[i].chain_id, name));
		hidden = hidden || faccessat(install->store->fd, marker, F_OK, 0) == 0;
	}
}

static int save_record(const struct install *install, const struct reference *reference,
	const char *manifest_digest, const struct manifest *manifest,
	const struct image_config *config, struct error *err)
{
	cleanup_free char *passwd = read_file_of_image(install, "etc/passwd");
	cleanup_free char *group = read_file_of_image(install, "etc/group");
	cleanup_free struct record_layer *layers = xcalloc(install->count + 1, sizeof *layers);
	cleanup_free char *pulled = now_text();
	struct image_user user;
	struct image_record record = {
		.reference = *reference,
		.platform = config->platform,
		.created = config->created,
		.pulled = pulled,
		.layers = layers,
		.layers_count = install->count,
		.user = config->user,
		.env = config->env,
		.entrypoint = config->entrypoint,
		.command = config->command,
		.volumes = config->volumes,
		.working_directory = config->working_directory,
		.stop_signal = config->stop_signal,
	};

	if (image_user_resolve(config->user, passwd, group, &user, err) < 0)
		return -1;
	record.uid = user.uid;
	record.gid = user.gid;
	record.home = user.home[0] ? user.home : NULL;
	strcpy(record.manifest, manifest_digest);
	strcpy(record.config, manifest->config.digest);
	for (size_t i = 0; i < install->count; i++) {
		const struct layer *layer = &install->layers[i];

		strcpy(layers[i].chain_id, layer->chain_id);
		strcpy(layers[i].diff_id, layer->diff_id);
		strcpy(layers[i].blob, layer->held.digest);
		layers[i].blob_bytes = layer->held.size;
		snprintf(layers[i].media_type, sizeof layers[i].media_type, "%s",
			media_layer_type(layer->held.media));
	}
	mark_hidden(install, &record);
	return record_save(install->store, &record, err);
}

int install_image(struct install *install, const struct reference *reference,
	const char *manifest_digest, const struct manifest *manifest,
	const struct image_config *config, struct error *err)
{
	int r;

	if (manifest->count != config->layers)
		return error_set(err, 0, "the manifest has %zu layers and the configuration %zu",
			manifest->count, config->layers);
	if (manifest->count == 0)
		return error_set(err, 0, "the image has no layers");
	install->count = manifest->count;
	install->layers = xcalloc(manifest->count, sizeof *install->layers);
	for (size_t i = 0; i < manifest->count; i++)
		install->layers[i] = (struct layer){.number = i,
			.descriptor = &manifest->entries[i],
			.diff_id = config->diff_ids[i],
			.blob = {.fd = -1},
			.unpacker = UNPACKER_NONE};
	chain_ids(install->layers, install->count);
	r = install_layers(install, err);
	/* The record must not outlive what it names, should the machine lose its power now. */
	if (r == 0 && syncfs(install->store->fd) < 0)
		r = error_set(err, errno, "writing the store %s to disk", install->store->path);
	if (r == 0)
		r = save_record(install, reference, manifest_digest, manifest, config, err);
	discard_layers(install);
	return r;
}
