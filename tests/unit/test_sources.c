/* SPDX-License-Identifier: MIT */
/* What a root's layers have, as overlayfs would show it, and which hosts apt's sources in them name. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/layers.h"
#include "image/remove.h"
#include "packages/sources.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static char folder[] = "/tmp/nsbox-test-sources-XXXXXX";
static char *layers[3]; /* an upper and a lower one */

static void make_directories(const char *path)
{
	cleanup_free char *part = xstrdup(path);

	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) < 0)
			assert_int_equal(errno, EEXIST);
		*slash = '/';
	}
}

static int make_layers(void **state)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder) || chdir(folder) < 0)
		return -1;
	layers[0] = xasprintf("%s/upper", folder);
	layers[1] = xasprintf("%s/lower", folder);
	make_directories("upper/etc/apt/sources.list.d/");
	make_directories("lower/etc/apt/sources.list.d/");
	return 0;
}

static int remove_layers(void **state)
{
	struct error err;

	free(layers[0]);
	free(layers[1]);
	return chdir("/") < 0 ? -1 : remove_tree(AT_FDCWD, folder, &err);
}

static void put(const char *path, const char *text)
{
	FILE *file;

	make_directories(path);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void rules_are(const char *expected)
{
	char *left_out;
	cleanup_free char *rules = sources_rules(layers, false, &left_out);

	free(left_out);
	assert_string_equal(rules, expected);
}

/* --- layers --- */

static void names_are(const char *path, const char *expected)
{
	char **names = layers_list_names(layers, path);
	char joined[256] = "";

	for (char **name = names; *name; name++)
		snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s ", *name);
	assert_string_equal(joined, expected);
	strings_free(names);
}

static void content_is(const char *path, const char *expected)
{
	size_t length;
	cleanup_free char *content = layers_read_file(layers, path, 100, &length);

	if (!expected) {
		assert_null(content);
		return;
	}
	assert_non_null(content);
	assert_string_equal(content, expected);
	assert_int_equal(length, strlen(expected));
}

static void the_topmost_layer_decides(void **state)
{
	put("lower/a/both", "lower");
	put("upper/a/both", "upper");
	put("lower/a/below", "below");
	put("upper/a/above", "above");
	put("upper/a/executable", "program");
	assert_int_equal(chmod("upper/a/executable", 0755), 0);
	names_are("/a", "above below both executable ");
	content_is("/a/both", "upper");
	content_is("/a/below", "below");
	content_is("/a/executable", "program");
	names_are("/nowhere", "");
	names_are("/a/both", "");
	content_is("/a", NULL);
}

static void what_is_removed_is_not_there(void **state)
{
	put("lower/a/gone", "lower");
	put("lower/a/marked", "lower");
	put("lower/a/stays", "lower");
	put("lower/opaque/gone", "lower");
	put("upper/a/marked", "");
	put("upper/opaque/new", "upper");
	if (mknod("upper/a/gone", S_IFCHR, makedev(0, 0)) < 0 ||
		setxattr("upper/a/marked", "user.overlay.whiteout", "y", 1, 0) < 0 ||
		setxattr("upper/opaque", "user.overlay.opaque", "y", 1, 0) < 0)
		skip();
	names_are("/a", "stays ");
	names_are("/opaque", "new ");
	content_is("/a/gone", NULL);
	content_is("/a/marked", NULL);
	content_is("/opaque/gone", NULL);
	assert_int_equal(errno, ENOENT);
}

static void links_lead_to_places_of_the_root(void **state)
{
	put("lower/real/file", "content");
	put("outside", "the host's");
	assert_int_equal(symlink("/real", "upper/link"), 0);
	assert_int_equal(symlink("../../../outside", "upper/out"), 0);
	assert_int_equal(symlink("/etc/passwd", "upper/absolute"), 0);
	assert_int_equal(symlink("loop", "upper/loop"), 0);
	content_is("/link/file", "content");
	content_is("/link/../real/file", "content");
	names_are("/link", "file ");
	content_is("/out", NULL);
	content_is("/absolute", NULL);
	content_is("/loop", NULL);
}

static void what_is_no_file_is_not_waited_for(void **state)
{
	assert_int_equal(mkfifo("lower/fifo", 0644), 0);
	content_is("/fifo", NULL);
	assert_int_equal(errno, ENOENT);
	put("lower/long", "more than a hundred bytes: .......................................................................");
	assert_null(layers_read_file(layers, "/long", 50, &(size_t){0}));
	assert_int_equal(errno, EFBIG);
}

/* --- sources --- */

static void one_line_style(void **state)
{
	put("lower/etc/apt/sources.list",
		"# deb http://commented.example/debian trixie main\n"
		"deb http://deb.debian.org/debian trixie main\n"
		"deb-src http://deb.debian.org/debian trixie main # again\n"
		"  deb\t[ arch=amd64 signed-by=/usr/share/keyrings/a.gpg ] https://Two.Example:8443/x trixie main\n"
		"deb [trusted=yes]https://three.example trixie main\n"
		"deb cdrom:[Debian 13]/ trixie main\n"
		"deb file:/srv/four.example trixie main\n"
		"rpm http://five.example trixie main\n"
		"deb\n"
		"deb [ never closed http://six.example");
	rules_are("deb.debian.org:80,two.example:8443,three.example:443");
}

static void deb822_style(void **state)
{
	put("lower/etc/apt/sources.list.d/debian.sources",
		"Types: deb\n"
		"uris: http://one.example/debian\n"
		"\thttps://user:secret@two.example/debian\r\n"
		"# a comment does not end the field\n"
		" http://three.example\n"
		"Suites: trixie\n"
		" http://no-uri.example\n"
		"\n"
		"Enabled: no\n"
		"URIs: http://disabled.example\n"
		"\n"
		"\n"
		"URIs: mirror://four.example/list.txt mirror+https://five.example/list\n"
		"Enabled: yes\n");
	rules_are("one.example:80,two.example:443,three.example:80,four.example:80,five.example:443");
}

static void files_of_the_folder(void **state)
{
	put("lower/etc/apt/sources.list", "deb http://hidden.example x y\n");
	put("upper/etc/apt/sources.list", "");
	put("lower/etc/apt/sources.list.d/b.list", "deb http://b.example x y\n");
	put("upper/etc/apt/sources.list.d/a.sources", "URIs: http://a.example\n");
	put("upper/etc/apt/sources.list.d/c.list.bak", "deb http://c.example x y\n");
	put("upper/etc/apt/sources.list.d/.list", "deb http://d.example x y\n");
	rules_are("a.example:80,b.example:80");
}

static void lists_of_mirrors(void **state)
{
	put("lower/etc/apt/sources.list", "deb mirror+file:/etc/apt/mirrors/debian.list trixie main\n");
	put("lower/etc/apt/mirrors/debian.list",
		"https://one.example/debian\tpriority:1\n"
		"# http://comment.example\n"
		"mirror+file:/etc/apt/mirrors/debian.list\n"
		"http://two.example/debian\n");
	rules_are("one.example:443,two.example:80");
}

static void what_is_no_host_is_left_out(void **state)
{
	put("lower/etc/apt/sources.list",
		"deb http:// x y\n"
		"deb http://a,b.example x y\n"
		"deb http://*.example x y\n"
		"deb http://port.example:0/ x y\n"
		"deb http://port.example:70000/ x y\n"
		"deb http://port.example:80x/ x y\n"
		"deb http://0x7f.1/ x y\n"
		"deb http://2130706433/ x y\n"
		"deb http://[::1/ x y\n"
		"deb http://10.0.0.1./ x y\n"
		"deb http://169.254.169.254.:80/latest x y\n"
		"deb http://64:ff9b::a00:1/ x y\n"
		"deb http://64:ff9b::a00:/ x y\n"
		"deb http://2001:db8::1:80/ x y\n"
		"deb http://good.example:/ x y\n");
	rules_are("good.example:80");
}

static void an_image_chooses_no_place_of_the_network(void **state)
{
	cleanup_free char *rules = NULL, *left_out = NULL;

	put("lower/etc/apt/sources.list",
		"deb http://10.1.2.3/debian x y\n"
		"deb http://[fd00::1]:3142/debian x y\n"
		"deb http://93.184.216.34/debian x y\n"
		"deb http://[2606:2800:220:1::1]:8080/debian x y\n");
	rules = sources_rules(layers, false, &left_out);
	assert_string_equal(rules, "93.184.216.34:80,[2606:2800:220:1::1]:8080");
	assert_string_equal(left_out, "10.1.2.3:80");
	free(rules);
	free(left_out);
	rules = sources_rules(layers, true, &left_out);
	assert_string_equal(rules, "10.1.2.3:80,[fd00::1]:3142,93.184.216.34:80,[2606:2800:220:1::1]:8080");
	assert_null(left_out);
}

static void an_image_does_not_choose_the_host(void **state)
{
	cleanup_free char *rules = NULL, *left_out = NULL;

	put("lower/etc/apt/sources.list",
		"deb http://Host.nsbox.internal.:6379/ x y\n"
		"deb http://more.host.nsbox.internal/ x y\n");
	rules = sources_rules(layers, false, &left_out);
	assert_string_equal(rules, "more.host.nsbox.internal:80");
	assert_string_equal(left_out, "host.nsbox.internal:6379");
	free(rules);
	free(left_out);
	rules = sources_rules(layers, true, &left_out);
	assert_string_equal(rules, "host.nsbox.internal:6379,more.host.nsbox.internal:80");
	assert_null(left_out);
}

static void no_sources_at_all(void **state)
{
	rules_are("");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, make_layers, remove_layers)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_topmost_layer_decides),
		CASE(what_is_removed_is_not_there),
		CASE(links_lead_to_places_of_the_root),
		CASE(what_is_no_file_is_not_waited_for),
		CASE(one_line_style),
		CASE(deb822_style),
		CASE(files_of_the_folder),
		CASE(lists_of_mirrors),
		CASE(what_is_no_host_is_left_out),
		CASE(an_image_chooses_no_place_of_the_network),
		CASE(an_image_does_not_choose_the_host),
		CASE(no_sources_at_all),
	};

	umask(022);
	return cmocka_run_group_tests_name("sources", tests, NULL, NULL);
}
