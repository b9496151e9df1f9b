/* SPDX-License-Identifier: MIT */
/* What a sandbox's resolv.conf says where pasta(1) makes its network, and where that is looked for. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox/pasta.h"
#include "util/error.h"

static void name_servers_are_those_that_can_be_reached(void **state)
{
	static const struct {
		const char *host, *inside;
		bool any;
	} cases[] = {
		{"nameserver 10.1.2.3\n", "nameserver 10.1.2.3\n", true},
		{"nameserver 10.1.2.3", "nameserver 10.1.2.3\n", true},
		{"nameserver\t10.1.2.3  \n", "nameserver 10.1.2.3\n", true},
		{"# a stub\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch a.example\n",
			"# a stub\nnameserver 169.254.1.1\noptions edns0 trust-ad\nsearch a.example\n", true},
		{"nameserver 0.0.0.0\n", "nameserver 169.254.1.1\n", true},
		/* pasta forwards to the first of IPv4 alone. */
		{"nameserver 127.0.0.1\nnameserver 127.0.0.2\n", "nameserver 169.254.1.1\n", true},
		{"nameserver 10.0.0.1\nnameserver 127.0.0.1\n", "nameserver 10.0.0.1\n", true},
		{"nameserver ::1\nnameserver 127.0.0.1\n", "nameserver 169.254.1.1\n", true},
		{"nameserver 2001:db8::1\nnameserver fe80::1%eth0\n", "nameserver 2001:db8::1\nnameserver fe80::1%eth0\n",
			true},
		{"nameserver ::1\n", "", false},
		{"nameserver ::\n", "", false},
		{"search a.example\n", "search a.example\n", false},
		{"nameserver\n10.0.0.1\n", "nameserver\n10.0.0.1\n", false},
		{"", "", false},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool any = pasta_resolver(cases[i].host, text, sizeof text);

		if (any != cases[i].any || strcmp(text, cases[i].inside) != 0)
			fail_msg("%s became %d %s", cases[i].host, any, text);
	}
}

static void a_text_without_end_is_cut(void **state)
{
	char text[16];

	(void)state;
	assert_true(pasta_resolver("nameserver 10.1.2.3\nnameserver 10.1.2.4\nsearch b\n", text, sizeof text));
	assert_string_equal(text, "nameserver 10.1");
}

static void it_is_looked_for_in_absolute_directories_of_path(void **state)
{
	char folder[] = "/tmp/test_pasta.XXXXXX", path[64], found[PASTA_PROGRAM_MAX], variable[160];
	const char *before = getenv("PATH");
	struct error err = {0};

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/pasta", folder);
	snprintf(variable, sizeof variable, "/nowhere::.:%s", folder);
	setenv("PATH", variable, 1);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(pasta_find(found, &err), -1);
	assert_non_null(strstr(err.hint, "install the package passt"));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/bin/true", path), 0);
	assert_int_equal(pasta_find(found, &err), 0);
	assert_string_equal(found, path);
	assert_int_equal(chdir(folder), 0);
	setenv("PATH", ":.", 1);
	assert_int_equal(pasta_find(found, &err), -1);
	assert_int_equal(chdir("/"), 0);
	unlink(path);
	rmdir(folder);
	setenv("PATH", before ?: "/usr/bin:/bin", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_servers_are_those_that_can_be_reached),
		cmocka_unit_test(a_text_without_end_is_cut),
		cmocka_unit_test(it_is_looked_for_in_absolute_directories_of_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
