/* SPDX-License-Identifier: MIT */
/*
 * Names of images, as people type them: what is taken can be written and read again to mean the same, both in full
 * and in short; no part of it leads anywhere in the store. And the challenges of registries.
 */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"
#include "image/auth.h"
#include "image/reference.h"
#include "util/error.h"

static bool same(const struct reference *a, const struct reference *b)
{
	return strcmp(a->registry, b->registry) == 0 && strcmp(a->repository, b->repository) == 0 &&
	       strcmp(a->tag, b->tag) == 0 && strcmp(a->digest, b->digest) == 0;
}

static bool is_path_upwards(const char *text)
{
	return *text == '/' || *text == '.' || strstr(text, "/.") || strstr(text, "//");
}

static void check_reference(const struct reference *reference)
{
	char text[REFERENCE_MAX + 1];
	struct reference again;
	struct error err;

	require(reference->registry[0] && reference->repository[0], "host and name are there");
	require(reference->tag[0] || reference->digest[0], "a tag or a digest is there");
	require(!reference->digest[0] || digest_valid(reference->digest), "a digest is one");
	require(!is_path_upwards(reference->registry) && !is_path_upwards(reference->repository) &&
			!is_path_upwards(reference->tag) && !strchr(reference->tag, '/'),
		"names are no paths that lead elsewhere");
	require(reference_parse(reference_format(reference, text), &again, &err) == 0 && same(reference, &again),
		"the whole name means the same");
	require(reference_parse(reference_format_short(reference, text), &again, &err) == 0 && same(reference, &again),
		"the short name means the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = to_string(data, size);
	struct challenge challenge = {0};
	struct reference reference;
	struct error err = {0};

	if (reference_parse(text, &reference, &err) == 0)
		check_reference(&reference);
	else
		require(err.text[0] && !strchr(err.text, '\n'), "an error is a line");
	challenge_parse(text, &challenge);
	require(strnlen(challenge.realm, sizeof challenge.realm) < sizeof challenge.realm, "a realm is a string");
	free(text);
	return 0;
}
