/* SPDX-License-Identifier: MIT */
/* What there was in a tree, as a scan tells it, right or wrong, and what is different later. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/fileops.h"
#include "session/listing.h"

/* --- scans --- */

static struct {
	uint8_t data[8 << 20];
	size_t length;
} scan;

static void put(const void *data, size_t length)
{
	assert_true(scan.length + length <= sizeof scan.data);
	memcpy(scan.data + scan.length, data, length);
	scan.length += length;
}

static void directory(uint32_t count, uint32_t errnum)
{
	put(&(struct fileop_directory){count, errnum}, sizeof(struct fileop_directory));
}

static void node(const char *name, uint32_t mode, uint64_t inode, uint64_t size, uint64_t ctime_ns)
{
	struct fileop_node told = {inode, size, ctime_ns, mode, (uint32_t)strlen(name)};

	put(&told, sizeof told);
	put(name, strlen(name));
}

static void file(const char *name, uint64_t size)
{
	node(name, S_IFREG | 0644, 1, size, 1);
}

static void folder(const char *name)
{
	node(name, S_IFDIR | 0755, 1, 40, 1);
}

/* Of what was put since the last time. */
static struct listing *parse(void)
{
	/* As large as it is, for a sanitizer to see what reads past it. */
	void *exact = malloc(scan.length + 1);
	struct listing *listing;

	assert_non_null(exact);
	memcpy(exact, scan.data, scan.length);
	listing = listing_parse(exact, scan.length);
	free(exact);
	scan.length = 0;
	return listing;
}

/* --- differences --- */

static void add(char *text, size_t size, char letter, const json_t *path)
{
	size_t length = strlen(text);
	const json_t *encoded = json_object_get(path, "base64");

	snprintf(text + length, size - length, "%c%s%s ", letter, encoded ? "=" : "",
		json_string_value(encoded ?: path));
}

/* «A path:size … M path:size … D path …», with what is left out and why it is incomplete behind. Releases both. */
static const char *differences(struct listing *before, struct listing *after)
{
	static const char *const keys[] = {"created", "modified", "deleted"};
	static char text[64 << 10];
	json_t *changes, *change;
	size_t i;

	assert_non_null(before);
	assert_non_null(after);
	changes = listing_compare(before, after, "/w");
	*text = '\0';
	for (int key = 0; key < 3; key++)
		json_array_foreach(json_object_get(changes, keys[key]), i, change) {
			json_t *size = json_object_get(change, "size");

			add(text, sizeof text, "AMD"[key], json_object_get(change, "path") ?: change);
			if (size)
				sprintf(text + strlen(text) - 1, ":%lld ", (long long)json_integer_value(size));
		}
	if (json_integer_value(json_object_get(changes, "omitted")))
		sprintf(text + strlen(text), "+%lld ", (long long)json_integer_value(json_object_get(changes, "omitted")));
	if (json_object_get(changes, "incomplete"))
		sprintf(text + strlen(text), "! %s ", json_string_value(json_object_get(changes, "incomplete")));
	if (*text)
		text[strlen(text) - 1] = '\0';
	json_decref(changes);
	listing_release(&before);
	listing_release(&after);
	assert_null(before);
	return text;
}

static struct listing *small_tree(void)
{
	directory(4, 0);
	file("a", 1);
	folder("d/");
	file("m", 3);
	node("z", S_IFLNK | 0777, 7, 5, 9);
	directory(2, 0);
	folder("e/");
	file("f", 2);
	directory(0, 0);
	return parse();
}

static void what_is_the_same_is_not_told(void **state)
{
	assert_string_equal(differences(small_tree(), small_tree()), "");
	assert_string_equal(differences(listing_empty(), listing_empty()), "");
}

static void all_is_new_or_gone(void **state)
{
	assert_string_equal(
		differences(listing_empty(), small_tree()), "Aa:1 Ad/:0 Ad/e/:0 Ad/f:2 Am:3 Az:5");
	assert_string_equal(differences(small_tree(), listing_empty()), "Da Dd/ Dd/e/ Dd/f Dm Dz");
}

static struct listing *one(uint32_t mode, uint64_t inode, uint64_t size, uint64_t ctime_ns)
{
	directory(1, 0);
	node(S_ISDIR(mode) ? "x/" : "x", mode, inode, size, ctime_ns);
	if (S_ISDIR(mode))
		directory(0, 0);
	return parse();
}

static void modified_is_what_differs_in_anything(void **state)
{
	const uint32_t reg = S_IFREG | 0644, dir = S_IFDIR | 0755;

	assert_string_equal(differences(one(reg, 1, 2, 3), one(reg, 1, 2, 3)), "");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(reg, 9, 2, 3)), "Mx:2");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(reg, 1, 9, 3)), "Mx:9");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(reg, 1, 2, 9)), "Mx:2");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(S_IFREG | 0600, 1, 2, 3)), "Mx:2");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(S_IFIFO | 0644, 1, 2, 3)), "Mx:2");
	/* A directory changes with what is in it, which is told of itself. */
	assert_string_equal(differences(one(dir, 1, 2, 3), one(dir, 9, 9, 9)), "");
	assert_string_equal(differences(one(dir, 1, 2, 3), one(S_IFDIR | 0700, 1, 2, 3)), "Mx/:0");
	assert_string_equal(differences(one(reg, 1, 2, 3), one(dir, 1, 2, 3)), "Ax/:0 Dx");
}

static void paths_are_sorted_by_their_bytes(void **state)
{
	struct listing *after;

	directory(6, 0);
	file("a", 1);
	file("a-", 1);
	file("a.txt", 1);
	folder("a/");
	file("a0", 1);
	file("\xc3\xa4", 1);
	directory(1, 0);
	file("b", 1);
	after = parse();
	assert_string_equal(
		differences(listing_empty(), after), "Aa:1 Aa-:1 Aa.txt:1 Aa/:0 Aa/b:1 Aa0:1 A\xc3\xa4:1");
}

static void what_is_not_utf8_says_so(void **state)
{
	struct listing *after;

	directory(2, 0);
	folder("d\xff/");
	file("\n", 1);
	assert_null(parse()); /* not sorted */
	directory(2, 0);
	file("\n", 1);
	folder("d\xff/");
	directory(1, 0);
	file("x", 1);
	after = parse();
	assert_string_equal(differences(listing_empty(), after), "A\n:1 A=ZP8v:0 A=ZP8veA==:1");
}

static void what_lies_deepest_is_only_counted(void **state)
{
	char name[20];
	struct listing *after;
	const char *text;

	directory(2, 0);
	folder("a/");
	file("z", 1);
	directory(300, 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "%03d", i);
		file(name, 1);
	}
	after = parse();
	text = differences(listing_empty(), after);
	assert_non_null(strstr(text, "Aa/197:1 Az:1 +102"));
	assert_null(strstr(text, "a/198"));
}

static struct listing *not_looked_into(int errnum, int other_errnum)
{
	directory(3, 0);
	folder("d/");
	folder("e/");
	file("f", 1);
	directory(0, (uint32_t)errnum);
	directory(0, (uint32_t)other_errnum);
	return parse();
}

static struct listing *looked_into(void)
{
	directory(3, 0);
	folder("d/");
	folder("e/");
	file("f", 2);
	directory(1, 0);
	file("x", 1);
	directory(0, 0);
	return parse();
}

static void what_is_not_known_is_neither_new_nor_gone(void **state)
{
	struct listing *unknown;

	assert_string_equal(differences(looked_into(), not_looked_into(EACCES, 0)),
		"Mf:1 ! /w/d/ was not looked into: Permission denied");
	assert_string_equal(differences(not_looked_into(E2BIG, 0), looked_into()),
		"Mf:2 ! /w/d/ was not looked into: there are too many files and directories");
	assert_string_equal(differences(not_looked_into(ETIME, ETIME), not_looked_into(ETIME, EACCES)),
		"! /w/d/, and 1 other, were not looked into: there was no time left");
	/* Mounts are no part of it. */
	assert_string_equal(differences(not_looked_into(EXDEV, 0), not_looked_into(EXDEV, 0)), "");
	assert_string_equal(differences(not_looked_into(EACCES, 0), listing_empty()),
		"Dd/ De/ Df ! /w/d/ was not looked into: Permission denied");
	directory(0, EACCES);
	unknown = parse();
	assert_string_equal(differences(unknown, looked_into()), "! /w/ was not looked into: Permission denied");
}

static void what_is_left_out_is_not_there(void **state)
{
	struct listing *before = small_tree(), *after;

	listing_leave_out(before, "a");
	listing_leave_out(before, "nothing");
	assert_string_equal(differences(before, small_tree()), "Aa:1");
	before = small_tree();
	listing_leave_out(before, "z");
	listing_leave_out(before, "f"); /* not in the tree itself */
	after = small_tree();
	listing_leave_out(after, "z");
	listing_leave_out(after, "a");
	assert_string_equal(differences(before, after), "Da");
}

static void the_newest_is_a_files(void **state)
{
	struct listing *listing;

	directory(3, 0);
	node("a", S_IFREG | 0644, 1, 1, 5);
	node("b", S_IFREG | 0644, 1, 1, 7);
	node("c/", S_IFDIR | 0755, 1, 1, 9);
	directory(0, 0);
	listing = parse();
	assert_true(listing_newest(listing) == 7);
	listing_release(&listing);
}

static void several_hold_one(void **state)
{
	struct listing *listing = small_tree(), *held = listing_hold(listing);

	assert_ptr_equal(listing, held);
	listing_release(&listing);
	assert_in_range(listing_bytes(held), 200, 2000);
	listing_release(&held);
	listing_release(&held);
}

/* --- what makes no sense --- */

static void every_beginning_is_refused(void **state)
{
	size_t length;

	listing_release(&(struct listing *){small_tree()});
	directory(1, 0);
	folder("d/");
	directory(1, 0);
	file("f", 1);
	length = scan.length;
	for (size_t i = 0; i < length; i++)
		assert_null(listing_parse(scan.data, i));
	put("x", 1);
	assert_null(parse());
}

static void bad_nodes_are_refused(void **state)
{
	const struct {
		const char *name;
		uint32_t mode;
	} cases[] = {{"", S_IFREG}, {"a/b", S_IFREG}, {"a/", S_IFREG}, {"/", S_IFDIR}, {"a", S_IFDIR},
		{"a//", S_IFDIR}, {"a/b/", S_IFDIR}, {".", S_IFREG}, {"..", S_IFREG}, {"./", S_IFDIR},
		{"../", S_IFDIR}, {"x", 0}, {"x", 0170000}, {"x", S_IFREG | 0200000}, {"", S_IFDIR}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		directory(1, 0);
		node(cases[i].name, cases[i].mode, 1, 1, 1);
		if (S_ISDIR(cases[i].mode))
			directory(0, 0);
		assert_null(parse());
	}
	directory(1, 0);
	put(&(struct fileop_node){.mode = S_IFREG, .name_length = 3}, sizeof(struct fileop_node));
	put("a\0b", 3);
	assert_null(parse());
	directory(1, 0);
	put(&(struct fileop_node){.mode = S_IFREG, .name_length = UINT32_MAX}, sizeof(struct fileop_node));
	put("abc", 3);
	assert_null(parse());
	directory(1, 0);
	node("x", S_IFREG, 1, UINT64_MAX, 1);
	assert_null(parse());
	directory(2, 0);
	file("a", 1);
	file("a", 1);
	assert_null(parse());
	directory(UINT32_MAX, 0);
	assert_null(parse());
	directory(1, EACCES);
	file("a", 1);
	assert_null(parse());
	directory(0, 4096);
	assert_null(parse());
}

static void too_many_are_refused(void **state)
{
	char name[20];

	for (int more = 0; more < 2; more++) {
		struct listing *listing;

		directory((uint32_t)(FILEOP_SCAN_MAX + more), 0);
		for (int i = 0; i < FILEOP_SCAN_MAX + more; i++) {
			snprintf(name, sizeof name, "%06d", i);
			file(name, 1);
		}
		listing = parse();
		assert_int_equal(!listing, more);
		listing_release(&listing);
	}
}

static struct listing *deep(unsigned depth, const char *name, bool last_is_read)
{
	for (unsigned i = 0; i < depth; i++) {
		directory(1, 0);
		folder(name);
	}
	directory(last_is_read, last_is_read ? 0 : ENAMETOOLONG);
	if (last_is_read)
		file("f", 1);
	return parse();
}

static void too_deep_is_refused(void **state)
{
	char name[255];
	struct listing *listing = deep(FILEOP_DEPTH_MAX, "d/", false);

	assert_non_null(listing);
	assert_non_null(strstr(differences(listing_empty(), listing), "d/d/d/:0 +56 ! /w/d/d/"));
	assert_null(deep(FILEOP_DEPTH_MAX, "d/", true));
	listing = deep(FILEOP_DEPTH_MAX - 1, "d/", true);
	assert_non_null(listing);
	listing_release(&listing);
	memset(name, 'n', sizeof name - 2);
	strcpy(name + sizeof name - 2, "/");
	listing = deep(16, name, true);
	assert_non_null(listing);
	assert_non_null(strstr(differences(listing, listing_empty()), "n/f"));
	assert_null(deep(17, name, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_the_same_is_not_told),
		cmocka_unit_test(all_is_new_or_gone),
		cmocka_unit_test(modified_is_what_differs_in_anything),
		cmocka_unit_test(paths_are_sorted_by_their_bytes),
		cmocka_unit_test(what_is_not_utf8_says_so),
		cmocka_unit_test(what_lies_deepest_is_only_counted),
		cmocka_unit_test(what_is_not_known_is_neither_new_nor_gone),
		cmocka_unit_test(what_is_left_out_is_not_there),
		cmocka_unit_test(the_newest_is_a_files),
		cmocka_unit_test(several_hold_one),
		cmocka_unit_test(every_beginning_is_refused),
		cmocka_unit_test(bad_nodes_are_refused),
		cmocka_unit_test(too_many_are_refused),
		cmocka_unit_test(too_deep_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
