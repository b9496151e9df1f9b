/* SPDX-License-Identifier: MIT */
/* The ring of a background command's output, with sizes that a test can count. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "session/backlog.h"

static void assert_reads(
	const struct backlog *backlog, uint64_t offset, size_t length, uint64_t from, const char *expected)
{
	char data[64] = "";
	ssize_t n = backlog_read(backlog, &offset, data, length);

	assert_int_equal(n, strlen(expected));
	assert_int_equal(offset, from);
	assert_memory_equal(data, expected, strlen(expected));
}

static void all_is_there_while_it_fits(void **state)
{
	struct backlog backlog;

	(void)state;
	assert_int_equal(backlog_open(&backlog), 0);
	assert_reads(&backlog, 0, 10, 0, "");
	assert_reads(&backlog, 5, 10, 0, "");
	backlog_add(&backlog, "abc", 3, 8);
	backlog_add(&backlog, "defgh", 5, 8);
	assert_int_equal(backlog_start(&backlog), 0);
	assert_reads(&backlog, 0, 64, 0, "abcdefgh");
	assert_reads(&backlog, 2, 3, 2, "cde");
	assert_reads(&backlog, 8, 64, 8, "");
	assert_reads(&backlog, 9, 64, 8, "");
	backlog_close(&backlog);
}

static void the_oldest_is_overwritten(void **state)
{
	struct backlog backlog;

	(void)state;
	assert_int_equal(backlog_open(&backlog), 0);
	backlog_add(&backlog, "abcdef", 6, 8);
	backlog_add(&backlog, "ghijk", 5, 8);
	assert_int_equal(backlog.total, 11);
	assert_int_equal(backlog_start(&backlog), 3);
	assert_int_equal(backlog_bytes(&backlog), 8);
	assert_reads(&backlog, 0, 64, 3, "defghijk");
	assert_reads(&backlog, 7, 2, 7, "hi");
	backlog_add(&backlog, "0123456789ABCDEFGHIJ", 20, 8);
	assert_reads(&backlog, 0, 64, 23, "CDEFGHIJ");
	backlog_close(&backlog);
}

/* Others need the room: what there is becomes the ring. */
static void a_smaller_limit_keeps_what_there_is(void **state)
{
	struct backlog backlog;

	(void)state;
	assert_int_equal(backlog_open(&backlog), 0);
	backlog_add(&backlog, "abcde", 5, 100);
	backlog_add(&backlog, "fgh", 3, 4);
	assert_int_equal(backlog_bytes(&backlog), 5);
	assert_reads(&backlog, 0, 64, 3, "defgh");
	backlog_add(&backlog, "i", 1, 100);
	assert_reads(&backlog, 0, 64, 4, "efghi");
	backlog_close(&backlog);
}

static void without_any_room_it_only_counts(void **state)
{
	struct backlog backlog;

	(void)state;
	assert_int_equal(backlog_open(&backlog), 0);
	backlog_add(&backlog, "abc", 3, 0);
	assert_int_equal(backlog.total, 3);
	assert_int_equal(backlog_start(&backlog), 3);
	assert_reads(&backlog, 0, 64, 3, "");
	backlog_add(&backlog, "d", 1, 100);
	assert_int_equal(backlog_start(&backlog), 4);
	backlog_close(&backlog);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_there_while_it_fits),
		cmocka_unit_test(the_oldest_is_overwritten),
		cmocka_unit_test(a_smaller_limit_keeps_what_there_is),
		cmocka_unit_test(without_any_room_it_only_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
