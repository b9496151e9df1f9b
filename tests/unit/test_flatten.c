/* SPDX-License-Identifier: MIT */
/* Layers that are merged into one: which, and what that one is. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/duplicate.h"
#include "image/flatten.h"
#include "image/remove.h"
#include "util/error.h"

/* --- which --- */

struct pile {
	uint64_t entries[1000];
	size_t count, highest;
	uint64_t work;
};

static void lay_on(struct pile *pile, uint64_t entries)
{
	struct flatten_range range;
	uint64_t sum = 0;

	memmove(pile->entries + 1, pile->entries, pile->count * sizeof *pile->entries);
	pile->entries[0] = entries;
	pile->count++;
	if (pile->count > pile->highest)
		pile->highest = pile->count;
	if (!flatten_choose(pile->entries, pile->count, &range))
		return;
	assert_true(range.count >= FLATTEN_LEAST && range.first + range.count <= pile->count);
	for (size_t i = 0; i < range.count; i++)
		sum += pile->entries[range.first + i];
	pile->entries[range.first] = sum;
	memmove(pile->entries + range.first + 1, pile->entries + range.first + range.count,
		(pile->count - range.first - range.count) * sizeof *pile->entries);
	pile->count -= range.count - 1;
	pile->work += sum;
}

static void few_are_left_alone(void **state)
{
	uint64_t entries[FLATTEN_FROM] = {0};
	struct flatten_range range;

	assert_false(flatten_choose(entries, 0, &range));
	assert_false(flatten_choose(entries, FLATTEN_FROM - 1, &range));
	assert_true(flatten_choose(entries, FLATTEN_FROM, &range));
	assert_int_equal(range.first, 0);
	assert_int_equal(range.count, FLATTEN_FROM);
}

static void the_big_ones_are_not_merged_with_each_small_one(void **state)
{
	struct pile pile = {.entries = {1000000}, .count = 1};

	for (int i = 0; i < 1000; i++)
		lay_on(&pile, 3);
	assert_int_equal(pile.entries[pile.count - 1], 1000000);
	assert_int_equal(pile.highest, FLATTEN_FROM);
}

static void each_name_is_merged_few_times(void **state)
{
	struct pile pile = {.count = 0};

	for (int i = 0; i < 100000; i++)
		lay_on(&pile, 5);
	assert_int_equal(pile.highest, FLATTEN_FROM);
	/* Of half a million names each as often as the logarithm of that, or less. */
	assert_true(pile.work < 100000 * 5 * 18);
}

static void whatever_their_sizes_are_the_pile_stays_low(void **state)
{
	struct pile pile = {.count = 0};
	uint64_t random = 1;

	for (int i = 0; i < 20000; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		lay_on(&pile, UINT64_C(1) << (random >> 33) % 40);
	}
	assert_int_equal(pile.highest, FLATTEN_FROM);
}

static void sizes_that_grow_downwards(void **state)
{
	uint64_t entries[FLATTEN_FROM], size = 1;
	struct flatten_range range;

	for (size_t i = 0; i < FLATTEN_FROM; i++, size *= 4)
		entries[i] = size;
	assert_true(flatten_choose(entries, FLATTEN_FROM, &range));
	assert_int_equal(range.first, 0);
	assert_int_equal(range.count, FLATTEN_LEAST);
}

/* --- what it is --- */

static char folder[] = "/tmp/nsbox-test-flatten-XXXXXX";

static int make_folder(void **state)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	return !mkdtemp(folder) || chdir(folder) < 0 || mkdir("0", 0700) < 0 || mkdir("1", 0700) < 0 || mkdir("2", 0700) < 0 ||
				       mkdir("made", 0700) < 0
		       ? -1
		       : 0;
}

static int remove_folder(void **state)
{
	struct error err;

	return chdir("/") < 0 ? -1 : remove_tree(AT_FDCWD, folder, &err);
}

static void directory(const char *path, mode_t mode)
{
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void opaque(const char *path)
{
	directory(path, 0755);
	assert_int_equal(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
}

static void file(const char *path, const char *text)
{
	FILE *stream = fopen(path, "w");

	assert_non_null(stream);
	fputs(text, stream);
	fclose(stream);
}

static void whiteout(const char *path)
{
	if (mknod(path, S_IFCHR, makedev(0, 0)) < 0)
		skip();
}

static void set_time(const char *path, time_t seconds)
{
	const struct timespec times[2] = {{seconds, 1}, {seconds, 2}};

	assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static struct stat look(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0 || errno != ENOENT;
}

static bool is_whiteout(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

static bool is_opaque(const char *path)
{
	char value;

	return getxattr(path, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

static void says(const char *path, const char *text)
{
	char seen[100] = "";
	FILE *stream = fopen(path, "r");

	assert_non_null(stream);
	assert_true(fread(seen, 1, sizeof seen - 1, stream) > 0);
	fclose(stream);
	assert_string_equal(seen, text);
}

/* The first `count` of 0, 1, 2, of which `own` are merged, into «made». */
static struct tree_merged merge(size_t own, size_t count, bool open, uint64_t shared[3])
{
	static const char *const names[] = {"0", "1", "2"};
	struct tree_merged merged = {.shared = shared};
	struct merge_layer layers[3];
	struct error err = {0};
	int to = openat(AT_FDCWD, "made", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(shared, 0, 3 * sizeof *shared);
	for (size_t i = 0; i < count; i++)
		layers[i] = (struct merge_layer){.fd = openat(AT_FDCWD, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			.role = i < own ? MERGE_WHOLE : MERGE_BELOW};
	if (tree_merge(layers, count, open, to, 0, &merged, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < count; i++)
		close(layers[i].fd);
	close(to);
	return merged;
}

static void the_upper_ones_hide_the_lower_ones(void **state)
{
	uint64_t shared[3];

	file("0/same", "new");
	file("1/same", "old, and longer");
	file("1/only", "only");
	file("1/gone", "x");
	whiteout("0/gone");
	directory("1/became", 0755);
	file("1/became/x", "x");
	file("0/became", "file");
	file("1/was", "file");
	opaque("0/was");
	file("0/was/in", "in");
	directory("0/both", 0750);
	directory("1/both", 0700);
	file("0/both/a", "a");
	file("1/both/b", "b");
	set_time("0/both", 1000);
	set_time("1/both", 2000);
	set_time("0", 3000);
	assert_int_equal(chmod("0", 0751), 0);
	merge(2, 2, true, shared);
	says("made/same", "new");
	says("made/only", "only");
	says("made/became", "file");
	says("made/was/in", "in");
	says("made/both/a", "a");
	says("made/both/b", "b");
	assert_true(is_whiteout("made/gone"));
	assert_true(is_opaque("made/was"));
	assert_false(is_opaque("made/both"));
	assert_int_equal(look("made/both").st_mode, S_IFDIR | 0750);
	assert_int_equal(look("made/both").st_mtim.tv_sec, 1000);
	assert_int_equal(look("made").st_mtim.tv_sec, 3000);
	assert_int_equal(look("made").st_mode, S_IFDIR | 0751);
	/* The originals are as they were. */
	says("1/same", "old, and longer");
	assert_true(is_there("1/gone"));
}

static void a_directory_that_was_replaced_between_hides_what_is_below(void **state)
{
	uint64_t shared[3];

	directory("0/d", 0755);
	file("0/d/new", "new");
	whiteout("0/d/middle");
	opaque("1/d");
	file("1/d/middle", "x");
	directory("2/d", 0755);
	file("2/d/old", "old");
	/* Gone and made again. */
	directory("0/e", 0755);
	whiteout("1/e");
	directory("2/e", 0755);
	file("2/e/old", "old");
	merge(3, 3, true, shared);
	assert_true(is_opaque("made/d"));
	says("made/d/new", "new");
	assert_false(is_there("made/d/old"));
	/* It is opaque already. */
	assert_false(is_there("made/d/middle"));
	assert_true(is_opaque("made/e"));
	assert_false(is_there("made/e/old"));
}

static void what_hides_nothing_is_not_kept(void **state)
{
	uint64_t shared[3];

	whiteout("0/nothing");
	whiteout("0/below");
	whiteout("0/between");
	file("1/between", "x");
	file("2/below", "x");
	directory("0/new", 0755);
	opaque("0/opaque");
	directory("2/opaque", 0755);
	opaque("0/alone");
	merge(2, 3, false, shared);
	assert_false(is_there("made/nothing"));
	assert_false(is_there("made/between"));
	assert_true(is_whiteout("made/below"));
	assert_true(is_there("made/new"));
	assert_true(is_opaque("made/opaque"));
	assert_false(is_opaque("made/alone"));
}

static void no_whiteout_is_in_a_directory_that_is_new(void **state)
{
	uint64_t shared[3];

	/* Without a second layer that has the directory overlayfs does not look for whiteouts in it, and lists them. */
	directory("1/new", 0755);
	file("1/new/gone", "x");
	directory("1/new/in", 0755);
	file("1/new/in/gone", "x");
	directory("0/new", 0755);
	whiteout("0/new/gone");
	directory("0/new/in", 0755);
	whiteout("0/new/in/gone");
	directory("0/old", 0755);
	whiteout("0/old/gone");
	directory("2/old", 0755);
	whiteout("0/gone");
	merge(2, 3, true, shared);
	assert_true(is_there("made/new/in"));
	assert_false(is_there("made/new/gone"));
	assert_false(is_there("made/new/in/gone"));
	/* These may hide something, and are where they do no harm. */
	assert_true(is_whiteout("made/old/gone"));
	assert_true(is_whiteout("made/gone"));
}

static void what_is_below_need_not_be_readable(void **state)
{
	uint64_t shared[3];

	directory("0/d", 0755);
	whiteout("0/d/gone");
	directory("2/d", 0111);
	merge(2, 3, true, shared);
	assert_true(is_whiteout("made/d/gone"));
}

static void directories_count_whose_time_alone_is_another(void **state)
{
	uint64_t shared[3];

	directory("0/d", 0755);
	directory("2/d", 0755);
	set_time("0/d", 1000);
	set_time("2/d", 2000);
	merge(2, 3, false, shared);
	assert_int_equal(look("made/d").st_mtim.tv_sec, 1000);
}

static void all_that_is_to_be_said_of_a_file_stays(void **state)
{
	uint64_t shared[3];
	char value[8] = "";

	file("0/file", "content");
	assert_int_equal(link("0/file", "0/second"), 0);
	file("1/third", "x");
	assert_int_equal(chmod("0/file", 04751), 0);
	assert_int_equal(symlink("/nowhere", "0/symlink"), 0);
	set_time("0/symlink", 4000);
	assert_int_equal(mkfifo("0/fifo", 0640), 0);
	file("0/sparse", "");
	assert_int_equal(truncate("0/sparse", 100 << 20), 0);
	directory("0/d", 02755);
	if (setxattr("0/file", "user.colour", "blue", 4, 0) < 0 || setxattr("0/d", "user.colour", "red", 3, 0) < 0)
		skip();
	set_time("0/file", 5000);
	if (geteuid() == 0) {
		assert_int_equal(lchown("0/symlink", 7, 8), 0);
		assert_int_equal(chown("0/d", 1234, 5678), 0);
		assert_int_equal(chmod("0/d", 02755), 0);
	}
	merge(2, 2, true, shared);
	assert_int_equal(look("made/file").st_mode, S_IFREG | 04751);
	assert_int_equal(look("made/file").st_mtim.tv_sec, 5000);
	assert_int_equal(look("made/file").st_mtim.tv_nsec, 2);
	assert_int_equal(look("made/file").st_ino, look("made/second").st_ino);
	assert_int_equal(getxattr("made/file", "user.colour", value, sizeof value), 4);
	assert_memory_equal(value, "blue", 4);
	assert_int_equal(getxattr("made/d", "user.colour", value, sizeof value), 3);
	assert_int_equal(look("made/symlink").st_mtim.tv_sec, 4000);
	assert_int_equal(look("made/fifo").st_mode, S_IFIFO | 0640);
	assert_int_equal(look("made/sparse").st_size, 100 << 20);
	assert_true(look("made/sparse").st_blocks < 100);
	assert_int_equal(look("made/d").st_mode, S_IFDIR | 02755);
	if (geteuid() == 0) {
		assert_int_equal(look("made/symlink").st_uid, 7);
		assert_int_equal(look("made/d").st_uid, 1234);
		assert_int_equal(look("made/d").st_gid, 5678);
	}
}

static void names_of_one_file_stay_together(void **state)
{
	uint64_t shared[3];

	/* What has no content can be made anew, before it is known that content cannot be shared here. */
	file("0/a", "");
	assert_int_equal(link("0/a", "0/z"), 0);
	file("0/between", "content");
	merge(1, 1, true, shared);
	assert_int_equal(look("made/a").st_ino, look("made/z").st_ino);
}

/* As many as the file system takes, where these are not too many. */
static int give_names(const char *path, int most)
{
	char name[40];
	int count = 1;

	for (; count < most; count++) {
		snprintf(name, sizeof name, "0/%d", count);
		if (link(path, name) < 0)
			break;
	}
	return count < most && errno == EMLINK ? count : -1;
}

static void a_file_that_can_have_no_more_names_is_copied_once(void **state)
{
	struct tree_merged merged;
	uint64_t shared[3];
	int count;

	file("0/0", "content");
	count = give_names("0/0", 70000);
	if (count < 0)
		skip();
	merged = merge(1, 1, true, shared);
	assert_int_equal(look("made/0").st_ino, look("made/1").st_ino);
	assert_int_equal(look("made/0").st_nlink, count);
	assert_int_equal(look("0/0").st_nlink, count);
	assert_true(merged.bytes <= (uint64_t)(look("made").st_blocks + look("made/0").st_blocks) * 512);
}

static void it_takes_no_place_but_for_directories(void **state)
{
	struct tree_merged merged;
	uint64_t shared[3];
	int fd = open("1/big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static char block[1 << 20] = {1};

	assert_int_equal(write(fd, block, sizeof block), sizeof block);
	fsync(fd);
	close(fd);
	file("0/small", "x");
	directory("1/d", 0755);
	merged = merge(2, 2, true, shared);
	assert_true(merged.bytes < 100 << 10);
	assert_int_equal(merged.entries, 4);
	assert_true(shared[1] >= sizeof block && shared[1] < 2 * sizeof block);
	assert_true(shared[0] < sizeof block);
}

static void a_disk_with_too_little_left_is_not_filled(void **state)
{
	struct error err = {0};
	uint64_t shared[1] = {0};
	struct tree_merged merged = {.shared = shared};
	struct merge_layer layer = {.fd = open("0", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .role = MERGE_WHOLE};
	int to = open("made", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(tree_merge(&layer, 1, true, to, UINT64_MAX, &merged, &err), -1);
	assert_non_null(strstr(err.text, "free"));
	close(layer.fd);
	close(to);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_are_left_alone),
		cmocka_unit_test(the_big_ones_are_not_merged_with_each_small_one),
		cmocka_unit_test(each_name_is_merged_few_times),
		cmocka_unit_test(whatever_their_sizes_are_the_pile_stays_low),
		cmocka_unit_test(sizes_that_grow_downwards),
		IN_FOLDER(the_upper_ones_hide_the_lower_ones),
		IN_FOLDER(a_directory_that_was_replaced_between_hides_what_is_below),
		IN_FOLDER(what_hides_nothing_is_not_kept),
		IN_FOLDER(no_whiteout_is_in_a_directory_that_is_new),
		IN_FOLDER(what_is_below_need_not_be_readable),
		IN_FOLDER(directories_count_whose_time_alone_is_another),
		IN_FOLDER(all_that_is_to_be_said_of_a_file_stays),
		IN_FOLDER(names_of_one_file_stay_together),
		IN_FOLDER(a_file_that_can_have_no_more_names_is_copied_once),
		IN_FOLDER(it_takes_no_place_but_for_directories),
		IN_FOLDER(a_disk_with_too_little_left_is_not_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
