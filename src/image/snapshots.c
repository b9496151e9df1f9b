/* SPDX-License-Identifier: MIT */
/* Snapshots of sessions in the store: see snapshots.h. */
#define _GNU_SOURCE
#include "image/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/discard.h"
#include "image/store.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum {
	RECORD_MAX = 4 << 20, /* bytes */
	ABOUT_MAX = 32 << 10, /* of SNAPSHOT_LAYERS_MAX layers that it shares with */
	TRIES = 8,
	LOCK_POLL_MS = 10,
	RECORD_NAME_SIZE = sizeof "records/." + SNAPSHOT_ID_LENGTH,
	LAYER_NAME_SIZE = sizeof "layers/." + SNAPSHOT_ID_LENGTH,
};

static const char hex[] = "0123456789abcdef";

/* --- the folder of all --- */

static int make_folders(const struct store *store, struct error *err)
{
	static const char *const names[] = {"snapshots", "snapshots/records", "snapshots/layers"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (mkdirat(store->fd, names[i], 0700) < 0 && errno != EEXIST)
			return error_set(err, errno, "making %s/%s", store->path, names[i]);
	return 0;
}

int snapshots_open(bool create, struct snapshots *ret, struct error *err)
{
	struct store store;
	int r = store_open(create, &store, err);

	*ret = SNAPSHOTS_NONE;
	if (r != 0)
		return r;
	if (create)
		r = make_folders(&store, err);
	if (r == 0 && snprintf(ret->path, PATH_MAX, "%s/snapshots", store.path) >= PATH_MAX)
		r = error_set(err, ENAMETOOLONG, "%s", store.path);
	if (r == 0)
		ret->fd = openat(store.fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && ret->fd < 0)
		r = errno == ENOENT && !create ? 1 : error_set(err, errno, "%s/snapshots", store.path);
	store_close(&store);
	return r;
}

void snapshots_close(struct snapshots *snapshots)
{
	close_fd(&snapshots->fd);
}

static int open_lock(const struct snapshots *snapshots, int how, struct error *err)
{
	cleanup_close int fd = openat(snapshots->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, how) < 0)
		return error_set(err, errno, "locking %s", snapshots->path);
	return move_fd(&fd);
}

int snapshots_lock(const struct snapshots *snapshots, struct error *err)
{
	return open_lock(snapshots, LOCK_SH, err);
}

/* --- ids and names --- */

bool snapshot_id_valid(const char *id)
{
	return strlen(id) == SNAPSHOT_ID_LENGTH && strspn(id, hex) == SNAPSHOT_ID_LENGTH;
}

bool snapshot_name_valid(const char *name)
{
	static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t length = strlen(name);

	/* Letters without digits and signs are the first 52. */
	return length > 0 && length <= SNAPSHOT_NAME_MAX && memchr(others, name[0], 52) && strspn(name, others) == length &&
	       !snapshot_id_valid(name);
}

static int make_id(char ret[SNAPSHOT_ID_SIZE], struct error *err)
{
	unsigned char bytes[SNAPSHOT_ID_LENGTH / 2];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return error_set(err, errno, "getting random bytes");
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* --- a record as JSON --- */

json_t *snapshot_to_json(const struct snapshot *snapshot)
{
	json_t *layers = json_array();

	for (char **layer = snapshot->layers; layer && *layer; layer++)
		json_array_append_new(layers, json_string(*layer));
	return json_pack("{s:i, s:s?, s:s?, s:s, s:s?, s:I, s:b, s:b, s:I, s:o, s:s?, s:O, s:O}", "version", 1, "id",
		snapshot->id[0] ? snapshot->id : NULL, "name", snapshot->name[0] ? snapshot->name : NULL, "session", snapshot->session, "parent",
		snapshot->parent[0] ? snapshot->parent : NULL, "created_s", (json_int_t)snapshot->created_s, "shared",
		snapshot->shared, "copied", snapshot->copied, "bytes", (json_int_t)snapshot->bytes, "layers", layers,
		"packages", snapshot->packages, "spec", snapshot->spec, "options", snapshot->options);
}

/* The text at `key`: an id. Null where `optional` is empty. */
static bool take_id(const json_t *object, const char *key, bool optional, char ret[SNAPSHOT_ID_SIZE])
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	ret[0] = '\0';
	if (optional && json_is_null(value))
		return true;
	/* Strings of jansson may have a NUL in them. */
	if (!text || json_string_length(value) != strlen(text) || !snapshot_id_valid(text))
		return false;
	strcpy(ret, text);
	return true;
}

static bool take_name(const json_t *object, char ret[SNAPSHOT_NAME_MAX + 1])
{
	const json_t *value = json_object_get(object, "name");
	const char *text = json_string_value(value);

	ret[0] = '\0';
	if (json_is_null(value))
		return true;
	if (!text || json_string_length(value) != strlen(text) || !snapshot_name_valid(text))
		return false;
	strcpy(ret, text);
	return true;
}

static bool take_layers(const json_t *array, struct snapshot *ret)
{
	size_t count = json_array_size(array);

	if (!json_is_array(array) || count > SNAPSHOT_LAYERS_MAX)
		return false;
	ret->layers = xcalloc(count + 1, sizeof *ret->layers);
	for (size_t i = 0; i < count; i++) {
		const json_t *value = json_array_get(array, i);
		const char *text = json_string_value(value);

		if (!text || json_string_length(value) != strlen(text) || !snapshot_id_valid(text))
			return false;
		ret->layers[i] = xstrdup(text);
	}
	return true;
}

static bool take_number(const json_t *object, const char *key, json_int_t *ret)
{
	const json_t *value = json_object_get(object, key);

	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= 0;
}

static bool take_bool(const json_t *object, const char *key, bool *ret)
{
	const json_t *value = json_object_get(object, key);

	*ret = json_is_true(value);
	return json_is_boolean(value);
}

static bool take_object(const json_t *object, const char *key, json_t **ret)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_object(value))
		return false;
	*ret = json_incref(value);
	return true;
}

static bool take_record(const json_t *object, struct snapshot *ret)
{
	char packages[SNAPSHOT_ID_SIZE];
	json_int_t version, created, bytes;

	if (!take_number(object, "version", &version) || version != 1 || !take_id(object, "id", true, ret->id) ||
		!take_name(object, ret->name) || !take_id(object, "session", false, ret->session) ||
		!take_id(object, "parent", true, ret->parent) || !take_number(object, "created_s", &created) ||
		!take_bool(object, "shared", &ret->shared) || !take_bool(object, "copied", &ret->copied) ||
		!take_number(object, "bytes", &bytes) || !take_layers(json_object_get(object, "layers"), ret) ||
		!take_id(object, "packages", true, packages) || !take_object(object, "spec", &ret->spec) ||
		!take_object(object, "options", &ret->options) || json_object_size(object) != 13)
		return false;
	ret->packages = packages[0] ? xstrdup(packages) : NULL;
	ret->created_s = created;
	ret->bytes = (uint64_t)bytes;
	return true;
}

int snapshot_from_json(const json_t *object, struct snapshot *ret, struct error *err)
{
	struct snapshot snapshot = {.layers = NULL};

	if (!take_record(object, &snapshot)) {
		snapshot_free(&snapshot);
		return error_set(err, 0, "this is no snapshot");
	}
	*ret = snapshot;
	return 0;
}

void snapshot_free(struct snapshot *snapshot)
{
	strings_free(snapshot->layers);
	free(snapshot->packages);
	json_decref(snapshot->spec);
	json_decref(snapshot->options);
	*snapshot = (struct snapshot){.layers = NULL};
}

/* --- records --- */

/* More exactly than the kernel does, for two that are written at once. */
static int note_time(int fd)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

	clock_gettime(CLOCK_REALTIME, &times[1]);
	return futimens(fd, times);
}

static int write_record(const struct snapshots *snapshots, const struct snapshot *snapshot, struct error *err)
{
	json_t *object = snapshot_to_json(snapshot);
	cleanup_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	char draft[RECORD_NAME_SIZE], name[RECORD_NAME_SIZE];
	cleanup_close int fd = -1;

	json_decref(object);
	if (!text || strlen(text) > RECORD_MAX)
		return error_set(err, 0, "the snapshot cannot be described: it has text that is not UTF-8, or too much of it");
	snprintf(draft, sizeof draft, "records/.%s", snapshot->id);
	snprintf(name, sizeof name, "records/%s", snapshot->id);
	fd = openat(snapshots->fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && write_whole(fd, text, strlen(text)) == 0 && note_time(fd) == 0 &&
		renameat(snapshots->fd, draft, snapshots->fd, name) == 0)
		return 0;
	error_set(err, errno, "writing %s/%s", snapshots->path, name);
	unlinkat(snapshots->fd, draft, 0);
	return -1;
}

static int read_record(const struct snapshots *snapshots, const char *id, struct snapshot *ret, struct error *err)
{
	char name[RECORD_NAME_SIZE];
	cleanup_close int fd = -1;
	cleanup_free char *text = NULL;
	struct stat st;
	size_t length;
	json_t *object;
	int r;

	snprintf(name, sizeof name, "records/%s", id);
	fd = openat(snapshots->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || read_fd_whole(fd, RECORD_MAX, &text, &length) < 0)
		return error_set(err, errno, "reading %s/%s", snapshots->path, name);
	object = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
	r = object ? snapshot_from_json(object, ret, err) : -1;
	json_decref(object);
	if (r == 0 && strcmp(ret->id, id) == 0) {
		ret->written_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
		return 0;
	}
	if (r == 0)
		snapshot_free(ret);
	error_set(err, 0, "%s/%s is damaged", snapshots->path, name);
	return error_hint(err, "remove it: nsbox session snapshots rm %s", id);
}

/* The names of a folder that are ids, sorted; *ret is the caller's. -1 with errno. */
static int read_ids(const struct snapshots *snapshots, const char *folder, char ***ret, size_t *ret_count)
{
	int fd = openat(snapshots->fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;
	char **ids = NULL;

	if (!stream) {
		close_fd(&fd);
		return -1;
	}
	while ((entry = readdir(stream))) {
		if (!snapshot_id_valid(entry->d_name))
			continue;
		if (count + 1 >= room) {
			room = room ? 2 * room : 16;
			ids = xrealloc(ids, room, sizeof *ids);
		}
		ids[count++] = xstrdup(entry->d_name);
	}
	closedir(stream);
	if (!ids)
		ids = xcalloc(1, sizeof *ids);
	ids[count] = NULL;
	*ret = ids;
	*ret_count = count;
	return 0;
}

static int by_time(const void *left, const void *right)
{
	const struct snapshot *a = left, *b = right;

	if (a->written_ns != b->written_ns)
		return a->written_ns < b->written_ns ? -1 : 1;
	return strcmp(a->id, b->id);
}

/* Those that can be read, and of how many: others were removed meanwhile, or are damaged. -1 with errno. */
static ssize_t read_records(const struct snapshots *snapshots, struct snapshot **ret, size_t *ret_count)
{
	size_t count, read = 0;
	struct error unimportant;
	char **ids;

	if (read_ids(snapshots, "records", &ids, &count) < 0)
		return -1;
	*ret = xcalloc(count + 1, sizeof **ret);
	for (size_t i = 0; i < count; i++)
		if (read_record(snapshots, ids[i], &(*ret)[read], &unimportant) == 0)
			read++;
	strings_free(ids);
	if (read > 1)
		qsort(*ret, read, sizeof **ret, by_time);
	*ret_count = read;
	return (ssize_t)count;
}

int snapshots_read(const struct snapshots *snapshots, struct snapshot **ret, size_t *ret_count, struct error *err)
{
	return read_records(snapshots, ret, ret_count) < 0 ? error_set(err, errno, "reading %s/records", snapshots->path) : 0;
}

void snapshots_free(struct snapshot *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snapshot_free(&list[i]);
	free(list);
}

static bool has_name(const struct snapshots *snapshots, const char *name)
{
	struct snapshot *list;
	struct error unimportant;
	bool found = false;
	size_t count;

	if (snapshots_read(snapshots, &list, &count, &unimportant) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		found |= strcmp(list[i].name, name) == 0;
	snapshots_free(list, count);
	return found;
}

static int check_count(const struct snapshots *snapshots, struct error *err)
{
	size_t count;
	char **ids;

	if (read_ids(snapshots, "records", &ids, &count) < 0)
		return error_set(err, errno, "reading %s/records", snapshots->path);
	strings_free(ids);
	if (count < SNAPSHOTS_MAX)
		return 0;
	error_set(err, 0, "there are %zu snapshots, and can be no more", count);
	return error_hint(err, "remove some: nsbox session snapshots rm SNAPSHOT");
}

int snapshots_add(const struct snapshots *snapshots, struct snapshot *snapshot, struct error *err)
{
	cleanup_close int names = -1;

	if (check_count(snapshots, err) < 0 || make_id(snapshot->id, err) < 0)
		return -1;
	if (!snapshot->name[0])
		return write_record(snapshots, snapshot, err);
	/* Of two that want the same name one is first. */
	names = openat(snapshots->fd, "records", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (names < 0 || flock(names, LOCK_EX) < 0)
		return error_set(err, errno, "locking %s/records", snapshots->path);
	if (has_name(snapshots, snapshot->name)) {
		error_set(err, 0, "there is a snapshot %s already", snapshot->name);
		err->errnum = EEXIST;
		return error_hint(err, "give it another name, or remove that one (snapshot_delete, nsbox session snapshots rm)");
	}
	return write_record(snapshots, snapshot, err);
}

static int unknown(const char *text, bool shared_only, struct error *err)
{
	char buffer[QUOTED_MAX];

	error_set(err, 0, "there is no snapshot %s", quoted(text, buffer));
	err->errnum = ENOENT;
	return error_hint(err, shared_only ? "snapshot_list shows those that there are"
					   : "nsbox session snapshots lists those that there are");
}

/* A whole id needs no other record; also one that is damaged says so. */
static int find_id(const struct snapshots *snapshots, const char *id, bool shared_only, struct snapshot *ret, struct error *err)
{
	if (read_record(snapshots, id, ret, err) < 0)
		return err->errnum == ENOENT ? unknown(id, shared_only, err) : -1;
	if (!shared_only || ret->shared)
		return 0;
	snapshot_free(ret);
	return unknown(id, shared_only, err);
}

int snapshots_find(const struct snapshots *snapshots, const char *text, bool shared_only, struct snapshot *ret,
	struct error *err)
{
	struct snapshot *list, *found = NULL;
	size_t count, begin = 0;
	char buffer[QUOTED_MAX];

	if (snapshot_id_valid(text))
		return find_id(snapshots, text, shared_only, ret, err);
	if (snapshots_read(snapshots, &list, &count, err) < 0)
		return -1;
	for (size_t i = 0; i < count && *text; i++) {
		if (shared_only && !list[i].shared)
			continue;
		if (strcmp(list[i].name, text) == 0) {
			found = &list[i];
			begin = 1;
			break;
		}
		if (strncmp(list[i].id, text, strlen(text)) == 0) {
			found = &list[i];
			begin++;
		}
	}
	if (begin == 1) {
		*ret = *found;
		*found = (struct snapshot){.layers = NULL};
	}
	snapshots_free(list, count);
	if (begin == 0)
		return unknown(text, shared_only, err);
	return begin == 1 ? 0
			  : error_set(err, 0, "%zu snapshots begin with %s: write more of its id", begin,
				    quoted(text, buffer));
}

int snapshots_remove(const struct snapshots *snapshots, const char *id, struct error *err)
{
	char name[RECORD_NAME_SIZE];

	snprintf(name, sizeof name, "records/%.*s", SNAPSHOT_ID_LENGTH, id);
	if (unlinkat(snapshots->fd, name, 0) == 0)
		return 0;
	return errno == ENOENT ? 1 : error_set(err, errno, "removing %s/%s", snapshots->path, name);
}

/* --- layers --- */

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Opens and locks a layer. -1 with errno: ENOENT where there is none (any more), EWOULDBLOCK where somebody has it. */
static int open_layer(int dir, const char *name, int how)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat opened, named;

	if (fd < 0 || flock(fd, how) < 0)
		return -1;
	/* Who sweeps may have had it before us. */
	if (fstat(fd, &opened) < 0 || fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0 || opened.st_ino != named.st_ino ||
		opened.st_dev != named.st_dev) {
		errno = ENOENT;
		return -1;
	}
	return move_fd(&fd);
}

static const char *layer_name(const char *id, char buffer[LAYER_NAME_SIZE])
{
	snprintf(buffer, LAYER_NAME_SIZE, "layers/%.*s", SNAPSHOT_ID_LENGTH, id);
	return buffer;
}

int snapshot_layer_make(const struct snapshots *snapshots, char ret_id[SNAPSHOT_ID_SIZE], int *ret_folder, struct error *err)
{
	char name[LAYER_NAME_SIZE];

	for (int i = 0; i < TRIES; i++) {
		if (make_id(ret_id, err) < 0)
			return -1;
		if (mkdirat(snapshots->fd, layer_name(ret_id, name), 0700) < 0)
			break;
		*ret_folder = open_layer(snapshots->fd, name, LOCK_SH);
		if (*ret_folder >= 0)
			return 0;
		if (errno != ENOENT)
			break;
	}
	return error_set(err, errno, "making a layer in %s/layers", snapshots->path);
}

int snapshot_layer_note(int folder, const struct layer_note *note, struct error *err)
{
	json_t *object = json_pack("{s:I, s:I, s:O*}", "bytes", (json_int_t)note->bytes, "entries", (json_int_t)note->entries,
		"shared", note->shared);
	cleanup_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	cleanup_close int fd = openat(folder, "about", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	json_decref(object);
	if (fd < 0 || !text || write_whole(fd, text, strlen(text)) < 0)
		return error_set(err, errno, "describing a layer of a snapshot");
	return 0;
}

static uint64_t number_of(const json_t *value)
{
	json_int_t number = json_integer_value(value);

	return number > 0 ? (uint64_t)number : 0;
}

void snapshot_layer_read_note(const struct snapshots *snapshots, const char *id, struct layer_note *ret)
{
	cleanup_free char *name = xasprintf("layers/%.*s/about", SNAPSHOT_ID_LENGTH, id);
	char text[ABOUT_MAX];
	ssize_t length = read_small_file(snapshots->fd, name, text, sizeof text);
	json_t *object = length > 0 ? json_loadb(text, (size_t)length, 0, NULL) : NULL;

	*ret = (struct layer_note){.bytes = number_of(json_object_get(object, "bytes")),
		.entries = number_of(json_object_get(object, "entries")),
		.shared = json_incref(json_object_get(object, "shared"))};
	json_decref(object);
}

uint64_t layer_note_bytes(const struct layer_note *note)
{
	uint64_t sum = note->bytes;
	const char *id;
	json_t *value;

	json_object_foreach(note->shared, id, value)
		sum += number_of(value);
	return sum;
}

/* What it takes while those of `ids` are there. */
static uint64_t bytes_beside(const struct snapshots *snapshots, const char *id, char **ids, size_t count)
{
	struct layer_note note;
	const char *other;
	json_t *value;
	uint64_t sum;

	snapshot_layer_read_note(snapshots, id, &note);
	sum = note.bytes;
	json_object_foreach(note.shared, other, value)
		if (!bsearch(&other, ids, count, sizeof *ids, compare_ids))
			sum += number_of(value);
	json_decref(note.shared);
	return sum;
}

uint64_t snapshots_bytes(const struct snapshots *snapshots)
{
	uint64_t sum = 0;
	size_t count;
	char **ids;

	if (read_ids(snapshots, "layers", &ids, &count) < 0)
		return 0;
	qsort(ids, count, sizeof *ids, compare_ids);
	for (size_t i = 0; i < count; i++)
		sum += bytes_beside(snapshots, ids[i], ids, count);
	strings_free(ids);
	return sum;
}

char *snapshot_layer_tree(const struct snapshots *snapshots, const char *id)
{
	return xasprintf("%s/layers/%.*s/fs", snapshots->path, SNAPSHOT_ID_LENGTH, id);
}

const char *snapshot_layer_id(const char *tree)
{
	static const char before[] = "/snapshots/layers/", after[] = "/fs";
	size_t length = strlen(tree), tail = SNAPSHOT_ID_LENGTH + sizeof after - 1;
	const char *id = tree + length - tail;

	if (length < tail + sizeof before - 1 || strcmp(id + SNAPSHOT_ID_LENGTH, after) != 0 ||
		strspn(id, hex) != SNAPSHOT_ID_LENGTH)
		return NULL;
	return strncmp(id - (sizeof before - 1), before, sizeof before - 1) == 0 ? id : NULL;
}

int snapshot_layer_hold(const char *tree, struct error *err)
{
	cleanup_free char *folder = xasprintf("%.*s", (int)(strrchr(tree, '/') - tree), tree);
	cleanup_close int fd = open_layer(AT_FDCWD, folder, LOCK_SH);
	struct stat st;

	if (fd < 0 || fstatat(fd, "fs", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "the layer %s of a snapshot", folder);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR, "the layer %s of a snapshot", folder);
	return move_fd(&fd);
}

/* --- sweeping --- */

/* The layers that records name, sorted. *ret is the caller's, its strings the records'. */
static void named_layers(const struct snapshot *list, size_t count, char ***ret, size_t *ret_count)
{
	size_t room = 1, named = 0;

	for (size_t i = 0; i < count; i++) {
		for (char **layer = list[i].layers; *layer; layer++)
			room++;
		room++;
	}
	*ret = xcalloc(room, sizeof **ret);
	for (size_t i = 0; i < count; i++) {
		for (char **layer = list[i].layers; *layer; layer++)
			(*ret)[named++] = *layer;
		if (list[i].packages)
			(*ret)[named++] = list[i].packages;
	}
	if (named > 1)
		qsort(*ret, named, sizeof **ret, compare_ids);
	*ret_count = named;
}

/* From here on nobody finds it. */
static bool set_aside(const struct snapshots *snapshots, const char *id)
{
	char name[LAYER_NAME_SIZE], aside[LAYER_NAME_SIZE];
	cleanup_close int fd = open_layer(snapshots->fd, layer_name(id, name), LOCK_EX | LOCK_NB);

	snprintf(aside, sizeof aside, "layers/.%.*s", SNAPSHOT_ID_LENGTH, id);
	return fd >= 0 && renameat(snapshots->fd, name, snapshots->fd, aside) == 0;
}

static void remove_layer(int layers, const char *name)
{
	cleanup_close int fd = open_layer(layers, name, LOCK_EX | LOCK_NB);

	if (fd >= 0 && discard_content(fd, UINT64_MAX) == 0)
		unlinkat(layers, name, AT_REMOVEDIR);
}

static void remove_draft(int records, const char *name)
{
	unlinkat(records, name, 0);
}

/* What is named «.ID»: in records of those who were killed while they wrote them, in layers what was set aside. */
static void remove_hidden(const struct snapshots *snapshots, const char *folder, void (*remove)(int dir, const char *name))
{
	int fd = openat(snapshots->fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(stream)))
		if (entry->d_name[0] == '.' && snapshot_id_valid(entry->d_name + 1))
			remove(dirfd(stream), entry->d_name);
	closedir(stream);
}

/* Whatever is in them, who wants the lock does not wait for it to be removed. */
static unsigned set_all_aside(const struct snapshots *snapshots, const struct snapshot *list, size_t count)
{
	size_t named_count, layers_count;
	unsigned removed = 0;
	char **named, **layers;

	if (read_ids(snapshots, "layers", &layers, &layers_count) < 0)
		return 0;
	named_layers(list, count, &named, &named_count);
	for (size_t i = 0; i < layers_count; i++)
		if (!bsearch(&layers[i], named, named_count, sizeof *named, compare_ids))
			removed += set_aside(snapshots, layers[i]);
	free(named);
	strings_free(layers);
	return removed;
}

static int lock_alone(const struct snapshots *snapshots, unsigned wait_ms)
{
	struct error unimportant;

	for (;;) {
		int fd = open_lock(snapshots, LOCK_EX | LOCK_NB, &unimportant);

		if (fd >= 0 || wait_ms < LOCK_POLL_MS)
			return fd;
		usleep(LOCK_POLL_MS * 1000);
		wait_ms -= LOCK_POLL_MS;
	}
}

unsigned snapshots_sweep(const struct snapshots *snapshots, unsigned wait_ms)
{
	struct snapshot *list = NULL;
	cleanup_close int lock = lock_alone(snapshots, wait_ms);
	unsigned removed = 0;
	size_t count = 0;

	if (lock < 0)
		return 0;
	remove_hidden(snapshots, "records", remove_draft); /* who writes has the lock */
	/* A record that cannot be read may name any layer: then all of them stay. */
	if (read_records(snapshots, &list, &count) == (ssize_t)count)
		removed = set_all_aside(snapshots, list, count);
	snapshots_free(list, count);
	close_fd(&lock);
	remove_hidden(snapshots, "layers", remove_layer);
	return removed;
}
