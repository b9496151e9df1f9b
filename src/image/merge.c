/* SPDX-License-Identifier: MIT */
/*
 * Layers over each other: see merge.h.
 *
 * The walk is in a place of all layers at the same time: it has a descriptor for each that has a part there. Which ones
 * have a part in a directory of the place is decided from the top: the first that has something else by that name, or
 * has the directory opaque, hides those below it.
 */
#define _GNU_SOURCE
#include "image/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/dirnames.h"

enum { FD_LINK_SIZE = 40 };

struct merge {
	const struct merge_layer *layers;
	size_t count, own; /* of all, and of those that are not MERGE_BELOW */
	const char *const *left_out;
	const struct upper_visitor *visitor;
	bool all;    /* every directory is shown */
	bool open;   /* something not known is below all layers, */
	bool closed; /* which does not show in this place */
	bool unseen; /* something is mounted over what is below in this place */
	char path[UPPER_PATH_MAX];
	size_t length; /* of path */
	unsigned depth;
};

/* A directory on the way to the place. */
struct frame {
	struct frame *above;
	struct upper_entry *entry;
	size_t length; /* of its path */
	bool shown;
};

/* --- names --- */

static bool has_attribute(int dir, const char *name, const char *attribute, char value)
{
	cleanup_close int place = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[FD_LINK_SIZE], seen[1];
	ssize_t length;

	snprintf(link, sizeof link, "/proc/self/fd/%d", place);
	length = place < 0 ? -1 : getxattr(link, attribute, seen, sizeof seen);
	return value ? length == 1 && *seen == value : length >= 0;
}

/* An empty file can stand for a whiteout as well. */
static enum upper_kind kind_of(int dir, const char *name, const struct stat *st)
{
	enum upper_kind kind = upper_kind_of(st);

	if (kind == UPPER_FILE && st->st_size == 0 && has_attribute(dir, name, "user.overlay.whiteout", '\0'))
		return UPPER_WHITEOUT;
	return kind;
}

static bool is_left_out(const struct merge *merge, size_t layer)
{
	if (merge->layers[layer].role != MERGE_WRITTEN)
		return false;
	for (const char *const *pattern = merge->left_out; *pattern; pattern++)
		if (fnmatch(*pattern, merge->path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

/* What a layer has by the name in the place. Returns 1 where that is nothing. */
static int look(const struct merge *merge, const int *place, size_t layer, const char *name, struct upper_entry *ret,
	struct error *err)
{
	if (place[layer] < 0 || is_left_out(merge, layer))
		return 1;
	if (fstatat(place[layer], name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : error_set(err, errno, "looking at %s", merge->path);
	ret->dir = place[layer];
	ret->layer = layer;
	ret->kind = kind_of(place[layer], name, &ret->st);
	return 0;
}

/* The first of some layers that has the name. Returns 1 where none has; else *ret_layer says which. */
static int look_in(const struct merge *merge, const int *place, size_t first, size_t end, const char *name,
	struct upper_entry *ret, size_t *ret_layer, struct error *err)
{
	for (size_t i = first; i < end; i++) {
		int r = look(merge, place, i, name, ret, err);

		*ret_layer = i;
		if (r <= 0)
			return r;
	}
	return 1;
}

/* --- showing --- */

/* The directories above come first, where they have not come yet. */
static int show_frame(struct merge *merge, struct frame *frame, struct error *err)
{
	char next;
	int r;

	if (!frame || frame->shown)
		return 0;
	if (show_frame(merge, frame->above, err) < 0)
		return -1;
	next = merge->path[frame->length];
	merge->path[frame->length] = '\0';
	r = merge->visitor->entry(merge->visitor->data, frame->entry, err);
	merge->path[frame->length] = next;
	frame->shown = true;
	return r < 0 ? -1 : 0;
}

static int show_entry(struct merge *merge, struct frame *above, const struct upper_entry *entry, struct error *err)
{
	if (show_frame(merge, above, err) < 0)
		return -1;
	return merge->visitor->entry(merge->visitor->data, entry, err) < 0 ? -1 : 0;
}

/* --- directories --- */

/*
 * Opens the directory `name` in all layers that have a part in it, from `layer` on; `inside` has room for all, and -1
 * in each. Returns the layer that hides those below it, or else the number of layers; -1 with *err.
 */
static ssize_t enter(
	struct merge *merge, const int *place, size_t layer, const char *name, int *inside, struct error *err)
{
	for (size_t i = layer; i < merge->count; i++) {
		struct upper_entry entry = {0};
		int r = look(merge, place, i, name, &entry, err);

		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		if (entry.kind != UPPER_DIRECTORY)
			return (ssize_t)i;
		/* Names of what is below are looked for, and not read. */
		inside[i] = open_in_root(place[i], name,
			(merge->layers[i].role == MERGE_BELOW ? O_PATH : O_RDONLY) | O_DIRECTORY | O_NOFOLLOW, 0,
			RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
		/* Something is mounted on it, which overlayfs does not show. */
		if (inside[i] < 0 && errno != EXDEV)
			return error_set(err, errno, "opening the directory %s", merge->path);
		merge->unseen |= inside[i] < 0;
		if (has_attribute(place[i], name, "user.overlay.opaque", 'y'))
			return (ssize_t)i;
	}
	return (ssize_t)merge->count;
}

/* Whether there may be something by a name of the place that nobody can look at. */
static bool may_be_below(const struct merge *merge)
{
	return merge->open && !merge->closed;
}

/* Whether the place is there in what is below and known. Where it is not, overlayfs would list a whiteout as a name. */
static bool is_below(const struct merge *merge, const int *place)
{
	for (size_t i = merge->own; i < merge->count; i++)
		if (place[i] >= 0)
			return true;
	return merge->unseen;
}

/* Whether somebody has given it attributes, other than overlayfs's own. */
static bool has_attributes(int fd)
{
	static char names[64 << 10]; /* of the kernel (XATTR_LIST_MAX) */
	ssize_t length = fd < 0 ? 0 : flistxattr(fd, names, sizeof names);

	for (const char *name = names; length > 0 && name < names + length; name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0)
			return true;
	return false;
}

static bool is_same(const struct upper_entry *entry, const struct upper_entry *below)
{
	return below->kind == UPPER_DIRECTORY && entry->st.st_mode == below->st.st_mode &&
	       entry->st.st_uid == below->st.st_uid && entry->st.st_gid == below->st.st_gid &&
	       !has_attributes(entry->fd);
}

static int show_place(struct merge *merge, const int *place, struct frame *frame, struct error *err);

static int show_content(struct merge *merge, const int *inside, struct frame *frame, struct error *err)
{
	bool closed = merge->closed;
	int r;

	merge->closed |= frame->entry->opaque;
	r = show_place(merge, inside, frame, err);
	merge->closed = closed;
	if (r == 0 && merge->all && merge->visitor->leave)
		r = merge->visitor->leave(merge->visitor->data, frame->entry, err);
	return r;
}

/* With the directory open in `inside`. `hider`: what `enter` returned. */
static int show_opened(struct merge *merge, const int *place, struct frame *above, struct upper_entry *entry,
	size_t hider, const int *inside, struct error *err)
{
	struct frame frame = {.above = above, .entry = entry, .length = merge->length};
	struct upper_entry below = {0};
	size_t layer;
	int r = look_in(merge, place, merge->own, merge->count, entry->name, &below, &layer, err);

	if (r < 0)
		return -1;
	/* Where there is no directory below, the new one hides what there is. */
	entry->opaque = hider < merge->own && (may_be_below(merge) || (r == 0 && below.kind == UPPER_DIRECTORY));
	if ((merge->all || r > 0 || entry->opaque || !is_same(entry, &below)) && show_frame(merge, &frame, err) < 0)
		return -1;
	return show_content(merge, inside, &frame, err);
}

static int show_directory(struct merge *merge, const int *place, struct frame *above, struct upper_entry *entry,
	size_t layer, struct error *err)
{
	cleanup_free int *inside = xcalloc(merge->count, sizeof *inside);
	bool unseen = merge->unseen;
	ssize_t hider;
	int r = -1;

	for (size_t i = 0; i < merge->count; i++)
		inside[i] = -1;
	hider = enter(merge, place, layer, entry->name, inside, err);
	entry->fd = inside[layer];
	if (hider >= 0)
		r = show_opened(merge, place, above, entry, (size_t)hider, inside, err);
	merge->unseen = unseen;
	for (size_t i = 0; i < merge->count; i++)
		close_fd(&inside[i]);
	return r;
}

/* --- the walk --- */

static int show_name(struct merge *merge, const int *place, struct frame *frame, const char *name, struct error *err)
{
	struct upper_entry entry = {.path = merge->path, .name = name, .fd = -1}, below;
	size_t layer, slash = merge->length > 0, length = strlen(name);
	int r;

	if (merge->length + slash + length >= sizeof merge->path)
		return error_set(err, ENAMETOOLONG, "%.200s…", merge->path);
	if (slash)
		merge->path[merge->length++] = '/';
	memcpy(merge->path + merge->length, name, length + 1);
	merge->length += length;
	r = look_in(merge, place, 0, merge->own, name, &entry, &layer, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (entry.kind == UPPER_DIRECTORY)
		return show_directory(merge, place, frame, &entry, layer, err);
	if (entry.kind != UPPER_WHITEOUT || (may_be_below(merge) && (!frame || is_below(merge, place))))
		return show_entry(merge, frame, &entry, err);
	r = look_in(merge, place, merge->own, merge->count, name, &below, &layer, err);
	if (r != 0 || below.kind == UPPER_WHITEOUT)
		return r < 0 ? -1 : 0;
	return show_entry(merge, frame, &entry, err);
}

static int show_place(struct merge *merge, const int *place, struct frame *frame, struct error *err)
{
	size_t before = merge->length;
	struct dirnames names = {0};
	int r = 0;

	if (merge->depth == UPPER_DEPTH_MAX)
		return error_set(err, 0, "%.200s: there are more than %d directories in each other", merge->path,
			UPPER_DEPTH_MAX);
	for (size_t i = 0; r == 0 && i < merge->own; i++)
		if (place[i] >= 0 && dirnames_add(&names, place[i]) < 0)
			r = error_set(err, errno, "reading the directory %s", merge->path);
	dirnames_sort(&names);
	merge->depth++;
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		r = show_name(merge, place, frame, names.list[i], err);
		merge->length = before;
		merge->path[before] = '\0';
	}
	dirnames_free(&names);
	merge->depth--;
	return r;
}

static int walk(struct merge *merge, struct error *err)
{
	cleanup_free int *place = xcalloc(merge->count + 1, sizeof *place);

	for (size_t i = 0; i < merge->count; i++) {
		place[i] = merge->layers[i].fd;
		merge->own += merge->layers[i].role != MERGE_BELOW;
	}
	return show_place(merge, place, NULL, err);
}

int merge_walk(const struct merge_layer *layers, size_t count, const char *const *left_out,
	const struct upper_visitor *visitor, struct error *err)
{
	struct merge merge = {.layers = layers, .count = count, .left_out = left_out, .visitor = visitor};

	return walk(&merge, err);
}

int merge_walk_all(const struct merge_layer *layers, size_t count, bool open, const struct upper_visitor *visitor,
	struct error *err)
{
	static const char *const nothing[] = {NULL};
	struct merge merge = {.layers = layers,
		.count = count,
		.left_out = nothing,
		.visitor = visitor,
		.all = true,
		.open = open};

	return walk(&merge, err);
}
