/* SPDX-License-Identifier: MIT */
/*
 * Names in the layers of an image: see layers.h.
 *
 * The place where a walk is has no links in its path, and is a directory in each of the layers that have a part in
 * it. A step takes one name: down into a directory, back to the top and on by a link's text, or up.
 */
#define _GNU_SOURCE
#include "image/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/file.h"

enum { LINKS_MAX = 40 /* as in the kernel */ };

struct walk {
	char *const *layers;
	size_t count;
	bool *part;        /* which layers have a part in the place */
	char at[PATH_MAX]; /* the place, without a slash at its end; empty: the root */
	unsigned links;    /* that were followed */
	size_t layer;      /* that has what was looked up last, and */
	char *name;        /* its name in the place; owned */
};

/* What a name is. */
enum found { NOTHING, DIRECTORY, LINK, PROGRAM, OTHER };

static bool is_opaque(const char *directory)
{
	char value;

	return lgetxattr(directory, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

static bool is_marked(const char *file, const struct stat *st)
{
	char value;

	return S_ISREG(st->st_mode) && st->st_size == 0 && lgetxattr(file, "user.overlay.whiteout", &value, 1) >= 0;
}

static enum found classify(const char *file, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return DIRECTORY;
	if (S_ISLNK(st->st_mode))
		return LINK;
	if ((S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0)) || is_marked(file, st))
		return NOTHING; /* a whiteout */
	return S_ISREG(st->st_mode) && (st->st_mode & 0111) ? PROGRAM : OTHER;
}

/*
 * Looks for `name` in the place. Of a directory it becomes the place; of a link *ret_link is where it leads, malloc'd.
 */
static enum found look_up(struct walk *walk, const char *name, char **ret_link)
{
	enum found found = NOTHING;
	bool lowest = false; /* nothing of the layers that follow shows */

	free(walk->name);
	walk->name = xstrdup(name);
	for (size_t i = 0; i < walk->count; i++) {
		cleanup_free char *file = NULL;
		enum found here;
		struct stat st;

		if (!walk->part[i])
			continue;
		file = xasprintf("%s%s/%s", walk->layers[i], walk->at, name);
		walk->part[i] = false;
		if (lowest || lstat(file, &st) < 0)
			continue;
		here = classify(file, &st);
		if (found != DIRECTORY)
			found = here;
		walk->layer = i;
		if (here == LINK && found == LINK) {
			char target[PATH_MAX];
			ssize_t n = readlink(file, target, sizeof target);

			*ret_link = n > 0 ? xmemdup(target, (size_t)n) : xstrdup("");
		}
		walk->part[i] = here == DIRECTORY;
		lowest = here != DIRECTORY || is_opaque(file);
	}
	if (found == DIRECTORY && strlen(walk->at) + 1 + strlen(name) >= sizeof walk->at)
		return OTHER;
	if (found == DIRECTORY) {
		strcat(walk->at, "/");
		strcat(walk->at, name);
	}
	return found;
}

static void go_to_root(struct walk *walk)
{
	walk->at[0] = '\0';
	for (size_t i = 0; i < walk->count; i++)
		walk->part[i] = true;
}

static enum found follow(struct walk *walk, const char *path);

/* To the directory above: its layers are found by going there again. */
static void go_up(struct walk *walk)
{
	char *slash = strrchr(walk->at, '/');
	cleanup_free char *above = xasprintf("%.*s", slash ? (int)(slash - walk->at) : 0, walk->at);

	go_to_root(walk);
	follow(walk, above);
}

/* Goes on from the place by `path`, which may be absolute. */
static enum found follow(struct walk *walk, const char *path)
{
	enum found found = DIRECTORY;

	if (*path == '/')
		go_to_root(walk);
	for (path += strspn(path, "/"); *path && found == DIRECTORY; path += strspn(path, "/")) {
		size_t length = strcspn(path, "/");
		cleanup_free char *name = xasprintf("%.*s", (int)length, path), *link = NULL,
				  *rest = NULL;
		cleanup_free char *here = NULL;

		path += length;
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			go_up(walk);
			continue;
		}
		here = xstrdup(walk->at);
		found = look_up(walk, name, &link);
		if (found != LINK)
			continue;
		if (++walk->links > LINKS_MAX)
			return NOTHING;
		rest = xasprintf("%s%s", link, path);
		go_to_root(walk);
		if (*rest != '/')
			follow(walk, here);
		return follow(walk, rest);
	}
	return *path ? NOTHING : found;
}

static struct walk begin(char *const *layers)
{
	struct walk walk = {.layers = layers};

	while (layers && layers[walk.count])
		walk.count++;
	walk.part = xcalloc(walk.count + 1, sizeof *walk.part);
	return walk;
}

static void end(struct walk *walk)
{
	free(walk->part);
	free(walk->name);
}

bool layers_have_program(char *const *layers, const char *path)
{
	struct walk walk = begin(layers);
	enum found found = follow(&walk, path);

	end(&walk);
	return found == PROGRAM;
}

/* What a name leads to is opened by descriptors, so that nothing that is exchanged meanwhile leads out of the layer. */
static int open_in_layer(const struct walk *walk, size_t layer, const char *name, int flags)
{
	cleanup_close int top = open(walk->layers[layer], O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_free char *path = xasprintf(".%s/%s", walk->at, name);

	return top < 0 ? -1 : open_in_root(top, path, flags, 0, RESOLVE_NO_SYMLINKS);
}

struct names {
	char **shown; /* NULL-terminated */
	char **known; /* those, and what is hidden by whiteouts; likewise */
	size_t shown_count, known_count;
};

static void add_name(char ***list, size_t *count, const char *name)
{
	*list = xrealloc(*list, *count + 2, sizeof **list);
	(*list)[(*count)++] = xstrdup(name);
	(*list)[*count] = NULL;
}

static bool is_known(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->known_count; i++)
		if (strcmp(names->known[i], name) == 0)
			return true;
	return false;
}

static void add_names_of(const struct walk *walk, size_t layer, struct names *names)
{
	int fd = open_in_layer(walk, layer, ".", O_RDONLY | O_DIRECTORY);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream)
		close_fd(&fd);
	while (stream && (entry = readdir(stream))) {
		cleanup_free char *file = xasprintf("%s%s/%s", walk->layers[layer], walk->at, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			is_known(names, entry->d_name) || lstat(file, &st) < 0)
			continue;
		add_name(&names->known, &names->known_count, entry->d_name);
		if (classify(file, &st) != NOTHING)
			add_name(&names->shown, &names->shown_count, entry->d_name);
	}
	if (stream)
		closedir(stream);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **layers_list_names(char *const *layers, const char *path)
{
	struct walk walk = begin(layers);
	struct names names = {.shown = xcalloc(1, sizeof *names.shown)};

	if (follow(&walk, path) == DIRECTORY)
		for (size_t i = 0; i < walk.count; i++)
			if (walk.part[i])
				add_names_of(&walk, i, &names);
	end(&walk);
	if (names.shown_count > 1)
		qsort(names.shown, names.shown_count, sizeof *names.shown, compare_names);
	strings_free(names.known);
	return names.shown;
}

char *layers_read_file(char *const *layers, const char *path, size_t max, size_t *ret_length)
{
	struct walk walk = begin(layers);
	enum found found = follow(&walk, path);
	cleanup_close int fd = -1;
	char *content = NULL;
	struct stat st;

	errno = ENOENT;
	if (found == PROGRAM || found == OTHER)
		fd = open_in_layer(&walk, walk.layer, walk.name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	end(&walk);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode)) {
		errno = ENOENT;
		return NULL;
	}
	return read_fd_whole(fd, max, &content, ret_length) < 0 ? NULL : content;
}
