/* SPDX-License-Identifier: MIT */
/*
 * Names in the layers of an image: see layers.h.
 *
 * The place where a walk is has no links in its path, and is a directory in each of the layers that have a part in
 * it. A step takes one name: down into a directory, back to the top and on by a link's text, or up.
 */
#define _GNU_SOURCE
#include "image/layers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"

enum { LINKS_MAX = 40 /* as in the kernel */ };

struct walk {
	char *const *layers;
	size_t count;
	bool *part;        /* which layers have a part in the place */
	char at[PATH_MAX]; /* the place, without a slash at its end; empty: the root */
	unsigned links;    /* that were followed */
};

/* What a name is. */
enum found { NOTHING, DIRECTORY, LINK, PROGRAM, OTHER };

static bool is_opaque(const char *directory)
{
	char value;

	return lgetxattr(directory, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

static enum found classify(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return DIRECTORY;
	if (S_ISLNK(st->st_mode))
		return LINK;
	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0))
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
		here = classify(&st);
		if (found != DIRECTORY)
			found = here;
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

bool layers_have_program(char *const *layers, const char *path)
{
	struct walk walk = {.layers = layers};
	cleanup_free bool *part = NULL;

	while (layers && layers[walk.count])
		walk.count++;
	part = walk.part = xcalloc(walk.count + 1, sizeof *walk.part);
	return follow(&walk, path) == PROGRAM;
}
