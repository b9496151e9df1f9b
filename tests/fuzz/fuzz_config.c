/* SPDX-License-Identifier: MIT */
/*
 * A configuration file. What is read must be in the ranges that are promised, the spec that it is applied
 * to must be one that a sandbox can be made of, and an error must name the file.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "config/config.h"
#include "fuzz/fuzz.h"
#include "util/error.h"

static void check_config(const struct config *config)
{
	struct error err = {0};
	struct spec spec;

	spec_init(&spec);
	config_apply_to_spec(config, &spec);
	exec_add_arg(&spec.execs[0], "true");
	spec.execs_count = 1;
	config_apply_to_exec(config, &spec.execs[0]);
	if (spec_validate(&spec, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		require(false, "what a configuration sets makes a sandbox");
	}
	require(!config->given[CONFIG_MCP_MAX_PARALLEL] ||
			(config->mcp.parallel_max > 0 && config->mcp.parallel_max <= CONFIG_MCP_PARALLEL_LIMIT),
		"calls at one time are in their range");
	spec_free(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = to_file(data, size);
	struct config config;
	struct error err = {0};
	char path[40];

	require(fchmod(fd, 0600) == 0, "the file is the caller's alone");
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	config_init(&config);
	if (config_read(path, &config, &err) == 0)
		check_config(&config);
	else
		require(strncmp(err.text, path, strlen(path)) == 0 && !strchr(err.text, '\n'),
			"an error is a line that names the file");
	config_free(&config);
	close(fd);
	return 0;
}
