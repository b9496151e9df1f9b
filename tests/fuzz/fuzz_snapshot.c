/* SPDX-License-Identifier: MIT */
/*
 * The record of a snapshot, in a store that may be damaged: what is taken for one has ids that lead nowhere else, and is
 * the same again when it is written and read.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "image/snapshots.h"
#include "util/error.h"

static void check_ids(const struct snapshot *snapshot)
{
	require(!snapshot->id[0] || snapshot_id_valid(snapshot->id), "its id is one");
	require(!snapshot->name[0] || snapshot_name_valid(snapshot->name), "its name is one");
	for (char **layer = snapshot->layers; *layer; layer++)
		require(snapshot_id_valid(*layer), "its layers are ids");
	require(!snapshot->packages || snapshot_id_valid(snapshot->packages), "its packages are an id");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *object = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL), *written;
	struct snapshot snapshot, again;
	struct error err;

	if (object && snapshot_from_json(object, &snapshot, &err) == 0) {
		check_ids(&snapshot);
		written = snapshot_to_json(&snapshot);
		require(json_equal(object, written), "it is written as it was read");
		require(snapshot_from_json(written, &again, &err) == 0, "what was written is read");
		snapshot_free(&again);
		snapshot_free(&snapshot);
		json_decref(written);
	}
	json_decref(object);
	return 0;
}
