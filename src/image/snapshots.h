/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_SNAPSHOTS_H
#define NSBOX_IMAGE_SNAPSHOTS_H

/*
 * Snapshots of sessions in the store: what a session had written at a time, as layers that are never changed again.
 *
 *     snapshots/records/ID     one snapshot (struct snapshot), JSON; written beside its place as «.ID» and renamed
 *     snapshots/layers/LID/fs  a layer: overlayfs's upper directory, settled (upper.h), or all of a root (the lowest)
 *     snapshots/layers/LID/about  {"bytes": N, "entries": N, "shared": {LID: N}} (struct layer_note)
 *                              (set aside as «.LID» before it is removed)
 *     snapshots/lock           shared by who makes a layer, or is about to hold one; exclusive for who sweeps
 *
 * The ids are 128 random bits in hexadecimal. A session that is over layers, and whoever makes one, hold them (flock(2),
 * shared, on LID): a layer that no record names and nobody holds is swept. So a session that was forked is there with
 * what it needs after its snapshot is removed. What is in a layer is a stranger's.
 *
 * Nothing is synced: a snapshot that was made just before the power fails may be damaged, one that a killed process made
 * is whole or not there.
 */

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum {
	SNAPSHOT_ID_LENGTH = 32,
	SNAPSHOT_ID_SIZE = SNAPSHOT_ID_LENGTH + 1,
	SNAPSHOT_NAME_MAX = 64,
	SNAPSHOT_LAYERS_MAX = 400,
	SNAPSHOTS_MAX = 10000, /* records: also those of nothing take place, and time to be read */
};

/* The folder of all. */
struct snapshots {
	int fd;
	char path[PATH_MAX]; /* absolute */
};

/* What a layer takes on the disk. */
struct layer_note {
	uint64_t bytes;	  /* by itself, */
	uint64_t entries; /* names in it */
	json_t *shared;	  /* and with others: LIDs of layers that it was merged of, and the bytes of each that are in it as well,
			   * which count when that layer is gone; borrowed, NULL: none */
};

#define SNAPSHOTS_NONE ((struct snapshots){.fd = -1})

/*
 * The record, whose keys are these names. `spec` is that of the session (report.h) with the root that is below the layers:
 * spec.root, root_path, root_digest, and in root_layers those of an image and of packages. So all that the root of the
 * session had is, from the topmost: layers[0], …, spec.root_layers[0], …, and the directory spec.root_path if it is one.
 */
struct snapshot {
	char id[SNAPSHOT_ID_SIZE];	  /* empty: it is not recorded, but for a fork that follows */
	char name[SNAPSHOT_NAME_MAX + 1]; /* empty: none */
	char session[SNAPSHOT_ID_SIZE];	  /* that it was made of */
	char parent[SNAPSHOT_ID_SIZE];	  /* the snapshot that the session had made, or come from, before; empty: none */
	int64_t created_s;		  /* since 1970 */
	bool shared;			  /* MCP servers may use it, as the session */
	bool copied;			  /* and not frozen */
	uint64_t bytes;			  /* of what its own layer takes; 0: it has none of its own */
	char **layers;			  /* LIDs, the topmost first; NULL-terminated, owned */
	char *packages;			  /* LID of what is installed for the session's code; owned, or NULL */
	json_t *spec;			  /* owned */
	int64_t written_ns;		  /* time of its file, which says what came first; 0: it has none */
	json_t *options;		  /* {"idle_ms", "life_ms", "timeout_ms", "language"}; owned */
};

/* Opens the folder; with `create` it is made where it is missing, else a missing one is 1. */
int snapshots_open(bool create, struct snapshots *ret, struct error *err);
void snapshots_close(struct snapshots *snapshots);

bool snapshot_id_valid(const char *id);

/* 1 to SNAPSHOT_NAME_MAX letters, digits, «.», «_», «-», with a letter first; no id. */
bool snapshot_name_valid(const char *name);

/* As JSON and back. The strings of *ret are the caller's: snapshot_free. */
json_t *snapshot_to_json(const struct snapshot *snapshot);
int snapshot_from_json(const json_t *object, struct snapshot *ret, struct error *err);
void snapshot_free(struct snapshot *snapshot);

/*
 * Keeps nobody from sweeping as long as the descriptor that it returns is open: from before layers are looked for, or made,
 * until they are held.
 */
int snapshots_lock(const struct snapshots *snapshots, struct error *err);

/* --- records --- */

/* Writes a new record, and sets its id. Fails where another has its name. By who has the lock. */
int snapshots_add(const struct snapshots *snapshots, struct snapshot *snapshot, struct error *err);

/* All that can be read, the oldest first. Released with snapshots_free. */
int snapshots_read(const struct snapshots *snapshots, struct snapshot **ret, size_t *ret_count, struct error *err);
void snapshots_free(struct snapshot *list, size_t count);

/*
 * The one with that name or id, or whose id alone begins so. `shared_only`: those that MCP servers may not use are not there.
 * An unknown one is ENOENT in err->errnum.
 */
int snapshots_find(const struct snapshots *snapshots, const char *text, bool shared_only, struct snapshot *ret,
	struct error *err);

/* Removes the record; its layers go when nobody holds them (snapshots_sweep). Returns 1 where there is none. */
int snapshots_remove(const struct snapshots *snapshots, const char *id, struct error *err);

/* --- layers --- */

/* What all layers take on the disk. */
uint64_t snapshots_bytes(const struct snapshots *snapshots);

/* A new one, held by *ret_folder: an empty folder that is to get «fs». By who has the lock. */
int snapshot_layer_make(const struct snapshots *snapshots, char ret_id[SNAPSHOT_ID_SIZE], int *ret_folder, struct error *err);

/* Says what it takes. Without that it counts as nothing. */
int snapshot_layer_note(int folder, const struct layer_note *note, struct error *err);

/* What it said, zeros where it did not; `shared` is the caller's. */
void snapshot_layer_read_note(const struct snapshots *snapshots, const char *id, struct layer_note *ret);

/* What it takes with all that it shares. */
uint64_t layer_note_bytes(const struct layer_note *note);

/* The path of its tree, malloc'd, without looking. */
char *snapshot_layer_tree(const struct snapshots *snapshots, const char *id);

/* The id in such a path, borrowed (SNAPSHOT_ID_LENGTH characters of it); NULL: it is none. */
const char *snapshot_layer_id(const char *tree);

/* Holds the layer with that tree: a descriptor, or -1 where there is none any more. */
int snapshot_layer_hold(const char *tree, struct error *err);

/*
 * Removes layers that no record names and nobody holds, for which it does not wait, but `wait_ms` for those who have the
 * lock. Returns how many there were.
 */
unsigned snapshots_sweep(const struct snapshots *snapshots, unsigned wait_ms);

#endif
