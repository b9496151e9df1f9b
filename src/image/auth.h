/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_AUTH_H
#define NSBOX_IMAGE_AUTH_H

/*
 * Credentials that a person has given to other tools: containers-auth.json(5), Docker's config.json, and the
 * helpers that these name. nsbox has no login of its own.
 */

#include "image/reference.h"

struct error;

struct credentials {
	char *user, *password; /* owned; NULL: none */
	char *identity_token;  /* owned: an OAuth2 refresh token instead of a password; or NULL */
};

/*
 * What there is for the registry, in this order: $REGISTRY_AUTH_FILE; $XDG_RUNTIME_DIR/containers/auth.json;
 * ~/.config/containers/auth.json; $DOCKER_CONFIG/config.json, else ~/.docker/config.json. In each the entry of the longest
 * path that the repository is in counts. None at all is no error: *ret is then empty.
 */
int credentials_find(const struct reference *reference, struct credentials *ret, struct error *err);

void credentials_free(struct credentials *credentials);

/* Takes apart a WWW-Authenticate header's value (RFC 9110, 11.3). */
enum { CHALLENGE_VALUE_MAX = 512 };

struct challenge {
	enum { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER } scheme;
	char realm[CHALLENGE_VALUE_MAX], service[CHALLENGE_VALUE_MAX], scope[CHALLENGE_VALUE_MAX];
};

/* Of several challenges in one header the strongest that we can answer. Others are left out. */
void challenge_parse(const char *header, struct challenge *ret);

#endif
