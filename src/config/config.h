/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CONFIG_CONFIG_H
#define NSBOX_CONFIG_CONFIG_H

/*
 * The configuration: what holds where no option says otherwise. The format is nsbox.conf(5).
 *
 *     SYSCONF_DIR/nsbox/nsbox.conf                                          the system's
 *     $XDG_CONFIG_HOME/nsbox/nsbox.conf, else ~/.config/nsbox/nsbox.conf    the user's, over it key by key
 *
 * A key that no file has is not `given`, and its field means nothing. The command that asked for the configuration
 * reads it, before there is a sandbox; where there is no file that costs two calls of open that fail.
 */

#include <stdbool.h>
#include <stdint.h>

#include "config/registries.h"
#include "language/root.h"
#include "sandbox/spec.h"

struct error;

/*
 * Keys with one value each. «env» and «registries» are not among them: their own keys are names of variables and hosts. Nor
 * are «mcp.allow_image» and «mcp.allow_network», lists.
 */
enum config_key {
	CONFIG_LIMITS_MEMORY,
	CONFIG_LIMITS_DISK,
	CONFIG_LIMITS_PIDS,
	CONFIG_LIMITS_TIMEOUT,
	CONFIG_LIMITS_CPUS,
	CONFIG_LIMITS_OPEN_FILES,
	CONFIG_LIMITS_FILE_SIZE,
	CONFIG_LIMITS_OUTPUT,
	CONFIG_NETWORK,
	CONFIG_SECCOMP,
	CONFIG_CGROUP,
	CONFIG_REQUIRE_CGROUP,
	CONFIG_IMAGE_POLICY,
	CONFIG_PACKAGES_MEMORY,
	CONFIG_PACKAGES_DISK,
	CONFIG_PACKAGES_PIDS,
	CONFIG_PACKAGES_TIMEOUT,
	CONFIG_PACKAGES_SIZE,
	CONFIG_PACKAGES_ALLOW,
	CONFIG_SNAPSHOTS_MAX_SIZE,
	CONFIG_MCP_MEMORY,
	CONFIG_MCP_MAX_MEMORY,
	CONFIG_MCP_TIMEOUT,
	CONFIG_MCP_MAX_TIMEOUT,
	CONFIG_MCP_MAX_PARALLEL,
	CONFIG_MCP_MAX_SESSIONS,
	CONFIG_MCP_ALLOW_PULL,
	CONFIG_KEY_MAX,
};

enum { CONFIG_MCP_PARALLEL_LIMIT = 256, CONFIG_MCP_SESSIONS_LIMIT = 10000 };

/* Of `nsbox mcp`; none is 0. */
struct config_mcp {
	uint64_t memory_bytes, memory_max_bytes;
	uint64_t timeout_ms, timeout_max_ms;
	uint32_t parallel_max;
	uint32_t sessions_max;
	bool allow_pull;
	char **allow_images; /* patterns; owned, NULL-terminated; NULL when not given */
	char **allow_networks; /* as --allow-network has them; likewise */
};

/* Of installs of packages (packages/packages.h); 0: not given. */
struct config_packages {
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t size_bytes; /* of all that are kept */
	uint64_t timeout_ms;
	uint32_t pids;
	char *allow; /* owned: rules of gate/policy.h */
};

struct config {
	bool given[CONFIG_KEY_MAX];
	struct limits limits;
	uint64_t timeout_ms; /* 0: none */
	char *network; /* owned: as spec_set_network takes it; NULL when not given */
	char *seccomp_name; /* owned: seccomp_is_name, or an absolute path; NULL when not given */
	char *cgroup; /* owned: an absolute path; NULL when not given */
	bool require_cgroup;
	enum image_policy image_policy;
	struct exec_spec env; /* only its env */
	struct config_packages packages;
	uint64_t snapshots_bytes; /* of all snapshots of sessions: config_snapshots_bytes */
	struct config_mcp mcp;
	struct config_registries registries;
};

/* A configuration in which nothing is given. */
void config_init(struct config *config);

/*
 * Reads `file`; where that is NULL the system's and the user's, of which either may be missing. *ret is always
 * initialized, also on failure, and is freed with config_free. Errors name the file, and the line or the key:
 * «FILE:LINE: reason», «FILE: KEY: reason».
 */
int config_load(const char *file, struct config *ret, struct error *err);

/* Reads one file over what *config has. err->errnum is ENOENT or ENOTDIR only when there is none. */
int config_read(const char *file, struct config *config, struct error *err);

void config_free(struct config *config);

/* What all snapshots of sessions in the store may take, or the default. */
uint64_t config_snapshots_bytes(const struct config *config);

/* «limits.memory» */
const char *config_key_name(enum config_key key);

/*
 * Puts what is given into *spec: limits, network, seccomp and cgroup. The time limit and the environment belong to
 * commands, image_policy to languages, and the rest to `nsbox mcp`.
 */
void config_apply_to_spec(const struct config *config, struct spec *spec);

/* Sets the configured variables in exec's environment, in place of those of the same names. */
void config_apply_to_exec(const struct config *config, struct exec_spec *exec);

#endif
