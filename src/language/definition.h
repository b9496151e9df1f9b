/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_DEFINITION_H
#define NSBOX_LANGUAGE_DEFINITION_H

/*
 * One language's file, read and checked.
 *
 *     name       the file's own name without .json
 *     title      what a person calls it
 *     aliases    [other names]                                      optional
 *     extension  of source files, without the dot
 *     source     the name that the code is stored under, in /workspace
 *     compile    {argv: [...], timeout_ms: 30000}                   optional
 *     run        {argv: [...]}; the caller's arguments are appended
 *     env        {NAME: value}                                      optional
 *     needs      [{program, packages: {distribution: "packages"}}]  optional
 *
 * In arguments and in values of the environment stand for something: {source} and {output}, the paths
 * of the source file and of what a compiler makes of it; {workspace}; {memory_mib}, the sandbox's
 * memory limit; {heap_mib}, what a runtime with a heap of its own may take of that, the rest being
 * left for its code, stacks and buffers. A brace that is meant as such is written {{ or }}.
 */

#include <stddef.h>
#include <stdint.h>

struct error;

enum distribution {
	DISTRIBUTION_DEBIAN,
	DISTRIBUTION_FEDORA,
	DISTRIBUTION_ARCH,
	DISTRIBUTION_SUSE,
	DISTRIBUTION_ALPINE,
	DISTRIBUTION_MAX,
};

struct need {
	char *program;
	char *packages
		[DISTRIBUTION_MAX]; /* names as the distribution's installer takes them, or NULL */
};

struct language {
	char *name;
	char *title;
	char **aliases; /* NULL-terminated; so are the next two */
	char *extension;
	char *source;
	char **compile_argv; /* NULL: nothing to compile */
	uint64_t compile_timeout_ms;
	char **run_argv;
	char **env_names; /* NULL-terminated, and as many values */
	char **env_values;
	struct need *needs;
	size_t needs_count;
};

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
char *definition_expand(const struct language *language, const char *text, uint64_t memory_bytes,
	struct error *err);

#endif
