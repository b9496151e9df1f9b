/* SPDX-License-Identifier: MIT */
/* A wall around nsbox-image: see wall.h. */
#define _GNU_SOURCE
#include "image/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/store.h"
#include "sandbox/landlock.h"
#include "util/cleanup.h"
#include "util/error.h"

/* Shared libraries that are loaded late (name services), name resolution, certificates; whatever the distribution. */
static const char *const system_paths[] = {"/usr", "/lib", "/lib64", "/etc", "/nix/store",
	"/gnu/store", "/run/current-system", "/var/lib/ca-certificates", "/proc/self", "/dev/null",
	"/dev/urandom"};

/* Below a directory that a variable names, or else below one in the home. */
static const struct {
	const char *variable, *in_home, *path;
} own_paths[] = {
	{"XDG_CONFIG_HOME", ".config", "containers"},
	{"XDG_CONFIG_HOME", ".config", "containers/auth.json"}, /* where it is a link */
	{"XDG_CONFIG_HOME", ".config", "nsbox"},
	{NULL, ".config", "containers"},
	{"XDG_RUNTIME_DIR", NULL, "containers"},
	{"DOCKER_CONFIG", ".docker", "config.json"},
	{"REGISTRY_AUTH_FILE", NULL, NULL},
	{"SSL_CERT_FILE", NULL, NULL},
	{"SSL_CERT_DIR", NULL, NULL},
};

/* What is not there needs no rule; what the caller may not open, it may not open behind the wall either. */
static int allow_path(const struct landlock *wall, const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0)
		return landlock_allow(wall, fd, LANDLOCK_LOOK, err);
	if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP)
		return 0;
	return error_set(err, errno, "%s", path);
}

static int allow_own_path(const struct landlock *wall, size_t i, struct error *err)
{
	const char *value = own_paths[i].variable ? getenv(own_paths[i].variable) : NULL;
	const char *home = getenv("HOME"), *path = own_paths[i].path;
	char name[PATH_MAX];
	int n;

	if (value && *value)
		n = snprintf(name, sizeof name, "%s%s%s", value, path ? "/" : "", path ?: "");
	else if (own_paths[i].in_home && home && *home)
		n = snprintf(name, sizeof name, "%s/%s/%s", home, own_paths[i].in_home, path);
	else
		return 0;
	return n >= (int)sizeof name ? 0 : allow_path(wall, name, err);
}

/* resolv.conf is often a link to where a daemon writes it, again and again: the folder, then. */
static int allow_resolver(const struct landlock *wall, struct error *err)
{
	cleanup_free char *real = realpath("/etc/resolv.conf", NULL);
	char *slash = real ? strrchr(real, '/') : NULL;

	if (!slash || slash == real)
		return 0;
	*slash = '\0';
	return allow_path(wall, real, err);
}

static int allow_all(const struct landlock *wall, const struct store *store, const char *const *readable,
	int changeable, struct error *err)
{
	for (size_t i = 0; i < sizeof system_paths / sizeof *system_paths; i++)
		if (allow_path(wall, system_paths[i], err) < 0)
			return -1;
	for (size_t i = 0; i < sizeof own_paths / sizeof *own_paths; i++)
		if (allow_own_path(wall, i, err) < 0)
			return -1;
	for (; readable && *readable; readable++)
		if (allow_path(wall, *readable, err) < 0)
			return -1;
	if (allow_resolver(wall, err) < 0)
		return -1;
	if (changeable >= 0 && landlock_allow(wall, changeable, LANDLOCK_CHANGE, err) < 0)
		return -1;
	return landlock_allow(wall, store->fd, LANDLOCK_CHANGE, err);
}

int wall_raise(const struct store *store, const char *const *readable, int changeable, struct error *err)
{
	struct landlock wall = LANDLOCK_INIT;
	/* Signals are not scoped: nsbox-unpack, which it ends where a pull fails, is outside. */
	int r = landlock_begin_own(LANDLOCK_SCOPE_SOCKETS, &wall, err);

	if (r <= 0)
		return r;
	r = allow_all(&wall, store, readable, changeable, err);
	if (r == 0)
		return landlock_enforce(&wall, err);
	close(wall.ruleset);
	return r;
}
