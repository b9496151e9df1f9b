/* SPDX-License-Identifier: MIT */
/* The configuration: what it sets, what goes over what, the one line for each mistake, and the manual page beside it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "util/cleanup.h"
#include "util/error.h"

static char base[64], file[96], user_folder[96], user_file[112];

static int setup(void **state)
{
	strcpy(base, "/tmp/nsbox-config-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(file, sizeof file, "%s/named.conf", base);
	snprintf(user_folder, sizeof user_folder, "%s/nsbox", base);
	snprintf(user_file, sizeof user_file, "%s/nsbox.conf", user_folder);
	setenv("XDG_CONFIG_HOME", base, 1);
	setenv("HOME", "/home/someone", 1);
	return mkdir(user_folder, 0700);
}

static int teardown(void **state)
{
	unlink(file);
	unlink(user_file);
	rmdir(user_folder);
	return rmdir(base);
}

static void write_text(const char *path, const char *text)
{
	FILE *stream;

	unlink(path);
	stream = fopen(path, "w");
	assert_non_null(stream);
	fputs(text, stream);
	fclose(stream);
	assert_int_equal(chmod(path, 0644), 0);
}

static void load(const char *text, struct config *ret)
{
	struct error err = {0};

	write_text(file, text);
	if (config_load(file, ret, &err) < 0)
		fail_msg("%s: refused: %s", text, err.text);
}

/* Refused, with «FILE» and then `message`. */
static void refused(const char *text, const char *message)
{
	struct error err = {0};
	struct config config;

	write_text(file, text);
	if (config_load(file, &config, &err) == 0)
		fail_msg("taken: %s", text);
	config_free(&config);
	assert_memory_equal(err.text, file, strlen(file));
	assert_string_equal(err.text + strlen(file), message);
	assert_string_equal(err.hint, "");
}

static void every_key(void **state)
{
	struct config config;

	load("{\"limits\": {\"memory\": \"128m\", \"disk\": \"1m\", \"pids\": 10, \"timeout\": \"1.5s\", \"cpus\": 0.5,"
	     " \"open_files\": \"64\", \"file_size\": \"64k\", \"output\": \"2k\"}, \"network\": \"host\","
	     " \"seccomp\": \"unconfined\", \"cgroup\": \"/sys/fs/cgroup/x\", \"require_cgroup\": true, \"image_policy\": \"pull\","
	     " \"env\": {\"A\": \"1\", \"B\": \"\"}, \"mcp\": {\"memory\": 8388608, \"max_memory\": \"1g\","
	     " \"timeout\": 10, \"max_timeout\": \"1m\", \"max_parallel\": 3, \"max_sessions\": 5, \"allow_pull\": true,"
	     " \"allow_image\": [\"ghcr.io/owner/*\", \"python:*\"], \"allow_network\": \"a.example:22\"},"
	     " \"packages\": {\"memory\": \"3g\", \"disk\": \"5g\", \"pids\": 99, \"timeout\": \"20m\", \"size\": \"20g\", \"allow\": \"a.b:1\"},"
	     " \"snapshots\": {\"max_size\": \"30g\"}}",
		&config);
	for (int i = 0; i < CONFIG_KEY_MAX; i++)
		if (!config.given[i])
			fail_msg("%s is not given", config_key_name(i));
	assert_int_equal(config.limits.memory_bytes, 128 << 20);
	assert_int_equal(config.limits.disk_bytes, 1 << 20);
	assert_int_equal(config.limits.pids, 10);
	assert_int_equal(config.timeout_ms, 1500);
	assert_int_equal(config.limits.cpu_millis, 500);
	assert_int_equal(config.limits.open_files, 64);
	assert_int_equal(config.limits.file_size_bytes, 64 << 10);
	assert_int_equal(config.limits.output_bytes, 2 << 10);
	assert_string_equal(config.network, "host");
	assert_string_equal(config.seccomp_name, "unconfined");
	assert_string_equal(config.cgroup, "/sys/fs/cgroup/x");
	assert_true(config.require_cgroup);
	assert_int_equal(config.image_policy, IMAGE_POLICY_PULL);
	assert_true(config.mcp.allow_pull);
	assert_string_equal(config.mcp.allow_images[0], "ghcr.io/owner/*");
	assert_string_equal(config.mcp.allow_images[1], "python:*");
	assert_null(config.mcp.allow_images[2]);
	assert_string_equal(config.mcp.allow_networks[0], "a.example:22");
	assert_null(config.mcp.allow_networks[1]);
	assert_string_equal(config.env.env[0], "A=1");
	assert_string_equal(config.env.env[1], "B=");
	assert_null(config.env.env[2]);
	assert_int_equal(config.mcp.memory_bytes, 8 << 20);
	assert_int_equal(config.mcp.memory_max_bytes, 1 << 30);
	assert_int_equal(config.mcp.timeout_ms, 10000);
	assert_int_equal(config.mcp.timeout_max_ms, 60000);
	assert_int_equal(config.mcp.parallel_max, 3);
	assert_int_equal(config.mcp.sessions_max, 5);
	assert_int_equal(config.packages.memory_bytes, 3ULL << 30);
	assert_int_equal(config.packages.disk_bytes, 5ULL << 30);
	assert_int_equal(config.packages.pids, 99);
	assert_string_equal(config.packages.allow, "a.b:1");
	assert_int_equal(config.packages.timeout_ms, 20 * 60 * 1000);
	assert_int_equal(config.packages.size_bytes, 20ULL << 30);
	assert_int_equal(config_snapshots_bytes(&config), 30ULL << 30);
	config_free(&config);
}

/* What no file gives stays as it was in the spec. */
static void what_is_given_is_applied(void **state)
{
	struct config config;
	struct spec spec, plain;

	load("{\"limits\": {\"pids\": 7, \"file_size\": \"none\"}, \"seccomp\": \"/etc/own.json\"}",
		&config);
	spec_init(&spec);
	spec_init(&plain);
	config_apply_to_spec(&config, &spec);
	assert_int_equal(spec.limits.pids, 7);
	assert_int_equal(spec.limits.file_size_bytes, 0);
	assert_string_equal(spec.seccomp_name, "/etc/own.json");
	spec.limits.pids = plain.limits.pids;
	assert_memory_equal(&spec.limits, &plain.limits, sizeof spec.limits);
	assert_int_equal(spec.network, NETWORK_NONE);
	assert_false(spec.require_cgroup);
	assert_null(spec.cgroup);
	config_free(&config);
	spec_free(&spec);
	spec_free(&plain);
}

static void a_later_file_goes_over_key_by_key(void **state)
{
	struct config config;
	struct error err = {0};
	struct exec_spec exec = {.env = NULL};

	load("{\"limits\": {\"memory\": \"1g\", \"pids\": 7}, \"seccomp\": \"/a\", \"require_cgroup\": true,"
	     " \"env\": {\"A\": \"1\", \"B\": \"2\"}}",
		&config);
	write_text(file,
		"{\"limits\": {\"pids\": 8}, \"seccomp\": \"default\", \"require_cgroup\": false,"
		" \"env\": {\"B\": \"3\"}}");
	assert_int_equal(config_read(file, &config, &err), 0);
	assert_int_equal(config.limits.memory_bytes, 1 << 30);
	assert_int_equal(config.limits.pids, 8);
	assert_string_equal(config.seccomp_name, "default");
	assert_false(config.require_cgroup);
	exec_set_env(&exec, "B", "0");
	exec_set_env(&exec, "C", "4");
	config_apply_to_exec(&config, &exec);
	assert_string_equal(exec.env[0], "B=3");
	assert_string_equal(exec.env[1], "C=4");
	assert_string_equal(exec.env[2], "A=1");
	assert_null(exec.env[3]);
	for (char **entry = exec.env; *entry; entry++)
		free(*entry);
	free(exec.env);
	config_free(&config);
}

static void mistakes_are_named(void **state)
{
	refused("{\n\"limits\": {\n\"memory\" \"1g\"}}", ":3: ':' expected near '\"1g\"'");
	refused("", ":1: '[' or '{' expected near end of file");
	refused("{\"env\": {\"A\": \"1\",\n\"A\": \"2\"}}",
		":2: duplicate object key near '\"A\"'");
	refused("{} {}", ":1: end of file expected near '{'");
	refused("[]", ": expected an object, not an array");
	refused("{\"limits\": {\"memory\": \"12 parsecs\"}}",
		": limits.memory: \"12 parsecs\" is not a size; write it as 512m or 1g");
	refused("{\"limits\": {\"memory\": null}}",
		": limits.memory: expected a size such as \"512m\", not null");
	refused("{\"limits\": {\"memory\": \"1k\"}}",
		": limits.memory: \"1k\" is too little; the least is 4m");
	refused("{\"limits\": {\"disk\": 1}}",
		": limits.disk: \"1\" is too little; the least is 64k");
	refused("{\"limits\": {\"output\": \"1g\"}}",
		": limits.output: \"1g\" is out of range; it goes from 1k to 256m");
	refused("{\"limits\": {\"pids\": -1}}", ": limits.pids: \"-1\" is not a whole number");
	refused("{\"limits\": {\"pids\": 1.5}}", ": limits.pids: \"1.5\" is not a whole number");
	refused("{\"limits\": {\"open_files\": 2}}",
		": limits.open_files: \"2\" is out of range; it goes from 8 to 1048576");
	refused("{\"limits\": {\"timeout\": \"soon\"}}",
		": limits.timeout: \"soon\" is not a duration; write it as 30s, 500ms, 2m or 1h, or none");
	refused("{\"limits\": {\"cpus\": \"two\"}}",
		": limits.cpus: \"two\" is not a number of CPUs; write it as 0.5 or 2");
	refused("{\"limits\": []}", ": limits: expected an object, not an array");
	refused("{\"require_cgroup\": 1}",
		": require_cgroup: expected true or false, not a number");
	refused("{\"network\": \"bridge\"}",
		": network: \"bridge\" is not a network; write none, allow=HOST[:PORT],..., pasta or host");
	refused("{\"network\": 0}", ": network: expected \"none\", \"allow=HOST[:PORT],...\", \"pasta\" or \"host\", not a number");
	refused("{\"env\": []}", ": env: expected an object of names and values, not an array");
	refused("{\"env\": {\"A\": 1}}", ": env.A: expected a string, not a number");
	refused("{\"env\": {\"A=B\": \"1\"}}", ": env: \"A=B\" cannot be the name of a variable");
	refused("{\"mcp\": {\"timeout\": \"none\"}}",
		": mcp.timeout: \"none\" is no limit, and there has to be one; write it as 30s");
	refused("{\"image_policy\": \"always\"}",
		": image_policy: \"always\" is not one of \"stored\", \"host\" or \"pull\"");
	refused("{\"mcp\": {\"allow_image\": [\"a\", 1]}}",
		": mcp.allow_image: expected a pattern such as \"ghcr.io/owner/*\", or an array of them, not a number");
	refused("{\"mcp\": {\"allow_network\": true}}",
		": mcp.allow_network: expected a network such as \"api.example.org:443\", or an array of them, not true");
	refused("{\"mcp\": {\"max_parallel\": 257}}",
		": mcp.max_parallel: \"257\" is out of range; it goes from 1 to 256");
	refused("{\"mcp\": {\"max_sessions\": 0}}",
		": mcp.max_sessions: \"0\" is out of range; it goes from 1 to 10000");
}

static void unknown_keys_are_refused(void **state)
{
	refused("{\"limit\": {}}",
		": \"limit\": unknown key; here there are limits, network, seccomp, cgroup, "
		"require_cgroup, image_policy, packages, snapshots, mcp, env, registries");
	refused("{\"limits\": {\"memry\": \"1g\"}}",
		": \"limits.memry\": unknown key; in limits there are memory, "
		"disk, pids, timeout, cpus, open_files, file_size, output");
	refused("{\"mcp\": {\"max_mem\": \"1g\"}}",
		": \"mcp.max_mem\": unknown key; in mcp there are memory, "
		"max_memory, timeout, max_timeout, max_parallel, max_sessions, allow_pull, allow_image, allow_network");
	refused("{\"limits.memory\": \"1g\"}",
		": \"limits.memory\": unknown key; here there are limits, network, "
		"seccomp, cgroup, require_cgroup, image_policy, packages, snapshots, mcp, env, registries");
	refused("{\"network\": {\"none\": 1}}",
		": network: expected \"none\", \"allow=HOST[:PORT],...\", \"pasta\" or \"host\", not an object");
}

static void paths_are_absolute(void **state)
{
	refused("{\"cgroup\": \"x/y\"}",
		": cgroup: \"x/y\" is not an absolute path, and there is no folder that it "
		"could be relative to");
	refused("{\"cgroup\": \"~/x\"}",
		": cgroup: \"~/x\": no shell puts a home in place of the ~; write "
		"/home/someone/x");
	refused("{\"seccomp\": \"~/x.json\"}",
		": seccomp: \"~/x.json\": no shell puts a home in place of the ~; write "
		"/home/someone/x.json");
	refused("{\"seccomp\": \"essential\"}",
		": seccomp: \"essential\" is not one of default, strict, debug, unconfined, nor the absolute path of a profile");
}

static void others_must_not_write(void **state)
{
	struct config config;
	static const mode_t modes[] = {0620, 0602, 0666};
	struct error err = {0};
	char expected[256];

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		write_text(file, "{}");
		chmod(file, modes[i]);
		assert_int_equal(config_load(file, &config, &err), -1);
		snprintf(expected, sizeof expected,
			"%s: others can write to it, and so weaken the sandbox; run chmod go-w on it",
			file);
		assert_string_equal(err.text, expected);
		config_free(&config);
	}
	write_text(file, "{}");
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(file, 4711, 4711), 0);
	assert_int_equal(config_load(file, &config, &err), -1);
	assert_non_null(strstr(err.text, ": belongs to user 4711, "));
}

static void missing_and_unreadable(void **state)
{
	struct config config;
	struct error err = {0};

	unlink(file);
	assert_int_equal(config_load(file, &config, &err), -1);
	assert_int_equal(err.errnum, ENOENT);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(config_load(file, &config, &err), -1);
	assert_non_null(strstr(err.text, ": not a regular file"));
	unlink(file);
	write_text(user_file, "{\"mcp\": 1}");
	assert_int_equal(config_load(NULL, &config, &err), -1);
	assert_memory_equal(err.text, user_file, strlen(user_file));
	if (geteuid() != 0) {
		chmod(user_file, 0);
		assert_int_equal(config_load(NULL, &config, &err), -1);
		assert_int_equal(err.errnum, EACCES);
		/* A home that may not be entered is somebody else's. */
		chmod(user_folder, 0);
		assert_int_equal(config_load(NULL, &config, &err), 0);
		config_free(&config);
		chmod(user_folder, 0700);
	}
	unlink(user_file);
	assert_int_equal(config_load(NULL, &config, &err), 0);
	config_free(&config);
	setenv("XDG_CONFIG_HOME", "/dev/null", 1);
	assert_int_equal(config_load(NULL, &config, &err), 0);
	config_free(&config);
	setenv("XDG_CONFIG_HOME", base, 1);
}

static void the_users_file_is_found(void **state)
{
	struct config config;
	struct error err = {0};

	write_text(user_file, "{\"limits\": {\"pids\": 9}}");
	assert_int_equal(config_load(NULL, &config, &err), 0);
	assert_int_equal(config.limits.pids, 9);
	config_free(&config);
	setenv("XDG_CONFIG_HOME", "relative", 1); /* which the XDG specification says to ignore */
	assert_int_equal(config_load(NULL, &config, &err), 0);
	assert_false(config.given[CONFIG_LIMITS_PIDS]);
	config_free(&config);
	setenv("XDG_CONFIG_HOME", base, 1);
	unlink(user_file);
}

/* The page has an item «.It Ic KEY …» for each key, and for no other. */
static void the_manual_has_the_same_keys(void **state)
{
	const char *source = getenv("srcdir");
	char path[4096], line[512], key[64];
	bool seen[CONFIG_KEY_MAX] = {false};
	bool env = false, registries = false, allow_image = false, allow_network = false;
	FILE *page;

	snprintf(path, sizeof path, "%s/man/nsbox.conf.5", source ? source : ".");
	page = fopen(path, "r");
	assert_non_null(page);
	while (fgets(line, sizeof line, page)) {
		int which = 0;

		if (sscanf(line, ".It Ic %63s", key) != 1)
			continue;
		while (which < CONFIG_KEY_MAX && strcmp(config_key_name(which), key) != 0)
			which++;
		if (which < CONFIG_KEY_MAX)
			seen[which] = true;
		else if (strcmp(key, "env") == 0)
			env = true;
		else if (strcmp(key, "registries") == 0)
			registries = true; /* the last: what follows is of each of them */
		else if (registries)
			continue;
		else if (strcmp(key, "mcp.allow_image") == 0)
			allow_image = true;
		else if (strcmp(key, "mcp.allow_network") == 0)
			allow_network = true;
		else
			fail_msg("in the manual alone: %s", key);
	}
	fclose(page);
	assert_true(env);
	assert_true(registries);
	assert_true(allow_image);
	assert_true(allow_network);
	for (int i = 0; i < CONFIG_KEY_MAX; i++)
		if (!seen[i])
			fail_msg("not in the manual: %s", config_key_name(i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key),
		cmocka_unit_test(what_is_given_is_applied),
		cmocka_unit_test(a_later_file_goes_over_key_by_key),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(unknown_keys_are_refused),
		cmocka_unit_test(paths_are_absolute),
		cmocka_unit_test(others_must_not_write),
		cmocka_unit_test(missing_and_unreadable),
		cmocka_unit_test(the_users_file_is_found),
		cmocka_unit_test(the_manual_has_the_same_keys),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
