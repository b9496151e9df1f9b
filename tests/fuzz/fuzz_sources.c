/* SPDX-License-Identifier: MIT */
/*
 * The sources of a root's apt, in each of the three formats. What comes of them are rules that the gate takes, and, in a
 * stranger's image, none that leads into the host's own network.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"
#include "gate/policy.h"
#include "packages/sources.h"
#include "util/error.h"

static char *layers[2];

static void make_root(void)
{
	static const char *const directories[] = {"root", "root/etc", "root/etc/apt", "root/etc/apt/sources.list.d"};
	static const char list[] = "deb mirror+file:/etc/apt/mirrors x\n";
	static char path[PATH_MAX];
	int fd;

	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
		require(mkdir(directories[i], 0755) == 0 || errno == EEXIST, "a directory is made");
	fd = open("root/etc/apt/sources.list.d/mirrors.list", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	require(fd >= 0 && write(fd, list, strlen(list)) == (ssize_t)strlen(list), "a file is written");
	close(fd);
	require(realpath("root", path) != NULL, "the folder has a path");
	layers[0] = path;
}

static void put(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file is written");
	close(fd);
}

static void check(bool private)
{
	char *left_out, *rules = sources_rules(layers, private, &left_out);
	struct policy policy = {0};
	struct error err = {0};

	require(!private || !left_out, "of the caller's own root nothing is left out");
	if (*rules && policy_add(&policy, "", rules, &err) < 0)
		/* So many that the gate says so itself. */
		require(strchr(rules, ',') != NULL, "a rule is one of the gate's");
	for (size_t i = 0; i < policy.count; i++) {
		const struct policy_rule *rule = &policy.rules[i];

		require(!rule->wildcard && rule->ports[0] != 0 && rule->ports[1] == 0, "a rule is one host with its port");
		require(private || rule->name[0] || !address_is_private(&rule->address), "a stranger's rule leads outside");
		require(private || strcmp(rule->name, POLICY_HOST_NAME) != 0, "a stranger's rule does not name the host");
		require(rule->name[0] || rule->bits == 128, "an address is one");
	}
	policy_free(&policy);
	free(rules);
	free(left_out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!layers[0])
		make_root();
	put("root/etc/apt/sources.list", data, size);
	put("root/etc/apt/sources.list.d/x.sources", data, size);
	put("root/etc/apt/mirrors", data, size);
	check(true);
	check(false);
	return 0;
}
