/* SPDX-License-Identifier: MIT */
/*
 * Whether the programs that a language needs are there, and how to get them.
 *
 * Programs are looked up as the sandbox will see them: of the host only what is below /usr, /bin and
 * /sbin; of a directory only what is inside of it, whatever its links say.
 */
#define _GNU_SOURCE
#include "language/needs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "language/definition.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

static const struct {
	const char *ids; /* values of ID and ID_LIKE in os-release, each between spaces */
	const char *install;
} distributions[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DEBIAN] = {" debian ubuntu ", "apt-get install"},
	[DISTRIBUTION_FEDORA] = {" fedora rhel centos ", "dnf install"},
	[DISTRIBUTION_ARCH] = {" arch archlinux ", "pacman -S"},
	[DISTRIBUTION_SUSE] = {" suse opensuse sles ", "zypper install"},
	[DISTRIBUTION_ALPINE] = {" alpine ", "apk add"},
};

/* The first dir/program of `path` that `found` says yes to, malloc'd; or NULL. */
static char *search_path(const char *path, const char *program,
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

static bool on_path(
	const char *program, bool (*found)(const void *data, const char *file), const void *data)
{
	cleanup_free char *file = search_path(LANGUAGE_PATH, program, found, data);

	return file != NULL;
}

static bool is_executable(const struct stat *status)
{
	return S_ISREG(status->st_mode) && (status->st_mode & 0111);
}

/* The host root binds /usr, /bin and /sbin: a link from there to /opt or a home leads nowhere inside. */
static bool visible_on_host(const void *unused, const char *file)
{
	static const char *const visible[] = {"/usr/", "/bin/", "/sbin/"};
	cleanup_free char *real = realpath(file, NULL);
	struct stat status;

	(void)unused;
	if (!real || stat(real, &status) < 0 || !is_executable(&status))
		return false;
	for (size_t i = 0; i < sizeof visible / sizeof visible[0]; i++)
		if (strncmp(real, visible[i], strlen(visible[i])) == 0)
			return true;
	return false;
}

static bool present_in_root(const void *root_fd, const char *file)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	cleanup_close int fd =
		(int)syscall(SYS_openat2, *(const int *)root_fd, file, &how, sizeof how);
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 && is_executable(&status);
}

static bool executable(const void *unused, const char *file)
{
	(void)unused;
	return access(file, X_OK) == 0;
}

/* What a mount of the caller's brings is not known before it is made: the exec itself will tell. */
static bool path_is_mounted_over(const struct spec *spec)
{
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const char *target = spec->mounts[i].target;
		size_t length = strlen(target);

		for (const char *next = LANGUAGE_PATH; next; next = strchr(next, ':')) {
			next += *next == ':';
			if (strncmp(next, target, length) == 0 && strchr("/:", next[length]))
				return true;
			if (strncmp(target, next, strcspn(next, ":")) == 0 &&
				target[strcspn(next, ":")] == '/')
				return true;
		}
	}
	return false;
}

/* The distribution that os-release names by ID or, for its relatives, by ID_LIKE. */
static enum distribution find_distribution(void)
{
	char text[8192];

	if (read_small_file(AT_FDCWD, "/etc/os-release", text, sizeof text) < 0 &&
		read_small_file(AT_FDCWD, "/usr/lib/os-release", text, sizeof text) < 0)
		return DISTRIBUTION_MAX;
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		char *words, *word_save = NULL;

		if (strncmp(line, "ID=", 3) != 0 && strncmp(line, "ID_LIKE=", 8) != 0)
			continue;
		words = strchr(line, '=') + 1;
		for (char *word = strtok_r(words, " \"'", &word_save); word;
			word = strtok_r(NULL, " \"'", &word_save)) {
			char padded[64];

			snprintf(padded, sizeof padded, " %s ", word);
			for (int i = 0; i < DISTRIBUTION_MAX; i++)
				if (strstr(distributions[i].ids, padded))
					return (enum distribution)i;
		}
	}
	return DISTRIBUTION_MAX;
}

static int missing_on_host(
	const struct language *language, const struct need *need, struct error *err)
{
	enum distribution distribution = find_distribution();
	const char *packages =
		distribution < DISTRIBUTION_MAX ? need->packages[distribution] : NULL;
	const char *path = getenv("PATH");
	cleanup_free char *own = path ? search_path(path, need->program, executable, NULL) : NULL;

	error_set(err, 0, "%s needs the program \"%s\", which is not in %s", language->title,
		need->program, LANGUAGE_PATH);
	/* Where the caller's own shell finds one, say why that does not count. */
	if (own)
		error_set(err, 0,
			"%s needs the program \"%s\" in %s; %s is outside of what a sandbox sees of the host",
			language->title, need->program, LANGUAGE_PATH, own);
	if (packages)
		return error_hint(
			err, "Install it: %s %s", distributions[distribution].install, packages);
	return error_hint(err, "Install it with the package manager of this system.");
}

static int check_root_directory(
	const struct language *language, const struct spec *spec, struct error *err)
{
	cleanup_close int root = open(spec->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return error_set(err, errno, "root directory %s", spec->root_path);
	for (size_t i = 0; i < language->needs_count; i++) {
		const char *program = language->needs[i].program;

		if (on_path(program, present_in_root, &root))
			continue;
		error_set(err, 0, "%s needs the program \"%s\", which is not in %s of %s",
			language->title, program, LANGUAGE_PATH, spec->root_path);
		return error_hint(err, "Install it in that root, or run without --rootfs.");
	}
	return 0;
}

int needs_check(const struct language *language, const struct spec *spec, struct error *err)
{
	if (path_is_mounted_over(spec))
		return 0;
	if (spec->root == ROOT_DIRECTORY)
		return check_root_directory(language, spec, err);
	for (size_t i = 0; i < language->needs_count; i++)
		if (!on_path(language->needs[i].program, visible_on_host, NULL))
			return missing_on_host(language, &language->needs[i], err);
	return 0;
}
