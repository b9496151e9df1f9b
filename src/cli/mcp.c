/* SPDX-License-Identifier: MIT */
/* `nsbox mcp`: the MCP server over standard input and output, with the ceilings for what its calls may ask for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config/config.h"
#include "mcp/server.h"
#include "sandbox/spec.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox mcp [OPTIONS]\n"
	"\n"
	"Serves the Model Context Protocol on standard input and output: an MCP client starts it, and calls\n"
	"execute_code to run code in a sandbox. It ends, with everything that it runs, when the client goes.\n"
	"\n"
	"A model chooses the arguments of its calls; these options are what it can choose from:\n"
	"      --memory SIZE        memory of a call that asks for none (512m)\n"
	"      --max-memory SIZE    the most that a call may ask for (2g)\n"
	"      --timeout TIME       wall time of a call that asks for none (30s)\n"
	"      --max-timeout TIME   the most that a call may ask for (5m)\n"
	"      --max-parallel N     calls that run at one time; more wait (twice the CPUs, at least 4)\n"
	"      --max-sessions N     sandboxes that last at one time, of all servers of the user (32)\n"
	"      --image-policy stored|host|pull\n"
	"                           what a call without an image runs in: the language's image when it is in the\n"
	"                           store, else the host's toolchain; always that; or the image, fetched (stored)\n"
	"      --allow-image GLOB   images that a call may name besides the languages' own; may be given again\n"
	"      --allow-pull         fetch images that are allowed and not in the store\n"
	"      --allow-network NETWORK\n"
	"                           what a call may have as its network: rules as HOST[:PORT],..., pasta or host; registries:\n"
	"                           code reaches nothing, installs of packages their registries; none: these neither; may\n"
	"                           be given again (registries)\n"
	"      --seccomp NAME|FILE  the filter of the calls' system calls, as for nsbox run (default)\n"
	"      --config FILE        what no option says is as in this file, not as in nsbox.conf(5)\n"
	"      --no-config          no file is read\n"
	"  -h, --help               this text\n"
	"\n"
	"In a client's configuration: {\"mcpServers\": {\"nsbox\": {\"command\": \"nsbox\", \"args\": [\"mcp\"]}}}\n"
	"NSBOX_LANGUAGES_DIR names another folder of languages than the installed one.\n";

enum {
	OPTION_MEMORY = 256,
	OPTION_MAX_MEMORY,
	OPTION_TIMEOUT,
	OPTION_MAX_TIMEOUT,
	OPTION_MAX_PARALLEL,
	OPTION_MAX_SESSIONS,
	OPTION_IMAGE_POLICY,
	OPTION_ALLOW_IMAGE,
	OPTION_ALLOW_PULL,
	OPTION_ALLOW_NETWORK,
	OPTION_SECCOMP,
	OPTION_CONFIG,
	OPTION_NO_CONFIG,
};

static const struct option long_options[] = {
	{"memory", required_argument, NULL, OPTION_MEMORY},
	{"max-memory", required_argument, NULL, OPTION_MAX_MEMORY},
	{"timeout", required_argument, NULL, OPTION_TIMEOUT},
	{"max-timeout", required_argument, NULL, OPTION_MAX_TIMEOUT},
	{"max-parallel", required_argument, NULL, OPTION_MAX_PARALLEL},
	{"max-sessions", required_argument, NULL, OPTION_MAX_SESSIONS},
	{"image-policy", required_argument, NULL, OPTION_IMAGE_POLICY},
	{"allow-image", required_argument, NULL, OPTION_ALLOW_IMAGE},
	{"allow-pull", no_argument, NULL, OPTION_ALLOW_PULL},
	{"allow-network", required_argument, NULL, OPTION_ALLOW_NETWORK},
	{"seccomp", required_argument, NULL, OPTION_SECCOMP},
	{"config", required_argument, NULL, OPTION_CONFIG},
	{"no-config", no_argument, NULL, OPTION_NO_CONFIG},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Who has said what a value is. A later one goes over an earlier one. */
enum origin { ORIGIN_NOBODY, ORIGIN_CONFIG, ORIGIN_OPTION };

struct settings {
	struct mcp_options options;
	enum origin memory, max_memory, timeout, max_timeout, max_parallel, max_sessions;
	bool image_policy; /* an option has said it */
	char **allow_images; /* of argv, NULL-terminated; NULL: none was given */
	size_t allow_images_count;
	const char *seccomp;
	const char *config_file;
	bool no_config;
};

static int set_option(int option, const char *value, struct settings *settings, struct error *err)
{
	struct mcp_options *options = &settings->options;

	switch (option) {
	case OPTION_MEMORY:
		settings->memory = ORIGIN_OPTION;
		return parse_size("--memory", value, &options->memory_default_bytes, err);
	case OPTION_MAX_MEMORY:
		settings->max_memory = ORIGIN_OPTION;
		return parse_size("--max-memory", value, &options->memory_max_bytes, err);
	case OPTION_TIMEOUT:
		settings->timeout = ORIGIN_OPTION;
		return parse_duration_ms("--timeout", value, &options->timeout_default_ms, err);
	case OPTION_MAX_TIMEOUT:
		settings->max_timeout = ORIGIN_OPTION;
		return parse_duration_ms("--max-timeout", value, &options->timeout_max_ms, err);
	case OPTION_MAX_PARALLEL:
		settings->max_parallel = ORIGIN_OPTION;
		return parse_count("--max-parallel", value, 1, MCP_PARALLEL_LIMIT,
			&options->parallel_max, err);
	case OPTION_MAX_SESSIONS:
		settings->max_sessions = ORIGIN_OPTION;
		return parse_count("--max-sessions", value, 1, MCP_SESSIONS_LIMIT,
			&options->sessions_max, err);
	case OPTION_IMAGE_POLICY:
		settings->image_policy = true;
		return image_policy_parse("--image-policy", value, &options->image_policy, err);
	case OPTION_ALLOW_IMAGE:
		settings->allow_images = xrealloc(settings->allow_images, settings->allow_images_count + 2,
			sizeof *settings->allow_images);
		settings->allow_images[settings->allow_images_count++] = (char *)value;
		settings->allow_images[settings->allow_images_count] = NULL;
		options->allow_images = settings->allow_images;
		return 0;
	case OPTION_ALLOW_PULL:
		options->allow_pull = true;
		return 0;
	case OPTION_ALLOW_NETWORK:
		return network_ceiling_add(&options->network, "--allow-network", value, err);
	case OPTION_SECCOMP:
		settings->seccomp = value;
		return 0;
	case OPTION_CONFIG:
		settings->config_file = value;
		options->pull_config.file = value;
		return 0;
	case OPTION_NO_CONFIG:
		settings->no_config = true;
		options->pull_config.none = true;
		return 0;
	}
	return error_set(err, 0, "unknown option");
}

_Static_assert((int)CONFIG_MCP_SESSIONS_LIMIT == (int)MCP_SESSIONS_LIMIT,
	"mcp.max_sessions is --max-sessions");
_Static_assert((int)CONFIG_MCP_PARALLEL_LIMIT == (int)MCP_PARALLEL_LIMIT,
	"mcp.max_parallel is --max-parallel");

/* The configured value of `key` goes over one that nobody has given. */
static void take(const struct config *config, enum config_key key, uint64_t value, uint64_t *ret,
	enum origin *origin)
{
	if (!config->given[key] || *origin != ORIGIN_NOBODY)
		return;
	*ret = value;
	*origin = ORIGIN_CONFIG;
}

/*
 * The values for runs of the command line (limits.memory, limits.timeout) hold for calls too where there are none
 * for those; as nobody has chosen them for a server, they give way to its ceilings as the built-in ones do.
 */
static int use_config(const struct config *config, struct settings *settings, struct error *err)
{
	struct mcp_options *options = &settings->options;

	if (settings->memory == ORIGIN_NOBODY && config->given[CONFIG_LIMITS_MEMORY])
		options->memory_default_bytes = config->limits.memory_bytes;
	if (settings->timeout == ORIGIN_NOBODY && config->given[CONFIG_LIMITS_TIMEOUT] &&
		config->timeout_ms)
		options->timeout_default_ms = config->timeout_ms;
	take(config, CONFIG_MCP_MEMORY, config->mcp.memory_bytes, &options->memory_default_bytes,
		&settings->memory);
	take(config, CONFIG_MCP_MAX_MEMORY, config->mcp.memory_max_bytes,
		&options->memory_max_bytes, &settings->max_memory);
	take(config, CONFIG_MCP_TIMEOUT, config->mcp.timeout_ms, &options->timeout_default_ms,
		&settings->timeout);
	take(config, CONFIG_MCP_MAX_TIMEOUT, config->mcp.timeout_max_ms, &options->timeout_max_ms,
		&settings->max_timeout);
	if (config->given[CONFIG_MCP_MAX_PARALLEL] && settings->max_parallel == ORIGIN_NOBODY)
		options->parallel_max = config->mcp.parallel_max;
	if (config->given[CONFIG_MCP_MAX_SESSIONS] && settings->max_sessions == ORIGIN_NOBODY)
		options->sessions_max = config->mcp.sessions_max;
	if (config->given[CONFIG_IMAGE_POLICY] && !settings->image_policy)
		options->image_policy = config->image_policy;
	if (!options->allow_images)
		options->allow_images = config->mcp.allow_images;
	options->allow_pull |= config->mcp.allow_pull;
	options->config = config;
	if (options->network.given)
		return 0;
	for (char **network = config->mcp.allow_networks; network && *network; network++)
		if (network_ceiling_add(&options->network, "mcp.allow_network", *network, err) < 0)
			return -1;
	return 0;
}

static int read_config(struct settings *settings, struct config *ret, struct error *err)
{
	config_init(ret);
	if (settings->no_config)
		return 0;
	if (config_load(settings->config_file, ret, err) < 0)
		return -1;
	/* A network for what a person runs is not one for what a model runs. */
	ret->given[CONFIG_NETWORK] = false;
	return use_config(ret, settings, err);
}

/* A profile that cannot be used is a mistake of who gives it with the command, before there is any call. */
static int set_seccomp(struct settings *settings, struct config *config, struct error *err)
{
	struct spec spec;
	char *name;
	int status;

	if (!settings->seccomp)
		return 0;
	name = seccomp_resolve("--seccomp", settings->seccomp, err);
	if (!name)
		return -1;
	free(config->seccomp_name);
	config->seccomp_name = name;
	config->given[CONFIG_SECCOMP] = true;
	settings->options.config = config;
	spec_init(&spec);
	config_apply_to_spec(config, &spec);
	status = spec_load_filters(&spec, err);
	spec_free(&spec);
	return status;
}

/* A value above its ceiling: where less was said of it than of the ceiling it gives way, else it is a mistake. */
static int settle(const char *name, uint64_t *value, enum origin origin, uint64_t max,
	enum origin max_origin, struct error *err)
{
	bool key_of_max = max_origin == ORIGIN_CONFIG ||
			  (max_origin == ORIGIN_NOBODY && origin == ORIGIN_CONFIG);

	if (*value <= max)
		return 0;
	if (origin == ORIGIN_NOBODY || origin < max_origin) {
		*value = max;
		return 0;
	}
	return error_set(err, 0, "%s%s is above %s%s", origin == ORIGIN_CONFIG ? "mcp." : "--",
		name, key_of_max ? "mcp.max_" : "--max-", name);
}

static int check(struct settings *settings, struct error *err)
{
	struct mcp_options *options = &settings->options;

	if (options->timeout_default_ms == 0 || options->timeout_max_ms == 0)
		return error_set(err, 0,
			"--timeout, --max-timeout: a server's calls must end some time; give a time above 0");
	if (settle("memory", &options->memory_default_bytes, settings->memory,
		    options->memory_max_bytes, settings->max_memory, err) < 0 ||
		settle("timeout", &options->timeout_default_ms, settings->timeout,
			options->timeout_max_ms, settings->max_timeout, err) < 0)
		return -1;
	if (options->memory_default_bytes < SPEC_MEMORY_MIN)
		return error_set(err, 0, "--memory, --max-memory: at least 4m is needed");
	return 0;
}

/* A descriptor that we open must not become 0, 1 or 2 because a client left those closed. */
static int open_standard_descriptors(struct error *err)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return error_set(err, 0, "/dev/null cannot be opened");
	close(fd);
	return 0;
}

static int fail(const struct error *err)
{
	error_print(err);
	fputs("nsbox: see nsbox mcp --help\n", stderr);
	return EXIT_NSBOX_FAILED;
}

/* Returns 1 for --help. */
static int parse_options(int argc, char **argv, struct settings *settings, struct error *err)
{
	int option;

	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == 'h')
			return 1;
		if (option == '?' || option == ':')
			return error_set(err, 0, "mcp: %s: %s", argv[optind - 1],
				option == '?' ? "unknown option" : "an argument is missing");
		if (set_option(option, optarg, settings, err) < 0)
			return -1;
	}
	if (optind < argc)
		return error_set(err, 0, "mcp: unexpected argument \"%s\"", argv[optind]);
	if (settings->no_config && settings->config_file)
		return error_set(err, 0, "--config and --no-config contradict each other");
	return 0;
}

static int serve(struct settings *settings)
{
	struct error err = {0};
	struct config config;
	int status;

	if (read_config(settings, &config, &err) < 0 ||
		set_seccomp(settings, &config, &err) < 0) {
		error_print(&err);
		status = EXIT_NSBOX_FAILED;
	} else if (check(settings, &err) < 0 || open_standard_descriptors(&err) < 0) {
		status = fail(&err);
	} else {
		if (isatty(STDIN_FILENO))
			fputs("nsbox mcp: waiting for an MCP client on standard input; Ctrl-D ends it\n",
				stderr);
		status = mcp_serve(&settings->options);
	}
	config_free(&config);
	return status;
}

int cmd_mcp(int argc, char **argv)
{
	struct settings settings = {.no_config = false};
	struct error err = {0};
	int parsed, status;

	mcp_options_init(&settings.options);
	parsed = parse_options(argc, argv, &settings, &err);
	if (parsed < 0) {
		status = fail(&err);
	} else if (parsed > 0) {
		fputs(help, stdout);
		status = 0;
	} else {
		status = serve(&settings);
	}
	free(settings.allow_images);
	network_ceiling_free(&settings.options.network);
	return status;
}
