/* SPDX-License-Identifier: MIT */
/* What a sandbox is: see spec.h. */
#define _GNU_SOURCE
#include "sandbox/spec.h"

#include <stdlib.h>
#include <string.h>

#include "gate/policy.h"
#include "gate/sockets.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { PATH_PARTS_MAX = 128 }; /* they are made one inside the other */

void spec_init(struct spec *spec)
{
	memset(spec, 0, sizeof *spec);
	spec->hostname = xstrdup("nsbox");
	spec->seccomp_name = xstrdup("default");
	spec->limits = (struct limits){
		.memory_bytes = SPEC_MEMORY_DEFAULT,
		.disk_bytes = SPEC_DISK_DEFAULT,
		.pids = SPEC_PIDS_DEFAULT,
		.open_files = SPEC_OPEN_FILES_DEFAULT,
		.output_bytes = SPEC_OUTPUT_DEFAULT,
	};
}

uint64_t limits_disk_inodes(const struct limits *limits)
{
	uint64_t inodes = limits->disk_bytes / 4096;

	if (limits->disk_inodes)
		return limits->disk_inodes;
	if (inodes < 1024)
		return 1024;
	return inodes > 256 << 10 ? 256 << 10 : inodes;
}

static void exec_free(struct exec_spec *exec)
{
	strings_free(exec->argv);
	strings_free(exec->env);
	free(exec->cwd);
	free(exec->stdin_data);
}

void spec_free(struct spec *spec)
{
	free(spec->root_path);
	strings_free(spec->root_layers);
	free(spec->root_digest);
	strings_free(spec->root_env);
	free(spec->home);
	strings_free(spec->directories);
	strings_free(spec->package_places);
	free(spec->allow);
	free(spec->hostname);
	for (size_t i = 0; i < spec->mounts_count; i++) {
		free(spec->mounts[i].source);
		free(spec->mounts[i].target);
	}
	free(spec->mounts);
	for (size_t i = 0; i < spec->files_count; i++) {
		free(spec->files[i].path);
		free(spec->files[i].content);
	}
	free(spec->files);
	free(spec->storage_folder);
	free(spec->cgroup);
	free(spec->seccomp_name);
	free(spec->filter);
	free(spec->filter_tier2);
	for (size_t i = 0; i < spec->execs_count; i++)
		exec_free(&spec->execs[i]);
	memset(spec, 0, sizeof *spec);
}

static char *copy_string(const char *string)
{
	return string ? xstrdup(string) : NULL;
}

static char **copy_strings(char *const *strings)
{
	size_t count = 0;
	char **copy;

	if (!strings)
		return NULL;
	while (strings[count])
		count++;
	copy = xcalloc(count + 1, sizeof *copy);
	for (size_t i = 0; i < count; i++)
		copy[i] = xstrdup(strings[i]);
	return copy;
}

void spec_copy_root(const struct spec *from, struct spec *ret)
{
	spec_init(ret);
	ret->root = from->root;
	ret->root_path = copy_string(from->root_path);
	ret->root_exact = from->root_exact;
	ret->root_layers = copy_strings(from->root_layers);
	ret->root_digest = copy_string(from->root_digest);
	ret->root_env = copy_strings(from->root_env);
	ret->cgroup = copy_string(from->cgroup);
	ret->require_cgroup = from->require_cgroup;
	free(ret->seccomp_name);
	ret->seccomp_name = copy_string(from->seccomp_name);
}

static struct mount_spec *add_mount(struct spec *spec)
{
	spec->mounts = xrealloc(spec->mounts, spec->mounts_count + 1, sizeof *spec->mounts);
	memset(&spec->mounts[spec->mounts_count], 0, sizeof *spec->mounts);
	return &spec->mounts[spec->mounts_count++];
}

void spec_add_bind(struct spec *spec, const char *source, const char *target, bool read_only)
{
	struct mount_spec *mount = add_mount(spec);

	mount->kind = MOUNT_BIND;
	mount->source = xstrdup(source);
	mount->target = xstrdup(target);
	mount->read_only = read_only;
}

void spec_add_exact_bind(struct spec *spec, const char *source, const char *target, bool read_only)
{
	spec_add_bind(spec, source, target, read_only);
	spec->mounts[spec->mounts_count - 1].exact = true;
}

void spec_add_tmpfs(struct spec *spec, const char *target, uint64_t size_bytes)
{
	struct mount_spec *mount = add_mount(spec);

	mount->kind = MOUNT_TMPFS;
	mount->target = xstrdup(target);
	mount->size_bytes = size_bytes;
}

const struct mount_spec *spec_find_mount(const struct spec *spec, const char *target)
{
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (strcmp(spec->mounts[i].target, target) == 0)
			return &spec->mounts[i];
	return NULL;
}

void spec_add_directory(struct spec *spec, const char *path)
{
	size_t count = 0;

	while (spec->directories && spec->directories[count])
		count++;
	spec->directories = xrealloc(spec->directories, count + 2, sizeof *spec->directories);
	spec->directories[count] = xstrdup(path);
	spec->directories[count + 1] = NULL;
}

void spec_add_file(
	struct spec *spec, const char *path, const void *content, size_t length, unsigned mode)
{
	struct file_spec *file;

	spec->files = xrealloc(spec->files, spec->files_count + 1, sizeof *spec->files);
	file = &spec->files[spec->files_count++];
	file->path = xstrdup(path);
	file->content = xmemdup(content, length);
	file->length = length;
	file->mode = mode;
}

static size_t count_strings(char **strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

static char **append_string(char **strings, char *string)
{
	size_t count = count_strings(strings);

	strings = xrealloc(strings, count + 2, sizeof *strings);
	strings[count] = string;
	strings[count + 1] = NULL;
	return strings;
}

void exec_set_env(struct exec_spec *exec, const char *name, const char *value)
{
	size_t name_length = strlen(name);
	char *entry = xasprintf("%s=%s", name, value);

	for (char **next = exec->env; next && *next; next++)
		if (strncmp(*next, entry, name_length + 1) == 0) {
			free(*next);
			*next = entry;
			return;
		}
	exec->env = append_string(exec->env, entry);
}

const char *exec_get_env(const struct exec_spec *exec, const char *name)
{
	size_t length = strlen(name);

	for (char **entry = exec->env; entry && *entry; entry++)
		if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}

void exec_default_env(struct exec_spec *exec, const char *name, const char *value)
{
	if (!exec_get_env(exec, name))
		exec_set_env(exec, name, value);
}

void exec_add_env(struct exec_spec *exec, char *const *entries)
{
	for (; entries && *entries; entries++) {
		const char *equals = strchr(*entries, '=');
		cleanup_free char *name = xmemdup(*entries, (size_t)(equals - *entries));

		exec_set_env(exec, name, equals + 1);
	}
}

void exec_add_arg(struct exec_spec *exec, const char *argument)
{
	exec->argv = append_string(exec->argv, xstrdup(argument));
}

/* An absolute path without «..», so that what the user reads is what is meant. */
static int validate_path(const char *what, const char *path, struct error *err)
{
	unsigned parts = 0;

	if (!path || path[0] != '/')
		return error_set(
			err, 0, "%s: \"%s\" is not an absolute path", what, path ? path : "");
	for (const char *part = path; part; part = strchr(part + 1, '/'))
		if (++parts > PATH_PARTS_MAX)
			return error_set(err, 0, "%s: the path has more than %d parts", what, PATH_PARTS_MAX);
	for (const char *part = path; part; part = strchr(part + 1, '/'))
		if (strncmp(part, "/..", 3) == 0 && (part[3] == '/' || part[3] == '\0'))
			return error_set(err, 0, "%s: \"%s\" has a \"..\" in it", what, path);
	if (strlen(path) >= 4096)
		return error_set(err, 0, "%s: the path is longer than 4095 bytes", what);
	return 0;
}

/* Without doubled slashes, «.» and a slash at the end. */
static void normalize(const char *path, char *ret)
{
	size_t used = 0;

	for (const char *part = path; *part; part += strcspn(part, "/")) {
		size_t length;

		part += strspn(part, "/");
		length = strcspn(part, "/");
		if (length == 0 || (length == 1 && *part == '.'))
			continue;
		ret[used++] = '/';
		memcpy(ret + used, part, length);
		used += length;
	}
	ret[used] = '\0';
}

static bool is_or_is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/');
}

/* What nsbox itself needs there, or has promised the command, is not covered. */
static int validate_target(const char *target, struct error *err)
{
	static const char *const kept[] = {"/proc", "/dev/null", "/dev/zero", "/dev/full",
		"/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/fd",
		"/dev/stdin", "/dev/stdout", "/dev/stderr"};
	char path[4096];

	if (validate_path("mount target", target, err) < 0)
		return -1;
	normalize(target, path);
	if (!*path)
		return error_set(err, 0,
			"mount target: \"%s\" cannot be mounted over; use --rootfs for a root of your own",
			target);
	if (strcmp(path, "/dev") == 0)
		return error_set(err, 0,
			"mount target: \"%s\" is the sandbox's own and cannot be mounted over; /dev/shm and other names below it can",
			target);
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (is_or_is_below(path, kept[i]))
			return error_set(err, 0,
				"mount target: \"%s\" cannot be mounted over: %s is the sandbox's own",
				target, kept[i]);
	return 0;
}

static int validate_mounts(const struct spec *spec, struct error *err)
{
	size_t tmpfs_count = 0;

	for (size_t i = 0; i < spec->mounts_count; i++) {
		const struct mount_spec *mount = &spec->mounts[i];

		if (mount->kind == MOUNT_BIND &&
			validate_path("bind source", mount->source, err) < 0)
			return -1;
		if (validate_target(mount->target, err) < 0)
			return -1;
		tmpfs_count += mount->kind == MOUNT_TMPFS;
	}
	if (tmpfs_count > SPEC_TMPFS_MAX)
		return error_set(err, 0, "--tmpfs: at most %d are possible", SPEC_TMPFS_MAX);
	return 0;
}

static int validate_limits(const struct limits *limits, struct error *err)
{
	if (limits->memory_bytes < SPEC_MEMORY_MIN)
		return error_set(err, 0, "memory limit: %llu bytes is too little; the least is 4m",
			(unsigned long long)limits->memory_bytes);
	if (limits->disk_bytes < SPEC_DISK_MIN)
		return error_set(err, 0, "disk limit: %llu bytes is too little; the least is 64k",
			(unsigned long long)limits->disk_bytes);
	if (limits->pids < 1)
		return error_set(err, 0, "pids limit: at least 1 process is needed");
	if (limits->open_files && limits->open_files < SPEC_OPEN_FILES_MIN)
		return error_set(err, 0, "open files limit: %u is too little; the least is 8",
			limits->open_files);
	return 0;
}

static int validate_exec(const struct exec_spec *exec, struct error *err)
{
	if (!exec->argv || !exec->argv[0])
		return error_set(err, 0, "no command given");
	if (exec->argv[0][0] == '\0')
		return error_set(err, 0, "the command is an empty string");
	if (exec->cwd && validate_path("working directory", exec->cwd, err) < 0)
		return -1;
	return 0;
}

size_t spec_lowers_count(const struct spec *spec)
{
	size_t count = 0;

	while (spec->root_layers && spec->root_layers[count])
		count++;
	return spec->root == ROOT_DIRECTORY ? count + 1 : count;
}

const char *spec_lower(const struct spec *spec, size_t index)
{
	if (spec->root == ROOT_DIRECTORY && index + 1 == spec_lowers_count(spec))
		return spec->root_path;
	return spec->root_layers[index];
}

char **spec_lowers(const struct spec *spec)
{
	size_t count = spec_lowers_count(spec);
	char **lowers = xcalloc(count + 1, sizeof *lowers);

	for (size_t i = 0; i < count; i++)
		lowers[i] = (char *)spec_lower(spec, i);
	return lowers;
}

void spec_add_layer(struct spec *spec, const char *tree)
{
	size_t count = 0;

	while (spec->root_layers && spec->root_layers[count])
		count++;
	spec->root_layers = xrealloc(spec->root_layers, count + 2, sizeof *spec->root_layers);
	memmove(spec->root_layers + 1, spec->root_layers, count * sizeof *spec->root_layers);
	spec->root_layers[0] = xstrdup(tree);
	spec->root_layers[count + 1] = NULL;
}

/* To the next name of a path, over slashes and «.». */
static const char *next_name(const char *path)
{
	for (;;) {
		path += strspn(path, "/");
		if (path[0] != '.' || (path[1] != '/' && path[1] != '\0'))
			return path;
		path++;
	}
}

const char *spec_path_below(const char *path, const char *directory)
{
	for (;;) {
		size_t length;

		path = next_name(path);
		directory = next_name(directory);
		length = strcspn(directory, "/");
		if (length == 0)
			return path;
		if (strcspn(path, "/") != length || strncmp(path, directory, length) != 0)
			return NULL;
		path += length;
		directory += length;
	}
}

/* How a network without rules is called: in options, configuration and results. */
static const char *const network_names[] = {
	[NETWORK_NONE] = "none", [NETWORK_HOST] = "host", [NETWORK_PASTA] = "pasta"};

static bool find_network(const char *name, enum network_kind *ret)
{
	for (size_t i = 0; i < sizeof network_names / sizeof *network_names; i++)
		if (strcmp(network_names[i], name) == 0) {
			*ret = (enum network_kind)i;
			return true;
		}
	return false;
}

static int check_rules(const char *what, const char *rules, struct error *err)
{
	struct policy policy = {.count = 0};
	int r = policy_add(&policy, what, rules, err);

	policy_free(&policy);
	return r;
}

int spec_set_network(struct spec *spec, const char *what, const char *text, struct error *err)
{
	static const char allow[] = "allow=";
	const char *rules = strncmp(text, allow, strlen(allow)) == 0 ? text + strlen(allow) : NULL;
	enum network_kind kind = NETWORK_ALLOW;
	char buffer[QUOTED_MAX];

	if (rules && check_rules(what, rules, err) < 0)
		return -1;
	if (!rules && !find_network(text, &kind))
		return error_set(
			err, 0, "%s: %s is not a network; write " SPEC_NETWORKS, what, quoted(text, buffer));
	free(spec->allow);
	spec->allow = rules ? xstrdup(rules) : NULL;
	spec->network = kind;
	return 0;
}

char *spec_network_text(const struct spec *spec)
{
	return spec->network == NETWORK_ALLOW ? xasprintf("allow=%s", spec->allow) : xstrdup(network_names[spec->network]);
}

const char *spec_home(const struct spec *spec)
{
	if (spec->home)
		return spec->home;
	return spec->uid == 0 ? "/root" : "/home/user";
}

static int validate_lowers(const struct spec *spec, struct error *err)
{
	size_t count = spec_lowers_count(spec);

	if (spec->root == ROOT_IMAGE && (count == 0 || !spec->root_path))
		return error_set(err, 0, "an image has from 1 to %d layers and a name", SPEC_LAYERS_MAX);
	if (count > SPEC_LAYERS_MAX)
		return error_set(err, 0, "the root has %zu layers, and can have %d", count, SPEC_LAYERS_MAX);
	for (size_t i = 0; i < count; i++)
		if (validate_path("root directory", spec_lower(spec, i), err) < 0)
			return -1;
	return 0;
}

static int validate_directories(const struct spec *spec, struct error *err)
{
	if (spec->home && validate_path("home directory", spec->home, err) < 0)
		return -1;
	for (char **directory = spec->directories; directory && *directory; directory++)
		if (validate_path("directory", *directory, err) < 0)
			return -1;
	return 0;
}

/* Where it listens itself, nothing of the sandbox's can. */
static int check_gate_port(const struct spec *spec, uint32_t port, struct error *err)
{
	struct policy policy = {.count = 0};
	cleanup_free uint16_t *ports = NULL;
	bool taken = port == GATE_PORT_DNS;

	if (!spec->allow || policy_add(&policy, "network", spec->allow, err) < 0)
		return spec->allow ? -1 : 0;
	for (size_t i = policy_ports(&policy, &ports); i > 0; i--)
		taken |= ports[i - 1] == port;
	policy_free(&policy);
	if (!taken)
		return 0;
	error_set(err, 0, "publish: port %u is the gate's inside, with --network allow=", port);
	return error_hint(err, "let the server listen on another port, and name it as HOSTPORT:PORT");
}

static int validate_publish(const struct spec *spec, struct error *err)
{
	if (spec->publish_count > 0 && spec->network == NETWORK_HOST) {
		error_set(err, 0, "publish: with the host's network there is nothing to publish");
		return error_hint(err, "what listens in the sandbox listens on the host then; leave out --publish or --network host");
	}
	for (size_t i = 0; i < spec->publish_count; i++) {
		const struct publish_spec *one = &spec->publish[i];

		if (one->port < 1 || one->port > UINT16_MAX || one->host_port > UINT16_MAX)
			return error_set(err, 0, "publish: %u:%u: ports go from 1 to 65535", one->host_port, one->port);
		if (check_gate_port(spec, one->port, err) < 0)
			return -1;
		for (size_t j = 0; j < i; j++)
			if (one->host_port && spec->publish[j].host_port == one->host_port)
				return error_set(err, 0, "publish: port %u of the host is published twice", one->host_port);
	}
	return 0;
}

int spec_validate(const struct spec *spec, struct error *err)
{
	if (validate_lowers(spec, err) < 0 || validate_directories(spec, err) < 0)
		return -1;
	if (spec->uid > SPEC_ID_MAX || spec->gid > SPEC_ID_MAX)
		return error_set(err, 0, "user %u:%u: ids inside go from 0 to %d", spec->uid,
			spec->gid, SPEC_ID_MAX);
	if ((spec->network == NETWORK_ALLOW) != (spec->allow != NULL))
		return error_set(err, 0, "network: hosts are allowed with the network \"allow\", and with no other");
	if (spec->allow && check_rules("network", spec->allow, err) < 0)
		return -1;
	if (validate_publish(spec, err) < 0)
		return -1;
	if (spec->stop_signal > SPEC_SIGNAL_MAX)
		return error_set(err, 0, "stop signal: signals go from 1 to %d", SPEC_SIGNAL_MAX);
	if (!spec->hostname || !spec->hostname[0] || strlen(spec->hostname) > 64)
		return error_set(err, 0, "hostname: \"%s\" must have 1 to 64 characters",
			spec->hostname ?: "");
	if (strspn(spec->hostname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != strlen(spec->hostname))
		return error_set(err, 0, "hostname: \"%s\" may have letters, digits, dots, - and _ only", spec->hostname);
	if (validate_mounts(spec, err) < 0 || validate_limits(&spec->limits, err) < 0)
		return -1;
	for (size_t i = 0; i < spec->files_count; i++)
		if (validate_path("file", spec->files[i].path, err) < 0)
			return -1;
	if (spec->storage == STORAGE_DISK && !spec->session)
		return error_set(err, 0, "storage: only a session's writable space can be on disk");
	if ((spec->execs_count < 1 && !spec->session) || spec->execs_count > SPEC_EXECS_MAX)
		return error_set(err, 0, "no command given");
	for (size_t i = 0; i < spec->execs_count; i++)
		if (validate_exec(&spec->execs[i], err) < 0)
			return -1;
	return 0;
}
