/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_SETTINGS_H
#define NSBOX_PACKAGES_SETTINGS_H

/*
 * What the host's own settings say of registries, for an install in a sandbox: pip.conf, .npmrc, cargo's config.toml,
 * GOPROXY, Maven's settings.xml and so on, of the system and of the user, and the variables that go over them.
 *
 * Only what says where packages come from is carried over, key by key, in files of the same form: no commands, no
 * folders of the host, and no secrets. A name and a password in a URL are taken out of it, and a token is left where it
 * is; a warning says so, since without it a registry may refuse. Hosts that are named so may be reached; one on the
 * host's own loopback is given the name by which the gate knows it (gate/inner.h).
 */

#include <stddef.h>

struct host_file {
	char *path; /* below the home of the install */
	char *text;
};

struct host_settings {
	char **env; /* NAME=VALUE; lists here are NULL-terminated or NULL */
	struct host_file *files;
	size_t files_count;
	char **hosts; /* rules of the gate */
	char **warnings;
};

/*
 * Of the manager of that name; of one that is not known, none. Reads files and the environment, and fails at nothing.
 */
void host_settings_read(const char *manager, struct host_settings *ret);

void host_settings_free(struct host_settings *settings);

/*
 * The URL as an install can use it (malloc'd), whose host is added to the rules; NULL where it is none of HTTP. `where`
 * names the setting in warnings.
 */
char *host_settings_carry_url(struct host_settings *settings, const char *where, const char *url, size_t length);

#endif
