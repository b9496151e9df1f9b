/* SPDX-License-Identifier: MIT */
/* What the configuration says about registries: see registries.h. */
#define _GNU_SOURCE
#include "config/registries.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { MIRRORS_MAX = 16, WHAT_SIZE = 320 };

/* Whether `text` is a registry's host as image references have it, and no other name of one. */
static bool is_host(const char *text)
{
	char name[REFERENCE_NAME_MAX + 1];
	struct reference reference;
	struct error ignored;

	return *text && snprintf(name, sizeof name, "%s/x", text) < (int)sizeof name &&
	       reference_parse(name, &reference, &ignored) == 0 &&
	       strcmp(reference.registry, text) == 0;
}

/* --- mirrors --- */

int mirror_find(
	const char *url, const struct reference *reference, struct mirror *ret, struct error *err)
{
	static const char secure[] = "https://", plain[] = "http://";
	char name[REFERENCE_NAME_MAX + 1], quotation[QUOTED_MAX];
	bool is_plain = strncmp(url, plain, sizeof plain - 1) == 0;
	struct reference found;
	const char *rest;
	size_t length;
	int n;

	if (!is_plain && strncmp(url, secure, sizeof secure - 1) != 0)
		return error_set(err, 0,
			"%s does not begin with https:// (or http://, where no TLS is wanted)",
			quoted(url, quotation));
	rest = url + (is_plain ? sizeof plain : sizeof secure) - 1;
	length = strlen(rest);
	while (length > 0 && rest[length - 1] == '/')
		length--;
	n = snprintf(name, sizeof name, "%.*s/%s", (int)length, rest, reference->repository);
	if (n >= (int)sizeof name)
		return error_set(err, 0,
			"%s and the name of the image are longer than %d bytes together",
			quoted(url, quotation), REFERENCE_NAME_MAX);
	/* Neither a user, a query nor «v2» is a part of it. */
	if (reference_parse(name, &found, err) < 0 ||
		strcspn(rest, "/") != strlen(found.registry) ||
		strncmp(rest, found.registry, strlen(found.registry)) != 0)
		return error_set(err, 0,
			"%s is no URL of a registry; write https://HOST[:PORT] or https://HOST[:PORT]/PATH",
			quoted(url, quotation));
	ret->plain = is_plain;
	ret->reference = *reference;
	strcpy(ret->reference.registry, found.registry);
	strcpy(ret->reference.repository, found.repository);
	return 0;
}

static int read_mirrors(
	struct config_registry *host, const char *what, const json_t *value, struct error *err)
{
	static const struct reference any = {.repository = "x", .tag = "latest"};
	size_t count = json_array_size(value);
	struct mirror mirror;
	const char *url;
	char **mirrors;

	if (!json_is_array(value))
		return error_set(err, 0, "%s: expected an array of URLs", what);
	if (count > MIRRORS_MAX)
		return error_set(err, 0, "%s: more than %d", what, MIRRORS_MAX);
	mirrors = xcalloc(count + 1, sizeof *mirrors);
	for (size_t i = 0; i < count; i++) {
		url = json_string_value(json_array_get(value, i));
		if (!url)
			error_set(err, 0, "expected an array of URLs, each a string");
		if (!url || mirror_find(url, &any, &mirror, err) < 0) {
			strings_free(mirrors);
			return error_context(err, "%s", what);
		}
		mirrors[i] = xstrdup(url);
	}
	strings_free(host->mirrors);
	host->mirrors = mirrors;
	return 0;
}

/* --- hosts --- */

static struct config_registry *find_or_add(struct config_registries *registries, const char *host)
{
	struct config_registry *found =
		(struct config_registry *)config_registries_find(registries, host);

	if (found)
		return found;
	registries->hosts =
		xrealloc(registries->hosts, registries->count + 1, sizeof *registries->hosts);
	found = &registries->hosts[registries->count++];
	*found = (struct config_registry){.host = xstrdup(host)};
	return found;
}

static int read_member(struct config_registry *host, const char *member, const char *what,
	const json_t *value, struct error *err)
{
	char quotation[QUOTED_MAX];
	const char *path;

	if (strcmp(member, "mirrors") == 0)
		return read_mirrors(host, what, value, err);
	if (strcmp(member, "insecure") == 0) {
		if (!json_is_boolean(value))
			return error_set(err, 0, "%s: expected true or false", what);
		host->insecure = json_is_true(value);
		return 0;
	}
	if (strcmp(member, "ca") != 0)
		return error_set(err, 0,
			"registries.%s: %s: unknown key; there are mirrors, insecure, ca",
			host->host, quoted(member, quotation));
	path = json_string_value(value);
	if (!path || *path != '/')
		return error_set(
			err, 0, "%s: expected the absolute path of a file of certificates", what);
	free(host->ca);
	host->ca = xstrdup(path);
	return 0;
}

static int read_host(struct config_registry *host, const json_t *object, struct error *err)
{
	const char *member;
	json_t *value;

	if (!json_is_object(object))
		return error_set(err, 0, "registries.%s: expected an object", host->host);
	json_object_foreach((json_t *)object, member, value)
	{
		char what[WHAT_SIZE];

		snprintf(what, sizeof what, "registries.%s.%.32s", host->host, member);
		if (read_member(host, member, what, value, err) < 0)
			return -1;
	}
	return 0;
}

int config_registries_read(
	struct config_registries *registries, const json_t *object, struct error *err)
{
	char quotation[QUOTED_MAX];
	const char *host;
	json_t *value;

	if (!json_is_object(object))
		return error_set(err, 0, "registries: expected an object of hosts");
	json_object_foreach((json_t *)object, host, value)
	{
		if (!is_host(host))
			return error_set(err, 0,
				"registries: %s is no registry's host, such as docker.io or localhost:5000",
				quoted(host, quotation));
		if (read_host(find_or_add(registries, host), value, err) < 0)
			return -1;
	}
	return 0;
}

const struct config_registry *config_registries_find(
	const struct config_registries *registries, const char *host)
{
	for (size_t i = 0; i < registries->count; i++)
		if (strcmp(registries->hosts[i].host, host) == 0)
			return &registries->hosts[i];
	return NULL;
}

void config_registries_free(struct config_registries *registries)
{
	for (size_t i = 0; i < registries->count; i++) {
		free(registries->hosts[i].host);
		free(registries->hosts[i].ca);
		strings_free(registries->hosts[i].mirrors);
	}
	free(registries->hosts);
	*registries = (struct config_registries){0};
}
