/* SPDX-License-Identifier: MIT */
/*
 * A result as the JSON object that `nsbox run --json` prints: see report.h, and nsbox-run(1) for each
 * key. Every key is always there: what does not apply, or is not known, is null. The keys of the
 * whole run's end (ended_by, stdout, usage …) are those of its last command; where the spec has several
 * commands (compile, run), `phases` has the same keys for each that was started.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "sandbox/result.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/utf8.h"

enum { MESSAGE_MAX = 2048 };

/* Text from the host that should be UTF-8 but need not be; an empty one is null. */
static json_t *text_or_null(const char *text)
{
	cleanup_free char *valid = NULL;
	size_t length;

	if (!text || !*text)
		return json_null();
	valid = utf8_replace_invalid(text, strlen(text), &length);
	return json_stringn_nocheck(valid, length);
}

static json_t *known_or_null(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *milliseconds(uint64_t us)
{
	return json_real((double)us / 1000);
}

static json_t *signal_or_null(int signal)
{
	char name[32];

	if (!signal)
		return json_null();
	format_signal(signal, name, sizeof name);
	return json_string(name);
}

/* Sets «PREFIXsuffix». */
static void set_prefixed(json_t *object, const char *prefix, const char *suffix, json_t *value)
{
	char key[64];

	snprintf(key, sizeof key, "%s%s", prefix, suffix);
	json_object_set_new(object, key, value);
}

/* Head and tail as text, with a line between that says how much is missing. */
static json_t *captured_text(const struct captured *captured, uint64_t omitted)
{
	cleanup_free char *head = NULL, *tail = NULL, *text = NULL;
	size_t head_length, tail_length;
	char gap[96];
	int gap_length;

	if (!omitted) {
		head = utf8_replace_invalid(captured->data,
			captured->head_length + captured->tail_length, &head_length);
		return json_stringn_nocheck(head, head_length);
	}
	head = utf8_replace_invalid(captured->data, captured->head_length, &head_length);
	tail = utf8_replace_invalid(
		captured->data + captured->head_length, captured->tail_length, &tail_length);
	gap_length = snprintf(gap, sizeof gap, "%s[… %llu bytes left out …]\n",
		head_length && head[head_length - 1] != '\n' ? "\n" : "",
		(unsigned long long)omitted);
	text = xcalloc(head_length + (size_t)gap_length + tail_length, 1);
	memcpy(text, head, head_length);
	memcpy(text + head_length, gap, (size_t)gap_length);
	memcpy(text + head_length + gap_length, tail, tail_length);
	return json_stringn_nocheck(text, head_length + (size_t)gap_length + tail_length);
}

/* NAME, NAME_base64, NAME_bytes, NAME_omitted_bytes, NAME_omitted_at of one stream. */
static void set_captured(
	json_t *object, const char *name, const struct captured *captured, bool capture)
{
	size_t kept = captured->head_length + captured->tail_length;
	uint64_t omitted = captured->total - kept;
	bool exact = !capture || utf8_valid(captured->data, kept);
	cleanup_free char *encoded = exact ? NULL : base64_encode(captured->data, kept);

	set_prefixed(object, name, "", capture ? captured_text(captured, omitted) : json_null());
	set_prefixed(object, name, "_base64", exact ? json_null() : json_string(encoded));
	set_prefixed(object, name, "_bytes",
		capture ? json_integer((json_int_t)captured->total) : json_null());
	set_prefixed(object, name, "_omitted_bytes",
		capture ? json_integer((json_int_t)omitted) : json_null());
	set_prefixed(object, name, "_omitted_at",
		omitted ? json_integer((json_int_t)captured->head_length) : json_null());
}

void captured_to_json(json_t *object, const char *name, const struct captured *captured)
{
	set_captured(object, name, captured, true);
}

static const char *limit_unit(enum limit_kind limit)
{
	static const char *const units[LIMIT_MAX] = {
		[LIMIT_MEMORY] = "bytes",
		[LIMIT_PIDS] = "processes",
		[LIMIT_DISK] = "bytes",
		[LIMIT_INODES] = "files",
		[LIMIT_OUTPUT] = "bytes",
		[LIMIT_FILE_SIZE] = "bytes",
		[LIMIT_CPU] = "cpus",
		[LIMIT_TIME] = "ms",
		[LIMIT_HOST_DISK] = "bytes",
	};
	return units[limit];
}

/* A value of a limit in the unit above: CPUs are kept in thousandths. */
static json_t *limit_value(enum limit_kind limit, uint64_t value)
{
	return limit == LIMIT_CPU ? json_real((double)value / 1000)
				  : json_integer((json_int_t)value);
}

static json_t *hit_to_json(const struct limit_hit *hit)
{
	char message[ERROR_TEXT_MAX];

	limit_hit_message(hit, message, sizeof message);
	return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:s}", "limit",
		limit_kind_name(hit->limit), "value", limit_value(hit->limit, hit->value), "used",
		limit_value(hit->limit, hit->used), "unit", limit_unit(hit->limit), "known_from",
		hit->known_from, "option", limit_hit_option(hit), "message", message);
}

static json_t *hits_to_json(const struct exec_result *exec)
{
	json_t *array = json_array();

	for (size_t i = 0; i < exec->hits_count; i++)
		json_array_append_new(array, hit_to_json(&exec->hits[i]));
	return array;
}

static json_t *usage_to_json(const struct usage *usage)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "wall_ms", milliseconds(usage->wall_us),
		"cpu_user_ms", milliseconds(usage->cpu_user_us), "cpu_system_ms",
		milliseconds(usage->cpu_system_us), "memory_peak_bytes",
		known_or_null(usage->memory_peak_bytes), "pids_peak",
		known_or_null(usage->pids_peak), "disk_used_bytes",
		(json_int_t)usage->disk_used_bytes);
}

/* The keys that a whole run and each of its phases have in common. */
static void set_exec(
	json_t *object, const struct run_result *result, size_t index, const struct spec *spec)
{
	static const char *const streams[2] = {"stdout", "stderr"};
	const struct exec_result *exec = &result->execs[index];
	bool exited = exec->ended_by == ENDED_EXITED;
	char message[MESSAGE_MAX];

	exec_result_sentence(result, index, spec, message, sizeof message);
	json_object_set_new(object, "ended_by", json_string(ended_by_name(exec->ended_by)));
	json_object_set_new(
		object, "exit_code", exited ? json_integer(exec->exit_code) : json_null());
	json_object_set_new(object, "signal", signal_or_null(exec->signal));
	json_object_set_new(object, "exec_error",
		exec->exec_errno ? json_string(error_name(exec->exec_errno)) : json_null());
	json_object_set_new(object, "phase", json_string(exec->phase ?: "run"));
	json_object_set_new(object, "message", text_or_null(message));
	for (int stream = 0; stream < 2; stream++)
		set_captured(object, streams[stream], &exec->output[stream], spec->capture);
	json_object_set_new(object, "limits_hit", hits_to_json(exec));
	json_object_set_new(object, "refused", refusals_to_json(exec->refused));
	json_object_set_new(object, "refused_others",
		exec->refused ? json_integer((json_int_t)exec->refused->others) : json_null());
	exec_result_hint(exec, spec, message, sizeof message);
	json_object_set_new(object, "hint", text_or_null(message));
	json_object_set_new(object, "usage", usage_to_json(&exec->usage));
}

static json_t *phases_to_json(const struct run_result *result, const struct spec *spec)
{
	json_t *array = json_array();

	for (size_t i = 0; spec->execs_count > 1 && i < result->execs_count; i++) {
		json_t *phase = json_object();

		set_exec(phase, result, i, spec);
		json_array_append_new(array, phase);
	}
	return array;
}

/* `value` 0 means that there is no such limit. */
static void set_limit(
	json_t *limits, const char *name, json_t *value, const char *unit, const char *enforced_by)
{
	json_object_set_new(limits, name,
		json_pack("{s:o, s:s, s:s}", "value", value, "unit", unit, "enforced_by",
			enforced_by));
}

static uint64_t limit_of(
	const struct spec *spec, const struct exec_spec *last, enum limit_kind limit)
{
	const struct limits *limits = &spec->limits;
	const uint64_t values[LIMIT_MAX] = {
		[LIMIT_MEMORY] = limits->memory_bytes,
		[LIMIT_PIDS] = limits->pids,
		[LIMIT_DISK] = limits->disk_bytes,
		[LIMIT_INODES] = limits_disk_inodes(limits),
		[LIMIT_OUTPUT] = spec->capture ? limits->output_bytes : 0,
		[LIMIT_FILE_SIZE] = limits->file_size_bytes,
		[LIMIT_CPU] = limits->cpu_millis,
		[LIMIT_TIME] = last ? last->timeout_ms : 0,
		[LIMIT_HOST_DISK] = limits->disk_floor_bytes,
	};
	return values[limit];
}

static json_t *limits_to_json(const struct run_result *result, const struct spec *spec)
{
	const struct exec_spec *last = NULL;
	bool started = run_result_last(result)->ended_by != ENDED_SETUP;
	uint32_t open_files = spec->limits.open_files;
	json_t *limits = json_object();

	if (result->execs_count && result->execs_count <= spec->execs_count)
		last = &spec->execs[result->execs_count - 1];
	for (int limit = 0; limit < LIMIT_MAX; limit++) {
		uint64_t value = limit_of(spec, last, limit);

		set_limit(limits, limit_kind_name(limit),
			value ? limit_value(limit, value) : json_null(), limit_unit(limit),
			enforced_by_name(value ? result->enforced_by[limit] : ENFORCED_NONE));
	}
	set_limit(limits, "open_files", known_or_null(open_files), "files",
		enforced_by_name(open_files && started ? ENFORCED_RLIMIT : ENFORCED_NONE));
	return limits;
}

json_t *published_to_json(const struct run_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->published_count; i++) {
		const struct result_port *one = &result->published[i];
		json_t *addresses = json_array();

		if (one->v4)
			json_array_append_new(addresses, json_string("127.0.0.1"));
		if (one->v6)
			json_array_append_new(addresses, json_string("::1"));
		json_array_append_new(list,
			json_pack("{s:i, s:o, s:i}", "host_port", one->host_port, "host_addresses", addresses, "port",
				one->port));
	}
	return list;
}

void print_chosen_ports(const struct spec *spec, const struct run_result *result)
{
	for (size_t i = 0; i < result->published_count; i++)
		if (!spec->publish[i].host_port)
			fprintf(stderr, "nsbox: port %u of the sandbox is at 127.0.0.1:%u\n", result->published[i].port,
				result->published[i].host_port);
}

static json_t *sandbox_to_json(const struct run_result *result, const struct spec *spec)
{
	cleanup_free char *network = spec_network_text(spec);

	return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:b, s:o}", "root",
		text_or_null(spec->root == ROOT_HOST ? "host" : spec->root_path), "root_digest",
		text_or_null(spec->root == ROOT_IMAGE ? spec->root_digest : NULL), "network",
		network, "published", published_to_json(result), "seccomp",
		text_or_null(spec->seccomp_name), "landlock",
		result->landlock_abi ? json_integer(result->landlock_abi) : json_null(), "uid", (int)spec->uid, "gid", (int)spec->gid,
		"host_uid", (json_int_t)result->host_uid, "host_gid", (json_int_t)result->host_gid,
		"id_range", (int)result->id_range, "cgroup", text_or_null(result->cgroup));
}

static json_t *warnings_to_json(const struct run_result *result)
{
	json_t *array = json_array();

	for (size_t i = 0; i < result->warnings_count; i++)
		json_array_append_new(array, text_or_null(result->warnings[i]));
	return array;
}

json_t *run_result_walls_to_json(const struct run_result *result, const struct spec *spec)
{
	return json_pack("{s:o, s:o, s:o}", "limits", limits_to_json(result, spec), "sandbox",
		sandbox_to_json(result, spec), "warnings", warnings_to_json(result));
}

static json_t *error_to_json(const struct exec_result *exec)
{
	const struct error *error = &exec->error;

	if (exec->ended_by != ENDED_SETUP)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "text", text_or_null(error->text), "hint",
		text_or_null(error->hint), "errno",
		error->errnum ? json_string(error_name(error->errnum)) : json_null());
}

static json_t *images_to_json(const struct run_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->images_count; i++) {
		const struct result_image *image = &result->images[i];
		size_t length;
		cleanup_free char *data = base64_encode(image->data, image->length);
		cleanup_free char *name =
			utf8_replace_invalid(image->name, strlen(image->name), &length);

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:i, s:s}", "name", name, "mime_type",
				      image->type, "bytes", (int)image->length, "data", data));
	}
	return list;
}

/* A path that the code chose, as text. */
static json_t *path_to_json(const char *path)
{
	size_t length;
	cleanup_free char *valid = utf8_replace_invalid(path, strlen(path), &length);

	return json_stringn_nocheck(valid, length);
}

static json_t *copied_to_json(const struct run_result *result)
{
	const struct result_copied *copied = &result->copied;
	json_t *list;

	if (!copied->asked)
		return json_null();
	list = json_array();
	for (size_t i = 0; i < copied->left_out_count && i < RESULT_LEFT_OUT_MAX; i++)
		json_array_append_new(list, json_pack("{s:o, s:s}", "path", path_to_json(copied->left_out[i].path), "why",
						    copied->left_out[i].why));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "files", (json_int_t)copied->files, "bytes",
		(json_int_t)copied->bytes, "directories", (json_int_t)copied->directories, "links",
		(json_int_t)copied->links, "left_out_count", (json_int_t)copied->left_out_count, "left_out", list,
		"error", text_or_null(copied->error.text));
}

static json_t *files_to_json(const struct result_files *files)
{
	json_t *list = json_array();

	for (size_t i = 0; i < files->count; i++)
		json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "path", path_to_json(files->list[i].path), "offset",
						    (json_int_t)files->list[i].offset, "size",
						    (json_int_t)files->list[i].size));
	return list;
}

json_t *run_result_to_json(const struct run_result *result, const struct spec *spec)
{
	const struct exec_result *last = run_result_last(result);
	json_t *object = json_object();

	json_object_set_new(object, "status", json_integer(run_result_exit_status(result)));
	set_exec(object, result, (size_t)(last - result->execs), spec);
	json_object_set_new(object, "error", error_to_json(last));
	json_object_set_new(object, "phases", phases_to_json(result, spec));
	json_object_set_new(object, "limits", limits_to_json(result, spec));
	json_object_set_new(object, "sandbox", sandbox_to_json(result, spec));
	json_object_set_new(object, "warnings", warnings_to_json(result));
	json_object_set_new(object, "output", copied_to_json(result));
	network_to_json(result->network, object);
	if (spec->collect_images) {
		json_object_set_new(object, "images", images_to_json(result));
		json_object_set_new(
			object, "images_left_out", json_integer(result->images_left_out));
	}
	if (spec->collect_files) {
		json_object_set_new(object, "files", files_to_json(&result->kept_files));
		json_object_set_new(object, "files_omitted", json_integer((json_int_t)result->kept_files.left_out));
	}
	json_object_set_new(object, "timing",
		json_pack("{s:o, s:o}", "setup_ms", milliseconds(result->setup_us), "total_ms",
			milliseconds(result->total_us)));
	return object;
}

size_t run_result_add_kept(const struct run_result *result, json_t *object, int *ret_fds)
{
	const struct exec_result *last = run_result_last(result);
	json_t *kept = json_array();
	size_t count = 0;

	for (int stream = 0; stream < 2; stream++) {
		const struct captured *output = &last->output[stream];
		bool wanted = result->kept_fds[stream] > 0 &&
			      output->total > output->head_length + output->tail_length;

		json_array_append_new(kept, json_boolean(wanted));
		if (wanted)
			ret_fds[count++] = result->kept_fds[stream];
	}
	json_array_append_new(kept, json_boolean(result->kept_files.count > 0));
	if (result->kept_files.count > 0)
		ret_fds[count++] = result->kept_files.fd;
	json_object_set_new(object, "kept", kept);
	json_object_set_new(object, "kept_whole",
		json_pack("[b, b]", result->kept_whole[0], result->kept_whole[1]));
	return count;
}
