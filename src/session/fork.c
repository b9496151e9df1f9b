/* SPDX-License-Identifier: MIT */
/* A new session of a snapshot, or of another session: see fork.h. */
#define _GNU_SOURCE
#include "session/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "seccomp/load.h"
#include "session/client.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

static size_t count_strings(char *const *strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

int fork_read_spec(const struct snapshots *snapshots, const struct snapshot *snapshot, struct spec *ret, struct error *err)
{
	size_t count = count_strings(snapshot->layers);

	if (spec_from_json(snapshot->spec, ret, err) < 0) {
		error_context(err, "the snapshot %s is damaged", snapshot->id);
		return error_hint(err, "remove it: nsbox session snapshots rm %s", snapshot->id);
	}
	for (size_t i = count; i-- > 0;) {
		cleanup_free char *tree = snapshot_layer_tree(snapshots, snapshot->layers[i]);

		spec_add_layer(ret, tree);
	}
	ret->session = true;
	ret->resumed = count > 0;
	return 0;
}

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? (uint64_t)number : 0;
}

static void read_options(const struct snapshot *snapshot, struct session_options *ret)
{
	const json_t *options = snapshot->options;

	*ret = (struct session_options){.idle_ms = number_of(options, "idle_ms"),
		.life_ms = number_of(options, "life_ms"),
		.timeout_ms = number_of(options, "timeout_ms"),
		.shared = snapshot->shared};
	snprintf(ret->language, sizeof ret->language, "%s", json_string_value(json_object_get(options, "language")) ?: "");
	snprintf(ret->parent, sizeof ret->parent, "%s", snapshot->id);
	snprintf(ret->packages, sizeof ret->packages, "%s", snapshot->packages ?: "");
}

/* Has the session make one that only we know of. Takes over the socket. */
static int ask_session(struct fork *fork, int socket, bool from_mcp, uint64_t max_bytes, struct error *err)
{
	json_t *request = json_pack("{s:s, s:b, s:I}", "op", "snapshot", "fork", 1, "max_bytes", (json_int_t)max_bytes);
	json_t *answer;
	int r;

	if (from_mcp)
		json_object_set_new(request, "from", json_string("mcp"));
	answer = session_request(socket, request, NULL, err);
	if (!answer)
		return -1;
	r = snapshot_from_json(json_object_get(answer, "snapshot"), &fork->snapshot, err);
	fork->copied = fork->snapshot.copied;
	fork->copied_bytes = number_of(answer, "copied_bytes");
	json_decref(answer);
	return r;
}

static int find(struct fork *fork, const char *of, bool from_mcp, uint64_t max_bytes, struct error *err)
{
	struct error no_snapshot = {0};
	char buffer[QUOTED_MAX];
	int socket;
	int r = snapshots_find(&fork->snapshots, of, from_mcp, &fork->snapshot, &no_snapshot);

	/* A name says it; what an id begins with could be both. */
	if (r == 0 && strcmp(fork->snapshot.name, of) == 0)
		return 0;
	socket = from_mcp ? session_connect_shared(of, err) : session_connect(of, NULL, err);
	if (socket >= 0)
		fcntl(socket, F_SETFL, 0); /* a server's never blocks, and we wait */
	if (socket >= 0 && r == 0) {
		close_fd(&socket);
		return error_set(err, 0, "a session and a snapshot begin with %s: write more of the id", quoted(of, buffer));
	}
	if (r == 0) {
		*err = (struct error){0};
		return 0;
	}
	if (socket >= 0)
		return ask_session(fork, socket, from_mcp, max_bytes, err);
	if (err->errnum != ENOENT)
		return -1;
	if (no_snapshot.errnum != ENOENT) {
		*err = no_snapshot;
		return -1;
	}
	error_set(err, 0, "there is no %s and no snapshot %s", from_mcp ? "sandbox" : "session", quoted(of, buffer));
	return error_hint(err, from_mcp ? "sandbox_list and snapshot_list show those that there are"
					: "nsbox session ls and nsbox session snapshots list those that there are");
}

int fork_begin(const char *of, bool from_mcp, uint64_t max_bytes, struct fork *ret, struct error *err)
{
	int r;

	*ret = (struct fork){.snapshots = SNAPSHOTS_NONE, .lock = -1};
	if (snapshots_open(true, &ret->snapshots, err) < 0)
		return -1;
	ret->lock = snapshots_lock(&ret->snapshots, err);
	r = ret->lock < 0 ? -1 : find(ret, of, from_mcp, max_bytes, err);
	if (r == 0)
		r = fork_read_spec(&ret->snapshots, &ret->snapshot, &ret->spec, err);
	if (r < 0) {
		fork_end(ret);
		return -1;
	}
	/* The ports of the host are that session's. */
	ret->spec.publish_count = 0;
	read_options(&ret->snapshot, &ret->options);
	return 0;
}

int fork_make(struct fork *fork, struct session_made *ret, struct error *err)
{
	if (spec_load_filters(&fork->spec, err) < 0 || spec_validate(&fork->spec, err) < 0)
		return -1;
	return session_create(&fork->spec, &fork->options, ret, err);
}

void fork_end(struct fork *fork)
{
	spec_free(&fork->spec);
	snapshot_free(&fork->snapshot);
	close_fd(&fork->lock);
	snapshots_close(&fork->snapshots);
}

json_t *snapshot_describe(const struct snapshot *snapshot)
{
	const json_t *spec = snapshot->spec;

	return json_pack("{s:s, s:s?, s:s, s:s?, s:I, s:s, s:s?, s:I, s:i, s:b}", "id", snapshot->id, "name",
		snapshot->name[0] ? snapshot->name : NULL, "session", snapshot->session, "parent",
		snapshot->parent[0] ? snapshot->parent : NULL, "created_s", (json_int_t)snapshot->created_s, "root",
		json_string_value(json_object_get(spec, "root")) ?: "", "root_path",
		json_string_value(json_object_get(spec, "root_path")), "bytes", (json_int_t)snapshot->bytes, "layers",
		(int)count_strings(snapshot->layers), "shared", snapshot->shared);
}

int snapshot_delete(const struct snapshots *snapshots, const char *text, bool shared_only, char ret_id[SNAPSHOT_ID_SIZE],
	struct error *err)
{
	struct snapshot snapshot = {.layers = NULL};
	int r;

	/* A whole id needs no reading, so that one that is damaged can be removed. */
	if (!shared_only && snapshot_id_valid(text))
		strcpy(ret_id, text);
	else if (snapshots_find(snapshots, text, shared_only, &snapshot, err) == 0)
		strcpy(ret_id, snapshot.id);
	else
		return -1;
	snapshot_free(&snapshot);
	r = snapshots_remove(snapshots, ret_id, err);
	/* Which says that there is none. */
	return r > 0 ? snapshots_find(snapshots, ret_id, shared_only, &snapshot, err) : r;
}
