/* SPDX-License-Identifier: MIT */
/* Where a program is that a sandbox can execute: see locate.h. */
#define _GNU_SOURCE
#include "language/locate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/managers.h"
#include "language/shims.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

char *search_path(const char *path, const char *program,
	bool (*found)(const void *data, const char *file), const void *data)
{
	while (*path) {
		size_t length = strcspn(path, ":");
		cleanup_free char *file = xasprintf("%.*s/%s", (int)length, path, program);

		if (length > 0 && found(data, file))
			return xstrdup(file);
		path += length + (path[length] == ':');
	}
	return NULL;
}

void location_free(struct location *location)
{
	free(location->file);
	for (char **bind = location->binds; bind && *bind; bind++)
		free(*bind);
	free(location->binds);
	*location = (struct location){0};
}

/* The host root shows these directories of the host (see sandbox/hostroot.h). */
static bool is_visible(const char *real)
{
	static const char *const visible[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

	for (size_t i = 0; i < sizeof visible / sizeof *visible; i++)
		if (path_is_below(real, visible[i]))
			return true;
	return false;
}

static bool is_executable(const char *file)
{
	struct stat status;

	return stat(file, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0111);
}

static bool visible_on_host(const void *unused, const char *file)
{
	cleanup_free char *real = realpath(file, NULL);

	(void)unused;
	return real && is_executable(real) && is_visible(real);
}

/* A Python virtual environment is the directory above `directory`, when that has a pyvenv.cfg in it; malloc'd, or NULL. */
static char *virtual_environment(const char *directory)
{
	cleanup_free char *top = xasprintf("%s/..", directory),
			  *mark = xasprintf("%s/../pyvenv.cfg", directory);

	return access(mark, F_OK) == 0 ? realpath(top, NULL) : NULL;
}

static int add_environment(char *environment, char ***binds, struct error *err)
{
	if (is_visible(environment)) {
		free(environment);
		return 0;
	}
	if (manager_check_bind(environment, err) < 0) {
		free(environment);
		return -1;
	}
	list_add(binds, environment);
	return 0;
}

static bool is_bound(const char *path, char *const *binds)
{
	for (; binds && *binds; binds++)
		if (path_is_below(path, *binds))
			return true;
	return false;
}

/* The name under which the program is executed: one by which inside too everything that it is found through is there. */
static char *name_inside(
	const char *file, const char *directory, const char *real, char *const *binds)
{
	const char *name = strrchr(file, '/') + 1;

	if (is_visible(directory) && is_visible(real))
		return xasprintf("%s/%s", directory, name);
	return is_bound(directory, binds) ? xasprintf("%s/%s", directory, name) : xstrdup(real);
}

/* Makes a location of the file that PATH led to. Returns 0, or -1 with a reason. */
static int accept(const char *file, struct location *ret, struct error *err)
{
	cleanup_free char *real = realpath(file, NULL);
	cleanup_free char *above = xasprintf("%.*s", (int)(strrchr(file, '/') - file), file);
	cleanup_free char *directory = realpath(above[0] ? above : "/", NULL);
	char *environment;

	if (!real || !directory)
		return error_set(err, errno, "following its links");
	environment = virtual_environment(directory);
	if (environment && add_environment(environment, &ret->binds, err) < 0)
		return -1;
	if (!is_visible(real) && !is_bound(real, ret->binds) &&
		manager_binds(real, &ret->binds, err) < 0)
		return -1;
	ret->file = name_inside(file, directory, real, ret->binds);
	return 0;
}

static bool found_by_standard(const char *name, const char *file)
{
	cleanup_free char *standard = search_path(LANGUAGE_PATH, name, visible_on_host, NULL);
	cleanup_free char *one = standard ? realpath(standard, NULL) : NULL,
			  *other = realpath(file, NULL);

	return one && other && strcmp(one, other) == 0 && is_visible(file);
}

static int consider(const char *file, const char *name, struct location *ret, struct error *err)
{
	cleanup_free char *started = NULL;
	int shim = shim_resolve(file, &started, err);

	if (shim < 0 || accept(shim ? started : file, ret, err) < 0) {
		location_free(ret);
		return -1;
	}
	ret->standard = found_by_standard(name, ret->file);
	return 0;
}

int locate_program(const char *name, struct location *ret, struct error *err)
{
	const char *path = getenv("PATH");
	cleanup_free char *all = xasprintf("%s:%s", path ? path : "", LANGUAGE_PATH);
	char *save = NULL;

	*ret = (struct location){0};
	*err = (struct error){0};
	for (char *directory = strtok_r(all, ":", &save); directory;
		directory = strtok_r(NULL, ":", &save)) {
		cleanup_free char *file = xasprintf("%s/%s", directory, name);
		struct error reason = {0};

		if (directory[0] != '/' || !is_executable(file))
			continue;
		if (consider(file, name, ret, &reason) == 0)
			return 1;
		if (!err->text[0]) {
			cleanup_free char *real = realpath(file, NULL);

			error_set(err, 0, "%s is not shown to a sandbox: %s", real ? real : file,
				reason.text);
		}
	}
	return 0;
}
