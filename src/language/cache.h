/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_CACHE_H
#define NSBOX_LANGUAGE_CACHE_H

/*
 * Caches of compilers on the host: what a toolchain would compile anew in every sandbox, such as the
 * standard library of Go (10 s of CPU time for a program that prints a line, 0.3 s with the cache).
 *
 * A cache is filled in a sandbox of its own by the command in the language's file, without any of the
 * user's code, and renamed to its final name when that has succeeded. Other sandboxes see it read-only:
 * no code that runs in one can change what the next compiles with. Its name tells the toolchain, so
 * that an upgrade makes a new one. It is filled under that name with «.new» behind it, which is locked
 * (flock) meanwhile: so of several processes one fills it, and what a killed one left is taken over and
 * emptied by the next.
 *
 * The toolchain of an image is named by the image's digest, so that no other ever takes its cache. Only images that
 * the language's file names have one: the command that fills it is the image's, and what it writes is on the host.
 *
 *     $XDG_CACHE_HOME/nsbox/LANGUAGE-TOOLCHAIN-COMMAND, else ~/.cache/nsbox/…
 */

#include <stdbool.h>

struct choice;
struct error;
struct language;

/* The path of the cache of the chosen toolchain, there or not, malloc'd; NULL where it has no use for one. */
char *cache_path(const struct language *language, const struct choice *choice);

/*
 * The cache, where it is there and nobody else can have changed it: as cache_path, or NULL. *ret_reason says why one
 * that is there is not used; its text is empty where there is none.
 */
char *cache_find(const struct language *language, const struct choice *choice,
	struct error *ret_reason);

/*
 * Makes an empty directory beside `path` that cache_commit renames to `path`. Returns 1 with it, malloc'd, and the lock
 * that keeps others from it until that is closed. While another process fills it: waits for that one with `wait`, else
 * returns 0. Returns 0, too, when `path` is there then; -1 with *err.
 */
int cache_begin(
	const char *path, bool wait, char **ret_directory, int *ret_lock, struct error *err);

/* Puts `directory`, made by cache_begin, in its place. */
int cache_commit(const char *directory, const char *path, struct error *err);

/* Removes `directory`, made by cache_begin, with all in it. */
void cache_abandon(const char *directory);

#endif
