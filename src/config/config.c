/* SPDX-License-Identifier: MIT */
/*
 * Reads the configuration: see config.h.
 *
 * One table says which key is which field and how its text is read; that is as the option of the same meaning is
 * read, with the key's name in the error. A number in the file is read as the text that it is written as.
 *
 * The file decides about isolation, so nobody but root and the caller may be able to write it. A missing file is
 * none, and so is one in a home that the caller may not even enter, which then is somebody else's (HOME as setpriv
 * leaves it). Everything else that is wrong is an error: a limit must not vanish with a misspelt key.
 */
#define _GNU_SOURCE
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate/policy.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum { FILE_MAX = 64 << 10 /* bytes */ };

static const char SYSTEM_FILE[] = SYSCONF_DIR "/nsbox/nsbox.conf";

/* ---- Values ---- */

typedef int parse_function(const char *what, const char *text, void *ret, struct error *err);

static int parse_memory(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_size_between(what, text, SPEC_MEMORY_MIN, INT64_MAX, ret, err);
}

static int parse_disk(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_size_between(what, text, SPEC_DISK_MIN, INT64_MAX, ret, err);
}

static int parse_file_size(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_size_or_none(what, text, ret, err);
}

static int parse_output(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_size_between(what, text, SPEC_OUTPUT_MIN, SPEC_OUTPUT_MAX, ret, err);
}

static int parse_pids(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_count(what, text, 1, SPEC_PIDS_MAX, ret, err);
}

static int parse_open_files(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_count(what, text, SPEC_OPEN_FILES_MIN, SPEC_OPEN_FILES_MAX, ret, err);
}

static int parse_parallel(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_count(what, text, 1, CONFIG_MCP_PARALLEL_LIMIT, ret, err);
}

static int parse_sessions(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_count(what, text, 1, CONFIG_MCP_SESSIONS_LIMIT, ret, err);
}

static int parse_cpu_millis(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_cpus(what, text, ret, err);
}

static int parse_timeout(const char *what, const char *text, void *ret, struct error *err)
{
	return parse_duration_ms(what, text, ret, err);
}

/* Of a server's calls, and of installs, which must end some time. */
static int parse_finite_timeout(const char *what, const char *text, void *ret, struct error *err)
{
	char buffer[QUOTED_MAX];
	uint64_t ms;

	if (parse_duration_ms(what, text, &ms, err) < 0)
		return -1;
	if (ms == 0)
		return error_set(err, 0,
			"%s: %s is no limit, and there has to be one; write it as 30s",
			what, quoted(text, buffer));
	*(uint64_t *)ret = ms;
	return 0;
}

static int parse_policy(const char *what, const char *text, void *ret, struct error *err)
{
	return image_policy_parse(what, text, ret, err);
}

static void replace(char **text, const char *with)
{
	free(*text);
	*text = xstrdup(with);
}

static int parse_network(const char *what, const char *text, void *ret, struct error *err)
{
	struct spec spec = {.allow = NULL};

	if (spec_set_network(&spec, what, text, err) < 0)
		return -1;
	spec_free(&spec);
	replace(ret, text);
	return 0;
}

static int parse_path(const char *what, const char *text, void *ret, struct error *err)
{
	const char *home = getenv("HOME");
	char buffer[QUOTED_MAX];

	if (text[0] == '~' && text[1] == '/' && home && home[0] == '/')
		return error_set(err, 0,
			"%s: %s: no shell puts a home in place of the ~; write %s%s", what,
			quoted(text, buffer), home, text + 1);
	if (text[0] != '/')
		return error_set(err, 0,
			"%s: %s is not an absolute path, and there is no folder that it could be relative to",
			what, quoted(text, buffer));
	replace(ret, text);
	return 0;
}

static int parse_rules(const char *what, const char *text, void *ret, struct error *err)
{
	struct policy policy = {0};
	int r = policy_add(&policy, what, text, err);

	policy_free(&policy);
	if (r == 0)
		replace(ret, text);
	return r;
}

static int parse_seccomp(const char *what, const char *text, void *ret, struct error *err)
{
	char buffer[QUOTED_MAX];

	if (seccomp_is_name(text)) {
		replace(ret, text);
		return 0;
	}
	if (!strchr(text, '/'))
		return error_set(err, 0,
			"%s: %s is not one of " SECCOMP_NAMES ", nor the absolute path of a profile", what,
			quoted(text, buffer));
	return parse_path(what, text, ret, err);
}

/* ---- Keys ---- */

struct key {
	const char *name;
	size_t offset;         /* of the field in struct config */
	const char *expected;  /* what kind of value it takes */
	bool number;           /* a JSON number is taken too */
	parse_function *parse; /* NULL: a boolean */
};

#define FIELD(member) offsetof(struct config, member)
#define SIZE "a size such as \"512m\""
#define TIME "a time such as \"30s\""

/* clang-format off */
static const struct key keys[CONFIG_KEY_MAX] = {
	[CONFIG_LIMITS_MEMORY] = {"limits.memory", FIELD(limits.memory_bytes), SIZE, true, parse_memory},
	[CONFIG_LIMITS_DISK] = {"limits.disk", FIELD(limits.disk_bytes), SIZE, true, parse_disk},
	[CONFIG_LIMITS_PIDS] = {"limits.pids", FIELD(limits.pids), "a whole number", true, parse_pids},
	[CONFIG_LIMITS_TIMEOUT] = {"limits.timeout", FIELD(timeout_ms), TIME, true, parse_timeout},
	[CONFIG_LIMITS_CPUS] = {"limits.cpus", FIELD(limits.cpu_millis), "a number of CPUs", true, parse_cpu_millis},
	[CONFIG_LIMITS_OPEN_FILES] = {"limits.open_files", FIELD(limits.open_files), "a whole number", true,
		parse_open_files},
	[CONFIG_LIMITS_FILE_SIZE] = {"limits.file_size", FIELD(limits.file_size_bytes), SIZE, true, parse_file_size},
	[CONFIG_LIMITS_OUTPUT] = {"limits.output", FIELD(limits.output_bytes), SIZE, true, parse_output},
	[CONFIG_NETWORK] = {"network", FIELD(network), "\"none\", \"allow=HOST[:PORT],...\", \"pasta\" or \"host\"", false, parse_network},
	[CONFIG_SECCOMP] = {"seccomp", FIELD(seccomp_name), "one of " SECCOMP_NAMES ", or the path of a profile", false,
		parse_seccomp},
	[CONFIG_CGROUP] = {"cgroup", FIELD(cgroup), "an absolute path", false, parse_path},
	[CONFIG_REQUIRE_CGROUP] = {"require_cgroup", FIELD(require_cgroup), "true or false", false, NULL},
	[CONFIG_IMAGE_POLICY] = {"image_policy", FIELD(image_policy), IMAGE_POLICY_NAMES, false, parse_policy},
	[CONFIG_PACKAGES_MEMORY] = {"packages.memory", FIELD(packages.memory_bytes), SIZE, true, parse_memory},
	[CONFIG_PACKAGES_DISK] = {"packages.disk", FIELD(packages.disk_bytes), SIZE, true, parse_disk},
	[CONFIG_PACKAGES_PIDS] = {"packages.pids", FIELD(packages.pids), "a whole number", true, parse_pids},
	[CONFIG_PACKAGES_TIMEOUT] = {"packages.timeout", FIELD(packages.timeout_ms), TIME, true, parse_finite_timeout},
	[CONFIG_PACKAGES_SIZE] = {"packages.size", FIELD(packages.size_bytes), SIZE, true, parse_disk},
	[CONFIG_PACKAGES_ALLOW] = {"packages.allow", FIELD(packages.allow), "rules such as \"pypi.example.org:8443\"", false,
		parse_rules},
	[CONFIG_SNAPSHOTS_MAX_SIZE] = {"snapshots.max_size", FIELD(snapshots_bytes), SIZE, true, parse_disk},
	[CONFIG_MCP_MEMORY] = {"mcp.memory", FIELD(mcp.memory_bytes), SIZE, true, parse_memory},
	[CONFIG_MCP_MAX_MEMORY] = {"mcp.max_memory", FIELD(mcp.memory_max_bytes), SIZE, true, parse_memory},
	[CONFIG_MCP_TIMEOUT] = {"mcp.timeout", FIELD(mcp.timeout_ms), TIME, true, parse_finite_timeout},
	[CONFIG_MCP_MAX_TIMEOUT] = {"mcp.max_timeout", FIELD(mcp.timeout_max_ms), TIME, true, parse_finite_timeout},
	[CONFIG_MCP_MAX_PARALLEL] = {"mcp.max_parallel", FIELD(mcp.parallel_max), "a whole number", true, parse_parallel},
	[CONFIG_MCP_MAX_SESSIONS] = {"mcp.max_sessions", FIELD(mcp.sessions_max), "a whole number", true, parse_sessions},
	[CONFIG_MCP_ALLOW_PULL] = {"mcp.allow_pull", FIELD(mcp.allow_pull), "true or false", false, NULL},
};

/* One string, or several in an array. */
static const struct list_key {
	const char *name;
	size_t offset; /* of the char ** in struct config */
	const char *expected;
} list_keys[] = {
	{"mcp.allow_image", FIELD(mcp.allow_images), "a pattern such as \"ghcr.io/owner/*\", or an array of them"},
	{"mcp.allow_network", FIELD(mcp.allow_networks), "a network such as \"api.example.org:443\", or an array of them"},
};
/* clang-format on */

#define SNAPSHOTS_BYTES_DEFAULT (10ULL << 30)

const char *config_key_name(enum config_key key)
{
	return keys[key].name;
}

/* The key of that name; CONFIG_KEY_MAX: there is none. */
static enum config_key find_key(const char *name)
{
	enum config_key key = 0;

	while (key < CONFIG_KEY_MAX && strcmp(keys[key].name, name) != 0)
		key++;
	return key;
}

static bool is_group(const char *name)
{
	size_t length = strlen(name);

	for (int i = 0; i < CONFIG_KEY_MAX; i++)
		if (strncmp(keys[i].name, name, length) == 0 && keys[i].name[length] == '.')
			return true;
	return false;
}

static void add_name(char *list, size_t size, const char *name, size_t length)
{
	size_t used = strlen(list);

	/* Names of a group stand together, so that looking at the end of the list is enough. */
	if (used >= length && strncmp(list + used - length, name, length) == 0 &&
		(used == length || list[used - length - 1] == ' '))
		return;
	snprintf(list + used, size - used, "%s%.*s", used ? ", " : "", (int)length, name);
}

/* `name` is not known; says what there is beside it. */
static int unknown_key(const char *name, const char *group, struct error *err)
{
	size_t skip = *group ? strlen(group) + 1 : 0;
	char list[256] = "", buffer[QUOTED_MAX];

	for (int i = 0; i < CONFIG_KEY_MAX; i++)
		if (skip == 0 || (strncmp(keys[i].name, group, skip - 1) == 0 &&
					 keys[i].name[skip - 1] == '.'))
			add_name(list, sizeof list, keys[i].name + skip,
				strcspn(keys[i].name + skip, "."));
	if (skip == 0) {
		add_name(list, sizeof list, "env", strlen("env"));
		add_name(list, sizeof list, "registries", strlen("registries"));
	}
	for (size_t i = 0; i < sizeof list_keys / sizeof *list_keys && skip > 0; i++)
		if (strncmp(list_keys[i].name, group, skip - 1) == 0)
			add_name(list, sizeof list, list_keys[i].name + skip, strlen(list_keys[i].name + skip));
	return error_set(err, 0, "%s: unknown key; %s%s there are %s", quoted(name, buffer),
		*group ? "in " : "", *group ? group : "here", list);
}

/* ---- JSON ---- */

static const char *type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

static int wrong_type(
	const char *name, const char *expected, const json_t *value, struct error *err)
{
	return error_set(err, 0, "%s: expected %s, not %s", name, expected, type_name(value));
}

/* The text of a value that is read as one; NULL where it is of another type. A number's is written to `buffer`. */
static const char *value_text(const struct key *key, const json_t *value, char *buffer, size_t size)
{
	if (json_is_string(value))
		return json_string_value(value);
	if (!key->number || !json_is_number(value))
		return NULL;
	if (json_is_integer(value))
		snprintf(buffer, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		snprintf(buffer, size, "%.15g", json_real_value(value));
	return buffer;
}

static int read_value(
	struct config *config, enum config_key which, const json_t *value, struct error *err)
{
	const struct key *key = &keys[which];
	void *field = (char *)config + key->offset;
	char buffer[64];
	const char *text = value_text(key, value, buffer, sizeof buffer);

	if (!key->parse && json_is_boolean(value))
		*(bool *)field = json_is_true(value);
	else if (!key->parse || !text)
		return wrong_type(key->name, key->expected, value, err);
	else if (key->parse(key->name, text, field, err) < 0)
		return -1;
	config->given[which] = true;
	return 0;
}

static int read_env(struct config *config, const json_t *object, struct error *err)
{
	const char *name;
	json_t *value;

	if (!json_is_object(object))
		return wrong_type("env", "an object of names and values", object, err);
	json_object_foreach((json_t *)object, name, value)
	{
		char what[80];

		snprintf(what, sizeof what, "env.%.60s", name);
		if (!*name || strchr(name, '='))
			return error_set(
				err, 0, "env: \"%.60s\" cannot be the name of a variable", name);
		if (!json_is_string(value))
			return wrong_type(what, "a string", value, err);
		exec_set_env(&config->env, name, json_string_value(value));
	}
	return 0;
}

static const struct list_key *find_list(const char *name)
{
	for (size_t i = 0; i < sizeof list_keys / sizeof *list_keys; i++)
		if (strcmp(list_keys[i].name, name) == 0)
			return &list_keys[i];
	return NULL;
}

/* Those of one file are in place of another's. */
static int read_list(struct config *config, const struct list_key *key, const json_t *value, struct error *err)
{
	char ***list = (char ***)((char *)config + key->offset);
	size_t count = json_is_array(value) ? json_array_size(value) : 1;

	strings_free(*list);
	*list = xcalloc(count + 1, sizeof **list);
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;

		if (!json_is_string(item))
			return wrong_type(key->name, key->expected, item, err);
		(*list)[i] = xstrdup(json_string_value(item));
	}
	return 0;
}

/* Reads the members of an object: of the whole file, or of `group`. */
static int read_members(
	struct config *config, const char *group, const json_t *object, struct error *err)
{
	const char *member;
	json_t *value;

	json_object_foreach((json_t *)object, member, value)
	{
		cleanup_free char *name = xasprintf("%s%s%s", group, *group ? "." : "", member);
		enum config_key key = strchr(member, '.') ? CONFIG_KEY_MAX : find_key(name);
		int result;

		if (key != CONFIG_KEY_MAX)
			result = read_value(config, key, value, err);
		else if (strcmp(name, "env") == 0)
			result = read_env(config, value, err);
		else if (strcmp(name, "registries") == 0)
			result = config_registries_read(&config->registries, value, err);
		else if (find_list(name))
			result = read_list(config, find_list(name), value, err);
		else if (!is_group(name))
			result = unknown_key(name, group, err);
		else if (!json_is_object(value))
			result = wrong_type(name, "an object", value, err);
		else
			result = read_members(config, name, value, err);
		if (result < 0)
			return -1;
	}
	return 0;
}

/* ---- Files ---- */

/* Whoever can write the file can weaken every sandbox. */
static int check_owner(const char *file, const struct stat *status, struct error *err)
{
	if (status->st_uid != 0 && status->st_uid != geteuid())
		return error_set(err, 0,
			"%s: belongs to user %u, who could weaken the sandbox with it; only root's and "
			"your own files are read (--no-config reads none)",
			file, status->st_uid);
	if (status->st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, 0,
			"%s: others can write to it, and so weaken the sandbox; run chmod go-w on it",
			file);
	return 0;
}

static int read_text(const char *file, char **ret, size_t *ret_length, struct error *err)
{
	/* O_NONBLOCK: a FIFO in the file's place must not stop us. */
	cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return error_set(err, errno, "reading the configuration %s", file);
	if (!S_ISREG(status.st_mode))
		return error_set(err, 0, "%s: not a regular file", file);
	if (check_owner(file, &status, err) < 0)
		return -1;
	if (read_fd_whole(fd, FILE_MAX, ret, ret_length) == 0)
		return 0;
	if (errno == EFBIG)
		return error_set(err, 0, "%s: larger than %d KiB", file, FILE_MAX >> 10);
	return error_set(err, errno, "reading the configuration %s", file);
}

int config_read(const char *file, struct config *config, struct error *err)
{
	cleanup_free char *text = NULL;
	json_error_t syntax;
	size_t length = 0;
	json_t *object;
	int result;

	if (read_text(file, &text, &length, err) < 0)
		return -1;
	object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &syntax);
	if (!object) {
		error_set(err, 0, "%s:%d: %s", file, syntax.line, syntax.text);
		/* The name invites to write «key = value». */
		if (strchr("{[", text[strspn(text, " \t\r\n")]))
			return -1;
		return error_hint(err, "the file is one JSON object, such as {\"limits\": {\"memory\": \"1g\"}}; see nsbox.conf(5)");
	}
	if (json_is_object(object))
		result = read_members(config, "", object, err);
	else
		result = error_set(err, 0, "expected an object, not %s", type_name(object));
	json_decref(object);
	return result < 0 ? error_context(err, "%s", file) : 0;
}

static bool is_missing(const struct error *err)
{
	return err->errnum == ENOENT || err->errnum == ENOTDIR;
}

/* The user's file; false: there is no home that it could be in. */
static bool user_file(char *ret, size_t size)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int length;

	if (config && config[0] == '/')
		length = snprintf(ret, size, "%s/nsbox/nsbox.conf", config);
	else if (home && home[0] == '/')
		length = snprintf(ret, size, "%s/.config/nsbox/nsbox.conf", home);
	else
		return false;
	return length >= 0 && (size_t)length < size;
}

/* Whether the caller may not enter the folder of a file that could not be opened. */
static bool is_out_of_reach(const char *file, const struct error *err)
{
	struct stat status;

	return err->errnum == EACCES && stat(file, &status) < 0;
}

int config_load(const char *file, struct config *ret, struct error *err)
{
	char path[PATH_MAX];

	config_init(ret);
	if (file)
		return config_read(file, ret, err);
	if (config_read(SYSTEM_FILE, ret, err) < 0 && !is_missing(err))
		return -1;
	if (user_file(path, sizeof path) && config_read(path, ret, err) < 0 && !is_missing(err) &&
		!is_out_of_reach(path, err))
		return -1;
	return 0;
}

/* ---- Use ---- */

void config_init(struct config *config)
{
	memset(config, 0, sizeof *config);
}

void config_free(struct config *config)
{
	free(config->network);
	free(config->seccomp_name);
	free(config->cgroup);
	free(config->packages.allow);
	for (char **entry = config->env.env; entry && *entry; entry++)
		free(*entry);
	free(config->env.env);
	config_registries_free(&config->registries);
	strings_free(config->mcp.allow_images);
	strings_free(config->mcp.allow_networks);
	config_init(config);
}

static void apply_limits(const struct config *config, struct limits *limits)
{
	if (config->given[CONFIG_LIMITS_MEMORY])
		limits->memory_bytes = config->limits.memory_bytes;
	if (config->given[CONFIG_LIMITS_DISK])
		limits->disk_bytes = config->limits.disk_bytes;
	if (config->given[CONFIG_LIMITS_PIDS])
		limits->pids = config->limits.pids;
	if (config->given[CONFIG_LIMITS_CPUS])
		limits->cpu_millis = config->limits.cpu_millis;
	if (config->given[CONFIG_LIMITS_OPEN_FILES])
		limits->open_files = config->limits.open_files;
	if (config->given[CONFIG_LIMITS_FILE_SIZE])
		limits->file_size_bytes = config->limits.file_size_bytes;
	if (config->given[CONFIG_LIMITS_OUTPUT])
		limits->output_bytes = config->limits.output_bytes;
}

uint64_t config_snapshots_bytes(const struct config *config)
{
	return config->given[CONFIG_SNAPSHOTS_MAX_SIZE] ? config->snapshots_bytes : SNAPSHOTS_BYTES_DEFAULT;
}

void config_apply_to_spec(const struct config *config, struct spec *spec)
{
	apply_limits(config, &spec->limits);
	if (config->given[CONFIG_NETWORK])
		spec_set_network(spec, "network", config->network, &(struct error){.errnum = 0}); /* was read, so it is one */
	if (config->given[CONFIG_SECCOMP]) {
		free(spec->seccomp_name);
		spec->seccomp_name = xstrdup(config->seccomp_name);
	}
	if (config->given[CONFIG_CGROUP]) {
		free(spec->cgroup);
		spec->cgroup = xstrdup(config->cgroup);
	}
	if (config->given[CONFIG_REQUIRE_CGROUP])
		spec->require_cgroup = config->require_cgroup;
}

void config_apply_to_exec(const struct config *config, struct exec_spec *exec)
{
	exec_add_env(exec, config->env.env);
}
