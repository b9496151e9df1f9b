/* SPDX-License-Identifier: MIT */
/* Lines from a descriptor and back: boundaries, lines above the limit, EOF, and a reader that does not read. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp/reader.h"
#include "mcp/writer.h"

enum { LIMIT = 10 };

/* Appends what the reader has to say: lines as they are, «!» for one that is too long, «$» for the end. */
static void drain(struct reader *reader, char *log)
{
	for (;;) {
		const char *line;
		size_t length;

		switch (reader_next(reader, &line, &length)) {
		case READER_AGAIN:
			return;
		case READER_LINE:
			sprintf(log + strlen(log), "[%.*s]", (int)length, line);
			break;
		case READER_TOO_LONG:
			strcat(log, "!");
			break;
		case READER_END:
			strcat(log, "$");
			return;
		}
	}
}

static const struct {
	const char *input, *expected;
} cases[] = {
	{"", "$"},
	{"a\n", "[a]$"},
	{"\n\n", "[][]$"},
	{"a\nbc\n", "[a][bc]$"},
	{"a\nbc", "[a]$"},
	{"0123456789\n", "[0123456789]$"},
	{"0123456789a\n", "!$"},
	{"0123456789a\nb\n", "![b]$"},
	{"x\n0123456789abcdefghijklmnopqrstuvwxyz0123456789\nb\n0123456789a\n\nc\n",
		"[x]![b]![][c]$"},
	{"0123456789abcdef", "$"},
};

/* Each input, in pieces of each size. */
static void test_lines(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		size_t whole = strlen(cases[i].input);

		for (size_t piece = 1; piece <= whole + 1; piece++) {
			struct reader reader;
			char log[256] = "";
			int fds[2];

			assert_int_equal(pipe(fds), 0);
			reader_init(&reader, fds[0], LIMIT);
			for (size_t at = 0; at < whole; at += piece) {
				size_t length = whole - at < piece ? whole - at : piece;

				assert_int_equal(
					write(fds[1], cases[i].input + at, length), length);
				reader_fill(&reader);
				drain(&reader, log);
			}
			close(fds[1]);
			reader_fill(&reader);
			drain(&reader, log);
			if (strcmp(log, cases[i].expected) != 0)
				fail_msg("\"%s\" by %zu: %s", cases[i].input, piece, log);
			reader_free(&reader);
			close(fds[0]);
		}
	}
}

/* A line without an end costs no more memory than the limit, whatever its length. */
static void test_endless_line(void **state)
{
	struct reader reader;
	char log[64] = "", *block = malloc(1 << 16);
	int fds[2];

	memset(block, 'x', 1 << 16);
	assert_int_equal(pipe(fds), 0);
	assert_true(fcntl(fds[1], F_SETPIPE_SZ, 1 << 17) > 0);
	reader_init(&reader, fds[0], 100000);
	for (int i = 0; i < 500; i++) {
		assert_int_equal(write(fds[1], block, 1 << 16), 1 << 16);
		reader_fill(&reader);
		drain(&reader, log);
		assert_true(reader.size <= 1 << 19);
	}
	assert_int_equal(write(fds[1], "\nafter\n", 7), 7);
	reader_fill(&reader);
	drain(&reader, log);
	assert_string_equal(log, "![after]");
	reader_free(&reader);
	close(fds[0]);
	close(fds[1]);
	free(block);
}

/* Nobody reads: flushing returns, all is kept, and it comes out in order. */
static void check_slow_reader(int read_fd, int write_fd)
{
	struct writer writer;
	size_t sent = 0, received = 0;
	char *block = malloc(100000), *got = malloc(100000);

	writer_init(&writer, write_fd);
	for (; sent < 1000000; sent += 100000) {
		memset(block, 'a' + (int)(sent / 100000), 100000);
		assert_int_equal(writer_add(&writer, block, 100000), 0);
		alarm(30); /* a flush that blocks ends the test */
		assert_int_equal(writer_flush(&writer), 0);
		alarm(0);
	}
	assert_true(writer_pending(&writer) > 0);
	while (received < sent) {
		struct pollfd poll_fd = {.fd = read_fd, .events = POLLIN};
		ssize_t n;

		assert_int_equal(writer_flush(&writer), 0);
		assert_int_equal(poll(&poll_fd, 1, 20000), 1);
		n = read(read_fd, got, 100000);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++, received++)
			if (got[i] != 'a' + (int)(received / 100000))
				fail_msg("byte %zu is %c", received, got[i]);
	}
	assert_int_equal(writer_pending(&writer), 0);
	close(read_fd);
	assert_int_equal(writer_add(&writer, "x", 1), 0);
	assert_int_equal(writer_flush(&writer), -1);
	assert_int_equal(fcntl(write_fd, F_GETFL) & O_NONBLOCK, 0); /* others share it */
	writer_free(&writer);
	close(write_fd);
	free(block);
	free(got);
}

static void test_slow_reader(void **state)
{
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	check_slow_reader(fds[0], fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	check_slow_reader(fds[0], fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_endless_line),
		cmocka_unit_test(test_slow_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
