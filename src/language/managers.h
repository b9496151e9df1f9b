/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_MANAGERS_H
#define NSBOX_LANGUAGE_MANAGERS_H

/*
 * Toolchains that people keep outside of /usr: which directory of the host a program needs.
 *
 * A home holds keys and credentials beside the toolchains, and so do ~/.local and ~/.cargo. So a table
 * says for each manager (pyenv, nvm, rustup, …) where a toolchain begins, and that directory alone may
 * be shown to a sandbox. What no row of the table fits is not shown.
 */

#include <stdbool.h>

struct error;

/* Appends `string`, which is taken over, to the NULL-terminated list *strings unless it is in it. */
void list_add(char ***strings, char *string);

/* Whether `path` is `directory` or below it. */
bool path_is_below(const char *path, const char *directory);

/*
 * Appends to *binds the directories that the program `real` (a canonical path outside of the host root)
 * needs. Returns -1 with *err, a reason without the program's name, where none may be bound.
 */
int manager_binds(const char *real, char ***binds, struct error *err);

/*
 * Whether `directory`, a canonical path, may be shown to a sandbox: it is no home and holds none, has
 * nothing that looks like a credential at its top, and nobody but the caller and root can exchange it.
 * Returns -1 with *err, a reason that begins with the directory.
 */
int manager_check_bind(const char *directory, struct error *err);

#endif
