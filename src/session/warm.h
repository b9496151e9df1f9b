/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_WARM_H
#define NSBOX_SESSION_WARM_H

/* Fills the cache of a language's compiler (language/cache.h), in a sandbox of its own. */

#include <stdbool.h>

#include "sandbox/sandbox.h"

struct error;
struct language;

/*
 * Returns 1 when the cache was filled, with its path in *ret_path (malloc'd); 0 where there was nothing to do; -1 with *err, and then, where the compiler ran and
 * failed, what it wrote in *ret_output (malloc'd, else NULL). A cache that was not filled whole is removed before it
 * returns, also when `control` has ended the run.
 *
 * `image` has the toolchain, or with NULL the host. Its layers are locked as long as the process lives.
 *
 * While another process fills it, that one is waited for. Not so in the background, where it returns 0, and where the
 * compiler leaves processor time to others.
 */
int warm_language(const struct language *language, const char *image, bool background,
	const struct run_control *control, char **ret_path, char **ret_output, struct error *err);

/* What a command wrote, standard output first, as a string; malloc'd. */
char *warm_output_of(const struct exec_result *exec);

#endif
