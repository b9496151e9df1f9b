/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_DEFINITION_H
#define NSBOX_LANGUAGE_DEFINITION_H

/*
 * One language's file, read and checked. nsbox-languages(5) describes the format; in short:
 *
 *     name        the file's own name without .json
 *     title       what a person calls it
 *     aliases     [other names]                                      optional
 *     extension   of source files, without the dot
 *     source      the name that the code is stored under, in /workspace
 *     prepend     {text, unless}: text before code that has no `unless` in it    optional
 *     files       {name: text or [lines]}, beside {support}          optional
 *     env         {NAME: value}                                      optional
 *     repl        {run: [...], env, files}: its interactive interpreter    optional
 *     image       {local: reference, remote: reference}: images that have a toolchain    optional
 *     context     {driver, run: [...], files}: an interpreter that is kept between pieces of code     optional
 *     toolchains  [{needs, compile, run, version, env, context}]: the first whose needs are met is used
 *
 * A file with one toolchain may have the keys of that at its top instead:
 *
 *     needs       [{program: name or [names], packages: {distribution: "packages"}}]  optional
 *     compile     {argv: [...], timeout_ms: 30000}                   optional
 *     run         {argv: [...]}; the caller's arguments are appended
 *     version     [argv] of a command that prints it                 optional
 *     cache       {argv: [...], timeout_ms: 600000}: fills {cache}, see cache.h    optional
 *     packages    {…}: how they are installed, see recipe.h          optional
 *
 * The placeholders of arguments, of the environment and of `source` are in `struct placeholders`. A
 * brace that is meant as such is written {{ or }}.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct recipe;

enum distribution {
	DISTRIBUTION_DEBIAN,
	DISTRIBUTION_FEDORA,
	DISTRIBUTION_ARCH,
	DISTRIBUTION_SUSE,
	DISTRIBUTION_ALPINE,
	DISTRIBUTION_MAX,
};

struct need {
	char **programs; /* NULL-terminated, at least one: any of them will do, the first is preferred */
	char *packages
		[DISTRIBUTION_MAX]; /* names as the distribution's installer takes them, or NULL */
};

struct support_file {
	char *name;
	char *text;
};

/* Lists of strings here and below are NULL-terminated. */
struct environment {
	char **names;
	char **values;
};

/* How an interpreter is kept between pieces of code: its driver is a program of ours in the language (session/contexts.h). */
struct context_definition {
	char *driver;    /* the name of its file in the folder «contexts» beside the language's; NULL: there are no contexts */
	char **run_argv;
	struct support_file *files; /* beside the driver */
	size_t files_count;
};

/* The interpreter for a person at a terminal, with whichever toolchain. */
struct repl_definition {
	char **run_argv; /* NULL: there is none */
	struct environment env; /* on top of the language's */
	struct support_file *files; /* in {support} */
	size_t files_count;
};

struct toolchain {
	struct need *needs;
	size_t needs_count;
	char **compile_argv; /* NULL: nothing to compile */
	uint64_t compile_timeout_ms;
	char **run_argv;
	char **version_argv; /* NULL: not known how to ask */
	char **cache_argv;   /* NULL: it has no use for one */
	uint64_t cache_timeout_ms;
	struct environment env;
	struct recipe *packages; /* owned; NULL: there are none to be installed */
	struct context_definition context; /* in place of the language's, where it has one */
};

struct language {
	char *directory; /* that its file is in */
	char *name;
	char *title;
	char **aliases; /* NULL: none */
	char *extension;
	char *source;
	char *prepend_text, *prepend_unless; /* NULL: nothing is prepended */
	struct support_file *files;
	size_t files_count;
	char *image_local;            /* a reference: looked for in the store, and never in a registry */
	bool image_local_named;       /* by the file: it is known how to get it */
	char *image_remote;           /* a reference: may be pulled; NULL: none is known */
	struct environment env;       /* of every toolchain; a toolchain's own goes on top */
	struct context_definition context; /* of a file with several toolchains: of those that have none of their own */
	struct repl_definition repl;
	struct toolchain *toolchains; /* at least one */
	size_t toolchains_count;
};

/* What placeholders stand for. */
struct placeholders {
	const char *
		source; /* {source}: the path of the source file; NULL where `source` itself is expanded */
	uint64_t
		memory_bytes; /* {memory_mib}: the sandbox's limit; {heap_mib}: what a run time's heap may take of it */
	const char *public_type; /* {public_type}, {main_type}: see typenames.h; NULL: Main */
	const char *main_type;
	bool cache_bound; /* {cache}: a directory of the host, else one in the sandbox */
	const char *support; /* {support}, and {output} is in it; NULL: DEFINITION_SUPPORT */
	const char *driver;   /* {driver}; NULL: only contexts have one */
	const char *packages; /* {packages}; NULL, as of the next: none is known */
	const char *path;     /* {path} */
	/* {workspace} is fixed: see DEFINITION_… below. */
};

#define DEFINITION_WORKSPACE "/workspace"
#define DEFINITION_SUPPORT "/tmp/.nsbox"
#define DEFINITION_PROGRAM "program" /* in {support}: a workspace may be the caller's */
#define DEFINITION_CACHE "/var/cache/nsbox" /* where a cache of the host's is bound */
#define DEFINITION_CACHE_OWN DEFINITION_SUPPORT "/cache"

/*
 * Reads the file `file` in `directory`. Errors name the file, and the line or the key: «DIR/FILE:LINE: reason»,
 * «DIR/FILE: KEY: reason». errnum is ENOENT only when there is no such file.
 */
int definition_read(
	const char *directory, const char *file, struct language **ret, struct error *err);

/* Whether `text` can be the name of a language: lower-case letters, digits and «+#.-», beginning with a letter. */
int definition_name_valid(const char *text);

/*
 * `text` with its placeholders replaced; malloc'd. For an unknown one NULL and *err, which names it.
 */
char *definition_expand(const struct placeholders *values, const char *text, struct error *err);

/* Releases a language that definition_read made; NULL is allowed. */
void definition_free(struct language *language);

#endif
