/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_REGISTRY_H
#define NSBOX_IMAGE_REGISTRY_H

/*
 * A client of registries (OCI distribution-spec 1.1, «Pull»; Docker's token authentication), by libcurl.
 *
 * What fails for a moment is tried again, from where it broke off: connections that break, stall or are refused, names
 * that cannot be resolved at the moment (EAI_AGAIN), and the statuses 408, 429 (after the time in Retry-After) and 5xx. Credentials go to the registry and to the realm that it
 * names, and not with a redirection to another host.
 */

#include <stdbool.h>
#include <stddef.h>

#include "image/install.h"
#include "image/reference.h"

struct error;
struct registry;

/* Without a transport, TLS; plain HTTP where that fails and the registry is insecure, or on the loopback interface. */
enum transport { TRANSPORT_ANY, TRANSPORT_TLS, TRANSPORT_PLAIN };

struct registry_options {
	enum transport transport;
	bool insecure;    /* without TLS, or with a certificate that nobody vouches for */
	const char *ca;   /* a file of certificates, the caller's; NULL: where Docker and Podman have it, or the system's */
	bool one_of_some; /* a mirror, which is not worth waiting for: others are asked after it */
	bool quiet;       /* nothing on standard error about what is tried again */
	long stall_s;     /* seconds without 1 KiB/s; 0: the default */
	unsigned retries; /* after a failure without progress */
};

enum { REGISTRY_STALL_DEFAULT_S = 30, REGISTRY_RETRIES_DEFAULT = 5, REGISTRY_PARALLEL = 6 };

/* For the repository of `reference`. Free *ret with registry_close. */
int registry_open(const struct reference *reference, const struct registry_options *options,
	struct registry **ret, struct error *err);

void registry_close(struct registry *registry);

struct registry_document {
	char *text; /* malloc'd, with a NUL after it */
	size_t length;
	char content_type[128];
	char digest[DIGEST_SIZE]; /* of the text */
};

/* Fetches a manifest by tag or digest. A digest that was asked for, or that the registry says, is checked. */
int registry_manifest(struct registry *registry, const char *tag_or_digest,
	struct registry_document *ret, struct error *err);

/* Fetches a small blob whole and checks it. */
int registry_blob(struct registry *registry, const struct descriptor *descriptor, size_t max,
	struct registry_document *ret, struct error *err);

/* The layers of images come from there. */
void registry_source(struct registry *registry, struct source *ret);

#endif
