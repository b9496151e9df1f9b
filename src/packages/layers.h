/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_LAYERS_H
#define NSBOX_PACKAGES_LAYERS_H

/* The layers of packages on disk: packages.h says where they are and who has which lock. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/sha256.h"

struct error;

/* The folder of all. */
struct layers {
	int fd;
	char path[PATH_MAX]; /* absolute */
};

/*
 * Opens it, and with `create` makes it where it is missing, else returns 1 for a missing one. Closed with layers_close.
 */
int layers_open(bool create, struct layers *ret, struct error *err);
void layers_close(struct layers *layers);

/* Where the tree of a layer is, without looking. */
int layers_tree_path(const char *key, char ret[PATH_MAX], struct error *err);

/* One that is being made, by us alone. */
struct layer_draft {
	int folder; /* KEY.new, locked */
	char key[SHA256_HEX_SIZE];
};

#define LAYER_DRAFT_NONE ((struct layer_draft){.folder = -1})

/* What ends a wait for another process. */
struct layer_wait {
	int cancel_fd; /* that it becomes readable; -1: none */
	bool (*is_lost)(const void *whose); /* that nobody wants the layer any more; or NULL */
	const void *whose;
};

/*
 * Begins a layer: an empty folder with «fs», for its tree, and «work/tmp» in it. Waits for whoever else makes the same
 * one. Returns 1 where it is there already, or has come to be meanwhile; -1 with *err.
 */
int layer_begin(const struct layers *layers, const char *key, const struct layer_wait *wait, struct layer_draft *ret,
	struct error *err);

/*
 * Puts it in its place, with the text of «about», once all of it is on the disk. The draft stays open, and locked, so
 * that nobody removes the layer.
 */
int layer_commit(const struct layers *layers, const struct layer_draft *draft, const char *about, struct error *err);

/* Removes what is in the draft but for the tree, before it is committed. */
void layer_drop_work(const struct layer_draft *draft);

/* Removes the draft with all that is in it, unless it was committed. Closes it. */
void layer_abandon(const struct layers *layers, struct layer_draft *draft);
void layer_close(struct layer_draft *draft);

/* Removes what killed processes have left. */
void layers_sweep(const struct layers *layers);

struct layer_entry {
	char key[SHA256_HEX_SIZE];
	char *about; /* the text; owned */
	uint64_t bytes;
	int64_t used_s; /* time of the last use: seconds since 1970 */
};

/*
 * All that there are, the one that was used the longest time ago first. Returns their number; released with
 * layers_free.
 */
size_t layers_read(const struct layers *layers, struct layer_entry **ret);
void layers_free(struct layer_entry *entries, size_t count);

/* Removes a layer. Returns 1 where a sandbox has it. */
int layer_remove(const struct layers *layers, const char *key);

/*
 * Locks the layer whose tree is at the path `tree` («…/KEY/fs»), shared, and notes its use. Returns the lock, a
 * descriptor; -1 with *err, whose errnum is ENOENT where it is not there any more.
 */
int layer_hold(const char *tree, struct error *err);

/* Whether the path is that of a layer's tree, by its form. */
bool layer_is_tree(const char *path);

/* The key in such a path, without a NUL behind it: it goes on. */
const char *layer_key(const char *path);

#endif
