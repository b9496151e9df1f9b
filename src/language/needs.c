/* SPDX-License-Identifier: MIT */
/*
 * Which toolchain of a language is there, and how to get one: see needs.h.
 *
 * Programs are looked up as the sandbox will see them: of the host what locate.h says; of a directory
 * and of an image only what is inside of it, whatever its links say.
 */
#define _GNU_SOURCE
#include "language/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image/layers.h"
#include "language/definition.h"
#include "language/recipe.h"
#include "language/root.h"
#include "packages/layers.h"
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

static bool present_in_root(const void *root_fd, const char *file)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	cleanup_close int fd =
		(int)syscall(SYS_openat2, *(const int *)root_fd, file, &how, sizeof how);
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_mode & 0111);
}

static bool present_in_layers(const void *layers, const char *file)
{
	return layers_have_program(layers, file);
}

const char *needs_path(const struct spec *spec)
{
	for (char **entry = spec->root_env; spec->root == ROOT_IMAGE && entry && *entry; entry++)
		if (strncmp(*entry, "PATH=", 5) == 0 && (*entry)[5])
			return *entry + 5;
	return LANGUAGE_PATH;
}

/* What a mount of the caller's brings is not known before it is made: the exec itself will tell. */
static bool path_is_mounted_over(const struct spec *spec)
{
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const char *target = spec->mounts[i].target;
		size_t length = strlen(target);

		for (const char *next = needs_path(spec); next; next = strchr(next, ':')) {
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

/* Looks for one of the need's programs. Returns 1 with *ret; 0 with *ret_reason where one is there and no use. */
static int find_program(const struct spec *spec, int root, const struct need *need,
	struct found_program *ret, struct error *ret_reason)
{
	cleanup_free char **lowers = spec_lowers(spec);

	*ret_reason = (struct error){0};
	for (char **program = need->programs; *program; program++) {
		struct error reason = {0};

		if (spec->root == ROOT_DIRECTORY && !spec->root_layers)
			ret->inside = search_path(needs_path(spec), *program, present_in_root, &root);
		else if (spec->root != ROOT_HOST)
			ret->inside = search_path(needs_path(spec), *program, present_in_layers, lowers);
		if (ret->inside || (spec->root == ROOT_HOST &&
					   locate_program(*program, &ret->location, &reason))) {
			ret->name = xstrdup(*program);
			return 1;
		}
		if (!ret_reason->text[0])
			*ret_reason = reason;
	}
	return 0;
}

static struct choice choice_of(
	const struct language *language, const struct toolchain *toolchain, const struct spec *spec)
{
	bool image = spec->root == ROOT_IMAGE;

	return (struct choice){
		.toolchain = toolchain,
		.image_digest = image ? spec->root_digest : NULL,
		.layer = image && spec->root_layers && layer_is_tree(spec->root_layers[0]) ? spec->root_layers[0] : NULL,
		.own_image = image && language_has_image(language, spec->root_path),
	};
}

/* Appends to *ret what meets the needs. Returns 1, or 0 with *ret_missing, the first that is not met, and the reason. */
static int find_programs(const struct spec *spec, int root, const struct need *needs, size_t count, struct choice *ret,
	const struct need **ret_missing, struct error *ret_reason)
{
	ret->programs = xrealloc(ret->programs, ret->programs_count + count + 1, sizeof *ret->programs);
	for (size_t i = 0; i < count; i++) {
		struct found_program *found = &ret->programs[ret->programs_count];

		*found = (struct found_program){.need = &needs[i]};
		if (!find_program(spec, root, &needs[i], found, ret_reason)) {
			*ret_missing = &needs[i];
			return 0;
		}
		ret->programs_count++;
	}
	return 1;
}

/* `what` has the need. */
static int missing(const struct language *language, const char *what, const struct spec *spec,
	const struct need *need, const struct error *reason, struct error *err)
{
	enum distribution distribution = find_distribution();
	const char *packages =
		distribution < DISTRIBUTION_MAX ? need->packages[distribution] : NULL;
	bool choice = language->toolchains_count > 1 || need->programs[1];

	if (spec->root != ROOT_HOST)
		error_set(err, 0, "%s needs the program \"%s\", which is not in %s of %s%s", what,
			need->programs[0], needs_path(spec), spec->root == ROOT_IMAGE ? "the image " : "",
			spec->root_path);
	if (spec->root == ROOT_IMAGE)
		return -1; /* whoever has chosen the image knows what else there is */
	if (spec->root == ROOT_DIRECTORY)
		return error_hint(err, "Install it in that root, or run without --rootfs.");
	if (reason->text[0])
		error_set(err, 0, "%s needs the program \"%s\"; %s", what,
			need->programs[0], reason->text);
	else
		error_set(err, 0,
			"%s needs the program \"%s\"%s, which is neither in your PATH nor in %s",
			what, need->programs[0],
			choice ? " (or another that does the same: see nsbox-languages(5))" : "",
			LANGUAGE_PATH);
	if (packages)
		return error_hint(
			err, "Install it: %s %s", distributions[distribution].install, packages);
	return error_hint(err, "Install it with the package manager of this system.");
}

static int open_root(const struct spec *spec, int *ret, struct error *err)
{
	*ret = -1;
	if (spec->root != ROOT_DIRECTORY)
		return 0;
	*ret = open(spec->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? error_set(err, errno, "root directory %s", spec->root_path) : 0;
}

int needs_choose(const struct language *language, const struct spec *spec, struct choice *ret,
	struct error *err)
{
	const struct need *first_missing = NULL;
	struct error first_reason = {0};
	cleanup_close int root = -1;

	if (path_is_mounted_over(spec)) {
		*ret = choice_of(language, &language->toolchains[0], spec);
		return 0;
	}
	if (open_root(spec, &root, err) < 0)
		return -1;
	for (size_t i = 0; i < language->toolchains_count; i++) {
		const struct toolchain *toolchain = &language->toolchains[i];
		const struct need *need = NULL;
		struct error reason = {0};

		*ret = choice_of(language, toolchain, spec);
		if (find_programs(spec, root, toolchain->needs, toolchain->needs_count, ret, &need, &reason))
			return 0;
		choice_free(ret);
		if (!first_missing) {
			first_missing = need;
			first_reason = reason;
		}
	}
	return missing(language, language->title, spec, first_missing, &first_reason, err);
}

static int no_packages(const struct language *language, struct error *err)
{
	error_set(err, 0, "%s has no packages that could be installed by name", language->title);
	return error_hint(err, "system packages, such as libraries, are apt:NAME");
}

/* «luarocks liblua5.4-dev» are apt:luarocks,apt:liblua5.4-dev. */
static int hint_system_packages(const struct need *need, struct error *err)
{
	cleanup_free char *words = xstrdup(need->packages[DISTRIBUTION_DEBIAN]);
	cleanup_free char *with = xstrdup("");
	char *rest = words, *word;

	while ((word = strsep(&rest, " "))) {
		cleanup_free char *before = with;

		with = xasprintf("%s%sapt:%s", before, *before ? "," : "", word);
	}
	return error_hint(err, "where the image is Debian's, it comes with --with %s", with);
}

int needs_choose_packages(const struct language *language, const struct spec *spec, struct choice *ret,
	struct error *err)
{
	cleanup_free char *what = NULL;
	const struct need *need = NULL;
	struct error reason = {0};
	cleanup_close int root = -1;
	const struct recipe *recipe;

	if (path_is_mounted_over(spec))
		return error_set(err, 0,
			"packages of %s cannot be installed: what is mounted in %s is not there during an install",
			language->title, needs_path(spec));
	if (needs_choose(language, spec, ret, err) < 0)
		return -1;
	recipe = ret->toolchain->packages;
	if (!recipe) {
		choice_free(ret);
		return no_packages(language, err);
	}
	if (open_root(spec, &root, err) == 0 &&
		find_programs(spec, root, recipe->needs, recipe->needs_count, ret, &need, &reason))
		return 0;
	choice_free(ret);
	if (!need)
		return -1;
	what = xasprintf("installing packages of %s", language->title);
	missing(language, what, spec, need, &reason, err);
	return spec->root == ROOT_IMAGE && need->packages[DISTRIBUTION_DEBIAN] ? hint_system_packages(need, err) : -1;
}

void choice_free(struct choice *choice)
{
	for (size_t i = 0; i < choice->programs_count; i++) {
		free(choice->programs[i].name);
		free(choice->programs[i].inside);
		location_free(&choice->programs[i].location);
	}
	free(choice->programs);
	*choice = (struct choice){0};
}
