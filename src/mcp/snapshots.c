/* SPDX-License-Identifier: MIT */
/* The tools of snapshots: sandbox_snapshot, sandbox_restore, sandbox_fork, snapshot_list, snapshot_delete. */
#define _GNU_SOURCE
#include "mcp/snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/config.h"
#include "image/snapshots.h"
#include "mcp/arguments.h"
#include "mcp/run_arguments.h"
#include "mcp/sandbox_tools.h"
#include "mcp/schema.h"
#include "mcp/server.h"
#include "mcp/step.h"
#include "mcp/tools.h"
#include "report/report.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { TTL_MAX_S = 24 * 60 * 60, COPY_MS = 10 * 60 * 1000 /* for what has to be copied */ };

#define SNAPSHOT_ID_FIELD                                                                                              \
	{                                                                                                              \
		"snapshot_id", "string", "The snapshot: its id, or its name", true                                     \
	}

#define HOW_FIELDS                                                                                                     \
	{"how", "string",                                                                                              \
		"frozen: nothing was copied; or copied, as something ran in the sandbox, which stood still meanwhile", true},  \
		{"copied_bytes", "integer", "Bytes of content that were copied", true}

static uint64_t max_bytes(const struct mcp_options *options)
{
	static const struct config none;

	return config_snapshots_bytes(options->config ? options->config : &none);
}

json_t *snapshot_wanted(const struct mcp_options *options)
{
	return json_pack("{s:I}", "max_bytes", (json_int_t)max_bytes(options));
}

void snapshot_add_result(json_t *result, const json_t *answer)
{
	json_t *structured = json_object_get(result, "structuredContent"), *told = json_object_get(answer, "snapshot");
	json_t *record = json_object_get(told, "snapshot");
	const char *failed = json_string_value(json_object_get(told, "failed"));
	cleanup_free char *text = NULL;

	if (!structured || !told)
		return;
	if (failed) {
		json_object_set(structured, "snapshot_error", json_object_get(told, "failed"));
		text = xasprintf("[no snapshot: %s]", failed);
	} else {
		json_object_set(structured, "snapshot_id", json_object_get(record, "id"));
		json_object_set(structured, "snapshot_how", json_object_get(told, "how"));
		text = xasprintf("[snapshot_id: %s]", json_string_value(json_object_get(record, "id")) ?: "");
	}
	json_array_append_new(json_object_get(result, "content"), json_pack("{s:s, s:s}", "type", "text", "text", text));
}

static int read_snapshot(const json_t *arguments, const char **ret, struct error *err)
{
	if (argument_string(arguments, "snapshot_id", true, ret, err) < 0)
		return -1;
	return **ret ? 0 : error_set(err, 0, "snapshot_id: expected the id or the name of a snapshot, got an empty string");
}

/* ---- sandbox_snapshot ---- */

static json_t *describe_snapshot(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD,
		{"name", "string", "A name for it, which no other has: 1 to 64 of [A-Za-z0-9_.-], with a letter first", false},
		{0}};
	static const struct schema_field output[] = {{"snapshot_id", "string", "The snapshot, for the other tools", true},
		{"name", "string", "Its name, where it has one", false},
		{"parent_id", "string", "The snapshot that the sandbox had made, or come from, before", false}, HOW_FIELDS,
		{"bytes", "integer", "What it takes on the disk besides earlier ones", true}, {0}};

	(void)options;
	return schema_tool("sandbox_snapshot", "Keep the state of a sandbox",
		"Keeps all files of a sandbox as they are now, for sandbox_restore and sandbox_fork; the sandbox goes on. "
		"Processes and contexts are no part of it, nor is what is in memory (/dev/shm). Takes milliseconds, however "
		"much there is, while none of these are there; else what it has written is copied, which takes longer. A "
		"snapshot outlives the sandbox, until snapshot_delete.",
		schema_object(input, true), schema_object(output, false), 0);
}

static int prepare_snapshot(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "name", NULL};
	json_t *request = json_pack("{s:s, s:I}", "op", "snapshot", "max_bytes", (json_int_t)max_bytes(options));
	const char *name = NULL;

	if (sandbox_ask(arguments, known, request, step, err) < 0 ||
		argument_string(arguments, "name", false, &name, err) < 0)
		return -1;
	if (name && !snapshot_name_valid(name))
		return argument_wrong("name", "1 to 64 letters, digits and _.-, with a letter first",
			json_object_get(arguments, "name"), err);
	if (name)
		json_object_set_new(request, "name", json_string(name));
	step->wait_ms += COPY_MS;
	return 0;
}

static void set_given(json_t *object, const char *key, json_t *value)
{
	if (value && !json_is_null(value))
		json_object_set(object, key, value);
}

static json_t *finish_snapshot(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	const json_t *record = json_object_get(answer, "snapshot");
	const char *id = json_string_value(json_object_get(record, "id")) ?: "";
	json_t *object = json_pack("{s:s, s:O, s:O, s:O}", "snapshot_id", id, "how", json_object_get(answer, "how"),
		"copied_bytes", json_object_get(answer, "copied_bytes"), "bytes", json_object_get(record, "bytes"));

	(void)options, (void)kept;
	set_given(object, "name", json_object_get(record, "name"));
	set_given(object, "parent_id", json_object_get(record, "parent"));
	return sandbox_result(object, "snapshot_id: %s\nThe files of the sandbox %s are kept as they are now (%s).", id,
		sandbox_id_of(arguments), json_string_value(json_object_get(answer, "how")) ?: "");
}

const struct tool tool_sandbox_snapshot = {
	.name = "sandbox_snapshot",
	.describe = describe_snapshot,
	.prepare = prepare_snapshot,
	.finish = finish_snapshot,
};

/* ---- sandbox_restore ---- */

static json_t *describe_restore(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SANDBOX_ID_FIELD, SNAPSHOT_ID_FIELD, {0}};
	static const struct schema_field output[] = {{"sandbox_id", "string", "The sandbox", true},
		{"snapshot_id", "string", "The snapshot that it is as now", true},
		{"ended_commands", "integer", "Commands that ran, and were ended", true},
		{"ended_contexts", "integer", "Contexts likewise", true}, {0}};

	(void)options;
	return schema_tool("sandbox_restore", "Bring a sandbox back to a snapshot",
		"Makes the files of a sandbox what they were in a snapshot of it, or of another sandbox with the same root: an "
		"earlier or a later one. What runs in it is ended, contexts too: the next code in one begins it "
		"anew, without its variables, and its result says so. What was written since is gone unless it is in a snapshot as well. Installed packages stay.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE | HINT_IDEMPOTENT);
}

static int prepare_restore(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "snapshot_id", NULL};
	json_t *request = json_pack("{s:s}", "op", "restore");
	const char *snapshot = NULL;

	(void)options;
	if (sandbox_ask(arguments, known, request, step, err) < 0 || read_snapshot(arguments, &snapshot, err) < 0)
		return -1;
	json_object_set_new(request, "snapshot", json_string(snapshot));
	return 0;
}

static json_t *finish_restore(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	const char *id = sandbox_id_of(arguments);
	json_t *object = json_pack("{s:s, s:O, s:O, s:O}", "sandbox_id", id, "snapshot_id",
		json_object_get(answer, "snapshot_id"), "ended_commands", json_object_get(answer, "ended_commands"),
		"ended_contexts", json_object_get(answer, "ended_contexts"));

	json_int_t contexts = json_integer_value(json_object_get(answer, "ended_contexts"));

	(void)options, (void)kept;
	return sandbox_result(object,
		"The files of the sandbox %s are those of the snapshot %s again; %lld commands and %lld contexts were ended.%s", id,
		json_string_value(json_object_get(answer, "snapshot_id")) ?: "",
		(long long)json_integer_value(json_object_get(answer, "ended_commands")), (long long)contexts,
		contexts > 0 ? " The next code in a context begins it anew, without its variables." : "");
}

const struct tool tool_sandbox_restore = {
	.name = "sandbox_restore",
	.describe = describe_restore,
	.prepare = prepare_restore,
	.finish = finish_restore,
};

/* ---- sandbox_fork ---- */

static json_t *describe_fork(const struct mcp_options *options)
{
	cleanup_free char *network = run_describe_network(options);
	const struct schema_field input[] = {
		{"sandbox_id", "string", "The sandbox to be forked as it is now. Either this or snapshot_id is needed", false},
		{"snapshot_id", "string", "The snapshot to make a sandbox of: its id, or its name", false},
		{"ttl", "number", "Seconds without a call that names it, after which it ends; as the first one if not given", false},
		{"timeout", "number", "Wall time in seconds of a sandbox_exec that names none; as the first one if not given", false},
		{"memory_limit", "string", "Memory of all that runs in it, such as \"512m\"; as the first one if not given", false},
		{"network", "string", network, false}, {0}};
	static const struct schema_field output[] = {{"sandbox_id", "string", "The new sandbox, for the other tools", true},
		{"root", "string", "host, with the host's toolchains, or the name of an image", true},
		{"language", "string", "Of code that names none; absent where there is none", false}, HOW_FIELDS,
		{"ends_when_idle_s", "number", "It ends after so long without a call that names it", true},
		{"limits", "object", "Each limit: value, unit, enforced_by", true},
		{"warnings", "string[]", "Where this host's sandbox is weaker than usual", true}, {0}};

	return schema_tool("sandbox_fork", "Make a sandbox of another one",
		"Makes a sandbox with all files and packages of another one, or of a snapshot, and returns its sandbox_id. Both "
		"go on apart from each other. Takes milliseconds, as does sandbox_snapshot; processes and contexts stay with the first "
		"one. Network, limits and language are those of the first one, where none are given, as far as this server "
		"allows them; ports that it publishes are not.",
		schema_object(input, true), schema_object(output, false), 0);
}

/* The one of the two that is given. */
static int read_of(const json_t *arguments, const char **ret, struct error *err)
{
	const char *snapshot = NULL;
	const char *sandbox = sandbox_id_of(arguments);

	if (argument_string(arguments, "snapshot_id", false, &snapshot, err) < 0)
		return -1;
	if ((*sandbox != '\0') == (snapshot && *snapshot))
		return error_set(err, 0, "expected one of sandbox_id and snapshot_id, got %s", *sandbox ? "both" : "none");
	if (*sandbox && !session_id_valid(sandbox))
		return sandbox_unknown(sandbox, err);
	*ret = *sandbox ? sandbox : snapshot;
	return 0;
}

static bool is_given(const json_t *arguments, const char *name)
{
	const json_t *value = json_object_get(arguments, name);

	return value && !json_is_null(value);
}

static int read_ttl(const json_t *arguments, json_t *request, struct error *err)
{
	double seconds = 0;

	if (!is_given(arguments, "ttl"))
		return 0;
	if (argument_number(arguments, "ttl", "a number of seconds", &seconds, err) < 0)
		return -1;
	if (!(seconds > 0) || seconds > TTL_MAX_S)
		return argument_wrong("ttl", "a number of seconds above 0, at most 86400", json_object_get(arguments, "ttl"), err);
	json_object_set_new(request, "idle_ms", json_integer(seconds < 0.001 ? 1 : (json_int_t)(seconds * 1000)));
	return 0;
}

static int read_changes(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	uint64_t timeout_ms = 0;

	if (read_ttl(arguments, step->request, err) < 0)
		return -1;
	if (is_given(arguments, "timeout")) {
		if (run_argument_timeout(options, arguments, &timeout_ms, err) < 0)
			return -1;
		json_object_set_new(step->request, "timeout_ms", json_integer((json_int_t)timeout_ms));
	}
	if (is_given(arguments, "memory_limit")) {
		if (run_argument_memory(options, arguments, &step->spec.limits.memory_bytes, err) < 0)
			return -1;
		json_object_set_new(
			step->request, "memory_bytes", json_integer((json_int_t)step->spec.limits.memory_bytes));
	}
	if (is_given(arguments, "network")) {
		cleanup_free char *network = NULL;

		if (run_argument_network(options, arguments, &step->spec, err) < 0)
			return -1;
		network = spec_network_text(&step->spec);
		json_object_set_new(step->request, "network", json_string(network));
	}
	return 0;
}

static int prepare_fork(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {"sandbox_id", "snapshot_id", "ttl", "timeout", "memory_limit", "network", NULL};
	static const char *const hidden[] = {"container_id", "session_id", NULL};
	const char *of = NULL;

	if (arguments_refuse_unknown(arguments, known, hidden, err) < 0 || read_of(arguments, &of, err) < 0)
		return -1;
	step->kind = STEP_SNAPSHOT;
	step->request = json_pack("{s:s, s:s, s:I, s:i, s:I, s:{s:b, s:b, s:s?}}", "op", "fork", "of", of, "max_bytes",
		(json_int_t)max_bytes(options), "shared_max", (int)options->sessions_max, "memory_max",
		(json_int_t)options->memory_max_bytes, "network_ceiling", "host", options->network.host, "pasta",
		options->network.pasta, "hosts", options->network.hosts_text);
	return read_changes(options, arguments, step, err);
}

static json_t *finish_fork(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	const json_t *sandbox = json_object_get(answer, "sandbox");
	const char *id = json_string_value(json_object_get(answer, "id")) ?: "";
	const char *language = json_string_value(json_object_get(answer, "language")) ?: "";
	double idle_s = (double)json_integer_value(json_object_get(answer, "idle_ms")) / 1000;
	json_t *object = json_pack("{s:s, s:O, s:O, s:O, s:f, s:O, s:O}", "sandbox_id", id, "root",
		json_object_get(sandbox, "root"), "how", json_object_get(answer, "how"), "copied_bytes",
		json_object_get(answer, "copied_bytes"), "ends_when_idle_s", idle_s, "limits",
		json_object_get(answer, "limits"), "warnings", json_object_get(answer, "warnings"));

	(void)options, (void)arguments, (void)kept;
	if (*language)
		json_object_set_new(object, "language", json_string(language));
	return sandbox_result(object,
		"sandbox_id: %s\nIt has all files of the first one; it ends after %.0f s without a call that names it.", id,
		idle_s);
}

const struct tool tool_sandbox_fork = {
	.name = "sandbox_fork",
	.describe = describe_fork,
	.prepare = prepare_fork,
	.finish = finish_fork,
};

/* ---- snapshot_list ---- */

static json_t *describe_list(const struct mcp_options *options)
{
	static const struct schema_field input[] = {{0}};
	static const struct schema_field output[] = {
		{"snapshots", "object[]",
			"The oldest first, each: snapshot_id, name where it has one, sandbox_id that it was made of (which need not "
			"live), parent_id where there is one, root (host, or the name of an image), age_s, bytes",
			true},
		{0}};

	(void)options;
	return schema_tool("snapshot_list", "List snapshots",
		"The snapshots of sandboxes that there are, also of those that have ended: what sandbox_restore and sandbox_fork "
		"take. Takes no arguments.",
		schema_object(input, true), schema_object(output, false), HINT_READ_ONLY | HINT_IDEMPOTENT);
}

static int prepare_list(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {NULL};

	(void)options;
	step->kind = STEP_SNAPSHOT;
	step->request = json_pack("{s:s}", "op", "list");
	return arguments_refuse_unknown(arguments, known, NULL, err);
}

static json_t *entry_of(const json_t *snapshot)
{
	const char *root = json_string_value(json_object_get(snapshot, "root")) ?: "";
	double age_s = (double)(time(NULL) - json_integer_value(json_object_get(snapshot, "created_s")));
	json_t *entry = json_pack("{s:O, s:O, s:O, s:f, s:O}", "snapshot_id", json_object_get(snapshot, "id"), "sandbox_id",
		json_object_get(snapshot, "session"), "root",
		json_object_get(snapshot, strcmp(root, "host") == 0 ? "root" : "root_path"), "age_s",
		age_s > 0 ? age_s : 0.0, "bytes", json_object_get(snapshot, "bytes"));

	set_given(entry, "name", json_object_get(snapshot, "name"));
	set_given(entry, "parent_id", json_object_get(snapshot, "parent"));
	return entry;
}

static json_t *finish_list(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	json_t *list = json_array(), *snapshot, *entry;
	cleanup_free char *text = xstrdup("");
	size_t i;

	(void)options, (void)arguments, (void)kept;
	json_array_foreach(json_object_get(answer, "snapshots"), i, snapshot)
		json_array_append_new(list, entry_of(snapshot));
	json_array_foreach(list, i, entry) {
		cleanup_free char *before = text;
		const char *name = json_string_value(json_object_get(entry, "name"));

		text = xasprintf("%s%s  %s%sof %s, %.0f s old\n", before,
			json_string_value(json_object_get(entry, "snapshot_id")), name ?: "", name ? ", " : "",
			json_string_value(json_object_get(entry, "sandbox_id")),
			json_number_value(json_object_get(entry, "age_s")));
	}
	return sandbox_result(json_pack("{s:o}", "snapshots", list), "%s",
		*text ? text : "There is no snapshot; sandbox_snapshot makes one.");
}

const struct tool tool_snapshot_list = {
	.name = "snapshot_list",
	.describe = describe_list,
	.prepare = prepare_list,
	.finish = finish_list,
};

/* ---- snapshot_delete ---- */

static json_t *describe_delete(const struct mcp_options *options)
{
	static const struct schema_field input[] = {SNAPSHOT_ID_FIELD, {0}};
	static const struct schema_field output[] = {{"snapshot_id", "string", "The snapshot that is no more", true}, {0}};

	(void)options;
	return schema_tool("snapshot_delete", "Delete a snapshot",
		"Deletes a snapshot, whose id sandbox_restore and sandbox_fork then no longer know. Sandboxes that were made of it, or "
		"restored to it, and other snapshots keep what they have.",
		schema_object(input, true), schema_object(output, false), HINT_DESTRUCTIVE);
}

static int prepare_delete(const struct mcp_options *options, const json_t *arguments, struct step *step, struct error *err)
{
	static const char *const known[] = {"snapshot_id", NULL};
	const char *snapshot = NULL;

	(void)options;
	if (arguments_refuse_unknown(arguments, known, NULL, err) < 0 || read_snapshot(arguments, &snapshot, err) < 0)
		return -1;
	step->kind = STEP_SNAPSHOT;
	step->request = json_pack("{s:s, s:s}", "op", "delete", "snapshot", snapshot);
	return 0;
}

static json_t *finish_delete(const struct mcp_options *options, const json_t *arguments, const json_t *answer,
	const struct output *kept)
{
	const char *id = json_string_value(json_object_get(answer, "id")) ?: "";

	(void)options, (void)arguments, (void)kept;
	return sandbox_result(json_pack("{s:s}", "snapshot_id", id), "The snapshot %s was deleted.", id);
}

const struct tool tool_snapshot_delete = {
	.name = "snapshot_delete",
	.describe = describe_delete,
	.prepare = prepare_delete,
	.finish = finish_delete,
};
