/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CONFIG_REGISTRIES_H
#define NSBOX_CONFIG_REGISTRIES_H

/*
 * The key «registries» of the configuration: for the hosts of registries, what holds where no option says otherwise,
 * and who is asked in their place. A mirror is a registry that has the same repositories, below a path of its own or not.
 */

#include <stdbool.h>
#include <stddef.h>

#include "image/reference.h"

struct error;

/* Of one host. */
struct config_registry {
	char *host; /* owned: «docker.io», «localhost:5000» */
	char **mirrors; /* owned: URLs, in the order in which they are asked, with a NULL at the end; or NULL */
	char *ca;      /* owned: the absolute path of a file of certificates; or NULL */
	bool insecure; /* without TLS, or with a certificate that nobody vouches for */
};

struct config_registries {
	struct config_registry *hosts;
	size_t count;
};

struct json_t;

/* Reads the value of the key over what there is, host by host and key by key. Errors name the key. */
int config_registries_read(
	struct config_registries *registries, const struct json_t *object, struct error *err);

/* What is said about a host; NULL: nothing. */
const struct config_registry *config_registries_find(
	const struct config_registries *registries, const char *host);

void config_registries_free(struct config_registries *registries);

/* Where a mirror has an image. */
struct mirror {
	struct reference
		reference; /* registry, repository: the mirror's; tag and digest are the image's */
	bool plain;        /* the URL says http */
};

/*
 * The place of `reference` at the mirror `url`, which is «https://HOST[:PORT][/PATH]» or the same with http. Fails where
 * it is no such URL, or the name gets too long.
 */
int mirror_find(
	const char *url, const struct reference *reference, struct mirror *ret, struct error *err);

#endif
