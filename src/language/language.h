/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_LANGUAGE_H
#define NSBOX_LANGUAGE_LANGUAGE_H

/*
 * Languages: languages/NAME.json says what to write, what to compile and what to run. The user's
 * ~/.config/nsbox/languages/NAME.json goes before the installed one. The format is nsbox-languages(5).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct spec;

struct language; /* opaque */

/*
 * Finds a language by name or alias, in any case. An unknown one: the error lists what there is.
 * Owned by the caller: language_free.
 */
int language_load(const char *name, struct language **ret, struct error *err);

void language_free(struct language *language);

/* Owned by the language. `aliases` is NULL-terminated and never NULL. */
const char *language_name(const struct language *language);
const char *language_title(const struct language *language);
char *const *language_aliases(const struct language *language);

/*
 * References of the images that have its toolchain: one that is built on this host (localhost/…), and one of a registry.
 * NULL: none is known. Owned by the language.
 */
const char *language_local_image(const struct language *language);
const char *language_remote_image(const struct language *language);

/* Calls `each` for every language's name, in alphabetical order; a file that is broken is passed with its error. */
void language_list(
	void (*each)(void *data, const char *name, const struct error *broken), void *data);

/*
 * Puts `code` into *spec as the language's source file, and its compile (if it has one) and run
 * commands with `arguments` (NULL-terminated, may be NULL) as the spec's execs. The environment of
 * the execs is the language's; {memory_mib} in arguments and environment becomes the spec's memory
 * limit, so set limits first. `timeout_ms` is the run phase's. Fails where the host root lacks a
 * program that the language needs: the error names it and says how to get it.
 */
int language_prepare(const struct language *language, const void *code, size_t length,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err);

/* Where code is, in a sandbox in which other code may run at the same time. */
struct language_source {
	const void *code; /* `length` bytes: the text of the program */
	size_t length;
	/* The absolute path inside of a file that has this text already; NULL: it is written to one, spec->files[0]. */
	const char *file;
	/* Makes what is written nobody else's: a number. NULL: nothing else runs there. */
	const char *unique;
};

/* The same for that source. With `unique`, language_support_directory says what is there for it alone. */
int language_prepare_source(const struct language *language, const struct language_source *source,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err);

/* The directory inside with what a program of `unique` needs and makes besides its source file; malloc'd. */
char *language_support_directory(const char *unique);

/* Whether the text of a program says how it is compiled or run: then language_source needs that of `file`, too. */
bool language_reads_source(const struct language *language);

/* The language whose source files have the extension of `path`; NULL with *err where there is none. */
struct language *language_of_file(const char *path, struct error *err);

/*
 * Prepares a sandbox that lasts for code and commands: binds what of toolchains is outside of /usr, and gives the first
 * exec the variables that it lacks, and in its PATH what is outside of the usual directories. `language` (may be NULL) must be there, or it fails as language_prepare does; in the host's root all
 * others that are there are made usable, too.
 */
int language_prepare_lasting(const struct language *language, struct spec *spec, struct error *err);

/* How a language stands in the root of a spec. */
struct language_status {
	bool ready;
	char **programs; /* ready: where each program that is needed is, on the host; NULL-terminated */
	char **binds; /* ready: directories of the host, outside of /usr, that are bound for it; NULL-terminated */
	char *identity; /* ready: another when a program is exchanged or a version is asked for otherwise */
	struct error missing; /* not ready: what is missing, and as a hint how to get it */
};

/*
 * Whether `language` can run in the root of `spec` (spec_init and, for --rootfs, root and root_path). Reads the
 * file system and executes nothing. *ret is always filled, and freed with language_status_free.
 */
void language_status(
	const struct language *language, const struct spec *spec, struct language_status *ret);

void language_status_free(struct language_status *status);

/*
 * Puts the command that prints the version of the toolchain into *spec as its one exec, with capture on, what it
 * needs bound, and a time limit of its own. The caller runs it in a sandbox, as only there foreign programs are executed,
 * and gives what the command wrote, standard output then standard error, to language_version_of. Fails as
 * language_prepare does, and where the language's file does not say how to ask.
 */
int language_prepare_version(const struct language *language, struct spec *spec, struct error *err);

/* The first word of `output` that looks like a version («3.11.7»), in `ret`; an empty string where there is none. */
void language_version_of(const char *output, size_t length, char *ret, size_t size);

/* Whether the toolchain that `language` has in the root of `spec` makes use of a cache that is not there yet. */
bool language_wants_cache(const struct language *language, const struct spec *spec);

/*
 * Where the language's toolchain makes use of a cache on the host that is not there yet (see cache.h): returns 1 with a
 * *spec that fills it, capture on, and *ret_cache. The caller runs it, and calls language_finish_cache. Returns 0 where
 * there is nothing to do, also because another process does it, which is waited for with `wait`; -1 with *err.
 */
struct language_cache {
	char *directory; /* that is filled */
	char *path;      /* where it belongs */
	int lock;        /* a descriptor: nobody else fills it */
};
int language_prepare_cache(const struct language *language, bool wait, struct spec *spec,
	struct language_cache *ret_cache, struct error *err);

/* With `filled` the cache is put in its place, else it is removed. Releases *cache. */
int language_finish_cache(struct language_cache *cache, bool filled, struct error *err);

#endif
