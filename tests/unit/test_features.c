/* SPDX-License-Identifier: MIT */
/* The table of kernel features, versions of kernels, and what containers and sysctls are told apart by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "sandbox/diagnose.h"
#include "sandbox/features.h"
#include "util/error.h"

static void versions_are_parsed(void **state)
{
	static const struct {
		const char *release;
		int major, minor;
	} cases[] = {
		{ "6.1.0-18-amd64", 6, 1 }, { "5.14.0-427.13.1.el9_4.x86_64", 5, 14 }, { "6.18.44-fc-v657", 6, 18 }, { "5.15", 5, 15 },
		{ "6.6.87.2-microsoft-standard-WSL2", 6, 6 }, { "10.0-rc1", 10, 0 }, { "6", 0, 0 }, { "", 0, 0 }, { "next-2026", 0, 0 },
		{ "-6.1", 0, 0 }, { "6.-1", 0, 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int major_number = 99, minor_number = 99;

		kernel_version_parse(cases[i].release, &major_number, &minor_number);
		assert_int_equal(major_number, cases[i].major);
		assert_int_equal(minor_number, cases[i].minor);
	}
}

static void running_kernel_is_told(void **state)
{
	int major_number, minor_number;

	kernel_version(&major_number, &minor_number);
	assert_true(major_number >= 5);
	assert_true(minor_number >= 0);
}

static void versions_are_compared_as_numbers(void **state)
{
	const struct feature feature = { .major = 5, .minor = 9 };

	assert_true(feature_is_in(&feature, 5, 9));
	assert_true(feature_is_in(&feature, 5, 10));
	assert_true(feature_is_in(&feature, 6, 0));
	assert_false(feature_is_in(&feature, 5, 8));
	assert_false(feature_is_in(&feature, 4, 20));
}

static void old_kernels_are_refused(void **state)
{
	static const int old[][2] = { { 5, 13 }, { 5, 4 }, { 4, 18 }, { 3, 10 } };
	static const int new[][2] = { { 5, 14 }, { 5, 15 }, { 6, 0 }, { 7, 2 }, { 0, 0 } };

	for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
		struct error err = { 0 };

		assert_int_equal(features_require_version(old[i][0], old[i][1], &err), -1);
		assert_non_null(strstr(err.text, "is too old: nsbox needs 5.14 or later"));
		assert_true(err.hint[0] != '\0');
	}
	for (size_t i = 0; i < sizeof new / sizeof *new; i++) {
		struct error err = { 0 };

		assert_int_equal(features_require_version(new[i][0], new[i][1], &err), 0);
		assert_string_equal(err.text, "");
	}
}

/* The floor is what the table requires, no more and no less; the rest says what happens without it. */
static void table_agrees_with_the_floor(void **state)
{
	bool floor_is_needed = false;

	for (unsigned i = 0; i < features_count; i++) {
		const struct feature *feature = &features[i];
		size_t length = strlen(feature->below);

		assert_true(strlen(feature->name) > 0);
		assert_true(length > 0 && feature->below[length - 1] == '.');
		if (i > 0)
			assert_true(feature_is_in(feature - 1, feature->major, feature->minor));
		assert_int_equal(feature->required, feature_is_in(feature, KERNEL_FLOOR_MAJOR, KERNEL_FLOOR_MINOR));
		if (feature->major == KERNEL_FLOOR_MAJOR && feature->minor == KERNEL_FLOOR_MINOR)
			floor_is_needed = true;
	}
	assert_true(floor_is_needed);
}

static void sysctls_are_read(void **state)
{
	assert_true(sysctl_value("kernel/pid_max") > 300);
	assert_int_equal(sysctl_value("kernel/there_is_no_such"), -1);
	assert_int_equal(sysctl_value("kernel/ostype"), -1);
}

static void unknown_causes_leave_the_error_alone(void **state)
{
	struct error err, before;

	error_set(&err, ENOMEM, "making the namespaces");
	before = err;
	diagnose_namespaces(ENOMEM, &err);
	assert_string_equal(err.text, before.text);
	assert_string_equal(err.hint, before.hint);
}

static void exhausted_processes_are_named(void **state)
{
	struct error err;

	error_set(&err, EAGAIN, "making the namespaces");
	diagnose_namespaces(EAGAIN, &err);
	assert_non_null(strstr(err.text, "no more processes may be started"));
	assert_non_null(strstr(err.hint, "ulimit -u"));
}

/* A text that fills its buffer must neither overflow nor lose what was tried. */
static void long_texts_stay_in_bounds(void **state)
{
	struct error err = { 0 };

	memset(err.text, 'x', sizeof err.text - 1);
	diagnose_namespaces(EAGAIN, &err);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
	assert_int_equal(err.text[0], 'x');
	for (size_t length = sizeof err.text - 6; length < sizeof err.text; length++) {
		memset(&err, 0, sizeof err);
		memset(err.text, 'x', length);
		diagnose_namespaces(EAGAIN, &err);
		assert_true(strlen(err.text) < sizeof err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_parsed),
		cmocka_unit_test(running_kernel_is_told),
		cmocka_unit_test(versions_are_compared_as_numbers),
		cmocka_unit_test(old_kernels_are_refused),
		cmocka_unit_test(table_agrees_with_the_floor),
		cmocka_unit_test(sysctls_are_read),
		cmocka_unit_test(unknown_causes_leave_the_error_alone),
		cmocka_unit_test(exhausted_processes_are_named),
		cmocka_unit_test(long_texts_stay_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
