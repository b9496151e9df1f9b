/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_INSTALL_H
#define NSBOX_CLI_SESSION_INSTALL_H

struct config;
struct error;

/*
 * Installs packages in the session `id`, of the language of that name or, with NULL, of the session's own. Says what
 * goes on as installing.h has it. `config` may be NULL. Returns 0, or -1 with *err.
 */
int session_install(const char *id, const char *language, char *const *names, const struct config *config,
	struct error *err);

#endif
