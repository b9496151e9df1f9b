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
	assert_int_equal(strlen(result.execs[0].error.hint), ERROR_HINT_MAX - 1);
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
		cmocka_unit_test(a_status_that_is_no_end_ends_the_sandbox),
		cmocka_unit_test(silence_is_the_end_of_the_first_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
