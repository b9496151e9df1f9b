/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_PREPARATION_H
#define NSBOX_LANGUAGE_PREPARATION_H

/* What specs of languages have in common, be they for code, for caches, for packages or for sandboxes that last. */

#include <stdbool.h>
#include <stdint.h>

#include "language/definition.h"
#include "language/needs.h"
#include "sandbox/spec.h"

struct error;
struct language;

struct preparation {
	const struct language *language;
	struct choice choice;
	struct placeholders values;
	char *path;     /* the PATH inside */
	char *packages; /* the folder of its packages inside, be they there or not; NULL: it has none */
	struct spec *spec;
	struct error *err;
};

enum { PREPARATION_FILE_MODE = 0644 };

/* Chooses the toolchain, and binds what of it is outside of /usr. *ret is freed in any case. */
int preparation_begin(const struct language *language, struct spec *spec, struct preparation *ret, struct error *err);

void preparation_free(struct preparation *preparation);

#define cleanup_preparation __attribute__((cleanup(preparation_free)))

/* The PATH inside, malloc'd: programs outside of the usual directories go before them, in the order of the needs. */
char *preparation_path(const struct choice *choice, const struct spec *spec);

void preparation_add_binds(const struct choice *choice, struct spec *spec);

/* Sets {packages} where the sandbox has a place for them. */
void preparation_find_packages(struct preparation *preparation);

/*
 * Whether there are packages: what is mounted for a single run has them. A session's folder gets a mark beside
 * {packages} with the first of them (packages/session.h), which only nsbox can make.
 */
bool preparation_has_installed(const struct preparation *preparation);

/* Binds the cache of the toolchain, where it is there; a sandbox that lasts has what it was made with. */
void preparation_use_cache(struct preparation *preparation);

/*
 * Appends with placeholders replaced. The program of a command stands for the one that was found for the need that it
 * names.
 */
int preparation_add_argument(const struct preparation *preparation, const char *argument, struct exec_spec *exec);
int preparation_add_arguments(const struct preparation *preparation, char *const *argv, struct exec_spec *exec);
int preparation_add_env(const struct preparation *preparation, const struct environment *env, struct exec_spec *exec);

/* Appends a command to the spec, with the language's environment and that of its packages. `phase` is a literal. */
int preparation_add_exec(
	const struct preparation *preparation, const char *phase, char *const *argv, uint64_t timeout_ms);

#endif
