/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_AUTHORITIES_H
#define NSBOX_SANDBOX_AUTHORITIES_H

/*
 * The host's certificate authorities in a sandbox that has a network: what the host trusts, its company's proxy for TLS
 * included, is what programs inside trust. They look for them in many ways, most of which a variable overrides.
 *
 * The bundle (PEM) is what SSL_CERT_FILE of the caller names, else where the host's distribution has it. A sandbox with the
 * host's files shows that of the distribution at its place; in every other case a copy is at AUTHORITIES_PATH, and what
 * an image brings is as it was.
 */

#include <stdbool.h>

struct error;
struct run_result;
struct spec;

#define AUTHORITIES_PATH "/etc/nsbox-authorities.pem"

struct authorities {
	int fd; /* to be copied from; -1: nothing is */
	const char
		*path; /* inside: a literal; NULL: the host has none, or the sandbox no network */
};

#define AUTHORITIES_NONE ((struct authorities){.fd = -1})

/* What SSL_CERT_FILE names and is not there is a warning in *result. Returns 0, or -1 with *err. */
int authorities_find(
	const struct spec *spec, struct authorities *ret, struct run_result *result, struct error *err);

/* The copy, in the child: /etc inside is `etc`. */
int authorities_show(const struct authorities *authorities, int etc, struct error *err);

/*
 * `env` (NULL: none) with the variables that lead to it, but for those that it has already. The array is the caller's to
 * free, the strings are those of `env` and literals. NULL: no memory.
 */
char **authorities_environment(const struct authorities *authorities, char *const *env);

#endif
