/* SPDX-License-Identifier: MIT */
/* What a sandbox is: see spec.h. */
#define _GNU_SOURCE
#include "sandbox/spec.h"

#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

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

void spec_add_tmpfs(struct spec *spec, const char *target, uint64_t size_bytes)
{
	struct mount_spec *mount = add_mount(spec);

	mount->kind = MOUNT_TMPFS;
	mount->target = xstrdup(target);
	mount->size_bytes = size_bytes;
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

	if (spec->root == ROOT_DIRECTORY)
		return 1;
	while (spec->root == ROOT_IMAGE && spec->root_layers && spec->root_layers[count])
		count++;
	return count;
}

const char *spec_lower(const struct spec *spec, size_t index)
{
	return spec->root == ROOT_DIRECTORY ? spec->root_path : spec->root_layers[index];
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

const char *spec_home(const struct spec *spec)
{
	if (spec->home)
		return spec->home;
	return spec->uid == 0 ? "/root" : "/home/user";
}

static int validate_lowers(const struct spec *spec, struct error *err)
{
	size_t count = spec_lowers_count(spec);

	if (spec->root == ROOT_IMAGE && (count == 0 || count > SPEC_LAYERS_MAX || !spec->root_path))
		return error_set(err, 0, "an image has from 1 to %d layers and a name", SPEC_LAYERS_MAX);
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

int spec_validate(const struct spec *spec, struct error *err)
{
	if (validate_lowers(spec, err) < 0 || validate_directories(spec, err) < 0)
		return -1;
	if (spec->uid > SPEC_ID_MAX || spec->gid > SPEC_ID_MAX)
		return error_set(err, 0, "user %u:%u: ids inside go from 0 to %d", spec->uid,
			spec->gid, SPEC_ID_MAX);
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
