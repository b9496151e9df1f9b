/* SPDX-License-Identifier: MIT */
/*
 * Finds languages: see language.h. Specs are made of them in prepare.c.
 *
 * Directories, the first that has a language wins:
 *
 *     $XDG_CONFIG_HOME/nsbox/languages, else ~/.config/nsbox/languages    the user's
 *     $NSBOX_LANGUAGES_DIR, else LANGUAGES_DIR (share/nsbox/languages)    the ones that come with nsbox
 *
 * Where LANGUAGES_DIR does not exist because nsbox is not installed, the folder `languages` beside the
 * program is taken: that is where a build in the source tree has them. A build elsewhere sets
 * NSBOX_LANGUAGES_DIR. Nothing is read before a language is asked for.
 */
#define _GNU_SOURCE
#include "language/language.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "language/definition.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/trust.h"

enum { DIRECTORIES_MAX = 2 };

void language_free(struct language *language)
{
	definition_free(language);
}

const char *language_name(const struct language *language)
{
	return language->name;
}

const char *language_title(const struct language *language)
{
	return language->title;
}

const char *language_local_image(const struct language *language)
{
	return language->image_local;
}

const char *language_remote_image(const struct language *language)
{
	return language->image_remote;
}

char *const *language_aliases(const struct language *language)
{
	static char *none[] = {NULL};

	return language->aliases ? language->aliases : none;
}

static char *user_directory(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && config[0] == '/')
		return xasprintf("%s/nsbox/languages", config);
	if (home && home[0] == '/')
		return xasprintf("%s/.config/nsbox/languages", home);
	return NULL;
}

static char *own_directory(void)
{
	const char *named = getenv("NSBOX_LANGUAGES_DIR");
	char program[PATH_MAX];
	ssize_t length;

	if (named && named[0])
		return xstrdup(named);
	if (access(LANGUAGES_DIR, F_OK) == 0)
		return xstrdup(LANGUAGES_DIR);
	length = readlink("/proc/self/exe", program, sizeof program);
	while (length > 0 && program[length - 1] != '/')
		length--;
	if (length > 0) {
		cleanup_free char *beside = xasprintf("%.*slanguages", (int)length, program);

		if (access(beside, F_OK) == 0)
			return xstrdup(beside);
	}
	return xstrdup(LANGUAGES_DIR);
}

struct directories {
	char *paths[DIRECTORIES_MAX];
	size_t count;
};

static void directories_find(struct directories *ret)
{
	char *user = user_directory();
	struct error not_ours;

	ret->count = 0;
	/* HOME may be another user's, as after setpriv or sudo: a folder that cannot be read, or that another can write, is none. */
	if (user && access(user, R_OK | X_OK) == 0 && path_check_future(user, NULL, &not_ours) == 0)
		ret->paths[ret->count++] = user;
	else
		free(user);
	ret->paths[ret->count++] = own_directory();
}

static void directories_free(struct directories *directories)
{
	for (size_t i = 0; i < directories->count; i++)
		free(directories->paths[i]);
}

#define cleanup_directories __attribute__((cleanup(directories_free)))

/* What a scan finds: one for each name, the user's in place of the installed one. */
struct entry {
	char *name;                /* of the file, without .json */
	struct language *language; /* NULL: the file is broken */
	struct error error;
};

struct entries {
	struct entry *list;
	size_t count;
};

static void entries_free(struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		free(entries->list[i].name);
		language_free(entries->list[i].language);
	}
	free(entries->list);
}

#define cleanup_entries __attribute__((cleanup(entries_free)))

static int compare_entries(const void *left, const void *right)
{
	return strcmp(((const struct entry *)left)->name, ((const struct entry *)right)->name);
}

static void add_entry(struct entries *entries, const char *directory, const char *file)
{
	size_t length = strlen(file);
	struct entry *entry;

	if (file[0] == '.' || length <= 5 || strcmp(file + length - 5, ".json") != 0)
		return;
	for (size_t i = 0; i < entries->count; i++)
		if (strncmp(entries->list[i].name, file, length - 5) == 0 &&
			entries->list[i].name[length - 5] == '\0')
			return;
	entries->list = xrealloc(entries->list, entries->count + 1, sizeof *entries->list);
	entry = &entries->list[entries->count++];
	memset(entry, 0, sizeof *entry);
	entry->name = xasprintf("%.*s", (int)(length - 5), file);
	definition_read(directory, file, &entry->language, &entry->error);
}

static void scan(const struct directories *directories, struct entries *ret)
{
	for (size_t i = 0; i < directories->count; i++) {
		DIR *directory = opendir(directories->paths[i]);

		for (struct dirent *file; directory && (file = readdir(directory));)
			add_entry(ret, directories->paths[i], file->d_name);
		if (directory)
			closedir(directory);
	}
	if (ret->count > 0)
		qsort(ret->list, ret->count, sizeof *ret->list, compare_entries);
}

void language_visit(
	void (*each)(void *data, const struct language *language, const char *name, const struct error *broken),
	void *data)
{
	cleanup_directories struct directories directories;
	cleanup_entries struct entries entries = {NULL, 0};

	directories_find(&directories);
	scan(&directories, &entries);
	for (size_t i = 0; i < entries.count; i++) {
		const struct entry *entry = &entries.list[i];

		each(data, entry->language, entry->name, entry->language ? NULL : &entry->error);
	}
}

struct listing {
	void (*each)(void *data, const char *name, const struct error *broken);
	void *data;
};

static void list_one(void *data, const struct language *language, const char *name, const struct error *broken)
{
	const struct listing *listing = data;

	listing->each(listing->data, name, broken);
}

void language_list(
	void (*each)(void *data, const char *name, const struct error *broken), void *data)
{
	language_visit(list_one, &(struct listing){each, data});
}

/* Opens NAME.json directly. Returns 1 when it is there, 0 when there is none, -1 when it is broken. */
static int load_by_name(const struct directories *directories, const char *name,
	struct language **ret, struct error *err)
{
	cleanup_free char *file = xasprintf("%s.json", name);

	for (size_t i = 0; i < directories->count; i++) {
		if (definition_read(directories->paths[i], file, ret, err) == 0)
			return 1;
		if (err->errnum != ENOENT && err->errnum != ENOTDIR)
			return -1;
	}
	return 0;
}

static bool has_alias(const struct language *language, const char *name)
{
	for (char **alias = language->aliases; alias && *alias; alias++)
		if (strcmp(*alias, name) == 0)
			return true;
	return false;
}

/* Names what there is and, since the wanted one may be it, what is broken. */
static int unknown_language(const char *name, const struct directories *directories,
	const struct entries *entries, struct error *err)
{
	cleanup_free char *known = xstrdup("");
	const struct error *broken = NULL;

	for (size_t i = 0; i < entries->count; i++) {
		cleanup_free char *before = known;

		if (!entries->list[i].language && !broken)
			broken = &entries->list[i].error;
		known = entries->list[i].language
				? xasprintf("%s%s%s", before, before[0] ? ", " : "",
					  entries->list[i].name)
				: xstrdup(before);
	}
	if (!known[0]) {
		error_set(err, 0, "unknown language \"%s\": there are no languages in %s", name,
			directories->paths[directories->count - 1]);
		return error_hint(err,
			"Install nsbox (make install), or set NSBOX_LANGUAGES_DIR to the folder "
			"\"languages\" of its source.");
	}
	error_set(err, 0, "unknown language \"%s\"; there are: %s", name, known);
	if (broken)
		return error_hint(err, "A language's file is broken: %s", broken->text);
	return -1;
}

int language_load(const char *name, struct language **ret, struct error *err)
{
	cleanup_directories struct directories directories;
	cleanup_entries struct entries entries = {NULL, 0};
	cleanup_free char *lower = xstrdup(name);
	int found;

	directories_find(&directories);
	for (char *next = lower; *next; next++)
		*next = (char)tolower((unsigned char)*next);
	if (definition_name_valid(lower)) {
		found = load_by_name(&directories, lower, ret, err);
		if (found)
			return found > 0 ? 0 : -1;
	}
	scan(&directories, &entries);
	for (size_t i = 0; i < entries.count; i++) {
		if (!entries.list[i].language || !has_alias(entries.list[i].language, lower))
			continue;
		*ret = entries.list[i].language;
		entries.list[i].language = NULL;
		return 0;
	}
	return unknown_language(name, &directories, &entries, err);
}

struct language *language_of_file(const char *path, struct error *err)
{
	cleanup_directories struct directories directories;
	cleanup_entries struct entries entries = {NULL, 0};
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const char *extension = strrchr(name, '.') ? strrchr(name, '.') + 1 : "";
	struct language *language = NULL;

	directories_find(&directories);
	scan(&directories, &entries);
	for (int by_alias = 0; by_alias < 2 && *extension; by_alias++)
		for (size_t i = 0; i < entries.count && !language; i++) {
			struct language **entry = &entries.list[i].language;

			if (!*entry || !(by_alias ? has_alias(*entry, extension)
						  : strcasecmp((*entry)->extension, extension) == 0))
				continue;
			language = *entry;
			*entry = NULL;
		}
	if (language)
		return language;
	error_set(err, 0, "%.80s: its name does not say which language it is in", name);
	error_hint(err, "name the language");
	return NULL;
}
