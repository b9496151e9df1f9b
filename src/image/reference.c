/* SPDX-License-Identifier: MIT */
/* Image references, taken apart and put together. Pure functions; no memory is allocated. */
#define _GNU_SOURCE
#include "image/reference.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/parse.h"

static const char default_registry[] = "docker.io", default_namespace[] = "library/";

static bool is_lower_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alphanumeric(char c)
{
	return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

bool digest_valid(const char *text)
{
	if (strncmp(text, "sha256:", 7) != 0)
		return false;
	text += 7;
	return strspn(text, "0123456789abcdef") == DIGEST_HEX_LENGTH && !text[DIGEST_HEX_LENGTH];
}

/* The length of a separator inside a component: «.», «_», «__» or any number of «-». */
static size_t separator(const char *text)
{
	if (*text == '-')
		return strspn(text, "-");
	if (*text == '_')
		return text[1] == '_' ? 2 : 1;
	return *text == '.';
}

/* [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*, separated by slashes (distribution-spec, «Pulling manifests»). */
static bool repository_valid(const char *text)
{
	for (;;) {
		if (!is_lower_or_digit(*text))
			return false;
		while (is_lower_or_digit(*text))
			text++;
		if (!*text)
			return true;
		if (*text == '/')
			text++;
		else if (separator(text))
			text += separator(text);
		else
			return false;
	}
}

/* Host names, IPv4 addresses and IPv6 addresses in brackets, with a port or without. */
static bool registry_valid(const char *text)
{
	const char *end = text;
	size_t port;

	if (*text == '[') {
		end = text + 1 + strspn(text + 1, "0123456789abcdefABCDEF:.");
		if (*end != ']' || end == text + 1)
			return false;
		end++;
	} else {
		while (is_alphanumeric(*end) || *end == '-' || *end == '.') {
			bool edge = end == text || end[-1] == '.';

			if ((edge && !is_alphanumeric(*end)) ||
				(*end == '-' && !is_alphanumeric(end[1]) && end[1] != '-'))
				return false;
			end++;
		}
		if (end == text || end[-1] == '.')
			return false;
	}
	if (!*end)
		return true;
	port = strspn(end + 1, "0123456789");
	return *end == ':' && port >= 1 && port <= 5 && !end[1 + port];
}

static bool tag_valid(const char *text)
{
	size_t length = 0;

	if (!is_alphanumeric(*text) && *text != '_')
		return false;
	while (is_alphanumeric(text[length]) || (text[length] && strchr("_.-", text[length])))
		length++;
	return !text[length] && length <= REFERENCE_TAG_MAX;
}

static int wrong(const char *text, struct error *err, const char *reason)
{
	char quotation[QUOTED_MAX];

	error_set(err, 0, "image reference %s: %s", quoted(text, quotation), reason);
	return error_hint(err, "write it as [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], for example "
			       "python:3.13-slim or ghcr.io/owner/name:1.0");
}

/* Cuts «@DIGEST» and «:TAG» off `rest`. */
static int take_suffixes(
	const char *text, char *rest, struct reference *reference, struct error *err)
{
	char *at = strchr(rest, '@'), *colon;

	if (at) {
		if (!digest_valid(at + 1))
			return wrong(text, err,
				"after @ must come sha256: and 64 digits of lower-case hexadecimal");
		strcpy(reference->digest, at + 1);
		*at = '\0';
	}
	colon = strrchr(rest, ':');
	if (colon && !strchr(colon, '/')) {
		if (!tag_valid(colon + 1))
			return wrong(text, err,
				"a tag has up to 128 letters, digits, \"_\", \".\" and \"-\", and does not begin with . or -");
		strcpy(reference->tag, colon + 1);
		*colon = '\0';
	}
	if (!reference->tag[0] && !reference->digest[0])
		strcpy(reference->tag, "latest");
	return 0;
}

/* Whether the first component of a name is a registry's host. */
static bool names_registry(const char *component, size_t length)
{
	return memchr(component, '.', length) || memchr(component, ':', length) ||
	       (length == 9 && memcmp(component, "localhost", 9) == 0);
}

/* Only 64 digits: an image's id, which Docker refuses as a name as well. */
static bool is_id(const char *text)
{
	return strlen(text) == DIGEST_HEX_LENGTH && strspn(text, "0123456789abcdef") == DIGEST_HEX_LENGTH;
}

static void take_registry(const char *name, struct reference *reference)
{
	const char *slash = strchr(name, '/');

	if (slash && names_registry(name, (size_t)(slash - name))) {
		memcpy(reference->registry, name, (size_t)(slash - name));
		name = slash + 1;
		/* What Docker Hub has been called. */
		if (strcmp(reference->registry, "index.docker.io") == 0 ||
			strcmp(reference->registry, "registry-1.docker.io") == 0)
			strcpy(reference->registry, default_registry);
	} else {
		strcpy(reference->registry, default_registry);
	}
	if (strcmp(reference->registry, default_registry) == 0 && !strchr(name, '/'))
		strcpy(reference->repository, default_namespace);
	strcat(reference->repository, name);
}

int reference_parse(const char *text, struct reference *ret, struct error *err)
{
	static const char too_long[] = "with its registry the name is longer than 255 characters";
	struct reference reference = {0};
	char rest[REFERENCE_MAX + 1];
	size_t length = strlen(text);

	if (!length)
		return wrong(text, err, "it is empty");
	if (length > REFERENCE_MAX)
		return wrong(text, err, "it is longer than 767 characters");
	memcpy(rest, text, length + 1);
	if (strstr(rest, "://"))
		return wrong(text, err, "it is a URL; leave the scheme out");
	if (is_id(text))
		return wrong(text, err, "64 hexadecimal digits are an id, not a name");
	if (take_suffixes(text, rest, &reference, err) < 0)
		return -1;
	/* What take_registry adds is part of the name, too: written in full it must be one that is taken again. */
	if (strlen(rest) + (strchr(rest, '/') ? 0 : sizeof default_namespace - 1) >
		REFERENCE_NAME_MAX)
		return wrong(text, err, too_long);
	take_registry(rest, &reference);
	if (strlen(reference.registry) + 1 + strlen(reference.repository) > REFERENCE_NAME_MAX)
		return wrong(text, err, too_long);
	if (!registry_valid(reference.registry))
		return wrong(text, err,
			"the part before the first / is not a host, with or without a port");
	if (strspn(reference.repository, "abcdefghijklmnopqrstuvwxyz0123456789._-/") !=
		strlen(reference.repository))
		return wrong(text, err,
			"a name has lower-case letters, digits, \".\", \"_\", \"-\" and \"/\" only");
	if (!repository_valid(reference.repository))
		return wrong(text, err,
			"each part of a name begins and ends with a letter or a digit, with one "
			"\".\", one or two \"_\", or \"-\" between");
	*ret = reference;
	return 0;
}

static const char *format(const char *registry, const char *slash, const char *repository,
	const struct reference *reference, const char *tag, char buffer[REFERENCE_MAX + 1])
{
	snprintf(buffer, REFERENCE_MAX + 1, "%s%s%s%s%s%s%s", registry, slash, repository,
		*tag ? ":" : "", tag, reference->digest[0] ? "@" : "", reference->digest);
	return buffer;
}

const char *reference_format(const struct reference *reference, char buffer[REFERENCE_MAX + 1])
{
	return format(
		reference->registry, "/", reference->repository, reference, reference->tag, buffer);
}

const char *reference_format_short(
	const struct reference *reference, char buffer[REFERENCE_MAX + 1])
{
	const char *repository = reference->repository, *tag = reference->tag;
	size_t library = sizeof default_namespace - 1;

	if (strcmp(tag, "latest") == 0 && !reference->digest[0])
		tag = "";
	if (strcmp(reference->registry, default_registry) != 0)
		return format(reference->registry, "/", repository, reference, tag, buffer);
	if (strncmp(repository, default_namespace, library) == 0 &&
		!strchr(repository + library, '/') && !is_id(repository + library) &&
		!names_registry(repository + library, strlen(repository + library)))
		repository += library;
	/* «docker.io/a.b/c» cannot go without its registry: «a.b» would be one. */
	if (strchr(repository, '/') && names_registry(repository, strcspn(repository, "/")))
		return format(reference->registry, "/", repository, reference, tag, buffer);
	return format("", "", repository, reference, tag, buffer);
}

bool reference_is_local(const struct reference *reference)
{
	return strcmp(reference->registry, "localhost") == 0;
}

int reference_refuse_local(const struct reference *reference, struct error *err)
{
	static const char ours[] = "nsbox/";
	const char *repository = reference->repository;
	char name[REFERENCE_MAX + 1];

	error_set(err, 0, "%s is an image of this machine, which no registry has",
		reference_format_short(reference, name));
	if (strncmp(repository, ours, sizeof ours - 1) == 0)
		return error_hint(err, "build it with nsbox's rootfs-scripts/%s",
			repository + sizeof ours - 1);
	return error_hint(err,
		"to fetch it from a registry on this machine, name that with its port: localhost:5000/%s",
		repository);
}
