/* SPDX-License-Identifier: MIT */
/* Which root the code of a language runs in: see root.h. */
#define _GNU_SOURCE
#include "language/root.h"

#include <stdlib.h>
#include <string.h>

#include "image/root.h"
#include "language/definition.h"
#include "language/language.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

static const char *const policy_names[] = {
	[IMAGE_POLICY_STORED] = "stored",
	[IMAGE_POLICY_HOST] = "host",
	[IMAGE_POLICY_PULL] = "pull",
};

int image_policy_parse(
	const char *what, const char *text, enum image_policy *ret, struct error *err)
{
	char buffer[QUOTED_MAX];

	for (unsigned i = 0; i < sizeof policy_names / sizeof *policy_names; i++)
		if (strcmp(text, policy_names[i]) == 0) {
			*ret = i;
			return 0;
		}
	return error_set(
		err, 0, "%s: %s is not one of " IMAGE_POLICY_NAMES, what, quoted(text, buffer));
}

const char *image_policy_name(enum image_policy policy)
{
	return policy_names[policy];
}

int language_choose_root(const struct language *language, enum image_policy policy, bool keep_user,
	struct spec *spec, char **ret_missing, struct error *err)
{
	const char *const images[] = {
		language_local_image(language), language_remote_image(language)};
	char *missing = NULL;

	if (policy == IMAGE_POLICY_HOST || (policy == IMAGE_POLICY_STORED && !store_is_there()))
		return 0;
	for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
		int r;

		free(missing);
		missing = NULL;
		r = images[i] ? image_choose_root(images[i], keep_user, spec, &missing, err) : 1;
		if (r <= 0)
			return r;
	}
	if (policy == IMAGE_POLICY_PULL && missing) {
		*ret_missing = missing;
		return 1;
	}
	free(missing);
	return 0;
}

static bool same_image(const char *one, const struct reference *other)
{
	char names[2][REFERENCE_MAX + 1];
	struct reference reference;
	struct error unimportant;

	return one && reference_parse(one, &reference, &unimportant) == 0 &&
	       strcmp(reference_format(&reference, names[0]), reference_format(other, names[1])) ==
		       0;
}

bool language_has_image(const struct language *language, const char *image)
{
	struct reference reference;
	struct error unimportant;

	return reference_parse(image, &reference, &unimportant) == 0 &&
	       (same_image(language_local_image(language), &reference) ||
		       same_image(language_remote_image(language), &reference));
}

struct search {
	const char *image;
	bool found;
};

static void search_language(void *data, const char *name, const struct error *broken)
{
	struct search *search = data;
	struct language *language;
	struct error unimportant;

	if (broken || search->found || language_load(name, &language, &unimportant) < 0)
		return;
	search->found = language_has_image(language, search->image);
	language_free(language);
}

bool languages_have_image(const char *image)
{
	struct search search = {.image = image};

	language_list(search_language, &search);
	return search.found;
}

char *language_image_remedy(const struct language *language)
{
	static const char ours[] = "localhost/nsbox/";
	const char *remote = language_remote_image(language),
		   *local = language_local_image(language);
	bool built = language->image_local_named && strncmp(local, ours, strlen(ours)) == 0;
	cleanup_free char *script = NULL;
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	struct error unimportant;

	/* What nsbox comes with: see reference_refuse_local. */
	if (built) {
		local += strlen(ours);
		script = xasprintf("rootfs-scripts/%.*s", (int)strcspn(local, ":@"), local);
	}
	if (!remote || reference_parse(remote, &reference, &unimportant) < 0)
		return script ? xstrdup(script) : NULL;
	return xasprintf("nsbox pull %s%s%s%s", reference_format_short(&reference, name),
		script ? " (or " : "", script ? script : "", script ? ")" : "");
}

void language_add_image_hint(const struct language *language, struct error *err)
{
	cleanup_free char *remedy = language_image_remedy(language), *before = xstrdup(err->hint);
	size_t length = strlen(before);

	if (!remedy)
		return;
	while (length > 0 && before[length - 1] == '.')
		length--;
	error_hint(err, "%.*s%sor have it in an image: %s", (int)length, before, length ? "; " : "",
		remedy);
}
