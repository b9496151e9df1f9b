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
 * References of the images that have its toolchain: one that is built on this host (localhost/…), and one of a
 * registry. NULL: none is known. Owned by the language.
 */
const char *language_local_image(const struct language *language);
const char *language_remote_image(const struct language *language);

/* Calls `each` for every language's name, in alphabetical order; a file that is broken is passed with its error. */
void language_list(
	void (*each)(void *data, const char *name, const struct error *broken), void *data);

/* The same with what is in the files, borrowed; a broken one is NULL. */
void language_visit(
	void (*each)(void *data, const struct language *language, const char *name, const struct error *broken),
	void *data);

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

/* Whether its interpreter can be kept between pieces of code: with some of its toolchains at least. */
bool language_has_contexts(const struct language *language);

/*
 * Puts the command that keeps its interpreter into *spec, as its one exec, and the files of it: its driver (see
 * session/contexts.h) among them, in the language_support_directory of `unique`. Fails as language_prepare does, and where
 * the toolchain that is there has no contexts.
 */
int language_prepare_context(const struct language *language, const char *unique, struct spec *spec, struct error *err);

/* Whether it has an interpreter for a person at a terminal; the second fails where not, and lists those that have. */
bool language_has_repl(const struct language *language);
int language_require_repl(const struct language *language, struct error *err);

/*
 * Puts the command that is its interactive interpreter into *spec, as its one exec, and the files of it, in the
 * language_support_directory of `unique`. Fails as language_prepare does, and as language_require_repl.
 */
int language_prepare_repl(const struct language *language, const char *unique, struct spec *spec, struct error *err);

/* The directory inside with what a program of `unique` needs and makes besides its source file; malloc'd. */
char *language_support_directory(const char *unique);

/* Whether the text of a program says how it is compiled or run: then language_source needs that of `file`, too. */
bool language_reads_source(const struct language *language);

/* The language whose source files have the extension of `path`; NULL with *err where there is none. */
struct language *language_of_file(const char *path, struct error *err);

/*
 * Prepares a sandbox that lasts for code and commands: binds what of toolchains is outside of /usr, and gives the first
 * exec the variables that it lacks, and in its PATH what is outside of the usual directories. With spec->packages these
 * are also those of packages, which can be installed later (packages/session.h). `language` (may be NULL) must be
 * there, or it fails as language_prepare does; in the host's root all others that are there are made usable, too.
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
 * Puts the command that prints the version of the toolchain into *spec as its one exec, with capture on, what it needs
 * bound, and a time limit of its own. The caller runs it in a sandbox, as only there foreign programs are executed, and
 * gives what the command wrote, standard output then standard error, to language_version_of. Fails as language_prepare
 * does, and where the language's file does not say how to ask.
 */
int language_prepare_version(const struct language *language, struct spec *spec, struct error *err);

/* The first word of `output` that looks like a version («3.11.7»), in `ret`; an empty string where there is none. */
void language_version_of(const char *output, size_t length, char *ret, size_t size);

/*
 * How packages are installed for the toolchain that `language` has in the root of `spec` (see recipe.h). Fails where it
 * is not there, has no packages, or their manager is missing: the error says how to get it.
 */
struct language_packages {
	const struct recipe *recipe; /* the language's */
	const char *folder;          /* their folder's name below PACKAGES_PLACE; the language's */
	char *identity; /* another when root, toolchain or manager is another */
};
int language_find_packages(
	const struct language *language, const struct spec *spec, struct language_packages *ret, struct error *err);
void language_packages_free(struct language_packages *packages);

/*
 * Puts the command that installs `names` (NULL-terminated; recipe_check_names has passed them) into *spec, which has
 * its root and limits, as its one exec, capture on: into the directory `folder` of the host. Both it and `work`, for
 * what is not to stay, with a directory «tmp» in it, are bound writable.
 */
int language_prepare_install(const struct language *language, char *const *names, const char *folder, const char *work,
	struct spec *spec, struct error *err);

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
