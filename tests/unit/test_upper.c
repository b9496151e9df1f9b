/* SPDX-License-Identifier: MIT */
/* The upper directory of an overlay as a layer: what it becomes, and what is left of what no layer has. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/remove.h"
#include "image/upper.h"
#include "sandbox/idmap.h"
#include "util/error.h"

enum { SLOT = IDMAP_SLOT_FIRST + 3 * IDMAP_SLOT_SIZE };

static char folder[] = "/tmp/nsbox-test-upper-XXXXXX";
static int upper;
static bool root;

static int make_upper(void **state)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder) || chdir(folder) < 0 || mkdir("upper", 0755) < 0)
		return -1;
	root = geteuid() == 0;
	upper = open("upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return upper < 0 || chdir("upper") < 0 || (root && fchown(upper, SLOT, SLOT) < 0) ? -1 : 0;
}

static int remove_upper(void **state)
{
	struct error err;

	close(upper);
	return chdir("/") < 0 ? -1 : remove_tree(AT_FDCWD, folder, &err);
}

/* As a sandbox of root would own it. */
static void own(const char *path, unsigned uid, unsigned gid)
{
	if (root)
		assert_int_equal(lchown(path, SLOT + uid, SLOT + gid), 0);
}

static void make_directory(const char *path, mode_t mode)
{
	assert_int_equal(mkdir(path, 0755), 0);
	own(path, 0, 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void make_file(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	own(path, 0, 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void become_layer(const char *const *left_out)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};

	if (upper_become_layer(upper, left_out ? left_out : nothing, &err) < 0)
		fail_msg("%s", err.text);
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

/* --- a layer where it is --- */

static void owners_are_those_inside(void **state)
{
	struct stat st;

	make_directory("home", 02775);
	own("home", 33, 50);
	if (chmod("home", 02775) < 0)
		fail();
	make_file("home/program", 0755);
	own("home/program", 5, 7);
	assert_int_equal(chmod("home/program", 06755), 0);
	assert_int_equal(link("home/program", "home/again"), 0);
	assert_int_equal(symlink("/etc/shadow", "home/link"), 0);
	own("home/link", 65535, 65535);
	become_layer(NULL);
	assert_int_equal(mode_of("home"), S_IFDIR | 02775);
	assert_int_equal(mode_of("home/again"), S_IFREG | 06755);
	assert_int_equal(stat("home/program", &st), 0);
	assert_int_equal(st.st_nlink, 2);
	if (!root)
		return;
	assert_int_equal(st.st_uid, 5);
	assert_int_equal(st.st_gid, 7);
	assert_int_equal(stat("home", &st), 0);
	assert_int_equal(st.st_uid, 33);
	assert_int_equal(st.st_gid, 50);
	assert_int_equal(lstat("home/link", &st), 0);
	assert_int_equal(st.st_uid, 65535);
	assert_int_equal(fstat(upper, &st), 0);
	assert_int_equal(st.st_uid, 0);
}

/* The upper directory belongs to whoever the sandbox's commands are. */
static void the_user_of_the_sandbox_need_not_be_its_root(void **state)
{
	struct upper_size size;
	struct error err = {0};
	struct stat st;

	if (!root)
		skip();
	make_file("roots", 0644);
	make_file("users", 0644);
	own("users", 1234, 1235);
	assert_int_equal(fchown(upper, SLOT + 1234, SLOT + 1235), 0);
	assert_int_equal(upper_measure(upper, &size, &err), 0);
	assert_int_equal(size.entries, 3);
	become_layer(NULL);
	assert_int_equal(stat("roots", &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(stat("users", &st), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 1235);
	assert_int_equal(fstat(upper, &st), 0);
	assert_int_equal(st.st_uid, 1234);
}

static void what_belongs_to_somebody_else_is_refused(void **state)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};

	if (!root)
		skip();
	make_file("foreign", 0644);
	assert_int_equal(lchown("foreign", SLOT + IDMAP_SLOT_SIZE, SLOT), 0);
	assert_int_equal(upper_become_layer(upper, nothing, &err), -1);
	assert_non_null(strstr(err.text, "foreign belongs to"));
}

static uid_t owner_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_uid;
}

/* Half of it was done, and names that come after what cannot be done are done, too. */
static void what_failed_is_gone_on_with(void **state)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};
	struct stat st;

	if (!root)
		skip();
	make_directory("a", 0755);
	make_file("a/first", 04755);
	make_directory("b", 0);
	assert_int_equal(lchown("b", SLOT + IDMAP_SLOT_SIZE, SLOT), 0);
	make_file("b/in", 0644);
	make_file("c", 0644);
	assert_int_equal(upper_become_layer(upper, nothing, &err), -1);
	assert_int_equal(owner_of("a/first"), 0);
	assert_int_equal(owner_of("c"), SLOT);
	assert_int_equal(upper_become_layer_still(upper, nothing, &err), -1);
	assert_non_null(strstr(err.text, "b belongs to"));
	assert_int_equal(owner_of("b/in"), 0);
	assert_int_equal(owner_of("c"), 0);
	assert_int_equal(mode_of("a/first") & 07777, 04755);
	assert_int_equal(mode_of("b") & 07777, 0);
	assert_int_equal(fstat(upper, &st), 0);
	assert_int_equal(st.st_uid, 0);
}

static void what_failed_for_a_moment_is_done(void **state)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};

	if (!root)
		skip();
	make_file("first", 0644);
	make_file("foreign", 0644);
	assert_int_equal(lchown("foreign", SLOT + IDMAP_SLOT_SIZE, SLOT), 0);
	assert_int_equal(upper_become_layer(upper, nothing, &err), -1);
	assert_int_equal(lchown("foreign", SLOT + 7, SLOT), 0);
	assert_int_equal(upper_become_layer_still(upper, nothing, &err), 0);
	assert_int_equal(owner_of("first"), 0);
	assert_int_equal(owner_of("foreign"), 7);
}

static void removals_stay_and_bookkeeping_goes(void **state)
{
	char value[8];

	make_directory("etc", 0755);
	if (mknod("etc/gone", S_IFCHR, makedev(0, 0)) < 0)
		skip();
	own("etc/gone", 0, 0);
	make_directory("opaque", 0755);
	if (setxattr("opaque", "user.overlay.opaque", "y", 1, 0) < 0)
		skip();
	assert_int_equal(setxattr("opaque", "user.overlay.impure", "y", 1, 0), 0);
	make_file("etc/read-only", 0644);
	assert_int_equal(setxattr("etc/read-only", "user.overlay.origin", "xx", 2, 0), 0);
	assert_int_equal(setxattr("etc/read-only", "user.overlay.overlay.opaque", "y", 1, 0), 0);
	assert_int_equal(setxattr("etc/read-only", "user.comment", "kept", 4, 0), 0);
	assert_int_equal(chmod("etc/read-only", 0400), 0);
	become_layer(NULL);
	assert_int_equal(mode_of("etc/gone") & S_IFMT, S_IFCHR);
	assert_int_equal(getxattr("opaque", "user.overlay.opaque", value, sizeof value), 1);
	assert_int_equal(listxattr("opaque", NULL, 0), sizeof "user.overlay.opaque");
	assert_int_equal(getxattr("etc/read-only", "user.comment", value, sizeof value), 4);
	assert_int_equal(listxattr("etc/read-only", NULL, 0), sizeof "user.comment");
	assert_int_equal(mode_of("etc/read-only"), S_IFREG | 0400);
}

static void what_is_left_out_leaves_no_trace(void **state)
{
	static const char *const left_out[] = {"dev", "var/lib/apt/lists/*", "tmp/*", NULL};
	static const struct timespec long_ago[2] = {{1000, 0}, {1000, 5}};
	struct stat st;

	make_directory("dev", 0755);
	make_directory("var", 0755);
	make_directory("var/lib", 0755);
	make_directory("var/lib/apt", 0755);
	make_directory("var/lib/apt/lists", 0755);
	make_directory("var/lib/apt/lists/partial", 0700);
	make_file("var/lib/apt/lists/partial/file", 0644);
	make_file("var/lib/apt/lists/file", 0644);
	make_file("var/lib/dev", 0644);
	make_directory("tmp", 01777);
	assert_int_equal(symlink("..", "tmp/link"), 0);
	own("tmp/link", 0, 0);
	assert_int_equal(utimensat(AT_FDCWD, "tmp", long_ago, 0), 0);
	become_layer(left_out);
	assert_false(is_there("dev"));
	assert_true(is_there("var/lib/dev"));
	assert_int_equal(rmdir("var/lib/apt/lists"), 0);
	assert_int_equal(stat("tmp", &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(st.st_mtim.tv_nsec, 5);
	assert_int_equal(rmdir("tmp"), 0);
}

static void sockets_go_and_fifos_stay(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	close(fd);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	own("fifo", 0, 0);
	become_layer(NULL);
	assert_false(is_there("socket"));
	assert_true(is_there("fifo"));
}

static void a_directory_may_be_closed_to_its_owner(void **state)
{
	make_directory("closed", 0755);
	make_directory("closed/inner", 0755);
	make_file("closed/inner/file", 0);
	assert_int_equal(chmod("closed/inner", 0), 0);
	assert_int_equal(chmod("closed", 0111), 0);
	become_layer(NULL);
	assert_int_equal(mode_of("closed"), S_IFDIR | 0111);
	assert_int_equal(mode_of("closed/inner"), S_IFDIR);
	assert_int_equal(chmod("closed", 0755), 0);
}

static void a_tree_that_is_too_deep_is_an_error(void **state)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};

	for (int i = 0; i <= UPPER_DEPTH_MAX; i++) {
		make_directory("d", 0755);
		assert_int_equal(chdir("d"), 0);
	}
	assert_int_equal(upper_become_layer(upper, nothing, &err), -1);
	assert_non_null(strstr(err.text, "more than 256 directories in each other"));
}

static void a_path_that_is_too_long_is_an_error(void **state)
{
	static const char *const nothing[] = {NULL};
	struct error err = {0};
	char name[251];

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	for (int i = 0; i < UPPER_PATH_MAX / 250; i++) {
		make_directory(name, 0755);
		assert_int_equal(chdir(name), 0);
	}
	make_file(name, 0644);
	assert_int_equal(upper_become_layer(upper, nothing, &err), -1);
	assert_int_equal(err.errnum, ENAMETOOLONG);
}

/* --- the walk --- */

static int note_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	snprintf((char *)data + strlen(data), 256 - strlen(data), "%d%s %s\n", entry->kind, entry->opaque ? "o" : "",
		entry->path);
	return strcmp(entry->name, "passed-over") == 0;
}

static int note_leave(void *data, const struct upper_entry *directory, struct error *err)
{
	snprintf((char *)data + strlen(data), 256 - strlen(data), "- %s\n", directory->path);
	return 0;
}

static void names_come_in_order(void **state)
{
	char text[256] = "";
	const struct upper_visitor visitor = {.data = text, .entry = note_entry, .leave = note_leave};
	struct error err = {0};

	make_directory("b", 0755);
	make_file("b/2", 0644);
	make_file("b/1", 0644);
	assert_int_equal(symlink("nowhere", "a"), 0);
	make_directory("passed-over", 0755);
	make_file("passed-over/file", 0644);
	assert_int_equal(upper_walk(upper, &visitor, &err), 0);
	assert_string_equal(text, "2 a\n0 b\n1 b/1\n1 b/2\n- b\n0 passed-over\n");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, make_upper, remove_upper)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(owners_are_those_inside),
		CASE(the_user_of_the_sandbox_need_not_be_its_root),
		CASE(what_belongs_to_somebody_else_is_refused),
		CASE(what_failed_is_gone_on_with),
		CASE(what_failed_for_a_moment_is_done),
		CASE(removals_stay_and_bookkeeping_goes),
		CASE(what_is_left_out_leaves_no_trace),
		CASE(sockets_go_and_fifos_stay),
		CASE(a_directory_may_be_closed_to_its_owner),
		CASE(a_tree_that_is_too_deep_is_an_error),
		CASE(a_path_that_is_too_long_is_an_error),
		CASE(names_come_in_order),
	};

	umask(022);
	return cmocka_run_group_tests_name("upper", tests, NULL, NULL);
}
