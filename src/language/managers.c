/* SPDX-License-Identifier: MIT */
/* Which directory of the host a program outside of /usr needs: see managers.h. */
#define _GNU_SOURCE
#include "language/managers.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/trust.h"

enum { BINDS_MAX = 4 };

/*
 * `pattern` is matched against whole components of a program's canonical path, beginning at any of
 * them, or at the first where it starts with a slash; «*» is one component. What matches is the
 * toolchain. `inner` are the directories in it that are bound instead of the whole.
 */
static const struct manager {
	const char *pattern;
	const char *inner[BINDS_MAX];
} managers[] = {
	{"pyenv/versions/*", {NULL}},
	{".pyenv/versions/*", {NULL}},
	{".rbenv/versions/*", {NULL}},
	{".nodenv/versions/*", {NULL}},
	{".goenv/versions/*", {NULL}},
	{".plenv/versions/*", {NULL}},
	{".phpenv/versions/*", {NULL}},
	{".jenv/versions/*", {NULL}},
	{".rvm/rubies/*", {NULL}},
	{".rubies/*", {NULL}},
	{"perlbrew/perls/*", {NULL}},
	{".nvm/versions/node/*", {NULL}},
	{"nvm/versions/node/*", {NULL}},
	{"fnm/node-versions/*/installation", {NULL}},
	{".fnm/node-versions/*/installation", {NULL}},
	{".volta/tools/image/node/*", {NULL}},
	{".rustup/toolchains/*", {NULL}},
	{"rustup/toolchains/*", {NULL}},
	{".asdf/installs/*/*", {NULL}},
	{"mise/installs/*/*", {NULL}},
	{".sdkman/candidates/*/*", {NULL}},
	{".jdks/*", {NULL}},
	{"uv/python/*", {NULL}},
	{"sdk/go*", {NULL}},
	{".bun/bin", {NULL}},
	{".deno/bin", {NULL}},
	/* A compiler that npm installed for all of a user's projects. */
	{"lib/node_modules/typescript", {NULL}},
	/* Its etc and var have configuration and databases of servers in them. */
	{"/home/linuxbrew/.linuxbrew", {"Cellar", "opt", "lib"}},
	/* Programs of the store refer to others of it by their whole path; nothing in it is secret. */
	{"/nix/store", {NULL}},
	{"/opt/*", {NULL}},
};

/* Names at the top of a directory that say that it is more than a toolchain. */
static const char *const secret_names[] = {"credentials*", "*.pem", "*.key", "*.p12", "*.kdbx",
	"id_*", ".git-credentials", ".netrc", ".pypirc", ".npmrc", ".condarc", ".env", "keyrings",
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".mozilla",
	".bash_history"};

void list_add(char ***strings, char *string)
{
	size_t count = 0;

	for (; *strings && (*strings)[count]; count++)
		if (strcmp((*strings)[count], string) == 0) {
			free(string);
			return;
		}
	*strings = xrealloc(*strings, count + 2, sizeof **strings);
	(*strings)[count] = string;
	(*strings)[count + 1] = NULL;
}

bool path_is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

/* The end of what `pattern` matches at the beginning of `path`, with at least one component after it; or NULL. */
static const char *match_components(const char *pattern, const char *path)
{
	for (;;) {
		size_t wanted = strcspn(pattern, "/"), length = strcspn(path, "/");
		cleanup_free char *component = xasprintf("%.*s", (int)length, path);
		cleanup_free char *glob = xasprintf("%.*s", (int)wanted, pattern);

		if (length == 0 || fnmatch(glob, component, 0) != 0 || path[length] != '/')
			return NULL;
		path += length;
		if (!pattern[wanted])
			return path;
		pattern += wanted + 1;
		path++;
	}
}

static const char *match_manager(const struct manager *manager, const char *real)
{
	if (manager->pattern[0] == '/')
		return match_components(manager->pattern + 1, real + 1);
	for (const char *slash = real; slash; slash = strchr(slash + 1, '/')) {
		const char *end = match_components(manager->pattern, slash + 1);

		if (end)
			return end;
	}
	return NULL;
}

static int check_names(const char *directory, struct error *err)
{
	DIR *stream = opendir(directory);
	int result = 0;

	if (!stream)
		return error_set(err, errno, "%s", directory);
	for (struct dirent *entry; result == 0 && (entry = readdir(stream));)
		for (size_t i = 0; i < sizeof secret_names / sizeof *secret_names; i++)
			if (fnmatch(secret_names[i], entry->d_name, 0) == 0)
				result = error_set(err, 0,
					"%s has something in it that may be secret: %s", directory,
					entry->d_name);
	closedir(stream);
	return result;
}

int manager_check_bind(const char *directory, struct error *err)
{
	static const char *const shared[] = {
		"/.local", "/.cargo", "/.config", "/.cache", "/.local/bin", "/bin"};
	const char *home = getenv("HOME");
	cleanup_free char *real_home = home && home[0] == '/' ? realpath(home, NULL) : NULL;

	if (directory[strspn(directory, "/")] == '\0')
		return error_set(err, 0, "it would be the whole root directory");
	if (real_home && path_is_below(real_home, directory))
		return error_set(err, 0, "%s is your home, or has it in it", directory);
	for (size_t i = 0; real_home && i < sizeof shared / sizeof *shared; i++)
		if (path_is_below(directory, real_home) &&
			strcmp(directory + strlen(real_home), shared[i]) == 0)
			return error_set(err, 0, "%s is shared by many programs", directory);
	return path_check_writers(directory, err) < 0 ? -1 : check_names(directory, err);
}

static int add_bind(const char *path, char ***binds, struct error *err)
{
	char *real = realpath(path, NULL);

	if (!real)
		return errno == ENOENT ? 0 : error_set(err, errno, "%s", path);
	if (manager_check_bind(real, err) < 0) {
		free(real);
		return -1;
	}
	list_add(binds, real);
	return 0;
}

/* conda and mamba put an environment anywhere: it is what has conda-meta in it. */
static char *conda_environment(const char *real)
{
	cleanup_free char *path = xstrdup(real);

	for (char *slash; (slash = strrchr(path, '/')) && slash != path;) {
		cleanup_free char *meta = NULL;

		*slash = '\0';
		meta = xasprintf("%s/conda-meta", path);
		if (access(meta, F_OK) == 0)
			return xstrdup(path);
	}
	return NULL;
}

int manager_binds(const char *real, char ***binds, struct error *err)
{
	cleanup_free char *conda = conda_environment(real);

	if (conda)
		return add_bind(conda, binds, err);
	for (size_t i = 0; i < sizeof managers / sizeof *managers; i++) {
		const char *end = match_manager(&managers[i], real);
		cleanup_free char *top = end ? xasprintf("%.*s", (int)(end - real), real) : NULL;

		if (!top)
			continue;
		if (!managers[i].inner[0])
			return add_bind(top, binds, err);
		for (size_t n = 0; n < BINDS_MAX && managers[i].inner[n]; n++) {
			cleanup_free char *inner = xasprintf("%s/%s", top, managers[i].inner[n]);

			if (add_bind(inner, binds, err) < 0)
				return -1;
		}
		return 0;
	}
	return error_set(err, 0,
		"it is in no directory that nsbox knows to hold a toolchain and nothing else");
}
