/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor does with what the first process of a sandbox says. sandbox_run is the real one; the
 * sandbox is a socket on which a test has put messages, and then nobody.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/create.h"
#include "sandbox/result.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"
#include "util/error.h"

static struct sent {
	struct agent_message message;
	size_t length;
	size_t descriptors;
} sent[4];
static size_t sent_count;

int sandbox_create(const struct spec *spec, struct stdio *stdio, struct sandbox *ret, struct run_result *result,
	struct error *err)
{
	int sockets[2], fds[WIRE_FDS_MAX];

	*ret = SANDBOX_NONE;
	ret->spec = spec;
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), errno);
	ret->socket = sockets[0];
	for (size_t i = 0; i < sent_count; i++) {
		for (size_t j = 0; j < sent[i].descriptors; j++)
			fds[j] = open("/", O_PATH | O_CLOEXEC);
		assert_return_code(wire_send(sockets[1], &sent[i].message, sent[i].length, fds, sent[i].descriptors, 1), errno);
		for (size_t j = 0; j < sent[i].descriptors; j++)
			close(fds[j]);
	}
	close(sockets[1]);
	return 0;
}

int sandbox_exec(struct sandbox *sandbox, const struct exec_spec *exec, bool more, struct stdio *stdio,
	struct error *err)
{
	return error_set(err, ENOSYS, "another command");
}

void sandbox_kill(struct sandbox *sandbox)
{
}

void sandbox_wait(struct sandbox *sandbox, struct rusage *ret_usage)
{
	memset(ret_usage, 0, sizeof *ret_usage);
}

void sandbox_release(struct sandbox *sandbox)
{
	close(sandbox->socket);
}

void add_warning(struct run_result *result, const char *format, ...)
{
}

static void send_later(uint32_t type, int32_t value, bool whole, size_t descriptors)
{
	sent[sent_count++] = (struct sent){
		.message = {.type = type, .value = value},
		.length = whole ? sizeof(struct agent_message) : offsetof(struct agent_message, error),
		.descriptors = descriptors,
	};
}

/* Runs with what send_later was told. Fails where a descriptor is left open. *ret owns nothing. */
static void run(struct run_result *ret)
{
	struct run_result result;
	static const struct run_control control = {.cancel_fd = -1};
	struct spec spec;
	int before = dup(2), after;

	close(before);
	spec_init(&spec);
	exec_add_arg(&spec.execs[0], "true");
	spec.execs[0].stdin_kind = STDIN_NULL;
	spec.execs_count = 1;
	spec.capture = true;
	sandbox_run(&spec, &control, &result);
	*ret = result;
	run_result_free(&result);
	spec_free(&spec);
	sent_count = 0;
	after = dup(2);
	close(after);
	assert_int_equal(before, after);
}

static void a_command_ends_with_its_own_status(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	send_later(AGENT_ENDED, 7 << 8, false, 0);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_EXITED);
	assert_int_equal(result.execs[0].exit_code, 7);
}

static void a_failure_while_setting_up_may_not_bring_descriptors(void **state)
{
	struct run_result result;

	send_later(AGENT_FAILED, EPERM, true, 4);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
	assert_non_null(strstr(result.execs[0].error.text, "makes no sense"));
}

static void an_empty_message_brings_no_descriptors(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 3);
	sent[0].length = 0;
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
}

static void descriptors_that_do_not_fit_are_closed(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 3);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
}

static void descriptors_are_not_taken_once_code_runs(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	send_later(AGENT_ENDED, 0, false, 5);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_EXITED);
}

static void nothing_is_created_twice(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	send_later(AGENT_CREATED, 0, false, 1);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
}

static void a_text_without_an_end_is_ended(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	send_later(AGENT_EXEC_FAILED, ENOENT, true, 0);
	memset(&sent[1].message.error, 'x', sizeof sent[1].message.error);
	run(&result);
	assert_int_equal(result.execs[0].exit_code, 127);
	assert_int_equal(strlen(result.execs[0].error.text), ERROR_TEXT_MAX - 1);
	assert_string_equal(result.execs[0].error.hint, "");
}

/* What runs in the sandbox must not speak to the person in front of the terminal in nsbox's name. */
static void a_text_is_shown_as_text_and_advice_is_not_taken(void **state)
{
	static const char hostile[] = "\x1b]0;x\x07\n\x7f\xc2\x9b""2J\xff" "gr\xc3\xbcn";
	static const uint32_t types[] = {AGENT_FAILED, AGENT_NOT_STARTED, AGENT_EXEC_FAILED};
	struct run_result result;

	for (size_t i = 0; i < 3; i++) {
		const struct error *err = &result.execs[0].error;

		if (types[i] != AGENT_FAILED)
			send_later(AGENT_CREATED, 0, false, 1);
		send_later(types[i], EPERM, true, 0);
		strcpy(sent[sent_count - 1].message.error.text, hostile);
		strcpy(sent[sent_count - 1].message.error.hint, "sudo \x1b[1m sh");
		run(&result);
		assert_non_null(strstr(err->text, "?]0;x??\?\?\?2J?gr\xc3\xbcn"));
		assert_string_equal(err->hint, types[i] == AGENT_FAILED ? "sudo ?[1m sh" : "");
		assert_int_equal(result.execs[0].ended_by, types[i] == AGENT_EXEC_FAILED ? ENDED_EXITED : ENDED_SETUP);
	}
}

/* All types in all states but those that are right, short and whole. */
static void what_comes_out_of_turn_ends_the_sandbox(void **state)
{
	struct run_result result;

	for (int created = 0; created < 2; created++)
		for (uint32_t type = 0; type < 10; type++)
			for (int whole = 0; whole < 2; whole++) {
				bool right = created ? type == AGENT_NOT_STARTED || type == AGENT_EXEC_FAILED
						     : type == AGENT_FAILED;

				if ((right && whole) || (!whole && type == (created ? AGENT_ENDED : AGENT_CREATED)))
					continue;
				if (created)
					send_later(AGENT_CREATED, 0, false, 1);
				send_later(type, EPERM, whole, 0);
				run(&result);
				assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
				assert_non_null(strstr(result.execs[0].error.text, "makes no sense"));
			}
}

static void numbers_that_cannot_be_end_the_sandbox(void **state)
{
	static const struct {
		uint32_t type;
		int32_t value;
		uint64_t user_us, system_us, memory_bytes;
	} sendings[] = {
		{.type = AGENT_ENDED, .memory_bytes = UINT64_MAX},
		{.type = AGENT_ENDED, .memory_bytes = UINT64_C(1) << 62},
		{.type = AGENT_ENDED, .user_us = UINT64_MAX},
		{.type = AGENT_ENDED, .system_us = UINT64_C(1) << 50},
		{.type = AGENT_ENDED, .value = 1 << 16},
		{.type = AGENT_ENDED, .value = INT32_MIN},
		{.type = AGENT_ENDED, .value = 126},
		{.type = AGENT_ENDED, .value = -1},
		{.type = AGENT_EXEC_FAILED, .value = 0},
		{.type = AGENT_EXEC_FAILED, .value = -ENOENT},
		{.type = AGENT_EXEC_FAILED, .value = INT32_MAX},
		{.type = AGENT_NOT_STARTED, .value = 0},
		{.type = AGENT_NOT_STARTED, .value = 1 << 20},
	};
	struct run_result result;

	for (size_t i = 0; i < sizeof sendings / sizeof *sendings; i++) {
		struct agent_message *message;

		send_later(AGENT_CREATED, 0, false, 1);
		send_later(sendings[i].type, sendings[i].value, sendings[i].type != AGENT_ENDED, 0);
		message = &sent[1].message;
		message->cpu_user_us = sendings[i].user_us;
		message->cpu_system_us = sendings[i].system_us;
		message->memory_peak_bytes = sendings[i].memory_bytes;
		run(&result);
		assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
		assert_non_null(strstr(result.execs[0].error.text, "makes no sense"));
	}
}

/* 0x7f is how waitpid says «stopped»: no end. */
static void a_status_that_is_no_end_ends_the_sandbox(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	send_later(AGENT_ENDED, 0x7f, false, 0);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SETUP);
}

static void silence_is_the_end_of_the_first_process(void **state)
{
	struct run_result result;

	send_later(AGENT_CREATED, 0, false, 1);
	run(&result);
	assert_int_equal(result.execs[0].ended_by, ENDED_SIGNALED);
	assert_int_equal(result.execs[0].signal, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_ends_with_its_own_status),
		cmocka_unit_test(a_failure_while_setting_up_may_not_bring_descriptors),
		cmocka_unit_test(an_empty_message_brings_no_descriptors),
		cmocka_unit_test(descriptors_that_do_not_fit_are_closed),
		cmocka_unit_test(descriptors_are_not_taken_once_code_runs),
		cmocka_unit_test(nothing_is_created_twice),
		cmocka_unit_test(a_text_without_an_end_is_ended),
		cmocka_unit_test(a_text_is_shown_as_text_and_advice_is_not_taken),
		cmocka_unit_test(what_comes_out_of_turn_ends_the_sandbox),
		cmocka_unit_test(numbers_that_cannot_be_end_the_sandbox),
		cmocka_unit_test(a_status_that_is_no_end_ends_the_sandbox),
		cmocka_unit_test(silence_is_the_end_of_the_first_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
