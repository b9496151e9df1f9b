/* SPDX-License-Identifier: MIT */
/* Spec → JSON → spec, result → JSON, and the sentences. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "sandbox/result.h"
#include "util/error.h"
#include "util/utf8.h"

static void bytes_are_formatted(void **state)
{
	const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {{0, "0 bytes"}, {1, "1 byte"}, {900, "900 bytes"}, {1024, "1 KiB"},
		{1536, "1.5 KiB"}, {512ull << 20, "512 MiB"}, {3ull << 29, "1.5 GiB"},
		{(128ull << 20) + 12345678, "139.77 MiB"}, {100ull << 20, "100 MiB"},
		{UINT64_MAX, "16 EiB"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];

		format_bytes(cases[i].bytes, text, sizeof text);
		assert_string_equal(text, cases[i].text);
	}
}

static void durations_are_formatted(void **state)
{
	const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {{0, "0 ms"}, {250, "250 ms"}, {1000, "1 s"}, {1500, "1.5 s"}, {30000, "30 s"},
		{3600000, "3600 s"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];

		format_duration_ms(cases[i].ms, text, sizeof text);
		assert_string_equal(text, cases[i].text);
	}
}

/* A spec in which no field has its default. */
static void make_spec(struct spec *spec)
{
	struct exec_spec *compile, *run;

	spec_init(spec);
	spec->root = ROOT_DIRECTORY;
	spec->root_path = strdup("/srv/\xff"); /* not UTF-8 */
	spec->root_read_only = true;
	spec->network = NETWORK_HOST;
	spec->publish[0] = (struct publish_spec){8080, 80};
	spec->publish[1] = (struct publish_spec){0, 81};
	spec->publish_count = 2;
	spec->uid = 1000;
	spec->gid = 100;
	free(spec->hostname);
	spec->hostname = strdup("häuschen");
	spec_add_bind(spec, "/a", "/b", true);
	spec_add_tmpfs(spec, "/c", 1 << 20);
	spec_add_file(spec, "/workspace/x", "a\0b", 3, 0600);
	spec_add_file(spec, "/workspace/empty", "", 0, 0);
	spec->limits = (struct limits){1ull << 40, 2, 3, 4, 5, 6, 7, 8, 9};
	spec->cgroup = strdup("/sys/fs/cgroup/x");
	spec->require_cgroup = true;
	spec->capture = true;
	spec->tty = true;
	spec->execs_count = 2;
	compile = &spec->execs[0];
	run = &spec->execs[1];
	compile->phase = "compile";
	exec_add_arg(compile, "cc");
	compile->stdin_kind = STDIN_NULL;
	run->phase = "run";
	exec_add_arg(run, "./a.out");
	exec_add_arg(run, "\xfe\xff");
	exec_add_arg(run, "");
	exec_set_env(run, "A", "ä");
	run->cwd = strdup("/workspace");
	run->timeout_ms = 1234;
	run->stdin_kind = STDIN_DATA;
	run->stdin_data = strdup("in");
	run->stdin_length = 2;
}

/* As text, and back: what a server sends to its supervisors. */
static json_t *through_text(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT | REPORT_JSON_DUMP_FLAGS);
	json_error_t error;
	json_t *loaded;

	assert_non_null(text);
	loaded = json_loads(text, REPORT_JSON_LOAD_FLAGS, &error);
	assert_non_null(loaded);
	free(text);
	json_decref(object);
	return loaded;
}

static void what_was_left_out_of_a_spec_can_be_written_and_read_again(void **state)
{
	json_t *least = json_pack("{s:[{s:[s]}]}", "execs", "argv", "true"), *written;
	struct spec spec, back;
	struct error err;

	assert_int_equal(spec_from_json(least, &spec, &err), 0);
	written = through_text(spec_to_json(&spec));
	assert_int_equal(spec_from_json(written, &back, &err), 0);
	assert_null(back.execs[0].phase);
	assert_string_equal(back.execs[0].argv[0], "true");
	json_decref(least);
	json_decref(written);
	spec_free(&spec);
	spec_free(&back);
}

static void spec_survives_the_way_through_json(void **state)
{
	struct spec spec, back;
	struct error err;
	json_t *object, *again;

	make_spec(&spec);
	object = through_text(spec_to_json(&spec));
	assert_int_equal(spec_from_json(object, &back, &err), 0);
	assert_int_equal(back.root, ROOT_DIRECTORY);
	assert_string_equal(back.root_path, "/srv/\xff");
	assert_int_equal(back.network, NETWORK_HOST);
	assert_int_equal(back.limits.memory_bytes, 1ull << 40);
	assert_int_equal(back.mounts_count, 2);
	assert_string_equal(back.mounts[0].source, "/a");
	assert_true(back.mounts[0].read_only);
	assert_null(back.mounts[1].source);
	assert_int_equal(back.mounts[1].size_bytes, 1 << 20);
	assert_int_equal(back.files[0].length, 3);
	assert_memory_equal(back.files[0].content, "a\0b", 3);
	assert_int_equal(back.files[1].length, 0);
	assert_int_equal(back.execs_count, 2);
	assert_string_equal(back.execs[1].argv[1], "\xfe\xff");
	assert_string_equal(back.execs[1].argv[2], "");
	assert_null(back.execs[1].argv[3]);
	assert_string_equal(back.execs[1].phase, "run");
	assert_memory_equal(back.execs[1].stdin_data, "in", 2);
	assert_null(back.execs[0].env);
	again = spec_to_json(&back); /* and every field that is not named above */
	assert_true(json_equal(object, again));
	json_decref(object);
	json_decref(again);
	spec_free(&spec);
	spec_free(&back);
}

static void bad_specs_are_refused(void **state)
{
	const struct {
		const char *json, *text;
	} cases[] = {
		{"[]", "spec: an object is expected"},
		{"{\"x\": 1}", "spec: x: there is no such key"},
		{"{\"limits\": {\"pids\": -1}}",
			"spec: limits: pids: a whole number from 0 to 4294967295 is expected"},
		{"{\"limits\": {\"pids\": 4294967296}}",
			"spec: limits: pids: a whole number from 0 to 4294967295 is expected"},
		{"{\"limits\": {\"pids\": 1.5}}",
			"spec: limits: pids: a whole number from 0 to 4294967295 is expected"},
		{"{\"tty\": 1}", "spec: tty: true or false is expected"},
		{"{\"root\": \"x\"}",
			"spec: root: \"host\", or another name that is defined here, is expected"},
		{"{\"hostname\": \"a\\u0000b\"}", "spec: hostname: there is a NUL in it"},
		{"{\"hostname\": {\"base64\": \"!\"}}", "spec: hostname: this is not base64"},
		{"{\"hostname\": 1}",
			"spec: hostname: a string or {\"base64\": \"…\"} is expected"},
		{"{\"execs\": [{}, {}, {}, {}, {}]}", "spec: execs: at most 4 are possible"},
		{"{\"execs\": [{\"argv\": [\"a\", 1]}]}",
			"spec: execs: [0]: argv: [1]: a string or {\"base64\": \"…\"} is expected"},
		{"{\"mounts\": [{\"kind\": \"bind\"}, 1]}",
			"spec: mounts: [1]: an object is expected"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		json_t *object = json_loads(cases[i].json, REPORT_JSON_LOAD_FLAGS, NULL);
		struct spec spec;
		struct error err = {0};

		assert_non_null(object);
		assert_int_equal(spec_from_json(object, &spec, &err), -1);
		assert_string_equal(err.text, cases[i].text);
		json_decref(object);
	}
}

static void set_output(
	struct captured *captured, const char *head, const char *tail, uint64_t total)
{
	captured->head_length = strlen(head);
	captured->tail_length = strlen(tail);
	captured->data = malloc(captured->head_length + captured->tail_length + 1);
	memcpy(captured->data, head, captured->head_length);
	memcpy(captured->data + captured->head_length, tail, captured->tail_length);
	captured->total = total;
}

/* One command that ended as it should. */
static void make_run(struct spec *spec, struct run_result *result)
{
	spec_init(spec);
	spec->capture = true;
	spec->execs_count = 1;
	spec->execs[0].phase = "run";
	spec->execs[0].timeout_ms = 30000;
	exec_add_arg(&spec->execs[0], "prog");
	memset(result, 0, sizeof *result);
	result->execs_count = 1;
	result->execs[0].phase = "run";
}

static const char *string_at(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t integer_at(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static bool null_at(const json_t *object, const char *key)
{
	return json_is_null(json_object_get(object, key));
}

/* The documented keys, all of them, whatever happened. */
static void assert_keys(const json_t *object, const char *const *keys)
{
	size_t count = 0;

	for (; keys[count]; count++)
		if (!json_object_get(object, keys[count]))
			fail_msg("no key %s", keys[count]);
	assert_int_equal(json_object_size(object), count);
}

static void assert_result_keys(const json_t *object)
{
	static const char *const keys[] = {"ended_by", "exit_code", "signal", "exec_error",
		"status", "phase", "message", "error", "stdout", "stdout_base64", "stdout_bytes",
		"stdout_omitted_bytes", "stdout_omitted_at", "stderr", "stderr_base64",
		"stderr_bytes", "stderr_omitted_bytes", "stderr_omitted_at", "limits", "limits_hit",
		"refused", "refused_others", "hint", "usage", "phases", "sandbox", "warnings", "output", "timing", NULL};
	static const char *const limits[] = {"memory", "pids", "disk", "inodes", "output",
		"file_size", "cpu", "time", "host_disk", "open_files", NULL};
	static const char *const limit[] = {"value", "unit", "enforced_by", NULL};
	static const char *const usage[] = {"wall_ms", "cpu_user_ms", "cpu_system_ms",
		"memory_peak_bytes", "pids_peak", "disk_used_bytes", NULL};
	static const char *const sandbox[] = {"root", "root_digest", "network", "published", "seccomp", "uid", "gid",
		"landlock", "host_uid", "host_gid", "id_range", "cgroup", NULL};
	static const char *const timing[] = {"setup_ms", "total_ms", NULL};

	assert_keys(object, keys);
	assert_keys(json_object_get(object, "limits"), limits);
	for (size_t i = 0; limits[i]; i++)
		assert_keys(json_object_get(json_object_get(object, "limits"), limits[i]), limit);
	assert_keys(json_object_get(object, "usage"), usage);
	assert_keys(json_object_get(object, "sandbox"), sandbox);
	assert_keys(json_object_get(object, "timing"), timing);
}

static void result_of_a_good_run(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object;

	make_run(&spec, &result);
	set_output(&result.execs[0].output[0], "hä\n", "", 4);
	result.execs[0].usage = (struct usage){12345, 1000, 2001, 4096, 3, 17};
	result.enforced_by[LIMIT_MEMORY] = ENFORCED_WATCHER;
	result.host_uid = result.host_gid = 0x70000000;
	result.id_range = true;
	result.setup_us = 5100;
	strcpy(result.warnings[result.warnings_count++], "weaker");
	object = through_text(run_result_to_json(&result, &spec));
	assert_result_keys(object);
	assert_string_equal(string_at(object, "ended_by"), "exited");
	assert_int_equal(integer_at(object, "exit_code"), 0);
	assert_int_equal(integer_at(object, "status"), 0);
	assert_true(null_at(object, "signal"));
	assert_true(null_at(object, "message"));
	assert_true(null_at(object, "error"));
	assert_string_equal(string_at(object, "stdout"), "hä\n");
	assert_true(null_at(object, "stdout_base64"));
	assert_int_equal(integer_at(object, "stdout_bytes"), 4);
	assert_int_equal(integer_at(object, "stdout_omitted_bytes"), 0);
	assert_string_equal(string_at(object, "stderr"), "");
	assert_int_equal(json_array_size(json_object_get(object, "phases")), 0);
	assert_int_equal(json_array_size(json_object_get(object, "warnings")), 1);
	assert_int_equal(integer_at(json_object_get(object, "sandbox"), "host_uid"), 0x70000000);
	assert_string_equal(string_at(json_object_get(object, "sandbox"), "root"), "host");
	assert_true(json_number_value(json_object_get(
			    json_object_get(object, "usage"), "wall_ms")) == 12.345);
	object = (json_decref(object), run_result_to_json(&result, &spec));
	assert_string_equal(string_at(json_object_get(json_object_get(object, "limits"), "memory"),
				    "enforced_by"),
		"watcher");
	assert_string_equal(
		string_at(json_object_get(json_object_get(object, "limits"), "cpu"), "enforced_by"),
		"none");
	assert_true(null_at(json_object_get(json_object_get(object, "limits"), "cpu"), "value"));
	json_decref(object);
	run_result_free(&result);
	spec_free(&spec);
}

static void output_that_is_not_text(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object;

	make_run(&spec, &result);
	set_output(&result.execs[0].output[0], "a\xff", "", 2);
	set_output(&result.execs[0].output[1], "x", "", 1);
	object = through_text(run_result_to_json(&result, &spec));
	assert_string_equal(string_at(object, "stdout"), "a\xef\xbf\xbd");
	assert_string_equal(string_at(object, "stdout_base64"), "Yf8=");
	assert_true(null_at(object, "stderr_base64"));
	json_decref(object);
	run_result_free(&result);
	spec_free(&spec);
}

static void output_with_a_nul(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object;

	make_run(&spec, &result);
	set_output(&result.execs[0].output[0], "a?b", "", 3);
	result.execs[0].output[0].data[1] = '\0';
	object = through_text(run_result_to_json(&result, &spec));
	assert_int_equal(json_string_length(json_object_get(object, "stdout")), 3);
	assert_memory_equal(string_at(object, "stdout"), "a\0b", 3);
	json_decref(object);
	run_result_free(&result);
	spec_free(&spec);
}

static void output_with_its_middle_left_out(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object;

	make_run(&spec, &result);
	set_output(&result.execs[0].output[0], "head", "tail\n", 4194304 + 9);
	set_output(&result.execs[0].output[1], "head\n", "\xfftail", 100 + 10);
	object = run_result_to_json(&result, &spec);
	assert_string_equal(
		string_at(object, "stdout"), "head\n[… 4194304 bytes left out …]\ntail\n");
	assert_string_equal(
		string_at(object, "stderr"), "head\n[… 100 bytes left out …]\n\xef\xbf\xbdtail");
	assert_int_equal(integer_at(object, "stdout_omitted_bytes"), 4194304);
	assert_int_equal(integer_at(object, "stdout_omitted_at"), 4);
	assert_int_equal(integer_at(object, "stdout_bytes"), 4194313);
	assert_string_equal(string_at(object, "stderr_base64"), "aGVhZAr/dGFpbA==");
	assert_int_equal(integer_at(object, "stderr_omitted_at"), 5);
	json_decref(object);
	run_result_free(&result);
	spec_free(&spec);
}

static void result_of_a_failed_setup(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object, *error;

	make_run(&spec, &result);
	spec_free(&spec);
	spec_init(&spec); /* nothing had been made of the options yet */
	result.execs[0] = (struct exec_result){.ended_by = ENDED_SETUP, .exit_code = -1};
	error_set(&result.execs[0].error, EPERM, "mounting proc");
	error_hint(&result.execs[0].error, "Do this.");
	object = run_result_to_json(&result, &spec);
	assert_result_keys(object);
	error = json_object_get(object, "error");
	assert_string_equal(string_at(object, "ended_by"), "setup");
	assert_int_equal(integer_at(object, "status"), 125);
	assert_true(null_at(object, "exit_code"));
	assert_true(null_at(object, "stdout"));
	assert_string_equal(string_at(error, "text"), "mounting proc: Operation not permitted");
	assert_string_equal(string_at(error, "hint"), "Do this.");
	assert_string_equal(string_at(error, "errno"), "EPERM");
	assert_string_equal(string_at(object, "message"), "mounting proc: Operation not permitted");
	json_decref(object);
	spec_free(&spec);
}

static void phases(void **state)
{
	struct run_result result;
	struct spec spec;
	json_t *object, *list;

	make_run(&spec, &result);
	spec.execs_count = 2;
	spec.execs[0].phase = "compile";
	spec.execs[1].phase = "run";
	exec_add_arg(&spec.execs[1], "a.out");
	result.execs[0].phase = "compile";
	result.execs[0].exit_code = 1;
	set_output(&result.execs[0].output[1], "bad\n", "", 4);
	object = run_result_to_json(&result, &spec);
	list = json_object_get(object, "phases");
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(string_at(json_array_get(list, 0), "stderr"), "bad\n");
	assert_string_equal(string_at(object, "phase"), "compile");
	assert_string_equal(string_at(object, "stderr"), "bad\n");
	assert_int_equal(integer_at(object, "status"), 1);
	assert_string_equal(string_at(object, "message"),
		"compile failed with exit status 1, so the program was not run");
	json_decref(object);

	result.execs[0].exit_code = 0;
	result.execs[1].phase = "run";
	result.execs_count = 2;
	set_output(&result.execs[1].output[0], "out", "", 3);
	object = run_result_to_json(&result, &spec);
	list = json_object_get(object, "phases");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(string_at(json_array_get(list, 1), "stdout"), "out");
	assert_string_equal(string_at(object, "stdout"), "out");
	assert_string_equal(string_at(object, "stderr"), "");
	json_decref(object);
	run_result_free(&result);
	spec_free(&spec);
}

static void assert_sentence(
	const struct run_result *result, const struct spec *spec, const char *expected)
{
	char sentence[1024];

	run_result_sentence(result, spec, sentence, sizeof sentence);
	assert_string_equal(sentence, expected);
}

static void add_hit(struct exec_result *exec, enum limit_kind limit, uint64_t value, uint64_t used,
	const char *known_from)
{
	exec->hits[exec->hits_count++] = (struct limit_hit){
		.limit = limit, .value = value, .used = used, .known_from = known_from};
}

static void sentences_of_limits(void **state)
{
	struct run_result result;
	struct exec_result *exec = &result.execs[0];
	struct spec spec;

	make_run(&spec, &result);
	assert_sentence(&result, &spec, "");
	exec->exit_code = 3;
	assert_sentence(&result, &spec, "");

	exec->ended_by = ENDED_OOM;
	exec->signal = SIGKILL;
	add_hit(exec, LIMIT_MEMORY, 128 << 20, 130 << 20, "watcher");
	assert_sentence(&result, &spec,
		"killed: memory limit of 128 MiB reached (130 MiB used, known from watcher); "
		"raise it with --memory");

	exec->hits_count = 0;
	exec->ended_by = ENDED_TIMEOUT;
	exec->usage.wall_us = 30012000;
	assert_sentence(
		&result, &spec, "killed: time limit of 30 s reached; raise it with --timeout");

	exec->ended_by = ENDED_EXITED;
	add_hit(exec, LIMIT_PIDS, 256, 256, "pids.events");
	add_hit(exec, LIMIT_DISK, 256 << 20, 256 << 20, "fstatfs");
	add_hit(exec, LIMIT_CPU, 500, 1000, "cpu.stat"); /* not told: it was asked for */
	assert_sentence(&result, &spec,
		"limit of 256 processes and threads reached (256 seen, known from pids.events); "
		"raise it with --pids-limit; "
		"writable space of 256 MiB is full (256 MiB used, known from fstatfs); "
		"raise it with --disk");

	exec->hits_count = 0;
	exec->ended_by = ENDED_SIGNALED;
	exec->signal = SIGXFSZ;
	add_hit(exec, LIMIT_FILE_SIZE, 1 << 20, 1 << 20, "SIGXFSZ");
	assert_sentence(&result, &spec,
		"killed: file size limit of 1 MiB reached (1 MiB written, known from SIGXFSZ); "
		"raise it with --file-size");
	spec_free(&spec);
}

static void every_limit_has_its_message(void **state)
{
	const struct {
		struct limit_hit hit;
		const char *message;
	} cases[] = {
		{{LIMIT_INODES, 1024, 1024, "fstatfs", NULL},
			"limit of 1024 files and directories reached (1024 made, known from fstatfs); "
			"raise it with --disk"},
		{{LIMIT_OUTPUT, 1 << 20, 5 << 20, "counted", NULL},
			"output of 5 MiB is more than the 1 MiB that are kept of a stream: its middle "
			"was left out; raise it with --output-limit"},
		{{LIMIT_CPU, 500, 2000, "cpu.stat", NULL},
			"CPU time held to 0.5 CPUs (2 wanted, known from cpu.stat); "
			"raise it with --cpus"},
		{{LIMIT_TIME, 1500, 1501, "clock", NULL},
			"time limit of 1.5 s reached; raise it with --timeout"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char message[256];

		limit_hit_message(&cases[i].hit, message, sizeof message);
		assert_string_equal(message, cases[i].message);
	}
}

static void sentences_of_signals_and_execve(void **state)
{
	struct run_result result;
	struct exec_result *exec = &result.execs[0];
	struct spec spec;

	make_run(&spec, &result);
	exec->ended_by = ENDED_SIGNALED;
	exec->signal = SIGSEGV;
	assert_sentence(&result, &spec, "ended by SIGSEGV (Segmentation fault)");
	exec->signal = 40;
	assert_sentence(&result, &spec, "ended by SIG40");

	exec->ended_by = ENDED_EXITED;
	exec->exit_code = 127;
	exec->exec_errno = ENOENT;
	error_set(&exec->error, 0, "prog: not there");
	strcpy(exec->error.text + strlen(exec->error.text), "\x1b[31m\xff");
	assert_sentence(&result, &spec, "prog: not there?[31m\xef\xbf\xbd");
	exec->exit_code = 126;
	exec->exec_errno = EACCES;
	exec->error.text[0] = '\0';
	assert_sentence(&result, &spec, "cannot execute the command: Permission denied");
	spec_free(&spec);
}

/* Whatever the size of the buffer, what is in it is text. */
static void sentences_are_cut_between_characters(void **state)
{
	struct run_result result;
	struct spec spec;
	char sentence[64];

	make_run(&spec, &result);
	error_set(&result.execs[0].error, 0, "ääääää€€€€€😀😀😀");
	result.execs[0].exec_errno = EACCES;
	for (size_t size = 1; size <= sizeof sentence; size++) {
		memset(sentence, 'x', sizeof sentence);
		run_result_sentence(&result, &spec, sentence, size);
		assert_true(strlen(sentence) < size);
		assert_true(utf8_valid(sentence, strlen(sentence)));
	}
	spec_free(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_formatted),
		cmocka_unit_test(durations_are_formatted),
		cmocka_unit_test(what_was_left_out_of_a_spec_can_be_written_and_read_again),
		cmocka_unit_test(spec_survives_the_way_through_json),
		cmocka_unit_test(bad_specs_are_refused),
		cmocka_unit_test(result_of_a_good_run),
		cmocka_unit_test(output_that_is_not_text),
		cmocka_unit_test(output_with_a_nul),
		cmocka_unit_test(output_with_its_middle_left_out),
		cmocka_unit_test(result_of_a_failed_setup),
		cmocka_unit_test(phases),
		cmocka_unit_test(sentences_of_limits),
		cmocka_unit_test(every_limit_has_its_message),
		cmocka_unit_test(sentences_of_signals_and_execve),
		cmocka_unit_test(sentences_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
