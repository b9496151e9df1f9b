/* SPDX-License-Identifier: MIT */
/* Snapshots in the store: records that are strictly read, layers that are held and swept; and copies of trees. */
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
#include "image/remove.h"
#include "image/snapshots.h"
#include "util/error.h"

#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210fedcba9876543210"

static char folder[] = "/tmp/nsbox-test-snapshots-XXXXXX";
static struct snapshots snapshots;

static int make_store(void **state)
{
	struct error err;

	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder) || chdir(folder) < 0 || setenv("NSBOX_STORE", folder, 1) < 0)
		return -1;
	return snapshots_open(true, &snapshots, &err);
}

static int remove_store(void **state)
{
	struct error err;

	snapshots_close(&snapshots);
	return chdir("/") < 0 ? -1 : remove_tree(AT_FDCWD, folder, &err);
}

static const char whole[] =
	"{\"version\": 1, \"id\": \"" ID_A "\", \"name\": \"a.b-c_1\", \"session\": \"" ID_B "\", \"parent\": null,"
	" \"created_s\": 12, \"shared\": true, \"copied\": false, \"bytes\": 4096, \"layers\": [\"" ID_A "\", \"" ID_B "\"],"
	" \"packages\": \"" ID_B "\", \"spec\": {\"root\": \"host\"}, \"options\": {\"idle_ms\": 5}}";

static json_t *parsed(void)
{
	json_t *object = json_loads(whole, 0, NULL);

	assert_non_null(object);
	return object;
}

static bool taken(const json_t *object)
{
	struct snapshot snapshot;
	struct error err;

	if (snapshot_from_json(object, &snapshot, &err) < 0)
		return false;
	snapshot_free(&snapshot);
	return true;
}

static void a_record_is_the_same_again(void **state)
{
	json_t *object = parsed(), *again;
	struct snapshot snapshot;
	struct error err;

	assert_int_equal(snapshot_from_json(object, &snapshot, &err), 0);
	assert_string_equal(snapshot.id, ID_A);
	assert_string_equal(snapshot.name, "a.b-c_1");
	assert_string_equal(snapshot.parent, "");
	assert_string_equal(snapshot.layers[1], ID_B);
	assert_null(snapshot.layers[2]);
	assert_string_equal(snapshot.packages, ID_B);
	assert_true(snapshot.shared && !snapshot.copied && snapshot.bytes == 4096 && snapshot.created_s == 12);
	again = snapshot_to_json(&snapshot);
	assert_true(json_equal(object, again));
	json_decref(again);
	json_decref(object);
	snapshot_free(&snapshot);
}

/* Each key is needed, and each of another type is refused, and what nobody knows. */
static void others_are_refused(void **state)
{
	static const char *const wrong[] = {"{\"version\": 2}", "{\"id\": \"../../etc/passwd\"}", "{\"id\": \"0123\"}",
		"{\"name\": \"\"}", "{\"name\": \"-x\"}", "{\"name\": \"a/b\"}", "{\"name\": \"" ID_A "\"}", "{\"session\": null}",
		"{\"parent\": \"\"}", "{\"created_s\": -1}", "{\"created_s\": \"1\"}", "{\"shared\": 1}", "{\"copied\": null}",
		"{\"bytes\": 1.5}", "{\"layers\": {}}", "{\"layers\": [null]}", "{\"layers\": [\"../x\"]}",
		"{\"layers\": [\"" ID_A "/../..\"]}", "{\"packages\": \"..\"}", "{\"spec\": []}", "{\"options\": null}",
		"{\"more\": 1}", "{\"id\": \"" ID_A "\\u0000x\"}", "{\"name\": \"a\\u0000/\"}"};
	json_t *object = parsed();
	const char *key;
	json_t *value;

	assert_true(taken(object));
	json_object_foreach(object, key, value) {
		json_t *without = json_deep_copy(object);

		json_object_del(without, key);
		if (taken(without))
			fail_msg("taken without %s", key);
		json_decref(without);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		json_t *changed = json_deep_copy(object), *change = json_loads(wrong[i], JSON_ALLOW_NUL, NULL);

		assert_non_null(change);
		json_object_update(changed, change);
		if (taken(changed))
			fail_msg("taken: %s", wrong[i]);
		json_decref(change);
		json_decref(changed);
	}
	json_decref(object);
}

static void add(const char *name, const char *layer, char ret_id[SNAPSHOT_ID_SIZE])
{
	struct snapshot snapshot;
	struct error err = {0};
	json_t *object = parsed();
	int lock = snapshots_lock(&snapshots, &err);

	json_object_set_new(object, "name", name ? json_string(name) : json_null());
	json_object_set_new(object, "layers", layer ? json_pack("[s]", layer) : json_array());
	json_object_set_new(object, "packages", json_null());
	assert_int_equal(snapshot_from_json(object, &snapshot, &err), 0);
	if (snapshots_add(&snapshots, &snapshot, &err) < 0)
		fail_msg("%s", err.text);
	strcpy(ret_id, snapshot.id);
	snapshot_free(&snapshot);
	json_decref(object);
	close(lock);
}

static void found_by_name_id_and_beginning(void **state)
{
	char one[SNAPSHOT_ID_SIZE], other[SNAPSHOT_ID_SIZE], beginning[12];
	struct snapshot found, *list;
	struct error err = {0};
	size_t count;

	add("one", NULL, one);
	add(NULL, NULL, other);
	assert_int_equal(snapshots_find(&snapshots, "one", false, &found, &err), 0);
	assert_string_equal(found.id, one);
	snapshot_free(&found);
	snprintf(beginning, sizeof beginning, "%.11s", other);
	assert_int_equal(snapshots_find(&snapshots, beginning, true, &found, &err), 0);
	assert_string_equal(found.id, other);
	snapshot_free(&found);
	assert_int_equal(snapshots_find(&snapshots, "", false, &found, &err), -1);
	assert_int_equal(err.errnum, ENOENT);
	assert_int_equal(snapshots_read(&snapshots, &list, &count, &err), 0);
	assert_int_equal(count, 2);
	assert_string_equal(list[0].id, one); /* the oldest */
	found = list[0];
	/* A name is there once. */
	assert_int_equal(snapshots_add(&snapshots, &found, &err), -1);
	assert_int_equal(err.errnum, EEXIST);
	list[0] = found;
	snapshots_free(list, count);
	assert_int_equal(snapshots_remove(&snapshots, one, &err), 0);
	assert_int_equal(snapshots_remove(&snapshots, one, &err), 1);
}

static int make_layer(char ret_id[SNAPSHOT_ID_SIZE])
{
	struct error err;
	int lock = snapshots_lock(&snapshots, &err), layer = -1;

	assert_int_equal(snapshot_layer_make(&snapshots, ret_id, &layer, &err), 0);
	assert_int_equal(mkdirat(layer, "fs", 0700), 0);
	assert_int_equal(snapshot_layer_note(layer, &(struct layer_note){.bytes = 1000}, &err), 0);
	close(lock);
	return layer;
}

static void layers_are_kept_as_long_as_needed(void **state)
{
	char named[SNAPSHOT_ID_SIZE], held[SNAPSHOT_ID_SIZE], lost[SNAPSHOT_ID_SIZE], id[SNAPSHOT_ID_SIZE];
	int layer = make_layer(named), other = make_layer(held), lock;
	struct error err;
	char *tree;

	close(make_layer(lost));
	add(NULL, named, id);
	close(layer);
	assert_int_equal(snapshots_bytes(&snapshots), 3000);
	/* Whoever is about to hold some keeps all. */
	lock = snapshots_lock(&snapshots, &err);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 0);
	close(lock);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
	assert_int_equal(snapshots_bytes(&snapshots), 2000);
	tree = snapshot_layer_tree(&snapshots, named);
	assert_non_null(snapshot_layer_id(tree));
	assert_memory_equal(snapshot_layer_id(tree), named, SNAPSHOT_ID_LENGTH);
	layer = snapshot_layer_hold(tree, &err);
	assert_true(layer >= 0);
	assert_int_equal(snapshots_remove(&snapshots, id, &err), 0);
	close(other);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
	close(layer);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
	assert_int_equal(snapshot_layer_hold(tree, &err), -1);
	assert_int_equal(snapshots_bytes(&snapshots), 0);
	free(tree);
	assert_null(snapshot_layer_id("/x/layers/" ID_A ID_A "/fs"));
	assert_null(snapshot_layer_id("fs"));
}

/* A draft of a record that somebody left, who was killed. And one that is damaged: it may name any layer. */
static void what_is_left_goes_and_what_is_not_known_stays(void **state)
{
	char lost[SNAPSHOT_ID_SIZE];
	struct error err;
	int fd;

	close(openat(snapshots.fd, "records/." ID_A, O_WRONLY | O_CREAT, 0600));
	close(make_layer(lost));
	fd = openat(snapshots.fd, "records/" ID_B, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "{}", 2), 2);
	close(fd);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 0);
	assert_int_equal(faccessat(snapshots.fd, "records/." ID_A, F_OK, 0), -1);
	assert_int_equal(snapshots_remove(&snapshots, ID_B, &err), 0);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
}

/* --- copies --- */

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void put(const char *path, off_t at, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void a_copy_is_the_same(void **state)
{
	const struct timespec times[2] = {{1000, 1}, {2000, 123456789}};
	struct stat from, to, other;
	struct error err = {0};
	uint64_t bytes = 0;
	char value[8] = "";
	int a, b;

	assert_int_equal(mkdir("a", 0751) | mkdir("b", 0700) | mkdir("a/d", 0) | mkdir("a/o", 0755), 0);
	put("a/sparse", 1 << 20, "end", 0600);
	put("a/setid", 0, "x", 04710);
	put("a/closed", 0, "secret", 0);
	assert_int_equal(link("a/setid", "a/o/other"), 0);
	assert_int_equal(symlink("/etc/passwd", "a/link") | mkfifo("a/fifo", 0640), 0);
	put("a/n\377", 0, "", 0644);
	assert_int_equal(setxattr("a/sparse", "user.test", "v\0w", 3, 0), 0);
	assert_int_equal(setxattr("a/o", "user.overlay.opaque", "y", 1, 0), 0);
	assert_int_equal(mknod("a/white", S_IFCHR, makedev(0, 0)), 0);
	assert_int_equal(utimensat(AT_FDCWD, "a/setid", times, 0) | utimensat(AT_FDCWD, "a/link", times, AT_SYMLINK_NOFOLLOW) |
				 utimensat(AT_FDCWD, "a/d", times, 0) | utimensat(AT_FDCWD, "a", times, 0),
		0);
	a = open_dir("a");
	b = open_dir("b");
	if (tree_duplicate(a, b, 0, &bytes, &err) < 0)
		fail_msg("%s", err.text);
	assert_in_range(bytes, 0, 64 << 10); /* where content is shared, nothing */
	assert_int_equal(stat("b", &to), 0);
	assert_int_equal(to.st_mode & 07777, 0751);
	assert_int_equal(to.st_mtim.tv_sec, 2000);
	assert_int_equal(stat("b/sparse", &to), 0);
	assert_int_equal(to.st_size, (1 << 20) + 3);
	assert_in_range(to.st_blocks, 0, 128);
	assert_int_equal(getxattr("b/sparse", "user.test", value, sizeof value), 3);
	assert_memory_equal(value, "v\0w", 3);
	assert_int_equal(getxattr("b/o", "user.overlay.opaque", value, sizeof value), 1);
	assert_int_equal(stat("b/setid", &to) | stat("a/setid", &from) | stat("b/o/other", &other), 0);
	assert_int_equal(to.st_mode & 07777, 04710);
	assert_int_equal(to.st_mtim.tv_nsec, 123456789);
	assert_int_equal(to.st_nlink, 2);
	assert_int_equal(to.st_ino, other.st_ino);
	assert_int_not_equal(to.st_ino, from.st_ino);
	assert_int_equal(lstat("b/link", &to), 0);
	assert_int_equal(to.st_mtim.tv_sec, 2000);
	assert_int_equal(lstat("b/white", &to), 0);
	assert_true(S_ISCHR(to.st_mode) && to.st_rdev == makedev(0, 0));
	assert_int_equal(lstat("b/fifo", &to), 0);
	assert_true(S_ISFIFO(to.st_mode) && (to.st_mode & 07777) == 0640);
	assert_int_equal(stat("b/d", &to) | stat("b/closed", &from) | access("b/n\377", F_OK), 0);
	assert_int_equal(to.st_mode & 07777, 0);
	assert_int_equal(from.st_mode & 07777, 0);
	assert_int_equal(from.st_size, 6);
	/* The first one is as it was. */
	assert_int_equal(stat("a/closed", &to) | stat("a/d", &from), 0);
	assert_int_equal(to.st_mode & 07777, 0);
	assert_int_equal(from.st_mode & 07777, 0);
	assert_int_equal(from.st_mtim.tv_sec, 2000);
	close(a);
	close(b);
	assert_int_equal(chmod("a/d", 0700) | chmod("b/d", 0700), 0);
}

static void names_in_closed_directories_stay_together(void **state)
{
	const struct timespec times[2] = {{1000, 1}, {2000, 2}};
	struct stat one, other, place;
	struct error err = {0};
	uint64_t bytes = 0;
	int a, b;

	assert_int_equal(mkdir("f", 0700) | mkdir("g", 0700) | mkdir("f/a", 0700) | mkdir("f/a/in", 0700) | mkdir("f/z", 0755), 0);
	put("f/a/in/one", 0, "x", 0600);
	assert_int_equal(link("f/a/in/one", "f/z/other"), 0);
	assert_int_equal(utimensat(AT_FDCWD, "f/a/in", times, 0), 0);
	assert_int_equal(chmod("f/a/in", 01600) | chmod("f/a", 0), 0);
	a = open_dir("f");
	b = open_dir("g");
	if (tree_duplicate(a, b, 0, &bytes, &err) < 0)
		fail_msg("%s", err.text);
	close(a);
	close(b);
	assert_int_equal(stat("g/a", &place), 0);
	assert_int_equal(place.st_mode & 07777, 0);
	assert_int_equal(chmod("g/a", 0700) | stat("g/a/in", &place), 0);
	assert_int_equal(place.st_mode & 07777, 01600);
	assert_int_equal(place.st_mtim.tv_sec, 2000);
	assert_int_equal(chmod("g/a/in", 0700) | stat("g/a/in/one", &one) | stat("g/z/other", &other), 0);
	assert_int_equal(one.st_ino, other.st_ino);
	assert_int_equal(chmod("f/a", 0700) | chmod("f/a/in", 0700), 0);
}

static bool is_true(void *data)
{
	return *(const bool *)data;
}

static void what_others_have_is_copied_as_it_is_or_not_at_all(void **state)
{
	bool ends = false;
	const struct duplicate_end end = {is_true, &ends};
	struct error err = {0};
	struct stat st;
	int a, b, c, r;

	assert_int_equal(mkdir("s", 0750) | mkdir("t", 0700) | mkdir("u", 0700) | mkdir("s/d", 0555), 0);
	put("s/file", 0, "text", 0444);
	a = open_dir("s");
	b = open_dir("t");
	c = open_dir("u");
	if (tree_duplicate_shared(a, b, 0, &end, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(stat("t/file", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(stat("t/d", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	ends = true;
	assert_int_equal(tree_duplicate_shared(a, c, 0, &end, &err), -1);
	assert_int_equal(err.errnum, ECANCELED);
	assert_int_equal(access("u/file", F_OK), -1);
	ends = false;
	assert_int_equal(chmod("s/d", 0), 0);
	r = tree_duplicate_shared(a, c, 0, &end, &err);
	/* To root nothing is closed. */
	assert_int_equal(r, geteuid() == 0 ? 0 : -1);
	assert_true(r == 0 || err.errnum == EACCES);
	assert_int_equal(stat("s/d", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	close(a);
	close(b);
	close(c);
	assert_int_equal(chmod("s/d", 0700) | chmod("t/d", 0700) | (r == 0 ? chmod("u/d", 0700) : 0), 0);
}

static void a_disk_is_not_filled(void **state)
{
	struct error err = {0};
	uint64_t bytes;
	int a, b;
	char *much = calloc(1, 20 << 20);

	assert_non_null(much);
	memset(much, 'x', (20 << 20) - 1);
	assert_int_equal(mkdir("c", 0700) | mkdir("e", 0700), 0);
	put("c/big", 0, much, 0600);
	free(much);
	a = open_dir("c");
	b = open_dir("e");
	/* Where content is shared nothing is written, and so nothing can be too much. */
	if (tree_duplicate(a, b, UINT64_MAX, &bytes, &err) == 0)
		assert_int_equal(bytes, 0);
	else
		assert_int_equal(err.errnum, ENOSPC);
	close(a);
	close(b);
}

static void note(int layer, const struct layer_note *note)
{
	struct error err;

	assert_int_equal(unlinkat(layer, "about", 0), 0);
	assert_int_equal(snapshot_layer_note(layer, note, &err), 0);
}

static void what_layers_share_counts_once(void **state)
{
	char one[SNAPSHOT_ID_SIZE], other[SNAPSHOT_ID_SIZE], merged[SNAPSHOT_ID_SIZE];
	int first = make_layer(one), second = make_layer(other), third = make_layer(merged);
	struct layer_note said = {.bytes = 30, .entries = 7, .shared = json_pack("{s:i, s:i}", one, 400, other, 500)};

	note(third, &said);
	json_decref(said.shared);
	snapshot_layer_read_note(&snapshots, merged, &said);
	assert_int_equal(said.bytes, 30);
	assert_int_equal(said.entries, 7);
	assert_int_equal(layer_note_bytes(&said), 930);
	json_decref(said.shared);
	assert_int_equal(snapshots_bytes(&snapshots), 2030);
	close(first);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
	assert_int_equal(snapshots_bytes(&snapshots), 1430);
	close(second);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
	assert_int_equal(snapshots_bytes(&snapshots), 930);
	close(third);
	assert_int_equal(snapshots_sweep(&snapshots, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_the_same_again),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test_setup_teardown(found_by_name_id_and_beginning, make_store, remove_store),
		cmocka_unit_test_setup_teardown(layers_are_kept_as_long_as_needed, make_store, remove_store),
		cmocka_unit_test_setup_teardown(what_layers_share_counts_once, make_store, remove_store),
		cmocka_unit_test_setup_teardown(what_is_left_goes_and_what_is_not_known_stays, make_store, remove_store),
		cmocka_unit_test_setup_teardown(a_copy_is_the_same, make_store, remove_store),
		cmocka_unit_test_setup_teardown(names_in_closed_directories_stay_together, make_store, remove_store),
		cmocka_unit_test_setup_teardown(what_others_have_is_copied_as_it_is_or_not_at_all, make_store, remove_store),
		cmocka_unit_test_setup_teardown(a_disk_is_not_filled, make_store, remove_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
